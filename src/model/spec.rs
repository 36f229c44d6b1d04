//! The words in which [`resource`](super::resource) declares the API: what a
//! resource, a field and an endpoint are. The declarations stand there.

use std::fmt;

use super::Resource;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Int,
    Bool,
    Text,
    /// Text, or `false` where there is none.
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
    /// The word for it in tables and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "integer",
            Self::Bool => "boolean",
            Self::Text | Self::OneOf(_) => "text",
            Self::TextOrFalse => "text or false",
            Self::TextOrList => "text or list",
            Self::DateTime => "date-time",
            Self::Date => "date",
            Self::HexColor => "#RRGGBB",
            Self::RgbColor => "rgb(r,g,b)",
        }
    }
}

/// What a field is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Part of what identifies the record.
    Identity,
    /// Read back by lists, set by a create or an update.
    Writable,
    /// Read back, never set.
    ReadOnly,
    /// A number that moves by itself: a series, not a new version.
    Counter,
    /// Set, but never read back.
    WriteOnly,
}

impl Role {
    /// The word for it in tables and messages.
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
    pub name: &'static str,
    pub kind: FieldKind,
    pub role: Role,
    /// Other names under which services were seen to send it.
    pub aliases: &'static [&'static str],
}

impl Field {
    /// Whether lists return it, so that a vault has a column for it.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        !matches!(self.role, Role::WriteOnly)
    }
}

/// The verbs the service knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    /// The verb as it stands on the wire.
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

/// What an endpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Every record, by pages (or the one record of `account`).
    List,
    /// One record with more than the list tells.
    Read,
    Create,
    Update,
    Delete,
    Assign,
}

impl Verb {
    /// The word for it in plans, tables and messages.
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

/// One value that an endpoint takes in its body or query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    pub name: &'static str,
    pub required: bool,
}

/// One endpoint. `path` holds `:name` where a path parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub verb: Verb,
    pub method: Method,
    pub path: &'static str,
    /// Body fields of a write, query parameters of a list.
    pub params: &'static [Param],
    /// Keys of a success answer beside `error`.
    pub answer: &'static [&'static str],
}

/// One resource: a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ResourceSpec {
    pub resource: Resource,
    /// The one spelling, on the command line, in SQL, in JSON and in the code.
    pub name: &'static str,
    /// For people: `branded domain`.
    pub title: &'static str,
    /// Keys under which a list's `data` was seen to hold the records, the
    /// documented one first; empty where `data` is the record itself.
    pub list_keys: &'static [&'static str],
    pub fields: &'static [Field],
    pub endpoints: &'static [Endpoint],
    /// Fields that identify a record to its owner, across accounts.
    pub natural_key: &'static [&'static str],
    /// Resources that must exist before a record of this one can.
    pub depends_on: &'static [Resource],
    /// The resource whose every record has a listing of these.
    pub parent: Option<Resource>,
}

impl ResourceSpec {
    /// The endpoint for `verb`, if the API has one.
    #[must_use]
    pub fn endpoint(&self, verb: Verb) -> Option<&'static Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.verb == verb)
    }

    /// The field called `name` or having it as an alias, with its place in `fields`.
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

    /// Whether a list shows the natural key of its records, so that creates without an
    /// answer can be told apart.
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
