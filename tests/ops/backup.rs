//! The first backup of an account, and the second.

use linkvault::sandbox::Store;
use serde_json::Value;

use crate::support::{LiveService, TestEnvironment};

const RESOURCES: [&str; 9] = [
    "account",
    "domains",
    "campaigns",
    "channels",
    "channel_items",
    "qr_codes",
    "pixels",
    "overlays",
    "splash_pages",
];

#[test]
fn a_first_backup_prints_counts_file_and_next_commands() {
    let environment = TestEnvironment::new();
    let out = environment.run(&["backup", "sandbox"]).succeeds().fits().stdout();
    assert!(out.starts_with("Backed up sandbox: snapshot #1, complete\n\nRESOURCE "), "{out}");
    for resource in RESOURCES {
        assert!(out.contains(&format!("\n{resource} ")), "{resource} is not in\n{out}");
    }
    assert!(out.contains("\nSaved in HOME/vaults/sandbox.db ("), "{out}");
    assert!(out.contains("\nNext: linkvault show sandbox campaigns "), "{out}");
    environment.run(&["show", "sandbox", "campaigns"]).succeeds().fits();
}

#[test]
fn a_second_backup_reports_no_changes_and_suggests_diff() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox"]).succeeds();
    let second = environment.run(&["backup", "sandbox"]).succeeds().fits();
    second.stdout_has("snapshot #2, complete").stdout_has("\nNext: linkvault diff sandbox ");
    let diff = environment.run(&["diff", "sandbox"]).succeeds().fits();
    diff.stdout_has("sandbox@#1 to sandbox@#2: 0 added, 0 changed, 0 removed");
}

#[test]
fn the_document_of_a_backup_has_the_documented_keys() {
    let environment = TestEnvironment::new();
    let first = environment.run(&["backup", "sandbox", "--json"]).succeeds().json();
    assert_eq!(first["account"], "sandbox");
    assert_eq!(first["snapshot"], 1);
    assert_eq!(first["status"], "complete");
    assert!(first["requests"].is_u64() && first["throttled"] == 0, "{first}");
    assert!(first["waited_seconds"].is_f64(), "{first}");
    let resources = first["resources"].as_object().unwrap();
    assert_eq!(resources.keys().collect::<Vec<_>>(), RESOURCES);
    for (name, resource) in resources {
        assert_eq!(resource["state"], "complete", "{name}");
        assert!(resource["records"].as_u64().unwrap() > 0, "{name}");
        assert_eq!(resource["added"], resource["records"], "{name}");
        assert_eq!((&resource["changed"], &resource["removed"]), (&0.into(), &0.into()), "{name}");
    }
}

#[test]
fn the_vault_can_be_queried_with_sqlite3() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds().stdout_is("");
    let db = environment.sqlite("sandbox");
    let mut query = db.prepare("select name, rotator from campaigns").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(String, Option<String>)> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[0].0, "Spring Reading List");
    assert_eq!(rows[0].1.as_deref(), Some("https://links.example.com/r/spring-list"));
}

#[test]
fn a_backup_over_a_socket_needs_few_requests() {
    let service = LiveService::start("rate-limit=60", "");
    let environment = TestEnvironment::new().account(&service.url());
    let document = environment.run(&["backup", "--json"]).succeeds().json();
    assert_eq!(document["account"], "main");
    assert_eq!(document["requests"], service.request_count());
    assert!(service.request_count() <= 30, "{:?}", service.requests());
    assert_eq!(service.throttled(), 0);
    service.new_requests();
    let again = environment.run(&["backup", "main", "--stats", "none", "--json"]).succeeds();
    // The account, seven lists, and the items of five channels.
    assert_eq!(again.json()["requests"], 13);
}

#[test]
fn several_accounts_are_backed_up_in_one_run() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let both = environment.run(&["backup", "main", "sandbox", "--json"]).succeeds().json();
    let names: Vec<_> =
        both["accounts"].as_array().unwrap().iter().map(|it| &it["account"]).collect();
    assert_eq!(names, ["main", "sandbox"]);
}

#[test]
fn a_failing_account_does_not_stop_the_backup_of_the_next() {
    let service = LiveService::start("authorization=dropped", "");
    let environment = TestEnvironment::new().account(&service.url());
    let ran = environment.run(&["backup", "main", "sandbox", "--json"]).exits_with(7);
    let accounts = ran.json()["accounts"].clone();
    assert_eq!(accounts[0]["error"]["kind"], "unauthorised");
    assert_eq!(accounts[1]["status"], "complete");
    ran.stderr_has("error: main: GET /api/account: the key was not accepted")
        .stderr_has("\nhint: Check that the key is right")
        .stderr_has("\nwarning: 1 of 2 accounts not backed up: main\n");
}

