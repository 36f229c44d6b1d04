//! Opening a vault: what it must be, for whom, and how it is refused.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use tempfile::NamedTempFile;

use super::header::{Place, look, missing};
use super::open_files::open_files;
use super::schema::{
    APPLICATION_ID, FORMAT, INCREMENTAL_VACUUM, MIGRATIONS, definitions, empty, expected, migrate,
};
use super::{IdentityPart, TemplateCache, Vault, VaultError};
use crate::files::{beside, folder_of, open_private, private_file, private_folder_of, target};
use crate::model::Resource;
use crate::vault::checksums::{self, ChecksumScope};
use crate::vault::wal_mark;

/// Whose history a vault holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountIdentity {
    /// The base URL, without a slash at the end.
    pub service: String,
    /// The account's id, as the service tells it.
    pub account: i64,
}

/// The log is written back into the file, which waits for the disk, once it has
/// this many pages (32 MiB), and when the vault is closed.
const LOG_PAGES: i64 = 8192;

/// Copied at one go: all.
const COPIED_PAGES: i32 = i32::MAX;

impl Vault {
    /// Opens the vault at `path`, or creates it (mode 0600, folders 0700).
    ///
    /// # Errors
    /// When it is not a vault, is of a newer format, or cannot be written; the
    /// file is then as it was.
    pub fn open_or_create(path: &Path) -> Result<Self, VaultError> {
        let path = &followed(path)?;
        {
            let _alone = open_files();
            if !path.exists() {
                create(path)?;
            }
        }
        Self::open(path)
    }

