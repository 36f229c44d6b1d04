//! The invariants after every backup.

use std::collections::BTreeMap;
use std::time::Duration;

use linkvault::api::client::LONG_PAUSE;
use linkvault::crawl::CrawlReport;
use linkvault::model::{RecordKey, Resource};
use linkvault::vault::Vault;
use linkvault::vault::snapshot::{ReadState, Snapshot, SnapshotStatus};

use super::history::{History, RememberedSnapshot};
use super::oracle::{self, Content};
use crate::sim::recorded_transport::RecordedTraffic;
use crate::sim::seeded_choices::Round;

/// A backup longer than this confirms the account before its snapshot is finished.
const MINUTE: Duration = Duration::from_secs(60);

/// Asserts that `check` reports no problem.
#[track_caller]
pub fn is_sound(vault: &mut Vault) {
    assert_eq!(vault.check().unwrap().problems, Vec::<String>::new());
}

/// Asserts all invariants after a backup.
pub fn check(history: &mut History<'_>, round: &Round, summary: &CrawlReport) {
    let mut vault = history.world.open();
    is_sound(&mut vault);
    let newest = history.known.keys().last().copied();
    let fresh: Vec<_> = vault
        .snapshots()
        .unwrap()
        .into_iter()
        .filter(|snapshot| newest.is_none_or(|newest| snapshot.number > newest))
        .collect();
    assert_eq!(fresh.last(), Some(&summary.snapshot));
    for snapshot in fresh {
        let content = oracle::shown(&mut vault, snapshot.number);
        let before = history.known.values().last();
        let empty = Content::new();
        let before = before.map_or(&empty, |known| &known.content);
        assert_matches_service(history, round, before, &snapshot, &content);
        assert_counts(before, &snapshot, &content);
        history.known.insert(snapshot.number, RememberedSnapshot { snapshot, content });
    }
    let throttled = history.world.service().totals().throttled;
    if !round.faults.contains("throttled") {
        assert_eq!(throttled, history.throttled, "refused for the limit");
    }
    history.throttled = throttled;
    if round.is_undisturbed() {
        assert_minimal_requests(history, summary);
    }
}

/// Promise 1, compared with the world's state.
fn assert_matches_service(
    history: &History<'_>,
    round: &Round,
    before: &Content,
    snapshot: &Snapshot,
    content: &Content,
) {
    let existing = history.existing.lock().unwrap();
    let none = BTreeMap::new();
    let told = if existing.drifted { Content::new() } else { history.world.content() };
    for outcome in &snapshot.outcomes {
        let resource = outcome.resource;
        let at = format!("{resource} of #{} ({outcome:?})", snapshot.number);
        let shown = &content[&resource];
        let before = before.get(&resource).unwrap_or(&none);
        assert_eq!(outcome.records, shown.len() as u64, "{at}");
        for key in before.keys().filter(|key| !shown.contains_key(key)) {
            let really = !existing.always.contains(&(resource, key.clone()));
            assert!(really, "{at}: {key} is gone, and was there all the time");
            // The items of each channel are a list of their own.
            let whole = outcome.state == ReadState::Complete || resource == Resource::ChannelItems;
            assert!(whole, "{at}: {key} is gone by an unproven list");
        }
        for (key, raw) in shown {
            let heard = history.world.traffic.lock().unwrap().delivered.contains(raw);
            assert!(heard || before.get(key) == Some(raw), "{at}: no answer had {raw}");
        }
        if outcome.state != ReadState::Complete {
            continue;
        }
        if !existing.drifted {
            equals(&told[&resource], shown, resource, &at);
        } else if round.faults.is_empty() {
            for (_, key) in existing.always.iter().filter(|(of, _)| *of == resource) {
                assert!(shown.contains_key(key), "{at}: {key} was there all the time");
            }
            for key in shown.keys() {
                assert!(existing.ever.contains(&(resource, key.clone())), "{at}: {key} never was");
            }
        }
    }
    let whole =
        snapshot.outcomes.iter().all(linkvault::vault::snapshot::ResourceOutcome::is_complete);
    assert_eq!(snapshot.status == SnapshotStatus::Complete, whole);
}

