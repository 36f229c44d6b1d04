//! CSV files, both ways: what each is called, what stands in it, how it is
//! written and how it is read. A file is hostile until it was read.
//!
//! * [`write`](mod@write): records as rows
//! * [`read`](mod@read): rows as wanted records, with every mistake told at once
//! * [`rejected`](mod@rejected): rows to mend and apply again
//!
//! A cell of a column that the service never gives back (`slug`, a QR code's
//! `data`) keeps the value unchanged when it is empty, since linkvault does not know that value.
//! In every other column an empty cell means empty.

mod cells;
mod columns;
mod pairs;
mod problem;
pub mod read;
pub mod rejected;
mod rows;
mod values;
pub mod write;

pub use pairs::pairs;
pub use problem::{CsvProblem, CsvProblems};
pub use read::{CsvInput, CsvRecords, read};
pub use rejected::rejected;
pub use rows::ExportContext;

use crate::model::{Field, Resource, Role, Verb};

/// What CSV files there are: one for each resource, and the links of campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CsvKind {
    Resource(Resource),
    CampaignLinks,
}

/// The column in which rejected rows tell why. It is ignored when read.
pub const PROBLEM: &str = "problem";

/// The columns of `campaign_links.csv`.
const LINKS: [&str; 2] = ["campaign", "link"];

impl CsvKind {
    /// Every sheet, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        Resource::ALL.into_iter().map(Self::Resource).chain([Self::CampaignLinks])
    }

    /// The word for it, and the stem of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource(resource) => resource.name(),
            Self::CampaignLinks => "campaign_links",
        }
    }

    /// The sheet of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|sheet| sheet.name() == name)
    }

    /// The resource whose records it touches.
    #[must_use]
    pub const fn resource(self) -> Resource {
        match self {
            Self::Resource(resource) => resource,
            Self::CampaignLinks => Resource::Campaigns,
        }
    }

    /// Every column it can have. A password never stands in a file.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        let (fields, links): (&[Field], &[&str]) = match self {
            Self::Resource(resource) => (resource.spec().fields, &[]),
            Self::CampaignLinks => (&[], &LINKS),
        };
        let fields = fields.iter().filter(|field| !is_secret(field)).map(|field| field.name);
        fields.chain(links.iter().copied())
    }

    /// The columns for somebody who begins a file: what identifies a record, to
    /// the service and to its owner, and what can be set.
    #[must_use]
    pub fn template(self) -> Vec<&'static str> {
        let Self::Resource(resource) = self else {
            return LINKS.to_vec();
        };
        let spec = resource.spec();
        let wanted = |field: &&Field| match field.role {
            Role::Identity => true,
            Role::Writable | Role::WriteOnly => !is_secret(field),
            Role::ReadOnly | Role::Counter => spec.natural_key.contains(&field.name),
        };
        spec.fields.iter().filter(wanted).map(|field| field.name).collect()
    }

    /// Whether the API can do anything with its rows.
    #[must_use]
    pub fn is_writable(self) -> bool {
        let write = |verb| self.resource().spec().endpoint(verb).is_some();
        [Verb::Create, Verb::Update, Verb::Assign].into_iter().any(write)
    }
}

impl std::fmt::Display for CsvKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a field never stands in a file.
fn is_secret(field: &Field) -> bool {
    field.name == SECRET
}

const SECRET: &str = "password";

#[cfg(test)]
mod tests;
