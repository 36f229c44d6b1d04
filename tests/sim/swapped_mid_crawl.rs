//! Another account responds to URL and key from some request of a crawl on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::{Client, ClientLimits};
use linkvault::api::http::{ApiKey, FinishedRead, Request, Response, Transport, TransportError};
use linkvault::api::pacer::Pacer;
use linkvault::apply::ApplyOptions;
use linkvault::change::plan::Plan;
use linkvault::clock::{Clock as _, SimulatedClock};
use linkvault::crawl::{self, CrawlError, CrawlOptions, CrawlReport};
use linkvault::model::{Resource, RunId, Verb};
use linkvault::progress::NoProgress;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport, Store};
use linkvault::vault::journal::StepState;
use linkvault::vault::snapshot::{ReadState, ResourceOutcome, SnapshotStatus};
use linkvault::vault::{Vault, VaultError};

use super::oracle;
use super::world::{BEGIN, KEY, World};
use crate::sim::account_swap::MARK;
use crate::sim::expected_account::{add, rows};
use crate::sim::invariants;

/// An account with `each` records of each resource, whose codes are not scanned any more.
fn account(seed: u64, each: u64) -> Store {
    let mut store = generate(seed, GeneratedCounts::each(each));
    for (_, code) in store.qr_codes.iter_mut() {
        code.scans.period = 0;
    }
    store
}

/// An account with another id.
fn other(each: u64) -> Store {
    let mut store = account(8, each);
    store.account.id = 99;
    store
}

/// Replaces the account by `other` from the request number `moment` on.
fn switch(world: &mut World, moment: u64, other: Store) {
    world.before_each_request(move |store, nth| {
        if nth == moment {
            store.clone_from(&other);
        }
    });
}

/// Like [`switch`], after a pause of 80 seconds.
fn switch_after_a_pause(world: &mut World, moment: u64, other: Store) {
    let clock = world.clock.clone();
    world.before_each_request(move |store, nth| {
        if nth == moment {
            store.clone_from(&other);
        } else if nth + 1 == moment {
            clock.sleep(Duration::from_secs(80));
        }
    });
}

fn is_other(result: Result<CrawlReport, CrawlError>, at: &str) {
    let Err(CrawlError::Vault(error @ VaultError::OtherAccount { .. })) = result else {
        panic!("{at}: {result:?}")
    };
    assert!(error.to_string().contains("99 of"), "{at}: {error}");
}

#[test]
fn records_missing_from_another_account_are_not_removed() {
    let ours = account(5, 4);
    // The account, seven lists, and the items of four channels.
    for moment in 2..=12 {
        let mut world = World::of(ours.clone(), "");
        let first = world.backup().snapshot.number;
        let known = world.shown(first);
        let at = format!("request {moment}");
        switch(&mut world, moment, other(2));
        is_other(world.start(), &at);
        let mut vault = world.open();
        invariants::is_sound(&mut vault);
        let newest = vault.newest(false).unwrap().unwrap();
        assert_eq!((newest.number, newest.status), (first.next(), SnapshotStatus::Partial), "{at}");
        assert!(newest.outcomes.iter().all(|it| it.state == ReadState::Failed), "{newest:?}");
        assert!(newest.outcomes.iter().all(|it| it.added + it.changed + it.removed == 0), "{at}");
        assert_eq!(world.shown(newest.number), known, "{at}: nothing of the other is kept");
        world.before_request = None;
        world.change(|store| store.clone_from(&ours));
        let again = world.backup();
        assert!(!again.resumed);
        assert_eq!(again.snapshot.status, SnapshotStatus::Complete, "{at}");
        assert_eq!(world.shown(again.snapshot.number), known, "{at}");
        invariants::is_sound(&mut world.open());
    }
}

/// Lets the service handle each read at once, and delivers the account last. While the account is in
/// flight, 80 seconds pass, and another account responds from then on.
struct SlowAccount {
    inner: SandboxTransport,
    service: Arc<Mutex<SandboxService>>,
    clock: Arc<SimulatedClock>,
    other: Store,
    running: Vec<(String, FinishedRead)>,
    /// Number of requests for the account.
    accounts: u32,
    is_switched: bool,
}

