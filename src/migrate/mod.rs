//! Migration to another account. It is a restore from a foreign account: this module maps the
//! records of the source to a desired state of the target, and `change::plan` makes the plan.
//!
//! * [`options`]: substitutions and filters
//! * [`manual`]: tasks that the user must do by hand
//! * [`migration_plan`]: the plan, and its result after a run
//! * [`report`]: the result, counted · [`history`]: what all runs did · `markdown`: both as Markdown
//! * `name_case`: names that differ in case only
//! * `option_usage`: whether each option had an effect

pub mod history;
pub mod manual;
mod markdown;
pub mod migration_plan;
mod name_case;
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
pub use options::{MigrateOptions, OptionFields, Substitution};
pub use report::MigrationReport;

/// The account that the records come from.
#[derive(Debug, Clone, Copy)]
pub struct MigrationSource<'a> {
    /// The account as `service#id`.
    pub id: &'a str,
    /// Name of the state, such as `main@#12`.
    pub name: &'a str,
}

/// The records of the source, mapped to the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MappedRecords {
    /// The desired state of the target.
    pub desired: DesiredState,
    /// Tasks that the user must do by hand.
    pub manual: Vec<ManualTask>,
    /// Number of records that filters exclude, with those that belong to excluded records.
    pub excluded: BTreeMap<Resource, u64>,
    /// Resources that the options exclude.
    pub not_asked: Vec<Resource>,
    /// Ids of short links in the source, by their ids in the target.
    pub old_links: BTreeMap<i64, i64>,
    /// Options that had no effect or may be mistakes.
    pub warnings: Vec<String>,
}

/// Maps the records of `source` to the desired state of the target. `memory` are the sent values
/// and
/// ids from the source's vault.
#[must_use]
pub fn map(
    source: &State,
    memory: &AccountMemory,
    from: MigrationSource<'_>,
    options: &MigrateOptions,
) -> MappedRecords {
    let mut mapper = RecordMapper {
        memory,
        options,
        source: SourceLocation::named(from.name),
        out: MappedRecords::default(),
        excluded: HashSet::new(),
        used: OptionUsage::default(),
    };
    mapper.out.not_asked =
        Resource::ALL.into_iter().filter(|it| !options.which.contains(it)).collect();
    mapper.out.old_links = options.links.iter().map(|(old, new)| (*new, *old)).collect();
    mapper.out.desired = DesiredState {
        recreate_missing: true,
        keep_existing: options.keep_existing,
        origin: Some(from.id.to_owned()),
        ..DesiredState::default()
    };
    // Channel items last: they depend on channels and QR codes.
    let last = |resource: &Resource| *resource == Resource::ChannelItems;
    let mut order: Vec<_> = source.iter().collect();
    order.sort_by_key(|(resource, _)| (last(resource), *resource));
    for (resource, records) in order {
        mapper.resource(resource, records);
    }
    mapper.out.warnings = mapper.used.warnings(options, source);
    let same = name_case::groups(&mapper.out.desired);
    mapper.out.warnings.extend(same.iter().map(name_case::NameGroup::warning));
    mapper.out.manual.sort_by_key(|it| it.resource);
    mapper.out
}

struct RecordMapper<'a> {
    memory: &'a AccountMemory,
    options: &'a MigrateOptions,
    source: SourceLocation,
    out: MappedRecords,
    /// Records that a filter excludes.
    excluded: HashSet<(Resource, i64)>,
    used: OptionUsage,
}

type SourceRecords = BTreeMap<RecordKey, Record<'static>>;

/// A record of the source with its fields and sent values.
struct KnownRecord<'r> {
    resource: Resource,
    key: &'r RecordKey,
    fields: OptionFields,
}

impl KnownRecord<'_> {
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

