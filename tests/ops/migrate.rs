//! Migrations to a service of different behaviour.

use std::sync::Arc;

use linkvault::api::http::Method;
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::config::{AccountConfig, Config, Home};
use linkvault::ops::account_session::{AccountSession, SessionLimits};
use linkvault::ops::{Env, NoEvents};
use linkvault::progress::NoProgress;
use linkvault::sandbox::Store;
use serde_json::{Value, json};

use crate::support::{KEY, LiveService, TestEnvironment};

pub const OLD: &str = "ids=strings,booleans=integers,campaign-list=campaign,max-limit=7,\
                   rate-limit=300";
pub const NEW: &str = "names=lowered,create-status=201,pixel-answer=bare,campaign-create=name,\
                   channel-update=whole,result=total,rate-limit=2000";

/// Both accounts, configured as `old` and `new`.
pub fn environment(old: &LiveService, new: &LiveService) -> TestEnvironment {
    let account = |name: &str, service: &LiveService| {
        format!("[accounts.{name}]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", service.url())
    };
    let text = account("old", old) + &account("new", new);
    TestEnvironment::new().variable("LINKS_KEY", KEY).config(&text)
}

/// The old account has records of every resource; the new one is empty.
pub fn services() -> (LiveService, LiveService) {
    (LiveService::start(OLD, ""), LiveService::serving(Store::default(), NEW, ""))
}

pub const FILES: [&str; 6] =
    ["--links", "map.csv", "--qr-data", "codes.csv", "--qr-content", "link"];

/// Writes a file with the targets of all short links, and the content of two codes.
pub fn with_files(environment: TestEnvironment) -> TestEnvironment {
    let links: String = (1..200).map(|id| format!("{id},{}\n", id + 1000)).collect();
    let codes = "id,type,data\n1,link,https://lantern-books.example.com/hours\n\
                 6,phone,+1-555-0142\n";
    environment.file("map.csv", &format!("from,to\n{links}")).file("codes.csv", codes)
}

pub fn writes(service: &LiveService) -> usize {
    service.sandbox().log().iter().filter(|entry| entry.method != Method::Get).count()
}

pub fn migrate(environment: &TestEnvironment, more: &[&str]) -> crate::support::CommandOutput {
    environment.run(&[&["migrate", "old", "new"], &FILES[..], more].concat())
}

pub fn names(service: &LiveService, path: &str, list: &str, fields: &[&str]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
    let name = |record: &Value| fields.iter().map(|field| text(&record[*field])).collect();
    let mut all: Vec<String> = service.list(path, list).iter().map(name).collect();
    all.sort();
    all
}

/// The last segment of each rotator's address.
pub fn slugs(service: &LiveService) -> Vec<String> {
    let all = service.list("/api/campaigns", "campaigns");
    let slug = |it: &Value| it["rotator"].as_str()?.rsplit('/').next().map(str::to_owned);
    let mut all: Vec<_> = all.iter().filter_map(slug).collect();
    all.sort();
    all
}

/// Number of items in all channels of a service.
pub fn items(service: &LiveService) -> usize {
    let channels = service.list("/api/channels", "channels");
    let id = |channel: &Value| channel["id"].to_string().replace('"', "");
    let of =
        |channel: &Value| service.list(&format!("/api/channel/{}", id(channel)), "items").len();
    channels.iter().map(of).sum()
}

#[track_caller]
pub fn equals(old: &LiveService, new: &LiveService) {
    let campaign = ["name", "domain", "campaign"];
    for (path, list, fields) in [
        ("/api/domains", "domains", &["domain", "redirectroot", "redirect404"][..]),
        ("/api/campaigns", "campaigns", &campaign),
        ("/api/channels", "channels", &["name", "description", "color"]),
        ("/api/pixels", "pixels", &["type", "tag", "name"]),
    ] {
        assert_eq!(names(old, path, list, fields), names(new, path, list, fields), "{list}");
    }
    assert_eq!(old.list("/api/qr", "qrs").len(), new.list("/api/qr", "qrs").len());
}

