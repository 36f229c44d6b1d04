//! Another user edits the records that a run is about to change. An edit that is older than the
//! maximum age of a list is never overwritten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::apply::{ApplyError, ApplyOptions, RunReport};
use linkvault::change::cost::{CrawlRequests, cost};
use linkvault::change::desired::{DesiredRecord, DesiredState, RecordRef};
use linkvault::change::lists::Lists;
use linkvault::change::plan::{
    AccountMemory, CurrentState, Plan, PlanStep, RequestRate, fingerprint, plan,
};
use linkvault::change::policy::Policy;
use linkvault::change::staleness::{DEFAULT, StalenessLimit};
use linkvault::clock::{Clock as _, Timestamp};
use linkvault::crawl::{self, StatisticsMode};
use linkvault::model::{CountOrPercent, FieldValue, RecordKey, Resource, State, Verb};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::vault::journal::{RunCommand, StepState};
use serde_json::json;

use super::world::World;
use crate::sim::expected_account::{add, rows};
use crate::sim::invariants;
use crate::sim::seed_runner::run_seeds;

fn options() -> ApplyOptions {
    ApplyOptions {
        command: RunCommand::Apply,
        plan_id: "the plan".to_owned(),
        service: "http://sandbox".to_owned(),
        ..ApplyOptions::default()
    }
}

/// The records of the account that the plans here change.
fn observe_account(world: &World) -> State {
    let which = [Resource::Campaigns, Resource::Channels, Resource::ChannelItems];
    let mut vault = linkvault::vault::Vault::in_memory().unwrap();
    let options = crawl::CrawlOptions::new("http://sandbox").only(&which);
    let number = world.crawl(&mut vault, &options).unwrap().snapshot.number;
    vault.state(number, &which).unwrap()
}

/// A plan that renames each campaign, deletes some channels, and assigns an item to others.
fn plan_for(state: &State, delete: usize, assign: usize) -> Plan {
    let mut desired = DesiredState::default();
    let (name, _) = Resource::Campaigns.spec().field("name").unwrap();
    let campaigns = desired.resources.entry(Resource::Campaigns).or_default();
    for key in state.get(Resource::Campaigns).unwrap().keys() {
        let fields =
            BTreeMap::from([(name, FieldValue::Text(format!("Ours {}", key.id()).into()))]);
        campaigns.records.push(DesiredRecord {
            id: Some(key.id()),
            fields,
            ..DesiredRecord::default()
        });
    }
    let channels: Vec<_> =
        state.get(Resource::Channels).unwrap().keys().map(RecordKey::id).collect();
    if delete > 0 {
        let gone = channels.iter().copied().take(delete).collect();
        desired.to_delete.insert(Resource::Channels, gone);
    }
    let items = desired.resources.entry(Resource::ChannelItems).or_default();
    for channel in channels.iter().skip(delete).take(assign) {
        let fields = BTreeMap::from([(1, FieldValue::Text("links".into()))]);
        let channel = Some(RecordRef::Id(*channel));
        items.records.push(DesiredRecord {
            id: Some(3_000_000),
            channel,
            fields,
            ..DesiredRecord::default()
        });
    }
    let all = CountOrPercent::Percent(100.0);
    let policy = Policy { delete: true, max_delete: all, max_update: all, ..Policy::default() };
    let current = CurrentState { state, memory: &AccountMemory::default() };
    plan(&desired, current, None, &policy).unwrap()
}

/// Applies a plan, and resumes the run until it is finished; `None` if another user's change came
/// before the first observation and nothing was written.
fn apply_until_finished(
    world: &mut World,
    plan: &Plan,
    options: &ApplyOptions,
) -> Option<RunReport> {
    for _ in 0..20 {
        let open = world.open().unfinished_run().unwrap();
        let outcome = match open.map(|run| run.number) {
            Some(run) => world.resume(run, options),
            None => world.apply(plan, options),
        };
        match outcome {
            Ok(outcome) => return Some(outcome),
            Err(ApplyError::Used(run)) => return Some(world.resume(run, options).unwrap()),
            Err(ApplyError::Stale(_)) => return None,
            Err(error @ ApplyError::Step { .. }) => panic!("{error}"),
            Err(_) => {}
        }
        invariants::is_sound(&mut world.open());
        world.pass(Duration::from_secs(90));
    }
    panic!("the run never ends")
}

