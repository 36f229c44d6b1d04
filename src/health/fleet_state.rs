//! The state of an account whose backups Temporal starts.

crate::model::named::named! {
    /// The state of an account in a fleet, worst first.
    pub enum FleetState {
        /// The newest backup that ended failed or is partial, or one waits for its repetition.
        Failed = "failed",
        /// The newest backup was cancelled or terminated.
        Stopped = "stopped",
        /// The schedule is paused.
        Paused = "paused",
        /// There was no backup yet.
        New = "new",
        /// The newest backup that ended is complete.
        Good = "good",
    }
}
