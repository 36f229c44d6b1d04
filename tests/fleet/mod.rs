//! Vaults in object stores.
//!
//! - `two_machines` simulates machines that share a vault, in a `faulty_store`.
//! - `takeovers` simulates machines that take an account over from each other, at the rate limit of its service.
//! - `shared_state` simulates machines that share the recorded state of an account there.
//! - `shared_account` runs the program on two machines whose vault is in a folder.
//! - `stored_machine` is a machine whose vault is put while it works: `crawl_checkpoints`,
//!   `run_checkpoints`.
//! - `folder_store` runs the program with a vault in a folder, `lost_machines` on machines that are killed.
//! - `encrypted_store` runs it with a vault whose objects are encrypted, `encrypted_copy` with encrypted copies of a vault.
//! - `hostile_store` runs it with stores and files that say what is not so.
//! - `local_copies` runs it with a bound of the local copies.
//! - `s3_servers` starts S3 servers for `s3_store`, which runs the program with vaults there;
//!   `google_store` has the conditions of Google Cloud Storage in front of one.
//! - `temporal_server` starts Temporal for `workers`, which runs schedules and workers there, and for `lost_temporal`, which
//!   deletes its database; `typed` types the commands of docs/fleet.md.
//! - `fleet_ui` runs `ui --fleet`: Temporal's list, and vaults that other machines put.
//! - `fault_proxy` has faults in front of an S3 server, for `fleet_faults`: three workers under random faults.

mod crawl_checkpoints;
mod encrypted_copy;
mod encrypted_store;
mod fault_proxy;
mod faulty_store;
mod fleet_faults;
mod fleet_ui;
mod folder_store;
mod google_store;
mod hostile_store;
mod local_copies;
mod lost_machines;
mod lost_temporal;
pub mod programs;
mod run_checkpoints;
mod s3_servers;
mod s3_store;
mod shared_account;
mod shared_state;
mod stored_machine;
mod takeovers;
mod temporal_server;
mod two_machines;
mod typed;
mod workers;
