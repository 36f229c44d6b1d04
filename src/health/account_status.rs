//! The status of an account, as plain data. `status`, the web UI, the metrics and the alerts show
//! it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::health::attempt::{
    Alert, AttemptOutcome, BackupAttempt, BackupTotals, HealthProblem, ProblemKind, VaultSummary,
};
use crate::health::persisted_state::PersistedState;
use crate::health::rules::{self, HealthFacts};
use crate::model::named::named;
use crate::schedule::due_queue::MAX_SETBACK;

/// The status of an account at one moment. `linkvault status --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccountStatus {
    /// Name of the account.
    pub account: String,
    /// Summary of the problems in one word.
    pub health: Health,
    /// One sentence: the worst problem, or that there is none.
    pub words: String,
    /// The schedule as the configuration spells it; `None` without one.
    pub schedule: Option<String>,
    /// When the next backup is scheduled.
    pub next: Option<Timestamp>,
    /// When the current backup began; `None` if none is running.
    pub running: Option<Timestamp>,
    /// The newest backup attempt that ended.
    pub last: Option<BackupAttempt>,
    /// End of the newest complete or partial backup.
    pub last_success: Option<Timestamp>,
    /// End of the newest complete backup.
    pub last_complete: Option<Timestamp>,
    /// Number of records by resource name, in the newest snapshot.
    pub records: BTreeMap<String, u64>,
    /// The current problems, worst first.
    pub problems: Vec<HealthProblem>,
    /// Totals of all recorded backups.
    pub totals: BackupTotals,
    /// Requests per minute that the service allows, as last reported.
    pub limit: Option<u64>,
    /// Number of writes in unfinished runs whose outcome is not known.
    pub unknown_writes: u64,
    /// Number of alerts that could not be delivered.
    pub undelivered_alerts: u64,
    /// Alerts for problems that began or ended since the persisted state was written.
    #[serde(skip)]
    pub new_alerts: Vec<Alert>,
}

named! {
    /// The status of an account in one word.
    pub enum Health {
        /// The newest backup is complete and not too old.
        Good = "good",
        /// There has been no backup yet.
        New = "new",
        /// Backups are made, but there is a problem.
        Warning = "warning",
        /// Backups fail, or are too old.
        Failing = "failing",
    }
}

/// The times of an account's schedule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DueTimes {
    /// The schedule as the configuration spells it; `None` without one.
    pub schedule: Option<String>,
    /// When the next backup is scheduled.
    pub next: Option<Timestamp>,
    /// When the current backup began; `None` if none is running.
    pub running: Option<Timestamp>,
    /// From when the newest complete backup is too old; `None` for no limit.
    pub old_from: Option<Timestamp>,
}

impl AccountStatus {
    /// Evaluates `account` at `now`, from its recorded attempts and from its vault. The newer of
    /// the two counts, since recorded attempts may be lost.
    #[must_use]
    pub fn evaluate(
        account: &str,
        persisted: &PersistedState,
        summary: &VaultSummary,
        due: DueTimes,
        now: Timestamp,
    ) -> Self {
        let newest = |one: Option<Timestamp>, other: Option<Timestamp>| one.max(other);
        let vault_newest =
            summary.newest.as_ref().filter(|newest| is_plausible_time(newest.ended, now));
        let newer_in_vault = |recorded: Option<&BackupAttempt>| {
            vault_newest.filter(|newest| recorded.is_none_or(|it| newest.ended > it.ended)).cloned()
        };
        let last = newer_in_vault(persisted.last.as_ref()).or_else(|| persisted.last.clone());
        let result = persisted.result();
        let result = newer_in_vault(result).or_else(|| result.cloned());
        // A complete backup of only some resources proves nothing about the others.
        let is_conclusive = |it: &&BackupAttempt| match it.outcome {
            AttemptOutcome::Complete => !it.limited,
            AttemptOutcome::Partial => true,
            _ => false,
        };
        let last_whole = result.as_ref().filter(is_conclusive).or(vault_newest);
        let last_complete = last_complete(persisted, summary, now);
        let last_success =
            newest(persisted.last_success, summary.newest.as_ref().map(|newest| newest.ended));
        let records =
            if summary.records.is_empty() { &persisted.records } else { &summary.records };
        let recent: Vec<_> = persisted.field_changes.iter().filter(|it| it.is_recent).collect();
        let fields_since = recent.iter().map(|it| it.at).min();
        let field_changes: Vec<_> = recent.into_iter().map(|it| it.change.clone()).collect();
        let removals = summary.removals.unacknowledged(persisted.acknowledged, now);
        let undelivered = persisted.pending_alerts().and_then(|it| it.undelivered());
        let facts = HealthFacts {
            attempt: result.as_ref(),
            failing_since: persisted.failing_since,
            last_whole,
            after: persisted.after.as_deref(),
            unreadable: summary.unreadable.as_deref(),
            put_off: persisted.put_off.as_ref(),
            removals: summary.unreadable.is_none().then_some(&removals),
            acknowledged: persisted.acknowledged,
            last_complete,
            old_from: due.old_from,
            unknown_writes: summary.unknown_writes,
            unknown_since: summary.unknown_since,
            field_changes: &field_changes,
            fields_since,
            undelivered: undelivered.as_ref(),
        };
        let (problems, new_alerts) = rules::evaluate(&persisted.problems, &facts, account, now);
        let health = match problems.first().map(|problem| problem.kind) {
            Some(ProblemKind::KeyRefused | ProblemKind::Failed | ProblemKind::Old) => {
                Health::Failing
            }
            Some(_) => Health::Warning,
            None if last_success.is_none() => Health::New,
            None => Health::Good,
        };
        let words = match (problems.first(), health) {
            (Some(problem), _) => problem.message.clone(),
            (None, Health::New) if result.is_some() => {
                "there has been no backup of the whole account yet".to_owned()
            }
            (None, Health::New) => "there has been no backup yet".to_owned(),
            (None, _) => "the newest backup is complete".to_owned(),
        };
        Self {
            account: account.to_owned(),
            health,
            words,
            schedule: due.schedule,
            next: due.next,
            running: due.running.or(summary.running),
            last,
            last_success,
            last_complete,
            records: records.clone(),
            problems,
            totals: persisted.totals,
            limit: summary.limit,
            unknown_writes: summary.unknown_writes,
            undelivered_alerts: undelivered.map_or(0, |it| it.alerts),
            new_alerts,
        }
    }
}

/// Whether `time` is not in the future. A time recorded by a clock that was ahead would be the
/// newest for a long time.
fn is_plausible_time(time: Timestamp, now: Timestamp) -> bool {
    time.since(now) <= MAX_SETBACK
}

/// End of the newest complete backup, from the recorded attempts and the vault. Times in the future
/// are ignored.
#[must_use]
pub fn last_complete(
    persisted: &PersistedState,
    summary: &VaultSummary,
    now: Timestamp,
) -> Option<Timestamp> {
    let ended = [persisted.last_complete, summary.last_complete].into_iter().flatten();
    ended.filter(|ended| is_plausible_time(*ended, now)).max()
}

/// The time from which the age of an account's backups counts: the end of the newest complete
/// backup, or the first recorded attempt if there is none.
#[must_use]
pub fn age_reference(
    persisted: &PersistedState,
    summary: &VaultSummary,
    now: Timestamp,
) -> Option<Timestamp> {
    last_complete(persisted, summary, now).or_else(|| persisted.watched.map(|since| since.min(now)))
}
