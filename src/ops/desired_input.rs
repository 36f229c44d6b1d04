//! The desired state of an account as a command reads it, with its origin.

use std::path::PathBuf;

use super::Env;
use super::state_ref;
use super::{NextStep, OpError, OpErrorKind};
use crate::change::csv_files::{CsvKind, CsvProblems, renamed_note};
use crate::change::desired::{DesiredState, SourceLocation};
use crate::change::export::ExportContent;
use crate::change::plan::UnsupportedChange;
use crate::config::AccountConfig;
use crate::escaped::Escaped;
use crate::format;
use crate::model::State;
use crate::vault::AccountIdentity;

/// The desired state of an account, and where it comes from.
#[derive(Debug, Default)]
pub struct DesiredInput {
    /// Such as `main@#12`, or the path as the user gave it.
    pub name: String,
    /// The desired state.
    pub desired: DesiredState,
    /// Desired changes that the API cannot make.
    pub unsupported: Vec<UnsupportedChange>,
    /// The state from which the files were exported: only values that differ from it were edited.
    pub base: Option<State>,
    /// Warnings for people about the input.
    pub warnings: Vec<String>,
    /// Remarks on how the input was read, such as the encoding of a file.
    pub notes: Vec<String>,
    /// The columns of each file that were read under other names than their own.
    pub renamed: Vec<(String, Vec<(String, &'static str)>)>,
    /// Remarks on the encodings that were found from the bytes of files.
    pub encodings: Vec<String>,
    /// Values of CSV files that are probably mistakes.
    pub suspicious: CsvProblems,
    /// The complete records, if the input is a state and not CSV files.
    pub state: Option<State>,
    /// The tables that were not edited since they were exported.
    pub untouched: Vec<UntouchedTable>,
    /// The account to which the ids belong, if that may be another one.
    pub of: Option<InputOwner>,
    /// The CSV files and workbooks that were read.
    pub files: Vec<PathBuf>,
    /// Whether it comes from files that `export` wrote.
    pub exported: bool,
}

/// A table that was not edited since it was exported.
#[derive(Debug)]
pub struct UntouchedTable {
    /// Its name in the places of its rows.
    pub name: String,
    /// Its content.
    pub content: ExportContent,
}

/// The account to which the ids of a state or an export belong.
#[derive(Debug, Clone)]
pub struct InputOwner {
    /// Its name in the configuration or the export.
    pub name: String,
    /// `None` if unknown on this machine.
    pub identity: Option<AccountIdentity>,
}

/// Warns of values that are probably mistakes.
pub fn warn_of_suspicious(env: &Env, suspicious: &CsvProblems) {
    suspicious.grouped_lines().iter().for_each(|line| env.warn(Escaped(line)));
}

impl DesiredInput {
    /// Sends the remarks on the input.
    pub fn send_notes(&self, env: &Env) {
        renamed_note(&self.renamed).iter().chain(&self.notes).for_each(|note| env.note(note));
        let hint = env.events().hint(&NextStep::ChooseEncoding);
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        self.encodings.iter().for_each(|note| env.note(format_args!("{note}{hint}")));
    }

    /// Warns of values that are probably mistakes.
    pub fn warn_of_suspicious(&self, env: &Env) {
        warn_of_suspicious(env, &self.suspicious);
    }

    /// Asks whether values that are probably mistakes are meant; with `accept`, only warns of them.
    ///
    /// # Errors
    /// If there are such values and the question cannot be asked.
    pub fn are_values_meant(&self, env: &Env, accept: bool) -> Result<bool, OpError> {
        if accept || self.suspicious.is_empty() {
            self.warn_of_suspicious(env);
            return Ok(true);
        }
        let text = match self.suspicious.count() {
            1 => "Use this suspicious value as it is?".to_owned(),
            many => format!("Use these {} suspicious values as they are?", format::count(many)),
        };
        env.events().accept_suspicious(&text, &(&self.suspicious).into())
    }

    /// Looks up the identity of the account to which the ids belong, if only its name is known.
    ///
    /// # Errors
    /// If the configuration has mistakes.
    pub fn find_owner(&mut self, env: &Env) -> Result<(), OpError> {
        let Some(of) = self.of.as_mut().filter(|of| of.identity.is_none()) else { return Ok(()) };
        if let Ok(account) = env.config()?.account(&of.name) {
            env.fetch(&account)?;
            of.identity = state_ref::identity_of(&account)?;
        }
        Ok(())
    }

    /// Keeps records that an export lacks, if the state from which it was made is unknown: others
    /// may have created them since. Returns whether that applied to any resource.
    pub fn deletes_nothing(&mut self) -> bool {
        let unknown = self.exported && self.base.is_none();
        let mut any = false;
        for wanted in self.desired.resources.values_mut().filter(|_| unknown) {
            any |= std::mem::replace(&mut wanted.is_complete, false);
        }
        any
    }

    /// Refuses ids of another account than `account`, which has `id` on `service`: here they would
    /// be the ids of other records.
    ///
    /// # Errors
    /// If the input belongs to another account.
    pub fn require_account(
        &self,
        account: &AccountConfig,
        service: &str,
        id: Option<i64>,
    ) -> Result<(), OpError> {
        let Some(of) = &self.of else { return Ok(()) };
        if of.identity.as_ref().is_some_and(|it| it.service == service && Some(it.account) == id) {
            return Ok(());
        }
        let (ours, theirs) = (&account.name, &of.name);
        let message = format!("{} is of `{theirs}`, another account than `{ours}`", self.name);
        let next = NextStep::MigrateInstead { from: theirs.clone(), to: ours.clone() };
        Err(OpError::new(OpErrorKind::Usage, message).next(next))
    }

    /// Removes the rows of tables that were not edited: they ask for no change, so a resource without
    /// other rows need not be read.
    pub fn drop_unedited(&mut self) {
        if self.base.is_none() {
            return;
        }
        let of = |source: &Option<SourceLocation>, name: &str| {
            source.as_ref().is_some_and(|source| source.file == name)
        };
        for UntouchedTable { name, content } in &self.untouched {
            match content {
                ExportContent::Csv(CsvKind::Resource(resource)) => {
                    let Some(wanted) = self.desired.resources.get_mut(resource) else { continue };
                    wanted.records.retain(|row| !of(&row.source, name));
                    wanted.is_complete = false;
                    if wanted.records.is_empty() {
                        self.desired.resources.remove(resource);
                    }
                }
                ExportContent::Csv(CsvKind::CampaignLinks) => {
                    self.desired.campaign_links.retain(|link| !of(&link.source, name));
                }
                ExportContent::Records => self.desired = DesiredState::default(),
                // Its sheets have names of their own.
                ExportContent::Workbook => {}
            }
        }
    }
}
