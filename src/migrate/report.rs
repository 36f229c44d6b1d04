//! What came of a move, counted for each resource, and as Markdown that can be
//! handed to whoever asked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use serde::Serialize;

use super::Manual;
use crate::change::desired::Desired;
use crate::change::plan::{Plan, Step, Unsupported};
use crate::change::render::escaped;
use crate::model::{Resource, Value, Verb};

/// How many records of one resource fared how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Made by this run.
    pub created: u64,
    /// There before, and changed by this run to be the same.
    pub matched: u64,
    /// There before, and the same already.
    pub unchanged: u64,
    /// Not moved, since the API cannot, or not all of it.
    pub unsupported: u64,
    /// Not done: refused, skipped, or not known.
    pub failed: u64,
}

/// A step that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    pub resource: Resource,
    pub key: String,
    pub name: String,
    pub reason: String,
}

/// A record's ids in both accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub old: i64,
    pub new: i64,
    pub name: String,
}

/// What came of a move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The state that was moved: `main@#12`.
    pub from: String,
    /// The account it was moved to.
    pub to: String,
    /// `None` where there was nothing to do.
    pub run: Option<i64>,
    /// By resource, and `campaign_links`.
    pub counts: BTreeMap<&'static str, Counts>,
    pub ids: BTreeMap<Resource, Vec<Moved>>,
    pub manual: Vec<Manual>,
    pub unsupported: Vec<Unsupported>,
    pub failed: Vec<Failed>,
}

/// The links of campaigns, which are no resource of their own.
const LINKS: &str = "campaign_links";

impl Report {
    /// Counts. `undone` are the steps that were not done, and why; `ids` what
    /// stands for what in the other account.
    #[must_use]
    pub fn new(
        desired: &Desired,
        plan: &Plan,
        manual: Vec<Manual>,
        undone: &BTreeMap<u32, String>,
        ids: &BTreeMap<(Resource, i64), i64>,
    ) -> Self {
        let mut report = Self { manual, unsupported: plan.unsupported.clone(), ..Self::default() };
        for resource in desired.resources.keys() {
            report.counts.entry(resource.name()).or_default();
        }
        for step in &plan.steps {
            report.step(step, undone.get(&step.step));
        }
        for it in &plan.unsupported {
            report.count(it.resource, &it.key).unsupported += 1;
        }
        let left = report.manual.iter().filter(|it| it.left);
        for (resource, id) in left.map(|it| (it.resource, it.id.clone())).collect::<Vec<_>>() {
            report.count(resource, &id).unsupported += 1;
        }
        report.the_same(desired, plan);
        for (resource, wanted) in &desired.resources {
            let moved = wanted.records.iter().filter_map(|row| {
                let old = row.id.filter(|_| *resource != Resource::ChannelItems)?;
                let field = if *resource == Resource::Domains { "domain" } else { "name" };
                let name = row.value(*resource, field).map(Value::cell).unwrap_or_default();
                Some(Moved { old, new: *ids.get(&(*resource, old))?, name: name.into_owned() })
            });
            let moved: Vec<_> = moved.collect();
            if !moved.is_empty() {
                report.ids.insert(*resource, moved);
            }
        }
        report
    }

    fn count(&mut self, resource: Resource, key: &str) -> &mut Counts {
        let link = resource == Resource::Campaigns && key.contains("/links/");
        self.counts.entry(if link { LINKS } else { resource.name() }).or_default()
    }

    fn step(&mut self, step: &Step, undone: Option<&String>) {
        let counts = self.count(step.resource, &step.key);
        match (step.verb, undone) {
            (_, Some(reason)) => {
                counts.failed += 1;
                let (key, name) = (step.key.clone(), step.name.clone());
                let reason = reason.clone();
                self.failed.push(Failed { resource: step.resource, key, name, reason });
            }
            (Verb::Update, None) => counts.matched += 1,
            (_, None) => counts.created += 1,
        }
    }

    fn the_same(&mut self, desired: &Desired, plan: &Plan) {
        let updates = plan.steps.iter().filter(|step| step.verb == Verb::Update);
        let changed: BTreeSet<_> = updates.filter_map(|it| Some((it.resource, it.id?))).collect();
        for it in plan.foreign.iter().flat_map(|it| &it.matched) {
            if !changed.contains(&(it.resource, it.new)) {
                self.count(it.resource, "").unchanged += 1;
            }
        }
        let items = desired.resources.get(&Resource::ChannelItems);
        let items = items.map_or(0, |items| items.records.len());
        let rest = [
            (Resource::ChannelItems, "", items),
            (Resource::Campaigns, "/links/", desired.campaign_links.len()),
        ];
        for (resource, mark, wanted) in rest.into_iter().filter(|(_, _, wanted)| *wanted > 0) {
            let is = |of: Resource, key: &str| of == resource && key.contains(mark);
            let assigns = |it: &&Step| it.verb == Verb::Assign && is(it.resource, &it.key);
            let steps = plan.steps.iter().filter(assigns).count();
            let odd = plan.unsupported.iter().filter(|it| is(it.resource, &it.key)).count();
            self.count(resource, mark).unchanged = wanted.saturating_sub(steps + odd) as u64;
        }
    }

    /// The report as Markdown.
    ///
    /// # Errors
    /// When `out` does not take it.
    pub fn markdown(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "# From {} to {}\n", escaped(&self.from), escaped(&self.to))?;
        match self.run {
            Some(run) => writeln!(out, "Run {run} of {}.\n", escaped(&self.to))?,
            None => writeln!(out, "Nothing was written this time.\n")?,
        }
        writeln!(out, "| | created | matched | unchanged | unsupported | failed |")?;
        writeln!(out, "|---|---:|---:|---:|---:|---:|")?;
        for (name, it) in &self.counts {
            let Counts { created, matched, unchanged, unsupported, failed } = it;
            let name = escaped(name);
            writeln!(
                out,
                "| {name} | {created} | {matched} | {unchanged} | {unsupported} | {failed} |"
            )?;
        }
        writeln!(
            out,
            "\ncreated: made by this run · matched: there before, and changed to be the same · \
             unchanged: there before, and the same · unsupported: the API cannot, see below · \
             failed: not done\n"
        )?;
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
            for Moved { old, new, name } in moved {
                writeln!(out, "| {old} | {new} | {} |", escaped(name))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn failures(&self, out: &mut impl Write) -> fmt::Result {
        if self.failed.is_empty() {
            return Ok(());
        }
        writeln!(out, "## Not done\n")?;
        for it in &self.failed {
            let (key, reason) = (escaped(&it.key), escaped(&it.reason));
            let name = if it.name == it.key { String::new() } else { escaped(&it.name) };
            let blank = if name.is_empty() { "" } else { " " };
            writeln!(out, "- {} {key}{blank}{name}: {reason}", escaped(it.resource.name()))?;
        }
        writeln!(out)
    }

    fn by_hand(&self, out: &mut impl Write) -> fmt::Result {
        if self.manual.is_empty() {
            return Ok(());
        }
        writeln!(out, "## To be done by hand\n")?;
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

    /// What is to be done by hand, by what it is.
    #[must_use]
    pub fn grouped(&self) -> Vec<(Resource, &str, Vec<&Manual>)> {
        let mut groups: BTreeMap<(Resource, &str), Vec<&Manual>> = BTreeMap::new();
        for it in &self.manual {
            groups.entry((it.resource, it.reason.as_str())).or_default().push(it);
        }
        groups.into_iter().map(|((resource, reason), all)| (resource, reason, all)).collect()
    }
}
