//! Reads one list into the vault, page by page and resumable, until it is proven or given up.

mod missing;

use std::sync::mpsc::channel;

use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};

use super::announce::{SIZES, first_size, list_path, page_path};
use super::crawler::Crawler;
use super::duplicates::DuplicateRecords;
use super::error::CrawlError;
use super::page::{FetchedPage, ParsedPage};
use super::proof::{self, PageEvidence};
use crate::api::client::GetOptions;
use crate::api::envelope::{self, ResponsePage};
use crate::api::error::{ApiError, ApiErrorKind};
use crate::escaped::Escaped;
use crate::model::{DecodedRecord, RecordProblem, Resource};
use crate::progress::Event;
use crate::vault::listing::ListingEnd;
use crate::vault::snapshot::ReadState;
use crate::vault::template_match::TemplateMatch;
use crate::vault::write::{CrawledPage, WriteResult};

/// Maximum number of readings until a list is proven.
const ATTEMPTS: u32 = 4;

/// How reading a list ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListingResult {
    pub state: ReadState,
    pub message: Option<String>,
    /// The repeated records of a proven list.
    #[serde(default, skip_serializing_if = "DuplicateRecords::is_none")]
    pub repeats: DuplicateRecords,
}

impl ListingResult {
    pub fn new(state: ReadState, message: Option<String>) -> Self {
        Self { state, message, repeats: DuplicateRecords::default() }
    }

    pub fn is_complete(&self) -> bool {
        self.state == ReadState::Complete
    }

    pub fn is_drifted(&self) -> bool {
        self.state == ReadState::Drifted
    }
}

/// The crawler's note on a listing in the vault.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ListingProgress {
    attempt: u32,
    ended: Option<ListingResult>,
    /// The last page, read early as proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tail: Option<PageEvidence>,
}

/// Reads one list.
pub(super) struct ListingReader<'c, 'a> {
    crawler: &'c mut Crawler<'a>,
    resource: Resource,
    parent: Option<i64>,
    path: String,
    pages: Vec<PageEvidence>,
    tail: Option<PageEvidence>,
    seen: RoaringTreemap,
    attempt: u32,
    size: u64,
    /// The first page may be read again at the same time as the last one.
    reads_first_again: bool,
    /// Size of the pages that this process read in this attempt.
    bytes: u64,
    problems: Vec<RecordProblem>,
    /// Whether records are missing that the caller did not delete.
    lost: bool,
}

/// Maximum number of records and bytes of one list without a configured limit.
const MAX_RECORDS: u64 = 5_000_000;
const MAX_BYTES: u64 = 4_000_000_000;

/// Maximum number of pages that are in memory at once to be stored, and the number of bytes from
/// which on no further one is added.
const MAX_GROUP: usize = 8;
const MAX_GROUP_BYTES: usize = 8 << 20;

impl<'c, 'a> ListingReader<'c, 'a> {
    /// Reads the list of `resource`, or of the items of channel `parent`. A listing that has ended
    /// in this snapshot is not read again.
    pub fn read(
        crawler: &'c mut Crawler<'a>,
        resource: Resource,
        parent: Option<i64>,
    ) -> Result<ListingResult, CrawlError> {
        let note = crawler.vault.listing(resource, parent)?;
        let note: ListingProgress =
            note.and_then(|note| serde_json::from_str(&note).ok()).unwrap_or_default();
        if let Some(ended) = note.ended {
            return Ok(ended);
        }
        let path = list_path(resource, parent);
        let size = first_size(crawler.vault, crawler.snapshot, resource)?;
        if size != SIZES[0] {
            tracing::debug!("{path}: pages of {size}, which worked before");
        }
        crawler.progress.event(&Event::Listing { resource: resource.name(), parent });
        let mut listing = Self {
            crawler,
            resource,
            parent,
            path,
            pages: Vec::new(),
            tail: note.tail,
            seen: RoaringTreemap::new(),
            attempt: note.attempt.max(1),
            size,
            reads_first_again: false,
            bytes: 0,
            problems: Vec::new(),
            lost: false,
        };
        let (ended, gone) = listing.until_proven()?;
        listing.crawler.record_paging(resource, &listing.pages);
        if listing.lost && !gone.is_empty() {
            listing.crawler.confirm()?;
        }
        listing.end(&ended, &gone)?;
        Ok(ended)
    }

