//! Deciding on steps of a run whose outcome is not known.

use std::time::Duration;

use super::account_session::lock_command;
use super::error_sources::apply_error;
use super::{Env, OpError, OpErrorKind, state_ref};
use crate::apply::ApplyError;
use crate::apply::resolve::{OpenStep, StepDecision, abandon, candidates, decide};
use crate::config::AccountConfig;
use crate::model::RunId;
use crate::vault::Vault;
use crate::vault::lock::Lock;

/// What was decided on a run.
pub struct ResolveRequest<'a> {
    pub account: &'a AccountConfig,
    pub run: RunId,
    /// Steps by their numbers.
    pub decisions: &'a [(u32, StepDecision)],
    /// Leave all that is not done as it is, and finish the run.
    pub abandon: bool,
    /// Show what is open and note no decision.
    pub dry_run: bool,
}

/// Notes the decisions, and returns the steps that are still open.
///
/// # Errors
/// When there is no such run, or a decision cannot be.
pub fn resolve(env: &Env, request: &ResolveRequest<'_>) -> Result<Vec<OpenStep>, OpError> {
    let (account, run) = (request.account, request.run);
    let name = &account.name;
    state_ref::open(account)?;
    let words = lock_command("resolve", name);
    let _lock = Lock::take(&account.vault, &words, Duration::ZERO, &*env.clock)?;
    let mut vault = Vault::open(&account.vault)?;
    let told = |error| apply_error(error, name);
    if request.abandon && !request.dry_run {
        abandon(&mut vault, run, env.clock.now()).map_err(told)?;
    }
    for (step, decision) in request.decisions.iter().filter(|_| !request.dry_run) {
        let decided = decide(&mut vault, run, *step, *decision, env.clock.now());
        decided.map_err(|error| match &error {
            ApplyError::Step { .. } | ApplyError::Finished(_) => {
                OpError::new(OpErrorKind::Usage, &error)
            }
            _ => told(error),
        })?;
    }
    let open = candidates(&mut vault, run).map_err(told)?;
    vault.close()?;
    Ok(open)
}
