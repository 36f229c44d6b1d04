//! What a plan may do, and how conflicts are resolved.

use crate::model::CountOrPercent;

/// What happens to a value that was changed both in the file and in the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The plan is refused.
    #[default]
    Fail,
    /// The value of the file is written.
    Mine,
    /// The account keeps its value.
    Theirs,
}

/// What the user allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Whether records may be deleted.
    pub delete: bool,
    /// Whether a list without any record deletes all records of its resource. By itself it deletes
    /// nothing, because a file may have been emptied by mistake.
    pub allow_empty: bool,
    /// The most records of a resource that may be deleted.
    pub max_delete: CountOrPercent,
    /// The most records of a resource that may be updated.
    pub max_update: CountOrPercent,
    /// What happens on conflicts.
    pub on_conflict: OnConflict,
    /// Whether the account's own record may be changed.
    pub account: bool,
}

impl Policy {
    /// Whether records are deleted that a list of `desired` records lacks.
    #[must_use]
    pub const fn deletes_missing(&self, desired: usize) -> bool {
        self.delete && (desired > 0 || self.allow_empty)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            delete: false,
            allow_empty: false,
            max_delete: CountOrPercent::default(),
            max_update: CountOrPercent::default(),
            on_conflict: OnConflict::Fail,
            account: false,
        }
    }
}