impl Transport for SlowAccount {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        self.accounts += u32::from(request.path == "/api/account");
        self.inner.send(request)
    }

    fn lanes(&self) -> usize {
        4
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        let outcome = self.send(request);
        let finished = FinishedRead { id, outcome, time: Duration::ZERO, removed: None };
        self.running.push((request.path.clone(), finished));
        true
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        let is_account = |(path, _): &(String, FinishedRead)| path == "/api/account";
        let in_flight = self.running.iter().any(is_account);
        let Some(first) = self.running.iter().position(|read| !is_account(read)) else {
            return Some(self.running.pop()?.1);
        };
        if in_flight && self.accounts == 2 && !std::mem::replace(&mut self.is_switched, true) {
            self.clock.sleep(Duration::from_secs(80));
            self.service.lock().unwrap().mutate(|store| store.clone_from(&self.other));
        }
        Some(self.running.remove(first).1)
    }
}

#[test]
fn reads_in_flight_while_the_account_is_confirmed_store_no_records_of_another_account() {
    let counts = GeneratedCounts { channels: 20, channel_items: 2, ..GeneratedCounts::default() };
    let behaviour = Behaviour::parse("rate-limit=0").unwrap();
    let service = SandboxService::new(generate(5, counts), ApiKey::new(KEY), behaviour);
    let service = Arc::new(Mutex::new(service));
    let clock = Arc::new(SimulatedClock::new(BEGIN));
    let folder = tempfile::tempdir().unwrap();
    let mut vault = Vault::open_or_create(&folder.path().join("main.db")).unwrap();
    let mut options = CrawlOptions::new("http://sandbox");
    // As before a run, which confirms the account itself before it writes.
    options.confirm = false;
    let mut crawl = || {
        // With the same ids, so that no record is missing.
        let mut other = service.lock().unwrap().store().clone();
        other.account.id = 99;
        let items = other.channels.iter_mut().flat_map(|(_, row)| &mut row.items);
        items.for_each(|item| MARK.clone_into(&mut item.title));
        let transport = SlowAccount {
            inner: SandboxTransport::new(Arc::clone(&service), clock.clone()),
            service: Arc::clone(&service),
            clock: clock.clone(),
            other,
            running: Vec::new(),
            accounts: 0,
            is_switched: false,
        };
        let limits = ClientLimits { max_in_flight: 4, ..ClientLimits::default() };
        let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
            .with_key(ApiKey::new(KEY))
            .with_limits(limits);
        let crawled = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options);
        crawled.map(|report| oracle::shown(&mut vault, report.snapshot.number))
    };
    crawl().unwrap();
    // The lost item is a reason to confirm the account.
    service.lock().unwrap().mutate(|store| {
        store.channels.iter_mut().next().unwrap().1.items.truncate(1);
    });
    match crawl() {
        Err(CrawlError::Vault(VaultError::OtherAccount { .. })) => {}
        Err(error) => panic!("{error}"),
        Ok(after) => {
            let items = format!("{:?}", after[&Resource::ChannelItems]);
            assert!(!items.contains(MARK), "{items}");
        }
    }
}

/// Without missing records, a crawl of more than a minute confirms the account as well.
#[test]
fn a_long_crawl_stores_no_records_of_another_account() {
    for moment in [3, 7, 12] {
        let mut world = World::of(account(5, 4), "rate-limit=6");
        switch(&mut world, moment, other(9));
        is_other(world.start(), &format!("request {moment}"));
        let mut vault = world.open();
        invariants::is_sound(&mut vault);
        let newest = vault.newest(false).unwrap().unwrap();
        assert_eq!((newest.status, newest.records()), (SnapshotStatus::Partial, 0), "{newest:?}");
        assert!(world.shown(newest.number).values().all(|records| records.is_empty()));
    }
}

