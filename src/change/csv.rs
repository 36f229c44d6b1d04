//! A resource's records as CSV: the API's field names as header, one record a
//! row, values as they are.

use std::io::Write;

use crate::model::{Record, Resource};

/// The columns of an exported resource: everything that lists return.
pub fn header(resource: Resource) -> impl Iterator<Item = &'static str> {
    resource.spec().read_fields().map(|field| field.name)
}

/// A CSV file being written, record by record.
pub struct Sheet<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> Sheet<W> {
    /// Begins with the header of `resource`.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn begin(resource: Resource, out: W) -> std::io::Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(header(resource))?;
        Ok(Self { writer })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, record: &Record<'_>) -> std::io::Result<()> {
        let cells = record.values.iter().map(crate::model::Value::cell);
        let cells: Vec<_> = cells.collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Decoded;

    #[test]
    fn a_csv_reader_gets_back_what_the_records_hold() {
        let raw =
            r#"{"id":"4","name":"a, \"b\"\nc","public":1,"rotator":false,"list":"https://x/u"}"#;
        let record = Decoded::read(Resource::Campaigns, None, raw).unwrap().record.into_owned();
        let mut text = Vec::new();
        let mut sheet = Sheet::begin(Resource::Campaigns, &mut text).unwrap();
        sheet.record(&record).unwrap();
        sheet.finish().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_slice());
        assert_eq!(reader.headers().unwrap(), vec!["id", "name", "public", "rotator", "list"]);
        let row = reader.records().next().unwrap().unwrap();
        assert_eq!(row, vec!["4", "a, \"b\"\nc", "true", "", "https://x/u"]);
    }
}
