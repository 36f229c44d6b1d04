//! How an account fares, as plain data: what `status`, the page, the metrics and
//! the alerts all tell from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::health::attempt::{
    Alert, AttemptOutcome, BackupAttempt, BackupTotals, HealthProblem, ProblemKind, VaultSummary,
};
use crate::health::persisted_state::PersistedState;
use crate::health::rules::{self, HealthFacts};
use crate::model::CountOrPercent;
use crate::schedule::due_queue::SET_BACK;

/// One account at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccountStatus {
    pub account: String,
    pub health: Health,
    /// One sentence for a person: that all is well, or what is not.
    pub words: String,
    /// The schedule as the configuration writes it; `None` where it has none.
    pub schedule: Option<String>,
    /// When the next backup is due.
    pub next: Option<Timestamp>,
    /// When the backup that is under way began.
    pub running: Option<Timestamp>,
    /// The newest backup that ended.
    pub last: Option<BackupAttempt>,
    /// When the newest one ended that was complete or partial.
    pub last_success: Option<Timestamp>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// What is wrong now, worst first.
    pub problems: Vec<HealthProblem>,
    pub totals: BackupTotals,
    /// Requests a minute that the service allows, as last told.
    pub limit: Option<u64>,
    /// Writes of unfinished runs whose outcome is not known.
    pub unknown_writes: u64,
    /// How `problems` differ from those of the persisted state: what alerts tell.
    #[serde(skip)]
    pub new_alerts: Vec<Alert>,
}

/// How it is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The newest backup is complete and young enough.
    Good,
    /// There has been no backup yet.
    New,
    /// Something is lacking, but backups are made.
    Warning,
    /// Backups fail, or are too old.
    Failing,
}

impl Health {
    /// The one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::New => "new",
            Self::Warning => "warning",
            Self::Failing => "failing",
        }
    }
}

/// When an account is due, and from when its newest complete backup is too old.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DueTimes {
    /// The schedule as the configuration writes it.
    pub schedule: Option<String>,
    pub next: Option<Timestamp>,
    pub running: Option<Timestamp>,
    pub old_from: Option<Timestamp>,
}

impl AccountStatus {
    /// The state of `account` at `now`, by the record of its backups and by what its
    /// vault holds. Whichever is newer is believed: the record may be lost.
    #[must_use]
    pub fn evaluate(
        account: &str,
        persisted: &PersistedState,
        held: &VaultSummary,
        due: DueTimes,
        most_removed: CountOrPercent,
        now: Timestamp,
    ) -> Self {
        let newest = |one: Option<Timestamp>, other: Option<Timestamp>| one.max(other);
        let in_vault = held.newest.as_ref().filter(|newest| is_plausible_time(newest.ended, now));
        let by_vault = |noted: Option<&BackupAttempt>| {
            in_vault.filter(|newest| noted.is_none_or(|noted| newest.ended > noted.ended)).cloned()
        };
        let last = by_vault(persisted.last.as_ref()).or_else(|| persisted.last.clone());
        let result = persisted.result();
        let result = by_vault(result).or_else(|| result.cloned());
        // One of a part of the account alone tells of the whole only what it lacks.
        let tells = |it: &&BackupAttempt| match it.outcome {
            AttemptOutcome::Complete => !it.limited,
            AttemptOutcome::Partial => true,
            _ => false,
        };
        let made = result.as_ref().filter(tells).or(in_vault);
        let last_complete = last_complete(persisted, held, now);
        let last_success =
            newest(persisted.last_success, held.newest.as_ref().map(|newest| newest.ended));
        let records = if held.records.is_empty() { &persisted.records } else { &held.records };
        let facts = HealthFacts {
            attempt: result.as_ref(),
            failing_since: persisted.failing_since,
            made,
            after: persisted.after.as_deref(),
            unreadable: held.unreadable.as_deref(),
            put_off: persisted.put_off.as_ref(),
            emptied: &held.emptied,
            last_complete,
            old_from: due.old_from,
            records: records.values().sum(),
            unknown_writes: held.unknown_writes,
            unknown_since: held.unknown_since,
        };
        let (problems, new_alerts) =
            rules::evaluate(&persisted.problems, &facts, most_removed, account, now);
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
            running: due.running.or(held.running),
            last,
            last_success,
            last_complete,
            records: records.clone(),
            problems,
            totals: persisted.totals,
            limit: held.limit,
            unknown_writes: held.unknown_writes,
            new_alerts,
        }
    }
}

/// Whether something may have happened at `time`. What a clock that was ahead
/// noted is later than all that comes, and would hide it.
fn is_plausible_time(time: Timestamp, now: Timestamp) -> bool {
    time.since(now) <= SET_BACK
}

/// When the newest complete backup ended, as far as that is believed.
#[must_use]
pub fn last_complete(
    persisted: &PersistedState,
    held: &VaultSummary,
    now: Timestamp,
) -> Option<Timestamp> {
    let ended = [persisted.last_complete, held.last_complete].into_iter().flatten();
    ended.filter(|ended| is_plausible_time(*ended, now)).max()
}

/// From when the age of an account's backups counts: the newest complete one,
/// and where there is none, when its backups began to be recorded.
#[must_use]
pub fn age_reference(
    persisted: &PersistedState,
    held: &VaultSummary,
    now: Timestamp,
) -> Option<Timestamp> {
    last_complete(persisted, held, now).or_else(|| persisted.watched.map(|since| since.min(now)))
}
