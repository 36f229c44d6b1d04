//! What an export is made of beside its CSV files: the manifest, which says of
//! which snapshot it is, and the one file of a JSON export. Both are hostile
//! until they were read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::change::csv_files::CsvKind;
use crate::model::{DecodedRecord, RecordKey, Resource, State};

/// The file that says what an export is, and of which snapshot.
pub const MANIFEST: &str = "manifest.json";

/// The one file of a JSON export.
pub const JSON: &str = "export.json";

/// What a file of an export holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportContent {
    Sheet(CsvKind),
    /// Every record, as the service sent it.
    Records,
}

impl ExportContent {
    /// What the file of this name holds; only names that an export gives are known.
    #[must_use]
    pub fn of(file: &str) -> Option<Self> {
        if file == JSON {
            return Some(Self::Records);
        }
        file.strip_suffix(".csv").and_then(CsvKind::from_name).map(Self::Sheet)
    }
}

/// Why a manifest or a JSON export cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("line {line}, column {column}: {what}")]
    Json { line: usize, column: usize, what: String },
    #[error("its format is {0}; this program knows format 1")]
    Format(u64),
    #[error("it names `{0}`, which no export holds")]
    File(String),
    #[error("it names `{0}` twice")]
    Twice(String),
    #[error("`{0}` is no resource")]
    Resource(String),
    #[error("{resource}, record {nth}: {what}")]
    Record { resource: Resource, nth: usize, what: String },
}

impl From<serde_json::Error> for ExportError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        Self::Json { line, column, what }
    }
}

/// A file as it was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    pub file: String,
    pub content: ExportContent,
    hash: String,
}

impl ManifestFile {
    /// Whether `bytes` are what was written.
    #[must_use]
    pub fn is_untouched(&self, bytes: &[u8]) -> bool {
        blake3::hash(bytes).to_hex().as_str() == self.hash
    }
}

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub account: String,
    /// What the exported state is called: `main@#12`.
    pub state: String,
    /// `None` for the live account.
    pub snapshot: Option<i64>,
    pub digest: Option<String>,
    pub files: Vec<ManifestFile>,
}

#[derive(Deserialize)]
struct FormatField {
    format: u64,
}

