//! Reads a CSV file: its header, its rows, and duplicates among them. Reports all mistakes at once.

use std::collections::{BTreeMap, HashMap};

use crate::change::csv_files::cells::{Cell, Row};
use crate::change::csv_files::columns::{self, Column, CsvHeader, HeaderProblem, ParsedHeader};
use crate::change::csv_files::problem::Findings;
use crate::change::csv_files::rows::{self, ExportContext, FileContext};
use crate::change::csv_files::source::{RowSource, Rows};
use crate::change::csv_files::{CsvKind, CsvProblem, CsvProblemKind, CsvProblems};
use crate::change::desired::{
    CampaignLink, DesiredRecord, DesiredState, RecordRef, SourceLocation,
};
use crate::change::workbook::MergedCells;
use crate::format;
use crate::model::equality::fold_case;
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
    /// Values that the service would take and that are probably mistakes.
    pub suspicious: CsvProblems,
    /// The columns that were read under other names than their own.
    pub renamed: Vec<(String, &'static str)>,
    /// Remarks on how the cells of the file were read.
    pub notes: Vec<String>,
}

/// The most rows of a file, to bound the memory.
const MAX_ROWS: usize = 1_000_000;

/// Reads a CSV file in the encoding that its bytes show. `name` is the file's name in messages.
///
/// # Errors
/// All mistakes in the file.
pub fn read(
    csv_kind: CsvKind,
    name: &str,
    bytes: &[u8],
    known: ExportContext<'_>,
) -> Result<CsvInput, CsvProblems> {
    let source = RowSource::of_csv(bytes, None).map_err(|problem| problem.of_file(name))?;
    read_rows(csv_kind, name, &source, known)
}

/// Reads the rows of `source`. `name` is its name in messages.
///
/// # Errors
/// All mistakes in the rows.
pub fn read_rows(
    csv_kind: CsvKind,
    name: &str,
    source: &RowSource<'_>,
    known: ExportContext<'_>,
) -> Result<CsvInput, CsvProblems> {
    let mut findings = Findings::new(name);
    // The service itself may have such characters; then they are in an export too.
    let is_export = known.untouched || known.base.is_some();
    if let Some(line) = source.line_of_nul().filter(|_| !is_export) {
        let what = match source {
            RowSource::Text(_) => "the line has a NUL character, so the file is not text",
            RowSource::Sheet(_) => "the row has a NUL character",
        };
        findings.problem(CsvProblemKind::File, Some(line), None, what);
        return Err(findings.problems);
    }
    if let Some(row) = columns::header_below_title(csv_kind, source) {
        let what = format!("row {} looks like the header; delete the rows above it", row.number);
        findings.problem(CsvProblemKind::Header, None, None, what);
        return Err(findings.problems);
    }
    let mut lines = source.rows();
    let Some(header) = lines.next() else {
        let header = csv_kind.template().join(",");
        let what = match source {
            RowSource::Text(_) => "the file is empty; its first line",
            RowSource::Sheet(_) => "the sheet is empty; its first row",
        };
        let what = format!("{what} must be {header}");
        findings.problem(CsvProblemKind::File, None, None, what);
        return Err(findings.problems);
    };
    findings.row = Some(header.number);
    let options = known.columns.cloned().unwrap_or_default();
    let (columns, renamed, wrong) = match columns::header(csv_kind, &header, &options) {
        Ok(ParsedHeader { columns, renamed, wrong }) => (Some(columns), renamed, wrong),
        Err(wrong) => (None, Vec::new(), wrong),
    };
    findings.misnamed = !wrong.is_empty();
    for HeaderProblem { line, name, mistake } in wrong {
        findings.mistake(mistake, line, &name);
    }
    let Some(columns) = columns else { return Err(findings.problems) };
    merged(source, &header, &columns, &mut findings);
    lines.limit(columns.len());
    let context = FileContext { kind: csv_kind, columns: &columns, known };
    let records = match csv_kind {
        CsvKind::Resource(resource) => {
            let mut desired = Vec::new();
            for_each_row(&context, lines, &mut findings, |row, findings| {
                desired.extend(rows::desired_record(&context, resource, row, findings));
                desired.len()
            });
            if resource == Resource::Account && desired.len() > 1 {
                let line = findings.at(desired[1].source.as_ref());
                let what = "this file must have only one row";
                findings.problem(CsvProblemKind::Duplicate, line, None, what);
            } else {
                duplicates(resource, &desired, &mut |it| findings.problems.push(it.problem()));
            }
            CsvRecords::Of(resource, desired)
        }
        CsvKind::CampaignLinks => {
            let mut links = Vec::new();
            for_each_row(&context, lines, &mut findings, |row, findings| {
                links.extend(rows::link(&context, row, findings));
                links.len()
            });
            duplicate_links(&links, &mut |it| findings.problems.push(it.problem()));
            CsvRecords::Links(links)
        }
    };
    let notes = findings.notes().map(|note| format!("{name}: {note}")).collect();
    let Findings { problems, suspicious, .. } = findings;
    if problems.is_empty() {
        Ok(CsvInput { records, suspicious, renamed, notes })
    } else {
        Err(problems)
    }
}

