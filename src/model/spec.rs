//! The types of the API table in [`resource`](super::resource): resources, fields and endpoints.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Resource;

/// Type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A 64-bit integer.
    Int,
    /// `true` or `false`.
    Bool,
    /// Any text.
    Text,
    /// The URL of a domain.
    Domain,
    /// Text, or `false` for no text.
    TextOrFalse,
    /// A string or an array, depending on another field.
    TextOrList,
    /// `YYYY-MM-DD HH:MM:SS`.
    DateTime,
    /// `YYYY-MM-DD`.
    Date,
    /// `#RRGGBB`.
    HexColor,
    /// `rgb(r,g,b)`.
    RgbColor,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl FieldKind {
    /// Name of the kind in tables and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "integer",
            Self::Bool => "boolean",
            Self::Text | Self::Domain | Self::OneOf(_) => "text",
            Self::TextOrFalse => "text or false",
            Self::TextOrList => "text or list",
            Self::DateTime => "date-time",
            Self::Date => "date",
            Self::HexColor => "#RRGGBB",
            Self::RgbColor => "rgb(r,g,b)",
        }
    }
}

/// How a field is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Part of the record's identity.
    Identity,
    /// Lists return it; a create or an update sets it.
    Writable,
    /// Lists return it; no request sets it.
    ReadOnly,
    /// A number that the service counts up. Changes make a series, not new versions.
    Counter,
    /// A request sets it; lists do not return it.
    WriteOnly,
}

impl Role {
    /// Name of the role in tables and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Writable => "writable",
            Self::ReadOnly => "read-only",
            Self::Counter => "counter",
            Self::WriteOnly => "write-only",
        }
    }
}

/// One field of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The field's own name, as the API document spells it.
    pub name: &'static str,
    /// Type of its values.
    pub kind: FieldKind,
    /// How it is read and written.
    pub role: Role,
    /// Other names that live services use for it.
    pub aliases: &'static [&'static str],
}

impl Field {
    /// Whether lists return it. A vault has a column for each such field.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        !matches!(self.role, Role::WriteOnly)
    }
}

/// An HTTP method of the API.
///
/// A plan, which holds writes alone, spells it as HTTP does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    #[serde(skip_deserializing)]
    Get,
    /// Creates or assigns.
    Post,
    /// Updates.
    Put,
    /// Deletes.
    Delete,
}

impl Method {
    /// The method as HTTP spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of an endpoint.
///
/// A plan, which holds writes alone, spells it as [`Verb::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Lists all records page by page; for `account` its one record.
    #[serde(skip_deserializing)]
    List,
    /// Reads one record with more details than the list.
    #[serde(skip_deserializing)]
    Read,
    /// Creates one record.
    Create,
    /// Changes one record.
    Update,
    /// Deletes one record.
    Delete,
    /// Assigns one record to another.
    Assign,
}

impl Verb {
    /// Name of the verb in plans, tables and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Assign => "assign",
        }
    }
}

/// One parameter of an endpoint, in its body or query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Name of the parameter.
    pub name: &'static str,
    /// Whether a request without it is refused.
    pub required: bool,
}

/// One endpoint. Path parameters are spelled `:name` in `path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// What the endpoint does.
    pub verb: Verb,
    /// HTTP method of its requests.
    pub method: Method,
    /// Path from the service's base URL, such as `/api/qr/:id`.
    pub path: &'static str,
    /// Body fields of a write, query parameters of a list.
    pub params: &'static [Param],
    /// Keys of a successful response besides `error`.
    pub answer: &'static [&'static str],
}

/// One resource: a row of [`TABLE`](super::resource::TABLE).
#[derive(Debug, Clone, Copy)]
pub struct ResourceSpec {
    /// The resource that the row describes.
    pub resource: Resource,
    /// The name on the command line, in SQL, in JSON and in the code.
    pub name: &'static str,
    /// The singular for people, such as `branded domain`.
    pub title: &'static str,
    /// Keys of `data` under which live services send the records of a list, the documented key
    /// first; empty if `data` is the record itself.
    pub list_keys: &'static [&'static str],
    /// All fields; write-only fields are last.
    pub fields: &'static [Field],
    /// All endpoints, at most one for each verb.
    pub endpoints: &'static [Endpoint],
    /// Fields by which the owner recognises a record, in any account.
    pub natural_key: &'static [&'static str],
    /// Resources whose records must exist before a record of this one.
    pub depends_on: &'static [Resource],
    /// The resource whose records each have a list of these.
    pub parent: Option<Resource>,
}

impl ResourceSpec {
    /// The endpoint of kind `verb`, if the API has one.
    #[must_use]
    pub fn endpoint(&self, verb: Verb) -> Option<&'static Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.verb == verb)
    }

    /// The field with `name` as its name or alias, and its index in `fields`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<(usize, &'static Field)> {
        let exact = self.fields.iter().position(|field| field.name == name);
        let place =
            exact.or_else(|| self.fields.iter().position(|field| field.aliases.contains(&name)))?;
        Some((place, &self.fields[place]))
    }

    /// The fields that lists return, in order.
    pub fn read_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().filter(|field| field.is_read())
    }

    /// Whether lists return all fields of the natural key, so that reconciliation can recognise
    /// a created record.
    #[must_use]
    pub fn shows_key(&self) -> bool {
        let read = |name: &&str| self.field(name).is_some_and(|(_, field)| field.is_read());
        self.natural_key.iter().all(read)
    }

    /// The counter of this resource, if it has one.
    #[must_use]
    pub fn counter(&self) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.role == Role::Counter)
    }
}