/// Refuses what a later program wrote before it reads on.
fn known_format(bytes: &[u8]) -> Result<(), ExportError> {
    match serde_json::from_slice::<FormatField>(bytes)?.format {
        1 => Ok(()),
        other => Err(ExportError::Format(other)),
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ExportError`] when it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, ExportError> {
        #[derive(Deserialize)]
        struct File {
            file: String,
            blake3: String,
        }
        #[derive(Deserialize)]
        struct Text {
            account: String,
            state: String,
            snapshot: Option<i64>,
            digest: Option<String>,
            files: Vec<File>,
        }
        known_format(bytes)?;
        let text: Text = serde_json::from_slice(bytes)?;
        let mut files: Vec<ManifestFile> = Vec::new();
        for File { file, blake3: hash } in text.files {
            let Some(content) = ExportContent::of(&file) else {
                return Err(ExportError::File(file));
            };
            if files.iter().any(|it| it.file == file) {
                return Err(ExportError::Twice(file));
            }
            files.push(ManifestFile { file, content, hash });
        }
        let Text { account, state, snapshot, digest, .. } = text;
        Ok(Self { account, state, snapshot, digest, files })
    }
}

/// The records of a JSON export, each exactly as it was sent.
///
/// # Errors
/// [`ExportError`] with the first thing that is wrong.
pub fn records(bytes: &[u8]) -> Result<State, ExportError> {
    #[derive(Deserialize)]
    struct Text<'a> {
        #[serde(borrow)]
        resources: BTreeMap<String, Vec<&'a RawValue>>,
    }
    known_format(bytes)?;
    let text: Text<'_> = serde_json::from_slice(bytes)?;
    let mut state = State::default();
    for (name, list) in text.resources {
        let resource =
            Resource::from_name(&name).ok_or_else(|| ExportError::Resource(name.clone()))?;
        let records = state.resource_mut(resource);
        for (nth, raw) in list.into_iter().enumerate() {
            let wrong = |what: String| ExportError::Record { resource, nth: nth + 1, what };
            let (channel, raw) = match resource {
                Resource::ChannelItems => {
                    channel(raw.get()).ok_or_else(|| wrong("it names no channel".to_owned()))?
                }
                _ => (None, raw.get().to_owned()),
            };
            let decoded = DecodedRecord::read(resource, channel, &raw);
            let record = decoded.map_err(|problem| wrong(problem.what))?.record.into_owned();
            if let Some(twice) = records.insert(record.key.clone(), record) {
                return Err(wrong(format!("{} is there twice", twice.key)));
            }
        }
    }
    Ok(state)
}

/// The account that a JSON export says it is of.
#[must_use]
pub fn account(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Text {
        state: String,
    }
    let text: Text = serde_json::from_slice(bytes).ok()?;
    text.state.split_once('@').map(|(account, _)| account.to_owned())
}

/// The channel that an export writes in front of an item, and the item as it came.
fn channel(raw: &str) -> Option<(Option<i64>, String)> {
    #[derive(Deserialize)]
    struct Item {
        channel: i64,
    }
    let first = raw.strip_prefix("{\"channel\":").and_then(|rest| {
        let (number, rest) = rest.split_once(',')?;
        Some((Some(number.parse().ok()?), format!("{{{rest}")))
    });
    // Somebody may have written it anew, in another order.
    first.or_else(|| {
        let item: Item = serde_json::from_str(raw).ok()?;
        Some((Some(item.channel), raw.to_owned()))
    })
}

/// The text of a record in a JSON export. The service does not say of an item
/// in which channel it is, so that stands in front.
#[must_use]
pub fn raw(record: &crate::model::Record<'_>) -> String {
    let rest = record.raw.trim_start().strip_prefix('{');
    match (&record.key, rest) {
        (RecordKey::Item { channel, .. }, Some(rest)) => format!("{{\"channel\":{channel},{rest}"),
        _ => record.raw.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOUND: &str = r#"{"format":1,"account":"main","state":"main@#3","snapshot":3,
        "digest":"d","status":"complete","stale":[],"files":[
        {"file":"campaigns.csv","resource":"campaigns","records":1,"blake3":"x"}]}"#;

    #[test]
    fn a_manifest_names_its_snapshot_and_files() {
        let read = Manifest::read(SOUND.as_bytes()).unwrap();
        assert_eq!((read.snapshot, read.account.as_str()), (Some(3), "main"));
        let sheet = ExportContent::Sheet(CsvKind::Resource(Resource::Campaigns));
        assert_eq!(read.files[0].content, sheet);
        assert!(!read.files[0].is_untouched(b""));
    }

    #[test]
    fn a_manifest_cannot_lead_to_files_elsewhere() {
        for name in
            ["../x.csv", "/etc/passwd", "campaigns.csv/../x", "notes.csv", "", "Export.json"]
        {
            let text = SOUND.replace("campaigns.csv", name);
            assert_eq!(Manifest::read(text.as_bytes()), Err(ExportError::File(name.to_owned())));
        }
        let text = SOUND.replace("\"format\":1", "\"format\":2");
        assert_eq!(Manifest::read(text.as_bytes()), Err(ExportError::Format(2)));
        let wrong = Manifest::read(b"{\"format\":1}").unwrap_err().to_string();
        assert_eq!(wrong, "line 1, column 12: missing field `account`");
    }

    #[test]
    fn records_are_read_exactly_as_they_were_sent() {
        let item = r#"{"id":"3", "type":"links","channel":9}"#;
        let text = format!(
            "{{\"format\":1,\"resources\":{{\"channel_items\":[\n{{\"channel\":7,{}],\"campaigns\":[]}}}}",
            &item[1..]
        );
        let state = records(text.as_bytes()).unwrap();
        let items = state.get(Resource::ChannelItems).unwrap();
        let key = RecordKey::Item { channel: 7, kind: "links".to_owned(), id: 3 };
        assert_eq!(items[&key].raw, item);
        assert_eq!(state.get(Resource::Campaigns).unwrap().len(), 0);
        assert_eq!(state.get(Resource::Pixels), None);
    }

    #[test]
    fn what_is_wrong_with_a_record_is_told_with_its_place() {
        let text = br#"{"format":1,"resources":{"pixels":[{"id":1},{"name":"x"}]}}"#;
        let wrong = records(text).unwrap_err().to_string();
        assert!(wrong.starts_with("pixels, record 2: "), "{wrong}");
        let text = br#"{"format":1,"resources":{"pixels":[{"id":1},{"id":"1"}]}}"#;
        let wrong = records(text).unwrap_err().to_string();
        assert_eq!(wrong, "pixels, record 2: 1 is there twice");
    }

    proptest! {
        #[test]
        fn damaged_files_are_refused_or_read(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
        ) {
            let mut bytes = SOUND.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut { bytes.truncate(at); }
            let _ = Manifest::read(&bytes);
            let _ = records(&bytes);
        }
    }
}
