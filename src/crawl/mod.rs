//! Mirrors an account into its vault: every list, the items of every channel,
//! the statistics of the codes that moved. Resumable at every page.
//!
//! * [`proof`]: what a listing proves; pure
//! * `listing`: one list, read until it is proven
//! * `statistics`: one request for each code that is due

mod error;
mod listing;
pub mod proof;
mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use error::CrawlError;
use error::is_fatal;
use listing::{DuplicateRecords, ListingReader, ListingResult};

use crate::api::client::{Client, GetOptions};
use crate::api::envelope;
use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Response;
use crate::clock::{Clock, ClockReading};
use crate::model::paging::Paging;
use crate::model::{DecodedRecord, RecordKey, RecordProblem, Resource, Verb};
use crate::progress::{Event, Progress};
use crate::vault::listing::ListingEnd;
use crate::vault::snapshot::{ReadState, RequestUsage, Snapshot};
use crate::vault::write::CrawledPage;
use crate::vault::{AccountIdentity, Vault, VaultError};

/// After a longer crawl, the account is confirmed before its snapshot ends.
const LONG_CRAWL: Duration = Duration::from_secs(60);
/// No sound clock is set back further.
const CLOCKS_DIFFER: Duration = Duration::from_secs(300);

/// Which statistics to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatisticsMode {
    /// Those of the codes whose scans moved since the last fetch.
    #[default]
    Changed,
    All,
    None,
}

/// What a crawl is to do.
#[derive(Debug, Clone)]
pub struct CrawlOptions {
    /// What to read; everything else stays as last known.
    pub scope: Vec<Resource>,
    pub stats: StatisticsMode,
    /// The most statistics in this snapshot; the rest waits for the next.
    pub stats_budget: Option<u64>,
    /// Starts over instead of going on with a crawl that was stopped.
    pub fresh: bool,
    pub tag: Option<String>,
    /// What the configuration leaves out for good: it is as last known, and a
    /// snapshot without it lacks nothing.
    pub excluded: Vec<Resource>,
    /// The service's base URL, as the vault is to remember it.
    pub service: String,
    /// Accepts that the same account answers at another URL now.
    pub service_moved: bool,
    /// Records that the caller has deleted. That they are gone is no reason to confirm
    /// the account.
    pub deleted: BTreeSet<(Resource, i64)>,
    /// Confirms the account before the snapshot ends, where the crawl took more than a
    /// minute. A run does not need it: it proves the account before it writes. After a
    /// pause between two requests, every crawl confirms it.
    pub confirm: bool,
}

impl CrawlOptions {
    /// Everything, from the service at `service`.
    #[must_use]
    pub fn new(service: &str) -> Self {
        Self {
            scope: Resource::ALL.to_vec(),
            stats: StatisticsMode::default(),
            stats_budget: None,
            fresh: false,
            tag: None,
            excluded: Vec::new(),
            service: service.trim_end_matches('/').to_owned(),
            service_moved: false,
            deleted: BTreeSet::new(),
            confirm: true,
        }
    }

    /// The same for the resources in `scope` alone, and those without which
    /// they cannot be listed: the items of channels need the channels.
    #[must_use]
    pub fn only(self, scope: &[Resource]) -> Self {
        let parent_of_one =
            |it: &Resource| scope.iter().any(|resource| resource.spec().parent == Some(*it));
        let wanted = |it: &Resource| scope.contains(it) || parent_of_one(it);
        let scope: Vec<_> = Resource::ALL.into_iter().filter(wanted).collect();
        let excluded = self.excluded.into_iter().filter(|it| !scope.contains(it)).collect();
        Self { scope, excluded, ..self }
    }

    /// The same without `skip`, nor the items of channels that are not read.
    #[must_use]
    pub fn excluding(self, skip: &[Resource]) -> Self {
        let skipped = |it: &Resource| {
            skip.contains(it) || it.spec().parent.is_some_and(|parent| skip.contains(&parent))
        };
        let (excluded, scope) = self.scope.into_iter().partition(skipped);
        Self { scope, excluded, ..self }
    }
}

/// A crawl that was stopped goes on only if it did something so recently.
pub const RESUMABLE: Duration = Duration::from_secs(3600);

/// How fetching statistics went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatisticsReport {
    pub fetched: u64,
    pub failed: u64,
    /// Due, but beyond the budget.
    pub left: u64,
}

