//! Records that a list contains more than once.

use serde::{Deserialize, Serialize};

use super::proof::PageEvidence;
use crate::model::{RecordProblem, Resource};

/// Number of repeats in a proven list, and examples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DuplicateRecords {
    /// Repeats with the same fields.
    pub equal_repeats: u64,
    pub first_equal_repeat: Option<String>,
    /// Repeats with other fields.
    pub differing_repeats: u64,
    pub first_differing_repeat: Option<String>,
}

impl DuplicateRecords {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The repeats on all of `pages`.
    pub fn of(pages: &[PageEvidence]) -> Self {
        let mut all = Self::default();
        for page in pages {
            all.add(&Self {
                equal_repeats: page.repeats.saturating_sub(page.differing_repeats),
                first_equal_repeat: page.first_equal_repeat.clone(),
                differing_repeats: page.differing_repeats,
                first_differing_repeat: page.first_differing_repeat.clone(),
            });
        }
        all
    }

    /// Adds those of another list of the same resource.
    pub fn add(&mut self, other: &Self) {
        self.equal_repeats += other.equal_repeats;
        self.differing_repeats += other.differing_repeats;
        self.first_equal_repeat =
            self.first_equal_repeat.take().or_else(|| other.first_equal_repeat.clone());
        self.first_differing_repeat =
            self.first_differing_repeat.take().or_else(|| other.first_differing_repeat.clone());
    }

    /// One warning for each kind of repeat.
    pub fn problems(&self, resource: Resource) -> Vec<RecordProblem> {
        let more = |count: u64| match count {
            0 | 1 => String::new(),
            2 => ", and so is 1 more record".to_owned(),
            count => format!(", and so are {} more records", count - 1),
        };
        let twin = self.first_equal_repeat.as_ref().map(|id| RecordProblem {
            resource,
            id: id.clone(),
            what: format!(
                "is listed more than once{}; each counts as one record",
                more(self.equal_repeats)
            ),
        });
        let differing_repeats = self.first_differing_repeat.as_ref().map(|id| RecordProblem {
            resource,
            id: id.clone(),
            what: format!(
                "is listed more than once with different values{}; the last one is kept",
                more(self.differing_repeats)
            ),
        });
        twin.into_iter().chain(differing_repeats).collect()
    }
}