/// Asserts that two contents are equal byte by byte, except for what changes by itself.
fn equals(
    told: &BTreeMap<RecordKey, String>,
    shown: &BTreeMap<RecordKey, String>,
    resource: Resource,
    at: &str,
) {
    let keys = |records: &BTreeMap<RecordKey, String>| records.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(told), keys(shown), "{at}");
    for (key, raw) in told {
        let (told, most) = oracle::comparable(resource, raw);
        let (shown, scans) = oracle::comparable(resource, &shown[key]);
        assert_eq!(told, shown, "{at}");
        assert!(scans <= most, "{at}: {key} has more scans than there were");
    }
}

/// Asserts that a snapshot's counts are those of a comparison with the one before.
fn assert_counts(before: &Content, snapshot: &Snapshot, content: &Content) {
    let none = BTreeMap::new();
    for outcome in &snapshot.outcomes {
        let resource = outcome.resource;
        let (old, new) = (before.get(&resource).unwrap_or(&none), &content[&resource]);
        // Neither changed scans nor a name under its other key count as a change.
        let text = |raw: &str| oracle::comparable(resource, raw).0;
        let added = new.keys().filter(|key| !old.contains_key(key)).count() as u64;
        let removed = old.keys().filter(|key| !new.contains_key(key)).count() as u64;
        let differs = |(key, raw): &(&RecordKey, &String)| {
            old.get(key).is_some_and(|before| text(before) != text(raw))
        };
        let changed = new.iter().filter(differs).count() as u64;
        let told = (outcome.added, outcome.changed, outcome.removed);
        assert_eq!(told, (added, changed, removed), "{resource} of #{}", snapshot.number);
    }
}

/// A backup without disturbances sends no more requests than necessary.
fn assert_minimal_requests(history: &History<'_>, summary: &CrawlReport) {
    let removed: u64 = summary.snapshot.outcomes.iter().map(|outcome| outcome.removed).sum();
    let learning = history.drawn.behaviour.contains("over-limit=refuse");
    // A record on two pages causes a second reading.
    let twins = history.drawn.behaviour.contains("twins=");
    if removed > 0 || learning || twins || summary.snapshot.status != SnapshotStatus::Complete {
        return;
    }
    let least = crate::sim::minimal_requests::requests(&history.world) + summary.stats.fetched;
    let traffic = history.world.traffic.lock().unwrap();
    let confirmed = account_checks(&traffic, history.begun);
    assert_eq!(summary.usage.requests, least + confirmed, "{:#?}", traffic.paths);
}

/// Number of times that a backup started at `begun` confirmed the account. Asserts a reason for
/// each: a pause between two requests, or, at the end, more than a minute since the last time.
fn account_checks(traffic: &RecordedTraffic, begun: Duration) -> u64 {
    let all: Vec<_> = traffic.paths.iter().zip(&traffic.times).collect();
    let (mut proven, mut paused, mut confirmed) = (begun, false, 0);
    for (nth, pair) in all.windows(2).enumerate() {
        let [(_, (before, answered)), (path, (left, _))] = pair else { unreachable!() };
        if path.as_str() == "/api/account" {
            let is_last = nth + 2 == all.len();
            let is_late = is_last && answered.saturating_sub(proven) > MINUTE;
            assert!(paused || is_late, "confirmed without a reason: {all:#?}");
            (proven, paused, confirmed) = (*answered, false, confirmed + 1);
        } else {
            paused |= left.saturating_sub(*before) > LONG_PAUSE;
        }
    }
    let ended = all.last().map_or(begun, |(_, (_, answered))| *answered);
    let is_last = all.len() > 1 && all.last().is_some_and(|(path, _)| *path == "/api/account");
    let is_late = ended.saturating_sub(proven) > MINUTE && !is_last;
    assert!(!paused && !is_late, "not confirmed: {all:#?}");
    confirmed
}
