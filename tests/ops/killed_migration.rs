//! Migrations that are killed and resumed.

use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use serde_json::Value;

use crate::ops::migrate::*;
use crate::support::{LiveService, until};

#[test]
fn a_killed_migration_resumes_without_duplicates() {
    let counts = GeneratedCounts {
        domains: 3,
        campaigns: 40,
        channels: 6,
        channel_items: 5,
        qr_codes: 12,
        pixels: 5,
        overlays: 1,
        splash_pages: 1,
    };
    let old = LiveService::serving(generate(3, counts), OLD, "");
    let new = LiveService::serving(Store::default(), "", "latency=2ms");
    let environment = environment(&old, &new);
    let links: String = (1..200).map(|id| format!("{id},{}\n", id + 1000)).collect();
    let environment = environment.file("map.csv", &format!("from,to\n{links}"));
    let all =
        ["migrate", "old", "new", "--links", "map.csv", "--qr-content", "link", "--yes", "-q"];
    let kill_after = |arguments: &[&str], more: usize| {
        let before = writes(&new);
        let mut child = environment.start(arguments);
        until("some writes", || writes(&new) >= before + more);
        child.kill().unwrap();
        child.wait().unwrap();
    };
    kill_after(&all, 9);
    environment.run(&all).exits_with(1).stderr_has("run 1 of new is not finished");
    kill_after(&["resume", "new", "-q"], 13);
    kill_after(&["resume", "new", "-q"], 11);
    let ran = environment.run(&["resume", "new", "-q"]);
    ran.exits_with(3);
    let made = writes(&new);
    let document = environment.run(&[&all[..8], &["--json"]].concat()).exits_with(3).json();
    for (resource, counts) in document["resources"].as_object().unwrap() {
        for word in ["created", "matched", "failed"] {
            assert_eq!(counts[word], 0, "{resource} {word}: {document:#}");
        }
    }
    assert_eq!((writes(&new), writes(&old)), (made, 0));
    equals(&old, &new);
}

#[test]
fn a_full_account_migrates_despite_five_kills() {
    let counts = GeneratedCounts {
        domains: 6,
        campaigns: 200,
        channels: 50,
        channel_items: 6,
        qr_codes: 300,
        pixels: 12,
        overlays: 4,
        splash_pages: 3,
    };
    let old = "ids=strings,booleans=integers,campaign-list=campaign,max-limit=40,result=total,\
               rate-limit=5000,window=sliding";
    let old = LiveService::serving(generate(11, counts), old, "");
    let new = "names=lowered,create-status=201,campaign-create=name,pixel-answer=bare,\
               channel-update=whole,assign-again=refuse,error-type=integer,rate-limit=zero";
    let new = LiveService::serving(Store::default(), new, "");
    let links: String = (1..200).map(|id| format!("{id},{}\n", id + 1000)).collect();
    let environment = environment(&old, &new).file("map.csv", &format!("from,to\n{links}"));
    let all = ["migrate", "old", "new", "--links", "map.csv", "--qr-content", "link"];
    let begin = [&all[..], &["--yes", "-q"]].concat();
    let resume = ["resume", "new", "-q"];

    // Killed once while it reads, and four times while it writes.
    let kill = |arguments: &[&str], so: &dyn Fn() -> bool| {
        let mut child = environment.start(arguments);
        until("some progress", so);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it was done already");
    };
    kill(&begin, &|| old.request_count() >= 20);
    assert_eq!(writes(&new), 0);
    for (round, arguments) in (0_usize..).zip([&begin[..], &resume, &resume, &resume]) {
        let before = writes(&new);
        kill(arguments, &|| writes(&new) >= before + 90 + 20 * round);
    }
    let ended = environment.run(&["resume", "new"]).exits_with(3);
    ended.stderr_has("`linkvault migrate old@#2 new`");

    // One report of everything, from the migrated state.
    let (read, made) = (old.request_count(), writes(&new));
    let report =
        [&["migrate", "old@#2"], &begin[2..], &["--json", "--report", "moved.md"]].concat();
    let document = environment.run(&report).exits_with(3).json();
    let of = |name: &str| {
        let it = &document["resources"][name];
        ["created", "matched", "unchanged", "unsupported", "failed"]
            .map(|word| it[word].as_u64().unwrap())
    };
    assert_eq!(of("domains"), [0, 0, 6, 0, 0], "{document:#}");
    assert_eq!(of("campaigns"), [0, 0, 200, 0, 0]);
    assert_eq!(of("channels"), [0, 0, 50, 0, 0]);
    assert_eq!(of("qr_codes"), [0, 0, 300, 0, 0]);
    assert_eq!(of("pixels"), [0, 0, 12, 0, 0]);
    assert_eq!(of("overlays"), [0, 0, 0, 4, 0]);
    assert_eq!(of("splash_pages"), [0, 0, 0, 3, 0]);
    let [_, _, held, left, _] = of("channel_items");
    assert_eq!((held as usize, (held + left) as usize), (items(&new), 300));
    for (resource, count) in [("campaigns", 200), ("qr_codes", 300), ("channels", 50)] {
        assert_eq!(document["ids"][resource].as_object().unwrap().len(), count);
    }
    let text = environment.text("moved.md");
    assert!(text.contains("- qr codes: 300 created\n"), "{text}");
    assert_eq!(
        (old.request_count(), writes(&new)),
        (read, made),
        "it is cheap, and writes nothing"
    );

    equals(&old, &new);
    let again = environment.run(&[&begin[..], &["--json"]].concat()).exits_with(3).json();
    assert_eq!((&again["run"], &again["resources"]), (&Value::Null, &document["resources"]));
    environment.run(&[&all[..], &["--verify-only", "-q"]].concat()).exits_with(2);
    assert_eq!((writes(&old), writes(&new)), (0, made));
    assert_eq!(old.throttled() + new.throttled(), 0);
    environment.run(&["check", "new"]).succeeds();
}
