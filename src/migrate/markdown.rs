//! The report of a migration as Markdown, for a mail: short lines and lists, no tables.

use std::fmt::{self, Write};

use super::history::{MigrationHistory, MigrationParty};
use super::report::{MigrationReport, MovedAddress, MovedRecord};
use crate::change::render::escaped;
use crate::model::Resource;

impl MigrationReport {
    /// The report as Markdown.
    ///
    /// # Errors
    /// When writing to `out` fails.
    pub fn markdown(&self, out: &mut impl Write) -> fmt::Result {
        let history = &self.history;
        writeln!(out, "# Migration from {} to {}\n", escaped(&self.from), escaped(&self.to))?;
        if !history.date.is_empty() {
            writeln!(out, "As of {}.\n", escaped(&history.date))?;
            party(out, "From", &history.from)?;
            party(out, "To", &history.to)?;
            writeln!(out)?;
        }
        runs(out, history)?;
        self.verification(out)?;
        self.records(out)?;
        self.left_out(out)?;
        if !self.kept.is_empty() {
            writeln!(out, "## Different in the target and kept\n")?;
            for it in &self.kept {
                let (field, value) = (escaped(&it.field), escaped(&it.target.to_string()));
                writeln!(out, "- {} {}: {field} is {value}", name(it.resource), it.id)?;
            }
            writeln!(out)?;
        }
        self.failures(out)?;
        self.by_hand(out)?;
        if !self.unsupported.is_empty() {
            writeln!(out, "## Not supported\n")?;
            for it in &self.unsupported {
                let (key, reason) = (escaped(&it.key), escaped(&it.reason));
                writeln!(out, "- {} {key}: {reason}", name(it.resource))?;
            }
            writeln!(out)?;
        }
        self.moved(out)
    }

