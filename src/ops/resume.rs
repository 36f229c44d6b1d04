//! Going on with a run that was stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::account_options::max_staleness;
use super::account_session::SessionLimits;
use super::apply::{AppliedRun, finish};
use super::error_sources::vault_error;
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind, state_ref};
use crate::apply::{self, ApplyOptions};
use crate::config::AccountConfig;
use crate::model::RunId;
use crate::vault::Vault;

/// Which run to go on with, and how.
pub struct ResumeRequest<'a> {
    pub account: &'a AccountConfig,
    /// The one that is not finished if `None`.
    pub run: Option<RunId>,
    /// Stop at the first step that the service refuses.
    pub fail_fast: bool,
    /// Where rows that were refused are written; beside their file if `None`.
    pub rejected: Option<PathBuf>,
    pub max_staleness: Option<Duration>,
    pub limits: SessionLimits,
}

/// What a resumed run came to.
pub struct ResumeReport {
    pub applied: AppliedRun,
    /// The source of the `migrate` that began the run.
    pub migrated_from: Option<String>,
}

/// Goes on: what is done is not done again; what may have been done is looked up first.
///
/// # Errors
/// When there is no such run, or it had to stop again.
pub fn resume(env: &Env, request: &ResumeRequest<'_>) -> Result<ResumeReport, OpError> {
    let account = request.account;
    env.catch_interrupts();
    state_ref::open(account)?;
    let mut session = WriteSession::open(env, account, "resume", &request.limits)?;
    let run = open_run(&session.vault, request.run, account)?;
    let began = session.vault.run(run).map_err(|error| vault_error(error, &account.name))?;
    let options = ApplyOptions {
        service: session.session.service.clone(),
        fail_fast: request.fail_fast,
        max_staleness: Some(max_staleness(request.max_staleness, account)),
        limit: account.settings.limit.map(u64::from),
        reserve: session.session.reserve,
        ..ApplyOptions::default()
    };
    let progress = Arc::clone(&session.progress);
    let (client, vault) = (&mut session.session.client, &mut session.vault);
    let ended = apply::resume(client, vault, &*env.clock, &*progress, &options, run);
    drop(progress);
    let applied = finish(session, ended, request.rejected.as_deref())?;
    let migrated_from = (began.command == "migrate").then_some(began.input);
    Ok(ResumeReport { applied, migrated_from })
}

/// The run to go on with: `asked`, or the one of `account` that is not finished.
///
/// # Errors
/// When every run is finished.
pub fn open_run(
    vault: &Vault,
    asked: Option<RunId>,
    account: &AccountConfig,
) -> Result<RunId, OpError> {
    let unfinished = vault.unfinished_run()?.map(|run| run.number);
    asked.or(unfinished).ok_or_else(|| {
        let message = format!("every run of {} is finished", account.name);
        OpError::new(OpErrorKind::NotFound, message)
            .next(NextStep::ListRuns(Some(account.name.clone())))
    })
}
