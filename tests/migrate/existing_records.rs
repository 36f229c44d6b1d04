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
