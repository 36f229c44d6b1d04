//! A whole file, read: its header, its rows, and what is wrong between them.
//! Every mistake is told at once.

use std::collections::HashMap;

use super::cells::{Row, Rows};
use super::columns::{self, Headed};
use super::rows::{self, Place};
use super::{CellProblem, Problems, SheetKind};
use crate::change::desired::{CampaignLink, Meant, Wanted};
use crate::model::{Kind, Resource, State, Value};

/// What is known of a file beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// The state that it was exported from: a cell that still shows what stands
    /// there is that very value, however odd.
    pub base: Option<&'a State>,
    /// Nobody has edited the file since it was exported.
    pub untouched: bool,
}

/// The rows of a file, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    Of(Resource, Vec<Wanted>),
    Links(Vec<CampaignLink>),
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    pub records: Records,
    /// What may be a mistake, or may be right.
    pub warnings: Problems,
}

/// More rows than any account has; a limit keeps memory bounded.
const MOST_ROWS: usize = 1_000_000;

/// Reads a CSV file; `name` is what messages call it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(
    sheet: SheetKind,
    name: &str,
    bytes: &[u8],
    known: Known<'_>,
) -> Result<Sheet, Problems> {
    let mut notes = Notes {
        file: name,
        misnamed: false,
        problems: Problems::default(),
        warnings: Problems::default(),
    };
    if let Some(what) = not_text(bytes) {
        notes.problem(None, None, what);
        return Err(notes.problems);
    }
    let mut lines = Rows::new(bytes);
    let Some(header) = lines.next() else {
        let header = sheet.template().join(",");
        notes.problem(None, None, format!("the file is empty; its first line is to be {header}"));
        return Err(notes.problems);
    };
    let read = columns::header(sheet, &header);
    let (columns, wrong) = match read {
        Ok((columns, wrong)) => (Some(columns), wrong),
        Err(wrong) => (None, wrong),
    };
    notes.misnamed = !wrong.is_empty();
    for (line, column, what) in wrong {
        notes.problem(Some(line), Some(&column), what);
    }
    let Some(columns) = columns else { return Err(notes.problems) };
    lines.most = columns.len();
    let place = Place { sheet, columns: &columns, known };
    let records = match sheet {
        SheetKind::Resource(resource) => {
            let mut wanted = Vec::new();
            each(&place, lines, &mut notes, |row, notes| {
                wanted.extend(rows::wanted(&place, resource, row, notes));
                wanted.len()
            });
            duplicates(resource, &wanted, &mut notes);
            Records::Of(resource, wanted)
        }
        SheetKind::CampaignLinks => {
            let mut links = Vec::new();
            each(&place, lines, &mut notes, |row, notes| {
                links.extend(rows::link(&place, row, notes));
                links.len()
            });
            twice_linked(&links, &mut notes);
            Records::Links(links)
        }
    };
    let Notes { problems, warnings, .. } = notes;
    if problems.is_empty() { Ok(Sheet { records, warnings }) } else { Err(problems) }
}

/// Gives each row that has as many cells as the header to `take`, which returns
/// how many rows there are.
fn each(
    place: &Place<'_>,
    lines: Rows<'_>,
    notes: &mut Notes<'_>,
    mut take: impl FnMut(&Row<'_>, &mut Notes<'_>) -> usize,
) {
    for row in lines {
        if let Some(what) = ragged(place.columns, &row) {
            let open = row.cells.iter().find_map(|cell| Some((cell.line, cell.fault?)));
            let (line, what) = open.map_or((row.line, what), |(line, it)| (line, it.to_owned()));
            notes.problem(Some(line), None, what);
        } else if take(&row, notes) >= MOST_ROWS {
            notes.problem(
                Some(row.line),
                None,
                format!("no file has more than {MOST_ROWS} rows; split it"),
            );
            return;
        }
    }
}

fn ragged(columns: &[Headed], row: &Row<'_>) -> Option<String> {
    (row.count != columns.len()).then(|| {
        let cells =
            if row.count == 1 { "1 cell".to_owned() } else { format!("{} cells", row.count) };
        format!("{cells}, but the header has {}", columns.len())
    })
}

