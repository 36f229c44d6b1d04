//! Writes snapshots without a crawl, and reads everything from a vault.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use linkvault::clock::Timestamp;
use linkvault::model::{DecodedRecord, Record, RecordKey, Resource, SnapshotId};
use linkvault::vault::snapshot::{ReadState, RequestUsage, Snapshot};
use linkvault::vault::statistics::StoredStatistics;
use linkvault::vault::write::{CrawledPage, WriteResult};
use linkvault::vault::{Vault, VaultError};
use roaring::RoaringTreemap;
use serde_json::{Value, json};

/// The start of day `number` after 2026-11-01T00:00:00Z.
pub fn day(number: i64) -> Timestamp {
    Timestamp(1_793_491_200_000 + number * 86_400_000)
}

/// Writes a snapshot.
pub struct TestService<'v> {
    pub vault: &'v mut Vault,
    pub number: SnapshotId,
    pub now: Timestamp,
    page: u64,
    /// Whether pages may share a commit.
    pub batch: bool,
}

impl<'v> TestService<'v> {
    pub fn begin(vault: &'v mut Vault, now: Timestamp) -> Self {
        Self::begin_tagged(vault, now, None)
    }

    pub fn begin_tagged(vault: &'v mut Vault, now: Timestamp, tag: Option<&str>) -> Self {
        let number = vault.begin(now, tag, &Resource::ALL).unwrap();
        Self { vault, number, now, page: 0, batch: false }
    }

    /// Continues the running snapshot.
    pub fn continue_running(vault: &'v mut Vault) -> Self {
        let (snapshot, _) = vault.running().unwrap().unwrap();
        Self { vault, number: snapshot.number, now: snapshot.touched, page: 100, batch: false }
    }

    pub fn put(&mut self, resource: Resource, raws: &[impl AsRef<str>]) -> WriteResult {
        self.put_in(resource, None, raws)
    }

    /// Stores a page of the items of `channel`, or of the records of another resource.
    pub fn put_in(
        &mut self,
        resource: Resource,
        channel: Option<i64>,
        raws: &[impl AsRef<str>],
    ) -> WriteResult {
        self.page += 1;
        let decoded: Vec<_> = raws
            .iter()
            .map(|raw| DecodedRecord::read(resource, channel, raw.as_ref()).unwrap())
            .collect();
        let page = CrawledPage {
            snapshot: self.number,
            resource,
            parent: channel,
            number: self.page,
            now: self.now,
            usage: usage(self.page),
            batch: self.batch.then_some(Duration::ZERO),
        };
        let seen = RoaringTreemap::new();
        self.vault.put_page(&page, &decoded, &seen, |_| String::new()).unwrap()
    }

    pub fn remove(&mut self, resource: Resource, keys: &[RecordKey]) {
        let open = self.vault.unseen(resource, None, &RoaringTreemap::new()).unwrap();
        let gone: Vec<_> =
            open.into_iter().filter(|(_, key)| keys.contains(key)).map(|(row, _)| row).collect();
        assert_eq!(gone.len(), keys.len());
        self.vault.remove(self.number, resource, &gone).unwrap();
    }

    pub fn statistics(&mut self, code: i64, scans: i64, body: &str) {
        let (snapshot, now, usage) = (self.number, self.now, usage(self.page));
        let found = StoredStatistics { snapshot, code, scans, body, now, usage };
        self.vault.put_statistics(&found).unwrap();
    }

    /// Finishes the snapshot; resources without an outcome become complete.
    pub fn finish(self) -> Snapshot {
        let now = self.now.plus(Duration::from_secs(90));
        for outcome in self.vault.snapshot(self.number).unwrap().outcomes {
            if outcome.state == ReadState::Pending {
                let whole = ReadState::Complete;
                self.vault.conclude(self.number, outcome.resource, whole, None).unwrap();
            }
        }
        self.vault.finish(self.number, now, usage(self.page)).unwrap()
    }
}

fn usage(requests: u64) -> RequestUsage {
    RequestUsage { requests, throttled: 0, waited: Duration::from_millis(requests * 10) }
}

