//! The version tables by resource: their names and columns.

use crate::model::{Field, Resource, Role};

/// The name of the table of a resource's versions.
#[must_use]
pub fn version_table(resource: Resource) -> String {
    format!("version_{resource}")
}

/// The fields with a column in the version table, in order.
pub fn columns(resource: Resource) -> impl Iterator<Item = &'static Field> {
    resource.spec().read_fields().filter(|field| field.role != Role::Counter)
}

/// The columns that identify a record.
pub fn key_columns(resource: Resource) -> impl Iterator<Item = &'static str> {
    columns(resource).filter(|field| field.role == Role::Identity).map(|field| field.name)
}

/// Index of the counter among the resource's read fields, if it has one.
#[must_use]
pub fn counter_place(resource: Resource) -> Option<usize> {
    resource.spec().read_fields().position(|field| field.role == Role::Counter)
}
