//! Records that the target has under the same name.

use linkvault::sandbox::Store;
use linkvault::sandbox::store::StoredChannel;
use serde_json::{Value, json};

use crate::ops::migrate::{environment, writes};
use crate::support::{LiveService, TestEnvironment};

fn account(name: &str, public: bool, description: &str) -> Store {
    let mut store = Store::default();
    store.add_campaign(name, Some("spring"), public);
    store.channels.add(StoredChannel {
        name: "Social".to_owned(),
        description: description.to_owned(),
        ..StoredChannel::default()
    });
    store
}

/// Both accounts have a campaign and a channel of the same name; the old one also has another
/// campaign.
fn accounts() -> (TestEnvironment, LiveService, LiveService) {
    let mut store = account("Spring", true, "ours");
    store.add_campaign("Summer", None, false);
    let old = LiveService::serving(store, "", "");
    let new = LiveService::serving(account("spring", false, "theirs"), "", "");
    let environment = environment(&old, &new);
    (environment, old, new)
}

const KEEP: [&str; 4] = ["migrate", "old", "new", "--keep-existing"];

#[test]
fn existing_records_stay_as_they_are_and_are_mapped() {
    let (environment, old, new) = accounts();
    let document = environment.run(&[&KEEP[..], &["--yes", "--json"]].concat()).succeeds().json();
    let campaigns = &document["resources"]["campaigns"];
    let counts = ["created", "matched", "unchanged"].map(|word| campaigns[word].as_u64().unwrap());
    assert_eq!(counts, [1, 0, 1], "{document:#}");
    assert_eq!(writes(&new), 1, "{:?}", new.writes());
    assert_eq!(document["ids"]["campaigns"], json!({"1": 1, "2": 2}));
    let kept = document["kept"].as_array().unwrap();
    let fields: Vec<_> = kept.iter().map(|it| it["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["name", "public", "description"]);

    // The differences are named, and the verification does not say 0.
    let verify = ["migrate", "old", "new", "--verify-only"];
    let ran = environment.run(&verify).exits_with(2);
    ran.stdout_has("`public` differs in new and is kept").stderr_has("--keep-existing");
    let document = environment.run(&[&verify[..], &["--json"]].concat()).exits_with(2).json();
    assert_eq!(document["not_compared"].as_array().unwrap().len(), 3, "{document:#}");

    // A later migration with the flag does not overwrite them either, one without does.
    old.sandbox().mutate(|store| {
        "High spring".clone_into(&mut store.campaigns.get_mut(1).unwrap().name);
    });
    let document = environment.run(&[&KEEP[..], &["--yes", "--json"]].concat()).succeeds().json();
    assert_eq!((&document["run"], writes(&new)), (&Value::Null, 1));
    environment.run(&["migrate", "old", "new", "--yes", "--max-update", "100%"]).succeeds();
    assert_eq!(new.sandbox().store().campaigns.get(1).unwrap().name, "High spring");
    assert_eq!(new.sandbox().store().channels.get(1).unwrap().description, "ours");
}

#[test]
fn a_dry_run_with_keep_existing_names_what_is_kept() {
    let (environment, _old, new) = accounts();
    let ran = environment.run(&[&KEEP[..], &["-n"]].concat()).exits_with(0);
    ran.stderr_has("kept: `public` of campaigns 1 is false in new");
    assert_eq!(writes(&new), 0);
}

/// An old account with two campaigns and two channels whose names differ in case only.
fn with_same_names(behaviour: &str) -> (TestEnvironment, LiveService, LiveService) {
    let mut store = Store::default();
    for name in ["Summer Sale", "SUMMER SALE"] {
        store.add_campaign(name, None, false);
        let channel = StoredChannel { name: name.to_owned(), ..StoredChannel::default() };
        store.channels.add(channel);
    }
    let old = LiveService::serving(store, "name-case=exact", "");
    let new = LiveService::serving(Store::default(), behaviour, "");
    (environment(&old, &new), old, new)
}

const BOTH: &str = "campaigns 1 `Summer Sale` and 2 `SUMMER SALE` differ in case only";

#[test]
fn names_that_differ_in_case_only_migrate_where_the_service_accepts_both() {
    let (environment, _old, new) = with_same_names("name-case=exact");
    let migrate = ["migrate", "old", "new", "--yes", "--json"];
    let ran = environment.run(&migrate).succeeds().stderr_has(BOTH);
    let document = ran.json();
    for resource in ["campaigns", "channels"] {
        assert_eq!(document["resources"][resource]["created"], 2, "{document:#}");
        assert_eq!(document["ids"][resource], json!({"1": 1, "2": 2}));
    }
    let again = environment.run(&migrate).succeeds().json();
    assert_eq!(
        (&again["run"], &again["resources"]["campaigns"]["unchanged"]),
        (&Value::Null, &json!(2))
    );
    environment.run(&["migrate", "old", "new", "--verify-only"]).succeeds();
    assert_eq!(writes(&new), 4);
}

#[test]
fn the_name_that_the_target_has_is_matched_and_the_other_is_created() {
    let (environment, _old, new) = with_same_names("name-case=exact");
    new.sandbox().mutate(|store| {
        store.add_campaign("other", None, false);
        store.add_campaign("SUMMER SALE", None, false);
    });
    let migrate = ["migrate", "old", "new", "--yes", "--json", "--only", "campaigns"];
    let document = environment.run(&migrate).succeeds().json();
    assert_eq!(document["ids"]["campaigns"], json!({"1": 3, "2": 2}), "{document:#}");
    assert_eq!(writes(&new), 1);
}

#[test]
fn a_name_that_the_service_refuses_is_reported_with_the_other() {
    let (environment, _old, new) = with_same_names("");
    let migrate = ["migrate", "old", "new", "--yes", "--json"];
    for round in 0..2 {
        let ran = environment.run(&migrate).exits_with(3).stderr_has(BOTH);
        let document = ran.json();
        let campaigns = &document["resources"]["campaigns"];
        let moved = if round == 0 { "created" } else { "unchanged" };
        assert_eq!(
            (&campaigns[moved], &campaigns["failed"]),
            (&json!(1), &json!(1)),
            "{document:#}"
        );
        let failed = &document["failed"][0];
        assert_eq!((&failed["resource"], &failed["id"]), (&json!("campaigns"), &json!("2")));
        let reason = "You already have a campaign with that name; differs in case only from \
                      1 `Summer Sale`";
        assert_eq!(failed["reason"], reason);
    }
    environment.run(&["migrate", "old", "new", "--verify-only"]).exits_with(2);
    assert_eq!(new.list("/api/campaigns", "campaigns").len(), 1);
}
