//! Parses one row as a desired record.

use std::collections::BTreeMap;

use crate::change::csv_files::CsvKind;
use crate::change::csv_files::cells::Row;
use crate::change::csv_files::columns::{Column, CsvHeader};
use crate::change::csv_files::problem::Findings;
use crate::change::csv_files::values;
use crate::change::desired::{CampaignLink, DesiredRecord, RecordRef, SourceLocation};
use crate::model::{Field, FieldKind, FieldValue, Record, RecordKey, Resource, Role, State, Verb};

/// Information about an exported file besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportContext<'a> {
    /// The state that the file was exported from. A cell with the same text as the exported value
    /// keeps that value exactly, however unusual.
    pub base: Option<&'a State>,
    /// Whether the file was not edited since the export.
    pub untouched: bool,
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
}

/// The cells of fields whose text is valid, and whether all cells of the row are valid.
fn field_cells<'r>(
    context: &'r FileContext<'_>,
    row: &'r Row<'_>,
    findings: &mut Findings<'_>,
) -> (Vec<FieldCell<'r>>, bool) {
    let mut given = Vec::with_capacity(row.cells.len());
    let mut sound = true;
    for (headed, cell) in context.columns.iter().zip(&row.cells) {
        match (headed.column, cell.text()) {
            (Column::Ignored, _) => {}
            (_, Err((line, what))) => {
                findings.problem(Some(line), Some(&headed.name), what);
                sound = false;
            }
            (Column::Nameless, Ok("")) => {}
            (Column::Nameless, Ok(_)) => {
                let what = "the column of this cell has no name";
                findings.problem(Some(cell.line), Some(&headed.name), what);
                sound = false;
            }
            (Column::Field(place), Ok(text)) => {
                given.push(FieldCell { place, name: &headed.name, line: cell.line, text });
            }
        }
    }
    (given, sound)
}

/// Parses a row of a resource's file and reports its mistakes. `None` if even the record's identity
/// cannot be read.
pub(crate) fn desired_record(
    context: &FileContext<'_>,
    resource: Resource,
    row: &Row<'_>,
    findings: &mut Findings<'_>,
) -> Option<DesiredRecord> {
    let (cells, sound) = field_cells(context, row, findings);
    let before = findings.problems.count();
    let spec = resource.spec();
    let source = SourceLocation { file: findings.file.to_owned(), line: Some(row.line) };
    let mut desired =
        DesiredRecord { id: None, channel: None, fields: BTreeMap::new(), source: Some(source) };
    let named = |name: &str| {
        let place = spec.field(name)?.0;
        cells.iter().find(|it| it.place == place)
    };
    desired.id = named("id").and_then(|cell| id(cell, findings));
    if resource == Resource::ChannelItems {
        desired.channel = named("channel").and_then(|cell| record_ref(cell, findings));
    }
    let known = sound && findings.problems.count() == before;
    let base = base(context, resource, &desired, named("type").map(|it| it.text));
    let kind = named("type").map(|it| it.text).filter(|it| !it.is_empty());
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
            parse_cell(resource, field, cell, (&desired, kind), findings)
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
    resource: Resource,
    field: &Field,
    cell: &FieldCell<'_>,
    (row, kind): (&DesiredRecord, Option<&str>),
    findings: &mut Findings<'_>,
) -> Option<FieldValue<'static>> {
    if cell.text.is_empty() {
        return parse_empty_cell(resource, field, cell, row, findings);
    }
    if let Some(warning) = values::unknown_pixel_type(field, cell.text) {
        findings.warning(cell.line, cell.name, warning);
    }
    let value = match field.kind {
        FieldKind::TextOrList => values::data(kind, cell.text),
        _ => values::checked(field, cell.text),
    };
    value.map_err(|what| findings.problem(Some(cell.line), Some(cell.name), what)).ok()
}

/// Parses an empty cell: no value for a write-only field, else an empty value where that is
/// possible.
fn parse_empty_cell(
    resource: Resource,
    field: &Field,
    cell: &FieldCell<'_>,
    row: &DesiredRecord,
    findings: &mut Findings<'_>,
) -> Option<FieldValue<'static>> {
    if field.role == Role::WriteOnly {
        return None;
    }
    if row.id.is_none() {
        // The service chooses the value of a new record.
        return (field.kind != FieldKind::Bool).then_some(FieldValue::Null);
    }
    if field.kind == FieldKind::Bool {
        let what = "must not be empty; write true or false, or remove the row";
        findings.problem(Some(cell.line), Some(cell.name), what);
        return None;
    }
    if field.role == Role::Writable && is_required(resource, field.name) {
        findings.problem(Some(cell.line), Some(cell.name), "must not be empty");
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
    if desired.id.is_some() && !items {
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
                Some(_) => findings.problem(Some(line), Some(field.name), what),
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
    id.map_err(|what| findings.problem(Some(cell.line), Some(cell.name), what)).ok()
}

/// Parses a reference to a record: digits are an id, other text is a name.
fn record_ref(cell: &FieldCell<'_>, findings: &mut Findings<'_>) -> Option<RecordRef> {
    let text = cell.text.trim();
    if text.is_empty() {
        return None;
    }
    match values::integer(text) {
        Ok(id) => Some(RecordRef::Id(id)),
        Err(what) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            findings.problem(Some(cell.line), Some(cell.name), what);
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
    let (cells, sound) = field_cells(context, row, findings);
    let before = findings.problems.count();
    let at = |nth| cells.iter().find(|cell| cell.place == nth);
    let campaign = at(0).and_then(|cell| record_ref(cell, findings));
    let link = at(1).and_then(|cell| id(cell, findings));
    if !sound || findings.problems.count() > before {
        return None;
    }
    for (name, there) in [("campaign", campaign.is_some()), ("link", link.is_some())] {
        if !there {
            findings.missing(row.line, name, "is missing".to_owned());
        }
    }
    let source = SourceLocation { file: findings.file.to_owned(), line: Some(row.line) };
    Some(CampaignLink { campaign: campaign?, link: link?, source: Some(source) })
}
