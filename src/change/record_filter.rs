//! Which records a command touches: filters by a field's value, and selectors by id or name.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use regex::Regex;

use crate::model::natural_key::json_text;
use crate::model::{FieldValue, Record, RecordKey, Resource, SentFields, State};

/// Why a filter or a selector cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFilterError {
    /// Not of the expected form. The value and the form.
    #[error("`{0}` does not have the form {1}")]
    Form(String, &'static str),
    /// Not the name of a resource.
    #[error("`{0}` is not a resource")]
    Resource(String),
    /// The resource has no such field.
    #[error("`{resource}` has no field `{field}`; its fields are {known}")]
    Field {
        /// The resource.
        resource: Resource,
        /// The unknown field.
        field: String,
        /// Names of the fields.
        known: String,
    },
    /// Not a valid regular expression. The pattern and the reason.
    #[error("invalid pattern `{0}`: {1}")]
    Pattern(String, String),
}

/// A filter: only records whose field matches the pattern. It admits every record of other
/// resources.
#[derive(Debug, Clone)]
pub struct FieldFilter {
    /// Resource of the records.
    pub resource: Resource,
    /// Name of the field.
    pub field: &'static str,
    /// The pattern; it may match any part of the value.
    pub pattern: Regex,
}

impl PartialEq for FieldFilter {
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.resource, it.field, it.pattern.as_str().to_owned());
        parts(self) == parts(other)
    }
}

impl Eq for FieldFilter {}

impl FromStr for FieldFilter {
    type Err = RecordFilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || RecordFilterError::Form(text.to_owned(), "RESOURCE.FIELD~PATTERN");
        let (place, pattern) = text.split_once('~').ok_or_else(form)?;
        let (resource, name) = place.split_once('.').ok_or_else(form)?;
        let resource = resource_of(resource)?;
        let fields = resource.spec().fields.iter().map(|field| field.name);
        let fields = || fields.clone().filter(|name| *name != "password");
        let field = fields().find(|field| *field == name).ok_or_else(|| {
            let known = fields().collect::<Vec<_>>().join(", ");
            RecordFilterError::Field { resource, field: name.to_owned(), known }
        })?;
        let pattern = Regex::new(pattern).map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
            RecordFilterError::Pattern(pattern.to_owned(), why.to_owned())
        })?;
        Ok(Self { resource, field, pattern })
    }
}

impl std::fmt::Display for FieldFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}~{}", self.resource, self.field, self.pattern)
    }
}

fn resource_of(name: &str) -> Result<Resource, RecordFilterError> {
    Resource::from_name(name).ok_or_else(|| RecordFilterError::Resource(name.to_owned()))
}

impl FieldFilter {
    /// Whether the filter admits a record.
    #[must_use]
    pub fn admits(&self, record: &FilteredRecord<'_>) -> bool {
        record.resource != self.resource || self.pattern.is_match(&record.cell(self.field))
    }
}

/// A record that is selected by its id, or records that are selected by their name.
#[derive(Debug, Clone)]
pub struct RecordSelector {
    resource: Resource,
    text: String,
    by: SelectBy,
}

#[derive(Debug, Clone)]
enum SelectBy {
    Id(RecordKey),
    /// The whole name matches, in upper or lower case.
    Name(Regex),
}

impl PartialEq for RecordSelector {
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.resource, it.text.clone(), matches!(it.by, SelectBy::Id(_)));
        parts(self) == parts(other)
    }
}

impl Eq for RecordSelector {}

impl std::fmt::Display for RecordSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.resource, self.text)
    }
}

