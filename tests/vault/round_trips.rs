//! Random sequences of backups, forgets and reopenings, compared with a simple model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use linkvault::model::differences::equal_fields;
use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::vault::Vault;
use linkvault::vault::snapshot::Snapshot;
use proptest::prelude::*;

use crate::vault::snapshot_builder::{TestService, assert_sound, day};

#[derive(Debug, Clone)]
enum Step {
    /// Begins a snapshot if none is running.
    Begin,
    /// Stores records, by kind, id, spelling and counter.
    Put(Vec<(usize, i64, usize, i64)>),
    /// Marks a record as deleted when the snapshot is finished.
    Vanish(usize, i64),
    Statistics(i64, i64),
    Finish,
    /// Forgets the finished snapshots whose bit is set.
    Forget(u16),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let one = (0..4_usize, 1..5_i64, 0..7_usize, 0..4_i64);
    prop_oneof![
        2 => Just(Step::Begin),
        5 => prop::collection::vec(one, 1..6).prop_map(Step::Put),
        2 => (0..4_usize, 1..5_i64).prop_map(|(kind, id)| Step::Vanish(kind, id)),
        1 => (1..5_i64, 0..4_i64).prop_map(|(code, scans)| Step::Statistics(code, scans)),
        3 => Just(Step::Finish),
        2 => any::<u16>().prop_map(Step::Forget),
        1 => Just(Step::Reopen),
    ]
}

/// A record's text, the part that makes a version, and its counter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Text {
    raw: String,
    essence: String,
    count: Option<i64>,
}

const KINDS: [Resource; 4] =
    [Resource::Campaigns, Resource::QrCodes, Resource::ChannelItems, Resource::Domains];

