//! The result of a migration, counted by resource and as a Markdown report.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ManualTask;
use super::history::MigrationHistory;
use crate::change::desired::{DesiredRecord, DesiredState};
use crate::change::plan::{KeptValue, Plan, PlanStep, UnsupportedChange};
use crate::model::{FieldValue, RecordKey, Resource, RunId, State, Verb};

/// The result for one resource, as numbers of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MigrationCounts {
    /// Created by this run.
    pub created: u64,
    /// Existed and was updated by this run.
    pub matched: u64,
    /// Existed and was equal.
    pub unchanged: u64,
    /// Not moved or not completely moved, since the API cannot do it. A record that was created
    /// without some values is counted here and in `created`.
    pub unsupported: u64,
    /// Not done: refused, skipped, or of unknown outcome.
    pub failed: u64,
}

/// A step that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedRecord {
    /// Resource of the record.
    pub resource: Resource,
    /// Id in the source, if it has one.
    pub id: Option<String>,
    /// Key of the record in the plan.
    pub key: String,
    /// Name of the record.
    pub name: String,
    /// Why the step was not done.
    pub reason: String,
    /// Number of the step in the plan.
    #[serde(skip)]
    pub step: u32,
}

/// A record's ids in both accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedRecord {
    /// Id in the source.
    pub old: i64,
    /// Id in the target.
    pub new: i64,
    /// Name in the target.
    pub name: String,
    /// The addresses of the record in both accounts.
    pub addresses: Vec<MovedAddress>,
}

/// An address of a record in both accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedAddress {
    /// Name of the field.
    pub field: &'static str,
    /// The address in the source; empty if it has none.
    pub old: String,
    /// The address in the target; empty if it has none or is not known.
    pub new: String,
}

/// The result of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Name of the source's state, such as `main@#12`.
    pub from: String,
    /// Name of the target account.
    pub to: String,
    /// Id of the run; `None` if there was nothing to do.
    pub run: Option<RunId>,
    /// Counts by resource name and `campaign_links`.
    pub counts: BTreeMap<&'static str, MigrationCounts>,
    /// Records that exist in both accounts.
    pub ids: BTreeMap<Resource, Vec<MovedRecord>>,
    /// Tasks that the user must do by hand.
    pub manual: Vec<ManualTask>,
    /// Changes that the API cannot make.
    pub unsupported: Vec<UnsupportedChange>,
    /// Steps that were not done.
    pub failed: Vec<FailedRecord>,
    /// Number of records that filters exclude.
    pub excluded: BTreeMap<Resource, u64>,
    /// Resources that the options exclude.
    pub not_asked: Vec<Resource>,
    /// Records that exist in the target and whose content cannot be compared.
    pub unseen: Vec<ManualTask>,
    /// Values of the target that differ and are kept.
    pub kept: Vec<KeptValue>,
    /// What all runs of the migration did; empty if it is not known.
    pub history: MigrationHistory,
}

/// Records that a verification could not compare, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationGap {
    /// Resource of the records.
    pub resource: Resource,
    /// Ids in the source; empty for the whole resource and for records that a filter excludes.
    pub ids: Vec<String>,
    /// Why they were not compared.
    pub reason: String,
}

/// The key of campaign links in the counts: they are not a resource.
const LINKS: &str = "campaign_links";

