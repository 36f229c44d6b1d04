//! Plans for accounts that are small enough to read.

use serde_json::json;

use super::*;
use crate::change::desired::{Wanted, WantedRecords};
use crate::change::policy::{Bound, OnConflict};
use crate::model::{Decoded, Record};

pub(crate) fn record(resource: Resource, json: &Json) -> Record<'static> {
    let channel = json.get("channel").and_then(Json::as_i64);
    Decoded::read(resource, channel, &json.to_string()).unwrap().record.into_owned()
}

pub(crate) fn state(records: &[(Resource, Json)]) -> State {
    let mut state = State::default();
    for (resource, json) in records {
        let record = record(*resource, json);
        state.resource_mut(*resource).insert(record.key.clone(), record);
    }
    state
}

pub(crate) fn campaigns(count: i64) -> State {
    let all =
        (1..=count).map(|id| (Resource::Campaigns, json!({"id": id, "name": format!("c{id}")})));
    state(&all.collect::<Vec<_>>())
}

/// All of `state` but its first `count` campaigns.
pub(crate) fn delete_all(state: &State, count: usize) -> Desired {
    let mut desired = Desired::of_state(state, "before");
    let wanted = desired.resources.get_mut(&Resource::Campaigns).unwrap();
    wanted.records.drain(..count);
    desired
}

pub(crate) const FREE: Policy = Policy {
    delete: true,
    max_delete: Bound::Percent(100),
    max_update: Bound::Percent(100),
    on_conflict: OnConflict::Fail,
    account: true,
};

pub(crate) fn planned(desired: &Desired, state: &State) -> Plan {
    plan(desired, Current { state, memory: &Memory::default() }, None, &FREE).unwrap()
}

/// Rows of a spreadsheet; a value is JSON, `null` an empty cell.
pub(crate) fn sheet(resource: Resource, rows: &[Json]) -> Desired {
    let row = |(at, json): (usize, &Json)| {
        let mut fields = BTreeMap::new();
        for (name, value) in json.as_object().unwrap() {
            let (place, _) = resource.spec().field(name).unwrap();
            if name != "id" && name != "channel" {
                fields.insert(place, fields::from_json(value).into_owned());
            }
        }
        let channel = json.get("channel").map(|it| match it.as_str() {
            Some(name) => crate::change::desired::Meant::Name(name.to_owned()),
            None => crate::change::desired::Meant::Id(it.as_i64().unwrap()),
        });
        let source = Source { file: "sheet.csv".to_owned(), line: Some(at as u64 + 2) };
        let id = json.get("id").and_then(Json::as_i64);
        Wanted { id, channel, fields, source: Some(source) }
    };
    let records = rows.iter().enumerate().map(row).collect();
    let mut desired = Desired::default();
    desired.resources.insert(resource, WantedRecords { records, whole: false });
    desired
}

fn told(plan: &Plan) -> Vec<String> {
    let body = |step: &Step| step.request.body.clone().map(Json::Object).unwrap_or_default();
    plan.steps
        .iter()
        .map(|step| format!("{} {} {}", step.request.method, step.request.path, body(step)))
        .collect()
}

fn reasons(plan: &Plan) -> Vec<String> {
    plan.unsupported.iter().map(|it| format!("{} {}: {}", it.resource, it.key, it.reason)).collect()
}

#[test]
fn one_edited_cell_is_one_update_with_what_the_api_requires() {
    let live = campaigns(2);
    let plan = planned(&sheet(Resource::Campaigns, &[json!({"id": 2, "public": true})]), &live);
    assert_eq!(told(&plan), [r#"PUT /api/campaign/2/update {"name":"c2","public":true}"#]);
    assert_eq!(plan.steps[0].after, json!({"public": true}).as_object().cloned());
    assert!(plan.steps[0].reversible && plan.steps[0].verifiable);
}

#[test]
fn what_is_absent_from_a_sheet_is_left_alone_and_an_unknown_id_is_told() {
    let live = campaigns(2);
    let rows = [json!({"id": 12, "name": "x"}), json!({"id": 1, "name": "c1"})];
    let plan = planned(&sheet(Resource::Campaigns, &rows), &live);
    assert_eq!(told(&plan), [""; 0]);
    let reason = "campaigns 12: the account has no campaign 12; empty its id to create it";
    assert_eq!(reasons(&plan), [reason]);
}
