//! The desired state of an account: records with the fields that were given. A CSV file gives some
//! rows and columns; a snapshot gives everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::change::record_filter::RecordFilter;
use crate::model::natural_key::value_text;
use crate::model::{FieldValue, KeyForm, NaturalKey, Record, RecordKey, Resource, State, value};

/// The place where a desired record was specified, for messages.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct SourceLocation {
    /// Name of a file or a state: `sheets/campaigns.csv`, `main@#12`.
    pub file: String,
    /// Line in the file, from 1.
    pub line: Option<u64>,
    /// The row as spreadsheets number it, if its number differs from the line's: cells before it
    /// contain line breaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
}

impl SourceLocation {
    /// The place of records that have no line, such as those of a state.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { file: name.to_owned(), line: None, row: None }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.row, self.line) {
            (Some(row), Some(line)) => write!(f, "{}: row {row} (line {line})", self.file),
            (_, Some(line)) => write!(f, "{}:{line}", self.file),
            _ => f.write_str(&self.file),
        }
    }
}

/// A reference to a record by id or by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordRef {
    /// The id of the record.
    Id(i64),
    /// The name of the record.
    Name(String),
}

/// A desired record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredRecord {
    /// The id, if it was given; for a channel item, the id of the item.
    pub id: Option<i64>,
    /// The channel of a channel item; `None` for other resources.
    pub channel: Option<RecordRef>,
    /// The name of the record in the account, if it was given beside the new one. A row without an
    /// id is matched by it.
    pub old_name: Option<String>,
    /// The given values, by the field's index in the table's row. Excludes identity fields,
    /// except the `type` of a channel item.
    pub fields: BTreeMap<usize, FieldValue<'static>>,
    /// Where the record was specified.
    pub source: Option<SourceLocation>,
}

impl DesiredRecord {
    /// The given value of the field called `name`.
    #[must_use]
    pub fn value(&self, resource: Resource, name: &str) -> Option<&FieldValue<'static>> {
        let (place, _) = resource.spec().field(name)?;
        self.fields.get(&place)
    }

    /// The natural key; `None` if a part of it is missing or empty.
    #[must_use]
    pub fn natural_key(&self, resource: Resource) -> Option<NaturalKey> {
        let value = |name: &str| self.value(resource, name).map(value_text);
        NaturalKey::of(resource, KeyForm::Exact, value)
    }

    /// The natural key by which the record is found in the account: that of its old name, if it
    /// has one.
    #[must_use]
    pub fn current_key(&self, resource: Resource) -> Option<NaturalKey> {
        match &self.old_name {
            Some(name) => NaturalKey::of_name(resource, name),
            None => self.natural_key(resource),
        }
    }
}

/// A short link that a campaign should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignLink {
    /// The campaign.
    pub campaign: RecordRef,
    /// Id of the short link.
    pub link: i64,
    /// Where the link was specified.
    pub source: Option<SourceLocation>,
}

/// The desired records of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredRecords {
    /// The desired records.
    pub records: Vec<DesiredRecord>,
    /// Whether other records of the resource are to be deleted. False for a single CSV file, which
    /// says nothing about the records that it does not list.
    pub is_complete: bool,
}

/// Records of an account by their ids.
pub type RecordIds = BTreeSet<(Resource, i64)>;

/// The desired state of an account. Absent resources are not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredState {
    /// Desired records by resource.
    pub resources: BTreeMap<Resource, DesiredRecords>,
    /// Links that campaigns should have.
    pub campaign_links: Vec<CampaignLink>,
    /// Ids of records to delete, in addition.
    pub to_delete: BTreeMap<Resource, BTreeSet<i64>>,
    /// Records that were deleted since the state was read that the desired ids refer to. A record
    /// of the account with one of these ids is a different record.
    pub deleted: RecordIds,
    /// Whether a record with an unknown id is created anew. True for a snapshot; in a CSV file an
    /// unknown id is a mistake.
    pub recreate_missing: bool,
    /// Whether the records include the sent values of that time. Values sent later are then not
    /// part of the desired state, even if nothing was known at that time.
    pub has_sent_values: bool,
    /// Whether existing records stay as they are, in a migration. They are matched, so that
    /// references to them can be resolved.
    pub keep_existing: bool,
    /// The records that are compared and changed; all others stay.
    pub filter: RecordFilter,
    /// The account that the ids refer to, as `service#id`, if it is not the account to change.
    pub origin: Option<String>,
}

impl DesiredState {
    /// The desired state with everything in `state`, including its sent values. `name` is the
    /// state's name in messages.
    #[must_use]
    pub fn of_state(state: &State, name: &str) -> Self {
        let source = SourceLocation::named(name);
        let resources = state.iter().map(|(resource, records)| {
            let desired = records.values().map(|record| {
                let mut desired = desired_record(resource, record, &source);
                desired.fields.extend(unlisted_sent_fields(state, resource, &record.key));
                desired
            });
            (resource, DesiredRecords { records: desired.collect(), is_complete: true })
        });
        let mut desired = Self {
            resources: resources.collect(),
            has_sent_values: state.sent.is_some(),
            recreate_missing: true,
            ..Self::default()
        };
        for key in state.get(Resource::Campaigns).into_iter().flat_map(BTreeMap::keys) {
            desired.campaign_links.extend(links(state, key, &source));
        }
        desired
    }
}

/// The sent values of a record that its list does not return, as desired fields.
pub(crate) fn unlisted_sent_fields(
    state: &State,
    resource: Resource,
    key: &RecordKey,
) -> impl Iterator<Item = (usize, FieldValue<'static>)> {
    state.unlisted_sent_values(resource, key).map(|(place, field, json)| {
        (place, value::read(field.kind, &json.to_string()).into_owned())
    })
}

/// The links that linkvault assigned to a campaign, as desired links.
pub(crate) fn links<'s>(
    state: &'s State,
    campaign: &RecordKey,
    source: &SourceLocation,
) -> impl Iterator<Item = CampaignLink> + use<'s> {
    let (id, source) = (campaign.id(), source.clone());
    state.links(campaign).map(move |link| CampaignLink {
        campaign: RecordRef::Id(id),
        link,
        source: Some(source.clone()),
    })
}

fn desired_record(
    resource: Resource,
    record: &Record<'static>,
    source: &SourceLocation,
) -> DesiredRecord {
    let names = resource.spec().read_fields().map(|field| field.name);
    let values = names.zip(&record.values).enumerate();
    let given = values.filter(|(_, (name, _))| *name != "id" && *name != "channel");
    let channel = match &record.key {
        RecordKey::Item { channel, .. } => Some(RecordRef::Id(*channel)),
        RecordKey::Id(_) => None,
    };
    DesiredRecord {
        id: Some(record.key.id()),
        channel,
        old_name: None,
        fields: given.map(|(place, (_, value))| (place, value.clone())).collect(),
        source: Some(source.clone()),
    }
}
