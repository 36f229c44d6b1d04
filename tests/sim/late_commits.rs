//! Creates that the service executes after their connection ended.

use std::collections::BTreeSet;
use std::time::Duration;

use linkvault::apply::late_twins;
use linkvault::apply::resolve::{self, StepDecision};
use linkvault::change::plan::Plan;
use linkvault::model::{Resource, RunId};
use linkvault::vault::journal::StepState;
use serde_json::json;

use super::unknown_outcomes::{create, journal, options, world};
use super::world::World;

const PATHS: [&str; 4] = ["/api/campaign/add", "/api/channel/add", "/api/pixel/add", "/api/qr/add"];

/// A create of each kind, whose first request is executed late.
fn late(seconds: u32) -> (World, Plan) {
    let world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
    create(&mut plan, Resource::Channels, json!({"name": "Two"}));
    create(&mut plan, Resource::Pixels, json!({"type": "bing", "name": "p", "tag": "T1"}));
    create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": "ours"}));
    let rules = PATHS.map(|path| format!("late-commit:{seconds}s@POST {path}#1"));
    world.set_faults(&rules.join(","), 1);
    (world, plan)
}

fn counts(world: &World) -> [usize; 4] {
    let service = world.service();
    let store = service.store();
    [store.campaigns.len(), store.channels.len(), store.pixels.len(), store.qr_codes.len()]
}

#[test]
fn a_create_that_is_committed_seconds_later_is_recognised_and_not_repeated() {
    for seconds in [1, 5, 9] {
        let (mut world, plan) = late(seconds);
        let before = counts(&world);
        let outcome = world.apply(&plan, &options()).unwrap();
        assert_eq!(counts(&world), before.map(|it| it + 1), "{seconds} s: {outcome:?}");
        assert_eq!((outcome.done, outcome.verified), (4, 4), "{seconds} s: {outcome:?}");
    }
}

#[test]
fn a_create_that_is_committed_after_it_was_repeated_is_reported_with_both_records() {
    let mut told = 0;
    for delay in (100..200).step_by(5) {
        let mut world = world("");
        let mut plan = Plan::default();
        create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": "ours"}));
        world.set_faults(&format!("late-commit:{delay}00ms@POST /api/qr/add#1"), 1);
        world.latency = Duration::from_millis(700);
        let before = counts(&world)[3];
        let outcome = world.apply(&plan, &options()).unwrap();
        let made = counts(&world)[3] - before;
        let [twin] = &outcome.twins[..] else {
            assert_eq!((made, outcome.done, outcome.unknown), (1, 1, 0), "{delay}: {outcome:?}");
            continue;
        };
        told += 1;
        assert_eq!((made, outcome.done, outcome.unknown), (2, 0, 1), "{delay}: {outcome:?}");
        let both = BTreeSet::from([twin.id, twin.others[0]]);
        assert_eq!((both.len(), twin.others.len()), (2, 1), "{twin:?}");
        let step = &journal(&world)[0];
        assert_eq!((step.state, step.id), (StepState::Unknown, Some(twin.id)));
        assert_eq!(step.message.as_deref(), Some(&*twin.to_string()));
        let adopt = StepDecision::Adopt(twin.id);
        resolve::decide(&mut world.open(), RunId(1), 1, adopt, world.now()).unwrap();
        let outcome = world.resume(RunId(1), &options()).unwrap();
        assert_eq!((outcome.done, outcome.unknown), (1, 0), "{delay}: {outcome:?}");
    }
    assert!(told > 0, "no request took effect between the repeated one and the end of the run");
}

#[test]
fn a_create_that_is_committed_after_the_run_is_reported_by_the_next_backup() {
    let mut world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": "ours"}));
    world.set_faults("late-commit:300s@POST /api/qr/add#1", 1);
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.twins.len()), (1, 0), "{outcome:?}");
    let ours = journal(&world)[0].id.unwrap();
    world.pass(Duration::from_secs(400));
    for expected in [1, 0] {
        let snapshot = world.backup().snapshot;
        let twins = late_twins(&mut world.open(), &snapshot).unwrap();
        assert_eq!(twins.len(), expected, "{twins:?}");
        assert!(twins.iter().all(|twin| twin.id == ours && twin.others.len() == 1), "{twins:?}");
    }
}
