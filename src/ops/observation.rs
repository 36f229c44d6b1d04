//! Reads the present account, for which a plan is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::account_options::max_staleness;
use super::account_session::{AccountSession, SessionLimits, lock_command};
use super::{Env, OpError, state_ref};
use crate::apply;
use crate::change::cost::{CrawlRequests, cost};
use crate::change::labels::contents;
use crate::change::lists::Lists;
use crate::change::plan::{AccountMemory, Plan, PlanCost, RequestRate};
use crate::change::staleness::StalenessLimit;
use crate::clock::Clock;
use crate::config::AccountConfig;
use crate::crawl::{self, ObservationScope};
use crate::model::paging::Paging;
use crate::model::{RecordKey, Resource, SnapshotId, State};
use crate::progress::Progress;
use crate::vault::snapshot::ReadState;
use crate::vault::{Vault, VaultError};

/// The present account, and the stored values about it.
#[derive(Debug)]
pub struct Observation {
    /// The present records of the resources that were read.
    pub state: State,
    /// Resources that the service does not offer; `state` has no records of them.
    pub not_offered: Vec<Resource>,
    /// Sent values and replaced ids from the vault.
    pub memory: AccountMemory,
    /// The requests that reading took, without `confirming`.
    pub reading: u64,
    /// Further requests that check the account again, one for each list that lacks records of the
    /// account's own vault.
    pub confirming: u64,
    /// How the lists are divided into pages.
    pub paging: BTreeMap<Resource, Paging>,
    /// The account's rate limit.
    pub rate: RequestRate,
    /// The maximum age of a list when a write that depends on it is sent.
    pub max_staleness: Duration,
    /// The service's URL as the vault stores it.
    pub service: String,
    /// The account's id on the service.
    pub account_id: Option<i64>,
    /// When the records had been read, on the monotonic clock.
    pub read_at: Duration,
    /// The number of the snapshot with this state.
    pub snapshot: SnapshotId,
    /// Whether the snapshot is in the account's own vault.
    pub kept: bool,
}

impl Observation {
    /// Adds to `plan` its cost, and the contents of QR codes by which its steps are named.
    pub fn complete(&self, plan: &mut Plan) {
        plan.cost = self.cost(plan);
        plan.contents = contents(&self.memory.sent);
    }

    /// The cost of executing `plan`, with this crawl and the one at the end.
    #[must_use]
    pub fn cost(&self, plan: &Plan) -> PlanCost {
        let mut again = plan.touched();
        if again.contains(&Resource::ChannelItems) && !again.contains(&Resource::Channels) {
            again.push(Resource::Channels);
        }
        let lists = Lists::of(&self.state, self.paging.clone());
        let mut done = lists.clone();
        plan.steps.iter().for_each(|step| done.apply_step(step));
        let after = again.iter().map(|it| done.requests(*it)).fold(0, u64::saturating_add);
        let staleness = StalenessLimit::new(self.max_staleness, self.rate, lists);
        let crawls = CrawlRequests { before: self.reading + self.confirming, after };
        cost(plan, crawls, &staleness)
    }
}

/// Reads the resources `which` of an account, without storing anything in its vault.
///
/// # Errors
/// If a resource cannot be read completely, another process holds the lock, or the vault belongs to
/// another account.
pub fn observe_account(
    env: &Env,
    account: &AccountConfig,
    bounds: &SessionLimits,
    which: &[Resource],
) -> Result<Observation, OpError> {
    let progress = env.progress(&account.name);
    let words = lock_command("plan", &account.name);
    let mut session = AccountSession::open(env, account, &words, bounds, Arc::clone(&progress))?;
    let own = state_ref::open_if_there(account)?;
    observe_aside(&*env.clock, account, &mut session, own.as_ref(), &*progress, which)
}

/// Like [`observe_account`], with an open session. `own` is the account's vault, which stays
/// unchanged.
///
/// # Errors
/// As [`observe_account`].
pub fn observe_aside(
    clock: &dyn Clock,
    account: &AccountConfig,
    session: &mut AccountSession,
    own: Option<&Vault>,
    progress: &dyn Progress,
    which: &[Resource],
) -> Result<Observation, OpError> {
    let mut vault = own.map_or_else(Vault::in_memory, Vault::empty_of_same_account)?;
    let mut observation = observe_into(clock, account, session, &mut vault, progress, which)?;
    observation.kept = false;
    if let Some(own) = own {
        observation.memory = apply::account_memory(own)?;
        observation.confirming = lost_lists(own, &observation)?;
    }
    Ok(observation)
}

/// The number of lists in `now` that lack records of `own`: a crawl into `own` would check the
/// account again for each. Lists that are not offered do not count.
fn lost_lists(own: &Vault, now: &Observation) -> Result<u64, VaultError> {
    let mut lists = BTreeSet::new();
    let offered = |(it, _): &(Resource, _)| !now.not_offered.contains(it);
    for (resource, records) in now.state.iter().filter(offered) {
        for key in own.open_keys(resource)?.into_iter().filter(|key| !records.contains_key(key)) {
            let channel = match key {
                RecordKey::Item { channel, .. } => Some(channel),
                RecordKey::Id(_) => None,
            };
            let listed = |channel| now.state.get(Resource::Channels)?.get(&RecordKey::Id(channel));
            if channel.is_none_or(|channel| listed(channel).is_some()) {
                lists.insert((resource, channel));
            }
        }
    }
    Ok(lists.len() as u64)
}

/// Reads an account into a new snapshot in `vault`.
///
/// # Errors
/// As [`observe_account`].
pub fn observe_into(
    clock: &dyn Clock,
    account: &AccountConfig,
    session: &mut AccountSession,
    vault: &mut Vault,
    progress: &dyn Progress,
    which: &[Resource],
) -> Result<Observation, OpError> {
    let before = session.client.counters().requests;
    let scope = ObservationScope::before_run(which);
    let report = crawl::observe(session.link(clock, progress), scope, vault)?;
    let snapshot = report.snapshot;
    let which = crawl::with_parents(which);
    if let Err(unread) = crawl::require_complete(&snapshot, &which) {
        // No run begins with it, so it would count as a backup.
        vault.forget(&[snapshot.number], clock.now())?;
        return Err(unread.into());
    }
    let confirming = report.confirmed;
    let reading = (session.client.counters().requests - before).saturating_sub(confirming);
    let outcomes = snapshot.outcomes.iter();
    let not_offered = outcomes.filter(|it| it.state == ReadState::NotOffered);
    let not_offered = not_offered.map(|it| it.resource).collect();
    let known = session.client.limit();
    Ok(Observation {
        state: vault.state(snapshot.number, &which)?,
        not_offered,
        memory: apply::account_memory(vault)?,
        reading,
        confirming,
        paging: report.paging,
        rate: RequestRate { limit: known.unwrap_or(30), reserve: session.reserve },
        max_staleness: max_staleness(None, account),
        service: session.service.clone(),
        account_id: vault.identity()?.map(|identity| identity.account),
        read_at: clock.monotonic(),
        snapshot: snapshot.number,
        kept: true,
    })
}
