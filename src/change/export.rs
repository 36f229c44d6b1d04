//! Reads the manifest of an export, and the single file of a JSON export. Both are untrusted input.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::change::csv_files::CsvKind;
use crate::model::{DecodedRecord, RecordKey, Resource, SnapshotId, State};

/// Name of the file that describes an export and its snapshot.
pub const MANIFEST: &str = "manifest.json";

/// Name of the single file of a JSON export.
pub const JSON: &str = "export.json";

/// Name of the single file of an export as a workbook.
pub const WORKBOOK: &str = "export.xlsx";

/// The content of a file of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportContent {
    /// A CSV file of this kind.
    Csv(CsvKind),
    /// A workbook with a sheet for each kind of CSV file.
    Workbook,
    /// All records as the service sent them.
    Records,
}

impl ExportContent {
    /// The content of the file called `file`; `None` for names that no export has.
    #[must_use]
    pub fn of(file: &str) -> Option<Self> {
        match file {
            JSON => return Some(Self::Records),
            WORKBOOK => return Some(Self::Workbook),
            _ => {}
        }
        file.strip_suffix(".csv").and_then(CsvKind::from_name).map(Self::Csv)
    }
}

/// Why a manifest or a JSON export is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Not valid JSON, or JSON of another shape.
    #[error("line {line}, column {column}: {what}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The mistake.
        what: String,
    },
    /// A later version of linkvault wrote it.
    #[error("unsupported export format {0}; this program supports format 1")]
    Format(u64),
    /// A file name that no export has.
    #[error("`{0}` is not a file of an export")]
    File(String),
    /// A file is listed twice.
    #[error("`{0}` is listed twice")]
    Twice(String),
    /// Not the name of a resource.
    #[error("`{0}` is not a resource")]
    Resource(String),
    /// A record is not valid.
    #[error("{resource}, record {nth}: {what}")]
    Record {
        /// Resource of the record.
        resource: Resource,
        /// Number of the record in its list, from 1.
        nth: usize,
        /// The mistake.
        what: String,
    },
}

impl From<serde_json::Error> for ExportError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        Self::Json { line, column, what }
    }
}

/// A file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// Name of the file.
    pub file: String,
    /// Content of the file.
    pub content: ExportContent,
    /// The sheets of a workbook.
    pub sheets: Vec<CsvKind>,
    hash: String,
}

impl ManifestFile {
    /// Whether `bytes` are the exported bytes.
    #[must_use]
    pub fn is_untouched(&self, bytes: &[u8]) -> bool {
        blake3::hash(bytes).to_hex().as_str() == self.hash
    }
}

/// The manifest of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the account.
    pub account: String,
    /// Name of the exported state, such as `main@#12`.
    pub state: String,
    /// Id of the snapshot; `None` for the live account.
    pub snapshot: Option<SnapshotId>,
    /// Digest of the snapshot.
    pub digest: Option<String>,
    /// Whether a filter left records out.
    pub is_filtered: bool,
    /// The exported files.
    pub files: Vec<ManifestFile>,
}

impl Manifest {
    /// The entry of the exported file at `path`: the one with its name. In a workbook's description
    /// of its export, it is the only entry.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<&ManifestFile> {
        let name = path.file_name().and_then(|name| name.to_str());
        match self.files.as_slice() {
            [only] if only.hash.is_empty() => Some(only),
            files => files.iter().find(|it| Some(it.file.as_str()) == name),
        }
    }

    /// Whether both describe exports of the same snapshot.
    #[must_use]
    pub fn is_same_export(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.account.clone(), it.snapshot, it.digest.clone());
        key(self) == key(other)
    }
}

#[derive(Deserialize)]
struct FormatField {
    format: u64,
}

