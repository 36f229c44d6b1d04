//! `linkvault worker`: backups that Temporal starts. Its activities are operations of `ops`.

mod activities;
mod activity_events;
mod lease;
mod operations;
mod run;
mod workflow;

pub use run::{WorkerSettings, identity, run};
