//! What is stored of runs and their steps by name: the command, and the states of both.

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
        /// Not finished: a process executes it, or it was stopped and can be continued.
        Running = "running",
        /// Every step is done.
        Complete = "complete",
        /// Some steps were refused, skipped or stale.
        Partial = "partial",
        /// Some steps have an unknown outcome; the run is not finished.
        Unknown = "unknown",
    }
}

impl RunStatus {
    /// The status for people: a run that no process executes is not `running` but `stopped`.
    #[must_use]
    pub const fn label(self, is_executing: bool) -> &'static str {
        match self {
            Self::Running if !is_executing => "stopped",
            status => status.name(),
        }
    }
}

named! {
    /// The command that began a run.
    #[derive(Default)]
    pub enum RunCommand {
        /// `apply`, of a file or of a saved plan.
        #[default]
        Apply = "apply",
        /// `import`.
        Import = "import",
        /// `restore`.
        Restore = "restore",
        /// `undo`.
        Undo = "undo",
        /// `migrate`.
        Migrate = "migrate",
        /// `rehearse`, in a copy of the vault.
        Rehearse = "rehearse",
    }
}

named! {
    /// The result of comparing the records after a run with a step.
    pub enum VerifiedState {
        /// The records are as planned.
        Verified = "verified",
        /// The records are not as planned.
        Differs = "differs",
        /// No list shows the result.
        Hidden = "unverifiable",
    }
}
