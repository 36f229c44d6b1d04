//! The first row of a file: which column holds what.

use std::borrow::Cow;

use crate::change::csv_files::cells::{Cell, Row};
use crate::change::csv_files::{CsvKind, PROBLEM, SECRET};
use crate::format::truncate;
use crate::suggest::suggest;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// A field, by its place in the table's row; of `campaign_links.csv`, 0 and 1.
    Field(usize),
    /// What is not read: the reasons of rejected rows.
    Ignored,
    /// Nothing may stand in a column without a name.
    Nameless,
}

/// A column with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvHeader {
    pub column: Column,
    pub name: String,
}

/// What is wrong with a header's cell: its line, its name, and what.
pub(crate) type Wrong = (u64, String, String);

/// Reads the header of a file: its columns, and everything that is wrong with
/// it. A column that is not known is ignored, so that the rows can be looked at.
///
/// # Errors
/// What is wrong, where no row could be read by such a header.
pub(crate) fn header(
    sheet: CsvKind,
    row: &Row<'_>,
) -> Result<(Vec<CsvHeader>, Vec<Wrong>), Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut columns: Vec<CsvHeader> = Vec::new();
    for (nth, cell) in row.cells.iter().enumerate() {
        match headed(sheet, nth, cell) {
            Ok(headed) => {
                let field = |it: &&CsvHeader| {
                    matches!(it.column, Column::Field(_)) && it.column == headed.column
                };
                if let Some(earlier) = columns.iter().find(field) {
                    let what = match earlier.name == headed.name {
                        true => "this column is there twice".to_owned(),
                        false => format!("this column is the same as `{}`", earlier.name),
                    };
                    wrong.push((cell.line, headed.name.clone(), what));
                }
                columns.push(headed);
            }
            Err(what) => {
                columns.push(CsvHeader { column: Column::Ignored, name: what.1.clone() });
                wrong.push(what);
            }
        }
    }
    if row.count > row.cells.len() {
        wrong.push((row.line, "header".to_owned(), format!("{} columns are too many", row.count)));
        return Err(wrong);
    }
    if wrong.is_empty() && !columns.iter().any(|it| matches!(it.column, Column::Field(_))) {
        wrong.push((row.line, "header".to_owned(), format!("{} has no column", sheet.name())));
    }
    let any = columns.iter().any(|it| matches!(it.column, Column::Field(_)));
    if any { Ok((columns, wrong)) } else { Err(wrong) }
}

fn headed(sheet: CsvKind, nth: usize, cell: &Cell<'_>) -> Result<CsvHeader, Wrong> {
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
    match place(sheet, &name) {
        Some(place) => Ok(CsvHeader { column: Column::Field(place), name }),
        None => {
            let what = unknown(sheet, &name);
            Err((cell.line, short(&name).into_owned(), what))
        }
    }
}

fn place(sheet: CsvKind, name: &str) -> Option<usize> {
    match sheet {
        CsvKind::Resource(resource) => {
            let (place, field) = resource.spec().field(name)?;
            (!crate::change::csv_files::is_secret(field)).then_some(place)
        }
        CsvKind::CampaignLinks => sheet.columns().position(|it| it == name),
    }
}

fn unknown(sheet: CsvKind, name: &str) -> String {
    if name.eq_ignore_ascii_case(SECRET) {
        return "a password never stands in a file; remove the column".to_owned();
    }
    match suggest(name, sheet.columns()) {
        Some(near) => format!("there is no such column; did you mean `{near}`?"),
        None => {
            let known: Vec<_> = sheet.columns().collect();
            format!("there is no such column; there are {}", known.join(", "))
        }
    }
}

/// A text from a file as messages quote it.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    truncate(text, 40)
}
