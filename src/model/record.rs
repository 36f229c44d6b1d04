//! One record: decoded leniently, with its exact JSON text.

use std::borrow::Cow;
use std::fmt;

pub use super::members::Member;
use super::members::members;
use super::resource::Resource;
use super::value::{self, FieldValue};
use super::{FieldKind, spec};
use crate::format::truncate;

/// Identifies a record within its account and resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKey {
    /// The id of the record; for all resources except channel items.
    Id(i64),
    /// An item of a channel. Item ids are unique only within channel and type.
    Item {
        /// Id of the channel.
        channel: i64,
        /// Type of the item, such as `links`.
        kind: String,
        /// Id of the item.
        id: i64,
    },
}

impl RecordKey {
    /// The id that the service gave the record.
    #[must_use]
    pub const fn id(&self) -> i64 {
        match self {
            Self::Id(id) | Self::Item { id, .. } => *id,
        }
    }

    /// Parses the output of `Display`: `12`, or `7/links/33` for a channel item.
    #[must_use]
    pub fn parse(resource: Resource, text: &str) -> Option<Self> {
        if resource != Resource::ChannelItems {
            return text.parse().ok().map(Self::Id);
        }
        // The type may be any text, also with slashes.
        let (channel, rest) = text.split_once('/')?;
        let (kind, id) = rest.rsplit_once('/')?;
        let (channel, id) = (channel.parse().ok()?, id.parse().ok()?);
        Some(Self::Item { channel, kind: kind.to_owned(), id })
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Item { channel, kind, id } => write!(f, "{channel}/{kind}/{id}"),
        }
    }
}

/// One record of the service with its JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Identity of the record.
    pub key: RecordKey,
    /// One value for each of the resource's [read fields](spec::ResourceSpec::read_fields), in order.
    pub values: Vec<FieldValue<'a>>,
    /// The JSON object, to the byte.
    pub raw: Cow<'a, str>,
}

impl Record<'_> {
    /// The same record, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> Record<'static> {
        Record {
            key: self.key,
            values: self.values.into_iter().map(FieldValue::into_owned).collect(),
            raw: Cow::Owned(self.raw.into_owned()),
        }
    }
}

/// A problem of one record or field. Other records are not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordProblem {
    /// Resource of the record.
    pub resource: Resource,
    /// The id, at most 40 characters of it; `?` if there is none.
    pub id: String,
    /// The problem, as the end of a sentence about the record.
    pub what: String,
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.resource, self.id, self.what)
    }
}

/// A decoded record, with the details that the vault needs to store it exactly.
#[derive(Debug, Clone)]
pub struct DecodedRecord<'a> {
    /// The record with its typed values.
    pub record: Record<'a>,
    /// The object's members in order, duplicates included.
    pub members: Vec<Member<'a>>,
    /// For each member, the index of the read field whose value it is, if any.
    pub places: Vec<Option<usize>>,
    /// Fields whose value does not fit their kind. They are kept as [`FieldValue::Json`].
    pub warnings: Vec<RecordProblem>,
}

impl<'a> DecodedRecord<'a> {
    /// Decodes one record of `resource`. `channel` is the channel whose items are listed; `None`
    /// for other resources.
    ///
    /// # Errors
    /// A [`RecordProblem`] when `raw` is not an object or has no valid id.
    pub fn read(
        resource: Resource,
        channel: Option<i64>,
        raw: &'a str,
    ) -> Result<Self, RecordProblem> {
        let fault = |id: &str, what: &str| RecordProblem {
            resource,
            id: id.to_owned(),
            what: what.to_owned(),
        };
        let members = members(raw).map_err(|_| fault("?", "is not a JSON object"))?;
        let spec = resource.spec();
        let read_fields = spec.read_fields().count();
        let mut values = vec![FieldValue::Null; read_fields];
        let mut warnings = Vec::new();
        let places = places(resource, &members);
        for (member, place) in members.iter().zip(&places) {
            if let Some(place) = *place {
                let field = read_field(resource, place);
                values[place] = value::read(field.kind, member.raw_value);
                if matches!(values[place], FieldValue::Json(_)) {
                    warnings.push((field.name, field.kind));
                }
            }
        }
        let key = identity(resource, channel, &mut values).map_err(|what| {
            let id = members.iter().find(|member| member.name == "id");
            fault(&id.map_or(Cow::Borrowed("?"), |id| truncate(id.raw_value, 40)), what)
        })?;
        let warnings = warnings
            .into_iter()
            .map(|(name, kind)| {
                fault(&key.to_string(), &format!("`{name}` is not {}", article(kind)))
            })
            .collect();
        let record = Record { key, values, raw: Cow::Borrowed(raw) };
        Ok(Self { record, members, places, warnings })
    }
}

/// The read field at index `place`.
pub(crate) fn read_field(resource: Resource, place: usize) -> &'static spec::Field {
    // Write-only fields are last in each row of the table, so the index is the same.
    &resource.spec().fields[place]
}

/// No row of the table has more fields; a test checks it.
const MAX_FIELDS: usize = 16;

/// The index of the read field called `name`, and whether `name` is an alias of it.
fn read_place(resource: Resource, name: &str) -> Option<(usize, bool)> {
    let (place, field) = resource.spec().field(name)?;
    // The channel of an item is the channel that was listed, not a member of the item.
    let ours = resource == Resource::ChannelItems && field.name == "channel";
    (field.is_read() && !ours).then_some((place, field.name != name))
}

