//! Records that a service made twice: it executed the first request of a create only after the
//! create had been sent again. Every later listing is compared with the creates that were repeated.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::journal_step::parse_step;
use super::known_ids::known_ids_of;
use super::reconcile::{desired_key, format_ids, record_key};
use crate::model::{Record, Resource, RunId, SnapshotId, Verb};
use crate::vault::journal::{Run, StepState};
use crate::vault::snapshot::Snapshot;
use crate::vault::{Vault, VaultError};

/// A run that ended longer ago than this before a backup has no late requests.
const LATEST: Duration = Duration::from_secs(24 * 3600);

/// The records of a create that was sent more than once, and that a list shows more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// The run with the create.
    pub run: RunId,
    /// The snapshot before the run.
    pub before: SnapshotId,
    /// The number of the step.
    pub step: u32,
    /// What it creates.
    pub resource: Resource,
    /// The record that the run continued with.
    pub id: i64,
    /// The other records, of which one or more may be from an earlier try.
    pub others: Vec<i64>,
}

impl Twin {
    /// The twin as a sentence, with the command that deletes the second record.
    #[must_use]
    pub fn warning(&self, account: &str) -> String {
        let Self { before, resource, others, .. } = self;
        if resource.spec().endpoint(Verb::Delete).is_none() {
            return format!("{self}; the API cannot delete one of them");
        }
        let ids: Vec<_> = others.iter().map(|id| format!("--id {resource}/{id}")).collect();
        let (ids, others) = (ids.join(" "), format_ids(others));
        format!(
            "{self}; `linkvault restore '#{before}' --to {account} --only {resource} {ids} --delete` \
             deletes {others}"
        )
    }
}

impl fmt::Display for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, others) = (self.resource.spec().title, format_ids(&self.others));
        let Self { run, step, id, .. } = self;
        // No list shows the content of such a record, so another user may have made the other one.
        let may = if self.resource.spec().shows_key() { "" } else { "may have " };
        write!(
            f,
            "step {step} of run {run} was sent twice and {may}created {title} {id} and {others}"
        )
    }
}

/// The creates of `run` that were sent more than once, with more records in `listing` than one. The
/// records of the snapshot `seen` are not counted.
fn twins_of_run(
    vault: &mut Vault,
    run: &Run,
    seen: Option<SnapshotId>,
    newest: SnapshotId,
) -> Result<Vec<Twin>, VaultError> {
    let Some(before) = run.before else { return Ok(Vec::new()) };
    let mut repeated = Vec::new();
    let mut made = BTreeSet::new();
    for row in vault.steps(run.number)? {
        if row.state != StepState::Done {
            continue;
        }
        let Ok(step) = parse_step(&row) else { continue };
        let Some(id) = row.id.filter(|_| step.verb == Verb::Create) else { continue };
        made.insert((step.resource, id));
        if row.attempts > 1 {
            repeated.push((step, id, row.sent));
        }
    }
    let mut found = Vec::new();
    for (step, id, sent) in repeated {
        let resource = step.resource;
        let known = known_ids_of(vault, run, resource, sent.map(|sent| (sent, step.step)))?;
        let mut told = BTreeSet::new();
        if let Some(seen) = seen {
            let state = vault.state(seen, &[resource])?;
            told.extend(state.get(resource).into_iter().flatten().map(|(key, _)| key.id()));
        }
        let state = vault.state(newest, &[resource])?;
        let Some(listing) = state.get(resource) else { continue };
        // If lists show no natural key, any new record may be from the first try.
        let (shown, wanted) = (resource.spec().shows_key(), desired_key(&step));
        let ours = |record: &&Record<'_>| !shown || record_key(resource, record) == wanted;
        let new = |id: &i64| !made.contains(&(resource, *id)) && !told.contains(id);
        let late = listing.values().filter(|record| known.may_be_new(resource, record, sent));
        let others: Vec<_> = late.filter(ours).map(|record| record.key.id()).filter(new).collect();
        if !others.is_empty() {
            let (run, step) = (run.number, step.step);
            found.push(Twin { run, before, step, resource, id, others });
        }
    }
    Ok(found)
}

/// The twins that the snapshot `after` at the end of `run` shows.
pub(super) fn twins_at_end(
    vault: &mut Vault,
    run: &Run,
    after: SnapshotId,
) -> Result<Vec<Twin>, VaultError> {
    twins_of_run(vault, run, None, after)
}

/// The twins of recent runs that `backup` is the first snapshot to show.
///
/// # Errors
/// If the journal cannot be read.
pub fn late_twins(vault: &mut Vault, backup: &Snapshot) -> Result<Vec<Twin>, VaultError> {
    let earlier = vault.snapshots()?.into_iter().map(|it| it.number);
    let previous = earlier.filter(|number| *number < backup.number).max();
    let mut found = Vec::new();
    for run in vault.runs()? {
        if run.finished.is_some_and(|it| backup.started.since(it) < LATEST) {
            found.extend(twins_of_run(vault, &run, previous, backup.number)?);
        }
    }
    Ok(found)
}
