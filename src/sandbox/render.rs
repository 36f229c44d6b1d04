//! How records look on the wire. Which records, and whether at all, is decided
//! elsewhere.

use serde_json::{Map, Value, json};

use super::behaviour::{Behaviour, Booleans, CampaignCreate, CampaignList, Counts, EmptyMaps, Ids};
use super::counters::statistics;
use super::store::{
    Campaign, Domain, Extra, Item, Pixel, QrCode, Splash, StoredAccount, StoredChannel,
    StoredOverlay,
};
use crate::clock::Timestamp;

pub type Object = Map<String, Value>;

/// Writes ids, counts and booleans the way one deployment does.
#[derive(Clone, Copy)]
pub struct RenderOptions<'a>(pub &'a Behaviour);

impl RenderOptions<'_> {
    pub fn id(self, id: u64) -> Value {
        match self.0.ids {
            Ids::Strings => json!(id.to_string()),
            Ids::Integers | Ids::Mixed => json!(id),
        }
    }

    /// The id of a kind that some deployments write as a string in lists.
    fn list_id(self, id: u64) -> Value {
        match self.0.ids {
            Ids::Integers => json!(id),
            Ids::Strings | Ids::Mixed => json!(id.to_string()),
        }
    }

    pub fn count(self, count: u64) -> Value {
        match self.0.counts {
            Counts::Integers => json!(count),
            Counts::Strings => json!(count.to_string()),
        }
    }

    fn flag(self, flag: bool) -> Value {
        match self.0.booleans {
            Booleans::Json => json!(flag),
            Booleans::Integers => json!(u8::from(flag)),
            Booleans::Strings => json!(u8::from(flag).to_string()),
        }
    }

    /// A statistics map, whose counts are strings by the document.
    fn map(self, entries: &[(&str, u64)]) -> Value {
        if !entries.is_empty() {
            return entries.iter().map(|(label, n)| ((*label).to_owned(), n.to_string())).collect();
        }
        match self.0.empty_maps {
            EmptyMaps::Object => json!({}),
            EmptyMaps::Zero => json!(0),
            EmptyMaps::Array => json!([]),
        }
    }
}

fn with(extra: &Extra, fields: Vec<(&str, Value)>) -> Object {
    let mut object: Object =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    object.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    object
}

pub fn account(look: RenderOptions, row: &StoredAccount) -> Object {
    with(
        &row.extra,
        vec![
            ("id", look.id(row.id)),
            ("email", json!(row.email)),
            ("username", json!(row.username)),
            ("avatar", json!(row.avatar)),
            ("status", json!(row.status)),
            ("expires", json!(row.expires)),
            ("registered", json!(row.registered)),
        ],
    )
}

pub fn domain(look: RenderOptions, id: u64, row: &Domain) -> Object {
    with(
        &row.extra,
        vec![
            ("id", look.list_id(id)),
            ("domain", json!(row.domain)),
            ("redirectroot", json!(row.redirectroot)),
            ("redirect404", json!(row.redirect404)),
        ],
    )
}

pub fn overlay(look: RenderOptions, id: u64, row: &StoredOverlay) -> Object {
    with(
        &row.extra,
        vec![
            ("id", look.list_id(id)),
            ("type", json!(row.kind)),
            ("name", json!(row.name)),
            ("date", json!(row.date)),
        ],
    )
}

/// A campaign in a list, at `place` (from 0) of its page.
pub fn listed_campaign(look: RenderOptions, place: usize, id: u64, row: &Campaign) -> Object {
    let key = match look.0.campaign_list {
        CampaignList::Documented if place == 1 => "domain",
        CampaignList::Documented | CampaignList::Name => "name",
        CampaignList::Domain => "domain",
        CampaignList::Campaign => "campaign",
    };
    campaign(look, key, id, row)
}

/// A campaign as create and update answer it.
pub fn written_campaign(look: RenderOptions, id: u64, row: &Campaign) -> Object {
    let key = match look.0.campaign_create {
        CampaignCreate::Domain => "domain",
        CampaignCreate::Name => "name",
        CampaignCreate::Campaign => "campaign",
    };
    campaign(look, key, id, row)
}

fn campaign(look: RenderOptions, key: &str, id: u64, row: &Campaign) -> Object {
    let rotator = row.rotator.as_ref().map_or(json!(false), |url| json!(url));
    with(
        &row.extra,
        vec![
            ("id", look.id(id)),
            (key, json!(row.name)),
            ("public", look.flag(row.public)),
            ("rotator", rotator),
            ("list", json!(row.list)),
        ],
    )
}

pub fn channel(look: RenderOptions, id: u64, row: &StoredChannel) -> Object {
    with(
        &row.extra,
        vec![
            ("id", look.id(id)),
            ("name", json!(row.name)),
            ("description", json!(row.description)),
            ("color", json!(row.color)),
            ("starred", look.flag(row.starred)),
        ],
    )
}

pub fn item(look: RenderOptions, row: &Item) -> Object {
    with(
        &row.extra,
        vec![
            ("type", json!(row.kind)),
            ("id", look.id(row.id)),
            ("title", json!(row.title)),
            ("preview", json!(row.preview)),
            ("link", json!(row.link)),
            ("date", json!(row.date)),
        ],
    )
}

pub fn splash(look: RenderOptions, id: u64, row: &Splash) -> Object {
    with(
        &row.extra,
        vec![("id", look.id(id)), ("name", json!(row.name)), ("date", json!(row.date))],
    )
}

pub fn pixel(look: RenderOptions, id: u64, row: &Pixel) -> Object {
    with(
        &row.extra,
        vec![
            ("id", look.list_id(id)),
            ("type", json!(row.kind)),
            ("name", json!(row.name)),
            ("tag", json!(row.tag)),
            ("date", json!(row.date)),
        ],
    )
}

pub fn qr_code(look: RenderOptions, now: Timestamp, id: u64, row: &QrCode) -> Object {
    with(
        &row.extra,
        vec![
            ("id", look.list_id(id)),
            ("link", json!(row.link)),
            ("scans", look.count(row.scans.at(now))),
            ("name", json!(row.name)),
            ("date", json!(row.date)),
        ],
    )
}

/// The statistics of a single QR code.
pub fn qr_statistics(look: RenderOptions, now: Timestamp, id: u64, row: &QrCode) -> Object {
    if let Some(kept) = &row.statistics {
        return kept.clone();
    }
    let numbers = statistics(id, row, now);
    let mut fields =
        vec![("clicks", look.count(numbers.clicks)), ("uniqueClicks", look.count(numbers.unique))];
    fields.extend(numbers.maps.iter().map(|(key, map)| (*key, look.map(map))));
    let social: Object =
        numbers.social.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect();
    fields.push(("socialCount", Value::Object(social)));
    with(&Extra::new(), fields)
}
