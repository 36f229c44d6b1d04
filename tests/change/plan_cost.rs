//! What a plan costs: the number of requests that its run sends.

use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};

use crate::support::{LiveService, TestEnvironment};

/// An account with 25 records of each kind, backed up and exported to `sheets`.
fn exported(behaviour: &str) -> (TestEnvironment, LiveService) {
    let counts = GeneratedCounts { channel_items: 2, channels: 3, ..GeneratedCounts::each(25) };
    let service = LiveService::serving(generate(7, counts), behaviour, "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    (environment, service)
}

/// Plans and applies `input`: requests of the plan, and requests that the service got.
fn price(
    environment: &TestEnvironment,
    service: &LiveService,
    input: &str,
    more: &[&str],
) -> (u64, u64) {
    let to = [&["--to", "main", "--json", "--max-update", "100%"], more].concat();
    let plan = environment.run(&[&["plan", input], &to[..]].concat()).succeeds().json();
    service.new_requests();
    let apply = [&["apply", input, "--yes"], &to[..]].concat();
    let applied = environment.run(&apply).succeeds().json();
    let made = service.new_requests().len() as u64;
    assert_eq!(applied["requests"], made);
    (plan["requests"].as_u64().unwrap(), made)
}

/// Rows of new campaigns.
fn campaigns(count: usize) -> String {
    (0..count).fold("name\n".to_owned(), |text, nth| text + &format!("Made {nth}\n"))
}

const BEHAVIOURS: [&str; 5] =
    ["", "max-limit=10", "max-limit=24", "max-limit=25", "max-limit=10,result=total"];

#[test]
fn the_cost_includes_a_list_that_gets_another_page() {
    for behaviour in BEHAVIOURS {
        let (environment, service) = exported(behaviour);
        environment.write("campaigns.csv", &campaigns(12));
        let (planned, made) = price(&environment, &service, "campaigns.csv", &[]);
        assert_eq!(planned, made, "{behaviour}");
        environment.write("sheets/campaigns.csv", "id,name\n3,Other\n4,Others\n");
        let (planned, made) = price(&environment, &service, "sheets", &[]);
        assert_eq!(planned, made, "{behaviour}");
    }
}

/// After at most ten requests since the first one, the account is not requested again.
#[test]
fn the_cost_includes_the_account_after_a_run_of_more_than_a_few_requests() {
    let (environment, service) = exported("");
    let costs = [1, 9, 10].map(|count| {
        environment.write("campaigns.csv", &campaigns(count).replace("Made", &count.to_string()));
        let (planned, made) = price(&environment, &service, "campaigns.csv", &[]);
        assert_eq!(planned, made, "{count} creates");
        made - count as u64
    });
    assert_eq!(costs, [3, 3, 4]);
}

#[test]
fn the_cost_includes_the_page_of_an_empty_list() {
    for behaviour in BEHAVIOURS {
        let service = LiveService::serving(Store::default(), behaviour, "");
        let environment = TestEnvironment::new().account(&service.url());
        environment.write("campaigns.csv", &campaigns(35));
        let (planned, made) = price(&environment, &service, "campaigns.csv", &[]);
        assert_eq!(planned, made, "{behaviour}");
    }
}

#[test]
fn the_cost_includes_a_list_that_loses_records() {
    for (behaviour, left) in [("", 1), ("max-limit=10", 1), ("max-limit=10", 11)] {
        let (environment, service) = exported(behaviour);
        let rows = (1..=left).fold("id\n".to_owned(), |text, id| text + &format!("{id}\n"));
        environment.write("sheets/campaigns.csv", &rows);
        let more = ["--delete", "--max-delete", "100%"];
        let (planned, made) = price(&environment, &service, "sheets", &more);
        assert_eq!(service.sandbox().store().campaigns.len(), left);
        assert_eq!(planned, made, "{behaviour}, {left} left");
    }
}

/// The list lost records since the backup: a look into the vault confirms the account.
#[test]
fn a_dry_run_has_the_cost_of_the_plan() {
    let (environment, service) = exported("");
    service.sandbox().mutate(|store| store.campaigns.remove(1));
    environment.write("campaigns.csv", &campaigns(1));
    let requests = |command: &[&str]| {
        let input = ["campaigns.csv", "--to", "main", "--json"];
        environment.run(&[command, &input].concat()).succeeds().json()["requests"].as_u64()
    };
    assert_eq!(requests(&["import", "--dry-run"]), requests(&["plan"]));
}

/// That a list is empty is believed when it was read twice.
#[test]
fn the_cost_includes_a_list_that_becomes_empty() {
    let service = LiveService::serving(Store::default(), "", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.write("campaigns.csv", &campaigns(3));
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    service.new_requests();
    let undone = environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    assert_eq!(service.sandbox().store().campaigns.len(), 0);
    let made = service.new_requests().len();
    undone.stdout_has(&format!("3 steps: 3 deletes. {made} requests"));
}

/// The vault has pixels from the time when the service offered them.
#[test]
fn a_list_that_is_no_longer_offered_lost_no_records() {
    let requests = |offered_before: bool| {
        let service = LiveService::start("", "");
        let withdraw = || {
            let mut service = service.sandbox();
            service.behaviour_mut().set("not-offered", "pixels").unwrap();
        };
        let environment = TestEnvironment::new().account(&service.url());
        if !offered_before {
            withdraw();
        }
        environment.run(&["backup", "-q"]).succeeds();
        withdraw();
        environment.write("pixels.csv", "type,name,tag\nbing,New,123\n");
        let plan = ["plan", "pixels.csv", "--to", "main", "--json"];
        environment.run(&plan).succeeds().json()["requests"].as_u64().unwrap()
    };
    assert_eq!(requests(true), requests(false));
}
