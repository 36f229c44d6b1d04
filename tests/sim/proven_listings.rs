//! Another account responds to the URL in the middle of a run: no write reaches it.

use std::sync::Arc;
use std::time::Duration;

use linkvault::apply::ApplyOptions;
use linkvault::change::plan::Plan;
use linkvault::clock::Clock as _;
use linkvault::model::Resource;
use linkvault::vault::journal::StepState;
use serde_json::json;

use crate::sim::unknown_outcomes::{UPDATE, create, journal, options, update, world};

/// Another account responds to the URL by now, with a record of the name in the lost create.
#[test]
fn a_lost_create_adopts_no_record_of_another_account() {
    let mut world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
    world.set_faults("lost-request@POST /api/campaign/add#1", 1);
    world.before_each_request(|store, nth| {
        if nth == 4 {
            store.account.id = 99;
            store.add_campaign("One", None, false);
        }
    });
    let stopped = world.apply(&plan, &options()).unwrap_err();
    let row = &journal(&world)[0];
    assert_eq!((row.state, row.id), (StepState::Sent, None));
    assert!(stopped.to_string().contains("answers for 99 of"), "{stopped}");
}

/// A response after more than a minute counts as a wait.
#[test]
fn the_account_is_checked_after_a_long_wait_before_the_next_write() {
    let mut world = world("");
    let mut plan = Plan::default();
    update(&world, &mut plan, json!({"description": "ours"}));
    create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
    world.set_faults(&format!("slow-body:90s@{UPDATE}#1"), 1);
    world.before_each_request(|store, nth| {
        if nth == 4 {
            store.account.id = 99;
        }
    });
    world.apply(&plan, &options()).unwrap_err();
    let asked = world.requested_paths();
    assert!(!asked.iter().any(|path| path == "/api/campaign/add"), "{asked:?}");
}

/// A wait for the rate limit takes a minute, less the time of the requests in the window.
#[test]
fn the_account_is_checked_after_each_rate_limit_wait_before_the_next_write() {
    for (limit, reserve, latency) in
        [(10, 0, 1), (10, 0, 900), (30, 5, 80), (2, 0, 80), (30, 29, 80)]
    {
        let mut world = world(&format!("rate-limit={limit}"));
        world.reserve = reserve;
        world.latency = Duration::from_millis(latency);
        let mut plan = Plan::default();
        for nth in 0..3 * (limit - reserve) {
            create(&mut plan, Resource::Campaigns, json!({"name": format!("Made {nth}")}));
        }
        let clock = Arc::clone(&world.clock);
        let (began, mut switched) = (clock.monotonic(), false);
        world.before_each_request(move |store, _| {
            // During the second wait.
            if clock.monotonic() - began > Duration::from_secs(100) && !switched {
                switched = true;
                store.account.id = 99;
                store.campaigns = linkvault::sandbox::store::StoreTable::default();
            }
        });
        let options = ApplyOptions { reserve, ..options() };
        let stopped = world.apply(&plan, &options).unwrap_err();
        assert!(stopped.to_string().contains("answers for 99 of"), "{limit}: {stopped}");
        assert_eq!(world.service().store().campaigns.iter().count(), 0, "{limit} {latency}");
    }
}

/// A new connection may lead to another service.
#[test]
fn the_account_is_checked_after_a_connection_failure_before_the_next_write() {
    for fault in ["lost-request", "lost-reply", "no-connection", "reset"] {
        for path in [UPDATE, "POST /api/campaign/add"] {
            let mut world = world("");
            let mut plan = Plan::default();
            update(&world, &mut plan, json!({"description": "ours"}));
            create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
            create(&mut plan, Resource::Campaigns, json!({"name": "Two"}));
            world.set_faults(&format!("{fault}@{path}#1"), 1);
            let failed = if path == UPDATE { 4 } else { 5 };
            world.requested_paths();
            let traffic = Arc::clone(&world.traffic);
            world.before_each_request(move |store, _| {
                if traffic.lock().unwrap().paths.len() > failed {
                    store.account.id = 99;
                }
            });
            let stopped = world.apply(&plan, &options()).unwrap_err();
            assert!(stopped.to_string().contains("answers for 99 of"), "{fault}: {stopped}");
            let asked = world.requested_paths();
            assert_eq!(asked[failed..], ["/api/account"], "{fault} {path}: {asked:?}");
        }
    }
}
