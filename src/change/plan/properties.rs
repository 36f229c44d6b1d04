//! Properties of all plans, tested on random accounts and a model of a service that executes the
//! steps. Test code only.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::tests::{FREE, record};
use super::*;
use crate::change::policy::OnConflict;
use crate::model::equality::are_equal;
use crate::model::sent_values::form_of;
use crate::model::{RecordKey, Resource, Verb};

/// An account: its records, what linkvault knows about it, and the next new id.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    state: State,
    memory: AccountMemory,
    next: i64,
    /// The service converts names to lower case.
    lowers: bool,
}

/// Different words in a random order.
fn words(rng: &mut Rng, count: usize) -> Vec<String> {
    let mut all: Vec<_> =
        ["A", "b", "C", "Dé", "e-1", "2026", "g h", "Ж"].map(str::to_owned).into();
    rng.shuffle(&mut all);
    all.truncate(count);
    all
}

fn draw(rng: &mut Rng) -> Model {
    let mut model = Model {
        state: State::default(),
        memory: AccountMemory::default(),
        next: 100,
        lowers: rng.bool(),
    };
    for resource in Resource::ALL {
        model.state.resource_mut(resource);
    }
    let email = ["a@x.example", "b@x.example"][rng.usize(..2)];
    model.put(Resource::Account, json!({"id": 7, "email": email}));
    for resource in [Resource::Domains, Resource::Campaigns, Resource::Channels, Resource::Pixels] {
        let mut ids: Vec<i64> = (1..9).collect();
        rng.shuffle(&mut ids);
        let count = rng.usize(..7);
        for (id, word) in ids.into_iter().zip(words(rng, count)) {
            let raw = match resource {
                Resource::Domains => {
                    let root = ["", "https://x", "https://y"][rng.usize(..3)];
                    json!({"id": id, "domain": format!("https://{word}.example"), "redirectroot": root})
                }
                Resource::Campaigns => match rng.usize(..3) {
                    0 => json!({"id": id, "name": word, "public": rng.bool(), "rotator": false}),
                    1 => {
                        json!({"id": id, "name": word, "rotator": format!("https://s/r/{}", rng.u8(..4))})
                    }
                    _ => json!({"id": id, "domain": word, "public": rng.u8(..2)}),
                },
                Resource::Channels => {
                    let color = ["#aabbcc", "#AABBCC", "", "#000000"][rng.usize(..4)];
                    json!({"id": id, "name": word, "color": color, "starred": rng.bool()})
                }
                _ => json!({"id": id, "type": "bing", "name": "p", "tag": word}),
            };
            model.put(resource, raw);
        }
    }
    let some: Vec<i64> = (1..7).filter(|_| rng.bool()).collect();
    for id in some {
        model.put(
            Resource::QrCodes,
            json!({"id": id, "name": format!("q{id}"), "scans": rng.u8(..)}),
        );
        if rng.bool() {
            let sent = [("type", json!("text")), ("data", json!(format!("d{id}")))];
            let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
            model.memory.sent.insert((Resource::QrCodes, RecordKey::Id(id)), sent);
        }
    }
    let channels: Vec<i64> = model.ids(Resource::Channels);
    let codes = model.ids(Resource::QrCodes);
    for channel in channels {
        let some: Vec<i64> = (1..5).filter(|_| rng.bool()).collect();
        for id in some {
            let kind = if codes.contains(&id) && rng.bool() { "qr" } else { "links" };
            model.put(Resource::ChannelItems, json!({"channel": channel, "type": kind, "id": id}));
        }
    }
    for campaign in model.ids(Resource::Campaigns) {
        if rng.bool() {
            model.remember(Resource::Campaigns, campaign, "links", json!([rng.u8(..9)]));
        }
    }
    model
}

impl Model {
    fn ids(&self, resource: Resource) -> Vec<i64> {
        self.state.get(resource).into_iter().flat_map(BTreeMap::keys).map(RecordKey::id).collect()
    }

    fn put(&mut self, resource: Resource, raw: Json) {
        let record = record(resource, &raw);
        self.state.resource_mut(resource).insert(record.key.clone(), record);
    }

    fn remember(&mut self, resource: Resource, id: i64, name: &str, value: Json) {
        let sent = self.memory.sent.entry((resource, RecordKey::Id(id))).or_default();
        sent.insert(name.to_owned(), value);
    }

