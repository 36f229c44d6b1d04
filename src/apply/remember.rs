//! Stores the sent values that no list returns, and reads them for plans.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::apply::journal_step::parse_step;
use crate::apply::reconcile::records_of_create;
use crate::apply::verify::{became, unlisted_values};
use crate::apply::{ApplyError, ApplyOptions};
use crate::change::plan::{
    AccountMemory, AgreedValues, MatchedRecord, MigrationMatches, MigrationNote, Plan, PlanStep,
    ROTATOR,
};
use crate::clock::Timestamp;
use crate::model::sent_values::{form_of, stored_form, unseen_form};
use crate::model::{
    Equality, FieldValue, RecordKey, Resource, Role, RunId, SentValue, SentValues, SnapshotId,
    State, Verb,
};
use crate::vault::id_map::IdMapping;
use crate::vault::journal::{
    JournalStep, NewRun, Run, RunCommand, RunStatus, StepState, VerifiedState,
};
use crate::vault::{Vault, VaultError};

/// The sent values and replaced ids that the vault has stored, for a plan.
pub fn account_memory(vault: &Vault) -> Result<AccountMemory, VaultError> {
    let mut sent = vault.sent_values(None, &Resource::ALL)?;
    for ((resource, key, name), value) in unseen_values(vault)? {
        let fields = sent.entry((resource, key)).or_default();
        let is_known = stored_form(fields, &name)
            .is_some_and(|form| form.sent == &value || form.stored == Some(&value));
        if !is_known {
            fields.extend([unseen_form(&name, &value)]);
        }
    }
    Ok(AccountMemory { ids: vault.id_map("")?, sent, ..AccountMemory::default() })
}

/// The values that lists show and that were sent, but not read since, by record and field.
fn unseen_values(
    vault: &Vault,
) -> Result<BTreeMap<(Resource, RecordKey, String), Json>, VaultError> {
    let mut unseen = BTreeMap::new();
    for row in vault.steps_since_unseen()? {
        let Ok(step) = parse_step(&row) else { continue };
        let Some(id) = row.id.or(step.id) else { continue };
        let is_unseen = matches!(row.verified, None | Some(VerifiedState::Hidden));
        for (name, value) in step.request.body.iter().flatten() {
            let field = (step.resource, RecordKey::Id(id), name.clone());
            if is_unseen
                && step.resource.spec().field(name).is_some_and(|(_, field)| field.is_read())
            {
                unseen.insert(field, value.clone());
            } else {
                unseen.remove(&field);
            }
        }
    }
    Ok(unseen)
}

/// Like [`account_memory`], to check whether `steps` are stale.
///
/// # Errors
/// As [`account_memory`].
pub fn memory_for_steps(vault: &Vault, steps: &[PlanStep]) -> Result<AccountMemory, VaultError> {
    let mut memory = account_memory(vault)?;
    if let Some(origin) = steps.iter().find_map(|step| step.origin.as_deref()) {
        let ids = vault.id_map(origin)?.into_iter();
        memory.migrated = ids.map(|((resource, old), new)| ((resource, new), old)).collect();
    }
    Ok(memory)
}

/// Like [`account_memory`], with the sent values as of snapshot `number`.
///
/// # Errors
/// As [`account_memory`].
pub fn account_memory_at(vault: &Vault, number: SnapshotId) -> Result<AccountMemory, VaultError> {
    let sent = vault.sent_values(Some(number), &Resource::ALL)?;
    Ok(AccountMemory { ids: vault.id_map("")?, sent, ..AccountMemory::default() })
}

/// Like [`account_memory`], but with the ids that records of the account `origin` have in this
/// account.
///
/// # Errors
/// As [`account_memory`].
pub fn account_memory_with_ids_of(
    vault: &Vault,
    origin: &str,
) -> Result<AccountMemory, VaultError> {
    let own = account_memory(vault)?;
    let mut ids = vault.id_map(origin)?;
    for ((resource, _), id) in &mut ids {
        // A migrated record may have been deleted and created again since, more than once.
        for _ in 0..64 {
            match own.ids.get(&(*resource, *id)) {
                Some(newer) => *id = *newer,
                None => break,
            }
        }
    }
    Ok(AccountMemory { ids, ..own })
}