/// Why bytes are no text at all.
fn not_text(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            Some("this is UTF-16; save it as CSV in UTF-8".to_owned())
        }
        [b'P', b'K', 3, 4, ..] => {
            Some("this is a spreadsheet's own format; save it as CSV".to_owned())
        }
        _ => None,
    }
}

/// What is found wrong on the way.
pub(super) struct Notes<'a> {
    pub file: &'a str,
    /// A column's name is wrong, so what seems to be missing may stand there.
    pub misnamed: bool,
    pub problems: Problems,
    pub warnings: Problems,
}

impl Notes<'_> {
    pub fn problem(&mut self, line: Option<u64>, column: Option<&str>, what: impl Into<String>) {
        self.problems.push(self.note(line, column, what.into()));
    }

    /// A value whose column is not there, unless it may just be misnamed.
    pub fn missing(&mut self, line: u64, column: &str, what: String) {
        if !self.misnamed {
            self.problem(Some(line), Some(column), what);
        }
    }

    pub fn warning(&mut self, line: u64, column: &str, what: String) {
        self.warnings.push(self.note(Some(line), Some(column), what));
    }

    fn note(&self, line: Option<u64>, column: Option<&str>, what: String) -> CellProblem {
        let column = column.map(str::to_owned);
        CellProblem { file: self.file.to_owned(), line, column, what }
    }
}

/// Tells of rows that mean the same record. Two records that are there may
/// share a name; a row without an id must mean one of them.
fn duplicates(resource: Resource, wanted: &[Wanted], notes: &mut Notes<'_>) {
    let mut ids = HashMap::new();
    let mut names: HashMap<Vec<String>, &Wanted> = HashMap::new();
    for row in wanted {
        let line = line(row);
        if resource == Resource::Account && wanted.first().is_some_and(|first| first != row) {
            notes.problem(line, None, "an account has one row");
            return;
        }
        if let Some(id) = row.id {
            let kind = if resource == Resource::ChannelItems { key(resource, row) } else { None };
            if let Some(first) = ids.insert((row.channel.as_ref().map(meant), kind, id), line) {
                notes.problem(
                    line,
                    Some("id"),
                    format!("{id} is in line {} already", shown(first)),
                );
            }
        }
        let Some(key) = key(resource, row).filter(|_| resource != Resource::ChannelItems) else {
            continue;
        };
        let text = key.join(" ");
        if let Some(first) = names.insert(key, row)
            && (first.id.is_none() || row.id.is_none())
        {
            let column = resource.spec().natural_key.join("+");
            let at = shown(self::line(first));
            let what = format!("`{}` is in line {at} already", columns::short(&text));
            notes.problem(line, Some(&column), what);
        }
    }
}

fn twice_linked(links: &[CampaignLink], notes: &mut Notes<'_>) {
    let mut seen = HashMap::new();
    for link in links {
        let line = link.source.as_ref().and_then(|source| source.line);
        if let Some(first) = seen.insert((meant(&link.campaign), link.link), line) {
            let what = format!("link {} is in line {} already", link.link, shown(first));
            notes.problem(line, None, what);
        }
    }
}

fn meant(meant: &Meant) -> (Option<i64>, String) {
    match meant {
        Meant::Id(id) => (Some(*id), String::new()),
        Meant::Name(name) => (None, name.to_lowercase()),
    }
}

/// What its owner calls a record, as far as the row says; names are the same in
/// any case.
fn key(resource: Resource, row: &Wanted) -> Option<Vec<String>> {
    let own = |name: &&&str| !matches!(**name, "id" | "channel");
    let mut parts = Vec::new();
    for name in resource.spec().natural_key.iter().filter(own) {
        let cell = match row.value(resource, name)? {
            Value::Null => return None,
            value => value.cell().into_owned(),
        };
        let (_, field) = resource.spec().field(name)?;
        let folds = field.kind == Kind::Text && matches!(*name, "name" | "email" | "domain");
        parts.push(if folds { cell.to_lowercase() } else { cell });
    }
    (!parts.is_empty()).then_some(parts)
}

fn line(row: &Wanted) -> Option<u64> {
    row.source.as_ref().and_then(|source| source.line)
}

fn shown(line: Option<u64>) -> String {
    line.map_or_else(|| "?".to_owned(), |line| line.to_string())
}
