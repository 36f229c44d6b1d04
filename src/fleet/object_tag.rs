//! The version of an object, on which a conditional put depends.

use serde::{Deserialize, Serialize};

/// The version of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectTag {
    /// Its `ETag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// Its generation, in a store that has generations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The answer to a conditional put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionalPut {
    /// The object has the new content, and this version.
    Written(ObjectTag),
    /// The condition does not hold; the object is unchanged.
    Refused,
}
