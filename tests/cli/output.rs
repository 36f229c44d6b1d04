//! What happens to the output itself.

use std::process::Stdio;

use crate::support::TestEnvironment;

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
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
fn a_full_disk_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["capabilities"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.starts_with("error: the output cannot be written: No space left"), "{err}");
}

#[test]
fn pipes_get_no_colours_unless_asked() {
    let environment = TestEnvironment::new();
    let plain = environment.run(&["check", "main"]).stderr();
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let colored = environment.run(&["check", "main", "--color", "always"]).stderr();
    assert!(colored.starts_with("\u{1b}[1;31merror:\u{1b}[0m "), "{colored}");
}
