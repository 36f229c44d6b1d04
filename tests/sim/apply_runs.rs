//! Plans applied on simulated time: whatever is lost, and whenever the process is killed, each
//! record is created exactly once.

use std::time::Duration;

use linkvault::apply::resolve::{self, StepDecision};
use linkvault::apply::{ApplyError, ApplyOptions, RunReport, undo};
use linkvault::change::plan::Plan;
use linkvault::model::{RecordKey, Resource, RunId, Verb};
use linkvault::sandbox::Faults;
use linkvault::sandbox::faults::{Fault, FaultTrigger, Garbage};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::vault::journal::{JournalStep, RunCommand, RunStatus, StepState};
use linkvault::vault::{Vault, VaultError};
use serde_json::json;

use super::world::World;
use crate::sim::expected_account::{
    add, assert_matches_journal, assert_no_duplicates, change_as_other_user, draw, rows, touched,
};
use crate::sim::invariants;
use crate::sim::seed_runner::run_seeds;
use crate::sim::seeded_choices::{Disturbances, few, is_large};
use crate::sim::unknown_outcomes::update_of;

pub fn options() -> ApplyOptions {
    ApplyOptions {
        command: RunCommand::Apply,
        plan_id: "the plan".to_owned(),
        service: "http://sandbox".to_owned(),
        ..ApplyOptions::default()
    }
}

fn world(behaviour: &str) -> World {
    World::of(generate(5, GeneratedCounts::each(4)), behaviour)
}

pub fn campaigns(names: &[&str]) -> Plan {
    let mut plan = Plan::default();
    for name in names {
        let body = Some(json!({"name": name}));
        add(&mut plan, Resource::Campaigns, Verb::Create, "/api/campaign/add", body);
    }
    plan
}

fn states(world: &World) -> Vec<StepState> {
    rows(&world.open()).iter().map(|row| row.state).collect()
}

fn names(world: &World) -> Vec<String> {
    world.service().store().campaigns.iter().skip(4).map(|(_, it)| it.name.clone()).collect()
}

/// Applies a plan, and resumes the run until it is finished.
fn apply_until_finished(world: &mut World, plan: &Plan) -> Result<RunReport, ApplyError> {
    let mut last = None;
    for start in 0..40 {
        if start == 20 {
            world.set_faults("", 0);
            world.limits.max_requests = None;
            world.other_account = None;
        }
        let open = world.open().unfinished_run().unwrap();
        let outcome = match open.map(|run| run.number) {
            Some(run) => world.resume(run, &options()),
            None => world.apply(plan, &options()),
        };
        match outcome {
            Ok(outcome) => return Ok(outcome),
            // The process was killed after the run was finished.
            Err(ApplyError::Used(run)) => {
                world.other_account = None;
                return world.resume(run, &options());
            }
            Err(error @ (ApplyError::Stale(_) | ApplyError::Step { .. })) => return Err(error),
            Err(error) => last = Some(error),
        }
        invariants::is_sound(&mut world.open());
        world.pass(Duration::from_secs(90));
    }
    panic!("the run never ends: {last:?}")
}

#[test]
fn a_lost_reply_causes_no_duplicate_and_a_lost_request_is_sent_again() {
    for fault in [
        Fault::LostReply,
        Fault::LostRequest,
        Fault::CutBody(10),
        Fault::ServerErrorHtml,
        Fault::Garbage(Garbage::Empty),
    ] {
        let mut world = world("");
        *world.faults.lock().unwrap() = Faults::none().with(fault.clone(), FaultTrigger::Nth(4));
        let outcome =
            apply_until_finished(&mut world, &campaigns(&["One", "Two", "Three"])).unwrap();
        assert_eq!((outcome.done, outcome.verified), (3, 3), "{fault:?}: {outcome:?}");
        let mut made = names(&world);
        made.sort();
        assert_eq!(made, ["One", "Three", "Two"], "{fault:?}");
        assert_eq!(world.service().totals().throttled, 0);
    }
}