/// What a crawl came to.
#[derive(Debug, Clone)]
pub struct CrawlReport {
    pub snapshot: Snapshot,
    /// Whether it went on with an earlier crawl.
    pub resumed: bool,
    /// What this process spent; the snapshot tells what the whole crawl did.
    pub usage: RequestUsage,
    pub stats: StatisticsReport,
    /// How often it was asked again whose account it is.
    pub confirmed: u64,
    /// Records and fields that were not as they should be, the first of them.
    pub problems: Vec<RecordProblem>,
    /// How the lists that this process read are divided into pages.
    pub paging: BTreeMap<Resource, Paging>,
}

/// The most problems that are remembered one by one.
const MANY_PROBLEMS: usize = 100;

/// One crawl under way.
pub(crate) struct Crawler<'a> {
    client: &'a mut Client,
    vault: &'a mut Vault,
    clock: &'a dyn Clock,
    progress: &'a dyn Progress,
    options: &'a CrawlOptions,
    snapshot: i64,
    /// What earlier processes spent on this snapshot.
    before: RequestUsage,
    problems: Vec<RecordProblem>,
    paging: BTreeMap<Resource, Paging>,
    /// The account answered after a list had refused.
    key_confirmed: bool,
    /// How often it was asked again whose account it is.
    confirmed: u64,
    /// When the account was last seen to be the vault's own.
    proven: ClockReading,
    /// The client's pauses until then.
    pauses: u64,
}

/// Mirrors the account that `client` speaks for into `vault`.
///
/// # Errors
/// [`CrawlError`] when the crawl had to stop; what was read is kept, and the
/// next call goes on from there. A resource that cannot be read is no error
/// but makes the snapshot partial.
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
        snapshot: 0,
        before: RequestUsage::default(),
        problems: Vec::new(),
        paging: BTreeMap::new(),
        key_confirmed: false,
        confirmed: 0,
        proven: ClockReading::now(clock),
        pauses: 0,
    };
    let summary = crawler.run();
    // Whatever stopped it, what was read is kept, unless it may be of another account.
    let kept = match &summary {
        Err(CrawlError::Vault(why @ VaultError::OtherAccount { .. })) => {
            let usage = (crawler.snapshot > 0).then(|| crawler.usage());
            discard_running(crawler.vault, clock, &options.service, why, usage)
        }
        _ => crawler.vault.flush(),
    };
    let summary = summary?;
    kept?;
    Ok(summary)
}

/// Discards the running snapshot, where `why` says that another account answers at the
/// vault's own URL: its process may have read that account's records before it noticed, or
/// was stopped. `usage` is what was spent on it, where it is of this process.
///
/// # Errors
/// When the vault cannot be written.
pub fn discard_running(
    vault: &mut Vault,
    clock: &dyn Clock,
    service: &str,
    why: &VaultError,
    usage: Option<RequestUsage>,
) -> Result<(), VaultError> {
    let is_account = matches!(why, VaultError::OtherAccount { what: "account", .. });
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

/// Proves that the account that `client` speaks for is the one of `vault`.
///
/// # Errors
/// When the account cannot be read, or the vault belongs to another one.
pub fn verify_account(
    client: &mut Client,
    vault: &mut Vault,
    service: &str,
) -> Result<(), CrawlError> {
    let (path, response) = request_account(client)?;
    let decoded = decode(client, path, &response)?;
    Ok(vault.claim(&identity(&decoded, service), false)?)
}

fn request_account(client: &mut Client) -> Result<(&'static str, Response), ApiError> {
    let path = Resource::Account.spec().endpoint(Verb::List).map_or("", |it| it.path);
    Ok((path, client.get_account(path, &GetOptions::default())?))
}

/// The account that `response` to `path` shows.
fn decode<'r>(
    client: &Client,
    path: &str,
    response: &'r Response,
) -> Result<DecodedRecord<'r>, CrawlError> {
    let raw = envelope::single(&response.body, "data")
        .map_err(|why| client.malformed_response(path, response, &why))?;
    DecodedRecord::read(Resource::Account, None, raw.get()).map_err(CrawlError::Account)
}

fn identity(account: &DecodedRecord<'_>, service: &str) -> AccountIdentity {
    let service = service.trim_end_matches('/').to_owned();
    AccountIdentity { service, account: account.record.key.id() }
}

fn spent(client: &Client) -> RequestUsage {
    let counters = client.counters();
    RequestUsage {
        requests: counters.requests,
        throttled: counters.throttled,
        waited: counters.waited,
    }
}

