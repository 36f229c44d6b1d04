//! Reused ids: a desired record was deleted, and the service has given its id to another record.

use std::collections::HashSet;

use super::fields::text;
use super::types::{AccountMemory, CurrentState};
use crate::change::desired::{DesiredRecord, DesiredState};
use crate::model::equality::domain_host;
use crate::model::natural_key::value_text;
use crate::model::{FieldValue, KeyForm, NaturalKey, Record, RecordKey, Resource, State};

/// The ids of desired records that other records of the account have now.
#[derive(Debug, Default)]
pub(super) struct ReusedIds(HashSet<(Resource, i64)>);

impl ReusedIds {
    /// Finds the reused ids among the ids of deleted records.
    pub fn new(desired: &DesiredState, current: CurrentState<'_>, base: Option<&State>) -> Self {
        let mut all = HashSet::new();
        // Ids of a source account do not identify records of this one.
        if desired.origin.is_some() {
            return Self(all);
        }
        let live = |resource, id| current.state.get(resource)?.get(&RecordKey::Id(id));
        let deleted = desired.deleted.iter().filter(|(of, id)| live(*of, *id).is_some());
        all.extend(deleted.copied());
        for (resource, wanted) in &desired.resources {
            for row in &wanted.records {
                let record = (*resource, row.id.unwrap_or_default());
                let live = live(record.0, record.1).filter(|_| all.contains(&record));
                let mine = |name: &str| row.value(*resource, name);
                if live.is_some_and(|live| is_same(*resource, mine, live, current.memory)) {
                    all.remove(&record);
                }
            }
        }
        all.retain(|(resource, id)| {
            let before = base.and_then(|base| base.get(*resource)?.get(&RecordKey::Id(*id)));
            let is_same = |(before, live): (&Record<'static>, &Record<'static>)| {
                let mine = |name: &str| value(*resource, before, name);
                is_same(*resource, mine, live, current.memory)
            };
            !before.zip(live(*resource, *id)).is_some_and(is_same)
        });
        Self(all)
    }

    pub fn contains(&self, resource: Resource, id: i64) -> bool {
        self.0.contains(&(resource, id))
    }
}

fn value<'r>(
    resource: Resource,
    record: &'r Record<'static>,
    name: &str,
) -> Option<&'r FieldValue<'static>> {
    record.values.get(resource.spec().field(name)?.0)
}

/// Whether a deleted record was restored under its old id: the natural keys are equal or, for QR
/// codes, whose content no list shows, the dates.
fn is_same<'v>(
    resource: Resource,
    mine: impl Fn(&str) -> Option<&'v FieldValue<'static>>,
    live: &Record<'static>,
    memory: &AccountMemory,
) -> bool {
    let date = |it: Option<&'v FieldValue<'static>>| it.and_then(text).filter(|it| !it.is_empty());
    let theirs = value(resource, live, "date").and_then(text);
    if resource == Resource::QrCodes && date(mine("date")).is_some_and(|it| Some(it) == theirs) {
        return true;
    }
    let key = NaturalKey::of(resource, KeyForm::Exact, |name| mine(name).map(value_text));
    key.is_some_and(|key| memory.natural_keys(resource, live).any(|it| it == key))
}

