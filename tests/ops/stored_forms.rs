//! Values that the service stores in another form.

use linkvault::sandbox::Store;

use crate::ops::migrate::environment;
use crate::support::{LiveService, TestEnvironment};

/// A behaviour of the service, a file, and how its value is stored.
const FORMS: [(&str, &str, &str, &str); 15] = [
    ("texts=trimmed", "channels.csv", "name\n\"  Spring Term \"\n", "Spring Term"),
    ("texts=collapsed", "channels.csv", "name\nSpring   Term\n", "Spring Term"),
    ("texts=collapsed", "campaigns.csv", "name\n\"Spring\tTerm\"\n", "Spring Term"),
    ("names=lowered", "campaigns.csv", "name\nSpring Term\n", "spring term"),
    ("texts=escaped", "campaigns.csv", "name\nBread & Butter\n", "Bread &amp; Butter"),
    ("texts=trimmed", "channels.csv", "name,description\nTerm,\"two \"\n", "two"),
    ("texts=collapsed", "channels.csv", "name,description\nterm,\"one\ntwo\"\n", "one two"),
    ("texts=lowered", "pixels.csv", "type,name,tag\nbing,n,AB-1\n", "ab-1"),
    ("texts=lowered,pixel-answer=bare", "pixels.csv", "type,name,tag\nbing,n,AB-1\n", "ab-1"),
    ("texts=trimmed", "pixels.csv", "type,name,tag\nbing,n,\"ab-1 \"\n", "ab-1"),
    (
        "texts=lowered",
        "domains.csv",
        "domain\nhttps://Term.Example/Path\n",
        "https://term.example/path",
    ),
    (
        "texts=without-slash",
        "domains.csv",
        "domain\nhttps://term.example/\n",
        "https://term.example",
    ),
    (
        "texts=without-slash",
        "domains.csv",
        "domain,redirectroot\nhttps://term.example,https://home.example/a/\n",
        "https://home.example/a",
    ),
    (
        "texts=lowered",
        "domains.csv",
        "domain,redirect404\nhttps://term.example,https://home.example/Lost\n",
        "https://home.example/lost",
    ),
    (
        "texts=encoded",
        "domains.csv",
        "domain,redirectroot\nhttps://term.example,https://home.example/ü\n",
        "https://home.example/%C3%BC",
    ),
];

#[test]
fn a_value_in_another_form_is_told_once_and_makes_no_second_record() {
    for (behaviour, file, text, stored) in FORMS {
        let (environment, service) = TestEnvironment::with_service(behaviour);
        environment.write(file, text);
        let counts = || {
            let sandbox = service.sandbox();
            let store = sandbox.store();
            [store.channels.len(), store.campaigns.len(), store.pixels.len(), store.domains.len()]
        };
        let before: usize = counts().iter().sum();
        let ran = environment.import(file, &["--accept-suspicious"]);
        assert_eq!(ran.code(), Some(0), "{behaviour} {text}: {}", ran.stderr());
        let told = format!("is stored as `{stored}`");
        assert!(ran.stderr().contains(&told), "{behaviour} {text}: {}", ran.stderr());
        assert_eq!(counts().iter().sum::<usize>(), before + 1, "{behaviour} {text}");
        // The file and the account are equal, for every command.
        let diff = environment.run(&["diff", "main@live", file, "--detailed-exitcode"]);
        assert_eq!(diff.code(), Some(0), "{behaviour} {text}: {}", diff.stdout());
        let again = environment.import(file, &["--accept-suspicious"]);
        assert_eq!(again.stdout(), "Nothing to do.\n", "{behaviour} {text}");
        assert_eq!((again.code(), service.writes().len()), (Some(0), 1), "{behaviour} {text}");
        assert!(!again.stderr().contains("stored as"), "{behaviour} {text}: {}", again.stderr());
    }
}

/// The value of the edited export is no longer the value of the account, because of ourselves.
#[test]
fn an_edit_that_is_stored_in_another_form_is_no_conflict_with_ourselves() {
    let (environment, service) = TestEnvironment::with_service("texts=collapsed");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    environment.edit("sheets/channels.csv", "What we post ourselves", "What  we  post");
    let apply = ["apply", "sheets", "--to", "main", "--yes"];
    environment.run(&apply).succeeds().stderr_has("is stored as `What we post`");
    environment.run(&apply).succeeds().stdout_is("Nothing to do.\n");
    environment.run(&["diff", "main@live", "sheets", "--detailed-exitcode"]).succeeds();
    // Somebody else's edit is still a conflict.
    service.sandbox().mutate(|store| {
        "WHAT WE POST".clone_into(&mut store.channels.get_mut(2).unwrap().description);
    });
    environment.run(&apply).exits_with(4);
}