#[test]
fn all_records_migrate_once_and_the_others_are_reported() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    let ran = migrate(&environment, &["--verify-only"]).exits_with(2);
    ran.stderr_has("new does not have all of old@#1: ")
        .stderr_has("without --verify-only does them");
    assert_eq!(writes(&new), 0);
    migrate(&environment, &["-n"]).exits_with(3).stdout_has("TO BE DONE BY HAND");
    let would = migrate(&environment, &["-n", "--json"]).exits_with(3).json();
    assert_eq!((&would["run"], would["requests"].as_u64() > Some(0)), (&Value::Null, true));
    assert_eq!(writes(&new), 0);

    let ran = migrate(&environment, &["--yes", "--json", "--report", "moved.md"]);
    let document = ran.exits_with(3).json();
    assert_eq!(would["resources"], document["resources"]);
    let counts = |document: &Value, name: &str| {
        let it = &document["resources"][name];
        ["created", "matched", "unchanged", "unsupported", "failed"]
            .map(|word| it[word].as_u64().unwrap())
    };
    assert_eq!(counts(&document, "domains"), [3, 0, 0, 0, 0], "{document:#}");
    assert_eq!(counts(&document, "campaigns"), [8, 0, 0, 0, 0]);
    assert_eq!(counts(&document, "channels"), [5, 0, 0, 0, 0]);
    assert_eq!(counts(&document, "qr_codes"), [12, 0, 0, 0, 0]);
    assert_eq!(counts(&document, "pixels"), [4, 0, 0, 0, 0]);
    assert_eq!(counts(&document, "overlays"), [0, 0, 0, 3, 0]);
    assert_eq!(counts(&document, "splash_pages"), [0, 0, 0, 2, 0]);
    let [made, _, _, bio, failed] = counts(&document, "channel_items");
    assert_eq!((bio, failed), (2, 0));
    assert_eq!(made as usize, items(&new));
    assert_eq!(items(&new) + 2, items(&old));
    assert_eq!((&document["run"], &document["account"]), (&json!(1), &json!("new")));
    assert_eq!(document["ids"]["campaigns"].as_object().unwrap().len(), 8);
    assert_eq!(document["ids"]["pixels"].as_object().unwrap().len(), 4);
    equals(&old, &new);
    assert_eq!(slugs(&old), slugs(&new));
    assert_eq!(slugs(&new).len(), 6);
    let id = |resource: &str, old: &str| document["ids"][resource][old].to_string();
    let window = new.list(&format!("/api/channel/{}", id("channels", "1")), "items");
    let mut found: Vec<_> = window
        .iter()
        .map(|item| format!("{}/{}", item["type"].as_str().unwrap(), item["id"]))
        .collect();
    found.sort();
    let mut wanted: Vec<_> = ["1", "2"].map(|code| format!("qr/{}", id("qr_codes", code))).into();
    wanted.push("links/1103".to_owned());
    wanted.sort();
    assert_eq!(found, wanted);
    assert_eq!(writes(&old), 0);

    let report = std::fs::read_to_string(environment.path("moved.md")).unwrap();
    for part in [
        "# Migration from old@\\#4 to new",
        "- campaigns: 8 created",
        "## To do by hand",
        "the API cannot create a CTA overlay",
        "## Old and new ids and addresses of qr codes",
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }

    let before = writes(&new);
    let again = migrate(&environment, &["--yes", "--json"]).exits_with(3).json();
    assert_eq!(again["run"], Value::Null);
    assert_eq!(counts(&again, "campaigns"), [0, 0, 8, 0, 0]);
    assert_eq!(counts(&again, "channel_items"), [0, 0, made, bio, 0]);
    assert_eq!(again["ids"], document["ids"]);
    assert_eq!(writes(&new), before);
    assert_eq!(old.throttled() + new.throttled(), 0);
    let ran = migrate(&environment, &["--verify-only"]).exits_with(2).fits();
    // Overlays and bio pages cannot be migrated, so the report is not free of warnings.
    ran.stderr_has("new has all of old@#").stdout_has("NOT VERIFIED");
}

