//! The first row of a file: which column holds what.

use super::cells::{Cell, Row};
use super::{PROBLEM, SECRET, SheetKind};
use crate::nearest::nearest;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// A field, by its place in the table's row; of `campaign_links.csv`, 0 and 1.
    Field(usize),
    /// What is not read: the reasons of rejected rows.
    Ignored,
    /// Nothing may stand in a column without a name.
    Nameless,
}

/// A column with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Headed {
    pub column: Column,
    pub name: String,
}

/// What is wrong with a header's cell: its line, its name, and what.
pub(super) type Wrong = (u64, String, String);

/// Reads the header of a file: its columns, and everything that is wrong with
/// it. A column that is not known is ignored, so that the rows can be looked at.
///
/// # Errors
/// What is wrong, where no row could be read by such a header.
pub(super) fn header(
    sheet: SheetKind,
    row: &Row<'_>,
) -> Result<(Vec<Headed>, Vec<Wrong>), Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut columns: Vec<Headed> = Vec::new();
    for (nth, cell) in row.cells.iter().enumerate() {
        match headed(sheet, nth, cell) {
            Ok(headed) => {
                let field = |it: &&Headed| {
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
                columns.push(Headed { column: Column::Ignored, name: what.1.clone() });
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

fn headed(sheet: SheetKind, nth: usize, cell: &Cell<'_>) -> Result<Headed, Wrong> {
    let number = || format!("column {}", nth + 1);
    let text = cell.text().map_err(|(line, what)| (line, number(), what))?;
    let name = text.trim();
    if name.is_empty() {
        return Ok(Headed { column: Column::Nameless, name: number() });
    }
    let name = name.to_owned();
    if name == PROBLEM {
        return Ok(Headed { column: Column::Ignored, name });
    }
    match place(sheet, &name) {
        Some(place) => Ok(Headed { column: Column::Field(place), name }),
        None => {
            let what = unknown(sheet, &name);
            Err((cell.line, short(&name), what))
        }
    }
}

fn place(sheet: SheetKind, name: &str) -> Option<usize> {
    match sheet {
        SheetKind::Resource(resource) => {
            let (place, field) = resource.spec().field(name)?;
            (!super::is_secret(field)).then_some(place)
        }
        SheetKind::CampaignLinks => sheet.columns().position(|it| it == name),
    }
}

fn unknown(sheet: SheetKind, name: &str) -> String {
    if name.eq_ignore_ascii_case(SECRET) {
        return "a password never stands in a file; remove the column".to_owned();
    }
    match nearest(name, sheet.columns()) {
        Some(near) => format!("there is no such column; did you mean `{near}`?"),
        None => {
            let known: Vec<_> = sheet.columns().collect();
            format!("there is no such column; there are {}", known.join(", "))
        }
    }
}

/// A text from a file as messages quote it.
pub(super) fn short(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_owned();
    }
    text.chars().take(39).chain(['…']).collect()
}
