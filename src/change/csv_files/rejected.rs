//! Writes the rejected rows of a file, so that they can be fixed and applied again: the same
//! columns
//! and cells, and the reason as the last column.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::change::csv_files::PROBLEM;
use crate::change::csv_files::cells::{BOM, Cell, Rows};

/// The rows of `bytes` that begin on the lines of `problems`, each with its problem. `None` if
/// `bytes` has no header.
#[must_use]
pub fn rejected(bytes: &[u8], problems: &BTreeMap<u64, String>) -> Option<Vec<u8>> {
    let mut rows = Rows::new(bytes);
    let separator = rows.separator;
    let header = rows.next()?;
    let old = header.cells.iter().position(|cell| cell.bytes.trim_ascii() == PROBLEM.as_bytes());
    rows.max_cells = header.count.min(rows.max_cells);
    let mut out = if bytes.starts_with(BOM) { BOM.to_vec() } else { Vec::new() };
    let mut writer =
        csv::WriterBuilder::new().delimiter(separator).flexible(true).from_writer(Vec::new());
    let mut write = |cells: &[Cell<'_>], last: &str| {
        let kept = cells.iter().enumerate().filter(|(nth, _)| Some(*nth) != old);
        let kept = kept.map(|(_, cell)| cell.bytes.clone());
        writer.write_record(kept.chain([Cow::Borrowed(last.as_bytes())]))
    };
    write(&header.cells, PROBLEM).ok()?;
    for row in rows {
        if let Some(problem) = problems.get(&row.line) {
            write(&row.cells, problem).ok()?;
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
        let out = rejected(text.as_bytes(), &problems.into()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\u{feff}id;name;problem\n1;\"a;\n\"\"b\"\"\";\"no; \"\"never\"\"\"\n3;=c;gone\n"
        );
    }
}
