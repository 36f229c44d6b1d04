//! The rules that decide which problems an account has. A problem causes one alert when it begins
//! and one when it ends.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::format::truncate;
use crate::health::attempt::{
    Alert, AlertEvent, AttemptOutcome, BackupAttempt, HealthProblem, ProblemKind,
};
use crate::health::field_change_text::sentences;
use crate::health::pending_alerts::UndeliveredAlerts;
use crate::health::persisted_state::PostponedBackups;
use crate::health::removals::{OpenRemovals, emptied_text, removed_text};
use crate::model::field_changes::ServiceFieldChange;

/// Everything that the rules take into account.
#[derive(Debug, Clone, Copy, Default)]
pub struct HealthFacts<'a> {
    /// The newest attempt that succeeded or failed.
    pub attempt: Option<&'a BackupAttempt>,
    /// End of the first of the consecutive failures; `attempt` is the newest of them.
    pub failing_since: Option<Timestamp>,
    /// The newest partial backup, or complete backup of the whole account.
    pub last_whole: Option<&'a BackupAttempt>,
    /// Errors of the work after a backup; `None` without such work.
    pub after: Option<&'a [String]>,
    /// Why the vault cannot be read.
    pub unreadable: Option<&'a str>,
    /// The newest attempts, if they could not start.
    pub put_off: Option<&'a PostponedBackups>,
    /// Removals of many records that are not acknowledged; `None` if the vault cannot be read.
    pub removals: Option<&'a OpenRemovals>,
    /// When the user last acknowledged removals.
    pub acknowledged: Option<Timestamp>,
    /// End of the newest complete backup.
    pub last_complete: Option<Timestamp>,
    /// From when the newest complete backup, or its absence, is a problem; `None` for never.
    pub old_from: Option<Timestamp>,
    /// Number of writes in unfinished runs whose outcome is not known.
    pub unknown_writes: u64,
    /// Start of the first of these runs.
    pub unknown_since: Option<Timestamp>,
    /// Changes of the service's fields that the newest backup reported.
    pub field_changes: &'a [ServiceFieldChange],
    /// End of that backup.
    pub fields_since: Option<Timestamp>,
    /// Alerts and a heartbeat that could not be delivered.
    pub undelivered: Option<&'a UndeliveredAlerts>,
}

