//! Plans for accounts that are small enough to read.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::change::desired::{CampaignLink, DesiredRecord, DesiredRecords, SourceLocation};
use crate::change::policy::OnConflict;
use crate::change::staleness::StalenessLimit;
use crate::model::{CountOrPercent, DecodedRecord, Record, RecordKey, Resource, Verb};

pub(crate) fn record(resource: Resource, json: &Json) -> Record<'static> {
    let channel = json.get("channel").and_then(Json::as_i64);
    DecodedRecord::read(resource, channel, &json.to_string()).unwrap().record.into_owned()
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

/// `state` without its first `count` campaigns.
pub(crate) fn delete_all(state: &State, count: usize) -> DesiredState {
    let mut desired = DesiredState::of_state(state, "before");
    let wanted = desired.resources.get_mut(&Resource::Campaigns).unwrap();
    wanted.records.drain(..count);
    desired
}

pub(crate) const FREE: Policy = Policy {
    delete: true,
    allow_empty: false,
    max_delete: CountOrPercent::Percent(100.0),
    max_update: CountOrPercent::Percent(100.0),
    on_conflict: OnConflict::Fail,
    account: true,
};

pub(crate) fn planned(desired: &DesiredState, state: &State) -> Plan {
    plan(desired, CurrentState { state, memory: &AccountMemory::default() }, None, &FREE).unwrap()
}

/// A plan of `count` equal steps, for tests that depend only on the number of steps.
pub(crate) fn steps(count: usize) -> Plan {
    let row = json!({"id": 1, "name": "Another name"});
    let one = planned(&sheet(Resource::Campaigns, &[row]), &campaigns(2)).steps;
    Plan { steps: vec![one[0].clone(); count], ..Plan::default() }
}

/// Rows of a spreadsheet; a value is JSON, `null` an empty cell.
pub(crate) fn sheet(resource: Resource, rows: &[Json]) -> DesiredState {
    let row = |(at, json): (usize, &Json)| {
        let mut fields = BTreeMap::new();
        for (name, value) in json.as_object().unwrap() {
            let (place, _) = resource.spec().field(name).unwrap();
            if name != "id" && name != "channel" {
                fields.insert(place, crate::model::value::from_json(value).into_owned());
            }
        }
        let channel = json.get("channel").map(|it| match it.as_str() {
            Some(name) => crate::change::desired::RecordRef::Name(name.to_owned()),
            None => crate::change::desired::RecordRef::Id(it.as_i64().unwrap()),
        });
        let mut source = SourceLocation::named("sheet.csv");
        source.line = Some(at as u64 + 2);
        let (id, source) = (json.get("id").and_then(Json::as_i64), Some(source));
        DesiredRecord { id, channel, fields, source, ..DesiredRecord::default() }
    };
    let records = rows.iter().enumerate().map(row).collect();
    let resources = [(resource, DesiredRecords { records, is_complete: false })].into();
    DesiredState { resources, ..DesiredState::default() }
}

pub(crate) fn requests(plan: &Plan) -> Vec<String> {
    let body = |step: &PlanStep| step.request.body.clone().map(Json::Object).unwrap_or_default();
    plan.steps
        .iter()
        .map(|step| format!("{} {} {}", step.request.method, step.request.path, body(step)))
        .collect()
}

fn reasons(plan: &Plan) -> Vec<String> {
    plan.unsupported.iter().map(|it| format!("{} {}: {}", it.resource, it.key, it.reason)).collect()
}

/// An account with a record of most resources.
pub(crate) fn sample_state() -> State {
    state(&[
        (Resource::Account, json!({"id": 7, "email": "a@example.com"})),
        (Resource::Domains, json!({"id": 1, "domain": "https://go.example.com"})),
        (Resource::Campaigns, json!({"id": 1, "name": "Spring", "public": false})),
        (Resource::Campaigns, json!({"id": 2, "name": "Old"})),
        (Resource::Channels, json!({"id": 3, "name": "News", "color": "#aabbcc"})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "links", "id": 8})),
        (Resource::QrCodes, json!({"id": 5, "name": "Door"})),
        (Resource::Pixels, json!({"id": 6, "type": "bing", "name": "p", "tag": "t"})),
    ])
}

