//! Backs an account up into its vault.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::account_options::{configured_backup, statistics_mode};
use super::account_session::{AccountSession, SessionLimits, known_limit, lock_command};
use super::backup_attempts::{attempt_of_error, attempt_of_snapshot, field_changes, save_attempt};
use super::input::scope;
use super::vault_summary::unacknowledged_removals;
use super::{Env, OpError, OpErrorKind, StoredWork, state_ref};
use crate::api::pacer::Pacer;
use crate::apply::{Twin, late_twins};
use crate::clock::Timestamp;
use crate::config::{AccountConfig, StatisticsSetting};
use crate::crawl::{self, CrawlOptions, CrawlReport, ObservationScope, StatisticsMode};
use crate::health::attempt::{AttemptOutcome, BackupAttempt, HealthProblem, ProblemKind};
use crate::health::removals::OpenRemovals;
use crate::health::rules::{HealthFacts, evaluate};
use crate::model::{Resource, SnapshotId};
use crate::progress::Progress;
use crate::vault::Vault;
use crate::vault::lock::{LockCommand, LockPurpose};
use crate::vault::read::NewScans;
use crate::vault::snapshot::{ReadState, RequestUsage, Snapshot};

/// Which account to back up, and which part of it.
#[derive(Debug, Clone)]
pub struct BackupRequest<'a> {
    /// The name of the command for the lock: `backup` or `daemon`.
    pub command: &'a str,
    /// The account to back up.
    pub account: &'a AccountConfig,
    /// Only these resources; those of the configuration if empty.
    pub only: Vec<Resource>,
    /// Not these resources.
    pub skip: Vec<Resource>,
    /// Of which QR codes to request statistics; the configuration's if `None`.
    pub stats: Option<StatisticsSetting>,
    /// The maximum number of QR codes whose statistics are requested; the configuration's if
    /// `None`.
    pub stats_budget: Option<u32>,
    /// Start a new snapshot instead of continuing a backup that was stopped.
    pub fresh: bool,
    /// A tag for the snapshot.
    pub tag: Option<String>,
    /// Drop the snapshot if it is equal to the one before.
    pub skip_if_unchanged: bool,
    /// Accept that the URL of the service differs from the one in the vault.
    pub service_moved: bool,
    /// Limits on requests, time and the wait for the lock.
    pub limits: SessionLimits,
}

impl<'a> BackupRequest<'a> {
    /// A backup of `account` with the options of the configuration.
    #[must_use]
    pub fn new(command: &'a str, account: &'a AccountConfig) -> Self {
        Self {
            command,
            account,
            only: Vec::new(),
            skip: Vec::new(),
            stats: None,
            stats_budget: None,
            fresh: false,
            tag: None,
            skip_if_unchanged: false,
            service_moved: false,
            limits: SessionLimits::default(),
        }
    }

    fn options(&self, service: &str) -> Result<CrawlOptions, OpError> {
        let standing = configured_backup(self.account, service);
        Ok(CrawlOptions {
            stats: self.stats.map_or(standing.stats, statistics_mode),
            stats_budget: self.stats_budget.map(u64::from).or(standing.stats_budget),
            fresh: self.fresh,
            tag: self.tag.clone(),
            service_moved: self.service_moved,
            ..standing.clone().only(&self.scope(&standing.excluded)?)
        })
    }

    /// The resources to read. If `only` is empty, the configuration's `skip` applies too.
    fn scope(&self, excluded: &[Resource]) -> Result<Vec<Resource>, OpError> {
        if !self.only.is_empty() {
            return scope(&self.only, &self.skip);
        }
        let skip: Vec<_> = self.skip.iter().chain(excluded).copied().collect();
        scope(&[], &skip)
    }
}

/// The result of a backup.
pub struct BackupReport {
    /// The snapshot, with its counts.
    pub summary: CrawlReport,
    /// The scans since the snapshot before.
    pub scans: NewScans,
    /// The attempt, as recorded for `status`.
    pub attempt: BackupAttempt,
    /// The problems for which the daemon would send an alert: many removed records, lists that
    /// became empty, and changes of the service's fields.
    pub problems: Vec<HealthProblem>,
    /// The snapshot that the account is equal to, if the new one was dropped for that reason.
    pub unchanged_since: Option<SnapshotId>,
    /// Records that a run created twice, and that this backup is the first to show.
    pub twins: Vec<Twin>,
    /// The duration of the backup.
    pub time: Duration,
    /// The file of the vault.
    pub vault: PathBuf,
}