/// What a rule found about one kind of problem.
enum ProblemVerdict {
    /// The problem exists; `since` is `None` if its start is unknown. `newest` is the time of its
    /// newest event, if each is worth an alert.
    Open {
        message: String,
        hint: Option<String>,
        since: Option<Timestamp>,
        newest: Option<Timestamp>,
    },
    /// The problem does not exist. The text is the alert if it existed before.
    Resolved(&'static str),
    /// Another kind of problem replaces it, without an alert.
    Replaced,
    /// No new information.
    Unchanged,
}

/// The current problems, worst first, and the alerts for the difference from `open`.
#[must_use]
pub fn evaluate(
    open: &[HealthProblem],
    facts: &HealthFacts<'_>,
    account: &str,
    now: Timestamp,
) -> (Vec<HealthProblem>, Vec<Alert>) {
    let (mut problems, mut alerts) = (Vec::new(), Vec::new());
    for kind in ProblemKind::ALL {
        let before = open.iter().find(|problem| problem.kind == kind);
        let alert = |event, since, message: &str, hint: Option<&String>| Alert {
            kind,
            event,
            since,
            at: now,
            message: message.to_owned(),
            hint: hint.cloned(),
        };
        match (evaluate_kind(kind, facts, account, now), before) {
            (ProblemVerdict::Open { message, hint, since, newest }, before) => {
                let since = since.map_or(now, |since| since.min(now));
                let since = before.map_or(since, |problem| problem.since);
                let is_new = before.is_none_or(|it| newest > Some(it.newest.unwrap_or(it.since)));
                if is_new && kind != ProblemKind::Undelivered {
                    alerts.push(alert(AlertEvent::Begun, since, &message, hint.as_ref()));
                }
                problems.push(HealthProblem { kind, since, message, hint, newest });
            }
            (ProblemVerdict::Resolved(message), Some(before)) => {
                let is_acknowledged =
                    before.newest.is_some_and(|newest| facts.acknowledged >= Some(newest));
                let message = if is_acknowledged { "it was acknowledged" } else { message };
                alerts.push(alert(AlertEvent::Ended, before.since, message, None));
            }
            (ProblemVerdict::Unchanged, Some(before)) => problems.push(before.clone()),
            (ProblemVerdict::Resolved(_) | ProblemVerdict::Unchanged, None)
            | (ProblemVerdict::Replaced, _) => {}
        }
    }
    (problems, alerts)
}

fn evaluate_kind(
    kind: ProblemKind,
    facts: &HealthFacts<'_>,
    account: &str,
    now: Timestamp,
) -> ProblemVerdict {
    match kind {
        ProblemKind::KeyRefused | ProblemKind::Failed => failed(kind, facts, account),
        ProblemKind::Partial => partial(facts, account),
        ProblemKind::Removed => removed(facts, account),
        ProblemKind::Emptied => emptied(facts, account),
        ProblemKind::Old => old(facts, account, now),
        ProblemKind::Locked => locked(facts, account, now),
        ProblemKind::PostBackup => after(facts),
        ProblemKind::Unknown => unknown(facts, account),
        ProblemKind::Fields => fields(facts, account),
        ProblemKind::Undelivered => undelivered(facts, account),
    }
}

/// The most characters of a reason in a message, so that the hint after it is seen. The account's
/// page in the web UI has the full text.
const MAX_REASON: usize = 400;

fn failed(kind: ProblemKind, facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    if let Some(why) = facts.unreadable.filter(|_| kind == ProblemKind::Failed) {
        return ProblemVerdict::Open {
            newest: None,
            message: format!("the vault cannot be read: {}", truncate(why, MAX_REASON)),
            hint: Some(format!("run `linkvault check {account}` for details")),
            since: None,
        };
    }
    let Some(attempt) = facts.attempt else { return ProblemVerdict::Unchanged };
    match attempt.outcome {
        AttemptOutcome::Stopped | AttemptOutcome::Locked => return ProblemVerdict::Unchanged,
        AttemptOutcome::Complete | AttemptOutcome::Partial => {
            return ProblemVerdict::Resolved(match kind {
                ProblemKind::KeyRefused => "the service accepts the key again",
                _ => "backups succeed again",
            });
        }
        AttemptOutcome::Failed => {}
    }
    if attempt.key_refused != (kind == ProblemKind::KeyRefused) {
        return ProblemVerdict::Replaced;
    }
    let why = attempt.message.as_deref().unwrap_or("the reason is not known");
    let why = truncate(why, MAX_REASON);
    if attempt.key_refused {
        return ProblemVerdict::Open {
            newest: None,
            message: format!("the service does not accept the key: {why}"),
            hint: Some(format!(
                "put a valid key where the configuration says, then run `linkvault doctor {account}`"
            )),
            since: facts.failing_since,
        };
    }
    ProblemVerdict::Open {
        newest: None,
        message: format!("the backup failed: {why}"),
        hint: Some(format!(
            "run `linkvault doctor {account}` to find the cause; {}",
            if attempt.by_hand {
                format!("then run `linkvault backup {account}` again")
            } else {
                "it will be retried automatically".to_owned()
            }
        )),
        since: facts.failing_since,
    }
}

fn partial(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    match facts.last_whole.map(|attempt| (attempt.outcome, attempt)) {
        Some((AttemptOutcome::Partial, attempt)) => {
            let missing = truncate(
                attempt.message.as_deref().unwrap_or("the reason is not known"),
                MAX_REASON,
            );
            let number = attempt.snapshot.map_or(String::new(), |number| format!("@#{number}"));
            ProblemVerdict::Open {
                newest: None,
                message: format!("the backup is partial: {missing}"),
                hint: Some(format!(
                    "run `linkvault show {account}{number}` to see what is missing"
                )),
                since: Some(attempt.ended),
            }
        }
        Some((AttemptOutcome::Complete, _)) => {
            ProblemVerdict::Resolved("backups are complete again")
        }
        Some((AttemptOutcome::Failed | AttemptOutcome::Stopped | AttemptOutcome::Locked, _))
        | None => ProblemVerdict::Unchanged,
    }
}

fn removed(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    let found = facts.removals.map_or(&[][..], |it| &it.mass);
    let ([first, ..], [.., last]) = (found, found) else {
        return match facts.removals {
            Some(_) => {
                ProblemVerdict::Resolved("the removed records are back, or are missing for 30 days")
            }
            None => ProblemVerdict::Unchanged,
        };
    };
    let texts: Vec<_> = found.iter().map(removed_text).collect();
    let restore = found.iter().find_map(|it| it.kept).map_or_else(String::new, |kept| {
        format!(
            "run `linkvault diff {account}@#{kept}` to list them; if that was not intended, \
             run `linkvault restore {account}@#{kept} --to {account}` to plan their restoration; \
             if it was, "
        )
    });
    ProblemVerdict::Open {
        message: texts.join("; "),
        hint: Some(format!("{restore}run `linkvault status {account} --ack`")),
        since: Some(first.at),
        newest: Some(last.at),
    }
}

fn emptied(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    let found = facts.removals.map_or(&[][..], |it| &it.emptied);
    let times = || found.iter().map(|it| it.since);
    let (Some(since), Some(newest)) = (times().min(), times().max()) else {
        return match facts.removals {
            Some(_) => {
                ProblemVerdict::Resolved("the list has records again, or is empty for 30 days")
            }
            None => ProblemVerdict::Unchanged,
        };
    };
    let texts: Vec<_> = found.iter().map(emptied_text).collect();
    let kept = found.iter().find_map(|it| Some((&it.resource, it.snapshot?)));
    let restore = kept.map_or_else(String::new, |(resource, kept)| {
        format!(
            "run `linkvault show {account}@#{kept} {resource}` to list them; if that was not intended, \
             run `linkvault restore {account}@#{kept} --to {account}` to plan their restoration; \
             if it was, "
        )
    });
    ProblemVerdict::Open {
        message: texts.join("; "),
        hint: Some(format!("{restore}run `linkvault status {account} --ack`")),
        since: Some(since),
        newest: Some(newest),
    }
}

/// How long another process may hold the account's lock before that is a problem.
pub const LOCKED_LIMIT: Duration = Duration::from_secs(3600);

fn locked(facts: &HealthFacts<'_>, account: &str, now: Timestamp) -> ProblemVerdict {
    let Some(put_off) = facts.put_off else {
        return ProblemVerdict::Resolved("backups can start again");
    };
    if now.since(put_off.since) < LOCKED_LIMIT {
        return ProblemVerdict::Unchanged;
    }
    ProblemVerdict::Open {
        newest: None,
        message: format!("the backup could not start: {}", truncate(&put_off.message, MAX_REASON)),
        hint: Some(format!(
            "wait for that process or stop it, then run `linkvault backup {account}`"
        )),
        since: Some(put_off.since),
    }
}

fn old(facts: &HealthFacts<'_>, account: &str, now: Timestamp) -> ProblemVerdict {
    let Some(old_from) = facts.old_from else { return ProblemVerdict::Replaced };
    if now < old_from {
        return ProblemVerdict::Resolved("there is a recent complete backup again");
    }
    let message = match facts.last_complete {
        Some(last) => format!("the newest complete backup is from {}", last.iso()),
        None => "there has been no complete backup yet".to_owned(),
    };
    ProblemVerdict::Open {
        newest: None,
        message,
        hint: Some(format!(
            "run `linkvault backup {account}` to make one now or to find the cause"
        )),
        since: Some(old_from),
    }
}

fn after(facts: &HealthFacts<'_>) -> ProblemVerdict {
    match facts.after {
        None => ProblemVerdict::Unchanged,
        Some([]) => ProblemVerdict::Resolved("the work after a backup succeeds again"),
        Some(failures) => ProblemVerdict::Open {
            newest: None,
            message: truncate(&failures.join("; "), MAX_REASON).into_owned(),
            hint: Some(
                "the backup itself is not affected; this work is retried after the next backup"
                    .to_owned(),
            ),
            since: None,
        },
    }
}

fn unknown(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    if facts.unknown_writes == 0 {
        return ProblemVerdict::Resolved("the outcome of every write is known again");
    }
    ProblemVerdict::Open {
        newest: None,
        message: match facts.unknown_writes {
            1 => "the outcome of a write is not known".to_owned(),
            writes => format!("the outcome of {writes} writes is not known"),
        },
        hint: Some(format!(
            "run `linkvault runs {account}` to find the run, then `linkvault resolve` to see the candidates"
        )),
        since: facts.unknown_since,
    }
}

fn fields(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    if facts.field_changes.is_empty() {
        return ProblemVerdict::Resolved("the newest backup found no further change of fields");
    }
    let message = sentences(facts.field_changes).join("; ");
    ProblemVerdict::Open {
        newest: None,
        message: truncate(&message, MAX_REASON).into_owned(),
        hint: Some(format!(
            "run `linkvault doctor {account}` to list the changes; backups keep all fields as sent"
        )),
        since: facts.fields_since,
    }
}

fn undelivered(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    // An alert about alerts would wait behind them.
    let Some(found) = facts.undelivered else { return ProblemVerdict::Replaced };
    let what = match found.alerts {
        0 => "the heartbeat was not delivered".to_owned(),
        1 => "an alert was not delivered".to_owned(),
        alerts => format!("{alerts} alerts were not delivered"),
    };
    ProblemVerdict::Open {
        newest: None,
        message: format!("{what}: {}", truncate(&found.error, MAX_REASON)),
        hint: Some(format!(
            "run `linkvault doctor {account}` to find the cause, then \
             `linkvault alerts test {account}`; the delivery is retried automatically"
        )),
        since: found.since,
    }
}

#[cfg(test)]
mod tests {
    use crate::health::removals::{EmptiedList, MassRemoval, RemovedCount};
    use crate::health::rules::*;
    use crate::model::SnapshotId;

