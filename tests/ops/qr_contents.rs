//! QR codes are named by what they contain, where linkvault sent it.

use crate::support::{LiveService, TestEnvironment};
use crate::ui::serving::Page;

/// The sample account, with QR code 13 made by run 1.
fn with_known_code() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.write("qr_codes.csv", "type,data\nlink,https://a.example/autumn\n");
    let import = ["import", "qr_codes.csv", "--to", "main", "--yes", "-q"];
    environment.run(&import).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
    (environment, service)
}

#[test]
fn a_code_of_known_content_is_named_by_it_everywhere() {
    let (environment, _service) = with_known_code();
    let runs = environment.run(&["runs", "main", "1"]).succeeds();
    runs.stdout_has("create  qr_codes  13 https://a.example/autumn  done");
    let runs = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
    assert_eq!(runs["steps"][0]["content"], "https://a.example/autumn");

    let codes = environment.run(&["show", "main", "qr_codes", "--json"]).succeeds().json();
    assert_eq!(codes["contents"]["13"], "https://a.example/autumn");
    let shown = environment.command(&["show", "main", "qr_codes"]).env_remove("COLUMNS").output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.lines().next().unwrap().ends_with("  CONTENT"), "{shown}");
    assert!(shown.lines().last().unwrap().ends_with("  https://a.example/autumn"), "{shown}");
    let log = environment.run(&["log", "main", "qr_codes", "13"]).succeeds();
    log.stdout_has("+ qr_codes 13  https://a.example/autumn\n");

    environment.write("qr_codes.csv", "id,data\n13,https://a.example/winter\n");
    let planned = environment.run(&["plan", "qr_codes.csv", "--to", "main"]).succeeds();
    planned.stdout_has("  ~ 13  https://a.example/autumn\n      data: ");
    let plan = ["plan", "qr_codes.csv", "--to", "main", "--json"];
    let plan = environment.run(&plan).succeeds().json();
    assert_eq!(plan["steps"][0]["content"], "https://a.example/autumn");
    let undone = environment.run(&["undo", "main", "1", "-n"]).succeeds();
    undone.stdout_has("qr_codes\n  - 13  https://a.example/autumn\n");

    let page = Page::start(&environment, &[]);
    for path in [
        "/accounts/main/runs/1",
        "/accounts/main/records/qr_codes",
        "/accounts/main/records/qr_codes/13",
    ] {
        let body = page.get(path);
        assert!(body.contains("https://a.example/autumn"), "{path}\n{body}");
    }
}

#[test]
fn an_item_is_assigned_to_a_channel_that_the_plan_creates_by_its_name() {
    let (environment, _service) = with_known_code();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let channels = environment.text("sheets/channels.csv");
    environment.write("sheets/channels.csv", &format!("{channels},Autumn,,#112233,false\n"));
    let items = environment.text("sheets/channel_items.csv");
    let items = format!("{items}Autumn,qr,13,,,,\nAutumn,links,103,,,,\n2,qr,13,,,,\n");
    environment.write("sheets/channel_items.csv", &items);
    let planned = environment.run(&["plan", "sheets", "--to", "main"]).succeeds();
    planned
        .stdout_has("  + Autumn  (step 1)\n")
        .stdout_has("  > 2/qr/13  Social (https://a.example/autumn)\n")
        .stdout_has("  > links/103  to channel `Autumn` (created by step 1)\n")
        .stdout_has("  > qr/13  to channel `Autumn` (created by step 1)\n");
}
