//! Tests of the shared file.

use std::sync::Mutex;

use super::*;
use crate::clock::{Interrupt, SystemClock, Timestamp};

fn at(folder: &Path, name: &str) -> PaceFile {
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    PaceFile::new(folder.join("k.pace"), &folder.join(name), clock)
}

fn state(limit: u64) -> PacerState {
    PacerState { limit: Some(limit), ..PacerState::default() }
}

fn store(file: &mut PaceFile, limit: u64) -> StoreOutcome {
    file.exchange(&mut |_| state(limit))
}

fn stored(file: &mut PaceFile) -> Option<u64> {
    let mut found = None;
    file.exchange(&mut |state| {
        found.clone_from(&state);
        state.unwrap_or_default()
    });
    found.and_then(|it| it.limit)
}

#[test]
fn a_state_is_shared_by_path_and_the_limit_reported_by_vault() {
    let folder = tempfile::tempdir().unwrap();
    let (mut main, mut other) = (at(folder.path(), "main.db"), at(folder.path(), "other.db"));
    assert_eq!(store(&mut main, 30), StoreOutcome::Stored);
    assert_eq!((stored(&mut other), other.load()), (Some(30), Some(state(30))));
    for vault in ["main.db", "other.db"] {
        assert_eq!(reported_limit(&folder.path().join(vault)), Some(30), "{vault}");
    }
    std::fs::write(folder.path().join("old.db.pace"), r#"{"limit":9,"in_flight":false}"#).unwrap();
    assert_eq!(reported_limit(&folder.path().join("old.db")), Some(9));
}

#[cfg(unix)]
#[test]
fn the_files_are_private_also_if_others_could_read_one_before() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        assert_eq!(store(&mut at(folder.path(), "main.db"), 30), StoreOutcome::Stored);
        for name in ["k.pace", "main.db.pace"] {
            let path = folder.path().join(name);
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.path().join("k.pace"), open).unwrap();
    }
}

#[test]
fn a_file_with_anything_else_counts_as_missing_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.pace");
    let huge = format!(r#"{{"limit":30{}}}"#, " ".repeat(100_000));
    for text in ["", "{", "[]", "\0\0", r#"{"limit":-1}"#, &huge] {
        std::fs::write(&path, text).unwrap();
        let mut file = at(folder.path(), "main.db");
        assert_eq!(stored(&mut file), None, "{text:.20}");
        assert_eq!(store(&mut file, 7), StoreOutcome::Stored, "{text:.20}");
        assert_eq!(stored(&mut file), Some(7), "{text:.20}");
        assert!(path.metadata().unwrap().len() < 70_000);
    }
}

#[test]
fn a_file_that_was_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut main, mut other) = (at(folder.path(), "main.db"), at(folder.path(), "other.db"));
    assert_eq!(store(&mut main, 30), StoreOutcome::Stored);
    std::fs::remove_file(folder.path().join("k.pace")).unwrap();
    assert_eq!(store(&mut other, 20), StoreOutcome::Stored);
    assert_eq!(stored(&mut main), Some(20));
}

#[test]
fn a_usual_state_replaces_another_without_more_space() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = at(folder.path(), "main.db");
    let length = || folder.path().join("k.pace").metadata().unwrap().len();
    assert_eq!((store(&mut file, 30), length()), (StoreOutcome::Stored, 4096));
    let most = PacerState { requests: vec![(1_795_177_885_437, 1_000); 64], ..state(20) };
    assert_eq!(file.exchange(&mut |_| most.clone()), StoreOutcome::Stored);
    assert_eq!((length(), stored(&mut file)), (4096, Some(20)));
}

#[test]
fn a_process_that_cannot_write_the_file_is_cut_off_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = at(folder.path(), "main.db");
    assert_eq!(store(&mut file, 30), StoreOutcome::Stored);
    // As on a full disk, it can be locked and read, but not written.
    file.file = Some(File::open(folder.path().join("k.pace")).unwrap());
    assert_eq!(store(&mut file, 20), StoreOutcome::CutOff);
    assert_eq!(stored(&mut at(folder.path(), "other.db")), Some(30));
    assert_eq!(store(&mut file, 20), StoreOutcome::Stored);
}

#[cfg(unix)]
#[test]
fn links_fifos_and_folders_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.pace");
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "text").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(store(&mut at(folder.path(), "main.db"), 1), StoreOutcome::Alone);
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"text");
    std::fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(store(&mut at(folder.path(), "main.db"), 1), StoreOutcome::Alone);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(store(&mut at(folder.path(), "main.db"), 1), StoreOutcome::Alone);
}

#[test]
fn a_lock_that_is_held_for_long_is_waited_for_once() {
    /// Time passes only while it sleeps.
    #[derive(Default)]
    struct SleepClock(Mutex<Duration>);
    impl Clock for SleepClock {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
        fn monotonic(&self) -> Duration {
            *self.0.lock().unwrap()
        }
        fn sleep(&self, time: Duration) -> SleepOutcome {
            *self.0.lock().unwrap() += time;
            SleepOutcome::Finished
        }
        fn interrupted(&self) -> bool {
            false
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SleepClock::default());
    let path = folder.path().join("k.pace");
    let mut file = PaceFile::new(path.clone(), &folder.path().join("main.db"), clock.clone());
    assert_eq!(store(&mut file, 30), StoreOutcome::Stored);
    let holder = File::open(&path).unwrap();
    holder.lock().unwrap();
    for _ in 0..2 {
        assert_eq!(file.exchange(&mut |_| panic!("it is not locked")), StoreOutcome::CutOff);
        assert_eq!(clock.monotonic(), LOCK_TIMEOUT);
    }
    holder.unlock().unwrap();
    assert_eq!((stored(&mut file), clock.monotonic()), (Some(30), LOCK_TIMEOUT));
}
