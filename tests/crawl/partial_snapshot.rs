//! Unread resources make a snapshot partial, and never empty.

use crate::support::{LiveService, TestEnvironment};

/// A whole backup, and then one with these faults or behaviours.
fn backup_with(behaviour: &str, faults: &str) -> (TestEnvironment, LiveService, serde_json::Value) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    service.sandbox().behaviour_mut().apply(behaviour).unwrap();
    service.faults(faults);
    let document = environment.run(&["backup", "--json"]).exits_with(3).json();
    assert_eq!(document["status"], "partial");
    (environment, service, document)
}

#[test]
fn a_resource_that_is_no_longer_offered_keeps_its_records() {
    for status in ["404", "403"] {
        let behaviour = format!("not-offered=pixels+splash,not-offered-status={status}");
        let (environment, _service, document) = backup_with(&behaviour, "");
        let pixels = &document["resources"]["pixels"];
        assert_eq!((&pixels["state"], &pixels["records"]), (&"not_offered".into(), &4.into()));
        assert_eq!(pixels["removed"], 0);
        assert_eq!(document["resources"]["campaigns"]["state"], "complete");
        environment.run(&["diff", "main", "--detailed-exitcode"]).succeeds();
        environment.run(&["show", "main", "pixels", "1"]).succeeds();
    }
}

#[test]
fn a_service_without_a_resource_is_backed_up_completely() {
    let service = LiveService::start("not-offered=overlay+splash", "");
    let environment = TestEnvironment::new().account(&service.url());
    let document = environment.run(&["backup", "--json"]).succeeds().json();
    assert_eq!(document["resources"]["overlays"]["state"], "not_offered");
    assert_eq!(document["status"], "complete");
    let shown = environment.run(&["show", "main"]).succeeds().stdout();
    assert!(shown.contains("\noverlays             0  not_offered\n"), "{shown}");
}

#[test]
fn a_list_that_cannot_be_read_is_failed_and_keeps_its_records() {
    let (environment, _service, document) = backup_with("", "html@/api/campaigns");
    let campaigns = &document["resources"]["campaigns"];
    assert_eq!((&campaigns["state"], &campaigns["records"]), (&"failed".into(), &8.into()));
    assert_eq!(document["resources"]["pixels"]["state"], "complete");
    let shown = environment.run(&["show", "main"]).succeeds().fits();
    shown.stdout_has("main@#2, partial").stdout_has("failed: GET /api/campaigns");
    let table = environment.run(&["snapshots", "main"]).succeeds().stdout();
    assert!(table.contains("partial"), "{table}");
}

#[test]
fn the_summary_of_a_partial_backup_says_what_is_missing_and_why() {
    let service = LiveService::start("", "html@/api/pixels");
    let environment = TestEnvironment::new().account(&service.url());
    let ran = environment.run(&["backup", "main"]).exits_with(3);
    ran.stdout_has("snapshot #1, partial")
        .stderr_has("warning: pixels: failed: GET /api/pixels")
        .stdout_has("\nNext: linkvault backup main   again, to read what is missing\n");
}

#[test]
fn unreadable_channels_keep_their_items() {
    let (environment, _service, document) = backup_with("", "html@/api/channels");
    let items = &document["resources"]["channel_items"];
    assert_eq!((&items["records"], &items["removed"]), (&14.into(), &0.into()), "{items}");
    environment.run(&["diff", "main", "--detailed-exitcode"]).succeeds();
}

#[test]
fn the_next_complete_backup_has_no_gaps() {
    let (environment, service, _document) = backup_with("", "html@/api/qr");
    service.faults("");
    let document = environment.run(&["backup", "--json"]).succeeds().json();
    assert_eq!(document["resources"]["qr_codes"]["added"], 0);
    environment.run(&["check", "main"]).succeeds();
}

#[test]
fn a_single_failure_of_the_service_is_retried() {
    let service = LiveService::start("", "server-error@/api/pixels#1");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "main"]).succeeds().stderr_has("trying again in ");
}

#[test]
fn an_incomplete_live_state_is_reported() {
    let (environment, _service, _document) = backup_with("", "html@/api/pixels");
    let ran = environment.run(&["diff", "main@latest", "main@live"]).exits_with(3);
    ran.stderr_has("warning: not compared: pixels: failed: ").stdout_has("0 removed");
}
