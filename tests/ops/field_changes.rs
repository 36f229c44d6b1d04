//! Fields that the service begins to send, stops sending, or sends with another type: reported once
//! by `backup`, listed by `doctor`, and a problem in `status`.

use linkvault::sandbox::Store;
use linkvault::sandbox::behaviour::{Booleans, CampaignList, Counts, Ids, Layout};
use serde_json::{Value, json};

use crate::support::{LiveService, TestEnvironment};

/// A service and an account with one backup.
fn backed_up() -> (LiveService, TestEnvironment) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    first_backup(&environment);
    (service, environment)
}

fn first_backup(environment: &TestEnvironment) {
    let first = environment.run(&["backup", "main"]).succeeds();
    assert!(!first.stderr().contains("the service"), "{}", first.stderr());
}

/// Sends `value` as the field `name` of every QR code; `None` drops the field.
fn send(service: &LiveService, name: &str, value: Option<Value>) {
    service.sandbox().mutate(|store: &mut Store| {
        for (_, code) in store.qr_codes.iter_mut() {
            match &value {
                Some(value) => code.extra.insert(name.to_owned(), value.clone()),
                None => code.extra.remove(name),
            };
        }
    });
}

/// The warnings of a backup, and `field_changes` of its document.
#[track_caller]
fn backup(environment: &TestEnvironment, flags: &[&str]) -> (Vec<String>, Value) {
    let run = environment.run(&[&["backup", "main", "--json", "-q"], flags].concat());
    let run = run.succeeds();
    let lines =
        run.stderr().lines().filter(|it| it.starts_with("warning")).map(str::to_owned).collect();
    (lines, run.json()["field_changes"].clone())
}

#[track_caller]
fn reports_nothing(environment: &TestEnvironment) {
    assert_eq!(backup(environment, &[]), (Vec::new(), json!([])));
}

#[test]
fn a_new_field_is_reported_once() {
    let (service, environment) = backed_up();
    send(&service, "folder", Some(json!("s3cret-value")));
    let (warnings, changes) = backup(&environment, &[]);
    assert_eq!(warnings, ["warning: the service now sends `folder` (text) for qr_codes"]);
    let change = json!({
        "resource": "qr_codes", "field": "folder", "change": "new", "types": ["text"],
    });
    assert_eq!(changes, json!([change]));
    let line = "  ok   fields    the service now sends `folder` (text) for qr_codes (found ";
    let doctor = environment.run(&["doctor", "main"]).succeeds().stdout_has(line);
    assert!(!doctor.stdout().contains("s3cret"), "{}", doctor.stdout());
    let status = environment.run(&["status", "main", "--json"]).exits_with(3).json();
    let problem = &status["accounts"][0]["problems"][0];
    assert_eq!(problem["kind"], "fields");
    assert_eq!(problem["message"], "the service now sends `folder` (text) for qr_codes");
    reports_nothing(&environment);
    environment.run(&["status", "main"]).succeeds();
    environment.run(&["doctor", "main"]).succeeds().stdout_has(line);
}

