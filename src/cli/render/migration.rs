//! Shows the parts of a migration: the manual work, values that are kept, and its flags.

use crate::change::plan::KeptValue;
use crate::cli::{CliError, Output, TextTable};
use crate::migrate::{ManualTask, MigrationReport};
use crate::ops::migration_flags::MigrationFlags;

/// Prints the tasks to do by hand, one line for each kind.
pub fn manual_tasks(out: &Output, manual: &[ManualTask]) -> Result<(), CliError> {
    const SHOWN: usize = 5;
    if manual.is_empty() || out.is_json() {
        return Ok(());
    }
    let report = MigrationReport { manual: manual.to_vec(), ..MigrationReport::default() };
    let mut table = TextTable::new(&["to be done by hand", "old ids", "why, and what to do"]);
    for (resource, reason, all) in report.grouped() {
        let named: Vec<_> = all.iter().filter(|it| !it.id.is_empty()).collect();
        let first: Vec<_> = named.iter().take(SHOWN).map(|it| it.id.as_str()).collect();
        let mut ids = first.join(" ");
        if named.len() > SHOWN {
            ids += &format!(" and {} more", named.len() - SHOWN);
        }
        table.row([resource.name(), &ids, reason]);
    }
    out.summary("")?;
    out.summary(table.render(out.table_width()))
}

/// Prints the values of the target `to` that differ and are kept.
pub fn kept(out: &Output, to: &str, kept: &[KeptValue]) {
    const SHOWN: usize = 20;
    for it in kept.iter().take(SHOWN) {
        let why = if it.existing { "" } else { ", where it was changed since the last move" };
        out.note(format_args!(
            "kept: `{}` of {} {} is {} in {to}{why}",
            it.field, it.resource, it.id, it.target
        ));
    }
    let more = kept.len().saturating_sub(SHOWN);
    if more > 0 {
        out.note(format_args!("kept: {more} more; --json lists them"));
    }
}

/// Flags as on a command line, each with its value.
#[must_use]
pub fn flags(flags: &MigrationFlags) -> Vec<String> {
    let quoted = |text: String| {
        let plain = |letter: char| letter.is_alphanumeric() || "/._:=,-+@%".contains(letter);
        if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    let mut words = Vec::new();
    let mut add = |flag: &str, value: String| words.push(format!("{flag} {}", quoted(value)));
    let names = |all: &[crate::model::Resource]| {
        all.iter().map(|it| it.name()).collect::<Vec<_>>().join(",")
    };
    for (flag, resources) in [("--only", &flags.only), ("--skip", &flags.skip)] {
        if !resources.is_empty() {
            add(flag, names(resources));
        }
    }
    flags.wheres.iter().for_each(|it| add("--where", it.to_string()));
    flags.set.iter().for_each(|it| add("--set", it.to_string()));
    for (flag, file) in [("--links", &flags.links), ("--qr-data", &flags.qr_data)] {
        if let Some(file) = file {
            add(flag, file.display().to_string());
        }
    }
    if flags.link_codes {
        add("--qr-content", "link".to_owned());
    }
    if flags.keep_existing {
        words.push("--keep-existing".to_owned());
    }
    words
}
