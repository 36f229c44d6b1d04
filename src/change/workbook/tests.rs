//! Tests of reading workbooks, with hostile ones.

use std::io::{Cursor, Write as _};

use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::change::workbook::*;

/// A zip archive with these parts.
fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

const TYPES: (&str, &str) = ("[Content_Types].xml", "<Types/>");
const ROOT: (&str, &str) = (
    "_rels/.rels",
    r#"<Relationships><Relationship Id="r1" Type="http://x/officeDocument" Target="/xl/workbook.xml"/></Relationships>"#,
);
const BOOK: (&str, &str) = (
    "xl/workbook.xml",
    r#"<workbook><sheets><sheet name="Channels" state="hidden" r:id="r1"/></sheets></workbook>"#,
);
const RELATIONS: (&str, &str) = (
    "xl/_rels/workbook.xml.rels",
    r#"<Relationships><Relationship Id="r1" Type="http://x/worksheet" Target="worksheets/sheet1.xml"/>
    <Relationship Id="r2" Type="http://x/sharedStrings" Target="sharedStrings.xml"/>
    <Relationship Id="r3" Type="http://x/styles" Target="styles.xml"/></Relationships>"#,
);

/// An `.xlsx` file with one sheet, shared strings and styles.
fn xlsx(rows: &str, strings: &str, styles: &str) -> Vec<u8> {
    let sheet = format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
    let (strings, styles) =
        (format!("<sst>{strings}</sst>"), format!("<styleSheet>{styles}</styleSheet>"));
    let parts = [
        ("xl/worksheets/sheet1.xml", &*sheet),
        ("xl/sharedStrings.xml", &strings),
        ("xl/styles.xml", &styles),
    ];
    archive(&[&[TYPES, ROOT, BOOK, RELATIONS], &parts[..]].concat())
}

const MIMETYPE: (&str, &str) = ("mimetype", "application/vnd.oasis.opendocument.spreadsheet");

/// An `.ods` file with these tables.
fn ods(tables: &str) -> Vec<u8> {
    let content = format!(
        "<office:document-content><office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    );
    archive(&[MIMETYPE, ("content.xml", &content)])
}

type Cells = Vec<(u32, usize, CellKind, String)>;

fn read(bytes: &[u8]) -> Result<Vec<(String, Cells)>, WorkbookError> {
    let mut book = Workbook::open(bytes)?;
    let all: Vec<_> = (0..book.titles().len()).collect();
    let sheets = book.sheets(&all)?;
    Ok(sheets.iter().map(|sheet| (sheet.title.clone(), cells(sheet))).collect())
}

fn cells(sheet: &Sheet) -> Cells {
    let of_row = |row: SheetRow<'_>| {
        let cells: Cells = row
            .cells()
            .map(|(column, kind, text)| (row.number, column, kind, text.to_owned()))
            .collect();
        assert_eq!(row.width(), cells.last().map_or(0, |it| it.1 + 1));
        cells
    };
    sheet.rows().flat_map(of_row).collect()
}

/// The texts of the only sheet.
fn texts(bytes: &[u8]) -> Vec<String> {
    let [(_, cells)] = &read(bytes).unwrap()[..] else { panic!("one sheet") };
    cells.iter().map(|(.., text)| text.clone()).collect()
}

