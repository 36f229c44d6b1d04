//! How the service divides a list into pages, and what reading one takes.

/// What a list tells of the number of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Total {
    Untold,
    /// That of each page, or it is not known which.
    #[default]
    OfPage,
    OfList,
}

/// How the service divides a list into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// Records of a full page.
    pub size: u64,
    pub total: Total,
    /// Whether each page tells which one is the last.
    pub last: bool,
}

impl Default for Paging {
    /// What is assumed of a list that was not read.
    fn default() -> Self {
        Self { size: 1000, total: Total::OfPage, last: true }
    }
}

impl Paging {
    /// Requests that read a list of `count` records until it is proven, where `gone` were
    /// deleted since it was read last. Never less than it takes.
    #[must_use]
    pub fn requests(self, count: u64, gone: u64) -> u64 {
        let size = self.size.max(1);
        let full = count > 0 && count.is_multiple_of(size);
        // Where nothing tells which page is the last, one that is not full does.
        let pages = count.div_ceil(size).max(1) + u64::from(full && !self.last);
        let told = self.total == Total::OfList;
        let twice = pages > 2 && !told && !self.last;
        let unclear = count == 0 || self.total == Total::Untold || (pages > 1 && !told);
        let again = if twice || (gone > 0 && unclear) { pages } else { gone.min(pages - 1) };
        let first = u64::from(pages > 1);
        let tail = u64::from(pages > 2 && !told && self.last);
        pages.saturating_add(first + tail).saturating_add(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_several_pages_costs_what_proves_it() {
        let paging = |total, last| Paging { size: 10, total, last };
        let of = |total, last, counts: [u64; 5]| {
            counts.map(|count| paging(total, last).requests(count, 0))
        };
        let counts = [0, 10, 11, 20, 25];
        assert_eq!(of(Total::OfList, true, counts), [1, 1, 3, 3, 4]);
        assert_eq!(of(Total::OfPage, true, counts), [1, 1, 3, 3, 5]);
        assert_eq!(of(Total::OfPage, false, counts), [1, 3, 3, 7, 7]);
        let gone = |total, count, gone| paging(total, true).requests(count, gone);
        assert_eq!([1, 9].map(|count| gone(Total::OfPage, count, 3)), [1, 1]);
        assert_eq!([0, 9].map(|count| gone(Total::Untold, count, 3)), [2, 2]);
        assert_eq!([1, 2, 3].map(|it| gone(Total::OfList, 25, it)), [5, 6, 6]);
        assert_eq!(gone(Total::OfPage, 25, 1), 8);
    }
}