    fn verification(&self, out: &mut impl Write) -> fmt::Result {
        let history = &self.history;
        if history.date.is_empty() {
            return Ok(());
        }
        writeln!(out, "## Verification\n")?;
        if !history.is_verified {
            return writeln!(out, "The accounts were not compared.\n");
        }
        let (gaps, missing) = (self.gaps(), self.failed.len() as u64);
        match (missing, gaps.is_empty()) {
            (0, true) => writeln!(out, "The accounts were compared and have the same records.\n")?,
            (0, false) => writeln!(out, "Everything that was compared is equal.\n")?,
            (missing, _) => {
                let differences = if missing == 1 { "difference" } else { "differences" };
                writeln!(
                    out,
                    "The accounts were compared: {missing} {differences}, see \"Not done\".\n"
                )?;
            }
        }
        if !gaps.is_empty() {
            writeln!(out, "Not compared, or not possible:\n")?;
            for gap in gaps {
                let ids = match gap.ids.len() {
                    0 => String::new(),
                    1..=5 => format!(" {}", escaped(&gap.ids.join(", "))),
                    more => format!(" ({more} records)"),
                };
                writeln!(out, "- {}{ids}: {}", name(gap.resource), escaped(&gap.reason))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn records(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "## Records\n")?;
        let history = &self.history;
        for (resource, it) in &self.counts {
            let (created, updated, existed) = if history.date.is_empty() {
                (it.created, it.matched, it.unchanged)
            } else {
                let (created, updated) = history.totals.get(resource).copied().unwrap_or_default();
                (created, updated, self.existed(resource, it.unchanged, created))
            };
            let parts = [
                (created, "created"),
                (updated, "updated"),
                (existed, "in the target before"),
                (it.unsupported, "not completely supported"),
                (it.failed, "not done"),
            ];
            let parts = parts.iter().filter(|(count, _)| *count > 0);
            let parts: Vec<_> = parts.map(|(count, word)| format!("{count} {word}")).collect();
            let text = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
            writeln!(out, "- {}: {text}", resource.replace('_', " "))?;
        }
        writeln!(out)
    }

    /// The number of records that were in the target before the migration.
    fn existed(&self, name: &str, unchanged: u64, created: u64) -> u64 {
        match Resource::from_name(name).and_then(|it| Some((it, self.ids.get(&it)?))) {
            Some((resource, moved)) => {
                let ours = |it: &&MovedRecord| self.history.has_created(resource, it.old);
                (moved.len() - moved.iter().filter(ours).count()) as u64
            }
            None => unchanged.saturating_sub(created),
        }
    }

    fn left_out(&self, out: &mut impl Write) -> fmt::Result {
        if self.excluded.is_empty() && self.not_asked.is_empty() {
            return Ok(());
        }
        writeln!(out, "## Excluded by options\n")?;
        for (resource, count) in &self.excluded {
            let name = name(*resource);
            writeln!(
                out,
                "- {name}: {count}, excluded by `--where` or belonging to an excluded record"
            )?;
        }
        for resource in &self.not_asked {
            writeln!(out, "- {}: all, excluded by `--only` or `--skip`", name(*resource))?;
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
            let text = if it.name.is_empty() { &it.key } else { &it.name };
            let text = if text == key { String::new() } else { escaped(text) };
            let (key, reason) = (escaped(key), escaped(&it.reason));
            let blank = if text.is_empty() { "" } else { " " };
            writeln!(out, "- {} {key}{blank}{text}: {reason}", name(it.resource))?;
        }
        writeln!(out)
    }

    fn by_hand(&self, out: &mut impl Write) -> fmt::Result {
        if self.manual.is_empty() {
            return Ok(());
        }
        writeln!(out, "## To do by hand\n")?;
        for (resource, reason, all) in self.grouped() {
            writeln!(out, "- {}: {}", name(resource), escaped(reason))?;
            for it in all.iter().filter(|it| !it.id.is_empty()) {
                let text = escaped(&it.name);
                let blank = if text.is_empty() { "" } else { " " };
                writeln!(out, "  - {}{blank}{text}", escaped(&it.id))?;
            }
        }
        writeln!(out)
    }

    /// Old and new ids and addresses.
    fn moved(&self, out: &mut impl Write) -> fmt::Result {
        for (resource, moved) in &self.ids {
            let has_addresses = moved.iter().any(|it| !it.addresses.is_empty());
            let what = if has_addresses { "ids and addresses" } else { "ids" };
            writeln!(out, "## Old and new {what} of {}\n", name(*resource))?;
            for MovedRecord { old, new, name, addresses } in moved {
                let blank = if name.is_empty() { "" } else { " " };
                writeln!(out, "- {old} → {new}{blank}{}", escaped(name))?;
                for MovedAddress { field, old, new } in addresses {
                    writeln!(out, "  - {field}: {}\n    → {}", address(old), address(new))?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

fn runs(out: &mut impl Write, history: &MigrationHistory) -> fmt::Result {
    if history.date.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Runs\n")?;
    if history.runs.is_empty() {
        return writeln!(out, "Nothing was written yet.\n");
    }
    for run in &history.runs {
        let (number, begun) = (run.number, escaped(&run.begun));
        let steps = match (run.done, run.undone) {
            (0, 0) => "nothing to do".to_owned(),
            (done, 0) => format!("{done} done"),
            (done, undone) => format!("{done} done, {undone} not done"),
        };
        writeln!(out, "- Run {number}, {begun}: {}, {}; {steps}", run.command, run.status)?;
    }
    writeln!(out)
}

fn party(out: &mut impl Write, side: &str, party: &MigrationParty) -> fmt::Result {
    let MigrationParty { name, service, account, email } = party;
    let email = if email.is_empty() { String::new() } else { format!(" ({})", escaped(email)) };
    let service = address(service);
    writeln!(out, "- {side}: {}, {service}, account {}{email}", escaped(name), escaped(account))
}

/// The name of a resource without characters that Markdown would escape.
fn name(resource: Resource) -> String {
    resource.name().replace('_', " ")
}

/// A URL as Markdown that needs no escapes, if it is one.
fn address(url: &str) -> String {
    let plain = |it: char| it.is_ascii_graphic() && !"<>".contains(it);
    match url {
        "" => "none".to_owned(),
        url if url.contains("://") && url.chars().all(plain) => format!("<{url}>"),
        url => escaped(url),
    }
}