/// Like [`account_memory_with_ids_of`], to plan a migration to the account in `state`. Adds from
/// the journal the records that earlier migrations created, even if no response had their id, and
/// the values that they set.
///
/// # Errors
/// If a step in the journal is invalid.
pub fn migration_memory(
    vault: &mut Vault,
    origin: &str,
    state: &State,
) -> Result<AccountMemory, ApplyError> {
    let mut memory = account_memory_with_ids_of(vault, origin)?;
    let (mut moves, mut first) = (Vec::new(), None);
    for run in vault.runs()? {
        let rows = vault.steps(run.number)?;
        let note = migration_note(&run);
        // A saved migration plan is executed by `apply`.
        let may_be_move = run.command == RunCommand::Migrate || note.is_some();
        if !may_be_move && !rows.iter().any(|row| row.spec.contains(origin)) {
            continue;
        }
        let steps: Vec<_> = rows.iter().map(parse_step).collect::<Result<_, _>>()?;
        let is_ours = match &note {
            Some(note) => note.origin == origin,
            None => is_migration_from(&run, &steps, origin),
        };
        if !is_ours {
            continue;
        }
        first = first.or(run.before);
        let is_done = |row: &JournalStep| row.state == StepState::Done && !row.differs();
        let all = rows.into_iter().zip(steps).filter(|(row, _)| is_done(row));
        let done: Vec<_> = all.map(|(row, step)| (row.id, step)).collect();
        moves.push((note.map_or_else(Vec::new, |note| note.agreed), done));
    }
    for (id, step) in moves.iter().flat_map(|(_, done)| done) {
        let Some(old) = step.replaces.filter(|_| step.origin.as_deref() == Some(origin)) else {
            continue;
        };
        if let Some(id) = id.is_none().then(|| created_record(step, state)).flatten() {
            memory.ids.entry((step.resource, old)).or_insert(id);
            let sent = memory.sent.entry((step.resource, RecordKey::Id(id))).or_default();
            for (name, value) in unlisted_values(step) {
                sent.entry(name.to_owned()).or_insert_with(|| value.clone());
            }
        }
    }
    let olds = memory.ids.iter().map(|((resource, old), new)| ((*resource, *new), *old));
    let olds: BTreeMap<_, _> = olds.collect();
    for (found, done) in &moves {
        for AgreedValues { resource, id, values } in found {
            memory.agreed.entry((*resource, *id)).or_default().extend(values.clone());
        }
        add_moved_values(done, origin, &olds, &mut memory);
    }
    if let Some(first) = first {
        add_base_values(vault, first, &mut memory)?;
    }
    Ok(memory)
}

