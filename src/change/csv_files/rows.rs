//! Parses one row as a desired record.

use crate::change::csv_files::CsvKind;
use crate::change::csv_files::cells::{CellFault, Row};
use crate::change::csv_files::columns::{Column, ColumnOptions, CsvHeader, excerpt};
use crate::change::csv_files::problem::{CellMistake, CsvProblemKind, EMPTY_BOOLEAN, Findings};
use crate::change::csv_files::suspicious::{EditedCell, is_blank, suspicions};
use crate::change::csv_files::values::{self, CellValue};
use crate::change::desired::{CampaignLink, DesiredRecord, RecordRef, SourceLocation};
use crate::model::{Field, FieldKind, FieldValue, Record, RecordKey, Resource, Role, State, Verb};

/// How to read a file, and what is known about it besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportContext<'a> {
    /// The state that the file was exported from. A cell with the same text as the exported value
    /// keeps that value exactly, however unusual.
    pub base: Option<&'a State>,
    /// Whether the file was not edited since the export.
    pub untouched: bool,
    /// Which columns are read under other names, if any.
    pub columns: Option<&'a ColumnOptions>,
}

/// The file of the rows.
pub(crate) struct FileContext<'a> {
    pub kind: CsvKind,
    pub columns: &'a [CsvHeader],
    pub known: ExportContext<'a>,
}

/// A cell of a field, as text.
struct FieldCell<'r> {
    place: usize,
    name: &'r str,
    line: u64,
    text: &'r str,
    /// Whether a sheet shows the value in another form.
    formatted: bool,
}

/// The cells of a row whose text is valid.
#[derive(Default)]
struct RowCells<'r> {
    fields: Vec<FieldCell<'r>>,
    /// The name that the record has had so far.
    old_name: Option<&'r str>,
    /// Whether some cells are not valid.
    has_faults: bool,
}

fn row_cells<'r>(
    context: &'r FileContext<'_>,
    row: &'r Row<'_>,
    findings: &mut Findings<'_>,
) -> RowCells<'r> {
    let mut cells = RowCells::default();
    for (headed, cell) in context.columns.iter().zip(&row.cells) {
        let name = headed.name.as_str();
        match (headed.column, cell.text()) {
            (Column::Ignored, _) => {}
            (_, Err((line, fault))) => {
                let what = match fault {
                    CellFault::Error if !cell.raw.is_empty() => {
                        format!("{}: `{}`", fault.message(), excerpt(&cell.raw))
                    }
                    _ => fault.message().to_owned(),
                };
                findings.mistake(CellMistake::new(fault.kind(), what), line, name);
                cells.has_faults = true;
            }
            (Column::Nameless, Ok("")) => {}
            (Column::Nameless, Ok(_)) => {
                let what = "the column of this cell has no name";
                let mistake = CellMistake::new(CsvProblemKind::NamelessColumn, what);
                findings.mistake(mistake, cell.line, name);
                cells.has_faults = true;
            }
            (Column::OldName, Ok(text)) => cells.old_name = Some(text),
            (Column::Field(place), Ok(text)) => {
                let (line, formatted) = (cell.line, cell.formatted);
                cells.fields.push(FieldCell { place, name, line, text, formatted });
            }
        }
    }
    cells
}

