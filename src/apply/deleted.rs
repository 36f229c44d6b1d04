//! Records that were deleted since a snapshot, from the vault's snapshots and journal. The service
//! may have given their ids to other records.

use std::collections::BTreeMap;

use crate::change::desired::RecordIds;
use crate::change::plan::PlanStep;
use crate::model::{Resource, SnapshotId, Verb};
use crate::vault::journal::StepState;
use crate::vault::{Vault, VaultError};

/// The records of snapshot `number` that a later snapshot lacks, that a later run deleted, or whose
/// ids the service gave to records that a run created. A record that a run created again under the
/// same id does not count.
pub fn deleted_since(vault: &Vault, number: SnapshotId) -> Result<RecordIds, VaultError> {
    // Of each deleted record: the newest snapshot that lacks it, or the first snapshot of the
    // newest run that deleted it.
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
                // Others deleted it after the run's first snapshot.
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