#[test]
fn a_dry_run_prices_the_statistics_that_are_asked_for() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    for stats in [["--stats", "all"], ["--stats", "none"]] {
        let planned = [&["backup", "-n", "--json"][..], &stats].concat();
        let planned = environment.run(&planned).succeeds().json();
        service.new_requests();
        environment.run(&[&["backup", "-q"][..], &stats].concat()).succeeds();
        let sent = service.new_requests().len();
        assert_eq!(planned["accounts"][0]["requests"], sent, "{stats:?}: {planned}");
    }
    let all = ["backup", "-n", "--stats", "all", "--stats-budget", "5"];
    let shown = environment.run(&all).succeeds();
    shown.stdout_has(", 5 of them for statistics of QR codes\n");
}

#[test]
fn a_dry_run_sends_no_request_and_writes_nothing() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let ran = environment.run(&["backup", "main", "--dry-run"]).succeeds();
    ran.stdout_has("main: would read account, domains");
    assert_eq!(service.request_count(), 0);
    assert_eq!(environment.files().len(), 1, "the configuration alone");
}

#[test]
fn quiet_prints_nothing_and_progress_can_be_json() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "--quiet"]).succeeds().stdout_is("").stderr_is("");
    let ran = environment.run(&["backup", "sandbox", "--progress", "json", "--json"]).succeeds();
    let events = ran.stderr();
    let events = events.lines().filter(|line| line.starts_with('{'));
    let events: Vec<Value> = events.map(|line| serde_json::from_str(line).unwrap()).collect();
    let finished = events.iter().filter(|event| event["event"] == "finished");
    assert_eq!(finished.count(), RESOURCES.len());
    ran.json();
}

#[test]
fn only_and_skip_choose_what_is_read() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let only = environment.run(&["backup", "--only", "campaigns,pixels", "--json"]).succeeds();
    let resources = only.json()["resources"].as_object().unwrap().clone();
    assert_eq!(resources.keys().collect::<Vec<_>>(), ["campaigns", "pixels"]);
    assert_eq!(service.request_count(), 3);
    environment.run(&["backup", "--skip", "qr_codes,campaigns"]).succeeds();
    assert!(!service.requests()[3..].iter().any(|path| path.starts_with("/api/qr")));
    // Records that were not read stay as in the snapshot before.
    environment.run(&["show", "main", "campaigns"]).succeeds().stdout_has("Spring Reading List");
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds().stderr_is(
        "warning: main@#2 did not read campaigns, qr_codes (skipped); \
         shown as last known before it\n",
    );
}

/// The newest snapshots stay those that differ, and `status` knows of the attempt.
#[test]
fn an_unchanged_snapshot_is_not_kept_if_asked_for() {
    // Scans of the sample account would change with time.
    let service = LiveService::serving(Store::default(), "", "");
    service.sandbox().mutate(|store| {
        store.add_campaign("Spring", None, true);
        store.add_campaign("Autumn", None, true);
    });
    let environment = TestEnvironment::new().account(&service.url());
    let backup = || {
        let ran = environment.run(&["backup", "main", "--skip-if-unchanged", "--json"]);
        let document = ran.succeeds().json();
        (document["snapshot"].clone(), document["unchanged"].clone())
    };
    let snapshots = || {
        let document = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
        document["snapshots"].as_array().unwrap().len()
    };
    assert_eq!(backup(), (1.into(), false.into()));
    assert_eq!((backup(), snapshots()), ((1.into(), true.into()), 1));
    environment
        .run(&["backup", "main", "--skip-if-unchanged"])
        .succeeds()
        .stdout_has("Read main: it is equal to snapshot #1, so no new snapshot was kept");
    let status = environment.run(&["status", "--json"]).succeeds().json();
    assert_eq!(status["accounts"][0]["last"]["outcome"], "complete");
    environment.run(&["check", "main"]).succeeds();

    // A new value and a removed record are changes.
    service.sandbox().mutate(|store| store.campaigns.get_mut(1).unwrap().public = false);
    let (changed, unchanged) = backup();
    assert_eq!((unchanged, snapshots()), (false.into(), 2));
    assert_eq!((backup(), snapshots()), ((changed, true.into()), 2));
    service.sandbox().mutate(|store| drop(store.campaigns.remove(2)));
    assert_eq!((backup().1, snapshots()), (false.into(), 3));

    // A tag asks for a snapshot, and a partial one says nothing about the rest.
    environment.run(&["backup", "main", "--skip-if-unchanged", "--tag", "x"]).exits_with(64);
    environment.run(&["backup", "main", "--only", "campaigns"]).succeeds();
    assert_eq!((backup().1, snapshots()), (false.into(), 5));
}
