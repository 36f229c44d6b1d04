//! A move to another account: what the other one should become, and what only a
//! person can move. A move is a restore from a foreign account; the plan
//! for it is made where all plans are made.
//!
//! * [`options`]: substitutions and filters
//! * [`manual`]: what only a person can move
//! * [`migration_plan`]: from there to a plan, and from a run to its result
//! * [`report`]: what came of it
//! * `option_usage`: whether each option had an effect

pub mod manual;
pub mod migration_plan;
mod option_usage;
pub mod options;
pub mod report;

use std::collections::{BTreeMap, HashSet};

use serde_json::Value as Json;

use crate::change::desired::{
    CampaignLink, DesiredRecord, DesiredState, RecordRef, SourceLocation,
};
use crate::change::plan::verify_step::still_true;
use crate::change::plan::{AccountMemory, ROTATOR, slug};
use crate::model::resource::PIXEL_TYPES;
use crate::model::{FieldKind, FieldValue, Record, RecordKey, Resource, State, value};

pub use manual::ManualTask;
pub use migration_plan::MigrationPlan;
use option_usage::OptionUsage;
pub use options::{FieldFilter, MigrateOptions, OptionFields, Substitution};
pub use report::MigrationReport;

/// Whose the records are.
#[derive(Debug, Clone, Copy)]
pub struct MigrationSource<'a> {
    /// The source, as `service#id`.
    pub id: &'a str,
    /// Its state's name: `main@#12`.
    pub name: &'a str,
}

/// What is to move, and what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MappedRecords {
    pub desired: DesiredState,
    pub manual: Vec<ManualTask>,
    /// How many records filters keep where they are, what belongs to them included.
    pub kept_back: BTreeMap<Resource, u64>,
    /// Resources that were not asked for.
    pub not_asked: Vec<Resource>,
    /// The old ids of short links, by the new ones.
    pub old_links: BTreeMap<i64, i64>,
    /// What somebody gave that came to nothing, or may not be meant so.
    pub warnings: Vec<String>,
}

/// What another account should become so that it has what `source` has. `memory`
/// is what the source's vault remembers.
#[must_use]
pub fn map(
    source: &State,
    memory: &AccountMemory,
    from: MigrationSource<'_>,
    options: &MigrateOptions,
) -> MappedRecords {
    let mut mover = Mover {
        memory,
        options,
        source: SourceLocation { file: from.name.to_owned(), line: None },
        out: MappedRecords::default(),
        stays: HashSet::new(),
        used: OptionUsage::default(),
    };
    mover.out.not_asked =
        Resource::ALL.into_iter().filter(|it| !options.which.contains(it)).collect();
    mover.out.old_links = options.links.iter().map(|(old, new)| (*new, *old)).collect();
    mover.out.desired = DesiredState {
        recreate_missing: true,
        origin: Some(from.id.to_owned()),
        ..DesiredState::default()
    };
    // What belongs to others comes after them.
    let last = |resource: &Resource| *resource == Resource::ChannelItems;
    let mut order: Vec<_> = source.iter().collect();
    order.sort_by_key(|(resource, _)| (last(resource), *resource));
    for (resource, records) in order {
        mover.resource(resource, records);
    }
    mover.out.warnings = mover.used.warnings(options, source);
    mover.out.manual.sort_by_key(|it| it.resource);
    mover.out
}

struct Mover<'a> {
    memory: &'a AccountMemory,
    options: &'a MigrateOptions,
    source: SourceLocation,
    out: MappedRecords,
    /// Records that a filter keeps where they are.
    stays: HashSet<(Resource, i64)>,
    used: OptionUsage,
}

type SourceRecords = BTreeMap<RecordKey, Record<'static>>;

/// A record of the source with all that is known of it.
struct Known<'r> {
    resource: Resource,
    key: &'r RecordKey,
    fields: OptionFields,
}