impl Crawler<'_> {
    fn run(&mut self) -> Result<CrawlReport, CrawlError> {
        let resumed = self.begin()?;
        for resource in Resource::ALL {
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
            usage: spent(self.client),
            stats,
            confirmed: self.confirmed,
            problems: std::mem::take(&mut self.problems),
            paging: std::mem::take(&mut self.paging),
        })
    }

    /// Asks again whose account it is. What was read since the last time is of the
    /// vault's own account only if it still is that one.
    fn confirm(&mut self) -> Result<(), CrawlError> {
        let proven = ClockReading::now(self.clock);
        self.confirmed += 1;
        verify_account(self.client, self.vault, &self.options.service)?;
        self.proven = proven;
        self.pauses = self.client.pauses();
        Ok(())
    }

    /// Before anything of an answer is stored: asks again whose account it is, where a
    /// request left after a long pause since the last time.
    fn confirm_after_pause(&mut self) -> Result<(), CrawlError> {
        if self.client.pauses() == self.pauses { Ok(()) } else { self.confirm() }
    }

    /// Notes how the service divides a list into pages. Of several lists of a resource, the
    /// one that costs most counts.
    fn note_paging(&mut self, resource: Resource, pages: &[proof::PageEvidence]) {
        if let Some(paging) = proof::paging(pages) {
            let worst = self.paging.entry(resource).or_insert(paging);
            worst.size = worst.size.min(paging.size);
            worst.total = worst.total.min(paging.total);
            worst.last &= paging.last;
        }
    }

    /// Whether `key` is gone because the caller deleted it, or what it belongs to.
    fn is_deleted(&self, resource: Resource, key: &RecordKey) -> bool {
        let gone = |resource, id| self.options.deleted.contains(&(resource, id));
        match key {
            RecordKey::Id(id) => gone(resource, *id),
            RecordKey::Item { channel, kind, id } => {
                gone(Resource::Channels, *channel) || (kind == "qr" && gone(Resource::QrCodes, *id))
            }
        }
    }

    fn usage(&self) -> RequestUsage {
        self.before.plus(spent(self.client))
    }

    fn problem(&mut self, problem: &RecordProblem) {
        self.progress.event(&Event::Warning { text: &problem.to_string() });
        if self.problems.len() < MANY_PROBLEMS {
            self.problems.push(problem.clone());
        }
    }

    /// Reads the account, makes sure the vault is its own, and begins a
    /// snapshot or goes on with one. Says which.
    fn begin(&mut self) -> Result<bool, CrawlError> {
        let (path, response) = request_account(self.client)?;
        self.pauses = self.client.pauses();
        let decoded = decode(self.client, path, &response)?;
        let identity = identity(&decoded, &self.options.service);
        self.vault.claim(&identity, self.options.service_moved)?;
        let resumed = self.take_up()?;
        self.progress.event(&Event::Snapshot { number: self.snapshot, resumed });
        if self.options.scope.contains(&Resource::Account) {
            self.store_account(&decoded)?;
        }
        Ok(resumed)
    }

    fn take_up(&mut self) -> Result<bool, CrawlError> {
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
            batch: false,
        };
        let seen = roaring::RoaringTreemap::new();
        let records = std::slice::from_ref(decoded);
        self.vault.put_page(&page, records, &seen, |_| String::new())?;
        for odd in &decoded.warnings {
            self.problem(odd);
        }
        self.conclude(Resource::Account, &ListingResult::new(ReadState::Complete, None))
    }

    /// Reads one resource, unless it is out of scope or was read already.
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

    /// Reads one list; what stops only this list becomes its ending.
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

    /// How a list ends that the service does not offer, although its key is right.
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
            let what = format!("are not offered any more: {why}");
            self.problem(&RecordProblem { resource, id: "(all)".to_owned(), what });
        }
        Ok(ListingResult::new(ReadState::NotOffered, None))
    }

    /// Reads the account once more, unless that was done in this crawl: what
    /// looks like a resource that is not offered may be a key that expired
    /// meanwhile. Gives what speaks against the key.
    fn key_refused(&mut self) -> Result<Option<ApiError>, CrawlError> {
        if self.key_confirmed {
            return Ok(None);
        }
        let Err(api) = request_account(self.client) else {
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
            let why = "the list of channels could not be read whole";
            ListingResult::new(ReadState::Failed, Some(why.to_owned()))
        });
        let mut repeats = DuplicateRecords::default();
        for channel in &channels {
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

    /// The versions of items whose channel is not in `channels`, by row number.
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
