//! The fuzz targets. Each takes any bytes and asserts properties of the code
//! that reads them; a panic is a finding.

mod config;
mod csv;
mod envelope;
mod plan;
mod record;
mod reference;
mod schedule;
mod web;
mod workbook;

/// One fuzz target. Its seeds are the files in `fuzz/corpus/NAME`.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Words of its input language, for mutations without coverage.
    pub words: &'static [&'static str],
}

/// All targets.
pub const ALL: [Target; 9] = [
    Target { name: "envelope", run: envelope::run, words: envelope::WORDS },
    Target { name: "record", run: record::run, words: record::WORDS },
    Target { name: "csv", run: csv::run, words: csv::WORDS },
    Target { name: "plan", run: plan::run, words: plan::WORDS },
    Target { name: "config", run: config::run, words: config::WORDS },
    Target { name: "reference", run: reference::run, words: reference::WORDS },
    Target { name: "schedule", run: schedule::run, words: schedule::WORDS },
    Target { name: "web", run: web::run, words: web::WORDS },
    Target { name: "workbook", run: workbook::run, words: workbook::WORDS },
];

/// The target called `name`.
#[allow(dead_code, reason = "the tests of the main package run them all")]
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

/// The first byte, which chooses between variants of a target, and the rest.
fn choice(input: &[u8]) -> (usize, &[u8]) {
    input.split_first().map_or((0, input), |(first, rest)| (usize::from(*first), rest))
}

/// Asserts that text for a person fits a few lines and cannot control a terminal.
#[track_caller]
fn assert_readable(text: &str, most: usize) {
    assert!(text.chars().count() <= most, "{} characters: {text:.200}", text.chars().count());
    let control = text.chars().find(|it| it.is_control() && *it != '\n');
    assert_eq!(control, None, "{text:?}");
}
