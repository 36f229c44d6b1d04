//! `status` without a daemon, and the warnings of `backup`.

use std::time::Duration;

use linkvault::clock::{Interrupt, SystemClock};
use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::vault::lock::Lock;
use serde_json::{Value, json};

use crate::support::{KEY, LiveService, TestEnvironment, until};
use crate::ui::serving::Page;

/// The account `main` in the output of `status`, which must exit with `code`.
#[track_caller]
fn status(environment: &TestEnvironment, code: i32) -> Value {
    environment.run(&["status", "--json"]).exits_with(code).json()["accounts"][0].clone()
}

fn kinds(status: &Value) -> Vec<&str> {
    let problems = status["problems"].as_array().unwrap();
    problems.iter().map(|it| it["kind"].as_str().unwrap()).collect()
}

/// An account whose key is in the file `key`.
fn with_key_file(service: &LiveService) -> TestEnvironment {
    let url = service.url();
    TestEnvironment::new()
        .config(&format!("[accounts.main]\nurl = \"{url}\"\nkey_file = \"key\"\n"))
        .file("key", KEY)
        .mode("key", 0o600)
}

/// Moves a time in the state file an hour back. Returns the new content.
fn move_an_hour_back(environment: &TestEnvironment, time: fn(&mut Value) -> &mut Value) -> Value {
    let file = "vaults/main.db.daemon";
    let mut notes: Value = serde_json::from_str(&environment.text(file)).unwrap();
    let time = time(&mut notes);
    *time = json!(time.as_i64().unwrap() - 3_600_000);
    environment.write(file, &notes.to_string());
    notes
}

#[test]
fn a_key_refused_in_backup_is_a_problem_without_a_daemon() {
    let service = LiveService::start("", "");
    let environment = with_key_file(&service);
    environment.run(&["backup", "-q"]).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
    environment.write("key", "an-old-key");
    environment.run(&["backup", "-q"]).exits_with(7);
    let refused = status(&environment, 1);
    assert_eq!((&refused["health"], kinds(&refused)), (&json!("failing"), vec!["key_refused"]));
    assert_eq!(refused["last"]["outcome"], "failed");
    assert_eq!(refused["last"]["by"], "backup");
    assert_eq!(refused["totals"]["backups"], 2);
    move_an_hour_back(&environment, |notes| &mut notes["failing_since"]);
    let since = status(&environment, 1)["problems"][0]["since"].clone();
    environment.run(&["backup", "-q"]).exits_with(7);
    assert_eq!(status(&environment, 1)["problems"][0]["since"], since, "the first of them");
    // An interrupted backup proves nothing.
    environment.run(&["backup", "-q", "--max-requests", "0"]);
    assert_eq!(kinds(&status(&environment, 1)), ["key_refused"]);
    environment.write("key", KEY);
    environment.run(&["backup", "-q"]).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
}