/// Adds the values that the steps `done` of one migration from `origin` have set. `olds` maps ids
/// of this account to ids of `origin`.
fn add_moved_values(
    done: &[(Option<i64>, PlanStep)],
    origin: &str,
    olds: &BTreeMap<(Resource, i64), i64>,
    memory: &mut AccountMemory,
) {
    for (_, step) in done {
        let moved = step.id.and_then(|id| olds.get(&(step.resource, id)).copied());
        let old = match step.verb {
            Verb::Create if step.origin.as_deref() == Some(origin) => step.replaces,
            Verb::Update => moved,
            _ => None,
        };
        let Some(old) = old else { continue };
        let agreed = memory.agreed.entry((step.resource, old)).or_default();
        if step.verb == Verb::Create {
            // The fields that it did not send were empty in the source.
            let fields = step.resource.spec().fields.iter();
            let fields = fields.filter(|it| matches!(it.role, Role::Writable | Role::WriteOnly));
            agreed.extend(fields.map(|field| (field.name.to_owned(), Json::Null)));
        }
        let sent = step.after.iter().flatten().filter(|(name, _)| *name != "password");
        agreed.extend(sent.map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// The note about a migration in the journal of a run.
fn migration_note(run: &Run) -> Option<MigrationNote> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Noted {
        moved: Option<MigrationNote>,
    }
    serde_json::from_str::<Noted>(&run.plan).unwrap_or_default().moved
}

/// Stores the values that a migration without steps found equal on both sides, as a run without
/// steps. The texts for the journal are in `options`.
pub fn save_agreement(
    vault: &mut Vault,
    options: &ApplyOptions,
    foreign: &MigrationMatches,
    snapshot: SnapshotId,
    now: Timestamp,
) -> Result<(), VaultError> {
    let mut touched: Vec<_> = foreign.agreed.iter().map(|it| it.resource).collect();
    touched.dedup();
    if touched.is_empty() {
        return Ok(());
    }
    let new = NewRun {
        command: options.command,
        input: options.input.clone(),
        plan_id: String::new(),
        plan: options.plan.clone(),
        touched,
        before: snapshot,
        steps: Vec::new(),
    };
    let run = vault.begin_run(&new, now)?;
    vault.suspend_run(run, RunStatus::Complete, Some(snapshot), 0, now)
}

/// Whether a run migrated records from the account `origin`. The journal of a run by an earlier
/// version that created nothing does not name the account; then any migration counts.
fn is_migration_from(run: &Run, steps: &[PlanStep], origin: &str) -> bool {
    let mut origins = steps.iter().filter_map(|step| step.origin.as_deref());
    origins.next().map_or(run.command == RunCommand::Migrate, |it| it == origin)
}

/// Adds the values of the snapshot before the first migration. A value that no migration has set or
/// noted was equal on both sides then, or is still to be set. Migrations of earlier versions noted
/// no values.
fn add_base_values(
    vault: &mut Vault,
    first: SnapshotId,
    memory: &mut AccountMemory,
) -> Result<(), VaultError> {
    let before = match vault.state(first, &Resource::ALL) {
        // `forget` has dropped the snapshot.
        Err(VaultError::NoSnapshot(_)) => return Ok(()),
        read => read?,
    };
    for ((resource, old), new) in &memory.ids {
        let records = before.get(*resource);
        let Some(record) = records.and_then(|it| it.get(&RecordKey::Id(*new))) else { continue };
        let agreed = memory.agreed_at_first_migration.entry((*resource, *old)).or_default();
        let fields = resource.spec().read_fields().zip(&record.values);
        for (field, value) in fields.filter(|(field, _)| field.role == Role::Writable) {
            agreed.insert(field.name.to_owned(), value.json());
        }
    }
    Ok(())
}

/// The record of a create whose response had no id: the only record with its natural key.
pub(super) fn created_record(step: &PlanStep, state: &State) -> Option<i64> {
    let mut found = records_of_create(step, state.get(step.resource)?);
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only.key.id()),
        _ => None,
    }
}

/// Stores which records of this account were found to match those of another account. `saved`: the
/// plan is from a file.
pub fn save_matches(
    vault: &mut Vault,
    plan: &Plan,
    saved: bool,
    now: Timestamp,
) -> Result<(), VaultError> {
    let Some(foreign) = &plan.foreign else { return Ok(()) };
    let known = vault.id_map(&foreign.origin)?;
    // A plan file must not replace a known id.
    let is_new = |it: &&MatchedRecord| match known.get(&(it.resource, it.old)) {
        Some(here) => !saved && *here != it.new,
        None => true,
    };
    let new = foreign.matched.iter().filter(is_new);
    let new = new.map(|it| IdMapping {
        origin: foreign.origin.clone(),
        resource: it.resource,
        old: it.old,
        new: it.new,
    });
    let new: Vec<_> = new.collect();
    vault.note_ids(RunId::default(), &new, now)
}

/// The sent values to store for `step`, whose record has `id`.
pub(super) fn sent_values_of_step(step: &PlanStep, id: i64) -> Vec<SentValue> {
    // The rotator that the service derives from a slug is not known yet.
    let unseen = sends_slug(step).then_some((ROTATOR, &Json::Null));
    let all = unlisted_values(step).chain(unseen);
    all.map(|(field, value)| remembered(step, id, field, value)).collect()
}

