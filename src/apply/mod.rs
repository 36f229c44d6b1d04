//! Carries a plan out, journal first: a step's intent is on the disk before its
//! request leaves, so that no create is ever repeated whose first try may have
//! worked, and a run that was killed can go on.
//!
//! * `run`: the order of work, from the first look to the last
//! * `steps`: each step with its journal
//! * `prepare`: what must hold before a write leaves
//! * `doubt`: steps whose answer was lost
//! * [`request`]: a step's request, checked against the table
//! * [`answer`]: what an answer means for a step
//! * [`before`]: what has changed since the plan was made
//! * [`settle`]: what became of creates without an answer
//! * [`verify`]: whether what was asked is there
//! * `keep`: what is remembered of what was sent
//! * [`resolve`]: steps whose outcome needs a person
//! * [`mod@undo`]: the way back
//! * `deleted`: records that were deleted since a snapshot

pub mod answer;
pub mod before;
mod deleted;
mod doubt;
mod error;
mod keep;
mod prepare;
pub mod request;
pub mod resolve;
mod run;
pub mod settle;
mod steps;
pub mod undo;
pub mod verify;

use std::collections::BTreeMap;
use std::time::Duration;

pub use before::Stale;
pub use deleted::deleted_since;
pub use error::ApplyError;
pub use keep::{memory, memory_at, memory_in, memory_of, note_matches};
pub use request::{NOT_SHOWN, Secrets};
pub use run::{apply, resume};

use crate::model::Resource;
use crate::model::paging::Paging;

/// What a run is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Who runs: `apply`, `import`, `restore`, `undo`.
    pub command: String,
    /// What it was asked for, as text; only kept.
    pub asked: String,
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
    pub looked: Option<i64>,
    pub secrets: Secrets,
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
pub struct Outcome {
    pub run: i64,
    pub done: u64,
    pub refused: u64,
    pub skipped: u64,
    /// Steps that were not sent, since others changed what they were planned for.
    pub stale: u64,
    pub unknown: u64,
    /// Steps that were not sent, since they wait for one whose outcome is unknown.
    pub waiting: u64,
    /// Done steps that the look afterwards showed not to be as asked.
    pub differs: u64,
    pub verified: u64,
    /// What the whole run cost, reading included.
    pub requests: u64,
    pub before: Option<i64>,
    pub after: Option<i64>,
    /// What a person should know: refusals and differences, in the order of steps.
    pub problems: Vec<String>,
    /// Those of them that progress has not told while the run was under way.
    pub untold: Vec<String>,
}

#[cfg(test)]
mod tests;
