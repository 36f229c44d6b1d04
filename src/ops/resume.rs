//! Continues a run that was stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::account_options::max_staleness;
use super::account_session::SessionLimits;
use super::apply::{AppliedRun, RunFiles, finish};
use super::error_sources::vault_error;
use super::migrate::PreparedReport;
use super::output_files::{OutputKind, require_outputs};
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind, StoredWork, state_ref};
use crate::apply::{self, ApplyOptions};
use crate::config::AccountConfig;
use crate::model::RunId;
use crate::vault::Vault;
use crate::vault::journal::RunCommand;

/// Which run to continue, and how.
pub struct ResumeRequest<'a> {
    /// The account of the run.
    pub account: &'a AccountConfig,
    /// The number of the run; the unfinished run if `None`.
    pub run: Option<RunId>,
    /// Stop at the first step that the service refuses.
    pub fail_fast: bool,
    /// The file for rejected rows; beside the input file if `None`.
    pub rejected: Option<PathBuf>,
    /// The file for the outcome of each row with a step; none is written if `None`.
    pub results: Option<PathBuf>,
    /// The file for the report in Markdown on a migration; none is written if `None`.
    pub report: Option<PathBuf>,
    /// The maximum age of a list when a write that depends on it is sent; the configuration's if
    /// `None`.
    pub max_staleness: Option<Duration>,
    /// Limits on requests, time and the wait for the lock.
    pub limits: SessionLimits,
}

/// The result of a resumed run.
pub struct ResumeReport {
    /// The run that ended.
    pub applied: AppliedRun,
    /// The source of the migration, such as `old@#12`, if `migrate` began the run.
    pub migrated_from: Option<String>,
}

/// Continues the run. Done steps are not repeated; steps that may have taken effect are looked up
/// first.
///
/// # Errors
/// If the run does not exist, no run is unfinished, or the run stopped again.
pub fn resume(env: &Env, request: &ResumeRequest<'_>) -> Result<ResumeReport, OpError> {
    env.catch_interrupts();
    env.with_stored(&[request.account], StoredWork::Account, || resume_fetched(env, request))
}

fn resume_fetched(env: &Env, request: &ResumeRequest<'_>) -> Result<ResumeReport, OpError> {
    let account = request.account;
    let (rejected, results) = (request.rejected.as_ref(), request.results.as_ref());
    require_outputs([(rejected, OutputKind::Rejected), (results, OutputKind::Results)], env.force)?;
    state_ref::open(account)?;
    let mut session = WriteSession::open(env, account, "resume", &request.limits)?;
    let run = open_run(&session.vault, request.run, account)?;
    let began = session.vault.run(run).map_err(|error| vault_error(error, &account.name))?;
    let report = request.report.as_deref().map(|file| PreparedReport::new(env, &began, file));
    let report = report.transpose()?;
    let staleness = max_staleness(request.max_staleness, account);
    let options =
        ApplyOptions { fail_fast: request.fail_fast, ..resume_options(&session, staleness) };
    let progress = Arc::clone(&session.progress);
    let (client, vault) = (&mut session.session.client, &mut session.vault);
    let ended = apply::resume(client, vault, &*env.clock, &*progress, &options, run);
    drop(progress);
    let (rejected, results) = (request.rejected.as_deref(), request.results.as_deref());
    let applied = finish(session, ended, &RunFiles { rejected, results }, (None, None))?;
    if let Some(report) = report {
        report.write(env, account, run)?;
    }
    let migrated_from = (began.command == RunCommand::Migrate).then_some(began.input);
    Ok(ResumeReport { applied, migrated_from })
}

/// The options for a run that another process began.
pub(super) fn resume_options(session: &WriteSession<'_>, max_staleness: Duration) -> ApplyOptions {
    ApplyOptions {
        service: session.session.service.clone(),
        max_staleness: Some(max_staleness),
        limit: session.account.settings.limit.map(u64::from),
        reserve: session.session.reserve,
        ..ApplyOptions::default()
    }
}

/// The run to continue: `asked`, or the unfinished one of `account`.
///
/// # Errors
/// If every run is finished.
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