/// The estimated cost includes confirming the account again and reading lists again, to the
/// request.
#[test]
fn the_estimated_cost_of_a_long_run_is_exact() {
    for (limit, reserve, max) in
        [(30, 0, 300), (60, 5, 300), (12, 0, 60), (30, 0, 900), (2, 0, 300), (30, 29, 300)]
    {
        let counts = GeneratedCounts { campaigns: 230, channels: 40, ..GeneratedCounts::default() };
        let mut world = World::of(generate(5, counts), &format!("rate-limit={limit}"));
        world.reserve = reserve;
        let state = observe_account(&world);
        let plan = plan_for(&state, 10, 20);
        assert_eq!(plan.steps.len(), 260);
        world.pass(Duration::from_secs(120));
        let max = Duration::from_secs(max);
        let rate = RequestRate { limit, reserve };
        let staleness = StalenessLimit::new(max, rate, Lists::of(&state, BTreeMap::new()));
        // The account, campaigns, channels, and the items of each channel.
        let price = cost(&plan, CrawlRequests { before: 43, after: 32 }, &staleness);
        let options = ApplyOptions { max_staleness: Some(max), reserve, ..options() };
        let outcome = world.apply(&plan, &options).unwrap();
        let at = format!("{limit} - {reserve}, {max:?}: {price:?}");
        assert_eq!((outcome.done, outcome.requests), (260, price.requests), "{at}");
        // The account is confirmed once in each window, or before each write.
        let proofs = (price.requests / (limit - reserve)).min(260);
        assert!(price.rereads > proofs / 2, "{at}");
        assert!((price.rereads - proofs.min(price.rereads)) * 19 <= price.requests, "{at}");
        assert_eq!(world.service().totals().throttled, 0);
    }
}

/// A list grows during a run that creates records, and shrinks during one that deletes some.
#[test]
fn the_cost_includes_pages_that_a_run_adds_and_removes() {
    // If a list reports its length, a deleted record costs a request only if it was at the edge of
    // a page.
    for (behaviour, edges) in [("max-limit=20", 0), ("max-limit=20,result=total", 1)] {
        let counts = GeneratedCounts { campaigns: 30, channels: 50, ..GeneratedCounts::default() };
        let mut world = World::of(generate(5, counts), behaviour);
        let mut vault = linkvault::vault::Vault::in_memory().unwrap();
        let which = [Resource::Campaigns, Resource::Channels, Resource::ChannelItems];
        let all = crawl::CrawlOptions {
            stats: StatisticsMode::None,
            ..crawl::CrawlOptions::new("http://sandbox")
        };
        let look = world.crawl(&mut vault, &all.only(&which)).unwrap();
        let state = vault.state(look.snapshot.number, &which).unwrap();
        let mut plan = Plan::default();
        for nth in 0..200 {
            let body = Some(json!({"name": format!("Ours and new {nth}")}));
            add(&mut plan, Resource::Campaigns, Verb::Create, "/api/campaign/add", body);
        }
        for step in plan_for(&state, 20, 10).steps {
            plan.steps.push(PlanStep { step: plan.steps.len() as u32 + 1, ..step });
        }
        world.pass(Duration::from_secs(120));
        let lists = Lists::of(&state, look.paging.clone());
        let mut after = lists.clone();
        plan.steps.iter().for_each(|step| after.apply_step(step));
        let after = which.iter().map(|it| after.requests(*it)).sum::<u64>();
        let crawls = CrawlRequests { before: look.usage.requests, after };
        let rate = RequestRate { limit: 30, reserve: 0 };
        let price = cost(&plan, crawls, &StalenessLimit::new(DEFAULT, rate, lists)).requests;
        let outcome =
            world.apply(&plan, &ApplyOptions { paging: look.paging, ..options() }).unwrap();
        let done = (plan.steps.len() as u64, price - edges);
        assert_eq!((outcome.done, outcome.requests), done, "{behaviour}: {outcome:?}");
    }
}

/// The assignment reads the list again that would show the created record.
#[test]
fn a_lost_create_is_not_sent_again_when_a_later_step_reads_its_list() {
    let link = json!({"campaign": 2, "link": 77});
    let item = json!({"channel": 2, "type": "links", "id": 77});
    for (resource, of, create, assign, after) in [
        (
            Resource::Campaigns,
            Resource::Campaigns,
            "/api/campaign/add",
            "/api/campaign/2/assign/77",
            link,
        ),
        (
            Resource::Channels,
            Resource::ChannelItems,
            "/api/channel/add",
            "/api/channel/2/assign/links/77",
            item,
        ),
    ] {
        for (fault, sent) in [("lost-reply", 1), ("lost-request", 2)] {
            let mut world = World::of(generate(5, GeneratedCounts::each(4)), "rate-limit=0");
            let (state, (place, _)) =
                (observe_account(&world), resource.spec().field("name").unwrap());
            let owner = &state.get(resource).unwrap()[&RecordKey::Id(2)];
            let mut plan = Plan::default();
            add(&mut plan, resource, Verb::Create, create, Some(json!({"name": "Ours"})));
            add(&mut plan, of, Verb::Assign, assign, None);
            let step = plan.steps.last_mut().unwrap();
            step.after = after.as_object().cloned();
            step.name = owner.values[place].cell().into_owned();
            step.fingerprint = Some(format!("{}+-", fingerprint(resource, owner)));
            world.set_faults(&format!("{fault}@POST {create}#1"), 1);
            world.requested_paths();
            let options = ApplyOptions { max_staleness: Some(Duration::ZERO), ..options() };
            let outcome = world.apply(&plan, &options).unwrap();
            assert_eq!((outcome.done, outcome.unknown), (2, 0), "{fault}: {outcome:?}");
            let creates = world.requested_paths().into_iter().filter(|path| path == create).count();
            assert_eq!(creates, sent, "{fault}@{create}");
            let service = world.service();
            let all = (service.store().campaigns.len(), service.store().channels.len());
            assert_eq!(all, if resource == Resource::Campaigns { (5, 4) } else { (4, 5) });
        }
    }
}

