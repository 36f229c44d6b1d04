//! Reasons why no plan can be made: invalid rows, and conflicts with changes in the account. All
//! of them are reported at once.

use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use crate::change::csv_files::{CsvProblem, CsvProblemKind, CsvProblems, OLD_NAME};
use crate::change::desired::{DesiredRecord, SourceLocation};
use crate::escaped::Escaped;
use crate::model::Resource;
use crate::suggest::did_you_mean_name;

/// A row that identifies no record, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRow {
    /// The resource of the row.
    pub resource: Resource,
    /// The row's id or else its natural key; empty if it has neither.
    pub key: String,
    /// The column with a name that no record has, if that is the problem.
    pub column: Option<&'static str>,
    /// The problem, as a sentence about the column, or as the end of one whose subject is the row.
    pub what: String,
    /// The row's file and line.
    pub source: Option<SourceLocation>,
}

/// Conflicts that the policy decided, so that a plan could be made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecidedConflicts {
    /// The account's values stay: these edits of the input are not written.
    pub kept: Vec<Conflict>,
    /// The input's values overwrite the account's.
    pub overwritten: Vec<Conflict>,
}

/// A change in the input that contradicts a change in the account since the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// The resource of the record.
    pub resource: Resource,
    /// The record's id.
    pub key: String,
    /// `None` if one side has deleted the record.
    pub field: Option<String>,
    /// The value in the base; for a deleted record, all its fields.
    pub base: Json,
    /// The input's value; `null` if the input has no such record.
    pub mine: Json,
    /// The account's value; `null` if the account has no such record.
    pub theirs: Json,
    /// The row's file and line.
    pub source: Option<SourceLocation>,
}

impl Conflict {
    /// The conflict in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let text = self.to_string();
        match text.split_once("\n  ") {
            Some((place, values)) => format!("{place}: {}", values.replace("\n  ", ", ")),
            None => text,
        }
    }
}

/// All reasons why no plan can be made. Displayed with one line or paragraph for each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanProblems {
    /// In the order in which planning found them.
    pub rows: Vec<InvalidRow>,
    /// In the order in which planning found them.
    pub conflicts: Vec<Conflict>,
}

impl PlanProblems {
    /// Whether the plan can be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.conflicts.is_empty()
    }

    /// Whether there are conflicts and no other problems.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.rows.is_empty() && !self.conflicts.is_empty()
    }
}

impl PlanProblems {
    /// The problems of rows with an old name that is not the name of exactly one record.
    #[must_use]
    pub fn unmatched(rows: &[(Resource, &DesiredRecord)]) -> Self {
        let row = |(resource, row): &(Resource, &DesiredRecord)| InvalidRow {
            resource: *resource,
            key: row.old_name.clone().unwrap_or_default(),
            column: Some(OLD_NAME),
            what: no_such_name(*resource, row.old_name.as_deref().unwrap_or_default(), &[]),
            source: row.source.clone(),
        };
        Self { rows: rows.iter().map(row).collect(), conflicts: Vec::new() }
    }

    /// The problems of rows in their places in files; `None` if some have no place.
    #[must_use]
    pub fn in_files(&self) -> Option<CsvProblems> {
        let mut problems = CsvProblems::default();
        for InvalidRow { resource, key, column, what, source } in &self.rows {
            let SourceLocation { file, line, row } = source.clone()?;
            let blank = if key.is_empty() { "" } else { " " };
            let (kind, what) = match column {
                Some(_) => (CsvProblemKind::UnknownName, what.clone()),
                None => (CsvProblemKind::Unmatched, format!("{resource}{blank}{key}: {what}")),
            };
            let line = Some(line?);
            let column = column.map(str::to_owned);
            problems.push(CsvProblem { file, line, row, column, kind, what });
        }
        (!problems.is_empty()).then_some(problems)
    }
}

/// The problem of a row with a `name` that is the name of no record. `names` are those of the records.
pub(super) fn no_such_name(resource: Resource, name: &str, names: &[&str]) -> String {
    let (title, near) = (resource.spec().title, did_you_mean_name(name, names.iter().copied()));
    format!("the account has no {title} called `{name}`{near}")
}

impl std::error::Error for PlanProblems {}

impl fmt::Display for PlanProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(ToString::to_string);
        let conflicts = self.conflicts.iter().map(ToString::to_string);
        let lines: Vec<_> = rows.chain(conflicts).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for InvalidRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.column, &self.source) {
            (Some(column), Some(source)) => write!(f, "{}: {column}: ", Escaped(source))?,
            (Some(column), None) => write!(f, "{}: {column}: ", self.resource)?,
            (None, source) => write_prefix(f, source.as_ref(), self.resource, &self.key)?,
        }
        write!(f, "{}", Escaped(&self.what))
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_prefix(f, self.source.as_ref(), self.resource, &self.key)?;
        match &self.field {
            Some(field) => write!(
                f,
                "{field}\n  before {}\n  wanted {}\n  in the account {}",
                Escaped(&self.base),
                Escaped(&self.mine),
                Escaped(&self.theirs)
            ),
            None if self.theirs.is_null() => {
                f.write_str("was edited in the input and is gone from the account")
            }
            None => f.write_str("would be deleted and has changed in the account"),
        }
    }
}

fn write_prefix(
    f: &mut fmt::Formatter<'_>,
    source: Option<&SourceLocation>,
    resource: Resource,
    key: &str,
) -> fmt::Result {
    if let Some(source) = source {
        write!(f, "{}: ", Escaped(source))?;
    }
    let blank = if key.is_empty() { "" } else { " " };
    write!(f, "{resource}{blank}{}: ", Escaped(key))
}
