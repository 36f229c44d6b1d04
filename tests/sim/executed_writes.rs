//! Writes that are executed and answered as if they had failed.

use linkvault::change::plan::Plan;
use linkvault::model::RunId;
use linkvault::model::{Resource, Verb};
use linkvault::sandbox::Store;
use linkvault::vault::journal::StepState;
use serde_json::json;

use super::unknown_outcomes::{create, journal, options, update, world};
use super::world::World;
use crate::sim::expected_account::add;

/// Faults that come after the write was executed.
const EXECUTED: [&str; 10] = [
    "failed-reply",
    "failed-reply:redirect",
    "failed-reply:key-words",
    "failed-reply:throttle-words",
    "failed-reply:html",
    "failed-reply:not-found",
    "cut-body:10",
    "lost-reply",
    "garbage:truncated",
    "garbage:empty",
];

#[test]
fn a_create_that_was_executed_despite_a_failure_response_makes_one_record() {
    let counts = |world: &World| {
        let service = world.service();
        let store = service.store();
        [store.campaigns.len(), store.channels.len(), store.pixels.len(), store.qr_codes.len()]
    };
    for fault in EXECUTED {
        for first_only in ["#1", ""] {
            let mut world = world("");
            let mut plan = Plan::default();
            create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
            create(&mut plan, Resource::Channels, json!({"name": "Two"}));
            create(&mut plan, Resource::Pixels, json!({"type": "bing", "name": "p", "tag": "T1"}));
            create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": "ours"}));
            let before = counts(&world);
            let paths = ["/api/campaign/add", "/api/channel/add", "/api/pixel/add", "/api/qr/add"];
            let rules = paths.map(|path| format!("{fault}@POST {path}{first_only}"));
            world.set_faults(&rules.join(","), 1);
            let outcome = world.apply(&plan, &options()).unwrap();
            assert_eq!(counts(&world), before.map(|it| it + 1), "{fault}{first_only}: {outcome:?}");
            assert_eq!(
                (outcome.done, outcome.verified),
                (4, 4),
                "{fault}{first_only}: {outcome:?}"
            );
        }
    }
}

/// A service that executes the request and then fails does not report what it did.
#[test]
fn a_step_that_took_effect_despite_a_failure_response_is_done_and_can_be_undone() {
    for fault in EXECUTED {
        let mut world = world("");
        let mut plan = Plan::default();
        update(&world, &mut plan, json!({"description": "new"}));
        add(&mut plan, Resource::Campaigns, Verb::Delete, "/api/campaign/3/delete", None);
        let item = "/api/channel/2/assign/links/77";
        add(&mut plan, Resource::ChannelItems, Verb::Assign, item, None);
        let before = world.service().store().clone();
        world.set_faults(&format!("{fault}@PUT /api,{fault}@DELETE /api,{fault}@POST /api"), 1);
        let outcome = world.apply(&plan, &options()).unwrap();
        let states: Vec<_> = journal(&world).iter().map(|row| row.state).collect();
        assert_eq!(states, [StepState::Done; 3], "{fault}: {outcome:?}");
        assert_eq!(outcome.verified, 3, "{fault}: {outcome:?}");
        let way = linkvault::apply::undo::undo_run(&mut world.open(), RunId(1)).unwrap();
        let wanted = &way.desired.resources[&Resource::Channels].records[0];
        let old = wanted.value(Resource::Channels, "description").unwrap().cell().into_owned();
        assert_eq!(old, before.channels.get(2).unwrap().description);
        assert_eq!(way.desired.resources[&Resource::Campaigns].records[0].id, Some(3));
    }
}

/// A plan that creates a channel and assigns link 77 to it.
fn channel_with_link() -> Plan {
    let mut plan = Plan::default();
    let channel = create(&mut plan, Resource::Channels, json!({"name": "Fresh"}));
    let path = format!("/api/channel/{{{channel}}}/assign/links/77");
    add(&mut plan, Resource::ChannelItems, Verb::Assign, &path, None);
    plan
}

#[test]
fn a_link_is_assigned_to_the_created_channel_and_not_to_the_one_whose_id_was_answered() {
    let mut world = world("");
    let before = world.service().store().clone();
    let items = |store: &Store, id| store.channels.get(id).unwrap().items.len();
    let wrong = r#"{"error":0,"id":2,"name":"Fresh"}"#;
    world.canned = Some(("/api/channel/add".to_owned(), wrong.to_owned()));
    let outcome = world.apply(&channel_with_link(), &options()).unwrap();
    assert_eq!((outcome.done, outcome.verified), (2, 2), "{outcome:?}");
    let service = world.service();
    let store = service.store();
    let fresh: Vec<_> = store.channels.iter().filter(|(_, it)| it.name == "Fresh").collect();
    assert_eq!(fresh.len(), 1);
    assert_eq!(items(store, fresh[0].0), 1);
    assert_eq!(items(store, 2), items(&before, 2));
}

#[test]
fn a_create_that_made_nothing_and_was_answered_with_a_known_id_is_refused() {
    let mut world = world("");
    let before = world.service().store().clone();
    world.set_faults("html@POST /api/channel/add", 1);
    world.canned = Some(("/api/channel/add".to_owned(), r#"{"error":0,"id":2}"#.to_owned()));
    let outcome = world.apply(&channel_with_link(), &options()).unwrap();
    assert_eq!((outcome.done, outcome.refused, outcome.skipped), (0, 1, 1), "{outcome:?}");
    let said = journal(&world)[0].message.clone().unwrap();
    assert_eq!(said, "the response has the id 2, which another record had before");
    assert_eq!(world.service().store().channels.len(), before.channels.len());
}
