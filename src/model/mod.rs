//! What the service has: resources, records, values and sets of them. Plain
//! data and pure functions; nothing here reads, writes or waits.

pub mod differences;
pub(crate) mod members;
pub mod paging;
pub mod record;
pub mod resource;
pub mod spec;
pub mod state;
pub mod value;

pub use record::{Decoded, Key, Problem, Record};
pub use resource::Resource;
pub use spec::{Endpoint, Field, Kind, Param, Role, Spec, Verb};
pub use state::State;
pub use value::Value;
