//! Connections to a vault's file, before its content is checked.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::VaultError;

/// Opens an existing file for reading and writing.
pub(super) const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens the file at `path` exclusively: its log is written back and removed, and no other
/// connection can open the file until this one is dropped. Waits for others up to `timeout`.
pub(super) fn connect_exclusively(path: &Path, timeout: Duration) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, READ_WRITE)?;
    db.busy_timeout(timeout)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    db.execute_batch("BEGIN EXCLUSIVE")?;
    Ok(db)
}

/// Opens the file at `path`, with the settings of every connection to a vault.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, VaultError> {
    let fail = |source| VaultError::sql(path, source);
    let db = Connection::open_with_flags(path, flags).map_err(fail)?;
    db.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
    db.set_prepared_statement_cache_capacity(64);
    // A vault may come from an untrusted source: SQL stored in it gets no rights.
    for (option, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        // Without it, binding a value can make SQLite prepare the statement anew.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
    ] {
        db.set_db_config(option, on).map_err(fail)?;
    }
    db.pragma_update(None, "cell_size_check", true).map_err(fail)?;
    Ok(db)
}
