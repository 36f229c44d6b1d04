//! What a machine must assume of the rate limit if other machines worked on the account. Pure.
//!
//! The state of the rate limit ([`PacerState`]) is per machine. A session that ends records it in
//! `STATE`, so that the next machine continues with it, as the next process on one machine does. A
//! session without a recorded end may have sent requests until now, and two that overlapped did not
//! know of each other: then the limit counts as used up, and no request is sent for one window.
//! Waiting is the only rule by which the service refuses nothing: the first request may be the one
//! that it refuses, so that its response comes too late.
//!
//! Whether a session began after another one ended is decided by the writes of `STATE`, not by the
//! clocks of the machines. Clocks only tell how long ago a session ended.

use std::collections::BTreeMap;
use std::time::Duration;

use super::state_document::{MachineUse, SessionUse, StateDocument};
use crate::api::pacer::{PacerState, WINDOW_TIME};
use crate::clock::Timestamp;

/// The clocks of two machines differ by at most this.
pub const CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// The time in which requests of another machine matter.
const SPAN: Duration = WINDOW_TIME.saturating_add(CLOCK_DIFFERENCE);

/// Records that a session of `machine` begins at `now`, with the rate limit that it knows. Sessions
/// of other machines whose end was not recorded count as ended now.
pub fn begin_session(
    document: &mut StateDocument,
    machine: &str,
    limit: Option<u64>,
    now: Timestamp,
) {
    let write = document.sequence.saturating_add(1);
    for (_, other) in document.machines.iter_mut().filter(|(id, _)| *id != machine) {
        if let Some(session) = &mut other.session {
            session.ended.get_or_insert((write, now));
        }
    }
    let session = SessionUse { began_by: write, limit, ..SessionUse::default() };
    document.machines.entry(machine.to_owned()).or_default().session = Some(session);
}

/// Records that the session of `machine` ended at `now`, after `requests` requests.
pub fn end_session(
    document: &mut StateDocument,
    machine: &str,
    requests: u64,
    pace: &PacerState,
    now: Timestamp,
) {
    let write = document.sequence.saturating_add(1);
    let began_by =
        document.machines.get(machine).and_then(|it| it.session.as_ref()).map(|it| it.began_by);
    // The begin of a session that could not be recorded, or was dropped, is not known.
    document.machines.entry(machine.to_owned()).or_default().session = Some(SessionUse {
        began_by: began_by.unwrap_or(0),
        ended: Some((write, now)),
        requests,
        limit: pace.limit,
        pace: Some(pace.clone()),
    });
}

/// The state from which `machine` continues, if its own is `own` and `machines` says what was done
/// before.
#[must_use]
pub fn taken_over(
    own: Option<PacerState>,
    machine: &str,
    machines: &BTreeMap<String, MachineUse>,
    now: Timestamp,
) -> Option<PacerState> {
    let sessions = || machines.iter().filter_map(|(id, it)| Some((id, it.session.as_ref()?)));
    let recent = |session: &SessionUse| last_use(session, now).plus(SPAN) > now;
    let others = sessions().filter(|(id, session)| *id != machine && recent(session));
    let others: Vec<_> = others.map(|(_, session)| session).collect();
    let Some(newest) = others.iter().max_by_key(|it| end_write(it)) else { return own };
    let ours = sessions().find(|(id, _)| *id == machine).map(|(_, it)| it);
    if ours.is_some_and(|ours| end_write(newest) <= ours.began_by) {
        // This machine has taken all of it over before.
        return own;
    }
    let newest_knows = |it: &SessionUse| end_write(it) <= newest.began_by;
    let own_use = own.as_ref().filter(|it| Timestamp(it.saved).plus(SPAN) > now);
    let knows_own = own_use.is_none_or(|state| {
        ours.is_some_and(|ours| {
            // Nothing on this machine used the key after the session.
            newest_knows(ours) && ours.ended.is_some_and(|(_, ended)| state.saved <= ended.0)
        })
    });
    let knows_others = others.iter().all(|it| std::ptr::eq(*it, *newest) || newest_knows(it));
    match &newest.pace {
        Some(pace) if newest.ended.is_some() && knows_own && knows_others => {
            Some(continued(own, pace, now))
        }
        _ => Some(used_up(own, &others, now)),
    }
}

/// The write that recorded the end of the session.
fn end_write(session: &SessionUse) -> u64 {
    session.ended.map_or(u64::MAX, |(write, _)| write)
}

/// When the session may have sent its last request, by the clock of this machine.
fn last_use(session: &SessionUse, now: Timestamp) -> Timestamp {
    session.ended.map_or(now, |(_, ended)| ended.plus(CLOCK_DIFFERENCE).min(now))
}

/// The state that another machine recorded, by the clock of this one. `own` has the clients that
/// wait on this one.
fn continued(own: Option<PacerState>, theirs: &PacerState, now: Timestamp) -> PacerState {
    // If its clock is ahead, it was recorded just now at the latest.
    let saved = Timestamp(theirs.saved).plus(CLOCK_DIFFERENCE).min(now);
    let mut state = theirs.moved(saved.0.saturating_sub(theirs.saved));
    let own = own.unwrap_or_default();
    (state.queue, state.limit) = (own.queue, state.limit.or(own.limit));
    state
}

