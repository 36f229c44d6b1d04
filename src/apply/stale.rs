//! What changed since the plan was made, in the records that its steps depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::apply::reconcile;
use crate::apply::verify::became;
use crate::change::plan::fingerprints::{RecordFingerprint, fingerprints};
use crate::change::plan::verify_step::describes_state;
use crate::change::plan::{CurrentState, PlanStep, already_created, fingerprint};
use crate::model::equality::are_equal;
use crate::model::{KeyForm, NaturalKey, Record, RecordKey, Resource, Role, State, Verb};

/// A step whose records changed since the plan was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleStep {
    /// Number of the step in the plan.
    pub step: u32,
    /// The resource that the step writes.
    pub resource: Resource,
    /// The name of the record in the plan ([`PlanStep::key`]).
    pub key: String,
    /// The reason, for people: a predicate such as `exists already`.
    pub why: String,
}

impl fmt::Display for StaleStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {} {} {}", self.step, self.resource.spec().title, self.key, self.why)
    }
}

/// The steps whose records in `current` differ from those that the plan was made for, or from what
/// the plan says about them.
#[must_use]
pub fn stale_steps(steps: &[PlanStep], current: CurrentState<'_>) -> Vec<StaleStep> {
    let taken = TakenKeys::new(steps, current);
    let made = already_created(steps, current);
    let exists = |step: &PlanStep| made.contains(&step.step) || taken.contains_key_of(step);
    let why = |step: &PlanStep| {
        let why = match step.verb {
            Verb::Create => exists(step).then(|| "exists already".to_owned()),
            _ => changed(step, current.state),
        };
        why.or_else(|| {
            (!describes_state(step, current)).then(|| "is not as the plan describes it".into())
        })
    };
    let stale = |step: &PlanStep| {
        why(step).map(|why| StaleStep {
            step: step.step,
            resource: step.resource,
            key: step.key.clone(),
            why,
        })
    };
    steps.iter().filter_map(stale).collect()
}

const GONE: &str = "was deleted after the plan was made";
const CHANGED: &str = "has changed since the plan was made";

fn changed(step: &PlanStep, state: &State) -> Option<String> {
    fingerprints(step).find_map(|it| {
        let records = state.get(it.resource);
        // Without the list, an assignment's records cannot be compared.
        let read = records.is_some() || step.verb != Verb::Assign;
        let why = match records.and_then(|records| records.get(&RecordKey::Id(it.id))) {
            None => GONE,
            Some(record) if fingerprint(it.resource, record) != it.fingerprint => CHANGED,
            Some(_) => return None,
        };
        read.then(|| stale_reason(step, it, why))
    })
}

/// The reason; of an assignment, which has several records, with the record that it is about.
fn stale_reason(step: &PlanStep, it: RecordFingerprint<'_>, why: &str) -> String {
    match step.verb {
        Verb::Assign => format!("names {} {}, which {why}", it.resource.spec().title, it.id),
        _ => why.to_owned(),
    }
}

/// What others have changed in the records that `step` depends on, between `then`, the run's first
/// snapshot, and `now`. `ours` returns the updates of a record by this run that took effect or may
/// have.
#[must_use]
pub fn changed_by_others<'a>(
    step: &PlanStep,
    then: &State,
    now: &State,
    ours: impl Fn(Resource, i64) -> Vec<&'a PlanStep>,
) -> Option<String> {
    fingerprints(step).find_map(|it| {
        let key = RecordKey::Id(it.id);
        let Some(found) = now.get(it.resource)?.get(&key) else {
            return Some(stale_reason(step, it, GONE));
        };
        let ours = ours(it.resource, it.id);
        let Some(then) = then.get(it.resource).and_then(|records| records.get(&key)) else {
            let same = !ours.is_empty() || fingerprint(it.resource, found) == it.fingerprint;
            return (!same).then(|| stale_reason(step, it, CHANGED));
        };
        let what = changed_fields(it.resource, then, found, &ours);
        (!what.is_empty())
            .then(|| stale_reason(step, it, &format!("{CHANGED}: {}", what.join("; "))))
    })
}

/// The fields of a record that changed between `then` and `now`, except for the changes that `ours`
/// made.
fn changed_fields(
    resource: Resource,
    then: &Record<'_>,
    now: &Record<'_>,
    ours: &[&PlanStep],
) -> Vec<String> {
    let asked = |step: &&PlanStep, name: &str| {
        let sent = step.request.body.as_ref().and_then(|body| body.get(name));
        sent.or_else(|| step.after.as_ref()?.get(name)).cloned()
    };
    let fields = resource.spec().read_fields().zip(&then.values).zip(&now.values);
    let mut all = Vec::new();
    for ((field, was), is) in fields.filter(|((field, _), _)| field.role != Role::Counter) {
        // The service derives read-only fields, such as URLs, from the fields that were sent.
        let follows = field.role == Role::ReadOnly && !ours.is_empty();
        let is_asked = |step: &&PlanStep| {
            asked(step, field.name).is_some_and(|asked| became(field, &asked, is).is_same())
        };
        let is_changed = !are_equal(field, was, is);
        if is_changed && !follows && !ours.iter().any(is_asked) {
            let (old, new) = (was.cell(), is.cell());
            all.push(format!("`{}` was `{old}` and is `{new}`", field.name));
        }
    }
    all
}

