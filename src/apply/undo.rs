//! The way back from a run: pure, from its steps and the state before it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::{says_absent, says_present};
use super::resolve::MAY_BE_DONE;
use super::run;
use super::verify::{Look, is_as_asked, look};
use super::{ApplyError, request};
use crate::change::desired::{Desired, Meant, Source, Wanted, WantedRecords, hidden};
use crate::change::plan::{Fields, Step, Unsupported};
use crate::model::{Key, Record, Resource, Role, State, Value, Verb, value};
use crate::vault::journal::{Run, StepState};
use crate::vault::{Vault, VaultError};

/// A step that was done, with the id of its record.
#[derive(Debug, Clone)]
pub struct DoneStep {
    pub step: Step,
    pub id: Option<i64>,
}

/// What leads back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undo {
    /// Fields as they were, records that the run deleted, and those it created as
    /// unwanted. To be planned with deletes allowed.
    pub desired: Desired,
    /// What stays as the run made it, each with its reason.
    pub unsupported: Vec<Unsupported>,
    /// What comes back, but not as it was.
    pub changed: Vec<String>,
}

/// The way back from `run` of the vault.
///
/// # Errors
/// When there is no such run, or its first snapshot cannot be read any more.
pub fn undo_of(vault: &mut Vault, run: i64) -> Result<Undo, ApplyError> {
    let journal = vault.run(run)?;
    let before = match journal.before {
        // What a channel held is gone with it, though no step speaks of it.
        Some(before) => read_whole(vault, before, &journal.touched, &[Resource::ChannelItems])?,
        None => State::default(),
    };
    let after = left_by(vault, &journal)?;
    let rows = vault.steps(run)?;
    let ids: BTreeMap<u32, i64> = rows.iter().filter_map(|row| Some((row.step, row.id?))).collect();
    let mut done = Vec::new();
    let mut left = Vec::new();
    for row in rows {
        let step = run::step_of(&row)?;
        let id = row.id.or(step.id);
        let is_true = || became_true(&step, id, &ids, &before, after.as_ref());
        match (row.state, step.verb) {
            (StepState::Done, _) => done.push(DoneStep { step, id }),
            (StepState::Skipped, verb) if row.message.as_deref() == Some(MAY_BE_DONE) => {
                match is_true().filter(|_| verb != Verb::Create) {
                    Some(true) => done.push(DoneStep { step, id }),
                    Some(false) => {}
                    None => left.push(stays(&step, "whether it was done is not known")),
                }
            }
            (StepState::Refused, verb) => {
                let said = row.message.as_deref().unwrap_or_default();
                // Others had done it already.
                let theirs = match verb {
                    Verb::Delete => says_absent(said),
                    _ => says_present(said),
                };
                if theirs || is_true() != Some(true) {
                    continue;
                }
                if verb == Verb::Create {
                    let why = "it was refused, and whether the record of its name is the run's \
                               is not known";
                    left.push(stays(&step, why));
                } else {
                    done.push(DoneStep { step, id });
                }
            }
            _ => {}
        }
    }
    let mut undo = undo(&done, &before, &format!("run {run}"));
    undo.unsupported.append(&mut left);
    Ok(undo)
}

/// Whether what `step` asked for was not so before the run and is so after it,
/// whatever it was answered; `None` where no list tells.
fn became_true(
    step: &Step,
    id: Option<i64>,
    ids: &BTreeMap<u32, i64>,
    before: &State,
    after: Option<&State>,
) -> Option<bool> {
    let ready = request::ready(step, |on| ids.get(&on).copied(), &request::Secrets::default());
    let params = ready.map_or_else(|_| Vec::new(), |ready| ready.params);
    match look(step, id, &params, after?).0 {
        Look::Hidden(_) => None,
        Look::Differs(_) => Some(false),
        Look::AsAsked(_) => Some(!matches!(look(step, id, &params, before).0, Look::AsAsked(_))),
    }
}

/// `create of campaign Winter`.
fn called(step: &Step) -> String {
    format!("{} of {} {}", step.verb.name(), step.resource.spec().title, step.key)
}

