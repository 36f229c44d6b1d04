//! What all runs of a migration did: both accounts, the runs, the totals, and the comparison of the
//! accounts after them. For the report that a person gets.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::plan::PlanStep;
use crate::model::{Resource, RunId, Verb};

/// One of the two accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationParty {
    /// Its name in the configuration; of the source, with the snapshot.
    pub name: String,
    /// URL of the service.
    pub service: String,
    /// The id of the account on the service.
    pub account: String,
    /// The e-mail address of the account; empty if it is not known.
    pub email: String,
}

/// A run of the migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationRun {
    /// Number of the run.
    pub number: RunId,
    /// When it began, as text.
    pub begun: String,
    /// The command that began it.
    pub command: &'static str,
    /// The status of the run.
    pub status: &'static str,
    /// Number of steps that were done.
    pub done: u64,
    /// Number of the other steps.
    pub undone: u64,
}

/// What all runs of a migration did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationHistory {
    /// The source.
    pub from: MigrationParty,
    /// The target.
    pub to: MigrationParty,
    /// The time of the report, as text.
    pub date: String,
    /// The runs, in the order of their numbers.
    pub runs: Vec<MigrationRun>,
    /// Numbers of records that the runs created and updated, by resource name and
    /// `campaign_links`.
    pub totals: BTreeMap<&'static str, (u64, u64)>,
    /// Ids in the source of the records that the runs created.
    created: BTreeSet<(Resource, i64)>,
    /// Why steps were not done, by what they are about.
    undone: BTreeMap<(Resource, &'static str, String), String>,
    /// Whether the accounts were compared after the last run.
    pub is_verified: bool,
}

impl MigrationHistory {
    /// Adds a step of a run. `undone` is the reason why it was not done.
    pub fn add_step(&mut self, step: &PlanStep, undone: Option<&str>) {
        let subject = subject(step);
        if let Some(reason) = undone {
            self.undone.insert(subject, reason.to_owned());
            return;
        }
        self.undone.remove(&subject);
        let is_link = step.resource == Resource::Campaigns && step.verb == Verb::Assign;
        let name = if is_link { "campaign_links" } else { step.resource.name() };
        let (created, updated) = self.totals.entry(name).or_default();
        match step.verb {
            Verb::Update => *updated += 1,
            _ => *created += 1,
        }
        if step.verb == Verb::Create {
            self.created.extend(step.replaces.map(|old| (step.resource, old)));
        }
    }

    /// Why the runs did not do what `step` would do.
    #[must_use]
    pub fn reason(&self, step: &PlanStep) -> Option<String> {
        self.undone.get(&subject(step)).cloned()
    }

    /// Whether a run created the record with this id in the source.
    #[must_use]
    pub fn has_created(&self, resource: Resource, old: i64) -> bool {
        self.created.contains(&(resource, old))
    }
}

/// What a step is about, in all plans of a migration.
fn subject(step: &PlanStep) -> (Resource, &'static str, String) {
    let what = match (step.replaces.or(step.id), &step.after) {
        (Some(id), _) => id.to_string(),
        (None, Some(after)) => serde_json::Value::Object(after.clone()).to_string(),
        (None, None) => step.key.clone(),
    };
    (step.resource, step.verb.name(), what)
}
