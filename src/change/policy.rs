//! What a plan may do, and who wins where two people changed the same thing.

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

/// How many records of a resource may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Count(u64),
    /// Of what the account has of a resource; it binds from ten records on.
    Percent(u8),
}

/// What the person allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Without it, nothing is deleted.
    pub delete: bool,
    pub max_delete: Bound,
    pub max_update: Bound,
    pub on_conflict: OnConflict,
    /// Whether the account's own record may be changed.
    pub account: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            delete: false,
            max_delete: Bound::Percent(30),
            max_update: Bound::Percent(30),
            on_conflict: OnConflict::Fail,
            account: false,
        }
    }
}
