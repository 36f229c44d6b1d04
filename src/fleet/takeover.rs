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
