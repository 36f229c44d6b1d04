//! What became of the records of a page.

use roaring::RoaringTreemap;

use crate::model::RecordKey;
use crate::vault::digest::DigestSum;

/// What became of a page's records.
#[derive(Debug, Default)]
pub struct WriteResult {
    /// The versions that the page's records are now, by row number.
    pub rows: RoaringTreemap,
    /// Records that this page or an earlier one of the listing had already.
    pub twice: u64,
    /// Those of them that an earlier page had.
    pub across: u64,
    /// Those of them that have other fields than before.
    pub differing: u64,
    /// The first that came again as it was.
    pub first_twin: Option<RecordKey>,
    /// The first that came again with other fields.
    pub first_differing: Option<RecordKey>,
    pub added: u64,
    /// Less than nothing where a record is as it was before an earlier reading
    /// of this snapshot had changed it.
    pub changed: i64,
    /// Counters that moved.
    pub moved: u64,
    /// The change of the resource's sum.
    pub(in crate::vault) delta: DigestSum,
}

impl WriteResult {
    /// Counts a record that came again.
    pub(super) fn repeated(&mut self, key: &RecordKey, is_alike: bool) {
        self.twice += 1;
        let first = if is_alike { &mut self.first_twin } else { &mut self.first_differing };
        first.get_or_insert_with(|| key.clone());
        self.differing += u64::from(!is_alike);
    }
}
