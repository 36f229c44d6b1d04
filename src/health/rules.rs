//! What is wrong with an account, from when it is first seen until it is no
//! more: one alert at the beginning, one at the end, none between.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::format::truncate;
use crate::health::attempt::{
    Alert, AlertEvent, AttemptOutcome, BackupAttempt, EmptiedList, HealthProblem, ProblemKind,
    RemovedCount,
};
use crate::health::persisted_state::PostponedBackups;
use crate::model::CountOrPercent;
use crate::model::count_or_percent::MIN_RECORDS_FOR_PERCENT;

/// What is known of an account.
#[derive(Debug, Clone, Copy, Default)]
pub struct HealthFacts<'a> {
    /// The newest backup that ended.
    pub attempt: Option<&'a BackupAttempt>,
    /// When the first of the failures in a row ended, of which `attempt` is the newest.
    pub failing_since: Option<Timestamp>,
    /// The newest backup that made a snapshot of the whole account.
    pub made: Option<&'a BackupAttempt>,
    /// What went wrong in the work after a backup; `None` when there was none.
    pub after: Option<&'a [String]>,
    /// Why the vault cannot be read.
    pub unreadable: Option<&'a str>,
    /// Backups that could not begin, and none that could since.
    pub put_off: Option<&'a PostponedBackups>,
    /// Lists that have become empty.
    pub emptied: &'a [EmptiedList],
    /// When the newest complete backup ended.
    pub last_complete: Option<Timestamp>,
    /// From when it is too old, or it is too long that there is none; `None`:
    /// never.
    pub old_from: Option<Timestamp>,
    /// Records that the newest snapshot shows.
    pub records: u64,
    /// Writes of unfinished runs whose outcome is not known.
    pub unknown_writes: u64,
    /// When the first of these runs began.
    pub unknown_since: Option<Timestamp>,
}

/// Whether more records vanished between two backups than allowed.
fn exceeded(most: CountOrPercent, removed: u64, before: u64) -> bool {
    let few = matches!(most, CountOrPercent::Percent(_)) && removed < MIN_RECORDS_FOR_PERCENT;
    !few && most.allows(before).is_some_and(|allowed| removed > allowed)
}

