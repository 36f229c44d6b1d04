//! What has changed since the plan was made, of what the plan touches.

use std::collections::BTreeSet;
use std::fmt;

use super::settle::{exact_record_key, exact_wanted_key};
use crate::change::plan::claims::is_so;
use crate::change::plan::{Current, Step, fingerprint, made_already};
use crate::model::{Key, Resource, State, Verb};

/// A step that was planned for another state of things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    pub step: u32,
    pub resource: Resource,
    pub key: String,
    pub why: &'static str,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {} {} {}", self.step, self.resource.spec().title, self.key, self.why)
    }
}

/// The steps for which `current` is not what the plan was made for, or says it was.
#[must_use]
pub fn stale(steps: &[Step], current: Current<'_>) -> Vec<Stale> {
    let taken = Taken::new(steps, current.state);
    let made = made_already(steps, current);
    let exists = |step: &Step| made.contains(&step.step) || taken.by(step);
    let why = |step: &Step| match step.verb {
        Verb::Create => exists(step).then_some("exists already"),
        _ => changed(step, current.state)
            .or_else(|| (!is_so(step, current)).then_some("is not what the plan says it is")),
    };
    let stale = |step: &Step| {
        why(step).map(|why| Stale {
            step: step.step,
            resource: step.resource,
            key: step.key.clone(),
            why,
        })
    };
    steps.iter().filter_map(stale).collect()
}

fn changed(step: &Step, state: &State) -> Option<&'static str> {
    let planned = step.fingerprint.as_ref()?;
    let key = Key::Id(step.id?);
    match state.get(step.resource).and_then(|records| records.get(&key)) {
        None => Some("is gone since the plan was made"),
        Some(record) if fingerprint(step.resource, record) != *planned => {
            Some("has changed since the plan was made")
        }
        Some(_) => None,
    }
}

/// The natural keys of what is there and stays there.
struct Taken(BTreeSet<(Resource, Vec<String>)>);

impl Taken {
    fn new(steps: &[Step], state: &State) -> Self {
        let creates = steps.iter().filter(|step| step.verb == Verb::Create);
        let resources: BTreeSet<_> = creates.map(|step| step.resource).collect();
        // What an earlier step deletes or renames gives its key up.
        let given_up: BTreeSet<_> = steps
            .iter()
            .filter(|step| matches!(step.verb, Verb::Delete | Verb::Update))
            .filter_map(|step| Some((step.resource, step.id?)))
            .collect();
        let mut taken = BTreeSet::new();
        for resource in resources {
            for record in state.get(resource).into_iter().flatten().map(|(_, record)| record) {
                if !given_up.contains(&(resource, record.key.id())) {
                    taken.extend(exact_record_key(resource, record).map(|key| (resource, key)));
                }
            }
        }
        Self(taken)
    }

    fn by(&self, step: &Step) -> bool {
        let nameless = |key: &Vec<String>| key.iter().all(String::is_empty);
        let key = exact_wanted_key(step).filter(|key| !nameless(key));
        key.is_some_and(|key| self.0.contains(&(step.resource, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::tests::{records, step};
    use crate::change::plan::Memory;
    use serde_json::json;

    fn stale(steps: &[Step], state: &State) -> Vec<Stale> {
        super::stale(steps, Current { state, memory: &Memory::default() })
    }

    fn state(names: &[(i64, &str)]) -> State {
        let raw: Vec<_> =
            names.iter().map(|(id, name)| json!({"id": id, "name": name}).to_string()).collect();
        let mut state = State::default();
        *state.resource_mut(Resource::Campaigns) = records(Resource::Campaigns, &raw);
        state
    }

    fn delete(id: i64, planned_in: &State) -> Step {
        let path = format!("/api/campaign/{id}/delete");
        let record = &planned_in.get(Resource::Campaigns).unwrap()[&Key::Id(id)];
        let fields = Resource::Campaigns.spec().read_fields().zip(&record.values);
        let fields = fields.map(|(field, value)| (field.name.to_owned(), value.json()));
        Step {
            id: Some(id),
            name: record.values[1].cell().into_owned(),
            before: Some(fields.collect()),
            fingerprint: Some(fingerprint(Resource::Campaigns, record)),
            ..step(1, Resource::Campaigns, Verb::Delete, &path, None)
        }
    }

    fn create(name: &str) -> Step {
        let body = Some(json!({"name": name}));
        step(2, Resource::Campaigns, Verb::Create, "/api/campaign/add", body)
    }

    #[test]
    fn a_record_that_changed_or_went_makes_its_step_stale() {
        let then = state(&[(1, "a"), (2, "b")]);
        assert_eq!(stale(&[delete(1, &then)], &then), []);
        let told = |now: &State| stale(&[delete(1, &then)], now)[0].to_string();
        assert_eq!(
            told(&state(&[(1, "x")])),
            "step 1: campaign k1 has changed since the plan was made"
        );
        assert_eq!(
            told(&state(&[(2, "b")])),
            "step 1: campaign k1 is gone since the plan was made"
        );
    }

    #[test]
    fn a_name_is_taken_as_the_planner_compares_it() {
        let now = state(&[(1, "a b")]);
        assert_eq!(stale(&[create("A b")], &now).len(), 1);
        assert_eq!(stale(&[create("a  b")], &now), [], "another name, for the planner");
    }

    #[test]
    fn a_step_that_calls_its_record_by_another_name_is_not_sent() {
        let now = state(&[(1, "a")]);
        let forged = Step { name: "b".to_owned(), ..delete(1, &now) };
        let why = "step 1: campaign k1 is not what the plan says it is";
        assert_eq!(stale(&[forged], &now)[0].to_string(), why);
    }

    #[test]
    fn a_name_that_is_taken_makes_a_create_stale_unless_the_plan_frees_it() {
        let now = state(&[(1, "A")]);
        assert_eq!(stale(&[create("a")], &now).len(), 1);
        assert_eq!(stale(&[create("b")], &now), []);
        assert_eq!(stale(&[delete(1, &now), create("a")], &now), []);
    }
}
