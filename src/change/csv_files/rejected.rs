//! Writes the rejected rows of a file, so that they can be fixed and applied again without options: the
//! columns that are read, under the names of their fields, and the reason as the last column. The copy
//! has the separator and the line ends of the file. It is UTF-8, with a byte order mark if the file has
//! one or is not UTF-8.

use std::collections::BTreeMap;

use crate::change::csv_files::cells::{Cell, Row};
use crate::change::csv_files::columns::{ColumnOptions, readable_name};
use crate::change::csv_files::source::RowSource;
use crate::change::csv_files::{CsvKind, PROBLEM, ROW};

/// The byte order mark of UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The rows of `source` that begin on the lines of `problems`, each with its problem. `None` if
/// `source` has no header. Its rows are of `kind`, and were read with `options`.
#[must_use]
pub fn rejected(
    source: &RowSource<'_>,
    (kind, options): (CsvKind, &ColumnOptions),
    problems: &BTreeMap<u64, String>,
) -> Option<Vec<u8>> {
    let name = |(nth, cell): (usize, &Cell<'_>)| readable_name(kind, nth, cell, options);
    copy(source, false, name, |row| problems.get(&row.line))
}

/// The rows of `source` with the numbers of `mistakes`, each with its number and its mistakes. `None` if
/// `source` has no header.
#[must_use]
pub fn annotated(source: &RowSource<'_>, mistakes: &BTreeMap<u64, String>) -> Option<Vec<u8>> {
    let name = |(_, cell): (usize, &Cell<'_>)| {
        let is_old = [ROW, PROBLEM].contains(&cell.raw.trim());
        (!is_old).then(|| cell.raw.clone().into_owned())
    };
    copy(source, true, name, |row| mistakes.get(&row.number))
}

/// Copies rows with their problems. `name` is the name of a column in the copy, if it is copied.
fn copy<'p>(
    source: &RowSource<'_>,
    numbered: bool,
    name: impl Fn((usize, &Cell<'_>)) -> Option<String>,
    problem: impl Fn(&Row<'_>) -> Option<&'p String>,
) -> Option<Vec<u8>> {
    let mut rows = source.rows();
    let separator = rows.separator();
    let header = rows.next()?;
    let names: Vec<_> = header.cells.iter().enumerate().map(name).collect();
    rows.limit(header.cells.len());
    let mut out = if source.needs_mark() { MARK.to_vec() } else { Vec::new() };
    let line_end = match source.has_crlf() {
        true => csv::Terminator::CRLF,
        false => csv::Terminator::Any(b'\n'),
    };
    let mut builder = csv::WriterBuilder::new();
    builder.delimiter(separator).terminator(line_end).flexible(true);
    let mut writer = builder.from_writer(Vec::new());
    let kept = names.iter().flatten().map(String::as_str);
    writer.write_record(kept.chain(numbered.then_some(ROW)).chain([PROBLEM])).ok()?;
    for row in rows {
        if let Some(problem) = problem(&row) {
            // A row may have more cells than the header.
            let is_kept = |nth: &usize| names.get(*nth).is_none_or(Option::is_some);
            let kept = row.cells.iter().enumerate().filter(|(nth, _)| is_kept(nth));
            let kept = kept.map(|(_, cell)| &*cell.raw);
            let number = row.number.to_string();
            let number = numbered.then_some(number.as_str());
            writer.write_record(kept.chain(number).chain([problem.as_str()])).ok()?;
        }
    }
    out.append(&mut writer.into_inner().ok()?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::rejected::*;
    use crate::model::Resource;

    #[test]
    fn rejected_rows_keep_their_cells_and_have_a_reason() {
        let text = "\u{feff}id;name;problem\r\n1;\"a;\n\"\"b\"\"\";old\r\n2;fine;\r\n3;=c;\r\n";
        let problems = [(2, "no; \"never\"".to_owned()), (5, "gone".to_owned())];
        let source = RowSource::of_csv(text.as_bytes(), None).unwrap();
        let read = (CsvKind::Resource(Resource::Channels), &ColumnOptions::default());
        let out = rejected(&source, read, &problems.into()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\u{feff}id;name;problem\r\n1;\"a;\n\"\"b\"\"\";\"no; \"\"never\"\"\"\r\n3;=c;gone\r\n"
        );
    }

    #[test]
    fn rejected_rows_have_the_columns_that_are_read_under_names_that_need_no_options() {
        let options = ColumnOptions {
            maps: vec![("Anzeige".to_owned(), "name".to_owned())],
            ignored: vec!["Notiz".to_owned()],
            match_on: Some("Bisher".to_owned()),
            trim: false,
        };
        let text = "Notiz,Anzeige,Co-lor,row,Bisher\nx,a,#102030,2,b\n";
        let table = [
            (text.to_owned(), "name,Co-lor,old name,problem\na,#102030,b,no\n"),
            (text.replace(',', "\t"), "name\tCo-lor\told name\tproblem\na\t#102030\tb\tno\n"),
        ];
        for (text, expected) in table {
            let source = RowSource::of_csv(text.as_bytes(), None).unwrap();
            let read = (CsvKind::Resource(Resource::Channels), &options);
            let out = rejected(&source, read, &[(2, "no".to_owned())].into()).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
