//! Mirrors an account into its vault: every list, the items of every channel, and the statistics of
//! codes with changed scans. Resumable at every page.
//!
//! * `account`: the request that confirms the account
//! * `observe`: the entry point of all commands; what could not be read
//! * `listing`: reads one list until it is proven
//! * `page`: a page and its parsed records
//! * `announce`: the paths of pages, and the lists that will be read next
//! * `duplicates`: records that a list contains more than once
//! * [`proof`]: what a listing proves; pure
//! * `statistics`: one request for each code that needs it
//! * `crawler`: the state that these parts share

mod account;
mod announce;
mod crawler;
mod duplicates;
mod error;
mod listing;
mod observe;
mod options;
mod page;
pub mod proof;
mod statistics;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use account::{AccountAnswer, AccountCheck, request_account, verify_account};
pub use crawler::{CrawlReport, StatisticsReport, usage_of};
pub use error::CrawlError;
pub use observe::{ObservationScope, ServiceLink, Unread, observe, require_complete, unread};
pub use options::{CrawlOptions, StatisticsMode, with_parents};

use crate::api::client::{Client, GetOptions};
use crate::api::error::{ApiError, ApiErrorKind};
use crate::clock::{Clock, ClockReading};
use crate::model::{DecodedRecord, RecordProblem, Resource, SnapshotId};
use crate::progress::{Event, Progress};
use crate::vault::listing::ListingEnd;
use crate::vault::snapshot::{ReadState, RequestUsage};
use crate::vault::write::CrawledPage;
use crate::vault::{IdentityPart, Vault, VaultError};
use account::identity;
use announce::List;
use crawler::Crawler;
use duplicates::DuplicateRecords;
use error::is_fatal;
use listing::{ListingReader, ListingResult};

/// A crawl longer than this confirms the account before its snapshot is finished.
const LONG_CRAWL: Duration = Duration::from_secs(60);
/// Maximum correction of a clock that is not treated as an error.
const CLOCKS_DIFFER: Duration = Duration::from_secs(300);

/// An interrupted crawl is continued only if it made progress within this time.
pub const RESUMABLE: Duration = Duration::from_secs(3600);

/// Mirrors the account of `client` into `vault`.
///
/// # Errors
/// [`CrawlError`] if the crawl had to stop. The records read so far are stored, and the next call
/// continues there. A resource that cannot be read is not an error, but makes the snapshot partial.
pub fn crawl(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &CrawlOptions,
) -> Result<CrawlReport, CrawlError> {
    let mut crawler = Crawler {
        client,
        vault,
        clock,
        progress,
        options,
        snapshot: SnapshotId::default(),
        before: RequestUsage::default(),
        problems: Vec::new(),
        paging: BTreeMap::new(),
        checked_before: false,
        key_confirmed: false,
        confirmed: 0,
        proven: ClockReading::now(clock),
        pauses: 0,
    };
    let summary = crawler.run();
    crawler.client.discard_all_announced();
    // Whatever stopped it, what was read is kept, unless it may be of another account.
    let kept = match &summary {
        Err(CrawlError::Vault(why @ VaultError::OtherAccount { .. })) => {
            let usage = (crawler.snapshot > SnapshotId::default()).then(|| crawler.usage());
            discard_running(crawler.vault, clock, &options.service, why, usage)
        }
        _ => crawler.vault.flush(),
    };
    let summary = summary?;
    kept?;
    Ok(summary)
}

/// Discards the running snapshot if `why` says that another account responds at the vault's own
/// URL: the process may have read records of that account before it noticed, or was interrupted.
/// `usage` is the cost in this process.
pub fn discard_running(
    vault: &mut Vault,
    clock: &dyn Clock,
    service: &str,
    why: &VaultError,
    usage: Option<RequestUsage>,
) -> Result<(), VaultError> {
    let is_account = matches!(why, VaultError::OtherAccount { what: IdentityPart::Account, .. });
    let service = service.trim_end_matches('/');
    if is_account
        && vault.identity()?.is_some_and(|ours| ours.service == service)
        && let Some((running, _)) = vault.running()?
    {
        let now = clock.now().max(running.touched);
        let usage = usage.unwrap_or(running.usage);
        vault.discard(running.number, &why.to_string(), now, usage)?;
    }
    Ok(())
}

