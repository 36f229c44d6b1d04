//! One row as what it wants.

use std::collections::BTreeMap;

use crate::change::csv_files::CsvKind;
use crate::change::csv_files::cells::Row;
use crate::change::csv_files::columns::{Column, CsvHeader};
use crate::change::csv_files::problem::Notes;
use crate::change::csv_files::values;
use crate::change::desired::{CampaignLink, DesiredRecord, RecordRef, SourceLocation};
use crate::model::{Field, FieldKind, FieldValue, Record, RecordKey, Resource, Role, State, Verb};

/// What is known of a file beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportContext<'a> {
    /// The state that it was exported from: a cell that still shows what stands
    /// there is that very value, however odd.
    pub base: Option<&'a State>,
    /// The file was not edited since it was exported.
    pub untouched: bool,
}

/// Where rows stand.
pub(crate) struct Place<'a> {
    pub sheet: CsvKind,
    pub columns: &'a [CsvHeader],
    pub known: ExportContext<'a>,
}

/// A cell of a row, as text.
struct Given<'r> {
    place: usize,
    name: &'r str,
    line: u64,
    text: &'r str,
}

/// The cells of a row that are fields, but for those that are no text, and
/// whether there were none of these.
fn given<'r>(
    place: &'r Place<'_>,
    row: &'r Row<'_>,
    notes: &mut Notes<'_>,
) -> (Vec<Given<'r>>, bool) {
    let mut given = Vec::with_capacity(row.cells.len());
    let mut sound = true;
    for (headed, cell) in place.columns.iter().zip(&row.cells) {
        match (headed.column, cell.text()) {
            (Column::Ignored, _) => {}
            (_, Err((line, what))) => {
                notes.problem(Some(line), Some(&headed.name), what);
                sound = false;
            }
            (Column::Nameless, Ok("")) => {}
            (Column::Nameless, Ok(_)) => {
                let what = "the column of this cell has no name";
                notes.problem(Some(cell.line), Some(&headed.name), what);
                sound = false;
            }
            (Column::Field(place), Ok(text)) => {
                given.push(Given { place, name: &headed.name, line: cell.line, text });
            }
        }
    }
    (given, sound)
}

/// A row of a resource's file, with its mistakes told; `None` where not even
/// what it is about can be read.
pub(crate) fn wanted(
    place: &Place<'_>,
    resource: Resource,
    row: &Row<'_>,
    notes: &mut Notes<'_>,
) -> Option<DesiredRecord> {
    let (cells, sound) = given(place, row, notes);
    let before = notes.problems.count();
    let spec = resource.spec();
    let source = SourceLocation { file: notes.file.to_owned(), line: Some(row.line) };
    let mut wanted =
        DesiredRecord { id: None, channel: None, fields: BTreeMap::new(), source: Some(source) };
    let named = |name: &str| {
        let place = spec.field(name)?.0;
        cells.iter().find(|it| it.place == place)
    };
    wanted.id = named("id").and_then(|cell| id(cell, notes));
    if resource == Resource::ChannelItems {
        wanted.channel = named("channel").and_then(|cell| meant(cell, notes));
    }
    let known = sound && notes.problems.count() == before;
    let base = base(place, resource, &wanted, named("type").map(|it| it.text));
    let kind = named("type").map(|it| it.text).filter(|it| !it.is_empty());
    for cell in &cells {
        let field = &spec.fields[cell.place];
        if field.name == "id" || field.name == "channel" {
            continue;
        }
        let held = base.and_then(|record| record.values.get(cell.place));
        let value = if let Some(held) = held.filter(|held| held.cell() == cell.text) {
            Some(held.clone())
        } else if field.is_read() && (place.known.untouched || is_shown_only(field)) {
            Some(values::lenient(field, cell.text))
        } else {
            written(resource, field, cell, (&wanted, kind), notes)
        };
        if let Some(value) = value {
            wanted.fields.insert(cell.place, value);
        }
    }
    if known {
        missing(resource, &wanted, &cells, row.line, notes);
    }
    known.then_some(wanted)
}

const fn is_shown_only(field: &Field) -> bool {
    matches!(field.role, Role::ReadOnly | Role::Counter)
}

/// The record that the row was exported from.
fn base<'a>(
    place: &Place<'a>,
    resource: Resource,
    wanted: &DesiredRecord,
    kind: Option<&str>,
) -> Option<&'a Record<'static>> {
    let key = match (resource, &wanted.channel, kind) {
        (Resource::ChannelItems, Some(RecordRef::Id(channel)), Some(kind)) => {
            RecordKey::Item { channel: *channel, kind: kind.to_owned(), id: wanted.id? }
        }
        (Resource::ChannelItems, ..) => return None,
        _ => RecordKey::Id(wanted.id?),
    };
    place.known.base?.get(resource)?.get(&key)
}