/// A step that is not taken back.
fn stays(step: &Step, why: &str) -> Unsupported {
    let reason = format!("the {} cannot be taken back: {why}", step.verb.name());
    Unsupported { resource: step.resource, key: step.key.clone(), reason, source: None }
}

/// What `run` left, to be the base of its undo. Changes that others made since, or during
/// the run, are conflicts. Resources that were not read whole after the run are absent: they
/// would show the time before it, as if it were undone already.
///
/// # Errors
/// When the vault cannot be read.
pub fn left_by(vault: &mut Vault, run: &Run) -> Result<Option<State>, VaultError> {
    let Some(after) = run.after else { return Ok(None) };
    let mut state = match read_whole(vault, after, &[], &run.touched) {
        // It was forgotten.
        Err(VaultError::NoSnapshot(_)) => return Ok(None),
        read => read?,
    };
    let before = match run.before.map(|before| read_whole(vault, before, &[], &run.touched)) {
        None | Some(Err(VaultError::NoSnapshot(_))) => State::default(),
        Some(read) => read?,
    };
    let mut asked: BTreeMap<(Resource, i64), Fields> = BTreeMap::new();
    // Whatever was sent since, this is what the run itself sent.
    let sent = state.sent.get_or_insert_default();
    for row in vault.steps(run.number)?.into_iter().filter(|row| row.state == StepState::Done) {
        let Ok(step) = serde_json::from_str::<Step>(&row.spec) else { continue };
        let Some(id) = row.id.or(step.id) else { continue };
        let after = step.after.unwrap_or_default();
        if step.verb == Verb::Update {
            for (name, value) in &after {
                let field = step.resource.spec().field(name);
                if field.is_some_and(|(_, field)| !field.is_read()) && name != "password" {
                    let known = sent.entry((step.resource, Key::Id(id))).or_default();
                    known.insert(name.clone(), value.clone());
                }
            }
        }
        match step.verb {
            Verb::Create | Verb::Update => {
                asked.entry((step.resource, id)).or_default().extend(after);
            }
            Verb::Delete => {
                asked.remove(&(step.resource, id));
            }
            _ => {}
        }
    }
    for ((resource, id), fields) in asked {
        left_as_asked(&mut state, &before, resource, id, &fields);
    }
    // It gave no channel an item, so the channels that it made had none.
    if !run.touched.contains(&Resource::ChannelItems) {
        state.resource_mut(Resource::ChannelItems);
    }
    Ok(Some(state))
}

/// Where the look after a run showed a record not as the run left it, others changed
/// or deleted it meanwhile: puts into `state` what the run asked for.
fn left_as_asked(state: &mut State, before: &State, resource: Resource, id: i64, asked: &Fields) {
    let key = Key::Id(id);
    if state.get(resource).is_none() {
        return;
    }
    let records = state.resource_mut(resource);
    let was = || before.get(resource)?.get(&key).cloned();
    let Some(mut record) = records.get(&key).cloned().or_else(was) else { return };
    let mut differs = !records.contains_key(&key);
    for (name, value) in asked {
        let field = resource.spec().field(name).filter(|(_, field)| field.is_read());
        let Some((place, field)) = field else { continue };
        let Some(found) = record.values.get_mut(place) else { continue };
        if !is_as_asked(field.kind, value, found) {
            *found = value::read(field.kind, &value.to_string()).into_owned();
            differs = true;
        }
    }
    if differs {
        // The service never sent this record.
        record.raw = Cow::Borrowed("");
        records.insert(key, record);
    }
}

/// The resources `all` of a snapshot, and those of `more` that it read whole.
fn read_whole(
    vault: &mut Vault,
    number: i64,
    all: &[Resource],
    more: &[Resource],
) -> Result<State, VaultError> {
    let outcomes = vault.snapshot(number)?.outcomes;
    let whole = |it: &&Resource| outcomes.iter().any(|of| of.resource == **it && of.is_whole());
    let which: BTreeSet<_> = all.iter().chain(more.iter().filter(whole)).copied().collect();
    vault.state(number, &which.into_iter().collect::<Vec<_>>())
}