/// Parses a row of a resource's file and reports its mistakes. `None` if even the record's identity
/// cannot be read.
pub(crate) fn desired_record(
    context: &FileContext<'_>,
    resource: Resource,
    row: &Row<'_>,
    findings: &mut Findings<'_>,
) -> Option<DesiredRecord> {
    let RowCells { fields: cells, old_name, has_faults } = row_cells(context, row, findings);
    let before = findings.problems.count();
    let spec = resource.spec();
    let mut desired =
        DesiredRecord { source: Some(source(findings, row)), ..DesiredRecord::default() };
    let named = |name: &str| {
        let place = spec.field(name)?.0;
        cells.iter().find(|it| it.place == place)
    };
    desired.id = named("id").and_then(|cell| id(cell, findings));
    if resource == Resource::ChannelItems {
        desired.channel = named("channel").and_then(|cell| record_ref(cell, findings));
    }
    let known = !has_faults && findings.problems.count() == before;
    let trims = context.known.columns.is_some_and(|it| it.trim);
    let old_name = old_name.map(|name| if trims { name.trim_matches(is_blank) } else { name });
    let old_name = old_name.filter(|name| !name.is_empty());
    desired.old_name = old_name.map(str::to_owned);
    let kind = named("type").map(|it| record_type(resource, it.text));
    let base = base(context, resource, &desired, kind);
    let kind = kind.filter(|it| !it.is_empty());
    let key = RecordKey::Id(desired.id.unwrap_or_default());
    let sent_type = || context.known.base?.sent(resource, &key, "type")?.as_str();
    let code_type = kind.or_else(|| base.and_then(|_| sent_type()));
    for cell in &cells {
        let field = &spec.fields[cell.place];
        if field.name == "id" || field.name == "channel" {
            continue;
        }
        let base_value = base.and_then(|record| record.values.get(cell.place));
        let value = if let Some(base_value) =
            base_value.filter(|base_value| base_value.cell() == cell.text)
        {
            Some(base_value.clone())
        } else if field.is_read() && (context.known.untouched || is_shown_only(field)) {
            Some(values::lenient(field, cell.text))
        } else {
            let is_new = desired.id.is_none() && desired.old_name.is_none();
            let FieldCell { text, formatted, .. } = *cell;
            let text = if trims { text.trim_matches(is_blank) } else { text };
            let edited = EditedCell { resource, field, code_type, is_new, text, formatted };
            parse_cell(edited, cell, context.known.untouched, findings)
        };
        if let Some(value) = value {
            desired.fields.insert(cell.place, value);
        }
    }
    if known {
        missing(resource, &desired, &cells, row.line, findings);
    }
    known.then_some(desired)
}

fn source(findings: &Findings<'_>, row: &Row<'_>) -> SourceLocation {
    let number = Some(row.number).filter(|number| *number != row.line);
    SourceLocation { file: findings.file.to_owned(), line: Some(row.line), row: number }
}

/// The cell of a record's type as one of the words of the table, if it means one.
fn record_type(resource: Resource, text: &str) -> &str {
    match resource.spec().field("type").map(|(_, field)| field.kind) {
        Some(FieldKind::OneOf(words)) => values::word(words, text).unwrap_or(text),
        _ => text,
    }
}

const fn is_shown_only(field: &Field) -> bool {
    matches!(field.role, Role::ReadOnly | Role::Counter)
}

/// The record in the exported state that the row belongs to.
fn base<'a>(
    context: &FileContext<'a>,
    resource: Resource,
    desired: &DesiredRecord,
    kind: Option<&str>,
) -> Option<&'a Record<'static>> {
    let key = match (resource, &desired.channel, kind) {
        (Resource::ChannelItems, Some(RecordRef::Id(channel)), Some(kind)) => {
            RecordKey::Item { channel: *channel, kind: kind.to_owned(), id: desired.id? }
        }
        (Resource::ChannelItems, ..) => return None,
        _ => RecordKey::Id(desired.id?),
    };
    context.known.base?.get(resource)?.get(&key)
}

/// Parses an edited cell; `None` if it gives no value.
fn parse_cell(
    edited: EditedCell<'_>,
    cell: &FieldCell<'_>,
    untouched: bool,
    findings: &mut Findings<'_>,
) -> Option<FieldValue<'static>> {
    let EditedCell { resource, field, code_type, is_new, text, .. } = edited;
    if text.is_empty() {
        return parse_empty_cell(resource, field, cell, is_new, findings);
    }
    if !untouched {
        for suspicion in suspicions(edited) {
            findings.suspicion(suspicion, cell.line, cell.name);
        }
    }
    if resource == Resource::Domains && field.name == "domain" && is_new {
        values::web_address(text)
            .map_err(|mistake| findings.mistake(mistake, cell.line, cell.name))
            .ok()?;
    }
    let value = match field.kind {
        FieldKind::TextOrList => {
            values::data(code_type, text).map(|value| CellValue { value, converted: false })
        }
        _ => values::checked(field, text),
    };
    let value = value.map_err(|mistake| findings.mistake(mistake, cell.line, cell.name)).ok()?;
    if value.converted {
        findings.conversion(cell.name, text, &value.value.cell());
    }
    Some(value.value)
}

