//! What is wrong with an account, from when it is first seen until it is no
//! more: one alert at the beginning, one at the end, none between.

use super::facts::{Alert, AlertEvent, Attempt, AttemptOutcome, Problem, ProblemKind};
use crate::clock::Timestamp;

/// What is known of an account.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// A backup that has just ended; `None` between backups.
    pub attempt: Option<&'a Attempt>,
    /// What went wrong in the work after it; `None` when there was none.
    pub after: Option<&'a [String]>,
    /// When the newest complete backup ended.
    pub last_complete: Option<Timestamp>,
    /// From when it is too old, or it is too long that there is none; `None`:
    /// never.
    pub old_from: Option<Timestamp>,
    /// Records that the newest snapshot shows.
    pub records: u64,
    /// Writes of unfinished runs whose outcome nobody knows.
    pub unknown_writes: u64,
}

/// How many records may vanish between two backups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    Count(u64),
    /// Of all records, and at least [`FEW`].
    Percent(f64),
}

/// So few records are no percentage of anything.
pub const FEW: u64 = 10;

impl Default for Threshold {
    fn default() -> Self {
        Self::Percent(30.0)
    }
}

impl Threshold {
    fn exceeded(self, removed: u64, before: u64) -> bool {
        match self {
            Self::Count(most) => removed > most,
            #[allow(clippy::cast_precision_loss)] // nobody has so many records
            Self::Percent(most) => {
                removed >= FEW && removed as f64 > before as f64 * (most / 100.0)
            }
        }
    }
}

/// What is said of one kind of problem.
enum Verdict {
    /// There is this problem.
    Wrong { message: String, hint: Option<String> },
    /// There is none; so it is told if there was one.
    Right(&'static str),
    /// Another problem has taken its place.
    Replaced,
    /// Nothing new is known.
    Unchanged,
}

/// The problems that there are now, worst first, and the news about them.
#[must_use]
pub fn judge(
    open: &[Problem],
    facts: &Facts<'_>,
    most_removed: Threshold,
    account: &str,
    now: Timestamp,
) -> (Vec<Problem>, Vec<Alert>) {
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
        match (verdict(kind, facts, most_removed, account, now), before) {
            (Verdict::Wrong { message, hint }, before) => {
                let since = before.map_or(now, |problem| problem.since);
                if before.is_none() {
                    alerts.push(alert(AlertEvent::Begun, since, &message, hint.as_ref()));
                }
                problems.push(Problem { kind, since, message, hint });
            }
            (Verdict::Right(message), Some(before)) => {
                alerts.push(alert(AlertEvent::Ended, before.since, message, None));
            }
            (Verdict::Unchanged, Some(before)) => problems.push(before.clone()),
            (Verdict::Right(_) | Verdict::Unchanged, None) | (Verdict::Replaced, _) => {}
        }
    }
    (problems, alerts)
}

fn verdict(
    kind: ProblemKind,
    facts: &Facts<'_>,
    most_removed: Threshold,
    account: &str,
    now: Timestamp,
) -> Verdict {
    match kind {
        ProblemKind::KeyRefused | ProblemKind::Failed => failed(kind, facts, account),
        ProblemKind::Partial => partial(facts, account),
        ProblemKind::Removed => removed(facts, most_removed, account),
        ProblemKind::Old => old(facts, account, now),
        ProblemKind::After => after(facts),
        ProblemKind::Unknown => unknown(facts, account),
    }
}

/// The most letters of a reason: what to do comes after it.
const BRIEF: usize = 400;

