//! The desired state that reverts a run, computed from its steps and the state before it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::deleted::deleted_since;
use super::journal_step::parse_step;
use super::resolve::{may_be_of_others, was_left_unknown};
use super::verify::{Verification, became, verify};
use crate::apply::response::{says_absent, says_present};
use crate::apply::{ApplyError, step_request};
use crate::change::desired::{
    DesiredRecord, DesiredRecords, DesiredState, RecordRef, SourceLocation, unlisted_sent_fields,
};
use crate::change::plan::{JsonFields, PlanStep, UnsupportedChange};
use crate::model::{
    FieldValue, Record, RecordKey, Resource, Role, RunId, SnapshotId, State, Verb, value,
};
use crate::vault::journal::{Run, StepState};
use crate::vault::{Vault, VaultError};

/// A step that was done, with the id of its record.
#[derive(Debug, Clone)]
pub struct FinishedStep {
    /// The step, from the journal.
    pub step: PlanStep,
    /// The id of its record: the one that a create got, or the one in the plan; `None` if unknown,
    /// or of an assignment.
    pub id: Option<i64>,
}

/// The input of the plan that reverts a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoInput {
    /// The earlier values of changed fields, the records that the run deleted, and, to be deleted,
    /// those that it created. The plan must allow deletes.
    pub desired: DesiredState,
    /// The changes that cannot be reverted, each with its reason.
    pub unsupported: Vec<UnsupportedChange>,
    /// Messages about records that are created again, but not exactly as before.
    pub changed: Vec<String>,
    /// Records that the run took for its own, and that another user may have created. They are
    /// neither deleted nor reported before a person has decided.
    pub uncertain: Vec<UncertainRecord>,
}

/// A record that the run or another user created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncertainRecord {
    /// Its resource.
    pub resource: Resource,
    /// Its id.
    pub id: i64,
    /// The key of the step that took it for its own.
    pub key: String,
}

impl UndoInput {
    /// Decides about the uncertain records: they are deleted, or reported as left.
    pub fn decide_uncertain(&mut self, delete: bool) {
        for UncertainRecord { resource, id, key } in std::mem::take(&mut self.uncertain) {
            if delete {
                self.desired.to_delete.entry(resource).or_default().insert(id);
                continue;
            }
            let title = resource.spec().title;
            let reason = format!(
                "{title} {id} was left: no list shows whether the run or another user created it"
            );
            self.unsupported.push(UnsupportedChange { resource, key, reason, source: None });
        }
    }
}

/// The input of the plan that reverts `run`.
///
/// # Errors
/// If the run does not exist, a step in the journal is invalid, or `forget` has dropped the run's
/// first snapshot.
pub fn undo_run(vault: &mut Vault, run: RunId) -> Result<UndoInput, ApplyError> {
    let journal = vault.run(run)?;
    let rows = vault.steps(run)?;
    if rows.is_empty() {
        return Ok(UndoInput::default());
    }
    let before = match journal.before {
        // Deleting a channel also removes its items, without steps of their own.
        Some(before) => complete_lists(vault, before, &journal.touched, &[Resource::ChannelItems])?,
        None => State::default(),
    };
    let after = state_after_run(vault, &journal)?;
    let ids: BTreeMap<u32, i64> = rows.iter().filter_map(|row| Some((row.step, row.id?))).collect();
    let mut done = Vec::new();
    let mut left = Vec::new();
    let mut uncertain = Vec::new();
    for row in rows {
        let step = parse_step(&row)?;
        let id = row.id.or(step.id);
        let is_true = || is_in_effect(&step, id, &ids, &before, after.as_ref());
        match (row.state, step.verb) {
            (StepState::Done, _) => {
                if let Some(id) = id.filter(|_| may_be_of_others(&row)) {
                    let (resource, key) = (step.resource, step.key.clone());
                    uncertain.push(UncertainRecord { resource, id, key });
                }
                done.push(FinishedStep { step, id });
            }
            // Open steps of a run that is not finished count as if it were ended without a look-up.
            (state, verb)
                if matches!(state, StepState::Sent | StepState::Unknown)
                    || was_left_unknown(&row) =>
            {
                match is_true().filter(|_| verb != Verb::Create) {
                    Some(true) => done.push(FinishedStep { step, id }),
                    Some(false) => {}
                    None => left.push(cannot_undo(&step, "whether it was done is not known")),
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
                    let why = "it was refused, and it is not known whether the run created the \
                               record with its name";
                    left.push(cannot_undo(&step, why));
                } else {
                    done.push(FinishedStep { step, id });
                }
            }
            _ => {}
        }
    }
    let mut undo = undo(&done, &before, &format!("run {run}"));
    undo.unsupported.append(&mut left);
    // Those that are not deleted anyway need no decision.
    for it in uncertain {
        let ids = undo.desired.to_delete.get_mut(&it.resource);
        if ids.is_some_and(|ids| ids.remove(&it.id)) {
            undo.uncertain.push(it);
        }
    }
    if let Some(before) = journal.before {
        undo.desired.deleted = deleted_since(vault, before)?;
    }
    Ok(undo)
}

