//! Sent values that no list returns: every reader of a state gets those of that time.

use linkvault::model::SnapshotId;
use linkvault::ops::sandbox_from_vault::sandbox_from_vault;
use linkvault::vault::Vault;
use serde_json::{Value, json};

use crate::support::{LiveService, TestEnvironment};

/// A QR code with the text v1 in the snapshot `v1`, and v2 in the newest one.
fn two_texts() -> (TestEnvironment, LiveService, u64) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "main", "-q"]).succeeds();
    environment.write("qr_codes.csv", "type,data\ntext,v1\n");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["backup", "main", "-q", "--tag", "v1"]).succeeds();
    let is = |data: &str| {
        service
            .sandbox()
            .store()
            .qr_codes
            .iter()
            .find_map(|(id, row)| (row.content.data == Some(json!(data))).then_some(id))
    };
    let id = is("v1").unwrap();
    environment.write("edit.csv", &format!("id,data,background\n{id},v2,\"rgb(1,2,3)\"\n"));
    let edit = ["import", "edit.csv", "--resource", "qr_codes", "--to", "main", "--yes"];
    environment.run(&edit).succeeds();
    environment.run(&["backup", "main", "-q", "--tag", "v2"]).succeeds();
    assert_eq!(is("v2"), Some(id));
    (environment, service, id)
}

fn data(service: &LiveService, id: u64) -> Value {
    service.sandbox().store().qr_codes.get(id).unwrap().content.data.clone().unwrap_or_default()
}

#[test]
fn export_and_show_use_the_sent_values_of_the_snapshot() {
    let (environment, _service, id) = two_texts();
    for tag in ["v1", "v2"] {
        let reference = format!("main@{tag}");
        environment.run(&["export", &reference, "--to", tag]).succeeds();
        let sheet = environment.text(&format!("{tag}/qr_codes.csv"));
        let row = sheet.lines().find(|line| line.starts_with(&format!("{id},"))).unwrap();
        assert!(row.contains(tag), "{row}");
        assert_eq!(row.contains("rgb"), tag == "v2", "{row}");
        let id = id.to_string();
        let shown = environment.run(&["show", &reference, "qr_codes", &id]).succeeds();
        shown.stdout_has("data (as sent)").stdout_has(tag);
        let shown = environment.run(&["show", &reference, "qr_codes", &id, "--json"]).succeeds();
        assert_eq!(shown.json()["remembered"]["data"], tag);
    }
}

#[test]
fn a_change_of_an_unlisted_value_is_in_diff_and_log() {
    let (environment, _service, id) = two_texts();
    let diff = environment.run(&["diff", "main@v1", "main@v2", "--json"]).succeeds().json();
    let changes = diff["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!((&changes[0]["id"], &changes[0]["change"]), (&json!(id), &json!("changed")));
    let fields = &changes[0]["fields"];
    assert_eq!(fields["data"], json!({"before": "v1", "after": "v2"}));
    assert_eq!(fields["background"], json!({"before": null, "after": "rgb(1,2,3)"}));
    let again = environment.run(&["diff", "main@v2", "main@live", "--detailed-exitcode"]);
    again.succeeds();
    let log = environment.run(&["log", "main", "qr_codes", &id.to_string(), "--json"]);
    let log = log.succeeds().json();
    let told: Vec<_> = log["changes"].as_array().unwrap().iter().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["fields"]["data"]["after"], "v1");
    assert_eq!(told[1]["fields"]["data"], json!({"before": "v1", "after": "v2"}));
}

#[test]
fn restore_and_undo_restore_the_sent_values_of_the_snapshot() {
    let (environment, service, id) = two_texts();
    let plan = environment.run(&["plan", "main@v1", "--to", "main", "--json"]).succeeds().json();
    let steps = plan["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(
        (&steps[0]["before"]["data"], &steps[0]["after"]["data"]),
        (&json!("v2"), &json!("v1"))
    );
    // The previous value of the colour is unknown.
    environment.run(&["rehearse", "main@v1", "--to", "main"]).exits_with(3);
    environment.run(&["restore", "v1", "--to", "main", "--yes"]).exits_with(3);
    assert_eq!(data(&service, id), "v1");
    environment.run(&["undo", "main", "3", "--yes"]).succeeds();
    assert_eq!(data(&service, id), "v2");
    // The values from before run 2 are back, except for the colour.
    environment.run(&["restore", "v1", "--to", "main", "--yes"]).exits_with(3);
    environment.run(&["undo", "main", "2", "-n"]).exits_with(3);
    // A later run sent another text: that is a conflict.
    environment.write("edit.csv", &format!("id,data\n{id},v3\n"));
    let edit = ["import", "edit.csv", "--resource", "qr_codes", "--to", "main", "--yes"];
    environment.run(&edit).succeeds();
    environment.run(&["undo", "main", "2", "--yes"]).exits_with(4).stderr_has("v3");
    assert_eq!(data(&service, id), "v3");
}