    /// Opens an existing vault for writing, leading it to the newest format.
    ///
    /// # Errors
    /// As [`Vault::open_or_create`], and when there is none.
    pub fn open(path: &Path) -> Result<Self, VaultError> {
        let path = &followed(path)?;
        let place = look(path)?;
        let db = connect(path, READ_WRITE)?;
        let fail = |source| VaultError::sql(path, source);
        // First of all: even a look inside makes a log, which would be read-only too.
        if db.is_readonly(rusqlite::MAIN_DB).map_err(fail)? {
            return Err(VaultError::ReadOnly(path.to_owned()));
        }
        let format = examine(&db, path)?;
        if format == 0 {
            db.execute_batch(INCREMENTAL_VACUUM).map_err(fail)?;
            // Before there is a log, so that the file alone tells what it is.
            db.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
        }
        write_ahead(&db).map_err(fail)?;
        db.pragma_update(None, "synchronous", "NORMAL").map_err(fail)?;
        db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(fail)?;
        // What is deleted is overwritten, so that what is forgotten is gone.
        db.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).map_err(fail)?;
        let mut vault = Self::ready(Some(place), db, path)?;
        vault.vacuum_incrementally()?;
        Ok(vault)
    }

    /// Gives the file of an earlier format the auto-vacuum mode of this one. Where that is not
    /// possible now, the next command that opens the vault does it.
    fn vacuum_incrementally(&mut self) -> Result<(), VaultError> {
        let fail = |source| VaultError::sql(&self.path, source);
        let mode = self.db.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0));
        if mode.map_err(fail)? == INCREMENTAL {
            return Ok(());
        }
        self.db.execute_batch(INCREMENTAL_VACUUM).map_err(fail)?;
        match self.vacuum() {
            Err(VaultError::Full(_)) => Ok(()),
            Err(VaultError::Sql { source, .. }) if can_wait(&source) => Ok(()),
            done => done,
        }
    }

    /// Opens an existing vault for reading. It may be on a read-only disk.
    ///
    /// # Errors
    /// When there is none, it is not a vault, or of another format.
    pub fn open_read_only(path: &Path) -> Result<Self, VaultError> {
        let path = &followed(path)?;
        let place = look(path)?;
        let readable = |db: Connection| examine(&db, path).map(|found| (db, found));
        let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
        let db = connect(path, READ_WRITE)?;
        let plain = match db.is_readonly(rusqlite::MAIN_DB) {
            Ok(true) if log == 0 => Err(VaultError::ReadOnly(path.to_owned())),
            _ => readable(db),
        };
        let (db, found) = match plain {
            // Beside a read-only file no log should be made, and on a read-only
            // disk or in a read-only folder none can be. Where there is none,
            // no process works on the vault, and the file alone is the truth.
            Err(VaultError::ReadOnly(_)) if log == 0 => {
                let uri = format!("file:{}?immutable=1", encode(path));
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let db = connect(Path::new(&uri), flags).map_err(|error| error_at(error, path))?;
                readable(db)?
            }
            other => other?,
        };
        if found < FORMAT {
            // Only a writer may lead it to the newest format.
            drop(db);
            return Self::open(path);
        }
        own_tables(&db, path)?;
        db.pragma_update(None, "query_only", true)
            .map_err(|source| VaultError::sql(path, source))?;
        Ok(Self::of(Some(place), db, path))
    }

    /// As [`Vault::open_read_only`]; `None` where there is no file.
    ///
    /// # Errors
    /// When it is not a vault, or of another format.
    pub fn open_if_there(path: &Path) -> Result<Option<Self>, VaultError> {
        match Self::open_read_only(path) {
            Ok(vault) => Ok(Some(vault)),
            Err(VaultError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An empty vault in memory of the account that this vault belongs to: what another
    /// account shows is not taken into it. It knows the page sizes that the service accepts.
    ///
    /// # Errors
    /// When this vault cannot be read, or there is no memory.
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

    /// A vault that lives in memory and is gone with the program.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn in_memory() -> Result<Self, VaultError> {
        let path = Path::new(":memory:");
        // A copy of an empty vault costs far less than making its tables.
        let copied = || {
            let mut db = Connection::open_in_memory()?;
            let mut model = Connection::open_in_memory()?;
            let file = empty()?;
            model.deserialize_read_exact(rusqlite::MAIN_DB, file, file.len(), true)?;
            Backup::new(&model, &mut db)?.run_to_completion(COPIED_PAGES, Duration::ZERO, None)?;
            Ok(db)
        };
        let db = copied().map_err(|source| VaultError::sql(path, source))?;
        Self::ready(None, db, path)
    }

    /// A copy as of now, for trying things out: what is done to it changes
    /// nothing here, no other process sees it, and it is gone with the program.
    ///
    /// # Errors
    /// When this vault cannot be read, or there is no room for another.
    pub fn copy(&self) -> Result<Self, VaultError> {
        let fail = |source| VaultError::sql(&self.path, source);
        // Without a name it is in memory, or in a file that only SQLite can find.
        let mut db = Connection::open("").map_err(fail)?;
        let backup = Backup::new(&self.db, &mut db).map_err(fail)?;
        backup.run_to_completion(COPIED_PAGES, Duration::ZERO, None).map_err(fail)?;
        drop(backup);
        db.pragma_update(None, "synchronous", "OFF").map_err(fail)?;
        Self::ready(None, db, &self.path)
    }

    /// Writes a copy as of now to `file`, whole and for its user alone, over
    /// whatever is there. It is one file, as small as can be, and no process
    /// writes to it: what other tools can take away.
    ///
    /// # Errors
    /// When this vault cannot be read, or the copy cannot be written.
    pub fn copy_to(&self, file: &Path) -> Result<(), VaultError> {
        let io = |error| VaultError::io(file, error);
        private_folder_of(file).map_err(io)?;
        let new = part(file).map_err(io)?;
        // A connection that is for queries alone may not even write elsewhere.
        let to = new.path().to_string_lossy().into_owned();
        let fail = |source| VaultError::sql(file, source);
        let guard: bool =
            self.db.pragma_query_value(None, "query_only", |row| row.get(0)).map_err(fail)?;
        self.db.pragma_update(None, "query_only", false).map_err(fail)?;
        let written = self.db.execute("VACUUM INTO ?1", [&to]);
        self.db.pragma_update(None, "query_only", guard).map_err(fail)?;
        written.map_err(fail)?;
        // The log of this vault is not the copy's.
        let copy = Connection::open_with_flags(new.path(), READ_WRITE).map_err(fail)?;
        copy.pragma_update(None, "journal_mode", "MEMORY").map_err(fail)?;
        wal_mark::advance(&copy).map_err(fail)?;
        drop(copy);
        new.as_file().sync_all().map_err(io)?;
        new.persist(file).map_err(|error| io(error.error))?;
        Ok(())
    }

    fn ready(place: Option<Place>, mut db: Connection, path: &Path) -> Result<Self, VaultError> {
        let from = migrate(&mut db, MIGRATIONS).map_err(|source| VaultError::sql(path, source))?;
        if from > FORMAT {
            return Err(VaultError::Newer { path: path.to_owned(), found: from, known: FORMAT });
        }
        if from > 0 {
            own_tables(&db, path)?;
            own_triggers(&db, path)?;
        }
        let mut vault = Self::of(place, db, path);
        vault.enforce_triggers(true)?;
        vault.mend_mark()?;
        Ok(vault)
    }

    /// Leaves a mark where a migration or another tool left none, and has it in the file.
    pub(super) fn mend_mark(&mut self) -> Result<(), VaultError> {
        if self._place.is_none() || wal_mark::is_current(&self.db).map_err(|it| self.sql(it))? {
            return Ok(());
        }
        self.transact_now(|_, _| Ok(()))?;
        self.checkpoint()
    }

    /// Rewrites the file. The mark in the file fits it again before anything of that is in the
    /// file itself.
    pub(super) fn vacuum(&mut self) -> Result<(), VaultError> {
        let log_pages = |pages: i64| {
            let set = self.db.pragma_update(None, "wal_autocheckpoint", pages);
            set.map_err(|source| self.sql(source))
        };
        log_pages(0)?;
        let vacuumed = self.db.execute_batch("VACUUM").map_err(|source| self.sql(source));
        log_pages(LOG_PAGES)?;
        vacuumed?;
        self.mend_mark()
    }

    fn of(_place: Option<Place>, db: Connection, path: &Path) -> Self {
        let (path, shapes) = (path.to_owned(), TemplateCache::default());
        let triggers = db.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).unwrap_or(true);
        Self { db, path, shapes, hook: None, held: None, triggers, _place }
    }

    /// Whose vault this is; `None` until the first backup began.
    ///
    /// # Errors
    /// When the vault cannot be read.
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

    /// Makes sure that this vault belongs to `found`, taking an empty vault for
    /// it. `service_moved` accepts another URL for the same account.
    ///
    /// # Errors
    /// [`VaultError::OtherAccount`] when it belongs to another.
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
fn can_wait(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked};
    error.sqlite_error_code().is_some_and(|it| [DatabaseBusy, DatabaseLocked].contains(&it))
}