    fn attempt(outcome: AttemptOutcome) -> BackupAttempt {
        BackupAttempt {
            snapshot: Some(SnapshotId(7)),
            message: Some("why".to_owned()),
            ..BackupAttempt::new(Timestamp(0), Timestamp(0), outcome)
        }
    }

    fn facts(attempt: Option<&BackupAttempt>) -> HealthFacts<'_> {
        HealthFacts {
            attempt,
            last_whole: attempt,
            last_complete: Some(Timestamp(0)),
            ..HealthFacts::default()
        }
    }

    /// Evaluates attempts one after the other; returns the alerts of each.
    fn alerts_of(attempts: &[BackupAttempt]) -> Vec<Vec<(ProblemKind, AlertEvent)>> {
        let mut open = Vec::new();
        let mut news = Vec::new();
        for (nth, attempt) in attempts.iter().enumerate() {
            let now = Timestamp(i64::try_from(nth).unwrap());
            let (now_open, alerts) = evaluate(&open, &facts(Some(attempt)), "main", now);
            open = now_open;
            news.push(alerts.into_iter().map(|it| (it.kind, it.event)).collect());
        }
        news
    }

    use AlertEvent::{Begun, Ended};
    use AttemptOutcome::{Complete, Failed, Partial, Stopped};

    #[test]
    fn a_problem_causes_one_alert_at_its_start_and_one_at_its_end() {
        let tries = [Complete, Failed, Failed, Stopped, Failed, Complete, Complete].map(attempt);
        let failed = ProblemKind::Failed;
        let news = alerts_of(&tries);
        let wanted =
            [vec![], vec![(failed, Begun)], vec![], vec![], vec![], vec![(failed, Ended)], vec![]];
        assert_eq!(news, wanted);
    }

