//! Writes the parts of an `.xlsx` file: sheets with a header, which stays in view and filters the
//! rows. It knows no records.

use std::fmt::Write as _;
use std::io::{Cursor, Error, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// The most characters of a text in a cell.
const MAX_TEXT: usize = 32_767;
/// The most rows of a sheet.
const MAX_ROWS: u64 = 1_048_576;
/// Columns are as wide as the first rows need, up to half a screen.
const MEASURED_ROWS: u64 = 200;
const MAX_WIDTH: usize = 56;
/// The button that filters the rows, and the margins of a cell, in characters.
const BUTTON: usize = 3;
const MARGIN: usize = 1;

/// A larger part needs larger numbers in the archive.
const MAX_SMALL_PART: usize = 1 << 30;

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const LINKS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE_LINKS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const TYPES: &str = "http://schemas.openxmlformats.org/package/2006/content-types";
const TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// The style of cells of a header, in [`STYLES`].
const BOLD: u32 = 1;
const STYLES: &str = "<fonts count=\"2\"><font><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font>\
     <font><b/><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font></fonts>\
     <fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill>\
     <fill><patternFill patternType=\"gray125\"/></fill></fills>\
     <borders count=\"1\"><border><left/><right/><top/><bottom/><diagonal/></border></borders>\
     <cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>\
     <cellXfs count=\"2\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>\
     <xf numFmtId=\"0\" fontId=\"1\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyFont=\"1\"/></cellXfs>\
     <cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>";

/// What a sheet cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SheetLimit {
    /// A text is too long for a cell.
    Text,
    /// There are too many rows.
    Rows,
}

/// A sheet being written, cell by cell.
pub struct XlsxSheet {
    title: &'static str,
    /// The XML of the rows.
    rows: String,
    /// The number of rows, with the one being written.
    count: u64,
    /// The column of the next cell.
    column: usize,
    /// The widths of the columns, in characters.
    widths: Vec<usize>,
}

/// A workbook being written, sheet by sheet.
pub struct XlsxWriter {
    archive: ZipWriter<Cursor<Vec<u8>>>,
    /// Titles and ranges of the sheets.
    sheets: Vec<(&'static str, String)>,
}

impl XlsxSheet {
    /// A sheet with its header. The title has at most 31 characters, and none of `[]:*?/\'`.
    pub fn new(title: &'static str, columns: impl IntoIterator<Item = &'static str>) -> Self {
        let mut rows = String::from("<row r=\"1\">");
        let mut widths = Vec::new();
        for (nth, name) in columns.into_iter().enumerate() {
            let place = column_name(nth);
            let _ = write!(rows, "<c r=\"{place}1\" s=\"{BOLD}\" t=\"inlineStr\"><is><t>");
            escape(name, &mut rows);
            rows.push_str("</t></is></c>");
            widths.push(name.chars().count() + BUTTON);
        }
        Self { title, rows, count: 1, column: 0, widths }
    }

    /// Begins the next row.
    pub fn begin_row(&mut self) -> Result<(), SheetLimit> {
        if self.count >= MAX_ROWS {
            return Err(SheetLimit::Rows);
        }
        self.count += 1;
        self.column = 0;
        let _ = write!(self.rows, "</row><row r=\"{}\">", self.count);
        Ok(())
    }

    /// Leaves the next cell empty.
    pub const fn empty(&mut self) {
        self.column += 1;
    }

    /// Writes a whole number, of at most 15 digits.
    pub fn number(&mut self, number: i64) {
        let text = number.to_string();
        self.begin_cell("", text.len());
        let _ = write!(self.rows, "><v>{text}</v></c>");
    }

    /// Writes a boolean.
    pub fn boolean(&mut self, value: bool) {
        self.begin_cell(" t=\"b\"", 5);
        let _ = write!(self.rows, "><v>{}</v></c>", u8::from(value));
    }

    /// Writes a text.
    pub fn text(&mut self, text: &str) -> Result<(), SheetLimit> {
        if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
            return Err(SheetLimit::Text);
        }
        let longest = match self.count <= MEASURED_ROWS {
            true => text.lines().map(|line| line.chars().count()).max().unwrap_or(0),
            false => 0,
        };
        self.begin_cell(" t=\"inlineStr\"", longest);
        self.rows.push_str("><is><t xml:space=\"preserve\">");
        escape(text, &mut self.rows);
        self.rows.push_str("</t></is></c>");
        Ok(())
    }

