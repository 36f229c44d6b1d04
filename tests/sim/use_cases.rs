//! The operations of `ops` as a library calls them, on simulated time: backup, export,
//! plan, apply, undo and migrate of generated accounts, with faults drawn from a seed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::http::ApiKey;
use linkvault::change::policy::{OnConflict, Policy};
use linkvault::change::record_filter::RecordFilter;
use linkvault::clock::{Clock, SimulatedClock};
use linkvault::config::{AccountConfig, ExportFormat, Home};
use linkvault::model::{CountOrPercent, SnapshotId};
use linkvault::ops::account_session::SessionLimits;
use linkvault::ops::apply::{ApplyInput, ApplyReport, ApplyRequest, RunOptions, apply};
use linkvault::ops::backup::{BackupRequest, backup};
use linkvault::ops::export::{ExportRequest, plan_export};
use linkvault::ops::input::InputOptions;
use linkvault::ops::migrate::{MigrateGoal, MigrateReport, MigrateRequest, migrate};
use linkvault::ops::migration_flags::MigrationFlags;
use linkvault::ops::plan::{PlanRequest, plan_changes};
use linkvault::ops::resume::{ResumeRequest, resume};
use linkvault::ops::undo::{UndoRequest, undo};
use linkvault::ops::{Env, NoEvents, OpError, OpErrorKind};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, Faults, SandboxService, SandboxTransport, Store};
use linkvault::vault::Vault;
use linkvault::vault::journal::RunCommand;
use linkvault::vault::snapshot::SnapshotStatus;

use super::oracle;
use super::seed_runner::run_seeds;
use super::world::{BEGIN, KEY};

/// Number of seeds that `cargo test` runs.
const SEEDS: u64 = 12;

/// Temporary faults, which later attempts do not have.
const TRANSIENT_FAULTS: [&str; 9] = [
    "throttled=0.1",
    "server-error=0.1",
    "failed-reply=0.1",
    "failed-reply=0.1:key-words",
    "failed-reply=0.1:throttle-words",
    "lost-request=0.1",
    "lost-reply=0.1",
    "no-connection=0.1",
    "cut-body=0.1:12",
];

/// Maximum number of attempts; more mean a defect, since each fails with a chance of about one
/// half.
const ATTEMPTS: usize = 60;

const CONFIG: &str = r#"
[accounts.old]
url = "https://old.example.com"
key_env = "UNUSED"
[accounts.new]
url = "https://new.example.com"
key_env = "UNUSED"
"#;

type Shared = Arc<Mutex<SandboxService>>;

#[test]
fn every_use_case_runs_on_simulated_time_with_transient_faults() {
    run_seeds(SEEDS, simulate);
}

struct Accounts {
    env: Env,
    clock: Arc<SimulatedClock>,
    old: Shared,
    new: Shared,
    folder: tempfile::TempDir,
}

fn service(store: Store) -> Shared {
    let behaviour = Behaviour::parse("rate-limit=60").unwrap();
    Arc::new(Mutex::new(SandboxService::new(store, ApiKey::new(KEY), behaviour)))
}

impl Accounts {
    fn drawn(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let counts = GeneratedCounts {
            domains: rng.u64(..3),
            campaigns: 1 + rng.u64(..8),
            channels: rng.u64(..4),
            qr_codes: rng.u64(..3),
            pixels: rng.u64(..3),
            ..GeneratedCounts::default()
        };
        let mut store = generate(seed, counts);
        for (_, code) in store.qr_codes.iter_mut() {
            // Constant counters, so that a snapshot can be compared with the service.
            code.scans.base = 0;
            code.scans.period = 0;
        }
        let (old, new) = (service(store), service(Store::default()));
        let clock = Arc::new(SimulatedClock::new(BEGIN));
        let fault = *rng.choice(&TRANSIENT_FAULTS).unwrap();
        let lanes = rng.choice([1, 2, 4]).unwrap();
        let faults: Faults = format!("{fault},seed={seed}").parse().unwrap();
        let faults = Arc::new(Mutex::new(faults));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
        let services = [Arc::clone(&old), Arc::clone(&new)];
        let transport_clock: Arc<dyn Clock> = clock.clone();
        let connector = move |account: &AccountConfig| {
            let service = Arc::clone(&services[usize::from(account.name == "new")]);
            let transport = SandboxTransport::new(service, Arc::clone(&transport_clock))
                .with_faults(Arc::clone(&faults))
                .with_latency(Duration::from_millis(80))
                .with_lanes(lanes);
            let transport: Box<dyn linkvault::api::http::Transport> = Box::new(transport);
            Ok((transport, ApiKey::new(KEY)))
        };
        let env = Env::new(clock.clone(), Arc::new(NoEvents))
            .with_home(Home::at(folder.path()))
            .with_connector(Box::new(connector));
        println!("{fault} {counts:?} {lanes} at once");
        Self { env, clock, old, new, folder }
    }

