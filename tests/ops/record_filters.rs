//! `--where`, `--id` and `--name`: which records a command touches.

use crate::support::{CommandOutput, LiveService, TestEnvironment};

fn backed_up() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    service.new_requests();
    (environment, service)
}

fn restore(environment: &TestEnvironment, more: &[&str]) -> CommandOutput {
    let command = ["restore", "#1", "--to", "main", "--yes", "--max-delete", "100%"];
    environment.run(&[&command[..], &["--max-update", "100%"], more].concat())
}

#[test]
fn restore_changes_only_the_selected_records() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| {
        store.campaigns.get_mut(1).unwrap().public = false;
        store.campaigns.get_mut(4).unwrap().name = "Winter Sale".to_owned();
        store.campaigns.remove(5);
        store.add_campaign("Summer Party", None, true);
        store.channels.get_mut(1).unwrap().name = "Other".to_owned();
    });
    // The record with the id, though its present name differs.
    restore(&environment, &["--id", "campaigns/4"]).succeeds().stdout_has("1 done, 1 verified");
    assert_eq!(service.writes(), ["PUT /api/campaign/4/update"]);
    // By the name in the snapshot, or in the account: a record that matches neither stays.
    service.new_requests();
    restore(&environment, &["--name", "campaigns/*club", "--delete"]).succeeds();
    assert_eq!(service.writes(), ["POST /api/campaign/add"]);
    service.new_requests();
    restore(
        &environment,
        &["--where", "campaigns.name~^Summer", "--delete", "--only", "campaigns"],
    )
    .succeeds();
    let party = service.sandbox().store().campaigns.iter().any(|(_, it)| it.name == "Summer Party");
    assert!(!party);
    assert_eq!(service.writes().len(), 1, "only the new campaign is deleted");
    // What no filter names stayed changed.
    assert!(!service.sandbox().store().campaigns.get(1).unwrap().public);
    assert_eq!(service.sandbox().store().channels.get(1).unwrap().name, "Other");
    // A filter leaves other resources alone: they are restored.
    restore(&environment, &["--where", "campaigns.name~^nothing"])
        .succeeds()
        .stderr_has("`campaigns.name~^nothing` matches no record");
    assert_ne!(service.sandbox().store().channels.get(1).unwrap().name, "Other");
    assert!(!service.sandbox().store().campaigns.get(1).unwrap().public);
}

/// With `--delete`, a renamed row must not delete the record that it renames.
#[test]
fn a_row_that_leaves_the_filter_by_its_new_name_is_an_update() {
    let (environment, service) = backed_up();
    environment.run(&["export", "main", "--to", "sheets", "--only", "campaigns", "-q"]).succeeds();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Winter Sale");
    let command =
        ["apply", "sheets", "--to", "main", "--yes", "--delete", "--name", "campaigns/Summer*"];
    environment.run(&command).succeeds().stdout_has("1 done");
    assert_eq!(service.writes(), ["PUT /api/campaign/4/update"]);
}

#[test]
fn items_go_with_their_channel_and_links_with_their_campaign() {
    let (environment, service) = backed_up();
    let items = || {
        let items = environment.run(&["show", "main@live", "channel_items", "--json"]);
        items.succeeds().json()["records"].as_array().unwrap().len()
    };
    let before = items();
    let removed = service.sandbox().mutate(|store| {
        let ids: Vec<u64> = store.channels.iter().map(|(id, _)| id).collect();
        ids.iter().for_each(|id| drop(store.channels.remove(*id)));
        ids
    });
    assert_eq!(items(), 0);
    let first = format!("channels/{}", removed[0]);
    restore(&environment, &["--id", &first]).succeeds().stdout_has("4 steps: 1 create, 3 assigns");
    assert_eq!(items(), 3);
    assert!(before > 3);
    let channels = service.sandbox().store().channels.len();
    assert_eq!(channels, 1);
}

