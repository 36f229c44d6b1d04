//! The cost of a backup, against the targets: `cargo bench`.
//!
//! Time is measured against a bare loop in the same run, and reported as the ratio
//! of the best of several runs each. Every measured run is a process of its
//! own; the server of static pages is this one. `LINKVAULT_BENCH_QUICK=1` takes
//! a tenth of the records and fewer runs; `LINKVAULT_BENCH_ONLY=speed,large` only
//! these parts. A missed size or number of requests fails the run; time only says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod account;
#[path = "../common/child.rs"]
mod child;
mod children;
#[path = "../common/figures.rs"]
mod figures;
mod latency;
mod limited;
mod scripts;
mod server;
#[path = "../common/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use account::{Account, Daily, Style};
use child::Run;
use children::Job;
use figures::{best, best_and_median, memory, seconds, times};
use scripts::Script;
use server::{Conditions, Server, UNREACHED};
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
        quick,
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

/// `serve RECORDS PAGE LIMIT` only serves, for looking at one backup with a profiler:
/// `as-child backup URL FILE` or `as-child bare URL FILE`.
fn serve_if_asked() -> bool {
    let args: Vec<String> = std::env::args().collect();
    let [_, word, records, most, limit] = &args[..] else { return false };
    let (Ok(records), Ok(most), Ok(limit)) = (records.parse(), most.parse(), limit.parse()) else {
        return false;
    };
    if word != "serve" {
        return false;
    }
    let site = Account::new(records, Style::PLAIN).render(most);
    let server = Server::under(site, Conditions { latency: Duration::ZERO, limit });
    println!("{}", server.url);
    loop {
        std::thread::park();
    }
}

type Part = fn(&Bench, &mut Table);

/// The parts, by the names that `LINKVAULT_BENCH_ONLY` takes.
const PARTS: &[(&str, Part)] = &[
    ("speed", |bench, table| {
        for page_size in [100, 1000] {
            bench.speed(page_size, 0, table);
            bench.speed(page_size, UNREACHED, table);
        }
    }),
    ("scripts", |bench, table| {
        bench.scripts(100, table);
        bench.scripts(1000, table);
    }),
    ("sizes", Bench::sizes),
    ("daily", |bench, table| {
        bench.daily(Daily::Names, table);
        bench.daily(Daily::Scans, table);
    }),
    ("large", |bench, table| {
        bench.large(table);
        bench.large_in_flight(table);
    }),
    ("limited", latency::simulated),
    ("latency", latency::real),
];

struct Bench {
    folder: PathBuf,
    records: usize,
    rounds: usize,
    quick: bool,
}

impl Bench {
    /// A file that is not there yet, in a folder of its own.
    fn file(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("file.db")
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
    fn speed(&self, page_size: usize, limit: u64, table: &mut Table) {
        let site = Account::new(self.records, Style::PLAIN).render(page_size);
        let server = Server::under(site, Conditions { latency: Duration::ZERO, limit });
        let (mut bare, mut alone) = (Vec::new(), Vec::new());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (mut growth, mut bare_size) = (0, 0);
        for _ in 0..self.rounds {
            let plain = self.file("bare");
            bare.push(self.run(Job::Bare, &server, &plain));
            bare_size = size(&plain);
            let vault = self.file("vault");
            let stored = self.run(Job::Store, &server, &vault);
            alone.push(Run { time: stored.part, ..stored });
            let vault = self.file("vault");
            first.push(self.run(Job::BACKUP, &server, &vault));
            let before = size(&vault);
            second.push(self.run(Job::BACKUP, &server, &vault));
            growth = size(&vault).saturating_sub(before);
        }
        let headers = if limit == 0 { "" } else { ", with limit headers" };
        let at = format!("at {page_size} a page{headers}");
        let (plain, ours, again) = (best(&bare), best(&first), best(&second));
        table.note(format!("bare loop, {at}"), seconds(plain));
        if limit == 0 {
            table.note(format!("bare table, {at}"), bytes(bare_size));
        }
        table.note(format!("its writes to the vault alone, {at}"), best_and_median(&alone, &bare));
        table.row(
            Kind::Noisy,
            format!("first backup, {at}"),
            best_and_median(&first, &bare),
            "≤ 1.50 ×",
            ours * 2 <= plain * 3,
        );
        table.row(
            Kind::Noisy,
            format!("second, unchanged, {at}"),
            best_and_median(&second, &bare),
            "≤ 1.00 ×",
            again <= plain,
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

    /// Scripts that a user might write instead, against the bare loop.
    fn scripts(&self, page_size: usize, table: &mut Table) {
        let server = Server::start(Account::new(self.records, Style::PLAIN).render(page_size));
        let rounds = self.rounds.div_ceil(2);
        let bare = || self.run(Job::Bare, &server, &self.file("bare"));
        let plain = best(&(0..rounds).map(|_| bare()).collect::<Vec<_>>());
        for script in Script::ALL {
            let name = format!("{}, at {page_size} a page", script.name());
            if !script.is_installed() {
                table.note(name, "not installed");
                continue;
            }
            let run = || script.run(&server.url, page_size, &self.file("script"), self.records);
            let time = (0..rounds).map(|_| run()).min().unwrap();
            table.note(name, times(time, plain));
        }
    }

    /// The size of a first vault, however the service writes its lists.
    fn sizes(&self, table: &mut Table) {
        let target = self.scaled(MAX_FIRST_VAULT);
        for style in Style::ALL {
            for most in [100, 1000] {
                let server = Server::start(Account::new(self.records, style).render(most));
                let vault = self.file("vault");
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
            let vault = self.file("vault");
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
            few.push(self.run(Job::BACKUP, &small, &self.file("few")));
            many.push(self.run(Job::BACKUP, &server, &self.file("many")));
        }
        let (few, large) = (best(&few), best(&many));
        table.row(
            Kind::Noisy,
            format!("first backup, {} records", bytes(self.records as u64 * 10)),
            format!("{} that of {}", times(large, few), bytes(self.records as u64)),
            "≤ 12.00 ×",
            large <= few * 12,
        );
    }

    /// The memory of a backup with several requests in flight, of a service that responds slowly
    /// enough for it.
    fn large_in_flight(&self, table: &mut Table) {
        let account = Account::new(self.records * 10, Style::PLAIN);
        for in_flight in [1, 4, 8] {
            let latency = Duration::from_millis(if in_flight == 1 { 0 } else { 10 });
            let server = Server::under(account.render(1000), Conditions { latency, limit: 0 });
            let run = self.run(Job::Backup { in_flight }, &server, &self.file("many"));
            assert_eq!(server.most_in_flight(), in_flight as usize);
            let records = bytes(self.records as u64 * 10);
            let name = format!("peak memory, {records} records, {in_flight} in flight");
            memory(table, &name, [&run], MAX_MEMORY);
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
