//! The cost of a backup, against the targets: `cargo bench`.
//!
//! Time is measured against a bare loop in the same run, and reported as the ratio
//! of the best of several runs each. Every measured run is a process of its
//! own; the server of static pages is this one. `LINKVAULT_BENCH_QUICK=1` takes
//! a tenth of the records and fewer runs. A missed size or number of requests
//! fails the run; time only says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod account;
#[path = "../common/child.rs"]
mod child;
mod children;
#[path = "../common/figures.rs"]
mod figures;
mod limited;
mod server;
#[path = "../common/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use account::{Account, Daily, Style};
use child::Run;
use children::Job;
use figures::{best, memory, seconds, times};
use server::Server;
use table::{Kind, Table};

/// The bounds that hold for 100,000 records.
const RECORDS: usize = 100_000;
const MAX_FIRST_VAULT: u64 = 14 << 20;
const MAX_UNCHANGED: u64 = 64 << 10;
const MAX_MEMORY: u64 = 32;

fn main() -> ExitCode {
    if children::run_if_child() {
        return ExitCode::SUCCESS;
    }
    if serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    let quick = std::env::var_os("LINKVAULT_BENCH_QUICK").is_some_and(|it| it != "0");
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench {
        folder: folder.path().to_owned(),
        records: if quick { RECORDS / 10 } else { RECORDS },
        rounds: if quick { 3 } else { 7 },
    };
    let only = std::env::var("LINKVAULT_BENCH_ONLY").unwrap_or_default();
    let mut table = Table::default();
    for (name, part) in PARTS {
        if only.is_empty() || only.split(',').any(|it| it == *name) {
            eprintln!("{name}");
            part(&bench, &mut table);
        }
    }
    println!("{} records", bench.records);
    if table.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `serve RECORDS PAGE` only serves, for looking at one backup with a profiler:
/// `as-child backup URL FILE` or `as-child bare URL FILE`.
fn serve_if_asked() -> bool {
    let args: Vec<String> = std::env::args().collect();
    let [_, word, records, most] = &args[..] else { return false };
    let (Ok(records), Ok(most)) = (records.parse(), most.parse()) else { return false };
    if word != "serve" {
        return false;
    }
    let server = Server::start(Account::new(records, Style::PLAIN).render(most));
    println!("{}", server.url);
    loop {
        std::thread::park();
    }
}

type Part = fn(&Bench, &mut Table);

/// The parts, by the names that `LINKVAULT_BENCH_ONLY` takes.
const PARTS: &[(&str, Part)] = &[
    ("speed", |bench, table| {
        bench.speed(100, table);
        bench.speed(1000, table);
    }),
    ("sizes", Bench::sizes),
    ("daily", |bench, table| {
        bench.daily(Daily::Names, table);
        bench.daily(Daily::Scans, table);
    }),
    ("large", Bench::large),
    ("limited", Bench::limited),
];

struct Bench {
    folder: PathBuf,
    records: usize,
    rounds: usize,
}

impl Bench {
    /// A file that is not there yet.
    fn file(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        for end in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(self.folder.join(format!("{name}{end}")));
        }
        path
    }

    fn run(&self, job: Job, server: &Server, file: &Path) -> Run {
        let run = children::spawn(job, &server.url, file);
        assert!(run.count >= self.records as u64, "{run:?}");
        run
    }

    /// Bytes for this many records, from bytes for [`RECORDS`].
    fn scaled(&self, bytes: u64) -> u64 {
        bytes * self.records as u64 / RECORDS as u64
    }

    /// Time and memory of a first and a second backup, against the bare loop.
    fn speed(&self, most: usize, table: &mut Table) {
        let server = Server::start(Account::new(self.records, Style::PLAIN).render(most));
        let (mut bare, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
        let mut growth = 0;
        for _ in 0..self.rounds {
            bare.push(self.run(Job::Bare, &server, &self.file("bare.db")));
            let vault = self.file("vault.db");
            first.push(self.run(Job::Backup, &server, &vault));
            let before = size(&vault);
            second.push(self.run(Job::Backup, &server, &vault));
            growth = size(&vault).saturating_sub(before);
        }
        let at = format!("at {most} a page");
        let (plain, ours, again) = (best(&bare), best(&first), best(&second));
        table.note(format!("bare loop, {at}"), seconds(plain));
        let bare_file = size(&self.folder.join("bare.db"));
        table.note(format!("bare table, {at}"), bytes(bare_file));
        table.row(
            Kind::Noisy,
            format!("first backup, {at}"),
            times(ours, plain),
            "≤ 2.00 ×",
            ours <= plain * 2,
        );
        let name = format!("second, unchanged, {at}");
        table.row(
            Kind::Noisy,
            &name,
            times(again, ours) + " of the first",
            "≤ 1.00 ×",
            again <= ours,
        );
        table.row(
            Kind::Exact,
            format!("growth by it, {at}"),
            bytes(growth),
            "< 64 KiB",
            growth < MAX_UNCHANGED,
        );
        memory(table, &format!("peak memory, {at}"), first.iter().chain(&second), MAX_MEMORY);
    }

    /// The size of a first vault, however the service writes its lists.
    fn sizes(&self, table: &mut Table) {
        let target = self.scaled(MAX_FIRST_VAULT);
        for style in Style::ALL {
            for most in [100, 1000] {
                let server = Server::start(Account::new(self.records, style).render(most));
                let vault = self.file("vault.db");
                children::backup(&server.url, &vault);
                let found = size(&vault);
                if let Some(kept) = std::env::var_os("LINKVAULT_BENCH_KEEP") {
                    std::fs::copy(&vault, format!("{}-{style}-{most}", kept.display())).unwrap();
                }
                let name = format!("first vault, {style}, {most} a page");
                table.row(
                    Kind::Exact,
                    name,
                    bytes(found),
                    format!("≤ {}", bytes(target)),
                    found <= target,
                );
            }
        }
    }

    /// What thirty days add to a vault.
    fn daily(&self, daily: Daily, table: &mut Table) {
        for style in [Style::PLAIN, Style { descending: true, php: true }] {
            let mut account = Account::new(self.records, style);
            let server = Server::start(account.render(1000));
            let vault = self.file("vault.db");
            children::backup(&server.url, &vault);
            let before = size(&vault);
            for day in 1..=30 {
                account.advance(day, daily);
                server.publish(account.render(1000));
                children::backup(&server.url, &vault);
            }
            let growth = size(&vault).saturating_sub(before);
            if let Some(kept) = std::env::var_os("LINKVAULT_BENCH_KEEP") {
                std::fs::copy(&vault, kept).unwrap();
            }
            let what = match daily {
                Daily::Names => "1 % renamed",
                Daily::Scans => "1 % scanned",
            };
            let percent = growth as f64 * 100.0 / before as f64;
            table.row(
                Kind::Exact,
                format!("thirty days, {what} daily, {style}"),
                format!("+ {percent:.1} %"),
                "≤ + 40 %",
                percent <= 40.0,
            );
        }
    }

    /// Ten times as many records.
    fn large(&self, table: &mut Table) {
        let small = Server::start(Account::new(self.records, Style::PLAIN).render(1000));
        let server = Server::start(Account::new(self.records * 10, Style::PLAIN).render(1000));
        let (mut few, mut many) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds.div_ceil(2) {
            few.push(self.run(Job::Backup, &small, &self.file("few.db")));
            many.push(self.run(Job::Backup, &server, &self.file("many.db")));
        }
        let (few, large) = (best(&few), best(&many));
        let name = "ten times the records";
        table.row(
            Kind::Noisy,
            name,
            times(large, few) + " the time",
            "≤ 12.00 ×",
            large <= few * 12,
        );
        memory(table, "peak memory with them", &many, MAX_MEMORY);
    }

    /// Under the service's limit, on simulated time.
    fn limited(&self, table: &mut Table) {
        for codes in [2990, 10_000] {
            let found = limited::run(codes);
            let at = format!("{codes} records, 10 a page, 30 requests a minute");
            let (time, imposed) = (found.time, found.imposed);
            table.row(
                Kind::Exact,
                format!("time, {at}"),
                format!("{:.3} × the limit's", time.as_secs_f64() / imposed.as_secs_f64()),
                "≤ 1.050 ×",
                time <= imposed.mul_f64(1.05),
            );
            table.row(
                Kind::Exact,
                "requests",
                format!("{} for {} pages", found.requests, found.least),
                "pages + 2",
                found.requests <= found.least + 2,
            );
            table.row(Kind::Exact, "refused", found.refused.to_string(), "0", found.refused == 0);
        }
    }
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

fn bytes(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}
