//! Applying an edited export: plan, apply, conflicts.

use serde_json::{Value, json};

use crate::support::{KEY, LiveService, TestEnvironment};

/// The sample account, backed up and exported to the folder `sheets`.
pub(super) fn exported() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    service.new_requests();
    (environment, service)
}

/// The sample account, with one campaign renamed in the export.
fn edited() -> (TestEnvironment, LiveService) {
    let (environment, service) = exported();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    (environment, service)
}

fn keys(document: &Value) -> Vec<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

#[track_caller]
fn has(document: &Value, wanted: &[&str]) {
    let keys = keys(document);
    for key in wanted {
        assert!(keys.contains(key), "{key} is not among {keys:?}");
    }
}

fn name(service: &LiveService, id: u64) -> String {
    service.sandbox().store().campaigns.get(id).unwrap().name.clone()
}

const ONE_STEP: &str = "\
campaigns
  ~ 4  Summer Sale
      name: \"Summer Sale\" -> \"Autumn Sale\"

1 step: 1 update. 4 requests, less than a minute.
";

#[test]
fn an_edited_cell_is_planned_applied_verified_and_undone() {
    let (environment, service) = edited();
    environment.run(&["plan", "sheets", "--to", "main", "-q"]).succeeds().stderr_is("");
    environment.run(&["plan", "sheets", "--to", "main"]).succeeds().fits().stdout_is(ONE_STEP);
    assert_eq!(service.writes(), Vec::<String>::new());
    let ran = environment.run(&["apply", "sheets", "--to", "main", "--yes"]).succeeds().fits();
    let told = "run 1 of main: 1 done, 1 verified; 4 requests\n";
    let ran = ran.stdout_is(&format!("{ONE_STEP}{told}"));
    ran.stderr_has("`linkvault undo main 1` reverts it as far as the API allows\n");
    assert_eq!(service.writes(), ["PUT /api/campaign/4/update"]);
    assert_eq!(name(&service, 4), "Autumn Sale");
    let log = environment.run(&["log", "main", "campaigns", "4"]).succeeds().fits();
    log.stdout_has("~ campaigns 4\n    name: \"Summer Sale\" -> \"Autumn Sale\"\n");
    environment.run(&["plan", "sheets", "--to", "main"]).succeeds().stdout_is("Nothing to do.\n");
    let runs = environment.run(&["runs", "main"]).succeeds().fits().stdout();
    let row: Vec<_> = runs.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], &row[3..]), ("1", &["apply", "sheets", "complete", "1", "done"][..]));

    let undone = environment.run(&["undo", "main", "1", "--yes"]).succeeds().fits();
    undone.stdout_has("name: \"Autumn Sale\" -> \"Summer Sale\"");
    assert_eq!(name(&service, 4), "Summer Sale");
    environment.run(&["diff", "main@#1", "main", "--detailed-exitcode"]).succeeds();
}

#[test]
fn one_edited_record_takes_two_requests_to_plan_and_four_to_apply() {
    let (environment, service) = edited();
    environment.run(&["plan", "sheets", "--to", "main", "-o", "plan.json"]).succeeds();
    let read = ["/api/account", "/api/campaigns?limit=1000&page=1"];
    assert_eq!(service.new_requests(), read);
    environment.run(&["apply", "plan.json", "--to", "main", "--yes"]).succeeds();
    let all = [&read[..], &["/api/campaign/4/update"], &read[1..]].concat();
    assert_eq!(service.new_requests(), all);
    // A plan in the same command takes none of its own.
    let (environment, service) = edited();
    environment.run(&["apply", "sheets", "--to", "main", "--yes"]).succeeds();
    assert_eq!(service.new_requests(), all);
}

#[test]
fn the_estimate_of_a_plan_equals_its_requests() {
    let (environment, service) = edited();
    let plan = environment.run(&["plan", "sheets", "--to", "main", "--json"]).succeeds().json();
    service.new_requests();
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--json"];
    let applied = environment.run(&apply).succeeds().json();
    let made = service.new_requests().len();
    assert_eq!((&plan["requests"], &applied["requests"]), (&made.into(), &made.into()));
}

