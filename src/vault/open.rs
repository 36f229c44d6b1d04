//! Opens vaults: checks format, account, tables and permissions, and creates new ones.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use tempfile::NamedTempFile;

use super::connection::{READ_WRITE, connect};
use super::header::{ConnectionGuard, missing_error, register_connection};
use super::open_files::open_files;
use super::schema::{
    APPLICATION_ID, FORMAT, INCREMENTAL_VACUUM, MIGRATIONS, SchemaDifference, SchemaPart,
    differences, empty, migrate,
};
use super::{IdentityPart, TemplateCache, Vault, VaultError};
use crate::files::{
    beside, close_unfinished, private_file, private_folder_of, target, unfinished_file,
};
use crate::model::Resource;
use crate::vault::checksums::{self, ChecksumScope};
use crate::vault::wal_mark;

/// The account whose history a vault holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountIdentity {
    /// The base URL of the service, without a slash at the end.
    pub service: String,
    /// The account's id on the service.
    pub account: i64,
}

/// The log is written back into the file when it has this many pages (32 MiB), and when the vault
/// is closed. Writing back waits for the disk.
const LOG_PAGES: i64 = 8192;

/// Number of pages that one step of a backup copies: all.
const COPIED_PAGES: i32 = i32::MAX;

impl Vault {
    /// Opens the vault at `path` for writing, or creates it (mode 0600, folders 0700).
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn open_or_create(path: &Path) -> Result<Self, VaultError> {
        let path = &resolve_link(path)?;
        {
            let _open_files = open_files();
            if !path.exists() {
                create(path)?;
            }
        }
        Self::open(path)
    }

