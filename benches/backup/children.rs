//! The measured work: the bare loop, and a backup.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linkvault::api::client::Client;
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::api::ureq::{TransportOptions as Wire, UreqTransport};
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::crawl::{self, CrawlOptions, CrawlReport, StatisticsMode};
use linkvault::progress::NoProgress;
use linkvault::vault::Vault;
use linkvault::vault::snapshot::SnapshotStatus;
use serde::Deserialize;

use crate::child::{self, Run};

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    Bare,
    Backup,
}

/// Runs `job` in a child process: from the server at `url` into `file`.
pub fn spawn(job: Job, url: &str, file: &Path) -> Run {
    let name = match job {
        Job::Bare => "bare",
        Job::Backup => "backup",
    };
    child::spawn(name, &[url.as_ref(), file.as_os_str()])
}

/// If this process was spawned to run a job: runs it, prints what it took, and
/// says so.
pub fn run_if_child() -> bool {
    let Some((name, args)) = child::job() else { return false };
    let [url, file] = &args[..] else { panic!("a job takes a URL and a file") };
    let began = Instant::now();
    let records = match name.as_str() {
        "bare" => bare(url, Path::new(file)),
        _ => backup(url, Path::new(file)).snapshot.records(),
    };
    child::report(began.elapsed(), records, Duration::ZERO);
    true
}

/// A backup as the program makes it, without statistics.
pub fn backup(url: &str, file: &Path) -> CrawlReport {
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let transport = UreqTransport::new(url, &Wire::default()).unwrap();
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(ApiKey::new("a-key-of-usual-length"));
    let mut vault = Vault::open_or_create(file).unwrap();
    let options = CrawlOptions { stats: StatisticsMode::None, ..CrawlOptions::new("http://bench") };
    let summary = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options).unwrap();
    vault.close().unwrap();
    assert_eq!(summary.snapshot.status, SnapshotStatus::Complete, "{:?}", summary.snapshot);
    summary
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    maxpage: u64,
    qrs: Vec<Code>,
}

#[derive(Deserialize)]
struct Code {
    id: i64,
    link: String,
    scans: i64,
    name: String,
    date: String,
}

/// The bare loop: fetches the pages, parses them, and inserts the rows into a
/// plain typed table in one transaction. It proves nothing and keeps no history.
fn bare(url: &str, file: &Path) -> u64 {
    let agent = ureq::Agent::new_with_defaults();
    let mut db = rusqlite::Connection::open(file).unwrap();
    let tx = db.transaction().unwrap();
    tx.execute_batch(
        "CREATE TABLE qr(id INTEGER PRIMARY KEY, link TEXT, scans INTEGER, name TEXT, date TEXT)",
    )
    .unwrap();
    let mut insert = tx.prepare("INSERT INTO qr VALUES(?1, ?2, ?3, ?4, ?5)").unwrap();
    let (mut page, mut records) = (1, 0);
    loop {
        let mut answer = agent
            .get(format!("{url}/api/qr?limit=1000&page={page}"))
            .header("authorization", "Bearer a-key-of-usual-length")
            .call()
            .unwrap();
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap();
        let answer: Answer = serde_json::from_slice(&body).unwrap();
        for code in &answer.data.qrs {
            insert.execute((code.id, &code.link, code.scans, &code.name, &code.date)).unwrap();
            records += 1;
        }
        if page >= answer.data.maxpage {
            break;
        }
        page += 1;
    }
    drop(insert);
    tx.commit().unwrap();
    records
}