/// Reports merged cells in columns that are read: all but the first of them look empty, and an empty
/// cell empties a value.
fn merged(
    source: &RowSource<'_>,
    header: &Row<'_>,
    columns: &[CsvHeader],
    findings: &mut Findings<'_>,
) {
    for MergedCells { rows, columns: places } in source.merged() {
        let (from, to) = (*places.start() as usize, *places.end() as usize);
        let read = columns.iter().skip(from).take((to - from).saturating_add(1));
        let is_read = read.into_iter().any(|it| it.column != Column::Ignored);
        if u64::from(*rows.end()) > header.line && is_read {
            let line = u64::from(*rows.start()).max(header.line + 1);
            findings.row = Some(line);
            let what =
                "cells of this row are merged, so that only the first has a value; unmerge them";
            findings.problem(CsvProblemKind::Merged, Some(line), None, what);
        }
    }
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
        findings.row = Some(row.number);
        if let Some(what) = wrong_cell_count(context.columns, &row) {
            let quoting = |cell: &Cell<'_>| {
                let fault = cell.fault.filter(|it| it.kind() == CsvProblemKind::Quoting)?;
                Some((cell.line, fault.message()))
            };
            let (kind, line, what) = match row.cells.iter().find_map(quoting) {
                Some((line, fault)) => (CsvProblemKind::Quoting, line, fault.to_owned()),
                None => (CsvProblemKind::CellCount, row.line, what),
            };
            findings.problem(kind, Some(line), None, what);
        } else if take(&row, findings) >= MAX_ROWS {
            let what = format!("the file has more than {MAX_ROWS} rows; split it");
            findings.problem(CsvProblemKind::File, Some(row.line), None, what);
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

/// Two rows for the same record.
struct Duplicate<'a> {
    row: Option<&'a SourceLocation>,
    first: Option<&'a SourceLocation>,
    column: Option<String>,
    /// The id or name of the record.
    subject: String,
}

impl Duplicate<'_> {
    fn is_in_one_file(&self) -> bool {
        self.row.map(|row| &row.file) == self.first.map(|first| &first.file)
    }

    /// The mistake of the second row.
    fn problem(&self) -> CsvProblem {
        let first = match self.first {
            Some(first) if !self.is_in_one_file() => first.to_string(),
            first => match first.map(|first| (first.row, first.line)) {
                Some((Some(row), Some(line))) => format!("row {row} (line {line})"),
                Some((_, Some(line))) => format!("row {line}"),
                _ => "an earlier row".to_owned(),
            },
        };
        CsvProblem {
            file: self.row.map(|row| row.file.clone()).unwrap_or_default(),
            line: self.row.and_then(|row| row.line),
            row: self.row.and_then(|row| row.row),
            kind: CsvProblemKind::Duplicate,
            column: self.column.clone(),
            what: format!("{} is already in {first}", self.subject),
        }
    }
}