/// The colour was sent after v1, and its previous value is unknown. A link cannot be unassigned
/// either.
#[test]
fn restore_lists_values_first_sent_after_the_snapshot() {
    let (environment, service, id) = two_texts();
    environment.write("campaign_links.csv", "campaign,link\n7,41\n");
    let links = ["import", "campaign_links.csv", "--to", "main", "--yes"];
    environment.run(&links).succeeds();
    environment.run(&["backup", "main", "-q", "--tag", "v3"]).succeeds();
    let unsupported = |tag: &str| {
        let plan = ["plan", &format!("main@{tag}"), "--to", "main", "--json"];
        let plan = environment.run(&plan).succeeds().json();
        let rows = plan["unsupported"].as_array().unwrap().clone();
        let told = |it: &Value| format!("{} {}: {}", it["resource"], it["key"], it["reason"]);
        rows.iter().map(|it| told(it).replace('"', "")).collect::<Vec<_>>()
    };
    let link = "campaigns 7/links/41: linkvault assigned it later, and the API cannot unassign it";
    let colour = format!(
        "qr_codes {id}: linkvault set its `background` later, and what it replaced is not known"
    );
    assert_eq!(unsupported("v1"), [link, &colour]);
    assert_eq!(unsupported("v2"), [link]);
    assert_eq!(unsupported("v3"), [""; 0]);
    for _ in 0..2 {
        let restored = environment.run(&["restore", "v1", "--to", "main", "--yes"]).exits_with(3);
        restored.stdout_has("what it replaced is not known");
        assert_eq!(data(&service, id), "v1");
    }
}

/// The deleted code is created with its values in the snapshot, without those sent later.
#[test]
fn a_deleted_code_is_restored_with_its_content() {
    let (environment, service, id) = two_texts();
    service.sandbox().mutate(|store| drop(store.remove_qr(id)));
    environment.run(&["restore", "v1", "--to", "main", "--yes"]).succeeds();
    let inside = service.sandbox();
    let content = inside.store().qr_codes.iter().last().unwrap().1.content.clone();
    assert_eq!((content.data, content.background), (Some(json!("v1")), None));
}

/// Only edited cells are sent, also of columns that no list returns.
#[test]
fn an_unedited_cell_of_an_unlisted_field_is_not_sent() {
    let (environment, service, id) = two_texts();
    environment.run(&["export", "main@v1", "--to", "sheets"]).succeeds();
    let sheet = environment.text("sheets/qr_codes.csv");
    let row = sheet.lines().find(|line| line.starts_with(&format!("{id},"))).unwrap();
    // An unedited file is left out.
    environment.write("sheets/qr_codes.csv", &format!("{sheet}\n"));
    let plan = environment.run(&["plan", "sheets", "--to", "main", "--json"]);
    assert_eq!(plan.succeeds().json()["steps"], json!([]));
    let edited = row.replace(",v1,", ",v4,");
    environment.edit("sheets/qr_codes.csv", row, &edited);
    let plan = environment.run(&["plan", "sheets", "--to", "main"]);
    plan.exits_with(4).stderr_has("data").stderr_has("v2");
    assert_eq!(data(&service, id), "v2");
}

/// A migration of an older snapshot uses the text of that snapshot.
#[test]
fn migrate_and_sandbox_use_the_sent_values_of_the_snapshot() {
    let (environment, _service, id) = two_texts();
    let shown = environment.run(&["show", "main@v1", "--json"]).succeeds().json();
    let number = shown["snapshot"]["snapshot"].as_i64().map(SnapshotId).unwrap();
    let mut vault = Vault::open_read_only(&environment.path("vaults/main.db")).unwrap();
    let served = sandbox_from_vault(&mut vault, number).unwrap().store;
    let content = &served.qr_codes.get(id).unwrap().content;
    assert_eq!((&content.data, &content.background), (&Some(json!("v1")), &None));
    let new = LiveService::serving(linkvault::sandbox::Store::default(), "", "");
    let config = environment.text("config.toml")
        + &format!("[accounts.new]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", new.url());
    environment.write("config.toml", &config);
    let moved = ["migrate", "main@v1", "new", "--only", "qr_codes", "--yes"];
    environment.run(&moved);
    let inside = new.sandbox();
    let texts: Vec<_> =
        inside.store().qr_codes.iter().filter_map(|(_, row)| row.content.data.clone()).collect();
    assert_eq!(texts, [json!("v1")]);
}
