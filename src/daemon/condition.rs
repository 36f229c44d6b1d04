//! How an account fares, as plain data: what `status`, the page, the metrics and
//! the alerts all tell from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::agenda::SET_BACK;
use super::facts::{Attempt, AttemptOutcome, Held, Problem, ProblemKind, Totals};
use super::notes::Notes;
use crate::clock::Timestamp;

/// One account at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    pub account: String,
    pub health: Health,
    /// One sentence for a person: that all is well, or what is not.
    pub words: String,
    /// The schedule as the configuration writes it; `None`: nobody scheduled it.
    pub schedule: Option<String>,
    /// When the next backup is due.
    pub next: Option<Timestamp>,
    /// When the backup that is under way began.
    pub running: Option<Timestamp>,
    /// The newest backup that ended.
    pub last: Option<Attempt>,
    /// When the newest one ended that was complete or partial.
    pub last_success: Option<Timestamp>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// What is wrong now, worst first.
    pub problems: Vec<Problem>,
    pub totals: Totals,
    /// Requests a minute that the service allows, as last told.
    pub limit: Option<u64>,
    /// Writes of unfinished runs whose outcome nobody knows.
    pub unknown_writes: u64,
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
pub struct Due {
    /// The schedule as the configuration writes it.
    pub schedule: Option<String>,
    pub next: Option<Timestamp>,
    pub running: Option<Timestamp>,
    pub old_from: Option<Timestamp>,
}

impl Condition {
    /// How `account` fares at `now`, by the daemon's notes and by what its vault
    /// holds. Whichever is newer is believed: somebody may have made a backup by
    /// hand, and the daemon may have been off.
    #[must_use]
    pub fn of(account: &str, notes: &Notes, held: &Held, due: Due, now: Timestamp) -> Self {
        let newest = |one: Option<Timestamp>, other: Option<Timestamp>| one.max(other);
        let by_hand = held
            .newest
            .as_ref()
            .filter(|newest| believed(newest.ended, now))
            .filter(|newest| notes.last.as_ref().is_none_or(|last| newest.ended > last.ended));
        let last = by_hand.or(notes.last.as_ref()).cloned();
        let last_complete = last_complete(notes, held, now);
        let in_vault = held.newest.as_ref().map(|newest| newest.ended);
        let last_success = newest(notes.last_success, in_vault);
        let old_from = due.old_from.filter(|from| *from <= now);
        let problems = problems(&notes.problems, last.as_ref(), old_from, last_complete);
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
            (None, Health::New) => "there has been no backup yet".to_owned(),
            (None, _) => "the newest backup is complete".to_owned(),
        };
        let records = if held.records.is_empty() { &notes.records } else { &held.records };
        Self {
            account: account.to_owned(),
            health,
            words,
            schedule: due.schedule,
            next: due.next,
            running: due.running,
            last,
            last_success,
            last_complete,
            records: records.clone(),
            problems,
            totals: notes.totals,
            limit: held.limit,
            unknown_writes: held.unknown_writes,
        }
    }
}

/// Whether something may have happened at `time`. What a clock that was ahead
/// noted is later than all that comes, and would hide it.
fn believed(time: Timestamp, now: Timestamp) -> bool {
    time.since(now) <= SET_BACK
}

/// When the newest complete backup ended, as far as that is believed.
#[must_use]
pub fn last_complete(notes: &Notes, held: &Held, now: Timestamp) -> Option<Timestamp> {
    let ended = [notes.last_complete, held.last_complete].into_iter().flatten();
    ended.filter(|ended| believed(*ended, now)).max()
}

/// The open problems, worst first: those noted, without what has passed since
/// and with what nobody could note.
fn problems(
    noted: &[Problem],
    last: Option<&Attempt>,
    old_from: Option<Timestamp>,
    last_complete: Option<Timestamp>,
) -> Vec<Problem> {
    let of_last = last.and_then(told_by);
    let passed = |kind: ProblemKind| match kind {
        ProblemKind::KeyRefused | ProblemKind::Failed | ProblemKind::Partial => {
            // A stopped backup says nothing about the one before it.
            let stopped = last.is_some_and(|last| last.outcome == AttemptOutcome::Stopped);
            !stopped && of_last.as_ref().is_none_or(|(of_last, _)| *of_last != kind)
        }
        ProblemKind::Old => old_from.is_none() && last_complete.is_some(),
        _ => false,
    };
    let mut open: Vec<_> = noted.iter().filter(|it| !passed(it.kind)).cloned().collect();
    let mut add = |kind, since, message: String, hint: Option<&str>| {
        if !open.iter().any(|problem: &Problem| problem.kind == kind) {
            let hint = hint.map(str::to_owned);
            open.push(Problem { kind, since, message, hint });
        }
    };
    if let (Some((kind, message)), Some(last)) = (of_last.clone(), last) {
        add(kind, last.ended, message, None);
    }
    if let (Some(since), Some(complete)) = (old_from, last_complete) {
        let message = format!("the newest complete backup is of {}", complete.iso());
        add(
            ProblemKind::Old,
            since,
            message,
            Some("see whether the daemon runs, and what it logs"),
        );
    }
    open.sort_by_key(|problem| problem.kind);
    open
}

/// What a bad ending says of the account.
fn told_by(last: &Attempt) -> Option<(ProblemKind, String)> {
    let kind = match last.outcome {
        AttemptOutcome::Failed if last.key_refused => ProblemKind::KeyRefused,
        AttemptOutcome::Failed => ProblemKind::Failed,
        AttemptOutcome::Partial => ProblemKind::Partial,
        AttemptOutcome::Complete | AttemptOutcome::Stopped | AttemptOutcome::Locked => return None,
    };
    let message = last.message.clone();
    Some((kind, message.unwrap_or_else(|| "the newest backup is not whole".to_owned())))
}
