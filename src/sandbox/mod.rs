//! A built-in service with the whole API, for trials, tests and rehearsals.
//!
//! It is written from the API document alone and uses nothing else of this program, so that no
//! misreading of the document is in both. What the document leaves open is a named choice in
//! [`behaviour`].
//!
//! In reading order: [`store`] holds the account's data, [`service`] answers one request,
//! [`faults`]
//! decides which faults happen, and [`transport`] and [`mod@serve`] make the service available in
//! process and over a socket. Only [`mod@serve`] does IO.

pub mod behaviour;
mod behaviour_values;
mod counters;
mod exchange;
pub mod faults;
mod faults_text;
mod fields;
pub mod generate;
mod limiter;
mod names;
mod paging;
mod reads;
mod records;
mod render;
mod routes;
pub mod sample_account;
pub mod second_user;
pub mod serve;
pub mod service;
pub mod store;
pub mod transport;
mod wire;
mod writes;

pub use behaviour::{Behaviour, BehaviourError};
pub use faults::{Fault, Faults};
pub use faults_text::{FaultError, FaultName, NAMES as FAULT_NAMES};
pub use records::{LoadedStore, RawRecord};
pub use serve::{ServeOptions, serve};
pub use service::SandboxService;
pub use store::Store;
pub use transport::SandboxTransport;