fn remembered(step: &PlanStep, id: i64, field: &str, value: &Json) -> SentValue {
    SentValue {
        resource: step.resource,
        key: RecordKey::Id(id),
        field: field.to_owned(),
        value: value.clone(),
        created: step.verb == Verb::Create,
    }
}

fn sends_slug(step: &PlanStep) -> bool {
    let body = step.request.body.as_ref();
    step.resource == Resource::Campaigns && body.is_some_and(|body| body.contains_key("slug"))
}

/// The rotator in the first crawl after `step`, if the step sent a slug. Later crawls of a resumed
/// run do not count: others may have changed it since.
pub(super) fn rotator_after_step(
    vault: &Vault,
    step: &PlanStep,
    id: i64,
    state: &State,
) -> Result<Option<SentValue>, VaultError> {
    let key = RecordKey::Id(id);
    let record = state.get(step.resource).and_then(|records| records.get(&key));
    let Some(record) = record.filter(|_| sends_slug(step)) else { return Ok(None) };
    let known = vault.remembered(step.resource, &key)?;
    if known.get(ROTATOR).is_some_and(|seen| !seen.is_null()) {
        return Ok(None);
    }
    let place = step.resource.spec().field(ROTATOR).map(|(place, _)| place);
    let shown = place.and_then(|place| record.values.get(place)).map(FieldValue::cell);
    Ok(shown.map(|shown| remembered(step, id, ROTATOR, &Json::from(shown))))
}

/// The forms that the service has stored the values of `step` in, from the list in `state`, for the
/// record `id`. An exact value is noted only in place of another form of the same value.
pub(super) fn stored_forms(
    known: &SentValues,
    step: &PlanStep,
    id: i64,
    state: &State,
) -> Vec<SentValue> {
    let key = RecordKey::Id(id);
    let record = state.get(step.resource).and_then(|records| records.get(&key));
    let sent = step.request.body.as_ref().or(step.after.as_ref());
    let Some((record, sent)) = record.zip(sent) else { return Vec::new() };
    // An update repeats some values. They are stored already, or get a form by this write.
    let is_changed = |name: &str| step.after.as_ref().is_none_or(|it| it.contains_key(name));
    let known = known.get(&(step.resource, key));
    let has_form = |name: &str| known.is_some_and(|known| stored_form(known, name).is_some());
    let mut forms = Vec::new();
    for (name, sent) in sent {
        let Some((place, field)) = step.resource.spec().field(name) else { continue };
        let Some(found) = record.values.get(place).filter(|_| field.is_read()) else { continue };
        let is_noted = match became(field, sent, found) {
            Equality::Equal => is_changed(name) && has_form(field.name),
            Equality::Stored => true,
            Equality::Different => false,
        };
        if is_noted {
            let (name, form) = form_of(field.name, sent, &found.json());
            forms.push(remembered(step, id, &name, &form));
        }
    }
    forms
}

/// Leaves out the values that an update had to repeat and did not change. They are stored already,
/// while the repeated value may have the form that the service gave them.
pub(super) fn changed_sent_values(
    vault: &Vault,
    step: &PlanStep,
    mut sent: Vec<SentValue>,
) -> Result<Vec<SentValue>, VaultError> {
    let is_changed = |name: &str| step.after.as_ref().is_none_or(|it| it.contains_key(name));
    let Some(key) = sent.iter().find(|it| !is_changed(&it.field)).map(|it| it.key.clone()) else {
        return Ok(sent);
    };
    let known = vault.remembered(step.resource, &key)?;
    sent.retain(|it| {
        let before = known.get(&it.field);
        let form = stored_form(&known, &it.field).and_then(|form| form.stored);
        is_changed(&it.field) || ![before, form].contains(&Some(&it.value))
    });
    Ok(sent)
}