    #[test]
    fn a_partial_backup_ends_a_failure_and_is_a_problem() {
        let tries = [Failed, Partial, Failed, Complete].map(attempt);
        let news = alerts_of(&tries);
        let (failed, partial) = (ProblemKind::Failed, ProblemKind::Partial);
        assert_eq!(news[1], [(failed, Ended), (partial, Begun)]);
        assert_eq!(news[2], [(failed, Begun)], "the backup is still partial, no second alert");
        assert_eq!(news[3], [(failed, Ended), (partial, Ended)]);
    }

    #[test]
    fn a_refused_key_replaces_a_failure_without_an_alert_that_it_ended() {
        let refused = BackupAttempt { key_refused: true, ..attempt(Failed) };
        let news = alerts_of(&[attempt(Failed), refused, attempt(Complete)]);
        assert_eq!(news[1], [(ProblemKind::KeyRefused, Begun)]);
        assert_eq!(news[2], [(ProblemKind::KeyRefused, Ended)]);
    }

    #[test]
    fn a_problem_keeps_its_start_and_has_the_newest_reason() {
        let first = attempt(Failed);
        let (open, _) = evaluate(&[], &facts(Some(&first)), "main", Timestamp(5));
        let second = BackupAttempt { message: Some("other".to_owned()), ..attempt(Failed) };
        let (open, _) = evaluate(&open, &facts(Some(&second)), "main", Timestamp(9));
        assert_eq!(open[0].since, Timestamp(5));
        assert_eq!(open[0].message, "the backup failed: other");
    }

