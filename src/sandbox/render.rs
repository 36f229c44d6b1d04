//! Renders records as JSON, in the form that the behaviour selects.

use serde_json::{Map, Value, json};

use super::behaviour::{Behaviour, Booleans, CampaignCreate, CampaignList, Counts, EmptyMaps, Ids};
use super::counters::statistics;
use super::store::{
    Campaign, Domain, Extra, Item, Pixel, QrCode, Splash, StoredAccount, StoredChannel,
    StoredOverlay,
};
use crate::clock::Timestamp;

/// A JSON object.
pub type Object = Map<String, Value>;

/// Renders ids, counts and booleans in the form of a behaviour.
#[derive(Clone, Copy)]
pub struct RenderOptions<'a>(pub &'a Behaviour);

impl RenderOptions<'_> {
    pub fn id(self, id: u64) -> Value {
        match self.0.ids {
            Ids::Strings => json!(id.to_string()),
            Ids::Integers | Ids::Mixed => json!(id),
        }
    }

    /// An id in a list where some services send strings.
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

    /// A statistics map. Its counts are strings, as documented.
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

pub fn account(options: RenderOptions, row: &StoredAccount) -> Object {
    with(
        &row.extra,
        vec![
            ("id", options.id(row.id)),
            ("email", json!(row.email)),
            ("username", json!(row.username)),
            ("avatar", json!(row.avatar)),
            ("status", json!(row.status)),
            ("expires", json!(row.expires)),
            ("registered", json!(row.registered)),
        ],
    )
}

pub fn domain(options: RenderOptions, id: u64, row: &Domain) -> Object {
    with(
        &row.extra,
        vec![
            ("id", options.list_id(id)),
            ("domain", json!(row.domain)),
            ("redirectroot", json!(row.redirectroot)),
            ("redirect404", json!(row.redirect404)),
        ],
    )
}

pub fn overlay(options: RenderOptions, id: u64, row: &StoredOverlay) -> Object {
    with(
        &row.extra,
        vec![
            ("id", options.list_id(id)),
            ("type", json!(row.kind)),
            ("name", json!(row.name)),
            ("date", json!(row.date)),
        ],
    )
}

/// A campaign in a list, at index `place` of its page.
pub fn listed_campaign(options: RenderOptions, place: usize, id: u64, row: &Campaign) -> Object {
    let key = match options.0.campaign_list {
        CampaignList::Documented if place == 1 => "domain",
        CampaignList::Documented | CampaignList::Name => "name",
        CampaignList::Domain => "domain",
        CampaignList::Campaign => "campaign",
    };
    campaign(options, key, id, row)
}

/// A campaign in the response to a create or an update.
pub fn written_campaign(options: RenderOptions, id: u64, row: &Campaign) -> Object {
    let key = match options.0.campaign_create {
        CampaignCreate::Domain => "domain",
        CampaignCreate::Name => "name",
        CampaignCreate::Campaign => "campaign",
    };
    campaign(options, key, id, row)
}

fn campaign(options: RenderOptions, key: &str, id: u64, row: &Campaign) -> Object {
    let rotator = row.rotator.as_ref().map_or(json!(false), |url| json!(url));
    with(
        &row.extra,
        vec![
            ("id", options.id(id)),
            (key, json!(row.name)),
            ("public", options.flag(row.public)),
            ("rotator", rotator),
            ("list", json!(row.list)),
        ],
    )
}

pub fn channel(options: RenderOptions, id: u64, row: &StoredChannel) -> Object {
    with(
        &row.extra,
        vec![
            ("id", options.id(id)),
            ("name", json!(row.name)),
            ("description", json!(row.description)),
            ("color", json!(row.color)),
            ("starred", options.flag(row.starred)),
        ],
    )
}

pub fn item(options: RenderOptions, row: &Item) -> Object {
    with(
        &row.extra,
        vec![
            ("type", json!(row.kind)),
            ("id", options.id(row.id)),
            ("title", json!(row.title)),
            ("preview", json!(row.preview)),
            ("link", json!(row.link)),
            ("date", json!(row.date)),
        ],
    )
}

pub fn splash(options: RenderOptions, id: u64, row: &Splash) -> Object {
    with(
        &row.extra,
        vec![("id", options.id(id)), ("name", json!(row.name)), ("date", json!(row.date))],
    )
}

pub fn pixel(options: RenderOptions, id: u64, row: &Pixel) -> Object {
    with(
        &row.extra,
        vec![
            ("id", options.list_id(id)),
            ("type", json!(row.kind)),
            ("name", json!(row.name)),
            ("tag", json!(row.tag)),
            ("date", json!(row.date)),
        ],
    )
}

pub fn qr_code(options: RenderOptions, now: Timestamp, id: u64, row: &QrCode) -> Object {
    with(
        &row.extra,
        vec![
            ("id", options.list_id(id)),
            ("link", json!(row.link)),
            ("scans", options.count(row.scans.at(now))),
            ("name", json!(row.name)),
            ("date", json!(row.date)),
        ],
    )
}

/// The statistics of a single QR code.
pub fn qr_statistics(options: RenderOptions, now: Timestamp, id: u64, row: &QrCode) -> Object {
    if let Some(kept) = &row.statistics {
        return kept.clone();
    }
    let numbers = statistics(id, row, now);
    let mut fields = vec![
        ("clicks", options.count(numbers.clicks)),
        ("uniqueClicks", options.count(numbers.unique)),
    ];
    fields.extend(numbers.maps.iter().map(|(key, map)| (*key, options.map(map))));
    let social: Object =
        numbers.social.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect();
    fields.push(("socialCount", Value::Object(social)));
    with(&Extra::new(), fields)
}
