//! Merges the changes of two machines to the recorded state of an account. Pure.

use crate::health::attempt::{
    AlertEvent, AttemptOutcome, BackupAttempt, HealthProblem, ProblemKind,
};
use crate::health::pending_alerts::{MAX_PENDING, PendingAlert};
use crate::health::persisted_state::PersistedState;

impl PersistedState {
    /// Takes what others have changed since `base` from `theirs`. What `self` changed since then
    /// stays: its pending attempts are added, its new alerts are queued unless others queued the
    /// same, and the alerts that it delivered are removed.
    pub fn rebase(&mut self, base: &Self, theirs: &Self) {
        let outbox = merged_outbox(base, self, theirs);
        self.problems = merged_problems(&base.problems, &self.problems, &theirs.problems);
        self.outbox = outbox;
        let place = |it: &Self| (it.schedule.clone(), it.served, it.tries);
        if place(self) == place(base) {
            (self.schedule, self.served, self.tries) = place(theirs);
        }
        if self.records == base.records {
            self.records.clone_from(&theirs.records);
        }
        if self.after == base.after {
            self.after.clone_from(&theirs.after);
        }
        if self.heartbeat == base.heartbeat {
            self.heartbeat = theirs.heartbeat;
            self.heartbeat_error.clone_from(&theirs.heartbeat_error);
        }
        let watched = [self.watched, theirs.watched].into_iter().flatten().min();
        self.take_record(theirs);
        self.watched = watched.or(self.watched);
    }

    /// Records an attempt that could not be recorded when it ended. If a later one was recorded
    /// meanwhile, it only counts.
    pub fn add_late(&mut self, attempt: &BackupAttempt) {
        let is_newest = self.last.as_ref().is_none_or(|last| last.ended <= attempt.ended);
        if is_newest || attempt.outcome == AttemptOutcome::Locked {
            if is_newest {
                self.add(attempt);
            }
            return;
        }
        let recent: Vec<_> = self.field_changes.iter().map(|it| it.is_recent).collect();
        self.add_field_changes(attempt);
        // A later backup was recorded, which did not find these changes.
        let recent = recent.into_iter().chain(std::iter::repeat(false));
        self.field_changes.iter_mut().zip(recent).for_each(|(it, recent)| it.is_recent = recent);
        self.totals.add(attempt);
        let is_whole = !attempt.limited;
        if is_whole && attempt.outcome == AttemptOutcome::Complete {
            self.last_complete = self.last_complete.max(Some(attempt.ended));
        }
        if is_whole && matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial)
        {
            self.last_success = self.last_success.max(Some(attempt.ended));
        }
    }
}

fn of_kind(problems: &[HealthProblem], kind: ProblemKind) -> Option<&HealthProblem> {
    problems.iter().find(|it| it.kind == kind)
}

fn merged_problems(
    base: &[HealthProblem],
    mine: &[HealthProblem],
    theirs: &[HealthProblem],
) -> Vec<HealthProblem> {
    let merged = ProblemKind::ALL.into_iter().filter_map(|kind| {
        let (base, mine, theirs) =
            (of_kind(base, kind), of_kind(mine, kind), of_kind(theirs, kind));
        match (mine, theirs) {
            _ if mine == base => theirs,
            // Only its text is new, and others found that it ended.
            (Some(_), None) if base.is_some() => None,
            // Others found it before.
            (Some(_), Some(_)) if base.is_none() => theirs,
            _ => mine,
        }
    });
    merged.cloned().collect()
}

fn merged_outbox(
    base: &PersistedState,
    mine: &PersistedState,
    theirs: &PersistedState,
) -> Vec<PendingAlert> {
    fn find<'a>(outbox: &'a [PendingAlert], item: &PendingAlert) -> Option<&'a PendingAlert> {
        outbox.iter().find(|it| it.is_same(item))
    }
    let stays = theirs.outbox.iter().filter_map(|item| {
        match (find(&base.outbox, item), find(&mine.outbox, item)) {
            // It was delivered or dropped.
            (Some(_), None) => None,
            (Some(before), Some(now)) if before != now => Some(now),
            _ => Some(item),
        }
    });
    let added = mine.outbox.iter().filter(|item| {
        let is_known = [&base.outbox, &theirs.outbox].iter().any(|it| find(it, item).is_some());
        !is_known && !was_queued_by_others(item, &base.problems, &theirs.problems)
    });
    let mut outbox: Vec<_> = stays.chain(added).cloned().collect();
    outbox.drain(..outbox.len().saturating_sub(MAX_PENDING));
    outbox
}

