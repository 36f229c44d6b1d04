//! Whether a create without a response took effect: decided from the ids known before it was sent,
//! a listing read after it, and the values that were sent. One risk remains: if our create never
//! arrived and others created a QR code in the minutes since our last listing, their code is taken
//! for ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::NaiveDateTime;

use crate::change::plan::{JsonFields, PlanStep, fingerprint};
use crate::change::staleness::is_fresh;
use crate::clock::Timestamp;
use crate::model::{KeyForm, NaturalKey, Record, RecordKey, Resource, Verb};

/// The records of one resource.
pub type RecordMap = BTreeMap<RecordKey, Record<'static>>;

/// The outcome of a create, according to a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It created the record with this id.
    Created(i64),
    /// It created no record in this listing.
    NotCreated,
    /// It created one of the records with these ids, or none.
    Ambiguous(Vec<i64>),
}

/// A record that is older than a create by more than this is not from that create. A smaller
/// difference may come from another time zone or a wrong clock.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// The ids of a resource that were in listings or in responses to creates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownIds {
    /// Each id with the identity of its record in the newest listing that had it.
    ids: BTreeMap<i64, Option<Identity>>,
    /// The ids of records that the run has updated, with the natural key that it set.
    changed: Vec<(i64, Option<NaturalKey>)>,
    /// The highest known id, without those of creates that were sent later.
    highest: Option<i64>,
    /// The highest id of the newest listing.
    listed: Option<i64>,
    /// Whether any newer record had a lower id than an older one.
    falls: bool,
    /// When the set of ids was last complete.
    at: Option<Timestamp>,
}

impl KnownIds {
    /// Adds the records of a listing that began at `at`.
    pub fn add_listing(&mut self, resource: Resource, records: &RecordMap, at: Timestamp) {
        let ids = || records.keys().map(RecordKey::id);
        let new = ids().filter(|id| !self.ids.contains_key(id)).min();
        self.falls |= new.zip(self.listed).is_some_and(|(new, listed)| new < listed);
        self.listed = ids().max();
        self.highest = self.highest.max(self.listed);
        let known = |record: &Record<'_>| (record.key.id(), Some(identity(resource, record)));
        self.ids.extend(records.values().map(known));
        self.at = Some(at);
    }

    /// Whether a listing or a create of this run had this id.
    #[must_use]
    pub fn contains(&self, id: i64) -> bool {
        self.ids.contains_key(&id)
    }

    /// Sets the updates of the run that took effect or may have. Replaces those of an earlier call.
    pub fn changed_by<'a>(&mut self, updates: impl Iterator<Item = &'a PlanStep>) {
        self.changed = updates.filter_map(|step| Some((step.id?, desired_key(step)))).collect();
    }

    /// Adds the record of a create of this run; `at` is the time of the response.
    pub fn add_created(&mut self, id: i64, at: Timestamp) {
        self.falls |=
            !self.ids.contains_key(&id) && self.highest.is_some_and(|highest| id < highest);
        self.highest = self.highest.max(Some(id));
        self.ids.insert(id, None);
        // Records that others created before it have lower ids, so no new one can be among them.
        if !self.falls {
            self.at = Some(at);
        }
    }

    /// Removes the record of a delete of this run. A service may give its id to the next record,
    /// which then counts as new.
    pub fn remove_deleted(&mut self, id: i64) {
        self.ids.remove(&id);
        let below = self.ids.range(..id).next_back().map(|(id, _)| *id);
        for highest in [&mut self.highest, &mut self.listed] {
            if *highest == Some(id) {
                *highest = below;
            }
        }
    }

    /// Whether the ids are recent enough at `now` to recognise a new record.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| at <= now && is_fresh(now.since(at)))
    }

    /// Adds the record of a create that was sent after the one to reconcile.
    pub fn add_created_later(&mut self, id: i64) {
        self.ids.insert(id, None);
    }

    /// Whether `record` may be another one than the known record with its id: a service may give
    /// the id of a deleted record again. Such a record looks the same as one that others have
    /// changed since.
    fn may_replace(&self, resource: Resource, record: &Record<'_>) -> bool {
        let id = record.key.id();
        let known = self.ids.get(&id).and_then(Option::as_ref);
        let hidden = !resource.spec().shows_key();
        let ours = |(of, set): &(i64, Option<NaturalKey>)| {
            *of == id && (hidden || *set == record_key(resource, record))
        };
        known.is_some_and(|known| *known != identity(resource, record))
            && !self.changed.iter().any(ours)
    }

    /// Whether `record` may come from a create that was sent at `sent`.
    #[must_use]
    pub fn may_be_new(
        &self,
        resource: Resource,
        record: &Record<'_>,
        sent: Option<Timestamp>,
    ) -> bool {
        let id = record.key.id();
        // Responses to creates with a visible key may arrive out of order, so their ids prove
        // nothing.
        let low =
            !resource.spec().shows_key() && !self.falls && self.highest.is_some_and(|it| id < it);
        let made = created_at(resource, record);
        let old = made.zip(sent).is_some_and(|(made, sent)| sent.since(made) > SKEW);
        !self.ids.contains_key(&id) && !low && !old
    }
}