/// The mistakes of rows for the same record in different files. [`read_rows`] reports those in one
/// file.
#[must_use]
pub fn duplicates_between_files(desired: &DesiredState) -> CsvProblems {
    /// The most duplicates of two files that are reported one by one.
    const MAX_SINGLE: usize = 5;
    let mut pairs: BTreeMap<(String, String), Vec<CsvProblem>> = BTreeMap::new();
    let mut report = |duplicate: &Duplicate<'_>| {
        if let (Some(row), Some(first)) = (duplicate.row, duplicate.first)
            && !duplicate.is_in_one_file()
        {
            let pair = (row.file.clone(), first.file.clone());
            pairs.entry(pair).or_default().push(duplicate.problem());
        }
    };
    for (resource, wanted) in &desired.resources {
        duplicates(*resource, &wanted.records, &mut report);
    }
    duplicate_links(&desired.campaign_links, &mut report);
    let mut problems = CsvProblems::default();
    for ((file, first), found) in pairs {
        if found.len() <= MAX_SINGLE {
            found.into_iter().for_each(|problem| problems.push(problem));
            continue;
        }
        let (rows, kind) = (format::count(found.len() as u64), CsvProblemKind::Duplicate);
        let what = format!(
            "this file and {first} hold the same records, in {rows} rows; remove one of the files"
        );
        problems.push(CsvProblem { file, line: None, row: None, column: None, kind, what });
    }
    problems
}

/// Reports rows for the same record. Several rows with ids may have the same name, if the records
/// exist; a row without an id must be unique.
fn duplicates(
    resource: Resource,
    desired: &[DesiredRecord],
    report: &mut impl FnMut(&Duplicate<'_>),
) {
    let mut ids = HashMap::new();
    let mut names: HashMap<NaturalKey, &DesiredRecord> = HashMap::new();
    let mut old_names = HashMap::new();
    for row in desired {
        if let Some(id) = row.id {
            let kind = row.value(resource, "type").map(FieldValue::cell);
            let kind = kind.filter(|_| resource == Resource::ChannelItems);
            let key = (row.channel.as_ref().map(record_ref_key), kind, id);
            if let Some(first) = ids.insert(key, row) {
                let (row, first) = (row.source.as_ref(), first.source.as_ref());
                let (column, subject) = (Some("id".to_owned()), id.to_string());
                report(&Duplicate { row, first, column, subject });
            }
        }
        if let Some(name) = &row.old_name
            && let Some(first) = old_names.insert(fold_case(name), row)
        {
            let (row, first) = (row.source.as_ref(), first.source.as_ref());
            let column = Some(columns::OLD_NAME.to_owned());
            let subject = format!("`{}`", columns::excerpt(name));
            report(&Duplicate { row, first, column, subject });
        }
        let Some(key) = row.natural_key(resource) else { continue };
        let own = match resource.spec().natural_key {
            [name] => row.value(resource, name).map(|value| value.cell().into_owned()),
            _ => None,
        };
        let text = own.unwrap_or_else(|| key.to_string());
        if let Some(first) = names.insert(key, row)
            && (first.id.is_none() || row.id.is_none())
        {
            let (row, first) = (row.source.as_ref(), first.source.as_ref());
            let column = Some(resource.spec().natural_key.join("+"));
            let subject = format!("`{}`", columns::excerpt(&text));
            report(&Duplicate { row, first, column, subject });
        }
    }
}

fn duplicate_links(links: &[CampaignLink], report: &mut impl FnMut(&Duplicate<'_>)) {
    let mut seen = HashMap::new();
    for link in links {
        if let Some(first) = seen.insert((record_ref_key(&link.campaign), link.link), link) {
            let (row, first) = (link.source.as_ref(), first.source.as_ref());
            let subject = format!("link {}", link.link);
            report(&Duplicate { row, first, column: None, subject });
        }
    }
}

fn record_ref_key(record_ref: &RecordRef) -> (Option<i64>, String) {
    match record_ref {
        RecordRef::Id(id) => (Some(*id), String::new()),
        RecordRef::Name(name) => (None, fold_case(name)),
    }
}