#[test]
fn the_estimate_of_a_restore_equals_its_requests() {
    let (environment, service) = exported();
    service.sandbox().mutate(|store| {
        store.channels.remove(1);
        store.channels.get_mut(2).unwrap().items.pop().unwrap();
        store.campaigns.remove(4);
    });
    let more = ["--to", "main", "--json"];
    let plan = environment.run(&[&["plan", "main@#1"], &more[..]].concat()).succeeds().json();
    service.new_requests();
    let restore = [&["restore", "#1", "--yes"], &more[..]].concat();
    let applied = environment.run(&restore).succeeds().json();
    let made = service.new_requests().len();
    assert_eq!((&plan["requests"], &applied["requests"]), (&made.into(), &made.into()));
}

#[test]
fn the_document_of_a_plan_has_the_documented_keys() {
    let (environment, _service) = edited();
    let document = environment.run(&["plan", "sheets", "--to", "main", "--json"]).succeeds().json();
    has(&document, &["account", "steps", "unsupported", "requests", "seconds"]);
    assert_eq!(document["account"], "main");
    assert_eq!(document["steps"].as_array().unwrap().len(), 1);
    let step = &document["steps"][0];
    has(step, &["resource", "verb", "key", "before", "after", "reversible"]);
    assert_eq!((&step["resource"], &step["verb"]), (&"campaigns".into(), &"update".into()));
    assert_eq!((&step["key"], &step["reversible"]), (&"4".into(), &true.into()));
    assert_eq!(step["before"], json!({"name": "Summer Sale"}));
    assert_eq!(step["after"], json!({"name": "Autumn Sale"}));
    assert_eq!((&document["unsupported"], &document["requests"]), (&json!([]), &json!(4)));
    assert!(document["seconds"].is_number());
}

#[test]
fn unsupported_changes_are_in_the_plan_with_their_reasons() {
    let (environment, _service) = exported();
    environment.edit("sheets/pixels.csv", "Search ads", "Other ads");
    let plan = ["plan", "sheets", "--to", "main"];
    let document = environment.run(&[&plan[..], &["--json"]].concat()).succeeds().json();
    let unsupported = &document["unsupported"][0];
    has(unsupported, &["resource", "key", "reason"]);
    assert_eq!((&unsupported["resource"], &unsupported["key"]), (&"pixels".into(), &"4".into()));
    assert!(unsupported["reason"].as_str().unwrap().contains("pixel"), "{unsupported}");
    let shown = environment.run(&plan).succeeds();
    shown.stdout_has("Not supported:\n  sheets/pixels.csv:5: pixels 4: ");
}

#[test]
fn the_document_of_an_apply_has_the_documented_keys() {
    let (environment, _service) = edited();
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--json"];
    let document = environment.run(&apply).succeeds().json();
    let numbers = ["done", "refused", "skipped", "unknown", "verified"];
    has(&document, &["account", "run", "requests"]);
    let counts: Vec<_> = numbers.iter().map(|key| document[key].as_u64().unwrap()).collect();
    assert_eq!((&document["account"], &document["run"]), (&"main".into(), &1.into()));
    assert_eq!(counts, [1, 0, 0, 0, 1]);
    let empty = environment.run(&apply).succeeds().json();
    has(&empty, &["account", "run", "requests"]);
    has(&empty, &numbers);
    assert_eq!((&empty["run"], &empty["done"]), (&Value::Null, &0.into()));
}

#[test]
fn a_plan_with_steps_exits_with_2_with_the_flag() {
    let (environment, _service) = edited();
    let plan = ["plan", "sheets", "--to", "main", "--detailed-exitcode"];
    environment.run(&plan).exits_with(2);
    environment.run(&["apply", "sheets", "--to", "main", "-y"]).succeeds();
    environment.run(&plan).exits_with(0);
}

#[test]
fn a_plan_can_be_printed_as_markdown() {
    let (environment, _service) = edited();
    let plan = ["plan", "sheets", "--to", "main", "--form", "markdown"];
    environment.run(&plan).succeeds().stdout_is(
        "### campaigns\n\n| | record | name | field | before | after |\n|---|---|---|---|---|---|\n\
         | update | 4 | Summer Sale | name | \"Summer Sale\" | \"Autumn Sale\" |\n\n\
         1 step: 1 update. 4 requests, less than a minute.\n",
    );
}

