//! Parses the header of a file.

use std::borrow::Cow;

use crate::change::csv_files::cells::{Cell, Row};
use crate::change::csv_files::{CsvKind, PROBLEM, SECRET};
use crate::format::truncate;
use crate::suggest::suggest;

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// A field, by its index in the table's row; 0 or 1 in `campaign_links.csv`.
    Field(usize),
    /// Not read, such as the reasons in rejected rows.
    Ignored,
    /// A column without a name, which must be empty.
    Nameless,
}

/// A column with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvHeader {
    pub column: Column,
    pub name: String,
}

/// A problem of a header cell: line, name and message.
pub(crate) type HeaderProblem = (u64, String, String);

/// Parses the header of a file. Returns its columns and all problems. An unknown column is ignored,
/// so that the rows can be checked too.
///
/// # Errors
/// The problems, if no row can be read with this header.
pub(crate) fn header(
    kind: CsvKind,
    row: &Row<'_>,
) -> Result<(Vec<CsvHeader>, Vec<HeaderProblem>), Vec<HeaderProblem>> {
    let mut wrong = Vec::new();
    let mut columns: Vec<CsvHeader> = Vec::new();
    for (nth, cell) in row.cells.iter().enumerate() {
        match header_column(kind, nth, cell) {
            Ok(header_column) => {
                let field = |it: &&CsvHeader| {
                    matches!(it.column, Column::Field(_)) && it.column == header_column.column
                };
                if let Some(earlier) = columns.iter().find(field) {
                    let what = match earlier.name == header_column.name {
                        true => "duplicate column".to_owned(),
                        false => format!("duplicate column: the same as `{}`", earlier.name),
                    };
                    wrong.push((cell.line, header_column.name.clone(), what));
                }
                columns.push(header_column);
            }
            Err(what) => {
                columns.push(CsvHeader { column: Column::Ignored, name: what.1.clone() });
                wrong.push(what);
            }
        }
    }
    if row.count > row.cells.len() {
        wrong.push((row.line, "header".to_owned(), format!("too many columns: {}", row.count)));
        return Err(wrong);
    }
    if wrong.is_empty() && !columns.iter().any(|it| matches!(it.column, Column::Field(_))) {
        wrong.push((
            row.line,
            "header".to_owned(),
            format!("none of the columns of {} is there", kind.name()),
        ));
    }
    let any = columns.iter().any(|it| matches!(it.column, Column::Field(_)));
    if any { Ok((columns, wrong)) } else { Err(wrong) }
}

fn header_column(kind: CsvKind, nth: usize, cell: &Cell<'_>) -> Result<CsvHeader, HeaderProblem> {
    let number = || format!("column {}", nth + 1);
    let text = cell.text().map_err(|(line, what)| (line, number(), what))?;
    let name = text.trim();
    if name.is_empty() {
        return Ok(CsvHeader { column: Column::Nameless, name: number() });
    }
    let name = name.to_owned();
    if name == PROBLEM {
        return Ok(CsvHeader { column: Column::Ignored, name });
    }
    match column_place(kind, &name) {
        Some(place) => Ok(CsvHeader { column: Column::Field(place), name }),
        None => {
            let what = unknown(kind, &name);
            Err((cell.line, excerpt(&name).into_owned(), what))
        }
    }
}

fn column_place(kind: CsvKind, name: &str) -> Option<usize> {
    match kind {
        CsvKind::Resource(resource) => {
            let (place, field) = resource.spec().field(name)?;
            (!crate::change::csv_files::is_secret(field)).then_some(place)
        }
        CsvKind::CampaignLinks => kind.columns().position(|it| it == name),
    }
}

fn unknown(kind: CsvKind, name: &str) -> String {
    if name.eq_ignore_ascii_case(SECRET) {
        return "passwords are not allowed in files; remove the column".to_owned();
    }
    match suggest(name, kind.columns()) {
        Some(near) => format!("unknown column; did you mean `{near}`?"),
        None => {
            let known: Vec<_> = kind.columns().collect();
            format!("unknown column; the columns are {}", known.join(", "))
        }
    }
}

/// The beginning of a text from a file, for messages.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    truncate(text, 40)
}
