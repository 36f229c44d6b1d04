//! A resource that the subscription lacks: reported until it is excluded.

use serde_json::json;

use crate::support::{LiveService, TestEnvironment};

const SKIP: &str = "skip = [\"overlays\"]\n";

#[test]
fn a_resource_missing_from_the_subscription_is_reported_until_skipped() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    for (name, value) in [("not-offered", "overlay"), ("error-status", "200")] {
        service.sandbox().behaviour_mut().set(name, value).unwrap();
    }
    let lost = environment.run(&["backup"]).exits_with(3);
    lost.stdout_has("snapshot #2, partial").stderr_has("skip = [\"overlays\"]");
    let environment = environment.account_with(&service.url(), SKIP);
    service.new_requests();
    let document = environment.run(&["backup", "--json"]).succeeds().json();
    assert_eq!(document["status"], "complete");
    assert_eq!(document["excluded"], json!(["overlays"]));
    assert_eq!(document["skipped"], json!([]));
    assert!(document["resources"].get("overlays").is_none(), "{document}");
    let asked = service.new_requests();
    assert!(!asked.iter().any(|path| path.contains("overlay")), "{asked:?}");
    let told = environment.run(&["backup"]).succeeds().fits();
    told.stdout_has("complete; skipped by the configuration: overlays");
    // The records stay, and are no difference.
    let shown = environment.run(&["show", "main", "overlays", "--json"]).succeeds().json();
    assert!(!shown["records"].as_array().unwrap().is_empty());
    let diff = environment.run(&["diff", "main@#1", "main", "--json"]).succeeds().json();
    assert_eq!(diff["changes"], json!([]));
    environment.run(&["check", "main"]).succeeds();
}

#[test]
fn only_overrides_the_configured_skip_and_skip_adds_to_it() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account_with(&service.url(), SKIP);
    let document = environment.run(&["backup", "--only", "overlays", "--json"]).succeeds().json();
    assert_eq!(document["resources"]["overlays"]["state"], "complete");
    assert_eq!(document["excluded"], json!([]));
    let document = environment.run(&["backup", "--skip", "pixels", "--json"]).succeeds().json();
    assert_eq!(document["excluded"], json!(["overlays"]));
    assert_eq!(document["skipped"], json!(["pixels"]));
    assert_eq!(document["status"], "partial");
    let planned = environment.run(&["backup", "-n", "--json"]).succeeds().json();
    let read = planned["accounts"][0]["resources"].as_array().unwrap();
    assert!(!read.contains(&json!("overlays")) && read.contains(&json!("pixels")), "{read:?}");
}

#[test]
fn an_unknown_resource_name_is_refused_with_the_valid_ones() {
    let environment =
        TestEnvironment::new().account_with("https://links.example.com", "skip = [\"overlay\"]\n");
    let ran = environment.run(&["backup", "-n"]).exits_with(1);
    ran.stderr_has("`overlay` is not a resource; resources are account, domains, campaigns");
}