/// A plan with steps of every verb.
pub(crate) fn plan_with_every_verb() -> Plan {
    let live = sample_state();
    let rows = [
        (Resource::Account, json!({"id": 7, "email": "b@example.com"})),
        (Resource::Domains, json!({"id": 1, "redirect404": "https://example.com/404"})),
        (Resource::Campaigns, json!({"id": 1, "public": true})),
        (Resource::Campaigns, json!({"name": "New", "slug": "new"})),
        (Resource::Channels, json!({"id": 3, "name": "Letters", "starred": true})),
        (Resource::Channels, json!({"name": "Posters"})),
        (Resource::ChannelItems, json!({"channel": "posters", "type": "qr", "id": 5})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "links", "id": 9})),
        (Resource::QrCodes, json!({"id": 5, "data": "https://example.com"})),
        (Resource::QrCodes, json!({"type": "text", "data": ["a", "b"]})),
        (Resource::Pixels, json!({"type": "bing", "name": "q", "tag": "u"})),
        (Resource::Pixels, json!({"id": 6, "name": "other"})),
    ];
    let mut desired = DesiredState::default();
    for resource in Resource::ALL {
        let own = rows.iter().filter(|(of, _)| *of == resource).map(|(_, row)| row.clone());
        let own: Vec<_> = own.collect();
        if !own.is_empty() {
            desired.resources.extend(sheet(resource, &own).resources);
        }
    }
    if let Some(wanted) = desired.resources.get_mut(&Resource::Campaigns) {
        wanted.is_complete = true;
    }
    for name in ["new", "SPRING"] {
        let campaign = crate::change::desired::RecordRef::Name(name.to_owned());
        desired.campaign_links.push(CampaignLink { campaign, link: 33, source: None });
    }
    let mut plan = planned(&desired, &live);
    let lists = crate::change::lists::Lists::default();
    let rate = RequestRate { limit: 30, reserve: 5 };
    let staleness = StalenessLimit::new(crate::change::staleness::DEFAULT, rate, lists);
    let crawls = crate::change::cost::CrawlRequests { before: 9, after: 8 };
    plan.cost = crate::change::cost::cost(&plan, crawls, &staleness);
    plan
}

#[test]
fn every_verb_has_its_request_and_its_position() {
    let plan = plan_with_every_verb();
    assert_eq!(
        requests(&plan),
        [
            r#"DELETE /api/campaign/2/delete null"#,
            r#"PUT /api/account/update {"email":"b@example.com"}"#,
            r#"PUT /api/domain/1/update {"redirect404":"https://example.com/404"}"#,
            r#"PUT /api/campaign/1/update {"name":"Spring","public":true}"#,
            r#"PUT /api/channel/3/update {"name":"Letters","starred":true}"#,
            r#"PUT /api/qr/5/update {"data":"https://example.com"}"#,
            r#"POST /api/campaign/add {"name":"New","slug":"new"}"#,
            r#"POST /api/channel/add {"name":"Posters"}"#,
            r#"POST /api/qr/add {"type":"text","data":["a","b"]}"#,
            r#"POST /api/pixel/add {"type":"bing","name":"q","tag":"u"}"#,
            r#"POST /api/campaign/1/assign/33 null"#,
            r#"POST /api/campaign/{7}/assign/33 null"#,
            r#"POST /api/channel/3/assign/links/9 null"#,
            r#"POST /api/channel/{8}/assign/qr/5 null"#,
        ]
    );
    assert_eq!(reasons(&plan), ["pixels 6: the API cannot change the `name` of a pixel"]);
    assert_eq!(plan.steps[11].waits_for, [7]);
    assert_eq!(plan.steps[13].waits_for, [8]);
}

