//! `kill -9` at any time: the next run finds an intact vault and continues.

use linkvault::sandbox::generate::{GeneratedCounts, generate};
use serde_json::Value;

use crate::support::{LiveService, TestEnvironment, until};

const LISTS: [(&str, &str, &str); 7] = [
    ("/api/domains", "domains", "domains"),
    ("/api/campaigns", "campaigns", "campaigns"),
    ("/api/channels", "channels", "channels"),
    ("/api/qr", "qrs", "qr_codes"),
    ("/api/pixels", "pixels", "pixels"),
    ("/api/overlay", "cta", "overlays"),
    ("/api/splash", "splash", "splash_pages"),
];

#[test]
fn a_backup_killed_twenty_times_equals_the_service() {
    let counts = GeneratedCounts {
        domains: 40,
        campaigns: 500,
        channels: 4,
        channel_items: 60,
        qr_codes: 1600,
        pixels: 300,
        overlays: 60,
        splash_pages: 60,
    };
    let behaviour = "max-limit=20,rate-limit=600,rate-window=60";
    let service = LiveService::serving(generate(7, counts), behaviour, "latency=2ms");
    let environment = TestEnvironment::new().account(&service.url());
    let environment = environment.variable("LINKVAULT_MAX_IN_FLIGHT", "4");
    let backup = ["backup", "main", "--stats", "none"];
    for round in 0..20 {
        let before = service.request_count();
        let mut child = environment.start(&[&backup[..], &["-q"]].concat());
        until("some more requests", || service.request_count() >= before + 3 + round % 7);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "round {round}: it was done already");
    }
    let killed = service.request_count();
    let document = environment.run(&[&backup[..], &["--json"]].concat()).succeeds().json();
    assert_eq!((&document["resumed"], &document["snapshot"]), (&true.into(), &1.into()));
    assert_eq!(service.throttled(), 0);
    // All pages once, and for each killed process the account, an overlapping page, up to four reads
    // in flight, and the first pages of three later lists, which were read with that of the first.
    let pages = 2 + 26 + 2 + 12 + 81 + 16 + 4 + 4;
    assert!(
        service.request_count() <= pages + 20 * 9,
        "{killed} + {}",
        service.request_count() - killed
    );
    environment.run(&["check", "main"]).succeeds();
    equals_the_service(&environment, &service);
}

pub fn equals_the_service(environment: &TestEnvironment, service: &LiveService) {
    for (path, key, resource) in LISTS {
        let ours = environment.run(&["show", "main", resource, "--json"]).succeeds().json();
        let ours = ours["records"].as_array().unwrap();
        let theirs = service.list(path, key);
        assert_eq!(ours.len(), theirs.len(), "{resource}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(named(ours), named(theirs), "{resource}");
        }
    }
    let items = environment.run(&["show", "main", "channel_items", "--json"]).succeeds().json();
    let channels = service.list("/api/channels", "channels");
    let theirs: usize = channels
        .iter()
        .map(|channel| service.list(&format!("/api/channel/{}", channel["id"]), "items").len())
        .sum();
    assert_eq!(items["records"].as_array().unwrap().len(), theirs);
}

/// The record without its counter, and with a campaign's name under one key: the service writes it
/// as `domain` in the second record of each page.
fn named(record: &Value) -> Value {
    let mut record = record.clone();
    if let Some(fields) = record.as_object_mut() {
        fields.remove("scans");
    }
    if let Some(fields) = record.as_object_mut()
        && fields.contains_key("rotator")
        && let Some(name) = fields.remove("domain")
    {
        fields.insert("name".to_owned(), name);
    }
    record
}