#[test]
fn lost_records_and_long_crawls_cost_one_account_check() {
    let mut world = World::of(account(5, 4), "");
    world.backup();
    let quiet = world.backup().usage.requests;
    world.change(|store| {
        store.campaigns.remove(1);
        store.campaigns.remove(2);
        store.pixels.remove(1);
        store.add_campaign("New", None, true);
    });
    assert_eq!(world.backup().usage.requests, quiet + 2);
    world.latency = Duration::from_secs(61) / u32::try_from(quiet - 2).unwrap();
    assert_eq!(world.backup().usage.requests, quiet + 1);
}

/// No records are missing, and no process finishes: each is killed.
#[test]
fn a_killed_process_stores_no_records_of_another_account_after_a_pause() {
    let ours = account(5, 4);
    let mut world = World::of(ours.clone(), "");
    let first = world.backup().snapshot.number;
    let known = world.shown(first);
    for moment in [2, 4, 9, 12] {
        for dies in 1.. {
            let at = format!("request {moment}, commit {dies}");
            switch_after_a_pause(&mut world, moment, other(9));
            world.dies_after = Some(dies);
            let killed = matches!(world.start(), Err(CrawlError::Vault(VaultError::Stopped)));
            world.dies_after = None;
            world.before_request = None;
            world.change(|store| store.clone_from(&ours));
            let again = world.backup().snapshot;
            assert_eq!(again.status, SnapshotStatus::Complete, "{at}");
            assert!(world.shown(again.number) == known, "{at}");
            assert!(again.outcomes.iter().all(|it| it.added + it.changed + it.removed == 0));
            if !killed {
                break;
            }
        }
        invariants::is_sound(&mut world.open());
    }
}

/// A snapshot is discarded in one transaction: a killed process leaves either a running snapshot
/// with an unread list, or no running snapshot.
#[test]
fn a_snapshot_is_complete_or_ended_after_a_kill_during_its_discard() {
    let ours = account(5, 4);
    let mut world = World::of(ours.clone(), "");
    let first = world.backup().snapshot.number;
    let known = world.shown(first);
    for moment in [3, 9, 12] {
        for dies in 1.. {
            let at = format!("request {moment}, commit {dies}");
            switch(&mut world, moment, other(2));
            world.dies_after = Some(dies);
            let killed = matches!(world.start(), Err(CrawlError::Vault(VaultError::Stopped)));
            world.dies_after = None;
            if let Some((running, _)) = world.open().running().unwrap() {
                let pending = |it: &ResourceOutcome| it.state == ReadState::Pending;
                assert!(running.outcomes.iter().any(pending), "{at}: {running:?}");
            }
            // The last records may belong to the other account, which still responds.
            world.before_request = None;
            world.change(|store| store.clone_from(&other(2)));
            is_other(world.start(), &at);
            let mut vault = world.open();
            invariants::is_sound(&mut vault);
            assert_eq!(vault.running().unwrap(), None, "{at}");
            let newest = vault.newest(false).unwrap().unwrap();
            drop(vault);
            assert!(world.shown(newest.number) == known, "{at}");
            let unchanged = |it: &ResourceOutcome| it.added + it.changed + it.removed == 0;
            assert!(newest.number == first || newest.outcomes.iter().all(unchanged), "{at}");
            world.change(|store| store.clone_from(&ours));
            let again = world.backup();
            assert!(!again.resumed, "{at}");
            assert_eq!(again.snapshot.status, SnapshotStatus::Complete, "{at}");
            assert!(world.shown(again.snapshot.number) == known, "{at}");
            if !killed {
                break;
            }
        }
        invariants::is_sound(&mut world.open());
    }
}

/// Kills a backup, then starts a process that finds another account at `service`. Returns whether
/// the next backup of our account continues the first one.
fn continues_after(service: &str) -> bool {
    let ours = account(5, 4);
    let mut world = World::of(ours.clone(), "");
    world.backup();
    world.dies_after = Some(9);
    world.start().unwrap_err();
    let own = std::mem::replace(&mut world.options.service, service.to_owned());
    world.change(|store| store.clone_from(&other(4)));
    is_other(world.start(), service);
    world.options.service = own;
    world.change(|store| store.clone_from(&ours));
    let again = world.backup();
    assert_eq!(again.snapshot.status, SnapshotStatus::Complete);
    invariants::is_sound(&mut world.open());
    again.resumed
}