#[test]
fn an_export_with_a_filter_says_so_and_deletes_nothing() {
    let (environment, service) = backed_up();
    for (format, folder) in [("csv", "sheets"), ("json", "json"), ("xlsx", "book")] {
        let export = ["export", "main", "--to", folder, "--format", format];
        let filter = ["--where", "campaigns.name~Sale$", "--only", "campaigns"];
        let all = [&export[..], &filter].concat();
        environment.run(&[&all[..], &["-n"]].concat()).succeeds().stdout_has("campaigns  1 record");
        environment.run(&all).succeeds().stdout_has("1 record");
        let manifest = environment.run(&[&all[..], &["--json"]].concat()).succeeds().json();
        assert_eq!(manifest["filter"], serde_json::json!(["campaigns.name~Sale$"]));
        let plan = ["plan", folder, "--to", "main", "--delete", "--max-delete", "100%"];
        environment.run(&plan).succeeds().stdout_has("Nothing to do");
        // The same for files that were edited: they no longer have the hashes of the manifest.
        let name = format!("{folder}/manifest.json");
        let manifest = environment.text(&name).replace("\"blake3\": \"", "\"blake3\": \"edited");
        environment.write(&name, &manifest);
        environment.run(&plan).succeeds().stdout_has("Nothing to do");
    }
    let file = ["plan", "json/export.json", "--to", "main", "--delete", "--max-delete", "100%"];
    environment.run(&file).succeeds().stdout_has("Nothing to do");
    assert!(service.writes().is_empty());
}

#[test]
fn diff_shows_only_the_selected_records() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| {
        store.campaigns.get_mut(1).unwrap().public = false;
        store.campaigns.get_mut(4).unwrap().name = "Winter Sale".to_owned();
        store.add_campaign("Summer Party", None, true);
    });
    environment.run(&["backup", "-q"]).succeeds();
    let changes = |more: &[&str]| {
        let document = environment.run(&[&["diff", "main", "--json"], more].concat()).json();
        let changes = document["changes"].as_array().unwrap().clone();
        changes.iter().map(|it| it["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(changes(&[]).len(), 3);
    assert_eq!(changes(&["--name", "campaigns/summer*"]), [4, 9]);
    assert_eq!(changes(&["--id", "campaigns/1", "--id", "campaigns/4"]), [1, 4]);
    assert_eq!(changes(&["--where", "campaigns.public~false"]), [1]);
}

#[test]
fn a_wrong_filter_is_a_usage_error() {
    let (environment, service) = backed_up();
    for (flag, value, message) in [
        ("--where", "campaigns.nam~x", "has no field `nam`"),
        ("--where", "campaigns.name~(", "invalid pattern"),
        ("--id", "campaigns", "does not have the form RESOURCE/ID"),
        ("--name", "links/x", "`links` is not a resource"),
    ] {
        environment
            .run(&["plan", "#1", "--to", "main", flag, value])
            .exits_with(64)
            .stderr_has(message);
    }
    let none = ["plan", "#1", "--to", "main", "--id", "campaigns/1", "--only", "channels"];
    environment.run(&none).exits_with(64).stderr_has("no resource is selected");
    assert!(service.new_requests().is_empty());
}

#[test]
fn a_filter_that_matches_no_record_is_told_by_export_and_diff() {
    let (environment, _service) = backed_up();
    let told = "`campaigns/nothing*` matches no record";
    for (matches, folder) in [("nothing*", "none"), ("*", "all")] {
        let filter = format!("campaigns/{matches}");
        let export = environment.run(&["export", "main", "--to", folder, "--name", &filter]);
        let diff = environment.run(&["diff", "main@latest", "main@live", "--name", &filter]);
        for ran in [export, diff] {
            let ran = ran.succeeds();
            assert_eq!(ran.stderr().contains(told), matches != "*", "{}", ran.stderr());
        }
    }
}