/// Checks the format before anything else is parsed.
fn known_format(bytes: &[u8]) -> Result<(), ExportError> {
    match serde_json::from_slice::<FormatField>(bytes)?.format {
        1 => Ok(()),
        other => Err(ExportError::Format(other)),
    }
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// An [`ExportError`] with the first mistake.
    pub fn read(bytes: &[u8]) -> Result<Self, ExportError> {
        #[derive(Deserialize)]
        struct File {
            file: String,
            blake3: String,
            #[serde(default)]
            sheets: Vec<String>,
        }
        #[derive(Deserialize)]
        struct Text {
            account: String,
            state: String,
            snapshot: Option<SnapshotId>,
            digest: Option<String>,
            #[serde(default)]
            filter: Vec<String>,
            files: Vec<File>,
        }
        known_format(bytes)?;
        let text: Text = serde_json::from_slice(bytes)?;
        let mut files: Vec<ManifestFile> = Vec::new();
        for File { file, blake3: hash, sheets } in text.files {
            let Some(content) = ExportContent::of(&file) else {
                return Err(ExportError::File(file));
            };
            if files.iter().any(|it| it.file == file) {
                return Err(ExportError::Twice(file));
            }
            let sheets = sheets.iter().filter_map(|name| CsvKind::from_name(name)).collect();
            files.push(ManifestFile { file, content, sheets, hash });
        }
        let Text { account, state, snapshot, digest, filter, .. } = text;
        let is_filtered = !filter.is_empty();
        Ok(Self { account, state, snapshot, digest, is_filtered, files })
    }
}

/// Whether a document has the records of a JSON export.
#[must_use]
pub fn has_records(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok_and(|it| it.get("resources").is_some())
}

/// Whether a filter left records out of a JSON export.
#[must_use]
pub fn is_filtered(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Text {
        filter: Vec<String>,
    }
    serde_json::from_slice::<Text>(bytes).is_ok_and(|text| !text.filter.is_empty())
}

/// Parses the records of a JSON export, with the exact text of each.
///
/// # Errors
/// An [`ExportError`] with the first mistake.
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
                    channel(raw.get()).ok_or_else(|| wrong("it has no channel".to_owned()))?
                }
                _ => (None, raw.get().to_owned()),
            };
            let decoded = DecodedRecord::read(resource, channel, &raw);
            let record = decoded.map_err(|problem| wrong(problem.what))?.record.into_owned();
            if let Some(twice) = records.insert(record.key.clone(), record) {
                return Err(wrong(format!("duplicate id {}", twice.key)));
            }
        }
    }
    Ok(state)
}

/// The account named in a JSON export.
#[must_use]
pub fn account(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Text {
        state: String,
    }
    let text: Text = serde_json::from_slice(bytes).ok()?;
    text.state.split_once('@').map(|(account, _)| account.to_owned())
}

/// Splits the channel, which the export writes first, from the text of an item.
fn channel(raw: &str) -> Option<(Option<i64>, String)> {
    #[derive(Deserialize)]
    struct Item {
        channel: i64,
    }
    let first = raw.strip_prefix("{\"channel\":").and_then(|rest| {
        let (number, rest) = rest.split_once(',')?;
        Some((Some(number.parse().ok()?), format!("{{{rest}")))
    });
    // An edited file may have another order.
    first.or_else(|| {
        let item: Item = serde_json::from_str(raw).ok()?;
        Some((Some(item.channel), raw.to_owned()))
    })
}

/// The text of a record in a JSON export. For an item the channel is inserted first, since the
/// service does not send it.
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
    fn a_manifest_has_its_snapshot_and_files() {
        let read = Manifest::read(SOUND.as_bytes()).unwrap();
        assert_eq!((read.snapshot, read.account.as_str()), (Some(SnapshotId(3)), "main"));
        let sheet = ExportContent::Csv(CsvKind::Resource(Resource::Campaigns));
        assert_eq!(read.files[0].content, sheet);
        assert!(!read.files[0].is_untouched(b""));
    }

    #[test]
    fn a_manifest_cannot_name_other_files() {
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
    fn records_keep_their_exact_text() {
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
    fn a_mistake_in_a_record_is_reported_with_its_place() {
        let text = br#"{"format":1,"resources":{"pixels":[{"id":1},{"name":"x"}]}}"#;
        let wrong = records(text).unwrap_err().to_string();
        assert!(wrong.starts_with("pixels, record 2: "), "{wrong}");
        let text = br#"{"format":1,"resources":{"pixels":[{"id":1},{"id":"1"}]}}"#;
        let wrong = records(text).unwrap_err().to_string();
        assert_eq!(wrong, "pixels, record 2: duplicate id 1");
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