#[test]
fn a_backup_continues_only_at_the_url_of_its_account() {
    assert!(!continues_after("http://sandbox"));
    assert!(continues_after("http://elsewhere"));
}

/// A run stops after `requests` requests, and a backup is killed. The resumed run finds another
/// account.
fn discards_when_it_is_resumed(plan: &Plan, fault: &str, requests: u64, states: &[StepState]) {
    let service = "http://sandbox".to_owned();
    let options = ApplyOptions { plan_id: "one".to_owned(), service, ..ApplyOptions::default() };
    let mut world = World::of(account(5, 4), "");
    world.backup();
    world.set_faults(fault, 1);
    world.limits.max_requests = Some(requests);
    world.apply(plan, &options).unwrap_err();
    world.limits = ClientLimits::default();
    let found = rows(&world.open()).iter().map(|row| row.state).collect::<Vec<_>>();
    assert_eq!(found, states);
    let ours = world.service().store().clone();
    world.dies_after = Some(9);
    world.start().unwrap_err();
    assert!(world.open().running().unwrap().is_some());
    world.requested_paths();
    world.change(|store| store.clone_from(&other(4)));
    let error = world.resume(RunId(1), &options).unwrap_err();
    assert!(error.to_string().contains("99 of"), "{error}");
    assert_eq!(world.requested_paths(), ["/api/account"]);
    assert_eq!(world.open().running().unwrap(), None);
    world.change(|store| store.clone_from(&ours));
    assert_eq!(world.resume(RunId(1), &options).unwrap().done, states.len() as u64);
    invariants::is_sound(&mut world.open());
}

#[test]
fn a_run_at_another_account_discards_the_snapshot_of_a_killed_backup() {
    // It confirms the account before it writes: no list shows what the assignment needs.
    let mut plan = Plan::default();
    let body = Some(serde_json::json!({"name": "Channel"}));
    let channel = add(&mut plan, Resource::Channels, Verb::Create, "/api/channel/add", body);
    let path = format!("/api/channel/{{{channel}}}/assign/links/77");
    add(&mut plan, Resource::ChannelItems, Verb::Assign, &path, None);
    // The observation reads the account, the channels and the items of four; then one write is
    // sent.
    discards_when_it_is_resumed(&plan, "", 7, &[StepState::Done, StepState::Planned]);
    // It reads the list that shows the result of the create.
    let mut plan = Plan::default();
    let body = Some(serde_json::json!({"name": "Campaign"}));
    add(&mut plan, Resource::Campaigns, Verb::Create, "/api/campaign/add", body);
    let fault = "lost-reply@POST /api/campaign/add#1";
    discards_when_it_is_resumed(&plan, fault, 3, &[StepState::Sent]);
}

#[test]
fn a_run_is_not_verified_with_records_of_another_account() {
    let service = "http://sandbox".to_owned();
    let options = ApplyOptions { plan_id: "one".to_owned(), service, ..ApplyOptions::default() };
    let mut plan = Plan::default();
    let body = Some(serde_json::json!({"name": "One"}));
    add(&mut plan, Resource::Campaigns, Verb::Create, "/api/campaign/add", body);
    let requests = World::of(account(5, 4), "").apply(&plan, &options).unwrap().requests;
    for moment in 2..=requests {
        let mut world = World::of(account(5, 4), "");
        world.backup();
        let ours = Arc::new(Mutex::new(None));
        let (kept, clock) = (ours.clone(), world.clock.clone());
        world.before_each_request(move |store, nth| {
            if nth == moment {
                *kept.lock().unwrap() = Some(std::mem::replace(store, other(9)));
            } else if nth + 1 == moment {
                clock.sleep(Duration::from_secs(80));
            }
        });
        let Err(error) = world.apply(&plan, &options) else { panic!("request {moment}") };
        assert!(error.to_string().contains("99 of"), "request {moment}: {error}");
        world.before_request = None;
        let ours = ours.lock().unwrap().take().unwrap();
        world.change(|store| store.clone_from(&ours));
        let open = world.open().unfinished_run().unwrap();
        let outcome = match open {
            Some(run) => world.resume(run.number, &options).unwrap(),
            None => world.apply(&plan, &options).unwrap(),
        };
        assert_eq!((outcome.done, outcome.verified, outcome.different), (1, 1, 0), "{moment}");
        invariants::is_sound(&mut world.open());
    }
}