impl MigrationReport {
    /// Counts the result. `undone` has the reasons of the steps that were not done, by step
    /// number; `ids` has the ids in the target.
    #[must_use]
    pub fn new(
        desired: &DesiredState,
        plan: &Plan,
        manual: Vec<ManualTask>,
        undone: &BTreeMap<u32, String>,
        ids: &BTreeMap<(Resource, i64), i64>,
    ) -> Self {
        let mut report = Self { manual, unsupported: plan.unsupported.clone(), ..Self::default() };
        let kept = plan.foreign.iter().flat_map(|it| &it.kept);
        report.kept = kept.cloned().collect();
        for resource in desired.resources.keys() {
            report.counts.entry(resource.name()).or_default();
        }
        for step in &plan.steps {
            report.step(step, undone.get(&step.step));
        }
        let unsupported: BTreeSet<_> =
            plan.unsupported.iter().map(|it| (it.resource, it.key.as_str())).collect();
        for (resource, key) in unsupported {
            report.count(resource, key).unsupported += 1;
        }
        let left = report.manual.iter().filter(|it| it.not_moved);
        for (resource, id) in left.map(|it| (it.resource, it.id.clone())).collect::<Vec<_>>() {
            report.count(resource, &id).unsupported += 1;
        }
        report.count_unchanged(desired, plan);
        for (resource, wanted) in &desired.resources {
            let moved = wanted.records.iter().filter_map(|row| {
                let old = row.id.filter(|_| *resource != Resource::ChannelItems)?;
                let field = if *resource == Resource::Domains { "domain" } else { "name" };
                let name = row.value(*resource, field).map(FieldValue::cell).unwrap_or_default();
                Some(MovedRecord {
                    old,
                    new: *ids.get(&(*resource, old))?,
                    name: name.into_owned(),
                    addresses: Vec::new(),
                })
            });
            let moved: Vec<_> = moved.collect();
            if !moved.is_empty() {
                report.ids.insert(*resource, moved);
            }
        }
        report
    }

    /// All records that were not compared or not moved, and values that the target keeps, by
    /// resource and reason. Does not list what the API never shows.
    #[must_use]
    pub fn gaps(&self) -> Vec<VerificationGap> {
        let mut gaps: BTreeMap<(Resource, String), Vec<String>> = BTreeMap::new();
        let mut add = |resource: Resource, reason: String, id: Option<&str>| {
            gaps.entry((resource, reason)).or_default().extend(id.map(str::to_owned));
        };
        for it in &self.unsupported {
            add(it.resource, it.reason.clone(), Some(&it.key));
        }
        for it in self.manual.iter().filter(|it| it.not_moved || it.unread) {
            add(it.resource, it.reason.clone(), Some(&*it.id).filter(|id| !id.is_empty()));
        }
        for it in &self.unseen {
            let reason = "not compared: the content is not known; give it with --qr-data";
            add(it.resource, reason.to_owned(), Some(&it.id));
        }
        for it in &self.kept {
            let why = if it.existing { "differs" } else { "was changed" };
            let reason = format!("`{}` {why} in {} and is kept", it.field, self.to);
            add(it.resource, reason, Some(&it.id.to_string()));
        }
        for (resource, count) in &self.excluded {
            add(*resource, format!("{count} not compared: excluded by --where"), None);
        }
        for resource in &self.not_asked {
            let reason = "not compared: excluded by --only or --skip";
            add(*resource, reason.to_owned(), None);
        }
        let gaps = gaps.into_iter();
        gaps.map(|((resource, reason), ids)| VerificationGap { resource, ids, reason }).collect()
    }

    fn count(&mut self, resource: Resource, key: &str) -> &mut MigrationCounts {
        let link = resource == Resource::Campaigns && key.contains("/links/");
        self.counts.entry(if link { LINKS } else { resource.name() }).or_default()
    }

    fn step(&mut self, step: &PlanStep, undone: Option<&String>) {
        let is_link = step.resource == Resource::Campaigns && step.verb == Verb::Assign;
        let counts = self.count(step.resource, if is_link { "/links/" } else { "" });
        match (step.verb, undone) {
            (_, Some(reason)) => {
                counts.failed += 1;
                let (key, name) = (step.key.clone(), step.name.clone());
                let (resource, reason, step) = (step.resource, reason.clone(), step.step);
                self.failed.push(FailedRecord { resource, id: None, key, name, reason, step });
            }
            (Verb::Update, None) => counts.matched += 1,
            (_, None) => counts.created += 1,
        }
    }