#[test]
fn one_edited_cell_is_one_update_with_the_required_fields() {
    let live = campaigns(2);
    let plan = planned(&sheet(Resource::Campaigns, &[json!({"id": 2, "public": true})]), &live);
    assert_eq!(requests(&plan), [r#"PUT /api/campaign/2/update {"name":"c2","public":true}"#]);
    assert_eq!(plan.steps[0].after, json!({"public": true}).as_object().cloned());
    assert!(plan.steps[0].reversible && plan.steps[0].verifiable);
}

#[test]
fn records_absent_from_a_file_are_unchanged_and_an_unknown_id_is_unsupported() {
    let live = campaigns(2);
    let rows = [json!({"id": 12, "name": "x"}), json!({"id": 1, "name": "c1"})];
    let plan = planned(&sheet(Resource::Campaigns, &rows), &live);
    assert_eq!(requests(&plan), [""; 0]);
    let reason = "campaigns 12: the account has no campaign 12; empty its id to create it";
    assert_eq!(reasons(&plan), [reason]);
}

fn three_way(
    desired: &DesiredState,
    live: &State,
    base: &State,
    on: OnConflict,
) -> Result<Plan, String> {
    let policy = Policy { on_conflict: on, ..FREE };
    let current = CurrentState { state: live, memory: &AccountMemory::default() };
    plan(desired, current, Some(base), &policy).map_err(|problems| {
        assert!(problems.is_conflict());
        problems.to_string()
    })
}

fn one(name: &str, public: bool) -> State {
    state(&[(Resource::Campaigns, json!({"id": 1, "name": name, "public": public}))])
}

#[test]
fn with_a_base_only_edited_cells_are_pushed() {
    let (base, live) = (one("a", false), one("theirs", false));
    let desired = DesiredState::of_state(&one("a", true), "sheet");
    let plan = three_way(&desired, &live, &base, OnConflict::Fail).unwrap();
    assert_eq!(requests(&plan), [r#"PUT /api/campaign/1/update {"name":"theirs","public":true}"#]);
    assert_eq!(plan.steps[0].after, json!({"public": true}).as_object().cloned());
}

#[test]
fn a_cell_changed_on_both_sides_is_a_conflict_by_policy() {
    let (base, live) = (one("a", false), one("theirs", false));
    let desired = DesiredState::of_state(&one("mine", false), "sheet");
    let of = |on| three_way(&desired, &live, &base, on);
    let message =
        "sheet: campaigns 1: name\n  before \"a\"\n  wanted \"mine\"\n  in the account \"theirs\"";
    assert_eq!(of(OnConflict::Fail), Err(message.to_owned()));
    let mine = of(OnConflict::Mine).unwrap();
    assert_eq!(requests(&mine), [r#"PUT /api/campaign/1/update {"name":"mine"}"#]);
    assert_eq!(of(OnConflict::Theirs).unwrap().conflicts.kept, mine.conflicts.overwritten);
    let agreed = three_way(&DesiredState::of_state(&live, "x"), &live, &base, OnConflict::Fail);
    assert_eq!(agreed.unwrap(), Plan::default());
}

#[test]
fn a_record_deleted_from_the_account_is_a_conflict_only_if_its_row_was_edited() {
    let base = one("a", false);
    let mut live = State::default();
    live.resource_mut(Resource::Campaigns);
    let edited = DesiredState::of_state(&one("mine", false), "sheet");
    let of = |desired: &DesiredState, on| three_way(desired, &live, &base, on);
    assert!(of(&edited, OnConflict::Fail).unwrap_err().contains("is gone from the account"));
    assert_eq!(of(&edited, OnConflict::Mine).unwrap().steps[0].replaces, Some(1));
    let unedited = DesiredState::of_state(&base, "sheet");
    assert_eq!(of(&unedited, OnConflict::Fail).unwrap(), Plan::default());
}

#[test]
fn with_a_base_a_record_created_since_is_not_deleted() {
    let (base, live) = (campaigns(2), campaigns(3));
    let desired = DesiredState::of_state(&one("c1", false), "sheet");
    let plan = three_way(&desired, &live, &base, OnConflict::Fail).unwrap();
    assert_eq!(requests(&plan), ["DELETE /api/campaign/2/delete null"]);
}

#[test]
fn an_ambiguous_name_is_an_error_with_its_candidates() {
    let all = [(Resource::Campaigns, json!({"id": 4, "name": "Same"}))];
    let mut live = state(&all);
    let twin = record(Resource::Campaigns, &json!({"id": 9, "name": "same"}));
    live.resource_mut(Resource::Campaigns).insert(twin.key.clone(), twin);
    let rows = [json!({"name": "SAME", "public": true}), json!({"public": true})];
    let desired = sheet(Resource::Campaigns, &rows);
    let current = CurrentState { state: &live, memory: &AccountMemory::default() };
    let problems = plan(&desired, current, None, &FREE).unwrap_err();
    assert!(!problems.is_conflict());
    assert_eq!(
        problems.to_string(),
        "sheet.csv:2: campaigns SAME: could be any of 4, 9: give the id of one\n\
         sheet.csv:3: campaigns: has neither an id nor `name`"
    );
}

#[test]
fn a_rename_comes_after_the_one_that_frees_its_name_and_a_cycle_is_unsupported() {
    let live = campaigns(4);
    let rows = [json!({"id": 1, "name": "c2"}), json!({"id": 2, "name": "c3"})];
    let chain = planned(
        &sheet(Resource::Campaigns, &[&rows[..], &[json!({"id": 3, "name": "free"})]].concat()),
        &live,
    );
    let ids: Vec<_> = chain.steps.iter().map(|step| step.id).collect();
    assert_eq!(ids, [Some(3), Some(2), Some(1)]);
    let cycle = [&rows[..], &[json!({"id": 3, "name": "C1"}), json!({"id": 4, "public": true})]];
    let cycle = planned(&sheet(Resource::Campaigns, &cycle.concat()), &live);
    assert_eq!(cycle.steps.len(), 1);
    assert_eq!(cycle.unsupported.len(), 3);
    assert!(cycle.unsupported[0].reason.contains("rename one of them"));
}

#[test]
fn nothing_is_deleted_without_the_policy_or_for_an_empty_list() {
    let live = campaigns(3);
    let (desired, empty) = (delete_all(&live, 1), delete_all(&live, 3));
    let current = CurrentState { state: &live, memory: &AccountMemory::default() };
    let with = |desired, policy: &Policy| plan(desired, current, None, policy).unwrap();
    assert_eq!(with(&desired, &Policy::default()), Plan::default());
    assert_eq!(requests(&with(&desired, &FREE)), ["DELETE /api/campaign/1/delete null"]);
    assert_eq!(with(&empty, &FREE), Plan::default());
}

#[test]
fn a_deleted_campaign_is_restored_with_its_slug_and_its_links() {
    let rotator = "https://x.example/r/spring";
    let old = state(&[(Resource::Campaigns, json!({"id": 1, "name": "a", "rotator": rotator}))]);
    let mut live = State::default();
    live.resource_mut(Resource::Campaigns);
    let mut memory = AccountMemory::default();
    let links = BTreeMap::from([("links".to_owned(), json!([5, 6]))]);
    memory.sent.insert((Resource::Campaigns, RecordKey::Id(1)), links);
    let desired = DesiredState::of_state(&old, "main@#1");
    let plan = plan(&desired, CurrentState { state: &live, memory: &memory }, None, &FREE).unwrap();
    assert_eq!(
        requests(&plan),
        [
            r#"POST /api/campaign/add {"name":"a","slug":"spring"}"#,
            "POST /api/campaign/{1}/assign/5 null",
            "POST /api/campaign/{1}/assign/6 null",
        ]
    );
    assert_eq!(plan.steps[0].replaces, Some(1));
}

#[test]
fn a_code_is_changed_only_if_its_required_fields_are_known() {
    let live = state(&[(Resource::QrCodes, json!({"id": 5, "name": "Door"}))]);
    let rows = [json!({"id": 5, "foreground": "rgb(1,2,3)"})];
    let desired = sheet(Resource::QrCodes, &rows);
    let unknown = planned(&desired, &live);
    let reason = "qr_codes 5: an update has to send its `data`, which is not known";
    assert_eq!(reasons(&unknown), [reason]);
    let mut memory = AccountMemory::default();
    let sent = [("type", json!("text")), ("data", json!("hi"))];
    let sent = sent.map(|(name, value)| (name.to_owned(), value));
    memory.sent.insert((Resource::QrCodes, RecordKey::Id(5)), BTreeMap::from(sent));
    let current = CurrentState { state: &live, memory: &memory };
    let known = plan(&desired, current, None, &FREE).unwrap();
    let body = r#"PUT /api/qr/5/update {"data":"hi","foreground":"rgb(1,2,3)"}"#;
    assert_eq!(requests(&known), [body]);
    let retyped = sheet(Resource::QrCodes, &[json!({"id": 5, "type": "wifi"})]);
    let retyped = plan(&retyped, current, None, &FREE).unwrap();
    assert_eq!(reasons(&retyped), ["qr_codes 5: the API cannot change the `type` of a QR code"]);
}

#[test]
fn a_changed_slug_is_restored_from_its_rotator() {
    let campaign = |slug: &str| {
        let urls = (format!("https://x/r/{slug}"), format!("https://x/u/me/{slug}-1"));
        json!({"id": 1, "name": "a", "rotator": urls.0, "list": urls.1})
    };
    let before = state(&[(Resource::Campaigns, campaign("old"))]);
    let live = state(&[(Resource::Campaigns, campaign("new"))]);
    let plan = planned(&DesiredState::of_state(&before, "main@#1"), &live);
    assert_eq!(requests(&plan), [r#"PUT /api/campaign/1/update {"name":"a","slug":"old"}"#]);
    assert!(plan.unsupported.is_empty() && plan.steps[0].reversible);
}

/// Seed 70004590 of `sim::random_pushes`: the campaign was given a slug, was deleted and came back.
#[test]
fn a_campaign_restored_under_another_id_loses_a_rotator_that_it_did_not_have() {
    let before = state(&[(Resource::Campaigns, json!({"id": 3, "name": "a"}))]);
    let live = json!({"id": 6, "name": "a", "rotator": "https://x/r/later"});
    let live = state(&[(Resource::Campaigns, live)]);
    let mut memory = AccountMemory::default();
    memory.ids.insert((Resource::Campaigns, 3), 6);
    let current = CurrentState { state: &live, memory: &memory };
    let plan = plan(&DesiredState::of_state(&before, "main@#1"), current, None, &FREE).unwrap();
    assert_eq!(requests(&plan), [r#"PUT /api/campaign/6/update {"name":"a","slug":""}"#]);
}

/// Seed 92000094 of `sim::random_pushes`: as under another id, its date and its name are new.
#[test]
fn a_code_restored_under_its_old_id_has_no_unsupported_changes() {
    let code = |name: &str| state(&[(Resource::QrCodes, json!({"id": 5, "name": name}))]);
    let (before, live) = (code("Door"), code("QR code"));
    for (new, reasons) in [(None, 1), (Some(5), 0)] {
        let mut memory = AccountMemory::default();
        memory.ids.extend(new.map(|new| ((Resource::QrCodes, 5), new)));
        let current = CurrentState { state: &live, memory: &memory };
        let plan = plan(&DesiredState::of_state(&before, "main@#1"), current, None, &FREE).unwrap();
        assert_eq!((plan.steps.len(), plan.unsupported.len()), (0, reasons));
    }
}

/// Seed 70002116 of `sim::random_pushes`: a colour that was set later came back with the code.
#[test]
fn a_deleted_record_is_restored_with_the_values_sent_before_the_state_and_not_later() {
    let sent = |pairs: &[(&str, Json)]| -> BTreeMap<String, Json> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let text = [("type", json!("text")), ("data", json!("hi"))];
    let later = [("background", json!("rgb(1,2,3)")), ("data", json!("later"))];
    let code = (Resource::QrCodes, RecordKey::Id(5));
    let campaign = (Resource::Campaigns, RecordKey::Id(1));
    let before = state(&[
        (Resource::QrCodes, json!({"id": 5, "name": "Door"})),
        (Resource::Campaigns, json!({"id": 1, "name": "a"})),
    ]);
    let then = [(code.clone(), sent(&text)), (campaign.clone(), sent(&[("links", json!([5]))]))];
    let before = before.with_sent(Some(then.into()));
    let mut live = State::default();
    live.resource_mut(Resource::QrCodes);
    live.resource_mut(Resource::Campaigns);
    let mut memory = AccountMemory::default();
    memory.sent.insert(code, sent(&[&text[..1], &later].concat()));
    memory.sent.insert(campaign, sent(&[("links", json!([5, 6])), ("slug", json!("later"))]));
    let current = CurrentState { state: &live, memory: &memory };
    let plan = plan(&DesiredState::of_state(&before, "main@#1"), current, None, &FREE).unwrap();
    assert_eq!(
        requests(&plan),
        [
            r#"POST /api/campaign/add {"name":"a"}"#,
            r#"POST /api/qr/add {"type":"text","data":"hi"}"#,
            "POST /api/campaign/{1}/assign/5 null",
        ]
    );
}

#[test]
fn unsupported_changes_have_their_reasons() {
    let live = state(&[
        (Resource::Account, json!({"id": 7, "email": "a@x.example"})),
        (Resource::Domains, json!({"id": 1, "domain": "https://a.example"})),
        (Resource::Channels, json!({"id": 3, "name": "n"})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "links", "id": 8})),
        (Resource::QrCodes, json!({"id": 5, "name": "Door", "scans": 3})),
        (Resource::Overlays, json!({"id": 2, "type": "message", "name": "o"})),
    ]);
    let wanted = state(&[
        (Resource::Account, json!({"id": 7, "email": "b@x.example"})),
        (Resource::Domains, json!({"id": 1, "domain": "https://b.example"})),
        (Resource::Channels, json!({"id": 3, "name": "n"})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "qr", "id": 99})),
        (Resource::QrCodes, json!({"id": 5, "name": "Gate", "scans": 9})),
        (Resource::QrCodes, json!({"id": 6, "name": "Lost"})),
        (Resource::Overlays, json!({"id": 4, "type": "message", "name": "p"})),
    ]);
    let desired = DesiredState::of_state(&wanted, "main@#1");
    let policy = Policy { account: false, ..FREE };
    let current = CurrentState { state: &live, memory: &AccountMemory::default() };
    let plan = plan(&desired, current, None, &policy).unwrap();
    assert_eq!(requests(&plan), [""; 0]);
    assert_eq!(
        reasons(&plan),
        [
            "account 7: the account itself is changed with `--resource account` only",
            "domains 1: the API cannot change the `domain` of a branded domain",
            "channel_items 3/qr/99: the account has no QR code 99",
            "channel_items 3/links/8: the API cannot unassign an item",
            "qr_codes 5: the API cannot change the `name` of a QR code",
            "qr_codes 6: a QR code is created with its `type`, which is not known",
            "overlays 4: the API cannot create a CTA overlay",
            "overlays 2: the API cannot delete a CTA overlay",
        ]
    );
}

/// The desired state of a migration from `source`.
fn migration_from(source: &State) -> DesiredState {
    let mut desired = DesiredState::of_state(source, "old@#1");
    desired.resources.values_mut().for_each(|wanted| wanted.is_complete = false);
    desired.origin = Some("https://old.example#1".to_owned());
    desired
}

#[test]
fn ids_of_another_account_are_matched_by_map_and_name_and_never_by_number() {
    let source = state(&[
        (Resource::Campaigns, json!({"id": 1, "name": "New", "rotator": "https://o/r/new"})),
        (Resource::Campaigns, json!({"id": 2, "name": "SPRING", "public": true, "list": "a"})),
        (Resource::Campaigns, json!({"id": 3, "name": "Moved", "rotator": "https://o/x"})),
        (Resource::Channels, json!({"id": 1, "name": "n"})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "qr", "id": 9, "title": "t"})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "qr", "id": 8})),
        (Resource::QrCodes, json!({"id": 9, "name": "Door"})),
        (Resource::QrCodes, json!({"id": 8, "name": "Lost"})),
    ]);
    let live = state(&[
        (Resource::Campaigns, json!({"id": 1, "name": "Spring", "public": false, "list": "b"})),
        (Resource::Campaigns, json!({"id": 30, "name": "moved"})),
        (Resource::Channels, json!({"id": 1, "name": "other"})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "qr", "id": 9})),
        (Resource::QrCodes, json!({"id": 9, "name": "not this"})),
        (Resource::QrCodes, json!({"id": 90, "name": "Code"})),
    ]);
    let mut memory = AccountMemory::default();
    memory.ids.insert((Resource::Campaigns, 3), 30);
    memory.ids.insert((Resource::QrCodes, 9), 90);
    let sent = [("type", json!("text")), ("data", json!("of another"))];
    let sent = sent.map(|(name, value)| (name.to_owned(), value));
    memory.sent.insert((Resource::QrCodes, RecordKey::Id(8)), BTreeMap::from(sent));
    let current = CurrentState { state: &live, memory: &memory };
    let plan = plan(&migration_from(&source), current, None, &Policy::default()).unwrap();
    assert_eq!(
        requests(&plan),
        [
            r#"PUT /api/campaign/1/update {"name":"SPRING","public":true}"#,
            r#"PUT /api/campaign/30/update {"name":"Moved"}"#,
            r#"POST /api/campaign/add {"name":"New","slug":"new"}"#,
            r#"POST /api/channel/add {"name":"n"}"#,
            "POST /api/channel/{4}/assign/qr/90 null",
        ]
    );
    assert_eq!(
        reasons(&plan),
        [
            "campaigns 3: its rotator `https://o/x` does not tell its slug; it gets another",
            "channel_items 1/qr/8: QR code 8 has not moved here",
            "qr_codes 8: a QR code is created with its `type`, which is not known",
        ]
    );
    let origin = plan.steps[2].origin.as_deref();
    assert_eq!((plan.steps[2].replaces, origin), (Some(1), Some("https://old.example#1")));
    let matched = plan.foreign.unwrap().matched;
    let matched: Vec<_> = matched.iter().map(|it| (it.resource, it.old, it.new)).collect();
    let (campaigns, codes) = (Resource::Campaigns, Resource::QrCodes);
    assert_eq!(matched, [(campaigns, 2, 1), (campaigns, 3, 30), (codes, 9, 90)]);
}

