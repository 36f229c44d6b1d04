//! The result of storing a page.

use roaring::RoaringTreemap;

use crate::model::RecordKey;
use crate::vault::digest::DigestSum;

/// The result of storing a page of records.
#[derive(Debug, Default)]
pub struct WriteResult {
    /// Row numbers of the versions of the page's records.
    pub rows: RoaringTreemap,
    /// Number of records that were also on this page before or on an earlier page of the listing.
    pub repeats: u64,
    /// Number of repeats from an earlier page.
    pub cross_page_repeats: u64,
    /// Number of repeats with other fields than before.
    pub differing_repeats: u64,
    /// The first repeat with the same fields.
    pub first_equal_repeat: Option<RecordKey>,
    /// The first repeat with other fields.
    pub first_differing_repeat: Option<RecordKey>,
    /// Number of new records.
    pub added: u64,
    /// Number of records with changed fields. Negative if a repeated record has its fields from
    /// before this snapshot again.
    pub changed: i64,
    /// Number of counters with another value.
    pub changed_counters: u64,
    /// The change of the resource's checksum.
    pub(in crate::vault) delta: DigestSum,
}

impl WriteResult {
    /// Counts a repeated record.
    pub(super) fn repeated(&mut self, key: &RecordKey, is_alike: bool) {
        self.repeats += 1;
        let first =
            if is_alike { &mut self.first_equal_repeat } else { &mut self.first_differing_repeat };
        first.get_or_insert_with(|| key.clone());
        self.differing_repeats += u64::from(!is_alike);
    }
}