    #[test]
    fn an_alert_is_short_enough_for_a_chat() {
        for outcome in [Failed, Partial] {
            let long = BackupAttempt { message: Some("ü".repeat(100_000)), ..attempt(outcome) };
            let evaluated = evaluate(&[], &facts(Some(&long)), "main", Timestamp(0));
            let message = &evaluated.1[0].message;
            assert!(message.ends_with('…') && message.chars().count() < 500, "{message}");
        }
    }

    #[test]
    fn an_old_backup_causes_an_alert_between_backups() {
        let old = HealthFacts { old_from: Some(Timestamp(5)), ..facts(None) };
        let evaluated =
            |open: &[HealthProblem], facts, at| evaluate(open, facts, "main", Timestamp(at));
        let (open, news) = evaluated(&[], &old, 4);
        assert!(open.is_empty() && news.is_empty());
        let (open, news) = evaluated(&open, &old, 5);
        assert_eq!((open.len(), news.len()), (1, 1));
        let (open, news) = evaluated(&open, &old, 6);
        assert_eq!((open.len(), news.len()), (1, 0));
        let young = HealthFacts { old_from: Some(Timestamp(50)), ..facts(None) };
        let (open, news) = evaluated(&open, &young, 7);
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
        let (open, news) = evaluated(&open, &facts(None), 90);
        assert!(open.is_empty() && news.is_empty(), "no limit is set");
    }

    #[test]
    fn a_failure_after_a_backup_is_a_separate_problem() {
        let good = attempt(Complete);
        let failures = ["the copy: no space".to_owned()];
        let with = |after| HealthFacts { after, ..facts(Some(&good)) };
        let (open, news) = evaluate(&[], &with(Some(&failures)), "main", Timestamp(0));
        assert_eq!(news[0].kind, ProblemKind::PostBackup);
        let (open, _) = evaluate(&open, &with(None), "main", Timestamp(0));
        assert_eq!(open.len(), 1);
        let (open, news) = evaluate(&open, &with(Some(&[])), "main", Timestamp(0));
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
    }

    fn removals(times: &[i64]) -> OpenRemovals {
        let count = RemovedCount { removed: 10, before: 16 };
        let one = |at: &i64| MassRemoval {
            at: Timestamp(*at),
            kept: Some(SnapshotId(*at - 1)),
            lists: vec![(Some("campaigns".to_owned()), count)],
        };
        OpenRemovals { mass: times.iter().map(one).collect(), emptied: Vec::new() }
    }

