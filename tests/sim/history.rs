//! A simulated history: rounds of backups of one account, with the invariants after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::error::{ApiError, ApiErrorKind};
use linkvault::clock::Clock as _;
use linkvault::crawl::{CrawlError, CrawlReport};
use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::second_user::random_change;
use linkvault::sandbox::store::{Item, QrCode};
use linkvault::vault::snapshot::{ReadState, ResourceOutcome, Snapshot, SnapshotStatus};
use linkvault::vault::{IdentityPart, Vault, VaultError};

use super::oracle::{self, Content};
use super::secrets::tells;
use super::world::World;
use crate::sim::invariants;
use crate::sim::seeded_choices::{Round, SimulatedHistory};

/// Number of starts of a crawl after which faults and changes stop.
const MAX_FAULTY_STARTS: u32 = 12;

/// Maximum duration of a backup of an account of this size.
const MAX_DURATION: Duration = Duration::from_secs(5 * 86_400);

/// The records that existed during a crawl.
#[derive(Debug, Default)]
pub struct ExistingRecords {
    /// Existed all the time.
    pub always: BTreeSet<(Resource, RecordKey)>,
    /// Existed at some time.
    pub ever: BTreeSet<(Resource, RecordKey)>,
    pub drifted: bool,
}

impl ExistingRecords {
    fn now(world: &World) -> Self {
        let all = oracle::present(world.service().store());
        Self { always: all.clone(), ever: all, drifted: false }
    }

    fn observe(&mut self, store: &Store) {
        let present = oracle::present(store);
        self.always.retain(|key| present.contains(key));
        self.ever.extend(present);
        self.drifted = true;
    }
}

/// A finished snapshot with its content at that time.
pub struct RememberedSnapshot {
    pub snapshot: Snapshot,
    pub content: Content,
}

pub struct History<'d> {
    pub world: World,
    pub drawn: &'d SimulatedHistory,
    pub known: BTreeMap<SnapshotId, RememberedSnapshot>,
    pub existing: Arc<Mutex<ExistingRecords>>,
    /// Rate-limit refusals so far.
    pub throttled: u64,
    /// When the round began.
    pub begun: Duration,
    rng: fastrand::Rng,
}

impl<'d> History<'d> {
    pub fn of(drawn: &'d SimulatedHistory) -> Self {
        let store = generate(drawn.seed, drawn.counts);
        let mut world = World::of(store, &drawn.behaviour).seeded(drawn.seed);
        world.reserve = drawn.reserve;
        world.latency = drawn.latency;
        drawn.disturbances.begin(&mut world);
        let rng = fastrand::Rng::with_seed(!drawn.seed);
        Self {
            world,
            drawn,
            known: BTreeMap::new(),
            existing: Arc::default(),
            throttled: 0,
            begun: Duration::ZERO,
            rng,
        }
    }

    /// Runs every round.
    pub fn simulate(&mut self) {
        for (nth, round) in self.drawn.rounds.iter().enumerate() {
            self.world.pass(round.pause);
            for _ in 0..round.changes {
                let rng = &mut self.rng;
                self.world.service.lock().unwrap().mutate(|store| change(store, rng));
            }
            if self.drawn.switched == Some(nth) {
                self.meet_another_account("");
            }
            let summary = self.back_up(round, nth);
            invariants::check(self, round, &summary);
            if let Some(keep) = round.keep {
                self.forget(keep);
            }
            let last = nth + 1 == self.drawn.rounds.len();
            if last || round.keep.is_some() {
                self.read_back(&mut self.world.open());
            }
            if last && !self.drawn.behaviour.contains("not-offered") {
                assert_eq!(summary.snapshot.status, SnapshotStatus::Complete, "{summary:#?}");
            }
        }
        self.world.assert_no_secret_leaks();
    }

    /// Another account responds to URL and key: its data must not get into the vault, which belongs
    /// to our account since the first backup.
    fn meet_another_account(&mut self, faults: &str) {
        if self.world.open().identity().unwrap().is_none() {
            return;
        }
        let before_request = self.world.before_request.take();
        let ours = self.world.service().store().clone();
        let theirs = generate(!self.drawn.seed, GeneratedCounts::each(3));
        self.world.change(|store| {
            *store = Store { account: ours.account.clone(), ..theirs };
            store.account.id += 1;
        });
        let mut before = self.world.open().all_snapshots().unwrap();
        let error = self.world.start().unwrap_err();
        let refused = matches!(error, CrawlError::Vault(VaultError::OtherAccount { .. }));
        assert!(refused || !faults.is_empty(), "{error}");
        let mut after = self.world.open().all_snapshots().unwrap();
        let running = before.pop_if(|it| it.status == SnapshotStatus::Running);
        if running.is_some() && refused {
            // The process before may have read records of the other account.
            let ended = after.pop().unwrap();
            assert_eq!(ended.status, SnapshotStatus::Partial, "{ended:?}");
            let failed =
                |it: &ResourceOutcome| matches!(it.state, ReadState::Failed | ReadState::Skipped);
            assert!(ended.outcomes.iter().all(failed), "{ended:?}");
        } else {
            before.extend(running);
        }
        assert_eq!(before, after, "another account's data is in the vault");
        self.world.change(|store| *store = ours);
        self.world.before_request = before_request;
        self.world.pass(Duration::from_secs(60));
    }

