//! A repeated migration, and what `--verify` can prove.

use linkvault::sandbox::Store;
use serde_json::{Value, json};

use crate::ops::migrate::environment;
use crate::support::{CommandOutput, LiveService, TestEnvironment};

/// An old account with three campaigns and nothing else, and an empty new one.
fn migrated() -> (TestEnvironment, LiveService, LiveService) {
    let mut store = Store::default();
    for name in ["Spring", "Summer", "Autumn"] {
        store.add_campaign(name, None, false);
    }
    let old = LiveService::serving(store, "", "");
    let new = LiveService::serving(Store::default(), "", "");
    let environment = environment(&old, &new);
    migrate_again(&environment, &["--yes"]).succeeds();
    (environment, old, new)
}

fn migrate_again(environment: &TestEnvironment, more: &[&str]) -> CommandOutput {
    environment.run(&[&["migrate", "old", "new", "--max-update", "100%"], more].concat())
}

/// Gives the campaign called `from` another name.
fn rename(service: &LiveService, from: &str, to: &str) {
    service.sandbox().mutate(|store| {
        let id = store.campaigns.iter().find(|(_, row)| row.name == from).unwrap().0;
        to.clone_into(&mut store.campaigns.get_mut(id).unwrap().name);
    });
}

fn names(service: &LiveService) -> Vec<String> {
    let mut all: Vec<_> =
        service.sandbox().store().campaigns.iter().map(|(_, row)| row.name.clone()).collect();
    all.sort();
    all
}

#[test]
fn a_second_migration_keeps_changes_made_only_in_the_target() {
    let (environment, old, new) = migrated();
    rename(&new, "Spring", "Theirs");
    let document = migrate_again(&environment, &["--yes", "--json"]).succeeds().json();
    assert_eq!(document["run"], Value::Null);
    assert_eq!(names(&new), ["Autumn", "Summer", "Theirs"]);
    let kept = json!([{"resource": "campaigns", "id": 1, "field": "name", "source": "Spring",
        "target": "Theirs"}]);
    assert_eq!(document["kept"], kept);
    migrate_again(&environment, &["--yes"]).succeeds().stderr_has("kept: `name` of campaigns 1");
    let runs = environment.run(&["runs", "new", "--json"]).succeeds().json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "nothing new to note: {runs}");
    // What is changed in the source alone is carried over, and the other stays.
    rename(&old, "Summer", "High summer");
    migrate_again(&environment, &["--yes"]).succeeds();
    assert_eq!(names(&new), ["Autumn", "High summer", "Theirs"]);
    // It is no longer the value of the first move that counts.
    rename(&new, "High summer", "Late summer");
    migrate_again(&environment, &["--yes"]).succeeds();
    assert_eq!(names(&new), ["Autumn", "Late summer", "Theirs"]);
}

/// Nor is a record that was in the target before, and the same.
#[test]
fn values_equal_before_the_first_migration_are_a_base() {
    let mut store = Store::default();
    store.add_campaign("Spring", None, false);
    store.add_campaign("Summer", None, false);
    let old = LiveService::serving(store, "", "");
    let mut store = Store::default();
    store.add_campaign("Spring", None, false);
    let new = LiveService::serving(store, "", "");
    let environment = environment(&old, &new);
    migrate_again(&environment, &["--yes"]).succeeds();
    rename(&new, "Spring", "Theirs");
    let document = migrate_again(&environment, &["--yes", "--json"]).succeeds().json();
    assert_eq!(
        (&document["run"], &document["kept"][0]["target"]),
        (&Value::Null, &json!("Theirs"))
    );
    rename(&old, "Spring", "Ours");
    migrate_again(&environment, &["--yes"]).exits_with(4);
    assert_eq!(names(&new), ["Summer", "Theirs"]);
}

/// Two accounts with the one campaign `Spring` each.
fn same_campaign_in_both() -> (TestEnvironment, LiveService, LiveService) {
    let service = || {
        let mut store = Store::default();
        store.add_campaign("Spring", Some("spring"), false);
        LiveService::serving(store, "", "")
    };
    let (old, new) = (service(), service());
    let environment = environment(&old, &new);
    (environment, old, new)
}

/// It sent nothing, and what it found the same is the base of the next one.
#[test]
fn a_first_migration_without_steps_is_a_base() {
    let (environment, old, new) = same_campaign_in_both();
    migrate_again(&environment, &["-n"]).succeeds();
    environment.run(&["runs", "new"]).succeeds().stderr_has("nothing was applied to new yet");
    for _ in 0..2 {
        migrate_again(&environment, &["--yes"]).succeeds().stdout_has("Nothing to do.");
        let runs = environment.run(&["runs", "new", "--json"]).succeeds().json();
        assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    }
    rename(&new, "Spring", "Theirs");
    let document = migrate_again(&environment, &["--yes", "--json"]).succeeds().json();
    assert_eq!(
        (&document["run"], &document["kept"][0]["target"]),
        (&Value::Null, &json!("Theirs"))
    );
    rename(&old, "Spring", "Ours");
    migrate_again(&environment, &["--yes"]).exits_with(4);
    assert_eq!(names(&new), ["Theirs"]);
    environment.run(&["runs", "new"]).succeeds().stdout_has("nothing to do");
    environment.run(&["undo", "new", "1", "--yes"]).succeeds().stdout_has("Nothing to do.");
    environment.run(&["check", "new"]).succeeds();
}

