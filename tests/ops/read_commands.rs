//! The commands that read a vault: snapshots, show, log, diff, forget, check, doctor.

use serde_json::json;

use crate::support::{KEY, LiveService, TestEnvironment};

/// Three snapshots of an account that changes between them.
fn history() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q", "--tag", "before"]).succeeds();
    service.sandbox().mutate(|store| {
        store.campaigns.get_mut(1).unwrap().name = "Autumn \"Reading\"".to_owned();
        store.remove_qr(3);
        store.add_campaign("Brand new", None, true);
    });
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["backup", "-q", "--tag", "after"]).succeeds();
    (environment, service)
}

#[test]
fn every_form_of_reference_finds_its_state() {
    let (environment, _service) = history();
    for (reference, name) in [
        ("main", "main@#3"),
        ("main@latest", "main@#3"),
        ("main@latest~1", "main@#2"),
        ("main@#1", "main@#1"),
        ("main@before", "main@#1"),
        ("main@after", "main@#3"),
        ("main@2100-01-01", "main@#3"),
        ("main@2100-01-01T14:00", "main@#3"),
        ("latest~2", "main@#1"),
        ("#2", "main@#2"),
        ("2", "main@#2"),
        ("main@2", "main@#2"),
        ("before", "main@#1"),
        ("main@live", "main@live"),
    ] {
        let shown = environment.run(&["show", reference, "--json"]).succeeds().json();
        assert_eq!(shown["state"], name, "{reference}");
    }
}

#[test]
fn a_missing_state_is_an_error_with_a_hint() {
    let (environment, _service) = history();
    for reference in ["main@#9", "main@latest~7", "main@2001-01-01", "main@nonsense"] {
        let ran = environment.run(&["show", reference]).exits_with(1).stdout_is("");
        assert!(ran.stderr().starts_with("error: main: "), "{}", ran.stderr());
        ran.stderr_has("\nhint: `linkvault snapshots main` lists them\n");
    }
    environment.run(&["show", "missing@latest"]).exits_with(1).stderr_has("no account `missing`");
}

#[test]
fn snapshots_are_listed_with_what_changed() {
    let (environment, _service) = history();
    let table = environment.run(&["snapshots", "main"]).succeeds().fits().stdout();
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][0], "#");
    assert_eq!(rows[1].last(), Some(&"before"));
    assert_eq!(rows[2][5..], ["1", "1", "2"], "{table}");
    assert_eq!(rows[3][5..], ["0", "0", "0", "after"], "{table}");
    let document = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
    let second = &document["snapshots"][1];
    assert_eq!(second["resources"]["qr_codes"]["removed"], 1);
    assert_eq!(second["tag"], json!(null));
}

#[test]
fn a_difference_names_every_field() {
    let (environment, _service) = history();
    let text = environment.run(&["diff", "main@before"]).succeeds().fits().stdout();
    assert!(text.contains("~ campaigns 1\n    name: \"Spring Reading List\" -> "), "{text}");
    assert!(text.contains("\n- qr_codes 3\n"), "{text}");
    assert!(text.contains("\n+ campaigns 9\n"), "{text}");
    assert!(text.contains("main@#1 to main@#3: 1 added, 1 changed, 2 removed"), "{text}");
    environment.run(&["diff", "main"]).succeeds().stdout_has("0 added, 0 changed, 0 removed");
    environment.run(&["diff", "main", "--detailed-exitcode"]).succeeds();
    environment.run(&["diff", "main@#1", "--detailed-exitcode"]).exits_with(2);
    // An account name alone means its newest snapshot if the other side is given.
    let to_live = environment.run(&["diff", "main", "main@live"]).succeeds();
    to_live.stdout_has("main@#3 to main@live: ");
    environment.run(&["diff", "main", "main@#1"]).succeeds().stdout_has("main@#3 to main@#1: ");
    environment
        .run(&["diff", "main@#1", "#3", "--only", "pixels", "--detailed-exitcode"])
        .succeeds();
}

#[test]
fn a_number_is_a_snapshot_even_if_a_file_has_its_name() {
    let (environment, _service) = history();
    environment.run(&["export", "main@#1", "--to", "1"]).succeeds();
    let document = environment.run(&["diff", "1", "main@live", "--json"]).succeeds().json();
    assert_eq!(document["from"], json!("main@#1"));
    let missing = environment.run(&["show", "99"]).exits_with(1);
    missing.stderr_has("there is no snapshot #99; the snapshots are #1 to #3");
    for tag in ["41", "latest", "2026-11-01", "live", "a@b", ""] {
        environment.run(&["backup", "main", "--tag", tag]).exits_with(64);
    }
}

