//! Builds a store from raw JSON records. Parsing is lenient: unknown fields and values are kept and
//! served unchanged.

use serde_json::{Map, Value};

use super::store::{
    Campaign, Domain, Item, Pixel, QrCode, Scans, Splash, Store, StoredAccount, StoredChannel,
    StoredOverlay,
};
use crate::clock::Timestamp;

/// One record of a resource.
#[derive(Debug, Clone, Copy)]
pub struct RawRecord<'a> {
    /// One of `account domains campaigns channels channel_items qr_codes
    /// pixels overlays splash_pages`.
    pub resource: &'a str,
    /// Id of its channel; only for channel items.
    pub channel: Option<u64>,
    /// The record as JSON text.
    pub json: &'a str,
}

/// A store built from records.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedStore {
    /// The store.
    pub store: Store,
    /// Problems with records that were skipped, one sentence each.
    pub skipped: Vec<String>,
}

impl Store {
    /// Builds a store whose counters do not grow. A channel item may come before its channel.
    pub fn from_records<'a>(records: impl IntoIterator<Item = RawRecord<'a>>) -> LoadedStore {
        let mut loaded = LoadedStore { store: Self::default(), skipped: Vec::new() };
        let mut items = Vec::new();
        for record in records {
            let Some(reader) = Reader::of(record.json) else {
                loaded
                    .skipped
                    .push(format!("a record of {} is not a JSON object", record.resource));
                continue;
            };
            if record.resource == "channel_items" {
                items.push((record.channel, reader));
            } else if let Err(why) = loaded.store.take(record.resource, reader) {
                loaded.skipped.push(why);
            }
        }
        for (channel, reader) in items {
            if let Err(why) = loaded.store.take_item(channel, reader) {
                loaded.skipped.push(why);
            }
        }
        // The URL of a campaign's list begins with the service's base URL.
        let base = |campaign: &Campaign| Some(campaign.list.split_once("/u/")?.0.to_owned());
        let found = loaded.store.campaigns.iter().find_map(|(_, campaign)| base(campaign));
        if let Some(base) = found {
            loaded.store.base = base;
        }
        loaded
    }

    fn take(&mut self, resource: &str, mut reader: Reader) -> Result<(), String> {
        let id = reader.id().or_else(|| (resource == "account").then_some(1));
        let id = id.ok_or_else(|| format!("a record of {resource} has no id"))?;
        match resource {
            "account" => self.account = account(id, reader),
            "domains" => self.domains.put(id, domain(reader)),
            "overlays" => self.overlays.put(id, overlay(reader)),
            "campaigns" => self.campaigns.put(id, campaign(reader)),
            "channels" => self.channels.put(id, channel(reader)),
            "splash_pages" => self.splash.put(id, splash(reader)),
            "pixels" => self.pixels.put(id, pixel(reader)),
            "qr_codes" => self.qr_codes.put(id, qr_code(reader)),
            other => return Err(format!("unknown resource {other}")),
        }
        Ok(())
    }

    fn take_item(&mut self, channel: Option<u64>, mut reader: Reader) -> Result<(), String> {
        let channel = channel.ok_or("a channel item has no channel")?;
        let row = self.channels.get_mut(channel);
        let row =
            row.ok_or_else(|| format!("channel {channel} of a channel item does not exist"))?;
        let id = reader.id().ok_or_else(|| format!("an item of channel {channel} has no id"))?;
        row.items.push(Item {
            kind: reader.text("type"),
            id,
            title: reader.text("title"),
            preview: reader.text("preview"),
            link: reader.text("link"),
            date: reader.text("date"),
            extra: reader.0,
        });
        Ok(())
    }
}

/// Takes known fields out of a record; the others are kept unchanged.
struct Reader(Map<String, Value>);

impl Reader {
    fn of(json: &str) -> Option<Self> {
        match serde_json::from_str(json) {
            Ok(Value::Object(map)) => Some(Self(map)),
            _ => None,
        }
    }

    fn take<T>(&mut self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = read(self.0.get(name)?)?;
        self.0.shift_remove(name);
        Some(value)
    }

    fn text(&mut self, name: &str) -> String {
        self.take(name, |value| value.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The first of `names` whose value is text.
    fn text_under(&mut self, names: &[&str]) -> String {
        let found = names.iter().find(|name| self.0.get(**name).is_some_and(Value::is_string));
        found.map(|name| self.text(name)).unwrap_or_default()
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        self.take(name, |value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        })
    }

    fn id(&mut self) -> Option<u64> {
        self.number("id")
    }

    fn flag(&mut self, name: &str) -> bool {
        let read = |value: &Value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => match text.as_str() {
                "1" | "true" => Some(true),
                "0" | "false" | "" => Some(false),
                _ => None,
            },
            other => other.as_u64().filter(|number| *number < 2).map(|number| number == 1),
        };
        self.take(name, read).unwrap_or_default()
    }
}

