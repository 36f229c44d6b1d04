//! The report of a migration: cumulative, dated, and readable in a mail.

use serde_json::json;

use crate::ops::migrate::{environment, migrate, services, with_files, writes};
use crate::support::{LiveService, TestEnvironment};

#[track_caller]
fn has(report: &str, parts: &[&str]) {
    for part in parts {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
    let wide = report.lines().find(|line| line.starts_with('|') || line.contains("|---"));
    assert_eq!(wide, None, "a table in\n{report}");
}

fn address(service: &LiveService, path: &str, list: &str, id: &str, field: &str) -> String {
    let all = service.list(path, list);
    let found = all.iter().find(|it| it["id"].to_string().replace('"', "") == id);
    found.unwrap()[field].as_str().unwrap().to_owned()
}

#[test]
fn the_report_counts_all_runs_of_the_migration() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    new.sandbox().behaviour_mut().cap_campaigns = Some(5);
    migrate(&environment, &["--yes", "--report", "moved.md"]).exits_with(3);
    let report = environment.text("moved.md");
    has(
        &report,
        &[
            "- campaigns: 5 created, 3 not done",
            "The accounts were compared: 3 differences",
            "## Not done",
            "You have reach the maximum limit for this feature.",
        ],
    );
    new.sandbox().behaviour_mut().cap_campaigns = None;
    let ran = migrate(&environment, &["--yes", "--json", "--report", "moved.md"]);
    let document = ran.exits_with(3).json();
    assert_eq!(document["resources"]["campaigns"]["created"], json!(3), "of this run");
    let report = environment.text("moved.md");
    let id = document["ids"]["campaigns"]["1"].to_string();
    let code = document["ids"]["qr_codes"]["1"].to_string();
    let rotators = [(&old, "1"), (&new, &id)]
        .map(|(service, id)| address(service, "/api/campaigns", "campaigns", id, "rotator"));
    let codes = [(&old, "1"), (&new, &code)]
        .map(|(service, id)| address(service, "/api/qr", "qrs", id, "link"));
    has(
        &report,
        &[
            "# Migration from old@",
            "- Run 1, 20",
            "- Run 2, 20",
            "- campaigns: 8 created\n",
            "- channels: 5 created\n",
            "Everything that was compared is equal.",
            "- overlays 1, 2, 3: the API cannot create a CTA overlay",
            &format!("- From: old@\\#2, <{}>, account 1 (", old.url()),
            &format!("- To: new, <{}>, account ", new.url()),
            &format!("  - rotator: <{}>\n    → <{}>\n", rotators[0], rotators[1]),
            &format!("  - link: <{}>\n    → <{}>\n", codes[0], codes[1]),
        ],
    );
    assert!(!report.contains("## Not done"), "{report}");
    // A verification writes the same report.
    let before = writes(&new);
    environment
        .run(&["migrate", "old", "new", "--verify-only", "--report", "seen.md"])
        .exits_with(2);
    has(&environment.text("seen.md"), &["- Run 2, 20", "- campaigns: 8 created\n"]);
    assert_eq!(writes(&new), before);
}

#[test]
fn resume_writes_the_report_without_a_request_to_the_source() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    migrate(&environment, &["--yes", "--max-requests", "40"]).exits_with(8);
    let read = old.request_count();
    environment.run(&["resume", "new", "--report", "moved.md"]).exits_with(3);
    assert_eq!(old.request_count(), read);
    let report = environment.text("moved.md");
    has(
        &report,
        &[
            "# Migration from old@",
            "- Run 1, 20",
            "complete; ",
            "- campaigns: 8 created\n",
            "Everything that was compared is equal.",
            "## Old and new ids and addresses of qr codes",
        ],
    );
}

#[test]
fn the_report_of_an_applied_plan_finds_its_source() {
    let (old, new) = services();
    let environment = with_files(environment(&old, &new));
    migrate(&environment, &["-o", "plan.json", "--report", "planned.md"]).succeeds();
    has(&environment.text("planned.md"), &["Nothing was written yet.", "differences"]);
    let apply = ["apply", "plan.json", "--to", "new", "--yes", "--max-requests", "40"];
    environment.run(&apply).exits_with(8);
    environment.run(&["resume", "new", "--report", "moved.md"]);
    has(&environment.text("moved.md"), &["- campaigns: 8 created\n", ": apply, complete; "]);
}

#[test]
fn only_a_migration_has_a_report() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let rows: String = (0..20).map(|nth| format!("New {nth}\n")).collect();
    environment.write("campaigns.csv", &format!("name\n{rows}"));
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "12"];
    environment.run(&import).exits_with(8);
    let before = service.request_count();
    let ran = environment.run(&["resume", "main", "--report", "r.md"]).exits_with(64);
    ran.stderr_has("run 1 is not a migration");
    assert_eq!(service.request_count(), before);
    environment.run(&["resume", "main"]).succeeds();
}
