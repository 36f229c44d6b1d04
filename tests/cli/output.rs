//! The output streams: closed pipes, full disks, colours and `-q`.

use std::process::Stdio;

use crate::support::TestEnvironment;

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let environment = TestEnvironment::new();
    for arguments in [&["capabilities"][..], &["completions", "bash"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = environment.command(arguments);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_to_a_full_disk_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["capabilities"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.starts_with("error: cannot write the output: No space left"), "{err}");
}

#[test]
fn pipes_get_no_colours_by_default() {
    let environment = TestEnvironment::new();
    let plain = environment.run(&["check", "main"]).stderr();
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let colored = environment.run(&["check", "main", "--color", "always"]).stderr();
    assert!(colored.starts_with("\u{1b}[1;31merror:\u{1b}[0m "), "{colored}");
}

/// `-q` suppresses progress and remarks, not the requested result.
#[test]
fn quiet_prints_the_requested_result() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds().stdout_is("").stderr_is("");
    environment.write("campaigns.csv", "name\nWinter\n");
    let on = ["campaigns.csv", "--to", "sandbox"];
    for (command, flag) in [("plan", "-q"), ("apply", "-qn"), ("import", "-qn")] {
        let ran =
            environment.run(&[&[command], &on[..], &[flag]].concat()).succeeds().stderr_is("");
        ran.stdout_has("+ Winter\n").stdout_has("1 step: 1 create.");
    }
    let ran = environment.run(&[&["rehearse"], &on[..], &["-q"]].concat()).succeeds().stderr_is("");
    ran.stdout_has("rehearsal for sandbox: 1 done, 1 verified");
    let ran =
        environment.run(&["forget", "sandbox", "--keep-last", "1", "-qn"]).succeeds().stderr_is("");
    ran.stdout_has("newest complete, last");
    environment.run(&["backup", "sandbox", "-qn"]).succeeds().stdout_has("13 requests");
    environment.run(&[&["apply"], &on[..], &["--yes", "-q"]].concat()).succeeds().stdout_is("");
}