fn account(id: u64, mut reader: Reader) -> StoredAccount {
    StoredAccount {
        id,
        email: reader.text("email"),
        username: reader.text("username"),
        avatar: reader.text("avatar"),
        status: reader.text("status"),
        expires: reader.text("expires"),
        registered: reader.text("registered"),
        extra: reader.0,
    }
}

fn domain(mut reader: Reader) -> Domain {
    Domain {
        domain: reader.text("domain"),
        redirectroot: reader.text("redirectroot"),
        redirect404: reader.text("redirect404"),
        extra: reader.0,
    }
}

fn overlay(mut reader: Reader) -> StoredOverlay {
    StoredOverlay {
        kind: reader.text("type"),
        name: reader.text("name"),
        date: reader.text("date"),
        extra: reader.0,
    }
}

fn campaign(mut reader: Reader) -> Campaign {
    let rotator = reader.take("rotator", |value| match value {
        Value::String(url) => Some(Some(url.clone())),
        Value::Bool(false) => Some(None),
        _ => None,
    });
    let rotator = rotator.flatten();
    let slug = rotator.as_deref().and_then(|url| url.rsplit('/').next()).map(str::to_owned);
    Campaign {
        name: reader.text_under(&["name", "domain", "campaign"]),
        public: reader.flag("public"),
        slug,
        rotator,
        list: reader.text("list"),
        extra: reader.0,
        ..Campaign::default()
    }
}

fn channel(mut reader: Reader) -> StoredChannel {
    StoredChannel {
        name: reader.text("name"),
        description: reader.text("description"),
        color: reader.text("color"),
        starred: reader.flag("starred"),
        items: Vec::new(),
        extra: reader.0,
    }
}

fn splash(mut reader: Reader) -> Splash {
    Splash { name: reader.text("name"), date: reader.text("date"), extra: reader.0 }
}

fn pixel(mut reader: Reader) -> Pixel {
    Pixel {
        kind: reader.text("type"),
        name: reader.text("name"),
        tag: reader.text("tag"),
        date: reader.text("date"),
        extra: reader.0,
    }
}

fn qr_code(mut reader: Reader) -> QrCode {
    let base = reader.number("scans").unwrap_or_default();
    QrCode {
        link: reader.text("link"),
        name: reader.text("name"),
        date: reader.text("date"),
        scans: Scans { base, since: Timestamp(0), period: 0 },
        extra: reader.0,
        ..QrCode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(records: &[(&str, Option<u64>, &str)]) -> LoadedStore {
        Store::from_records(records.iter().map(|&(resource, channel, json)| RawRecord {
            resource,
            channel,
            json,
        }))
    }

    #[test]
    fn ids_and_counts_may_be_strings() {
        let loaded = load(&[("qr_codes", None, r#"{"id":"7","scans":"13","name":"Menu"}"#)]);
        assert_eq!(loaded.skipped, [""; 0]);
        assert_eq!(loaded.store.qr_codes.get(7).unwrap().scans.base, 13);
        assert_eq!(loaded.store.qr_codes.next_id(), 8);
    }

    #[test]
    fn a_campaign_name_is_found_under_each_of_its_keys() {
        for key in ["name", "domain", "campaign"] {
            let json = format!(r#"{{"id":2,"{key}":"Spring","public":"1","rotator":false}}"#);
            let store = load(&[("campaigns", None, &json)]).store;
            let row = store.campaigns.get(2).unwrap();
            assert_eq!((row.name.as_str(), row.public), ("Spring", true));
            assert!(row.extra.is_empty());
        }
    }

    #[test]
    fn an_item_may_come_before_its_channel() {
        let loaded = load(&[
            ("channel_items", Some(3), r#"{"type":"links","id":5,"title":"A"}"#),
            ("channels", None, r#"{"id":3,"name":"News"}"#),
            ("channel_items", Some(4), r#"{"type":"links","id":6}"#),
        ]);
        assert_eq!(loaded.store.channels.get(3).unwrap().items[0].id, 5);
        assert_eq!(loaded.skipped.len(), 1);
    }

    #[test]
    fn unknown_fields_and_other_types_are_kept() {
        let json = r#"{"id":1,"domain":"https://a.example.com","redirectroot":null,"ssl":true}"#;
        let store = load(&[("domains", None, json)]).store;
        let extra = &store.domains.get(1).unwrap().extra;
        assert_eq!(serde_json::to_string(extra).unwrap(), r#"{"redirectroot":null,"ssl":true}"#);
    }

    #[test]
    fn invalid_records_are_reported() {
        let loaded = load(&[("domains", None, "[]"), ("moons", None, r#"{"id":1}"#)]);
        assert_eq!(loaded.skipped.len(), 2);
        assert!(loaded.skipped[1].contains("moons"));
    }
}
