//! Turns a snapshot of a vault into an account that the sandbox serves.

use std::collections::BTreeMap;

use serde_json::Value;

use super::OpError;
use crate::model::SentValues;
use crate::model::{Record, RecordKey, Resource, SnapshotId};
use crate::sandbox::store::{QrContentData, StoreTable};
use crate::sandbox::{LoadedStore, RawRecord, Store};
use crate::vault::Vault;

/// The account of `vault` in snapshot `number`, with the sent values that no list shows: contents
/// of QR codes, slugs and links of campaigns.
pub fn sandbox_from_vault(vault: &mut Vault, number: SnapshotId) -> Result<LoadedStore, OpError> {
    let state = vault.state(number, &Resource::ALL)?;
    let records = state
        .iter()
        .flat_map(|(resource, records)| records.values().map(move |it| raw(resource, it)));
    let mut loaded = Store::from_records(records);
    if let Some(identity) = vault.identity()? {
        loaded.store.account.id = identity.account.cast_unsigned();
    }
    // The id of a deleted record is not used again.
    let sent = vault.sent_values(Some(number), &Resource::ALL)?;
    remember(&mut loaded.store, &sent);
    Ok(loaded)
}

fn raw<'r>(resource: Resource, record: &'r Record<'static>) -> RawRecord<'r> {
    let channel = match &record.key {
        RecordKey::Item { channel, .. } => Some(channel.cast_unsigned()),
        RecordKey::Id(_) => None,
    };
    RawRecord { resource: resource.name(), channel, json: &record.raw }
}

fn remember(store: &mut Store, sent: &SentValues) {
    for ((resource, key), sent) in sent {
        let Ok(id) = u64::try_from(key.id()) else { continue };
        match resource {
            Resource::QrCodes => {
                let Some(code) = row(&mut store.qr_codes, id) else { continue };
                code.content = QrContentData {
                    kind: text(sent, "type"),
                    data: sent.get("data").cloned(),
                    background: text(sent, "background"),
                    foreground: text(sent, "foreground"),
                    logo: text(sent, "logo"),
                };
            }
            Resource::Campaigns => {
                let Some(campaign) = row(&mut store.campaigns, id) else { continue };
                if let Some(slug) = text(sent, "slug").filter(|slug| !slug.is_empty()) {
                    campaign.slug = Some(slug);
                }
                let links = sent.get("links").and_then(Value::as_array).into_iter().flatten();
                campaign.members.extend(links.filter_map(Value::as_u64));
            }
            _ => {}
        }
    }
}

/// The row of `id`; `None` if it was deleted. Reserves the id, so that no other row gets it.
fn row<T: Default>(table: &mut StoreTable<T>, id: u64) -> Option<&mut T> {
    if table.get(id).is_none() {
        table.put(id, T::default());
        table.remove(id);
    }
    table.get_mut(id)
}

type Values = BTreeMap<String, Value>;

fn text(sent: &Values, name: &str) -> Option<String> {
    sent.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::sandbox::store::QrCode;
    use serde_json::json;

    #[test]
    fn unlisted_values_come_from_the_sent_values() {
        let mut vault = Vault::in_memory().unwrap();
        let now = Timestamp(0);
        let mut sent = |resource, id, field: &str, value: Value| {
            vault.remember(resource, &RecordKey::Id(id), field, &value.to_string(), now).unwrap();
        };
        sent(Resource::QrCodes, 2, "type", json!("text"));
        sent(Resource::QrCodes, 2, "data", json!(["a", "b"]));
        sent(Resource::QrCodes, 2, "foreground", json!("rgb(1,2,3)"));
        sent(Resource::QrCodes, 9, "type", json!("link"));
        sent(Resource::Campaigns, 1, "slug", json!("spring"));
        sent(Resource::Campaigns, 1, "links", json!([3, 4, "x"]));
        let mut store = Store::default();
        store.add_campaign("Spring", None, true);
        store.qr_codes.put(2, QrCode::default());
        let sent = vault.copy().unwrap().sent_values(None, &Resource::ALL).unwrap();
        remember(&mut store, &sent);
        let content = &store.qr_codes.get(2).unwrap().content;
        assert_eq!(content.kind.as_deref(), Some("text"));
        assert_eq!(content.data, Some(json!(["a", "b"])));
        assert_eq!(content.foreground.as_deref(), Some("rgb(1,2,3)"));
        let campaign = store.campaigns.get(1).unwrap();
        assert_eq!(campaign.slug.as_deref(), Some("spring"));
        assert_eq!(campaign.members, [3, 4].into());
        // Code 9 was deleted: it does not exist, and no other code gets its id.
        assert_eq!((store.qr_codes.len(), store.qr_codes.next_id()), (1, 10));
    }

    #[test]
    fn writes_to_a_sandbox_copy_do_not_change_the_vault() {
        let folder = tempfile::tempdir().unwrap();
        let mut vault = Vault::open_or_create(&folder.path().join("main.db")).unwrap();
        let (resource, key, now) = (Resource::QrCodes, RecordKey::Id(1), Timestamp(0));
        vault.remember(resource, &key, "type", "\"text\"", now).unwrap();
        let mut copy = vault.copy().unwrap();
        copy.remember(resource, &key, "data", "\"Hello\"", now).unwrap();
        assert_eq!(copy.remembered(resource, &key).unwrap().len(), 2);
        assert_eq!(vault.remembered(resource, &key).unwrap().len(), 1);
    }
}