#[test]
fn cells_of_an_xlsx_file_have_the_texts_of_a_csv_file() {
    let styles = r#"<numFmts><numFmt numFmtId="164" formatCode="[$-407]d. mmmm&quot;h&quot;"/>
        <numFmt numFmtId="165" formatCode="0&quot; days&quot;"/></numFmts>
        <cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>
        <cellXfs><xf numFmtId="0"/><xf numFmtId="22"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="46"/></cellXfs>"#;
    let strings = "<si><t>a &amp; b&#10;c</t></si><si><r><t>ri</t></r><r><t>ch_x000D_</t></r><rPh><t>x</t></rPh></si>";
    let rows = r#"<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>
        <row r="3"><c r="A3"><v>12</v></c><c r="B3"><v>1.5E+3</v></c><c r="C3"><v>0.25</v></c><c t="b"><v>1</v></c>
        <c t="b"><v>0</v></c><c t="e"><f>1/0</f><v>#DIV/0!</v></c><c t="str"><f>A1</f><v>=x</v></c>
        <c t="inlineStr"><is><t> in </t></is></c><c s="1"><v>45848.628761574</v></c><c s="2"><v>45848</v></c>
        <c s="3"><v>45848</v></c><c s="4"><v>1.5</v></c><c s="1"><v>0.5</v></c><c t="d"><v>2025-07-10T15:05:25</v></c>
        <c><v>9007199254740993</v></c><c/><c><v>-0</v></c></row>"#;
    let book = xlsx(rows, strings, styles);
    let [(title, cells)] = &read(&book).unwrap()[..] else { panic!("one sheet") };
    assert_eq!(title, "Channels");
    assert_eq!(cells[1], (1, 2, CellKind::Value, "rich\r".to_owned()));
    assert_eq!((cells[2].0, cells[7].2, cells[16].2), (3, CellKind::Error, CellKind::Inexact));
    assert_eq!(cells[17].1, 16, "a cell without a value has a place");
    let texts: Vec<_> = cells.iter().map(|(.., text)| text.as_str()).collect();
    let expected = [
        "a & b\nc",
        "rich\r",
        "12",
        "1500",
        "0.25",
        "true",
        "false",
        "#DIV/0!",
        "=x",
        " in ",
        "2025-07-10 15:05:25",
        "2025-07-10 00:00:00",
        "45848",
        "36:00:00",
        "12:00:00",
        "2025-07-10 15:05:25",
        "9.007199254740992E+15",
        "0",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn cells_of_an_ods_file_have_the_texts_of_a_csv_file() {
    let table = r#"<table:table table:name="Channels"><table:shapes><table:table><table:table-row/></table:table></table:shapes>
        <table:table-header-rows><table:table-row><table:table-cell office:value-type="string">
        <office:annotation><text:p>note</text:p></office:annotation><text:p>a &amp; <text:span>b</text:span><text:s text:c="2"/><text:tab/>c</text:p><text:p>d</text:p>
        </table:table-cell></table:table-row></table:table-header-rows>
        <table:table-row table:number-rows-repeated="1000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>
        <table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="3"/>
        <table:table-cell table:number-columns-repeated="2" office:value-type="float" office:value="1500"><text:p>1.500,00</text:p></table:table-cell>
        <table:covered-table-cell/>
        <table:table-cell office:value-type="boolean" office:boolean-value="true"><text:p>WAHR</text:p></table:table-cell>
        <table:table-cell office:value-type="date" office:date-value="2025-07-10"><text:p>10.07.25</text:p></table:table-cell>
        <table:table-cell office:value-type="date" office:date-value="2025-07-10T15:05:25.000000"><text:p>x</text:p></table:table-cell>
        <table:table-cell office:value-type="time" office:time-value="PT01H02M03S"><text:p>x</text:p></table:table-cell>
        <table:table-cell office:value-type="string" office:string-value="" calcext:value-type="error"><text:p>#REF!</text:p></table:table-cell>
        </table:table-row></table:table>
        <table:table table:name="'file:///x.ods'#$Copy"><table:table-row/></table:table>
        <table:table table:name="Empty"/>"#;
    let book = ods(table);
    let read = read(&book).unwrap();
    assert_eq!(
        read.iter().map(|(title, _)| title.as_str()).collect::<Vec<_>>(),
        ["Channels", "Empty"]
    );
    let cells = &read[0].1;
    assert_eq!(cells[0], (1, 0, CellKind::Value, "a & b  \tc\nd".to_owned()));
    let row: Vec<_> = cells.iter().filter(|it| it.0 == 1003).collect();
    assert_eq!(cells.len(), 1 + 2 * row.len(), "the row is there twice");
    let texts: Vec<_> = row.iter().map(|(_, column, _, text)| (*column, text.as_str())).collect();
    let expected = [
        (3, "1500"),
        (4, "1500"),
        (6, "true"),
        (7, "2025-07-10 00:00:00"),
        (8, "2025-07-10 15:05:25"),
        (9, "01:02:03"),
        (10, "#REF!"),
    ];
    assert_eq!(texts, expected);
    assert_eq!(row[6].2, CellKind::Error);
}

fn kinds(bytes: &[u8]) -> Vec<CellKind> {
    let [(_, cells)] = &read(bytes).unwrap()[..] else { panic!("one sheet") };
    cells.iter().map(|it| it.2).collect()
}

/// A spreadsheet replaces the digits after the 15th by zeros: `1234567890123456` typed into a cell
/// is stored as `1234567890123450`, below the largest exact number of 64 bits.
#[test]
fn a_number_of_more_than_15_digits_is_inexact() {
    use CellKind::{Inexact, Value};
    let rows = r#"<row><c><v>999999999999999</v></c><c><v>1000000000000000</v></c><c><v>-1.23456789012345E15</v></c><c><v>1E+300</v></c></row>"#;
    let book = xlsx(rows, "", "");
    assert_eq!(kinds(&book), [Value, Inexact, Inexact, Inexact]);
    assert_eq!(texts(&book), ["999999999999999", "1E+15", "-1.23456789012345E+15", "1E+300"]);
    let cell = r#"<table:table-cell office:value-type="float" office:value="1234567890123450"/>"#;
    let table = format!(r#"<table:table><table:table-row>{cell}</table:table-row></table:table>"#);
    assert_eq!(kinds(&ods(&table)), [Inexact]);
}

/// Programs that write workbooks without computing them store no results. Such a cell is not empty.
#[test]
fn a_formula_without_a_result_is_not_an_empty_cell() {
    use CellKind::{NotComputed, Value};
    let rows = r#"<row><c><f>A2</f></c><c><f>A2</f><v/></c><c t="n"><f>A2</f><v></v></c><c t="str"><f>""</f><v></v></c><c/><c t="str"><f>A2</f><v>x</v></c></row>"#;
    assert_eq!(kinds(&xlsx(rows, "", "")), [NotComputed, NotComputed, NotComputed, Value]);
    let cells = r#"<table:table-cell table:formula="of:=A2"/><table:table-cell table:formula="of:=&quot;&quot;" office:value-type="string" office:string-value=""/>
        <table:table-cell table:formula="of:=A2" office:value-type="string"><text:p>x</text:p></table:table-cell>"#;
    let table = format!(r#"<table:table><table:table-row>{cells}</table:table-row></table:table>"#);
    assert_eq!(kinds(&ods(&table)), [NotComputed, Value]);
}

#[test]
fn dates_times_and_percentages_are_told_apart_from_numbers() {
    use CellKind::{Formatted, Value};
    let styles = r#"<numFmts><numFmt numFmtId="164" formatCode="0.0 %"/><numFmt numFmtId="165" formatCode="0&quot;%&quot;"/></numFmts>
        <cellXfs><xf numFmtId="14"/><xf numFmtId="9"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="46"/></cellXfs>"#;
    let cells: String = (0..5).map(|style| format!(r#"<c s="{style}"><v>0.5</v></c>"#)).collect();
    let book = xlsx(&format!(r#"<row>{cells}<c t="d"><v>2026-03-05</v></c></row>"#), "", styles);
    assert_eq!(kinds(&book), [Formatted, Formatted, Formatted, Value, Formatted, Formatted]);
    assert_eq!(texts(&book)[1..4], ["0.5", "0.5", "0.5"]);
    let cells = r#"<table:table-cell office:value-type="percentage" office:value="0.5"/><table:table-cell office:value-type="date" office:date-value="2026-03-05"/>
        <table:table-cell office:value-type="time" office:time-value="PT01H02M03S"/><table:table-cell office:value-type="currency" office:value="5"/>"#;
    let table = format!(r#"<table:table><table:table-row>{cells}</table:table-row></table:table>"#);
    assert_eq!(kinds(&ods(&table)), [Formatted, Formatted, Formatted, Value]);
}

#[test]
fn merged_cells_are_known() {
    let row = r#"<row r="1"><c r="A1"><v>1</v></c></row></sheetData><mergeCells><mergeCell ref="A2:C4"/><mergeCell ref="B1"/><mergeCell ref="x:y"/></mergeCells><sheetData>"#;
    let book = xlsx(row, "", "");
    let sheets = Workbook::open(&book).unwrap().sheets(&[0]).unwrap();
    assert_eq!(sheets[0].merged, [MergedCells { rows: 2..=4, columns: 0..=2 }]);
    let table = r#"<table:table><table:table-row table:number-rows-repeated="2"/><table:table-row><table:table-cell/>
        <table:table-cell table:number-rows-spanned="1" table:number-columns-spanned="2"/><table:covered-table-cell/></table:table-row></table:table>"#;
    let book = ods(table);
    let sheets = Workbook::open(&book).unwrap().sheets(&[0]).unwrap();
    assert_eq!(sheets[0].merged, [MergedCells { rows: 3..=3, columns: 1..=2 }]);
}

#[test]
fn two_sheets_with_one_name_are_refused() {
    let table = r#"<table:table table:name="channels"/>"#;
    let error = read(&ods(&table.repeat(2))).unwrap_err().to_string();
    assert_eq!(error, "it is damaged: two sheets are named `channels`");
}

/// What the cells of a sheet occupy, which must not depend on numbers that the file states.
fn size(sheet: &Sheet) -> usize {
    sheet.cell_count() + sheet.rows().count()
}

#[test]
fn a_cell_in_the_last_place_takes_the_memory_of_one_cell() {
    let book = xlsx(
        r#"<dimension ref="A1:XFD1048576"/><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>"#,
        "",
        "",
    );
    let sheets = Workbook::open(&book).unwrap().sheets(&[0]).unwrap();
    assert_eq!((size(&sheets[0]), sheets[0].row(0).unwrap().width()), (2, 16_384));
    let far = r#"<table:table table:name="a"><table:table-row table:number-rows-repeated="4294967295"><table:table-cell table:number-columns-repeated="4294967295"/></table:table-row>
        <table:table-row><table:table-cell table:number-columns-repeated="4294967294"/><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row></table:table>"#;
    let book = ods(far);
    let sheets = Workbook::open(&book).unwrap().sheets(&[0]).unwrap();
    assert_eq!(size(&sheets[0]), 2);
}

#[test]
fn numbers_that_a_file_states_reserve_no_memory() {
    let strings = r#"<si><t>a</t></si>"#;
    let book = xlsx(
        r#"<row><c t="s"><v>0</v></c></row>"#,
        strings,
        r#"<cellXfs count="18446744073709551615"/>"#,
    );
    let text = String::from_utf8_lossy(&book);
    assert!(!text.contains("uniqueCount"));
    assert_eq!(texts(&book), ["a"]);
    let sst = r#"<sst count="18446744073709551615" uniqueCount="18446744073709551615"><si><t>a</t></si></sst>"#;
    let sheet = r#"<worksheet><sheetData><row r="4294967295"><c t="s"><v>0</v></c></row></sheetData></worksheet>"#;
    let parts = [("xl/worksheets/sheet1.xml", sheet), ("xl/sharedStrings.xml", sst)];
    assert_eq!(texts(&archive(&[&[TYPES, ROOT, BOOK, RELATIONS], &parts[..]].concat())), ["a"]);
}

#[test]
fn repeated_values_stop_at_a_limit() {
    let many = |rows: u32, columns: u32| {
        let row = format!(
            r#"<table:table table:name="a"><table:table-row table:number-rows-repeated="{rows}"><table:table-cell table:number-columns-repeated="{columns}"><text:p>x</text:p></table:table-cell></table:table-row></table:table>"#
        );
        read(&ods(&row)).unwrap_err()
    };
    assert_eq!(many(1, u32::MAX), WorkbookError::TooManyCells);
    assert_eq!(many(u32::MAX, 1), WorkbookError::TooManyRows("a".to_owned()));
    assert_eq!(many(u32::MAX, u32::MAX), WorkbookError::TooManyCells);
}

/// Zeros that unpack to a thousand times the size of the file.
fn bomb(name: &str, begin: &str, mebibytes: usize) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [TYPES, ROOT, BOOK, RELATIONS] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.start_file(name, SimpleFileOptions::default().compression_level(Some(1))).unwrap();
    writer.write_all(begin.as_bytes()).unwrap();
    let blanks = vec![b' '; 1 << 20];
    for _ in 0..mebibytes {
        writer.write_all(&blanks).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_zip_bomb_is_refused_when_it_has_unpacked_the_limit() {
    let bytes = bomb("xl/worksheets/sheet1.xml", "<worksheet><sheetData>", 257);
    assert!(bytes.len() < 4 << 20, "{}", bytes.len());
    assert_eq!(read(&bytes), Err(WorkbookError::TooLarge));
    // The archive states that the part is small.
    let mut lying = bytes.clone();
    let size = u32::try_from("<worksheet><sheetData>".len() + (257 << 20)).unwrap().to_le_bytes();
    let places: Vec<_> = memchr::memmem::find_iter(&bytes, &size).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| lying[*at..at + 4].copy_from_slice(&100_u32.to_le_bytes()));
    assert!(read(&lying).is_err());
}

#[test]
fn an_archive_with_too_many_parts_is_refused_before_it_is_read() {
    let entry = b"PK\x01\x02";
    let bytes = [&b"PK\x03\x04"[..], &entry.repeat(10_001)].concat();
    let error = read(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "it is damaged: it has more than 10000 parts");
    let tables = "<table:table table:name=\"a\"/>".repeat(10_001);
    let error = read(&ods(&tables)).unwrap_err();
    assert_eq!(error.to_string(), "it is damaged: it has more than 10000 sheets");
}

#[test]
fn files_that_are_no_readable_workbook_say_why() {
    let ole = [&package::OLE[..], &[0; 1000]].concat();
    assert_eq!(read(&ole), Err(WorkbookError::OldFormat));
    let name: Vec<_> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&[&ole, &name[..]].concat()), Err(WorkbookError::Password));
    let manifest = "<manifest:manifest><manifest:file-entry manifest:full-path=\"content.xml\"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>";
    assert_eq!(
        read(&archive(&[MIMETYPE, ("META-INF/manifest.xml", manifest)])),
        Err(WorkbookError::Password)
    );
    assert_eq!(read(&archive(&[TYPES, ("xl/workbook.bin", "")])), Err(WorkbookError::BinaryFormat));
    assert_eq!(read(&archive(&[TYPES, ("word/document.xml", "")])), Err(WorkbookError::NoWorkbook));
    assert_eq!(read(&archive(&[("a.csv", "id\n")])), Err(WorkbookError::NoWorkbook));
    let text = ("mimetype", "application/vnd.oasis.opendocument.text");
    assert_eq!(read(&archive(&[text])), Err(WorkbookError::NoWorkbook));
    assert!(matches!(read(b"PK\x03\x04"), Err(WorkbookError::Damaged(_))));
}

#[test]
fn damaged_cells_are_one_error() {
    let long = format!("<row><c t=\"str\"><v>{}</v></c></row>", "x".repeat((1 << 20) + 1));
    for rows in [
        &*long,
        r#"<row r="2"><c r="A2"><v>1</v></c></row><row r="1"><c r="A1"><v>1</v></c></row>"#,
        r#"<row r="1"><c r="B1"><v>1</v></c><c r="A1"><v>1</v></c></row>"#,
        r#"<row r="1"><c r="XFE1"><v>1</v></c></row>"#,
        r#"<row r="1"><c r="ZZZZZZZZZZ99999999999"><v>1</v></c></row>"#,
        r#"<row r="-1"/>"#,
        &format!("<row r=\"1\">{}", "<c><v>".repeat(600)),
        r#"<row r="1"><c r="A1" t="s"><v>5</v></c></row>"#,
        r#"<row r="1"><c r="A1" t="str"><v>&bomb;</v></c></row>"#,
        "<row><c>",
        "</sheetData><row>",
    ] {
        let error = read(&xlsx(rows, "", "")).unwrap_err();
        assert!(matches!(error, WorkbookError::Damaged(_)), "{rows}: {error}");
    }
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file("mimetype", stored).unwrap();
    writer.write_all(MIMETYPE.1.as_bytes()).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    assert_eq!(read(&bytes), Err(WorkbookError::NoWorkbook));
}

proptest! {
    /// No bytes make the reader panic.
    #[test]
    fn a_changed_workbook_is_read_or_refused(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), text in ".{0,40}", is_ods in any::<bool>(),
    ) {
        let mut bytes = match is_ods {
            true => ods(&format!("<table:table table:name=\"a\"><table:table-row>{text}</table:table-row></table:table>")),
            false => xlsx(&format!("<row>{text}</row>"), &text, &text),
        };
        let _ = read(&bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&bytes);
    }
}
