//! Tests of the state file, also with several processes.

use std::time::Duration;

use super::*;
use crate::clock::Timestamp;
use crate::health::attempt::{AttemptOutcome, ProblemKind};
use crate::health::persisted_state::tests::{account_status, attempt, summary};

#[test]
fn state_reads_back_as_written_and_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("vaults/main.db");
    assert_eq!(PersistedState::read(&vault), (PersistedState::default(), None));
    let mut persisted =
        PersistedState { schedule: Some("0 3 * * * UTC".to_owned()), ..PersistedState::default() };
    persisted.add(&attempt(AttemptOutcome::Complete, 5000));
    persisted.add(&attempt(AttemptOutcome::Failed, 9000));
    persisted.write(&vault).unwrap();
    assert_eq!(PersistedState::read(&vault), (persisted.clone(), None));
    assert_eq!((persisted.last_complete, persisted.totals.failures), (Some(Timestamp(5000)), 1));
    assert_eq!(persisted.totals.waited, Duration::from_secs(3));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(file(&vault)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_broken_file_gives_an_empty_state_and_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    for broken in ["", "{", "{\"totals\": {\"backups\": -1}}", "{\"last\": 5}", "\u{0}"] {
        std::fs::write(file(&vault), broken).unwrap();
        let (persisted, told) = PersistedState::read(&vault);
        assert_eq!(persisted, PersistedState::default(), "{broken}");
        let told = told.unwrap();
        assert!(told.starts_with("cannot read "), "{told}");
        assert!(told.contains("main.db.daemon: "), "{told}");
        assert!(told.ends_with("; starting with an empty state"), "{told}");
    }
}

/// The daemon keeps its state in memory; `linkvault backup` writes to the file.
#[test]
fn attempts_of_other_processes_are_kept_and_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let mut daemon = PersistedState { heartbeat: true, ..PersistedState::default() };
    daemon.add(&attempt(AttemptOutcome::Complete, 5000));
    daemon.write(&vault).unwrap();
    let refused = BackupAttempt { key_refused: true, ..attempt(AttemptOutcome::Failed, 9000) };
    PersistedState::record(&vault, &refused).unwrap();
    daemon.add(&attempt(AttemptOutcome::Stopped, 9500));
    daemon.served = Some(Timestamp(7));
    daemon.write(&vault).unwrap();
    assert_eq!(PersistedState::known(&vault), Some(daemon.clone()));
    assert_eq!((daemon.totals.backups, daemon.totals.failures), (3, 1));
    assert_eq!((daemon.heartbeat, daemon.served), (true, Some(Timestamp(7))));
    let told = account_status(&daemon, &summary(5000), None);
    assert_eq!(told.problems[0].kind, ProblemKind::KeyRefused);
    assert_eq!(told.problems[0].since, Timestamp(9000));
}

#[test]
fn all_attempts_of_many_processes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    std::thread::scope(|scope| {
        for nth in 0..4 {
            let vault = &vault;
            scope.spawn(move || {
                let mut daemon = PersistedState::default();
                for at in 0..25 {
                    let attempt = attempt(AttemptOutcome::Failed, at);
                    if nth == 0 {
                        daemon.add(&attempt);
                        daemon.write(vault).unwrap();
                    } else {
                        PersistedState::record(vault, &attempt).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(PersistedState::known(&vault).unwrap().totals.failures, 100);
}

/// Other users may be able to write to the folder.
#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (vault, elsewhere) = (folder.path().join("main.db"), folder.path().join("elsewhere"));
    let text =
        serde_json::to_vec(&PersistedState { tries: 7, ..PersistedState::default() }).unwrap();
    std::fs::write(&elsewhere, &text).unwrap();
    std::os::unix::fs::symlink(&elsewhere, file(&vault)).unwrap();
    let (persisted, told) = PersistedState::read(&vault);
    assert_eq!(persisted, PersistedState::default());
    assert!(told.unwrap().contains("starting with an empty state"));
    PersistedState::record(&vault, &attempt(AttemptOutcome::Failed, 9000)).unwrap();
    assert_eq!(std::fs::read(&elsewhere).unwrap(), text);
    assert_eq!(PersistedState::known(&vault).unwrap().totals.failures, 1);
}
