//! Errors of Temporal as errors of an operation.

use super::{NextStep, OpError, OpErrorKind};
use crate::api::redact::Redactor;
use crate::config::FleetSettings;
use crate::temporal::error::{TemporalError, TemporalErrorKind};

/// An error of Temporal, with the address and what to do next.
#[must_use]
pub fn explain(settings: &FleetSettings, redactor: &Redactor, error: &TemporalError) -> OpError {
    let next = match error.kind {
        TemporalErrorKind::NoServer => NextStep::StartTemporal,
        TemporalErrorKind::NoNamespace => NextStep::CreateNamespace(settings.namespace.clone()),
        TemporalErrorKind::Refused | TemporalErrorKind::Settings => NextStep::CheckTemporal,
        TemporalErrorKind::NotFound | TemporalErrorKind::Conflict | TemporalErrorKind::Server => {
            NextStep::RunAgain
        }
    };
    let kind = match error.kind {
        TemporalErrorKind::Refused => OpErrorKind::Unauthorised,
        TemporalErrorKind::Conflict => OpErrorKind::Stale,
        _ => OpErrorKind::Failed,
    };
    let message = format!("Temporal at {}: {error}", settings.temporal);
    OpError::new(kind, redactor.text(&message)).next(next)
}
