//! The states of runs and of their steps.

use crate::model::named::named;

named! {
    /// The state of a step.
    pub enum StepState {
        /// Not sent yet.
        Planned = "planned",
        /// Its request may have been sent; the outcome is not known yet.
        Sent = "sent",
        /// The service has carried it out.
        Done = "done",
        /// The service refused it.
        Refused = "refused",
        /// Not sent, because it no longer applies.
        Skipped = "skipped",
        /// Not sent, because somebody else changed the record since the plan.
        Stale = "stale",
        /// The outcome cannot be determined; a person has to decide.
        Unknown = "unknown",
    }
}

named! {
    /// The state of a run.
    pub enum RunStatus {
        /// Running, or interrupted; it can be continued.
        Running = "running",
        /// Every step is done.
        Complete = "complete",
        /// Some steps were refused, skipped or stale.
        Partial = "partial",
        /// Some steps have an unknown outcome; the run is not finished.
        Unknown = "unknown",
    }
}
