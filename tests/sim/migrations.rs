//! Migrations between random accounts on simulated time: two services of different behaviour, both
//! with faults, and killed processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linkvault::api::http::Method;
use linkvault::apply::resolve::{StepDecision, decide};
use linkvault::apply::{
    self, ApplyError, ApplyOptions, RunReport, account_memory, account_memory_with_ids_of,
    migration_memory,
};
use linkvault::change::plan::{AccountMemory, CurrentState, PlanStep};
use linkvault::change::policy::Policy;
use linkvault::crawl::{self, StatisticsMode};
use linkvault::migrate::{self, MappedRecords, MigrationPlan, MigrationSource};
use linkvault::model::equality::loosened;
use linkvault::model::{CountOrPercent, Resource, SnapshotId, State, Verb};
use linkvault::ops::plan::needed_resources;
use linkvault::sandbox::Store;
use linkvault::sandbox::store::{Domain, Item, Pixel, QrCode, StoredChannel};
use linkvault::vault::journal::{JournalStep, RunCommand, StepState};
use linkvault::vault::snapshot::ReadState;

use super::account::{FAULTS, world};
use super::world::World;
use crate::sim::account_view::fold;
use crate::sim::expected_account::{rows, times};
use crate::sim::invariants;
use crate::sim::migration_check::{MigrationCheck, add_case_duplicates, names, overlap};
use crate::sim::seed_runner::run_seeds;
use crate::sim::seeded_choices::{Disturbances, few};

/// Number of seeds that `cargo test` runs.
const SEEDS: u64 = 60;

#[test]
fn a_migration_creates_each_record_once_and_a_second_one_is_empty() {
    run_seeds(SEEDS, simulate);
}

const OLD: &str = "http://old";
const NEW: &str = "http://new";

/// Things that a target refuses until a person changes it.
const REFUSALS: [&str; 6] = [
    "cap-campaigns=2",
    "cap-channels=2",
    "cap-qr=2",
    "cap-pixels=1",
    "cap-domains=1",
    "dns=missing",
];

/// Two accounts, and the migrations from one to the other.
struct Simulation {
    old: World,
    new: World,
    /// The disturbances of both.
    disturbances: [Disturbances; 2],
    rng: fastrand::Rng,
    seed: u64,
    options: migrate::MigrateOptions,
    /// The target before the first migration.
    at_first: Store,
    /// The create steps of all runs.
    created: Vec<PlanStep>,
    /// Number of migrations so far.
    moved: u64,
}

#[allow(clippy::print_stdout)]
fn simulate(seed: u64) {
    println!("LINKVAULT_SIM_SEED={seed}");
    let mut this = Simulation::draw(seed);
    this.moves(None);
    this.assert_migrated();
    if this.rng.u8(..3) == 0 {
        this.changes();
    }
    let read = |world: &World| world.service().log().iter().all(|it| it.method == Method::Get);
    assert!(read(&this.old), "the source was written to");
    assert!(this.old.wrote.lock().unwrap().is_empty(), "the source has changed");
    for world in [&this.old, &this.new] {
        world.assert_no_secret_leaks();
        invariants::is_sound(&mut world.open());
    }
}

