//! A running crawl: the state that its parts share.

use std::collections::BTreeMap;

use super::account::verify_account;
use super::error::CrawlError;
use super::options::CrawlOptions;
use super::proof;
use crate::api::client::Client;
use crate::clock::{Clock, ClockReading};
use crate::model::paging::Paging;
use crate::model::{RecordKey, RecordProblem, Resource, SnapshotId};
use crate::progress::{Event, Progress};
use crate::vault::Vault;
use crate::vault::snapshot::{RequestUsage, Snapshot};

/// Maximum number of problems in a report.
const MANY_PROBLEMS: usize = 100;

/// The result of fetching statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatisticsReport {
    /// Number of codes whose statistics were fetched.
    pub fetched: u64,
    /// Number of codes whose statistics could not be fetched.
    pub failed: u64,
    /// To be fetched, but beyond the budget.
    pub left: u64,
}

/// The result of a crawl.
#[derive(Debug, Clone)]
pub struct CrawlReport {
    /// The finished snapshot.
    pub snapshot: Snapshot,
    /// Whether it continued an interrupted crawl.
    pub resumed: bool,
    /// The cost in this process; the snapshot has that of the whole crawl.
    pub usage: RequestUsage,
    /// The result of fetching statistics.
    pub stats: StatisticsReport,
    /// Number of times that the account was confirmed.
    pub confirmed: u64,
    /// The first problems of records and fields.
    pub problems: Vec<RecordProblem>,
    /// How the lists read by this process are divided into pages.
    pub paging: BTreeMap<Resource, Paging>,
}

/// A running crawl.
pub(super) struct Crawler<'a> {
    pub client: &'a mut Client,
    pub vault: &'a mut Vault,
    pub clock: &'a dyn Clock,
    pub progress: &'a dyn Progress,
    pub options: &'a CrawlOptions,
    pub snapshot: SnapshotId,
    /// The cost of earlier processes for this snapshot.
    pub before: RequestUsage,
    pub problems: Vec<RecordProblem>,
    pub paging: BTreeMap<Resource, Paging>,
    /// Whether this crawl began with an earlier check of the account, and no list has failed yet.
    pub checked_before: bool,
    /// Whether the account was read successfully after a list was refused.
    pub key_confirmed: bool,
    /// Number of times that the account was confirmed.
    pub confirmed: u64,
    /// When the account was last confirmed.
    pub proven: ClockReading,
    /// The client's number of pauses at that time.
    pub pauses: u64,
}

impl Crawler<'_> {
    /// Confirms that the account is that of the vault. Only then do the records read since the last
    /// time belong to it.
    pub fn confirm(&mut self) -> Result<(), CrawlError> {
        let proven = ClockReading::now(self.clock);
        self.confirmed += 1;
        verify_account(self.client, self.vault, &self.options.service)?;
        self.proven = proven;
        self.pauses = self.client.pauses();
        Ok(())
    }

    /// Confirms the account if a request was sent after a long pause since the last time. Must be
    /// called before anything of a response is stored.
    pub fn confirm_after_pause(&mut self) -> Result<(), CrawlError> {
        if self.client.pauses() == self.pauses { Ok(()) } else { self.confirm() }
    }

    /// Records how the service divides a list into pages. Of several lists of a resource, the most
    /// expensive one counts.
    pub fn record_paging(&mut self, resource: Resource, pages: &[proof::PageEvidence]) {
        if let Some(paging) = proof::paging(pages) {
            let worst = self.paging.entry(resource).or_insert(paging);
            worst.size = worst.size.min(paging.size);
            worst.total = worst.total.min(paging.total);
            worst.last &= paging.last;
        }
    }

    /// Whether the caller deleted `key`, or the record to which it belongs.
    pub fn is_deleted(&self, resource: Resource, key: &RecordKey) -> bool {
        let gone = |resource, id| self.options.deleted.contains(&(resource, id));
        match key {
            RecordKey::Id(id) => gone(resource, *id),
            RecordKey::Item { channel, kind, id } => {
                gone(Resource::Channels, *channel) || (kind == "qr" && gone(Resource::QrCodes, *id))
            }
        }
    }

    pub fn usage(&self) -> RequestUsage {
        self.before.plus(usage_of(self.client))
    }

    pub fn problem(&mut self, problem: &RecordProblem) {
        self.progress.event(&Event::Warning { text: &problem.to_string() });
        if self.problems.len() < MANY_PROBLEMS {
            self.problems.push(problem.clone());
        }
    }
}

/// The cost of the requests of `client`.
#[must_use]
pub fn usage_of(client: &Client) -> RequestUsage {
    let counters = client.counters();
    RequestUsage {
        requests: counters.requests,
        throttled: counters.throttled,
        waited: counters.waited,
    }
}
