//! The effect of writes, checked by reads.

use linkvault::api::http::Method;
use serde_json::{Value, json};

use super::{TestService, json};

fn find(answer: &Value, key: &str, id: &Value) -> Option<Value> {
    answer["data"][key].as_array().unwrap().iter().find(|row| row["id"] == *id).cloned()
}

#[test]
fn a_domain_can_be_added_updated_and_deleted() {
    let mut service = TestService::new("");
    let id =
        service.post("/api/domain/add", json!({"domain": "https://new.example.org"}))["id"].clone();
    let path = format!("/api/domain/{id}");
    service.put(&format!("{path}/update"), json!({"redirect404": "https://example.org/lost"}));
    let row = find(&service.get("/api/domains"), "domains", &id).unwrap();
    assert_eq!(row["redirect404"], json!("https://example.org/lost"));
    assert_eq!(row["redirectroot"], json!(""));
    service.put(&format!("{path}/update"), json!({"redirect404": ""}));
    let row = find(&service.get("/api/domains"), "domains", &id).unwrap();
    assert_eq!(row["redirect404"], json!(""));
    service.delete(&format!("{path}/delete"));
    assert_eq!(find(&service.get("/api/domains"), "domains", &id), None);
}

#[test]
fn a_campaign_keeps_fields_that_an_update_omits() {
    let mut service = TestService::new("");
    let made = service.post("/api/campaign/add", json!({"name": "A", "slug": "a", "public": true}));
    let id = made["id"].clone();
    assert_eq!(made["list"], json!(format!("https://links.example.com/u/lantern/a-{id}")));
    let renamed = service.put(&format!("/api/campaign/{id}/update"), json!({"name": "B"}));
    assert_eq!(renamed["domain"], json!("B"));
    assert_eq!((&renamed["public"], &renamed["rotator"]), (&made["public"], &made["rotator"]));
    let body = json!({"name": "B", "slug": ""});
    assert_eq!(service.put(&format!("/api/campaign/{id}/update"), body)["rotator"], json!(false));
}

#[test]
fn a_slug_is_one_segment_of_its_urls() {
    let made =
        TestService::new("").post("/api/campaign/add", json!({"name": "A", "slug": "a b/c?d"}));
    assert_eq!(made["rotator"], json!("https://links.example.com/r/a-b-c-d"));
}

#[test]
fn a_link_is_assigned_to_a_campaign_once() {
    let mut service = TestService::new("");
    for _ in 0..2 {
        let response = service.send(Method::Post, "/api/campaign/5/assign/900", None);
        assert_eq!(json(&response)["error"], json!(0));
    }
    let members = &service.service.store().campaigns.get(5).unwrap().members;
    assert_eq!(members.iter().filter(|id| **id == 900).count(), 1);
}

#[test]
fn items_are_deleted_with_their_channel() {
    let mut service = TestService::new("");
    let made = service.post("/api/channel/add", json!({"name": "Fresh", "color": "#ABCDEF"}));
    assert_eq!((&made["description"], &made["starred"]), (&json!(""), &json!(false)));
    let id = made["id"].clone();
    for (kind, item) in [("links", 41), ("bio", 41), ("qr", 4), ("qr", 4)] {
        service.send(Method::Post, &format!("/api/channel/{id}/assign/{kind}/{item}"), None);
    }
    let items = service.get(&format!("/api/channel/{id}"));
    let items = items["data"]["items"].as_array().unwrap();
    let seen: Vec<_> =
        items.iter().map(|i| (i["type"].as_str().unwrap(), i["id"].as_u64().unwrap())).collect();
    assert_eq!(seen, [("links", 41), ("bio", 41), ("qr", 4)]);
    service.delete(&format!("/api/channel/{id}/delete"));
    assert_eq!(service.get(&format!("/api/channel/{id}"))["error"], json!(1));
}

#[test]
fn a_qr_code_accepts_each_type_and_both_forms_of_data() {
    let mut service = TestService::new("");
    for kind in ["text", "vcard", "link", "email", "phone", "sms", "wifi"] {
        for data in [json!("x"), json!(["x", "y"])] {
            let made = service.post("/api/qr/add", json!({"type": kind, "data": data}));
            let id = made["id"].as_u64().unwrap();
            assert_eq!(service.get(&format!("/api/qr/{id}"))["details"]["link"], made["link"]);
            assert_eq!(service.service.store().qr_codes.get(id).unwrap().content.data, Some(data));
        }
    }
}

#[test]
fn a_qr_code_never_shows_its_content() {
    let mut service = TestService::new("");
    service.post("/api/qr/add", json!({"type": "text", "data": "hidden", "logo": "hidden.png"}));
    for path in ["/api/qr", "/api/qr/13"] {
        assert!(!service.get(path).to_string().contains("hidden"), "{path}");
    }
}

#[test]
fn a_new_pixel_is_listed_and_an_unknown_type_is_a_warning() {
    let mut service = TestService::new("");
    let made = service.post("/api/pixel/add", json!({"type": "tiktok", "name": "T", "tag": "1"}));
    assert!(made["id"].is_u64() && made.get("message").is_none());
    assert!(find(&service.get("/api/pixels"), "pixels", &made["id"]).is_some());
    let odd = service.post("/api/pixel/add", json!({"type": "oddpixel", "name": "O", "tag": "1"}));
    assert_eq!(odd["error"], json!(0));
    assert!(odd["message"].as_str().unwrap().contains("Warning"));
}

#[test]
fn an_email_can_change_and_a_password_is_not_stored() {
    let mut service = TestService::new("");
    let body = json!({"email": "new@example.org", "password": "s3cret-word"});
    assert!(service.put("/api/account/update", body)["message"].is_string());
    assert_eq!(service.get("/api/account")["data"]["email"], json!("new@example.org"));
    assert!(!serde_json::to_string(service.service.store()).unwrap().contains("s3cret"));
}

#[test]
fn only_a_successful_write_changes_the_revision() {
    let mut service = TestService::new("");
    service.get("/api/qr");
    service.post("/api/channel/add", json!({}));
    service.delete("/api/channel/99/delete");
    assert_eq!(service.service.revision(), 0);
    service.post("/api/channel/add", json!({"name": "New"}));
    assert_eq!(service.service.revision(), 1);
}
