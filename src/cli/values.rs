//! Parsers of the values that flags and arguments take, with the choices that
//! help, completions and man pages show.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::change::sheet::SheetKind;
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

/// The name of a CSV file.
pub fn sheet() -> impl TypedValueParser<Value = SheetKind> {
    one_of(SheetKind::all().map(|sheet| (sheet.name(), sheet)).collect())
}