    /// Stores the ending together with the proven removals.
    fn end(&mut self, ended: &ListingResult, gone: &[i64]) -> Result<(), CrawlError> {
        let note = self.progress_json(Some(ended.clone()));
        let whole = self.parent.is_none();
        self.crawler.vault.end_listing(&ListingEnd {
            snapshot: self.crawler.snapshot,
            resource: self.resource,
            parent: self.parent,
            gone,
            progress: Some(&note),
            outcome: whole.then_some((ended.state, ended.message.as_deref())),
        })?;
        Ok(())
    }

    /// Reads the list until it is proven or given up. Returns the ending, and the row numbers of
    /// removed versions.
    fn until_proven(&mut self) -> Result<(ListingResult, Vec<i64>), CrawlError> {
        self.resume()?;
        let mut head = None;
        loop {
            let read = self.pages(head.take());
            // No page that was read ahead is taken for one that is read again, except the first page
            // after all but the last.
            if !std::mem::take(&mut self.reads_first_again) || !matches!(read, Ok(None)) {
                self.crawler.client.discard_announced(&self.path);
            }
            if let Some(why) = read? {
                return Ok((ListingResult::new(ReadState::Failed, Some(why)), Vec::new()));
            }
            let again = if self.pages.len() > 1 { Some(self.reread_first_page()?) } else { None };
            let proof = again.as_ref().map(|(evidence, _)| evidence);
            let end = self.end_of_tail()?;
            let unproven = match self.stable(proof, end.as_ref()) {
                Ok(()) => match self.missing()? {
                    Ok(gone) => {
                        let (path, pages, gone_ones) = (&self.path, self.pages.len(), gone.len());
                        tracing::debug!(
                            "{path}: proven by {pages} pages; {gone_ones} records gone"
                        );
                        return Ok((self.ending(), gone));
                    }
                    Err(unproven) => unproven,
                },
                Err(unproven) => unproven,
            };
            let (path, why) = (&self.path, Escaped(&unproven));
            if self.attempt >= ATTEMPTS {
                tracing::debug!("{path}: not proven ({why}); drifted after {ATTEMPTS} attempts");
                let drifted = ListingResult::new(ReadState::Drifted, Some(unproven));
                return Ok((drifted, Vec::new()));
            }
            tracing::debug!("{path}: not proven ({why}); the list is read again");
            self.attempt += 1;
            self.restart()?;
            // What was just read as proof is the first page of the next attempt.
            head = again.map(|(_, fetched)| fetched).filter(|it| it.limit == self.size);
        }
    }

    fn stable(
        &self,
        again: Option<&PageEvidence>,
        end: Option<&PageEvidence>,
    ) -> Result<(), String> {
        proof::stable(&self.pages, again)?;
        proof::check_tail(&self.pages, self.tail.as_ref(), end)
    }

    /// The last page at the size in which it was read early, if the others were read as smaller
    /// pages since.
    fn end_of_tail(&mut self) -> Result<Option<PageEvidence>, CrawlError> {
        let last = self.pages.last().map(|last| last.limit);
        let Some(tail) = self.tail.clone().filter(|tail| last != Some(tail.limit)) else {
            return Ok(None);
        };
        let size = std::mem::replace(&mut self.size, tail.limit);
        let read = self.try_page(tail.page);
        self.size = size;
        read
    }

    /// The ending of a proven listing: complete, unless some records could not be stored.
    fn ending(&self) -> ListingResult {
        let repeats = DuplicateRecords::of(&self.pages);
        let faulty: u64 = self.pages.iter().map(|page| page.faulty).sum();
        if faulty == 0 {
            return ListingResult { repeats, ..ListingResult::new(ReadState::Complete, None) };
        }
        let first = self.problems.first().map(|it| format!(", first {it}")).unwrap_or_default();
        let records = if faulty == 1 { "record" } else { "records" };
        let message = format!("{faulty} {records} could not be kept{first}");
        ListingResult { repeats, ..ListingResult::new(ReadState::Failed, Some(message)) }
    }