#[test]
fn a_refusal_keeps_the_services_message_and_skips_dependent_steps() {
    let mut world = world("cap-channels=4");
    let mut plan = campaigns(&["One"]);
    let name = Some(json!({"name": "New"}));
    let channel = add(&mut plan, Resource::Channels, Verb::Create, "/api/channel/add", name);
    let path = format!("/api/channel/{{{channel}}}/assign/links/77");
    add(&mut plan, Resource::ChannelItems, Verb::Assign, &path, None);
    let outcome = apply_until_finished(&mut world, &plan).unwrap();
    assert_eq!((outcome.done, outcome.refused, outcome.skipped), (1, 1, 1));
    let rows = rows(&world.open());
    let said = "You have reach the maximum limit for this feature.";
    assert_eq!(rows[1].message.as_deref(), Some(said));
    assert_eq!(rows[2].message.as_deref(), Some("step 2 was refused"));
    assert_eq!(world.open().runs().unwrap()[0].status, RunStatus::Partial);
}

#[test]
fn a_name_taken_since_the_plan_makes_it_stale() {
    let mut world = world("");
    world.change(|store| {
        store.add_campaign("one", None, false);
    });
    let before = world.content();
    let error = apply_until_finished(&mut world, &campaigns(&["Two", "One"])).unwrap_err();
    assert!(error.to_string().contains("step 2: campaign 2 exists already"), "{error}");
    assert_eq!(world.content(), before);
    assert!(world.open().runs().unwrap().is_empty());
}

#[test]
fn a_write_that_took_effect_is_found_after_later_failures() {
    for (first, done) in [("garbage:truncated", 1), ("lost-request", 0)] {
        let mut world = world("");
        let path = "/api/channel/2/update";
        let mut plan = Plan::default();
        let body = Some(json!({"description": "new"}));
        add(&mut plan, Resource::Channels, Verb::Update, path, body);
        world.set_faults(&format!("{first}@PUT {path}#1,server-error@PUT {path}"), 1);
        let outcome = world.apply(&plan, &options()).unwrap();
        assert_eq!((outcome.done, outcome.refused), (done, 1 - done), "{first}: {outcome:?}");
        let there = world.service().store().channels.get(2).unwrap().description == "new";
        assert_eq!(there, done == 1);
    }
}

#[test]
fn undo_works_without_the_crawl_after_the_run() {
    let mut world = world("");
    let path = "/api/channel/2/update";
    let mut plan = Plan::default();
    let old = world.service().store().channels.get(2).unwrap().description.clone();
    let body = Some(json!({"description": "new"}));
    add(&mut plan, Resource::Channels, Verb::Update, path, body);
    let faults = std::sync::Arc::clone(&world.faults);
    // The account, the list, the write.
    world.before_each_request(move |_, nth| {
        if nth == 3 {
            *faults.lock().unwrap() = "server-error@/api/channels".parse().unwrap();
        }
    });
    let outcome = world.apply(&plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.verified), (1, 0));
    let told = "channels could not be read again, so their steps are not verified";
    assert!(outcome.problems[0].starts_with(told), "{outcome:?}");
    let mut vault = world.open();
    let run = vault.run(RunId(1)).unwrap();
    let base = undo::state_after_run(&mut vault, &run).unwrap().unwrap();
    assert!(base.get(Resource::Channels).is_none(), "it shows the time before");
    let way = undo::undo_run(&mut vault, RunId(1)).unwrap();
    let wanted = &way.desired.resources[&Resource::Channels].records[0];
    let wanted = wanted.value(Resource::Channels, "description").unwrap();
    assert_eq!(wanted.cell(), old);
}

#[test]
fn a_plan_is_applied_once() {
    let mut world = world("");
    apply_until_finished(&mut world, &campaigns(&["One"])).unwrap();
    let again = world.apply(&campaigns(&["Two"]), &options()).unwrap_err();
    assert!(matches!(again, ApplyError::Used(RunId(1))), "{again}");
    assert_eq!(names(&world), ["One"]);
}