    /// Opens an existing vault for writing and migrates it to the newest format.
    ///
    /// # Errors
    /// [`VaultError::Missing`], [`VaultError::NotAVault`], [`VaultError::Newer`] or
    /// [`VaultError::ReadOnly`]; the file is then unchanged.
    pub fn open(path: &Path) -> Result<Self, VaultError> {
        let path = &resolve_link(path)?;
        let guard = register_connection(path)?;
        let db = connect(path, READ_WRITE)?;
        let fail = |source| VaultError::sql(path, source);
        // Must come first: even reading creates a log, which would be read-only too.
        if db.is_readonly(rusqlite::MAIN_DB).map_err(fail)? {
            return Err(VaultError::ReadOnly(path.to_owned()));
        }
        let format = check_format(&db, path)?;
        if format == 0 {
            identify(&db).map_err(fail)?;
        }
        enable_wal(&db).map_err(fail)?;
        db.pragma_update(None, "synchronous", "NORMAL").map_err(fail)?;
        db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(fail)?;
        // Overwrites deleted rows, so that forgotten data cannot be recovered.
        db.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).map_err(fail)?;
        let mut vault = Self::from_connection(Some(guard), db, path)?;
        vault.vacuum_incrementally()?;
        Ok(vault)
    }

    /// Sets the auto-vacuum mode in a file of an earlier format. If that fails because the disk is
    /// full or the file is busy, the next command that opens the vault retries.
    fn vacuum_incrementally(&mut self) -> Result<(), VaultError> {
        let fail = |source| VaultError::sql(&self.path, source);
        let mode = self.db.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0));
        if mode.map_err(fail)? == INCREMENTAL {
            return Ok(());
        }
        self.db.execute_batch(INCREMENTAL_VACUUM).map_err(fail)?;
        match self.vacuum() {
            Err(VaultError::Full(_)) => Ok(()),
            Err(VaultError::Sql { source, .. }) if is_busy(&source) => Ok(()),
            done => done,
        }
    }

    /// Opens an existing vault for reading, also from a read-only disk. A vault of an older format
    /// is migrated first.
    ///
    /// # Errors
    /// [`VaultError::Missing`], [`VaultError::NotAVault`] or [`VaultError::Newer`].
    pub fn open_read_only(path: &Path) -> Result<Self, VaultError> {
        let path = &resolve_link(path)?;
        let guard = register_connection(path)?;
        let readable = |db: Connection| check_format(&db, path).map(|found| (db, found));
        let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
        let db = connect(path, READ_WRITE)?;
        let plain = match db.is_readonly(rusqlite::MAIN_DB) {
            Ok(true) if log == 0 => Err(VaultError::ReadOnly(path.to_owned())),
            _ => readable(db),
        };
        let (db, found) = match plain {
            // A log cannot be created on a read-only disk or in a read-only folder, and should not
            // be beside a read-only file. Without a log no process is writing, so the file alone is
            // complete.
            Err(VaultError::ReadOnly(_)) if log == 0 => {
                let uri = format!("file:{}?immutable=1", encode(path));
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let db = connect(Path::new(&uri), flags).map_err(|error| with_path(error, path))?;
                readable(db)?
            }
            other => other?,
        };
        if found < FORMAT {
            // Only a connection that can write may migrate.
            drop(db);
            return Self::open(path);
        }
        check_schema(&db, path, false)?;
        db.pragma_update(None, "query_only", true)
            .map_err(|source| VaultError::sql(path, source))?;
        Ok(Self::of(Some(guard), db, path))
    }

    /// Like [`Vault::open_read_only`]; `None` if the file does not exist.
    pub fn open_if_there(path: &Path) -> Result<Option<Self>, VaultError> {
        match Self::open_read_only(path) {
            Ok(vault) => Ok(Some(vault)),
            Err(VaultError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An empty vault in memory that is claimed for the same account as this vault, and has its
    /// learned page sizes.
    pub fn empty_of_same_account(&self) -> Result<Self, VaultError> {
        let mut empty = Self::in_memory()?;
        if let Some(ours) = self.identity()? {
            empty.claim(&ours, false)?;
        }
        for resource in Resource::ALL {
            if let Some(size) = self.learned_page_size(resource)? {
                empty.learn_page_size(resource, size)?;
            }
        }
        Ok(empty)
    }

    /// A vault in memory.
    pub fn in_memory() -> Result<Self, VaultError> {
        let path = Path::new(":memory:");
        // Copying an empty vault is much faster than creating its tables.
        let copied = || {
            let mut db = Connection::open_in_memory()?;
            let mut model = Connection::open_in_memory()?;
            let file = empty()?;
            model.deserialize_read_exact(rusqlite::MAIN_DB, file, file.len(), true)?;
            Backup::new(&model, &mut db)?.run_to_completion(COPIED_PAGES, Duration::ZERO, None)?;
            Ok(db)
        };
        let db = copied().map_err(|source| VaultError::sql(path, source))?;
        Self::from_connection(None, db, path)
    }

    /// A temporary copy of the present content, for a rehearsal. Changes of it do not affect this
    /// vault, and no other process can open it.
    pub fn copy(&self) -> Result<Self, VaultError> {
        let fail = |source| VaultError::sql(&self.path, source);
        // A database without a name is in memory, or in a temporary file of SQLite.
        let mut db = Connection::open("").map_err(fail)?;
        let backup = Backup::new(&self.db, &mut db).map_err(fail)?;
        backup.run_to_completion(COPIED_PAGES, Duration::ZERO, None).map_err(fail)?;
        drop(backup);
        db.pragma_update(None, "synchronous", "OFF").map_err(fail)?;
        Self::from_connection(None, db, &self.path)
    }

    /// Writes a copy of the present content to `file`, atomically, with mode 0600. Replaces an
    /// existing file. The copy is one compact file without a log, so that other tools can move it.
    pub fn copy_to(&self, file: &Path) -> Result<(), VaultError> {
        let new = self.unfinished_copy(file)?;
        let io = |error| VaultError::io(file, error);
        new.as_file().sync_all().map_err(io)?;
        close_unfinished(new).persist(file).map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Like [`Self::copy_to`], but into a file without a name in the folder of `vault`, which is the
    /// vault's own one.
    pub fn copy_unnamed(&self, vault: &Path) -> Result<File, VaultError> {
        let new = self.unfinished_copy(&beside(vault, ".copy"))?;
        let io = |error| VaultError::io(vault, error);
        let (file, path) = new.into_parts();
        path.close().map_err(io)?;
        Ok(file)
    }

    /// A copy of the present content in an unfinished file beside `file`.
    fn unfinished_copy(&self, file: &Path) -> Result<NamedTempFile, VaultError> {
        let io = |error| VaultError::io(file, error);
        private_folder_of(file).map_err(io)?;
        let new = unfinished_file(file).map_err(io)?;
        // With `query_only`, `VACUUM INTO` cannot write another file either.
        let to = new.path().to_string_lossy().into_owned();
        let fail = |source| VaultError::sql(file, source);
        let guard: bool =
            self.db.pragma_query_value(None, "query_only", |row| row.get(0)).map_err(fail)?;
        self.db.pragma_update(None, "query_only", false).map_err(fail)?;
        let written = self.db.execute("VACUUM INTO ?1", [&to]);
        self.db.pragma_update(None, "query_only", guard).map_err(fail)?;
        written.map_err(fail)?;
        // Makes a log of this vault foreign to the copy.
        let copy = Connection::open_with_flags(new.path(), READ_WRITE).map_err(fail)?;
        copy.pragma_update(None, "journal_mode", "MEMORY").map_err(fail)?;
        wal_mark::advance(&copy).map_err(fail)?;
        drop(copy);
        Ok(new)
    }

    fn from_connection(
        guard: Option<ConnectionGuard>,
        mut db: Connection,
        path: &Path,
    ) -> Result<Self, VaultError> {
        let from = migrate(&mut db, MIGRATIONS).map_err(|source| VaultError::sql(path, source))?;
        if from > FORMAT {
            return Err(VaultError::Newer { path: path.to_owned(), found: from, known: FORMAT });
        }
        if from > 0 {
            check_schema(&db, path, true)?;
        }
        let mut vault = Self::of(guard, db, path);
        vault.enforce_triggers(true)?;
        vault.repair_mark()?;
        Ok(vault)
    }

    /// Writes a mark to the file itself if a migration or another tool left none.
    pub(super) fn repair_mark(&mut self) -> Result<(), VaultError> {
        if self._connection.is_none()
            || wal_mark::is_current(&self.db).map_err(|it| self.sql(it))?
        {
            return Ok(());
        }
        self.transact_now(|_, _| Ok(()))?;
        self.checkpoint()
    }

    /// Rewrites the file. No log is written back before the mark in the file matches the new
    /// content.
    pub(super) fn vacuum(&mut self) -> Result<(), VaultError> {
        let log_pages = |pages: i64| {
            let set = self.db.pragma_update(None, "wal_autocheckpoint", pages);
            set.map_err(|source| self.sql(source))
        };
        log_pages(0)?;
        // Its thread may still be writing back what a crawl stored.
        self.write_back.take();
        let vacuumed = self.db.execute_batch("VACUUM").map_err(|source| self.sql(source));
        log_pages(LOG_PAGES)?;
        vacuumed?;
        self.repair_mark()
    }

    fn of(_connection: Option<ConnectionGuard>, db: Connection, path: &Path) -> Self {
        let (path, templates) = (path.to_owned(), TemplateCache::default());
        let triggers = db.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).unwrap_or(true);
        Self {
            db,
            path,
            templates,
            hook: None,
            batch: None,
            triggers,
            write_back: RefCell::default(),
            checkpoints: None,
            _connection,
        }
    }

    /// The account whose vault this is; `None` before the first backup.
    pub fn identity(&self) -> Result<Option<AccountIdentity>, VaultError> {
        let read = |key: &str| -> Result<Option<String>, VaultError> {
            self.db
                .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
                .optional()
                .map_err(|source| self.sql(source))
        };
        let (service, account) = (read("service")?, read("account")?);
        let Some((service, account)) = service.zip(account) else { return Ok(None) };
        let account =
            account.parse().map_err(|_| self.damaged("the account's id is not a number"))?;
        Ok(Some(AccountIdentity { service, account }))
    }

    /// Claims an empty vault for `found`, and checks that any other vault belongs to it.
    /// `service_moved` accepts another URL for the same account.
    ///
    /// # Errors
    /// [`VaultError::OtherAccount`] if it belongs to another account or service.
    pub fn claim(
        &mut self,
        found: &AccountIdentity,
        service_moved: bool,
    ) -> Result<(), VaultError> {
        if let Some(ours) = self.identity()? {
            self.refuse_other(&ours, found, service_moved)?;
            if ours == *found {
                return Ok(());
            }
        }
        let found = found.clone();
        self.transact(|tx, _| {
            let sql = "INSERT INTO meta VALUES(?1, ?2)
                       ON CONFLICT DO UPDATE SET value = excluded.value";
            tx.execute(sql, ["service", found.service.as_str()])?;
            tx.execute(sql, ["account", found.account.to_string().as_str()])?;
            checksums::write(tx, ChecksumScope::Identity, checksums::identity(tx)?)
        })
    }

    fn refuse_other(
        &self,
        ours: &AccountIdentity,
        found: &AccountIdentity,
        service_moved: bool,
    ) -> Result<(), VaultError> {
        if ours.account != found.account {
            return Err(VaultError::OtherAccount {
                what: IdentityPart::Account,
                ours: format!("{} of {}", ours.account, ours.service),
                theirs: format!("{} of {}", found.account, found.service),
            });
        }
        if ours.service != found.service && !service_moved {
            return Err(VaultError::OtherAccount {
                what: IdentityPart::Service,
                ours: ours.service.clone(),
                theirs: found.service.clone(),
            });
        }
        Ok(())
    }
}

/// The value of `PRAGMA auto_vacuum` for `INCREMENTAL`.
const INCREMENTAL: i64 = 2;

/// Whether `VACUUM` failed because another process uses the file.
fn is_busy(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked};
    error.sqlite_error_code().is_some_and(|it| [DatabaseBusy, DatabaseLocked].contains(&it))
}

/// Returns the format. An error if the file is not a vault, is of a newer format, or has tables of
/// an unsupported format. Writes nothing.
fn check_format(db: &Connection, path: &Path) -> Result<i64, VaultError> {
    let found = || {
        // Reads everything in one transaction, because another process may be creating the vault.
        let moment = db.unchecked_transaction()?;
        let pragma = |name| moment.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let tables = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 = moment.query_row(tables, [], |row| row.get(0))?;
        Ok((pragma("application_id")?, pragma("user_version")?, tables))
    };
    let (id, format, tables) = found().map_err(|source| VaultError::sql(path, source))?;
    if id != i64::from(APPLICATION_ID) && !(id == 0 && format == 0 && tables == 0) {
        return Err(VaultError::NotAVault(path.to_owned()));
    }
    if format < 1 && tables > 0 {
        let what = format!("unsupported vault format {format}");
        return Err(VaultError::Damaged { path: path.to_owned(), what });
    }
    if format > FORMAT {
        return Err(VaultError::Newer { path: path.to_owned(), found: format, known: FORMAT });
    }
    Ok(format)
}

/// Returns an error if the tables, and with `triggers` the triggers, are not exactly those that this
/// program creates. A view in place of a table could return any data. Must be called before triggers
/// are enabled.
fn check_schema(db: &Connection, path: &Path, triggers: bool) -> Result<(), VaultError> {
    let found = differences(db).map_err(|source| VaultError::sql(path, source))?;
    let refused = |it: &SchemaDifference| match it.part {
        SchemaPart::Table => true,
        SchemaPart::Trigger => triggers,
        SchemaPart::Other => false,
    };
    match found.into_iter().find(refused) {
        None => Ok(()),
        Some(it) => Err(VaultError::Damaged { path: path.to_owned(), what: it.text }),
    }
}

/// Resolves a symbolic link: SQLite keeps the log beside the file itself.
fn resolve_link(path: &Path) -> Result<std::path::PathBuf, VaultError> {
    target(path).map_err(|source| VaultError::io(path, source))
}

fn with_path(error: VaultError, path: &Path) -> VaultError {
    match error {
        VaultError::Sql { source, .. } => VaultError::sql(path, source),
        other => other,
    }
}

/// Escapes a path for a `file:` URI.
fn encode(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Creates an empty vault atomically, because other processes may look for it meanwhile.
fn create(path: &Path) -> Result<(), VaultError> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => VaultError::ReadOnly(path.to_owned()),
        _ => VaultError::io(path, source),
    };
    let empty = empty().map_err(|source| VaultError::sql(path, source))?;
    if let alone @ VaultError::LogAlone { .. } = missing_error(path) {
        return Err(alone);
    }
    private_folder_of(path).map_err(refused)?;
    let mut new = unfinished_file(path).map_err(refused)?;
    let mut empty = empty.to_vec();
    wal_mark::stamp(&mut empty);
    new.write_all(&empty).map_err(refused)?;
    new.as_file().sync_all().map_err(refused)?;
    if close_unfinished(new).persist_noclobber(path).is_ok() || path.exists() {
        // Our file, or that of a process that was faster.
        return Ok(());
    }
    // Some file systems do not support that. An empty file also becomes a vault when it is opened.
    private_file(path).map(drop).map_err(refused)
}