/// Whether `live` is another record than `row`, because it differs in fields that the API cannot
/// change. `fixed` has the names of the differing ones.
pub(super) fn is_other_record(
    resource: Resource,
    row: &DesiredRecord,
    live: &Record<'static>,
    fixed: &[&str],
) -> bool {
    let host_of = |value: Option<&FieldValue<'static>>| value.and_then(text).map(domain_host);
    match resource {
        // The scheme of a domain can change.
        Resource::Domains => {
            host_of(row.value(resource, "domain")) != host_of(value(resource, live, "domain"))
                && fixed.contains(&"domain")
        }
        Resource::QrCodes => fixed.contains(&"link") && fixed.contains(&"date"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::super::{AccountMemory, Plan, plan};
    use super::*;
    use crate::change::policy::Policy;
    use crate::model::Verb;
    use serde_json::{Value as Json, json};

    fn state(resource: Resource, all: &[Json]) -> State {
        let mut state = State::default().with_sent(Some(Default::default()));
        for raw in all {
            let record = record(resource, raw);
            state.resource_mut(resource).insert(record.key.clone(), record);
        }
        state
    }

    /// The plan that restores `then` from `now`; the records `deleted` were deleted between the
    /// two.
    fn restored(resource: Resource, then: &[Json], now: &[Json], deleted: &[i64]) -> Plan {
        let mut desired = DesiredState::of_state(&state(resource, then), "then");
        desired.deleted = deleted.iter().map(|id| (resource, *id)).collect();
        let (now, memory) = (state(resource, now), AccountMemory::default());
        let current = CurrentState { state: &now, memory: &memory };
        plan(&desired, current, None, &Policy::default()).unwrap()
    }

    fn steps(plan: &Plan) -> Vec<(Verb, Option<i64>, Option<i64>)> {
        plan.steps.iter().map(|step| (step.verb, step.id, step.replaces)).collect()
    }

    #[test]
    fn a_record_with_a_reused_id_is_not_changed() {
        let then = [json!({"id": 4, "name": "Summer", "public": true})];
        let now = [json!({"id": 4, "name": "Winter", "public": false})];
        let renamed = restored(Resource::Campaigns, &then, &now, &[]);
        assert_eq!(steps(&renamed), [(Verb::Update, Some(4), None)]);
        let made = restored(Resource::Campaigns, &then, &now, &[4]);
        assert_eq!(steps(&made), [(Verb::Create, None, None)]);
        let name = "Winter".to_owned();
        assert_eq!(
            made.reused,
            [super::super::ReusedId { resource: Resource::Campaigns, id: 4, name }]
        );
        // The record was restored under its old id, or under another one.
        let same = [json!({"id": 4, "name": "summer", "public": true})];
        assert_eq!(steps(&restored(Resource::Campaigns, &then, &same, &[4])).len(), 1);
        let both = [now[0].clone(), json!({"id": 9, "name": "Summer", "public": true})];
        let found = restored(Resource::Campaigns, &then, &both, &[4]);
        assert_eq!((steps(&found), found.reused.len()), (vec![], 1));
    }

    fn reasons(plan: &Plan) -> Vec<&str> {
        plan.unsupported.iter().map(|it| it.reason.as_str()).collect()
    }

    #[test]
    fn a_domain_with_another_host_is_another_domain() {
        let domain =
            |host: &str, root: &str| json!({"id": 3, "domain": host, "redirectroot": root});
        let then = [domain("https://a.example", "https://x/")];
        let same = [domain("http://A.example", "https://y/")];
        let made = restored(Resource::Domains, &then, &same, &[]);
        assert_eq!(made.steps[0].verb, Verb::Update, "{made:?}");
        let now = [domain("https://b.example", "https://y/")];
        let other = restored(Resource::Domains, &then, &now, &[]);
        let why = "the API cannot change the `domain` of a branded domain; the id is that of another \
                   record now, which is not changed";
        assert_eq!((steps(&other), reasons(&other)), (vec![], vec![why]));
        let made = restored(Resource::Domains, &then, &now, &[3]);
        assert_eq!(steps(&made), [(Verb::Create, None, None)]);
    }

    #[test]
    fn a_code_with_another_link_and_date_is_another_code() {
        let code =
            |link: &str, date: &str| json!({"id": 3, "name": "c", "link": link, "date": date});
        let plan = |now: Json, deleted: &[i64]| {
            let mut then = state(Resource::QrCodes, &[code("https://x/1", "2026-01-01 00:00:00")]);
            let sent = [("type", json!("text")), ("data", json!("a"))];
            let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
            let key = (Resource::QrCodes, RecordKey::Id(3));
            then.sent.as_mut().unwrap().insert(key.clone(), sent);
            let mut desired = DesiredState::of_state(&then, "then");
            desired.deleted = deleted.iter().map(|id| (Resource::QrCodes, *id)).collect();
            let now = state(Resource::QrCodes, &[now]);
            let mut memory = AccountMemory::default();
            let sent = [("type", json!("text")), ("data", json!("b"))];
            let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
            memory.sent.insert(key, sent);
            let current = CurrentState { state: &now, memory: &memory };
            plan(&desired, current, None, &Policy::default()).unwrap()
        };
        let (old, new) = ("2026-01-01 00:00:00", "2026-01-02 00:00:00");
        let update = [(Verb::Update, Some(3), None)];
        assert_eq!(steps(&plan(code("https://x/1", old), &[])), update);
        assert_eq!(steps(&plan(code("https://x/1", new), &[])), update);
        assert_eq!(steps(&plan(code("https://x/1", old), &[3])), update);
        let other = plan(code("https://x/2", new), &[]);
        assert_eq!((steps(&other), other.unsupported.len()), (vec![], 1));
        let made = plan(code("https://x/1", new), &[3]);
        assert_eq!(steps(&made), [(Verb::Create, None, None)]);
    }

    #[test]
    fn an_export_of_a_deleted_record_does_not_change_the_record_with_its_id() {
        let then =
            state(Resource::Campaigns, &[json!({"id": 4, "name": "Summer", "public": true})]);
        let now = state(Resource::Campaigns, &[json!({"id": 4, "name": "Winter", "public": true})]);
        let mut desired = DesiredState::of_state(&then, "sheets");
        desired.recreate_missing = false;
        let memory = AccountMemory::default();
        let current = CurrentState { state: &now, memory: &memory };
        let planned = |desired: &DesiredState, delete: bool| {
            let policy = Policy { delete, ..Policy::default() };
            plan(desired, current, Some(&then), &policy)
        };
        let place = Resource::Campaigns.spec().field("public").unwrap().0;
        let mut edited = desired.clone();
        let rows = edited.resources.get_mut(&Resource::Campaigns).unwrap();
        rows.records[0].fields.insert(place, FieldValue::Bool(false));
        assert_eq!(steps(&planned(&edited, false).unwrap()), [(Verb::Update, Some(4), None)]);
        edited.deleted.insert((Resource::Campaigns, 4));
        let problems = planned(&edited, false).unwrap_err();
        assert!(
            problems.to_string().ends_with("was edited in the input and is gone from the account")
        );
        // Removing the row does not delete the record that has the id now.
        desired.deleted.insert((Resource::Campaigns, 4));
        desired.resources.get_mut(&Resource::Campaigns).unwrap().records.clear();
        desired.to_delete.insert(Resource::Campaigns, [4].into());
        assert_eq!(steps(&planned(&desired, true).unwrap()), []);
    }
}
