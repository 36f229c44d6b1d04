//! `export`: a state as files.

use serde_json::Value;

use crate::support::{LiveService, TestEnvironment};

#[test]
fn csv_files_have_the_records_and_a_manifest_names_the_snapshot() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets"]).succeeds().fits();
    let manifest = read(&environment, "sheets/manifest.json");
    assert_eq!((&manifest["account"], &manifest["snapshot"]), (&"main".into(), &1.into()));
    for file in manifest["files"].as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        let bytes = std::fs::read(environment.path("sheets").join(name)).unwrap();
        assert_eq!(file["blake3"], blake3::hash(&bytes).to_hex().as_str(), "{name}");
        let rows = csv::Reader::from_reader(bytes.as_slice()).into_records().count();
        assert_eq!(file["records"], rows, "{name}");
    }
    let campaigns = service.list("/api/campaigns", "campaigns");
    let mut rows = csv::Reader::from_path(environment.path("sheets/campaigns.csv")).unwrap();
    for (row, campaign) in rows.records().map(Result::unwrap).zip(&campaigns) {
        assert_eq!(row[0], campaign["id"].to_string());
        let name = campaign.get("name").or(campaign.get("domain")).unwrap();
        assert_eq!(&row[1], name.as_str().unwrap());
    }
}

#[test]
fn the_json_export_has_each_record_exactly_as_sent() {
    let service = LiveService::start("ids=strings,campaign-list=name", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    let export = ["export", "main", "--to", "out", "--format", "json", "--json"];
    let document = environment.run(&export).succeeds().json();
    assert_eq!(document["files"][0]["file"], "export.json");
    let export = read(&environment, "out/export.json");
    for (path, key, resource) in LISTS {
        assert_eq!(export["resources"][resource], Value::from(service.list(path, key)), "{path}");
    }
}

const LISTS: [(&str, &str, &str); 6] = [
    ("/api/domains", "domains", "domains"),
    ("/api/campaigns", "campaigns", "campaigns"),
    ("/api/channels", "channels", "channels"),
    ("/api/pixels", "pixels", "pixels"),
    ("/api/overlay", "cta", "overlays"),
    ("/api/splash", "splash", "splash_pages"),
];

#[test]
fn a_folder_with_other_files_is_not_overwritten() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    std::fs::create_dir(environment.path("mine")).unwrap();
    std::fs::write(environment.path("mine/notes.txt"), "mine").unwrap();
    environment
        .run(&["export", "sandbox", "--to", "mine"])
        .exits_with(1)
        .stderr_is("error: mine holds other files\nhint: name a new or empty folder with --to\n");
    assert_eq!(std::fs::read_dir(environment.path("mine")).unwrap().count(), 1);
}

#[test]
fn an_export_is_written_over_an_older_export() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&["export", "sandbox", "--to", "out"]).succeeds();
    environment.run(&["export", "sandbox", "--to", "out", "--only", "pixels"]).succeeds();
    let manifest = read(&environment, "out/manifest.json");
    assert_eq!(manifest["files"].as_array().unwrap().len(), 1);
    let files = std::fs::read_dir(environment.path("out")).unwrap().count();
    assert_eq!(files, 2, "what the manifest does not name is not left behind");
}

#[test]
fn exported_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&["export", "sandbox", "--to", "out"]).succeeds();
    for entry in std::fs::read_dir(environment.path("out")).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
    }
}

fn read(environment: &TestEnvironment, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(environment.path(name)).unwrap()).unwrap()
}

#[test]
fn unread_resources_make_export_and_preview_partial() {
    let service = LiveService::start("", "html@/api/pixels");
    let environment = TestEnvironment::new().account(&service.url());
    for more in [&["-n"][..], &["-n", "--json"], &[]] {
        let export = [&["export", "main@live", "--to", "out"], more].concat();
        environment.run(&export).exits_with(3).stderr_has("pixels");
    }
}