/// A cell that somebody may have written; `None` where it says nothing.
fn written(
    resource: Resource,
    field: &Field,
    cell: &Given<'_>,
    (row, kind): (&DesiredRecord, Option<&str>),
    notes: &mut Notes<'_>,
) -> Option<FieldValue<'static>> {
    if cell.text.is_empty() {
        return emptied(resource, field, cell, row, notes);
    }
    if let Some(odd) = values::unknown_pixel_type(field, cell.text) {
        notes.warning(cell.line, cell.name, odd);
    }
    let value = match field.kind {
        FieldKind::TextOrList => values::data(kind, cell.text),
        _ => values::checked(field, cell.text),
    };
    value.map_err(|what| notes.problem(Some(cell.line), Some(cell.name), what)).ok()
}

/// An empty cell: of what cannot be read back it says nothing, of all else it
/// says empty, where that can be.
fn emptied(
    resource: Resource,
    field: &Field,
    cell: &Given<'_>,
    row: &DesiredRecord,
    notes: &mut Notes<'_>,
) -> Option<FieldValue<'static>> {
    if field.role == Role::WriteOnly {
        return None;
    }
    if row.id.is_none() {
        // A new record's switch stays as the service sets it.
        return (field.kind != FieldKind::Bool).then_some(FieldValue::Null);
    }
    if field.kind == FieldKind::Bool {
        let what = "this cannot be empty; write true or false, or leave the row out";
        notes.problem(Some(cell.line), Some(cell.name), what);
        return None;
    }
    if field.role == Role::Writable && is_needed(resource, field.name) {
        notes.problem(Some(cell.line), Some(cell.name), "this cannot be empty");
        return None;
    }
    Some(FieldValue::Null)
}

/// Whether a record of `resource` must have the field.
fn is_needed(resource: Resource, name: &str) -> bool {
    let spec = resource.spec();
    let creates = spec.endpoint(Verb::Create).into_iter().flat_map(|it| it.params);
    let required = creates.filter(|param| param.required).any(|param| param.name == name);
    required || spec.natural_key.contains(&name)
}

/// Tells what a row must have and does not: without an id, what makes a record.
fn missing(
    resource: Resource,
    wanted: &DesiredRecord,
    cells: &[Given<'_>],
    line: u64,
    notes: &mut Notes<'_>,
) {
    let items = resource == Resource::ChannelItems;
    if wanted.id.is_some() && !items {
        return;
    }
    let title = resource.spec().title;
    let fields = resource.spec().fields.iter().enumerate();
    for (place, field) in fields.filter(|(_, it)| is_needed(resource, it.name)) {
        let cell = cells.iter().find(|it| it.place == place);
        let there = match field.name {
            "id" => wanted.id.is_some(),
            "channel" if items => wanted.channel.is_some(),
            name => match wanted.value(resource, name) {
                Some(value) => !value.cell().is_empty(),
                // What is wrong with it has been told.
                None => cell.is_some_and(|it| !it.text.is_empty()),
            },
        };
        if !there {
            let what = match items {
                true => "this is missing".to_owned(),
                false => format!("this is missing; a {title} without id needs it"),
            };
            match cell {
                Some(_) => notes.problem(Some(line), Some(field.name), what),
                None => notes.missing(line, field.name, what),
            }
        }
    }
}

fn id(cell: &Given<'_>, notes: &mut Notes<'_>) -> Option<i64> {
    if cell.text.trim().is_empty() {
        return None;
    }
    let id = values::whole(cell.text);
    id.map_err(|what| notes.problem(Some(cell.line), Some(cell.name), what)).ok()
}

/// A record by its id, or by its name; digits are an id.
fn meant(cell: &Given<'_>, notes: &mut Notes<'_>) -> Option<RecordRef> {
    let text = cell.text.trim();
    if text.is_empty() {
        return None;
    }
    match values::whole(text) {
        Ok(id) => Some(RecordRef::Id(id)),
        Err(what) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            notes.problem(Some(cell.line), Some(cell.name), what);
            None
        }
        Err(_) => Some(RecordRef::Name(cell.text.to_owned())),
    }
}

/// A row of `campaign_links.csv`.
pub(crate) fn link(
    place: &Place<'_>,
    row: &Row<'_>,
    notes: &mut Notes<'_>,
) -> Option<CampaignLink> {
    debug_assert_eq!(place.sheet, CsvKind::CampaignLinks);
    let (cells, sound) = given(place, row, notes);
    let before = notes.problems.count();
    let at = |nth| cells.iter().find(|cell| cell.place == nth);
    let campaign = at(0).and_then(|cell| meant(cell, notes));
    let link = at(1).and_then(|cell| id(cell, notes));
    if !sound || notes.problems.count() > before {
        return None;
    }
    for (name, there) in [("campaign", campaign.is_some()), ("link", link.is_some())] {
        if !there {
            notes.missing(row.line, name, "this is missing".to_owned());
        }
    }
    let source = SourceLocation { file: notes.file.to_owned(), line: Some(row.line) };
    Some(CampaignLink { campaign: campaign?, link: link?, source: Some(source) })
}