#[test]
fn a_lowercased_value_is_verified_with_a_remark() {
    let mut world = world("names=lowered,pixel-answer=bare");
    let mut plan = campaigns(&["Spring"]);
    let body = Some(json!({"type": "bing", "name": "P", "tag": "T"}));
    add(&mut plan, Resource::Pixels, Verb::Create, "/api/pixel/add", body);
    let outcome = apply_until_finished(&mut world, &plan).unwrap();
    assert_eq!(outcome.verified, 2, "{outcome:?}");
    assert!(outcome.problems[0].contains("`Spring` is stored as `spring`"));
    let rows = rows(&world.open());
    assert!(rows[1].id.is_some(), "the pixel's id was found in its list");
    let sent = linkvault::apply::account_memory(&world.open()).unwrap().sent;
    let key = RecordKey::Id(rows[0].id.unwrap());
    assert_eq!(sent[&(Resource::Campaigns, key)]["name"], json!("Spring"));
}

#[test]
fn a_code_with_several_candidates_is_unknown() {
    let mut world = world("");
    let mut plan = Plan::default();
    let body = Some(json!({"type": "text", "data": "ours"}));
    add(&mut plan, Resource::QrCodes, Verb::Create, "/api/qr/add", body);
    world.set_faults("lost-reply@3", 1);
    world.before_each_request(|store, nth| {
        if nth == 4 {
            store.qr_codes.add(linkvault::sandbox::store::QrCode::default());
        }
    });
    let outcome = apply_until_finished(&mut world, &plan).unwrap();
    assert_eq!((outcome.unknown, outcome.done), (1, 0), "{outcome:?}");
    let run = world.open().run(RunId(1)).unwrap();
    assert_eq!((run.status, run.finished), (RunStatus::Unknown, None));
    world.before_request = None;
    let mut vault = world.open();
    let open = resolve::candidates(&mut vault, RunId(1)).unwrap();
    let ids: Vec<_> = open[0].candidates.iter().map(|it| it.key.id()).collect();
    assert_eq!(ids, [5, 6]);
    let decide =
        |vault: &mut Vault, decision| resolve::decide(vault, RunId(1), 1, decision, world.now());
    let other = decide(&mut vault, StepDecision::Adopt(1)).unwrap_err();
    assert_eq!(other.to_string(), "step 1: 1 cannot be its record; these can: 5 and 6");
    decide(&mut vault, StepDecision::Adopt(5)).unwrap();
    assert!(decide(&mut vault, StepDecision::Skip).is_err());
    drop(vault);
    let outcome = world.resume(RunId(1), &options()).unwrap();
    assert_eq!((outcome.done, outcome.unknown), (1, 0), "{outcome:?}");
    let sent = linkvault::apply::account_memory(&world.open()).unwrap().sent;
    assert_eq!(sent[&(Resource::QrCodes, RecordKey::Id(5))]["data"], json!("ours"));
    assert_eq!(world.open().run(RunId(1)).unwrap().status, RunStatus::Complete);
}

#[test]
fn a_run_killed_at_any_commit_continues_without_duplicates() {
    for behaviour in ["", "rate-limit=zero"] {
        let plan = || {
            let mut plan = campaigns(&["One", "Two"]);
            let body = Some(json!({"type": "text", "data": "made"}));
            let code = add(&mut plan, Resource::QrCodes, Verb::Create, "/api/qr/add", body);
            let path = format!("/api/channel/2/assign/qr/{{{code}}}");
            add(&mut plan, Resource::ChannelItems, Verb::Assign, &path, None);
            plan
        };
        let mut whole = world(behaviour);
        apply_until_finished(&mut whole, &plan()).unwrap();
        let moments = *whole.moments.lock().unwrap();
        assert!(moments > 40, "{moments}");
        for moment in 1..=moments {
            let mut world = world(behaviour);
            let before = world.service().store().clone();
            world.dies_after = Some(moment);
            let outcome = world.apply(&plan(), &options());
            let stopped = matches!(
                outcome,
                Err(ApplyError::Vault(VaultError::Stopped)
                    | ApplyError::Crawl(linkvault::crawl::CrawlError::Vault(VaultError::Stopped)))
            );
            assert!(stopped, "at {moment}: {outcome:?}");
            invariants::is_sound(&mut world.open());
            let outcome = apply_until_finished(&mut world, &plan()).unwrap();
            assert_eq!((outcome.done, outcome.verified), (4, 4), "at {moment}: {outcome:?}");
            let rows = rows(&world.open());
            assert_matches_journal(&before, world.service().store(), &plan(), &rows);
            assert_eq!(world.service().totals().throttled, 0, "at {moment}");
        }
    }
}

