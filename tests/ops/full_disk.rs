//! Disks that are full, too small or read-only.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linkvault::sandbox::generate::{GeneratedCounts, generate};

use crate::support::{LiveService, TestEnvironment};

/// An account with more data than half a megabyte.
fn large() -> (TestEnvironment, LiveService) {
    let counts = GeneratedCounts { qr_codes: 3000, ..GeneratedCounts::each(5) };
    let service = LiveService::serving(generate(3, counts), "max-limit=100", "");
    let environment = TestEnvironment::new().account(&service.url());
    (environment, service)
}

const BACKUP: [&str; 5] = ["backup", "main", "--stats", "none", "--json"];

/// Asserts that the next backup continues the one that the disk stopped.
fn assert_continues(environment: &TestEnvironment) {
    let document = environment.run(&BACKUP).succeeds().json();
    assert_eq!(document["resources"]["qr_codes"]["records"], 3000);
    assert_eq!(document["resumed"], true);
    environment.run(&["check", "main"]).succeeds();
}

#[test]
#[cfg(unix)]
fn a_backup_stopped_by_a_file_size_limit_can_be_continued() {
    let (environment, _service) = large();
    let inner = environment.command(&BACKUP[..4]);
    let mut shell = Command::new("sh");
    // In blocks of 512 or 1024 bytes, depending on the shell.
    shell.args(["-c", "ulimit -f 600; exec \"$@\"", "sh"]).arg(inner.get_program());
    shell.args(inner.get_args()).env_clear().stdin(Stdio::null());
    shell.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {err}", output.status);
    assert!(err.contains("/vaults/main.db: disk I/O error\nhint: check the disk"), "{err}");
    assert_continues(&environment);
}

/// Appends bytes to a file until the disk is full.
#[cfg(target_os = "linux")]
fn fill(path: &Path) -> std::io::Result<()> {
    use std::io::Write as _;
    std::fs::OpenOptions::new().append(true).open(path)?.write_all(&[1; 4096])
}

/// A disk in memory below the home folder; unmounted at the end of the test.
struct Disk(PathBuf);

impl Disk {
    /// `None` if this user may not mount one.
    fn mount(environment: &TestEnvironment, size: &str) -> Option<Self> {
        let disk = Self(environment.path("vaults"));
        std::fs::create_dir(&disk.0).unwrap();
        let options = format!("size={size}");
        if mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], &disk.0) {
            return Some(disk);
        }
        println!("skipped: this user may not mount a disk");
        None
    }

    fn change(&self, options: &str) {
        assert!(mount(&["-o", &format!("remount,{options}")], &self.0), "{options}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

fn mount(arguments: &[&str], place: &Path) -> bool {
    let output = Command::new("mount").args(arguments).arg(place).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_and_the_next_backup_continues() {
    let (environment, _service) = large();
    let Some(disk) = Disk::mount(&environment, "500k") else { return };
    environment.run(&BACKUP).exits_with(1).stderr_has(
        "error: the disk that holds HOME/vaults/main.db is full\n\
         hint: free some space and run the command again to continue\n",
    );
    disk.change("size=50m");
    assert_continues(&environment);
    // The disk is full from the start: the space for the state file is reserved.
    std::fs::write(environment.path("vaults/filler"), vec![1; 40 << 20]).unwrap();
    let used = std::fs::metadata(environment.path("vaults/main.db")).unwrap().len() / 1024;
    disk.change(&format!("size={}k", used + (40 << 10) + 200));
    while let Ok(()) = fill(&environment.path("vaults/filler")) {}
    environment.run(&BACKUP).exits_with(1);
    environment.run(&["status"]).exits_with(1);
    disk.change("size=90m");
    environment.run(&["status"]).exits_with(1).stdout_has("the backup failed: ");
}

#[test]
#[cfg(target_os = "linux")]
fn a_vault_on_a_read_only_disk_can_be_read_but_not_written() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let Some(disk) = Disk::mount(&environment, "5m") else { return };
    environment.run(&["backup", "-q"]).succeeds();
    let before = environment.files();
    disk.change("ro");
    environment.run(&["backup", "main"]).exits_with(1).stderr_is(
        "error: HOME/vaults/main.db.lock cannot be written: the file or its disk is read-only\n\
         hint: make the file and its folder writable\n",
    );
    environment.run(&["show", "main", "campaigns"]).succeeds().stdout_has("Spring");
    environment.run(&["check", "main"]).succeeds();
    environment.run(&["diff", "main@latest", "main@latest"]).succeeds();
    environment.run(&["doctor", "main"]).succeeds();
    assert!(before == environment.files());
}

#[test]
#[cfg(unix)]
fn a_read_only_vault_file_cannot_be_written() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    if !environment.cannot_write() {
        println!("skipped: this user may write everywhere");
        return;
    }
    let environment = environment.mode("vaults/main.db", 0o400).mode("vaults", 0o500);
    environment.run(&["show", "main", "campaigns"]).succeeds();
    environment.run(&["backup", "main"]).exits_with(1).stderr_has("error: HOME/vaults/main.");
    environment.mode("vaults", 0o700);
}