/// `restore` does not say that there is nothing to do where `diff` shows a change.
#[test]
fn restore_and_diff_agree_about_letter_case() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "name,description\nReading Weeks,For Schools\n");
    environment.import("channels.csv", &[]).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
    let id = service.sandbox().store().channels.iter().map(|(id, _)| id).max().unwrap();
    service.sandbox().mutate(|store| {
        let row = store.channels.get_mut(id).unwrap();
        "reading weeks".clone_into(&mut row.name);
        "for schools".clone_into(&mut row.description);
    });
    environment.run(&["backup", "-q"]).succeeds();
    let ran = environment.run(&["diff", "main@latest~1", "main@latest", "--detailed-exitcode"]);
    ran.exits_with(2).stdout_has("Reading Weeks").stdout_has("For Schools");
    let ran = environment.run(&["restore", "main@latest~1", "--to", "main", "--yes"]);
    ran.succeeds().stdout_has("1 done, 1 verified");
    let name = service.sandbox().store().channels.get(id).unwrap().name.clone();
    assert_eq!(name, "Reading Weeks");
    // A file, too.
    service.sandbox().mutate(|store| {
        "reading weeks".clone_into(&mut store.channels.get_mut(id).unwrap().name);
    });
    let diff = ["diff", "main@live", "channels.csv", "--detailed-exitcode"];
    environment.run(&diff).exits_with(2);
    environment.import("channels.csv", &[]).succeeds().stdout_has("1 done, 1 verified");
}

#[test]
fn a_migration_is_verified_with_letter_case() {
    let mut store = Store::default();
    store.add_campaign("Spring", None, true);
    let mut channel = linkvault::sandbox::store::StoredChannel::default();
    "Social".clone_into(&mut channel.name);
    "What We post".clone_into(&mut channel.description);
    store.channels.add(channel);
    let mut domain = linkvault::sandbox::store::Domain::default();
    "https://go.example".clone_into(&mut domain.domain);
    "https://home.example/About".clone_into(&mut domain.redirectroot);
    store.domains.add(domain);
    let mut pixel = linkvault::sandbox::store::Pixel::default();
    "bing".clone_into(&mut pixel.kind);
    "Search".clone_into(&mut pixel.name);
    "AB-1".clone_into(&mut pixel.tag);
    store.pixels.add(pixel);
    let verify = ["migrate", "old", "new", "--verify-only"];
    let migrated = |behaviour: &str| {
        let old = LiveService::serving(store.clone(), "rate-limit=2000", "");
        let new = LiveService::serving(Store::default(), behaviour, "");
        let environment = environment(&old, &new);
        environment.run(&["migrate", "old", "new", "--yes"]).succeeds();
        environment.run(&verify).succeeds();
        (environment, old, new)
    };
    type Change = fn(&mut Store);
    let changes: [(&str, Change); 6] = [
        ("path", |store| {
            store.domains.iter_mut().for_each(|(_, row)| {
                "https://home.example/about".clone_into(&mut row.redirectroot);
            });
        }),
        ("tag", |store| {
            store.pixels.iter_mut().for_each(|(_, row)| "ab-1".clone_into(&mut row.tag));
        }),
        ("pixel name", |store| {
            store.pixels.iter_mut().for_each(|(_, row)| "search".clone_into(&mut row.name));
        }),
        ("campaign name", |store| {
            store.campaigns.iter_mut().for_each(|(_, row)| "SPRING".clone_into(&mut row.name));
        }),
        ("channel name", |store| {
            store.channels.iter_mut().for_each(|(_, row)| "social".clone_into(&mut row.name));
        }),
        ("description", |store| {
            store.channels.iter_mut().for_each(|(_, row)| {
                "what we post".clone_into(&mut row.description);
            });
        }),
    ];
    let (environment, _old, new) = migrated("rate-limit=2000");
    let whole = new.sandbox().store().clone();
    for (what, change) in changes {
        new.sandbox().mutate(change);
        let ran = environment.run(&verify);
        assert_eq!(ran.code(), Some(2), "{what}: {}{}", ran.stdout(), ran.stderr());
        new.sandbox().mutate(|store| *store = whole.clone());
    }
    environment.run(&verify).succeeds();
    // The service's own form is no difference.
    for texts in ["lowered", "collapsed", "without-slash", "encoded", "escaped"] {
        let (environment, _old, _new) = migrated(&format!("rate-limit=2000,texts={texts}"));
        environment.run(&["migrate", "old", "new", "--yes"]).succeeds().stdout_has("Nothing");
    }
}
