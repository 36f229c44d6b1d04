//! Pauses the schedule of a fleet's account while a command writes to the account, so that no
//! worker puts its vault meanwhile.

use std::sync::Arc;

use super::temporal_error::explain;
use super::{Events, NextStep, OpError, OpErrorKind};
use crate::api::redact::Redactor;
use crate::clock::Clock;
use crate::config::FleetSettings;
use crate::temporal::error::TemporalError;
use crate::temporal::schedule::PauseState;
use crate::temporal::schedules::Schedules;

/// The beginning of the note of a schedule that a command paused.
const NOTE: &str = "linkvault writes to the account";

/// A paused schedule. It is resumed when this is dropped.
pub(super) struct PausedSchedule {
    schedules: Schedules,
    account: String,
    /// Its note, which no other command writes.
    note: String,
    events: Arc<dyn Events>,
}

/// Pauses the schedule of `account`; `None` if it has none, or a person paused it.
///
/// # Errors
/// If Temporal cannot be reached, or a worker backs the account up now.
pub(super) fn pause(
    account: &str,
    settings: &FleetSettings,
    redactor: &Redactor,
    clock: &dyn Clock,
    events: &Arc<dyn Events>,
) -> Result<Option<PausedSchedule>, OpError> {
    let failed = |error: TemporalError| explain(settings, redactor, &error);
    let schedules = Schedules::connect(settings).map_err(failed)?;
    let Some(now) = schedules.state(account).map_err(failed)? else { return Ok(None) };
    if is_paused_by_command(&now) {
        events.warning(&format!(
            "another command paused the schedule of {account}; if that was killed, `linkvault fleet \
             resume {account}` resumes it"
        ));
    }
    let note = format!("{NOTE} ({} {})", std::process::id(), clock.now().iso());
    if !now.is_paused {
        schedules.pause(account, &note).map_err(failed)?;
    }
    let running = schedules.is_running(account).map_err(failed);
    let (name, events) = (account.to_owned(), Arc::clone(events));
    let paused =
        (!now.is_paused).then(|| PausedSchedule { schedules, account: name, note, events });
    if running? {
        let what = format!("a worker of the fleet backs {account} up now");
        return Err(OpError::new(OpErrorKind::Locked, what).next(NextStep::WaitForWorker));
    }
    Ok(paused)
}

/// Whether a command that writes to the account paused its schedule.
pub(super) fn is_paused_by_command(state: &PauseState) -> bool {
    state.is_paused && {
        let of_command = format!("{NOTE} (");
        state.note.as_deref().is_some_and(|note| note.starts_with(&of_command))
    }
}

impl Drop for PausedSchedule {
    fn drop(&mut self) {
        let account = &self.account;
        let resumed = match self.schedules.state(account) {
            // A person may have paused it meanwhile.
            Ok(Some(now)) if now.note.as_ref() == Some(&self.note) => {
                self.schedules.resume(account)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = resumed {
            self.events.warning(&format!(
                "the schedule of {account} stays paused: {error}; `linkvault fleet resume {account}` \
                 resumes it"
            ));
        }
    }
}