/// As much of a reason as a chat shows; the account's page has the whole.
fn brief(text: &str) -> String {
    match text.char_indices().nth(BRIEF) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn failed(kind: ProblemKind, facts: &Facts<'_>, account: &str) -> Verdict {
    let Some(attempt) = facts.attempt else { return Verdict::Unchanged };
    match attempt.outcome {
        AttemptOutcome::Stopped | AttemptOutcome::Locked => return Verdict::Unchanged,
        AttemptOutcome::Complete | AttemptOutcome::Partial => {
            return Verdict::Right(match kind {
                ProblemKind::KeyRefused => "the service accepts the key again",
                _ => "backups are made again",
            });
        }
        AttemptOutcome::Failed => {}
    }
    if attempt.key_refused != (kind == ProblemKind::KeyRefused) {
        return Verdict::Replaced;
    }
    let why = brief(attempt.message.as_deref().unwrap_or("no reason is known"));
    if attempt.key_refused {
        return Verdict::Wrong {
            message: format!("the service does not accept the key: {why}"),
            hint: Some(format!(
                "put a valid key where the configuration says, then `linkvault doctor {account}`"
            )),
        };
    }
    Verdict::Wrong {
        message: format!("the backup failed: {why}"),
        hint: Some(format!(
            "`linkvault doctor {account}` shows what is wrong; the next try is by itself"
        )),
    }
}

fn partial(facts: &Facts<'_>, account: &str) -> Verdict {
    match facts.attempt.map(|attempt| (attempt.outcome, attempt)) {
        Some((AttemptOutcome::Partial, attempt)) => {
            let lacks = brief(attempt.message.as_deref().unwrap_or("it does not say what"));
            let number = attempt.snapshot.map_or(String::new(), |number| format!("@#{number}"));
            Verdict::Wrong {
                message: format!("the backup is partial: {lacks}"),
                hint: Some(format!("`linkvault show {account}{number}` says what it lacks")),
            }
        }
        Some((AttemptOutcome::Complete, _)) => Verdict::Right("backups are complete again"),
        Some((AttemptOutcome::Failed | AttemptOutcome::Stopped | AttemptOutcome::Locked, _))
        | None => Verdict::Unchanged,
    }
}

fn removed(facts: &Facts<'_>, most: Threshold, account: &str) -> Verdict {
    let Some(attempt) = facts.attempt else { return Verdict::Unchanged };
    if !matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial) {
        return Verdict::Unchanged;
    }
    let before = facts.records.saturating_add(attempt.removed).saturating_sub(attempt.added);
    if !most.exceeded(attempt.removed, before) {
        return Verdict::Right("the newest backup found nothing unusual removed");
    }
    let since = attempt.snapshot.map_or(String::new(), |number| format!("@#{}", number - 1));
    Verdict::Wrong {
        message: format!("{} of {before} records vanished from the account", attempt.removed),
        hint: Some(format!(
            "`linkvault diff {account}@latest~1` lists them; if nobody meant it, \
             `linkvault restore {account}{since} --to {account}` plans them back"
        )),
    }
}

fn old(facts: &Facts<'_>, account: &str, now: Timestamp) -> Verdict {
    let Some(old_from) = facts.old_from else { return Verdict::Replaced };
    if now < old_from {
        return Verdict::Right("there is a young enough complete backup again");
    }
    let message = match facts.last_complete {
        Some(last) => format!("the newest complete backup is of {}", last.iso()),
        None => "there has been no complete backup yet".to_owned(),
    };
    Verdict::Wrong {
        message,
        hint: Some(format!("`linkvault backup {account}` makes one now, or tells what is wrong")),
    }
}

fn after(facts: &Facts<'_>) -> Verdict {
    match facts.after {
        None => Verdict::Unchanged,
        Some([]) => Verdict::Right("the work after a backup is done again"),
        Some(failures) => Verdict::Wrong {
            message: brief(&failures.join("; ")),
            hint: Some("the backup itself is sound; it is tried again after the next".to_owned()),
        },
    }
}

