//! Lists that show one record twice: every command still works.

use linkvault::sandbox::Store;
use serde_json::json;

use crate::support::{LiveService, TestEnvironment};

#[test]
fn an_account_with_duplicates_is_backed_up_exported_changed_and_restored() {
    for behaviour in ["twins=beside", "twins=last,max-limit=3"] {
        let (environment, service) = TestEnvironment::with_service(behaviour);
        let document = environment.run(&["backup", "--json"]).succeeds().json();
        assert_eq!(document["status"], "complete");
        let problems = document["problems"].as_array().unwrap();
        let told = problems.iter().filter(|it| it.as_str().unwrap().starts_with("campaigns "));
        assert_eq!(told.count(), 1, "{problems:?}");
        environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
        let apply = ["apply", "sheets", "--to", "main", "--yes"];
        environment.run(&apply).succeeds().stdout_is("Nothing to do.\n");
        environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
        environment.run(&apply).succeeds().stdout_has("1 done, 1 verified");
        environment.write("items.csv", "channel,type,id\n1,links,4711\n");
        let import =
            ["import", "items.csv", "--resource", "channel_items", "--to", "main", "--yes"];
        environment.run(&import).succeeds().stdout_has("1 done, 1 verified");
        let restore = ["restore", "1", "--to", "main", "--yes"];
        environment.run(&restore).succeeds().stdout_has("1 done, 1 verified");
        assert_eq!(service.sandbox().store().campaigns.get(4).unwrap().name, "Summer Sale");
        let diff = environment.run(&["diff", "main@#1", "main@live", "--json"]).json();
        assert_eq!(diff["changes"].as_array().unwrap().len(), 1, "{diff}");
        assert_eq!(diff["changes"][0]["resource"], json!("channel_items"));
    }
}

#[test]
fn an_account_with_duplicates_migrates_and_a_second_migration_is_empty() {
    let source = LiveService::start("twins=last,max-limit=3", "");
    let target = LiveService::serving(Store::default(), "twins=beside,max-limit=5", "");
    let environment = crate::ops::migrate::environment(&source, &target);
    let moving = ["migrate", "old", "new", "--yes", "--only", "campaigns,channels,pixels"];
    environment.run(&moving);
    assert_eq!(target.sandbox().store().campaigns.len(), 8);
    environment.run(&moving).stdout_has("Nothing to do.\n");
}
