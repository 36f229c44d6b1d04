//! The data of the service: resources, records, values and states. Plain data and pure functions
//! without IO.

pub mod count_or_percent;
pub mod differences;
pub mod equality;
pub mod field_changes;
pub mod ids;
pub(crate) mod members;
pub(crate) mod named;
pub mod natural_key;
pub mod paging;
pub mod record;
pub mod resource;
pub mod sent_values;
pub mod spec;
pub mod state;
pub mod value;

pub use count_or_percent::CountOrPercent;
pub use equality::{Equality, FormEvidence};
pub use ids::{RunId, SnapshotId};
pub use natural_key::{KeyForm, NaturalKey};
pub use record::{DecodedRecord, Record, RecordKey, RecordProblem};
pub use resource::Resource;
pub use sent_values::{SentFields, SentValue, SentValues};
pub use spec::{Endpoint, Field, FieldKind, Param, ResourceSpec, Role, Verb};
pub use state::State;
pub use value::FieldValue;
