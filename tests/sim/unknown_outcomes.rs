//! Lost responses while another user changes the account.

use std::sync::Arc;
use std::time::Duration;

use linkvault::apply::resolve::{self, StepDecision};
use linkvault::apply::step_request::set_password;
use linkvault::apply::{ApplyError, ApplyOptions, RunReport, StepSecrets};
use linkvault::change::plan::{Plan, ROTATOR, fingerprint, slug};
use linkvault::model::{RecordKey, Resource, RunId, Verb};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::store::QrCode;
use linkvault::vault::journal::{JournalStep, RunCommand, RunStatus, StepResult, StepState};
use serde_json::{Value, json};

use super::world::World;
use crate::sim::expected_account::{add, rows};

pub(super) fn world(behaviour: &str) -> World {
    World::of(generate(5, GeneratedCounts::each(4)), behaviour)
}

pub(super) fn options() -> ApplyOptions {
    ApplyOptions {
        command: RunCommand::Apply,
        plan_id: "the plan".to_owned(),
        service: "http://sandbox".to_owned(),
        ..ApplyOptions::default()
    }
}

pub(super) fn create(plan: &mut Plan, resource: Resource, body: Value) -> u32 {
    let endpoint = resource.spec().endpoint(Verb::Create).unwrap();
    add(plan, resource, Verb::Create, endpoint.path, Some(body))
}

pub(super) fn journal(world: &World) -> Vec<JournalStep> {
    rows(&world.open())
}

/// The codes with the content in the plan.
fn ours(world: &World) -> Vec<u64> {
    let wanted = json!("ours");
    let service = world.service();
    let codes = service.store().qr_codes.iter();
    codes.filter(|(_, code)| code.content.data.as_ref() == Some(&wanted)).map(|it| it.0).collect()
}

/// Stops a run before its code is sent; hours later, another user creates a code.
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

fn resumed(world: &mut World) -> RunReport {
    world.resume(RunId(1), &options()).unwrap()
}

#[test]
fn a_code_created_by_another_client_during_a_pause_is_not_adopted() {
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

/// The pause is within one process, which lists the codes once, not for each code.
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
    world.before_each_request(|store, nth| {
        if nth == 10 {
            store.qr_codes.add(QrCode { name: "Theirs".to_owned(), ..QrCode::default() });
        }
    });
    world.set_faults("lost-request@POST /api/qr/add#1", 1);
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.unknown), (26, 0), "{outcome:?}");
    assert_eq!(ours(&world).len(), 1);
    assert_eq!(journal(&world)[20].id, Some(ours(&world)[0].cast_signed()));
    let listed = world.requested_paths().iter().filter(|path| path.starts_with("/api/qr?")).count();
    // Before, after the pause, twice for the lost one, and at the end.
    assert_eq!(listed, 5);
}

/// A process is killed while it sends a code for the second time. What it read in between shows the
/// next process which code is new.
#[test]
fn a_code_with_two_lost_responses_is_found_by_resume() {
    let mut lost = 0;
    for moment in 1..=40 {
        let mut world = world("rate-limit=zero");
        let mut plan = Plan::default();
        create(&mut plan, Resource::QrCodes, json!({"type": "text", "data": "ours"}));
        world.latency = Duration::from_secs(25);
        let faults = "lost-request@POST /api/qr/add#1,lost-reply@POST /api/qr/add#2";
        world.set_faults(faults, 1);
        world.dies_after = Some(moment);
        if world.apply(&plan, &options()).is_ok() {
            break;
        }
        world.dies_after = None;
        world.set_faults("", 1);
        world.pass(Duration::from_secs(600));
        if world.open().runs().unwrap().is_empty() {
            continue;
        }
        lost += u32::from(journal(&world)[0].attempts == 2);
        let outcome = resumed(&mut world);
        assert_eq!((outcome.done, outcome.unknown), (1, 0), "dead after {moment}: {outcome:?}");
        let made = ours(&world);
        assert_eq!(made.len(), 1, "dead after {moment}");
        assert_eq!(journal(&world)[0].id, Some(made[0].cast_signed()), "dead after {moment}");
    }
    assert!(lost > 0, "no process died after the second request");
}

