//! `linkvault worker`: backups that Temporal starts. Its activities are operations of `ops`.

mod activities;
mod activity_events;
mod backlog;
mod lease;
mod metrics;
pub mod operations;
mod run;
mod workflow;

pub use metrics::{WorkerMetrics, serve};
pub use run::{WorkerSettings, identity, run};
