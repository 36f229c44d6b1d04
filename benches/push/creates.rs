//! Creates: by a loop that only posts, and by a plan that is applied.

use std::fmt::Write as _;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linkvault::api::client::{Client, ExchangePacerState};
use linkvault::api::http;
use linkvault::api::pacer::{Pacer, StoreOutcome};
use linkvault::api::ureq::{TransportOptions as Wire, UreqTransport};
use linkvault::apply::{self, ApplyOptions, RunReport};
use linkvault::change::csv_files::{self, CsvKind, CsvRecords, ExportContext};
use linkvault::change::desired::{DesiredRecords, DesiredState};
use linkvault::change::plan::{AccountMemory, CurrentState, plan};
use linkvault::change::policy::Policy;
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::crawl::{self, StatisticsMode};
use linkvault::model::Resource;
use linkvault::progress::NoProgress;
use linkvault::vault::Vault;
use linkvault::vault::journal::RunCommand;

use crate::child;

pub const KEY: &str = "a-key-of-usual-length";

/// The fields of a channel, but for its flag.
fn channel(nth: usize) -> (String, String, String) {
    let colour = nth.wrapping_mul(0x9e_3779) & 0xff_ffff;
    (format!("Region {nth}"), format!("Posters of region {nth}"), format!("#{colour:06X}"))
}

/// Only posts, over one connection, and reads each answer.
pub fn bare(url: &str, count: usize) {
    let began = Instant::now();
    let agent = ureq::Agent::new_with_defaults();
    for nth in 1..=count {
        let (name, description, color) = channel(nth);
        let body = serde_json::json!({
            "name": name, "description": description, "color": color, "starred": nth % 2 == 0,
        });
        let mut answer = agent
            .post(format!("{url}/api/channel/add"))
            .header("authorization", format!("Bearer {KEY}"))
            .header("content-type", "application/json")
            .send(body.to_string())
            .unwrap();
        let body = answer.body_mut().read_to_vec().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["error"], 0, "{answer}");
    }
    child::report(began.elapsed(), count as u64, Duration::ZERO);
}

/// As `linkvault import` does it: looks, plans, carries out, looks again and
/// verifies. The rows are there before the time begins.
pub fn push(url: &str, count: usize, file: &Path) {
    let mut csv = "name,description,color,starred\n".to_owned();
    for nth in 1..=count {
        let (name, description, color) = channel(nth);
        writeln!(csv, "{name},{description},{color},{}", nth % 2 == 0).unwrap();
    }
    let began = Instant::now();
    let outcome = apply_csv(url, csv.as_bytes(), file);
    let time = began.elapsed();
    assert_eq!(outcome.verified, count as u64, "{outcome:?}");
    child::report(time, outcome.done, Duration::ZERO);
}

fn apply_csv(url: &str, csv: &[u8], file: &Path) -> RunReport {
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let transport = UreqTransport::new(url, &Wire::default()).unwrap();
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(http::ApiKey::new(KEY))
        .with_shared_pacer(file_saver(&file.with_extension("pace")));
    let mut vault = Vault::open_or_create(file).unwrap();
    let (resource, service) = (Resource::Channels, "http://bench");
    let look = crawl::CrawlOptions::new(service).only(&[resource]);
    let look = crawl::CrawlOptions { stats: StatisticsMode::None, fresh: true, ..look };
    let seen = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &look).unwrap();
    let state = vault.state(seen.snapshot.number, &look.scope).unwrap();
    let memory: AccountMemory = apply::account_memory(&vault).unwrap();
    let plan = {
        let current = CurrentState { state: &state, memory: &memory };
        plan(&desired(resource, csv), current, None, &Policy::default()).unwrap()
    };
    let options = ApplyOptions {
        command: RunCommand::Import,
        input: "channels.csv".to_owned(),
        service: service.to_owned(),
        snapshot_before: Some(seen.snapshot.number),
        ..ApplyOptions::default()
    };
    let outcome =
        apply::apply(&mut client, &mut vault, &*clock, &NoProgress, &options, &plan).unwrap();
    vault.close().unwrap();
    outcome
}

/// Keeps the pacer's state in a file, as the program does at every request.
fn file_saver(path: &Path) -> ExchangePacerState {
    let mut file = std::fs::File::create(path).unwrap();
    Box::new(move |change| {
        let state = change(None);
        file.rewind().unwrap();
        file.write_all(&serde_json::to_vec(&state).unwrap()).unwrap();
        StoreOutcome::Stored
    })
}

/// A CSV file as what is wanted.
pub fn desired(resource: Resource, csv: &[u8]) -> DesiredState {
    let kind = CsvKind::Resource(resource);
    let sheet = csv_files::read(kind, "wanted.csv", csv, ExportContext::default()).unwrap();
    let CsvRecords::Of(resource, records) = sheet.records else { panic!("no records") };
    let mut desired = DesiredState::default();
    desired.resources.insert(resource, DesiredRecords { records, is_complete: false });
    desired
}