/// Two lost creates are marked as sent again in one commit, and each has a dependent step.
#[test]
fn lost_creates_are_sent_again_before_dependent_steps() {
    let mut world = world("rate-limit=zero");
    let mut plan = campaigns(&["One", "Two"]);
    for step in [1, 2] {
        let path = format!("/api/campaign/{{{step}}}/assign/{step}");
        add(&mut plan, Resource::Campaigns, Verb::Assign, &path, None);
    }
    let lost = "lost-request@POST /api/campaign/add";
    world.set_faults(&format!("{lost}#1,{lost}#2"), 1);
    let outcome = apply_until_finished(&mut world, &plan).unwrap();
    assert_eq!(outcome.done, 4, "{outcome:?}");
    assert_eq!(names(&world), ["One", "Two"]);
}

#[test]
fn a_code_with_the_id_of_a_deleted_one_is_created_once() {
    let mut world = world("");
    world.change(linkvault::sandbox::Store::reuse_ids);
    let mut plan = Plan::default();
    add(&mut plan, Resource::QrCodes, Verb::Delete, "/api/qr/4/delete", None);
    let body = Some(json!({"type": "text", "data": "made"}));
    add(&mut plan, Resource::QrCodes, Verb::Create, "/api/qr/add", body);
    world.set_faults("lost-reply@POST /api/qr/add#1", 1);
    let outcome = apply_until_finished(&mut world, &plan).unwrap();
    assert_eq!((outcome.done, outcome.verified), (2, 2), "{outcome:?}");
    assert_eq!(rows(&world.open())[1].id, Some(4));
    assert_no_duplicates(world.service().store(), &plan);
}

/// Whenever the process is killed, a channel whose response did not contain its id is found in the
/// list, even with the id of one that the run deleted. Without a rate limit, steps are marked as
/// sent together; the update of a QR code stores the results before it. Where the kill lost the
/// result of the delete, the create may stay unknown.
#[test]
fn a_channel_with_the_id_of_a_deleted_one_is_created_once() {
    let mut plan = Plan::default();
    add(&mut plan, Resource::Channels, Verb::Delete, "/api/channel/4/delete", None);
    let body = Some(json!({"data": "new"}));
    add(&mut plan, Resource::QrCodes, Verb::Update, "/api/qr/1/update", body);
    let body = Some(json!({"name": "New"}));
    add(&mut plan, Resource::Channels, Verb::Create, "/api/channel/add", body);
    let cases =
        ["", "rate-limit=zero"].into_iter().flat_map(|it| (1..80).map(move |nth| (it, nth)));
    for (behaviour, moment) in cases {
        let mut world = world(behaviour);
        world.change(linkvault::sandbox::Store::reuse_ids);
        world.set_faults("garbage:wrong-types@POST /api/channel/add#1", 1);
        world.dies_after = Some(moment);
        let _ = world.apply(&plan, &options());
        let is_lost = {
            let vault = world.open();
            let run = vault.unfinished_run().unwrap();
            let steps = run.map_or_else(Vec::new, |run| vault.steps(run.number).unwrap());
            steps.iter().any(|it| it.step == 1 && it.state == StepState::Sent)
        };
        let outcome = apply_until_finished(&mut world, &plan).unwrap();
        assert_no_duplicates(world.service().store(), &plan);
        let unknown = u64::from(is_lost && outcome.unknown == 1 && !behaviour.is_empty());
        let expected = (3 - unknown, 2 - unknown);
        assert_eq!((outcome.done, outcome.verified), expected, "{behaviour} {moment}: {outcome:?}");
    }
}

