//! linkvault: sync, backup and migration for link-management accounts.
//!
//! The modules in reading order, and what each may not do:
//!
//! * [`model`]: what the service has. Plain data; no IO, no clock.
//! * [`api`]: how to speak to it. Only `api::ureq` touches the network.
//! * [`vault`]: the SQLite file. The only place that knows SQL.
//! * [`crawl`]: pages every list of the service into the vault.
//! * [`change`]: pure comparison of states, and their form as files.
//! * [`migrate`]: what an account should become that another one moves to.
//! * [`apply`]: runs a plan step by step, journal first.
//! * [`schedule`]: when something is due. Pure.
//! * [`health`]: how the accounts fare, as data.
//! * [`daemon`]: backups on a schedule.
//! * `fleet`: vaults in an object store; only with the cargo feature of this name.
//! * `temporal`: the schedules of a fleet; with the same feature.
//! * `worker`: backups that Temporal starts; with the same feature.
//! * [`sandbox`]: a service of our own, written from the service's document
//!   and not from [`model`], so that one misreading cannot hide in both.
//! * [`config`]: accounts, their keys and settings, from one checked file.
//! * [`ui`]: the page, the metrics and the health of those accounts; reads only.
//! * [`ops`]: the use cases, one file for each; returns data, never prints or asks.
//! * [`cli`]: one file per command; the only place that prints.

pub mod api;
pub mod apply;
pub mod backoff;
pub mod change;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crawl;
pub mod daemon;
pub mod escaped;
pub mod files;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod format;
pub mod health;
pub mod migrate;
pub mod model;
pub mod ops;
pub mod process;
pub mod progress;
pub mod sandbox;
pub mod schedule;
pub mod server;
mod state_file;
pub mod suggest;
#[cfg(feature = "fleet")]
pub mod temporal;
pub mod ui;
pub mod vault;
#[cfg(feature = "fleet")]
pub mod worker;