/// Just before the create arrives, another user deletes the newest record, whose id the service
/// gives to ours. The response is lost.
#[test]
fn a_create_that_got_a_known_id_is_not_sent_twice() {
    let begin = || {
        let mut store = generate(5, GeneratedCounts::each(4));
        store.reuse_ids();
        World::of(store, "")
    };
    let channel = (Resource::Channels, json!({"name": "Ours"}));
    let code = (Resource::QrCodes, json!({"type": "text", "data": "ours"}));
    let update = [None, Some(("/api/channel/4/update", "/api/qr/4/update"))];
    for ((resource, body), update) in [channel, code].iter().flat_map(|it| update.map(|u| (it, u)))
    {
        let (is_channel, mut plan) = (*resource == Resource::Channels, Plan::default());
        create(&mut plan, *resource, body.clone());
        // The run also changes the record that had the id, but not to the values of the create.
        if let Some((channel, code)) = update {
            let (path, field) = if is_channel { (channel, "description") } else { (code, "data") };
            add(&mut plan, *resource, Verb::Update, path, Some(json!({field: "new"})));
        }
        let mut quiet = begin();
        quiet.apply(&plan, &options()).unwrap();
        let at = 1
            + quiet.requested_paths().iter().position(|path| path.ends_with("/add")).unwrap()
                as u64;
        let mut world = begin();
        world.before_each_request(move |store, nth| {
            if nth == at {
                let (code, channel) = (store.qr_codes.iter().last(), store.channels.iter().last());
                let (code, channel) = (code.unwrap().0, channel.unwrap().0);
                assert_eq!((code, channel), (4, 4));
                store.remove_qr(code);
                store.channels.remove(channel);
            }
        });
        world.set_faults("lost-reply@POST /api/channel/add#1,lost-reply@POST /api/qr/add#1", 1);
        let outcome = world.apply(&plan, &options()).unwrap();
        assert_eq!(outcome.unknown, 1, "{outcome:?}");
        let posts = world.requested_paths().iter().filter(|path| path.ends_with("/add")).count();
        assert_eq!(posts, 1, "{resource}");
        let service = world.service();
        let all = (service.store().channels.len(), service.store().qr_codes.len());
        assert_eq!(all, if is_channel { (4, 3) } else { (3, 4) });
    }
}

/// A plan that updates channel 2, with its values at the time of the plan.
pub(super) fn update(world: &World, plan: &mut Plan, body: Value) {
    update_of(world, plan, Resource::Channels, "/api/channel/2/update", body);
}

/// Like [`update`], for the record that `path` names.
pub fn update_of(world: &World, plan: &mut Plan, resource: Resource, path: &str, body: Value) {
    add(plan, resource, Verb::Update, path, Some(body));
    let mut vault = world.open();
    let options = linkvault::crawl::CrawlOptions::new("http://sandbox").only(&[resource]);
    let number = world.crawl(&mut vault, &options).unwrap().snapshot.number;
    let state = vault.state(number, &[resource]).unwrap();
    let step = plan.steps.last_mut().unwrap();
    let record = &state.get(resource).unwrap()[&RecordKey::Id(step.id.unwrap())];
    let value = |name: &str| {
        let (place, _) = resource.spec().field(name).unwrap();
        let rotator = || record.values.get(resource.spec().field(ROTATOR).unwrap().0);
        match record.values.get(place) {
            Some(value) => value.json(),
            None => json!(slug(rotator().unwrap().cell().as_ref()).unwrap_or_default()),
        }
    };
    step.fingerprint = Some(fingerprint(resource, record));
    step.name = value("name").as_str().unwrap().to_owned();
    let fields = step.after.iter().flat_map(|after| after.keys());
    step.before = Some(fields.map(|name| (name.clone(), value(name))).collect());
}

