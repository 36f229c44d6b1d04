//! What an account should become: records that somebody wants, with the fields
//! that he gave. A spreadsheet gives some rows and some columns; a snapshot
//! gives everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::model::natural_key::value_text;
use crate::model::{Blanks, FieldValue, NaturalKey, Record, RecordKey, Resource, State, value};

/// Where a wanted record was written down, for messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct SourceLocation {
    /// A file's name, or a state's: `sheets/campaigns.csv`, `main@#12`.
    pub file: String,
    /// Of a file, counted from 1.
    pub line: Option<u64>,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A record that is meant: by its id, or by its owner's name for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordRef {
    Id(i64),
    Name(String),
}

/// A record that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredRecord {
    /// Its id, where one was given. A channel item's is that of the item.
    pub id: Option<i64>,
    /// The channel of a channel item; `None` for all else.
    pub channel: Option<RecordRef>,
    /// The values that were given, by the field's place in the table's row.
    /// Identity fields are not among them, but for a channel item's `type`.
    pub fields: BTreeMap<usize, FieldValue<'static>>,
    pub source: Option<SourceLocation>,
}

impl DesiredRecord {
    /// The value given for the field called `name`.
    #[must_use]
    pub fn value(&self, resource: Resource, name: &str) -> Option<&FieldValue<'static>> {
        let (place, _) = resource.spec().field(name)?;
        self.fields.get(&place)
    }

    /// Its natural key; `None` where a part of it was not given, or is empty.
    #[must_use]
    pub fn natural_key(&self, resource: Resource) -> Option<NaturalKey> {
        let value = |name: &str| self.value(resource, name).map(value_text);
        NaturalKey::of(resource, Blanks::Exact, value)
    }
}

/// A short link that a campaign should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignLink {
    pub campaign: RecordRef,
    pub link: i64,
    pub source: Option<SourceLocation>,
}

/// What is wanted of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredRecords {
    pub records: Vec<DesiredRecord>,
    /// Whether a record that is not among them is not wanted. A lone
    /// spreadsheet says nothing of the records that it leaves out.
    pub is_complete: bool,
}

/// Records of an account by their ids.
pub type RecordIds = BTreeSet<(Resource, i64)>;

/// What an account should become. A resource that is absent is left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredState {
    pub resources: BTreeMap<Resource, DesiredRecords>,
    pub campaign_links: Vec<CampaignLink>,
    /// Records that are to go, whatever else is said of their resource.
    pub to_delete: BTreeMap<Resource, BTreeSet<i64>>,
    /// Records that were deleted since the state was read that the wanted ids are of. A
    /// record of the account that has one of these ids is another one.
    pub deleted: RecordIds,
    /// Whether a record whose id the account does not have (any more) is to be
    /// created anew. A snapshot means that; a spreadsheet has a mistake there.
    pub recreate_missing: bool,
    /// Whether the records come with the sent values that were true with them. What
    /// is sent since then is no part of them, even where nothing was known then.
    pub has_sent_values: bool,
    /// The account that the ids are of, as `service#id`, where it is another one
    /// than the account that is to become so.
    pub origin: Option<String>,
}

impl DesiredState {
    /// Everything that `state` holds, as it was there, with the sent values that
    /// were true then. `name` tells whence.
    #[must_use]
    pub fn of_state(state: &State, name: &str) -> Self {
        let source = SourceLocation { file: name.to_owned(), line: None };
        let resources = state.iter().map(|(resource, records)| {
            let wanted = records.values().map(|record| {
                let mut wanted = desired_record(resource, record, &source);
                wanted.fields.extend(unlisted_sent_fields(state, resource, &record.key));
                wanted
            });
            (resource, DesiredRecords { records: wanted.collect(), is_complete: true })
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

/// The sent values of a record that its list does not show, as wanted fields.
pub(crate) fn unlisted_sent_fields(
    state: &State,
    resource: Resource,
    key: &RecordKey,
) -> impl Iterator<Item = (usize, FieldValue<'static>)> {
    state.unlisted_sent_values(resource, key).map(|(place, field, json)| {
        (place, value::read(field.kind, &json.to_string()).into_owned())
    })
}

/// The links of a campaign that linkvault assigned, as wanted ones.
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
        fields: given.map(|(place, (_, value))| (place, value.clone())).collect(),
        source: Some(source.clone()),
    }
}
