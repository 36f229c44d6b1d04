//! Writes the log back into the file on another thread while a crawl goes on, so that closing the
//! vault after many records does not wait for the disk.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::connection::{READ_WRITE, connect};
use super::error::VaultError;
use super::header::register_connection;
use crate::files::beside;

/// Size of the log, in bytes, from which on it is written back.
const MIN_LOG: u64 = 2 << 20;

/// A thread with a connection of its own. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct WriteBack {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WriteBack {
    /// Whether the log of the vault at `path` is large enough.
    pub fn is_useful(path: &Path) -> bool {
        std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() >= MIN_LOG)
    }

    /// Starts the thread. `None` if the system has no further thread.
    pub fn start(path: &Path) -> Option<Self> {
        let (wake, woken) = sync_channel(1);
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("log".to_owned());
        // If it fails, the log is written back when the vault is closed.
        let thread = thread.spawn(move || drop(write_back(&path, &woken))).ok()?;
        Some(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Writes back what is committed now, unless the thread is busy and has not seen the last call.
    pub fn wake(&self) {
        let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        self.wake = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write_back(path: &Path, woken: &Receiver<()>) -> Result<(), VaultError> {
    // Declared first, so that it is dropped after the connection.
    let _registered = register_connection(path)?;
    let db = connect(path, READ_WRITE)?;
    for () in woken {
        // Writers go on meanwhile, and readers too.
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|source| VaultError::sql(path, source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::clock::Timestamp;
    use crate::files::beside;
    use crate::model::{DecodedRecord, Resource, SnapshotId};
    use crate::vault::Vault;
    use crate::vault::snapshot::RequestUsage;
    use crate::vault::write::CrawledPage;
    use roaring::RoaringTreemap;

    /// Stores pages until the log is long enough to be written back.
    fn crawl_a_long_list(vault: &mut Vault) -> SnapshotId {
        let resource = Resource::Campaigns;
        let snapshot = vault.begin(Timestamp(1), None, &[resource]).unwrap();
        let list = "x".repeat(2000);
        for number in 1..=30 {
            let raw = |nth: u64| format!(r#"{{"id":{},"name":"{list}"}}"#, number * 100 + nth);
            let texts: Vec<_> = (0..100).map(raw).collect();
            let records: Vec<_> =
                texts.iter().map(|raw| DecodedRecord::read(resource, None, raw).unwrap()).collect();
            let page = CrawledPage {
                snapshot,
                resource,
                parent: None,
                number,
                now: Timestamp(2),
                usage: RequestUsage::default(),
                batch: (number % 2 == 0).then_some(Duration::from_millis(60)),
            };
            let seen = RoaringTreemap::new();
            vault.put_page(&page, &records, &seen, |_| String::new()).unwrap();
        }
        snapshot
    }

    #[test]
    fn a_long_log_is_written_back_during_the_crawl() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vault.db");
        let mut vault = Vault::open_or_create(&path).unwrap();
        let size = || std::fs::metadata(&path).unwrap().len();
        let empty = size();
        let snapshot = crawl_a_long_list(&mut vault);
        // Its end shows that the last call was seen.
        assert!(vault.write_back.take().is_some());
        assert!(size() > empty + super::MIN_LOG, "{}", size());
        vault.finish(snapshot, Timestamp(3), RequestUsage::default()).unwrap();
        vault.close().unwrap();
        assert_eq!(Vault::open(&path).unwrap().check().unwrap().problems, [""; 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_log_is_written_back_while_the_file_is_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vault.db");
        let mut vault = Vault::open_or_create(&path).unwrap();
        let log = beside(&path, "-wal");
        let open_logs = move || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
            all.filter(|it| std::fs::read_link(it.path()).is_ok_and(|to| to == log)).count()
        };
        crawl_a_long_list(&mut vault);
        vault.flush().unwrap();
        while open_logs() < 2 {
            std::thread::yield_now();
        }
        // The commit of the mark, after the file was rewritten.
        let (send, seen) = std::sync::mpsc::channel();
        vault.on_commit(Box::new(move |_| {
            send.send(open_logs()).unwrap();
            Ok(())
        }));
        vault.vacuum().unwrap();
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [1; 2]);
    }
}
