//! A whole file, read: its header, its rows, and what is wrong between them.
//! Every mistake is told at once.

use std::collections::HashMap;

use crate::change::csv_files::cells::{Row, Rows};
use crate::change::csv_files::columns::{self, CsvHeader};
use crate::change::csv_files::problem::Notes;
use crate::change::csv_files::rows::{self, ExportContext, Place};
use crate::change::csv_files::{CsvKind, CsvProblems};
use crate::change::desired::{CampaignLink, DesiredRecord, RecordRef};
use crate::model::natural_key::fold_case;
use crate::model::{FieldValue, NaturalKey, Resource};

/// The rows of a file, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvRecords {
    Of(Resource, Vec<DesiredRecord>),
    Links(Vec<CampaignLink>),
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvInput {
    pub records: CsvRecords,
    /// What may be a mistake, or may be right.
    pub warnings: CsvProblems,
}

/// More rows than any account has; a limit keeps memory bounded.
const MOST_ROWS: usize = 1_000_000;

/// Reads a CSV file; `name` is what messages call it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(
    sheet: CsvKind,
    name: &str,
    bytes: &[u8],
    known: ExportContext<'_>,
) -> Result<CsvInput, CsvProblems> {
    let mut notes = Notes {
        file: name,
        misnamed: false,
        problems: CsvProblems::default(),
        warnings: CsvProblems::default(),
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
        CsvKind::Resource(resource) => {
            let mut wanted = Vec::new();
            each(&place, lines, &mut notes, |row, notes| {
                wanted.extend(rows::wanted(&place, resource, row, notes));
                wanted.len()
            });
            duplicates(resource, &wanted, &mut notes);
            CsvRecords::Of(resource, wanted)
        }
        CsvKind::CampaignLinks => {
            let mut links = Vec::new();
            each(&place, lines, &mut notes, |row, notes| {
                links.extend(rows::link(&place, row, notes));
                links.len()
            });
            duplicate_links(&links, &mut notes);
            CsvRecords::Links(links)
        }
    };
    let Notes { problems, warnings, .. } = notes;
    if problems.is_empty() { Ok(CsvInput { records, warnings }) } else { Err(problems) }
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

fn ragged(columns: &[CsvHeader], row: &Row<'_>) -> Option<String> {
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

/// Tells of rows that mean the same record. Two records that are there may
/// share a name; a row without an id must mean one of them.
fn duplicates(resource: Resource, wanted: &[DesiredRecord], notes: &mut Notes<'_>) {
    let mut ids = HashMap::new();
    let mut names: HashMap<NaturalKey, &DesiredRecord> = HashMap::new();
    for row in wanted {
        let line = line(row);
        if resource == Resource::Account && wanted.first().is_some_and(|first| first != row) {
            notes.problem(line, None, "an account has one row");
            return;
        }
        if let Some(id) = row.id {
            let kind = row.value(resource, "type").map(FieldValue::cell);
            let kind = kind.filter(|_| resource == Resource::ChannelItems);
            if let Some(first) =
                ids.insert((row.channel.as_ref().map(record_ref_key), kind, id), line)
            {
                notes.problem(
                    line,
                    Some("id"),
                    format!("{id} is in line {} already", shown(first)),
                );
            }
        }
        let Some(key) = row.natural_key(resource) else { continue };
        let text = key.to_string();
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

fn duplicate_links(links: &[CampaignLink], notes: &mut Notes<'_>) {
    let mut seen = HashMap::new();
    for link in links {
        let line = link.source.as_ref().and_then(|source| source.line);
        if let Some(first) = seen.insert((record_ref_key(&link.campaign), link.link), line) {
            let what = format!("link {} is in line {} already", link.link, shown(first));
            notes.problem(line, None, what);
        }
    }
}

fn record_ref_key(meant: &RecordRef) -> (Option<i64>, String) {
    match meant {
        RecordRef::Id(id) => (Some(*id), String::new()),
        RecordRef::Name(name) => (None, fold_case(name)),
    }
}

fn line(row: &DesiredRecord) -> Option<u64> {
    row.source.as_ref().and_then(|source| source.line)
}

fn shown(line: Option<u64>) -> String {
    line.map_or_else(|| "?".to_owned(), |line| line.to_string())
}