/// Makes a backup, and records it for `status`.
///
/// # Errors
/// If another process holds the lock, the key is not accepted, the service cannot be read, or a
/// limit or an interrupt stops the backup.
pub fn backup(env: &Env, request: &BackupRequest<'_>) -> Result<BackupReport, OpError> {
    let (began, started) = (env.clock.monotonic(), env.clock.now());
    let mut spent = RequestUsage::default();
    let progress = env.progress(&request.account.name);
    let work = || {
        run_backup(env, request, &progress, &mut spent).and_then(|(summary, mut vault)| {
            let scans = vault.new_scans(summary.snapshot.number)?;
            let fields = field_changes(request.account, &mut vault, &summary.snapshot)?;
            let unchanged = match request.skip_if_unchanged {
                true => vault.drop_unchanged(summary.snapshot.number, env.clock.now())?,
                false => None,
            };
            let twins = late_twins(&mut vault, &summary.snapshot)?;
            let now = env.clock.now();
            let removals = unacknowledged_removals(request.account, &vault, now)?;
            vault.checkpoint()?;
            let path = vault.path().to_owned();
            Ok((summary, scans, removals, fields, unchanged, twins, path))
        })
    };
    let mirrored = env.with_stored(&[request.account], StoredWork::Vault, work);
    drop(progress);
    let ended = env.clock.now();
    let account = request.account;
    let mirrored = mirrored.inspect_err(|failure| {
        let mut attempt = attempt_of_error(failure, env.events(), started, ended, spent);
        let limits = &request.limits;
        let bounded = limits.max_duration.is_some() || limits.max_requests.is_some();
        if failure.kind == OpErrorKind::Stopped && bounded {
            // Reaching a limit of the command line is not a problem of the account.
            attempt.outcome = AttemptOutcome::Stopped;
        }
        if failure.kind != OpErrorKind::Usage {
            // A failure of the vault's disk is reported already.
            let told = failure.kind == OpErrorKind::Vault;
            if let Err(why) = save_attempt(env, account, &attempt)
                && !told
            {
                env.warn(why);
            }
        }
    })?;
    let (summary, scans, removals, fields, unchanged_since, twins, vault) = mirrored;
    twins.iter().for_each(|twin| env.warn(twin.warning(&account.name)));
    let mut attempt = attempt_of_snapshot(&summary.snapshot, started, ended, spent);
    attempt.snapshot = unchanged_since.or(attempt.snapshot);
    attempt.field_changes = fields;
    if let Err(why) = save_attempt(env, account, &attempt) {
        env.warn(why);
    }
    let problems = problems(account, &attempt, &removals, ended);
    let time = env.clock.monotonic().saturating_sub(began);
    Ok(BackupReport { summary, scans, attempt, problems, unchanged_since, twins, time, vault })
}

/// Makes a backup as an attempt for the caller to record; with its error if it failed. The attempt
/// of an error does not name its snapshot.
pub fn attempt_backup(
    env: &Env,
    request: &BackupRequest<'_>,
    progress: &Arc<dyn Progress + Send + Sync>,
) -> (BackupAttempt, Option<OpError>) {
    let started = env.clock.now();
    let mut spent = RequestUsage::default();
    let made = env.with_stored(&[request.account], StoredWork::Vault, || {
        let (summary, mut vault) = run_backup(env, request, progress, &mut spent)?;
        let fields = field_changes(request.account, &mut vault, &summary.snapshot)?;
        for twin in late_twins(&mut vault, &summary.snapshot)? {
            env.warn(twin.warning(&request.account.name));
        }
        vault.checkpoint()?;
        Ok((summary.snapshot, fields))
    });
    let ended = env.clock.now();
    match made {
        Ok((snapshot, field_changes)) => {
            let attempt = attempt_of_snapshot(&snapshot, started, ended, spent);
            (BackupAttempt { field_changes, ..attempt }, None)
        }
        Err(failure) => {
            let attempt = attempt_of_error(&failure, env.events(), started, ended, spent);
            (attempt, Some(failure))
        }
    }
}

/// Reads the account into its vault as [`backup`] does, without an attempt for `status`.
///
/// # Errors
/// As [`backup`].
pub fn record_live(env: &Env, request: &BackupRequest<'_>) -> Result<SnapshotId, OpError> {
    let progress = env.progress(&request.account.name);
    let mut spent = RequestUsage::default();
    env.with_stored(&[request.account], StoredWork::Vault, || {
        let (summary, vault) = run_backup(env, request, &progress, &mut spent)?;
        vault.checkpoint()?;
        Ok(summary.snapshot.number)
    })
}