#[test]
fn a_dropped_field_and_another_type_are_reported_once() {
    let service = LiveService::start("", "");
    send(&service, "folder", Some(json!("a")));
    send(&service, "size", Some(json!(300)));
    let environment = TestEnvironment::new().account(&service.url());
    first_backup(&environment);
    send(&service, "folder", None);
    send(&service, "size", Some(json!({"width": 300})));
    let (warnings, changes) = backup(&environment, &[]);
    let dropped = "warning: the service no longer sends `folder` for qr_codes";
    let other = "warning: the service sends `size` as object instead of number for qr_codes";
    assert_eq!(warnings, [dropped, other]);
    let (size, folder) = (
        json!({"resource": "qr_codes", "field": "size", "change": "type_changed",
               "from": ["number"], "to": ["object"]}),
        json!({"resource": "qr_codes", "field": "folder", "change": "missing"}),
    );
    assert_eq!(changes, json!([size, folder]));
    reports_nothing(&environment);
    let found = environment.run(&["doctor", "main", "--json"]).succeeds().json();
    let findings = found["accounts"][0]["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(|it| it["what"] == "fields").count(), 2, "{findings:?}");
}

#[test]
fn a_field_of_the_table_with_a_value_that_does_not_fit_is_reported() {
    let (service, environment) = backed_up();
    send(&service, "name", Some(json!(["a"])));
    let (warnings, _) = backup(&environment, &[]);
    let line = "warning: the service sends `name` as list instead of text for qr_codes";
    assert!(warnings.iter().any(|it| it == line), "{warnings:?}");
}

#[test]
fn forms_that_alternate_are_reported_once_each() {
    let (service, environment) = backed_up();
    send(&service, "folder", Some(json!("a")));
    assert_eq!(backup(&environment, &[]).0.len(), 1);
    send(&service, "folder", None);
    assert_eq!(backup(&environment, &[]).0.len(), 1);
    for _ in 0..2 {
        send(&service, "folder", Some(json!("a")));
        reports_nothing(&environment);
        send(&service, "folder", None);
        reports_nothing(&environment);
    }
}

/// Live services mix these forms in one list, and from version to version.
#[test]
fn other_spellings_of_a_value_are_not_reported() {
    let service = LiveService::start("", "");
    send(&service, "size", Some(json!(300)));
    send(&service, "shared", Some(json!(true)));
    send(&service, "tags", Some(json!({"a": 1})));
    let environment = TestEnvironment::new().account(&service.url());
    first_backup(&environment);
    {
        let mut sandbox = service.sandbox();
        let behaviour = sandbox.behaviour_mut();
        (behaviour.ids, behaviour.counts) = (Ids::Strings, Counts::Strings);
        (behaviour.booleans, behaviour.layout) = (Booleans::Strings, Layout::Pretty);
        behaviour.campaign_list = CampaignList::Campaign;
    }
    send(&service, "size", Some(json!("300.5")));
    send(&service, "shared", Some(json!("1")));
    send(&service, "tags", Some(json!([])));
    reports_nothing(&environment);
    for name in ["size", "shared", "tags"] {
        send(&service, name, Some(Value::Null));
    }
    reports_nothing(&environment);
}

#[test]
fn a_field_of_some_records_is_not_reported_as_dropped() {
    let (service, environment) = backed_up();
    let set = |value: Option<&str>| {
        service.sandbox().mutate(|store| {
            let code = store.qr_codes.get_mut(2).unwrap();
            match value {
                Some(value) => code.extra.insert("expires".to_owned(), json!(value)),
                None => code.extra.remove("expires"),
            };
        });
    };
    set(Some("tomorrow"));
    assert_eq!(backup(&environment, &[]).0.len(), 1);
    set(None);
    reports_nothing(&environment);
}

#[test]
fn a_list_that_is_empty_or_new_reports_nothing() {
    let (service, environment) = backed_up();
    let mut codes = Vec::new();
    service.sandbox().mutate(|store| {
        store.splash.remove(1);
        store.splash.remove(2);
        codes.extend(store.overlays.iter().map(|(id, row)| (id, row.clone())));
        codes.iter().for_each(|(id, _)| drop(store.overlays.remove(*id)));
    });
    reports_nothing(&environment);
    service.sandbox().mutate(|store| {
        for (id, row) in codes {
            store.overlays.put(id, row);
        }
    });
    reports_nothing(&environment);
}

/// A list that fails reports nothing, and what it stored counts for the next complete reading.
#[test]
fn a_backup_that_lacks_a_list_leaves_its_changes_to_the_next() {
    let (service, environment) = backed_up();
    send(&service, "folder", Some(json!("a")));
    service.sandbox().behaviour_mut().max_limit = Some(5);
    let faults: Vec<_> = (2..20).map(|nth| format!("html@/api/qr#{nth}")).collect();
    service.faults(&faults.join(","));
    let partial = environment.run(&["backup", "main", "--json", "-q"]).exits_with(3).json();
    assert_eq!(partial["resources"]["qr_codes"]["changed"], 5, "{partial:#}");
    assert_eq!(partial["field_changes"], json!([]));
    service.faults("");
    environment.run(&["backup", "main", "--only", "campaigns", "-q"]).succeeds();
    let (warnings, _) = backup(&environment, &["--only", "qr_codes"]);
    assert_eq!(warnings, ["warning: the service now sends `folder` (text) for qr_codes"]);
    environment.run(&["status", "main", "--json"]).stdout_has("\"fields\"");
    reports_nothing(&environment);
    environment.run(&["status", "main"]).succeeds();
}

#[test]
fn skipped_and_forgotten_snapshots_do_not_repeat_a_report() {
    let (service, environment) = backed_up();
    send(&service, "folder", Some(json!("a")));
    assert_eq!(backup(&environment, &["--skip-if-unchanged"]).0.len(), 1);
    assert_eq!(backup(&environment, &["--skip-if-unchanged"]).0.len(), 0);
    environment.run(&["status", "main"]).succeeds();
    reports_nothing(&environment);
    environment.run(&["forget", "main", "--keep-last", "1", "--yes"]).succeeds();
    reports_nothing(&environment);
}

#[test]
fn a_change_that_a_run_meets_is_reported_by_the_next_backup() {
    let (service, environment) = backed_up();
    service.sandbox().mutate(|store| {
        for (_, campaign) in store.campaigns.iter_mut() {
            campaign.extra.insert("colour".to_owned(), json!("red"));
        }
    });
    let environment = environment.file("campaigns.csv", "name\nAutumn 2027\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    let (warnings, _) = backup(&environment, &[]);
    assert_eq!(warnings, ["warning: the service now sends `colour` (text) for campaigns"]);
}

/// Its backup is recorded, so no later one reports the change again.
#[test]
fn the_backup_of_a_rehearsal_reports_changes() {
    let (service, environment) = backed_up();
    send(&service, "folder", Some(json!("a")));
    let environment = environment.file("campaigns.csv", "name\nAutumn 2027\n");
    let run = ["rehearse", "campaigns.csv", "--to", "main", "--fresh"];
    let warning = "warning: the service now sends `folder` (text) for qr_codes\n";
    environment.run(&run).succeeds().stderr_has(warning);
    reports_nothing(&environment);
}

#[test]
fn hostile_names_are_escaped_and_bounded() {
    let (service, environment) = backed_up();
    service.sandbox().mutate(|store| {
        for (_, code) in store.qr_codes.iter_mut() {
            for nth in 0..2000 {
                code.extra.insert(format!("\u{1b}[2J\n{nth}{}", "x".repeat(100)), json!(nth));
            }
        }
    });
    let run = environment.run(&["backup", "main"]).succeeds();
    let warning = run.stderr();
    let warning = warning.lines().find(|it| it.contains("the service now sends")).unwrap();
    assert!(
        !warning.contains('\u{1b}') && warning.ends_with(" and 42 more for qr_codes"),
        "{warning}"
    );
    assert!(warning.len() < 1200, "{warning}");
    environment.run(&["doctor", "main"]).succeeds();
    reports_nothing(&environment);
}
