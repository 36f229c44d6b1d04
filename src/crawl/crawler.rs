//! A crawl under way: what all its parts read and note.

use std::collections::BTreeMap;

use super::account::verify_account;
use super::error::CrawlError;
use super::options::CrawlOptions;
use super::proof;
use crate::api::client::Client;
use crate::clock::{Clock, ClockReading};
use crate::model::paging::Paging;
use crate::model::{RecordKey, RecordProblem, Resource};
use crate::progress::{Event, Progress};
use crate::vault::Vault;
use crate::vault::snapshot::{RequestUsage, Snapshot};

/// The most problems that are remembered one by one.
const MANY_PROBLEMS: usize = 100;

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

/// One crawl under way.
pub(super) struct Crawler<'a> {
    pub client: &'a mut Client,
    pub vault: &'a mut Vault,
    pub clock: &'a dyn Clock,
    pub progress: &'a dyn Progress,
    pub options: &'a CrawlOptions,
    pub snapshot: i64,
    /// What earlier processes spent on this snapshot.
    pub before: RequestUsage,
    pub problems: Vec<RecordProblem>,
    pub paging: BTreeMap<Resource, Paging>,
    /// The account answered after a list had refused.
    pub key_confirmed: bool,
    /// How often it was asked again whose account it is.
    pub confirmed: u64,
    /// When the account was last seen to be the vault's own.
    pub proven: ClockReading,
    /// The client's pauses until then.
    pub pauses: u64,
}

impl Crawler<'_> {
    /// Asks again whose account it is. What was read since the last time is of the
    /// vault's own account only if it still is that one.
    pub fn confirm(&mut self) -> Result<(), CrawlError> {
        let proven = ClockReading::now(self.clock);
        self.confirmed += 1;
        verify_account(self.client, self.vault, &self.options.service)?;
        self.proven = proven;
        self.pauses = self.client.pauses();
        Ok(())
    }

    /// Before anything of an answer is stored: asks again whose account it is, where a
    /// request left after a long pause since the last time.
    pub fn confirm_after_pause(&mut self) -> Result<(), CrawlError> {
        if self.client.pauses() == self.pauses { Ok(()) } else { self.confirm() }
    }

    /// Notes how the service divides a list into pages. Of several lists of a resource, the
    /// one that costs most counts.
    pub fn note_paging(&mut self, resource: Resource, pages: &[proof::PageEvidence]) {
        if let Some(paging) = proof::paging(pages) {
            let worst = self.paging.entry(resource).or_insert(paging);
            worst.size = worst.size.min(paging.size);
            worst.total = worst.total.min(paging.total);
            worst.last &= paging.last;
        }
    }

    /// Whether `key` is gone because the caller deleted it, or what it belongs to.
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
        self.before.plus(spent(self.client))
    }

    pub fn problem(&mut self, problem: &RecordProblem) {
        self.progress.event(&Event::Warning { text: &problem.to_string() });
        if self.problems.len() < MANY_PROBLEMS {
            self.problems.push(problem.clone());
        }
    }
}

/// What `client` has spent.
#[must_use]
pub fn spent(client: &Client) -> RequestUsage {
    let counters = client.counters();
    RequestUsage {
        requests: counters.requests,
        throttled: counters.throttled,
        waited: counters.waited,
    }
}