/// Sets the application id of an empty file before there is a log, so that the file alone
/// identifies itself. Writes nothing if another connection did so meanwhile: the vault may then
/// have a log, and a log without a mark is foreign.
fn identify(db: &Connection) -> rusqlite::Result<()> {
    let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let id: i64 = tx.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id == 0 {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    tx.commit()
}

/// Maximum number of attempts in [`enable_wal`].
const WAL_ATTEMPTS: usize = 100;

/// Turns on WAL mode, so that readers do not wait for writers.
fn enable_wal(db: &Connection) -> rusqlite::Result<()> {
    let switch = || db.pragma_update(None, "journal_mode", "WAL");
    for _ in 1..WAL_ATTEMPTS {
        match switch() {
            // The pragma does not wait for other connections; a transaction does.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                db.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
            }
            done => return done,
        }
    }
    switch()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several connections can find the same empty file. When the last two close at once, both
    /// leave the log, so each commit in it needs a mark.
    #[test]
    fn opening_an_empty_file_writes_nothing_without_a_mark_to_the_vault_of_another_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("main.db");
        std::fs::write(&path, "").unwrap();
        let late = connect(&path, READ_WRITE).unwrap();
        assert_eq!(check_format(&late, &path).unwrap(), 0);
        let whole = Vault::open(&path).unwrap();
        identify(&late).unwrap();
        let left = folder.path().join("left.db");
        std::fs::copy(&path, &left).unwrap();
        std::fs::copy(beside(&path, "-wal"), beside(&left, "-wal")).unwrap();
        assert!(wal_mark::is_own_log(&left).unwrap());
        drop((late, whole));
    }
}