#[test]
fn migrating_a_snapshot_number_sends_no_request_to_the_source() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    service.new_requests();
    let would = ["migrate", "1", "sandbox", "-n", "--json"];
    assert_eq!(environment.run(&would).exits_with(3).json()["from"], json!("main@#1"));
    assert_eq!(service.new_requests(), Vec::<String>::new());
}

#[test]
fn a_rename_in_the_source_is_one_update() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    // One campaign exists in the target already, with another id and a very similar name.
    new.sandbox().mutate(|store| {
        store.add_campaign("someone else's", None, false);
        store.add_campaign("newsletter", None, true);
    });
    let only = ["--only", "campaigns", "--yes", "--json", "--max-update", "100%"];
    let document = migrate(&environment, &only).succeeds().json();
    assert_eq!(document["resources"]["campaigns"]["created"], 7, "{document:#}");
    assert_eq!(document["ids"]["campaigns"]["3"], 2);
    old.sandbox().mutate(|store| {
        store.campaigns.get_mut(3).unwrap().name = "Letters from the shop".to_owned();
    });
    new.sandbox().clear_log();
    let document = migrate(&environment, &only).succeeds().json();
    let campaigns = &document["resources"]["campaigns"];
    assert_eq!((&campaigns["matched"], &campaigns["created"]), (&json!(1), &json!(0)));
    assert_eq!(writes(&new), 1);
    let campaign = ["name", "domain", "campaign"];
    let names = names(&new, "/api/campaigns", "campaigns", &campaign);
    assert_eq!(names.len(), 9);
    assert!(names.contains(&"letters from the shop".to_owned()), "{names:?}");
}

#[test]
fn values_that_linkvault_sent_to_the_source_are_migrated() {
    let (old, new) = services();
    new.sandbox().behaviour_mut().apply("assign-again=refuse").unwrap();
    let environment = environment(&old, &new)
        .file("campaign_links.csv", "campaign,link\n2,7\n2,9\n")
        .file("qr_codes.csv", "type,data,foreground\ntext,Riddle,\"rgb(1,2,3)\"\n")
        .file("map.csv", "from,to\n7,1007\n");
    for file in ["campaign_links.csv", "qr_codes.csv"] {
        environment.run(&["import", file, "--to", "old", "--yes", "-q"]).succeeds();
    }
    old.sandbox().clear_log();
    let arguments =
        ["migrate", "old", "new", "--only", "campaigns,qr_codes", "--links", "map.csv", "--yes"];
    let document = environment.run(&[&arguments[..], &["--json"]].concat()).exits_with(3).json();
    let counts = |name: &str, word: &str| document["resources"][name][word].as_u64().unwrap();
    assert_eq!((counts("qr_codes", "created"), counts("qr_codes", "unsupported")), (1, 12));
    let links = ["created", "unsupported"].map(|word| counts("campaign_links", word));
    assert_eq!(links, [1, 1], "{document:#}");
    let manual = document["manual"].as_array().unwrap();
    assert!(manual.iter().any(|it| it["id"] == "2/links/9"), "{document:#}");
    let campaign = &document["ids"]["campaigns"]["2"];
    let log = new.sandbox().log().clone();
    let assigned = format!("/api/campaign/{campaign}/assign/1007");
    assert_eq!(log.iter().filter(|entry| entry.path == assigned).count(), 1);
    let created = log.iter().find(|entry| entry.path == "/api/qr/add").unwrap();
    let body: Value = serde_json::from_slice(created.body.as_ref().unwrap()).unwrap();
    let sent = json!({"type": "text", "data": "Riddle", "foreground": "rgb(1,2,3)"});
    assert_eq!(body, sent);
    assert_eq!(writes(&old), 0);
    environment.run(&[&arguments[..7], &["--verify-only"]].concat()).exits_with(2);

    // No list shows that another user has added the other link.
    let id = campaign.as_u64().unwrap();
    new.sandbox().mutate(|store| {
        store.campaigns.get_mut(id).unwrap().members.insert(1009);
    });
    environment.write("map.csv", "from,to\n7,1007\n9,1009\n");
    let document = environment.run(&[&arguments[..], &["--json"]].concat()).exits_with(3).json();
    assert_eq!(document["resources"]["campaign_links"]["created"], 1, "{document:#}");
    environment.run(&[&arguments[..7], &["--verify-only"]].concat()).exits_with(2);
}