/// What distinguishes a record from another one with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// `None` if the record has no natural key.
    NaturalKey(Option<NaturalKey>),
    /// The fingerprint of all listed fields, if lists do not show the natural key.
    Fingerprint(String),
}

fn identity(resource: Resource, record: &Record<'_>) -> Identity {
    if resource.spec().shows_key() {
        Identity::NaturalKey(record_key(resource, record))
    } else {
        Identity::Fingerprint(fingerprint(resource, record))
    }
}

/// When the service created the record, by its `date` field, which has no time zone and is read as
/// UTC.
fn created_at(resource: Resource, record: &Record<'_>) -> Option<Timestamp> {
    let (place, _) = resource.spec().field("date")?;
    let text = record.values.get(place)?.cell();
    let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S").ok()?;
    Some(Timestamp(time.and_utc().timestamp_millis()))
}

/// The outcome of the create `step` according to `listing`. The step was sent at `sent`; `seen` are
/// the ids known before.
#[must_use]
pub fn reconcile_create(
    step: &PlanStep,
    seen: &KnownIds,
    sent: Option<Timestamp>,
    listing: &RecordMap,
) -> CreateOutcome {
    let (wanted, shown) = (desired_key(step), step.resource.spec().shows_key());
    let ours = listing.values().filter(|record| match shown {
        false => seen.may_be_new(step.resource, record, sent),
        true if seen.ids.contains_key(&record.key.id()) => false,
        true => wanted == record_key(step.resource, record),
    });
    let ours: Vec<_> = ours.collect();
    let ours = if shown { closest(step, ours) } else { ours };
    let ids: Vec<_> = ours.iter().map(|record| record.key.id()).collect();
    match ids[..] {
        [] => {
            let ours = |record: &&Record<'_>| {
                seen.may_replace(step.resource, record)
                    && (!shown || wanted == record_key(step.resource, record))
            };
            let ids: Vec<_> = listing.values().filter(ours).map(|it| it.key.id()).collect();
            if ids.is_empty() { CreateOutcome::NotCreated } else { CreateOutcome::Ambiguous(ids) }
        }
        // The known ids were too old when the create was sent: others may have created it hours
        // before.
        [id] if !shown && !sent.is_some_and(|sent| seen.is_fresh(sent)) => {
            CreateOutcome::Ambiguous(vec![id])
        }
        [id] => CreateOutcome::Created(id),
        _ => CreateOutcome::Ambiguous(ids),
    }
}

/// The ids of new records, with any natural key, that the done creates `made` do not explain. Some
/// of `made` have no id, so they are compared by natural key.
#[must_use]
pub fn unexplained_ids<'a>(
    (resource, made): (Resource, impl Iterator<Item = &'a PlanStep>),
    seen: &KnownIds,
    sent: Option<Timestamp>,
    listing: &RecordMap,
) -> Vec<i64> {
    let made = made.filter(|step| step.resource == resource && step.verb == Verb::Create);
    let made: BTreeSet<_> = made.map(desired_key).collect();
    let shown = resource.spec().shows_key();
    let ours = |record: &Record<'_>| shown && made.contains(&record_key(resource, record));
    let new =
        listing.values().filter(|record| seen.may_be_new(resource, record, sent) && !ours(record));
    new.map(|record| record.key.id()).collect()
}

