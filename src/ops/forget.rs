//! Letting go of old snapshots, by retention rules.

use std::time::Duration;

use super::account_options::retention_decisions;
use super::account_session::lock_command;
use super::{Env, NextStep, OpError, OpErrorKind, state_ref};
use crate::clock::Clock;
use crate::config::{AccountConfig, RetentionRules};
use crate::vault::Vault;
use crate::vault::lock::Lock;
use crate::vault::retention::RetentionDecision;
use crate::vault::snapshot::Snapshot;

/// What is to become of each snapshot of an account. While it lives, the account is
/// locked, unless it is for a dry run.
pub struct RetentionPlan<'a> {
    account: &'a AccountConfig,
    vault: Vault,
    pub snapshots: Vec<Snapshot>,
    /// One for each snapshot, in the same order.
    pub decisions: Vec<RetentionDecision>,
    _lock: Option<Lock>,
}

/// Decides which snapshots of `account` are forgotten: by `rules`, or else by those of its
/// configuration.
///
/// # Errors
/// When no rule is given, or the vault is locked or cannot be read.
pub fn plan_retention<'a>(
    env: &Env,
    account: &'a AccountConfig,
    rules: Option<RetentionRules>,
    dry_run: bool,
) -> Result<RetentionPlan<'a>, OpError> {
    let rules = rules.or_else(|| account.settings.keep.clone()).ok_or_else(|| {
        OpError::new(OpErrorKind::Usage, "no rule says what to keep")
            .next(NextStep::GiveRetentionRule)
    })?;
    state_ref::open(account)?;
    if dry_run {
        return decide(account, &rules, state_ref::open(account)?, None);
    }
    plan_locked(account, &rules, "forget", Duration::ZERO, &*env.clock)
}

/// The same by `rules`, for `command`, which waits up to `patience` for the account's lock.
///
/// # Errors
/// When the vault is locked or cannot be read.
pub(super) fn plan_locked<'a>(
    account: &'a AccountConfig,
    rules: &RetentionRules,
    command: &str,
    patience: Duration,
    clock: &dyn Clock,
) -> Result<RetentionPlan<'a>, OpError> {
    let words = lock_command(command, &account.name);
    let lock = Lock::take(&account.vault, &words, patience, clock)?;
    decide(account, rules, Vault::open(&account.vault)?, Some(lock))
}

fn decide<'a>(
    account: &'a AccountConfig,
    rules: &RetentionRules,
    vault: Vault,
    lock: Option<Lock>,
) -> Result<RetentionPlan<'a>, OpError> {
    let snapshots = vault.snapshots()?;
    let decisions = match snapshots.last() {
        None => Vec::new(),
        Some(newest) => {
            let needed = vault.needed_by_runs()?;
            retention_decisions(account, &snapshots, &needed, rules, newest.started)
        }
    };
    Ok(RetentionPlan { account, vault, snapshots, decisions, _lock: lock })
}

impl RetentionPlan<'_> {
    /// The numbers of the snapshots that no rule keeps.
    #[must_use]
    pub fn forgotten(&self) -> Vec<i64> {
        let gone = self.decisions.iter().filter(|it| it.reasons.is_empty());
        gone.map(|it| it.number).collect()
    }

    /// Forgets what no rule keeps, in the daemon's copy of the vault too.
    ///
    /// # Errors
    /// When the vault or the copy cannot be written.
    pub fn forget(mut self, clock: &dyn Clock) -> Result<(), OpError> {
        self.forget_in_vault(clock)?;
        if let Some(folder) = &self.account.settings.copy {
            let copy = folder.join(format!("{}.db", self.account.name));
            // The daemon's copy of the vault must not keep what the vault forgets.
            if copy.exists() {
                self.vault.copy_to(&copy)?;
            }
        }
        Ok(self.vault.close()?)
    }

    /// Forgets what no rule keeps, where the copy is made anew afterwards.
    pub(super) fn forget_before_copy(mut self, clock: &dyn Clock) -> Result<(), OpError> {
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