impl Crawler<'_> {
    fn run(&mut self) -> Result<CrawlReport, CrawlError> {
        let resumed = self.begin()?;
        for (at, resource) in Resource::ALL.into_iter().enumerate() {
            self.announce_from(at)?;
            self.resource(resource)?;
        }
        let stats = self.statistics()?;
        if self.options.confirm && self.proven.age(self.clock) > LONG_CRAWL {
            self.confirm()?;
        }
        self.confirm_after_pause()?;
        let usage = self.usage();
        let snapshot = self.vault.finish(self.snapshot, self.clock.now(), usage)?;
        Ok(CrawlReport {
            snapshot,
            resumed,
            usage: usage_of(self.client),
            stats,
            confirmed: self.confirmed,
            problems: std::mem::take(&mut self.problems),
            paging: std::mem::take(&mut self.paging),
        })
    }

    /// Announces the first pages of the resources from `at` on that are still to be read.
    fn announce_from(&mut self, at: usize) -> Result<(), CrawlError> {
        if !self.client.may_read_ahead() {
            return Ok(());
        }
        // The items are listed for each channel.
        let whole = |list: &List| list.0.spec().parent.is_none();
        let lists: Vec<_> = self.pending_lists(at)?.take_while(whole).collect();
        let lists = self.unread(lists.into_iter())?;
        announce::announce_lists(self, lists.into_iter())
    }

    /// The lists of items of `channels`, and those after them, that were not begun yet.
    fn unread_from_items(&self, channels: &[i64]) -> Result<VecDeque<List>, CrawlError> {
        if !self.client.may_read_ahead() {
            return Ok(VecDeque::new());
        }
        let items = channels.iter().map(|channel| (Resource::ChannelItems, Some(*channel)));
        let at = Resource::ALL.iter().position(|it| *it == Resource::ChannelItems);
        let later = self.pending_lists(at.map_or(0, |at| at + 1))?;
        self.unread(items.chain(later))
    }

    /// The lists of the resources from `at` on that are still to be read.
    fn pending_lists(&self, at: usize) -> Result<impl Iterator<Item = List> + use<>, CrawlError> {
        let outcomes = self.vault.snapshot(self.snapshot)?.outcomes;
        let is_pending = move |resource: &Resource| {
            outcomes.iter().any(|it| it.resource == *resource && it.state == ReadState::Pending)
        };
        let pending = Resource::ALL.into_iter().skip(at).filter(is_pending);
        Ok(pending.map(|resource| (resource, None)))
    }

    /// Those of `lists` that were not begun yet.
    fn unread(&self, lists: impl Iterator<Item = List>) -> Result<VecDeque<List>, CrawlError> {
        let mut unread = VecDeque::new();
        for (resource, parent) in lists {
            if self.vault.listing(resource, parent)?.is_none() {
                unread.push_back((resource, parent));
            }
        }
        Ok(unread)
    }

    /// Reads the account, checks that the vault belongs to it, and begins or continues a snapshot.
    /// Returns whether it continued one.
    ///
    /// A check that the caller made before is as good as the request: a crawl cannot notice that
    /// the account is switched just after it either. Then the crawl confirms the account before it
    /// stores the response after a pause, or closes records.
    fn begin(&mut self) -> Result<bool, CrawlError> {
        let reads_account = self.options.scope.contains(&Resource::Account);
        if let Some(check) = self.options.checked.filter(|_| !reads_account)
            && self.vault.identity()?.is_some()
        {
            (self.proven, self.pauses) = (check.at, check.pauses);
            self.checked_before = true;
            return self.begin_snapshot();
        }
        let answer = request_account(self.client, &GetOptions::default())?;
        self.pauses = self.client.pauses();
        let decoded = answer.record(self.client)?;
        let identity = identity(&decoded, &self.options.service);
        self.vault.claim(&identity, self.options.service_moved)?;
        let resumed = self.begin_snapshot()?;
        if self.options.scope.contains(&Resource::Account) {
            self.store_account(&decoded)?;
        }
        Ok(resumed)
    }

    fn begin_snapshot(&mut self) -> Result<bool, CrawlError> {
        let resumed = self.continue_or_begin()?;
        self.progress.event(&Event::Snapshot { number: self.snapshot.0, resumed });
        Ok(resumed)
    }

    fn continue_or_begin(&mut self) -> Result<bool, CrawlError> {
        let now = self.clock.now();
        if let Some((running, scope)) = self.vault.running()? {
            // A clock that was set back must not make it young for ever.
            let ahead = running.touched.since(now) > CLOCKS_DIFFER;
            let young = now.since(running.touched) <= RESUMABLE && !ahead;
            if young && !self.options.fresh && scope == self.options.scope {
                self.snapshot = running.number;
                self.before = running.usage;
                if let Some(tag) = &self.options.tag {
                    self.vault.retag(self.snapshot, tag)?;
                }
                return Ok(true);
            }
            // What it read stays known; the new snapshot builds on it.
            self.vault.finish(running.number, now.max(running.touched), running.usage)?;
        }
        let tag = self.options.tag.as_deref();
        let (scope, excluded) = (&self.options.scope, &self.options.excluded);
        self.snapshot = self.vault.begin_excluding(now, tag, scope, excluded)?;
        Ok(false)
    }

    fn store_account(&mut self, decoded: &DecodedRecord<'_>) -> Result<(), CrawlError> {
        let page = CrawledPage {
            snapshot: self.snapshot,
            resource: Resource::Account,
            parent: None,
            number: 1,
            now: self.clock.now(),
            usage: self.usage(),
            batch: None,
        };
        let seen = roaring::RoaringTreemap::new();
        let records = std::slice::from_ref(decoded);
        self.vault.put_page(&page, records, &seen, |_| String::new())?;
        for odd in &decoded.warnings {
            self.problem(odd);
        }
        self.conclude(Resource::Account, &ListingResult::new(ReadState::Complete, None))
    }

    /// Reads one resource, unless it is out of scope or already read.
    fn resource(&mut self, resource: Resource) -> Result<(), CrawlError> {
        let snapshot = self.vault.snapshot(self.snapshot)?;
        if snapshot.outcome(resource).is_none_or(|it| it.state != ReadState::Pending) {
            return Ok(());
        }
        let ending = match resource.spec().parent {
            Some(_) => self.items()?,
            None => self.list(resource, None)?,
        };
        for problem in ending.repeats.problems(resource) {
            self.problem(&problem);
        }
        self.conclude(resource, &ending)
    }

    fn conclude(&mut self, resource: Resource, ending: &ListingResult) -> Result<(), CrawlError> {
        let state = ending.state;
        let mut snapshot = self.vault.snapshot(self.snapshot)?;
        // A listing that ended has said so itself.
        if snapshot.outcome(resource).is_some_and(|it| it.state == ReadState::Pending) {
            self.vault.conclude(self.snapshot, resource, state, ending.message.as_deref())?;
            snapshot = self.vault.snapshot(self.snapshot)?;
        }
        let records = snapshot.outcome(resource).map_or(0, |outcome| outcome.records);
        let (resource, state) = (resource.name(), state.name());
        self.progress.event(&Event::Finished { resource, state, records });
        Ok(())
    }

    /// Reads one list; an error of only this list becomes its ending.
    fn list(
        &mut self,
        resource: Resource,
        parent: Option<i64>,
    ) -> Result<ListingResult, CrawlError> {
        let error = match ListingReader::read(self, resource, parent) {
            Ok(ending) => return Ok(ending),
            Err(error) if is_fatal(&error) => return Err(error),
            Err(error) => error,
        };
        let CrawlError::Api(api) = &error else { return Err(error) };
        // If nothing of the service can be read, the crawl stops here as at its first request.
        if std::mem::take(&mut self.checked_before) {
            self.confirm()?;
            self.key_confirmed = true;
        }
        // A service that answered with a page offers the list.
        let begun = !self.vault.listing_pages(resource, parent)?.is_empty();
        if matches!(api.kind, ApiErrorKind::NotOffered { .. }) && !begun {
            if api.may_be_a_key_error()
                && let Some(refused) = self.key_refused()?
            {
                return Ok(ListingResult::new(ReadState::Failed, Some(refused.to_string())));
            }
            return self.not_offered(resource, parent, api);
        }
        Ok(ListingResult::new(ReadState::Failed, Some(api.to_string())))
    }

    /// The ending of a list that the service does not offer, although its key is valid.
    fn not_offered(
        &mut self,
        resource: Resource,
        parent: Option<i64>,
        why: &ApiError,
    ) -> Result<ListingResult, CrawlError> {
        if !self.vault.open_ids(resource)?.is_empty() {
            let message = format!("{why}; its records are as last known");
            return Ok(ListingResult::new(ReadState::NotOffered, Some(message)));
        }
        let before = self.vault.snapshot_before(self.snapshot)?;
        let before = before.map(|number| self.vault.snapshot(number)).transpose()?;
        let before = before.and_then(|it| it.outcome(resource).map(|outcome| outcome.state));
        if parent.is_none() && before == Some(ReadState::Complete) {
            let what = format!("are no longer offered: {why}");
            self.problem(&RecordProblem { resource, id: "(all)".to_owned(), what });
        }
        Ok(ListingResult::new(ReadState::NotOffered, None))
    }

    /// Confirms the account, unless this crawl did so already: a resource that seems not to be
    /// offered may mean a key that has expired. Returns the error of the key.
    fn key_refused(&mut self) -> Result<Option<ApiError>, CrawlError> {
        if self.key_confirmed {
            return Ok(None);
        }
        let Err(api) = request_account(self.client, &GetOptions::default()) else {
            self.key_confirmed = true;
            return Ok(None);
        };
        let error = CrawlError::from(api.clone());
        if is_fatal(&error) { Err(error) } else { Ok(Some(api)) }
    }

    /// Reads the items of every channel.
    fn items(&mut self) -> Result<ListingResult, CrawlError> {
        let snapshot = self.vault.snapshot(self.snapshot)?;
        let channels = self.vault.open_ids(Resource::Channels)?;
        let state = snapshot.outcome(Resource::Channels).map(|outcome| outcome.state);
        let known_whole = state == Some(ReadState::Complete);
        if state == Some(ReadState::NotOffered) {
            let known = !self.vault.open_ids(Resource::ChannelItems)?.is_empty();
            let why = "channels are not offered; its records are as last known";
            return Ok(ListingResult::new(ReadState::NotOffered, known.then(|| why.to_owned())));
        }
        let mut worst: Option<ListingResult> = (!known_whole).then(|| {
            let why = "the list of channels could not be read completely";
            ListingResult::new(ReadState::Failed, Some(why.to_owned()))
        });
        let mut repeats = DuplicateRecords::default();
        let mut unread = self.unread_from_items(&channels)?;
        for channel in &channels {
            announce::announce_lists(self, unread.iter().copied())?;
            if unread.front() == Some(&(Resource::ChannelItems, Some(*channel))) {
                unread.pop_front();
            }
            let mut ending = self.list(Resource::ChannelItems, Some(*channel))?;
            repeats.add(&ending.repeats);
            if ending.state == ReadState::NotOffered {
                let why = format!("channel {channel} was listed, but not found afterwards");
                ending = ListingResult::new(ReadState::Drifted, Some(why));
            }
            if !ending.is_complete() && worst.as_ref().is_none_or(ListingResult::is_drifted) {
                worst = Some(ending);
            }
        }
        let gone =
            if known_whole { self.items_of_removed_channels(&channels)? } else { Vec::new() };
        let mut ended = worst.unwrap_or_else(|| ListingResult::new(ReadState::Complete, None));
        ended.repeats = repeats;
        self.vault.end_listing(&ListingEnd {
            snapshot: self.snapshot,
            resource: Resource::ChannelItems,
            parent: None,
            gone: &gone,
            progress: None,
            outcome: Some((ended.state, ended.message.as_deref())),
        })?;
        Ok(ended)
    }

    /// The row numbers of open versions of items whose channel is not in `channels`.
    fn items_of_removed_channels(&self, channels: &[i64]) -> Result<Vec<i64>, CrawlError> {
        let mut gone = Vec::new();
        for channel in self.vault.channels_with_items()? {
            if channels.binary_search(&channel).is_err() {
                let none = roaring::RoaringTreemap::new();
                let items = self.vault.unseen(Resource::ChannelItems, Some(channel), &none)?;
                gone.extend(items.into_iter().map(|(row, _)| row));
            }
        }
        Ok(gone)
    }
}