pub(super) const UPDATE: &str = "PUT /api/channel/2/update";

#[test]
fn an_update_without_responses_does_not_block_the_others() {
    for (fault, state, said) in [
        ("lost-reply", StepState::Done, None),
        (
            "lost-request",
            StepState::Refused,
            Some("the service did not confirm it, and the list shows that"),
        ),
    ] {
        let mut world = world("");
        let mut plan = Plan::default();
        update(&world, &mut plan, json!({"description": "new"}));
        create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
        world.set_faults(&format!("{fault}@{UPDATE}"), 1);
        world.apply(&plan, &options()).unwrap();
        let rows = journal(&world);
        assert_eq!((rows[0].state, rows[1].state), (state, StepState::Done), "{fault}");
        let message = rows[0].message.as_deref();
        assert_eq!(message.is_some(), said.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().starts_with(said.unwrap_or_default()), "{message:?}");
    }
}

/// No list shows a code's data.
fn with_unknown_update() -> World {
    let mut world = world("");
    let mut plan = Plan::default();
    let path = "/api/qr/1/update";
    add(&mut plan, Resource::QrCodes, Verb::Update, path, Some(json!({"data": "new"})));
    create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
    world.set_faults(&format!("lost-reply@PUT {path}"), 1);
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.unknown, outcome.done), (1, 1), "{outcome:?}");
    world
}

#[test]
fn an_update_that_no_list_shows_needs_a_decision() {
    let mut world = with_unknown_update();
    let mut vault = world.open();
    let open = resolve::candidates(&mut vault, RunId(1)).unwrap();
    assert!(open[0].candidates.is_empty());
    resolve::decide(&mut vault, RunId(1), 1, StepDecision::Retry, world.now()).unwrap();
    drop(vault);
    world.set_faults("", 1);
    let outcome = resumed(&mut world);
    assert_eq!((outcome.unknown, outcome.done), (0, 2), "{outcome:?}");
}

/// The list shows that the rotator has changed, by this update or by another user.
#[test]
fn a_retry_by_resolve_is_sent_although_its_record_has_changed() {
    let mut world = world("");
    let mut plan = Plan::default();
    let path = "/api/campaign/1/update";
    update_of(&world, &mut plan, Resource::Campaigns, path, json!({"slug": "repeated"}));
    plan.steps[0].verifiable = false;
    world.set_faults(&format!("lost-reply@PUT {path}"), 1);
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!(outcome.unknown, 1, "{outcome:?}");
    world.set_faults("", 1);
    resolve::decide(&mut world.open(), RunId(1), 1, StepDecision::Retry, world.now()).unwrap();
    world.requested_paths();
    world.requested_paths();
    resumed(&mut world);
    assert_eq!(world.requested_paths().iter().filter(|it| *it == path).count(), 1);
}

