//! All writing operations on simulated time: random accounts, edits, plans, runs with all faults,
//! and undo.

use std::collections::BTreeMap;
use std::time::Duration;

use linkvault::apply::undo::{state_after_run, undo_run};
use linkvault::apply::{ApplyError, ApplyOptions, RunReport, account_memory, deleted_since};
use linkvault::change::desired::DesiredState;
use linkvault::change::plan::{
    AccountMemory, CurrentState, Plan, PlanProblems, UnsupportedChange, plan,
};
use linkvault::change::policy::{OnConflict, Policy};
use linkvault::crawl::{self, StatisticsMode};
use linkvault::model::{CountOrPercent, Resource, RunId, SnapshotId, State, Verb};
use linkvault::ops::plan::needed_resources;
use linkvault::sandbox::Store;
use linkvault::sandbox::second_user::random_change;
use linkvault::vault::journal::{JournalStep, RunCommand, StepState};
use linkvault::vault::snapshot::ResourceOutcome as Read;

use super::account::{RunFaults, world};
use super::secrets::tells;
use super::world::World;
use crate::sim::account_view::{
    Unrestorable, differences, found_by_name, keep_fields, rename_cycles, renumbered, restored,
    sent_values_then, unrestorable, view,
};
use crate::sim::expected_account::{assert_no_duplicates, change_as_other_user, rows, touched};
use crate::sim::invariants;
use crate::sim::random_edits::{AllowedEdits, EditedFiles};
use crate::sim::reused_ids::{DeletedRecords, RunChanges};
use crate::sim::seed_runner::run_seeds;
use crate::sim::seeded_choices::Disturbances;
use crate::sim::sent_requests::{arrived, as_planned};

/// Number of seeds that `cargo test` runs.
const SEEDS: u64 = 200;

#[test]
fn the_result_of_an_apply_is_its_plan_and_undo_reverts_it() {
    run_seeds(SEEDS, simulate);
}

#[test]
fn the_plan_of_an_unedited_export_is_empty() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut world = world(&mut rng, seed, "").0;
        let (state, memory, _) = observe_account(&mut world, &Resource::ALL);
        let edited = EditedFiles::unedited(world.service().store(), &state, &memory);
        for (base, whole) in
            [(None, false), (None, true), (Some(&state), false), (Some(&state), true)]
        {
            let desired = edited.desired(base, whole, &mut rng);
            let policy = Policy { account: true, ..policy(whole) };
            let current = CurrentState { state: &state, memory: &memory };
            let made = plan(&desired, current, base, &policy).unwrap();
            assert_eq!((made.steps, made.unsupported), (vec![], vec![]), "seed {seed}");
        }
        let desired = DesiredState::of_state(&state, "the snapshot");
        let current = CurrentState { state: &state, memory: &memory };
        let made = plan(&desired, current, None, &policy(true)).unwrap();
        assert_eq!((made.steps, made.unsupported), (vec![], vec![]), "seed {seed}");
    }
}

const fn policy(delete: bool) -> Policy {
    let all = CountOrPercent::Percent(100.0);
    let (max_delete, max_update, on_conflict) = (all, all, OnConflict::Fail);
    Policy { delete, allow_empty: false, max_delete, max_update, on_conflict, account: false }
}

/// The account as the program observes it before it plans.
fn observe_account(world: &mut World, which: &[Resource]) -> (State, AccountMemory, SnapshotId) {
    let options = crawl::CrawlOptions::new("http://sandbox").only(which);
    let options = crawl::CrawlOptions { stats: StatisticsMode::None, fresh: true, ..options };
    let mut vault = world.open();
    let snapshot = world.crawl(&mut vault, &options).unwrap().snapshot;
    assert!(
        snapshot
            .outcomes
            .iter()
            .filter(|it| options.scope.contains(&it.resource))
            .all(Read::is_complete)
    );
    let state = vault.state(snapshot.number, &options.scope).unwrap();
    (state, account_memory(&vault).unwrap(), snapshot.number)
}

/// The desired state, as a command reads it.
struct Desired {
    desired: DesiredState,
    base: Option<State>,
    policy: Policy,
    /// The snapshot to which the desired ids belong.
    since: Option<SnapshotId>,
    /// Checks a plan.
    fits: Box<dyn Fn(&Plan)>,
}

