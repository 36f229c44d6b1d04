//! Why there is no plan: rows that cannot be understood, and cells that two
//! people changed. All of them are told at once.

use std::fmt;

use serde_json::Value as Json;

use crate::change::desired::SourceLocation;
use crate::escaped::Escaped;
use crate::model::Resource;

/// A row that means no record, or more than one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRow {
    pub resource: Resource,
    /// What the row calls itself, as far as it does.
    pub key: String,
    pub what: String,
    pub source: Option<SourceLocation>,
}

/// What was changed here and there, each in another way.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    pub resource: Resource,
    pub key: String,
    /// `None` where one side has no such record any more.
    pub field: Option<String>,
    pub base: Json,
    /// `null` for a record that is not wanted any more.
    pub mine: Json,
    /// `null` for a record that is gone.
    pub theirs: Json,
    pub source: Option<SourceLocation>,
}

/// Everything that keeps a plan from being made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanProblems {
    pub rows: Vec<InvalidRow>,
    pub conflicts: Vec<Conflict>,
}

impl PlanProblems {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.conflicts.is_empty()
    }

    /// Whether nothing but conflicts is in the way.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.rows.is_empty() && !self.conflicts.is_empty()
    }
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
        start(f, self.source.as_ref(), self.resource, &self.key)?;
        write!(f, "{}", Escaped(&self.what))
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        start(f, self.source.as_ref(), self.resource, &self.key)?;
        match &self.field {
            Some(field) => write!(
                f,
                "{field}\n  was {}\n  here {}\n  in the account {}",
                Escaped(&self.base),
                Escaped(&self.mine),
                Escaped(&self.theirs)
            ),
            None if self.theirs.is_null() => {
                f.write_str("was edited here and is gone from the account")
            }
            None => f.write_str("was removed here and has changed in the account"),
        }
    }
}

fn start(
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