/// For each member, the index of the read field whose value it is. An alias counts only if the
/// field's own name is missing. Of two members for one field the first counts.
fn places(resource: Resource, members: &[Member<'_>]) -> Vec<Option<usize>> {
    let mut own = [false; MAX_FIELDS];
    let mut aliases = false;
    let mut places = Vec::with_capacity(members.len());
    for member in members {
        let place = read_place(resource, &member.name).and_then(|(place, is_alias)| {
            aliases |= is_alias;
            let taken = !is_alias && std::mem::replace(&mut own[place], true);
            (!taken).then_some(place)
        });
        places.push(place);
    }
    if aliases {
        drop_repeated_aliases(resource, members, &mut places, &mut own);
    }
    places
}

/// Removes the index of an alias whose field already has a value.
fn drop_repeated_aliases(
    resource: Resource,
    members: &[Member<'_>],
    places: &mut [Option<usize>],
    given: &mut [bool; MAX_FIELDS],
) {
    for (member, place) in members.iter().zip(places) {
        if let Some((at, true)) = read_place(resource, &member.name)
            && std::mem::replace(&mut given[at], true)
        {
            *place = None;
        }
    }
}

fn identity(
    resource: Resource,
    channel: Option<i64>,
    values: &mut [FieldValue<'_>],
) -> Result<RecordKey, &'static str> {
    let id_place = resource.spec().field("id").map_or(0, |(place, _)| place);
    let FieldValue::Int(id) = values[id_place] else {
        return Err(match &values[id_place] {
            FieldValue::Null => "has no id",
            _ => "its id is not an integer of 64 bits",
        });
    };
    if resource != Resource::ChannelItems {
        return Ok(RecordKey::Id(id));
    }
    let channel = channel.ok_or("belongs to no channel")?;
    values[0] = FieldValue::Int(channel);
    match &values[1] {
        FieldValue::Text(kind) => Ok(RecordKey::Item { channel, kind: kind.to_string(), id }),
        _ => Err("has no type"),
    }
}

fn article(kind: FieldKind) -> String {
    match kind {
        FieldKind::Int => "an integer".to_owned(),
        FieldKind::Bool => "true or false".to_owned(),
        kind => kind.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(resource: Resource, raw: &str) -> Result<DecodedRecord<'_>, RecordProblem> {
        DecodedRecord::read(resource, Some(7), raw)
    }

    #[test]
    fn write_only_fields_are_last_in_each_row() {
        for resource in Resource::ALL {
            let fields = resource.spec().fields;
            let reads = resource.spec().read_fields().count();
            assert!(fields[..reads].iter().all(spec::Field::is_read), "{resource}");
            assert!(fields.len() <= MAX_FIELDS, "{resource}");
        }
    }

    #[test]
    fn a_campaigns_name_has_two_aliases() {
        for name in ["name", "domain", "campaign"] {
            let raw = format!(r#"{{"id":"3","{name}":"Spring","public":1,"rotator":false}}"#);
            let decoded = decode(Resource::Campaigns, &raw).unwrap();
            assert_eq!(decoded.record.key, RecordKey::Id(3));
            assert_eq!(decoded.record.values[1], FieldValue::Text("Spring".into()));
            assert_eq!(decoded.record.values[2], FieldValue::Bool(true));
        }
    }

    #[test]
    fn the_fields_own_name_wins_over_an_alias() {
        let decoded =
            decode(Resource::Campaigns, r#"{"id":1,"domain":"alias","name":"own"}"#).unwrap();
        assert_eq!(decoded.record.values[1], FieldValue::Text("own".into()));
    }

    #[test]
    fn an_item_belongs_to_the_listed_channel() {
        let raw = r#"{"type":"links","id":5,"channel":99,"title":"t"}"#;
        let decoded = decode(Resource::ChannelItems, raw).unwrap();
        assert_eq!(decoded.record.key.to_string(), "7/links/5");
        let parsed = RecordKey::parse(Resource::ChannelItems, "7/links/5").unwrap();
        assert_eq!(parsed, decoded.record.key);
    }

    #[test]
    fn keys_parse_from_their_display_text_for_any_item_type() {
        for kind in ["links", "a/b", "/", "", "7/9"] {
            let key = RecordKey::Item { channel: -3, kind: kind.to_owned(), id: 5 };
            assert_eq!(
                RecordKey::parse(Resource::ChannelItems, &key.to_string()),
                Some(key),
                "{kind}"
            );
        }
        assert_eq!(RecordKey::parse(Resource::ChannelItems, "7/5"), None);
    }

    #[test]
    fn a_record_without_a_valid_id_is_a_problem_that_names_it() {
        let big = r#"{"id":99999999999999999999,"name":"x"}"#;
        let problem = decode(Resource::Campaigns, big).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "campaigns 99999999999999999999: its id is not an integer of 64 bits"
        );
        assert_eq!(decode(Resource::Campaigns, "[1]").unwrap_err().id, "?");
    }

    #[test]
    fn a_field_of_the_wrong_type_gives_a_warning_and_is_kept() {
        let decoded =
            decode(Resource::Campaigns, r#"{"id":1,"name":"x","public":"maybe"}"#).unwrap();
        assert_eq!(decoded.warnings[0].to_string(), "campaigns 1: `public` is not true or false");
        assert_eq!(decoded.record.values[2], FieldValue::Json("\"maybe\"".into()));
    }
}