#[test]
fn items_are_assigned_to_a_channel_and_a_code_restored_with_new_ids() {
    let old = state(&[
        (Resource::Channels, json!({"id": 3, "name": "n"})),
        (Resource::QrCodes, json!({"id": 5, "name": "Door"})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "qr", "id": 5})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "links", "id": 8})),
    ]);
    let mut live = State::default();
    for resource in Resource::ALL {
        live.resource_mut(resource);
    }
    let mut memory = AccountMemory::default();
    let sent = [("type", json!("text")), ("data", json!("hi"))];
    let sent = sent.map(|(name, value)| (name.to_owned(), value));
    memory.sent.insert((Resource::QrCodes, RecordKey::Id(5)), BTreeMap::from(sent));
    let desired = DesiredState::of_state(&old, "main@#1");
    let plan = plan(&desired, CurrentState { state: &live, memory: &memory }, None, &FREE).unwrap();
    assert_eq!(
        requests(&plan),
        [
            r#"POST /api/channel/add {"name":"n"}"#,
            r#"POST /api/qr/add {"type":"text","data":"hi"}"#,
            "POST /api/channel/{1}/assign/links/8 null",
            "POST /api/channel/{1}/assign/qr/{2} null",
        ]
    );
    assert_eq!(plan.steps[3].waits_for, [1, 2]);
}

