//! Writes records as CSV: the API's field names as header, one record per row. Columns of write-only
//! fields have the sent values, if they are known.

use std::borrow::Cow;
use std::io::Write;

use serde_json::Value as Json;

use crate::change::csv_files::CsvKind;
use crate::change::plan::verify_step::still_true;
use crate::model::{Record, Resource, SentFields};

/// The form of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CsvDialect {
    /// UTF-8 with commas, as RFC 4180 has it, and line feeds.
    #[default]
    Plain,
    /// For a spreadsheet whose locale has a decimal comma: a byte order mark, by which it is read as
    /// UTF-8, and semicolons.
    Excel,
    /// For a spreadsheet whose locale has a decimal point: a byte order mark, and commas.
    ExcelComma,
}

impl CsvDialect {
    fn writer<W: Write>(self, mut out: W) -> std::io::Result<csv::Writer<W>> {
        let mut builder = csv::WriterBuilder::new();
        if self != Self::Plain {
            out.write_all("\u{feff}".as_bytes())?;
            builder.terminator(csv::Terminator::CRLF);
        }
        if self == Self::Excel {
            builder.delimiter(b';');
        }
        Ok(builder.from_writer(out))
    }
}

/// The write-only fields of a resource, in the order of their columns.
pub(crate) fn sent_columns(resource: Resource) -> Vec<&'static str> {
    // They are last in each row of the table.
    CsvKind::Resource(resource).columns().skip(resource.spec().read_fields().count()).collect()
}

/// The sent value of a write-only field as a cell, if it is still valid.
pub(crate) fn sent_cell<'a>(
    record: &Record<'_>,
    sent: Option<&'a SentFields>,
    name: &str,
) -> Cow<'a, str> {
    cell(sent.and_then(|sent| still_true(record, sent, name)))
}

/// A CSV file being written, record by record.
pub struct CsvWriter<W: Write> {
    writer: csv::Writer<W>,
    /// The write-only fields, in the order of their columns.
    sent: Vec<&'static str>,
}

impl<W: Write> CsvWriter<W> {
    /// Begins a file with the header of `resource`.
    ///
    /// # Errors
    /// When writing to `out` fails.
    pub fn begin(resource: Resource, out: W, dialect: CsvDialect) -> std::io::Result<Self> {
        let mut writer = dialect.writer(out)?;
        writer.write_record(CsvKind::Resource(resource).columns())?;
        Ok(Self { writer, sent: sent_columns(resource) })
    }

    /// Writes a record with its sent values.
    ///
    /// # Errors
    /// When writing fails.
    pub fn record(
        &mut self,
        record: &Record<'_>,
        sent: Option<&SentFields>,
    ) -> std::io::Result<()> {
        let sent = self.sent.iter().map(|name| sent_cell(record, sent, name));
        let cells: Vec<Cow<'_, str>> =
            record.values.iter().map(crate::model::FieldValue::cell).chain(sent).collect();
        Ok(self.writer.write_record(cells.iter().map(|cell| cell.as_bytes()))?)
    }

    /// Flushes the file.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

/// A sent value as a cell: text unchanged, other values as JSON.
fn cell(value: Option<&Json>) -> Cow<'_, str> {
    match value {
        None | Some(Json::Null) => Cow::Borrowed(""),
        Some(Json::String(text)) => Cow::Borrowed(text),
        Some(value) => Cow::Owned(value.to_string()),
    }
}

/// Writes `campaign_links.csv`: pairs of campaign id and link id.
///
/// # Errors
/// When writing to `out` fails.
pub fn campaign_links<W: Write>(
    out: W,
    links: impl IntoIterator<Item = (i64, i64)>,
    dialect: CsvDialect,
) -> std::io::Result<()> {
    let mut writer = dialect.writer(out)?;
    writer.write_record(CsvKind::CampaignLinks.columns())?;
    for (campaign, link) in links {
        writer.write_record([campaign.to_string(), link.to_string()])?;
    }
    writer.flush()
}

/// The header of a new file.
///
/// # Errors
/// Never: it writes to memory.
pub fn template(kind: CsvKind) -> std::io::Result<Vec<u8>> {
    table(&[kind.template()])
}

/// A file of `rows`, the first of which is the header.
///
/// # Errors
/// Never for rows of the same length: it writes to memory.
pub fn table<R: IntoIterator<Item: AsRef<[u8]>> + Clone>(rows: &[R]) -> std::io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row.clone())?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::write::*;
    use crate::model::DecodedRecord;

    #[test]
    fn a_csv_reader_reads_the_written_records() {
        let raw =
            r#"{"id":"4","name":"a, \"b\"\nc","public":1,"rotator":false,"list":"https://x/u"}"#;
        let record =
            DecodedRecord::read(Resource::Campaigns, None, raw).unwrap().record.into_owned();
        let sent = SentFields::from([("slug".to_owned(), "x".into())]);
        let mut text = Vec::new();
        let mut kind = CsvWriter::begin(Resource::Campaigns, &mut text, CsvDialect::Plain).unwrap();
        kind.record(&record, None).unwrap();
        kind.record(&record, Some(&sent)).unwrap();
        kind.finish().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_slice());
        assert_eq!(
            reader.headers().unwrap(),
            vec!["id", "name", "public", "rotator", "list", "slug"]
        );
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows[0], vec!["4", "a, \"b\"\nc", "true", "", "https://x/u", ""]);
        assert_eq!(rows[1][5], *"x");
    }
}
