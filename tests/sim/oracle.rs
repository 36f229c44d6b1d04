//! The true content of the service, read by other means than the program's.

use std::collections::{BTreeMap, BTreeSet};

use linkvault::api::http::{ApiKey, Request};
use linkvault::clock::Timestamp;
use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::sandbox::{SandboxService, Store};
use linkvault::vault::Vault;
use serde_json::Value;
use serde_json::value::RawValue;

use super::secrets::without_echoes;

/// Records by resource and key, each as the service's text.
pub type Content = BTreeMap<Resource, BTreeMap<RecordKey, String>>;

/// The list of each resource, and its key in `data`.
const LISTS: [(Resource, &str); 7] = [
    (Resource::Domains, "/api/domains"),
    (Resource::Campaigns, "/api/campaigns"),
    (Resource::Channels, "/api/channels"),
    (Resource::QrCodes, "/api/qr"),
    (Resource::Pixels, "/api/pixels"),
    (Resource::Overlays, "/api/overlay"),
    (Resource::SplashPages, "/api/splash"),
];

/// The content of `service` at this moment. A resource that it does not offer is absent.
pub fn content(service: &SandboxService, key: &ApiKey, now: Timestamp) -> Content {
    let mut quiet = service.clone();
    for (name, value) in [("rate-limit", "none"), ("max-limit", "none")] {
        quiet.behaviour_mut().set(name, value).unwrap();
    }
    let mut content = Content::new();
    let mut ask = |path: &str| {
        let request = Request { key: Some(key.clone()), ..Request::get(path) };
        quiet.handle(now, &request).body
    };
    let account = data(&ask("/api/account")).map(|raw| {
        let raw = raw.get().to_owned();
        BTreeMap::from([(RecordKey::Id(id(&parse(&raw))), raw)])
    });
    content.extend(account.map(|account| (Resource::Account, account)));
    for (resource, path) in LISTS {
        let records = list(&ask(&format!("{path}?limit=1000000")));
        let keyed = |raw: String| (RecordKey::Id(id(&parse(&raw))), raw);
        let records = records.map(|records| records.into_iter().map(keyed).collect());
        content.extend(records.map(|records: BTreeMap<_, _>| (resource, records)));
    }
    let channels: Vec<i64> =
        content.get(&Resource::Channels).into_iter().flatten().map(|(key, _)| key.id()).collect();
    let items = content.contains_key(&Resource::Channels).then(|| {
        let of = |channel: &i64| {
            let channel = *channel;
            let records = list(&ask(&format!("/api/channel/{channel}?limit=1000000"))).unwrap();
            records.into_iter().map(move |raw| (item_key(channel, &parse(&raw)), raw))
        };
        channels.iter().flat_map(of).collect()
    });
    content.extend(items.map(|items| (Resource::ChannelItems, items)));
    content
}

/// The content of snapshot `number`, without echoes of the key.
pub fn shown(vault: &mut Vault, number: SnapshotId) -> Content {
    let state = vault.state(number, &Resource::ALL).unwrap();
    let of = |(resource, records): (
        Resource,
        &BTreeMap<RecordKey, linkvault::model::Record<'static>>,
    )| {
        let texts = records.iter().map(|(key, record)| (key.clone(), without_echoes(&record.raw)));
        (resource, texts.collect())
    };
    state.iter().map(of).collect()
}

/// The keys of all records in `store` that the service offers.
pub fn present(store: &Store) -> BTreeSet<(Resource, RecordKey)> {
    let mut all = BTreeSet::new();
    let mut put = |resource, id: u64| {
        all.insert((resource, RecordKey::Id(id.cast_signed())));
    };
    store.domains.iter().for_each(|(id, _)| put(Resource::Domains, id));
    store.campaigns.iter().for_each(|(id, _)| put(Resource::Campaigns, id));
    store.channels.iter().for_each(|(id, _)| put(Resource::Channels, id));
    store.qr_codes.iter().for_each(|(id, _)| put(Resource::QrCodes, id));
    store.pixels.iter().for_each(|(id, _)| put(Resource::Pixels, id));
    store.overlays.iter().for_each(|(id, _)| put(Resource::Overlays, id));
    store.splash.iter().for_each(|(id, _)| put(Resource::SplashPages, id));
    for (channel, row) in store.channels.iter() {
        for item in &row.items {
            let (channel, id) = (channel.cast_signed(), item.id.cast_signed());
            let key = RecordKey::Item { channel, kind: item.kind.clone(), id };
            all.insert((Resource::ChannelItems, key));
        }
    }
    all.insert((Resource::Account, RecordKey::Id(store.account.id.cast_signed())));
    all
}

/// Every record of a response, as text.
pub fn texts(body: &[u8]) -> Vec<String> {
    let single = data(body).map(|raw| raw.get().to_owned());
    single.into_iter().chain(list(body).unwrap_or_default()).collect()
}

/// A record's text without what may differ between two readings of the same record: the key of a
/// campaign's name, which depends on its place on the page, and the scans, which are returned
/// separately.
pub fn comparable(resource: Resource, raw: &str) -> (String, Option<u64>) {
    match resource {
        Resource::Campaigns => (raw.replacen("\"domain\":", "\"name\":", 1), None),
        Resource::QrCodes => {
            let scans = number(&parse(raw)["scans"]);
            let Some(scans) = scans else { return (raw.to_owned(), None) };
            let forms = [
                (format!("\"scans\":{scans}"), "\"scans\":0"),
                (format!("\"scans\": {scans}"), "\"scans\": 0"),
                (format!("\"scans\":\"{scans}\""), "\"scans\":\"0\""),
                (format!("\"scans\": \"{scans}\""), "\"scans\": \"0\""),
            ];
            let form = forms.iter().find(|(form, _)| raw.contains(form.as_str()));
            let text = form.map(|(form, zero)| raw.replacen(form.as_str(), zero, 1));
            (text.unwrap_or_else(|| raw.to_owned()), Some(scans))
        }
        _ => (raw.to_owned(), None),
    }
}

fn data(body: &[u8]) -> Option<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct Answer {
        data: Box<RawValue>,
    }
    serde_json::from_slice::<Answer>(body).ok().map(|answer| answer.data)
}

fn list(body: &[u8]) -> Option<Vec<String>> {
    let data = data(body)?;
    let data: BTreeMap<String, Box<RawValue>> = serde_json::from_str(data.get()).ok()?;
    let keys = ["domains", "campaigns", "channels", "items", "qrs", "pixels", "cta", "overlay"];
    let found = keys.iter().chain(&["splash"]).find_map(|key| data.get(*key))?;
    let records: Vec<Box<RawValue>> = serde_json::from_str(found.get()).ok()?;
    Some(records.into_iter().map(|raw| raw.get().to_owned()).collect())
}

fn parse(raw: &str) -> Value {
    serde_json::from_str(raw).unwrap()
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn id(record: &Value) -> i64 {
    number(&record["id"]).unwrap().cast_signed()
}

fn item_key(channel: i64, record: &Value) -> RecordKey {
    RecordKey::Item { channel, kind: record["type"].as_str().unwrap().to_owned(), id: id(record) }
}
