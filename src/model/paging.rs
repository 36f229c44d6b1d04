//! How the service divides a list into pages, and how many requests reading it takes.

/// The meaning of the record total that the pages of a list report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Total {
    /// Pages do not report a total.
    Unreported,
    /// Each page reports its own records, or the meaning is unknown.
    #[default]
    OfPage,
    /// Each page reports the records of the whole list.
    OfList,
}

/// How the service divides a list into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// Number of records of a full page.
    pub size: u64,
    /// What the `total` of a page counts.
    pub total: Total,
    /// Whether each page reports the number of the last page.
    pub last: bool,
}

impl Default for Paging {
    /// The assumption for a list that was never read.
    fn default() -> Self {
        Self { size: 1000, total: Total::OfPage, last: true }
    }
}

impl Paging {
    /// The number of requests that read a list of `count` records until it is proven, when `gone`
    /// records were deleted since the last reading. An upper bound.
    #[must_use]
    pub fn requests(self, count: u64, gone: u64) -> u64 {
        let size = self.size.max(1);
        let full = count > 0 && count.is_multiple_of(size);
        // Without the number of the last page, only a page that is not full ends the list.
        let pages = count.div_ceil(size).max(1) + u64::from(full && !self.last);
        let knows_total = self.total == Total::OfList;
        let twice = pages > 2 && !knows_total && !self.last;
        let unclear = count == 0 || self.total == Total::Unreported || (pages > 1 && !knows_total);
        let again = if twice || (gone > 0 && unclear) { pages } else { gone.min(pages - 1) };
        let first = u64::from(pages > 1);
        let tail = u64::from(pages > 2 && (knows_total || self.last));
        pages.saturating_add(first + tail).saturating_add(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_several_pages_costs_the_requests_that_prove_it() {
        let paging = |total, last| Paging { size: 10, total, last };
        let of = |total, last, counts: [u64; 5]| {
            counts.map(|count| paging(total, last).requests(count, 0))
        };
        let counts = [0, 10, 11, 20, 25];
        assert_eq!(of(Total::OfList, true, counts), [1, 1, 3, 3, 5]);
        assert_eq!(of(Total::OfPage, true, counts), [1, 1, 3, 3, 5]);
        assert_eq!(of(Total::OfPage, false, counts), [1, 3, 3, 7, 7]);
        let gone = |total, count, gone| paging(total, true).requests(count, gone);
        assert_eq!([1, 9].map(|count| gone(Total::OfPage, count, 3)), [1, 1]);
        assert_eq!([0, 9].map(|count| gone(Total::Unreported, count, 3)), [2, 2]);
        assert_eq!([1, 2, 3].map(|it| gone(Total::OfList, 25, it)), [6, 7, 7]);
        assert_eq!(gone(Total::OfPage, 25, 1), 8);
    }
}