#[test]
fn an_unedited_export_changes_nothing() {
    let (environment, service) = exported();
    environment.run(&["apply", "sheets", "--to", "main"]).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!(service.writes(), Vec::<String>::new());
    let json = ["export", "main", "--to", "json", "--format", "json", "-q"];
    environment.run(&json).succeeds();
    let apply = ["apply", "json/export.json", "--to", "main"];
    environment.run(&apply).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn a_dry_run_of_an_empty_plan_with_json_is_a_plan() {
    let (environment, _service) = exported();
    let ran = environment.run(&["apply", "sheets", "--to", "main", "-n", "--json"]).succeeds();
    let document = ran.json();
    assert_eq!((&document["dry_run"], &document["steps"]), (&true.into(), &json!([])));
}

#[test]
fn only_edited_cells_are_sent() {
    let (environment, service) = edited();
    service.sandbox().mutate(|store| {
        store.campaigns.get_mut(4).unwrap().public = false;
        store.campaigns.get_mut(5).unwrap().name = "Reading Club".to_owned();
        store.campaigns.remove(6);
        store.add_campaign("Somebody else's", None, true);
    });
    environment.run(&["apply", "sheets", "--to", "main", "--yes", "--delete"]).succeeds();
    assert_eq!(service.writes(), ["PUT /api/campaign/4/update"]);
    let service = service.sandbox();
    let four = service.store().campaigns.get(4).unwrap();
    assert_eq!((four.name.as_str(), four.public), ("Autumn Sale", false));
    assert_eq!(service.store().campaigns.get(5).unwrap().name, "Reading Club");
    assert_eq!(service.store().campaigns.len(), 8);
}

/// Campaign 4 is renamed in the export and on the service.
fn conflict() -> (TestEnvironment, LiveService) {
    let (environment, service) = edited();
    let theirs = "Winter Sale".to_owned();
    service.sandbox().mutate(|store| store.campaigns.get_mut(4).unwrap().name = theirs);
    (environment, service)
}

#[test]
fn a_cell_that_changed_on_both_sides_is_a_conflict_and_nothing_is_written() {
    let (environment, service) = conflict();
    for command in ["plan", "apply"] {
        let ran = environment.run(&[command, "sheets", "--to", "main"]).exits_with(4).stdout_is("");
        ran.fits()
            .stderr_has(
                "error: a value that the plan changes has been changed in the account since\n",
            )
            .stderr_has("Winter Sale")
            .stderr_has("Autumn Sale")
            .stderr_has("Summer Sale")
            .stderr_has("--on-conflict mine");
    }
    assert_eq!(service.writes(), Vec::<String>::new());
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--json"];
    assert_eq!(environment.run(&apply).exits_with(4).json()["error"]["kind"], "stale");
}

#[test]
fn a_conflict_is_resolved_by_mine_or_theirs() {
    let (environment, service) = conflict();
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--on-conflict"];
    let theirs = environment.run(&[&apply[..], &["theirs"]].concat());
    let line = "sheets/campaigns.csv:5: campaigns 4: name: before \"Summer Sale\", wanted \"Autumn Sale\", \
                in the account \"Winter Sale\"";
    theirs
        .exits_with(3)
        .stdout_has(&format!("Conflicts, not written:\n  {line}\n\nNo step can be taken.\n"));
    assert_eq!(name(&service, 4), "Winter Sale");
    // A second edit without a conflict is written, and the conflict is told with it.
    environment.edit("sheets/campaigns.csv", "Book Club", "Reading Club");
    let results = ["theirs", "--results", "results.csv"];
    environment.run(&[&apply[..], &results].concat()).exits_with(3).stdout_has(line);
    let results = environment.text("results.csv");
    let row = "sheets/campaigns.csv,5,campaigns,,4,conflict,4,,\"the `name` of the account was kept: \
               \"\"Winter Sale\"\"\"";
    assert!(results.contains(row), "{results}");
    assert!(results.contains(",Book Club,done,5,"), "{results}");
    let plan = ["plan", "sheets", "--to", "main", "--json", "--on-conflict", "theirs"];
    let plan = environment.run(&plan).succeeds().json();
    assert_eq!(plan["conflicts"]["kept"][0]["theirs"], "Winter Sale");
    let mine = environment.run(&[&apply[..], &["mine"]].concat()).succeeds();
    mine.stdout_has(&format!("Overwrites changes in the account:\n  {line}\n"));
    assert_eq!(name(&service, 4), "Autumn Sale");
}

#[test]
fn nothing_is_written_without_a_confirmation() {
    let (environment, service) = edited();
    for command in [&["apply", "sheets"][..], &["import", "sheets/campaigns.csv"]] {
        let ran = environment.run(&[command, &["--to", "main"]].concat()).exits_with(64);
        ran.stderr_has("nothing was written\nhint: pass --yes to confirm\n");
    }
    assert_eq!(service.writes(), Vec::<String>::new());
    assert_eq!(name(&service, 4), "Summer Sale");
    environment.run(&["runs", "main"]).succeeds().stderr_has("nothing was applied to main yet");
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let (environment, service) = edited();
    for command in [&["apply", "sheets"][..], &["import", "sheets/campaigns.csv"]] {
        let dry = [command, &["--to", "main", "-n"]].concat();
        environment.run(&dry).succeeds().stdout_has(ONE_STEP);
        environment.run(&[&dry[..], &["--yes"]].concat()).succeeds().stdout_has(ONE_STEP);
        let document = environment.run(&[&dry[..], &["--json"]].concat()).succeeds().json();
        has(&document, &["steps", "unsupported", "requests", "seconds"]);
    }
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_wrong_key_exits_with_7_before_any_write() {
    let (environment, service) = edited();
    let environment = environment.variable("LINKS_KEY", "some-other-key");
    for command in ["plan", "apply"] {
        let ran = environment.run(&[command, "sheets", "--to", "main"]).exits_with(7).stdout_is("");
        assert!(!ran.stderr().contains("some-other-key"), "{}", ran.stderr());
    }
    assert_eq!(service.writes().len(), 0);
}

#[test]
fn a_locked_account_exits_with_11() {
    let (environment, service) = edited();
    service.faults("latency=1s");
    let holder = environment.start(&["apply", "sheets", "--to", "main", "--yes"]);
    crate::support::until("a first request", || !service.requests().is_empty());
    // The service does not respond to any request for a while.
    let still = service.sandbox();
    service.faults("");
    for command in [&["apply", "sheets", "--to", "main", "-y"][..], &["resume", "main"]] {
        let ran = environment.run(command).exits_with(11).stdout_is("");
        ran.stderr_has("`linkvault apply main`");
    }
    drop(still);
    environment.wait(holder).succeeds();
}

#[test]
fn the_account_record_is_changed_only_if_named() {
    let (environment, service) = exported();
    environment.edit("sheets/account.csv", "links@lantern", "mail@lantern");
    environment.run(&["apply", "sheets", "--to", "main", "-y"]).succeeds();
    assert_eq!(service.writes(), Vec::<String>::new());
    environment.run(&["apply", "sheets/account.csv", "--to", "main", "-y"]).exits_with(64);
    environment.write("account.csv", "email\nmail@lantern-books.example.com\n");
    let apply = ["apply", "account.csv", "--resource", "account", "--to", "main", "--yes"];
    environment.run(&apply).succeeds().stdout_has("1 done, 1 verified");
    assert_eq!(service.writes(), ["PUT /api/account/update"]);
    assert_eq!(service.sandbox().store().account.email, "mail@lantern-books.example.com");
    environment.run(&apply).succeeds().stdout_has("Nothing to do.");
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    assert_eq!(service.sandbox().store().account.email, "links@lantern-books.example.com");
}

#[test]
fn a_password_is_sent_and_not_stored() {
    const PASSWORD: &str = "corréct-horse-9";
    let (environment, service) = edited();
    let secret = tempfile::tempdir().unwrap();
    let file = secret.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let file = file.display().to_string();
    let set = ["apply", "--to", "main", "--password-file", &file];
    let dry = environment.run(&[&set[..], &["-n", "--json"]].concat()).succeeds();
    let shown = environment.run(&[&set[..], &["--yes", "-v"]].concat()).succeeds();
    assert_eq!(service.writes(), ["PUT /api/account/update"]);
    let body = service.sandbox().log().iter().find_map(|entry| entry.body.clone()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body, json!({"password": PASSWORD}));
    let runs = environment.run(&["runs", "main", "1", "--json"]).succeeds();
    for (what, bytes) in [("dry", dry.bytes()), ("out", shown.bytes()), ("runs", runs.bytes())] {
        assert!(!holds(&bytes, PASSWORD) && !holds(&bytes, KEY), "{what}");
    }
    for (path, bytes) in environment.files() {
        assert!(!holds(&bytes, PASSWORD) && !holds(&bytes, KEY), "{}", path.display());
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A service without a rate limit, and an export that renames its eight campaigns.
fn renames() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("rate-limit=zero", "");
    let environment = TestEnvironment::new().account(&service.url());
    let rows: String = (1..=8).map(|id| format!("{id},Ours {id}\n")).collect();
    environment.write("campaigns.csv", &format!("id,name\n{rows}"));
    (environment, service)
}

#[test]
fn changes_by_others_during_a_run_are_reported_and_not_overwritten() {
    let (environment, service) = renames();
    service.faults("latency=50ms");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-update", "100%"];
    let child = environment.start(&[&import[..], &["--max-staleness", "0s", "--json"]].concat());
    crate::support::until("a write", || !service.writes().is_empty());
    service
        .sandbox()
        .mutate(|store| store.campaigns.get_mut(8).unwrap().name = "Theirs".to_owned());
    let ran = environment.wait(child).exits_with(3);
    let says = "step 8 (update campaign 8) stale: has changed since the plan was made: `name`";
    let ran = ran.stderr_has(says).stderr_has("and is `Theirs`");
    let document = ran.json();
    assert_eq!((&document["done"], &document["stale"]), (&7.into(), &1.into()), "{document}");
    assert_eq!(name(&service, 8), "Theirs");
    let rejected = environment.text("campaigns.rejected.csv");
    assert!(rejected.contains("8,Ours 8,"), "{rejected}");
    let run = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
    assert_eq!((&run["stale"], &run["steps"][7]["state"]), (&1.into(), &"stale".into()));
}

#[test]
fn a_write_that_took_effect_despite_an_error_response_is_undone() {
    let (environment, service) = edited();
    service.faults("failed-reply@PUT /api/campaign");
    let apply = ["apply", "sheets", "--to", "main", "--yes"];
    environment.run(&apply).succeeds().stdout_has("1 done, 1 verified");
    assert_eq!(name(&service, 4), "Autumn Sale");
    service.faults("");
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    assert_eq!(name(&service, 4), "Summer Sale");
}

/// An empty list deletes nothing by itself, and what it leaves is named.
#[test]
fn records_that_an_empty_list_lacks_are_named() {
    let (environment, service) = TestEnvironment::with_service("");
    service.sandbox().mutate(|store| {
        let ids: Vec<_> = store.campaigns.iter().map(|(id, _)| id).collect();
        for id in ids {
            store.campaigns.remove(id);
        }
    });
    environment.run(&["backup", "-q"]).succeeds();
    for count in [8, 40] {
        let names = 0..count;
        service.sandbox().mutate(|store| {
            names.for_each(|nth| {
                store.add_campaign(&format!("Newer {nth}"), None, true);
            });
        });
        let restore = ["restore", "latest", "--to", "main", "--yes"];
        let told = format!(
            "left as they are: {count} records of campaigns; --delete --allow-empty deletes"
        );
        for more in [&[][..], &["--delete"], &["--delete", "--max-delete", "100%"]] {
            let ran = environment.run(&[&restore[..], more].concat());
            ran.succeeds().stdout_has("Nothing to do").stderr_has(&told);
            let plan = environment.run(&[&["plan", "latest", "--to", "main"], more].concat());
            plan.succeeds().stderr_has(&told);
        }
        let more = ["--delete", "--allow-empty"];
        if count > 8 {
            environment.run(&[&restore[..], &more].concat()).exits_with(5);
        }
        let more = [&more[..], &["--max-delete", "100%"]].concat();
        let done = format!("{count} done");
        environment.run(&[&restore[..], &more].concat()).succeeds().stdout_has(&done);
        assert_eq!(service.sandbox().store().campaigns.len(), 0);
    }
}

#[test]
fn records_that_an_emptied_file_lacks_are_named() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let before = service.sandbox().store().campaigns.len();
    let text = environment.text("sheets/campaigns.csv");
    environment.write("sheets/campaigns.csv", &format!("{}\n", text.lines().next().unwrap()));
    let apply = ["apply", "sheets", "--to", "main", "--yes"];
    let told =
        format!("left as they are: {before} records of campaigns; --delete --allow-empty deletes");
    environment.run(&apply).succeeds().stdout_has("Nothing to do").stderr_has(&told);
    let more = ["--delete", "--allow-empty"];
    environment.run(&[&apply[..], &more].concat()).succeeds().stdout_has("done");
    assert_eq!(service.sandbox().store().campaigns.len(), 0);
}
