//! Records that were deleted since a snapshot, by what the vault tells. The service may
//! have given their ids to others.

use std::collections::BTreeMap;

use crate::change::desired::RecordIds;
use crate::change::plan::PlanStep;
use crate::model::{Resource, Verb};
use crate::vault::journal::StepState;
use crate::vault::{Vault, VaultError};

/// The records that a snapshot after `number` did not have, that a run since then
/// deleted, or whose ids the service gave to records that a run created, unless a run
/// created them again under the same id.
pub fn deleted_since(vault: &Vault, number: i64) -> Result<RecordIds, VaultError> {
    // The newest snapshot before which each was deleted, or which a run began with that did it.
    let mut deleted = BTreeMap::new();
    for resource in Resource::ALL {
        let removed = vault.removed_since(number, resource)?;
        deleted.extend(removed.into_iter().map(|(id, when)| ((resource, id), when)));
    }
    for run in vault.runs()? {
        let Some(before) = run.before.filter(|before| *before >= number) else { continue };
        let rows = vault.steps(run.number)?;
        for row in rows.iter().filter(|row| row.state == StepState::Done) {
            let Ok(step) = serde_json::from_str::<PlanStep>(&row.spec) else { continue };
            let Some(id) = row.id.or(step.id) else { continue };
            let record = (step.resource, id);
            match step.verb {
                Verb::Delete => {
                    let when = deleted.entry(record).or_insert(before);
                    *when = before.max(*when);
                }
                Verb::Create
                    if step.replaces == Some(id)
                        && step.origin.is_none()
                        && deleted.get(&record).is_some_and(|when| *when <= before) =>
                {
                    deleted.remove(&record);
                }
                // It was deleted after the snapshot before the run, by somebody else.
                Verb::Create
                    if step.replaces.filter(|_| step.origin.is_none()) != Some(id)
                        && vault.has_record(before, step.resource, id)? =>
                {
                    let when = deleted.entry(record).or_insert(before);
                    *when = before.max(*when);
                }
                _ => {}
            }
        }
    }
    Ok(deleted.into_keys().collect())
}