    fn current(&self) -> CurrentState<'_> {
        CurrentState { state: &self.state, memory: &self.memory }
    }

    /// Executes the steps as the service would.
    fn apply(&mut self, plan: &Plan) {
        let mut made: HashMap<u32, i64> = HashMap::new();
        for step in &plan.steps {
            let path =
                step.request.path.split('/').map(|part| {
                    match request::ResolvedRef::from_json(&part.into()) {
                        Some(request::ResolvedRef::Step(step)) => made[&step].to_string(),
                        _ => part.to_owned(),
                    }
                });
            let path: Vec<_> = path.collect();
            let number = |at: usize| path[at].parse::<i64>().unwrap();
            match (step.verb, step.resource) {
                (Verb::Create, resource) => {
                    self.next += 1;
                    made.insert(step.step, self.next);
                    self.write(resource, self.next, json!({}), step);
                    if let Some(old) = step.replaces {
                        self.memory.ids.insert((resource, old), self.next);
                    }
                }
                (Verb::Update, resource) => {
                    let id = step.id.unwrap();
                    let raw = &self.state.get(resource).unwrap()[&RecordKey::Id(id)].raw;
                    let raw = serde_json::from_str(raw).unwrap();
                    self.write(resource, id, raw, step);
                }
                (Verb::Delete, resource) => {
                    let id = number(3);
                    let gone = self.state.resource_mut(resource).remove(&RecordKey::Id(id));
                    assert!(gone.is_some(), "{step:?}");
                    let items = self.state.resource_mut(Resource::ChannelItems);
                    items.retain(|key, _| match key {
                        RecordKey::Item { channel, .. } if resource == Resource::Channels => {
                            *channel != id
                        }
                        RecordKey::Item { kind, id: of, .. } if resource == Resource::QrCodes => {
                            kind != "qr" || *of != id
                        }
                        _ => true,
                    });
                }
                (_, Resource::Campaigns) => {
                    let links = self.memory.links_of(number(3));
                    let links: Vec<i64> = links.chain([number(5)]).collect();
                    self.remember(Resource::Campaigns, number(3), "links", json!(links));
                }
                _ => {
                    let item = json!({"channel": number(3), "type": path[5], "id": number(6)});
                    self.put(Resource::ChannelItems, item);
                }
            }
        }
    }

    fn write(&mut self, resource: Resource, id: i64, mut raw: Json, step: &PlanStep) {
        raw["id"] = id.into();
        for (name, value) in step.request.body.iter().flatten() {
            let (_, field) = resource.spec().field(name).unwrap();
            self.remember(resource, id, name, value.clone());
            if name == "slug" {
                let slug = value.as_str().unwrap();
                raw["rotator"] = if slug.is_empty() {
                    json!(false)
                } else {
                    json!(format!("https://s/r/{slug}"))
                };
            }
            if field.is_read() {
                let named = name == "name" || name == "domain";
                raw[name] = match value.as_str().filter(|_| named && self.lowers) {
                    Some(text) => text.to_lowercase().into(),
                    None => value.clone(),
                };
                // A value that an update repeats is stored already, or gets a form by this write.
                let is_changed = step.after.as_ref().is_none_or(|it| it.contains_key(name));
                if is_changed || raw[name] != *value {
                    let (form, both) = form_of(name, value, &raw[name]);
                    self.remember(resource, id, &form, both);
                }
            }
        }
        self.put(resource, raw);
    }
}