impl Simulation {
    #[allow(clippy::print_stdout)]
    fn draw(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let unoffered = ["overlay", "splash", "overlay+splash"];
        let more = match rng.u8(..5) {
            0 => format!("not-offered={}", rng.choice(unoffered).unwrap()),
            _ => String::new(),
        };
        let (mut old, old_behaviour, old_disturbances) = world(&mut rng, seed, &more);
        let refusal = if rng.u8(..4) == 0 { rng.choice(REFUSALS).unwrap() } else { "" };
        let (mut new, new_behaviour, new_disturbances) = world(&mut rng, seed + 1_000_000, "");
        for cap in ["cap-channels", "cap-qr"] {
            new.service().behaviour_mut().set(cap, "none").unwrap();
        }
        new.service().behaviour_mut().apply(refusal).unwrap();
        println!(
            "from {old_behaviour}\nto {new_behaviour} {refusal}\n{old_disturbances:?} {new_disturbances:?}"
        );
        old.only_read = true;
        (old.options, new.options) = (crawl_options(OLD, &[]), crawl_options(NEW, &[]));
        new.clock = old.clock.clone();
        let source = old.service().store().clone();
        new.change(|store| overlap(&source, store, &mut rng));
        // Only some services accept names that differ in case only.
        if seed.is_multiple_of(3) {
            new.service().behaviour_mut().apply("name-case=exact,names=kept,texts=kept").unwrap();
            old.change(|store| add_case_duplicates(store, &mut rng));
        }
        for world in [&old, &new] {
            world.service().clear_log();
            world.wrote.lock().unwrap().clear();
        }
        // Names of the account, and some new ones.
        let items = source.channels.iter().flat_map(|(_, row)| &row.items);
        let items = items.filter(|it| it.kind == "links").map(|it| it.id);
        let members = source.campaigns.iter().flat_map(|(_, row)| row.members.iter().copied());
        let links: BTreeSet<u64> = items.chain(members).chain(5_001..5_010).collect();
        let links = links.into_iter().filter(|_| rng.u8(..3) > 0).map(u64::cast_signed);
        let links = links.map(|id| (id, id + 20_000));
        let options = migrate::MigrateOptions {
            which: Resource::ALL.to_vec(),
            links: links.collect(),
            link_codes: rng.bool(),
            ..migrate::MigrateOptions::default()
        };
        let at_first = new.service().store().clone();
        let (disturbances, created) = ([old_disturbances, new_disturbances], Vec::new());
        Self { old, new, disturbances, rng, seed, options, at_first, created, moved: 0 }
    }

    /// Reads the source like `linkvault migrate`, until it is complete.
    fn source(&mut self, troubled: bool) -> (MappedRecords, String) {
        let (which, mut last) = (Resource::ALL, None);
        for start in 0..40 {
            if start == 20 {
                self.old.set_faults("", 0);
                self.old.other_account = None;
            }
            if troubled && self.rng.u8(..6) == 0 {
                self.old.dies_after = Some(self.rng.u64(1..30));
            }
            self.old.options = crawl_options(OLD, &which);
            let seen = self.old.start();
            self.old.dies_after = None;
            last = Some(format!("{seen:?}"));
            let whole = |it: &linkvault::vault::snapshot::ResourceOutcome| {
                it.is_complete() || it.state == ReadState::NotOffered
            };
            if let Ok(summary) = seen
                && summary.snapshot.outcomes.iter().all(whole)
            {
                let mut vault = self.old.open();
                let state = vault.state(summary.snapshot.number, &which).unwrap();
                let account = vault.identity().unwrap().unwrap().account;
                let (id, name) = (format!("{OLD}#{account}"), "old@#1");
                let known = account_memory(&vault).unwrap();
                let from = MigrationSource { id: &id, name };
                return (migrate::map(&state, &known, from, &self.options), id);
            }
            self.old.pass(Duration::from_secs(90));
        }
        panic!("the source is never read whole: {last:?}")
    }

    /// Reads the target like `linkvault migrate`.
    fn target(&mut self, which: &[Resource], origin: &str) -> (State, AccountMemory, SnapshotId) {
        let mut last = None;
        for start in 0..40 {
            if start == 20 {
                self.new.set_faults("", 0);
                self.new.other_account = None;
            }
            self.new.options = crawl_options(NEW, which);
            let scope = self.new.options.scope.clone();
            let seen = self.new.start();
            last = Some(format!("{seen:?}"));
            if let Ok(summary) = seen
                && summary
                    .snapshot
                    .outcomes
                    .iter()
                    .all(|it| !scope.contains(&it.resource) || it.is_complete())
            {
                let mut vault = self.new.open();
                let number = summary.snapshot.number;
                let state = vault.state(number, &scope).unwrap();
                let memory = migration_memory(&mut vault, origin, &state).unwrap();
                return (state, memory, number);
            }
            self.new.pass(Duration::from_secs(90));
        }
        panic!("the target is never read whole: {last:?}")
    }

