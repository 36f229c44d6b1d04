//! Answers that are lost while somebody else works on the account as well.

use std::time::Duration;

use linkvault::apply::{ApplyError, Options, Outcome};
use linkvault::change::plan::Plan;
use linkvault::model::{Resource, Verb};
use linkvault::sandbox::generate::{Counts, generate};
use linkvault::sandbox::store::QrCode;
use linkvault::vault::journal::JournalStep;
use serde_json::{Value, json};

use super::applied::{add, rows};
use super::world::World;

fn world(behaviour: &str) -> World {
    World::of(generate(5, Counts::each(4)), behaviour)
}

fn options() -> Options {
    let (command, plan_id) = ("apply".to_owned(), "the plan".to_owned());
    Options { command, plan_id, service: "http://sandbox".to_owned(), ..Options::default() }
}

fn create(plan: &mut Plan, resource: Resource, body: Value) -> u32 {
    let endpoint = resource.spec().endpoint(Verb::Create).unwrap();
    add(plan, resource, Verb::Create, endpoint.path, Some(body))
}

fn journal(world: &World) -> Vec<JournalStep> {
    rows(&world.open())
}

/// How many codes hold what the plan asks for.
fn ours(world: &World) -> Vec<u64> {
    let wanted = json!("ours");
    let service = world.service();
    let codes = service.store().qr_codes.iter();
    codes.filter(|(_, code)| code.content.data.as_ref() == Some(&wanted)).map(|it| it.0).collect()
}

/// Stops a run before its code is sent; hours later, somebody else has made a code.
fn interrupted_for_hours() -> World {
    let mut world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
    create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": "ours"}));
    world.limits.max_requests = Some(3);
    let stopped = world.apply(&plan, &options()).unwrap_err();
    assert!(matches!(stopped, ApplyError::Stopped { .. }), "{stopped}");
    world.limits.max_requests = None;
    world.pass(Duration::from_secs(5 * 3600));
    world.change(|store| {
        store.qr_codes.add(QrCode { name: "Theirs".to_owned(), ..QrCode::default() });
    });
    world
}

fn resumed(world: &mut World) -> Outcome {
    world.resume(1, &options()).unwrap()
}

#[test]
fn a_code_that_somebody_made_in_a_pause_is_never_taken_for_ours() {
    for fault in ["lost-request", "lost-reply"] {
        let mut world = interrupted_for_hours();
        world.set_faults(&format!("{fault}@POST /api/qr/add#1"), 1);
        let outcome = resumed(&mut world);
        assert_eq!((outcome.done, outcome.unknown), (2, 0), "{fault}: {outcome:?}");
        let made = ours(&world);
        assert_eq!(made.len(), 1, "{fault}");
        assert_eq!(journal(&world)[1].id, Some(made[0].cast_signed()), "{fault}");
    }
}

/// The pause is within one process, which looks once and not for each code.
#[test]
fn after_a_long_pause_within_a_run_the_codes_are_listed_once() {
    let mut world = world("");
    let mut plan = Plan::default();
    for nth in 0..20 {
        create(&mut plan, Resource::Campaigns, json!({"name": format!("Made {nth}")}));
    }
    for nth in 0..6 {
        let data = if nth == 0 { "ours".to_owned() } else { format!("other {nth}") };
        create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": data}));
    }
    world.latency = Duration::from_secs(15);
    world.meddle(|store, nth| {
        if nth == 10 {
            store.qr_codes.add(QrCode { name: "Theirs".to_owned(), ..QrCode::default() });
        }
    });
    world.set_faults("lost-request@POST /api/qr/add#1", 1);
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.unknown), (26, 0), "{outcome:?}");
    assert_eq!(ours(&world).len(), 1);
    assert_eq!(journal(&world)[20].id, Some(ours(&world)[0].cast_signed()));
    let listed = world.asked().iter().filter(|path| path.starts_with("/api/qr?")).count();
    // Before, after the pause, twice for the lost one, and at the end.
    assert_eq!(listed, 5);
}