    fn account(&self, name: &str) -> AccountConfig {
        self.env.account(name).unwrap()
    }

    /// Repeats `work` until it succeeds; only a failure of the service is allowed.
    #[track_caller]
    fn repeat_until_done<T>(&self, mut work: impl FnMut() -> Result<Option<T>, OpError>) -> T {
        for _ in 0..ATTEMPTS {
            match work() {
                Ok(Some(done)) => return done,
                Ok(None) => {}
                Err(error) => assert!(
                    matches!(error.kind, OpErrorKind::Service | OpErrorKind::Failed),
                    "{:?}: {}",
                    error.kind,
                    error.message
                ),
            }
            self.clock.sleep(Duration::from_secs(60));
        }
        panic!("did not work in {ATTEMPTS} attempts");
    }

    /// Backs up `account` until the snapshot is complete; returns its number.
    fn back_up(&self, account: &AccountConfig) -> SnapshotId {
        self.repeat_until_done(|| {
            let report = backup(&self.env, &BackupRequest::new("backup", account))?;
            let snapshot = &report.summary.snapshot;
            Ok((snapshot.status == SnapshotStatus::Complete).then_some(snapshot.number))
        })
    }

    /// Resumes the run of `account` until it is finished.
    fn resume_until_finished(&self, account: &AccountConfig) {
        self.repeat_until_done(|| {
            let (run, limits) = (None, SessionLimits::default());
            let (rejected, max_staleness) = (None, None);
            let request = ResumeRequest {
                account,
                run,
                fail_fast: false,
                rejected,
                results: None,
                report: None,
                max_staleness,
                limits,
            };
            match resume(&self.env, &request) {
                Err(error) if error.kind == OpErrorKind::NotFound => Ok(Some(())),
                Err(error) => Err(error),
                Ok(_) => Ok(None),
            }
        });
    }

    /// Exports the newest snapshot and appends a mark to the name of each campaign.
    fn edited_export(&self) -> PathBuf {
        let folder = self.folder.path().join("sheets");
        let request = ExportRequest {
            reference: "old",
            folder: &folder,
            format: ExportFormat::Csv,
            dialect: Default::default(),
            only: &[],
            skip: &[],
            filter: RecordFilter::default(),
            dry_run: false,
            limits: SessionLimits::default(),
        };
        plan_export(&self.env, &request).unwrap().write().unwrap();
        let file = folder.join("campaigns.csv");
        let mut rows = csv::Reader::from_path(&file).unwrap();
        let header = rows.headers().unwrap().clone();
        let name = header.iter().position(|column| column == "name").unwrap();
        let records: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        let mut edited = csv::Writer::from_path(&file).unwrap();
        edited.write_record(&header).unwrap();
        for record in records {
            let cells = record.iter().enumerate();
            let cells =
                cells.map(|(nth, cell)| cell.to_owned() + if nth == name { " edited" } else { "" });
            edited.write_record(cells.collect::<Vec<_>>()).unwrap();
        }
        edited.flush().unwrap();
        folder
    }
}

const fn policy() -> Policy {
    let all = CountOrPercent::Percent(100.0);
    let on_conflict = OnConflict::Fail;
    Policy {
        delete: false,
        allow_empty: false,
        max_delete: all,
        max_update: all,
        on_conflict,
        account: false,
    }
}