/// What leads back from `done` to what `before` holds of it.
#[must_use]
pub fn undo(done: &[DoneStep], before: &State, name: &str) -> Undo {
    let mut back = Way {
        before,
        source: Source { file: name.to_owned(), line: None },
        created: done
            .iter()
            .filter(|it| it.step.verb == Verb::Create)
            .filter_map(|it| Some((it.step.step, (it.step.resource, it.id?))))
            .collect(),
        deleted: done
            .iter()
            .filter(|it| it.step.verb == Verb::Delete)
            .filter_map(|it| Some((it.step.resource, it.id?)))
            .collect(),
        undo: Undo::default(),
    };
    back.undo.desired.recreate = true;
    for it in done {
        back.step(it);
    }
    back.undo
}

struct Way<'a> {
    before: &'a State,
    source: Source,
    /// What the run created, by step.
    created: BTreeMap<u32, (Resource, i64)>,
    /// What the run deleted.
    deleted: BTreeSet<(Resource, i64)>,
    undo: Undo,
}

/// Why a record that had this id before the run cannot be set back.
const REUSED: &str = "the service gave its id to a record that the run created";

impl Way<'_> {
    fn step(&mut self, done: &DoneStep) {
        let step = &done.step;
        match (step.verb, done.id) {
            (Verb::Create, Some(id)) => self.created(step, id),
            (Verb::Update, Some(id)) => self.updated(step, id),
            (Verb::Delete, Some(id)) => self.deleted(step, id),
            (Verb::Assign, _) => self.assigned(step),
            _ => self.lost(step, "which record it was is not known"),
        }
    }

    fn lost(&mut self, step: &Step, why: &str) {
        self.undo.unsupported.push(stays(step, why));
    }

    fn lost_in_part(&mut self, step: &Step, why: &str) {
        let reason = format!("the {} cannot be taken back whole: {why}", step.verb.name());
        self.undo.unsupported.push(Unsupported { reason, ..stays(step, why) });
    }

    fn record(&self, resource: Resource, id: i64) -> Option<&Record<'static>> {
        self.before.get(resource)?.get(&Key::Id(id))
    }

    fn want(&mut self, resource: Resource, wanted: Wanted) {
        let all: &mut WantedRecords = self.undo.desired.resources.entry(resource).or_default();
        all.records.push(wanted);
    }

    /// Whether the record that has this id after the run is another one than the record
    /// that had it before.
    fn is_reused(&self, resource: Resource, id: i64) -> bool {
        let record = (resource, id);
        self.deleted.contains(&record) && self.created.values().any(|it| *it == record)
    }

    fn created(&mut self, step: &Step, id: i64) {
        if self.is_reused(step.resource, id) {
            self.lost(step, "it has the id of a record that was there before the run");
        } else if self.record(step.resource, id).is_some() {
            self.lost(step, "the service answered with a record that was there before");
        } else if step.resource.spec().endpoint(Verb::Delete).is_some() {
            self.undo.desired.unwanted.entry(step.resource).or_default().insert(id);
        } else {
            self.lost(step, "the API cannot delete it");
        }
    }

    fn updated(&mut self, step: &Step, id: i64) {
        if self.created.values().any(|it| *it == (step.resource, id)) {
            return self.lost(step, REUSED);
        }
        let mut fields = BTreeMap::new();
        let mut unknown = Vec::new();
        for name in step.after.iter().flat_map(Fields::keys) {
            let Some((place, field)) = step.resource.spec().field(name) else { continue };
            let shown = self.record(step.resource, id).and_then(|it| it.values.get(place));
            let told = || step.before.as_ref()?.get(name).filter(|value| !value.is_null());
            match (field.role, shown) {
                (Role::Writable, Some(value)) => {
                    fields.insert(place, value.clone());
                }
                (Role::WriteOnly, _) if told().is_some() => {
                    let lexeme = told().map(ToString::to_string).unwrap_or_default();
                    fields.insert(place, value::read(field.kind, &lexeme).into_owned());
                }
                (Role::Writable | Role::WriteOnly, _) => unknown.push(name.clone()),
                _ => {}
            }
        }
        if !unknown.is_empty() {
            let why = format!("what {} was before is not known", unknown.join(", "));
            match fields.is_empty() {
                true => self.lost(step, &why),
                false => self.lost_in_part(step, &why),
            }
        }
        if !fields.is_empty() {
            let source = Some(self.source.clone());
            self.want(step.resource, Wanted { id: Some(id), channel: None, fields, source });
        }
    }

    fn deleted(&mut self, step: &Step, id: i64) {
        if self.is_reused(step.resource, id) {
            return self.lost(step, REUSED);
        }
        let Some(record) = self.record(step.resource, id) else {
            return self.lost(step, "what it was is not known");
        };
        let fields = record.values.iter().cloned().enumerate().skip(1);
        let fields = fields.chain(hidden(self.before, step.resource, &record.key)).collect();
        let source = Some(self.source.clone());
        self.undo.changed.push(format!("{}: it comes back with a new id", called(step)));
        self.want(step.resource, Wanted { id: Some(id), channel: None, fields, source });
        if matches!(step.resource, Resource::Channels | Resource::QrCodes) {
            self.items_of(step, id);
        }
    }

    /// The items that went with a channel, or with the code that they are.
    fn items_of(&mut self, step: &Step, gone: i64) {
        let channels = step.resource == Resource::Channels;
        let Some(items) = self.before.get(Resource::ChannelItems) else {
            return self.lost_in_part(
                step,
                match channels {
                    true => "its items were not read, and do not come back",
                    false => {
                        "in which channels it was is not known, and it does not come back there"
                    }
                },
            );
        };
        let kind_place = 1;
        for key in items.keys() {
            let Key::Item { channel, kind, id } = key else { continue };
            let (channel, id) = (*channel, *id);
            if if channels { channel == gone } else { kind == "qr" && id == gone } {
                if kind == "qr" && self.is_reused(Resource::QrCodes, id) {
                    let why = format!("QR code {id} does not come back into it");
                    self.lost_in_part(step, &why);
                    continue;
                }
                let kind = Value::Text(kind.clone().into());
                let wanted = Wanted {
                    id: Some(id),
                    channel: Some(Meant::Id(channel)),
                    fields: BTreeMap::from([(kind_place, kind)]),
                    source: Some(self.source.clone()),
                };
                self.want(Resource::ChannelItems, wanted);
            }
        }
    }

    fn assigned(&mut self, step: &Step) {
        // What was given to a record that goes away goes with it.
        let owner = step.request.path.split('/').nth(3).unwrap_or_default();
        let made = owner.trim_matches(['{', '}']).parse().ok();
        let made =
            made.filter(|_| owner.starts_with('{')).and_then(|it: u32| self.created.get(&it));
        let goes = |(resource, id): &(Resource, i64)| {
            self.undo.desired.unwanted.get(resource).is_some_and(|ids| ids.contains(id))
        };
        if made.is_some_and(goes) || self.was_there(step) {
            return;
        }
        self.lost(step, "the API cannot unassign");
    }

    fn was_there(&self, step: &Step) -> bool {
        let mut made = step.waits_for.iter().filter_map(|on| self.created.get(on));
        if made.any(|(resource, id)| self.is_reused(*resource, *id)) {
            return false;
        }
        let ids = |on: u32| self.created.get(&on).map(|(_, id)| *id);
        let Ok(ready) = request::ready(step, ids, &request::Secrets::default()) else {
            return false;
        };
        let key = Key::parse(step.resource, &ready.params.join("/"));
        let items =
            self.before.get(step.resource).filter(|_| step.resource == Resource::ChannelItems);
        key.zip(items).is_some_and(|(key, items)| items.contains_key(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::tests::{records, step};
    use serde_json::json;

    fn before() -> State {
        let mut state = State::default();
        let raw = [
            json!({"id": 1, "name": "one", "public": true}).to_string(),
            json!({"id": 2, "name": "two", "public": false}).to_string(),
        ];
        *state.resource_mut(Resource::Campaigns) = records(Resource::Campaigns, &raw);
        state
    }

    fn done(verb: Verb, path: &str, id: i64, body: Option<serde_json::Value>) -> DoneStep {
        DoneStep { step: step(1, Resource::Campaigns, verb, path, body), id: Some(id) }
    }

    #[test]
    fn what_was_changed_is_wanted_as_it_was_and_nothing_else() {
        let body = Some(json!({"name": "new", "slug": "s"}));
        let undo =
            undo(&[done(Verb::Update, "/api/campaign/1/update", 1, body)], &before(), "run 1");
        let wanted = &undo.desired.resources[&Resource::Campaigns];
        assert!(!wanted.whole && wanted.records.len() == 1);
        assert_eq!(wanted.records[0].fields, BTreeMap::from([(1, Value::Text("one".into()))]));
        let reason = "the update cannot be taken back whole: what slug was before is not known";
        assert_eq!(undo.unsupported[0].reason, reason);
        assert_eq!((undo.unsupported.len(), undo.unsupported[0].key.as_str()), (1, "k1"));
    }

    #[test]
    fn what_was_deleted_is_created_anew_and_what_was_created_is_deleted() {
        let all = [
            done(Verb::Delete, "/api/campaign/2/delete", 2, None),
            done(Verb::Create, "/api/campaign/add", 9, Some(json!({"name": "new"}))),
        ];
        let undo = undo(&all, &before(), "run 1");
        assert!(undo.desired.recreate);
        let unwanted = BTreeMap::from([(Resource::Campaigns, [9].into())]);
        assert_eq!(undo.desired.unwanted, unwanted);
        let wanted = &undo.desired.resources[&Resource::Campaigns];
        assert_eq!((wanted.whole, wanted.records[0].id), (false, Some(2)));
    }

    #[test]
    fn what_was_there_before_is_not_deleted_whatever_a_create_was_answered() {
        let create = done(Verb::Create, "/api/campaign/add", 2, Some(json!({"name": "new"})));
        let undo = undo(&[create], &before(), "run 1");
        assert_eq!(undo.desired.unwanted, BTreeMap::new());
        assert_eq!(undo.unsupported.len(), 1);
    }

    #[test]
    fn a_record_with_the_id_of_a_deleted_one_is_not_changed_into_it() {
        let all = [
            done(Verb::Delete, "/api/campaign/2/delete", 2, None),
            DoneStep {
                step: Step {
                    step: 2,
                    ..done(Verb::Create, "/api/campaign/add", 2, Some(json!({"name": "new"}))).step
                },
                id: Some(2),
            },
            // Others deleted 1 while the run was under way.
            done(Verb::Update, "/api/campaign/1/update", 1, Some(json!({"name": "changed"}))),
            DoneStep {
                step: Step {
                    step: 4,
                    ..done(Verb::Create, "/api/campaign/add", 1, Some(json!({"name": "more"}))).step
                },
                id: Some(1),
            },
        ];
        let undo = undo(&all, &before(), "run 1");
        assert_eq!(undo.desired, Desired { recreate: true, ..Desired::default() });
        let reasons: Vec<_> = undo.unsupported.iter().map(|it| it.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "the delete cannot be taken back: the service gave its id to a record that the \
                 run created",
                "the create cannot be taken back: it has the id of a record that was there before \
                 the run",
                "the update cannot be taken back: the service gave its id to a record that the \
                 run created",
                "the create cannot be taken back: the service answered with a record that was \
                 there before",
            ]
        );
    }

    /// Channel 7 and code 3 are deleted, and their ids are given to a new channel with a
    /// new code. Channel 8, which held code 3, is deleted too.
    #[test]
    fn an_item_of_a_record_with_the_id_of_a_deleted_one_was_not_there() {
        let mut before = State::default();
        *before.resource_mut(Resource::QrCodes) =
            records(Resource::QrCodes, &[json!({"id": 3, "name": "code"}).to_string()]);
        let channels =
            [7, 8].map(|id| json!({"id": id, "name": format!("channel {id}")}).to_string());
        *before.resource_mut(Resource::Channels) = records(Resource::Channels, &channels);
        for channel in [7, 8] {
            let raw = json!({"type": "qr", "id": 3}).to_string();
            let item = crate::model::Decoded::read(Resource::ChannelItems, Some(channel), &raw);
            let item = item.unwrap().record.into_owned();
            before.resource_mut(Resource::ChannelItems).insert(item.key.clone(), item);
        }
        let done = |number, resource, verb, path: &str, id, waits_for: &[u32]| DoneStep {
            step: Step {
                waits_for: waits_for.to_vec(),
                ..step(number, resource, verb, path, None)
            },
            id,
        };
        let all = [
            done(1, Resource::Channels, Verb::Delete, "/api/channel/7/delete", Some(7), &[]),
            done(2, Resource::Channels, Verb::Delete, "/api/channel/8/delete", Some(8), &[]),
            done(3, Resource::QrCodes, Verb::Delete, "/api/qr/3/delete", Some(3), &[]),
            done(4, Resource::Channels, Verb::Create, "/api/channel/add", Some(7), &[]),
            done(5, Resource::QrCodes, Verb::Create, "/api/qr/add", Some(3), &[]),
            done(
                6,
                Resource::ChannelItems,
                Verb::Assign,
                "/api/channel/{4}/assign/qr/{5}",
                None,
                &[4, 5],
            ),
        ];
        let undo = undo(&all, &before, "run 1");
        assert_eq!(undo.desired.unwanted, BTreeMap::new());
        let wanted: Vec<_> = undo.desired.resources.keys().copied().collect();
        assert_eq!(wanted, [Resource::Channels], "no item comes back");
        let reasons: Vec<_> = undo.unsupported.iter().map(|it| it.reason.as_str()).collect();
        let in_part = "the delete cannot be taken back whole: QR code 3 does not come back into it";
        assert_eq!(reasons.len(), 6, "{reasons:?}");
        assert!(reasons.contains(&in_part), "{reasons:?}");
        assert!(reasons.contains(&"the assign cannot be taken back: the API cannot unassign"));
    }

    #[test]
    fn a_code_comes_back_into_the_channels_that_held_it() {
        let code = json!({"id": 3, "name": "code"}).to_string();
        let mut before = State::default();
        *before.resource_mut(Resource::QrCodes) = records(Resource::QrCodes, &[code]);
        let path = "/api/qr/3/delete";
        let gone =
            DoneStep { step: step(1, Resource::QrCodes, Verb::Delete, path, None), id: Some(3) };
        let unread = undo(std::slice::from_ref(&gone), &before, "run 1");
        assert!(!unread.desired.resources.contains_key(&Resource::ChannelItems));
        assert!(unread.unsupported[0].reason.contains("in which channels it was"), "{unread:?}");
        for (channel, kind, id) in [(7, "qr", 3), (7, "links", 3), (8, "qr", 4)] {
            let raw = json!({"type": kind, "id": id}).to_string();
            let item = crate::model::Decoded::read(Resource::ChannelItems, Some(channel), &raw);
            let item = item.unwrap().record.into_owned();
            before.resource_mut(Resource::ChannelItems).insert(item.key.clone(), item);
        }
        let wanted = undo(&[gone], &before, "run 1").desired.resources;
        let items: Vec<_> = wanted[&Resource::ChannelItems]
            .records
            .iter()
            .map(|it| (it.channel.clone(), it.id))
            .collect();
        assert_eq!(items, [(Some(Meant::Id(7)), Some(3))]);
    }

    #[test]
    fn what_the_api_cannot_take_back_is_listed() {
        let pixel = DoneStep {
            step: step(1, Resource::Pixels, Verb::Create, "/api/pixel/add", None),
            id: Some(4),
        };
        let path = "/api/channel/7/assign/links/5";
        let item =
            DoneStep { step: step(2, Resource::ChannelItems, Verb::Assign, path, None), id: None };
        let undo = undo(&[pixel, item], &State::default(), "run 1");
        assert!(undo.desired.unwanted.is_empty());
        assert_eq!(undo.unsupported.len(), 2, "{:?}", undo.unsupported);
    }
}
