//! The result of a migration, counted by resource and as a Markdown report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use serde::Serialize;

use super::ManualTask;
use crate::change::desired::{DesiredRecord, DesiredState};
use crate::change::plan::{KeptValue, Plan, PlanStep, UnsupportedChange};
use crate::change::render::escaped;
use crate::model::{FieldValue, Resource, RunId, Verb};

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
    /// Values that were changed in the target since the last migration and are kept.
    pub kept: Vec<KeptValue>,
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

    /// The report as Markdown.
    ///
    /// # Errors
    /// When writing to `out` fails.
    pub fn markdown(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "# From {} to {}\n", escaped(&self.from), escaped(&self.to))?;
        match self.run {
            Some(run) => writeln!(out, "Run {run} of {}.\n", escaped(&self.to))?,
            None => writeln!(out, "This run wrote nothing.\n")?,
        }
        writeln!(out, "| | created | matched | unchanged | unsupported | failed |")?;
        writeln!(out, "|---|---:|---:|---:|---:|---:|")?;
        for (name, it) in &self.counts {
            let MigrationCounts { created, matched, unchanged, unsupported, failed } = it;
            let name = escaped(name);
            writeln!(
                out,
                "| {name} | {created} | {matched} | {unchanged} | {unsupported} | {failed} |"
            )?;
        }
        writeln!(
            out,
            "\ncreated: created by this run · matched: existed and was updated by this run · \
             unchanged: existed and was not updated · unsupported: the API cannot move all of \
             it, see below · failed: not done\n"
        )?;
        self.left_out(out)?;
        if !self.kept.is_empty() {
            writeln!(out, "## Different in the target and kept\n")?;
            for it in &self.kept {
                let (field, value) = (escaped(&it.field), escaped(&it.target.to_string()));
                writeln!(out, "- {} {}: {field} is {value}", escaped(it.resource.name()), it.id)?;
            }
            writeln!(out)?;
        }
        self.failures(out)?;
        self.by_hand(out)?;
        if !self.unsupported.is_empty() {
            writeln!(out, "## Not supported\n")?;
            for it in &self.unsupported {
                let (key, reason) = (escaped(&it.key), escaped(&it.reason));
                writeln!(out, "- {} {key}: {reason}", escaped(it.resource.name()))?;
            }
            writeln!(out)?;
        }
        for (resource, moved) in &self.ids {
            writeln!(out, "## Ids of {}\n", escaped(resource.name()))?;
            writeln!(out, "| old id | new id | name |\n|---:|---:|---|")?;
            for MovedRecord { old, new, name } in moved {
                writeln!(out, "| {old} | {new} | {} |", escaped(name))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn left_out(&self, out: &mut impl Write) -> fmt::Result {
        if self.excluded.is_empty() && self.not_asked.is_empty() {
            return Ok(());
        }
        writeln!(out, "## Excluded by options\n")?;
        for (resource, count) in &self.excluded {
            let name = escaped(resource.name());
            writeln!(
                out,
                "- {name}: {count}, excluded by `--where` or belonging to an excluded record"
            )?;
        }
        for resource in &self.not_asked {
            writeln!(out, "- {}: all, excluded by `--only` or `--skip`", escaped(resource.name()))?;
        }
        writeln!(out)
    }

    fn failures(&self, out: &mut impl Write) -> fmt::Result {
        if self.failed.is_empty() {
            return Ok(());
        }
        writeln!(out, "## Not done\n")?;
        for it in &self.failed {
            let key = it.id.as_ref().unwrap_or(&it.key);
            let name = if it.name.is_empty() { &it.key } else { &it.name };
            let name = if name == key { String::new() } else { escaped(name) };
            let (key, reason) = (escaped(key), escaped(&it.reason));
            let blank = if name.is_empty() { "" } else { " " };
            writeln!(out, "- {} {key}{blank}{name}: {reason}", escaped(it.resource.name()))?;
        }
        writeln!(out)
    }

    fn by_hand(&self, out: &mut impl Write) -> fmt::Result {
        if self.manual.is_empty() {
            return Ok(());
        }
        writeln!(out, "## To do by hand\n")?;
        for (resource, reason, all) in self.grouped() {
            writeln!(out, "- {}: {}", escaped(resource.name()), escaped(reason))?;
            for it in all.iter().filter(|it| !it.id.is_empty()) {
                let name = escaped(&it.name);
                let blank = if name.is_empty() { "" } else { " " };
                writeln!(out, "  - {}{blank}{name}", escaped(&it.id))?;
            }
        }
        writeln!(out)
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
}