impl RecordSelector {
    /// Parses `RESOURCE/ID`, such as `campaigns/3`.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn by_id(text: &str) -> Result<Self, RecordFilterError> {
        let form = || RecordFilterError::Form(text.to_owned(), "RESOURCE/ID");
        let (name, id) = text.split_once('/').ok_or_else(form)?;
        let resource = resource_of(name)?;
        let key = RecordKey::parse(resource, id).ok_or_else(form)?;
        Ok(Self { resource, text: id.to_owned(), by: SelectBy::Id(key) })
    }

    /// Parses `RESOURCE/NAME`, such as `campaigns/Spring*`. `*` is any text, `?` one character.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn by_name(text: &str) -> Result<Self, RecordFilterError> {
        let form = || RecordFilterError::Form(text.to_owned(), "RESOURCE/NAME");
        let (name, glob) =
            text.split_once('/').filter(|(_, it)| !it.is_empty()).ok_or_else(form)?;
        let resource = resource_of(name)?;
        let mut pattern = String::from("(?is)^");
        for char in glob.chars() {
            match char {
                '*' => pattern.push_str(".*"),
                '?' => pattern.push('.'),
                char => pattern.push_str(&regex::escape(char.encode_utf8(&mut [0; 4]))),
            }
        }
        pattern.push('$');
        let pattern = Regex::new(&pattern)
            .map_err(|error| RecordFilterError::Pattern(glob.to_owned(), error.to_string()))?;
        Ok(Self { resource, text: glob.to_owned(), by: SelectBy::Name(pattern) })
    }

    /// Whether it selects a record.
    #[must_use]
    pub fn selects(&self, record: &FilteredRecord<'_>) -> bool {
        if record.resource != self.resource {
            return false;
        }
        match &self.by {
            SelectBy::Id(key) => record.key.as_ref() == Some(key),
            SelectBy::Name(pattern) => {
                let name = record.name();
                let bare = name.split_once("://").map_or("", |(_, bare)| bare);
                pattern.is_match(&name) || (!bare.is_empty() && pattern.is_match(bare))
            }
        }
    }
}

/// A record of a state, or a row of a file, as filters see it.
#[derive(Debug)]
pub struct FilteredRecord<'a> {
    resource: Resource,
    key: Option<RecordKey>,
    values: BTreeMap<&'static str, &'a FieldValue<'a>>,
    sent: Option<&'a SentFields>,
}

impl<'a> FilteredRecord<'a> {
    /// A record of a state. `sent` are its sent values, if they are known.
    #[must_use]
    pub fn of_record(
        resource: Resource,
        record: &'a Record<'a>,
        sent: Option<&'a SentFields>,
    ) -> Self {
        let names = resource.spec().read_fields().map(|field| field.name);
        let values = names.zip(&record.values).collect();
        Self { resource, key: Some(record.key.clone()), values, sent }
    }

    /// All records of a state.
    pub fn of_state(state: &'a State) -> impl Iterator<Item = Self> {
        state.iter().flat_map(move |(resource, records)| {
            let of = move |it| Self::of_record(resource, it, state.sent_of(resource, &it.key));
            records.values().map(of)
        })
    }

    /// Fields by their index in the table's row: of a row of a file, or of a record to be moved.
    #[must_use]
    pub fn of_fields(
        resource: Resource,
        key: Option<RecordKey>,
        fields: &'a BTreeMap<usize, FieldValue<'static>>,
    ) -> Self {
        let all = resource.spec().fields;
        let values = fields.iter();
        let values = values.filter_map(|(place, it)| Some((all.get(*place)?.name, it)));
        Self { resource, key, values: values.collect(), sent: None }
    }

    fn cell(&self, field: &str) -> String {
        match (field, &self.key) {
            ("id", Some(key)) => key.id().to_string(),
            ("channel", Some(RecordKey::Item { channel, .. })) => channel.to_string(),
            _ => {
                let sent = || Some(json_text(self.sent?.get(field)?).into_owned());
                let value = self.values.get(field).map(|value| value.cell().into_owned());
                value.or_else(sent).unwrap_or_default()
            }
        }
    }

    /// The name, or the first field of the natural key of a resource without names.
    fn name(&self) -> String {
        let spec = self.resource.spec();
        match spec.field("name") {
            Some(_) => self.cell("name"),
            None => spec.natural_key.first().map(|field| self.cell(field)).unwrap_or_default(),
        }
    }
}