#[test]
fn refused_records_are_reported_and_migrate_later() {
    let (old, new) = services();
    let environment = environment(&old, &new);
    new.sandbox().behaviour_mut().cap_campaigns = Some(5);
    let arguments = ["migrate", "old", "new", "--only", "campaigns", "--yes", "--json"];
    let document = environment.run(&[&arguments[..], &["--report", "r.md"]].concat());
    let document = document.exits_with(3).json();
    let campaigns = &document["resources"]["campaigns"];
    assert_eq!((&campaigns["created"], &campaigns["failed"]), (&json!(5), &json!(3)));
    let failed = &document["failed"][0];
    assert_eq!(failed["resource"], "campaigns");
    let reason = failed["reason"].as_str().unwrap();
    assert!(!reason.is_empty() && !reason.contains("not created yet"), "{reason}");
    let report = std::fs::read_to_string(environment.path("r.md")).unwrap();
    assert!(report.contains("## Not done") && report.contains(reason), "{report}");
    environment.run(&[&arguments[..5], &["--verify-only"]].concat()).exits_with(2);
    new.sandbox().behaviour_mut().cap_campaigns = None;
    let document = environment.run(&arguments).succeeds().json();
    let campaigns = &document["resources"]["campaigns"];
    assert_eq!((&campaigns["created"], &campaigns["unchanged"]), (&json!(3), &json!(5)));
}

#[test]
fn a_saved_migration_plan_can_be_applied_later() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    new.sandbox().mutate(|store| store.add_campaign("press", None, false));
    migrate(&environment, &["-o", "plan.json"]).succeeds();
    assert_eq!(writes(&new), 0);
    environment.run(&["apply", "plan.json", "--to", "new", "--yes"]).succeeds();
    equals(&old, &new);
    migrate(&environment, &["--verify-only"]).exits_with(2);
    let ids = environment.sqlite("new");
    let count: i64 = ids
        .query_row(
            "SELECT count(*) FROM id_map WHERE origin <> '' AND resource = 'campaigns'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(count, 8);
}

#[test]
fn contradictory_options_are_refused_before_anything_is_read() {
    let (old, new) = services();
    let environment = environment(&old, &new);
    for (flag, value, why) in [
        ("--set", "campaigns.list:a=b", "allowed are name, public, slug"),
        ("--set", "overlays.name:a=b", "`overlays` is not a resource that can be moved"),
        ("--where", "campaigns.name~(", "invalid pattern"),
    ] {
        environment.run(&["migrate", "old", "new", flag, value]).exits_with(64).stderr_has(why);
    }
    let environment = environment.file("map.csv", "from,to\n1,x\n");
    let ran = environment.run(&["migrate", "old", "new", "--links", "map.csv"]);
    ran.exits_with(1).stderr_has("map.csv:2: to: is not an id");
    let environment = environment.file("codes.csv", "id,type,data\n,text,hi\n");
    let ran = environment.run(&["migrate", "old", "new", "--qr-data", "codes.csv"]);
    ran.exits_with(1).stderr_has("codes.csv:2: id: is missing");
    for file in ["nowhere/r.md", "."] {
        let ran = environment.run(&["migrate", "old", "new", "--yes", "--report", file]);
        ran.exits_with(1).stderr_has("cannot write").stderr_has("name another file");
    }
    environment.run(&["migrate", "old", "old"]).exits_with(64).stderr_has("to itself");
    assert_eq!(old.request_count() + new.request_count(), 0);
}

#[test]
fn suspicious_contents_of_qr_codes_are_a_warning() {
    let (old, new) = services();
    let environment = environment(&old, &new);
    let environment = environment.file("codes.csv", "id,type,data\n1,link,example.com\n");
    let ran = environment.run(&["migrate", "old", "new", "--qr-data", "codes.csv", "-n"]);
    let warning = "warning: codes.csv:2: data: `example.com` is a web address without http://";
    assert_eq!(ran.stderr().matches(warning).count(), 1, "{}", ran.stderr());
}

