//! A resource's records as CSV: the API's field names as header, one record a
//! row, values as they are. What no list gives back is written as far as it is
//! remembered.

use std::borrow::Cow;
use std::io::Write;

use serde_json::Value as Json;

use crate::change::csv_files::CsvKind;
use crate::change::plan::verify_step::still_true;
use crate::model::{Record, Resource, SentFields};

/// A CSV file being written, record by record.
pub struct CsvWriter<W: Write> {
    writer: csv::Writer<W>,
    /// The fields that no list gives back, in the order of their columns.
    sent: Vec<&'static str>,
}

impl<W: Write> CsvWriter<W> {
    /// Begins with the header of `resource`.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn begin(resource: Resource, out: W) -> std::io::Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        let columns: Vec<_> = CsvKind::Resource(resource).columns().collect();
        writer.write_record(&columns)?;
        // Write-only fields stand last in each row of the table.
        let reads = resource.spec().read_fields().count();
        Ok(Self { writer, sent: columns.get(reads..).unwrap_or_default().to_vec() })
    }

    /// Adds a record, with what is remembered of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(
        &mut self,
        record: &Record<'_>,
        sent: Option<&SentFields>,
    ) -> std::io::Result<()> {
        let told = |name: &str| sent.and_then(|sent| still_true(record, sent, name));
        let sent = self.sent.iter().map(|name| cell(told(name)));
        let cells: Vec<Cow<'_, str>> =
            record.values.iter().map(crate::model::FieldValue::cell).chain(sent).collect();
        Ok(self.writer.write_record(cells.iter().map(|cell| cell.as_bytes()))?)
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

/// A value that was sent, as a cell: text as it is, anything else as JSON.
fn cell(value: Option<&Json>) -> Cow<'_, str> {
    match value {
        None | Some(Json::Null) => Cow::Borrowed(""),
        Some(Json::String(text)) => Cow::Borrowed(text),
        Some(value) => Cow::Owned(value.to_string()),
    }
}

/// Writes `campaign_links.csv`: ids of campaigns and of their links.
///
/// # Errors
/// When `out` cannot be written.
pub fn campaign_links<W: Write>(
    out: W,
    links: impl IntoIterator<Item = (i64, i64)>,
) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(CsvKind::CampaignLinks.columns())?;
    for (campaign, link) in links {
        writer.write_record([campaign.to_string(), link.to_string()])?;
    }
    writer.flush()
}

/// The header that somebody begins a file with.
///
/// # Errors
/// When it cannot be made.
pub fn template(sheet: CsvKind) -> std::io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(sheet.template())?;
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::write::*;
    use crate::model::DecodedRecord;

    #[test]
    fn a_csv_reader_gets_back_what_the_records_hold() {
        let raw =
            r#"{"id":"4","name":"a, \"b\"\nc","public":1,"rotator":false,"list":"https://x/u"}"#;
        let record =
            DecodedRecord::read(Resource::Campaigns, None, raw).unwrap().record.into_owned();
        let sent = SentFields::from([("slug".to_owned(), "x".into())]);
        let mut text = Vec::new();
        let mut sheet = CsvWriter::begin(Resource::Campaigns, &mut text).unwrap();
        sheet.record(&record, None).unwrap();
        sheet.record(&record, Some(&sent)).unwrap();
        sheet.finish().unwrap();
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