#[test]
fn the_row_of_a_new_item_needs_no_change_after_its_assignment() {
    let live = state(&[
        (Resource::Channels, json!({"id": 3, "name": "c"})),
        (Resource::ChannelItems, json!({"channel": 3, "type": "links", "id": 5, "title": "T"})),
    ]);
    let row = |title: Json| {
        let row = json!({"channel": 3, "type": "links", "id": 5, "title": title, "date": null});
        planned(&sheet(Resource::ChannelItems, &[row]), &live)
    };
    assert_eq!(row(Json::Null), Plan::default());
    let why = "channel_items 3/links/5: the API cannot change the `title` of a channel item";
    assert_eq!(reasons(&row(json!("other"))), [why]);
}

#[test]
fn a_row_with_a_new_slug_may_still_contain_the_old_urls() {
    let shown = |slug: &str| {
        let (rotator, list) = (format!("https://s/r/{slug}"), format!("https://s/u/o/{slug}-1"));
        json!({"id": 1, "name": "a", "rotator": rotator, "list": list})
    };
    let (old, new) = (shown("old"), shown("new"));
    let mut row = old.clone();
    row["slug"] = json!("new");
    let desired = sheet(Resource::Campaigns, &[row]);
    let first = planned(&desired, &state(&[(Resource::Campaigns, old)]));
    assert_eq!((first.steps.len(), first.unsupported), (1, vec![]));
    assert_eq!(planned(&desired, &state(&[(Resource::Campaigns, new)])), Plan::default());
}

#[test]
fn a_new_row_can_use_a_name_that_the_same_file_frees() {
    let live = state(&[(Resource::Campaigns, json!({"id": 4, "name": "Summer"}))]);
    let rows = |first: &str| {
        let rows = [json!({"id": 4, "name": first}), json!({"name": "summer", "public": true})];
        sheet(Resource::Campaigns, &rows)
    };
    let steps = planned(&rows("Autumn"), &live).steps;
    let verbs: Vec<_> = steps.iter().map(|step| (step.verb, step.key.as_str())).collect();
    assert_eq!(verbs, [(Verb::Update, "4"), (Verb::Create, "summer")]);
    // A row that keeps its name, or whose name was changed in the account, does not free the name.
    let current = CurrentState { state: &live, memory: &AccountMemory::default() };
    plan(&rows("Summer"), current, None, &FREE).unwrap_err();
    let base = state(&[(Resource::Campaigns, json!({"id": 4, "name": "Autumn"}))]);
    plan(&rows("Autumn"), current, Some(&base), &FREE).unwrap_err();
}
