//! Writes the rejected rows of a file, so that they can be fixed and applied again: the same columns
//! and cells, and the reason as the last column. The copy is UTF-8.

use std::collections::BTreeMap;

use crate::change::csv_files::cells::{Cell, Row};
use crate::change::csv_files::source::RowSource;
use crate::change::csv_files::{PROBLEM, ROW};

/// The byte order mark of UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The rows of `source` that begin on the lines of `problems`, each with its problem. `None` if
/// `source` has no header.
#[must_use]
pub fn rejected(source: &RowSource<'_>, problems: &BTreeMap<u64, String>) -> Option<Vec<u8>> {
    copy(source, false, |row| problems.get(&row.line))
}

/// The rows of `source` with the numbers of `mistakes`, each with its number and its mistakes. `None` if
/// `source` has no header.
#[must_use]
pub fn annotated(source: &RowSource<'_>, mistakes: &BTreeMap<u64, String>) -> Option<Vec<u8>> {
    copy(source, true, |row| mistakes.get(&row.number))
}

fn copy<'p>(
    source: &RowSource<'_>,
    numbered: bool,
    problem: impl Fn(&Row<'_>) -> Option<&'p String>,
) -> Option<Vec<u8>> {
    let mut rows = source.rows();
    let separator = rows.separator();
    let header = rows.next()?;
    let added: &[&str] = if numbered { &[ROW, PROBLEM] } else { &[PROBLEM] };
    let is_old = |cell: &Cell<'_>| added.contains(&cell.raw.trim());
    let old: Vec<_> = header.cells.iter().map(is_old).collect();
    rows.limit(header.cells.len());
    let mut out = if source.needs_mark() { MARK.to_vec() } else { Vec::new() };
    let mut writer =
        csv::WriterBuilder::new().delimiter(separator).flexible(true).from_writer(Vec::new());
    let mut write = |cells: &[Cell<'_>], number: &str, last: &str| {
        let kept = cells.iter().enumerate().filter(|(nth, _)| old.get(*nth) != Some(&true));
        let kept = kept.map(|(_, cell)| &*cell.raw);
        writer.write_record(kept.chain(numbered.then_some(number)).chain([last]))
    };
    write(&header.cells, ROW, PROBLEM).ok()?;
    for row in rows {
        if let Some(problem) = problem(&row) {
            write(&row.cells, &row.number.to_string(), problem).ok()?;
        }
    }
    out.append(&mut writer.into_inner().ok()?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::rejected::*;

    #[test]
    fn rejected_rows_keep_their_cells_and_have_a_reason() {
        let text = "\u{feff}id;name;problem\r\n1;\"a;\n\"\"b\"\"\";old\r\n2;fine;\r\n3;=c;\r\n";
        let problems = [(2, "no; \"never\"".to_owned()), (5, "gone".to_owned())];
        let source = RowSource::of_csv(text.as_bytes(), None).unwrap();
        let out = rejected(&source, &problems.into()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\u{feff}id;name;problem\n1;\"a;\n\"\"b\"\"\";\"no; \"\"never\"\"\"\n3;=c;gone\n"
        );
    }
}
