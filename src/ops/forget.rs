//! Forgets old snapshots by retention rules.

use std::time::Duration;

use super::account_options::retention_decisions;
use super::account_session::lock_command;
use super::error_sources::vault_error;
use super::vault_copy::renew_copy;
use super::vault_summary::unacknowledged_removals;
use super::{Env, NextStep, OpError, OpErrorKind, StoredWork, state_ref};
use crate::clock::{Clock, Timestamp};
use crate::config::{AccountConfig, RetentionRules};
use crate::model::SnapshotId;
use crate::vault::Vault;
use crate::vault::lock::Lock;
use crate::vault::retention::RetentionDecision;
use crate::vault::snapshot::Snapshot;

/// Which snapshots of an account to forget. Holds the account's lock until it is dropped, except in
/// a dry run.
pub struct RetentionPlan<'a> {
    account: &'a AccountConfig,
    vault: Vault,
    /// The snapshots of the vault, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// One decision for each snapshot, in the same order.
    pub decisions: Vec<RetentionDecision>,
    _lock: Option<Lock>,
}

/// Decides which snapshots of `account` to forget, by `rules`, or else by the rules of its
/// configuration.
///
/// # Errors
/// If there is no rule, or another process holds the lock.
pub fn plan_retention<'a>(
    env: &Env,
    account: &'a AccountConfig,
    rules: Option<RetentionRules>,
    dry_run: bool,
) -> Result<RetentionPlan<'a>, OpError> {
    let rules = rules.or_else(|| account.settings.keep.clone()).ok_or_else(|| {
        OpError::new(OpErrorKind::Usage, "no retention rule is given")
            .next(NextStep::GiveRetentionRule)
    })?;
    env.fetch(account)?;
    state_ref::open(account)?;
    if dry_run {
        return decide(account, &rules, state_ref::open(account)?, None, env.clock.now());
    }
    plan_locked(account, &rules, "forget", Duration::ZERO, &*env.clock)
}

/// Decides by `rules`, for `command`. Waits up to `timeout` for the account's lock.
///
/// # Errors
/// If another process still holds the lock.
pub(super) fn plan_locked<'a>(
    account: &'a AccountConfig,
    rules: &RetentionRules,
    command: &str,
    timeout: Duration,
    clock: &dyn Clock,
) -> Result<RetentionPlan<'a>, OpError> {
    let words = lock_command(command, &account.name);
    let lock = Lock::take(&account.vault, &words, timeout, clock)?;
    let vault = Vault::open(&account.vault).map_err(|error| vault_error(error, &account.name))?;
    decide(account, rules, vault, Some(lock), clock.now())
}

fn decide<'a>(
    account: &'a AccountConfig,
    rules: &RetentionRules,
    vault: Vault,
    lock: Option<Lock>,
    now: Timestamp,
) -> Result<RetentionPlan<'a>, OpError> {
    let snapshots = vault.snapshots()?;
    let decisions = match snapshots.last() {
        None => Vec::new(),
        Some(newest) => {
            let removals = unacknowledged_removals(account, &vault, now)?;
            let of_runs = vault.needed_by_runs()?.into_iter();
            let of_runs = of_runs.map(|number| (number, "an unfinished run needs it"));
            let lost = removals.needed_snapshots().into_iter();
            let lost = lost.map(|number| (number, "many records were removed after it"));
            let needed: Vec<_> = of_runs.chain(lost).collect();
            retention_decisions(account, &snapshots, &needed, rules, newest.started)
        }
    };
    Ok(RetentionPlan { account, vault, snapshots, decisions, _lock: lock })
}

impl RetentionPlan<'_> {
    /// The numbers of the snapshots that no rule keeps.
    #[must_use]
    pub fn forgotten(&self) -> Vec<SnapshotId> {
        let gone = self.decisions.iter().filter(|it| it.reasons.is_empty());
        gone.map(|it| it.number).collect()
    }

    /// Forgets the snapshots that no rule keeps, and renews the daemon's copy of the vault.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub fn forget(self, env: &Env) -> Result<(), OpError> {
        let account = self.account;
        env.put_after(account, StoredWork::Vault, self.forget_locked(env))
    }

    fn forget_locked(mut self, env: &Env) -> Result<(), OpError> {
        self.forget_in_vault(&*env.clock)?;
        // The daemon's copy of the vault must not keep the forgotten snapshots.
        renew_copy(env, self.account, &self.vault)?;
        Ok(self.vault.close()?)
    }

    /// Forgets the snapshots that no rule keeps, without the copy, which the caller renews
    /// afterwards.
    pub(super) fn forget_without_copy(mut self, clock: &dyn Clock) -> Result<(), OpError> {
        self.forget_in_vault(clock)?;
        Ok(self.vault.close()?)
    }

    fn forget_in_vault(&mut self, clock: &dyn Clock) -> Result<(), OpError> {
        let gone = self.forgotten();
        if !gone.is_empty() {
            self.vault.forget(&gone, clock.now())?;
        }
        Ok(())
    }
}
