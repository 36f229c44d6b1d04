//! Which records a listing proves to be removed. It reads some pages again for that.

use std::collections::HashSet;

use roaring::RoaringTreemap;

use super::ListingReader;
use crate::api::error::ApiErrorKind;
use crate::crawl::error::CrawlError;
use crate::crawl::proof::{self, RemovedRecords};
use crate::model::{DecodedRecord, RecordKey};

impl ListingReader<'_, '_> {
    /// The row numbers of versions that the listing proves to be removed; or the reason against the
    /// proof.
    pub(super) fn missing(&mut self) -> Result<Result<Vec<i64>, String>, CrawlError> {
        if let Some(size) = proof::needs_other_edges(&self.pages)
            && !self.shows_the_same_at(size)?
        {
            return Ok(Err("other pages do not show the same records".to_owned()));
        }
        if self.pages.iter().any(|page| page.faulty > 0) {
            // One of the unreadable records may be one that seems to be gone.
            return Ok(Ok(Vec::new()));
        }
        let mut unclear = proof::needs_second_listing(&self.pages, self.tail.as_ref());
        let shown = self.crawler.vault.record_count(self.crawler.snapshot, self.resource)?;
        if self.parent.is_none() && shown == proof::distinct(&self.pages) && !unclear {
            // Every record that the snapshot shows was seen.
            return Ok(Ok(Vec::new()));
        }
        let missing = self.crawler.vault.unseen(self.resource, self.parent, &self.seen)?;
        let mut edges = Vec::new();
        for (_, key) in &missing {
            match proof::gone(&self.pages, key) {
                RemovedRecords::Proven => {}
                RemovedRecords::AtEdge(at) => {
                    edges.push(at);
                    // The page after the edge may have been read first.
                    if self.crawler.client.may_read_ahead() && at + 1 < self.pages.len() {
                        edges.push(at + 1);
                    }
                }
                RemovedRecords::Unclear => unclear = true,
            }
        }
        edges.sort_unstable();
        edges.dedup();
        if unclear || edges.len() == self.pages.len() {
            // Backwards, so that a shift between two pages shows on both readings.
            edges = (0..self.pages.len()).rev().collect();
        }
        for at in edges {
            let page = self.pages[at].clone();
            self.size = page.limit;
            let (again, _) = self.reread_page(page.page)?;
            if again.ids != page.ids || again.result != page.result {
                return Ok(Err(format!("page {} changed meanwhile", page.page)));
            }
        }
        self.lost = missing.iter().any(|(_, key)| !self.crawler.is_deleted(self.resource, key));
        Ok(Ok(missing.into_iter().map(|(row, _)| row).collect()))
    }

    /// Whether the list, read again in pages of `size`, has the same number of lines and the same
    /// records.
    fn shows_the_same_at(&mut self, size: u64) -> Result<bool, CrawlError> {
        let none = RoaringTreemap::new();
        let open = self.crawler.vault.unseen(self.resource, self.parent, &none)?;
        let shown = open.into_iter().filter(|(row, _)| self.seen.contains(row.cast_unsigned()));
        let mut expected: HashSet<RecordKey> = shown.map(|(_, key)| key).collect();
        let records = expected.len();
        let (total, lines) = (proof::total(&self.pages), self.done());
        let (mut keys, mut read) = (HashSet::new(), 0);
        self.size = size;
        for number in 1.. {
            let fetched = match self.get(number, None) {
                Ok(fetched) => fetched,
                // At this size the service tells nothing.
                Err(error) if matches!(error.kind, ApiErrorKind::Refused { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            let page = self.open(&fetched)?;
            let moved = total.is_some() && page.result != total;
            if page.records.is_empty() || moved {
                break;
            }
            read += page.records.len() as u64;
            for raw in &page.records {
                if let Ok(decoded) = DecodedRecord::read(self.resource, self.parent, raw.get()) {
                    keys.insert(decoded.record.key);
                }
            }
            if read >= lines {
                break;
            }
        }
        expected.retain(|key| !keys.contains(key));
        Ok(read == lines && expected.is_empty() && keys.len() == records)
    }
}