    /// One backup, from the first start to the one that finishes.
    fn back_up(&mut self, round: &Round, nth: usize) -> CrawlReport {
        *self.existing.lock().unwrap() = ExistingRecords::now(&self.world);
        self.world.traffic.lock().unwrap().delivered.clear();
        self.world.requested_paths();
        self.world.set_faults(&round.faults, self.drawn.seed + nth as u64);
        self.world.options.stats = round.stats;
        self.world.limits.max_requests = round.most_requests;
        self.change_during_requests(round.drift);
        if nth > 0 && !round.is_undisturbed() {
            self.drawn.disturbances.allow_other_account(&mut self.world);
        }
        let mut deaths = round.deaths.iter().copied();
        let begun = self.world.now();
        self.begun = self.world.clock.monotonic();
        for start in 1.. {
            self.world.dies_after = deaths.next();
            if start > MAX_FAULTY_STARTS {
                self.stop_faults();
            }
            assert!(start < 2 * MAX_FAULTY_STARTS, "the backup never ends");
            let outcome = self.world.start();
            assert!(self.world.now().since(begun) < MAX_DURATION, "the backup takes for ever");
            let said = match &outcome {
                Ok(summary) => format!("{summary:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!tells(said.as_bytes()), "{said}");
            match outcome {
                Ok(summary) => {
                    self.stop_faults();
                    return summary;
                }
                Err(CrawlError::Vault(VaultError::Stopped)) => {
                    self.world.pass(round.rest);
                    invariants::is_sound(&mut self.world.open());
                    if self.drawn.switched == Some(nth) {
                        self.meet_another_account(&round.faults);
                    }
                }
                Err(error) => {
                    assert!(self.is_expected_error(&error, round), "{error:?}");
                    self.world.pass(Duration::from_secs(20));
                }
            }
        }
        unreachable!()
    }

    /// Whether a backup may end with this error, given the faults, limits and disturbances of the round.
    fn is_expected_error(&self, error: &CrawlError, round: &Round) -> bool {
        match error {
            CrawlError::Vault(VaultError::OtherAccount { what: IdentityPart::Account, .. }) => {
                self.world.other_account.is_some()
            }
            CrawlError::Api(ApiError { kind: ApiErrorKind::LimitReached(_), .. }) => {
                self.world.limits.max_requests.is_some()
            }
            CrawlError::Api(_) | CrawlError::Account(_) => !round.faults.is_empty(),
            CrawlError::Vault(_) => false,
        }
    }

    fn stop_faults(&mut self) {
        self.world.set_faults("", 0);
        self.world.limits.max_requests = None;
        self.world.before_request = None;
        self.world.other_account = None;
    }

    /// Changes by a second user between two requests. In a list by name, one that deletes a record and
    /// creates another at once may leave the first and the last page as they were.
    fn change_during_requests(&mut self, chance: f64) {
        if chance == 0.0 {
            self.world.before_request = None;
            return;
        }
        let (existing, mut rng) = (Arc::clone(&self.existing), self.rng.fork());
        let replaces = !self.drawn.behaviour.contains("by-name");
        self.world.before_each_request(move |store, _| {
            if rng.f64() < chance {
                match replaces && rng.u8(..4) == 0 {
                    true => replace(store, &mut rng),
                    false => change(store, &mut rng),
                }
                existing.lock().unwrap().observe(store);
            }
        });
    }

    fn forget(&mut self, keep: u64) {
        let all: Vec<_> = self.known.keys().copied().collect();
        let numbers = &all[..all.len().saturating_sub(usize::try_from(keep).unwrap())];
        self.world.open().forget(numbers, self.world.now()).unwrap();
        self.known.retain(|number, _| !numbers.contains(number));
        let mut vault = self.world.open();
        for number in numbers {
            assert!(matches!(
                vault.state(*number, &[Resource::Account]),
                Err(VaultError::NoSnapshot(_))
            ));
        }
        invariants::is_sound(&mut vault);
    }

    /// Asserts that every snapshot still has its content from when it was finished.
    fn read_back(&self, vault: &mut Vault) {
        for (number, known) in &self.known {
            let now = oracle::shown(vault, *number);
            assert_eq!(now, known.content, "snapshot #{number} is not what it was");
            assert_eq!(vault.snapshot(*number).unwrap(), known.snapshot);
        }
    }
}

/// Deletes a record anywhere in a list and creates one at its end, so that their number stays equal.
fn replace(store: &mut Store, rng: &mut fastrand::Rng) {
    let ids: Vec<_> = store.qr_codes.iter().map(|(id, _)| id).collect();
    if let Some(id) = rng.choice(&ids) {
        store.remove_qr(*id);
        let link = store.qr_url(store.qr_codes.next_id());
        store.qr_codes.add(QrCode { link, ..QrCode::default() });
    }
}

/// A random change by a second user, including channel items.
fn change(store: &mut Store, rng: &mut fastrand::Rng) {
    if rng.u8(..5) > 0 {
        random_change(store, rng);
        return;
    }
    let id = rng.u64(10_000..1_000_000);
    let title = format!("item {id}");
    let channels = store.channels.iter().count();
    if channels == 0 {
        return;
    }
    let nth = rng.usize(..channels);
    let Some((_, channel)) = store.channels.iter_mut().nth(nth) else { return };
    if rng.bool() || channel.items.is_empty() {
        channel.items.push(Item { kind: "links".to_owned(), id, title, ..Item::default() });
    } else {
        let place = rng.usize(..channel.items.len());
        channel.items.remove(place);
    }
}
