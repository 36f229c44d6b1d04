//! `kill -9` of every writing command at random times, with faults: after each kill the vault is
//! intact and the next start continues; in the end the vault equals the service, and nothing exists
//! twice.
//!
//! `LINKVAULT_KILLS` is the total number of kills; `LINKVAULT_KILLS_SEED` repeats a run.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{Clock, Interrupt, SystemClock};
use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};

use crate::ops::killed_backup::equals_the_service;
use crate::support::{CommandOutput, KEY, LiveService, TestEnvironment, until};

/// Few in `cargo test`: each takes a fraction of a second.
const KILLS: u64 = 18;

const FAULTS: &str = "latency=0.3:2ms,lost-reply=0.01,server-error=0.005,cut-body=0.005";

const COUNTS: GeneratedCounts = GeneratedCounts {
    domains: 3,
    campaigns: 60,
    channels: 5,
    channel_items: 6,
    qr_codes: 40,
    pixels: 8,
    overlays: 2,
    splash_pages: 2,
};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// An account `main`, an empty account `other`, and the kills so far.
struct World {
    rng: Rng,
    clock: SystemClock,
    main: LiveService,
    other: LiveService,
    environment: TestEnvironment,
    /// Number of kills of each command.
    kills: BTreeMap<&'static str, u64>,
    /// Counter for names that no record has yet.
    names: u64,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let behaviour = "max-limit=20";
        let main = LiveService::serving(generate(seed, COUNTS), behaviour, "");
        let other = LiveService::serving(Store::default(), behaviour, "");
        let account = |name: &str, service: &LiveService| {
            format!(
                "[accounts.{name}]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\nstats = \"none\"\n",
                service.url()
            )
        };
        let schedule = "schedule = \"* * * * * *\"\n";
        let text = account("main", &main) + schedule + &account("other", &other);
        let environment = TestEnvironment::new().variable("LINKS_KEY", KEY).config(&text);
        environment.run(&["backup", "main", "-q"]).succeeds();
        let (rng, clock) = (Rng::with_seed(seed), SystemClock::new(Interrupt::default()));
        Self { rng, clock, main, other, environment, kills: BTreeMap::new(), names: 0, seed }
    }

    fn killed(&self) -> u64 {
        self.kills.values().sum()
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.environment.run(arguments)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("Name {} of {}", self.names, self.seed)
    }

    fn faults(&self, faults: &str) {
        let seed = self.killed();
        let faults =
            if faults.is_empty() { String::new() } else { format!("{faults},seed={seed}") };
        self.main.faults(&faults);
        self.other.faults(&faults);
    }

    /// Starts a command and kills it after a random number of requests and a random part of a
    /// millisecond. `None` if it was killed, otherwise its result.
    fn run_and_kill(
        &mut self,
        command: &'static str,
        arguments: &[&str],
        requests: u64,
    ) -> Option<CommandOutput> {
        let handled = || self.main.request_count() + self.other.request_count();
        let at = handled() + self.rng.u64(..=requests);
        // Most of its work is between requests, or it sends none.
        let pause = Duration::from_micros(match self.rng.u8(..3) {
            0 => 0,
            1 => self.rng.u64(..3_000),
            _ => self.rng.u64(..80_000),
        });
        let mut child = self.environment.start(arguments);
        until("requests, or the end", || handled() >= at || child.try_wait().unwrap().is_some());
        if child.try_wait().unwrap().is_none() {
            self.clock.sleep(pause);
        }
        child.kill().unwrap();
        let ran = self.environment.wait(child);
        if ran.code().is_some() {
            return Some(ran);
        }
        *self.kills.entry(command).or_default() += 1;
        self.assert_sound();
        None
    }

    /// Asserts what must hold at any time.
    fn assert_sound(&self) {
        for account in ["main", "other"] {
            if self.environment.path("vaults").join(format!("{account}.db")).exists() {
                self.run(&["check", account]).succeeds();
            }
        }
    }

    /// Kills `begin`, and then `resume` of its run, until one of them finishes or `most` were
    /// killed; then lets it finish without faults.
    fn run_and_kill_until_finished(
        &mut self,
        command: &'static str,
        account: &str,
        begin: &[&str],
        requests: u64,
    ) -> CommandOutput {
        self.faults(FAULTS);
        let resume = ["resume", account, "-q"];
        for _ in 0..self.rng.u8(1..5) {
            let arguments = if self.unfinished(account) { &resume[..] } else { begin };
            if let Some(ran) = self.run_and_kill(command, arguments, requests) {
                // With faults it may end with any result that has an exit code.
                assert!(matches!(ran.code(), Some(0 | 1 | 3 | 6)), "{}", ran.stderr());
            }
        }
        self.faults("");
        if self.unfinished(account) {
            let ran = self.run(&resume);
            assert!(matches!(ran.code(), Some(0 | 3)), "{}", ran.stderr());
        }
        self.run(begin)
    }

    fn unfinished(&self, account: &str) -> bool {
        if !self.environment.path("vaults").join(format!("{account}.db")).exists() {
            return false;
        }
        let runs = self.run(&["runs", account, "--json"]).succeeds().json();
        runs["runs"].as_array().unwrap().iter().any(|run| run["finished"].is_null())
    }

    /// Another user changes the account.
    fn edit(&mut self) {
        let (name, other) = (self.name(), self.name());
        let nth = self.rng.usize(..10);
        self.main.sandbox().mutate(|store| {
            store.add_campaign(&name, None, true);
            let ids: Vec<_> = store.campaigns.iter().map(|(id, _)| id).collect();
            store.campaigns.get_mut(ids[nth]).unwrap().name = other;
            store.campaigns.remove(ids[nth + 10]);
        });
    }

    fn backup(&mut self) {
        self.edit();
        self.faults(FAULTS);
        for _ in 0..self.rng.u8(1..5) {
            let backup = ["backup", "main", "-q"];
            if let Some(ran) = self.run_and_kill("backup", &backup, 20) {
                assert!(matches!(ran.code(), Some(0 | 1 | 3)), "{}", ran.stderr());
            }
        }
        self.assert_up_to_date();
    }

    /// Asserts that a backup without faults equals the service.
    fn assert_up_to_date(&self) {
        self.faults("");
        self.run(&["backup", "main", "-q"]).succeeds();
        equals_the_service(&self.environment, &self.main);
    }

    fn daemon(&mut self) {
        self.edit();
        self.faults(FAULTS);
        for _ in 0..self.rng.u8(1..3) {
            let ended = self.run_and_kill("daemon", &["daemon", "--listen", "off", "-q"], 20);
            assert!(ended.is_none(), "the daemon ended");
            // It reads its stored state of the account.
            let status = self.run(&["status", "main"]);
            assert!(matches!(status.code(), Some(0 | 1 | 3)), "{}", status.stderr());
            assert!(!status.stderr().contains("error"), "{}", status.stderr());
        }
        self.assert_up_to_date();
    }

    fn import(&mut self) {
        let names: Vec<_> = (0..12).map(|_| self.name()).collect();
        self.environment.write("campaigns.csv", &format!("name\n{}\n", names.join("\n")));
        let import = ["import", "campaigns.csv", "--to", "main", "--yes", "-q"];
        self.run_and_kill_until_finished("import", "main", &import, 24).succeeds();
        self.assert_each_once("main", &names);
    }

    /// The service accepts the same code twice, so that only the journal prevents a second create.
    fn import_codes(&mut self) {
        let names: Vec<_> = (0..10).map(|_| self.name()).collect();
        let rows: String = names.iter().map(|name| format!("text,{name}\n")).collect();
        self.environment.write("qr_codes.csv", &format!("type,data\n{rows}"));
        let import = ["import", "qr_codes.csv", "--to", "main", "--yes", "-q"];
        self.run_and_kill_until_finished("import", "main", &import, 24).succeeds();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (_, code) in self.main.sandbox().store().qr_codes.iter() {
            if let Some(text) = code.content.data.as_ref().and_then(|data| data.as_str()) {
                *found.entry(text.to_owned()).or_default() += 1;
            }
        }
        for name in &names {
            assert_eq!(found.get(name), Some(&1), "{name}: codes with this text");
        }
    }

    fn apply(&mut self) {
        let _ = std::fs::remove_dir_all(self.environment.path("sheets"));
        self.run(&["export", "main@live", "--to", "sheets", "-q"]).succeeds();
        let text = self.environment.text("sheets/campaigns.csv");
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        let header = rows.headers().unwrap().clone();
        let at = header.iter().position(|column| column == "name").unwrap();
        let (mut names, mut edited) = (Vec::new(), csv::Writer::from_writer(Vec::new()));
        edited.write_record(&header).unwrap();
        for (nth, row) in rows.records().enumerate() {
            let mut row: Vec<String> = row.unwrap().iter().map(str::to_owned).collect();
            if nth < 12 {
                names.push(self.name());
                row[at].clone_from(names.last().unwrap());
            }
            edited.write_record(&row).unwrap();
        }
        let edited = String::from_utf8(edited.into_inner().unwrap()).unwrap();
        self.environment.write("sheets/campaigns.csv", &edited);
        let apply = [
            "apply",
            "sheets",
            "--to",
            "main",
            "--yes",
            "-q",
            // Without a snapshot it is not known which names with spaces at the ends were edited.
            "--accept-suspicious",
            "--max-update",
            "100%",
            "--only",
            "campaigns",
        ];
        self.run_and_kill_until_finished("apply", "main", &apply, 24).succeeds();
        self.assert_each_once("main", &names);
    }

    fn migrate(&mut self) {
        let names: Vec<_> = (0..6).map(|_| self.name()).collect();
        self.main.sandbox().mutate(|store| {
            for name in &names {
                store.add_campaign(name, None, true);
            }
        });
        let only = "campaigns,channels,pixels";
        let migrate =
            ["migrate", "main", "other", "--only", only, "--yes", "-q", "--max-update", "100%"];
        let ran = self.run_and_kill_until_finished("migrate", "other", &migrate, 60);
        assert!(matches!(ran.code(), Some(0 | 3)), "{}", ran.stderr());
        let before = self.other.writes().len();
        self.run(&migrate);
        assert_eq!(self.other.writes().len(), before, "a second move has nothing to do");
        self.assert_each_once("other", &names);
    }

    fn forget(&mut self) {
        for _ in 0..2 {
            self.edit();
            self.run(&["backup", "main", "-q"]).succeeds();
        }
        let forget = ["forget", "main", "--keep-last", "1", "--yes", "-q"];
        for _ in 0..self.rng.u8(1..4) {
            if let Some(ran) = self.run_and_kill("forget", &forget, 0) {
                ran.succeeds();
            }
        }
        self.run(&forget).succeeds();
        let left = self.run(&["snapshots", "main", "--json"]).succeeds().json();
        let left = left["snapshots"].as_array().unwrap().len();
        assert!((1..=2).contains(&left), "{left} snapshots are left");
        equals_the_service(&self.environment, &self.main);
    }

    /// The vault is either replaced by the copy or unchanged.
    fn vault_restore(&mut self) {
        self.assert_up_to_date();
        self.environment.sqlite("main").execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let vault = self.environment.path("vaults/main.db");
        std::fs::copy(vault, self.environment.path("copy.db")).unwrap();
        let snapshots = |world: &Self| {
            let listed = world.run(&["snapshots", "main", "--json"]).succeeds().json();
            listed["snapshots"].clone()
        };
        let copied = snapshots(self);
        self.edit();
        self.run(&["backup", "main", "-q"]).succeeds();
        let later = snapshots(self);
        let restore = ["vault", "restore", "copy.db", "--to", "main", "--yes", "-q"];
        for _ in 0..self.rng.u8(1..4) {
            if let Some(ran) = self.run_and_kill("vault restore", &restore, 0) {
                ran.succeeds();
            }
            let now = snapshots(self);
            assert!(now == copied || now == later, "{now}");
        }
        self.run(&restore).succeeds();
        assert_eq!(snapshots(self), copied);
        self.assert_up_to_date();
    }

    /// Asserts that each name is in the account once, and that no name is there twice.
    fn assert_each_once(&self, account: &str, names: &[String]) {
        let service = if account == "main" { &self.main } else { &self.other };
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (_, campaign) in service.sandbox().store().campaigns.iter() {
            *found.entry(campaign.name.clone()).or_default() += 1;
        }
        let twice: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let missing: Vec<_> = names.iter().filter(|name| !found.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn a_command_killed_at_any_moment_can_be_continued() {
    let seed = number("LINKVAULT_KILLS_SEED").unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let kills = number("LINKVAULT_KILLS").unwrap_or(KILLS);
    println!("LINKVAULT_KILLS_SEED={seed}");
    let mut done = BTreeMap::new();
    let mut nth = 0;
    let mut world = World::new(seed);
    let stages: [fn(&mut World); 8] = [
        World::backup,
        World::import,
        World::import_codes,
        World::apply,
        World::migrate,
        World::forget,
        World::daemon,
        World::vault_restore,
    ];
    while done.values().sum::<u64>() + world.killed() < kills {
        stages[nth % stages.len()](&mut world);
        nth += 1;
        // An account of some hundred records is tested as well as a new one.
        if nth % 48 == 0 {
            let next = World::new(seed + nth as u64);
            let old = std::mem::replace(&mut world, next);
            println!("{nth} stages: {:?}", old.kills);
            old.kills.into_iter().for_each(|(name, count)| *done.entry(name).or_default() += count);
        }
    }
    world.kills.into_iter().for_each(|(name, count)| *done.entry(name).or_default() += count);
    println!("{nth} stages; killed: {done:?}");
}