#[test]
fn backups_that_all_failed_are_a_problem() {
    let service = LiveService::start("", "html@/api/account");
    let environment = TestEnvironment::new().account(&service.url());
    assert_eq!(status(&environment, 3)["health"], "new");
    environment.run(&["backup", "-q"]).exits_with(1);
    let failed = status(&environment, 1);
    assert_eq!(kinds(&failed), ["failed"]);
    let shown = environment.run(&["status"]).exits_with(1);
    shown.stdout_has("main: the backup failed: ").stdout_has("`linkvault backup main` again");
    service.faults("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["status"]).succeeds();
    service.faults("html@/api/account");
    environment.run(&["backup", "-q"]).exits_with(1);
    assert_eq!(kinds(&status(&environment, 1)), ["failed"]);
}

#[test]
fn a_key_that_cannot_be_read_is_a_problem() {
    let service = LiveService::start("", "");
    let environment = with_key_file(&service);
    environment.run(&["backup", "-q"]).succeeds();
    std::fs::remove_file(environment.path("key")).unwrap();
    environment.run(&["backup", "-q"]).exits_with(1);
    assert_eq!(kinds(&status(&environment, 1)), ["failed"]);
}

#[test]
fn a_backup_that_failed_before_it_made_a_vault_is_a_problem() {
    let service = LiveService::start("", "");
    let environment = with_key_file(&service);
    std::fs::remove_file(environment.path("key")).unwrap();
    environment.run(&["backup", "-q"]).exits_with(1);
    assert!(!environment.path("vaults/main.db").exists());
    assert_eq!(kinds(&status(&environment, 1)), ["failed"]);
}

/// `max_age` applies to an account without a schedule.
#[test]
fn max_age_counts_without_a_schedule() {
    let service = LiveService::start("", "");
    let more = "[accounts.main.alerts]\nmax_age = \"1s\"\n";
    let environment = TestEnvironment::new().account_with(&service.url(), more);
    environment.run(&["backup", "-q"]).succeeds();
    until("it is too old", || environment.run(&["status"]).code() == Some(1));
    assert_eq!(kinds(&status(&environment, 1)), ["old"]);
    environment.edit("config.toml", "\"1s\"", "\"1h\"");
    assert_eq!(status(&environment, 0)["health"], "good");
}

/// `max_age` also applies to an account without a complete backup.
#[test]
fn max_age_counts_from_the_first_attempt_if_none_was_complete() {
    let service = LiveService::start("", "html@/api/pixels");
    let more = "[accounts.main.alerts]\nmax_age = \"1s\"\n";
    let environment = TestEnvironment::new().account_with(&service.url(), more);
    environment.run(&["backup", "-q"]).exits_with(3);
    until("it is too old", || environment.run(&["status"]).code() == Some(1));
    assert_eq!(kinds(&status(&environment, 1)), ["old", "partial"]);
}

#[test]
fn a_write_whose_outcome_is_unknown_is_a_problem() {
    let service = LiveService::serving(Store::default(), "", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    environment.write("qr_codes.csv", "id,data\n1,bye\n");
    service.faults("lost-reply@PUT /api/qr");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).exits_with(6);
    let told = status(&environment, 3);
    assert_eq!((kinds(&told), &told["unknown_writes"]), (vec!["unknown"], &json!(1)));
    assert_eq!(told["health"], "warning");
}

/// A backup that waits for another process is recorded, and counts as a failure only after an hour.
#[test]
fn a_backup_that_could_not_start_is_recorded() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    let clock = SystemClock::new(Interrupt::default());
    let vault = environment.path("vaults/main.db");
    let lock = Lock::take(&vault, "linkvault apply main", Duration::ZERO, &clock).unwrap();
    environment.run(&["backup", "-q"]).exits_with(11);
    assert_eq!(status(&environment, 0)["health"], "good");
    let notes = move_an_hour_back(&environment, |notes| &mut notes["put_off"]["since"]);
    let message = notes["put_off"]["message"].as_str().unwrap();
    assert!(message.contains("`linkvault apply main`"), "{message}");
    assert_eq!(kinds(&status(&environment, 3)), ["locked"]);
    drop(lock);
    environment.run(&["backup", "-q"]).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
}

