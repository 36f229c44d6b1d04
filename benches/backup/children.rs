//! What is measured, each in a process of its own, so that its peak memory is
//! its own: the bare loop, and a backup.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linkvault::api::client::Client;
use linkvault::api::http::Key;
use linkvault::api::pacer::Pacer;
use linkvault::api::ureq::{Options as Wire, UreqTransport};
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::crawl::{self, Options, Stats, Summary};
use linkvault::progress::Silent;
use linkvault::vault::Vault;
use linkvault::vault::snapshot::Status;
use serde::Deserialize;

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    Bare,
    Backup,
}

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub time: Duration,
    /// The process's peak memory, where the system tells it.
    pub peak: Option<u64>,
    pub records: u64,
}

const MARK: &str = "as-child";

/// Runs `job` in a child process: from the server at `url` into `file`.
pub fn spawn(job: Job, url: &str, file: &Path) -> Run {
    let name = match job {
        Job::Bare => "bare",
        Job::Backup => "backup",
    };
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args([MARK, name, url]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "the measured process failed: {errors}");
    let numbers: Vec<u64> = text.split_whitespace().map(|it| it.parse().unwrap()).collect();
    let [micros, peak, records] = numbers[..] else { panic!("unexpected: {text}") };
    let peak = (peak > 0).then_some(peak);
    Run { time: Duration::from_micros(micros), peak, records }
}

/// If this process was spawned to run a job: runs it, prints what it took, and
/// says so.
pub fn run_if_child() -> bool {
    let args: Vec<String> = std::env::args().collect();
    let [_, mark, name, url, file] = &args[..] else { return false };
    if mark != MARK {
        return false;
    }
    let began = Instant::now();
    let records = match name.as_str() {
        "bare" => bare(url, Path::new(file)),
        _ => backup(url, Path::new(file)).snapshot.records(),
    };
    let time = began.elapsed();
    println!("{} {} {records}", time.as_micros(), peak().unwrap_or(0));
    true
}

/// The most memory this process ever had, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// A backup as the program makes it, without statistics.
pub fn backup(url: &str, file: &Path) -> Summary {
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let transport = UreqTransport::new(url, &Wire::default()).unwrap();
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(Key::new("a-key-of-usual-length"));
    let mut vault = Vault::open_or_create(file).unwrap();
    let options = Options { stats: Stats::None, ..Options::new("http://bench") };
    let summary = crawl::crawl(&mut client, &mut vault, &*clock, &Silent, &options).unwrap();
    vault.close().unwrap();
    assert_eq!(summary.snapshot.status, Status::Complete, "{:?}", summary.snapshot);
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
