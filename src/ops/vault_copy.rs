//! The copy of a vault for other tools, `copy` in the configuration. With `encrypt_to` only the
//! recipients can read it.

use std::path::{Path, PathBuf};

use super::{Env, OpError};
use crate::config::AccountConfig;
use crate::vault::Vault;

/// Writes the copy of `vault`, the vault of `account`, if one is configured.
///
/// # Errors
/// If it cannot be written; the copy before is then unchanged.
pub(super) fn write_copy(env: &Env, account: &AccountConfig, vault: &Vault) -> Result<(), OpError> {
    let Some(folder) = &account.settings.copy else { return Ok(()) };
    let CopyFiles { file, other, recipients } = copy_files(env, account, folder)?;
    if recipients.is_empty() {
        vault.copy_to(&file)?;
    } else {
        write_encrypted(account, vault, &file, &recipients)?;
    }
    warn_of_other(env, &other, !recipients.is_empty());
    Ok(())
}

/// Like [`write_copy`], if there is a copy already.
///
/// # Errors
/// As [`write_copy`].
pub(super) fn renew_copy(env: &Env, account: &AccountConfig, vault: &Vault) -> Result<(), OpError> {
    let Some(folder) = &account.settings.copy else { return Ok(()) };
    let CopyFiles { file, other, recipients } = copy_files(env, account, folder)?;
    if file.exists() {
        return write_copy(env, account, vault);
    }
    warn_of_other(env, &other, !recipients.is_empty());
    Ok(())
}

struct CopyFiles {
    file: PathBuf,
    /// The file of the copies that were made before `encrypt_to` was added or removed.
    other: PathBuf,
    /// Who can read the copy; empty for a plain copy.
    recipients: Vec<String>,
}

fn copy_files(env: &Env, account: &AccountConfig, folder: &Path) -> Result<CopyFiles, OpError> {
    let plain = folder.join(format!("{}.db", account.name));
    let encrypted = folder.join(format!("{}.db.age", account.name));
    let recipients = if cfg!(feature = "fleet") {
        env.latest_config()?.fleet.encrypt_to.clone()
    } else {
        Vec::new()
    };
    let (file, other) = if recipients.is_empty() { (plain, encrypted) } else { (encrypted, plain) };
    Ok(CopyFiles { file, other, recipients })
}

/// A copy of the other kind is not renewed any more, and not removed: it may be the only one.
fn warn_of_other(env: &Env, other: &Path, encrypts: bool) {
    if !other.exists() {
        return;
    }
    let kind = if encrypts { "not encrypted" } else { "encrypted" };
    env.warn(format_args!(
        "{} is a copy that is {kind} and no longer renewed; remove it",
        other.display()
    ));
}

#[cfg(not(feature = "fleet"))]
fn write_encrypted(_: &AccountConfig, _: &Vault, _: &Path, _: &[String]) -> Result<(), OpError> {
    Ok(())
}

/// The plain copy never has a name in the folder of the encrypted one.
#[cfg(feature = "fleet")]
fn write_encrypted(
    account: &AccountConfig,
    vault: &Vault,
    file: &Path,
    recipients: &[String],
) -> Result<(), OpError> {
    use std::io::Seek as _;

    use crate::files::{close_unfinished, private_folder_of, unfinished_file};
    use crate::fleet::encryption::encrypt_to;
    use crate::vault::VaultError;

    let mut plain = vault.copy_unnamed(&account.vault)?;
    let mut write = || {
        plain.rewind()?;
        private_folder_of(file)?;
        let new = unfinished_file(file)?;
        let mut writer = encrypt_to(recipients, new.as_file())?;
        std::io::copy(&mut plain, &mut writer)?;
        writer.finish()?.sync_all()?;
        close_unfinished(new).persist(file).map_err(|error| error.error)
    };
    write().map_err(|error| VaultError::io(file, error))?;
    Ok(())
}