/// An account with 16 campaigns among many other records.
fn sixteen_campaigns() -> (LiveService, TestEnvironment) {
    let counts = GeneratedCounts {
        campaigns: 16,
        qr_codes: 100,
        channel_items: 20,
        ..GeneratedCounts::each(5)
    };
    let service = LiveService::serving(generate(3, counts), "", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q", "--stats", "none"]).succeeds();
    (service, environment)
}

fn remove_campaigns(service: &LiveService, most: usize) {
    service.sandbox().mutate(|store| {
        let ids: Vec<_> = store.campaigns.iter().map(|(id, _)| id).take(most).collect();
        ids.into_iter().for_each(|id| drop(store.campaigns.remove(id)));
    });
}

#[test]
fn a_list_that_becomes_empty_is_a_problem_even_if_it_was_short() {
    let (service, environment) = sixteen_campaigns();
    remove_campaigns(&service, 10);
    let backup = ["backup", "--stats", "none", "--json"];
    let ran = environment.run(&backup).succeeds();
    let alerts = ran.json()["alerts"].clone();
    assert_eq!(alerts[0]["kind"], "removed", "{alerts}");
    ran.stderr_has("warning: 10 of 16 campaigns were removed from the account\n")
        .stderr_has("hint: run `linkvault diff main@#1` to list them");
    assert_eq!(kinds(&status(&environment, 3)), ["removed"]);
    // The rest is fewer than ten records, but the whole list.
    remove_campaigns(&service, 6);
    let ran = environment.run(&backup).succeeds();
    let alerts = ran.json()["alerts"].clone();
    assert_eq!((&alerts[0]["kind"], &alerts[1]["kind"]), (&json!("emptied"), &json!("removed")));
    ran.stderr_has("warning: the list of campaigns is empty; snapshot #1 has 16 records\n")
        .stderr_has("run `linkvault restore main@#1 --to main` to plan their restoration");
    let told = status(&environment, 3);
    assert_eq!((kinds(&told), &told["health"]), (vec!["emptied", "removed"], &json!("warning")));
    // A backup of other lists says nothing about this one.
    environment.run(&["backup", "-q", "--only", "pixels"]).succeeds();
    assert_eq!(kinds(&status(&environment, 3)), ["emptied", "removed"]);
    // The list is not empty, but its former records are still missing.
    service.sandbox().mutate(|store| store.add_campaign("New", None, true));
    environment.run(&["backup", "-q", "--stats", "none"]).succeeds();
    assert_eq!(kinds(&status(&environment, 3)), ["removed"]);
}

/// The backup after the removal finds nothing removed. The alarm still holds, and retention keeps the
/// snapshot that its hint names.
#[test]
fn a_mass_deletion_is_a_problem_until_it_is_acknowledged() {
    let (service, environment) = sixteen_campaigns();
    remove_campaigns(&service, 10);
    let backup = ["backup", "-q", "--stats", "none"];
    let forget = ["forget", "main", "--keep-last", "1", "--yes"];
    for _ in 0..3 {
        environment.run(&backup).succeeds();
        environment.run(&forget).succeeds();
    }
    let told = status(&environment, 3);
    assert_eq!(kinds(&told), ["removed"]);
    let hint = told["problems"][0]["hint"].as_str().unwrap();
    assert!(hint.contains("`linkvault diff main@#1`"), "{hint}");
    assert!(hint.contains("`linkvault restore main@#1 --to main`"), "{hint}");
    assert!(hint.contains("`linkvault status main --ack`"), "{hint}");
    let ran = environment.run(&["diff", "main@#1", "--json"]).succeeds();
    assert_eq!(ran.json()["changes"].as_array().unwrap().len(), 10);
    let why = environment.run(&["forget", "main", "--keep-last", "1", "-n"]).succeeds();
    why.stdout_has("many records were removed after it");
    environment
        .run(&["status", "main", "--ack"])
        .succeeds()
        .stderr_has("acknowledged: 10 of 16 campaigns were removed from the account");
    assert_eq!(status(&environment, 0)["health"], "good");
    environment.run(&backup).succeeds();
    environment.run(&forget).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
    environment.run(&["show", "main@#1"]).exits_with(1);
    // The next mass deletion is a problem again.
    remove_campaigns(&service, 6);
    service.sandbox().mutate(|store| {
        let ids: Vec<_> = store.qr_codes.iter().map(|(id, _)| id).take(60).collect();
        ids.into_iter().for_each(|id| drop(store.qr_codes.remove(id)));
    });
    environment.run(&backup).succeeds();
    assert_eq!(kinds(&status(&environment, 3)), ["emptied", "removed"]);
}

#[test]
fn a_mass_deletion_ends_when_the_records_are_back() {
    let (service, environment) = sixteen_campaigns();
    remove_campaigns(&service, 10);
    let backup = ["backup", "-q", "--stats", "none"];
    environment.run(&backup).succeeds();
    // As many new records are not the old ones.
    service.sandbox().mutate(|store| {
        for nth in 0..10 {
            store.add_campaign(&format!("New {nth}"), None, true);
        }
    });
    environment.run(&backup).succeeds();
    assert_eq!(kinds(&status(&environment, 3)), ["removed"]);
    environment.run(&["restore", "main@#1", "--to", "main", "--yes"]).succeeds();
    environment.run(&backup).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
}

/// A run reads the lists that it changes, and is the first to see the removal. The next backup finds
/// the same records as the run did.
#[test]
fn a_mass_deletion_that_a_run_met_first_is_a_problem() {
    let (service, environment) = sixteen_campaigns();
    remove_campaigns(&service, 10);
    environment.write("campaigns.csv", "name\nAnother\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["backup", "-q", "--stats", "none"]).succeeds();
    assert_eq!(kinds(&status(&environment, 3)), ["removed"]);
}

#[test]
fn records_that_a_run_deleted_are_no_problem() {
    let (_service, environment) = sixteen_campaigns();
    environment.write("campaigns.csv", "name\nAnother\n");
    let delete = ["import", "campaigns.csv", "--to", "main", "--delete", "--max-delete", "100%"];
    environment.run(&[&delete[..], &["--yes"]].concat()).succeeds();
    environment.run(&["backup", "-q", "--stats", "none"]).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
}

/// The newest backup of the whole account counts, even if one of a part came later.
#[test]
fn a_partial_backup_is_a_problem_until_a_complete_one() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    service.faults("html@/api/campaigns");
    environment.run(&["backup", "-q"]).exits_with(3);
    service.faults("");
    environment.run(&["backup", "-q", "--only", "pixels"]).succeeds();
    assert_eq!(kinds(&status(&environment, 3)), ["partial"]);
}

/// `status`, the page, the metrics, the daemon and its alerts use the same evaluation.
#[test]
fn status_web_ui_metrics_and_alerts_agree() {
    let service = LiveService::start("", "");
    let url = service.url();
    let environment = TestEnvironment::new()
        .config(&format!(
            "[accounts.main]\nurl = \"{url}\"\nkey_file = \"key\"\nschedule = \"0 3 1 1 *\"\n\
             [accounts.main.alerts]\ncommand = [\"sh\", \"-c\", \"cat >> told; echo >> told\"]\n"
        ))
        .file("key", KEY)
        .mode("key", 0o600);
    environment.run(&["daemon", "--once"]).succeeds();
    environment.write("key", "an-old-key");
    environment.run(&["backup", "-q"]).exits_with(7);
    let told = status(&environment, 1);
    let problem = &told["problems"][0];
    let page = Page::start(&environment, &[]);
    let metrics = page.get("/metrics");
    let line = "linkvault_problem{account=\"main\",kind=\"key_refused\"} 1.0\n";
    assert!(metrics.contains(line), "{metrics}");
    let message = problem["message"].as_str().unwrap();
    let shown = page.get("/accounts/main");
    assert!(shown.contains(message.split('`').next().unwrap()), "{message}\n{shown}");
    page.interrupt();
    // No backup is scheduled, but the daemon reads the record of the last one.
    let daemon = environment.run(&["daemon", "--once", "--json"]).succeeds().json();
    for key in ["health", "words", "problems", "last", "last_complete", "totals", "records"] {
        assert_eq!(daemon["accounts"][0][key], told[key], "{key}");
    }
    let alert: Value = serde_json::from_str(&environment.text("told")).unwrap();
    assert_eq!((&alert["problem"], &alert["event"]), (&json!("key_refused"), &json!("begun")));
    assert_eq!((&alert["message"], &alert["since"]), (&problem["message"], &problem["since"]));
    environment.write("key", KEY);
    environment.run(&["backup", "-q"]).succeeds();
    assert_eq!(status(&environment, 0)["health"], "good");
    environment.run(&["daemon", "--once"]).succeeds();
    let told = environment.text("told");
    let ended: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!((&ended["problem"], &ended["event"]), (&json!("key_refused"), &json!("ended")));
    let told = environment.run(&["daemon", "--once", "--json"]).succeeds().json();
    assert_eq!(told["accounts"][0]["health"], "good");
}

/// The daemon cannot read it either.
#[test]
fn daemon_and_status_report_an_unreadable_vault_alike() {
    let service = LiveService::start("", "");
    let environment =
        TestEnvironment::new().account_with(&service.url(), "schedule = \"0 3 1 1 *\"\n");
    environment.run(&["daemon", "--once"]).succeeds();
    std::fs::remove_file(environment.path("vaults/main.db-wal")).ok();
    environment.write("vaults/main.db", "no vault");
    let told = status(&environment, 1);
    assert_eq!(kinds(&told), ["failed"]);
    let daemon = environment.run(&["daemon", "--once", "--json"]).json();
    assert_eq!(daemon["accounts"][0]["health"], "failing", "{daemon}");
}