    /// The alerts' times and messages.
    fn texts(alerts: &[Alert]) -> Vec<(AlertEvent, i64, &str)> {
        alerts.iter().map(|it| (it.event, it.since.0, it.message.as_str())).collect()
    }

    #[test]
    fn each_removal_of_many_records_causes_an_alert() {
        let good = attempt(Complete);
        let at = |open: &[HealthProblem], times: &[i64], acknowledged, now| {
            let removals = removals(times);
            let facts =
                HealthFacts { removals: Some(&removals), acknowledged, ..facts(Some(&good)) };
            evaluate(open, &facts, "main", Timestamp(now))
        };
        let one = "10 of 16 campaigns were removed from the account";
        let (open, news) = at(&[], &[3], None, 4);
        assert_eq!(texts(&news), [(Begun, 3, one)]);
        let (open, news) = at(&open, &[3], None, 5);
        assert_eq!((open.len(), news.len()), (1, 0));
        let (open, news) = at(&open, &[3, 6], None, 7);
        assert_eq!(texts(&news), [(Begun, 3, format!("{one}; {one}").as_str())]);
        assert!(open[0].hint.as_ref().unwrap().contains("restore main@#2"), "{open:?}");
        let (acknowledged, news) = at(&open, &[], Some(Timestamp(8)), 8);
        assert_eq!(
            (acknowledged.len(), texts(&news)),
            (0, vec![(Ended, 3, "it was acknowledged")])
        );
        let (back, news) = at(&open, &[], Some(Timestamp(5)), 8);
        let message = "the removed records are back, or are missing for 30 days";
        assert_eq!((back.len(), texts(&news)), (0, vec![(Ended, 3, message)]));
        // Nothing is known of the removals, such as of an unreadable vault.
        let (unknown, news) = evaluate(&open, &facts(Some(&good)), "main", Timestamp(9));
        assert_eq!((unknown.len(), news.len()), (1, 0));
    }

    #[test]
    fn an_emptied_list_is_a_separate_problem_until_it_has_records() {
        let list = EmptiedList {
            resource: "campaigns".to_owned(),
            had: 16,
            snapshot: Some(SnapshotId(4)),
            since: Timestamp(3),
        };
        let emptied = OpenRemovals { emptied: vec![list], ..OpenRemovals::default() };
        let good = attempt(Complete);
        let empty = HealthFacts { removals: Some(&emptied), ..facts(Some(&good)) };
        let (open, news) = evaluate(&[], &empty, "main", Timestamp(9));
        assert_eq!((news[0].kind, news[0].event), (ProblemKind::Emptied, Begun));
        assert_eq!(
            (open[0].message.as_str(), open[0].since),
            ("the list of campaigns is empty; snapshot #4 has 16 records", Timestamp(3))
        );
        let none = OpenRemovals::default();
        let ended = HealthFacts { removals: Some(&none), ..facts(Some(&good)) };
        let (open, news) = evaluate(&open, &ended, "main", Timestamp(9));
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
    }

    #[test]
    fn backups_that_could_not_start_for_an_hour_are_a_problem() {
        let put_off =
            PostponedBackups { since: Timestamp(0), message: "pid 7 works on it".to_owned() };
        let waiting = HealthFacts { put_off: Some(&put_off), ..facts(None) };
        let evaluated = |facts, at| evaluate(&[], facts, "main", Timestamp(at)).0;
        assert!(evaluated(&waiting, 3_599_999).is_empty());
        let open = evaluated(&waiting, 3_600_000);
        assert_eq!((open[0].kind, open[0].since), (ProblemKind::Locked, Timestamp(0)));
        assert_eq!(open[0].message, "the backup could not start: pid 7 works on it");
        assert!(evaluated(&facts(None), 3_600_000).is_empty());
    }
}