/// The snapshot before the first move was the only place that had it.
#[test]
fn values_found_equal_are_known_after_their_snapshots_are_forgotten() {
    let (environment, old, new) = same_campaign_in_both();
    old.sandbox().mutate(|store| store.add_campaign("Summer", None, false));
    migrate_again(&environment, &["--yes"]).succeeds();
    for _ in 0..2 {
        environment.run(&["backup", "new", "-q"]).succeeds();
    }
    environment.run(&["forget", "new", "--keep-last", "1", "--yes"]).succeeds();
    rename(&new, "Spring", "Theirs");
    let document = migrate_again(&environment, &["--yes", "--json"]).succeeds().json();
    assert_eq!(document["kept"][0]["target"], "Theirs", "{document}");
    assert_eq!(names(&new), ["Summer", "Theirs"]);
}

/// What both accounts were given is what the last move left the same.
#[test]
fn a_value_set_in_both_accounts_becomes_the_base() {
    let (environment, old, new) = migrated();
    for service in [&old, &new] {
        rename(service, "Spring", "Both");
    }
    migrate_again(&environment, &["--yes"]).succeeds().stdout_has("Nothing to do.");
    rename(&new, "Both", "Theirs");
    migrate_again(&environment, &["--yes"]).succeeds().stderr_has("kept: `name` of campaigns 1");
    assert_eq!(names(&new), ["Autumn", "Summer", "Theirs"]);
}

/// The remembered slug hid what the rotator of the target shows.
#[test]
fn a_slug_replaced_in_the_target_is_kept_and_reported() {
    let mut store = Store::default();
    let id = store.add_campaign("Spring", Some("spring"), false);
    let old = LiveService::serving(store, "", "");
    let new = LiveService::serving(Store::default(), "", "");
    let environment = environment(&old, &new);
    migrate_again(&environment, &["--yes"]).succeeds();
    new.sandbox().mutate(|store| {
        let rotator = store.rotator_url("theirs");
        let (_, row) = store.campaigns.iter_mut().next().unwrap();
        (row.slug, row.rotator) = (Some("theirs".to_owned()), Some(rotator));
    });
    let document = migrate_again(&environment, &["--yes", "--json"]).succeeds().json();
    assert_eq!(document["run"], Value::Null);
    let kept = json!([{"resource": "campaigns", "id": id, "field": "slug", "source": "spring",
        "target": "theirs"}]);
    assert_eq!(document["kept"], kept);
}

/// A third account, and what it has moved to the target of [`moved`].
fn third_source(environment: &TestEnvironment, store: Store) -> LiveService {
    let other = LiveService::serving(store, "", "");
    let config = environment.text("config.toml")
        + &format!("[accounts.other]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", other.url());
    environment.write("config.toml", &config);
    migrate_from_third(environment, &["--yes"]).succeeds();
    other
}

fn migrate_from_third(environment: &TestEnvironment, more: &[&str]) -> CommandOutput {
    environment.run(&[&["migrate", "other", "new", "--max-update", "100%"], more].concat())
}

/// Both have a campaign of that name. What the second source set is not the base of the
/// first.
#[test]
fn a_migration_from_another_source_is_not_the_base() {
    let (environment, _old, new) = migrated();
    let is_public = || {
        let inside = new.sandbox();
        let found = inside.store().campaigns.iter().find(|(_, row)| row.name == "Spring");
        found.unwrap().1.public
    };
    let mut store = Store::default();
    store.add_campaign("Spring", None, true);
    let _other = third_source(&environment, store);
    assert!(is_public());
    let document = migrate_again(&environment, &["--yes", "--json"]).succeeds().json();
    assert!(is_public(), "the first source reverted the second");
    assert_eq!((&document["run"], &document["kept"][0]["field"]), (&Value::Null, &json!("public")));
}

/// The record was in the target when the first move from its source began, though not when
/// that of the other source did.
#[test]
fn each_source_has_its_own_first_migration() {
    let mut store = Store::default();
    store.add_campaign("Spring", None, false);
    store.add_campaign("Winter", None, false);
    let (environment, _old, new) = migrated();
    let _other = third_source(&environment, store);
    rename(&new, "Spring", "Theirs");
    let document = migrate_from_third(&environment, &["--yes", "--json"]).succeeds().json();
    assert_eq!(names(&new), ["Autumn", "Summer", "Theirs", "Winter"]);
    assert_eq!(document["kept"][0]["target"], "Theirs");
}

