//! The ids that were known before a step was sent, from the vault.

use crate::apply::journal_step::parse_step;
use crate::apply::reconcile::KnownIds;
use crate::clock::Timestamp;
use crate::model::{Resource, Verb};
use crate::vault::journal::{Run, StepState};
use crate::vault::{self, Vault, VaultError};

/// The ids of `resource` that were known since the run began, from snapshots and from the run's
/// own steps, before a step was sent: `until` is when it was marked as sent, and its number.
pub(super) fn known_ids_of(
    vault: &mut Vault,
    run: &Run,
    resource: Resource,
    until: Option<(Timestamp, u32)>,
) -> Result<KnownIds, VaultError> {
    let mut seen = KnownIds::default();
    let Some(before) = run.before else { return Ok(seen) };
    // The time of each response, the step, the id of its record, and whether it was a delete. Steps
    // whose responses have the same time were sent in their order.
    let mut ours = Vec::new();
    let mut updates = Vec::new();
    for row in vault.steps(run.number)? {
        let Ok(step) = parse_step(&row) else { continue };
        if step.resource != resource {
            continue;
        }
        match step.verb {
            Verb::Update => {
                updates.extend(row.may_be_done().then_some(step));
            }
            Verb::Delete if row.state == StepState::Done => {
                ours.extend(step.id.zip(row.answered).map(|(id, at)| (at, step.step, id, true)));
            }
            Verb::Delete => {}
            _ => ours.extend(row.id.zip(row.answered).map(|(id, at)| (at, step.step, id, false))),
        }
    }
    seen.changed_by(updates.iter());
    ours.sort_unstable();
    let mut ours = ours.into_iter().peekable();
    let change = |seen: &mut KnownIds, (at, _, id, is_delete): (Timestamp, u32, i64, bool)| {
        if is_delete { seen.remove_deleted(id) } else { seen.add_created(id, at) }
    };
    for snapshot in vault.snapshots()? {
        let whole =
            snapshot.outcome(resource).is_some_and(vault::snapshot::ResourceOutcome::is_complete);
        let in_time =
            snapshot.finished.is_some_and(|it| until.is_none_or(|(until, _)| it <= until));
        if snapshot.number < before || !(snapshot.number == before || (whole && in_time)) {
            continue;
        }
        while let Some(one) = ours.next_if(|(at, ..)| *at < snapshot.started) {
            change(&mut seen, one);
        }
        let state = vault.state(snapshot.number, &[resource])?;
        if let Some(records) = state.get(resource) {
            seen.add_listing(resource, records, snapshot.started);
        }
    }
    for (at, step, id, is_delete) in ours {
        // Steps that are marked as sent together are sent in their order.
        let is_before = |(sent, lost)| at <= sent || (is_delete && step < lost);
        if until.is_none_or(is_before) {
            change(&mut seen, (at, step, id, is_delete));
        } else if !is_delete {
            seen.add_created_later(id);
        }
    }
    Ok(seen)
}
