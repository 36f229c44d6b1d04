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
    /// Whether `live` records of a resource may be deleted because the desired state lists others, or
    /// none: a list that was emptied by mistake deletes nothing before the limit was raised.
    #[must_use]
    pub fn deletes_missing(&self, desired: usize, live: usize) -> bool {
        self.delete && (desired > 0 || self.max_delete.allows_all(live as u64))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            delete: false,
            max_delete: CountOrPercent::default(),
            max_update: CountOrPercent::default(),
            on_conflict: OnConflict::Fail,
            account: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_deletes_only_after_the_limit_was_raised() {
        let of = |max_delete| Policy { delete: true, max_delete, ..Policy::default() };
        let usual = of(CountOrPercent::default());
        assert!(usual.deletes_missing(1, 40) && !usual.deletes_missing(0, 3));
        assert!(!of(CountOrPercent::Count(2)).deletes_missing(0, 3));
        assert!(of(CountOrPercent::Count(3)).deletes_missing(0, 3));
        assert!(of(CountOrPercent::Percent(100.0)).deletes_missing(0, 3));
        assert!(!Policy::default().deletes_missing(1, 3));
    }
}