/// Whether others found since `base` that the same problem began or ended. They queued that alert,
/// and may have delivered it.
fn was_queued_by_others(
    item: &PendingAlert,
    base: &[HealthProblem],
    theirs: &[HealthProblem],
) -> bool {
    let begun = item.alert.event == AlertEvent::Begun;
    let is_open = |problems| of_kind(problems, item.alert.kind).is_some();
    is_open(theirs) == begun && is_open(base) != begun
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::health::attempt::Alert;
    use crate::health::pending_alerts::{AlertChannel, enqueue};
    use crate::health::persisted_state::tests::attempt;

    fn alert(kind: ProblemKind, event: AlertEvent, at: i64) -> Alert {
        let (since, at) = (Timestamp(at), Timestamp(at));
        Alert { kind, event, since, at, message: String::new(), hint: None }
    }

    /// A machine finds at `at` that a problem began or ended.
    fn finds(state: &mut PersistedState, kind: ProblemKind, event: AlertEvent, at: i64) {
        state.problems.retain(|it| it.kind != kind);
        if event == AlertEvent::Begun {
            let message = String::new();
            let since = Timestamp(at);
            state.problems.push(HealthProblem { kind, since, message, hint: None, newest: None });
        }
        enqueue(&mut state.outbox, &[alert(kind, event, at)], &[AlertChannel::Webhook]);
    }

    fn outbox(state: &PersistedState) -> Vec<i64> {
        state.outbox.iter().map(|it| it.alert.at.0).collect()
    }

    const FAILED: ProblemKind = ProblemKind::Failed;
    const PARTIAL: ProblemKind = ProblemKind::Partial;

    #[test]
    fn alerts_of_two_machines_are_queued_once() {
        let base = PersistedState::default();
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        finds(&mut theirs, FAILED, AlertEvent::Begun, 1);
        finds(&mut mine, FAILED, AlertEvent::Begun, 2);
        finds(&mut mine, PARTIAL, AlertEvent::Begun, 3);
        mine.rebase(&base, &theirs);
        assert_eq!(outbox(&mine), [1, 3]);
        let problems: Vec<_> = mine.problems.iter().map(|it| (it.kind, it.since.0)).collect();
        assert_eq!(problems, [(FAILED, 1), (PARTIAL, 3)]);
    }

    #[test]
    fn an_alert_that_others_delivered_is_not_queued_again() {
        let mut base = PersistedState::default();
        finds(&mut base, FAILED, AlertEvent::Begun, 1);
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        theirs.outbox.clear();
        finds(&mut mine, FAILED, AlertEvent::Ended, 2);
        mine.rebase(&base, &theirs);
        assert_eq!((outbox(&mine), mine.problems.len()), (vec![2], 0));
        // Both found that it ended, and the other one delivered that.
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        finds(&mut mine, FAILED, AlertEvent::Ended, 2);
        finds(&mut theirs, FAILED, AlertEvent::Ended, 3);
        theirs.outbox.clear();
        mine.rebase(&base, &theirs);
        assert_eq!((outbox(&mine), mine.problems.len()), (vec![], 0));
    }

    #[test]
    fn delivered_and_tried_alerts_of_this_machine_count() {
        let mut base = PersistedState { heartbeat: true, ..PersistedState::default() };
        finds(&mut base, FAILED, AlertEvent::Begun, 1);
        finds(&mut base, PARTIAL, AlertEvent::Begun, 2);
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        mine.outbox.remove(0);
        (mine.outbox[0].tries, mine.heartbeat) = (1, false);
        finds(&mut theirs, ProblemKind::Old, AlertEvent::Begun, 3);
        mine.rebase(&base, &theirs);
        assert_eq!((outbox(&mine), mine.outbox[0].tries, mine.heartbeat), (vec![2, 3], 1, false));
        assert_eq!(mine.problems.len(), 3);
    }

    #[test]
    fn attempts_of_both_machines_are_counted_and_the_schedule_that_changed_stays() {
        let base = PersistedState { tries: 1, ..PersistedState::default() };
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        theirs.add(&attempt(AttemptOutcome::Complete, 5000));
        (theirs.served, theirs.tries) = (Some(Timestamp(5)), 0);
        theirs.records.insert("pixels".to_owned(), 7);
        mine.add(&attempt(AttemptOutcome::Failed, 9000));
        mine.rebase(&base, &theirs);
        assert_eq!((mine.totals.backups, mine.last_complete), (2, Some(Timestamp(5000))));
        assert_eq!((mine.served, mine.tries, mine.records["pixels"]), (Some(Timestamp(5)), 0, 7));
        assert_eq!(mine.last.as_ref().unwrap().outcome, AttemptOutcome::Failed);
    }

    #[test]
    fn an_attempt_that_is_recorded_late_counts_and_does_not_replace_a_later_one() {
        let mut state = PersistedState::default();
        state.add(&attempt(AttemptOutcome::Complete, 9000));
        state.add_late(&attempt(AttemptOutcome::Failed, 5000));
        assert_eq!((state.totals.backups, state.totals.failures), (2, 1));
        assert_eq!(state.last.as_ref().unwrap().ended, Timestamp(9000));
        assert_eq!((state.failing_since, state.last_complete), (None, Some(Timestamp(9000))));
        state.add_late(&attempt(AttemptOutcome::Failed, 9500));
        assert_eq!(state.last.as_ref().unwrap().outcome, AttemptOutcome::Failed);
    }
}
