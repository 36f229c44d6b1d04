//! Responses that do not match the request.

use linkvault::api::error::ApiErrorKind;
use linkvault::crawl::CrawlError;
use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::store::Domain;
use linkvault::vault::snapshot::{ReadState, Snapshot, SnapshotStatus};
use serde_json::json;

use super::world::World;
use crate::sim::invariants;

const GARBAGE: [&str; 7] =
    ["not-utf8", "deep", "wrong-types", "huge-numbers", "truncated", "empty", "null"];

fn world() -> World {
    World::of(generate(3, GeneratedCounts::each(8)), "")
}

fn state(snapshot: &Snapshot, resource: Resource) -> ReadState {
    snapshot.outcome(resource).unwrap().state
}

#[test]
fn an_html_response_removes_no_records() {
    for fault in ["html", "server-error-html", "redirect"] {
        let mut world = world();
        world.backup();
        world.change(|store| drop(store.domains.remove(2)));
        world.set_faults(&format!("{fault}@/api/domains"), 0);
        let found = world.backup().snapshot;
        assert_eq!(found.status, SnapshotStatus::Partial);
        assert_eq!(state(&found, Resource::Domains), ReadState::Failed, "{fault}");
        assert_eq!(
            world.shown(SnapshotId(2))[&Resource::Domains],
            world.shown(SnapshotId(1))[&Resource::Domains]
        );
        assert_eq!(state(&found, Resource::Pixels), ReadState::Complete);
    }
}

#[test]
fn a_single_html_response_is_retried() {
    let mut world = world();
    world.set_faults("html@/api/domains#1", 0);
    assert_eq!(world.backup().snapshot.status, SnapshotStatus::Complete);
    let domains =
        world.requested_paths().iter().filter(|path| path.starts_with("/api/domains")).count();
    assert_eq!(domains, 2);
}

