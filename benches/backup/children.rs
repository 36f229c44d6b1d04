//! The measured work: the bare loop, a backup, and of that the writes to the vault alone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linkvault::api::envelope;
use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::config::{Home, StatisticsSetting};
use linkvault::model::Resource;
use linkvault::ops::account_session::SessionLimits;
use linkvault::ops::backup::{self as ops, BackupRequest};
use linkvault::ops::{Env, NoEvents};
use linkvault::vault::Vault;
use linkvault::vault::listing::ListingEnd;
use linkvault::vault::snapshot::{ReadState, RequestUsage, SnapshotStatus};
use linkvault::vault::template_match::{TemplateMatch, TemplateMatcher};
use linkvault::vault::write::CrawledPage;
use roaring::RoaringTreemap;
use serde::Deserialize;

use crate::child::{self, Run};

/// The number of reads in flight that the program has by default.
pub const DEFAULT_IN_FLIGHT: u32 = 4;

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    Bare,
    Backup {
        in_flight: u32,
    },
    /// Stores pages that are in memory and parsed, on one thread and with one for hashes, as a first
    /// backup does. The first part is the time of that.
    Store,
}

impl Job {
    pub const BACKUP: Self = Self::Backup { in_flight: DEFAULT_IN_FLIGHT };
}

/// Runs `job` in a child process: from the server at `url` into `file`.
pub fn spawn(job: Job, url: &str, file: &Path) -> Run {
    let (name, in_flight) = match job {
        Job::Bare => ("bare", 1),
        Job::Store => ("store", 1),
        Job::Backup { in_flight } => ("backup", in_flight),
    };
    child::spawn(name, &[url.as_ref(), file.as_os_str(), in_flight.to_string().as_ref()])
}

/// If this process was spawned to run a job: runs it, prints what it took, and
/// says so.
pub fn run_if_child() -> bool {
    let Some((name, args)) = child::job() else { return false };
    let [url, file, in_flight] = &args[..] else { panic!("a job takes a URL, a file, a number") };
    let file = Path::new(file);
    let env = configured(url, file);
    let began = Instant::now();
    let (records, part) = match name.as_str() {
        "bare" => (bare(url, file), Duration::ZERO),
        "store" => store(url, file),
        _ => (run(&env, in_flight.parse().unwrap()), Duration::ZERO),
    };
    child::report(began.elapsed(), records, part);
    true
}

/// A backup as `linkvault backup` makes it, without statistics. Returns the number of records.
pub fn backup(url: &str, file: &Path) -> u64 {
    run(&configured(url, file), DEFAULT_IN_FLIGHT)
}

/// An environment in which the account `main` is the server at `url`, and its vault is `file`.
fn configured(url: &str, file: &Path) -> Env {
    let home = file.with_extension("home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("key"), "a-key-of-usual-length").unwrap();
    let vault = file.display();
    let config = format!("[accounts.main]\nurl = '{url}'\nkey_file = 'key'\nvault = '{vault}'\n");
    std::fs::write(home.join("config.toml"), config).unwrap();
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    Env::new(clock, Arc::new(NoEvents)).with_home(Home::at(&home))
}

fn run(env: &Env, in_flight: u32) -> u64 {
    let account = env.account("main").unwrap();
    let request = BackupRequest {
        stats: Some(StatisticsSetting::None),
        limits: SessionLimits { max_in_flight: Some(in_flight), ..SessionLimits::default() },
        ..BackupRequest::new("backup", &account)
    };
    let snapshot = ops::backup(env, &request).unwrap().summary.snapshot;
    assert_eq!(snapshot.status, SnapshotStatus::Complete, "{snapshot:?}");
    snapshot.records()
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

/// Fetches and parses all pages, then stores them as a first backup does, without the state of the
/// crawl. Returns the number of records and the time from the creation of the vault.
fn store(url: &str, file: &Path) -> (u64, Duration) {
    let agent = ureq::Agent::new_with_defaults();
    let mut bodies = Vec::new();
    loop {
        let number = bodies.len() + 1;
        let mut answer =
            agent.get(format!("{url}/api/qr?limit=1000&page={number}")).call().unwrap();
        bodies.push(answer.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap());
        let last: Answer = serde_json::from_slice(&bodies[number - 1]).unwrap();
        if number as u64 >= last.data.maxpage {
            break;
        }
    }
    let resource = Resource::QrCodes;
    let mut matcher = TemplateMatcher::new(resource, None);
    let mut pages: Vec<Vec<TemplateMatch<'_>>> = Vec::new();
    for body in &bodies {
        let page = envelope::page(body, resource.spec().list_keys).unwrap();
        pages.push(page.records.iter().map(|raw| matcher.split(raw.get()).unwrap()).collect());
    }
    let clock = SystemClock::new(Interrupt::default());
    let began = Instant::now();
    let mut vault = Vault::open_or_create(file).unwrap();
    let snapshot = vault.begin(clock.now(), None, &[resource]).unwrap();
    let (mut seen, usage) = (RoaringTreemap::new(), RequestUsage::default());
    for (number, records) in (1..).zip(&mut pages) {
        let (parent, now, batch) = (None, clock.now(), Some(Duration::ZERO));
        let page = CrawledPage { snapshot, resource, parent, number, now, usage, batch };
        seen |= vault.put_matches(&page, records, &seen, |_| String::new()).unwrap().rows;
    }
    let outcome = Some((ReadState::Complete, None));
    let (parent, gone, progress) = (None, &[][..], None);
    vault.end_listing(&ListingEnd { snapshot, resource, parent, gone, progress, outcome }).unwrap();
    let stored = vault.finish(snapshot, clock.now(), usage).unwrap();
    vault.close().unwrap();
    (stored.records(), began.elapsed())
}