impl Known<'_> {
    fn text(&self, name: &str) -> &str {
        let place = self.resource.spec().field(name).map(|(place, _)| place);
        match place.and_then(|place| self.fields.get(&place)) {
            Some(FieldValue::Text(text)) => text,
            _ => "",
        }
    }

    fn set(&mut self, name: &str, value: FieldValue<'static>) {
        if let Some((place, _)) = self.resource.spec().field(name) {
            self.fields.insert(place, value);
        }
    }

    fn name(&self) -> &str {
        match self.resource {
            Resource::Account => self.text("email"),
            Resource::Domains => self.text("domain"),
            Resource::ChannelItems => self.text("title"),
            _ => self.text("name"),
        }
    }
}

impl Mover<'_> {
    fn resource(&mut self, resource: Resource, records: &SourceRecords) {
        let asked = self.options.which.contains(&resource);
        if asked && !records.is_empty() {
            self.about_all(resource);
        }
        if asked && may_move(resource) {
            self.out.desired.resources.entry(resource).or_default();
        }
        for (key, record) in records {
            let mut known = self.known(resource, key, record);
            let (id, fields) = (key.id(), &known.fields);
            if !self.used.admit(self.options, resource, key, fields) {
                self.stays.insert((resource, id));
                if asked {
                    self.keep_back(resource);
                }
                continue;
            }
            if !asked {
                continue;
            }
            for (nth, set) in self.options.set.iter().enumerate() {
                if set.apply(resource, &mut known.fields) {
                    self.used.set.insert(nth);
                }
            }
            self.record(known);
        }
    }

    fn about_all(&mut self, resource: Resource) {
        let about: &[&str] = match resource {
            Resource::Account => &[manual::ACCOUNT],
            Resource::Campaigns => &[manual::CAMPAIGN_LINKS, manual::ADDRESSES],
            Resource::QrCodes => &[manual::PRINTED, manual::STATISTICS, manual::LOOKS],
            _ => &[],
        };
        self.out.manual.extend(about.iter().map(|reason| ManualTask::of_all(resource, reason)));
    }

    /// A record with what no list shows, as far as somebody knows.
    fn known<'r>(
        &self,
        resource: Resource,
        key: &'r RecordKey,
        record: &Record<'static>,
    ) -> Known<'r> {
        let names = resource.spec().read_fields().map(|field| field.name);
        let values = names.zip(&record.values).enumerate();
        let values = values.filter(|(_, (name, _))| *name != "id" && *name != "channel");
        let fields = values.map(|(place, (_, value))| (place, value.clone())).collect();
        let mut known = Known { resource, key, fields };
        let sent = self.memory.sent.get(&(resource, key.clone()));
        let sent = sent.into_iter().flat_map(|sent| {
            let told = |name| Some((name, still_true(record, sent, name)?));
            sent.keys().filter_map(move |name| told(name))
        });
        for (name, json) in sent {
            let field = resource.spec().field(name).filter(|(_, field)| !field.is_read());
            if let Some((place, field)) = field.filter(|(_, field)| field.name != "password") {
                known.fields.insert(place, owned(field.kind, json));
            }
        }
        match resource {
            Resource::Campaigns => {
                if let Some(slug) = slug(known.text(ROTATOR)).map(str::to_owned) {
                    known.set("slug", FieldValue::Text(slug.into()));
                }
            }
            Resource::QrCodes => {
                if let Some(told) = self.options.codes.get(&key.id()) {
                    let spec = resource.spec();
                    let hidden =
                        |place: &usize| spec.fields.get(*place).is_some_and(|it| !it.is_read());
                    // An empty cell is one that was not filled in.
                    let told = told
                        .iter()
                        .filter(|(place, value)| hidden(place) && !value.cell().is_empty());
                    known.fields.extend(told.map(|(place, value)| (*place, value.clone())));
                }
            }
            _ => {}
        }
        known
    }

    fn record(&mut self, mut known: Known<'_>) {
        let (resource, id) = (known.resource, known.key.id());
        match resource {
            Resource::Account => {}
            Resource::Overlays => self.left(&known, manual::OVERLAY),
            Resource::SplashPages => self.left(&known, manual::SPLASH),
            Resource::ChannelItems => self.item(known),
            Resource::Pixels if !PIXEL_TYPES.contains(&known.text("type")) => {
                self.left(&known, &manual::odd_pixel(known.text("type")));
            }
            Resource::Domains => {
                let note = ManualTask::left(resource, id, known.name(), manual::DOMAIN);
                self.out.manual.push(note.comes_along().until_moved());
                self.want(known, None, id);
            }
            Resource::Campaigns => {
                self.links(known.key, known.name());
                self.want(known, None, id);
            }
            Resource::QrCodes => {
                let has = |name| {
                    let place = resource.spec().field(name).map(|(place, _)| place);
                    let value = place.and_then(|place| known.fields.get(&place));
                    value.is_some_and(|value| !value.cell().is_empty())
                };
                if has("type") && has("data") {
                    return self.want(known, None, id);
                }
                let link = known.text("link").to_owned();
                let note = |why| ManualTask::left(resource, id, known.name(), why);
                if self.options.link_codes && !link.is_empty() {
                    self.out.manual.push(note(manual::OLD_LINK).comes_along());
                    known.set("type", FieldValue::Text("link".into()));
                    known.set("data", FieldValue::Text(link.into()));
                    return self.want(known, None, id);
                }
                self.out.manual.push(note(manual::UNKNOWN_CODE).until_moved());
            }
            _ => self.want(known, None, id),
        }
    }

    fn left(&mut self, known: &Known<'_>, reason: &str) {
        let note = ManualTask::left(known.resource, known.key, known.name(), reason);
        self.out.manual.push(note);
    }

    fn item(&mut self, known: Known<'_>) {
        let RecordKey::Item { channel, kind, id } = known.key else { return };
        let code_stays = kind == "qr" && self.stays.contains(&(Resource::QrCodes, *id));
        if code_stays || self.stays.contains(&(Resource::Channels, *channel)) {
            return self.keep_back(Resource::ChannelItems);
        }
        let channel = Some(RecordRef::Id(*channel));
        match (kind.as_str(), self.options.links.get(id)) {
            ("links", Some(new)) => {
                self.used.links.insert(*id);
                self.want(known, channel, *new);
            }
            ("links", None) => self.left(&known, manual::LINK),
            ("bio", _) => self.left(&known, manual::BIO),
            _ => self.want(known, channel, *id),
        }
    }

    /// The links of a campaign, as far as linkvault assigned them.
    fn links(&mut self, key: &RecordKey, name: &str) {
        let sent = self.memory.sent.get(&(Resource::Campaigns, key.clone()));
        let links = sent.and_then(|sent| sent.get("links")?.as_array());
        for link in links.into_iter().flatten().filter_map(Json::as_i64) {
            match self.options.links.get(&link) {
                Some(new) => {
                    self.used.links.insert(link);
                    self.out.desired.campaign_links.push(CampaignLink {
                        campaign: RecordRef::Id(key.id()),
                        link: *new,
                        source: Some(self.source.clone()),
                    });
                }
                None => {
                    let id = format!("{key}/links/{link}");
                    let note = ManualTask::left(Resource::Campaigns, id, name, manual::LINK);
                    self.out.manual.push(note);
                }
            }
        }
    }

    fn keep_back(&mut self, resource: Resource) {
        *self.out.kept_back.entry(resource).or_default() += 1;
    }

    fn want(&mut self, known: Known<'_>, channel: Option<RecordRef>, id: i64) {
        let (fields, source) = (known.fields, Some(self.source.clone()));
        let wanted = DesiredRecord { id: Some(id), channel, fields, source };
        self.out.desired.resources.entry(known.resource).or_default().records.push(wanted);
    }
}

/// Whether the API can make records of `resource`.
fn may_move(resource: Resource) -> bool {
    !matches!(resource, Resource::Account | Resource::Overlays | Resource::SplashPages)
}

/// A remembered value as a field's.
fn owned(kind: FieldKind, json: &Json) -> FieldValue<'static> {
    value::read(kind, &json.to_string()).into_owned()
}

#[cfg(test)]
mod tests;