/// The desired state of a migration from `source`; `names` are new names of campaigns.
fn migration_from(source: &Model, names: &[(i64, &'static str)]) -> DesiredState {
    let mut desired = DesiredState::of_state(&source.state, "elsewhere");
    desired.origin = Some("https://elsewhere#7".to_owned());
    desired.resources.remove(&Resource::Account);
    for (resource, wanted) in &mut desired.resources {
        wanted.is_complete = false;
        let place = |name| resource.spec().field(name).map(|(place, _)| place);
        for row in &mut wanted.records {
            let id = row.id.unwrap();
            let sent = source.memory.sent.get(&(*resource, RecordKey::Id(id)));
            for name in ["type", "data"].into_iter().filter(|_| *resource == Resource::QrCodes) {
                if let Some(value) = sent.and_then(|sent| sent.get(name)) {
                    row.fields.insert(
                        place(name).unwrap(),
                        crate::model::value::from_json(value).into_owned(),
                    );
                }
            }
            let rotator = row.value(*resource, "rotator").and_then(fields::text);
            if let Some(slug) = rotator.and_then(slug).map(str::to_owned) {
                row.fields
                    .insert(place("slug").unwrap(), crate::model::FieldValue::Text(slug.into()));
            }
            let name = names.iter().find(|(of, _)| *resource == Resource::Campaigns && *of == id);
            if let Some((_, name)) = name {
                row.fields
                    .insert(place("name").unwrap(), crate::model::FieldValue::Text((*name).into()));
            }
        }
    }
    desired
}

/// Whether the table has the endpoint of the request.
fn is_listed(step: &PlanStep) -> bool {
    let path: Vec<_> = step.request.path.split('/').collect();
    step.resource.spec().endpoints.iter().any(|endpoint| {
        let parts: Vec<_> = endpoint.path.split('/').collect();
        let same = |(one, part): (&&str, &&str)| part.starts_with(':') || one == part;
        endpoint.method == step.request.method
            && parts.len() == path.len()
            && path.iter().zip(&parts).all(same)
    })
}

proptest! {
    #[test]
    fn a_plan_for_the_current_state_is_empty(seed: u64) {
        let model = draw(&mut Rng::with_seed(seed));
        let desired = DesiredState::of_state(&model.state, "itself");
        let made = plan(&desired, model.current(), None, &FREE);
        prop_assert_eq!(made, Ok(Plan::default()));
        let based = plan(&desired, model.current(), Some(&model.state), &FREE);
        prop_assert_eq!(based, Ok(Plan::default()));
    }

    #[test]
    fn a_second_plan_is_empty_after_an_apply(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let (wanted, mut live) = (draw(&mut rng), draw(&mut rng));
        live.memory.sent.extend(wanted.memory.sent.clone());
        let mut desired = DesiredState::of_state(&wanted.state, "wanted");
        desired.recreate_missing = rng.u8(..4) > 0;
        let policy = Policy { delete: rng.bool(), account: rng.bool(), ..FREE };
        if let Ok(first) = plan(&desired, live.current(), None, &policy) {
            for (place, step) in first.steps.iter().enumerate() {
                prop_assert_eq!(step.step as usize, place + 1);
                prop_assert!(is_listed(step), "{:?}", step);
                prop_assert!(step.waits_for.iter().all(|it| *it < step.step), "{:?}", step);
                prop_assert!(policy.delete || step.verb != Verb::Delete);
                prop_assert!(step.reversible && step.verifiable || step.remark.is_some());
                prop_assert!(verify_step::describes_state(step, live.current()), "{:?}", step);
            }
            prop_assert!(already_created(&first.steps, live.current()).is_empty());
            let file = saved::SavedPlan::new(("a", "https://s", None), 0, RequestRate { limit: 30, reserve: 5 }, first.clone());
            prop_assert_eq!(saved::read(file.to_json().as_bytes()), Ok(file));
            live.apply(&first);
            let again = plan(&desired, live.current(), None, &policy).unwrap();
            prop_assert_eq!(again.steps, []);
        } else {
            prop_assert!(desired.recreate_missing || live.lowers, "names are different here");
        }
    }

    #[test]
    fn a_part_of_a_plan_is_a_plan_and_the_rest_can_be_planned_after_it(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let (wanted, mut live) = (draw(&mut rng), draw(&mut rng));
        live.memory.sent.extend(wanted.memory.sent.clone());
        let mut desired = DesiredState::of_state(&wanted.state, "wanted");
        desired.recreate_missing = rng.u8(..4) > 0;
        let policy = Policy { delete: rng.bool(), ..FREE };
        if let Ok(whole) = plan(&desired, live.current(), None, &policy) {
            let numbers = whole.steps.iter().map(|step| step.step);
            let declined: BTreeSet<u32> = numbers.filter(|_| rng.u8(..4) == 0).collect();
            let chosen = part(&whole, &declined);
            let all = chosen.plan.steps.len() + declined.len() + chosen.left_out.len();
            prop_assert_eq!(all, whole.steps.len());
            prop_assert!(chosen.left_out.values().all(|cause| declined.contains(cause)));
            let rate = RequestRate { limit: 30, reserve: 5 };
            let file = saved::SavedPlan::new(("a", "https://s", None), 0, rate, chosen.plan.clone());
            prop_assert_eq!(saved::read(file.to_json().as_bytes()), Ok(file));
            live.apply(&chosen.plan);
            let rest = plan(&desired, live.current(), None, &policy).unwrap();
            live.apply(&rest);
            let again = plan(&desired, live.current(), None, &policy).unwrap();
            prop_assert_eq!(again.steps, []);
        }
    }

    /// The two accounts have some ids in common by chance.
    #[test]
    fn a_migration_is_complete_a_second_one_is_empty_and_a_rename_is_one_update(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let (source, mut live) = (draw(&mut rng), draw(&mut rng));
        let before = live.clone();
        let policy = Policy::default();
        let move_once = |live: &mut Model, desired: &DesiredState| {
            let made = plan(desired, live.current(), None, &policy).unwrap();
            live.apply(&made);
            let matched = made.foreign.iter().flat_map(|it| &it.matched);
            live.memory.ids.extend(matched.map(|it| ((it.resource, it.old), it.new)));
            for it in made.foreign.iter().flat_map(|it| &it.agreed) {
                let agreed = live.memory.agreed.entry((it.resource, it.id)).or_default();
                agreed.extend(it.values.clone());
            }
            made
        };
        let desired = migration_from(&source, &[]);
        let first = move_once(&mut live, &desired);
        for step in &first.steps {
            prop_assert!(is_listed(step) && step.verb != Verb::Delete, "{:?}", step);
            prop_assert!(step.origin.is_some());
        }
        let file = saved::SavedPlan::new(("a", "https://s", None), 0, RequestRate { limit: 30, reserve: 5 }, first.clone());
        prop_assert_eq!(saved::read(file.to_json().as_bytes()), Ok(file));
        // Each migrated record has its own target record, and no record of the target was deleted.
        for (resource, wanted) in &desired.resources {
            let all = wanted.records.iter().filter(|_| *resource != Resource::ChannelItems);
            let ids = all.filter_map(|row| live.memory.ids.get(&(*resource, row.id.unwrap())));
            let mut ids: Vec<_> = ids.collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), count, "{}", resource);
            // Fields of an existing record may be unsupported.
            let exists = |key: &str| {
                let old = key.parse();
                old.is_ok_and(|old| live.memory.ids.contains_key(&(*resource, old)))
            };
            let unsupported = first.unsupported.iter();
            let unsupported =
                unsupported.filter(|it| it.resource == *resource && !exists(&it.key));
            if *resource != Resource::ChannelItems {
                prop_assert_eq!(count + unsupported.count(), wanted.records.len(), "{}", resource);
            }
            for key in before.state.get(*resource).unwrap().keys() {
                prop_assert!(live.state.get(*resource).unwrap().contains_key(key));
            }
        }
        prop_assert_eq!(move_once(&mut live, &desired).steps, []);
        if let Some(id) = source.ids(Resource::Campaigns).first() {
            let renamed = migration_from(&source, &[(*id, "Renamed")]);
            let steps = move_once(&mut live, &renamed).steps;
            prop_assert_eq!(steps.len(), 1);
            prop_assert_eq!((steps[0].verb, steps[0].id), (Verb::Update, Some(live.memory.ids[&(Resource::Campaigns, *id)])));
            prop_assert_eq!(move_once(&mut live, &renamed).steps, []);
        }
    }

    #[test]
    fn with_a_base_unedited_records_are_never_changed(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let (base, live) = (draw(&mut rng), draw(&mut rng));
        let desired = DesiredState::of_state(&base.state, "unedited");
        let made = plan(&desired, live.current(), Some(&base.state), &FREE);
        let changed_only = made.map(|plan| plan.steps);
        prop_assert_eq!(changed_only, Ok(Vec::new()));
    }

    #[test]
    fn the_theirs_policy_never_overwrites_values_changed_in_the_account(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let (base, live, mine) = (draw(&mut rng), draw(&mut rng), draw(&mut rng));
        let policy = Policy { on_conflict: OnConflict::Theirs, ..FREE };
        let desired = DesiredState::of_state(&mine.state, "mine");
        let Ok(made) = plan(&desired, live.current(), Some(&base.state), &policy) else {
            return Ok(());
        };
        for step in made.steps.iter().filter(|step| step.verb == Verb::Update) {
            let key = RecordKey::Id(step.id.unwrap());
            let Some(old) = base.state.get(step.resource).unwrap().get(&key) else { continue };
            let now = &live.state.get(step.resource).unwrap()[&key];
            for name in step.after.as_ref().unwrap().keys() {
                let (place, field) = step.resource.spec().field(name).unwrap();
                if field.is_read() {
                    prop_assert!(are_equal(field, &old.values[place], &now.values[place]));
                }
            }
        }
    }
}

/// Matching must not scan all records for each row: that would take hours.
#[test]
fn a_hundred_thousand_rows_are_matched_with_as_many_records() {
    let rows = 100_000;
    let mut live = State::default();
    let all = live.resource_mut(Resource::Campaigns);
    for id in 0..rows {
        let record = record(Resource::Campaigns, &json!({"id": id, "name": format!("c{id}")}));
        all.insert(record.key.clone(), record);
    }
    // A third by id, each taking the next one's name; a third by name; a third new.
    let row = |id: i64| match id % 3 {
        0 => json!({"id": id, "name": format!("C{}", id + 3)}),
        1 => json!({"name": format!("C{id}"), "public": true}),
        _ => json!({"name": format!("new {id}")}),
    };
    let rows: Vec<_> = (0..rows).map(row).collect();
    let desired = tests::sheet(Resource::Campaigns, &rows);
    let plan = tests::planned(&desired, &live);
    assert_eq!((plan.steps.len(), plan.unsupported.len()), (rows.len(), 0));
}