#[test]
fn a_field_that_both_accounts_changed_is_a_conflict() {
    let (environment, old, new) = migrated();
    rename(&new, "Spring", "Theirs");
    rename(&old, "Spring", "Ours");
    migrate_again(&environment, &["--yes"]).exits_with(4).stderr_has("Theirs");
    migrate_again(&environment, &["--yes", "--on-conflict", "theirs"]).succeeds();
    assert_eq!(names(&new), ["Autumn", "Summer", "Theirs"]);
    migrate_again(&environment, &["--yes", "--on-conflict", "mine"]).succeeds();
    assert_eq!(names(&new), ["Autumn", "Ours", "Summer"]);
}

/// It exited with 4 at the first conflict, and reported nothing else.
#[test]
fn verify_lists_conflicts_and_compares_the_rest() {
    let (environment, old, new) = migrated();
    rename(&new, "Spring", "Theirs");
    rename(&old, "Spring", "Ours");
    rename(&old, "Summer", "High summer");
    let document = migrate_again(&environment, &["--verify-only", "--json"]).exits_with(2).json();
    let gaps = json!([{"resource": "campaigns", "ids": ["1"],
        "reason": "`name` was changed in new and is kept"}]);
    assert_eq!(document["not_compared"], gaps);
    migrate_again(&environment, &["--verify-only"])
        .exits_with(2)
        .stdout_has("High summer")
        .stderr_has("kept: `name` of campaigns 1");
    migrate_again(&environment, &["--yes"]).exits_with(4);
    assert_eq!(names(&new), ["Autumn", "Summer", "Theirs"]);
}

#[test]
fn verify_exits_with_0_only_if_everything_was_compared() {
    let (environment, old, new) = migrated();
    let verify = |more: &[&str]| migrate_again(&environment, &[&["--verify-only"], more].concat());
    let gaps = |more: &[&str]| {
        let document = verify(&[more, &["--json"]].concat()).exits_with(2).json();
        let gaps = document["not_compared"].as_array().unwrap().clone();
        gaps.into_iter().map(|it| it["resource"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    verify(&[]).succeeds().stderr_has("new has what the API can move there");
    // Filters leave something out, and say so.
    verify(&["--skip", "pixels"]).exits_with(2).stdout_has("NOT VERIFIED");
    assert_eq!(gaps(&["--skip", "pixels"]), ["pixels"]);
    assert_eq!(gaps(&["--where", "campaigns.name~^S"]), ["campaigns"]);
    // A campaign whose rotator does not show its slug cannot be created in the target.
    let rotator = |url: Option<&str>| {
        old.sandbox().mutate(|store| {
            store.campaigns.get_mut(1).unwrap().rotator = url.map(str::to_owned);
        });
    };
    rotator(Some("https://old.example/?c=5"));
    assert_eq!(gaps(&[]), ["campaigns"]);
    rotator(None);
    // What the owner of the target changed is not the same.
    rename(&new, "Spring", "Theirs");
    assert_eq!(gaps(&[]), ["campaigns"]);
    rename(&new, "Theirs", "Spring");
    verify(&[]).succeeds();
    // What was deleted there lacks.
    new.sandbox().mutate(|store| {
        let id = store.campaigns.iter().find(|(_, row)| row.name == "Spring").unwrap().0;
        store.campaigns.remove(id);
    });
    verify(&[]).exits_with(2).stderr_has("new does not have all");
    migrate_again(&environment, &["--yes"]).succeeds();
    verify(&[]).succeeds();
    // A code of unknown content did not move.
    old.sandbox().mutate(|store| {
        store.qr_codes.add(linkvault::sandbox::store::QrCode::default());
    });
    assert_eq!(gaps(&[]), ["qr_codes"]);
    environment.write("codes.csv", "id,type,data\n1,text,Hello\n");
    migrate_again(&environment, &["--yes", "--qr-data", "codes.csv"]).succeeds();
    verify(&[]).succeeds().stderr_has("--qr-data ");
    // It moved, and its content is no longer known.
    let codes = environment.path("codes.csv");
    std::fs::rename(&codes, environment.path("aside.csv")).unwrap();
    assert_eq!(gaps(&[]), ["qr_codes"]);
    verify(&["--qr-data", "aside.csv"]).succeeds();
    new.sandbox().mutate(|store| drop(store.remove_qr(1)));
    verify(&[]).exits_with(2);
    verify(&["--qr-data", "aside.csv"]).exits_with(2);
    assert_eq!(gaps(&[]), ["qr_codes"]);
}

/// A success response without an id is accepted; the list decides.
#[test]
fn a_confirmed_create_without_a_record_counts_as_failed() {
    let mut store = Store::default();
    store.add_campaign("Spring", None, false);
    let old = LiveService::serving(store, "", "");
    let faults = "garbage:huge-numbers@POST /api/campaign/add#1";
    let new = LiveService::serving(Store::default(), "cap-campaigns=0,error-status=200", faults);
    let environment = environment(&old, &new);
    let document = migrate_again(&environment, &["--yes", "--json"]).exits_with(3).json();
    let campaigns = &document["resources"]["campaigns"];
    assert_eq!((&campaigns["created"], &campaigns["failed"]), (&json!(0), &json!(1)));
    assert_eq!(document["failed"][0]["reason"], "it is not in the list");
}
