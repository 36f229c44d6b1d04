//! Ids are valid only within their account: states and exports of another account, and exports with
//! an unknown base.

use linkvault::sandbox::Store;

use crate::support::{KEY, LiveService, TestEnvironment};

/// Two accounts, `old` and `new`, both backed up, with records of the same ids.
fn two() -> (TestEnvironment, LiveService, LiveService) {
    let old = LiveService::start("", "");
    let mut store = Store::default();
    for name in ["Ours", "Ours as well", "And ours", "Our own"] {
        store.add_campaign(name, None, true);
    }
    let new = LiveService::serving(store, "", "");
    let account = |name: &str, service: &LiveService| {
        format!("[accounts.{name}]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", service.url())
    };
    let text = account("old", &old) + &account("new", &new);
    let environment = TestEnvironment::new().variable("LINKS_KEY", KEY).config(&text);
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "old", "--to", "sheets", "-q"]).succeeds();
    environment.run(&["export", "old", "--to", "json", "--format", "json", "-q"]).succeeds();
    new.new_requests();
    (environment, old, new)
}

const ALL: [&str; 4] = ["old@latest", "old@live", "sheets", "json/export.json"];

#[test]
fn ids_of_another_account_are_refused_in_every_input() {
    let (environment, _old, new) = two();
    for state in ALL {
        for command in ["plan", "apply", "rehearse"] {
            if (command, state) == ("rehearse", "old@live") {
                continue;
            }
            let yes: &[&str] = if command == "apply" { &["--yes"] } else { &[] };
            let run = [&[command, state, "--to", "new", "--only", "campaigns"], yes].concat();
            let ran = environment.run(&run).exits_with(64).stdout_is("");
            ran.fits()
                .stderr_has("is of `old`, another account than `new`\n")
                .stderr_has("`linkvault migrate old new` matches records by their names");
        }
    }
    let restore = ["restore", "old@#1", "--to", "new", "--yes"];
    environment.run(&restore).exits_with(64).stderr_has("another account than `new`");
    assert_eq!(new.writes(), Vec::<String>::new());
    let snapshots = environment.run(&["snapshots", "new", "--json"]).succeeds().json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1, "{snapshots}");
}

#[test]
fn an_account_under_two_names_is_one_account() {
    let service = LiveService::start("", "");
    let account = |name: &str| {
        format!("[accounts.{name}]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", service.url())
    };
    let text = account("one") + &account("other");
    let environment = TestEnvironment::new().variable("LINKS_KEY", KEY).config(&text);
    environment.run(&["backup", "one", "-q"]).succeeds();
    environment.run(&["export", "one", "--to", "sheets", "-q"]).succeeds();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    for state in ["one@latest", "sheets"] {
        let plan = environment.run(&["plan", state, "--to", "other", "--json"]).succeeds().json();
        let steps = plan["steps"].as_array().unwrap().len();
        assert_eq!(steps, usize::from(state == "sheets"), "{plan}");
    }
}

#[test]
fn exports_of_a_renamed_account_are_recognized() {
    let (environment, service) = renamed();
    service.sandbox().mutate(|store| store.campaigns.get_mut(5).unwrap().public = false);
    environment.run(&["apply", "sheets", "--to", "newer", "--yes", "-q"]).succeeds().stderr_is("");
    assert_eq!(service.writes(), ["PUT /api/campaign/4/update"]);
}

/// An edited export of an account that is renamed since.
fn renamed() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    let vault = |name: &str| environment.path(&format!("vaults/{name}.db"));
    std::fs::rename(vault("main"), vault("newer")).unwrap();
    let text = environment.text("config.toml").replace("accounts.main", "accounts.newer");
    (environment.config(&text), service)
}

#[test]
fn an_export_of_a_forgotten_snapshot_deletes_nothing() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "json", "--format", "json", "-q"]).succeeds();
    // Another user changes the account, and only the backup after that is kept.
    service.sandbox().mutate(|store| store.add_campaign("Theirs", None, true));
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["forget", "main", "--keep-last", "1", "-q", "-y"]).succeeds();
    for state in ["sheets", "json", "json/export.json"] {
        let apply = ["apply", state, "--to", "main", "--yes", "--delete"];
        let ran = environment.run(&apply).succeeds().stdout_is("Nothing to do.\n");
        ran.stderr_has(
            "deletes nothing: the state that it was exported from is not in the vault\n",
        );
    }
    assert_eq!(service.writes(), Vec::<String>::new());
}