    fn begin_cell(&mut self, kind: &str, width: usize) {
        let place = column_name(self.column);
        let _ = write!(self.rows, "<c r=\"{place}{}\"{kind}", self.count);
        if let Some(known) =
            self.widths.get_mut(self.column).filter(|_| self.count <= MEASURED_ROWS)
        {
            *known = (*known).max(width);
        }
        self.column += 1;
    }

    /// The cells of the sheet, such as `$A$1:$F$10`.
    fn range(&self) -> String {
        let last = column_name(self.widths.len().saturating_sub(1));
        format!("$A$1:${last}${}", self.count)
    }
}

impl XlsxWriter {
    /// A workbook without sheets.
    pub fn new() -> Self {
        Self { archive: ZipWriter::new(Cursor::new(Vec::new())), sheets: Vec::new() }
    }

    /// Adds a finished sheet.
    pub fn add(&mut self, sheet: &XlsxSheet) -> std::io::Result<()> {
        let range = sheet.range();
        let shown = range.replace('$', "");
        let mut selected = "";
        if self.sheets.is_empty() {
            // First, so that programs which look at the first bytes only recognise the format.
            let book = relation(1, "officeDocument", "xl/workbook.xml");
            self.relations("_rels/.rels", &book)?;
            selected = " tabSelected=\"1\"";
        }
        self.sheets.push((sheet.title, range));
        let mut columns = String::new();
        for (nth, width) in (1..).zip(&sheet.widths) {
            let width = (width + MARGIN).min(MAX_WIDTH);
            let _ = write!(
                columns,
                "<col min=\"{nth}\" max=\"{nth}\" width=\"{width}\" customWidth=\"1\"/>"
            );
        }
        let name = format!("xl/worksheets/sheet{}.xml", self.sheets.len());
        self.part(
            &name,
            &[
                &format!(
                    "<worksheet xmlns=\"{MAIN}\"><dimension ref=\"{shown}\"/>\
                     <sheetViews><sheetView{selected} workbookViewId=\"0\">\
                     <pane ySplit=\"1\" topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/>\
                     <selection pane=\"bottomLeft\"/></sheetView></sheetViews>\
                     <sheetFormatPr defaultRowHeight=\"15\"/><cols>{columns}</cols><sheetData>"
                ),
                &sheet.rows,
                &format!("</row></sheetData><autoFilter ref=\"{shown}\"/></worksheet>"),
            ],
        )
    }

    /// Writes the workbook. It needs a sheet.
    pub fn finish(mut self, mut out: impl Write) -> std::io::Result<()> {
        let (mut sheets, mut names, mut links, mut types) =
            (String::new(), String::new(), String::new(), String::new());
        for (nth, (title, range)) in (1..).zip(&self.sheets) {
            let _ = write!(sheets, "<sheet name=\"{title}\" sheetId=\"{nth}\" r:id=\"rId{nth}\"/>");
            let _ = write!(
                names,
                "<definedName name=\"_xlnm._FilterDatabase\" localSheetId=\"{}\" hidden=\"1\">\
                 '{title}'!{range}</definedName>",
                nth - 1
            );
            let _ = write!(
                links,
                "{}",
                relation(nth, "worksheet", &format!("worksheets/sheet{nth}.xml"))
            );
            let _ =
                write!(types, "{}", content_type(&format!("worksheets/sheet{nth}"), "worksheet"));
        }
        links.push_str(&relation(self.sheets.len() + 1, "styles", "styles.xml"));
        let types =
            types + &content_type("workbook", "sheet.main") + &content_type("styles", "styles");
        let parts = [
            (
                "xl/workbook.xml",
                format!(
                    "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{LINKS}\"><bookViews><workbookView/></bookViews>\
                     <sheets>{sheets}</sheets><definedNames>{names}</definedNames></workbook>"
                ),
            ),
            ("xl/styles.xml", format!("<styleSheet xmlns=\"{MAIN}\">{STYLES}</styleSheet>")),
            (
                "[Content_Types].xml",
                format!(
                    "<Types xmlns=\"{TYPES}\"><Default Extension=\"rels\" \
                     ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
                     <Default Extension=\"xml\" ContentType=\"application/xml\"/>{types}</Types>"
                ),
            ),
        ];
        for (name, text) in parts {
            self.part(name, &[&text])?;
        }
        self.relations("xl/_rels/workbook.xml.rels", &links)?;
        let bytes = self.archive.finish().map_err(Error::other)?.into_inner();
        out.write_all(&bytes)
    }