#[test]
fn an_account_under_two_names_is_not_moved_to_itself() {
    let (old, _) = services();
    let environment = environment(&old, &old);
    for more in ["--yes", "--dry-run", "--verify-only"] {
        let ran = environment.run(&["migrate", "old", "new", more]).exits_with(64);
        ran.stderr_has("are the same account");
    }
    assert_eq!(writes(&old), 0);
}

#[test]
fn an_error_of_a_migration_names_the_account_that_caused_it() {
    let (old, new) = services();
    let account = |name: &str, service: &LiveService| {
        format!("[accounts.{name}]\nurl = \"{}\"\nkey_env = \"{name}\"\n", service.url())
    };
    let text = account("old", &old) + &account("new", &new);
    let environment = TestEnvironment::new().variable("old", KEY).variable("new", "x");
    let environment = environment.config(&text);
    let ran = environment.run(&["migrate", "old", "new", "--yes"]);
    ran.exits_with(7).stderr_has("new: GET /api/account: the key was not accepted");
    let environment = environment.variable("old", "x");
    let ran = environment.run(&["migrate", "old", "new", "--yes"]);
    ran.exits_with(7).stderr_has("old: GET /api/account: the key was not accepted");
    assert_eq!(writes(&old) + writes(&new), 0);
}

#[test]
fn resources_missing_from_the_target_are_reported_and_not_sent() {
    let (old, new) = services();
    new.sandbox().behaviour_mut().apply("not-offered=qr").unwrap();
    let environment = with_files(environment(&old, &new));
    let document = migrate(&environment, &["--yes", "--json"]).exits_with(3).json();
    let counts = |name: &str, word: &str| document["resources"][name][word].as_u64().unwrap();
    assert_eq!(["created", "unsupported"].map(|word| counts("qr_codes", word)), [0, 12]);
    assert_eq!(counts("channel_items", "failed"), 0, "{document:#}");
    let tried = new.sandbox().log().iter().filter(|it| it.path == "/api/qr/add").count();
    assert_eq!(tried, 0);
    migrate(&environment, &["--verify-only"]).exits_with(2);
}

#[test]
fn excluded_records_and_flags_without_effect_are_reported() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    let wheres = ["--where", "campaigns.name~^Spring", "--where", "channels.name~^Nothing"];
    let more =
        [&wheres[..], &["--skip", "domains", "--yes", "--json", "--report", "r.md"]].concat();
    let ran = migrate(&environment, &more).exits_with(3);
    let ran = ran.stderr_has("--where channels.name~^Nothing matches none of 5 channels");
    let left_out = &ran.json()["left_out"];
    let records = json!({"campaigns": 7, "channels": 5, "channel_items": 14});
    assert_eq!(left_out, &json!({"records": records, "resources": ["domains"]}));
    let report = std::fs::read_to_string(environment.path("r.md")).unwrap();
    assert!(
        report.contains("## Excluded by options\n\n- campaigns: 7, excluded by `--where`"),
        "{report}"
    );
    let ran = migrate(&environment, &[&wheres[..], &["--verify-only"]].concat());
    ran.exits_with(2).stdout_has("excluded by options: 7 campaigns, 5 channels, 14 channel_items");
}

#[test]
fn a_subset_of_a_snapshot_migrates_under_other_names() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    environment.run(&["backup", "old", "-q", "--stats", "none"]).succeeds();
    let before = old.request_count();
    let arguments = [
        "migrate",
        "old@latest",
        "new",
        "--only",
        "campaigns,domains",
        "--where",
        "campaigns.name~^S",
        "--set",
        "campaigns.name:Summer=Winter",
        "--set",
        "domains.domain:https://go.lantern-books=https://to.lantern",
        "--yes",
        "-q",
    ];
    environment.run(&arguments).succeeds();
    assert_eq!(old.request_count(), before, "a snapshot needs no request");
    let campaign = ["name", "domain", "campaign"];
    let found = names(&new, "/api/campaigns", "campaigns", &campaign);
    assert_eq!(found, ["spring reading list", "winter sale"]);
    let domains = names(&new, "/api/domains", "domains", &["domain"]);
    assert!(domains.contains(&"https://to.lantern.example.com".to_owned()), "{domains:?}");
}

