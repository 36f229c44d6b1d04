//! Stores decisions on steps of unknown outcome.

use std::time::Duration;

use super::account_session::lock_command;
use super::error_sources::apply_error;
use super::{Env, OpError, OpErrorKind, StoredWork, state_ref};
use crate::apply::ApplyError;
use crate::apply::resolve::{OpenStep, StepDecision, abandon, candidates, decide};
use crate::config::AccountConfig;
use crate::model::RunId;
use crate::vault::Vault;
use crate::vault::lock::Lock;

/// Decisions on the steps of a run.
pub struct ResolveRequest<'a> {
    /// The account of the run.
    pub account: &'a AccountConfig,
    /// The run with steps of unknown outcome.
    pub run: RunId,
    /// Decisions with the numbers of their steps.
    pub decisions: &'a [(u32, StepDecision)],
    /// Finish the run without its remaining steps.
    pub abandon: bool,
    /// Only return the open steps; store no decision.
    pub dry_run: bool,
}

/// Stores the decisions, and returns the steps that are still open.
///
/// # Errors
/// If the run does not exist, a decision is not possible, or another process holds the lock.
pub fn resolve(env: &Env, request: &ResolveRequest<'_>) -> Result<Vec<OpenStep>, OpError> {
    env.with_stored(&[request.account], StoredWork::Vault, || resolve_fetched(env, request))
}

fn resolve_fetched(env: &Env, request: &ResolveRequest<'_>) -> Result<Vec<OpenStep>, OpError> {
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
