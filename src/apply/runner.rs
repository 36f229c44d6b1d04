//! A run under way, and when its account and lists were last checked.

use std::collections::{BTreeMap, BTreeSet};

use super::ApplyOptions;
use super::error::ApplyError;
use super::journal_step::{StepRun, parse_step};
use super::reconcile::KnownIds;
use crate::api::client::Client;
use crate::change::lists::Lists;
use crate::change::plan::RequestRate;
use crate::change::staleness::{DEFAULT, StalenessLimit, lists};
use crate::clock::{Clock, ClockReading};
use crate::crawl::AccountCheck;
use crate::model::paging::Paging;
use crate::model::{Resource, RunId, State};
use crate::progress::Progress;
use crate::vault::journal::Run;
use crate::vault::snapshot::ResourceOutcome;
use crate::vault::{Vault, VaultError};

/// How often a list that must be complete is read before the run stops.
pub(super) const MAX_READS: u32 = 3;
/// The rate limit, in requests per minute, until the service sends its own.
const DEFAULT_LIMIT: u64 = 30;

/// When the account and its lists were last checked.
#[derive(Debug)]
pub(super) struct Freshness {
    /// The records that the run's steps depend on, in the run's first snapshot.
    pub base: State,
    pub staleness: StalenessLimit,
    /// When the last complete read of each list began.
    pub read: BTreeMap<Resource, ClockReading>,
    /// When the account was last found to be the vault's own.
    pub account: Option<AccountCheck>,
}

impl Freshness {
    /// At the start of a process that works on `run`. `fresh`: the run's first snapshot was just
    /// made, after this many requests of the client.
    pub fn new(
        vault: &mut Vault,
        clock: &dyn Clock,
        client: &Client,
        options: &ApplyOptions,
        run: &Run,
        fresh: Option<u64>,
    ) -> Result<Self, ApplyError> {
        let mut proofs = Self {
            base: State::default(),
            staleness: StalenessLimit::new(DEFAULT, RequestRate::default(), Lists::default()),
            read: BTreeMap::new(),
            account: None,
        };
        let Some(before) = run.before else { return Ok(proofs) };
        let snapshot = match vault.snapshot(before) {
            // Without the snapshot, records are compared with the plan's fingerprints.
            Err(VaultError::NoSnapshot(_)) => return Ok(proofs),
            found => found?,
        };
        let rows = vault.steps(run.number)?;
        let mut which = Vec::new();
        for row in &rows {
            which.extend(lists(&parse_step(row)?));
        }
        which.sort_unstable();
        which.dedup();
        which.retain(|it| snapshot.outcome(*it).is_some_and(ResourceOutcome::is_complete));
        proofs.base = vault.state(before, &which)?;
        let mut paging = BTreeMap::new();
        for resource in &which {
            if let Some(size) = vault.learned_page_size(*resource)? {
                paging.insert(*resource, Paging { size, ..Paging::default() });
            }
        }
        paging.extend(&options.paging);
        let limit = client.limit().or(options.limit).unwrap_or(DEFAULT_LIMIT);
        let max = options.max_staleness.unwrap_or(DEFAULT);
        let lists = Lists::of(&proofs.base, paging);
        let rate = RequestRate { limit, reserve: options.reserve };
        proofs.staleness = StalenessLimit::new(max, rate, lists);
        if let Some(sent) = fresh {
            let began = ClockReading::at(clock, snapshot.started);
            proofs.read = snapshot.outcomes.iter().map(|it| (it.resource, began)).collect();
            // When a connection failed is not known: if any did, the account is checked again.
            // After a pause, the crawl has checked it.
            let (requests, pauses) = (sent + 1, client.pauses());
            proofs.account = Some(AccountCheck { at: began, requests, failures: 0, pauses });
        }
        Ok(proofs)
    }
}

/// A run under way.
pub(super) struct PlanRunner<'a> {
    pub client: &'a mut Client,
    pub vault: &'a mut Vault,
    pub clock: &'a dyn Clock,
    pub progress: &'a dyn Progress,
    pub options: &'a ApplyOptions,
    pub run: RunId,
    pub all: Vec<StepRun>,
    /// How many steps of `all` have no outcome yet.
    pub open: u64,
    /// The ids known before the next create is sent.
    pub known: BTreeMap<Resource, KnownIds>,
    /// The latest checks of account and lists.
    pub proofs: Freshness,
    /// Steps that are marked as sent and whose request has not been sent.
    pub intended: BTreeSet<usize>,
    /// The number of consecutive creates without a response.
    pub unanswered: u32,
    /// The requests that the crawl at the end will take, with one for the account.
    pub reading: u64,
    /// The resources that it will read.
    pub touched: &'a [Resource],
    /// Whether this process sent a write.
    pub wrote: bool,
    /// Whether this process has put the journal into the store of the vault.
    pub stored: bool,
    /// How often in succession a put took so long that the ids known before were too old.
    pub slow_puts: u32,
    /// Whether an earlier process made the snapshot after the run.
    pub seen: bool,
    /// The steps about whose end a progress event was sent.
    pub told: BTreeSet<u32>,
}