#[test]
fn diff_reads_a_plain_account_as_its_newest_snapshot() {
    let (environment, _service) = history();
    for (to, named) in [("live", "main@live"), ("main@live", "main@live"), ("#1", "main@#1")] {
        let document = environment.run(&["diff", "main", to, "--json"]).succeeds().json();
        assert_eq!((&document["from"], &document["to"]), (&json!("main@#3"), &json!(named)));
    }
}

#[test]
fn the_document_of_a_diff_has_the_documented_keys() {
    let (environment, _service) = history();
    let document = environment.run(&["diff", "main@#1", "main@#2", "--json"]).succeeds().json();
    let changes = document["changes"].as_array().unwrap();
    let kinds: Vec<_> =
        changes.iter().map(|it| (&it["resource"], &it["id"], &it["change"])).collect();
    let expected = [
        (&json!("campaigns"), &json!(1), &json!("changed")),
        (&json!("campaigns"), &json!(9), &json!("added")),
        (&json!("channel_items"), &json!("4/qr/3"), &json!("removed")),
        (&json!("qr_codes"), &json!(3), &json!("removed")),
    ];
    assert_eq!(kinds, expected);
    assert!(changes.iter().all(|it| it["fields"].is_object()), "{document}");
    assert_eq!(
        changes[0]["fields"]["name"],
        json!({"before": "Spring Reading List", "after": "Autumn \"Reading\""})
    );
}

#[test]
fn the_live_account_is_compared_without_a_new_snapshot() {
    let (environment, service) = history();
    service.sandbox().mutate(|store| store.pixels.remove(1));
    let ran = environment.run(&["diff", "main@latest", "main@live"]).succeeds();
    ran.stdout_has("- pixels 1\n").stdout_has("main@#3 to main@live: 0 added");
    let snapshots = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 3);
}

#[test]
fn show_prints_a_state_a_list_and_one_record() {
    let (environment, _service) = history();
    environment.run(&["show", "main@#1"]).succeeds().fits().stdout_has("main@#1, complete");
    environment.run(&["show", "main", "campaigns"]).succeeds().fits();
    environment.run(&["show", "main", "campaigns", "1"]).succeeds().fits().stdout_has("Autumn");
    let one = environment.run(&["show", "main@#1", "qr_codes", "3", "--json"]).succeeds().json();
    assert_eq!((&one["id"], &one["record"]["id"]), (&json!(3), &json!(3)));
    let gone = environment.run(&["show", "main", "qr_codes", "3"]).exits_with(1);
    gone.stderr_is(
        "error: main@#3 has no qr_codes 3\n\
         hint: `linkvault log main qr_codes 3` shows whether it ever existed\n",
    );
    environment.run(&["show", "main", "qr_codes", "x"]).exits_with(64);
    let items = environment.run(&["show", "main", "channel_items", "--json"]).succeeds().json();
    assert_eq!(items["records"].as_array().unwrap().len(), 13);
}