/// Parses an empty cell: no value for a write-only field, else an empty value where that is
/// possible.
fn parse_empty_cell(
    resource: Resource,
    field: &Field,
    cell: &FieldCell<'_>,
    is_new: bool,
    findings: &mut Findings<'_>,
) -> Option<FieldValue<'static>> {
    if field.role == Role::WriteOnly {
        return None;
    }
    if is_new {
        // The service chooses the value of a new record.
        return (field.kind != FieldKind::Bool).then_some(FieldValue::Null);
    }
    if field.kind == FieldKind::Bool {
        let what = format!("must not be empty; {EMPTY_BOOLEAN}");
        let mistake = CellMistake::new(CsvProblemKind::EmptyBoolean, what);
        findings.mistake(mistake, cell.line, cell.name);
        return None;
    }
    if field.role == Role::Writable && is_required(resource, field.name) {
        let mistake = CellMistake::new(CsvProblemKind::Empty, "must not be empty");
        findings.mistake(mistake, cell.line, cell.name);
        return None;
    }
    Some(FieldValue::Null)
}

/// Whether a record of `resource` must have this field.
fn is_required(resource: Resource, name: &str) -> bool {
    let spec = resource.spec();
    let creates = spec.endpoint(Verb::Create).into_iter().flat_map(|it| it.params);
    let required = creates.filter(|param| param.required).any(|param| param.name == name);
    required || spec.natural_key.contains(&name)
}

/// Reports the missing required fields of a row without an id.
fn missing(
    resource: Resource,
    desired: &DesiredRecord,
    cells: &[FieldCell<'_>],
    line: u64,
    findings: &mut Findings<'_>,
) {
    let items = resource == Resource::ChannelItems;
    if (desired.id.is_some() || desired.old_name.is_some()) && !items {
        return;
    }
    let title = resource.spec().title;
    let fields = resource.spec().fields.iter().enumerate();
    for (place, field) in fields.filter(|(_, it)| is_required(resource, it.name)) {
        let cell = cells.iter().find(|it| it.place == place);
        let there = match field.name {
            "id" => desired.id.is_some(),
            "channel" if items => desired.channel.is_some(),
            name => match desired.value(resource, name) {
                Some(value) => !value.cell().is_empty(),
                // Its mistake is reported already.
                None => cell.is_some_and(|it| !it.text.is_empty()),
            },
        };
        if !there {
            let what = match items {
                true => "is missing".to_owned(),
                false => format!("is missing; a {title} without an id needs it"),
            };
            match cell {
                Some(_) => {
                    findings.mistake(
                        CellMistake::new(CsvProblemKind::Missing, what),
                        line,
                        field.name,
                    );
                }
                None => findings.missing(line, field.name, what),
            }
        }
    }
}

fn id(cell: &FieldCell<'_>, findings: &mut Findings<'_>) -> Option<i64> {
    if cell.text.trim().is_empty() {
        return None;
    }
    let id = values::integer(cell.text);
    id.map_err(|mistake| findings.mistake(mistake, cell.line, cell.name)).ok()
}

/// Parses a reference to a record: digits are an id, other text is a name.
fn record_ref(cell: &FieldCell<'_>, findings: &mut Findings<'_>) -> Option<RecordRef> {
    let text = cell.text.trim();
    if text.is_empty() {
        return None;
    }
    match values::integer(text) {
        Ok(id) => Some(RecordRef::Id(id)),
        Err(mistake) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            findings.mistake(mistake, cell.line, cell.name);
            None
        }
        Err(_) => Some(RecordRef::Name(cell.text.to_owned())),
    }
}

/// Parses a row of `campaign_links.csv`.
pub(crate) fn link(
    context: &FileContext<'_>,
    row: &Row<'_>,
    findings: &mut Findings<'_>,
) -> Option<CampaignLink> {
    debug_assert_eq!(context.kind, CsvKind::CampaignLinks);
    let RowCells { fields: cells, has_faults, .. } = row_cells(context, row, findings);
    let before = findings.problems.count();
    let at = |nth| cells.iter().find(|cell| cell.place == nth);
    let campaign = at(0).and_then(|cell| record_ref(cell, findings));
    let link = at(1).and_then(|cell| id(cell, findings));
    if has_faults || findings.problems.count() > before {
        return None;
    }
    for (name, there) in [("campaign", campaign.is_some()), ("link", link.is_some())] {
        if !there {
            findings.missing(row.line, name, "is missing".to_owned());
        }
    }
    Some(CampaignLink { campaign: campaign?, link: link?, source: Some(source(findings, row)) })
}