fn run_options() -> RunOptions {
    // Generated names may begin with a space.
    RunOptions { yes: true, accept_suspicious: true, ..RunOptions::default() }
}

fn simulate(seed: u64) {
    let accounts = Accounts::drawn(seed);
    let (old, new) = (accounts.account("old"), accounts.account("new"));
    let env = &accounts.env;

    // A backup shows the service's records.
    let number = accounts.back_up(&old);
    let shown = oracle::shown(&mut Vault::open(&old.vault).unwrap(), number);
    let content =
        oracle::content(&accounts.old.lock().unwrap(), &ApiKey::new(KEY), accounts.clock.now());
    assert_eq!(shown, content);

    // An edited export is planned, applied and undone.
    let sheets = accounts.edited_export();
    let sheets = sheets.to_str().unwrap();
    let before = campaigns(&accounts.old);
    let planned = accounts.repeat_until_done(|| {
        let (options, limits) = (InputOptions::default(), SessionLimits::default());
        let (max_staleness, save, policy) = (None, None, policy());
        let request = PlanRequest {
            account: &old,
            input: &[sheets.to_owned()],
            options,
            policy,
            max_staleness,
            save,
            limits,
        };
        plan_changes(env, &request).map(Some)
    });
    assert_eq!(planned.plan.steps.len(), before.len());
    let mut run = None;
    accounts.repeat_until_done(|| {
        if run.is_some() {
            return Ok(Some(()));
        }
        let applied = apply(
            env,
            ApplyRequest {
                account: &old,
                command: RunCommand::Apply,
                input: ApplyInput::State(sheets.to_owned()),
                options: InputOptions::default(),
                policy: policy(),
                password: None,
                run: run_options(),
                limits: SessionLimits::default(),
            },
        );
        // A run that has begun is resumed, not started again.
        run = Vault::open(&old.vault).unwrap().runs().unwrap().last().map(|run| run.number);
        match applied? {
            ApplyReport::Applied(_) => Ok(Some(())),
            _ => panic!("there was something to do"),
        }
    });
    accounts.resume_until_finished(&old);
    let edited: Vec<_> = before.iter().map(|name| format!("{name} edited")).collect();
    assert_eq!(campaigns(&accounts.old), edited);

    let first = run.unwrap();
    let mut undone = false;
    accounts.repeat_until_done(|| {
        if undone {
            return Ok(Some(()));
        }
        let (options, limits) = (run_options(), SessionLimits::default());
        let on_conflict = OnConflict::Fail;
        let request = UndoRequest { account: &old, run: first, on_conflict, options, limits };
        let ended = undo(env, &request);
        undone = Vault::open(&old.vault).unwrap().runs().unwrap().len() > 1;
        ended.map(|_| Some(()))
    });
    accounts.resume_until_finished(&old);
    assert_eq!(campaigns(&accounts.old), before);

    // A migration moves the campaigns once; the second one has no steps.
    let move_all = || {
        let request = MigrateRequest {
            from: "old",
            to: &new,
            goal: MigrateGoal::Apply,
            flags: MigrationFlags { link_codes: true, ..MigrationFlags::default() },
            report: None,
            max_update: CountOrPercent::Percent(100.0),
            on_conflict: OnConflict::Fail,
            fail_fast: false,
            yes: true,
            max_staleness: None,
            limits: SessionLimits::default(),
        };
        migrate(env, &request)
    };
    accounts.repeat_until_done(|| {
        let moved = move_all();
        accounts.resume_until_finished(&new);
        Ok(matches!(moved?, MigrateReport::Nothing { .. }).then_some(()))
    });
    assert_eq!(sorted(campaigns(&accounts.new)), sorted(before));
}

/// The names of the campaigns, by id.
fn campaigns(service: &Shared) -> Vec<String> {
    let service = service.lock().unwrap();
    service.store().campaigns.iter().map(|(_, campaign)| campaign.name.clone()).collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