/// Whenever the process is killed: the update that gives up a name was lost, and a create is to get
/// the name.
#[test]
fn a_create_is_not_stale_while_an_update_has_yet_to_give_up_its_name() {
    let campaigns = |world: &World| world.service().store().campaigns.clone();
    let name = campaigns(&world("")).get(2).unwrap().name.clone();
    let mut plan = Plan::default();
    let body = Some(json!({"name": "Other"}));
    add(&mut plan, Resource::Campaigns, Verb::Update, "/api/campaign/2/update", body);
    let body = Some(json!({"name": name}));
    add(&mut plan, Resource::Campaigns, Verb::Create, "/api/campaign/add", body);
    for moment in 1..60 {
        let mut world = world("");
        world.set_faults("lost-request@PUT /api/campaign/2/update#1", 1);
        world.dies_after = Some(moment);
        let _ = world.apply(&plan, &options());
        let outcome = apply_until_finished(&mut world, &plan).unwrap();
        assert_eq!((outcome.done, outcome.verified), (2, 2), "at {moment}: {outcome:?}");
    }
}

/// Whenever the process is killed: the first create, whose response contained no id, got the id of
/// the deleted record that the second one replaces.
#[test]
fn a_create_is_not_stale_because_an_own_create_got_the_id_that_it_replaces() {
    let mut plan = campaigns(&["One", "Two"]);
    plan.steps[1].replaces = Some(4);
    for moment in 1..60 {
        let mut world = world("");
        world.change(|store| {
            store.reuse_ids();
            store.campaigns.remove(4);
        });
        world.set_faults("garbage:huge-numbers@POST /api/campaign/add#1", 1);
        world.dies_after = Some(moment);
        let _ = world.apply(&plan, &options());
        let outcome = apply_until_finished(&mut world, &plan).unwrap();
        assert_eq!((outcome.done, outcome.verified), (2, 2), "at {moment}: {outcome:?}");
    }
}

/// Whenever the process is killed: the service refuses a create with the name of a record that a
/// later step updates.
#[test]
fn a_refused_create_makes_no_later_step_stale() {
    let name = world("").service().store().campaigns.get(2).unwrap().name.clone();
    for moment in 1..60 {
        let mut world = world("");
        let mut plan = campaigns(&[&name]);
        let body = json!({"name": "Other"});
        update_of(&world, &mut plan, Resource::Campaigns, "/api/campaign/2/update", body);
        world.dies_after = Some(moment);
        let _ = world.apply(&plan, &options());
        let outcome = apply_until_finished(&mut world, &plan).unwrap();
        assert_eq!((outcome.refused, outcome.done), (1, 1), "at {moment}: {outcome:?}");
    }
}

/// Whenever the process is killed: the responses to the delete and to the first create, which gets
/// its id, come in the same millisecond, and the second create is lost.
#[test]
fn a_code_that_got_a_deleted_id_at_once_is_not_taken_for_the_next_one() {
    for moment in 1..80 {
        let mut world = world("rate-limit=zero");
        world.latency = Duration::ZERO;
        world.change(linkvault::sandbox::Store::reuse_ids);
        let mut plan = Plan::default();
        add(&mut plan, Resource::QrCodes, Verb::Delete, "/api/qr/4/delete", None);
        for data in ["one", "two"] {
            let body = Some(json!({"type": "text", "data": data}));
            add(&mut plan, Resource::QrCodes, Verb::Create, "/api/qr/add", body);
        }
        world.set_faults("lost-request@POST /api/qr/add#2", 1);
        world.dies_after = Some(moment);
        let _ = world.apply(&plan, &options());
        let outcome = apply_until_finished(&mut world, &plan).unwrap();
        let codes = world.service().store().qr_codes.iter().count();
        assert_eq!((outcome.done, codes), (3, 5), "at {moment}: {outcome:?}");
    }
}

