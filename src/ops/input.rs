//! Reads the desired state that a command line names: a reference ([`state_ref`]), or files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Env;
use super::account_session::SessionLimits;
use super::state_ref::{self, StateRef};
use super::{NextStep, OpError, OpErrorKind};
use crate::change::csv_files::{CsvKind, TextEncoding};
use crate::change::desired::DesiredState;
use crate::change::export;
use crate::change::plan::saved::{SavedPlan, SavedPlanError, read};
use crate::change::record_filter::RecordFilter;
use crate::config::AccountConfig;
use crate::crawl;
use crate::model::Resource;
use crate::vault::reference::{QualifiedReference, Reference, is_number};

pub use super::desired_input::{DesiredInput, InputOwner};
pub use super::export_origin::exporting_account;
pub use super::input_files::{CsvOptions, FileOptions, read_files};
pub use super::input_tables::bytes;

/// Which part of the input to use as the desired state.
#[derive(Debug, Clone, Default)]
pub struct InputOptions {
    /// The content of CSV files whose names do not show it.
    pub resource: Option<CsvKind>,
    /// The encoding of CSV files; the one that their bytes show if `None`.
    pub encoding: Option<TextEncoding>,
    /// How the columns of CSV files are read.
    pub csv: CsvOptions,
    /// Only these resources; all if empty.
    pub only: Vec<Resource>,
    /// Not these resources.
    pub skip: Vec<Resource>,
    /// Which records are compared and changed.
    pub filter: RecordFilter,
    /// Whether to delete records that the desired state lacks.
    pub delete: bool,
}

impl InputOptions {
    /// Reads one state by its reference, or files and folders together, as the desired state of
    /// `account`.
    ///
    /// # Errors
    /// If one does not exist or cannot be read, a state is named beside others, a file has mistakes,
    /// or no resource is left.
    pub fn read(
        &self,
        env: &Env,
        bounds: &SessionLimits,
        texts: &[String],
        account: &AccountConfig,
    ) -> Result<DesiredInput, OpError> {
        let how = self.file_options()?;
        let mut paths = Vec::new();
        for text in texts {
            match path(env, text)? {
                Some(path) => paths.push(path),
                None if texts.len() == 1 => {
                    let read = state(env, bounds, text, account, &how.which)?;
                    self.csv.require_none(&read.name, "not a CSV file")?;
                    return self.checked(env, read);
                }
                None => {
                    let message =
                        format!("cannot combine {text}, which is not a file, with others");
                    return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::ReadAlone));
                }
            }
        }
        self.checked(env, read_files(&paths, &how, Some(account))?)
    }

    /// Like [`InputOptions::read`] for files and folders, even if a name is also a reference.
    ///
    /// # Errors
    /// As [`InputOptions::read`].
    pub fn read_files(
        &self,
        env: &Env,
        files: &[PathBuf],
        account: &AccountConfig,
    ) -> Result<DesiredInput, OpError> {
        self.checked(env, read_files(files, &self.file_options()?, Some(account))?)
    }

    fn file_options(&self) -> Result<FileOptions, OpError> {
        let mut which = filtered_scope(&self.only, &self.skip, &self.filter)?;
        // The account's own record is changed only if it is named explicitly.
        let named = self.resource == Some(CsvKind::Resource(Resource::Account));
        which.retain(|it| *it != Resource::Account || named);
        let (resource, encoding, csv) = (self.resource, self.encoding, self.csv.clone());
        Ok(FileOptions { resource, encoding, which, csv })
    }

    fn checked(&self, env: &Env, mut read: DesiredInput) -> Result<DesiredInput, OpError> {
        read.find_owner(env)?;
        read.desired.filter = self.filter.clone();
        read.send_notes(env);
        for warning in &read.warnings {
            env.warn(warning);
        }
        if read.deletes_nothing() && self.delete {
            env.warn(format_args!(
                "{} deletes nothing: the state that it was exported from is not in the vault",
                read.name
            ));
        }
        if self.delete && read.state.is_none() && !read.exported {
            let text = "deletes nothing: records that a CSV file omits are not deleted";
            let text = format_args!("{} {text}", read.name);
            env.warn_with(text, &NextStep::RemoveExportedRows);
        }
        read.drop_unedited();
        Ok(read)
    }
}

/// Like [`scope`], without resources that the selectors of `filter` leave out.
///
/// # Errors
/// If none is left.
pub fn filtered_scope(
    only: &[Resource],
    skip: &[Resource],
    filter: &RecordFilter,
) -> Result<Vec<Resource>, OpError> {
    let which = scope(only, skip)?;
    let Some(selected) = filter.selected_resources() else { return Ok(which) };
    let selected: Vec<_> = which.into_iter().filter(|it| selected.contains(it)).collect();
    if selected.is_empty() { scope(&[], &Resource::ALL) } else { Ok(selected) }
}

