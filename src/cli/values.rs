//! Parsers of the values that flags and arguments take, with the choices that
//! help, completions and man pages show.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::config::Stats;
use crate::model::Resource;

/// One of a few words, each standing for a value.
fn one_of<T: Copy + Send + Sync + 'static>(
    names: Vec<(&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(names.iter().map(|(name, _)| *name));
    words.try_map(move |word| {
        let found = names.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        found.ok_or("is none of the choices")
    })
}

/// The name of a resource.
pub fn resource() -> impl TypedValueParser<Value = Resource> {
    one_of(Resource::ALL.into_iter().map(|resource| (resource.name(), resource)).collect())
}

/// Whose statistics are fetched.
pub fn stats() -> impl TypedValueParser<Value = Stats> {
    one_of(Stats::NAMES.to_vec())
}

/// What CSV files there are: one for each resource, and the links of campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sheet {
    Resource(Resource),
    CampaignLinks,
}

impl Sheet {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource(resource) => resource.name(),
            Self::CampaignLinks => "campaign_links",
        }
    }
}

/// The name of a CSV file.
pub fn sheet() -> impl TypedValueParser<Value = Sheet> {
    let sheets = Resource::ALL.into_iter().map(Sheet::Resource).chain([Sheet::CampaignLinks]);
    one_of(sheets.map(|sheet| (sheet.name(), sheet)).collect())
}
