//! The web UI of a fleet: Temporal's list of accounts, and vaults that other machines put into their
//! stores.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::temporal_server::TemporalServer;
use super::workers::Worker;
use crate::support::{KEY, LiveService, TestEnvironment, until};
use crate::ui::serving::Page;

/// A machine with a fleet, and the stores of its vaults.
struct Operator {
    temporal: TemporalServer,
    store: TempDir,
    service: LiveService,
    machine: TestEnvironment,
}

impl Operator {
    /// With schedules of these accounts.
    fn start(accounts: &[&str]) -> Option<Self> {
        let (store, service) =
            (tempfile::tempdir().unwrap(), LiveService::start("rate-limit=zero", ""));
        let machine = TestEnvironment::new().variable("LINKS_KEY", KEY);
        let operator = Self { temporal: TemporalServer::start()?, store, service, machine };
        operator.machine.write("config.toml", &operator.config(accounts));
        operator.machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
        operator.until_status(|shown| shown["total"] == accounts.len());
        Some(operator)
    }

    fn config(&self, accounts: &[&str]) -> String {
        let fleet = format!("[fleet]\ntemporal = \"{}\"\n", self.temporal.url());
        accounts.iter().fold(fleet, |text, name| text + &self.account(name))
    }

    fn account(&self, name: &str) -> String {
        let vault = format!("vault = \"file://{}\"\n", self.objects(name).display());
        self.local_account(name) + &vault
    }

    fn local_account(&self, name: &str) -> String {
        let url = self.service.url();
        format!(
            "[accounts.{name}]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n\
             schedule = \"0 0 1 1 *\"\ntimezone = \"UTC\"\n"
        )
    }

    /// The folder with the objects of an account.
    fn objects(&self, name: &str) -> PathBuf {
        self.store.path().join(name)
    }

    /// Another machine, with this configuration.
    fn other_machine(&self, config: &str) -> TestEnvironment {
        TestEnvironment::new().variable("LINKS_KEY", KEY).config(config)
    }

    fn until_status(&self, so: impl Fn(&serde_json::Value) -> bool) {
        until("Temporal lists it", || so(&self.machine.run(&["fleet", "status", "--json"]).json()));
    }
}

/// The files in the folder, with their bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    found.sort();
    found
}

/// The page is answered with this status, and has these words.
#[track_caller]
fn answers(page: &Page, path: &str, status: u16, words: &[&str]) {
    let answer = page.request("GET", path, "");
    assert_eq!(answer.status, status, "{path}\n{}", answer.body);
    for words in words {
        assert!(answer.body.contains(words), "{words} is not in {path}\n{}", answer.body);
    }
}

/// Waits until the page is answered with 200 and has these words.
#[track_caller]
fn until_shown(page: &Page, path: &str, words: &str) {
    until(words, || {
        let answer = page.request("GET", path, "");
        answer.status == 200 && answer.body.contains(words)
    });
}

const AS_OF: &str = "This page shows the vault as of ";

#[test]
fn pages_show_what_other_machines_put_into_the_store() {
    let Some(operator) = Operator::start(&["absent", "main", "plain"]) else { return };
    let worker = Worker::start(&operator.machine);
    operator.machine.run(&["fleet", "run", "main"]).succeeds();
    operator.until_status(|shown| shown["totals"]["good"] == 1);
    drop(worker);
    let config = operator.config(&["main"]) + &operator.local_account("plain");
    let viewer = operator.other_machine(&config);
    let page = Page::start(&viewer, &["--fleet"]);
    // The overview fetches nothing.
    let overview = page.get("/");
    for words in [">absent</a>", ">main</a>", ">plain</a>", "badge good", ", complete</span>"] {
        assert!(overview.contains(words), "{words}\n{overview}");
    }
    assert!(!viewer.path("vaults").exists());
    let before = files(&operator.objects("main"));
    answers(&page, "/accounts/main", 200, &["/accounts/main/snapshots/1", "badge good"]);
    answers(&page, "/accounts/main/records/channels/1", 200, &["Shop window"]);
    assert!(!page.get("/accounts/main/snapshots").contains(AS_OF));
    assert_eq!(files(&operator.objects("main")), before);
    // A backup of another machine is shown without a restart.
    operator.machine.write("channels.csv", "id,name\n1,Renamed\n");
    let import = ["import", "channels.csv", "--to", "main", "--yes", "-q"];
    operator.machine.run(&import).succeeds();
    operator.machine.run(&["backup", "main", "-q"]).succeeds();
    until_shown(&page, "/accounts/main/records/channels/1", "Renamed");
    // What this machine does not know is explained, and found when it is configured.
    let absent = ["absent is not in the configuration of this machine", "[accounts.absent]"];
    answers(&page, "/accounts/absent", 404, &absent);
    answers(&page, "/accounts/plain/runs", 404, &["The vault of plain is a local file", "vault ="]);
    answers(&page, "/accounts/other", 404, &["The fleet has no account other"]);
    answers(&page, "/accounts/sandbox", 404, &["The fleet has no account sandbox"]);
    answers(&page, "/accounts/%3Cscript%3E", 404, &["&#60;script&#62;"]);
    viewer.write("config.toml", &(config.clone() + &operator.account("absent")));
    answers(&page, "/accounts/absent", 200, &["There is no snapshot yet"]);
    // With mistakes in the file, the configuration of before counts.
    viewer.write("config.toml", "[fleet\n");
    answers(&page, "/accounts/absent", 200, &["There is no snapshot yet"]);
    viewer.write("config.toml", &config);
    let metrics = page.get("/metrics");
    assert!(metrics.contains("linkvault_fleet_accounts{state=\"new\"} 2.0"), "{metrics}");
    assert_eq!(page.get("/healthz"), "ok\n");
    page.interrupt();
}