fn text(kind: usize, id: i64, spelling: usize, count: i64) -> Text {
    let other = |essence: &str| Text { raw: essence.into(), essence: essence.into(), count: None };
    match (KINDS[kind], spelling) {
        (Resource::QrCodes, 0) => counted(id, count, |id, count| {
            format!(r#"{{"id":{id},"link":"https:\/\/x\/{id}","scans":{count},"name":"a"}}"#)
        }),
        (Resource::QrCodes, 1) => counted(id, count, |id, count| {
            format!(r#"{{"scans":"{count}","id":"{id}","name":"caf\u00e9"}}"#)
        }),
        (Resource::QrCodes, 2) => counted(id, count, |id, count| {
            format!(r#"{{"id":{id},"scans":{count},"scans":9,"name":"a","name":"b"}}"#)
        }),
        (Resource::QrCodes, 3) => other(&format!(r#"{{"id":{id},"scans":null}}"#)),
        (Resource::QrCodes, 4) => other(&format!(r#"{{"id":{id},"scans":"n/a"}}"#)),
        (Resource::QrCodes, 5) => {
            let raw = format!(r#"{{"id":{id},"scans":"00{count}"}}"#);
            Text { essence: raw.clone(), raw, count: Some(count) }
        }
        (Resource::QrCodes, _) => other(&format!(r#"{{"id":{id}}}"#)),
        (Resource::ChannelItems, _) => other(&format!(
            r#"{{"type":"{}","id":{id},"title":"t{count}","date":"2026-01-0{count}"}}"#,
            ["links", "bio"][spelling % 2]
        )),
        (Resource::Domains, _) => other(&format!(
            "{{\n  \"id\": {id},\n  \"domain\": \"d{count}\",\n  \"x\": [{spelling}]\n}}"
        )),
        _ => other(&match spelling {
            0 => format!(r#"{{"id":{id},"name":"n{count}","public":true}}"#),
            1 => format!(r#"{{"id":"{id}","domain":"n{count}","public":"1"}}"#),
            2 => format!(r#"{{"id":{id},"name":"\u0000\u0001{count}"}}"#),
            3 => format!(r#"{{"id":{id},"name":"\ud800{count}"}}"#),
            4 => format!(r#"{{"id":{id},"name":{count}.50,"public":"maybe"}}"#),
            5 => format!(r#"{{"id":{id},"rotator":false,"list":null,"k{count}":[[{count}]]}}"#),
            _ => format!(r#"{{"id":{id},"name":"a","name":"{count}","campaign":"z"}}"#),
        }),
    }
}

fn counted(id: i64, count: i64, write: impl Fn(i64, i64) -> String) -> Text {
    Text { raw: write(id, count), essence: write(id, 0), count: Some(count) }
}

fn key(kind: usize, id: i64, spelling: usize) -> (Resource, RecordKey) {
    let key = match KINDS[kind] {
        Resource::ChannelItems => {
            RecordKey::Item { channel: id % 2, kind: ["links", "bio"][spelling % 2].to_owned(), id }
        }
        _ => RecordKey::Id(id),
    };
    (KINDS[kind], key)
}

type Records = BTreeMap<(Resource, RecordKey), Text>;

/// The expected content of the vault.
#[derive(Default)]
struct Model {
    now: Records,
    /// Each QR code's counters and statistics, by the snapshot that first read them.
    counts: BTreeMap<i64, BTreeMap<SnapshotId, Option<i64>>>,
    statistics: BTreeMap<i64, BTreeMap<SnapshotId, String>>,
    running: Option<Running>,
    finished: BTreeMap<SnapshotId, Finished>,
    last: SnapshotId,
}

struct Running {
    before: Records,
    vanishing: BTreeSet<(Resource, RecordKey)>,
}

struct Finished {
    records: Records,
    snapshot: Snapshot,
    readable: bool,
}

impl Model {
    fn put(&mut self, at: (Resource, RecordKey), text: &Text) {
        let last = self.last;
        let Some(running) = &mut self.running else { return };
        running.vanishing.remove(&at);
        if at.0 == Resource::QrCodes {
            let counts = self.counts.entry(at.1.id()).or_default();
            if counts.last_key_value().and_then(|(_, count)| *count) != text.count {
                counts.insert(last, text.count);
            }
        }
        self.now.insert(at, text.clone());
    }

    fn finish(&mut self, snapshot: Snapshot) {
        let Some(running) = self.running.take() else { return };
        for resource in Resource::ALL {
            let of = |records: &Records| -> BTreeSet<_> {
                records.keys().filter(|(it, _)| *it == resource).cloned().collect()
            };
            let (before, after) = (of(&running.before), of(&self.now));
            // A record that changed back within one snapshot does not count as changed, and neither
            // does one with only another spelling.
            let differs = |at: &&(Resource, RecordKey)| {
                let raw = |records: &Records| records[*at].raw.clone();
                !equal_fields(at.0, &at.1, &raw(&running.before), &raw(&self.now))
            };
            let changed = before.intersection(&after).filter(differs);
            let expected = [
                after.len(),
                after.difference(&before).count(),
                changed.count(),
                before.difference(&after).count(),
            ];
            let told = snapshot.outcome(resource).unwrap();
            let told = [told.records, told.added, told.changed, told.removed];
            assert_eq!(told, expected.map(|count| count as u64), "{resource} of #{}", self.last);
        }
        let records = self.now.clone();
        self.finished.insert(snapshot.number, Finished { records, snapshot, readable: true });
    }

    fn compare(&self, vault: &mut Vault) {
        let numbers: Vec<_> = vault.snapshots().unwrap().iter().map(|it| it.number).collect();
        let readable: Vec<_> =
            self.finished.iter().filter(|(_, it)| it.readable).map(|(number, _)| *number).collect();
        assert_eq!(numbers, readable);
        for number in &readable {
            let finished = &self.finished[number];
            assert_eq!(vault.snapshot(*number).unwrap(), finished.snapshot);
            let state = vault.state(*number, &Resource::ALL).unwrap();
            let found: BTreeMap<_, _> = state
                .iter()
                .flat_map(|(resource, records)| {
                    records.iter().map(move |(key, record)| ((resource, key.clone()), record))
                })
                .map(|(at, record)| (at, record.raw.to_string()))
                .collect();
            let expected: BTreeMap<_, _> =
                finished.records.iter().map(|(at, it)| (at.clone(), it.raw.clone())).collect();
            assert_eq!(found, expected, "state of #{number}");
        }
        self.compare_histories(vault, &readable);
        self.compare_series(vault);
    }

    fn compare_histories(&self, vault: &mut Vault, readable: &[SnapshotId]) {
        let all: BTreeSet<_> =
            self.finished.values().flat_map(|finished| finished.records.keys()).collect();
        for at in all {
            let versions = vault.history(at.0, &at.1).unwrap();
            for number in readable {
                let shown = versions.iter().filter(|version| {
                    version.since <= *number && version.until.is_none_or(|until| until > *number)
                });
                let shown: Vec<_> = shown.map(|version| &*version.record.raw).collect();
                let expected = self.finished[number].records.get(at);
                assert_eq!(shown.len(), usize::from(expected.is_some()), "{at:?} at #{number}");
                if at.0 != Resource::QrCodes {
                    assert_eq!(shown.first().copied(), expected.map(|it| it.raw.as_str()));
                }
            }
            let ends = versions.iter().flat_map(|it| [Some(it.since), it.until]).flatten();
            assert!(ends.clone().all(|end| readable.contains(&end)), "{at:?}: {versions:?}");
        }
    }

    fn compare_series(&self, vault: &Vault) {
        for code in 1..5 {
            let finished = |number: &SnapshotId| self.finished.contains_key(number);
            let counts = self.counts.get(&code).into_iter().flatten();
            let counts: Vec<_> = counts
                .filter(|(number, _)| finished(number))
                .filter_map(|(number, count)| Some((*number, (*count)?)))
                .collect();
            let told = vault.scans(code).unwrap();
            assert_eq!(told.iter().map(|it| (it.snapshot, it.value)).collect::<Vec<_>>(), counts);
            let bodies = self.statistics.get(&code).into_iter().flatten();
            let bodies: Vec<_> = bodies
                .filter(|(number, _)| finished(number))
                .map(|(number, body)| (*number, body.clone()))
                .collect();
            let told = vault.statistics(code).unwrap();
            let told: Vec<_> = told.into_iter().map(|it| (it.snapshot, it.value)).collect();
            assert_eq!(told, bodies);
        }
    }
}

struct World {
    model: Model,
    vault: Option<Vault>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let vault = Vault::open_or_create(&path).unwrap();
        Self { model: Model::default(), vault: Some(vault), path, _folder: folder }
    }

    fn take(&mut self, step: &Step) {
        let model = &mut self.model;
        let vault = self.vault.as_mut().unwrap();
        match step {
            Step::Begin if model.running.is_none() => {
                let service = TestService::begin(vault, day(model.last.0));
                model.last = service.number;
                model.running =
                    Some(Running { before: model.now.clone(), vanishing: BTreeSet::new() });
            }
            Step::Put(all) if model.running.is_some() => {
                for (kind, id, spelling, count) in all {
                    let (at, text) =
                        (key(*kind, *id, *spelling), text(*kind, *id, *spelling, *count));
                    let channel = match &at.1 {
                        RecordKey::Item { channel, .. } => Some(*channel),
                        RecordKey::Id(_) => None,
                    };
                    TestService::continue_running(vault).put_in(at.0, channel, &[&text.raw]);
                    model.put(at, &text);
                }
            }
            Step::Vanish(kind, id) => {
                let at = key(*kind, *id, 0);
                if let Some(running) = &mut model.running {
                    running.vanishing.insert(at);
                }
            }
            Step::Statistics(code, scans) if model.running.is_some() => {
                let body = format!(r#"{{"clicks":{scans}}}"#);
                TestService::continue_running(vault).statistics(*code, *scans, &body);
                model.statistics.entry(*code).or_default().insert(model.last, body);
            }
            Step::Finish => {
                let Some(running) = &model.running else { return };
                for at in running.vanishing.clone() {
                    if model.now.remove(&at).is_some() {
                        TestService::continue_running(vault).remove(at.0, &[at.1]);
                    }
                }
                let snapshot = TestService::continue_running(vault).finish();
                model.finish(snapshot);
            }
            Step::Forget(which) => {
                let numbers: Vec<_> = model
                    .finished
                    .iter_mut()
                    .enumerate()
                    .filter(|(place, (_, it))| it.readable && which >> (place % 16) & 1 == 1)
                    .map(|(_, (number, it))| {
                        it.readable = false;
                        *number
                    })
                    .collect();
                vault.forget(&numbers, day(100)).unwrap();
            }
            Step::Reopen => {
                self.vault = None;
                self.vault = Some(Vault::open(&self.path).unwrap());
            }
            _ => return,
        }
        let vault = self.vault.as_mut().unwrap();
        assert_sound(vault);
        if !matches!(step, Step::Put(_) | Step::Vanish(..) | Step::Begin) {
            self.model.compare(vault);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("LINKVAULT_CASES").map_or(16, |it| it.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_snapshot_reads_back_exactly_after_later_writes(
        steps in prop::collection::vec(step(), 10..50),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Finish);
    }
}
