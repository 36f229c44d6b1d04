//! A disk that fills up while a backup is written.

use linkvault::sandbox::generate::{Counts, generate};

use crate::support::{LiveService, TestEnvironment};

#[test]
#[cfg(unix)]
fn a_backup_that_hits_a_limit_on_files_goes_on_once_there_is_room() {
    let counts = Counts { qr_codes: 3000, ..Counts::each(5) };
    let service = LiveService::serving(generate(3, counts), "max-limit=100", "");
    let environment = TestEnvironment::new().account(&service.url());
    let program = environment.command(&[]).get_program().to_owned();
    // A shell sets the limit; in blocks of 512 or 1024 bytes, so 600 KiB at most.
    let mut shell = environment.command(&[]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 600; exec \"$@\"", "sh"])
        .arg(program)
        .args(["backup", "main", "--stats", "none"])
        .env_clear()
        .envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(shell.stdin(std::process::Stdio::null()).get_current_dir().unwrap());
    let output = limited.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {err}", output.status);
    assert!(err.contains("/vaults/main.db: disk I/O error\nhint: look after the disk"), "{err}");
    let document =
        environment.run(&["backup", "main", "--stats", "none", "--json"]).succeeds().json();
    assert_eq!(document["resources"]["qr_codes"]["records"], 3000);
    assert_eq!(document["resumed"], true);
    environment.run(&["check", "main"]).succeeds();
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_named_and_the_next_run_goes_on() {
    let counts = Counts { qr_codes: 3000, ..Counts::each(5) };
    let service = LiveService::serving(generate(3, counts), "max-limit=100", "");
    let environment = TestEnvironment::new().account(&service.url());
    let disk = environment.path("vaults");
    std::fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| {
        let mut command = std::process::Command::new("mount");
        command.args(arguments).arg(&disk).output().is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=500k", "tmpfs"]) {
        println!("skipped: this user may not mount a small disk");
        return;
    }
    let ran = environment.run(&["backup", "main", "--stats", "none"]);
    let roomier = mount(&["-o", "remount,size=50m"]);
    let again = environment.run(&["backup", "main", "--stats", "none", "--json"]);
    let check = environment.run(&["check", "main"]);
    let unmounted = std::process::Command::new("umount").arg(&disk).status();
    assert!(roomier && unmounted.unwrap().success());
    ran.exits_with(1)
        .says_among("error: the disk that holds HOME/vaults/main.db is full\n")
        .says_among("hint: free some space and run the command again; it goes on\n");
    let document = again.succeeds().json();
    assert_eq!(document["resources"]["qr_codes"]["records"], 3000);
    assert_eq!(document["resumed"], true);
    check.succeeds();
}
