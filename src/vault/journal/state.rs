//! The states of runs and of their steps.

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepState {
    /// Not sent yet.
    Planned,
    /// Its request may have been sent; the outcome is not known yet.
    Sent,
    /// The service has carried it out.
    /// The service has carried it out.
    Done,
    /// The service refused it.
    Refused,
    /// Not sent, because it no longer applies.
    Skipped,
    /// Not sent, because somebody else changed the record since the plan.
    Stale,
    /// The outcome cannot be determined; a person has to decide.
    Unknown,
}

impl StepState {
    const ALL: [Self; 7] = {
        use StepState::{Done, Planned, Refused, Sent, Skipped, Stale, Unknown};
        [Planned, Sent, Done, Refused, Skipped, Stale, Unknown]
    };

    /// The one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Sent => "sent",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Skipped => "skipped",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// Running, or interrupted; it can be continued.
    Running,
    /// Every step is done.
    Complete,
    /// Some steps were refused, skipped or stale.
    Partial,
    /// Some steps have an unknown outcome; the run is not finished.
    Unknown,
}

impl RunStatus {
    const ALL: [Self; 4] = [Self::Running, Self::Complete, Self::Partial, Self::Unknown];

    /// The one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}