/// Filters and selectors. A record must match all filters of its resource and, if there are
/// selectors, one of them. Items of a channel go with the channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Filters by the value of a field.
    pub wheres: Vec<FieldFilter>,
    /// Selectors by id or name.
    pub selectors: Vec<RecordSelector>,
}

impl RecordFilter {
    /// Whether it admits everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wheres.is_empty() && self.selectors.is_empty()
    }

    /// Its filters and selectors as texts.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let wheres = self.wheres.iter().map(ToString::to_string);
        wheres.chain(self.selectors.iter().map(ToString::to_string)).collect()
    }

    /// The resources that have selectors; `None` if there are no selectors, so that other resources
    /// are admitted as well.
    #[must_use]
    pub fn selected_resources(&self) -> Option<BTreeSet<Resource>> {
        let mut selected: BTreeSet<_> = self.selectors.iter().map(|it| it.resource).collect();
        if selected.contains(&Resource::Channels) {
            selected.insert(Resource::ChannelItems);
        }
        Some(selected).filter(|it| !it.is_empty())
    }

    /// The filters and selectors that match none of `records`, as texts.
    #[must_use]
    pub fn unmatched<'r>(
        &self,
        records: impl IntoIterator<Item = FilteredRecord<'r>>,
    ) -> Vec<String> {
        let mut wheres: Vec<_> = self.wheres.iter().collect();
        let mut selectors: Vec<_> = self.selectors.iter().collect();
        for record in records {
            wheres.retain(|it| it.resource != record.resource || !it.admits(&record));
            selectors.retain(|it| !it.selects(&record));
            if wheres.is_empty() && selectors.is_empty() {
                break;
            }
        }
        let wheres = wheres.iter().map(ToString::to_string);
        wheres.chain(selectors.iter().map(ToString::to_string)).collect()
    }

    /// Whether it admits a record.
    #[must_use]
    pub fn admits(&self, record: &FilteredRecord<'_>) -> bool {
        self.wheres.iter().all(|it| it.admits(record))
            && (self.selectors.is_empty() || self.selectors.iter().any(|it| it.selects(record)))
    }

    /// Whether it admits an item of a channel. `with_channel`: it admits the channel.
    #[must_use]
    pub fn admits_item(&self, item: &FilteredRecord<'_>, with_channel: bool) -> bool {
        let selected = self.selectors.iter().any(|it| it.selects(item));
        (with_channel || selected) && self.wheres.iter().all(|it| it.admits(item))
    }

    /// Whether it admits a record of `state`. An item whose channel `state` does not show goes by
    /// its own values.
    #[must_use]
    pub fn admits_in(&self, state: &State, resource: Resource, record: &Record<'_>) -> bool {
        let subject =
            FilteredRecord::of_record(resource, record, state.sent_of(resource, &record.key));
        let RecordKey::Item { channel, .. } = &record.key else { return self.admits(&subject) };
        let channels = state.get(Resource::Channels);
        let channel = channels.and_then(|it| it.get(&RecordKey::Id(*channel)));
        let with_channel = channel.map_or(self.selectors.is_empty(), |channel| {
            self.admits(&FilteredRecord::of_record(Resource::Channels, channel, None))
        });
        self.admits_item(&subject, with_channel)
    }

    /// Removes the records from two states that it admits in neither.
    pub fn retain_in_both(&self, one: &mut State, other: &mut State) {
        if self.is_empty() {
            return;
        }
        let keys = |state: &State| {
            let records = state.iter().flat_map(|(resource, records)| {
                records.values().map(move |record| (resource, record))
            });
            let admitted = records.filter(|(resource, it)| self.admits_in(state, *resource, it));
            admitted.map(|(resource, it)| (resource, it.key.clone())).collect::<BTreeSet<_>>()
        };
        let kept: BTreeSet<_> = keys(one).union(&keys(other)).cloned().collect();
        for state in [one, other] {
            for resource in Resource::ALL {
                if state.get(resource).is_some() {
                    let records = state.resource_mut(resource);
                    records.retain(|key, _| kept.contains(&(resource, key.clone())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &'static str) -> BTreeMap<usize, FieldValue<'static>> {
        BTreeMap::from([(1, FieldValue::Text(value.into()))])
    }

    fn campaign<'a>(
        id: i64,
        fields: &'a BTreeMap<usize, FieldValue<'static>>,
    ) -> FilteredRecord<'a> {
        FilteredRecord::of_fields(Resource::Campaigns, Some(RecordKey::Id(id)), fields)
    }

    #[test]
    fn a_filter_applies_to_its_own_resource_only() {
        let it: FieldFilter = "campaigns.name~^Spring".parse().unwrap();
        assert!(it.admits(&campaign(1, &text("Spring 2026"))));
        assert!(!it.admits(&campaign(1, &text("Late Spring"))));
        let channel = text("x");
        let channel = FilteredRecord::of_fields(Resource::Channels, None, &channel);
        assert!(it.admits(&channel));
        let it: FieldFilter = "campaigns.id~^[12]$".parse().unwrap();
        assert!(it.admits(&campaign(2, &text(""))) && !it.admits(&campaign(3, &text(""))));
        let error = |text: &str| text.parse::<FieldFilter>().unwrap_err().to_string();
        assert!(error("campaigns.name~(").starts_with("invalid pattern `(`"));
        assert!(error("campaigns.nam~x").contains("no field `nam`; its fields are id, name"));
        assert!(error("account.password~x").contains("no field `password`"));
        assert_eq!(error("links.name~x"), "`links` is not a resource");
    }

    #[test]
    fn selectors_leave_other_resources_out() {
        let by_id = RecordSelector::by_id("campaigns/3").unwrap();
        let by_name = RecordSelector::by_name("campaigns/spring*").unwrap();
        let filter = RecordFilter { wheres: Vec::new(), selectors: vec![by_id, by_name] };
        assert!(filter.admits(&campaign(3, &text("x"))));
        assert!(filter.admits(&campaign(4, &text("Spring 2026"))));
        assert!(!filter.admits(&campaign(4, &text("Late spring"))));
        assert_eq!(filter.selected_resources(), Some([Resource::Campaigns].into()));
        let spring = text("Spring");
        assert_eq!(filter.unmatched([campaign(4, &spring)]), ["campaigns/3"]);
        let domain = text("https://go.example.com");
        let domain = FilteredRecord::of_fields(Resource::Domains, None, &domain);
        assert!(RecordSelector::by_name("domains/GO.*").unwrap().selects(&domain));
        assert!(!RecordSelector::by_name("domains/go").unwrap().selects(&domain));
        for wrong in ["campaigns", "campaigns/x", "campaigns/", "x/3"] {
            assert!(RecordSelector::by_id(wrong).is_err(), "{wrong}");
        }
        assert!(RecordSelector::by_name("campaigns/").is_err());
    }

    #[test]
    fn an_item_goes_with_its_channel() {
        let filter = RecordFilter {
            wheres: vec!["channel_items.type~^qr$".parse().unwrap()],
            selectors: vec![RecordSelector::by_id("channels/3").unwrap()],
        };
        let kind = |kind: &'static str| text(kind);
        let (qr, link) = (kind("qr"), kind("links"));
        let item = |fields| FilteredRecord::of_fields(Resource::ChannelItems, None, fields);
        assert!(filter.admits_item(&item(&qr), true));
        assert!(!filter.admits_item(&item(&link), true));
        assert!(!filter.admits_item(&item(&qr), false));
        let own = RecordSelector::by_id("channel_items/3/qr/7").unwrap();
        let filter = RecordFilter { wheres: Vec::new(), selectors: vec![own] };
        let key = RecordKey::Item { channel: 3, kind: "qr".to_owned(), id: 7 };
        let it = FilteredRecord::of_fields(Resource::ChannelItems, Some(key), &qr);
        assert!(filter.admits_item(&it, false));
    }
}