/// What is said of one kind of problem.
enum ProblemVerdict {
    /// There is this problem; it began then, as far as that is known.
    Open { message: String, hint: Option<String>, since: Option<Timestamp> },
    /// There is none; so it is told if there was one.
    Resolved(&'static str),
    /// Another problem has taken its place.
    Replaced,
    /// Nothing new is known.
    Unchanged,
}

/// The problems that there are now, worst first, and the alerts about what changed.
#[must_use]
pub fn evaluate(
    open: &[HealthProblem],
    facts: &HealthFacts<'_>,
    most_removed: CountOrPercent,
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
        match (evaluate_kind(kind, facts, most_removed, account, now), before) {
            (ProblemVerdict::Open { message, hint, since }, before) => {
                let since = since.map_or(now, |since| since.min(now));
                let since = before.map_or(since, |problem| problem.since);
                if before.is_none() {
                    alerts.push(alert(AlertEvent::Begun, since, &message, hint.as_ref()));
                }
                problems.push(HealthProblem { kind, since, message, hint });
            }
            (ProblemVerdict::Resolved(message), Some(before)) => {
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
    most_removed: CountOrPercent,
    account: &str,
    now: Timestamp,
) -> ProblemVerdict {
    match kind {
        ProblemKind::KeyRefused | ProblemKind::Failed => failed(kind, facts, account),
        ProblemKind::Partial => partial(facts, account),
        ProblemKind::Removed => removed(facts, most_removed, account),
        ProblemKind::Emptied => emptied(facts, account),
        ProblemKind::Old => old(facts, account, now),
        ProblemKind::Locked => locked(facts, account, now),
        ProblemKind::After => after(facts),
        ProblemKind::Unknown => unknown(facts, account),
    }
}

/// The most characters of a reason in a message: what to do comes after it. The account's
/// page has the whole.
const LONGEST_REASON: usize = 400;

fn failed(kind: ProblemKind, facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    if let Some(why) = facts.unreadable.filter(|_| kind == ProblemKind::Failed) {
        return ProblemVerdict::Open {
            message: format!("the vault cannot be read: {}", truncate(why, LONGEST_REASON)),
            hint: Some(format!("`linkvault check {account}` tells more")),
            since: None,
        };
    }
    let Some(attempt) = facts.attempt else { return ProblemVerdict::Unchanged };
    match attempt.outcome {
        AttemptOutcome::Stopped | AttemptOutcome::Locked => return ProblemVerdict::Unchanged,
        AttemptOutcome::Complete | AttemptOutcome::Partial => {
            return ProblemVerdict::Resolved(match kind {
                ProblemKind::KeyRefused => "the service accepts the key again",
                _ => "backups are made again",
            });
        }
        AttemptOutcome::Failed => {}
    }
    if attempt.key_refused != (kind == ProblemKind::KeyRefused) {
        return ProblemVerdict::Replaced;
    }
    let why = attempt.message.as_deref().unwrap_or("no reason is known");
    let why = truncate(why, LONGEST_REASON);
    if attempt.key_refused {
        return ProblemVerdict::Open {
            message: format!("the service does not accept the key: {why}"),
            hint: Some(format!(
                "put a valid key where the configuration says, then `linkvault doctor {account}`"
            )),
            since: facts.failing_since,
        };
    }
    ProblemVerdict::Open {
        message: format!("the backup failed: {why}"),
        hint: Some(format!(
            "`linkvault doctor {account}` shows what is wrong; {}",
            if attempt.by_hand {
                format!("then run `linkvault backup {account}` again")
            } else {
                "the next try is by itself".to_owned()
            }
        )),
        since: facts.failing_since,
    }
}

fn partial(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    match facts.made.map(|attempt| (attempt.outcome, attempt)) {
        Some((AttemptOutcome::Partial, attempt)) => {
            let lacks = truncate(
                attempt.message.as_deref().unwrap_or("it does not say what"),
                LONGEST_REASON,
            );
            let number = attempt.snapshot.map_or(String::new(), |number| format!("@#{number}"));
            ProblemVerdict::Open {
                message: format!("the backup is partial: {lacks}"),
                hint: Some(format!("`linkvault show {account}{number}` says what it lacks")),
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

/// What a backup found removed, as far as it is more than the account allows:
/// `10 of 16 campaigns`, or a count over all lists where no list alone is above.
#[must_use]
pub fn removals(
    attempt: &BackupAttempt,
    records: u64,
    most: CountOrPercent,
) -> Vec<(Option<String>, RemovedCount)> {
    let above = attempt.removals.iter().filter(|(_, it)| exceeded(most, it.removed, it.before));
    let lists: Vec<_> = above.map(|(resource, it)| (Some(resource.clone()), *it)).collect();
    if !lists.is_empty() {
        return lists;
    }
    let before = records.saturating_add(attempt.removed).saturating_sub(attempt.added);
    let all = RemovedCount { removed: attempt.removed, before };
    let above = exceeded(most, all.removed, all.before);
    above.then_some((None, all)).into_iter().collect()
}

/// [`removals`] in words.
#[must_use]
pub fn removed_text(removals: &[(Option<String>, RemovedCount)]) -> String {
    let parts = removals.iter().map(|(resource, it)| {
        let what = resource.as_deref().unwrap_or("records");
        format!("{} of {} {what}", it.removed, it.before)
    });
    format!("{} vanished from the account", parts.collect::<Vec<_>>().join(", "))
}

fn removed(facts: &HealthFacts<'_>, most: CountOrPercent, account: &str) -> ProblemVerdict {
    let Some(attempt) = facts.made else { return ProblemVerdict::Unchanged };
    if !matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial) {
        return ProblemVerdict::Unchanged;
    }
    let found = removals(attempt, facts.records, most);
    if found.is_empty() {
        return ProblemVerdict::Resolved("the newest backup found nothing unusual removed");
    }
    let since = attempt.snapshot.map_or(String::new(), |number| format!("@#{}", number - 1));
    ProblemVerdict::Open {
        message: removed_text(&found),
        hint: Some(format!(
            "`linkvault diff {account}@latest~1` lists them; if that was not intended, \
             `linkvault restore {account}{since} --to {account}` plans them back"
        )),
        since: Some(attempt.ended),
    }
}

/// That a list has become empty, in words.
#[must_use]
pub fn emptied_text(list: &EmptiedList) -> String {
    let EmptiedList { resource, had, snapshot, .. } = list;
    format!("the list of {resource} is empty; snapshot #{snapshot} shows {had} records")
}

fn emptied(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    let (Some(first), Some(since)) =
        (facts.emptied.first(), facts.emptied.iter().map(|it| it.since).min())
    else {
        return match facts.unreadable {
            None => ProblemVerdict::Resolved("no list has become empty in the last backups"),
            Some(_) => ProblemVerdict::Unchanged,
        };
    };
    let texts: Vec<_> = facts.emptied.iter().map(emptied_text).collect();
    let EmptiedList { resource, snapshot, .. } = first;
    ProblemVerdict::Open {
        message: texts.join("; "),
        hint: Some(format!(
            "`linkvault show {account}@#{snapshot} {resource}` lists them; if that was not intended, \
             `linkvault restore {account}@#{snapshot} --to {account}` plans them back"
        )),
        since: Some(since),
    }
}

/// How long another process may keep backups from beginning until that is a problem.
pub const PUT_OFF: Duration = Duration::from_secs(3600);

fn locked(facts: &HealthFacts<'_>, account: &str, now: Timestamp) -> ProblemVerdict {
    let Some(put_off) = facts.put_off else {
        return ProblemVerdict::Resolved("backups can begin again");
    };
    if now.since(put_off.since) < PUT_OFF {
        return ProblemVerdict::Unchanged;
    }
    ProblemVerdict::Open {
        message: format!(
            "the backup could not begin: {}",
            truncate(&put_off.message, LONGEST_REASON)
        ),
        hint: Some(format!(
            "wait for that process or end it; `linkvault backup {account}` makes a backup then"
        )),
        since: Some(put_off.since),
    }
}

fn old(facts: &HealthFacts<'_>, account: &str, now: Timestamp) -> ProblemVerdict {
    let Some(old_from) = facts.old_from else { return ProblemVerdict::Replaced };
    if now < old_from {
        return ProblemVerdict::Resolved("there is a young enough complete backup again");
    }
    let message = match facts.last_complete {
        Some(last) => format!("the newest complete backup is of {}", last.iso()),
        None => "there has been no complete backup yet".to_owned(),
    };
    ProblemVerdict::Open {
        message,
        hint: Some(format!("`linkvault backup {account}` makes one now, or tells what is wrong")),
        since: Some(old_from),
    }
}

fn after(facts: &HealthFacts<'_>) -> ProblemVerdict {
    match facts.after {
        None => ProblemVerdict::Unchanged,
        Some([]) => ProblemVerdict::Resolved("the work after a backup is done again"),
        Some(failures) => ProblemVerdict::Open {
            message: truncate(&failures.join("; "), LONGEST_REASON).into_owned(),
            hint: Some("the backup itself is sound; it is tried again after the next".to_owned()),
            since: None,
        },
    }
}

fn unknown(facts: &HealthFacts<'_>, account: &str) -> ProblemVerdict {
    if facts.unknown_writes == 0 {
        return ProblemVerdict::Resolved("no write is in doubt any more");
    }
    ProblemVerdict::Open {
        message: match facts.unknown_writes {
            1 => "the outcome of a write is not known".to_owned(),
            writes => format!("the outcome of {writes} writes is not known"),
        },
        hint: Some(format!(
            "`linkvault runs {account}` names it; `linkvault resolve` shows the candidates"
        )),
        since: facts.unknown_since,
    }
}

#[cfg(test)]
mod tests {
    use crate::health::rules::*;

    fn attempt(outcome: AttemptOutcome) -> BackupAttempt {
        BackupAttempt {
            snapshot: Some(7),
            message: Some("why".to_owned()),
            ..BackupAttempt::new(Timestamp(0), Timestamp(0), outcome)
        }
    }

    fn facts(attempt: Option<&BackupAttempt>) -> HealthFacts<'_> {
        HealthFacts {
            attempt,
            made: attempt,
            last_complete: Some(Timestamp(0)),
            records: 100,
            ..HealthFacts::default()
        }
    }

    /// Judges one thing after another and gives the alerts of each.
    fn told(
        attempts: &[BackupAttempt],
        rules: CountOrPercent,
    ) -> Vec<Vec<(ProblemKind, AlertEvent)>> {
        let mut open = Vec::new();
        let mut news = Vec::new();
        for (nth, attempt) in attempts.iter().enumerate() {
            let now = Timestamp(i64::try_from(nth).unwrap());
            let (now_open, alerts) = evaluate(&open, &facts(Some(attempt)), rules, "main", now);
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
        let news = told(&tries, CountOrPercent::default());
        let wanted =
            [vec![], vec![(failed, Begun)], vec![], vec![], vec![], vec![(failed, Ended)], vec![]];
        assert_eq!(news, wanted);
    }

    #[test]
    fn a_partial_backup_ends_a_failure_and_begins_a_lack() {
        let tries = [Failed, Partial, Failed, Complete].map(attempt);
        let news = told(&tries, CountOrPercent::default());
        let (failed, partial) = (ProblemKind::Failed, ProblemKind::Partial);
        assert_eq!(news[1], [(failed, Ended), (partial, Begun)]);
        assert_eq!(news[2], [(failed, Begun)], "the lack is still there, and told already");
        assert_eq!(news[3], [(failed, Ended), (partial, Ended)]);
    }

    #[test]
    fn a_refused_key_is_its_own_problem_and_no_end_of_another() {
        let refused = BackupAttempt { key_refused: true, ..attempt(Failed) };
        let news = told(&[attempt(Failed), refused, attempt(Complete)], CountOrPercent::default());
        assert_eq!(news[1], [(ProblemKind::KeyRefused, Begun)]);
        assert_eq!(news[2], [(ProblemKind::KeyRefused, Ended)]);
    }

    #[test]
    fn a_problem_keeps_its_beginning_and_tells_the_newest_reason() {
        let first = attempt(Failed);
        let (open, _) =
            evaluate(&[], &facts(Some(&first)), CountOrPercent::default(), "main", Timestamp(5));
        let second = BackupAttempt { message: Some("other".to_owned()), ..attempt(Failed) };
        let (open, _) =
            evaluate(&open, &facts(Some(&second)), CountOrPercent::default(), "main", Timestamp(9));
        assert_eq!(open[0].since, Timestamp(5));
        assert_eq!(open[0].message, "the backup failed: other");
    }

    #[test]
    fn an_alert_is_short_enough_for_a_chat() {
        for outcome in [Failed, Partial] {
            let long = BackupAttempt { message: Some("ü".repeat(100_000)), ..attempt(outcome) };
            let judged =
                evaluate(&[], &facts(Some(&long)), CountOrPercent::default(), "main", Timestamp(0));
            let message = &judged.1[0].message;
            assert!(message.ends_with('…') && message.chars().count() < 500, "{message}");
        }
    }

    #[test]
    fn a_backup_that_is_too_old_is_told_between_backups() {
        let old = HealthFacts { old_from: Some(Timestamp(5)), ..facts(None) };
        let judged = |open: &[HealthProblem], facts, at| {
            evaluate(open, facts, CountOrPercent::default(), "main", Timestamp(at))
        };
        let (open, news) = judged(&[], &old, 4);
        assert!(open.is_empty() && news.is_empty());
        let (open, news) = judged(&open, &old, 5);
        assert_eq!((open.len(), news.len()), (1, 1));
        let (open, news) = judged(&open, &old, 6);
        assert_eq!((open.len(), news.len()), (1, 0));
        let young = HealthFacts { old_from: Some(Timestamp(50)), ..facts(None) };
        let (open, news) = judged(&open, &young, 7);
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
        let (open, news) = judged(&open, &facts(None), 90);
        assert!(open.is_empty() && news.is_empty(), "no limit is set");
    }

    #[test]
    fn vanished_records_are_told_above_the_threshold() {
        let lost = |removed| BackupAttempt { removed, ..attempt(Complete) };
        let told = |threshold, removed, records| {
            let attempt = lost(removed);
            let facts = HealthFacts { records, ..facts(Some(&attempt)) };
            evaluate(&[], &facts, threshold, "main", Timestamp(0)).0.len()
        };
        assert_eq!(told(CountOrPercent::Count(5), 5, 100), 0);
        assert_eq!(told(CountOrPercent::Count(5), 6, 100), 1);
        assert_eq!(told(CountOrPercent::Percent(30.0), 30, 70), 0);
        assert_eq!(told(CountOrPercent::Percent(30.0), 31, 69), 1);
        assert_eq!(told(CountOrPercent::Percent(29.0), 29, 71), 0, "no rounding error");
        assert_eq!(told(CountOrPercent::Percent(30.0), 9, 0), 0, "few are no percentage");
        assert_eq!(told(CountOrPercent::Percent(30.0), 10, 0), 1);
        assert_eq!(told(CountOrPercent::Count(0), 0, 0), 0);
    }

    #[test]
    fn what_failed_after_a_backup_is_a_problem_of_its_own() {
        let good = attempt(Complete);
        let failures = ["the copy: no space".to_owned()];
        let with = |after| HealthFacts { after, ..facts(Some(&good)) };
        let rules = CountOrPercent::default();
        let (open, news) = evaluate(&[], &with(Some(&failures)), rules, "main", Timestamp(0));
        assert_eq!(news[0].kind, ProblemKind::After);
        let (open, _) = evaluate(&open, &with(None), rules, "main", Timestamp(0));
        assert_eq!(open.len(), 1);
        let (open, news) = evaluate(&open, &with(Some(&[])), rules, "main", Timestamp(0));
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
    }

    fn removal(removed: u64, before: u64) -> RemovedCount {
        RemovedCount { removed, before }
    }

    /// 10 of 16 campaigns are few of 500 records.
    #[test]
    fn removed_records_are_counted_for_each_list_and_for_the_account() {
        let told = |removals: &[(&str, RemovedCount)], records| {
            let removed = removals.iter().map(|(_, it)| it.removed).sum();
            let removals = removals.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect();
            let attempt = BackupAttempt { removed, removals, ..attempt(Complete) };
            let facts = HealthFacts { records, ..facts(Some(&attempt)) };
            let open = evaluate(&[], &facts, CountOrPercent::default(), "main", Timestamp(0)).0;
            open.into_iter().map(|it| it.message).collect::<Vec<_>>()
        };
        let one = told(&[("campaigns", removal(10, 16)), ("pixels", removal(3, 200))], 500);
        assert_eq!(one, ["10 of 16 campaigns vanished from the account"]);
        assert!(told(&[("campaigns", removal(9, 9))], 500).is_empty(), "few are no percentage");
        let both = told(&[("campaigns", removal(10, 16)), ("pixels", removal(100, 100))], 500);
        assert_eq!(both, ["10 of 16 campaigns, 100 of 100 pixels vanished from the account"]);
        let all = told(&[("campaigns", removal(9, 20)), ("pixels", removal(9, 20))], 22);
        assert_eq!(all, ["18 of 40 records vanished from the account"]);
    }

    #[test]
    fn an_emptied_list_is_a_problem_of_its_own_until_it_is_not_empty() {
        let list = EmptiedList {
            resource: "campaigns".to_owned(),
            had: 16,
            snapshot: 4,
            since: Timestamp(3),
        };
        let emptied = [list];
        let good = attempt(Complete);
        let empty = HealthFacts { emptied: &emptied, ..facts(Some(&good)) };
        let never = CountOrPercent::Percent(100.0);
        let (open, news) = evaluate(&[], &empty, never, "main", Timestamp(9));
        assert_eq!((news[0].kind, news[0].event), (ProblemKind::Emptied, Begun));
        assert_eq!(
            (open[0].message.as_str(), open[0].since),
            ("the list of campaigns is empty; snapshot #4 shows 16 records", Timestamp(3))
        );
        let (open, news) = evaluate(&open, &facts(Some(&good)), never, "main", Timestamp(9));
        assert!(open.is_empty());
        assert_eq!(news[0].event, Ended);
    }

    #[test]
    fn backups_that_could_not_begin_for_an_hour_are_a_problem() {
        let put_off =
            PostponedBackups { since: Timestamp(0), message: "pid 7 works on it".to_owned() };
        let waiting = HealthFacts { put_off: Some(&put_off), ..facts(None) };
        let judged =
            |facts, at| evaluate(&[], facts, CountOrPercent::default(), "main", Timestamp(at)).0;
        assert!(judged(&waiting, 3_599_999).is_empty());
        let open = judged(&waiting, 3_600_000);
        assert_eq!((open[0].kind, open[0].since), (ProblemKind::Locked, Timestamp(0)));
        assert_eq!(open[0].message, "the backup could not begin: pid 7 works on it");
        assert!(judged(&facts(None), 3_600_000).is_empty());
    }
}