impl Desired {
    fn plan(&self, world: &mut World) -> Result<(Plan, SnapshotId), PlanProblems> {
        let (state, memory, number) =
            observe_account(world, &needed_resources(&self.desired, &self.policy));
        let current = CurrentState { state: &state, memory: &memory };
        let mut desired = self.desired.clone();
        if let Some(since) = self.since {
            desired.deleted = deleted_since(&world.open(), since).unwrap();
        }
        let plan = plan(&desired, current, self.base.as_ref(), &self.policy)?;
        (self.fits)(&plan);
        Ok((plan, number))
    }
}

/// One account, and the changes applied to it.
struct Simulation {
    world: World,
    rng: fastrand::Rng,
    seed: u64,
    /// The service stores texts in another form.
    folds: bool,
    disturbances: Disturbances,
    gone: DeletedRecords,
    runs: u64,
    /// A run needs a decision by a person before anything else.
    waits: bool,
}

/// The result of applying a desired state.
struct Applied {
    outcome: RunReport,
    before: Store,
    /// Every requested change was made, and no other user interfered.
    clean: bool,
    alone: bool,
}

#[allow(clippy::print_stdout)]
fn simulate(seed: u64) {
    println!("LINKVAULT_SIM_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (world, behaviour, disturbances) = world(&mut rng, seed, "");
    println!("{behaviour} {disturbances:?}");
    let texts = behaviour.contains("texts=") && !behaviour.contains("texts=kept");
    let folds = texts || behaviour.contains("names=lowered");
    let gone = DeletedRecords::default();
    let mut life =
        Simulation { world, rng, seed, folds, disturbances, gone, runs: 0, waits: false };
    life.simulate();
    life.world.assert_no_secret_leaks();
}

impl Simulation {
    fn simulate(&mut self) {
        let restores = self.rng.u8(..3) == 0;
        let first = restores.then(|| observe_account(&mut self.world, &Resource::ALL));
        let at_first = self.world.service().store().clone();
        let mut alone = true;
        for _ in 0..if self.rng.u8(..4) == 0 { 2 } else { 1 } {
            alone &= self.edit();
            if self.waits {
                return;
            }
        }
        if let Some((first, _, number)) = first {
            self.restore(&first, number, &at_first, alone);
        }
    }

    /// Edits an export, applies it, and maybe undoes it. Returns whether no other user interfered.
    fn edit(&mut self) -> bool {
        let run_faults = RunFaults::draw(&mut self.rng);
        let (state, memory, number) = observe_account(&mut self.world, &Resource::ALL);
        let store = self.world.service().store().clone();
        let mut edited = EditedFiles::unedited(&store, &state, &memory);
        let whole = self.rng.bool();
        let delete = whole && self.rng.bool();
        let account = self.rng.u8(..4) == 0;
        // If two users create codes at the same time, it is unknown whose a code is.
        let codes = run_faults.is_alone();
        let may = AllowedEdits { codes, delete, impossible: self.rng.u8(..3) == 0, account };
        edited.draw(&mut self.rng, may);
        let base = self.rng.bool() || whole;
        let desired = edited.desired(base.then_some(&state), whole, &mut self.rng);
        let on_conflict = self.rng.choice([OnConflict::Mine, OnConflict::Theirs]).unwrap();
        let policy = Policy { account, on_conflict, ..policy(delete) };
        let (base, since) = (base.then_some(state), base.then_some(number));
        let desired_state = Desired { desired, base, policy, since, fits: Box::new(|_| ()) };
        if !run_faults.is_alone() {
            for _ in 0..self.rng.u8(..3) {
                let rng = &mut self.rng;
                self.world.change(|store| drop(random_change(store, rng)));
            }
        }
        let Some(pushed) = self.push(&desired_state, &run_faults, Some(edited.impossible)) else {
            return run_faults.is_alone();
        };
        if pushed.clean {
            self.assert_equals(&edited.goal, &[&pushed.before, &edited.goal], "after the push");
        }
        let alone = pushed.alone;
        if alone && pushed.outcome.run > RunId(0) && self.rng.u8(..3) > 0 {
            self.undo(&pushed);
        }
        alone
    }

    /// Restores an older state.
    fn restore(&mut self, first: &State, number: SnapshotId, at_first: &Store, alone: bool) {
        let mut run_faults = RunFaults::draw(&mut self.rng);
        run_faults.drift = 0.0;
        let before = self.world.service().store().clone();
        let delete = self.rng.bool();
        let mut desired = DesiredState::of_state(first, "an older snapshot");
        desired.resources.remove(&Resource::Account);
        let known = account_memory(&self.world.open()).unwrap();
        let any_reused = self.gone.has_reused_id(at_first, &before);
        let ids = known.ids.clone();
        let (gone, then, now) = (std::mem::take(&mut self.gone), at_first.clone(), before.clone());
        // Ids of records lost in an earlier run are mapped to new records already.
        let at_first = &renumbered(at_first, &before, &known.ids);
        // A lost record is identified by its name.
        let (at_first, found) = &found_by_name(at_first, &before);
        // Values sent since are not part of the older state.
        let sent = sent_values_then(first, &before, &known.ids);
        let mut content = BTreeMap::new();
        for ((_, key), fields) in sent.iter().filter(|((it, _), _)| *it == Resource::QrCodes) {
            content.insert(key.id().cast_unsigned(), fields.clone());
        }
        let known = AccountMemory { sent, ..known };
        let lost = Unrestorable {
            items: true,
            restores_content: false,
            deletes: delete,
            spares: true,
            content,
            ..unrestorable(&known)
        };
        let mut goal = restored(at_first, &before, &lost);
        for ((_, old), new) in found.iter().filter(|((it, _), _)| *it == Resource::Campaigns) {
            let links = lost.links.get(old).into_iter().flatten();
            goal.campaigns.get_mut(*new).unwrap().members.extend(links);
        }
        goal.account = before.account.clone();
        // Two edits can have exchanged names, which no order of updates can reverse. The plan lists
        // such records as not supported and leaves them unchanged.
        let rings = rename_cycles(&goal, &before);
        keep_fields(&mut goal, &before, &rings);
        let fits = Box::new(move |plan: &Plan| {
            if alone {
                gone.assert_spares_others(plan, &then, &now, &ids);
                let told = |(resource, id): &(Resource, u64)| {
                    let key = id.to_string();
                    plan.unsupported.iter().any(|it| (it.resource, &it.key) == (*resource, &key))
                };
                assert!(any_reused || rings.iter().all(told), "{rings:?}");
            }
        });
        let desired_state =
            Desired { desired, base: None, policy: policy(delete), since: Some(number), fits };
        let Some(pushed) = self.push(&desired_state, &run_faults, None) else { return };
        if pushed.clean && alone && !any_reused {
            self.assert_equals(&goal, &[&before, &goal, at_first], "after the restore");
        }
    }

    /// Undoes the last run, like `linkvault undo`.
    fn undo(&mut self, pushed: &Applied) {
        let mut run_faults = RunFaults::draw(&mut self.rng);
        run_faults.drift = 0.0;
        let mut vault = self.world.open();
        let run = vault.run(pushed.outcome.run).unwrap();
        let mut way = undo_run(&mut vault, run.number).unwrap();
        way.decide_uncertain(true);
        let base = state_after_run(&mut vault, &run).unwrap();
        let seen = vault.snapshot(run.before.unwrap()).unwrap().outcomes;
        let items = seen.iter().any(|it| it.resource == Resource::ChannelItems && it.is_complete());
        let known = account_memory(&vault).unwrap();
        drop(vault);
        let now = self.world.service().store().clone();
        let mut lost =
            Unrestorable { items, restores_content: true, deletes: true, ..unrestorable(&known) };
        // Only records deleted in this run are expected.
        lost.codes.retain(|id| pushed.before.qr_codes.get(*id).is_some());
        let mut goal = restored(&pushed.before, &now, &lost);
        self.keep_unknown(&mut goal, &now, run.number);
        let did = RunChanges::of(&self.world.open().steps(run.number).unwrap());
        let (reused, then) = (did.reused(), pushed.before.clone());
        let desired_state = Desired {
            desired: way.desired,
            base,
            policy: Policy { account: true, ..policy(true) },
            since: run.before,
            fits: Box::new(move |plan| did.assert_reverted_by(plan, &then)),
        };
        let Some(undone) = self.push(&desired_state, &run_faults, None) else { return };
        // The response contained no id, and the list could not be read: the undo reports it.
        let unknown = |it: &UnsupportedChange| it.reason.contains("its record is not known");
        if undone.clean && !reused && !way.unsupported.iter().any(unknown) {
            self.assert_equals(&goal, &[&pushed.before, &now, &goal], "after the undo");
        }
    }

    /// Keeps values in `goal` whose previous value is unknown.
    fn keep_unknown(&self, goal: &mut Store, now: &Store, run: RunId) {
        for row in self.world.open().steps(run).unwrap() {
            let step: linkvault::change::plan::PlanStep = serde_json::from_str(&row.spec).unwrap();
            if (step.resource, step.verb, row.state)
                != (Resource::QrCodes, Verb::Update, StepState::Done)
            {
                continue;
            }
            let id = step.id.unwrap().cast_unsigned();
            let there = &now.qr_codes.get(id).unwrap().content;
            let Some(goal) = goal.qr_codes.get_mut(id).map(|it| &mut it.content) else { continue };
            for (name, _) in step.after.iter().flatten() {
                if step.before.as_ref().is_some_and(|it| !it[name].is_null()) {
                    continue;
                }
                match name.as_str() {
                    "data" => goal.data.clone_from(&there.data),
                    "background" => goal.background.clone_from(&there.background),
                    _ => goal.foreground.clone_from(&there.foreground),
                }
            }
        }
    }

    #[track_caller]
    fn assert_equals(&self, goal: &Store, kept: &[&Store], when: &str) {
        let now = self.world.service().store().clone();
        let (mut kept, nothing) = (kept.to_vec(), Store::default());
        kept.push(if self.disturbances.reuses_ids { &nothing } else { &now });
        let (wanted, found) = (view(goal, &kept, self.folds), view(&now, &kept, self.folds));
        let different = differences(&wanted, &found);
        assert!(different.is_empty(), "{when}:\n{different}");
    }

    /// Plans, applies despite all faults, checks, and plans again. `None` if another user's change
    /// came in between and nothing was written.
    #[allow(clippy::print_stdout)]
    fn push(
        &mut self,
        desired_state: &Desired,
        run_faults: &RunFaults,
        impossible: Option<usize>,
    ) -> Option<Applied> {
        let before = self.world.service().store().clone();
        let (made, snapshot) = match desired_state.plan(&mut self.world) {
            Ok(planned) => planned,
            Err(problems) if run_faults.is_alone() => panic!("{problems}"),
            Err(_) => return None,
        };
        assert!(!tells(serde_json::to_string(&made).unwrap().as_bytes()));
        if let Some(impossible) = impossible.filter(|_| run_faults.is_alone()) {
            assert_eq!(made.unsupported.len(), impossible, "{:#?}", made.unsupported);
        }
        println!(
            "{} steps, {:?} drift {} deaths {:?}",
            made.steps.len(),
            run_faults.faults,
            run_faults.drift,
            run_faults.deaths
        );
        let alone = run_faults.is_alone();
        if made.steps.is_empty() {
            return Some(Applied { outcome: RunReport::default(), before, clean: alone, alone });
        }
        self.runs += 1;
        let options = ApplyOptions {
            command: RunCommand::Apply,
            plan_id: format!("plan {} of {}", self.runs, self.seed),
            service: "http://sandbox".to_owned(),
            snapshot_before: self.rng.bool().then_some(snapshot),
            ..ApplyOptions::default()
        };
        let throttled = self.world.service().totals().throttled;
        let runs = self.world.open().runs().unwrap().len();
        self.world.service().clear_log();
        self.world.wrote.lock().unwrap().clear();
        self.world.set_faults(&run_faults.faults, self.seed + self.runs);
        self.add_disturbances(run_faults.drift, &made);
        self.disturbances.allow_other_account(&mut self.world);
        let outcome = self.apply_until_finished(&made, &options, run_faults);
        self.world.set_faults("", 0);
        self.world.before_request = None;
        self.world.other_account = None;
        self.world.dies_after = None;
        invariants::is_sound(&mut self.world.open());
        let refused = self.world.service().totals().throttled - throttled;
        assert!(refused == 0 || run_faults.faults.contains("throttled"), "refused for the limit");
        assert_no_duplicates(self.world.service().store(), &made);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                assert!(!run_faults.is_alone(), "{error}");
                assert_eq!(self.world.open().runs().unwrap().len(), runs);
                assert_eq!(arrived(&self.world), []);
                return None;
            }
        };
        let journal = rows(&self.world.open());
        let quiet =
            run_faults.faults.is_empty() && run_faults.deaths.is_empty() && run_faults.is_alone();
        as_planned(&self.world, &made, &journal, run_faults.is_alone(), quiet);
        assert!(outcome.not_sent == 0 || outcome.unknown > 0, "{outcome:?}");
        if alone {
            // Steps whose effect no list shows stay unknown if they have no response.
            let told = |row: &&JournalStep| made.steps[row.step as usize - 1].verifiable;
            let unknown = journal.iter().filter(|row| row.state == StepState::Unknown);
            assert_eq!(unknown.filter(told).count(), 0, "{outcome:?}");
        }
        if outcome.unknown > 0 {
            self.waits = true;
            return None;
        }
        // If neither a response nor a list contained its id, no sent values are stored for a
        // record.
        let known = |row: &JournalStep| {
            let made = made.steps[row.step as usize - 1].verb == Verb::Create;
            !made || row.state != StepState::Done || row.id.is_some()
        };
        // A refusal with status 200 and a lost body looks like a success, until the list after the
        // run shows that nothing was changed.
        let was_executed = |row: &JournalStep| {
            let request = &made.steps[row.step as usize - 1].request;
            self.world.wrote.lock().unwrap().iter().any(|entry| entry.path == request.path)
        };
        let is_hidden_refusal = |row: &JournalStep| {
            row.differs() && run_faults.faults.contains("garbage") && !was_executed(row)
        };
        let clean = alone
            && outcome.refused + outcome.skipped + outcome.unknown == 0
            && journal.iter().all(|row| known(row) && !is_hidden_refusal(row));
        self.gone.record(self.world.wrote.lock().unwrap().iter(), &made, &journal);
        assert!(!alone || outcome.stale == 0, "{outcome:?}");
        if clean {
            let differs = journal.iter().find(|row| row.differs());
            assert_eq!(differs, None, "what is done is not as asked");
            self.assert_nothing_is_planned(desired_state, &made.unsupported);
        }
        Some(Applied { outcome, before, clean, alone })
    }

    /// Asserts that the same desired state gives no more steps, and the same unsupported changes.
    #[track_caller]
    fn assert_nothing_is_planned(
        &mut self,
        desired_state: &Desired,
        unsupported: &[UnsupportedChange],
    ) {
        let (again, _) = desired_state.plan(&mut self.world).unwrap();
        assert_eq!(again.steps, [], "planned again");
        // There may be another reason: the run may have deleted the record that had the id of a
        // desired one.
        let what = |all: &[UnsupportedChange]| -> Vec<_> {
            all.iter().map(|it| (it.resource, it.key.clone())).collect()
        };
        assert_eq!(what(&again.unsupported), what(unsupported), "planned again");
    }

    fn add_disturbances(&mut self, drift: f64, plan: &Plan) {
        let mut others = self.rng.fork();
        self.world.before_request = None;
        if drift > 0.0 {
            let touched = touched(plan);
            self.world.before_each_request(move |store, _| {
                if others.f64() < drift {
                    change_as_other_user(store, &touched, &mut others);
                }
            });
        }
    }

    /// Applies a plan, and resumes the run until it is finished.
    fn apply_until_finished(
        &mut self,
        plan: &Plan,
        options: &ApplyOptions,
        run_faults: &RunFaults,
    ) -> Result<RunReport, ApplyError> {
        let mut deaths = run_faults.deaths.iter().copied();
        let mut last = None;
        for start in 0..40 {
            self.world.dies_after = deaths.next();
            if start == 20 {
                self.world.set_faults("", 0);
                self.world.other_account = None;
            }
            let open = self.world.open().unfinished_run().unwrap();
            let outcome = match open.map(|run| run.number) {
                Some(run) => self.world.resume(run, options),
                None => self.world.apply(plan, options),
            };
            let said = format!("{outcome:?}");
            assert!(!tells(said.as_bytes()), "{said}");
            match outcome {
                Ok(outcome) => return Ok(outcome),
                // The process was killed after the run was finished.
                Err(ApplyError::Used(run)) => {
                    self.world.other_account = None;
                    return self.world.resume(run, options);
                }
                Err(error @ (ApplyError::Stale(_) | ApplyError::Step { .. })) => return Err(error),
                Err(error) => last = Some(error),
            }
            invariants::is_sound(&mut self.world.open());
            self.world.pass(Duration::from_secs(90));
        }
        panic!("the run never ends: {last:?}")
    }
}