/// The natural key that a create or an update sets, in the form in which services may store it;
/// `None` if it sets none, or lists do not show it.
#[must_use]
pub fn desired_key(step: &PlanStep) -> Option<NaturalKey> {
    step_key(step, KeyForm::Loosened)
}

pub(super) fn step_key(step: &PlanStep, form: KeyForm) -> Option<NaturalKey> {
    let none = JsonFields::new();
    let fields = step.request.body.as_ref().or(step.after.as_ref()).unwrap_or(&none);
    let shown = step.resource.spec().shows_key();
    NaturalKey::of_json(step.resource, form, fields).filter(|_| shown)
}

/// The records with the natural key that the create `step` asks for; none where lists show no key.
pub(super) fn records_of_create<'r>(
    step: &PlanStep,
    records: &'r RecordMap,
) -> impl Iterator<Item = &'r Record<'static>> {
    let (resource, wanted) = (step.resource, desired_key(step));
    let shown = resource.spec().shows_key();
    let found = records.values().filter(|record| shown && record_key(resource, record) == wanted);
    closest(step, found.collect()).into_iter()
}

/// Of several records that may be the one that `step` asks for, those with exactly its natural key,
/// if there are any.
fn closest<'r>(step: &PlanStep, found: Vec<&'r Record<'static>>) -> Vec<&'r Record<'static>> {
    let wanted = step_key(step, KeyForm::Exact);
    let is_exact = |record: &&Record<'static>| {
        NaturalKey::of_record(step.resource, KeyForm::Exact, record, None) == wanted
    };
    let exact: Vec<_> = found.iter().copied().filter(is_exact).collect();
    if exact.is_empty() { found } else { exact }
}

/// The natural key of a record, to compare with [`desired_key`].
#[must_use]
pub fn record_key(resource: Resource, record: &Record<'_>) -> Option<NaturalKey> {
    NaturalKey::of_record(resource, KeyForm::Loosened, record, None)
}

/// The message for a create that may have created one of the records `ids`.
#[must_use]
pub fn ambiguous_create_message(ids: &[i64]) -> String {
    let any = if ids.len() > 1 { "any of " } else { "" };
    format!("no response had its id, and {any}{} may be its record", format_ids(ids))
}