/// A person decides to repeat an update that may be done. Its record cannot be the result of the
/// create in the same run.
#[test]
fn a_record_changed_by_a_repeated_update_is_not_adopted_by_a_create() {
    let mut world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "Ours"}));
    let path = "/api/campaign/1/update";
    update_of(&world, &mut plan, Resource::Campaigns, path, json!({"name": "Ours"}));
    world.set_faults("lost-request@POST /api/campaign/add#1", 1);
    world.requested_paths();
    // Another user creates two campaigns with that name, and deletes them later.
    let (traffic, mut made) = (Arc::clone(&world.traffic), false);
    world.before_each_request(move |store, _| {
        let asked = &traffic.lock().unwrap().paths;
        let is_sent = asked.iter().any(|it| it == "/api/campaign/add");
        if is_sent && !made && asked.last().unwrap().starts_with("/api/campaigns") {
            made = true;
            for _ in 0..2 {
                store.add_campaign("Ours", None, false);
            }
        }
    });
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.unknown, outcome.done), (1, 1), "{outcome:?} {:?}", journal(&world));
    world.before_request = None;
    world.set_faults("", 1);
    world.change(|store| [5, 6].into_iter().for_each(|id| drop(store.campaigns.remove(id))));
    world.backup();
    // As if no list had shown it.
    let unknown = StepResult::of(StepState::Unknown);
    world.open().record_result(RunId(1), 2, &unknown, world.now(), false).unwrap();
    let candidates = |world: &World| {
        let open = resolve::candidates(&mut world.open(), RunId(1)).unwrap();
        let of_create = open.into_iter().find(|it| it.step.step == 1).unwrap();
        of_create.candidates.iter().map(|it| it.key.id()).collect::<Vec<_>>()
    };
    assert_eq!(candidates(&world), [0; 0]);
    resolve::decide(&mut world.open(), RunId(1), 2, StepDecision::Retry, world.now()).unwrap();
    assert_eq!(candidates(&world), [0; 0]);
}

#[test]
fn a_service_that_is_down_stops_the_run() {
    for fault in ["no-connection", "lost-request"] {
        let mut world = world("");
        let mut plan = Plan::default();
        update(&world, &mut plan, json!({"description": "new"}));
        let faults = Arc::clone(&world.faults);
        world.before_each_request(move |_, nth| {
            if nth == 2 {
                *faults.lock().unwrap() = format!("{fault}=1").parse().unwrap();
            }
        });
        assert!(world.apply(&plan, &options()).is_err());
        let state = journal(&world)[0].state;
        assert!(matches!(state, StepState::Planned | StepState::Sent), "{fault}: {state:?}");
        world.before_request = None;
        world.set_faults("", 1);
        assert_eq!(resumed(&mut world).done, 1, "{fault}");
    }
}

#[test]
fn a_run_can_be_abandoned() {
    let world = with_unknown_update();
    let mut vault = world.open();
    resolve::abandon(&mut vault, RunId(1), world.now()).unwrap();
    let run = vault.run(RunId(1)).unwrap();
    assert_eq!((run.status, run.count(StepState::Skipped)), (RunStatus::Partial, 1));
    assert!(run.finished.is_some() && vault.unfinished_run().unwrap().is_none());
    assert!(resolve::abandon(&mut vault, RunId(1), world.now()).is_err(), "it is finished");
}

/// A run that stopped before its update; another user changes the record first.
fn changed_while_stopped(change: impl FnOnce(&mut linkvault::sandbox::Store)) -> World {
    let mut world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
    update(&world, &mut plan, json!({"description": "ours"}));
    create(&mut plan, Resource::Campaigns, json!({"name": "Two"}));
    let channel = create(&mut plan, Resource::Channels, json!({"name": "Three"}));
    let path = format!("/api/channel/{{{channel}}}/assign/links/77");
    add(&mut plan, Resource::ChannelItems, Verb::Assign, &path, None);
    world.set_faults(&format!("no-connection@{UPDATE}"), 1);
    world.apply(&plan, &options()).unwrap_err();
    assert_eq!(journal(&world)[1].state, StepState::Planned);
    world.set_faults("", 1);
    world.change(change);
    world
}

#[test]
fn changes_made_while_a_run_was_stopped_are_not_overwritten() {
    let mut world = changed_while_stopped(|store| {
        let row = store.channels.get_mut(2).unwrap();
        row.description = "theirs".to_owned();
        store.add_campaign("two", None, false);
        let channel = store.channels.get(1).unwrap().clone();
        store
            .channels
            .add(linkvault::sandbox::store::StoredChannel { name: "three".to_owned(), ..channel });
    });
    let outcome = resumed(&mut world);
    assert_eq!((outcome.done, outcome.stale, outcome.skipped), (1, 3, 1), "{outcome:?}");
    assert_eq!(world.service().store().channels.get(2).unwrap().description, "theirs");
    let rows = journal(&world);
    let said = |nth: usize| rows[nth].message.as_deref();
    let changed = "has changed since the plan was made: `description` was `";
    let theirs = "` and is `theirs`";
    assert!(said(1).is_some_and(|it| it.starts_with(changed) && it.ends_with(theirs)), "{rows:?}");
    assert_eq!((said(2), said(4)), (Some("exists already"), Some("step 4 is stale")));
}