const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens the file at `path` alone: its log is written back into it and removed, and no other
/// connection is let in until this one is dropped.
pub(super) fn connect_exclusively(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, READ_WRITE)?;
    db.busy_timeout(Duration::from_secs(2))?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    db.execute_batch("BEGIN EXCLUSIVE")?;
    Ok(db)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, VaultError> {
    let fail = |source| VaultError::sql(path, source);
    let db = Connection::open_with_flags(path, flags).map_err(fail)?;
    db.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
    db.set_prepared_statement_cache_capacity(64);
    // A vault may come from anywhere: its own SQL gets no rights.
    for (option, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        // Without it, statements are prepared anew whenever a value is bound.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
    ] {
        db.set_db_config(option, on).map_err(fail)?;
    }
    db.pragma_update(None, "cell_size_check", true).map_err(fail)?;
    Ok(db)
}

/// Refuses what is no vault, and a vault that this program is too old for,
/// before anything is written. Gives the format.
fn examine(db: &Connection, path: &Path) -> Result<i64, VaultError> {
    let found = || {
        // All of one moment: somebody may be making it just now.
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

/// Refuses a file whose tables are not the ones this program makes: a view in
/// a table's place could say anything, for ever.
fn own_tables(db: &Connection, path: &Path) -> Result<(), VaultError> {
    let fail = |source| VaultError::sql(path, source);
    let found = definitions(db).map_err(fail)?;
    let expected = expected().map_err(fail)?;
    let tables = expected.iter().filter(|(_, sql)| sql.starts_with("CREATE TABLE"));
    match tables.into_iter().find(|(name, sql)| found.get(*name) != Some(*sql)) {
        None => Ok(()),
        Some((name, _)) => {
            let what = format!("the table {name} is not as it should be");
            Err(VaultError::Damaged { path: path.to_owned(), what })
        }
    }
}

/// Refuses a file whose triggers are not the ones this program makes, before any may fire.
fn own_triggers(db: &Connection, path: &Path) -> Result<(), VaultError> {
    let fail = |source| VaultError::sql(path, source);
    let (found, expected) = (definitions(db).map_err(fail)?, expected().map_err(fail)?);
    let missing = expected
        .iter()
        .filter(|(_, sql)| sql.starts_with("CREATE TRIGGER"))
        .find(|(name, sql)| found.get(*name) != Some(*sql))
        .map(|(name, _)| format!("the trigger {name} is not as it should be"));
    // SQLite believes the text, and not what the file says that it is.
    let strange = || {
        found
            .iter()
            .filter(|(name, sql)| expected.get(*name) != Some(*sql))
            .find(|(_, sql)| sql.to_ascii_lowercase().contains("trigger"))
            .map(|(name, _)| format!("the trigger {name} is not of linkvault"))
    };
    match missing.or_else(strange) {
        None => Ok(()),
        Some(what) => Err(VaultError::Damaged { path: path.to_owned(), what }),
    }
}

/// The file itself, where `path` is a symbolic link: SQLite keeps the log beside that.
fn followed(path: &Path) -> Result<std::path::PathBuf, VaultError> {
    target(path).map_err(|source| VaultError::io(path, source))
}

fn error_at(error: VaultError, path: &Path) -> VaultError {
    match error {
        VaultError::Sql { source, .. } => VaultError::sql(path, source),
        other => other,
    }
}

/// A path as it must stand in a `file:` URI.
fn encode(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Makes an empty vault. It appears whole, for others may look for it already.
fn create(path: &Path) -> Result<(), VaultError> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => VaultError::ReadOnly(path.to_owned()),
        _ => VaultError::io(path, source),
    };
    let empty = empty().map_err(|source| VaultError::sql(path, source))?;
    if let alone @ VaultError::LogAlone { .. } = missing(path) {
        return Err(alone);
    }
    private_folder_of(path).map_err(refused)?;
    let mut new = part(path).map_err(refused)?;
    let mut empty = empty.to_vec();
    wal_mark::stamp(&mut empty);
    new.write_all(&empty).map_err(refused)?;
    new.as_file().sync_all().map_err(refused)?;
    // It is closed before it has its name; afterwards no process may do that.
    if new.into_temp_path().persist_noclobber(path).is_ok() || path.exists() {
        // Ours, or of somebody who was quicker.
        return Ok(());
    }
    // Not every disk can do that; an empty file becomes a vault as well.
    private_file(path).map(drop).map_err(refused)
}

/// So often somebody else may be in the way of [`write_ahead`].
const TRIES: usize = 100;

/// Has changes written into a log, so that readers do not wait.
fn write_ahead(db: &Connection) -> rusqlite::Result<()> {
    let wanted = || db.pragma_update(None, "journal_mode", "WAL");
    for _ in 1..TRIES {
        match wanted() {
            // It does not wait for others, as a transaction does.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                db.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
            }
            done => return done,
        }
    }
    wanted()
}

/// An empty file beside `file`, to be filled and put in its place. SQLite fills
/// an empty file that is there; its mode stays 0600.
fn part(file: &Path) -> io::Result<NamedTempFile> {
    let folder = folder_of(file);
    let mut start = OsString::from(".");
    start.push(file.file_name().unwrap_or_default());
    start.push(".part-");
    remove_cut_off(folder, &start);
    loop {
        let new = tempfile::Builder::new().prefix(&start).tempfile_in(folder)?;
        // SQLite's own locks are of another kind, but not everywhere.
        #[cfg(unix)]
        new.as_file().lock()?;
        // Before it was locked, somebody may have taken it for one cut off.
        if new.path().exists() {
            return Ok(new);
        }
    }
}

/// Removes unfinished files whose writer was killed: a living one holds its lock.
fn remove_cut_off(folder: &Path, start: &OsStr) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(start.as_encoded_bytes()) {
            continue;
        }
        let Ok(file) = open_private(&entry.path()) else { continue };
        // Held until it is gone.
        if file.try_lock().is_ok() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