/// At most 20 ids for messages, and the number of the others: `12, 15 and 99`.
#[must_use]
pub fn format_ids(ids: &[i64]) -> String {
    const MAX_SHOWN: usize = 20;
    let mut shown: Vec<_> = ids.iter().take(MAX_SHOWN).map(ToString::to_string).collect();
    if let more @ 1.. = ids.len().saturating_sub(MAX_SHOWN) {
        shown.push(format!("{more} more"));
    }
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::apply::reconcile::*;
    use crate::apply::tests::{records, step};
    use crate::model::Verb::{Create, Update};
    use serde_json::json;

    /// 2026-11-20, 12:31:25.
    const SENT: Timestamp = Timestamp(1_795_177_885_000);

    #[test]
    fn at_most_twenty_ids_are_listed_and_the_others_counted() {
        let ids: Vec<_> = (1..=23).collect();
        assert_eq!(format_ids(&ids[..3]), "1, 2 and 3");
        assert!(format_ids(&ids[..20]).ends_with(", 19 and 20"));
        assert!(format_ids(&ids).ends_with(", 19, 20 and 3 more"));
    }

    fn known_ids(ids: &[i64]) -> KnownIds {
        let mut seen = KnownIds::default();
        seen.add_listing(Resource::QrCodes, &codes(ids), SENT);
        seen
    }

    fn codes(ids: &[i64]) -> RecordMap {
        let raw = ids.iter().map(|id| json!({"id": id, "name": "code"}).to_string());
        records(Resource::QrCodes, &raw.collect::<Vec<_>>())
    }

    fn campaign(name: &str) -> PlanStep {
        step(1, Resource::Campaigns, Create, "/api/campaign/add", Some(json!({"name": name})))
    }

    fn add_listing(names: &[(i64, &str)]) -> RecordMap {
        let raw = names.iter().map(|(id, name)| json!({"id": id, "name": name}).to_string());
        records(Resource::Campaigns, &raw.collect::<Vec<_>>())
    }

    #[test]
    fn one_new_record_with_the_key_in_any_case_is_the_created_one() {
        let known = known_ids(&[1]);
        let find = |step: &PlanStep, known: &KnownIds, all: &RecordMap| {
            reconcile_create(step, known, None, all)
        };
        let all = add_listing(&[(1, "spring"), (2, "other"), (3, "spring")]);
        assert_eq!(find(&campaign("Spring "), &known, &all), CreateOutcome::Created(3));
        assert_eq!(find(&campaign("winter"), &known, &all), CreateOutcome::NotCreated);
        let twice = add_listing(&[(2, "Spring"), (3, "spring")]);
        assert_eq!(find(&campaign("spring"), &known, &twice), CreateOutcome::Ambiguous(vec![2, 3]));
    }

    #[test]
    fn a_created_code_is_the_only_new_record_of_its_list() {
        let create = json!({"type": "text", "data": "x"});
        let create = step(1, Resource::QrCodes, Create, "/api/qr/add", Some(create));
        let find =
            |known: &KnownIds, all: &RecordMap| reconcile_create(&create, known, Some(SENT), all);
        let known = known_ids(&[4]);
        assert_eq!(find(&known, &codes(&[4])), CreateOutcome::NotCreated);
        assert_eq!(find(&known, &codes(&[4, 6])), CreateOutcome::Created(6));
        assert_eq!(find(&known, &codes(&[4, 6, 9])), CreateOutcome::Ambiguous(vec![6, 9]));
        assert!(!Resource::QrCodes.spec().shows_key() && Resource::Pixels.spec().shows_key());
    }

    #[test]
    fn an_id_that_the_run_deleted_is_new_when_it_is_reused() {
        let mut known = known_ids(&[4, 7]);
        let find = |known: &KnownIds, all: &RecordMap| {
            reconcile_create(&code_create(), known, Some(SENT), all)
        };
        assert_eq!(find(&known, &codes(&[4, 7])), CreateOutcome::NotCreated);
        known.remove_deleted(7);
        assert_eq!(find(&known, &codes(&[4, 7])), CreateOutcome::Created(7));
        assert_eq!(find(&known, &codes(&[4, 5])), CreateOutcome::Created(5));
    }

    /// Others delete the record with id 7, and the service gives the id to another record.
    #[test]
    fn a_create_may_get_a_known_id_of_a_record_that_is_gone() {
        let mut known = KnownIds::default();
        known.add_listing(Resource::Campaigns, &add_listing(&[(1, "old"), (7, "gone")]), SENT);
        let find = |known: &KnownIds, all: &RecordMap| {
            reconcile_create(&campaign("Spring"), known, None, all)
        };
        let again = add_listing(&[(1, "old"), (7, "spring")]);
        assert_eq!(find(&known, &again), CreateOutcome::Ambiguous(vec![7]));
        // A record with a new id and the right name is still recognised.
        let more = add_listing(&[(1, "old"), (7, "spring"), (8, "spring")]);
        assert_eq!(find(&known, &more), CreateOutcome::Created(8));
        assert_eq!(
            find(&known, &add_listing(&[(1, "new"), (7, "gone")])),
            CreateOutcome::NotCreated
        );
        for (field, value, found) in [
            ("name", "Spring", CreateOutcome::NotCreated),
            ("name", "summer", CreateOutcome::Ambiguous(vec![7])),
            ("rotator", "x", CreateOutcome::Ambiguous(vec![7])),
        ] {
            let (path, body) = ("/api/campaign/7/update", Some(json!({field: value})));
            let update = step(2, Resource::Campaigns, Update, path, body);
            known.changed_by([&PlanStep { id: Some(7), ..update }].into_iter());
            assert_eq!(find(&known, &again), found, "the run set its {field} to {value}");
        }
        let code = |date: &str| {
            let raw = json!({"id": 7, "name": "code", "scans": date.len(), "date": date});
            records(Resource::QrCodes, &[raw.to_string()])
        };
        let mut known = KnownIds::default();
        known.add_listing(Resource::QrCodes, &code("2026-11-20 10:00:00"), SENT);
        let find = |all: &RecordMap| reconcile_create(&code_create(), &known, Some(SENT), all);
        assert_eq!(find(&code("2026-11-20 12:00:00")), CreateOutcome::Ambiguous(vec![7]));
        let body = Some(json!({"name": "new"}));
        let update = step(2, Resource::QrCodes, Update, "/api/qr/7/update", body);
        let mut changed = known.clone();
        changed.changed_by([&PlanStep { id: Some(7), ..update }].into_iter());
        let all = code("2026-11-20 12:00:00");
        assert_eq!(
            reconcile_create(&code_create(), &changed, Some(SENT), &all),
            CreateOutcome::NotCreated
        );
        let counted = json!({"id": 7, "name": "code", "scans": 99, "date": "2026-11-20 10:00:00"});
        let counted = records(Resource::QrCodes, &[counted.to_string()]);
        assert_eq!(find(&counted), CreateOutcome::NotCreated);
    }

    fn code_create() -> PlanStep {
        let body = Some(json!({"type": "text", "data": "x"}));
        step(1, Resource::QrCodes, Create, "/api/qr/add", body)
    }

    #[test]
    fn a_code_with_a_lower_id_belongs_to_another_client_unless_ids_descend() {
        let find = |seen: &KnownIds, all: &RecordMap| {
            reconcile_create(&code_create(), seen, Some(SENT), all)
        };
        let mut known = known_ids(&[1, 4]);
        known.add_created(8, SENT);
        assert_eq!(find(&known, &codes(&[1, 4, 6, 8])), CreateOutcome::NotCreated);
        assert_eq!(find(&known, &codes(&[1, 4, 6, 8, 9])), CreateOutcome::Created(9));
        known.add_listing(Resource::QrCodes, &codes(&[1, 2, 4, 8]), SENT);
        assert_eq!(find(&known, &codes(&[1, 2, 4, 6, 8])), CreateOutcome::Created(6));
        let mut known = known_ids(&[5]);
        known.add_created(3, SENT);
        assert_eq!(find(&known, &codes(&[2, 3, 5])), CreateOutcome::Created(2));
    }

    #[test]
    fn an_older_code_is_not_adopted_and_one_after_a_pause_is_ambiguous() {
        let dated = |date: &str| {
            let raw = json!({"id": 9, "name": "code", "date": date}).to_string();
            records(Resource::QrCodes, &[raw])
        };
        let find = |sent, date| {
            reconcile_create(&code_create(), &known_ids(&[4]), Some(sent), &dated(date))
        };
        assert_eq!(find(SENT, "2026-11-18 12:00:00"), CreateOutcome::NotCreated);
        assert_eq!(find(SENT, "2026-11-20 01:00:00"), CreateOutcome::Created(9));
        assert_eq!(find(SENT, "yesterday"), CreateOutcome::Created(9));
        let later = SENT.plus(Duration::from_secs(600));
        assert_eq!(find(later, "2026-11-20 12:31:25"), CreateOutcome::Ambiguous(vec![9]));
    }

    #[test]
    fn a_domain_is_its_host_and_a_pixel_its_type_and_tag() {
        let key = |resource, path, body| desired_key(&step(1, resource, Create, path, Some(body)));
        let one = key(Resource::Domains, "/api/domain/add", json!({"domain": "https://Go.x.com/"}));
        let raw = [r#"{"id":1,"domain":"http://go.x.com"}"#.to_owned()];
        let domain = records(Resource::Domains, &raw);
        assert_eq!(one, record_key(Resource::Domains, domain.values().next().unwrap()));
        let body = json!({"type": "bing", "name": "n", "tag": "A"});
        let pixel = key(Resource::Pixels, "/api/pixel/add", body);
        let raw = |tag: &str| [json!({"id": 1, "type": "bing", "tag": tag}).to_string()];
        let of = |tag: &str| {
            let all = records(Resource::Pixels, &raw(tag));
            record_key(Resource::Pixels, all.values().next().unwrap())
        };
        assert_eq!(pixel, of("A"));
        assert_eq!(pixel, of("a"), "a service may store it so");
        assert_ne!(pixel, of("b"));
    }
}
