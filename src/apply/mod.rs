//! Applies plans. The journal is written first: a step is marked as sent on the disk before its
//! request is sent. So a create that may have taken effect is never repeated, and a killed run can
//! be resumed.
//!
//! * `run`: the order of work, from the first crawl to the last
//! * `step_run`: sends a step and updates the journal
//! * `stored_journal`: puts the journal into the store of the vault before a write
//! * `preconditions`: checks account and lists before each write
//! * `recovery`: steps without a response
//! * [`step_request`]: a step's request, checked against the table
//! * [`response`]: what a response means for its step
//! * [`stale`]: what changed since the plan was made
//! * [`reconcile`]: creates without a response
//! * [`verify`]: compares the result with the plan
//! * `known_ids`: the ids that were known before a step was sent
//! * `twins`: records that a repeated create made twice
//! * `remember`: stores sent values that no list returns
//! * [`resolve`]: decisions of a person on steps of unknown outcome
//! * [`mod@undo`]: the desired state that reverts a run
//! * `deleted`: records deleted since a snapshot

mod deleted;
mod error;
mod journal_step;
mod known_ids;
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
mod stored_journal;
mod twins;
pub mod undo;
pub mod verify;

use std::collections::BTreeMap;
use std::time::Duration;

pub use deleted::deleted_since;
pub use error::ApplyError;
pub use remember::{
    account_memory, account_memory_at, account_memory_with_ids_of, memory_for_steps,
    migration_memory, save_agreement, save_matches,
};
pub use run::{apply, end, resume};
pub use stale::StaleStep;
pub use step_request::{NOT_SHOWN, StepSecrets};
pub use twins::{Twin, late_twins};

use crate::model::paging::Paging;
use crate::model::{Resource, RunId, SnapshotId};
use crate::vault::journal::RunCommand;

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct ApplyOptions {
    /// The command, for the journal.
    pub command: RunCommand,
    /// The input of the command as text, such as file names; only stored in the journal.
    pub input: String,
    /// The plan's id, by which a second run of the same plan is refused; empty if it has none.
    pub plan_id: String,
    /// The plan without its steps, as JSON; stored in the journal.
    pub plan: String,
    /// The service's base URL, as stored in the vault.
    pub service: String,
    /// Stops at the first refusal.
    pub fail_fast: bool,
    /// The number of a snapshot, just made, of all resources that the plan reads; without it, the
    /// run makes one first.
    pub snapshot_before: Option<SnapshotId>,
    /// Values to be sent that plan and journal do not contain.
    pub secrets: StepSecrets,
    /// The maximum age of a list when a write that depends on it is sent; five minutes if `None`.
    pub max_staleness: Option<Duration>,
    /// The rate limit in requests per minute, used until the service sends its own; 0 is no limit.
    pub limit: Option<u64>,
    /// The requests of each window that are left to other users of the key.
    pub reserve: u64,
    /// How the lists are divided into pages, as far as a crawl has found out.
    pub paging: BTreeMap<Resource, Paging>,
}

/// The result of a run. The first counts are numbers of steps in that state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunReport {
    /// The number of the run in the vault.
    pub run: RunId,
    /// Steps that the service confirmed or a list showed.
    pub done: u64,
    /// Steps that the service refused.
    pub refused: u64,
    /// Steps that were not sent because an earlier step was not done, or that a person decided to
    /// leave.
    pub skipped: u64,
    /// Steps that were not sent because others changed the records that they depend on.
    pub stale: u64,
    /// Steps of which neither a response nor a list shows the outcome.
    pub unknown: u64,
    /// Steps that were not sent because they wait for a step of unknown outcome.
    pub not_sent: u64,
    /// Done steps whose result, in the crawl after the run, differs from the plan.
    pub different: u64,
    /// Done steps whose result, in the crawl after the run, is as planned.
    pub verified: u64,
    /// The requests of the whole run, with its crawls and with earlier processes that worked on it.
    pub requests: u64,
    /// The number of the snapshot before the first write; `None` if there is none.
    pub before: Option<SnapshotId>,
    /// The number of the snapshot after the last write; `None` until the run has made one.
    pub after: Option<SnapshotId>,
    /// Messages for people about refusals and differences, in the order of steps.
    pub problems: Vec<String>,
    /// Those of `problems` that no progress event has reported during the run.
    pub unreported: Vec<String>,
    /// Creates of this process that made two records; their steps are of unknown outcome.
    pub twins: Vec<Twin>,
}

#[cfg(test)]
mod tests;