impl RecordMapper<'_> {
    fn resource(&mut self, resource: Resource, records: &SourceRecords) {
        let asked = self.options.which.contains(&resource);
        if asked && !records.is_empty() {
            self.add_general_tasks(resource);
        }
        if asked && can_move(resource) {
            self.out.desired.resources.entry(resource).or_default();
        }
        for (key, record) in records {
            let mut known = self.known(resource, key, record);
            let (id, fields) = (key.id(), &known.fields);
            if !self.used.admit(self.options, resource, key, fields) {
                self.excluded.insert((resource, id));
                if asked {
                    self.count_excluded(resource);
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

    fn add_general_tasks(&mut self, resource: Resource) {
        let about: &[&str] = match resource {
            Resource::Account => &[manual::ACCOUNT],
            Resource::Campaigns => &[manual::CAMPAIGN_LINKS, manual::ADDRESSES],
            Resource::QrCodes => &[manual::PRINTED, manual::STATISTICS, manual::CODE_DESIGN],
            _ => &[],
        };
        self.out.manual.extend(about.iter().map(|reason| ManualTask::of_all(resource, reason)));
    }

    /// A record with the values that no list shows, from the vault and from the options.
    fn known<'r>(
        &self,
        resource: Resource,
        key: &'r RecordKey,
        record: &Record<'static>,
    ) -> KnownRecord<'r> {
        let names = resource.spec().read_fields().map(|field| field.name);
        let values = names.zip(&record.values).enumerate();
        let values = values.filter(|(_, (name, _))| *name != "id" && *name != "channel");
        let fields = values.map(|(place, (_, value))| (place, value.clone())).collect();
        let mut known = KnownRecord { resource, key, fields };
        let sent = self.memory.sent.get(&(resource, key.clone()));
        let sent = sent.into_iter().flat_map(|sent| {
            let valid = |name| Some((name, still_true(record, sent, name)?));
            sent.keys().filter_map(move |name| valid(name))
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
                if let Some(given) = self.options.codes.get(&key.id()) {
                    let spec = resource.spec();
                    let hidden =
                        |place: &usize| spec.fields.get(*place).is_some_and(|it| !it.is_read());
                    // An empty cell gives no value.
                    let given = given
                        .iter()
                        .filter(|(place, value)| hidden(place) && !value.cell().is_empty());
                    known.fields.extend(given.map(|(place, value)| (*place, value.clone())));
                }
            }
            _ => {}
        }
        known
    }

    fn record(&mut self, mut known: KnownRecord<'_>) {
        let (resource, id) = (known.resource, known.key.id());
        match resource {
            Resource::Account => {}
            Resource::Overlays => self.not_moved(&known, manual::OVERLAY),
            Resource::SplashPages => self.not_moved(&known, manual::SPLASH),
            Resource::ChannelItems => self.item(known),
            Resource::Pixels if !PIXEL_TYPES.contains(&known.text("type")) => {
                self.not_moved(&known, &manual::unsupported_pixel(known.text("type")));
            }
            Resource::Domains => {
                let note = ManualTask::not_moved(resource, id, known.name(), manual::DOMAIN);
                self.out.manual.push(note.moved().until_moved());
                self.add_desired(known, None, id);
            }
            Resource::Campaigns => {
                self.links(known.key, known.name());
                self.add_desired(known, None, id);
            }
            Resource::QrCodes => {
                let has = |name| {
                    let place = resource.spec().field(name).map(|(place, _)| place);
                    let value = place.and_then(|place| known.fields.get(&place));
                    value.is_some_and(|value| !value.cell().is_empty())
                };
                if has("type") && has("data") {
                    return self.add_desired(known, None, id);
                }
                let link = known.text("link").to_owned();
                let note = |why| ManualTask::not_moved(resource, id, known.name(), why);
                if self.options.link_codes && !link.is_empty() {
                    self.out.manual.push(note(manual::OLD_LINK).moved());
                    known.set("type", FieldValue::Text("link".into()));
                    known.set("data", FieldValue::Text(link.into()));
                    return self.add_desired(known, None, id);
                }
                self.out.manual.push(note(manual::UNKNOWN_CODE).until_moved());
            }
            _ => self.add_desired(known, None, id),
        }
    }

    fn not_moved(&mut self, known: &KnownRecord<'_>, reason: &str) {
        let note = ManualTask::not_moved(known.resource, known.key, known.name(), reason);
        self.out.manual.push(note);
    }

    fn item(&mut self, known: KnownRecord<'_>) {
        let RecordKey::Item { channel, kind, id } = known.key else { return };
        let code_stays = kind == "qr" && self.excluded.contains(&(Resource::QrCodes, *id));
        if code_stays || self.excluded.contains(&(Resource::Channels, *channel)) {
            return self.count_excluded(Resource::ChannelItems);
        }
        let channel = Some(RecordRef::Id(*channel));
        match (kind.as_str(), self.options.links.get(id)) {
            ("links", Some(new)) => {
                self.used.links.insert(*id);
                self.add_desired(known, channel, *new);
            }
            ("links", None) => self.not_moved(&known, manual::LINK),
            ("bio", _) => self.not_moved(&known, manual::BIO),
            _ => self.add_desired(known, channel, *id),
        }
    }

    /// Maps the links that linkvault assigned to a campaign.
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
                    let note = ManualTask::not_moved(Resource::Campaigns, id, name, manual::LINK);
                    self.out.manual.push(note);
                }
            }
        }
    }

    fn count_excluded(&mut self, resource: Resource) {
        *self.out.excluded.entry(resource).or_default() += 1;
    }

    fn add_desired(&mut self, known: KnownRecord<'_>, channel: Option<RecordRef>, id: i64) {
        let (fields, source) = (known.fields, Some(self.source.clone()));
        let record =
            DesiredRecord { id: Some(id), channel, fields, source, ..DesiredRecord::default() };
        self.out.desired.resources.entry(known.resource).or_default().records.push(record);
    }
}

/// Whether the API can create records of `resource`.
fn can_move(resource: Resource) -> bool {
    !matches!(resource, Resource::Account | Resource::Overlays | Resource::SplashPages)
}

/// A sent value as the value of a field.
fn owned(kind: FieldKind, json: &Json) -> FieldValue<'static> {
    value::read(kind, &json.to_string()).into_owned()
}

#[cfg(test)]
mod tests;
