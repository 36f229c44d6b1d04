//! A run under way, and what was proven of its account when.

use std::collections::{BTreeMap, BTreeSet};

use super::ApplyOptions;
use super::error::ApplyError;
use super::journal_step::{StepRun, parse_step};
use super::reconcile::KnownIds;
use crate::api::client::Client;
use crate::change::lists::Lists;
use crate::change::staleness::{DEFAULT, StalenessLimit, lists};
use crate::clock::{Clock, ClockReading};
use crate::model::paging::Paging;
use crate::model::{Resource, RunId, State};
use crate::progress::Progress;
use crate::vault::journal::Run;
use crate::vault::snapshot::ResourceOutcome;
use crate::vault::{Vault, VaultError};

/// How often a list that must be whole is read.
pub(super) const LOOKS: u32 = 3;
/// Requests a minute where the service has not told its limit.
const DEFAULT_LIMIT: u64 = 30;

/// A moment at which the account was asked for, and how many requests of the client had
/// failed for want of a connection by then: a new connection may lead to another service.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccountCheck {
    pub at: ClockReading,
    pub broken: u64,
}

impl AccountCheck {
    pub fn now(clock: &dyn Clock, client: &Client) -> Self {
        Self { at: ClockReading::now(clock), broken: client.connection_failures() }
    }
}

/// What was proven of the account, and when.
#[derive(Debug)]
pub(super) struct Freshness {
    /// What the run's steps stand on, as the run found it.
    pub base: State,
    pub staleness: StalenessLimit,
    /// When each list was last read whole, or rather when reading it began.
    pub read: BTreeMap<Resource, ClockReading>,
    /// When the account was last seen to be the vault's own.
    pub account: Option<AccountCheck>,
}

impl Freshness {
    /// What is known when a process begins to work on a run: with `fresh`, that the
    /// run's first snapshot was just made.
    pub fn new(
        vault: &mut Vault,
        clock: &dyn Clock,
        client: &Client,
        options: &ApplyOptions,
        run: &Run,
        fresh: bool,
    ) -> Result<Self, ApplyError> {
        let mut proofs = Self {
            base: State::default(),
            staleness: StalenessLimit::new(DEFAULT, 0, 0, Lists::default()),
            read: BTreeMap::new(),
            account: None,
        };
        let Some(before) = run.before else { return Ok(proofs) };
        let snapshot = match vault.snapshot(before) {
            // Without it, the plan's fingerprints tell what was there.
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
        proofs.staleness = StalenessLimit::new(max, limit, options.reserve, lists);
        if fresh {
            let began = ClockReading::at(clock, snapshot.started);
            proofs.read = snapshot.outcomes.iter().map(|it| (it.resource, began)).collect();
            // When the client failed is not known: if it did, the account is asked again.
            proofs.account = Some(AccountCheck { at: began, broken: 0 });
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
    /// How many of them have no outcome yet.
    pub open: u64,
    /// What was seen before the next create is sent.
    pub known: BTreeMap<Resource, KnownIds>,
    /// What was proven of the account before the next write is sent.
    pub proofs: Freshness,
    /// Steps whose intent is written and whose request has not left.
    pub intended: BTreeSet<usize>,
    /// Creates without an answer in a row.
    pub unanswered: u32,
    /// Requests that reading everything once more will take.
    pub reading: u64,
    /// Whether this process sent anything.
    pub wrote: bool,
    /// Whether an earlier process looked at what the run left.
    pub seen: bool,
    /// Steps whose end progress has told in words.
    pub told: BTreeSet<u32>,
}