    fn count_unchanged(&mut self, desired: &DesiredState, plan: &Plan) {
        let unsupported = plan.unsupported.iter().map(|it| (it.resource, it.key.clone()));
        let unsupported: BTreeSet<_> = unsupported.collect();
        let updates = plan.steps.iter().filter(|step| step.verb == Verb::Update);
        let changed: BTreeSet<_> = updates.filter_map(|it| Some((it.resource, it.id?))).collect();
        for it in plan.foreign.iter().flat_map(|it| &it.matched) {
            // A record that cannot become equal is counted as unsupported.
            let is_unsupported = unsupported.contains(&(it.resource, it.old.to_string()));
            if !changed.contains(&(it.resource, it.new)) && !is_unsupported {
                self.count(it.resource, "").unchanged += 1;
            }
        }
        let items = desired.resources.get(&Resource::ChannelItems);
        // `--links` may map several links to one.
        let kind = |row: &DesiredRecord| {
            Some(row.value(Resource::ChannelItems, "type")?.cell().into_owned())
        };
        let items = items.into_iter().flat_map(|items| &items.records);
        let items: BTreeSet<_> = items.map(|row| (&row.channel, kind(row), row.id)).collect();
        let links = desired.campaign_links.iter().map(|it| (&it.campaign, it.link));
        let links: BTreeSet<_> = links.collect();
        let rest = [
            (Resource::ChannelItems, "", items.len()),
            (Resource::Campaigns, "/links/", links.len()),
        ];
        for (resource, mark, wanted) in rest.into_iter().filter(|(_, _, wanted)| *wanted > 0) {
            let is = |of: Resource, key: &str| of == resource && key.contains(mark);
            let assigns = |it: &&PlanStep| it.verb == Verb::Assign && it.resource == resource;
            let steps = plan.steps.iter().filter(assigns).count();
            let unsupported = unsupported.iter().filter(|it| is(it.0, &it.1)).count();
            self.count(resource, mark).unchanged =
                wanted.saturating_sub(steps + unsupported) as u64;
        }
    }

    /// The tasks by resource and reason.
    #[must_use]
    pub fn grouped(&self) -> Vec<(Resource, &str, Vec<&ManualTask>)> {
        let mut groups: BTreeMap<(Resource, &str), Vec<&ManualTask>> = BTreeMap::new();
        for it in &self.manual {
            groups.entry((it.resource, it.reason.as_str())).or_default().push(it);
        }
        groups.into_iter().map(|((resource, reason), all)| (resource, reason, all)).collect()
    }

    /// Adds the addresses of records: of the source from `desired`, of the target from `live`.
    pub fn add_addresses(&mut self, desired: &DesiredState, live: &State) {
        for (resource, moved) in &mut self.ids {
            let fields = addresses(*resource);
            let Some(wanted) = desired.resources.get(resource).filter(|_| !fields.is_empty())
            else {
                continue;
            };
            let rows: BTreeMap<_, _> =
                wanted.records.iter().filter_map(|row| Some((row.id?, row))).collect();
            for record in moved {
                let row = rows.get(&record.old);
                let live = live.get(*resource).and_then(|it| it.get(&RecordKey::Id(record.new)));
                let text = |value: Option<&FieldValue<'_>>| match value {
                    Some(FieldValue::Text(text)) => text.to_string(),
                    _ => String::new(),
                };
                let both = fields.iter().map(|field| {
                    let place = resource.spec().field(field).map(|(place, _)| place);
                    let new = place.and_then(|place| live?.values.get(place));
                    let old = row.and_then(|row| row.value(*resource, field));
                    MovedAddress { field, old: text(old), new: text(new) }
                });
                record.addresses =
                    both.filter(|it| !(it.old.is_empty() && it.new.is_empty())).collect();
            }
        }
    }
}

/// The fields that are addresses of a record.
const fn addresses(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Campaigns => &["rotator", "list"],
        Resource::QrCodes => &["link"],
        _ => &[],
    }
}
