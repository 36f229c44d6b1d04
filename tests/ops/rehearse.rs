//! `rehearse`: what it reports, and that it changes nothing.

use linkvault::clock::{Clock, Interrupt, SystemClock};
use serde_json::{Value, json};

use super::apply::exported;
use crate::support::{LiveService, TestEnvironment};

const REHEARSE: [&str; 4] = ["rehearse", "sheets", "--to", "main"];

/// A CSV file with new campaigns.
fn new_campaigns(count: usize) -> String {
    let rows = (1..=count).map(|number| format!("Rehearsed {number}\n"));
    std::iter::once("name\n".to_owned()).chain(rows).collect()
}

fn states(document: &Value) -> Vec<&str> {
    let steps = document["steps"].as_array().unwrap().iter();
    steps.map(|step| step["state"].as_str().unwrap()).collect()
}

#[test]
fn a_rehearsal_reports_like_apply_and_changes_nothing() {
    let (environment, service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    let before = environment.files();
    let ran = environment.run(&REHEARSE).succeeds().fits();
    ran.stdout_is(
        "campaigns\n  ~ 4  Summer Sale\n      name: \"Summer Sale\" -> \"Autumn Sale\"\n\n\
         1 step: 1 update. 4 requests, less than a minute.\n\
         rehearsal for main: 1 done, 1 verified; 4 requests, 0.8 s\n",
    );
    let document = environment.run(&[&REHEARSE[..], &["--json"]].concat()).succeeds().json();
    assert_eq!(service.new_requests(), Vec::<String>::new());
    assert!(before == environment.files(), "a file has changed, or there is a new one");
    let (rehearsed, done) = (&document["rehearsed"], &document["done"]);
    assert_eq!((&document["account"], rehearsed, done), (&json!("main"), &json!(true), &json!(1)));
    let step = json!({
        "step": 1, "resource": "campaigns", "verb": "update", "key": "4", "state": "done",
        "message": null,
    });
    assert_eq!((&document["steps"], &document["unsupported"]), (&json!([step]), &json!([])));

    let apply = ["apply", "sheets", "--to", "main", "--yes", "--json"];
    let applied = environment.run(&apply).succeeds().json();
    for key in ["done", "refused", "skipped", "unknown", "verified", "requests", "problems"] {
        assert_eq!(document[key], applied[key], "{key}");
    }
    assert_eq!(applied["run"], 1);
}

#[test]
fn a_taken_name_is_refused_with_the_services_message() {
    let (environment, service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Newsletter");
    environment.edit("sheets/channels.csv", "#1F6F54", "#000000");
    let ran = environment.run(&REHEARSE).exits_with(3);
    ran.stdout_has(
        "step 1 (update campaign 4) refused: You already have a campaign with that name.\n\
         rehearsal for main: 1 done, 1 refused, 1 verified; ",
    );
    assert!(!environment.path("sheets/campaigns.rejected.csv").exists());
    let ran = environment.run(&[&REHEARSE[..], &["--json", "-q"]].concat()).exits_with(3);
    let document = ran.json();
    assert_eq!(states(&document), ["refused", "done"]);
    let message = &document["steps"][0]["message"];
    assert_eq!(message, "You already have a campaign with that name.");
    let first = environment.run(&[&REHEARSE[..], &["--json", "--fail-fast"]].concat());
    assert_eq!(states(&first.exits_with(3).json())[0], "refused");
    assert_eq!(service.new_requests(), Vec::<String>::new());
}

#[test]
fn records_beyond_a_cap_are_refused() {
    let (environment, service) = exported();
    environment.write("campaigns.csv", &new_campaigns(4));
    let rehearse = ["rehearse", "campaigns.csv", "--to", "main", "--json"];
    let document = environment.run(&rehearse).succeeds().json();
    assert_eq!(states(&document), ["done"; 4]);
    // The account has 8 campaigns.
    let capped = [&rehearse[..], &["--cap", "campaigns=10,qr_codes=0"]].concat();
    let document = environment.run(&capped).exits_with(3).json();
    assert_eq!(states(&document), ["done", "done", "refused", "refused"]);
    let message = &document["steps"][3]["message"];
    assert_eq!(message, "You have reach the maximum limit for this feature.");
    assert!(!environment.path("campaigns.rejected.csv").exists());
    for wrong in ["campaigns", "overlays=3", "campaigns=many", "campaigns=-1"] {
        environment.run(&[&rehearse[..], &["--cap", wrong]].concat()).exits_with(64);
    }
    assert_eq!(service.new_requests(), Vec::<String>::new());
}

#[test]
fn a_rehearsal_of_a_long_run_ends_at_once() {
    let (environment, _service) = exported();
    // If the service's limit is unknown, it is 30 a minute.
    std::fs::remove_file(environment.path("vaults/main.db.pace")).unwrap();
    environment.write("campaigns.csv", &new_campaigns(100));
    let rehearse = ["rehearse", "campaigns.csv", "--to", "main", "--json"];
    let watch = SystemClock::new(Interrupt::default());
    let document = environment.run(&rehearse).succeeds().json();
    assert!(watch.monotonic().as_secs() < 60, "it waited for real");
    let seconds = document["seconds"].as_f64().unwrap();
    // About 104 requests: three minutes of waiting, and 0.2 s for each response after that.
    assert!((180.0..190.0).contains(&seconds), "{seconds}");
    let kept = environment.run(&[&rehearse[..], &["--reserve", "5"]].concat()).succeeds().json();
    let seconds = kept["seconds"].as_f64().unwrap();
    assert!((240.0..250.0).contains(&seconds), "{seconds}");
    let plan = environment.run(&["plan", "campaigns.csv", "--to", "main", "--json"]).json();
    // The service has no limit. At 30 a minute, the account is confirmed in each further minute.
    assert_eq!(document["requests"].as_u64(), plan["requests"].as_u64().map(|it| it + 3));
    std::fs::remove_file(environment.path("vaults/main.db.pace")).unwrap();
    let slow = environment.run(&[&rehearse[..], &["--reserve", "20"]].concat()).succeeds().json();
    assert!(slow["seconds"].as_f64().unwrap() > 590.0, "{}", slow["seconds"]);
    let short = environment.run(&[&rehearse[..4], &["--max-duration", "2m"]].concat());
    short.exits_with(8).stderr_has("hint: it was a rehearsal; nothing was written\n");
}

#[test]
fn a_rehearsal_uses_the_reported_rate_limit() {
    let service = LiveService::start("rate-limit=600", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.write("campaigns.csv", &new_campaigns(100));
    let rehearse = ["rehearse", "campaigns.csv", "--to", "main", "--json"];
    let seconds = &environment.run(&rehearse).succeeds().json()["seconds"];
    assert!(seconds.as_f64().unwrap() < 30.0, "{seconds}");
}

#[test]
fn a_rehearsed_plan_can_still_be_applied() {
    let (environment, service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    environment.run(&["plan", "sheets", "--to", "main", "-o", "plan.json"]).succeeds();
    service.new_requests();
    let rehearse = ["rehearse", "plan.json", "--to", "main"];
    for _ in 0..2 {
        environment.run(&rehearse).succeeds().stdout_has("rehearsal for main: 1 done, 1 verified");
    }
    assert_eq!(service.new_requests(), Vec::<String>::new());
    let guarded = [&rehearse[..], &["--max-update", "0"]].concat();
    environment.run(&guarded).exits_with(5).stderr_has("the plan updates 1 of 8 campaigns");
    environment.run(&["apply", "plan.json", "--to", "main", "--yes", "-q"]).succeeds();
    environment.run(&rehearse).exits_with(4).stderr_has("this plan was applied already, in run 1");
}

#[test]
fn a_plan_that_contradicts_the_newest_snapshot_is_stale() {
    let (environment, service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    environment.run(&["plan", "sheets", "--to", "main", "-o", "plan.json"]).succeeds();
    service.sandbox().mutate(|store| store.campaigns.get_mut(4).unwrap().public = false);
    let rehearse = ["rehearse", "plan.json", "--to", "main"];
    environment.run(&rehearse).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&rehearse).exits_with(4).stderr_has("campaign 4 has changed since");
}

#[test]
fn rehearsed_codes_are_matched_by_their_sent_content() {
    let (environment, _service) = exported();
    environment.write("qr_codes.csv", "type,data,background\ntext,Hello,\"rgb(1,2,3)\"\n");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes", "-q"]).succeeds();
    let ran = environment.run(&["rehearse", "qr_codes.csv", "--to", "main"]).succeeds();
    ran.stdout_is("Nothing to do.\n");
    let document = environment.run(&["rehearse", "qr_codes.csv", "--to", "main", "--json"]);
    assert_eq!(document.succeeds().json()["steps"], json!([]));
}

#[test]
fn a_rehearsal_needs_neither_key_nor_lock() {
    let (environment, _service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    let lock = std::fs::File::open(environment.path("vaults/main.db.lock")).unwrap();
    lock.lock().unwrap();
    let mut command = environment.command(&REHEARSE);
    let output = command.env_remove("LINKS_KEY").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_built_in_account_is_rehearsed_too() {
    let environment = TestEnvironment::new();
    environment.write("campaigns.csv", &new_campaigns(3));
    let rehearse = ["rehearse", "campaigns.csv", "--to", "sandbox"];
    let ran = environment.run(&rehearse).exits_with(1);
    ran.stderr_is("error: sandbox has no vault yet\nhint: run `linkvault backup sandbox` first\n");
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let before = environment.files();
    environment.run(&rehearse).succeeds().stdout_has("rehearsal for sandbox: 3 done, 3 verified");
    assert!(before == environment.files(), "a file has changed, or there is a new one");
}

#[test]
fn rehearse_refuses_a_live_state() {
    let (environment, service) = exported();
    let ran = environment.run(&["rehearse", "main@live", "--to", "main"]).exits_with(64);
    ran.stderr_has("hint: run `linkvault backup main` first and name main@latest\n");
    environment
        .run(&["rehearse", "main@#1", "--to", "main"])
        .succeeds()
        .stdout_is("Nothing to do.\n");
    assert_eq!(service.new_requests(), Vec::<String>::new());
}

/// docs/csv.md and `plan` allow lists and objects as the content of a code; so does the sandbox.
#[test]
fn a_code_with_structured_data_is_rehearsed_as_planned() {
    let (environment, service) = exported();
    let rows = [
        r#"vcard,"{""name"":""Ada Lantern"",""email"":""ada@example.com""}""#,
        r#"wifi,"{""ssid"":""Reading room"",""encryption"":""WPA"",""password"":""books""}""#,
        r#"email,"{""email"":""ada@example.com"",""subject"":""Hello""}""#,
        r#"sms,"{""phone"":""+1-555-0100"",""message"":""Hello""}""#,
        r#"vcard,"[""Ada"",""Lantern""]""#,
        "text,{ is no object here",
    ];
    environment.write("qr_codes.csv", &format!("type,data\n{}\n", rows.join("\n")));
    let rehearse = ["rehearse", "qr_codes.csv", "--to", "main", "--json"];
    let document = environment.run(&rehearse).succeeds().json();
    assert_eq!((&document["done"], &document["refused"]), (&json!(6), &json!(0)), "{document:#}");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    assert_eq!(service.writes().len(), 6);
    // An update has no type; it is that of the code.
    let id = service.sandbox().store().qr_codes.iter().map(|(id, _)| id).max().unwrap() - 5;
    let update = format!("id,data\n{id},\"{{\"\"name\"\":\"\"Grace\"\"}}\"\n");
    environment.write("qr_codes.csv", &update);
    environment.run(&["rehearse", "qr_codes.csv", "--to", "main"]).succeeds();
    let strict = ["rehearse", "qr_codes.csv", "--to", "main", "--behaviour", "qr-data=lists"];
    environment.run(&strict).exits_with(3);
}

#[test]
fn a_rehearsal_names_its_snapshot_and_is_fresh_on_request() {
    let (environment, service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    environment.run(&REHEARSE).succeeds().stderr_has("main is copied as of snapshot #1 of 20");
    let document = environment.run(&[&REHEARSE[..], &["--json"]].concat()).succeeds().json();
    assert_eq!(document["snapshot"], 1);
    assert!(document["snapshot_time"].as_str().unwrap().starts_with("20"), "{document}");
    // The name was taken since the backup.
    service.sandbox().mutate(|store| store.add_campaign("autumn sale", None, false));
    environment.run(&REHEARSE).succeeds();
    assert_eq!(service.new_requests(), Vec::<String>::new());
    let ran = environment.run(&[&REHEARSE[..], &["--fresh"]].concat()).exits_with(3);
    ran.stderr_has("main is copied as of snapshot #2 of 20").stdout_has("1 refused");
    assert!(!service.new_requests().is_empty());
    assert_eq!(service.writes(), Vec::<String>::new());
}