    /// The plan of a migration, and the snapshot it is based on.
    fn plan(&mut self, troubled: bool) -> (MigrationPlan, SnapshotId) {
        let (mapped, origin) = self.source(troubled);
        let all = CountOrPercent::Percent(100.0);
        let policy = Policy { max_update: all, ..Policy::default() };
        let which = needed_resources(&mapped.desired, &policy);
        let (state, memory, number) = self.target(&which, &origin);
        let current = CurrentState { state: &state, memory: &memory };
        (MigrationPlan::plan(mapped, current, &policy).unwrap(), number)
    }

    /// Migrates until it succeeds. The first plan must be `expected`.
    fn moves(&mut self, expected: Option<&[(Resource, &'static str)]>) {
        for nth in self.moved.. {
            assert!(nth < self.moved + 5, "it never comes to an end");
            let troubled = nth < self.moved + 3 && self.draw_faults(nth);
            let (moving, snapshot) = self.plan(true);
            if let Some(expected) = expected.filter(|_| nth == self.moved) {
                let of = |it: &PlanStep| (it.resource, it.verb.name());
                let mut found: Vec<_> = moving.plan.steps.iter().map(of).collect();
                found.sort_unstable();
                assert_eq!(found, expected, "{:#?}", moving.plan.steps);
            }
            let undone = self.run(&moving, snapshot, nth);
            self.stop_faults();
            if undone.is_empty() {
                self.moved = nth + 1;
                return self.assert_nothing_is_planned(&moving);
            }
            let behaviour = self.new.service().behaviour().to_string();
            let refusal = REFUSALS.iter().any(|it| behaviour.contains(it));
            // If a service keeps failing, some steps remain for the next migration.
            assert!(refusal || troubled, "{undone:#?} by {behaviour}");
            for refusal in REFUSALS {
                let (name, _) = refusal.split_once('=').unwrap();
                let free = if name == "dns" { "pointed" } else { "none" };
                self.new.service().behaviour_mut().set(name, free).unwrap();
            }
        }
    }

    /// Asserts that another plan has no steps, and the same unsupported changes.
    #[track_caller]
    fn assert_nothing_is_planned(&mut self, moving: &MigrationPlan) {
        let (again, _) = self.plan(false);
        assert_eq!(again.plan.steps, [], "planned again");
        assert_eq!(again.plan.unsupported, moving.plan.unsupported, "planned again");
        let still = |it: &&migrate::ManualTask| !it.done_when_moved || again.manual.contains(it);
        let before: Vec<_> = moving.manual.iter().filter(still).collect();
        assert_eq!(again.manual.iter().collect::<Vec<_>>(), before, "by hand");
        let report = again.report(&BTreeMap::new(), BTreeMap::new());
        for (name, counts) in &report.counts {
            let done = counts.created + counts.matched + counts.failed;
            assert_eq!(done, 0, "{name} {counts:?}");
        }
    }

    /// Draws faults for both; returns whether the target has any.
    #[allow(clippy::print_stdout)]
    fn draw_faults(&mut self, nth: u64) -> bool {
        let mut any = false;
        for (world, disturbances) in
            [&mut self.old, &mut self.new].into_iter().zip(&self.disturbances)
        {
            disturbances.allow_other_account(world);
            let one = |rng: &mut fastrand::Rng| {
                let chance = format!("{:.3}", rng.f64().powi(2) * 0.35);
                rng.choice(FAULTS).unwrap().replace("{}", &chance)
            };
            let faults: Vec<_> = (0..few(&mut self.rng, 3)).map(|_| one(&mut self.rng)).collect();
            println!("{faults:?}");
            world.set_faults(&faults.join(","), self.seed + nth);
            any = !faults.is_empty();
        }
        any
    }

    fn stop_faults(&mut self) {
        for world in [&mut self.old, &mut self.new] {
            world.set_faults("", 0);
            world.other_account = None;
            world.dies_after = None;
        }
    }

    /// Runs a plan until it is finished; returns why steps were not done.
    fn run(&mut self, moving: &MigrationPlan, snapshot: SnapshotId, nth: u64) -> Vec<String> {
        apply::save_matches(&mut self.new.open(), &moving.plan, false, self.new.now()).unwrap();
        if moving.plan.steps.is_empty() {
            return Vec::new();
        }
        let creates = moving.plan.steps.iter().filter(|it| it.verb == Verb::Create);
        self.created.extend(creates.cloned());
        let options = ApplyOptions {
            command: RunCommand::Migrate,
            input: "old@#1".to_owned(),
            plan_id: format!("move {nth} of {}", self.seed),
            service: NEW.to_owned(),
            snapshot_before: self.rng.bool().then_some(snapshot),
            ..ApplyOptions::default()
        };
        let mut outcome = self.apply_until_finished(moving, &options);
        self.assert_no_duplicates();
        while outcome.unknown > 0 {
            outcome = self.retry_unknown_steps(&outcome, &options);
        }
        assert_eq!(outcome.not_sent, 0, "{outcome:?}");
        self.assert_no_duplicates();
        let journal = rows(&self.new.open());
        invariants::is_sound(&mut self.new.open());
        // A success response without an id is accepted: `huge-numbers` also sends it for creates
        // that were refused. The list shows it, and the next migration continues.
        let differs = |row: &&JournalStep| row.differs();
        let lied = |row: &JournalStep| {
            row.id.is_none() && row.remark.as_deref() == Some("it is not in the list")
        };
        let wrong = journal.iter().filter(differs).find(|row| !lied(row));
        assert_eq!(wrong, None, "what is done is not as asked");
        let absent: Vec<_> = journal.iter().filter(differs).map(|row| format!("{row:?}")).collect();
        let why = |row: &JournalStep| {
            (row.step, (row.state != StepState::Done).then(|| row.state.name().to_owned()))
        };
        let made = account_memory_with_ids_of(&self.new.open(), &self.origin()).unwrap().ids;
        let report = moving.report(&journal.iter().map(why).collect(), made);
        let count = |of: fn(&migrate::report::MigrationCounts) -> u64| {
            report.counts.values().map(of).sum::<u64>()
        };
        assert_eq!(count(|it| it.failed), outcome.refused + outcome.skipped);
        assert_eq!(count(|it| it.created + it.matched), outcome.done);
        let refused = journal.into_iter().filter(|row| row.state == StepState::Refused);
        refused.map(|row| row.message.unwrap_or_default()).chain(absent).collect()
    }

    fn origin(&self) -> String {
        format!("{OLD}#{}", self.old.open().identity().unwrap().unwrap().account)
    }

    /// Applies a plan, and resumes the run until it is finished.
    fn apply_until_finished(
        &mut self,
        moving: &MigrationPlan,
        options: &ApplyOptions,
    ) -> RunReport {
        let mut deaths: Vec<_> = if self.rng.u8(..3) == 0 {
            (0..self.rng.u8(1..5)).map(|_| 1 + few(&mut self.rng, 60)).collect()
        } else {
            vec![]
        };
        let mut last = None;
        for start in 0..40 {
            self.new.dies_after = deaths.pop();
            if start == 20 {
                self.new.set_faults("", 0);
                self.new.other_account = None;
            }
            let open = self.new.open().unfinished_run().unwrap();
            let outcome = match open.map(|run| run.number) {
                Some(run) => self.new.resume(run, options),
                None => self.new.apply(&moving.plan, options),
            };
            match outcome {
                Ok(outcome) => return outcome,
                // The process was killed after the run was finished.
                Err(ApplyError::Used(run)) => {
                    self.new.other_account = None;
                    return self.new.resume(run, options).unwrap();
                }
                Err(error @ (ApplyError::Stale(_) | ApplyError::Step { .. })) => panic!("{error}"),
                Err(error) => last = Some(error),
            }
            self.assert_no_duplicates();
            self.new.pass(Duration::from_secs(90));
        }
        panic!("the run never ends: {last:?}")
    }

    /// Decides on creates whose record the program cannot tell for certain. A code whose create took
    /// minutes to be sent: the list does not show whether another user created it meanwhile; here
    /// there is no other user, so it is ours. Creates whose names differ in case only: the record
    /// with exactly this name.
    #[track_caller]
    fn own_record(&self, row: &JournalStep, step: &PlanStep) -> StepDecision {
        let message = row.message.as_deref().unwrap_or_default();
        let ids = message.strip_prefix("no response had its id, and ");
        let ids = ids.and_then(|rest| rest.strip_suffix(" may be its record"));
        let ids = ids.unwrap_or_else(|| panic!("{row:?}"));
        if step.resource == Resource::QrCodes {
            return StepDecision::Adopt(ids.parse().unwrap());
        }
        let wanted = step.request.body.as_ref().and_then(|body| body.get("name")?.as_str());
        let service = self.new.service();
        let has_name = |id: &u64| {
            let store = service.store();
            let name = match step.resource {
                Resource::Campaigns => store.campaigns.get(*id).map(|it| it.name.as_str()),
                Resource::Channels => store.channels.get(*id).map(|it| it.name.as_str()),
                _ => panic!("{row:?}"),
            };
            name == wanted
        };
        let ids = ids.strip_prefix("any of ").unwrap_or(ids).replace(" and ", ", ");
        let mut exact = ids.split(", ").map(|id| id.parse().unwrap()).filter(has_name);
        let own = exact.next().unwrap_or_else(|| panic!("{row:?}"));
        assert_eq!(exact.next(), None, "{row:?}");
        StepDecision::Adopt(own.cast_signed())
    }

    /// Decides to repeat steps with a lost response whose effect no list shows.
    fn retry_unknown_steps(&mut self, outcome: &RunReport, options: &ApplyOptions) -> RunReport {
        self.stop_faults();
        let mut vault = self.new.open();
        for row in vault.steps(outcome.run).unwrap() {
            let step: PlanStep = serde_json::from_str(&row.spec).unwrap();
            if row.state == StepState::Unknown {
                let decision = if step.verifiable {
                    self.own_record(&row, &step)
                } else {
                    StepDecision::Retry
                };
                decide(&mut vault, outcome.run, row.step, decision, self.new.now()).unwrap();
            }
        }
        drop(vault);
        self.new.resume(outcome.run, options).unwrap()
    }

    #[track_caller]
    fn assert_no_duplicates(&self) {
        let service = self.new.service();
        let has_exact_names = service.behaviour().to_string().contains("name-case=exact");
        for step in &self.created {
            let text = |name| step.request.body.as_ref().and_then(|body| body.get(name)?.as_str());
            if step.resource != Resource::QrCodes && text("name").or(text("domain")).is_none() {
                continue;
            }
            let same = |it: &&PlanStep| {
                (it.resource, &it.request.body) == (step.resource, &step.request.body)
            };
            let codes = self.created.iter().filter(same).map(|it| it.replaces);
            let most = match step.resource {
                Resource::QrCodes => {
                    codes.collect::<BTreeSet<_>>().len() + times(&self.at_first, step)
                }
                _ => 1,
            };
            let times = match step.resource {
                // Items of another type are different items.
                Resource::Pixels => {
                    let is = |it: &Pixel| {
                        Some(it.kind.as_str()) == text("type")
                            && Some(loosened(&it.tag)) == text("tag").map(loosened)
                    };
                    service.store().pixels.iter().filter(|(_, it)| is(it)).count()
                }
                Resource::Campaigns if has_exact_names => {
                    let is = |it: &str| Some(it) == text("name");
                    service.store().campaigns.iter().filter(|(_, it)| is(&it.name)).count()
                }
                Resource::Channels if has_exact_names => {
                    let is = |it: &str| Some(it) == text("name");
                    service.store().channels.iter().filter(|(_, it)| is(&it.name)).count()
                }
                _ => times(service.store(), step),
            };
            assert!(times <= most, "{step:?}");
        }
    }
}

/// The options of the crawl at the start of a migration.
fn crawl_options(service: &str, which: &[Resource]) -> crawl::CrawlOptions {
    let options = crawl::CrawlOptions::new(service).only(which);
    // The accounts had another address before.
    crawl::CrawlOptions { stats: StatisticsMode::None, fresh: true, service_moved: true, ..options }
}

impl Simulation {
    /// Compares the two stores, by code independent of the planner.
    #[track_caller]
    fn assert_migrated(&self) {
        let (old, new) = (self.old.service().store().clone(), self.new.service().store().clone());
        let known = &account_memory(&self.old.open()).unwrap();
        let (at_first, options) = (&self.at_first, &self.options);
        let behaviour = self.new.service().behaviour().to_string();
        let folds = behaviour.contains("texts=");
        MigrationCheck { old: &old, new: &new, at_first, options, known, folds }.check();
    }

    /// Asserts that later changes of the source are migrated, and nothing else.
    fn changes(&mut self) {
        let wanted = self.change_the_source();
        self.moves(Some(&wanted));
        self.assert_migrated();
    }

    /// Changes some records of the source; returns the steps that migrate them.
    fn change_the_source(&mut self) -> Vec<(Resource, &'static str)> {
        let (rng, mut wanted) = (&mut self.rng, Vec::new());
        let number = rng.u64(1_000..1_000_000);
        let linked = self.options.links.keys().copied().find(|id| *id > 5_000).unwrap_or_default();
        let link_codes = self.options.link_codes;
        self.old.change(|store| {
            let folded = names(store.campaigns.iter().map(|(_, row)| row.name.as_str()));
            let alone = store.campaigns.iter().filter(|(_, row)| folded[&fold(&row.name)] == 1);
            let alone: Vec<_> = alone.map(|(id, _)| id).collect();
            if let Some(id) = rng.choice(&alone).filter(|_| rng.u8(..4) > 0) {
                let row = store.campaigns.get_mut(*id).unwrap();
                if rng.u8(..3) > 0 {
                    row.name = format!("Renamed {number}");
                } else {
                    row.public = !row.public;
                }
                wanted.push((Resource::Campaigns, "update"));
            }
            let folded = names(store.channels.iter().map(|(_, row)| row.name.as_str()));
            let alone = store.channels.iter().filter(|(_, row)| folded[&fold(&row.name)] == 1);
            let alone: Vec<_> = alone.map(|(id, _)| id).collect();
            if let Some(id) = rng.choice(&alone).filter(|_| rng.u8(..4) > 0) {
                store.channels.get_mut(*id).unwrap().name = format!("Renamed {number}");
                wanted.push((Resource::Channels, "update"));
            }
            if rng.bool() {
                store.add_campaign(&format!("Late {number}"), None, false);
                wanted.push((Resource::Campaigns, "create"));
            }
            if rng.bool() {
                let domain = format!("https://late{number}.example.org");
                store.domains.add(Domain { domain, ..Domain::default() });
                wanted.push((Resource::Domains, "create"));
            }
            let item = |kind: &str, id| Item { kind: kind.to_owned(), id, ..Item::default() };
            let mut items = Vec::new();
            if rng.bool() {
                let id = store.qr_codes.next_id();
                let link = store.qr_url(id);
                store.qr_codes.put(id, QrCode { link, ..QrCode::default() });
                if link_codes {
                    wanted.push((Resource::QrCodes, "create"));
                    wanted.push((Resource::ChannelItems, "assign"));
                }
                items.push(item("qr", id));
            }
            if linked > 0 {
                wanted.push((Resource::ChannelItems, "assign"));
                items.push(item("links", linked.cast_unsigned()));
            }
            let name = format!("Late {number}");
            store.channels.add(StoredChannel { name, items, ..StoredChannel::default() });
            wanted.push((Resource::Channels, "create"));
            // Records deleted in the source stay in the target.
            let last = store.pixels.iter().last().map(|(id, _)| id);
            if let Some(id) = last.filter(|_| rng.bool()) {
                store.pixels.remove(id);
            }
        });
        wanted.sort_unstable();
        wanted
    }
}