fn unknown(facts: &Facts<'_>, account: &str) -> Verdict {
    if facts.unknown_writes == 0 {
        return Verdict::Right("no write is in doubt any more");
    }
    Verdict::Wrong {
        message: match facts.unknown_writes {
            1 => "nobody knows the outcome of a write".to_owned(),
            writes => format!("nobody knows the outcome of {writes} writes"),
        },
        hint: Some(format!(
            "`linkvault runs {account}` names it; `linkvault resolve` shows the candidates"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(outcome: AttemptOutcome) -> Attempt {
        Attempt {
            snapshot: Some(7),
            message: Some("why".to_owned()),
            ..Attempt::new(Timestamp(0), Timestamp(0), outcome)
        }
    }

    fn facts(attempt: Option<&Attempt>) -> Facts<'_> {
        Facts {
            attempt,
            after: None,
            last_complete: Some(Timestamp(0)),
            old_from: None,
            records: 100,
            unknown_writes: 0,
        }
    }

    /// Judges one thing after another and gives the news of each.
    fn told(attempts: &[Attempt], rules: Threshold) -> Vec<Vec<(ProblemKind, AlertEvent)>> {
        let mut open = Vec::new();
        let mut news = Vec::new();
        for (nth, attempt) in attempts.iter().enumerate() {
            let now = Timestamp(i64::try_from(nth).unwrap());
            let (now_open, alerts) = judge(&open, &facts(Some(attempt)), rules, "main", now);
            open = now_open;
            news.push(alerts.into_iter().map(|it| (it.kind, it.event)).collect());
        }
        news
    }

    use AlertEvent::{Begun, Ended};
    use AttemptOutcome::{Complete, Failed, Partial, Stopped};

    #[test]
    fn one_alert_when_it_begins_and_one_when_it_ends() {
        let tries = [Complete, Failed, Failed, Stopped, Failed, Complete, Complete].map(attempt);
        let failed = ProblemKind::Failed;
        let news = told(&tries, Threshold::default());
        let wanted =
            [vec![], vec![(failed, Begun)], vec![], vec![], vec![], vec![(failed, Ended)], vec![]];
        assert_eq!(news, wanted);
    }

    #[test]
    fn a_partial_backup_ends_a_failure_and_begins_a_lack() {
        let tries = [Failed, Partial, Failed, Complete].map(attempt);
        let news = told(&tries, Threshold::default());
        let (failed, partial) = (ProblemKind::Failed, ProblemKind::Partial);
        assert_eq!(news[1], [(failed, Ended), (partial, Begun)]);
        assert_eq!(news[2], [(failed, Begun)], "the lack is still there, and told already");
        assert_eq!(news[3], [(failed, Ended), (partial, Ended)]);
    }

    #[test]
    fn a_refused_key_is_its_own_problem_and_no_end_of_another() {
        let refused = Attempt { key_refused: true, ..attempt(Failed) };
        let news = told(&[attempt(Failed), refused, attempt(Complete)], Threshold::default());
        assert_eq!(news[1], [(ProblemKind::KeyRefused, Begun)]);
        assert_eq!(news[2], [(ProblemKind::KeyRefused, Ended)]);
    }

    #[test]
    fn a_problem_keeps_its_beginning_and_tells_the_newest_reason() {
        let first = attempt(Failed);
        let (open, _) =
            judge(&[], &facts(Some(&first)), Threshold::default(), "main", Timestamp(5));
        let second = Attempt { message: Some("other".to_owned()), ..attempt(Failed) };
        let (open, _) =
            judge(&open, &facts(Some(&second)), Threshold::default(), "main", Timestamp(9));
        assert_eq!(open[0].since, Timestamp(5));
        assert_eq!(open[0].message, "the backup failed: other");
    }

    #[test]
    fn an_alert_is_short_enough_for_a_chat() {
        for outcome in [Failed, Partial] {
            let long = Attempt { message: Some("ü".repeat(100_000)), ..attempt(outcome) };
            let judged =
                judge(&[], &facts(Some(&long)), Threshold::default(), "main", Timestamp(0));
            let message = &judged.1[0].message;
            assert!(message.ends_with('…') && message.chars().count() < 500, "{message}");
        }
    }

    #[test]
    fn a_backup_that_is_too_old_is_told_between_backups() {
        let old = Facts { old_from: Some(Timestamp(5)), ..facts(None) };
        let judged = |open: &[Problem], facts, at| {
            judge(open, facts, Threshold::default(), "main", Timestamp(at))
        };
        let (open, news) = judged(&[], &old, 4);
        assert!(open.is_empty() && news.is_empty());
        let (open, news) = judged(&open, &old, 5);
        assert_eq!((open.len(), news.len()), (1, 1));
        let (open, news) = judged(&open, &old, 6);
        assert_eq!((open.len(), news.len()), (1, 0));
        let young = Facts { old_from: Some(Timestamp(50)), ..facts(None) };
        let (open, news) = judged(&open, &young, 7);
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
        let (open, news) = judged(&open, &facts(None), 90);
        assert!(open.is_empty() && news.is_empty(), "nobody asked");
    }

    #[test]
    fn vanished_records_are_told_above_the_threshold() {
        let lost = |removed| Attempt { removed, ..attempt(Complete) };
        let told = |threshold, removed, records| {
            let attempt = lost(removed);
            let facts = Facts { records, ..facts(Some(&attempt)) };
            judge(&[], &facts, threshold, "main", Timestamp(0)).0.len()
        };
        assert_eq!(told(Threshold::Count(5), 5, 100), 0);
        assert_eq!(told(Threshold::Count(5), 6, 100), 1);
        assert_eq!(told(Threshold::Percent(30.0), 30, 70), 0);
        assert_eq!(told(Threshold::Percent(30.0), 31, 69), 1);
        assert_eq!(told(Threshold::Percent(30.0), 9, 0), 0, "few are no percentage");
        assert_eq!(told(Threshold::Percent(30.0), 10, 0), 1);
        assert_eq!(told(Threshold::Count(0), 0, 0), 0);
    }

    #[test]
    fn what_failed_after_a_backup_is_a_problem_of_its_own() {
        let good = attempt(Complete);
        let failures = ["the copy: no space".to_owned()];
        let with = |after| Facts { after, ..facts(Some(&good)) };
        let rules = Threshold::default();
        let (open, news) = judge(&[], &with(Some(&failures)), rules, "main", Timestamp(0));
        assert_eq!(news[0].kind, ProblemKind::After);
        let (open, _) = judge(&open, &with(None), rules, "main", Timestamp(0));
        assert_eq!(open.len(), 1);
        let (open, news) = judge(&open, &with(Some(&[])), rules, "main", Timestamp(0));
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
    }
}
