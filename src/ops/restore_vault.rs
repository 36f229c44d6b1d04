//! Replaces an account's vault by a copy.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use super::account_session::{lock_command, service};
use super::{Env, NextStep, OpError, OpErrorKind, StoredWork, state_ref};
use crate::config::AccountConfig;
use crate::escaped::Escaped;
use crate::files::open_named;
use crate::vault::lock::Lock;
use crate::vault::restore::RestoreCandidate;
use crate::vault::{AccountIdentity, VaultError};

/// A verified copy. Holds the account's lock until it is dropped.
pub struct VerifiedCopy {
    /// The copy, with its identity and snapshots.
    pub candidate: RestoreCandidate,
    /// The account id of the copy, if it cannot be compared with that of the present vault.
    pub unproven: Option<i64>,
    _lock: Lock,
}

/// Verifies that `file` can replace the vault of `account`.
///
/// # Errors
/// If it does not exist, is not a vault, is damaged or belongs to another account, or another
/// process holds the lock.
pub fn verify_copy(
    env: &Env,
    account: &AccountConfig,
    file: &Path,
) -> Result<VerifiedCopy, OpError> {
    if let Err(failure) = env.fetch(account) {
        // A damaged object in the store is a reason to restore a vault.
        env.warn(failure.message);
    }
    let words = lock_command("vault restore", &account.name);
    let lock = Lock::take(&account.vault, &words, Duration::ZERO, &*env.clock)?;
    let candidate =
        RestoreCandidate::prepare(file, &account.vault).map_err(|error| match &error {
            VaultError::Missing(path) if *path != account.vault => OpError::new(
                OpErrorKind::NotFound,
                format_args!("there is no file {}", Escaped(&path.display().to_string())),
            ),
            VaultError::NotAVault(_) if is_encrypted(file) => {
                OpError::from(error).next(NextStep::DecryptFile)
            }
            VaultError::NotAVault(_) | VaultError::Damaged { .. } => {
                OpError::from(error).next(NextStep::NameOtherFile)
            }
            _ => error.into(),
        })?;
    let unproven = check_account(&candidate, account, env)?;
    if candidate.foreign_log {
        env.warn(format_args!(
            "the log beside {} is of another file and was left out",
            file.display()
        ));
    }
    Ok(VerifiedCopy { candidate, unproven, _lock: lock })
}

impl VerifiedCopy {
    /// Replaces the vault and its log, atomically.
    ///
    /// # Errors
    /// If the file cannot be replaced; it is then unchanged.
    pub fn replace(self, env: &Env, account: &AccountConfig) -> Result<(), OpError> {
        let Self { candidate, _lock: lock, .. } = self;
        env.with_stored(&[account], StoredWork::Replacement, move || {
            candidate.replace(&mut |_| Ok(()))?;
            drop(lock);
            Ok(())
        })
    }
}

/// Whether `file` is encrypted with age, such as a copy with `encrypt_to`.
fn is_encrypted(file: &Path) -> bool {
    let mut begin = Vec::new();
    let read = open_named(file).and_then(|it| it.take(22).read_to_end(&mut begin));
    read.is_ok() && begin == b"age-encryption.org/v1\n"
}

/// Refuses the vault of another account, by comparing its id with that of the present vault. If the
/// present vault cannot be read, returns the id of the copy, which is then unproven.
fn check_account(
    candidate: &RestoreCandidate,
    account: &AccountConfig,
    env: &Env,
) -> Result<Option<i64>, OpError> {
    let Some(found) = &candidate.identity else {
        // A vault without snapshots belongs to no account yet.
        return Ok(None);
    };
    let ours = match state_ref::identity_of(account) {
        Ok(ours) => ours,
        Err(failure) => {
            env.note(format_args!("the present vault cannot be read: {}", failure.message));
            None
        }
    };
    let unproven = ours.is_none().then_some(found.account);
    let expected = ours
        .unwrap_or_else(|| AccountIdentity { service: service(account), account: found.account });
    if *found == expected {
        if let Some(id) = unproven {
            env.warn(format_args!(
                "cannot compare the account: {} has no vault that can be read. The copy belongs to \
                 account {id} of {}; the next backup refuses it if the key is for another account",
                account.name, found.service
            ));
        }
        return Ok(unproven);
    }
    Err(OpError::new(
        OpErrorKind::Vault,
        format_args!(
            "cannot restore the vault of {}: the copy belongs to account {} of {}, not to account \
             {} of {}",
            account.name, found.account, found.service, expected.account, expected.service
        ),
    )
    .next(NextStep::NameOwningAccount))
}
