//! Finds the export that a file belongs to, and the state from which it was made: the base of the
//! three-way comparison.

use std::path::Path;

use super::input_tables::bytes;
use super::{Env, NextStep, OpError, OpErrorKind, state_ref};
use crate::apply::deleted_since;
use crate::change::desired::RecordIds;
use crate::change::export::{MANIFEST, Manifest};
use crate::change::workbook::{Workbook, is_workbook};
use crate::config::AccountConfig;
use crate::model::{Resource, State};

/// The export that the file `path` belongs to: the one that a workbook describes itself (`inside`),
/// because the workbook may be a copy in another place, or else the one of the folder.
///
/// # Errors
/// If the folder's manifest cannot be read.
pub(super) fn origin(path: &Path, inside: Option<Manifest>) -> Result<Option<Manifest>, OpError> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let beside = match folder.join(MANIFEST).is_file() {
        true => manifest(folder),
        false => return Ok(inside),
    };
    match (inside, beside) {
        // The folder's manifest has the hash of the file, too.
        (Some(inside), Ok(beside)) if beside.is_same_export(&inside) => Ok(Some(beside)),
        (Some(inside), _) => Ok(Some(inside)),
        (None, beside) => beside.map(Some),
    }
}

/// The account from which a file or a folder was exported, if it is configured.
///
/// # Errors
/// If a folder's manifest cannot be read, or the configuration has mistakes.
pub fn exporting_account(env: &Env, path: &Path) -> Result<Option<AccountConfig>, OpError> {
    let found = match path.is_dir() {
        true if path.join(MANIFEST).is_file() => Some(manifest(path)?),
        true => None,
        false if path.is_file() => origin(path, described(&bytes(path)?)).unwrap_or_default(),
        false => None,
    };
    let Some(found) = found else { return Ok(None) };
    let account = env.config()?.account(&found.account).ok();
    account.iter().try_for_each(|account| env.fetch(account))?;
    Ok(account)
}

/// The export that a workbook describes. The reader of the file reports its mistakes.
fn described(bytes: &[u8]) -> Option<Manifest> {
    let text = is_workbook(bytes).then(|| Workbook::open(bytes).ok()?.origin().ok()?)??;
    Manifest::read(text.as_bytes()).ok()
}

/// Reads the manifest of an exported folder.
///
/// # Errors
/// If it cannot be read.
pub(super) fn manifest(folder: &Path) -> Result<Manifest, OpError> {
    let path = folder.join(MANIFEST);
    Manifest::read(&bytes(&path)?).map_err(|error| {
        OpError::new(OpErrorKind::Failed, format_args!("{}: {error}", path.display()))
            .next(NextStep::ExportAgain)
    })
}

/// The state from which an export was made.
pub(super) enum OriginBase {
    /// It is in the vault.
    Known {
        /// The state.
        state: Box<State>,
        /// The records deleted since.
        deleted: RecordIds,
    },
    /// Why it is not known.
    Unknown(String),
}

/// The state of the resources `which` from which an export was made.
///
/// # Errors
/// If the vault cannot be read.
pub(super) fn base(
    origin: &Manifest,
    account: Option<&AccountConfig>,
    which: &[Resource],
) -> Result<OriginBase, OpError> {
    let every = "every cell counts as edited";
    let unknown = |why: String| Ok(OriginBase::Unknown(format!("{why}, so {every}")));
    let other = || format!("the export is of `{}`", origin.account);
    let Some(account) = account else { return unknown(other()) };
    let (Some(number), Some(digest)) = (origin.snapshot, &origin.digest) else {
        return unknown(format!("the export is of {}, no snapshot", origin.state));
    };
    // The account may have another name since; the digest identifies the snapshot.
    let gone = match origin.account == account.name {
        true => format!("snapshot #{number} of the export is not in the vault"),
        false => other(),
    };
    let Some(mut vault) = state_ref::open_if_there(account)? else { return unknown(gone) };
    let found = vault.snapshots()?.into_iter().find(|it| it.number == number);
    if found.is_none_or(|it| it.digest.as_ref() != Some(digest)) {
        return unknown(gone);
    }
    let deleted = deleted_since(&vault, number)?;
    Ok(OriginBase::Known { state: Box::new(vault.state(number, which)?), deleted })
}
