//! Reads and writes CSV files: their names, columns and values. Files are untrusted input.
//!
//! * [`write`](mod@write): records as rows
//! * [`read`](mod@read): rows as desired records; reports all mistakes at once
//! * [`rejected`](mod@rejected): a file of rejected rows to fix and apply again
//!
//! An empty cell in a column that the service never returns (`slug`, a QR code's `data`) keeps the
//! value, since linkvault may not know it. In every other column an empty cell means empty.

mod cells;
mod columns;
mod encoding;
mod pairs;
mod problem;
pub mod read;
pub mod rejected;
mod rows;
mod sheet_forms;
mod source;
mod suspicious;
mod values;
pub mod write;

pub use columns::{ColumnOptionError, ColumnOptions, OLD_NAME, header_names, renamed_note};
pub use encoding::{DecodedText, EncodingProblem, TextEncoding};
pub use pairs::pairs;
pub use problem::{CsvProblem, CsvProblemKind, CsvProblems};
pub use read::{CsvInput, CsvRecords, read, read_rows};
pub use rejected::{annotated, rejected};
pub use rows::ExportContext;
pub use source::RowSource;

use crate::model::{Field, Resource, Role, Verb};

/// The kind of a CSV file: one for each resource, and one for the links of campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CsvKind {
    /// The records of a resource.
    Resource(Resource),
    /// The short links of campaigns.
    CampaignLinks,
}

/// The column with the reason in a file of rejected rows. Ignored when read.
pub const PROBLEM: &str = "problem";

/// The column with the number of the row in a copy of rows with mistakes. Ignored when read.
pub const ROW: &str = "row";

/// The columns of `campaign_links.csv`.
const LINKS: [&str; 2] = ["campaign", "link"];

impl CsvKind {
    /// All kinds, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        Resource::ALL.into_iter().map(Self::Resource).chain([Self::CampaignLinks])
    }

    /// Name in messages, and file name without extension.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource(resource) => resource.name(),
            Self::CampaignLinks => "campaign_links",
        }
    }

    /// The kind called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// The kind that a title such as `campaigns.autumn.csv` or `QR codes` names: by its part before
    /// the first dot, in upper or lower case, with `_`, `-` or blanks between its words.
    ///
    /// # Errors
    /// That part, if it names no kind.
    pub fn of_title(title: &str) -> Result<Self, String> {
        let word = title.split('.').next().unwrap_or_default().trim().to_lowercase();
        Self::from_name(&word.replace(['-', ' '], "_")).ok_or(word)
    }

    /// The kind that the end of a file's name names, as LibreOffice does it for each sheet of a
    /// workbook: `spring-Channels.csv`. Returns the name of the workbook, in lower case, too. Never
    /// the account's own record.
    #[must_use]
    pub fn of_sheet_file(name: &str) -> Option<(String, Self)> {
        let name = name.to_lowercase();
        let stem = name.strip_suffix(".csv")?;
        let stem = stem.strip_suffix(".rejected").unwrap_or(stem);
        let word = stem.replace(['-', ' '], "_");
        let kinds = Self::all().filter(|kind| *kind != Self::Resource(Resource::Account));
        let ends = kinds.filter(|kind| word.ends_with(&format!("_{}", kind.name())));
        let kind = ends.max_by_key(|kind| kind.name().len())?;
        let book = &stem[..stem.len() - kind.name().len()];
        let book = book.strip_suffix(['-', '_']).filter(|book| !book.trim().is_empty())?;
        Some((book.to_owned(), kind))
    }

    /// The resource whose records the rows change.
    #[must_use]
    pub const fn resource(self) -> Resource {
        match self {
            Self::Resource(resource) => resource,
            Self::CampaignLinks => Resource::Campaigns,
        }
    }

    /// All columns that it can have. Never a password.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        let (fields, links): (&[Field], &[&str]) = match self {
            Self::Resource(resource) => (resource.spec().fields, &[]),
            Self::CampaignLinks => (&[], &LINKS),
        };
        let fields = fields.iter().filter(|field| !is_secret(field)).map(|field| field.name);
        fields.chain(links.iter().copied())
    }

    /// The columns of a new file: those that identify a record to the service or to its owner,
    /// and those that can be set.
    #[must_use]
    pub fn template(self) -> Vec<&'static str> {
        let Self::Resource(resource) = self else {
            return LINKS.to_vec();
        };
        let spec = resource.spec();
        let is_needed = |field: &&Field| match field.role {
            Role::Identity => true,
            Role::Writable | Role::WriteOnly => !is_secret(field),
            Role::ReadOnly | Role::Counter => spec.natural_key.contains(&field.name),
        };
        spec.fields.iter().filter(is_needed).map(|field| field.name).collect()
    }

    /// Whether the API can create, update or assign such records.
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

/// Whether a field is never written to a file.
fn is_secret(field: &Field) -> bool {
    field.name == SECRET
}

const SECRET: &str = "password";

#[cfg(test)]
mod tests;