    /// Continues with the pages in the vault, if the last of them is unchanged.
    fn resume(&mut self) -> Result<(), CrawlError> {
        let stored = self.crawler.vault.listing_pages(self.resource, self.parent)?;
        for page in &stored {
            let evidence = serde_json::from_str(&page.evidence).ok();
            let Some(evidence) = evidence.filter(PageEvidence::is_plausible) else {
                return self.restart();
            };
            self.seen |= &page.rows;
            self.pages.push(evidence);
        }
        let Some(last) = self.pages.last().cloned() else { return Ok(()) };
        self.size = last.limit;
        let (evidence, _) = self.reread_page(last.page)?;
        if evidence.ids == last.ids {
            tracing::debug!("{}: continues after page {}", self.path, last.page);
            return Ok(());
        }
        tracing::debug!("{}: page {} changed; the list is read again", self.path, last.page);
        self.restart()
    }

    fn restart(&mut self) -> Result<(), CrawlError> {
        self.pages.clear();
        self.tail = None;
        self.seen.clear();
        self.bytes = 0;
        self.problems.clear();
        self.save(None, true)
    }

    fn save(&mut self, ended: Option<ListingResult>, restart: bool) -> Result<(), CrawlError> {
        let note = self.progress_json(ended);
        self.crawler.vault.note_listing(self.resource, self.parent, &note, restart)?;
        Ok(())
    }

    fn progress_json(&self, ended: Option<ListingResult>) -> String {
        let note = ListingProgress { attempt: self.attempt, ended, tail: self.tail.clone() };
        serde_json::to_string(&note).unwrap_or_default()
    }

    /// Reads and stores the remaining pages. Returns a message if the list exceeds its limits.
    fn pages(&mut self, mut head: Option<FetchedPage>) -> Result<Option<String>, CrawlError> {
        while proof::needs_next_page(&self.pages) {
            if std::mem::take(&mut self.reads_first_again) {
                self.crawler.client.discard_announced(&self.path);
            }
            self.read_ahead()?;
            let first = match head.take() {
                Some(fetched) => fetched,
                None => {
                    self.announce();
                    self.fetch()?
                }
            };
            let mut fetched = vec![first];
            self.take_arrived(&mut fetched);
            let is_of_list = self.store_all(&fetched)?;
            self.crawler.vault.checkpoint_if_due()?;
            if let Some(why) = self.too_long().filter(|_| proof::needs_next_page(&self.pages)) {
                return Ok(Some(why));
            }
            if !is_of_list {
                break;
            }
        }
        Ok(None)
    }

    /// Takes the pages after those in `fetched` that were announced and have arrived.
    fn take_arrived(&mut self, fetched: &mut Vec<FetchedPage>) {
        let bytes = |fetched: &[FetchedPage]| -> usize {
            fetched.iter().map(|page| page.response.body.len()).sum()
        };
        while let Some(last) = fetched.last()
            && last.limit == self.size
            && fetched.len() < MAX_GROUP
            && bytes(fetched) < MAX_GROUP_BYTES
        {
            let number = last.number + 1;
            let path = page_path(&self.path, self.size, number);
            let Some(response) = self.crawler.client.take_arrived(&path) else { return };
            fetched.push(FetchedPage { response, number, limit: self.size });
        }
    }

