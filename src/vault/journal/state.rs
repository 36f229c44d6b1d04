//! What is known of a run, and of each of its steps.

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepState {
    /// Not begun.
    Planned,
    /// Its request may have left, and no outcome is known yet.
    Sent,
    Done,
    /// The service declined.
    Refused,
    /// Not sent, since it made no sense any more.
    Skipped,
    /// Not sent, since others changed what it was planned for.
    Stale,
    /// Only a person can decide its outcome.
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

/// What is known of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// Under way, or stopped; it can go on.
    Running,
    /// Every step is done.
    Complete,
    /// Some steps were refused, skipped or stale.
    Partial,
    /// Some outcomes need a person; the run is not finished.
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
