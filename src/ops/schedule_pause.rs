//! Pauses the schedule of a fleet's account while a command writes to the account, so that no
//! worker puts its vault meanwhile.

use std::sync::Arc;

use super::temporal_error::explain;
use super::{Events, NextStep, OpError, OpErrorKind};
use crate::api::redact::Redactor;
use crate::config::FleetSettings;
use crate::temporal::error::TemporalError;
use crate::temporal::schedules::Schedules;

/// The note of a schedule that a command paused. One that a killed command left paused is resumed
/// by the next.
const NOTE: &str =
    "linkvault writes to the account; `linkvault resume` continues a run that was cut off";

/// A paused schedule. It is resumed when this is dropped.
pub(super) struct PausedSchedule {
    schedules: Schedules,
    account: String,
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
    events: &Arc<dyn Events>,
) -> Result<Option<PausedSchedule>, OpError> {
    let failed = |error: TemporalError| explain(settings, redactor, &error);
    let schedules = Schedules::connect(settings).map_err(failed)?;
    let Some(now) = schedules.state(account).map_err(failed)? else { return Ok(None) };
    let by_person = now.is_paused && now.note.as_deref() != Some(NOTE);
    if !by_person {
        schedules.pause(account, NOTE).map_err(failed)?;
    }
    let running = schedules.is_running(account).map_err(failed);
    let (name, events) = (account.to_owned(), Arc::clone(events));
    let paused = (!by_person).then(|| PausedSchedule { schedules, account: name, events });
    if running? {
        let what = format!("a worker of the fleet backs {account} up now");
        return Err(OpError::new(OpErrorKind::Locked, what).next(NextStep::WaitForWorker));
    }
    Ok(paused)
}

impl Drop for PausedSchedule {
    fn drop(&mut self) {
        if let Err(error) = self.schedules.resume(&self.account) {
            let account = &self.account;
            self.events.warning(&format!(
                "the schedule of {account} stays paused: {error}; `linkvault fleet resume {account}` \
                 resumes it"
            ));
        }
    }
}