#[test]
fn a_record_edited_by_others_during_a_run_is_stale() {
    let counts = GeneratedCounts { campaigns: 230, ..GeneratedCounts::default() };
    let mut world = World::of(generate(5, counts), "");
    let plan = plan_for(&observe_account(&world), 0, 0);
    world.before_each_request(|store, nth| match nth {
        20 => store.campaigns.get_mut(220).unwrap().name = "Theirs".to_owned(),
        21 => drop(store.campaigns.remove(221)),
        _ => {}
    });
    let outcome = apply_until_finished(&mut world, &plan, &options()).unwrap();
    assert_eq!((outcome.done, outcome.stale, outcome.refused), (228, 2, 0), "{outcome:?}");
    assert_eq!(world.service().store().campaigns.get(220).unwrap().name, "Theirs");
    let rows = rows(&world.open());
    let said = |nth: usize| rows[nth].message.clone().unwrap_or_default();
    assert!(said(219).ends_with("and is `Theirs`"), "{}", said(219));
    assert_eq!(said(220), "was deleted after the plan was made");
}

#[test]
fn edits_older_than_the_maximum_staleness_are_never_overwritten() {
    run_seeds(12, simulate);
}

/// The edits, with time, id and new name.
type Edits = Arc<Mutex<Vec<(Timestamp, i64, String)>>>;

#[allow(clippy::print_stdout)]
fn simulate(seed: u64) {
    println!("LINKVAULT_SIM_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let limit = rng.choice([12_u64, 30, 60]).unwrap();
    let counts = GeneratedCounts {
        campaigns: rng.u64(60..limit * 10),
        channels: rng.u64(2..8),
        ..GeneratedCounts::default()
    };
    let mut world = World::of(generate(seed, counts), &format!("rate-limit={limit}")).seeded(seed);
    let state = observe_account(&world);
    let plan = plan_for(&state, rng.usize(..2), rng.usize(..3));
    let max = rng.choice([Duration::from_secs(60), DEFAULT, DEFAULT * 2]).unwrap();
    let rate = RequestRate { limit, reserve: 0 };
    let stated = StalenessLimit::new(max, rate, Lists::of(&state, BTreeMap::new()));
    let stated = stated.of(Resource::Campaigns);
    let faults = rng.choice(["", "lost-reply=0.02", "server-error=0.02", "lost-request=0.02"]);
    world.set_faults(faults.unwrap(), seed);
    let edits = Edits::default();
    let (noted, clock, mut others) = (Arc::clone(&edits), Arc::clone(&world.clock), rng.fork());
    let chance = rng.f64() * 0.2;
    world.before_each_request(move |store, _| {
        if others.f64() < chance {
            let ids: Vec<_> = store.campaigns.iter().map(|(id, _)| id).collect();
            let id = others.choice(ids).unwrap();
            let name = format!("Theirs {}", others.u32(..));
            store.campaigns.get_mut(id).unwrap().name.clone_from(&name);
            noted.lock().unwrap().push((clock.now(), id.cast_signed(), name));
        }
    });
    let deaths: Vec<u64> = (0..rng.u8(..3)).map(|_| rng.u64(1..400)).collect();
    let options = ApplyOptions { max_staleness: Some(max), ..options() };
    for moment in deaths {
        world.dies_after = Some(moment);
        let open = world.open().unfinished_run().unwrap();
        let _ = match open {
            Some(run) => world.resume(run.number, &options),
            None => world.apply(&plan, &options),
        };
        world.pass(Duration::from_secs(rng.u64(..1000)));
    }
    world.dies_after = None;
    let Some(outcome) = apply_until_finished(&mut world, &plan, &options) else { return };
    world.before_request = None;
    let journal = rows(&world.open());
    let edits = edits.lock().unwrap().clone();
    let service = world.service();
    for (step, row) in plan.steps.iter().zip(&journal) {
        if (step.resource, step.verb) != (Resource::Campaigns, Verb::Update) {
            continue;
        }
        let id = step.id.unwrap();
        let theirs: Vec<_> = edits.iter().filter(|(_, of, _)| *of == id).collect();
        let at = format!("{step:?} {row:?} {theirs:?} {outcome:?}");
        if row.state == StepState::Done {
            let sent = row.sent.unwrap();
            for (when, ..) in &theirs {
                let old = *when < sent && sent.since(*when) > stated;
                assert!(!old, "an edit of {} is overwritten: {at}", when.iso());
            }
        }
        if row.state == StepState::Stale {
            let name = &service.store().campaigns.get(id.cast_unsigned()).unwrap().name;
            assert_eq!(theirs.last().map(|(.., name)| name), Some(name), "{at}");
        }
        if theirs.is_empty() {
            assert_eq!(row.state, StepState::Done, "{at}");
        }
    }
}