/// The form `--set domain:old=new`.
#[test]
fn a_substitution_may_omit_resource_and_scheme_of_a_domain() {
    let (old, new) = services();
    let environment = environment(&old, &new);
    let set = "domain:go.lantern-books.example.com=go.new.example";
    let arguments = ["migrate", "old", "new", "--only", "domains", "--set", set, "--yes", "-q"];
    environment.run(&arguments).succeeds();
    let domains = names(&new, "/api/domains", "domains", &["domain"]);
    assert!(domains.contains(&"https://go.new.example".to_owned()), "{domains:?}");
    assert!(environment.run(&arguments).succeeds().stderr().is_empty());
    assert_eq!(writes(&new), domains.len());
}

#[test]
fn a_saved_migration_plan_can_be_rehearsed() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    migrate(&environment, &["-o", "plan.json"]).succeeds();
    let rehearse = ["rehearse", "plan.json", "--to", "new"];
    let ran = environment.run(&rehearse).exits_with(1);
    ran.stderr_has("hint: run `linkvault backup new` first");
    environment.run(&["backup", "new", "-q", "--stats", "none"]).succeeds();
    let requests = new.request_count();
    let document = environment.run(&[&rehearse[..], &["--json"]].concat()).succeeds().json();
    let steps = document["steps"].as_array().unwrap().len();
    assert!(steps > 40 && document["done"] == json!(steps), "{document:#}");
    assert_eq!(document["verified"], json!(steps));
    let rules = "dns=missing,rate-limit=60";
    let document = environment.run(&[&rehearse[..], &["--json", "--behaviour", rules]].concat());
    let document = document.exits_with(3).json();
    assert_eq!(document["refused"], 3, "{document:#}");
    assert!(document["seconds"].as_f64().unwrap() > 50.0, "{}", document["seconds"]);
    let wrong = environment.run(&[&rehearse[..], &["--behaviour", "resullt=total"]].concat());
    wrong.exits_with(64).stderr_has("did you mean `result`?").fits();
    assert_eq!((new.request_count(), writes(&old), writes(&new)), (requests, 0, 0));
    environment.run(&["apply", "plan.json", "--to", "new", "--yes", "-q"]).succeeds();
    migrate(&environment, &["--verify-only"]).exits_with(2);
}

/// No option of a migration changes the source.
#[test]
fn the_source_is_opened_read_only() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    for more in [&["-n"][..], &["-o", "plan.json"], &["--verify-only"], &["--yes"], &["--yes"]] {
        migrate(&environment, more);
    }
    assert!(writes(&new) > 30);
    assert_eq!(writes(&old), 0);

    // Its transport would refuse writes.
    let key = environment.file("key", KEY).mode("key", 0o600);
    let text = format!("[accounts.old]\nurl = \"{}\"\nkey_file = \"key\"\n", old.url());
    let home = Home::at(&key.path(""));
    let config = Config::parse(&home, text.as_bytes()).unwrap();
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let env = Env::new(clock, Arc::new(NoEvents));
    let account = config.account("old").unwrap();
    let before = old.request_count();
    let body = || Some(br#"{"name":"x"}"#.to_vec());
    let open = |account: &AccountConfig| {
        let words = "migrate";
        AccountSession::open_to_read(
            &env,
            account,
            &words.into(),
            &SessionLimits::default(),
            Arc::new(NoProgress),
        )
        .unwrap()
    };
    let mut session = open(&account);
    for (method, path) in [
        (Method::Post, "/api/campaign/add"),
        (Method::Put, "/api/campaign/1/update"),
        (Method::Delete, "/api/campaign/1/delete"),
    ] {
        let error = session.client.send_once(method, path, body()).unwrap_err();
        assert!(error.to_string().contains("this account is only read"), "{error}");
        assert!(!error.has_unknown_outcome());
    }
    assert_eq!(old.request_count(), before, "nothing left for the network");
    session.client.get("/api/account").unwrap();
}
