//! Guards against plans that change or delete more than intended.

use linkvault::sandbox::Store;

use crate::support::{LiveService, TestEnvironment};

/// Twenty campaigns, backed up and exported to `sheets`.
fn twenty_campaigns() -> (TestEnvironment, LiveService) {
    let mut store = Store::default();
    for nth in 1..=20 {
        store.add_campaign(&format!("Campaign {nth}"), None, true);
    }
    let service = LiveService::serving(store, "", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    service.new_requests();
    (environment, service)
}

/// The sheet without its first `count` rows.
fn drop_rows(environment: &TestEnvironment, count: usize) {
    let text = environment.text("sheets/campaigns.csv");
    let lines = text.lines().take(1).chain(text.lines().skip(1 + count));
    environment.write("sheets/campaigns.csv", &lines.collect::<Vec<_>>().join("\n"));
}

fn campaign_count(service: &LiveService) -> usize {
    service.sandbox().store().campaigns.len()
}

const APPLY: [&str; 5] = ["apply", "sheets", "--to", "main", "--yes"];

fn apply(environment: &TestEnvironment, more: &[&str]) -> crate::support::CommandOutput {
    environment.run(&[&APPLY[..], more].concat())
}

#[test]
fn every_delete_needs_a_flag() {
    let (environment, service) = twenty_campaigns();
    drop_rows(&environment, 3);
    let ran = apply(&environment, &[]).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!(service.writes(), Vec::<String>::new());
    let told = "Not in sheets, and left as they are: 3 records of campaigns; \
                --delete deletes them\n";
    ran.stderr_has(told);
    environment.run(&["plan", "sheets", "--to", "main"]).succeeds().stderr_has(told);
    let ran = apply(&environment, &["--delete"]).succeeds().stdout_has("3 done, 3 verified");
    assert!(!ran.stderr().contains("left as they are"), "{}", ran.stderr());
    assert_eq!(campaign_count(&service), 17);
}

#[test]
fn too_many_deletes_are_refused_with_numbers_limit_and_flag() {
    let (environment, service) = twenty_campaigns();
    drop_rows(&environment, 7);
    let refused = "error: the plan exceeds a limit; nothing was written\n  \
                   the plan deletes 7 of 20 campaigns; the limit is 6 (30%)\n\
                   hint: review the plan; if the changes are intended, add --max-delete 7\n";
    apply(&environment, &["--delete", "-q"]).exits_with(5).stderr_is(refused);
    apply(&environment, &["--delete", "-n"]).exits_with(5);
    let document = apply(&environment, &["--delete", "--json"]).exits_with(5).json();
    assert_eq!(document["error"]["kind"], "guard");
    apply(&environment, &["--delete", "--max-delete", "6"]).exits_with(5);
    assert_eq!((service.writes().len(), campaign_count(&service)), (0, 20));
    let plan = ["plan", "sheets", "--to", "main", "--delete", "-o", "plan.json"];
    environment.run(&plan).succeeds().stderr_has("warning: `apply` will refuse this plan:\n");
    let saved = ["apply", "plan.json", "--to", "main", "--yes"];
    environment.run(&saved).exits_with(5).stderr_has("--max-delete 7");
    apply(&environment, &["--delete", "--max-delete", "7"]).succeeds();
    assert_eq!(campaign_count(&service), 13);
}

#[test]
fn too_many_updates_are_refused_with_numbers_limit_and_flag() {
    let (environment, service) = twenty_campaigns();
    let text = environment.text("sheets/campaigns.csv").replace("Campaign 1", "Kampagne 1");
    environment.write("sheets/campaigns.csv", &text);
    let ran = apply(&environment, &[]).exits_with(5);
    ran.stderr_has(
        "the plan updates 11 of 20 campaigns; the limit is 6 (30%)\n\
         hint: review the plan; if the changes are intended, add --max-update 11\n",
    );
    assert_eq!(service.writes(), Vec::<String>::new());
    apply(&environment, &["--max-update", "60%"]).succeeds().stdout_has("11 done");
    assert_eq!(service.writes().len(), 11);
}

#[test]
fn an_empty_file_deletes_nothing() {
    let (environment, service) = twenty_campaigns();
    let header = environment.text("sheets/campaigns.csv").lines().next().unwrap().to_owned();
    for text in [header.as_str(), "id,name\n", ""] {
        environment.write("sheets/campaigns.csv", text);
        let ran = apply(&environment, &["--delete", "--max-delete", "100%"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{text:?}: {}", ran.stderr());
        assert_eq!((service.writes().len(), campaign_count(&service)), (0, 20), "{text:?}");
    }
}

#[test]
fn a_missing_file_of_an_export_deletes_nothing() {
    let (environment, service) = twenty_campaigns();
    std::fs::remove_file(environment.path("sheets/campaigns.csv")).unwrap();
    let ran = apply(&environment, &["--delete", "--max-delete", "100%"]).succeeds();
    ran.stderr_has("sheets/campaigns.csv is missing; its records are left unchanged");
    assert_eq!((service.writes().len(), campaign_count(&service)), (0, 20));
}

#[test]
fn a_single_file_does_not_delete_records_that_it_omits() {
    let (environment, service) = twenty_campaigns();
    environment.write("campaigns.csv", "id,name\n3,Renamed\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--delete"];
    environment.run(&import).succeeds();
    assert_eq!(service.writes(), ["PUT /api/campaign/3/update"]);
}

#[test]
fn unread_resources_are_neither_planned_nor_deleted() {
    let (environment, service) = twenty_campaigns();
    drop_rows(&environment, 3);
    service.faults("html@/api/campaigns");
    for command in ["plan", "apply"] {
        let ran = environment.run(&[command, "sheets", "--to", "main", "--delete"]).exits_with(1);
        ran.stderr_has("error: campaigns could not be read completely: ")
            .stderr_has("nothing was planned or written");
    }
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn restoring_a_partial_snapshot_deletes_no_unread_records() {
    let (environment, service) = twenty_campaigns();
    service.sandbox().mutate(|store| store.add_campaign("New", None, true));
    service.faults("html@/api/campaigns");
    environment.run(&["backup", "-q"]).exits_with(3);
    service.faults("");
    let restore = ["restore", "latest", "--to", "main", "--delete", "--yes"];
    environment.run(&restore).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!((service.writes().len(), campaign_count(&service)), (0, 21));
}

#[test]
fn a_guard_is_a_count_or_a_percentage() {
    let (environment, _service) = twenty_campaigns();
    for wrong in ["-1", "x", "101%", ""] {
        apply(&environment, &["--max-delete", wrong]).exits_with(64);
    }
}

#[test]
fn a_csv_file_without_delete_prints_that_it_deletes_nothing() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.write("channels.csv", "name\nSocial\n");
    let plan = ["plan", "channels.csv", "--to", "sandbox", "-q", "--delete"];
    let ran = environment.run(&plan).succeeds().stdout_is("Nothing to do.\n");
    ran.stderr_has(
        "warning: channels.csv deletes nothing: records that a CSV file omits are not deleted",
    );
    environment.run(&plan[..5]).succeeds().stderr_is("");
}
