//! The report of a migration as a file: what all of its runs did, and how the accounts compare
//! after them.

use std::collections::BTreeMap;
use std::path::Path;

use super::error_sources::apply_error;
use super::migration_flags::RecordedMigration;
use super::output_files::{OutputKind, write_output};
use super::{Env, OpError};
use crate::apply;
use crate::change::plan::{CurrentState, PlanStep};
use crate::change::policy::{OnConflict, Policy};
use crate::config::AccountConfig;
use crate::format;
use crate::migrate::history::{MigrationHistory, MigrationParty, MigrationRun};
use crate::migrate::{MappedRecords, MigrationPlan, MigrationReport};
use crate::model::{FieldValue, Resource, SnapshotId, State};
use crate::vault::Vault;
use crate::vault::journal::{JournalStep, RunStatus, StepState};

/// What the report is made from, besides the journal.
pub(super) struct ReportInput<'a> {
    /// The environment of the operation.
    pub env: &'a Env,
    /// The target.
    pub to: &'a AccountConfig,
    /// The source.
    pub from: MigrationParty,
    /// The source, mapped to the target.
    pub mapped: MappedRecords,
    /// The records of the target after the last run; `None` if they could not be read.
    pub after: Option<State>,
}

impl ReportInput<'_> {
    /// Writes the report on the migration to the account of `vault`.
    ///
    /// # Errors
    /// If the journal cannot be read, the accounts cannot be compared, or the file cannot be
    /// written.
    pub fn write(self, vault: &mut Vault, file: &Path) -> Result<(), OpError> {
        let force = self.env.force;
        let report = self.report(vault)?;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = report.markdown(&mut text);
        let text = text.trim_end().to_owned() + "\n";
        write_output(file, OutputKind::Report, force, text.as_bytes())
    }

    fn report(self, vault: &mut Vault) -> Result<MigrationReport, OpError> {
        let Self { env, to, from, mapped, after } = self;
        let is_verified = after.is_some();
        let state = after.unwrap_or_default();
        let origin = mapped.desired.origin.clone().unwrap_or_default();
        let memory = apply::migration_memory(vault, &origin, &state)
            .map_err(|error| apply_error(error, &to.name))?;
        let current = CurrentState { state: &state, memory: &memory };
        let policy = Policy { on_conflict: OnConflict::Theirs, ..Policy::default() };
        let rest =
            MigrationPlan::plan(mapped, current, &policy).map_err(|it| OpError::from(&it))?;
        let mut history = history(vault, &origin)?;
        history.date = format::time(env.clock.now());
        history.is_verified = is_verified;
        let identity = vault.identity()?;
        let newest = vault.snapshots()?.pop().map(|it| it.number);
        history.to = MigrationParty {
            name: to.name.clone(),
            service: identity.as_ref().map(|it| it.service.clone()).unwrap_or_default(),
            account: identity.map(|it| it.account.to_string()).unwrap_or_default(),
            email: newest.map_or_else(String::new, |newest| email(vault, newest)),
        };
        let reason = |step: &PlanStep| Some((step.step, Some(history.reason(step)?)));
        let reasons = rest.plan.steps.iter().filter_map(reason).collect();
        let mut report = rest.report(&reasons, BTreeMap::new());
        report.add_addresses(&rest.desired, &state);
        let (from_name, to) = (from.name.clone(), to.name.clone());
        history.from = from;
        Ok(MigrationReport { from: from_name, to, history, ..report })
    }
}

/// The e-mail address of the account in snapshot `number`; empty if it is not known.
pub(super) fn email(vault: &mut Vault, number: SnapshotId) -> String {
    let Ok(state) = vault.state(number, &[Resource::Account]) else { return String::new() };
    let record = state.get(Resource::Account).and_then(|it| it.values().next());
    let place = Resource::Account.spec().field("email").map(|(place, _)| place);
    let value = record.zip(place).and_then(|(record, place)| record.values.get(place));
    value.map(FieldValue::cell).unwrap_or_default().into_owned()
}

/// The runs in `vault` that migrated records from `origin`, and what they did.
fn history(vault: &Vault, origin: &str) -> Result<MigrationHistory, OpError> {
    let mut history = MigrationHistory::default();
    for run in vault.runs()? {
        let moved = RecordedMigration::read(&run.plan);
        if moved.is_none_or(|it| it.note.origin != origin) {
            continue;
        }
        let mut done = 0;
        let steps = vault.steps(run.number)?;
        for row in &steps {
            let Ok(step) = serde_json::from_str::<PlanStep>(&row.spec) else { continue };
            let is_done = row.state == StepState::Done && !row.differs();
            done += u64::from(is_done);
            if is_done {
                history.add_step(&step, None);
            } else if let Some(reason) = reason(row) {
                history.add_step(&step, Some(&reason));
            }
        }
        history.runs.push(MigrationRun {
            number: run.number,
            begun: format::time(run.started),
            command: run.command.name(),
            status: if run.status == RunStatus::Running {
                "not finished"
            } else {
                run.status.name()
            },
            done,
            undone: steps.len() as u64 - done,
        });
    }
    Ok(history)
}

/// Why a step was not done; `None` if it was not tried.
fn reason(row: &JournalStep) -> Option<String> {
    match row.state {
        StepState::Done => row.remark.clone(),
        StepState::Planned => None,
        state => Some(row.message.clone().unwrap_or_else(|| state.name().to_owned())),
    }
}
