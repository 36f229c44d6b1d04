//! `migrate --verify-only` compares with the flags of the recorded migration.

use linkvault::sandbox::Store;
use linkvault::sandbox::store::QrCode;
use serde_json::{Value, json};

use crate::ops::migrate::{environment, migrate, services, with_files, writes};
use crate::support::{CommandOutput, LiveService, TestEnvironment};

/// An old account with campaigns and a QR code of unknown content, and an empty new one.
fn accounts() -> (TestEnvironment, LiveService, LiveService) {
    let mut store = Store::default();
    for name in ["Spring", "Summer", "Autumn"] {
        store.add_campaign(name, None, false);
    }
    store.qr_codes.add(QrCode::default());
    let old = LiveService::serving(store, "", "");
    let new = LiveService::serving(Store::default(), "", "");
    let environment = environment(&old, &new).file("codes.csv", "id,type,data\n1,text,Hello\n");
    (environment, old, new)
}

const FLAGS: [&str; 4] = ["--qr-data", "codes.csv", "--set", "campaigns.name:Summer=Winter"];

fn run(environment: &TestEnvironment, more: &[&str]) -> CommandOutput {
    environment.run(&[&["migrate", "old", "new"], more].concat())
}

fn gaps(environment: &TestEnvironment, more: &[&str]) -> Vec<(String, String)> {
    let document =
        run(environment, &[&["--verify-only", "--json"], more].concat()).exits_with(2).json();
    let gaps = document["not_compared"].as_array().unwrap().clone().into_iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    gaps.map(|it| (text(&it["resource"]), text(&it["reason"]))).collect()
}

#[test]
fn a_verification_uses_the_flags_of_the_recorded_migration() {
    let (environment, _old, new) = accounts();
    run(&environment, &[&FLAGS[..], &["--yes"]].concat()).succeeds();
    let sent = writes(&new);
    let ran = run(&environment, &["--verify-only"]).succeeds();
    ran.stderr_has("compared with the flags of run 1:")
        .stderr_has("--qr-data ")
        .stderr_has("  --set campaigns.name:Summer=Winter");
    let document = run(&environment, &["--verify-only", "--json"]).succeeds().json();
    assert_eq!((&document["flags_of_run"], &document["not_compared"]), (&json!(1), &json!([])));
    // A flag of the command line replaces the recorded one of the same name.
    let other = ["--verify-only", "--set", "campaigns.name:Summer=Other"];
    run(&environment, &other).exits_with(2).stdout_has("Other");
    assert_eq!(writes(&new), sent);
}

#[test]
fn what_the_recorded_flags_excluded_is_named_and_ends_with_2() {
    let (environment, _old, _new) = accounts();
    run(&environment, &["--only", "campaigns", "--where", "campaigns.name~^S", "--yes"]).succeeds();
    let found = gaps(&environment, &[]);
    assert_eq!(found.len(), 9, "{found:?}");
    let campaigns = found.iter().find(|(resource, _)| resource == "campaigns").unwrap();
    assert!(campaigns.1.starts_with("1 not compared"), "{campaigns:?}");
    let ran = run(&environment, &["--verify-only"]).exits_with(2);
    ran.stderr_has("--only campaigns").stderr_has("--where 'campaigns.name~^S'");
}

#[test]
fn an_input_file_that_is_gone_or_changed_is_named() {
    let (environment, _old, _new) = accounts();
    run(&environment, &[&FLAGS[..], &["--yes"]].concat()).succeeds();
    environment.write("codes.csv", "id,type,data\n1,text,Goodbye\n");
    let ran = run(&environment, &["--verify-only"]).exits_with(2);
    ran.stderr_has("codes.csv has changed since run 1").stdout_has("Goodbye");
    std::fs::remove_file(environment.path("codes.csv")).unwrap();
    run(&environment, &["--verify-only"]).exits_with(2).stderr_has("which run 1 read");
    assert_eq!(gaps(&environment, &[])[0].0, "qr_codes");
}

#[test]
fn the_flags_of_an_unfinished_run_are_recorded() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    let stopped = migrate(&environment, &["--yes", "--max-requests", "40"]);
    stopped.exits_with(8);
    environment.run(&["resume", "new"]).exits_with(3);
    let document = environment.run(&["migrate", "old", "new", "--verify-only", "--json"]);
    let document = document.exits_with(2).json();
    assert_eq!(document["resources"]["channel_items"]["failed"], 0, "{document:#}");
    assert_eq!(document["resources"]["qr_codes"]["failed"], 0);
    assert_eq!(document["flags_of_run"], 1);
}