/// A run that creates a campaign: the account, a list, the create, and the list again.
fn run_of_one_create() -> (Plan, ApplyOptions) {
    let service = "http://sandbox".to_owned();
    let options = ApplyOptions { plan_id: "one".to_owned(), service, ..ApplyOptions::default() };
    let mut plan = Plan::default();
    let body = Some(serde_json::json!({"name": "One"}));
    add(&mut plan, Resource::Campaigns, Verb::Create, "/api/campaign/add", body);
    (plan, options)
}

/// Without a request for the account of its own, the observation after a run stores no more of
/// another account than a crawl whose account is switched just after that request.
#[test]
fn an_observation_that_begins_with_the_check_of_the_run_is_as_safe_as_any_crawl() {
    let (plan, options) = run_of_one_create();
    for each in [0, 2, 4, 9] {
        let mut world = World::of(account(5, 4), "");
        world.backup();
        switch(&mut world, 4, other(each));
        world.requested_paths();
        let after_run = world.apply(&plan, &options).map_err(|error| error.to_string());
        let asked = world.requested_paths();
        assert_eq!(asked[..1], ["/api/account"]);
        assert!(asked[3].starts_with("/api/campaigns?"), "{asked:?}");
        invariants::is_sound(&mut world.open());
        let newest = world.open().newest(false).unwrap().unwrap();
        let seen = world.shown(newest.number);

        let mut world = World::of(account(5, 4), "");
        world.backup();
        world.options = world.options.clone().only(&[Resource::Campaigns]);
        switch(&mut world, 2, other(each));
        let crawled = world.start().map_err(|error| error.to_string());
        let crawl = world.open().newest(false).unwrap().unwrap();
        assert_eq!(after_run.err(), crawled.err(), "{each}");
        assert_eq!(newest.status, crawl.status, "{each}");
        assert_eq!(seen, world.shown(crawl.number), "{each}");
        let removed = |it: &ResourceOutcome| it.removed;
        assert_eq!(newest.outcomes.iter().map(removed).sum::<u64>(), 0, "{each}");
    }
}

/// The wait for the next window comes before the decision whether the account is requested.
#[test]
fn the_observation_after_a_run_notices_a_switch_during_the_wait_for_the_limit() {
    let (plan, options) = run_of_one_create();
    let ours = account(5, 4);
    let mut world = World::of(ours.clone(), "rate-limit=3");
    world.backup();
    world.pass(Duration::from_secs(120));
    let first = world.open().newest(false).unwrap().unwrap().number;
    let known = world.shown(first);
    switch(&mut world, 4, other(9));
    world.requested_paths();
    let error = world.apply(&plan, &options).unwrap_err();
    assert!(error.to_string().contains("99 of"), "{error}");
    let asked = world.requested_paths();
    assert_eq!((asked.len(), asked[3].as_str()), (4, "/api/account"), "{asked:?}");
    let newest = world.open().newest(false).unwrap().unwrap().number;
    assert!(world.shown(newest) == known, "nothing of the other is kept");
    invariants::is_sound(&mut world.open());
}

/// Nothing can be read after the write: the run can be resumed, and then verifies it.
#[test]
fn a_run_whose_result_cannot_be_read_is_not_finished() {
    let (plan, options) = run_of_one_create();
    let mut world = World::of(account(5, 4), "");
    world.backup();
    let outage = (0..40).map(|nth| format!("server-error@GET /api#{}", nth + 3));
    world.set_faults(&outage.collect::<Vec<_>>().join(","), 1);
    world.apply(&plan, &options).unwrap_err();
    assert_eq!(rows(&world.open())[0].state, StepState::Done);
    world.set_faults("", 1);
    let run = world.open().unfinished_run().unwrap().unwrap().number;
    let outcome = world.resume(run, &options).unwrap();
    assert_eq!((outcome.done, outcome.verified), (1, 1));
    invariants::is_sound(&mut world.open());
}