/// The responses contain no id; the list at the end of the run does.
#[test]
fn a_delete_is_confirmed_although_a_create_got_the_id() {
    let of = |resource, path: &str, body| {
        let mut plan = Plan::default();
        add(&mut plan, resource, Verb::Delete, &format!("/api/{path}/4/delete"), None);
        add(&mut plan, resource, Verb::Create, &format!("/api/{path}/add"), Some(body));
        (plan, format!("/api/{path}/add"))
    };
    for (plan, path) in [
        of(Resource::Channels, "channel", json!({"name": "New"})),
        of(Resource::Campaigns, "campaign", json!({"name": "New"})),
        of(Resource::Domains, "domain", json!({"domain": "https://new.example"})),
    ] {
        for garbage in ["huge-numbers", "wrong-types", "empty"] {
            let mut world = world("");
            world.change(linkvault::sandbox::Store::reuse_ids);
            world.set_faults(&format!("garbage:{garbage}@POST {path}#1"), 1);
            let outcome = world.apply(&plan, &options()).unwrap();
            let at = format!("{path} {garbage}: {outcome:?}");
            assert_eq!((outcome.done, outcome.verified), (2, 2), "{at}");
            assert_eq!(rows(&world.open())[1].id, Some(4), "{at}");
        }
    }
}

#[test]
fn each_record_is_created_once_despite_lost_requests_and_replies() {
    run_seeds(200, simulate);
}

/// Another account responds to URL and key when the run is resumed: nothing is written to it.
fn assert_refuses_other_account(world: &mut World) {
    let Some(run) = world.open().unfinished_run().unwrap() else { return };
    let before_request = world.before_request.take();
    // What is executed late belongs to the account to which it was sent.
    world.execute_late();
    let ours = world.service().store().clone();
    world.change(|store| store.account.id += 1);
    let theirs = world.service().store().clone();
    let error = world.resume(run.number, &options()).map(|outcome| format!("{outcome:?}"));
    assert!(error.is_err(), "{error:?}");
    assert_eq!(*world.service().store(), theirs, "another account was written to");
    world.change(|store| *store = ours);
    world.before_request = before_request;
    world.pass(Duration::from_secs(20));
}

pub const FAULTS: &[&str] = &[
    "throttled={}",
    "server-error={}",
    "failed-reply={}",
    "failed-reply={}:redirect",
    "failed-reply={}:key-words",
    "failed-reply={}:throttle-words",
    "late-commit:9s@POST /api/qr/add#1",
    "failed-reply:not-found@POST /api/qr/add#1",
    "server-error-html={}",
    "html={}",
    "no-connection={}",
    "lost-request={}",
    "lost-reply={}",
    "cut-body={}:12",
    "reset={}",
    "garbage={}:not-utf8",
    "garbage={}:truncated",
    "garbage={}:empty",
    "garbage={}:null",
    "slow-body={}:40s",
    "slow-body={}:90s",
];

pub const BEHAVIOURS: &[(&str, &[&str])] = &[
    ("error-type", &["documented", "integer", "string"]),
    ("ids", &["integers", "strings", "mixed"]),
    ("booleans", &["json", "integers", "strings"]),
    ("result", &["page", "total", "absent"]),
    ("max-limit", &["none", "10", "3"]),
    ("order", &["ascending", "descending", "by-name"]),
    ("twins", &["none", "none", "beside", "last"]),
    ("campaign-list", &["documented", "name", "domain", "campaign"]),
    ("campaign-create", &["domain", "campaign"]),
    ("create-status", &["200", "201"]),
    ("channel-update", &["message", "whole"]),
    ("pixel-answer", &["id", "message", "bare"]),
    ("assign-again", &["accept", "refuse"]),
    ("names", &["kept", "lowered"]),
    ("texts", &["kept", "trimmed", "collapsed", "lowered", "encoded"]),
    ("error-status", &["4xx", "200"]),
    ("rate-limit", &["zero", "none", "12", "60"]),
];