    /// Stores pages that follow each other, as far as they belong to the list and nothing else must
    /// be read before. While one is stored, another thread parses those after it. Returns `false` if
    /// one does not belong to the list.
    fn store_all(&mut self, fetched: &[FetchedPage]) -> Result<bool, CrawlError> {
        let Some((first, later)) = fetched.split_first() else { return Ok(true) };
        let (resource, parent) = (self.resource, self.parent);
        let parse = move |page| ParsedPage::new(resource, parent, page);
        rayon::in_place_scope(|scope| {
            let (send, parsed) = channel();
            if !later.is_empty() {
                scope.spawn(move |_| {
                    // Without a receiver, the other pages are not needed.
                    let _ = later.iter().all(|page| send.send(parse(page)).is_ok());
                });
            }
            if !self.store(first, parse(first))? {
                return Ok(false);
            }
            for page in later {
                let needs_other = self.tail.is_none() && self.tail_to_read().is_some();
                if needs_other || !proof::needs_next_page(&self.pages) || self.too_long().is_some()
                {
                    return Ok(true);
                }
                if !self.store(page, parsed.recv().unwrap_or_else(|_| parse(page)))? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Announces the next pages, as far as they may be read in any order.
    fn announce(&mut self) {
        if !self.crawler.client.may_read_ahead() {
            return;
        }
        if self.pages.last().is_some_and(|last| last.limit != self.size) {
            return;
        }
        let (path, size, next) = (&self.path, self.size, self.next_page());
        let tail = self.tail.as_ref();
        if let Some(last) = proof::last_inner_page(&self.pages, tail) {
            let pages = (next..=last).map(|number| page_path(path, size, number));
            self.crawler.client.announce(pages);
        } else if tail.is_some_and(|it| (it.page, it.limit, it.maxpage) == (next, size, Some(next)))
            && let Some(first) = self.pages.first()
        {
            // All others are read: the last page is compared with its early reading, the first one
            // with its first.
            let first = page_path(path, first.limit, 1);
            self.crawler.client.announce([page_path(path, size, next), first]);
            self.reads_first_again = true;
        }
    }

    /// Limits the list, because a service may send pages without end.
    fn too_long(&self) -> Option<String> {
        let limits = self.crawler.client.limits();
        let (records, bytes) = (self.done(), self.bytes);
        let most_records = limits.max_records.unwrap_or(MAX_RECORDS);
        let most_bytes = limits.max_bytes.unwrap_or(MAX_BYTES);
        let (what, key) = if records >= most_records {
            (format!("{most_records} records"), "max_records")
        } else if bytes >= most_bytes {
            (format!("{most_bytes} bytes"), "max_bytes")
        } else {
            return None;
        };
        Some(format!("the list did not end within {what}; `{key}` in the configuration raises it"))
    }

    /// Reads the last page early if the proof needs it. If the service cannot handle its size, the
    /// list is begun again with smaller pages.
    fn read_ahead(&mut self) -> Result<(), CrawlError> {
        if self.tail.is_some() {
            return Ok(());
        }
        let Some(last) = self.tail_to_read() else { return Ok(()) };
        let Some(smaller) = self.smaller() else {
            self.tail = Some(self.reread_page(last)?.0);
            return self.save(None, false);
        };
        if let Some(evidence) = self.try_page(last)? {
            self.tail = Some(evidence);
            return self.save(None, false);
        }
        self.restart()?;
        self.size = smaller;
        self.crawler.client.discard_announced(&self.path);
        Ok(self.crawler.vault.learn_page_size(self.resource, self.size)?)
    }

    /// Reads a page as evidence; `None` if the service cannot handle its size.
    fn try_page(&mut self, number: u64) -> Result<Option<PageEvidence>, CrawlError> {
        let fetched = match self.get(number, Some(1)) {
            Ok(fetched) => fetched,
            Err(error) if self.may_page_be_too_large(&error) => {
                tracing::debug!("{}: page {number}: {}", self.path, Escaped(&error));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        self.evidence(&fetched).map(Some)
    }

    fn tail_to_read(&self) -> Option<u64> {
        proof::needs_tail_first(&self.pages, self.attempt > 1)
    }

    /// The next page's number at the present size.
    fn next_page(&self) -> u64 {
        self.pages.last().map_or(1, |last| {
            if last.limit == self.size {
                return last.page + 1;
            }
            self.done() / self.size + 1
        })
    }

    /// Number of records read so far.
    fn done(&self) -> u64 {
        self.pages.iter().map(|page| page.count).sum()
    }

    /// Fetches a page; if the service cannot handle its size, smaller ones are tried from the same
    /// place on.
    fn fetch(&mut self) -> Result<FetchedPage, CrawlError> {
        let begun = self.size;
        loop {
            let smaller = self.smaller();
            let retries = if smaller.is_some() { Some(1) } else { None };
            let error = match self.get(self.next_page(), retries) {
                Ok(fetched) => {
                    if self.size != begun {
                        self.crawler.vault.learn_page_size(self.resource, self.size)?;
                    }
                    return Ok(fetched);
                }
                Err(error) => error,
            };
            let Some(smaller) = smaller.filter(|_| self.may_page_be_too_large(&error)) else {
                return Err(error.into());
            };
            let (path, why) = (&self.path, Escaped(&error));
            tracing::debug!("{path}: pages of {smaller} from now on, since {why}");
            self.size = smaller;
            self.crawler.client.discard_announced(&self.path);
        }
    }

    /// Requests page `number` at the present size.
    fn get(&mut self, number: u64, retries: Option<usize>) -> Result<FetchedPage, ApiError> {
        let path = page_path(&self.path, self.size, number);
        let response = self.crawler.client.get_with(&path, &GetOptions { retries })?;
        Ok(FetchedPage { response, number, limit: self.size })
    }

    /// The next smaller size that begins a page where the last one ended.
    fn smaller(&self) -> Option<u64> {
        let in_use = proof::page_size(&self.pages).map_or(self.size, |full| full.min(self.size));
        let done = self.done();
        SIZES.iter().copied().find(|size| *size < in_use && done.is_multiple_of(*size))
    }

    /// Whether a smaller page may succeed where this one failed: the service failed on it, or
    /// refused the very first page.
    fn may_page_be_too_large(&self, error: &ApiError) -> bool {
        let refused = matches!(error.kind, ApiErrorKind::Refused { .. });
        error.is_overload() || (refused && self.pages.is_empty())
    }

    /// Stores a page. Returns whether it belongs to the list.
    fn store(
        &mut self,
        fetched: &FetchedPage,
        parsed: Result<ParsedPage<'_>, String>,
    ) -> Result<bool, CrawlError> {
        self.crawler.confirm_after_pause()?;
        self.bytes += fetched.response.body.len() as u64;
        let ParsedPage { page, mut records, mut faults } =
            parsed.map_err(|why| self.malformed(fetched, &why))?;
        let keys: Vec<_> = records.iter().map(|it| it.record.key.clone()).collect();
        let mut evidence = PageEvidence::new(fetched.number, fetched.limit, &page, &keys);
        if proof::is_echo(&self.pages, &evidence) {
            return Ok(false);
        }
        let page = CrawledPage {
            snapshot: self.crawler.snapshot,
            resource: self.resource,
            parent: self.parent,
            number: fetched.number,
            now: self.crawler.clock.now(),
            usage: self.crawler.usage(),
            batch: self.crawler.client.cost_of_repeat(),
        };
        // What comes twice is known only once it is stored.
        let note = |put: &WriteResult| {
            evidence.repeats = put.repeats;
            evidence.cross_page_repeats = put.cross_page_repeats;
            evidence.differing_repeats = put.differing_repeats;
            evidence.first_equal_repeat = put.first_equal_repeat.as_ref().map(ToString::to_string);
            evidence.first_differing_repeat =
                put.first_differing_repeat.as_ref().map(ToString::to_string);
            serde_json::to_string(&evidence).unwrap_or_default()
        };
        let put = self.crawler.vault.put_matches(&page, &mut records, &self.seen, note)?;
        self.seen |= put.rows;
        self.warn(&faults, &records);
        self.problems.append(&mut faults);
        let total = evidence.result.filter(|result| *result >= evidence.count);
        self.pages.push(evidence);
        let done = self.seen.len();
        let resource = self.resource.name();
        self.crawler.progress.event(&Event::Records { resource, done, total });
        Ok(true)
    }

    fn warn(&mut self, faults: &[RecordProblem], records: &[TemplateMatch<'_>]) {
        let odd = records.iter().flat_map(|split| &split.warnings);
        for problem in faults.iter().chain(odd) {
            self.crawler.problem(problem);
        }
    }

    fn open<'f>(&self, fetched: &'f FetchedPage) -> Result<ResponsePage<'f>, CrawlError> {
        let keys = self.resource.spec().list_keys;
        envelope::page(&fetched.response.body, keys).map_err(|why| self.malformed(fetched, &why))
    }

    fn malformed(&self, fetched: &FetchedPage, why: &str) -> CrawlError {
        self.crawler.client.malformed_response(&self.path, &fetched.response, why).into()
    }

    /// Reads page `number` again as evidence, without storing it.
    fn reread_page(&mut self, number: u64) -> Result<(PageEvidence, FetchedPage), CrawlError> {
        let fetched = self.get(number, None)?;
        Ok((self.evidence(&fetched)?, fetched))
    }

    fn evidence(&self, fetched: &FetchedPage) -> Result<PageEvidence, CrawlError> {
        let page = self.open(fetched)?;
        let keys: Vec<_> = page
            .records
            .iter()
            .filter_map(|raw| DecodedRecord::read(self.resource, self.parent, raw.get()).ok())
            .map(|decoded| decoded.record.key)
            .collect();
        Ok(PageEvidence::new(fetched.number, fetched.limit, &page, &keys))
    }

    fn reread_first_page(&mut self) -> Result<(PageEvidence, FetchedPage), CrawlError> {
        if let Some(first) = self.pages.first() {
            self.size = first.limit;
        }
        self.reread_page(1)
    }
}