    fn relations(&mut self, name: &str, relations: &str) -> std::io::Result<()> {
        let begin = format!("<Relationships xmlns=\"{PACKAGE_LINKS}\">");
        self.part(name, &[&begin, relations, "</Relationships>"])
    }

    fn part(&mut self, name: &str, texts: &[&str]) -> std::io::Result<()> {
        // A fixed time, so that the same records make the same bytes.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .large_file(texts.iter().map(|text| text.len()).sum::<usize>() > MAX_SMALL_PART);
        self.archive.start_file(name, options).map_err(Error::other)?;
        self.archive.write_all(XML.as_bytes())?;
        texts.iter().try_for_each(|text| self.archive.write_all(text.as_bytes()))
    }
}

fn relation(id: usize, kind: &str, target: &str) -> String {
    format!("<Relationship Id=\"rId{id}\" Type=\"{LINKS}/{kind}\" Target=\"{target}\"/>")
}

fn content_type(part: &str, kind: &str) -> String {
    format!("<Override PartName=\"/xl/{part}.xml\" ContentType=\"{TYPE}.{kind}+xml\"/>")
}

/// `A` for 0, `Z` for 25, `AA` for 26.
fn column_name(mut column: usize) -> String {
    let mut name = String::new();
    loop {
        name.insert(0, char::from(b'A' + u8::try_from(column % 26).unwrap_or(0)));
        match (column / 26).checked_sub(1) {
            Some(rest) => column = rest,
            None => return name,
        }
    }
}

/// Appends `text` as content of an element. Characters that XML does not have, or would change, are
/// written as `_x000D_`, and a text that looks like this so that it is not taken for one.
fn escape(text: &str, xml: &mut String) {
    for (at, char) in text.char_indices() {
        match char {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '_' if is_escaped(&text[at..]) => xml.push_str("_x005F_"),
            '\t' | '\n' => xml.push(char),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(xml, "_x{:04X}_", u32::from(char));
            }
            char => xml.push(char),
        }
    }
}

/// Whether a text begins like `_x000D_`.
fn is_escaped(text: &str) -> bool {
    match text.as_bytes() {
        [b'_', b'x', digits @ ..] if digits.len() > 4 => {
            digits[..4].iter().all(u8::is_ascii_hexdigit) && digits[4] == b'_'
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_format_and_the_same_cells_make_the_same_bytes() {
        let write = || {
            let mut sheet = XlsxSheet::new("channels", ["id", "name"]);
            sheet.begin_row().unwrap();
            sheet.number(-7);
            sheet.text("a\nlonger line").unwrap();
            assert_eq!((sheet.range().as_str(), &sheet.widths[..]), ("$A$1:$B$2", &[5, 11][..]));
            let mut book = XlsxWriter::new();
            book.add(&sheet).unwrap();
            let mut bytes = Vec::new();
            book.finish(&mut bytes).unwrap();
            bytes
        };
        let bytes = write();
        assert!(bytes[30..].starts_with(b"_rels/.rels"));
        assert_eq!(bytes, write());
    }

    #[test]
    fn columns_are_named_by_letters() {
        let names = [0, 25, 26, 51, 52, 701, 702].map(column_name);
        assert_eq!(names, ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]);
    }

    #[test]
    fn characters_that_xml_would_change_are_escaped() {
        let mut xml = String::new();
        escape("a\r\n<&>\u{1}_x000D_ _x00_\u{ffff}", &mut xml);
        assert_eq!(xml, "a_x000D_\n&lt;&amp;&gt;_x0001__x005F_x000D_ _x00__xFFFF_");
    }

    #[test]
    fn a_text_longer_than_a_cell_is_refused() {
        let mut sheet = XlsxSheet::new("x", ["a"]);
        sheet.begin_row().unwrap();
        assert_eq!(sheet.text(&"ü".repeat(MAX_TEXT)), Ok(()));
        assert_eq!(sheet.text(&"ü".repeat(MAX_TEXT + 1)), Err(SheetLimit::Text));
    }

    #[test]
    fn more_rows_than_a_sheet_has_are_refused() {
        let mut sheet = XlsxSheet::new("x", ["a"]);
        sheet.count = MAX_ROWS - 1;
        assert_eq!(sheet.begin_row(), Ok(()));
        assert_eq!(sheet.begin_row(), Err(SheetLimit::Rows));
    }
}