/// Makes a backup without recording it. Stores the requests that it took in `spent`, even if it
/// fails. Does not checkpoint the vault.
///
/// # Errors
/// As [`backup`].
pub fn run_backup(
    env: &Env,
    request: &BackupRequest<'_>,
    progress: &Arc<dyn Progress + Send + Sync>,
    spent: &mut RequestUsage,
) -> Result<(CrawlReport, Vault), OpError> {
    let account = request.account;
    let words = LockCommand {
        purpose: LockPurpose::Backup,
        ..lock_command(request.command, &account.name)
    };
    let mut session =
        AccountSession::open(env, account, &words, &request.limits, Arc::clone(progress))?;
    session.end_with_record();
    if session.wait_for_other_machines(&*env.clock)? {
        env.fetch_held(account)?;
    }
    let options = request.options(&session.service)?;
    let mut vault = env.open_vault(account)?;
    let link = session.link(&*env.clock, &**progress);
    let crawled = crawl::observe(link, ObservationScope::Backup(&options), &mut vault);
    *spent = crawl::usage_of(&session.client);
    Ok((crawled?, vault))
}

/// The estimated cost of a backup, from the newest snapshot in the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupEstimate {
    /// The resources that would be read.
    pub scope: Vec<Resource>,
    /// The minimum number of requests, with those for statistics.
    pub requests: u64,
    /// The requests for statistics of QR codes that are known to be needed.
    pub statistics: u64,
    /// The QR codes that take one more request each, if there may be any: all of them, or those
    /// whose scans changed.
    pub more_statistics: Option<StatisticsMode>,
    /// The time that these requests take at the rate limit.
    pub time: Duration,
    /// The rate limit of the configuration, in requests per minute.
    pub limit: Option<u64>,
}

/// Estimates the cost of a backup. Sends no request and writes nothing.
pub fn estimate(env: &Env, request: &BackupRequest<'_>) -> Result<BackupEstimate, OpError> {
    let account = request.account;
    env.fetch(account)?;
    let options = request.options("")?;
    let mut known = None;
    let mut due = 0;
    if let Some(vault) = state_ref::open_if_there(account)? {
        known = vault.snapshots()?.pop();
        let all = options.stats == StatisticsMode::All;
        due = vault.statistics_to_fetch(SnapshotId(i64::MAX), all)?.len() as u64;
    }
    let codes = known.as_ref().and_then(|it| it.outcome(Resource::QrCodes));
    let offered = codes.is_none_or(|it| it.state != ReadState::NotOffered);
    let wanted = options.stats != StatisticsMode::None && offered;
    let wanted = wanted && options.scope.contains(&Resource::QrCodes);
    let budget = options.stats_budget.unwrap_or(u64::MAX);
    let statistics = if wanted { due.min(budget) } else { 0 };
    let scope = options.scope;
    let requests = least_requests(&scope, known.as_ref()) + statistics;
    let reserve = u64::from(request.limits.reserve.unwrap_or(account.settings.reserve));
    let limit = account.settings.limit.and_then(|_| known_limit(account));
    let pacer = Pacer::new(reserve).capped(limit);
    let time = pacer.estimate(env.clock.monotonic(), requests);
    let unknown = options.stats == StatisticsMode::Changed || known.is_none();
    let more_statistics = (wanted && unknown && statistics < budget).then_some(options.stats);
    Ok(BackupEstimate { scope, requests, statistics, more_statistics, time, limit })
}

/// The minimum number of requests to read the lists of `scope`, from the counts of the newest snapshot: pages of
/// 1,000, and page 1 again if there are several.
fn least_requests(scope: &[Resource], known: Option<&Snapshot>) -> u64 {
    let records =
        |resource| known.and_then(|it| it.outcome(resource)).map_or(0, |outcome| outcome.records);
    let list = |resource: Resource| match resource {
        Resource::Account => 0,
        Resource::ChannelItems => records(Resource::Channels),
        _ => match records(resource).div_ceil(1000) {
            0 | 1 => 1,
            pages => pages + 1,
        },
    };
    1 + scope.iter().map(|resource| list(*resource)).sum::<u64>()
}

/// The problems for which the daemon would send an alert: many removed records, lists that became
/// empty, and changes of the service's fields.
fn problems(
    account: &AccountConfig,
    attempt: &BackupAttempt,
    removals: &OpenRemovals,
    now: Timestamp,
) -> Vec<HealthProblem> {
    let facts = HealthFacts {
        removals: Some(removals),
        field_changes: &attempt.field_changes,
        ..HealthFacts::default()
    };
    let (mut found, _) = evaluate(&[], &facts, &account.name, now);
    use ProblemKind::{Emptied, Fields, Removed};
    found.retain(|it| matches!(it.kind, Removed | Emptied | Fields));
    found
}
