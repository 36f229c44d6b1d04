//! Letting go of old snapshots, by retention rules.

use std::time::Duration;

use super::account_options::retention_decisions;
use super::account_session::command_words;
use super::{Env, OpError, OpErrorKind, state_ref};
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
            .hint("give --keep-last, --keep-daily, …, or `keep` in the account's configuration")
    })?;
    state_ref::open(account)?;
    let words = command_words("forget", &account.name);
    let lock = match dry_run {
        true => None,
        false => Some(Lock::take(&account.vault, &words, Duration::ZERO, &*env.clock)?),
    };
    let vault = match dry_run {
        true => state_ref::open(account)?,
        false => Vault::open(&account.vault)?,
    };
    let snapshots = vault.snapshots()?;
    let decisions = match snapshots.last() {
        None => Vec::new(),
        Some(newest) => {
            let needed = vault.needed_by_runs()?;
            retention_decisions(account, &snapshots, &needed, &rules, newest.started)
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
    pub fn forget(mut self, env: &Env) -> Result<(), OpError> {
        let gone = self.forgotten();
        self.vault.forget(&gone, env.clock.now())?;
        if let Some(folder) = &self.account.settings.copy {
            let copy = folder.join(format!("{}.db", self.account.name));
            // The daemon's copy of the vault must not keep what the vault forgets.
            if copy.exists() {
                self.vault.copy_to(&copy)?;
            }
        }
        Ok(self.vault.close()?)
    }
}