/// The resources in `only`, or all if empty, without those in `skip`, in the order of the table.
///
/// # Errors
/// If none is left.
pub fn scope(only: &[Resource], skip: &[Resource]) -> Result<Vec<Resource>, OpError> {
    let wanted = |it: &Resource| (only.is_empty() || only.contains(it)) && !skip.contains(it);
    let left: Vec<_> = Resource::ALL.into_iter().filter(wanted).collect();
    if left.is_empty() {
        return Err(
            OpError::new(OpErrorKind::Usage, "no resource is selected").next(NextStep::WidenScope)
        );
    }
    Ok(left)
}

fn state(
    env: &Env,
    bounds: &SessionLimits,
    text: &str,
    account: &AccountConfig,
    which: &[Resource],
) -> Result<DesiredInput, OpError> {
    let target = StateRef::parse(env, text, Reference::Latest(0), Some(account))?;
    let mut loaded = target.load(env, bounds, which)?;
    let state = loaded.state()?;
    let mut desired = DesiredState::of_state(&state, &loaded.name);
    desired.deleted = loaded.deleted_since()?;
    let unread = loaded.snapshot.iter().flat_map(|snapshot| crawl::unread(snapshot, which));
    for unread in unread {
        // The list is incomplete, so records that it lacks must not be deleted.
        if let Some(wanted) = desired.resources.get_mut(&unread.resource) {
            wanted.is_complete = false;
        }
    }
    let lacking = loaded.unread.iter().map(|what| format!("not read: {what}"));
    let warnings = lacking.chain(loaded.stale()).collect();
    let of = match loaded.identity()? {
        _ if target.account.name == account.name => None,
        identity => Some(InputOwner { name: target.account.name, identity }),
    };
    Ok(DesiredInput {
        name: loaded.name,
        desired,
        warnings,
        state: Some(state),
        of,
        ..DesiredInput::default()
    })
}

/// `text` as a path; `None` if it is a reference. The name of an account or a snapshot is a path
/// only with `./` in front.
///
/// # Errors
/// If the configuration has mistakes.
pub fn path(env: &Env, text: &str) -> Result<Option<PathBuf>, OpError> {
    let path = Path::new(text);
    let name = text.split_once('@').map_or(text, |(account, _)| account);
    let bare = !text.contains(['/', std::path::MAIN_SEPARATOR]) && text != "." && text != "..";
    // The warnings of the configuration are sent where the account is used.
    if bare && env.config()?.account(name).is_ok() {
        return Ok(None);
    }
    let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_lowercase();
    if !bare || matches!(ending.as_str(), "csv" | "json" | "ods" | "xlsx") {
        return Ok(Some(path.to_owned()));
    }
    let named = QualifiedReference::parse(text).is_ok_and(|named| named.reference.is_some());
    let reference = named || is_number(text);
    Ok((!reference && path.exists()).then(|| path.to_owned()))
}

/// The account for reading files: the one from which they were exported, or the only configured
/// one.
///
/// # Errors
/// If there is neither.
pub fn account_of(env: &Env, path: &Path) -> Result<AccountConfig, OpError> {
    match exporting_account(env, path)? {
        Some(account) => Ok(account),
        None => state_ref::only_account(env, "latest"),
    }
}

/// The fields in `desired` that no list shows, by resource; a diff leaves them out.
#[must_use]
pub fn unlisted_fields(desired: &DesiredState) -> BTreeMap<Resource, Vec<&'static str>> {
    let mut unseen = BTreeMap::new();
    for (&resource, wanted) in &desired.resources {
        let fields = resource.spec().fields.iter().enumerate();
        let hidden = fields.filter(|(place, field)| {
            !field.is_read() && wanted.records.iter().any(|row| row.fields.contains_key(place))
        });
        let names: Vec<_> = hidden.map(|(_, field)| field.name).collect();
        if !names.is_empty() {
            unseen.insert(resource, names);
        }
    }
    if !desired.campaign_links.is_empty() {
        unseen.entry(Resource::Campaigns).or_default().push("links");
    }
    unseen
}

/// Reads the input as a saved plan. `None` if it is not a single JSON file, or is a JSON export.
///
/// # Errors
/// If it is a plan that cannot be applied.
pub(super) fn read_saved_plan(texts: &[String]) -> Result<Option<SavedPlan>, OpError> {
    let [text] = texts else { return Ok(None) };
    let path = Path::new(text);
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return Ok(None);
    }
    let bytes = bytes(path)?;
    match read(&bytes) {
        Ok(saved) => Ok(Some(saved)),
        // An export has no steps and is read as a state.
        Err(SavedPlanError::NotAPlan(_)) if export::has_records(&bytes) => Ok(None),
        Err(error) => {
            let message = format!("{} {error}; nothing was written", path.display());
            Err(OpError::new(OpErrorKind::Failed, message).next(NextStep::MakeNewPlan))
        }
    }
}
