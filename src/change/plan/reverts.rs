//! Finds changes that may revert another person's edit. Without the state from which a file was
//! exported, an old value in it may be a cell that nobody edited.

use super::types::{PlanStep, PossibleRevert};
use crate::model::equality::are_equal;
use crate::model::value::from_json;
use crate::model::{Record, SnapshotId, Verb};

/// The fields that an update sets to a value of one of the record's `versions`. Each version has the
/// first snapshot that shows it; the last one is the newest.
#[must_use]
pub fn possible_reverts(
    step: &PlanStep,
    versions: &[(SnapshotId, Record<'static>)],
) -> Vec<PossibleRevert> {
    let after = step.after.as_ref().filter(|_| step.verb == Verb::Update);
    let reverted = after.into_iter().flatten().filter_map(|(name, after)| {
        let (place, field) = step.resource.spec().field(name)?;
        let wanted = from_json(after);
        let has_it = |(_, record): &&(SnapshotId, Record<'static>)| {
            let value = record.values.get(place);
            value.is_some_and(|value| are_equal(field, &wanted, value))
        };
        let (snapshot, _) = versions.iter().rev().find(has_it)?;
        Some(PossibleRevert {
            resource: step.resource,
            key: step.key.clone(),
            field: name.clone(),
            before: step.before.as_ref().and_then(|it| it.get(name)).cloned().unwrap_or_default(),
            after: after.clone(),
            snapshot: *snapshot,
            source: step.source.clone(),
        })
    });
    reverted.collect()
}