/// The natural keys of the records that exist and that no step deletes or renames.
struct TakenKeys<'a> {
    ids: BTreeMap<(Resource, NaturalKey), Vec<i64>>,
    /// [`AccountMemory::migrated`](crate::change::plan::AccountMemory::migrated)
    migrated: &'a BTreeMap<(Resource, i64), i64>,
}

impl<'a> TakenKeys<'a> {
    fn new(steps: &[PlanStep], CurrentState { state, memory }: CurrentState<'a>) -> Self {
        let creates = steps.iter().filter(|step| step.verb == Verb::Create);
        let resources: BTreeSet<_> = creates.map(|step| step.resource).collect();
        // A record that a step deletes or updates may give up its key.
        let given_up: BTreeSet<_> = steps
            .iter()
            .filter(|step| matches!(step.verb, Verb::Delete | Verb::Update))
            .filter_map(|step| Some((step.resource, step.id?)))
            .collect();
        let mut taken: BTreeMap<_, Vec<i64>> = BTreeMap::new();
        for resource in resources {
            for record in state.get(resource).into_iter().flatten().map(|(_, record)| record) {
                if !given_up.contains(&(resource, record.key.id())) {
                    for key in memory.natural_keys(resource, record) {
                        taken.entry((resource, key)).or_default().push(record.key.id());
                    }
                }
            }
        }
        Self { ids: taken, migrated: &memory.migrated }
    }

    fn contains_key_of(&self, step: &PlanStep) -> bool {
        // The record of another record of the source may have a name that differs in case only. The
        // service decides whether it accepts both.
        let is_other = |id: &i64| {
            let old = self.migrated.get(&(step.resource, *id));
            step.origin.is_some() && old.is_some() && old != step.replaces.as_ref()
        };
        let key = reconcile::step_key(step, KeyForm::Exact);
        let ids = key.and_then(|key| self.ids.get(&(step.resource, key)));
        ids.is_some_and(|ids| !ids.iter().all(is_other))
    }
}

#[cfg(test)]
mod tests {
    use crate::apply::stale::*;
    use crate::apply::tests::{records, step};
    use crate::change::plan::AccountMemory;
    use serde_json::json;

    fn stale(steps: &[PlanStep], state: &State) -> Vec<StaleStep> {
        stale_steps(steps, CurrentState { state, memory: &AccountMemory::default() })
    }

    fn state(names: &[(i64, &str)]) -> State {
        let raw: Vec<_> =
            names.iter().map(|(id, name)| json!({"id": id, "name": name}).to_string()).collect();
        let mut state = State::default();
        *state.resource_mut(Resource::Campaigns) = records(Resource::Campaigns, &raw);
        state
    }

    fn delete(id: i64, planned_in: &State) -> PlanStep {
        let path = format!("/api/campaign/{id}/delete");
        let record = &planned_in.get(Resource::Campaigns).unwrap()[&RecordKey::Id(id)];
        let fields = Resource::Campaigns.spec().read_fields().zip(&record.values);
        let fields = fields.map(|(field, value)| (field.name.to_owned(), value.json()));
        PlanStep {
            id: Some(id),
            name: record.values[1].cell().into_owned(),
            before: Some(fields.collect()),
            fingerprint: Some(fingerprint(Resource::Campaigns, record)),
            ..step(1, Resource::Campaigns, Verb::Delete, &path, None)
        }
    }

    fn create(name: &str) -> PlanStep {
        let body = Some(json!({"name": name}));
        step(2, Resource::Campaigns, Verb::Create, "/api/campaign/add", body)
    }

    #[test]
    fn a_changed_or_deleted_record_makes_its_step_stale() {
        let then = state(&[(1, "a"), (2, "b")]);
        assert_eq!(stale(&[delete(1, &then)], &then), []);
        let told = |now: &State| stale(&[delete(1, &then)], now)[0].to_string();
        assert_eq!(
            told(&state(&[(1, "x")])),
            "step 1: campaign k1 has changed since the plan was made"
        );
        assert_eq!(
            told(&state(&[(2, "b")])),
            "step 1: campaign k1 was deleted after the plan was made"
        );
    }

    #[test]
    fn names_are_compared_as_in_the_planner() {
        let now = state(&[(1, "a b")]);
        assert_eq!(stale(&[create("A b")], &now).len(), 1);
        assert_eq!(stale(&[create("a  b")], &now), [], "another name, for the planner");
    }

    #[test]
    fn a_step_with_a_wrong_record_name_is_not_sent() {
        let now = state(&[(1, "a")]);
        let forged = PlanStep { name: "b".to_owned(), ..delete(1, &now) };
        let why = "step 1: campaign k1 is not as the plan describes it";
        assert_eq!(stale(&[forged], &now)[0].to_string(), why);
    }

    #[test]
    fn an_existing_name_makes_a_create_stale_unless_the_plan_frees_it() {
        let now = state(&[(1, "A")]);
        assert_eq!(stale(&[create("a")], &now).len(), 1);
        assert_eq!(stale(&[create("b")], &now), []);
        assert_eq!(stale(&[delete(1, &now), create("a")], &now), []);
    }
}