#[test]
fn steps_of_unchanged_records_are_done_after_a_stop() {
    let mut world = changed_while_stopped(|_| {});
    let outcome = resumed(&mut world);
    assert_eq!((outcome.done, outcome.refused), (5, 0), "{outcome:?}");
}

/// Our own update with a lost response is not another user's change.
#[test]
fn an_update_that_took_effect_before_the_stop_is_done_and_not_stale() {
    let mut world = world("");
    let mut plan = Plan::default();
    update(&world, &mut plan, json!({"description": "ours"}));
    let faults = Arc::clone(&world.faults);
    world.before_each_request(move |store, _| {
        if store.channels.get(2).unwrap().description == "ours" {
            *faults.lock().unwrap() = "no-connection=1".parse().unwrap();
        }
    });
    world.set_faults(&format!("lost-reply@{UPDATE}"), 1);
    world.apply(&plan, &options()).unwrap_err();
    world.before_request = None;
    world.set_faults(&format!("server-error@{UPDATE}"), 1);
    let outcome = resumed(&mut world);
    assert_eq!((outcome.done, outcome.refused), (1, 0), "{outcome:?}");
}

#[test]
fn a_create_whose_name_the_service_altered_is_not_sent_again() {
    let mut world = world("");
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "Sale & More"}));
    world.set_faults("lost-reply@POST /api/campaign/add", 1);
    world.before_each_request(|store, _| {
        for (_, row) in store.campaigns.iter_mut() {
            row.name = row.name.replace('&', "&amp;");
        }
    });
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!(outcome.unknown, 1, "{outcome:?}");
    assert_eq!(world.service().store().campaigns.iter().count(), 5);
    let mut vault = world.open();
    let open = resolve::candidates(&mut vault, RunId(1)).unwrap();
    let ids: Vec<_> = open[0].candidates.iter().map(|it| it.key.id()).collect();
    assert_eq!(ids, [5]);
    resolve::decide(&mut vault, RunId(1), 1, StepDecision::Adopt(5), world.now()).unwrap();
    drop(vault);
    assert_eq!(resumed(&mut world).done, 1);
}

#[test]
fn fail_fast_looks_up_steps_that_were_sent() {
    for (resource, path, body, state) in [
        (
            Resource::Channels,
            "/api/channel/2/update",
            json!({"description": "new"}),
            StepState::Done,
        ),
        (Resource::QrCodes, "/api/qr/1/update", json!({"data": "new"}), StepState::Unknown),
    ] {
        let mut world = world("cap-campaigns=4");
        let mut plan = Plan::default();
        create(&mut plan, Resource::Campaigns, json!({"name": "One"}));
        add(&mut plan, resource, Verb::Update, path, Some(body));
        let faults = Arc::clone(&world.faults);
        let put = path.to_owned();
        world.before_each_request(move |store, nth| {
            let new = store.channels.get(2).unwrap().description == "new";
            if new || (nth > 5 && put.contains("qr")) {
                *faults.lock().unwrap() = "no-connection=1".parse().unwrap();
            }
        });
        world.set_faults(&format!("lost-reply@PUT {path}"), 1);
        world.apply(&plan, &options()).unwrap_err();
        assert_eq!(journal(&world)[1].state, StepState::Sent);
        world.before_request = None;
        world.set_faults("", 1);
        let options = ApplyOptions { fail_fast: true, ..options() };
        world.resume(RunId(1), &options).unwrap();
        assert_eq!(journal(&world)[1].state, state);
    }
}