/// Whether the result that `step` asked for was absent before the run and is present after it,
/// regardless of the response; `None` if no list shows it.
fn is_in_effect(
    step: &PlanStep,
    id: Option<i64>,
    ids: &BTreeMap<u32, i64>,
    before: &State,
    after: Option<&State>,
) -> Option<bool> {
    let ready = step_request::ready(
        step,
        |on| ids.get(&on).copied(),
        &step_request::StepSecrets::default(),
    );
    let params = ready.map_or_else(|_| Vec::new(), |ready| ready.params);
    match verify(step, id, &params, after?).0 {
        Verification::Hidden(_) => None,
        Verification::Differs(_) => Some(false),
        Verification::AsAsked(_) => {
            Some(!matches!(verify(step, id, &params, before).0, Verification::AsAsked(_)))
        }
    }
}

/// `create of campaign Winter`.
fn step_name(step: &PlanStep) -> String {
    format!("{} of {} {}", step.verb.name(), step.resource.spec().title, step.key)
}

/// A step that cannot be reverted.
fn cannot_undo(step: &PlanStep, why: &str) -> UnsupportedChange {
    let reason = format!("the {} cannot be reverted: {why}", step.verb.name());
    UnsupportedChange { resource: step.resource, key: step.key.clone(), reason, source: None }
}

