//! Workbooks: `change::workbook`. The input is one part of the archive.

use std::io::{Cursor, Write as _};

use linkvault::change::csv_files::{CsvKind, ExportContext, RowSource, read_rows};
use linkvault::change::workbook::{Sheet, Workbook};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

pub const WORDS: &[&str] = &[
    "<row>",
    "<row r=\"2\">",
    "</row>",
    "<c r=\"B1\" t=\"s\">",
    "<c s=\"1\">",
    "<c t=\"inlineStr\">",
    "<is><t>",
    "</t></is>",
    "<v>",
    "</v></c>",
    "<si><t>",
    "</t></si>",
    "_x000D_",
    "&amp;",
    "&#10;",
    "&x;",
    "<cellXfs><xf numFmtId=\"14\"/>",
    "<numFmt numFmtId=\"164\" formatCode=\"[h]:mm\"/>",
    "<table:table-row table:number-rows-repeated=\"3\">",
    "</table:table-row>",
    "<table:table-cell office:value-type=\"float\" office:value=\"1e99\"/>",
    "<table:table-cell table:number-columns-repeated=\"9\">",
    "</table:table-cell>",
    "<text:p>",
    "<text:s text:c=\"9\"/>",
    "</text:p>",
    "<office:annotation>",
    "4294967295",
    "-1",
    "45848.5",
];

const PARTS: [(&str, &str); 7] = [
    ("xl/worksheets/sheet1.xml", ""),
    ("xl/sharedStrings.xml", "<sst><si><t>name</t></si></sst>"),
    ("xl/styles.xml", "<styleSheet><cellXfs><xf/><xf numFmtId=\"22\"/></cellXfs></styleSheet>"),
    (
        "xl/workbook.xml",
        "<workbook><sheets><sheet name=\"channels\" r:id=\"r1\"/></sheets></workbook>",
    ),
    (
        "xl/_rels/workbook.xml.rels",
        "<Relationships><Relationship Id=\"r1\" Type=\"/worksheet\" Target=\"worksheets/sheet1.xml\"/>\
         <Relationship Id=\"r2\" Type=\"/sharedStrings\" Target=\"sharedStrings.xml\"/>\
         <Relationship Id=\"r3\" Type=\"/styles\" Target=\"styles.xml\"/></Relationships>",
    ),
    ("[Content_Types].xml", "<Types/>"),
    ("content.xml", ""),
];

pub fn run(input: &[u8]) {
    let (which, text) = super::choice(input);
    let bytes = match which % (PARTS.len() + 1) {
        7 => text.to_vec(),
        nth => archive(nth, text),
    };
    let mut book = match Workbook::open(&bytes) {
        Ok(book) => book,
        Err(error) => return super::assert_readable(&error.to_string(), 1000),
    };
    let all: Vec<_> = (0..book.titles().len()).collect();
    match book.sheets(&all) {
        Ok(sheets) => sheets.iter().for_each(check),
        Err(error) => super::assert_readable(&error.to_string(), 1000),
    }
}

/// An archive in which the part `nth` has the text of the input.
fn archive(nth: usize, text: &[u8]) -> Vec<u8> {
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    if nth == 6 {
        writer.start_file("mimetype", stored).unwrap();
        writer.write_all(b"application/vnd.oasis.opendocument.spreadsheet").unwrap();
    }
    for (place, (name, own)) in PARTS.iter().enumerate() {
        writer.start_file(*name, stored).unwrap();
        writer.write_all(if place == nth { text } else { own.as_bytes() }).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn check(sheet: &Sheet) {
    let mut row_before = 0;
    for row in sheet.rows() {
        assert!(row.number > row_before, "rows in order");
        row_before = row.number;
        let columns: Vec<_> = row.cells().map(|(column, ..)| column).collect();
        assert!(columns.is_sorted_by(|one, other| one < other), "{columns:?}");
        assert_eq!(columns.last().map(|last| last + 1), Some(row.width()));
        assert!(row.cells().all(|(_, _, text)| !text.is_empty()));
    }
    for kind in CsvKind::all() {
        let read = read_rows(kind, "a.xlsx#b", &RowSource::Sheet(sheet), ExportContext::default());
        if let Err(problems) = read {
            assert!(problems.count() > 0);
        }
    }
}
