//! Files that commands leave, and files that they must remove.

use linkvault::change::desired::SourceLocation;
use linkvault::change::plan::saved::{SavedPlan, read};
use linkvault::change::plan::{RequestRate, UnsupportedChange};
use linkvault::model::Resource;

use crate::support::{LiveService, TestEnvironment};

fn live() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.write("campaigns.csv", "id,name\n2,Winter Sale\n");
    (environment, service)
}

fn snapshots(environment: &TestEnvironment) -> usize {
    let listed = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
    listed["snapshots"].as_array().unwrap().len()
}

#[test]
fn an_unused_observation_leaves_no_snapshot() {
    let (environment, service) = live();
    let import = ["import", "campaigns.csv", "--to", "main"];
    environment.run(&[&import[..], &["-n"]].concat()).succeeds();
    environment.run(&[&import[..], &["-n", "--json"]].concat()).succeeds();
    environment.run(&import).exits_with(64);
    let same = ["import", "same.csv", "--resource", "campaigns", "--to", "main", "--yes"];
    let name = service.list("/api/campaigns", "campaigns")[1].clone();
    let name = name["name"].as_str().or(name["domain"].as_str()).unwrap().to_owned();
    environment.write("same.csv", &format!("id,name\n2,{name}\n"));
    environment.run(&same).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!(snapshots(&environment), 1);
    assert_eq!(service.writes(), Vec::<String>::new());
    environment.run(&["check", "main"]).succeeds();
    environment.run(&[&import[..], &["--yes"]].concat()).succeeds();
    // One snapshot before the run, one after it.
    assert_eq!(snapshots(&environment), 3);
}

#[test]
fn a_plan_file_cannot_make_linkvault_read_another_file() {
    let (environment, _service) = live();
    let import = ["plan", "campaigns.csv", "--to", "main", "-o", "plan.json"];
    environment.run(&import).succeeds();
    environment.write("secret.txt", "first\nthe second line\n");
    let saved = read(environment.text("plan.json").as_bytes()).unwrap();
    let mut plan = saved.plan.clone();
    plan.unsupported.push(UnsupportedChange {
        resource: Resource::Campaigns,
        key: "x".to_owned(),
        reason: "y".to_owned(),
        source: Some(SourceLocation { file: "secret.txt".to_owned(), line: Some(2), row: None }),
    });
    let whose = (saved.account.as_str(), saved.service.as_str(), saved.account_id);
    let rate = RequestRate { limit: saved.limit, reserve: saved.reserve };
    let forged = SavedPlan::new(whose, saved.made, rate, plan);
    environment.write("plan.json", &forged.to_json());
    environment.run(&["apply", "plan.json", "--to", "main", "--yes"]);
    assert!(!environment.path("secret.rejected.csv").exists());
}

#[test]
fn rejected_rows_are_written_only_from_the_applied_file() {
    let (environment, _service) = live();
    environment.write("campaigns.csv", "id,name\n2,Summer Sale\n3,Winter Sale\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "3"];
    environment.run(&import).exits_with(8);
    environment.write("campaigns.csv", "id,name\n2,Innocent\n3,Innocent too\n");
    let ran = environment.run(&["resume", "main"]).exits_with(3);
    ran.stderr_has("the file has changed since\n");
    assert!(!environment.path("campaigns.rejected.csv").exists());
}

#[test]
fn the_outcome_is_printed_if_rejected_rows_cannot_be_written() {
    let (environment, _service) = live();
    environment.write("campaigns.csv", "id,name\n2,Summer Sale\n3,Winter Sale\n");
    std::fs::create_dir(environment.path("campaigns.rejected.csv")).unwrap();
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--json"];
    let ran = environment.run(&import).exits_with(3).stderr_has("cannot write");
    assert_eq!((ran.json()["done"].as_u64(), ran.json()["refused"].as_u64()), (Some(1), Some(1)));
}
