//! Parsers for the values of flags and arguments, with the choices that help, completions and man
//! pages show.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::change::csv_files::{CsvKind, TextEncoding};
use crate::config::StatisticsSetting;
use crate::model::{Resource, RunId};
use crate::vault::reference::{Reference, is_number};

/// A parser for one of the words `names`, each with its value.
fn one_of<T: Copy + Send + Sync + 'static>(
    names: Vec<(&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(names.iter().map(|(name, _)| *name));
    words.try_map(move |word| {
        let found = names.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        found.ok_or("is not one of the possible values")
    })
}

/// A parser for a resource.
pub fn resource() -> impl TypedValueParser<Value = Resource> {
    one_of(Resource::ALL.into_iter().map(|resource| (resource.name(), resource)).collect())
}

/// Parses a tag, by which a snapshot can be named later.
///
/// # Errors
/// If it is also a number, a date or another reference.
pub fn tag(text: &str) -> Result<String, String> {
    match Reference::parse(text) {
        Ok(Reference::Tag(tag)) if !text.is_empty() && !is_number(text) && !text.contains('@') => {
            Ok(tag)
        }
        _ => Err("would be taken for a number, a date or another reference".to_owned()),
    }
}

/// Parses the number of a run.
///
/// # Errors
/// If it is not a number.
pub fn run(text: &str) -> Result<RunId, String> {
    text.parse().map_err(|_| "is not a run number; `linkvault runs ACCOUNT` lists them".into())
}

/// Parses `campaigns=50`: the sandbox's name of a limit, and the maximum number of records.
///
/// # Errors
/// If the resource has no such limit, or the number is invalid.
pub fn cap(text: &str) -> Result<(&'static str, u64), String> {
    const CAPS: [(Resource, &str); 5] = [
        (Resource::Domains, "cap-domains"),
        (Resource::Campaigns, "cap-campaigns"),
        (Resource::Channels, "cap-channels"),
        (Resource::Pixels, "cap-pixels"),
        (Resource::QrCodes, "cap-qr"),
    ];
    let names = || CAPS.map(|(resource, _)| resource.name()).join(", ");
    let (name, most) = text.split_once('=').ok_or("expected RESOURCE=NUMBER")?;
    let cap = CAPS.iter().find(|(resource, _)| resource.name() == name.trim());
    let (_, behaviour) = cap.ok_or_else(|| format!("only these have caps: {}", names()))?;
    let most = most.trim().parse().map_err(|_| format!("`{most}` is not a number"))?;
    Ok((behaviour, most))
}

/// A parser for the QR codes whose statistics are requested.
pub fn stats() -> impl TypedValueParser<Value = StatisticsSetting> {
    one_of(StatisticsSetting::NAMES.to_vec())
}

/// Parses the name of an encoding.
///
/// # Errors
/// If it is unknown.
pub fn encoding(text: &str) -> Result<TextEncoding, String> {
    TextEncoding::of_label(text).ok_or_else(|| {
        "unknown encoding; known are utf-8, utf-16le, windows-1252, iso-8859-2 and others of the \
         WHATWG standard"
            .to_owned()
    })
}

/// A parser for the kind of a CSV file.
pub fn sheet() -> impl TypedValueParser<Value = CsvKind> {
    one_of(CsvKind::all().map(|sheet| (sheet.name(), sheet)).collect())
}
