//! Malformed responses.

use crate::support::{Host, KEY, LiveService, TestEnvironment};

/// What looks whole and is not. What looks cut is asked for again instead.
const GARBAGE: [&str; 5] = ["not-utf8", "deep", "wrong-types", "huge-numbers", "null"];

#[test]
fn malformed_responses_affect_only_their_list() {
    for kind in GARBAGE {
        let service = LiveService::start("", "");
        let environment = TestEnvironment::new().account(&service.url());
        environment.run(&["backup", "-q"]).succeeds();
        service.faults(&format!("garbage:{kind}@/api/campaigns"));
        let ran = environment.run(&["backup", "--json", "--stats", "none"]).exits_with(3);
        let document = ran.json();
        let campaigns = &document["resources"]["campaigns"];
        assert_ne!(campaigns["state"], "complete", "{kind}");
        assert_eq!(campaigns["removed"], 0, "{kind}: {campaigns}");
        assert_eq!(campaigns["records"], 8, "{kind}: {campaigns}");
        for other in ["domains", "qr_codes", "channel_items", "splash_pages"] {
            assert_eq!(document["resources"][other]["state"], "complete", "{kind}: {other}");
        }
        assert!(!ran.stderr().contains("panicked"), "{}", ran.stderr());
        environment.run(&["check", "main"]).succeeds();
    }
}

#[test]
fn a_malformed_account_stops_the_backup_before_it_writes() {
    for kind in GARBAGE {
        let service = LiveService::start("", &format!("garbage:{kind}@/api/account"));
        let environment = TestEnvironment::new().account(&service.url());
        let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
        ran.stderr_has("/api/account").stderr_has("hint: ");
    }
}

#[test]
fn malformed_statistics_affect_only_the_statistics() {
    let service = LiveService::start("", "garbage:wrong-types@/api/qr/");
    let environment = TestEnvironment::new().account(&service.url());
    let ran = environment.run(&["backup", "--json"]);
    let document = ran.json();
    assert_eq!(document["resources"]["qr_codes"]["records"], 12);
    assert_eq!(document["resources"]["qr_codes"]["state"], "complete");
    assert!(document["statistics"]["failed"].as_u64().unwrap() > 0, "{document}");
}

#[test]
fn a_cut_response_is_retried() {
    for fault in ["cut-body:20", "garbage:truncated", "garbage:empty"] {
        let service = LiveService::start("", &format!("{fault}@/api/campaigns#1"));
        let environment = TestEnvironment::new().account(&service.url());
        let document = environment.run(&["backup", "--json"]).succeeds().json();
        assert_eq!(document["resources"]["campaigns"]["records"], 8, "{fault}");
    }
}

/// A host that answers each list with `campaigns` of a campaign list.
fn campaigns(records: &str) -> Host {
    Host::page(
        "200 OK",
        "application/json",
        &format!(
            "{{\"error\":0,\"data\":{{\"id\":1,\"email\":\"a@b.c\",\"perpage\":1000,\
             \"currentpage\":1,\"nextpage\":null,\"maxpage\":1,\"campaigns\":[{records}]}}}}"
        ),
    )
}

#[test]
fn one_invalid_record_is_reported_and_the_others_are_stored() {
    for (faulty, named) in [
        (r#"{"id":99999999999999999999,"name":"huge"}"#, "99999999999999999999"),
        (r#"{"id":"x","name":"no number"}"#, "x"),
        (r#"{"name":"without an id"}"#, "id"),
        (r#"[]"#, "campaigns"),
    ] {
        let good = r#"{"id":1,"name":"one"},{"id":2,"name":"two","future":{"a":[1.50]}}"#;
        let host = campaigns(&format!("{good},{faulty}"));
        let environment = TestEnvironment::new().account(&host.url());
        let ran = environment.run(&["backup", "--only", "campaigns", "--json"]).exits_with(3);
        let document = ran.json();
        assert_eq!(document["resources"]["campaigns"]["records"], 2, "{faulty}");
        let problem = document["problems"][0].as_str().unwrap();
        assert!(problem.contains("campaigns") && problem.contains(named), "{problem}");
        ran.stderr_has(problem);
        let second = environment.run(&["show", "main", "campaigns", "2", "--json"]).succeeds();
        assert!(second.stdout().contains(r#""future":{"a":[1.50]}"#), "{}", second.stdout());
    }
}

#[test]
fn control_characters_in_names_are_escaped() {
    let host = campaigns(r#"{"id":1,"name":"\u001b[2Jgone\nsecond\u202e","extra":"\u0007"}"#);
    let environment = TestEnvironment::new().account(&host.url());
    environment.run(&["backup", "--only", "campaigns", "-q"]).succeeds();
    for command in [
        &["show", "main", "campaigns"][..],
        &["show", "main", "campaigns", "1"],
        &["log", "main", "campaigns", "1"],
    ] {
        let ran = environment.run(command).succeeds();
        let text = ran.stdout() + &ran.stderr();
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{command:?}: {text:?}");
    }
    assert_eq!(host.received().iter().filter(|head| head.contains(KEY)).count(), 2);
}