#[test]
fn a_password_without_a_response_is_unknown() {
    let mut world = world("");
    let mut plan = Plan::default();
    set_password(&mut plan, None);
    let secrets = StepSecrets { password: Some("correct horse".to_owned()) };
    let options = ApplyOptions { secrets, ..options() };
    let faults = Arc::clone(&world.faults);
    world.before_each_request(move |_, nth| {
        if nth == 3 {
            *faults.lock().unwrap() = "no-connection=1".parse().unwrap();
        }
    });
    world.set_faults("lost-reply@PUT /api/account/update", 1);
    world.apply(&plan, &options).unwrap_err();
    assert_eq!(journal(&world)[0].state, StepState::Sent);
    world.before_request = None;
    world.set_faults("", 1);
    assert_eq!(resumed(&mut world).unknown, 1);
    let said = journal(&world)[0].message.clone().unwrap();
    assert!(said.contains("may have been set") && said.contains("set it again"), "{said}");
}

#[test]
fn a_refusal_of_the_second_try_does_not_decide_the_first() {
    let mut world = world("");
    let mut plan = Plan::default();
    update(&world, &mut plan, json!({"name": "Fresh"}));
    // Between the two, another user takes the name for another channel as well.
    world.before_each_request(|store, _| {
        if store.channels.get(2).unwrap().name == "Fresh" {
            store.channels.get_mut(3).unwrap().name = "Fresh".to_owned();
        }
    });
    world.set_faults(&format!("lost-reply@{UPDATE}#1"), 1);
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.refused), (1, 0), "{outcome:?}");
}

#[test]
fn a_failed_step_that_no_list_shows_is_unknown() {
    let code = ("/api/qr/1/update", Some(json!({"data": "new"})));
    let link = ("/api/campaign/2/assign/77", None);
    for (resource, verb, (path, body)) in
        [(Resource::QrCodes, Verb::Update, code), (Resource::Campaigns, Verb::Assign, link)]
    {
        for fault in ["failed-reply", "server-error", "server-error-html", "cut-body:10"] {
            let mut world = world("");
            let mut plan = Plan::default();
            add(&mut plan, resource, verb, path, body.clone());
            world.set_faults(&format!("{fault}@PUT /api,{fault}@POST /api"), 1);
            let outcome = world.apply(&plan, &options()).unwrap();
            assert_eq!(outcome.unknown, 1, "{fault} {path}: {outcome:?}");
            // There was a response, but it did not report success.
            let said = journal(&world)[0].message.clone().unwrap();
            assert!(said.starts_with("the service did not confirm it, and no list "), "{said}");
        }
    }
    let mut world = world("");
    let mut plan = Plan::default();
    set_password(&mut plan, None);
    let secrets = StepSecrets { password: Some("correct horse".to_owned()) };
    world.set_faults("failed-reply@PUT /api", 1);
    let outcome = world.apply(&plan, &ApplyOptions { secrets, ..options() }).unwrap();
    assert_eq!(outcome.unknown, 1, "{outcome:?}");
    assert!(journal(&world)[0].message.clone().unwrap().contains("may have been set"));
}

/// A service that refuses by its message what it executes.
#[test]
fn undo_follows_the_effect_and_not_the_response() {
    let mut world = world("");
    let mut plan = Plan::default();
    update(&world, &mut plan, json!({"description": "new"}));
    let before = world.service().store().channels.get(2).unwrap().description.clone();
    let refusal = r#"{"error":1,"message":"No."}"#;
    world.canned = Some(("/api/channel/2/update".to_owned(), refusal.to_owned()));
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.refused), (0, 1), "{outcome:?}");
    let way = linkvault::apply::undo::undo_run(&mut world.open(), RunId(1)).unwrap();
    let wanted = &way.desired.resources[&Resource::Channels].records[0];
    let old = wanted.value(Resource::Channels, "description").unwrap().cell().into_owned();
    assert_eq!(old, before);
}
