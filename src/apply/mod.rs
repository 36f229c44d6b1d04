//! Carries a plan out, journal first: a step's intent is on the disk before its
//! request leaves, so that no create is ever repeated whose first try may have
//! worked, and a run that was killed can go on.
//!
//! * `run`: the order of work, from the first look to the last
//! * `step_run`: each step with its journal
//! * `preconditions`: what must hold before a write leaves
//! * `recovery`: steps whose answer was lost
//! * [`step_request`]: a step's request, checked against the table
//! * [`response`]: what an answer means for a step
//! * [`stale`]: what has changed since the plan was made
//! * [`reconcile`]: what became of creates without an answer
//! * [`verify`]: whether what was asked is there
//! * `remember`: what is remembered of what was sent
//! * [`resolve`]: steps whose outcome needs a person
//! * [`mod@undo`]: the way back
//! * `deleted`: records that were deleted since a snapshot

mod deleted;
mod error;
mod journal_step;
mod preconditions;
pub mod reconcile;
mod recovery;
mod remember;
pub mod resolve;
pub mod response;
mod run;
mod runner;
pub mod stale;
pub mod step_request;
mod step_run;
pub mod undo;
pub mod verify;

use std::collections::BTreeMap;
use std::time::Duration;

pub use deleted::deleted_since;
pub use error::ApplyError;
pub use remember::{
    account_memory, account_memory_at, account_memory_with_ids_of, migration_memory,
    save_agreement, save_matches,
};
pub use run::{apply, resume};
pub use stale::StaleStep;
pub use step_request::{NOT_SHOWN, StepSecrets};

use crate::model::paging::Paging;
use crate::model::{Resource, RunId};

/// What a run is asked for.
#[derive(Debug, Clone, Default)]
pub struct ApplyOptions {
    /// Who runs: `apply`, `import`, `restore`, `undo`.
    pub command: String,
    /// What it was asked for, as text; only kept.
    pub input: String,
    /// The plan's own id; empty where it has none.
    pub plan_id: String,
    /// The plan without its steps, as text; only kept.
    pub plan: String,
    /// The service's base URL, as the vault remembers it.
    pub service: String,
    /// Stops at the first refusal.
    pub fail_fast: bool,
    /// A snapshot that was just made of all that the plan touches; without it,
    /// the run begins with one of its own.
    pub snapshot_before: Option<i64>,
    pub secrets: StepSecrets,
    /// How old a list may be when a write that stands on it leaves; five minutes if
    /// nothing is said.
    pub max_staleness: Option<Duration>,
    /// Requests a minute, where the service has not told its limit; 0 is no limit.
    pub limit: Option<u64>,
    /// Requests of each window that are left to others.
    pub reserve: u64,
    /// How the lists are divided into pages, where a look has seen it.
    pub paging: BTreeMap<Resource, Paging>,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunReport {
    pub run: RunId,
    pub done: u64,
    pub refused: u64,
    pub skipped: u64,
    /// Steps that were not sent, since others changed what they were planned for.
    pub stale: u64,
    pub unknown: u64,
    /// Steps that were not sent, since they wait for one whose outcome is unknown.
    pub not_sent: u64,
    /// Done steps that the look afterwards showed not to be as asked.
    pub different: u64,
    pub verified: u64,
    /// What the whole run cost, reading included.
    pub requests: u64,
    pub before: Option<i64>,
    pub after: Option<i64>,
    /// What a person should know: refusals and differences, in the order of steps.
    pub problems: Vec<String>,
    /// Those of them that progress has not told while the run was under way.
    pub unreported: Vec<String>,
}

#[cfg(test)]
mod tests;
