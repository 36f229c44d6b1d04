//! Planning: an export of many campaigns, some of them edited, against the
//! account that it was made from.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use linkvault::api::client::Client;
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::apply;
use linkvault::change::cost::{CrawlRequests, cost};
use linkvault::change::csv_files::write::{CsvDialect, CsvWriter};
use linkvault::change::guards;
use linkvault::change::lists::Lists;
use linkvault::change::plan::{CurrentState, RequestRate, plan as make};
use linkvault::change::policy::Policy;
use linkvault::change::staleness::{DEFAULT, StalenessLimit};
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::crawl::{self, StatisticsMode};
use linkvault::model::{FieldValue, Resource};
use linkvault::progress::NoProgress;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;

use crate::{child, creates};

/// One row in this many is edited.
pub const EVERY: usize = 100;

/// Makes a vault with `count` campaigns, and a file with all of them.
pub fn prepare(count: usize, sheet: &Path, vault: &Path) {
    let store =
        generate(7, GeneratedCounts { campaigns: count as u64, ..GeneratedCounts::default() });
    let behaviour = Behaviour::parse("rate-limit=zero").unwrap();
    let service = SandboxService::new(store, ApiKey::new(creates::KEY), behaviour);
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let transport = SandboxTransport::new(Arc::new(Mutex::new(service)), clock.clone());
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(ApiKey::new(creates::KEY));
    let mut vault = Vault::open_or_create(vault).unwrap();
    let options = crawl::CrawlOptions::new("http://bench").only(&[Resource::Campaigns]);
    let options = crawl::CrawlOptions { stats: StatisticsMode::None, ..options };
    let seen = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options).unwrap();
    let out = BufWriter::new(File::create(sheet).unwrap());
    let mut sheet = CsvWriter::begin(Resource::Campaigns, out, CsvDialect::Plain).unwrap();
    let (name, _) = Resource::Campaigns.spec().field("name").unwrap();
    let mut nth = 0;
    vault
        .for_each_record(seen.snapshot.number, Resource::Campaigns, |mut record| {
            nth += 1;
            if nth % EVERY == 0 {
                record.values[name] = FieldValue::Text(format!("Renamed {nth}").into());
            }
            sheet.record(&record, None).unwrap();
        })
        .unwrap();
    assert_eq!(nth, count);
    sheet.finish().unwrap();
    vault.close().unwrap();
}

/// Reads rows and records, and plans from the ones to the others.
pub fn plan(sheet: &Path, vault: &Path) {
    let began = Instant::now();
    let bytes = std::fs::read(sheet).unwrap();
    let desired = creates::desired(Resource::Campaigns, &bytes);
    drop(bytes);
    let mut vault = Vault::open_read_only(vault).unwrap();
    let newest = vault.snapshots().unwrap().last().unwrap().number;
    let state = vault.state(newest, &[Resource::Campaigns]).unwrap();
    let memory = apply::account_memory(&vault).unwrap();
    let reading = began.elapsed();
    let current = CurrentState { state: &state, memory: &memory };
    let policy = Policy::default();
    let mut plan = make(&desired, current, None, &policy).unwrap();
    let staleness = StalenessLimit::new(DEFAULT, RequestRate::default(), Lists::default());
    plan.cost = cost(&plan, CrawlRequests { before: 0, after: 0 }, &staleness);
    guards::check_guards(&plan, &state, &policy).unwrap();
    child::report(began.elapsed(), plan.steps.len() as u64, reading);
}
