//! The cost of a thousand accounts in one daemon: `cargo bench --bench daemon`.
//!
//! Every account has a service of its own on loopback, with a limit of its own.
//! The real program backs them up, all due at once; then it is idle; then some
//! of them wait for their limits, all at the same time. Memory is what the
//! system says of the process. `LINKVAULT_BENCH_QUICK=1` takes a tenth of the
//! accounts. Missed memory fails the run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

#[path = "../common/table.rs"]
mod table;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linkvault::api::http::ApiKey;
use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, Faults, SandboxService, ServeOptions, serve};
use linkvault::server::Server;
use table::{Kind, Table};

const ACCOUNTS: usize = 1_000;
/// How many of them wait at the same time in the last part.
const WAITING: usize = 200;
const KEY: &str = "one-key-for-all-of-them";

/// In MiB, with the usual number of workers.
const MAX_WORKING: u64 = 128;
const MAX_IDLE: u64 = 128;
/// In MiB for each backup that waits.
const MAX_EACH: u64 = 2;

fn main() -> ExitCode {
    let quick = std::env::var_os("LINKVAULT_BENCH_QUICK").is_some_and(|it| it != "0");
    let share = if quick { 10 } else { 1 };
    let mut table = Table::default();
    let home = tempfile::tempdir().unwrap();
    let count = ACCOUNTS / share;
    let services = services(count, "rate-limit=30");
    configure(home.path(), &services);
    let begun = Instant::now();
    let (peak, _) = watch(daemon(home.path(), &["--once"]), |_| false);
    table.note(
        format!("backing up {count} accounts, all due at once"),
        format!("{:.1} s", begun.elapsed().as_secs_f64()),
    );
    assert_eq!(vaults(home.path()), count, "not everybody was backed up");
    memory(&mut table, "peak memory of it, 32 at a time", peak, MAX_WORKING);
    let begun = Instant::now();
    let is_at_rest = |_| begun.elapsed() > Duration::from_secs(10);
    let (_, idle) = watch(daemon(home.path(), &["--listen", "off"]), is_at_rest);
    memory(
        &mut table,
        &format!("memory of a daemon with {count} accounts at rest"),
        idle,
        MAX_IDLE,
    );
    stop(services);
    let home = tempfile::tempdir().unwrap();
    let count = WAITING / share;
    let services = self::services(count, "rate-limit=12");
    configure(home.path(), &services);
    let workers = count.to_string();
    let (peak, _) = watch(daemon(home.path(), &["--once", "--workers", &workers]), |_| false);
    assert_eq!(vaults(home.path()), count, "not everybody was backed up");
    let name = format!("peak memory of {count} backups that wait for their limits at once");
    memory(&mut table, &name, peak, MAX_WORKING + MAX_EACH * count as u64);
    if table.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn memory(table: &mut Table, name: &str, bytes: u64, most: u64) {
    let measured = format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    table.row(Kind::Exact, name, measured, format!("≤ {most} MiB"), bytes <= most << 20);
}

/// Services with the sample account, each with a limit of its own.
fn services(count: usize, behaviour: &str) -> Vec<Server> {
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let store = sample_account(clock.now());
    let start = |_| {
        let behaviour = Behaviour::parse(behaviour).unwrap();
        let service =
            SandboxService::new(store.clone(), ApiKey::new(KEY), behaviour).with_log_limit(0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let faults = Arc::new(Mutex::new(Faults::default()));
        let (service, clock) = (Arc::new(Mutex::new(service)), Arc::clone(&clock));
        serve(listener, service, clock, faults, ServeOptions::default()).unwrap()
    };
    (0..count).map(start).collect()
}

fn stop(services: Vec<Server>) {
    services.into_iter().for_each(Server::stop);
}

fn configure(home: &Path, services: &[Server]) {
    let mut text = "[defaults]\nschedule = \"0 3 * * *\"\n".to_owned();
    for (nth, service) in services.iter().enumerate() {
        let url = format!("http://{}", service.address());
        write!(text, "[accounts.a{nth}]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n").unwrap();
    }
    std::fs::write(home.join("config.toml"), text).unwrap();
}

fn daemon(home: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_linkvault"))
        .arg("daemon")
        .args(arguments)
        .env("LINKVAULT_HOME", home)
        .env("LINKS_KEY", KEY)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The most memory that a process ever had, and the last, until it ends or `enough`.
fn watch(mut child: Child, enough: impl Fn(u64) -> bool) -> (u64, u64) {
    let (mut peak, mut last) = (0, 0);
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        };
        peak = kib("VmHWM:").map_or(peak, |kib| kib * 1024);
        last = kib("VmRSS:").map_or(last, |kib| kib * 1024);
        if enough(last) {
            child.kill().unwrap();
            child.wait().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (peak, last)
}

/// Vaults with a complete backup.
fn vaults(home: &Path) -> usize {
    let files = std::fs::read_dir(home.join("vaults")).unwrap().flatten();
    let vaults = files.filter(|file| file.path().extension().is_some_and(|it| it == "db"));
    let complete = vaults.filter(|file| {
        let vault = linkvault::vault::Vault::open_read_only(&file.path()).unwrap();
        let snapshots = vault.snapshots().unwrap();
        snapshots.iter().any(|it| it.status == linkvault::vault::snapshot::SnapshotStatus::Complete)
    });
    complete.count()
}
