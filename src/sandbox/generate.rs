//! Generates accounts of any size from a seed, with text that is hard to handle. For tests and
//! simulation.

use serde_json::json;

use super::store::{
    Campaign, Domain, Item, Pixel, QrCode, QrContentData, Scans, Splash, Store, StoredChannel,
    StoredOverlay, date, datetime,
};
use crate::clock::Timestamp;

/// Number of records of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratedCounts {
    /// Number of branded domains.
    pub domains: u64,
    /// Number of campaigns.
    pub campaigns: u64,
    /// Number of channels.
    pub channels: u64,
    /// Number of items in each channel.
    pub channel_items: u64,
    /// Number of QR codes.
    pub qr_codes: u64,
    /// Number of pixels.
    pub pixels: u64,
    /// Number of overlays.
    pub overlays: u64,
    /// Number of splash pages.
    pub splash_pages: u64,
}

impl GeneratedCounts {
    /// The same number of every resource.
    #[must_use]
    pub const fn each(number: u64) -> Self {
        Self {
            domains: number,
            campaigns: number,
            channels: number,
            channel_items: number,
            qr_codes: number,
            pixels: number,
            overlays: number,
            splash_pages: number,
        }
    }
}

/// Text that causes mistakes in quoting, CSV, terminals and sorting. Contains no NUL: it is valid
/// in
/// JSON, but no live service accepts it.
const WORDS: [&str; 18] = [
    "Harvest",
    "said \"yes\"",
    "back\\slash",
    "comma, semicolon; tab\there",
    "two\nlines",
    "carriage\r\nreturn",
    "Größe & <b>Maß</b>",
    "日本語の名前",
    "עברית",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} family",
    "e\u{301}clair",
    "=SUM(A1)",
    "  padded  ",
    "a/b\\/c",
    "null",
    "\u{feff}mark",
    "\u{1}\u{1f}\u{7f}",
    "ﬁ İ ß ſ",
];

/// All dates are before this time.
const NOW: Timestamp = Timestamp(1_760_000_000_000);

/// Generates an account from `seed`; the same seed gives the same account. Names are unique within
/// their resource.
#[must_use]
pub fn generate(seed: u64, counts: GeneratedCounts) -> Store {
    let mut draw = Draw(fastrand::Rng::with_seed(seed));
    let mut store = Store::default();
    for n in 1..=counts.domains {
        store.domains.add(draw.domain(n));
    }
    for n in 1..=counts.campaigns {
        draw.campaign(&mut store, n);
    }
    for n in 1..=counts.qr_codes {
        let row = draw.qr_code(&store, n);
        store.qr_codes.add(row);
    }
    for n in 1..=counts.channels {
        let row = draw.channel(&store, n, counts.channel_items);
        store.channels.add(row);
    }
    for n in 1..=counts.pixels {
        store.pixels.add(draw.pixel(n));
    }
    for n in 1..=counts.overlays {
        let kind = if draw.0.bool() { "message" } else { "contact" }.to_owned();
        store.overlays.add(StoredOverlay {
            kind,
            name: draw.name(n),
            date: draw.datetime(),
            ..StoredOverlay::default()
        });
    }
    for n in 1..=counts.splash_pages {
        let (name, date) = (draw.name(n), draw.datetime());
        store.splash.add(Splash { name, date, ..Splash::default() });
    }
    store
}

/// Generates single records, also for `second_user`.
pub(super) struct Draw(pub fastrand::Rng);

impl Draw {
    pub fn word(&mut self) -> &'static str {
        WORDS[self.0.usize(..WORDS.len())]
    }

    pub fn name(&mut self, n: u64) -> String {
        format!("{} {n}", self.word())
    }

    fn moment(&mut self) -> Timestamp {
        Timestamp(NOW.0 - self.0.i64(0..200_000_000) * 1000)
    }

    fn datetime(&mut self) -> String {
        datetime(self.moment())
    }

    fn maybe(&mut self, text: String) -> String {
        if self.0.u8(..3) == 0 { String::new() } else { text }
    }

    pub fn domain(&mut self, n: u64) -> Domain {
        let scheme = if self.0.bool() { "https" } else { "http" };
        Domain {
            domain: format!("{scheme}://go{n}.example.com"),
            redirectroot: self.maybe(format!("https://www{n}.example.com/?a=1&b=ü")),
            redirect404: self.maybe(format!("https://www{n}.example.com/lost")),
            ..Domain::default()
        }
    }

    pub fn campaign(&mut self, store: &mut Store, n: u64) -> u64 {
        let slug = self.0.bool().then(|| format!("slug-{n}"));
        let (name, public) = (self.name(n), self.0.bool());
        let id = store.add_campaign(&name, slug.as_deref(), public);
        let members = (0..self.0.u64(..4)).map(|_| self.0.u64(1..10_000)).collect();
        if let Some(row) = store.campaigns.get_mut(id) {
            *row = Campaign { members, ..std::mem::take(row) };
        }
        id
    }

    pub fn channel(&mut self, store: &Store, n: u64, items: u64) -> StoredChannel {
        let description = self.word().to_owned();
        let mut row = StoredChannel {
            name: self.name(n),
            description: self.maybe(description),
            color: format!("#{:06X}", self.0.u32(..0x0100_0000)),
            starred: self.0.bool(),
            ..StoredChannel::default()
        };
        for place in 1..=items {
            row.items.push(self.item(store, place));
        }
        row
    }

    /// The id is `place`, so that items are unique in their channel.
    fn item(&mut self, store: &Store, place: u64) -> Item {
        let kind = ["links", "bio", "qr"][self.0.usize(..3)];
        let code = store.qr_codes.get(place).filter(|_| kind == "qr");
        let (kind, link) = match code {
            Some(code) => (kind, code.link.clone()),
            None if kind == "qr" => ("links", store.link_url(place)),
            None => (kind, store.link_url(place)),
        };
        Item {
            kind: kind.to_owned(),
            id: place,
            title: self.name(place),
            preview: format!("{link}/preview"),
            link,
            date: date(self.moment()),
            ..Item::default()
        }
    }

    pub fn pixel(&mut self, n: u64) -> Pixel {
        let kinds = super::writes::PIXEL_TYPES;
        Pixel {
            kind: kinds[self.0.usize(..kinds.len())].to_owned(),
            name: self.name(n),
            tag: format!("TAG-{n}"),
            date: self.datetime(),
            ..Pixel::default()
        }
    }

    pub fn qr_code(&mut self, store: &Store, n: u64) -> QrCode {
        let name = self.name(n);
        QrCode {
            link: store.qr_url(n),
            name: self.maybe(name),
            date: self.datetime(),
            content: QrContentData {
                kind: Some("text".to_owned()),
                data: Some(json!(format!("{} {n}", self.word()))),
                ..QrContentData::default()
            },
            scans: Scans { base: self.0.u64(..5_000), since: NOW, period: self.0.u64(..500_000) },
            ..QrCode::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_account() {
        let counts = GeneratedCounts::each(20);
        assert_eq!(generate(7, counts), generate(7, counts));
        assert_ne!(generate(7, counts), generate(8, counts));
    }

    #[test]
    fn names_and_items_are_unique() {
        let store = generate(3, GeneratedCounts::each(60));
        let names: BTreeSet<_> = store.campaigns.iter().map(|(_, row)| &row.name).collect();
        assert_eq!(names.len(), 60);
        for (_, channel) in store.channels.iter() {
            let items: BTreeSet<_> = channel.items.iter().map(|i| (&i.kind, i.id)).collect();
            assert_eq!(items.len(), 60);
        }
    }
}
