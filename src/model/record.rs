//! One record: decoded leniently, kept faithfully.

use std::borrow::Cow;
use std::fmt;

pub use super::members::Member;
use super::members::members;
use super::resource::Resource;
use super::value::{self, FieldValue};
use super::{FieldKind, spec};
use crate::format::truncate;

/// What identifies a record inside its account and resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKey {
    Id(i64),
    /// A channel's item: ids of items are unique within channel and type only.
    Item {
        channel: i64,
        kind: String,
        id: i64,
    },
}

impl RecordKey {
    /// The id as the service knows it.
    #[must_use]
    pub const fn id(&self) -> i64 {
        match self {
            Self::Id(id) | Self::Item { id, .. } => *id,
        }
    }

    /// Reads what `Display` prints: `12`, or `7/links/33` for a channel item.
    #[must_use]
    pub fn parse(resource: Resource, text: &str) -> Option<Self> {
        if resource != Resource::ChannelItems {
            return text.parse().ok().map(Self::Id);
        }
        // A service may send any text as the type, with slashes, too.
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

/// One record of the service, with the JSON text it came as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
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

/// What is wrong with one record or field. It never stops the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordProblem {
    pub resource: Resource,
    /// The id as far as it could be read.
    pub id: String,
    pub what: String,
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.resource, self.id, self.what)
    }
}

/// A record as it was decoded, with what the vault needs to keep it exactly.
#[derive(Debug, Clone)]
pub struct DecodedRecord<'a> {
    pub record: Record<'a>,
    /// The object's members in order, duplicates included.
    pub members: Vec<Member<'a>>,
    /// For each member, the place of the read field whose value it gave, if any.
    pub places: Vec<Option<usize>>,
    /// Fields that did not fit their kind; they are kept as they came.
    pub warnings: Vec<RecordProblem>,
}

impl<'a> DecodedRecord<'a> {
    /// Decodes one record of `resource`. `channel` is the channel whose items
    /// were listed; other resources take `None`.
    ///
    /// # Errors
    /// A [`RecordProblem`] when `raw` is no object or has no usable identity.
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
        let reads = spec.read_fields().count();
        let mut values = vec![FieldValue::Null; reads];
        let mut odd = Vec::new();
        let places = places(resource, &members);
        for (member, place) in members.iter().zip(&places) {
            if let Some(place) = *place {
                let field = read_field(resource, place);
                values[place] = value::read(field.kind, member.lexeme);
                if matches!(values[place], FieldValue::Json(_)) {
                    odd.push((field.name, field.kind));
                }
            }
        }
        let key = identity(resource, channel, &mut values).map_err(|what| {
            let id = members.iter().find(|member| member.name == "id");
            fault(&id.map_or(Cow::Borrowed("?"), |id| truncate(id.lexeme, 40)), what)
        })?;
        let odd = odd
            .into_iter()
            .map(|(name, kind)| {
                fault(&key.to_string(), &format!("`{name}` is not {}", article(kind)))
            })
            .collect();
        let record = Record { key, values, raw: Cow::Borrowed(raw) };
        Ok(Self { record, members, places, warnings: odd })
    }
}

/// The read field at `place`.
pub(crate) fn read_field(resource: Resource, place: usize) -> &'static spec::Field {
    // Write-only fields stand last in each row of the table, so places agree.
    &resource.spec().fields[place]
}

/// More than any row of the table has; a test holds it to that.
const MAX_FIELDS: usize = 16;

/// The place of the read field that `name` gives, and whether `name` is an alias of it.
fn read_place(resource: Resource, name: &str) -> Option<(usize, bool)> {
    let (place, field) = resource.spec().field(name)?;
    // A channel is where an item was found, whatever the item itself says.
    let ours = resource == Resource::ChannelItems && field.name == "channel";
    (field.is_read() && !ours).then_some((place, field.name != name))
}

/// For each member, the place of the read field whose value it gives. An alias
/// counts only where the field's own name is not there, and of two members for
/// one field the first.
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
        settle_aliases(resource, members, &mut places, &mut own);
    }
    places
}

/// Takes away the places of aliases whose field is given already.
fn settle_aliases(
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
    fn write_only_fields_stand_last_in_each_row() {
        for resource in Resource::ALL {
            let fields = resource.spec().fields;
            let reads = resource.spec().read_fields().count();
            assert!(fields[..reads].iter().all(spec::Field::is_read), "{resource}");
            assert!(fields.len() <= MAX_FIELDS, "{resource}");
        }
    }

    #[test]
    fn a_campaigns_name_may_stand_under_three_names() {
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
    fn an_item_belongs_to_the_channel_that_was_asked() {
        let raw = r#"{"type":"links","id":5,"channel":99,"title":"t"}"#;
        let decoded = decode(Resource::ChannelItems, raw).unwrap();
        assert_eq!(decoded.record.key.to_string(), "7/links/5");
        let parsed = RecordKey::parse(Resource::ChannelItems, "7/links/5").unwrap();
        assert_eq!(parsed, decoded.record.key);
    }

    #[test]
    fn a_key_that_is_printed_can_be_read_whatever_the_type_of_an_item_is() {
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
    fn a_record_without_a_usable_id_is_a_problem_that_names_it() {
        let big = r#"{"id":99999999999999999999,"name":"x"}"#;
        let problem = decode(Resource::Campaigns, big).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "campaigns 99999999999999999999: its id is not an integer of 64 bits"
        );
        assert_eq!(decode(Resource::Campaigns, "[1]").unwrap_err().id, "?");
    }

    #[test]
    fn a_field_of_the_wrong_type_is_told_and_kept() {
        let decoded =
            decode(Resource::Campaigns, r#"{"id":1,"name":"x","public":"maybe"}"#).unwrap();
        assert_eq!(decoded.warnings[0].to_string(), "campaigns 1: `public` is not true or false");
        assert_eq!(decoded.record.values[2], FieldValue::Json("\"maybe\"".into()));
    }
}