/// The sent values to store for a link that was assigned to a campaign.
pub(super) fn sent_values_of_link(
    vault: &Vault,
    params: &[String],
) -> Result<Vec<SentValue>, VaultError> {
    let numbers: Option<Vec<i64>> = params.iter().map(|it| it.parse().ok()).collect();
    let Some([campaign, link]) = numbers.as_deref() else { return Ok(Vec::new()) };
    let key = RecordKey::Id(*campaign);
    let known = vault.remembered(Resource::Campaigns, &key)?;
    let known = known.get("links").and_then(Json::as_array).into_iter().flatten();
    let mut links: Vec<i64> = known.filter_map(Json::as_i64).collect();
    if !links.contains(link) {
        links.push(*link);
    }
    let field = "links".to_owned();
    let value = Json::from(links);
    Ok(vec![SentValue { resource: Resource::Campaigns, key, field, value, created: false }])
}

/// Which record replaces which, if a create replaced a record.
pub(super) fn id_mapping(step: &PlanStep, id: Option<i64>) -> Option<IdMapping> {
    let (old, new) = step.replaces.zip(id).filter(|_| step.verb == Verb::Create)?;
    let origin = step.origin.clone().unwrap_or_default();
    Some(IdMapping { origin, resource: step.resource, old, new })
}

#[cfg(test)]
mod tests {
    use crate::apply::remember::*;
    use crate::apply::tests::step;
    use crate::vault::journal::{NewRun, StepResult, StepVerification};
    use serde_json::json;

    /// Seeds 70003818, 70000024, 70001377 and 70003504 of `sim::migrations`: the response to a
    /// create had no id, and its list could not be read at the end of the run.
    #[test]
    fn a_migrated_record_is_known_even_if_its_create_returned_no_id() {
        let mut vault = Vault::in_memory().unwrap();
        let body = json!({"name": "Spring", "public": true});
        let mut create = step(1, Resource::Campaigns, Verb::Create, "/x", Some(body));
        create.replaces = Some(7);
        create.origin = Some("http://old#1".to_owned());
        let run = NewRun {
            command: RunCommand::Migrate,
            touched: vec![Resource::Campaigns],
            steps: vec![serde_json::to_string(&create).unwrap()],
            ..NewRun::default()
        };
        let run = vault.begin_run(&run, Timestamp(0)).unwrap();
        vault.mark_sent(run, &[1], Timestamp(0)).unwrap();
        let done = StepResult::of(StepState::Done);
        vault.record_result(run, 1, &done, Timestamp(0), false).unwrap();
        // The service stores names in another form.
        let mut state = State::default();
        let records = [json!({"id": 3, "name": "spring"}), json!({"id": 4, "name": "other"})];
        let records: Vec<_> = records.iter().map(ToString::to_string).collect();
        *state.resource_mut(Resource::Campaigns) =
            crate::apply::tests::records(Resource::Campaigns, &records);
        let memory = migration_memory(&mut vault, "http://old#1", &state).unwrap();
        assert_eq!(memory.ids, BTreeMap::from([((Resource::Campaigns, 7), 3)]));
        assert_eq!(memory.sent[&(Resource::Campaigns, RecordKey::Id(3))]["name"], "Spring");
        let agreed = &memory.agreed[&(Resource::Campaigns, 7)];
        assert_eq!((&agreed["name"], &agreed["slug"]), (&json!("Spring"), &Json::Null));
        let other = migration_memory(&mut vault, "http://other#1", &state).unwrap();
        assert_eq!((other.ids.len(), other.agreed.len()), (0, 0));
    }

