//! Reads a CSV file: its header, its rows, and duplicates among them. Reports all mistakes at once.

use std::collections::HashMap;

use crate::change::csv_files::cells::{Row, Rows};
use crate::change::csv_files::columns::{self, CsvHeader};
use crate::change::csv_files::problem::Findings;
use crate::change::csv_files::rows::{self, ExportContext, FileContext};
use crate::change::csv_files::{CsvKind, CsvProblems};
use crate::change::desired::{CampaignLink, DesiredRecord, RecordRef};
use crate::model::natural_key::fold_case;
use crate::model::{FieldValue, NaturalKey, Resource};

/// The rows of a file, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvRecords {
    /// Records of a resource.
    Of(Resource, Vec<DesiredRecord>),
    /// Links of campaigns.
    Links(Vec<CampaignLink>),
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvInput {
    /// The rows of the file.
    pub records: CsvRecords,
    /// Possible mistakes.
    pub warnings: CsvProblems,
}

/// The most rows of a file, to bound the memory.
const MAX_ROWS: usize = 1_000_000;

/// Reads a CSV file. `name` is the file's name in messages.
///
/// # Errors
/// All mistakes in the file.
pub fn read(
    csv_kind: CsvKind,
    name: &str,
    bytes: &[u8],
    known: ExportContext<'_>,
) -> Result<CsvInput, CsvProblems> {
    let mut findings = Findings {
        file: name,
        misnamed: false,
        problems: CsvProblems::default(),
        warnings: CsvProblems::default(),
    };
    if let Some(what) = foreign_format(bytes) {
        findings.problem(None, None, what);
        return Err(findings.problems);
    }
    let mut lines = Rows::new(bytes);
    let Some(header) = lines.next() else {
        let header = csv_kind.template().join(",");
        findings.problem(None, None, format!("the file is empty; its first line must be {header}"));
        return Err(findings.problems);
    };
    let read = columns::header(csv_kind, &header);
    let (columns, wrong) = match read {
        Ok((columns, wrong)) => (Some(columns), wrong),
        Err(wrong) => (None, wrong),
    };
    findings.misnamed = !wrong.is_empty();
    for (line, column, what) in wrong {
        findings.problem(Some(line), Some(&column), what);
    }
    let Some(columns) = columns else { return Err(findings.problems) };
    lines.max_cells = columns.len();
    let context = FileContext { kind: csv_kind, columns: &columns, known };
    let records = match csv_kind {
        CsvKind::Resource(resource) => {
            let mut desired = Vec::new();
            for_each_row(&context, lines, &mut findings, |row, findings| {
                desired.extend(rows::desired_record(&context, resource, row, findings));
                desired.len()
            });
            duplicates(resource, &desired, &mut findings);
            CsvRecords::Of(resource, desired)
        }
        CsvKind::CampaignLinks => {
            let mut links = Vec::new();
            for_each_row(&context, lines, &mut findings, |row, findings| {
                links.extend(rows::link(&context, row, findings));
                links.len()
            });
            duplicate_links(&links, &mut findings);
            CsvRecords::Links(links)
        }
    };
    let Findings { problems, warnings, .. } = findings;
    if problems.is_empty() { Ok(CsvInput { records, warnings }) } else { Err(problems) }
}

/// Passes each row with the right number of cells to `take`, which returns the number of rows so
/// far.
fn for_each_row(
    context: &FileContext<'_>,
    lines: Rows<'_>,
    findings: &mut Findings<'_>,
    mut take: impl FnMut(&Row<'_>, &mut Findings<'_>) -> usize,
) {
    for row in lines {
        if let Some(what) = wrong_cell_count(context.columns, &row) {
            let open = row.cells.iter().find_map(|cell| Some((cell.line, cell.fault?)));
            let (line, what) = open.map_or((row.line, what), |(line, it)| (line, it.to_owned()));
            findings.problem(Some(line), None, what);
        } else if take(&row, findings) >= MAX_ROWS {
            findings.problem(
                Some(row.line),
                None,
                format!("the file has more than {MAX_ROWS} rows; split it"),
            );
            return;
        }
    }
}

fn wrong_cell_count(columns: &[CsvHeader], row: &Row<'_>) -> Option<String> {
    (row.count != columns.len()).then(|| {
        let cells =
            if row.count == 1 { "1 cell".to_owned() } else { format!("{} cells", row.count) };
        format!("{cells}, but the header has {}", columns.len())
    })
}

/// A message if the bytes are clearly in another format.
fn foreign_format(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            Some("the file is UTF-16; save it as CSV in UTF-8".to_owned())
        }
        [b'P', b'K', 3, 4, ..] => Some("the file is a spreadsheet; save it as CSV".to_owned()),
        _ => None,
    }
}

/// Reports rows for the same record. Several rows with ids may have the same name, if the records
/// exist; a row without an id must be unique.
fn duplicates(resource: Resource, desired: &[DesiredRecord], findings: &mut Findings<'_>) {
    let mut ids = HashMap::new();
    let mut names: HashMap<NaturalKey, &DesiredRecord> = HashMap::new();
    for row in desired {
        let line = line(row);
        if resource == Resource::Account && desired.first().is_some_and(|first| first != row) {
            findings.problem(line, None, "this file must have only one row");
            return;
        }
        if let Some(id) = row.id {
            let kind = row.value(resource, "type").map(FieldValue::cell);
            let kind = kind.filter(|_| resource == Resource::ChannelItems);
            if let Some(first) =
                ids.insert((row.channel.as_ref().map(record_ref_key), kind, id), line)
            {
                findings.problem(
                    line,
                    Some("id"),
                    format!("{id} is already in line {}", line_text(first)),
                );
            }
        }
        let Some(key) = row.natural_key(resource) else { continue };
        let text = key.to_string();
        if let Some(first) = names.insert(key, row)
            && (first.id.is_none() || row.id.is_none())
        {
            let column = resource.spec().natural_key.join("+");
            let at = line_text(self::line(first));
            let what = format!("`{}` is already in line {at}", columns::short(&text));
            findings.problem(line, Some(&column), what);
        }
    }
}

fn duplicate_links(links: &[CampaignLink], findings: &mut Findings<'_>) {
    let mut seen = HashMap::new();
    for link in links {
        let line = link.source.as_ref().and_then(|source| source.line);
        if let Some(first) = seen.insert((record_ref_key(&link.campaign), link.link), line) {
            let what = format!("link {} is already in line {}", link.link, line_text(first));
            findings.problem(line, None, what);
        }
    }
}

fn record_ref_key(record_ref: &RecordRef) -> (Option<i64>, String) {
    match record_ref {
        RecordRef::Id(id) => (Some(*id), String::new()),
        RecordRef::Name(name) => (None, fold_case(name)),
    }
}

fn line(row: &DesiredRecord) -> Option<u64> {
    row.source.as_ref().and_then(|source| source.line)
}

fn line_text(line: Option<u64>) -> String {
    line.map_or_else(|| "?".to_owned(), |line| line.to_string())
}
