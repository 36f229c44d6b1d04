//! The cost of applying a plan, and of making one, against the
//! targets: `cargo bench --bench push`.
//!
//! Time is measured in the same run against a loop that only posts, and against
//! reading what is planned from; it is reported as the ratio of the best of several
//! runs each. Every measured run is a process of its own; this one serves the
//! sandbox. `LINKVAULT_BENCH_QUICK=1` takes a tenth of the records and fewer
//! runs. Missed memory or a missed number of requests fails the run; time only says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

#[path = "../common/child.rs"]
mod child;
mod creates;
mod edit;
#[path = "../common/figures.rs"]
mod figures;
mod planning;
#[path = "../common/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use child::Run;
use figures::{best, best_and_median, memory, seconds, times};
use linkvault::api::http::ApiKey;
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::sandbox::{Behaviour, Faults, SandboxService, ServeOptions, Store, serve};
use linkvault::server::Server;
use table::{Kind, Table};

/// The sizes for which the bounds hold.
const CREATES: usize = 10_000;
const RECORDS: usize = 100_000;
/// In MiB.
const MAX_MEMORY: u64 = 200;
/// For the plan and the run in one command.
const MAX_EDIT_REQUESTS: u64 = 4;

fn main() -> ExitCode {
    if let Some((name, args)) = child::job() {
        run(&name, &args);
        return ExitCode::SUCCESS;
    }
    if serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    let quick = std::env::var_os("LINKVAULT_BENCH_QUICK").is_some_and(|it| it != "0");
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench {
        folder: folder.path().to_owned(),
        share: if quick { 10 } else { 1 },
        rounds: if quick { 3 } else { 5 },
    };
    let only = std::env::var("LINKVAULT_BENCH_ONLY").unwrap_or_default();
    let mut table = Table::default();
    for (name, part) in PARTS {
        if only.is_empty() || only.split(',').any(|it| it == *name) {
            eprintln!("{name}");
            part(&bench, &mut table);
        }
    }
    println!("{} creates, {} records", CREATES / bench.share, RECORDS / bench.share);
    if table.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One measured job.
fn run(name: &str, args: &[String]) {
    match (name, args) {
        ("bare", [url, count]) => creates::bare(url, count.parse().unwrap()),
        ("push", [url, count, file]) => {
            creates::push(url, count.parse().unwrap(), Path::new(file));
        }
        ("plan", [sheet, vault]) => planning::plan(Path::new(sheet), Path::new(vault)),
        _ => panic!("no job is called {name}"),
    }
}

/// `serve` only serves, for looking at one run with a profiler: `as-child push
/// URL COUNT VAULT` or `as-child bare URL COUNT`.
fn serve_if_asked() -> bool {
    if std::env::args().nth(1).as_deref() != Some("serve") {
        return false;
    }
    let (_server, url) = start();
    println!("{url}");
    loop {
        std::thread::park();
    }
}

type Part = fn(&Bench, &mut Table);

/// The parts, by the names that `LINKVAULT_BENCH_ONLY` takes.
const PARTS: &[(&str, Part)] =
    &[("creates", Bench::creates), ("planning", Bench::planning), ("edit", Bench::edit)];

struct Bench {
    folder: PathBuf,
    /// Of everything, one part in this many is done.
    share: usize,
    rounds: usize,
}

/// An empty account without a limit, behind a socket of its own.
fn start() -> (Server, String) {
    let behaviour = Behaviour::parse("rate-limit=zero").unwrap();
    let service = SandboxService::new(Store::default(), ApiKey::new(creates::KEY), behaviour);
    serve_account(Arc::new(Mutex::new(service.with_log_limit(0))))
}

/// `service` behind a socket of its own.
fn serve_account(service: Arc<Mutex<SandboxService>>) -> (Server, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let faults = Arc::new(Mutex::new(Faults::default()));
    let server = serve(listener, service, clock, faults, ServeOptions::default()).unwrap();
    let url = format!("http://{}", server.address());
    (server, url)
}

impl Bench {
    /// A run of `name` against a service of its own.
    fn run_with_service(&self, name: &str, count: usize, file: Option<&Path>) -> Run {
        let (server, url) = start();
        let count_text = count.to_string();
        let mut args = vec![url.as_ref(), count_text.as_ref()];
        args.extend(file.map(Path::as_os_str));
        let run = child::spawn(name, &args);
        assert_eq!(run.count, count as u64, "{run:?}");
        server.stop();
        run
    }

    /// Creates, each with its journal, against a loop that only posts.
    fn creates(&self, table: &mut Table) {
        let count = CREATES / self.share;
        let (mut bare, mut pushed) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            bare.push(self.run_with_service("bare", count, None));
            let vault = self.folder.join(format!("push-{round}.db"));
            pushed.push(self.run_with_service("push", count, Some(&vault)));
        }
        let (plain, ours) = (best(&bare), best(&pushed));
        table.note(format!("bare loop, {count} creates"), seconds(plain));
        table.row(
            Kind::Noisy,
            format!("plan and run of {count} creates"),
            best_and_median(&pushed, &bare),
            "≤ 2.50 ×",
            ours * 2 <= plain * 5,
        );
        memory(table, "peak memory of it", &pushed, MAX_MEMORY);
    }

    /// Reading rows and records and planning, against reading alone.
    fn planning(&self, table: &mut Table) {
        let count = RECORDS / self.share;
        let (sheet, vault) = (self.folder.join("campaigns.csv"), self.folder.join("plan.db"));
        planning::prepare(count, &sheet, &vault);
        let plan = || child::spawn("plan", &[sheet.as_os_str(), vault.as_os_str()]);
        let runs: Vec<Run> = (0..self.rounds).map(|_| plan()).collect();
        for run in &runs {
            assert_eq!(run.count, (count / planning::EVERY) as u64, "{run:?}");
        }
        let reading = runs.iter().map(|run| run.part).min().unwrap();
        let whole = best(&runs);
        table.note(format!("reading {count} rows and {count} records"), seconds(reading));
        table.row(
            Kind::Noisy,
            "reading them and planning",
            times(whole, reading),
            "≤ 1.50 ×",
            whole * 2 <= reading * 3,
        );
        memory(table, "peak memory of both", &runs, MAX_MEMORY);
    }

    /// The requests for one edited record.
    fn edit(&self, table: &mut Table) {
        let requests = edit::requests(&self.folder.join("edit"));
        table.row(
            Kind::Exact,
            "requests, plan and apply of one edited record",
            requests.to_string(),
            format!("≤ {MAX_EDIT_REQUESTS}"),
            requests <= MAX_EDIT_REQUESTS,
        );
    }
}