    /// A resumed run verifies the steps again that were done before.
    #[test]
    fn the_rotator_of_the_first_crawl_after_a_slug_is_stored() {
        let body = json!({"name": "a", "slug": "s"});
        let step = step(1, Resource::Campaigns, Verb::Update, "/x", Some(body));
        let mut vault = Vault::in_memory().unwrap();
        let looks = |vault: &mut Vault, shown: &str| {
            let raw = [json!({"id": 1, "name": "a", "rotator": shown}).to_string()];
            let mut state = State::default();
            *state.resource_mut(Resource::Campaigns) =
                crate::apply::tests::records(Resource::Campaigns, &raw);
            store(vault, rotator_after_step(vault, &step, 1, &state).unwrap());
            vault.remembered(Resource::Campaigns, &RecordKey::Id(1)).unwrap()[ROTATOR].to_string()
        };
        assert_eq!(looks(&mut vault, "https://x/r/s-1"), r#""https://x/r/s-1""#);
        assert_eq!(looks(&mut vault, "https://x/r/theirs"), r#""https://x/r/s-1""#);
        // It is sent again.
        let sent = changed_sent_values(&vault, &step, sent_values_of_step(&step, 1)).unwrap();
        store(&mut vault, sent);
        assert_eq!(looks(&mut vault, "https://x/r/s-2"), r#""https://x/r/s-2""#);
    }

    fn store(vault: &mut Vault, all: impl IntoIterator<Item = SentValue>) {
        for it in all {
            let value = it.value.to_string();
            vault.remember(it.resource, &it.key, &it.field, &value, Timestamp(0)).unwrap();
        }
    }

    /// Seed 20213 of `sim::random_pushes`: the list could not be read after the first run.
    #[test]
    fn a_value_that_no_list_showed_counts_until_a_later_write_is_verified() {
        let mut vault = Vault::in_memory().unwrap();
        let mut run = |name: &str, verified: Option<VerifiedState>| {
            let body = json!({"name": name}).as_object().cloned();
            let mut step = step(1, Resource::Channels, Verb::Update, "/x", body.map(Json::Object));
            step.id = Some(3);
            let new = NewRun {
                command: RunCommand::Import,
                input: String::new(),
                plan_id: name.to_owned(),
                plan: String::new(),
                touched: vec![Resource::Channels],
                before: SnapshotId::default(),
                steps: vec![serde_json::to_string(&step).unwrap()],
            };
            let now = Timestamp(0);
            let number = vault.begin_run(&new, now).unwrap();
            vault.record_result(number, 1, &StepResult::of(StepState::Done), now, false).unwrap();
            let result = verified.map(|result| StepVerification {
                step: 1,
                result,
                remark: None,
                id: None,
                remember: Vec::new(),
                maps: None,
            });
            vault.verify_steps(number, result.as_slice(), now).unwrap();
            vault.suspend_run(number, RunStatus::Complete, None, 0, now).unwrap();
            unseen_values(&vault).unwrap().into_values().collect::<Vec<_>>()
        };
        assert_eq!(run("News", Some(VerifiedState::Hidden)), [json!("News")]);
        assert_eq!(run("NEWS", Some(VerifiedState::Verified)), Vec::<Json>::new());
        assert_eq!(run("Other", None), [json!("Other")]);
    }

    #[test]
    fn a_lowercased_name_that_is_sent_back_does_not_replace_the_original() {
        let body = Some(json!({"name": "spring", "public": true}));
        let mut step = step(1, Resource::Campaigns, Verb::Update, "/x", body);
        step.after = json!({"public": true}).as_object().cloned();
        let mut vault = Vault::in_memory().unwrap();
        let new = |vault: &Vault, step: &PlanStep| {
            changed_sent_values(vault, step, sent_values_of_step(step, 1)).unwrap()
        };
        assert_eq!(new(&vault, &step).len(), 1, "the service may give it another form");
        let key = RecordKey::Id(1);
        vault.remember(Resource::Campaigns, &key, "name", "\"Spring\"", Timestamp(0)).unwrap();
        let (name, form) = form_of("name", &"Spring".into(), &"spring".into());
        vault.remember(Resource::Campaigns, &key, &name, &form.to_string(), Timestamp(0)).unwrap();
        assert_eq!(new(&vault, &step), []);
        step.after = json!({"name": "spring", "public": true}).as_object().cloned();
        assert_eq!(new(&vault, &step).len(), 1);
    }
}