#[test]
fn the_last_list_is_shown_while_temporal_does_not_answer() {
    let Some(mut operator) = Operator::start(&["main"]) else { return };
    operator.machine.run(&["backup", "main", "-q"]).succeeds();
    let viewer = operator.other_machine(&operator.config(&["main"]));
    let page = Page::start(&viewer, &["--fleet"]);
    assert!(!page.get("/").contains("This list is"));
    operator.temporal.stop();
    let told = format!("old. Temporal at {}: ", operator.temporal.url());
    until_shown(&page, "/", &told);
    answers(&page, "/", 200, &[">main</a>", "Start the server"]);
    answers(&page, "/accounts/main", 200, &["/accounts/main/snapshots/1"]);
    operator.temporal.restart();
    until("the list is new", || !page.get("/").contains("This list is"));
}

#[test]
fn a_damaged_store_is_explained_and_stays_as_it_is() {
    let Some(operator) = Operator::start(&["main"]) else { return };
    operator.machine.run(&["backup", "main", "-q"]).succeeds();
    let objects = operator.objects("main");
    let sound = files(&objects);
    let object = sound.iter().find(|(path, _)| path.extension().is_some_and(|it| it == "zst"));
    let (object, bytes) = object.unwrap();
    fs::write(object, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = files(&objects);
    let viewer = operator.other_machine(&operator.config(&["main"]));
    let page = Page::start(&viewer, &["--fleet"]);
    for path in ["/accounts/main", "/accounts/main/snapshots/1"] {
        let words = ["The vault of main cannot be shown", "Cannot fetch the vault of main at"];
        answers(&page, path, 503, &words);
    }
    assert!(!viewer.path("vaults/main.db").exists());
    assert_eq!(files(&objects), damaged);
    fs::write(object, bytes).unwrap();
    until_shown(&page, "/accounts/main", "/accounts/main/snapshots/1");
    // A copy that was fetched is shown while the store is away.
    let copy = fs::read(viewer.path("vaults/main.db")).unwrap();
    fs::rename(&objects, operator.objects("away")).unwrap();
    until_shown(&page, "/accounts/main/snapshots/1", AS_OF);
    answers(&page, "/accounts/main", 200, &[AS_OF, "Cannot fetch the vault of main at"]);
    assert_eq!(fs::read(viewer.path("vaults/main.db")).unwrap(), copy);
    fs::rename(operator.objects("away"), &objects).unwrap();
    until("it is fetched again", || !page.get("/accounts/main").contains(AS_OF));
}

#[test]
fn a_run_of_another_machine_is_unfinished_and_not_stopped() {
    let Some(operator) = Operator::start(&["main"]) else { return };
    let machine = &operator.machine;
    machine.run(&["backup", "main", "-q"]).succeeds();
    let rows: String = (0..20).map(|nth| format!("Campaign {nth}\n")).collect();
    machine.write("campaigns.csv", &format!("name\n{rows}"));
    operator.service.faults("latency=100ms");
    let import = machine.start(&["import", "campaigns.csv", "--to", "main", "--yes", "-q"]);
    until("some were created", || operator.service.writes().len() > 2);
    machine.signal("-STOP", &import);
    operator.service.faults("latency=0ms");
    operator.until_status(|shown| shown["accounts"][0]["paused"] == true);
    let viewer = operator.other_machine(&operator.config(&["main"]));
    let page = Page::start(&viewer, &["--fleet"]);
    answers(&page, "/", 200, &["badge warning\">Paused", "linkvault writes to the account"]);
    for path in ["/accounts/main", "/accounts/main/runs"] {
        answers(&page, path, 200, &[">unfinished<"]);
    }
    let words = ["Another machine may be executing it", "linkvault resume main 1"];
    answers(&page, "/accounts/main/runs/1", 200, &words);
    machine.signal("-CONT", &import);
    machine.wait(import).succeeds();
    until_shown(&page, "/accounts/main/runs/1", ">complete<");
}

#[test]
fn a_wrong_address_is_one_clear_error() {
    let machine = TestEnvironment::new().config("[fleet]\ntemporal = \"http://127.0.0.1:1\"\n");
    let output = machine.run(&["ui", "--fleet"]).exits_with(1);
    output.stderr_has("Temporal at http://127.0.0.1:1: ").stderr_has("start the server");
    machine.run(&["ui", "main", "--fleet"]).exits_with(64).stderr_has("--fleet");
}