/// The state after `run`, as the base of its undo. Changes that others made since, or during the
/// run, are conflicts. Resources that were not read completely after the run are left out: they
/// would show the state before it, as if it were undone already.
pub fn state_after_run(vault: &mut Vault, run: &Run) -> Result<Option<State>, VaultError> {
    let Some(after) = run.after else { return Ok(None) };
    let mut state = match complete_lists(vault, after, &[], &run.touched) {
        // `forget` has dropped the snapshot.
        Err(VaultError::NoSnapshot(_)) => return Ok(None),
        read => read?,
    };
    let before = match run.before.map(|before| complete_lists(vault, before, &[], &run.touched)) {
        None | Some(Err(VaultError::NoSnapshot(_))) => State::default(),
        Some(read) => read?,
    };
    let mut asked: BTreeMap<(Resource, i64), JsonFields> = BTreeMap::new();
    // The values that the run itself sent, even if others were sent since.
    let sent = state.sent.get_or_insert_default();
    for row in vault.steps(run.number)?.into_iter().filter(|row| row.state == StepState::Done) {
        let Ok(step) = serde_json::from_str::<PlanStep>(&row.spec) else { continue };
        let Some(id) = row.id.or(step.id) else { continue };
        let after = step.after.unwrap_or_default();
        if step.verb == Verb::Update {
            for (name, value) in &after {
                let field = step.resource.spec().field(name);
                if field.is_some_and(|(_, field)| !field.is_read()) && name != "password" {
                    let known = sent.entry((step.resource, RecordKey::Id(id))).or_default();
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
        apply_requested_values(&mut state, &before, resource, id, &fields);
    }
    // The run assigned no items, so the channels that it created had none.
    if !run.touched.contains(&Resource::ChannelItems) {
        state.resource_mut(Resource::ChannelItems);
    }
    Ok(Some(state))
}

/// Puts the values that the run asked for into `state`, where the crawl after the run shows a
/// record differently: others have changed or deleted it in the meantime.
fn apply_requested_values(
    state: &mut State,
    before: &State,
    resource: Resource,
    id: i64,
    asked: &JsonFields,
) {
    let key = RecordKey::Id(id);
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
        if !became(field, value, found).is_same() {
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

/// The resources `all` of a snapshot, and those of `more` that it read completely.
fn complete_lists(
    vault: &mut Vault,
    number: SnapshotId,
    all: &[Resource],
    more: &[Resource],
) -> Result<State, VaultError> {
    let outcomes = vault.snapshot(number)?.outcomes;
    let whole = |it: &&Resource| outcomes.iter().any(|of| of.resource == **it && of.is_complete());
    let which: BTreeSet<_> = all.iter().chain(more.iter().filter(whole)).copied().collect();
    vault.state(number, &which.into_iter().collect::<Vec<_>>())
}

/// The input of the plan that reverts the steps `done` to the state `before`. `name` is the source
/// in messages, such as `run 3`.
#[must_use]
pub fn undo(done: &[FinishedStep], before: &State, name: &str) -> UndoInput {
    let mut builder = UndoBuilder {
        before,
        source: SourceLocation::named(name),
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
        undo: UndoInput::default(),
    };
    builder.undo.desired.recreate_missing = true;
    for it in done {
        builder.step(it);
    }
    builder.undo
}

struct UndoBuilder<'a> {
    before: &'a State,
    source: SourceLocation,
    /// The records that the run created, by step.
    created: BTreeMap<u32, (Resource, i64)>,
    /// The records that the run deleted.
    deleted: BTreeSet<(Resource, i64)>,
    undo: UndoInput,
}

/// Why a record that had this id before the run cannot be reverted.
const ID_REUSED: &str = "the service gave its id to a record that the run created";

impl UndoBuilder<'_> {
    fn step(&mut self, done: &FinishedStep) {
        let step = &done.step;
        match (step.verb, done.id) {
            (Verb::Create, Some(id)) => self.created(step, id),
            (Verb::Update, Some(id)) => self.updated(step, id),
            (Verb::Delete, Some(id)) => self.deleted(step, id),
            (Verb::Assign, _) => self.assigned(step),
            _ => self.add_irreversible(step, "its record is not known"),
        }
    }

    fn add_irreversible(&mut self, step: &PlanStep, why: &str) {
        self.undo.unsupported.push(cannot_undo(step, why));
    }

    fn add_partly_reversible(&mut self, step: &PlanStep, why: &str) {
        let reason = format!("the {} cannot be completely reverted: {why}", step.verb.name());
        self.undo.unsupported.push(UnsupportedChange { reason, ..cannot_undo(step, why) });
    }

    fn record(&self, resource: Resource, id: i64) -> Option<&Record<'static>> {
        self.before.get(resource)?.get(&RecordKey::Id(id))
    }

    fn add_desired(&mut self, resource: Resource, wanted: DesiredRecord) {
        let all: &mut DesiredRecords = self.undo.desired.resources.entry(resource).or_default();
        all.records.push(wanted);
    }

    /// Whether the record that has this id after the run is another one than the record
    /// that had it before.
    fn is_reused(&self, resource: Resource, id: i64) -> bool {
        let record = (resource, id);
        self.deleted.contains(&record) && self.created.values().any(|it| *it == record)
    }

    fn created(&mut self, step: &PlanStep, id: i64) {
        if self.is_reused(step.resource, id) {
            self.add_irreversible(step, "it has the id of a record that existed before the run");
        } else if self.record(step.resource, id).is_some() {
            self.add_irreversible(step, "the service returned a record that existed before");
        } else if step.resource.spec().endpoint(Verb::Delete).is_some() {
            self.undo.desired.to_delete.entry(step.resource).or_default().insert(id);
        } else {
            self.add_irreversible(step, "the API cannot delete it");
        }
    }

    fn updated(&mut self, step: &PlanStep, id: i64) {
        if self.created.values().any(|it| *it == (step.resource, id)) {
            return self.add_irreversible(step, ID_REUSED);
        }
        let mut fields = BTreeMap::new();
        let mut unknown = Vec::new();
        for name in step.after.iter().flat_map(JsonFields::keys) {
            let Some((place, field)) = step.resource.spec().field(name) else { continue };
            let shown = self.record(step.resource, id).and_then(|it| it.values.get(place));
            let told = || step.before.as_ref()?.get(name).filter(|value| !value.is_null());
            match (field.role, shown) {
                (Role::Writable, Some(value)) => {
                    fields.insert(place, value.clone());
                }
                (Role::WriteOnly, _) if told().is_some() => {
                    let raw_value = told().map(ToString::to_string).unwrap_or_default();
                    fields.insert(place, value::read(field.kind, &raw_value).into_owned());
                }
                (Role::Writable | Role::WriteOnly, _) => unknown.push(name.clone()),
                _ => {}
            }
        }
        if !unknown.is_empty() {
            let why = format!("what {} was before is not known", unknown.join(", "));
            match fields.is_empty() {
                true => self.add_irreversible(step, &why),
                false => self.add_partly_reversible(step, &why),
            }
        }
        if !fields.is_empty() {
            let source = Some(self.source.clone());
            self.add_desired(
                step.resource,
                DesiredRecord { id: Some(id), fields, source, ..DesiredRecord::default() },
            );
        }
    }

    fn deleted(&mut self, step: &PlanStep, id: i64) {
        if self.is_reused(step.resource, id) {
            return self.add_irreversible(step, ID_REUSED);
        }
        let Some(record) = self.record(step.resource, id) else {
            return self.add_irreversible(step, "what it was is not known");
        };
        let fields = record.values.iter().cloned().enumerate().skip(1);
        let fields =
            fields.chain(unlisted_sent_fields(self.before, step.resource, &record.key)).collect();
        let source = Some(self.source.clone());
        self.undo.changed.push(format!("{}: it gets a new id", step_name(step)));
        self.add_desired(
            step.resource,
            DesiredRecord { id: Some(id), fields, source, ..DesiredRecord::default() },
        );
        if matches!(step.resource, Resource::Channels | Resource::QrCodes) {
            self.restore_items_of(step, id);
        }
    }

    /// Adds the items that were removed with a channel or with a QR code.
    fn restore_items_of(&mut self, step: &PlanStep, gone: i64) {
        let channels = step.resource == Resource::Channels;
        let Some(items) = self.before.get(Resource::ChannelItems) else {
            return self.add_partly_reversible(
                step,
                match channels {
                    true => "its items were not read, and are not restored",
                    false => "its channels are not known, and it is not added to them again",
                },
            );
        };
        let kind_place = 1;
        for key in items.keys() {
            let RecordKey::Item { channel, kind, id } = key else { continue };
            let (channel, id) = (*channel, *id);
            if if channels { channel == gone } else { kind == "qr" && id == gone } {
                if kind == "qr" && self.is_reused(Resource::QrCodes, id) {
                    let why = format!("QR code {id} is not added to it again");
                    self.add_partly_reversible(step, &why);
                    continue;
                }
                let kind = FieldValue::Text(kind.clone().into());
                let wanted = DesiredRecord {
                    id: Some(id),
                    channel: Some(RecordRef::Id(channel)),
                    fields: BTreeMap::from([(kind_place, kind)]),
                    source: Some(self.source.clone()),
                    ..DesiredRecord::default()
                };
                self.add_desired(Resource::ChannelItems, wanted);
            }
        }
    }

    fn assigned(&mut self, step: &PlanStep) {
        // An assignment to a record that is deleted needs no revert.
        let owner = step.request.path.split('/').nth(3).unwrap_or_default();
        let made = owner.trim_matches(['{', '}']).parse().ok();
        let made =
            made.filter(|_| owner.starts_with('{')).and_then(|it: u32| self.created.get(&it));
        let goes = |(resource, id): &(Resource, i64)| {
            self.undo.desired.to_delete.get(resource).is_some_and(|ids| ids.contains(id))
        };
        if made.is_some_and(goes) || self.existed_before(step) {
            return;
        }
        self.add_irreversible(step, "the API cannot unassign");
    }

    fn existed_before(&self, step: &PlanStep) -> bool {
        let mut made = step.waits_for.iter().filter_map(|on| self.created.get(on));
        if made.any(|(resource, id)| self.is_reused(*resource, *id)) {
            return false;
        }
        let ids = |on: u32| self.created.get(&on).map(|(_, id)| *id);
        let Ok(ready) = step_request::ready(step, ids, &step_request::StepSecrets::default())
        else {
            return false;
        };
        let key = RecordKey::parse(step.resource, &ready.params.join("/"));
        let items =
            self.before.get(step.resource).filter(|_| step.resource == Resource::ChannelItems);
        key.zip(items).is_some_and(|(key, items)| items.contains_key(&key))
    }
}

#[cfg(test)]
mod tests;