/// The own state, with no request for a window after the last use.
fn used_up(own: Option<PacerState>, others: &[&SessionUse], now: Timestamp) -> PacerState {
    let mut state = own.unwrap_or_default();
    state.limit = state.limit.or_else(|| others.iter().find_map(|it| it.limit));
    if state.limit != Some(0) {
        let last = others.iter().map(|it| last_use(it, now)).max().unwrap_or(now);
        state.saved = now.0;
        state.not_before = state.not_before.max(Some(last.plus(SPAN).0));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "00000000000000a1";
    const OTHER: &str = "00000000000000b2";
    const NOW: Timestamp = Timestamp(1_793_491_200_000);

    /// A state that was saved at `at`, after `used` requests of 30.
    fn pace(at: Timestamp, used: u64) -> PacerState {
        PacerState {
            saved: at.0,
            limit: Some(30),
            remaining: Some(30 - used),
            until: at.0 + 50_000,
            requests: vec![(at.0, used)],
            ..PacerState::default()
        }
    }

    fn session(document: &mut StateDocument, machine: &str, at: Timestamp, used: u64) {
        begin_session(document, machine, Some(30), at);
        document.stamp(machine, "1", at);
        end_session(document, machine, used, &pace(at, used), at);
        document.stamp(machine, "2", at);
    }

    fn seconds(number: u64) -> Timestamp {
        NOW.plus(Duration::from_secs(number))
    }

    #[test]
    fn the_next_machine_continues_with_the_recorded_state() {
        let mut document = StateDocument::default();
        session(&mut document, ONE, NOW, 20);
        let state = taken_over(None, OTHER, &document.machines, seconds(10)).unwrap();
        assert_eq!(state, pace(NOW, 20).moved(2_000));
        // A machine whose clock is behind takes it for one of now.
        let behind = Timestamp(NOW.0 - 30_000);
        let state = taken_over(None, OTHER, &document.machines, behind).unwrap();
        assert_eq!(state, pace(NOW, 20).moved(-30_000));
        // Its own state is older, and the other one had taken it over.
        let mut document = StateDocument::default();
        session(&mut document, OTHER, NOW, 5);
        session(&mut document, ONE, seconds(3), 20);
        let state = taken_over(Some(pace(NOW, 5)), OTHER, &document.machines, seconds(4)).unwrap();
        assert_eq!((state.remaining, state.not_before), (Some(10), None));
    }

    #[test]
    fn a_session_without_an_end_may_have_sent_requests_until_now() {
        let mut document = StateDocument::default();
        begin_session(&mut document, ONE, Some(30), NOW);
        document.stamp(ONE, "1", NOW);
        let hour = seconds(3600);
        let state = taken_over(None, OTHER, &document.machines, hour).unwrap();
        assert_eq!(state.not_before, Some(hour.0 + 62_000));
        // The machine that takes over records that, so that a third one need not wait again.
        begin_session(&mut document, OTHER, Some(30), hour);
        document.stamp(OTHER, "1", hour);
        let later = seconds(3630);
        end_session(&mut document, OTHER, 20, &pace(later, 20), later);
        document.stamp(OTHER, "2", later);
        let state = taken_over(None, "00000000000000c3", &document.machines, later).unwrap();
        assert_eq!((state.remaining, state.not_before), (Some(10), None));
    }

    #[test]
    fn sessions_that_overlapped_use_up_the_limit() {
        let mut document = StateDocument::default();
        begin_session(&mut document, ONE, Some(30), NOW);
        document.stamp(ONE, "1", NOW);
        session(&mut document, OTHER, seconds(1), 20);
        end_session(&mut document, ONE, 10, &pace(seconds(2), 10), seconds(2));
        document.stamp(ONE, "2", seconds(2));
        for machine in [ONE, OTHER, "00000000000000c3"] {
            let own = match machine {
                ONE => Some(pace(seconds(2), 10)),
                OTHER => Some(pace(seconds(1), 20)),
                _ => None,
            };
            let state = taken_over(own, machine, &document.machines, seconds(5));
            let not_before = state.and_then(|it| it.not_before);
            let until = if machine == ONE { seconds(1) } else { seconds(2) };
            assert_eq!(not_before, Some(until.0 + 2_000 + 62_000), "{machine}");
        }
    }

    #[test]
    fn other_use_of_the_key_on_this_machine_is_not_forgotten() {
        let mut document = StateDocument::default();
        session(&mut document, OTHER, NOW, 5);
        session(&mut document, ONE, seconds(3), 20);
        let own = pace(seconds(4), 9);
        let state = taken_over(Some(own), OTHER, &document.machines, seconds(5)).unwrap();
        assert_eq!((state.remaining, state.not_before), (Some(21), Some(seconds(67).0)));
    }

    #[test]
    fn nothing_is_waited_for_without_a_limit_or_after_a_window() {
        let mut document = StateDocument::default();
        session(&mut document, ONE, NOW, 20);
        assert_eq!(taken_over(None, OTHER, &document.machines, seconds(65)), None);
        assert_eq!(taken_over(None, ONE, &document.machines, NOW), None);
        begin_session(&mut document, ONE, Some(0), NOW);
        document.stamp(ONE, "3", NOW);
        let state = taken_over(None, OTHER, &document.machines, NOW).unwrap();
        assert_eq!((state.limit, state.not_before), (Some(0), None));
    }
}