#[test]
fn a_response_without_a_list_is_not_an_empty_list() {
    let envelope = r#""result":0,"perpage":15,"currentpage":1,"nextpage":null,"maxpage":1"#;
    for body in [
        r#"{"error":0}"#.to_owned(),
        r#"{"error":"0","data":null}"#.to_owned(),
        r#"{"error":"0","data":{}}"#.to_owned(),
        r#"{"error":"0","data":[]}"#.to_owned(),
        r#"{"error":"0","data":{"pixels":null}}"#.to_owned(),
        r#"{"error":"0","data":{"pixels":"none"}}"#.to_owned(),
        format!(r#"{{"error":"0","data":{{{envelope}}}}}"#),
        format!(r#"{{"error":"0","data":{{{envelope},"records":[]}}}}"#),
    ] {
        let mut world = world();
        world.backup();
        world.canned = Some(("/api/pixels".to_owned(), body.clone()));
        let found = world.backup().snapshot;
        assert_eq!(state(&found, Resource::Pixels), ReadState::Failed, "{body}");
        assert_eq!(
            world.shown(SnapshotId(2))[&Resource::Pixels],
            world.shown(SnapshotId(1))[&Resource::Pixels]
        );
    }
}

#[test]
fn malformed_responses_are_never_an_empty_account() {
    for garbage in GARBAGE {
        let mut world = world();
        world.backup();
        let before = world.shown(SnapshotId(1));
        for list in ["domains", "campaigns", "channels", "splash", "pixels", "overlay", "qr"] {
            let fault = format!("garbage:{garbage}@/api/{list}");
            world.set_faults(&fault, 0);
            let found = world.backup().snapshot;
            let after = world.shown(found.number);
            invariants::is_sound(&mut world.open());
            // A list that repeatedly reports one record has one.
            let lists = before.iter().filter(|_| garbage != "huge-numbers");
            for (resource, records) in lists {
                let keys: Vec<_> = after[resource].keys().collect();
                assert!(records.keys().all(|key| keys.contains(&key)), "{fault}: {resource}");
            }
        }
    }
}

#[test]
fn an_unreadable_account_stops_the_backup_without_a_change() {
    for garbage in GARBAGE {
        let mut world = world();
        world.backup();
        let before = world.shown(SnapshotId(1));
        world.set_faults(&format!("garbage:{garbage}@/api/account"), 0);
        assert!(world.start().is_err(), "{garbage}");
        assert_eq!(world.open().all_snapshots().unwrap().len(), 1);
        assert_eq!(world.shown(SnapshotId(1)), before);
    }
}

#[test]
fn one_malformed_record_is_reported_and_the_others_are_stored() {
    let mut world = World::of(Store::default(), "");
    world.change(|store| {
        for n in 0..3 {
            let domain = format!("https://go{n}.example.com");
            store.domains.add(Domain { domain, ..Domain::default() });
        }
        let id = json!("99999999999999999999");
        store.domains.get_mut(2).unwrap().extra.insert("id".to_owned(), id);
    });
    let summary = world.backup();
    let keys: Vec<_> =
        world.shown(SnapshotId(1))[&Resource::Domains].keys().map(RecordKey::id).collect();
    assert_eq!(keys, [1, 3]);
    let told = summary.snapshot.outcome(Resource::Domains).unwrap();
    let message = told.message.as_deref().unwrap();
    assert!(message.contains("domains \"99999999999999999999\""), "{message}");
    assert_eq!(summary.snapshot.status, SnapshotStatus::Partial);
    assert_eq!(summary.problems.len(), 1);
}

#[test]
fn an_invalid_record_prevents_removals_in_its_list() {
    let mut world = world();
    world.backup();
    world.change(|store| {
        let id = json!({});
        store.domains.get_mut(2).unwrap().extra.insert("id".to_owned(), id);
        store.domains.remove(5);
    });
    let found = world.backup().snapshot;
    assert_eq!(world.shown(SnapshotId(2))[&Resource::Domains].len(), 8);
    assert_eq!(found.outcome(Resource::Domains).unwrap().removed, 0);
}

#[test]
fn a_resource_that_is_no_longer_offered_keeps_its_records() {
    let mut world = world();
    world.backup();
    for status in ["404", "403"] {
        world.service().behaviour_mut().set("not-offered", "qr+splash").unwrap();
        world.service().behaviour_mut().set("not-offered-status", status).unwrap();
        world.pass(std::time::Duration::from_secs(86_400));
        world.requested_paths();
        let found = world.backup().snapshot;
        assert_eq!(state(&found, Resource::QrCodes), ReadState::NotOffered);
        assert_eq!(found.status, SnapshotStatus::Partial);
        assert_eq!(world.shown(found.number)[&Resource::QrCodes].len(), 8);
        let codes =
            world.requested_paths().iter().filter(|path| path.starts_with("/api/qr")).count();
        assert_eq!(codes, 1, "no statistics are asked for");
    }
}

#[test]
fn a_resource_that_was_never_offered_is_not_reported() {
    let mut world = World::of(generate(3, GeneratedCounts::each(8)), "not-offered=overlay+splash");
    assert_eq!(world.backup().snapshot.status, SnapshotStatus::Complete);
}

#[test]
fn a_refused_key_stops_the_backup() {
    for status in ["403", "401", "200"] {
        let mut world = world();
        world.backup();
        world.service().behaviour_mut().set("authorization", "dropped").unwrap();
        world.service().behaviour_mut().set("bad-key", status).unwrap();
        let error = world.start().unwrap_err();
        let CrawlError::Api(error) = error else { panic!("{error}") };
        assert!(matches!(error.kind, ApiErrorKind::Unauthorised { .. }), "{error}");
        assert_eq!(world.open().all_snapshots().unwrap().len(), 1);
    }
}

#[test]
fn unreadable_statistics_are_reported_and_fetched_by_the_next_backup() {
    let mut world = World::with_sample_account();
    world.set_faults("html@/api/qr/", 0);
    let summary = world.backup();
    assert_eq!(summary.snapshot.status, SnapshotStatus::Partial);
    assert!(summary.stats.failed > 0 && summary.stats.fetched == 0);
    world.set_faults("", 0);
    let summary = world.backup();
    assert_eq!(summary.snapshot.status, SnapshotStatus::Complete);
    assert_eq!(summary.stats.failed, 0);
    assert!(summary.stats.fetched > 0);
}

#[test]
fn a_refusal_message_with_any_status_is_not_offered_and_not_retried() {
    for (status, not_offered) in [("200", "404"), ("200", "403"), ("4xx", "404"), ("4xx", "403")] {
        let mut world = world();
        world.backup();
        let before = world.shown(SnapshotId(1));
        let service = [
            ("not-offered", "overlay+channels"),
            ("not-offered-status", not_offered),
            ("error-status", status),
        ];
        for (name, value) in service {
            world.service().behaviour_mut().set(name, value).unwrap();
        }
        world.requested_paths();
        let found = world.backup().snapshot;
        let at = format!("{status}, {not_offered}");
        for resource in [Resource::Overlays, Resource::Channels, Resource::ChannelItems] {
            let outcome = found.outcome(resource).unwrap();
            assert_eq!(outcome.state, ReadState::NotOffered, "{at}: {outcome:?}");
            assert!(outcome.message.is_some(), "{at}: a loss is told");
            assert_eq!(
                world.shown(SnapshotId(2))[&resource],
                before[&resource],
                "{at}: nothing is gone"
            );
        }
        assert_eq!(found.status, SnapshotStatus::Partial, "{at}");
        let asked = world.requested_paths();
        for list in ["/api/overlay", "/api/channels"] {
            let times = asked.iter().filter(|path| path.starts_with(list)).count();
            assert_eq!(times, 1, "{at}: {asked:?}");
        }
        let items = asked.iter().filter(|path| path.starts_with("/api/channel/")).count();
        assert_eq!(items, 0, "{at}: {asked:?}");
    }
}

#[test]
fn excluded_resources_are_shown_as_last_known_and_not_reported() {
    let mut world = world();
    world.backup();
    let before = world.shown(SnapshotId(1));
    world.change(|store| drop(store.channels.remove(1)));
    world.service().behaviour_mut().set("not-offered", "overlay").unwrap();
    world.options = world.options.clone().excluding(&[Resource::Overlays, Resource::Channels]);
    world.requested_paths();
    let found = world.backup().snapshot;
    assert_eq!(found.status, SnapshotStatus::Complete, "{found:?}");
    for resource in [Resource::Overlays, Resource::Channels, Resource::ChannelItems] {
        assert_eq!(state(&found, resource), ReadState::Excluded);
        assert_eq!(world.shown(SnapshotId(2))[&resource], before[&resource]);
    }
    let asked = world.requested_paths();
    assert!(
        !asked.iter().any(|it| it.contains("/overlay") || it.contains("/channel")),
        "{asked:?}"
    );
    assert_eq!(world.open().newest(true).unwrap().unwrap().number, SnapshotId(2));
    // Once the list is read again, deleted records are removed.
    world.options = linkvault::crawl::CrawlOptions::new("http://sandbox");
    let found = world.backup().snapshot;
    assert_eq!(found.outcome(Resource::Channels).unwrap().removed, 1);
}

#[test]
fn a_key_that_expires_during_a_crawl_is_not_a_missing_resource() {
    for status in ["403", "401", "200"] {
        for at in 2..6 {
            let mut world = world();
            world.backup();
            world.before_request = Some(std::sync::Arc::new(std::sync::Mutex::new(
                move |service: &mut linkvault::sandbox::SandboxService, nth: u64| {
                    if nth == at {
                        service.behaviour_mut().set("authorization", "dropped").unwrap();
                        service.behaviour_mut().set("bad-key", status).unwrap();
                    }
                },
            )));
            let found = world.backup().snapshot;
            let states: Vec<_> = found.outcomes.iter().map(|it| it.state).collect();
            assert!(!states.contains(&ReadState::NotOffered), "{status} at {at}: {states:?}");
            assert!(states.contains(&ReadState::Failed), "{status} at {at}: {states:?}");
        }
    }
}

#[test]
fn a_refusal_that_may_be_about_the_key_is_checked_at_the_account() {
    let mut world = world();
    world.backup();
    let forbidden = r#"{"error":1,"message":"This action is unauthorized."}"#;
    world.canned = Some(("/api/overlay".to_owned(), forbidden.to_owned()));
    world.requested_paths();
    let found = world.backup().snapshot;
    assert_eq!(state(&found, Resource::Overlays), ReadState::NotOffered);
    let asked = world.requested_paths();
    let account = asked.iter().filter(|path| *path == "/api/account").count();
    assert_eq!(account, 2, "{asked:?}");
}

#[test]
fn an_empty_list_that_is_no_longer_offered_is_reported_once() {
    let counts = GeneratedCounts { overlays: 0, ..GeneratedCounts::each(4) };
    let mut world = World::of(generate(3, counts), "");
    world.backup();
    world.service().behaviour_mut().set("not-offered", "overlay").unwrap();
    let summary = world.backup();
    assert_eq!(summary.snapshot.status, SnapshotStatus::Complete);
    let told = summary.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(told[0].starts_with("overlays (all): are no longer offered: "), "{told:?}");
    assert_eq!(world.backup().problems, []);
}