/// Writes a snapshot with only these campaigns.
pub fn campaigns(vault: &mut Vault, now: Timestamp, names: &[(i64, &str)]) -> SnapshotId {
    let known = vault.unseen(Resource::Campaigns, None, &RoaringTreemap::new()).unwrap();
    let mut service = TestService::begin(vault, now);
    let raws: Vec<_> =
        names.iter().map(|(id, name)| format!(r#"{{"id":{id},"name":"{name}"}}"#)).collect();
    service.put(Resource::Campaigns, &raws);
    let kept: BTreeSet<_> = names.iter().map(|(id, _)| RecordKey::Id(*id)).collect();
    let gone: Vec<_> =
        known.into_iter().map(|(_, key)| key).filter(|key| !kept.contains(key)).collect();
    service.remove(Resource::Campaigns, &gone);
    service.finish().number
}

/// Asserts that `check` reports no problem.
#[track_caller]
pub fn assert_sound(vault: &mut Vault) {
    assert_eq!(vault.check().unwrap().problems, Vec::<String>::new());
}

/// The views, as `docs/sql.md` documents them.
pub const VIEWS: [&str; 22] = [
    "account",
    "domains",
    "campaigns",
    "channels",
    "channel_items",
    "qr_codes",
    "pixels",
    "overlays",
    "splash_pages",
    "account_history",
    "domains_history",
    "campaigns_history",
    "channels_history",
    "channel_items_history",
    "qr_codes_history",
    "pixels_history",
    "overlays_history",
    "splash_pages_history",
    "snapshots",
    "qr_scans",
    "qr_statistics",
    "runs",
];

/// Everything that can be read from the vault at `path`, by its functions and by the views.
pub fn contents(vault: &mut Vault, path: &Path) -> Result<Value, VaultError> {
    let mut states = serde_json::Map::new();
    let mut sent_in = serde_json::Map::new();
    let mut keys: BTreeSet<(Resource, RecordKey)> = BTreeSet::new();
    for snapshot in vault.snapshots()? {
        let sent = vault.sent_values(Some(snapshot.number), &Resource::ALL)?.into_iter();
        let sent = sent.map(|((resource, key), fields)| json!([resource, key.to_string(), fields]));
        sent_in.insert(snapshot.number.to_string(), sent.collect());
        let state = vault.state(snapshot.number, &Resource::ALL)?;
        let mut shown = serde_json::Map::new();
        for (resource, records) in state.iter() {
            let all: Vec<_> = records.values().map(record).collect();
            shown.insert(resource.to_string(), all.into());
            keys.extend(records.keys().map(|key| (resource, key.clone())));
        }
        states.insert(snapshot.number.to_string(), shown.into());
    }
    let mut histories = serde_json::Map::new();
    for (resource, key) in &keys {
        let versions = vault.history(*resource, key)?;
        let shown: Vec<_> = versions
            .iter()
            .map(|version| json!([version.since, version.until, version.record.raw]))
            .collect();
        histories.insert(format!("{resource} {key}"), shown.into());
    }
    let identity = vault.identity()?.map(|it| json!([it.service, it.account]));
    Ok(json!({
        "identity": identity,
        "snapshots": vault.all_snapshots()?.iter().map(snapshot).collect::<Vec<_>>(),
        "states": states,
        "histories": histories,
        "series": series(vault, &keys)?,
        "sent": sent(vault)?,
        "sent_in": sent_in,
        "views": VIEWS.iter().map(|view| (*view, rows(path, view))).collect::<Vec<_>>(),
    }))
}

fn record(record: &Record<'_>) -> Value {
    json!([record.key.to_string(), record.raw])
}

fn snapshot(snapshot: &Snapshot) -> Value {
    let outcomes = snapshot.outcomes.iter().map(|it| {
        let state = it.state.name();
        json!([it.resource, state, it.records, it.added, it.changed, it.removed, it.message])
    });
    json!({
        "number": snapshot.number,
        "status": snapshot.status.name(),
        "times": [snapshot.started.0, snapshot.touched.0],
        "finished": snapshot.finished.map(|time| time.0),
        "forgotten": snapshot.forgotten.map(|time| time.0),
        "tag": snapshot.tag,
        "requests": snapshot.usage.requests,
        "digest": snapshot.digest,
        "outcomes": outcomes.collect::<Vec<_>>(),
    })
}

fn series(vault: &Vault, keys: &BTreeSet<(Resource, RecordKey)>) -> Result<Value, VaultError> {
    let mut all = Vec::new();
    for (_, key) in keys.iter().filter(|(resource, _)| *resource == Resource::QrCodes) {
        let scans = vault.scans(key.id())?;
        let statistics = vault.statistics(key.id())?;
        all.push(json!([
            key.id(),
            scans.iter().map(|it| json!([it.snapshot, it.time.0, it.value])).collect::<Vec<_>>(),
            statistics
                .iter()
                .map(|it| json!([it.snapshot, it.time.0, it.value]))
                .collect::<Vec<_>>(),
        ]));
    }
    Ok(all.into())
}

fn sent(vault: &Vault) -> Result<Value, VaultError> {
    let mut all = Vec::new();
    for resource in Resource::ALL {
        for (key, fields) in vault.remembered_all(resource)? {
            for sent in fields {
                let (value, time) = (sent.value.to_string(), sent.time.0);
                all.push(json!([resource, key.to_string(), sent.field, value, time]));
            }
        }
    }
    Ok(all.into())
}

/// A view's rows, read by plain SQLite.
fn rows(path: &Path, view: &str) -> Value {
    let read = || -> rusqlite::Result<Vec<Value>> {
        let db = plain(path);
        let mut select = db.prepare(&format!("SELECT * FROM {view}"))?;
        let columns = select.column_count();
        let rows = select.query_map([], |row| (0..columns).map(|at| cell(row, at)).collect())?;
        rows.collect()
    };
    read().map_or_else(|error| error.to_string().into(), Into::into)
}

fn cell(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Value> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(blob) => format!("{blob:?}").into(),
    })
}

/// A connection without linkvault's settings. Triggers are off, so that a test can damage protected
/// data.
pub fn plain(path: &Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).unwrap();
    let triggers = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
    db.set_db_config(triggers, false).unwrap();
    db
}
