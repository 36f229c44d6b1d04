//! What a plan may do, and who wins where two people changed the same thing.

use crate::model::CountOrPercent;

/// What happens to a cell that was edited here and has changed there as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Nothing is written.
    #[default]
    Fail,
    /// The edited value is pushed.
    Mine,
    /// The account keeps its value.
    Theirs,
}

/// What the person allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Without it, nothing is deleted.
    pub delete: bool,
    pub max_delete: CountOrPercent,
    pub max_update: CountOrPercent,
    pub on_conflict: OnConflict,
    /// Whether the account's own record may be changed.
    pub account: bool,
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
