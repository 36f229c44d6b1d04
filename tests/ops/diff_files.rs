//! `diff` with files on either side.

use linkvault::clock::Timestamp;
use linkvault::model::{RecordKey, Resource};
use linkvault::vault::Vault;

use crate::support::TestEnvironment;

/// The sample account, backed up and exported to the folder `sheets`.
fn exported() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&["export", "sandbox", "--to", "sheets", "-q"]).succeeds();
    environment
}

fn edit(environment: &TestEnvironment, file: &str, from: &str, to: &str) {
    let path = environment.path(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from:?} is not in\n{text}");
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn an_unedited_export_equals_the_account() {
    let environment = exported();
    let same = "sheets to sandbox@#1: 0 added, 0 changed, 0 removed\n";
    environment.run(&["diff", "sheets", "sandbox@latest"]).succeeds().stdout_is(same).stderr_is("");
    environment.run(&["diff", "sheets"]).succeeds().stdout_is(same).stderr_is("");
    environment.run(&["diff", "./sheets/", "sandbox@#1", "--detailed-exitcode"]).succeeds();
    environment.run(&["export", "sandbox", "--to", "json", "--format", "json", "-q"]).succeeds();
    let same = "json/export.json to sandbox@#1: 0 added, 0 changed, 0 removed\n";
    environment
        .run(&["diff", "json/export.json", "sandbox@#1"])
        .succeeds()
        .stdout_is(same)
        .stderr_is("");
    let same = "json to sheets: 0 added, 0 changed, 0 removed\n";
    environment.run(&["diff", "json", "sheets"]).succeeds().stdout_is(same).stderr_is("");
}

#[test]
fn an_edited_cell_is_the_only_difference() {
    let environment = exported();
    edit(&environment, "sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    environment.run(&["diff", "sandbox@live", "sheets"]).succeeds().fits().stdout_is(
        "~ campaigns 4\n    name: \"Summer Sale\" -> \"Autumn Sale\"\n\
         sandbox@live to sheets: 0 added, 1 changed, 0 removed\n",
    );
    let ran = environment.run(&["diff", "sheets", "sandbox@#1", "--detailed-exitcode"]);
    ran.exits_with(2).stdout_has("name: \"Autumn Sale\" -> \"Summer Sale\"\n");
    let ran = environment.run(&["diff", "sandbox@#1", "sheets", "--json"]).succeeds().json();
    assert_eq!(ran["changes"][0]["fields"]["name"]["after"], "Autumn Sale");
    assert_eq!(ran["changes"].as_array().unwrap().len(), 1);
}

#[test]
fn new_and_missing_rows_are_added_and_removed() {
    let environment = exported();
    let path = environment.path("sheets/campaigns.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with("5,")).collect();
    lines.push(",Winter,true,,,");
    std::fs::write(&path, lines.join("\n")).unwrap();
    environment.run(&["diff", "sandbox@#1", "sheets"]).succeeds().fits().stdout_is(
        "- campaigns 5\n    id: 5\n    name: \"Book Club\"\n    public: false\n    \
         list: \"https://links.example.com/u/lantern/list-5\"\n\
         + campaigns of sheets/campaigns.csv:9\n    name: \"Winter\"\n    public: true\n\
         sandbox@#1 to sheets: 1 added, 0 changed, 1 removed\n",
    );
}

#[test]
fn a_single_file_does_not_remove_omitted_records() {
    let environment = exported().file("new.csv", "id;starred\r\n3;yes\r\n");
    environment
        .run(&["diff", "sandbox@#1", "new.csv", "--resource", "channels"])
        .succeeds()
        .stdout_is(
            "~ channels 3\n    starred: false -> true\n\
         sandbox@#1 to new.csv: 0 added, 1 changed, 0 removed\n",
        );
    environment.run(&["diff", "sandbox", "new.csv"]).exits_with(64).stderr_is(
        "error: cannot read new.csv: its name does not name a resource\nhint: name it with --resource, such as --resource campaigns\n",
    );
    environment
        .run(&["diff", "sandbox", "sandbox@#1", "--resource", "channels"])
        .exits_with(64)
        .stderr_has("cannot read a state as one resource: no CSV file is named");
}

#[test]
fn the_account_record_is_compared_only_if_named() {
    let environment = exported().file("account.csv", "email\nnew@example.com\n");
    environment
        .run(&["diff", "sandbox", "account.csv"])
        .exits_with(64)
        .stderr_has("hint: add --resource account to change it");
    let environment = environment.file("password.csv", "email,password\na@example.com,x\n");
    environment
        .run(&["diff", "sandbox", "password.csv", "--resource", "account"])
        .exits_with(1)
        .stderr_has(
            "password.csv:1: password: passwords are not allowed in files; remove the column",
        );
}

#[test]
fn all_mistakes_of_all_files_are_reported_at_once() {
    let environment = exported();
    edit(&environment, "sheets/campaigns.csv", "id,name", "id,nmae");
    edit(&environment, "sheets/channels.csv", "#1F6F54", "green");
    let path = environment.path("sheets/pixels.csv");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 3;
    bytes[at] = 0x81;
    std::fs::write(path, bytes).unwrap();
    environment.run(&["diff", "sandbox", "sheets"]).exits_with(1).stderr_is(
        "error: sheets has 3 mistakes\n  \
         sheets/campaigns.csv:1: nmae: unknown column; did you mean `name`?\n  \
         sheets/channels.csv:2: color: `green` is not a colour; write #RRGGBB\n  \
         sheets/pixels.csv:2: the line has the byte 0x81, which is neither UTF-8 nor \
         Windows-1252, so the encoding is not known\n\
         hint: save the file as UTF-8, or name its encoding with --encoding; nothing was written\n",
    );
}

#[test]
fn an_account_takes_precedence_over_a_folder_of_its_name() {
    let environment = exported();
    std::fs::rename(environment.path("sheets"), environment.path("sandbox")).unwrap();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let ran = environment.run(&["diff", "sandbox"]).succeeds();
    ran.stdout_has("sandbox@#1 to sandbox@#2: ");
    environment.run(&["diff", "./sandbox"]).succeeds().stdout_has("./sandbox to sandbox@#2: ");
}

#[test]
fn a_folder_that_is_not_an_export_is_refused() {
    let environment = exported();
    std::fs::create_dir(environment.path("empty")).unwrap();
    environment.run(&["diff", "sandbox", "empty"]).exits_with(1).stderr_is(
        "error: cannot read empty: no file in it is named after a resource\n\
         hint: name its files after resources, such as campaigns.csv, or read one file with \
         --resource\n",
    );
    let gone = environment.run(&["diff", "sandbox", "gone.csv", "--resource", "pixels"]);
    gone.exits_with(1).stderr_is("error: there is no file gone.csv\n");
    let large = std::fs::File::create(environment.path("pixels.csv")).unwrap();
    large.set_len(257 << 20).unwrap();
    environment
        .run(&["diff", "sandbox", "pixels.csv"])
        .exits_with(1)
        .stderr_is("error: cannot read pixels.csv: it is larger than 256 MiB\nhint: split it into several files\n");
    edit(&environment, "sheets/manifest.json", "\"campaigns.csv\"", "\"../config.toml\"");
    environment.run(&["diff", "sandbox", "sheets"]).exits_with(1).stderr_is(
        "error: sheets/manifest.json: `../config.toml` is not a file of an export\n\
         hint: run `linkvault export` again, or name a single CSV file of the folder\n",
    );
}

#[test]
fn items_and_links_may_be_added_to_an_export() {
    let environment = exported()
        .file("items.csv", "channel,type,id\nshop WINDOW,links,987\nNowhere,qr,1\n")
        .file("sheets/campaign_links.csv", "campaign\tlink\nPress\t5\n");
    let ran =
        ["diff", "sandbox", "items.csv", "--resource", "channel_items", "--only", "channel_items"];
    environment.run(&ran).succeeds().stdout_is(
        "+ channel_items 1/links/987\n    channel: 1\n    type: \"links\"\n    id: 987\n\
         + channel_items of items.csv:3\n    type: \"qr\"\n\
         sandbox@#1 to items.csv: 2 added, 0 changed, 0 removed\n",
    );
    let told = "not compared: links of campaigns; no list shows them\n";
    environment.run(&["diff", "sandbox", "sheets"]).succeeds().stderr_is(told);
}

#[test]
fn a_snapshot_that_is_not_in_the_vault_is_not_a_base() {
    let environment = exported();
    edit(&environment, "sheets/manifest.json", "\"snapshot\": 1", "\"snapshot\": 7");
    let told = "warning: snapshot #7 of the export is not in the vault, so every cell counts as \
                edited\n";
    environment.run(&["diff", "sheets", "sandbox@#1"]).succeeds().stderr_is(told);
}

#[test]
fn an_export_contains_sent_values() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let mut vault = Vault::open_or_create(&environment.path("vaults/sandbox.db")).unwrap();
    for (resource, id, field, value) in [
        (Resource::QrCodes, 1, "type", r#""vcard""#),
        (Resource::QrCodes, 1, "data", r#"{"name":"Ann, \"A\""}"#),
        (Resource::QrCodes, 99, "type", r#""text""#),
        (Resource::Campaigns, 4, "slug", r#""summer""#),
        (Resource::Campaigns, 4, "links", "[7,12]"),
        (Resource::Campaigns, 99, "links", "[1]"),
    ] {
        vault.remember(resource, &RecordKey::Id(id), field, value, Timestamp(1)).unwrap();
    }
    vault.close().unwrap();
    // A snapshot shows what was sent before it.
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&["export", "sandbox", "--to", "sheets", "-q"]).succeeds();
    let read = |name: &str| std::fs::read_to_string(environment.path("sheets").join(name)).unwrap();
    let codes = read("qr_codes.csv");
    assert!(codes.starts_with("id,link,scans,name,date,type,data,background,foreground,logo\n1,"));
    assert!(codes.contains(r#",vcard,"{""name"":""Ann, \""A\""""}",,,"#), "{codes}");
    assert!(read("campaigns.csv").contains("/u/lantern/summer-4,summer\n"));
    assert_eq!(read("campaign_links.csv"), "campaign,link\n4,7\n4,12\n");
    environment.run(&["diff", "sheets", "sandbox@#1"]).succeeds().stderr_is(
        "not compared: slug, links of campaigns; no list shows them\n\
         not compared: type, data of qr_codes; no list shows them\n",
    );
    environment.run(&["export", "sandbox", "--to", "sheets", "-q", "--only", "pixels"]).succeeds();
    assert!(!environment.path("sheets/campaign_links.csv").exists());
}
