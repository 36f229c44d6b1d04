//! Reverts steps made by hand.

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

fn done(verb: Verb, path: &str, id: i64, body: Option<serde_json::Value>) -> FinishedStep {
    FinishedStep { step: step(1, Resource::Campaigns, verb, path, body), id: Some(id) }
}

#[test]
fn undo_restores_only_the_changed_fields() {
    let body = Some(json!({"name": "new", "slug": "s"}));
    let undo = undo(&[done(Verb::Update, "/api/campaign/1/update", 1, body)], &before(), "run 1");
    let wanted = &undo.desired.resources[&Resource::Campaigns];
    assert!(!wanted.is_complete && wanted.records.len() == 1);
    assert_eq!(wanted.records[0].fields, BTreeMap::from([(1, FieldValue::Text("one".into()))]));
    let reason = "the update cannot be completely reverted: what slug was before is not known";
    assert_eq!(undo.unsupported[0].reason, reason);
    assert_eq!((undo.unsupported.len(), undo.unsupported[0].key.as_str()), (1, "k1"));
}

#[test]
fn undo_creates_deleted_records_and_deletes_created_ones() {
    let all = [
        done(Verb::Delete, "/api/campaign/2/delete", 2, None),
        done(Verb::Create, "/api/campaign/add", 9, Some(json!({"name": "new"}))),
    ];
    let undo = undo(&all, &before(), "run 1");
    assert!(undo.desired.recreate_missing);
    let unwanted = BTreeMap::from([(Resource::Campaigns, [9].into())]);
    assert_eq!(undo.desired.to_delete, unwanted);
    let wanted = &undo.desired.resources[&Resource::Campaigns];
    assert_eq!((wanted.is_complete, wanted.records[0].id), (false, Some(2)));
}

#[test]
fn undo_never_deletes_a_record_that_existed_before_the_run() {
    let create = done(Verb::Create, "/api/campaign/add", 2, Some(json!({"name": "new"})));
    let undo = undo(&[create], &before(), "run 1");
    assert_eq!(undo.desired.to_delete, BTreeMap::new());
    assert_eq!(undo.unsupported.len(), 1);
}

#[test]
fn a_record_with_a_reused_id_is_not_changed_into_the_deleted_one() {
    let all = [
        done(Verb::Delete, "/api/campaign/2/delete", 2, None),
        FinishedStep {
            step: PlanStep {
                step: 2,
                ..done(Verb::Create, "/api/campaign/add", 2, Some(json!({"name": "new"}))).step
            },
            id: Some(2),
        },
        // Others deleted 1 while the run was under way.
        done(Verb::Update, "/api/campaign/1/update", 1, Some(json!({"name": "changed"}))),
        FinishedStep {
            step: PlanStep {
                step: 4,
                ..done(Verb::Create, "/api/campaign/add", 1, Some(json!({"name": "more"}))).step
            },
            id: Some(1),
        },
    ];
    let undo = undo(&all, &before(), "run 1");
    assert_eq!(undo.desired, DesiredState { recreate_missing: true, ..DesiredState::default() });
    let reasons: Vec<_> = undo.unsupported.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "the delete cannot be reverted: the service gave its id to a record that the \
             run created",
            "the create cannot be reverted: it has the id of a record that existed before the \
             run",
            "the update cannot be reverted: the service gave its id to a record that the \
             run created",
            "the create cannot be reverted: the service returned a record that existed \
             before",
        ]
    );
}

/// Channel 7 and code 3 are deleted, and their ids are given to a new channel with a
/// new code. Channel 8, which held code 3, is deleted too.
#[test]
fn an_item_of_a_record_with_a_reused_id_did_not_exist_before() {
    let mut before = State::default();
    *before.resource_mut(Resource::QrCodes) =
        records(Resource::QrCodes, &[json!({"id": 3, "name": "code"}).to_string()]);
    let channels = [7, 8].map(|id| json!({"id": id, "name": format!("channel {id}")}).to_string());
    *before.resource_mut(Resource::Channels) = records(Resource::Channels, &channels);
    for channel in [7, 8] {
        let raw = json!({"type": "qr", "id": 3}).to_string();
        let item = crate::model::DecodedRecord::read(Resource::ChannelItems, Some(channel), &raw);
        let item = item.unwrap().record.into_owned();
        before.resource_mut(Resource::ChannelItems).insert(item.key.clone(), item);
    }
    let done = |number, resource, verb, path: &str, id, waits_for: &[u32]| FinishedStep {
        step: PlanStep {
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
    assert_eq!(undo.desired.to_delete, BTreeMap::new());
    let wanted: Vec<_> = undo.desired.resources.keys().copied().collect();
    assert_eq!(wanted, [Resource::Channels], "no item comes back");
    let reasons: Vec<_> = undo.unsupported.iter().map(|it| it.reason.as_str()).collect();
    let in_part = "the delete cannot be completely reverted: QR code 3 is not added to it again";
    assert_eq!(reasons.len(), 6, "{reasons:?}");
    assert!(reasons.contains(&in_part), "{reasons:?}");
    assert!(reasons.contains(&"the assign cannot be reverted: the API cannot unassign"));
}

#[test]
fn a_code_is_restored_into_its_channels() {
    let code = json!({"id": 3, "name": "code"}).to_string();
    let mut before = State::default();
    *before.resource_mut(Resource::QrCodes) = records(Resource::QrCodes, &[code]);
    let path = "/api/qr/3/delete";
    let gone =
        FinishedStep { step: step(1, Resource::QrCodes, Verb::Delete, path, None), id: Some(3) };
    let unread = undo(std::slice::from_ref(&gone), &before, "run 1");
    assert!(!unread.desired.resources.contains_key(&Resource::ChannelItems));
    assert!(unread.unsupported[0].reason.contains("its channels are not known"), "{unread:?}");
    for (channel, kind, id) in [(7, "qr", 3), (7, "links", 3), (8, "qr", 4)] {
        let raw = json!({"type": kind, "id": id}).to_string();
        let item = crate::model::DecodedRecord::read(Resource::ChannelItems, Some(channel), &raw);
        let item = item.unwrap().record.into_owned();
        before.resource_mut(Resource::ChannelItems).insert(item.key.clone(), item);
    }
    let wanted = undo(&[gone], &before, "run 1").desired.resources;
    let items: Vec<_> = wanted[&Resource::ChannelItems]
        .records
        .iter()
        .map(|it| (it.channel.clone(), it.id))
        .collect();
    assert_eq!(items, [(Some(RecordRef::Id(7)), Some(3))]);
}

#[test]
fn steps_that_the_api_cannot_revert_are_listed() {
    let pixel = FinishedStep {
        step: step(1, Resource::Pixels, Verb::Create, "/api/pixel/add", None),
        id: Some(4),
    };
    let path = "/api/channel/7/assign/links/5";
    let item =
        FinishedStep { step: step(2, Resource::ChannelItems, Verb::Assign, path, None), id: None };
    let undo = undo(&[pixel, item], &State::default(), "run 1");
    assert!(undo.desired.to_delete.is_empty());
    assert_eq!(undo.unsupported.len(), 2, "{:?}", undo.unsupported);
}