#[test]
fn log_shows_the_history_of_a_record() {
    let (environment, _service) = history();
    let life = environment.run(&["log", "main", "qr_codes", "3"]).succeeds().fits().stdout();
    assert!(life.contains("+ qr_codes 3") && life.contains("- qr_codes 3"), "{life}");
    let json = environment.run(&["log", "main", "campaigns", "1", "--json"]).succeeds().json();
    let changes = json["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2);
    assert_eq!((&changes[1]["snapshot"], &changes[1]["change"]), (&json!(2), &json!("changed")));
    environment
        .run(&["log", "main", "campaigns", "77"])
        .exits_with(1)
        .stderr_has("no snapshot of main has campaigns 77");
}

#[test]
fn forget_prints_reasons_and_asks_before_it_writes() {
    let (environment, _service) = history();
    let dry = environment.run(&["forget", "main", "--keep-last", "1", "-n"]).succeeds().fits();
    dry.stdout_has("2 snapshots would be forgotten; nothing was written")
        .stdout_has("complete  forget   no rule keeps the tag before\n");
    let unasked = environment.run(&["forget", "main", "--keep-last", "1"]).exits_with(64);
    unasked.stderr_has("pass --yes to confirm");
    let document =
        environment.run(&["forget", "main", "--keep-last", "1", "--yes", "--json"]).succeeds();
    assert_eq!(document.json()["forget"], json!([1, 2]));
    environment.run(&["check", "main"]).succeeds().fits().stdout_has("main is sound");
    environment.run(&["show", "main@#1"]).exits_with(1).stdout_is("");
    environment.run(&["show", "main@#3"]).succeeds();
}

#[test]
fn a_tag_that_the_configuration_keeps_is_not_forgotten() {
    let (environment, _service) = history();
    let config = environment.text("config.toml");
    environment
        .write("config.toml", &format!("{config}\nkeep = {{ last = 1, tags = [\"before\"] }}\n"));
    let document = environment.run(&["forget", "main", "-n", "--json"]).succeeds().json();
    assert_eq!(document["forget"].as_array().unwrap().len(), 1, "{document:#}");
    let kept = document["keep"].as_array().unwrap();
    assert!(kept.iter().any(|it| it["reasons"] == json!(["tag before"])), "{document:#}");
}

#[test]
fn check_and_doctor_find_nothing_wrong() {
    let (environment, service) = history();
    let check = environment.run(&["check", "main", "--json"]).succeeds().json();
    assert_eq!((&check["sound"], &check["snapshots"]), (&json!(true), &json!(3)));
    service.new_requests();
    let before = environment.files();
    let doctor = environment.run(&["doctor", "main"]).succeeds().stdout();
    assert!(doctor.contains("  ok   key       accepted, for account 1"), "{doctor}");
    assert_eq!(service.new_requests(), ["/api/account"]);
    let vault = |files: &[(std::path::PathBuf, Vec<u8>)]| {
        files.iter().find(|(path, _)| path.ends_with("main.db")).unwrap().1.clone()
    };
    assert!(vault(&before) == vault(&environment.files()), "doctor wrote into the vault");
    let document = environment.run(&["doctor", "--json"]).succeeds().json();
    assert_eq!(document["accounts"][0]["ok"], true);
}

#[test]
fn init_writes_an_account_that_works_and_no_key() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().variable("LINKS_KEY", KEY);
    let url = service.url();
    let init = ["init", "main", "--url", &url, "--key-env", "LINKS_KEY"];
    environment.run(&init).succeeds().fits().stdout_has("Wrote the account `main`");
    environment.run(&["backup", "main", "-q"]).succeeds();
    let config = std::fs::read_to_string(environment.path("config.toml")).unwrap();
    assert!(config.contains("key_env = \"LINKS_KEY\"") && !config.contains(KEY), "{config}");
    environment.run(&init).exits_with(1).stderr_has("the account `main` already exists");
}

#[test]
fn init_makes_the_path_of_the_key_file_absolute() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().file("links.key", KEY).mode("links.key", 0o600);
    let home = environment.path("elsewhere");
    let environment = environment.variable("LINKVAULT_HOME", &home.to_string_lossy());
    let url = service.url();
    environment.run(&["init", "--url", &url, "--key-file", "links.key"]).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
}

#[test]
fn init_writes_nothing_when_the_key_is_refused() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().variable("LINKS_KEY", "some-other-key");
    let url = service.url();
    let ran = environment.run(&["init", "--url", &url, "--key-env", "LINKS_KEY"]).exits_with(7);
    ran.stderr_has("Authorization header");
    assert_eq!(environment.files(), []);
}

#[test]
fn a_first_snapshot_cannot_be_compared() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&["diff", "sandbox"]).exits_with(1).stdout_is("").stderr_is(
        "error: sandbox: there is no snapshot before the newest: only one backup exists\n\
         hint: run `linkvault backup sandbox` again first\n",
    );
}

#[test]
fn the_account_is_shown_with_a_line_for_each_field() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let shown = environment.run(&["show", "sandbox", "account"]).succeeds().fits().stderr_is("");
    shown.stdout_has("\nemail       links@lantern-books.example.com\n");
}

#[test]
fn an_account_without_a_backup_gets_a_hint() {
    let environment = TestEnvironment::new();
    for command in [&["snapshots", "sandbox"][..], &["show", "sandbox"], &["check", "sandbox"]] {
        environment.run(command).exits_with(1).stdout_is("").stderr_is(
            "error: sandbox has no vault yet\nhint: run `linkvault backup sandbox` first\n",
        );
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    for arguments in [
        &["show", "sandbox", "qr_codes"][..],
        &["snapshots", "sandbox"],
        &["diff", "sandbox@#1", "sandbox@live"],
        &["show", "sandbox", "--json"],
        &["backup", "sandbox"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = environment.command(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("panic") && !err.contains("error"), "{err}");
    }
}