/// One account, one plan, and random disturbances.
#[allow(clippy::print_stdout)]
fn simulate(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let large = is_large(&mut rng);
    let mut behaviour = Vec::new();
    for (name, values) in BEHAVIOURS {
        if rng.bool() {
            behaviour.push(format!("{name}={}", rng.choice(*values).unwrap()));
        }
    }
    let faults: Vec<_> = (0..rng.usize(..4))
        .map(|_| {
            let chance = format!("{:.3}", rng.f64().powi(2) * 0.4);
            rng.choice(FAULTS).unwrap().replace("{}", &chance)
        })
        .collect();
    let drift = if rng.u8(..4) == 0 { rng.f64() * 0.3 } else { 0.0 };
    let deaths = if rng.bool() { rng.u8(1..4) } else { 0 };
    let dies: Vec<_> = (0..deaths).map(|_| 1 + few(&mut rng, 80)).collect();
    let number = if large { rng.u64(..8) } else { few(&mut rng, 4) };
    let disturbances = Disturbances::draw(&mut rng);
    let switched = rng.u8(..3) == 0;
    let store = generate(seed, GeneratedCounts::each(number));
    let mut world = World::of(store, &behaviour.join(",")).seeded(seed);
    disturbances.begin(&mut world);
    let store = world.service().store().clone();
    // If two users create codes at the same time, it is unknown whose a code is.
    let plan = draw(&store, &mut rng, drift == 0.0, if large { 11 } else { 4 });
    println!("LINKVAULT_SIM_SEED={seed} {behaviour:?} {faults:?} drift {drift} deaths {dies:?}");
    if rng.bool() {
        world.backup();
        disturbances.allow_other_account(&mut world);
    }
    world.set_faults(&faults.join(","), seed);
    let mut others = rng.fork();
    if drift > 0.0 {
        let touched = touched(&plan);
        world.before_each_request(move |store, _| {
            if others.f64() < drift {
                change_as_other_user(store, &touched, &mut others);
            }
        });
    }
    for moment in dies {
        world.dies_after = Some(moment);
        let open = world.open().unfinished_run().unwrap();
        let _ = match open {
            Some(run) => world.resume(run.number, &options()),
            None => world.apply(&plan, &options()),
        };
        invariants::is_sound(&mut world.open());
        assert_no_duplicates(world.service().store(), &plan);
        world.pass(Duration::from_secs(20));
        if switched {
            assert_refuses_other_account(&mut world);
        }
    }
    world.dies_after = None;
    let outcome = apply_until_finished(&mut world, &plan).unwrap();
    invariants::is_sound(&mut world.open());
    assert_no_duplicates(world.service().store(), &plan);
    // Steps that depend on a step with an unknown outcome need a person first.
    assert!(outcome.not_sent == 0 || outcome.unknown > 0, "{outcome:?}");
    if drift == 0.0 {
        let rows = rows(&world.open());
        assert_matches_journal(&store, world.service().store(), &plan, &rows);
        // Steps whose effect no list shows stay unknown if they have no response, and so does a
        // create that got the id of a record whose delete had no response either.
        let shown = |row: &&JournalStep| {
            let step = &plan.steps[row.step as usize - 1];
            (step.resource, step.verb) != (Resource::Campaigns, Verb::Assign)
                && !(disturbances.reuses_ids && step.verb == Verb::Create)
        };
        let unknown = rows.iter().filter(|row| row.state == StepState::Unknown);
        assert_eq!(unknown.filter(shown).count(), 0, "{:#?}", states(&world));
        if !faults.iter().any(|it| it.contains("throttled")) {
            assert_eq!(world.service().totals().throttled, 0, "refused for the limit");
        }
        if faults.is_empty() {
            assert_eq!(outcome.done, plan.steps.len() as u64, "{outcome:?}");
        }
    }
    world.assert_no_secret_leaks();
}
