//! Paging and the quirks of lists.

use linkvault::clock::Timestamp;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{RawRecord, Store};
use serde_json::{Value, json};

use super::{NOW, TestService};

fn ids(answer: &Value, key: &str) -> Vec<u64> {
    answer["data"][key].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

#[test]
fn the_second_campaign_of_each_page_has_its_name_under_domain() {
    let mut service = TestService::new("");
    for page in 1..=3 {
        let answer = service.get(&format!("/api/campaigns?limit=3&page={page}"));
        for (place, row) in answer["data"]["campaigns"].as_array().unwrap().iter().enumerate() {
            assert_eq!(row.get("domain").is_some(), place == 1);
            assert_eq!(row.get("name").is_some(), place != 1);
        }
    }
}

#[test]
fn every_record_is_on_one_page() {
    let mut service = TestService::new("");
    let first = service.get("/api/qr?limit=5");
    assert_eq!(
        ["result", "perpage", "currentpage", "nextpage", "maxpage"]
            .map(|n| first["data"][n].clone()),
        [5, 5, 1, 2, 3].map(|n| json!(n))
    );
    let mut seen = ids(&first, "qrs");
    seen.extend(ids(&service.get("/api/qr?limit=5&page=2"), "qrs"));
    let last = service.get("/api/qr?page=3&limit=5");
    assert_eq!(last["data"]["result"], json!(2));
    seen.extend(ids(&last, "qrs"));
    assert_eq!(seen, (1..=12).collect::<Vec<_>>());
}

#[test]
fn the_default_page_size_is_fifteen() {
    let mut service = TestService::with(
        generate(1, GeneratedCounts { pixels: 40, ..GeneratedCounts::default() }),
        "",
    );
    let answer = service.get("/api/pixels");
    assert_eq!(ids(&answer, "pixels").len(), 15);
    assert_eq!(answer["data"]["perpage"], json!(15));
}

#[test]
fn a_large_account_has_many_pages() {
    let mut service = TestService::with(
        generate(2, GeneratedCounts { pixels: 20_000, ..GeneratedCounts::default() }),
        "rate-limit=none",
    );
    let pages = (1..=20).map(|page| service.get(&format!("/api/pixels?limit=1000&page={page}")));
    let seen: Vec<u64> = pages.flat_map(|answer| ids(&answer, "pixels")).collect();
    assert_eq!(seen, (1..=20_000).collect::<Vec<_>>());
}

#[test]
fn an_empty_list_has_one_page() {
    let answer = TestService::with(Store::default(), "").get("/api/splash");
    assert_eq!(answer["data"]["maxpage"], json!(1));
    assert_eq!(answer["data"]["splash"], json!([]));
}

#[test]
fn the_rotator_of_a_campaign_without_one_is_false() {
    let answer = TestService::new("").get("/api/campaigns");
    let rows = answer["data"]["campaigns"].as_array().unwrap();
    assert_eq!(rows[4]["rotator"], json!(false));
    assert_eq!(rows[0]["rotator"], json!("https://links.example.com/r/spring-list"));
    assert_eq!(rows[0]["list"], json!("https://links.example.com/u/lantern/spring-list-1"));
}

#[test]
fn scans_change_between_two_reads() {
    let mut service = TestService::new("");
    let before = service.get("/api/qr/1");
    service.now = Timestamp(NOW.0 + 10_000);
    let after = service.get("/api/qr/1");
    let scans = |answer: &Value| answer["details"]["scans"].as_u64().unwrap();
    assert_eq!(scans(&after) - scans(&before), 3);
    assert_eq!(after["data"]["clicks"], after["details"]["scans"]);
}

#[test]
fn imported_records_are_served_with_all_their_fields() {
    let raw = [
        ("account", None, r#"{"id":9,"email":"a@b.example","plan_id":"4"}"#),
        (
            "domains",
            None,
            r#"{"id":"3","domain":"https://a.example","redirectroot":null,"ssl":{"on":true}}"#,
        ),
        ("campaigns", None, r#"{"id":4,"campaign":"Old","public":"1","rotator":false,"list":"x"}"#),
        (
            "channels",
            None,
            r##"{"id":5,"name":"C","description":"","color":"#000000","starred":0}"##,
        ),
        (
            "channel_items",
            Some(5),
            r#"{"type":"bio","id":1,"title":"T","preview":"p","link":"l","date":"d","clicks":3}"#,
        ),
        ("qr_codes", None, r#"{"id":"6","link":"l","scans":"13","name":"n","date":"d"}"#),
    ];
    let raw = raw.map(|(resource, channel, json)| RawRecord { resource, channel, json });
    let loaded = Store::from_records(raw);
    assert!(loaded.skipped.is_empty());
    let mut service = TestService::with(loaded.store, "");
    assert_eq!(service.get("/api/account")["data"]["plan_id"], json!("4"));
    let domain = service.get("/api/domains")["data"]["domains"][0].clone();
    assert_eq!(domain["id"], json!(3));
    assert_eq!((&domain["redirectroot"], &domain["ssl"]), (&Value::Null, &json!({"on": true})));
    let campaign = service.get("/api/campaigns")["data"]["campaigns"][0].clone();
    assert_eq!((&campaign["name"], &campaign["public"]), (&json!("Old"), &json!(true)));
    assert_eq!(service.get("/api/channel/5")["data"]["items"][0]["clicks"], json!(3));
    service.now = Timestamp(NOW.0 * 2);
    assert_eq!(service.get("/api/qr/6")["details"]["scans"], json!(13));
    assert_eq!(
        service.put("/api/domain/3/update", json!({"redirectroot": "https://b.example"}))["error"],
        json!(0)
    );
    let domain = service.get("/api/domains")["data"]["domains"][0].clone();
    assert_eq!(domain["redirectroot"], json!("https://b.example"));
}
