//! Questions that are answered late, on simulated time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::http::{ApiKey, Transport};
use linkvault::change::plan::Plan;
use linkvault::change::policy::Policy;
use linkvault::clock::{Clock, SimulatedClock};
use linkvault::config::{AccountConfig, Home};
use linkvault::ops::account_session::SessionLimits;
use linkvault::ops::apply::{ApplyInput, ApplyReport, ApplyRequest, RunOptions, apply};
use linkvault::ops::backup::{BackupRequest, backup};
use linkvault::ops::input::InputOptions;
use linkvault::ops::{Env, Events, OpError, OpErrorKind};
use linkvault::progress::{NoProgress, Progress};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;
use linkvault::vault::journal::RunCommand;

use super::world::{BEGIN, KEY};

/// Confirms every question after a time, during which another user may rename a campaign.
struct LateAnswer {
    clock: Arc<SimulatedClock>,
    service: Arc<Mutex<SandboxService>>,
    rename: bool,
}

impl Events for LateAnswer {
    fn warning(&self, _text: &str) {}

    fn note(&self, _text: &str) {}

    fn progress(&self, _account: &str) -> Arc<dyn Progress + Send + Sync> {
        Arc::new(NoProgress)
    }

    fn catch_interrupts(&self) {}

    fn planned(&self, _plan: &Plan, _is_answer: bool) -> Result<(), OpError> {
        Ok(())
    }

    fn confirm(&self, _question: &str) -> Result<bool, OpError> {
        self.clock.sleep(Duration::from_secs(75));
        if self.rename {
            let mut service = self.service.lock().unwrap();
            service.mutate(|store| {
                let (_, campaign) = store.campaigns.iter_mut().next().unwrap();
                campaign.name = "Renamed by another user".to_owned();
            });
        }
        Ok(true)
    }
}

/// A backup, then a run whose question is answered after 75 s. Returns the run's result, and the
/// numbers of the snapshots that count as backups and of those that do not.
fn answered_late(rename: bool) -> (Result<ApplyReport, OpError>, Vec<i64>, Vec<i64>) {
    let counts = GeneratedCounts { campaigns: 3, ..GeneratedCounts::default() };
    let behaviour = Behaviour::parse("rate-limit=60").unwrap();
    let service = SandboxService::new(generate(1, counts), ApiKey::new(KEY), behaviour);
    let service = Arc::new(Mutex::new(service));
    let clock = Arc::new(SimulatedClock::new(BEGIN));
    let folder = tempfile::tempdir().unwrap();
    let config = "[accounts.main]\nurl = \"https://main.example.com\"\nkey_env = \"UNUSED\"\n";
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    let events = LateAnswer { clock: Arc::clone(&clock), service: Arc::clone(&service), rename };
    let (shared, time): (_, Arc<dyn Clock>) = (Arc::clone(&service), clock.clone());
    let connector = move |_: &AccountConfig| {
        let transport: Box<dyn Transport> =
            Box::new(SandboxTransport::new(Arc::clone(&shared), Arc::clone(&time)));
        Ok((transport, ApiKey::new(KEY)))
    };
    let env = Env::new(clock.clone(), Arc::new(events))
        .with_home(Home::at(folder.path()))
        .with_connector(Box::new(connector));
    let account = env.account("main").unwrap();
    backup(&env, &BackupRequest::new("backup", &account)).unwrap();

    let (id, name) = {
        let service = service.lock().unwrap();
        let (id, campaign) = service.store().campaigns.iter().next().unwrap();
        (id, campaign.name.clone())
    };
    let file = folder.path().join("campaigns.csv");
    std::fs::write(&file, format!("id,name\n{id},{name} edited\n")).unwrap();
    let request = ApplyRequest {
        account: &account,
        command: RunCommand::Import,
        input: ApplyInput::Files(vec![file]),
        options: InputOptions::default(),
        policy: Policy::default(),
        password: None,
        run: RunOptions::default(),
        limits: SessionLimits::default(),
    };
    let ended = apply(&env, request);
    let all = Vault::open(&account.vault).unwrap().snapshots().unwrap();
    let (of_runs, backups): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.of_run);
    let numbers = |all: Vec<&linkvault::vault::snapshot::Snapshot>| {
        all.iter().map(|it| it.number.0).collect::<Vec<_>>()
    };
    (ended, numbers(backups), numbers(of_runs))
}

#[test]
fn a_late_answer_leaves_no_snapshot_that_counts_as_a_backup() {
    let (ended, backups, of_runs) = answered_late(false);
    let Ok(ApplyReport::Applied(applied)) = ended else { panic!("the run did not begin") };
    assert_eq!((applied.report.done, applied.report.verified), (1, 1));
    assert_eq!(backups, [1]);
    assert_eq!(of_runs.len(), 2, "{of_runs:?}");
}

#[test]
fn a_late_answer_to_a_stale_plan_leaves_no_snapshot() {
    let (ended, backups, of_runs) = answered_late(true);
    let refused = ended.err().expect("another user changed the record");
    assert_eq!(refused.kind, OpErrorKind::Stale, "{refused}");
    assert_eq!((backups, of_runs), (vec![1], vec![]));
}
