//! The built-in account: small, realistic, and readable in fewer than thirty requests, so that
//! trials
//! do not wait for the rate limit.

use serde_json::json;

use crate::clock::Timestamp;
use crate::sandbox::store::{
    Domain, Item, Pixel, QrCode, QrContentData, Scans, Splash, Store, StoredChannel, StoredOverlay,
    date, datetime,
};

const DAY: i64 = 86_400_000;

const DOMAINS: [(&str, &str, &str); 3] = [
    ("https://go.lantern-books.example.com", "https://lantern-books.example.com", ""),
    (
        "https://events.lantern-books.example.com",
        "https://lantern-books.example.com/events",
        "https://lantern-books.example.com/lost",
    ),
    ("http://club.lantern-books.example.net", "", ""),
];

const CAMPAIGNS: [(&str, Option<&str>, bool); 8] = [
    ("Spring Reading List", Some("spring-list"), true),
    ("Author Evenings", Some("evenings"), true),
    ("Newsletter", Some("letter"), false),
    ("Summer Sale", Some("summer"), true),
    ("Book Club", None, false),
    ("Gift Cards", Some("gifts"), true),
    ("Bücherflohmarkt", Some("flohmarkt"), true),
    ("Press", None, false),
];

/// Name, description, colour, starred, and items with type and title.
type ChannelRow =
    (&'static str, &'static str, &'static str, bool, &'static [(&'static str, &'static str)]);

const CHANNELS: [ChannelRow; 5] = [
    (
        "Shop window",
        "Codes on posters and on the door",
        "#1F6F54",
        true,
        &[
            ("qr", "Opening hours"),
            ("qr", "Menu of the reading café"),
            ("links", "This month's favourites"),
        ],
    ),
    (
        "Social",
        "What we post ourselves",
        "#2B5DA8",
        true,
        &[("links", "New arrivals"), ("links", "Signed first editions"), ("bio", "All our links")],
    ),
    (
        "Letters",
        "",
        "#B8742A",
        false,
        &[
            ("links", "March letter"),
            ("links", "April letter"),
            ("links", "Unsubscribe, \"no hard feelings\""),
            ("links", "Reader survey"),
        ],
    ),
    (
        "Schools",
        "Class sets & reading weeks",
        "#7A3E9D",
        false,
        &[("links", "Order form"), ("qr", "Reading week sign-up")],
    ),
    (
        "Partners",
        "Cafés, libraries, the cinema next door",
        "#555555",
        false,
        &[("links", "Library card"), ("bio", "Partners")],
    ),
];

/// Name, type, content, scans so far, and milliseconds between two scans.
const CODES: [(&str, &str, &str, u64, u64); 12] = [
    ("Opening hours", "link", "https://lantern-books.example.com/hours", 1834, 3_000),
    ("Menu of the reading café", "link", "https://lantern-books.example.com/menu", 962, 20_000),
    ("Reading week sign-up", "link", "https://lantern-books.example.com/week", 120, 900_000),
    ("Guest Wi-Fi", "wifi", "", 4071, 45_000),
    ("Contact card", "vcard", "", 77, 7_200_000),
    ("Call the shop", "phone", "+1-555-0142", 58, 0),
    ("Write to us", "email", "hello@lantern-books.example.com", 31, 0),
    ("Text for a hold", "sms", "+1-555-0142", 16, 0),
    ("Poster, north door", "link", "https://lantern-books.example.com/p/north", 240, 600_000),
    ("Poster, south door", "link", "https://lantern-books.example.com/p/south", 233, 600_000),
    ("Riddle of the month", "text", "What has leaves and never grows?", 415, 120_000),
    ("Archive label", "text", "Shelf 14, box 3", 0, 0),
];

const PIXELS: [(&str, &str, &str); 4] = [
    ("gtmpixel", "Tag manager", "GTM-EX4MPL"),
    ("gapixel", "Web analytics", "G-EXAMPLE01"),
    ("fbpixel", "Social ads", "100200300400"),
    ("bing", "Search ads", "55501234"),
];

const OVERLAYS: [(&str, &str); 3] =
    [("message", "Join the letter"), ("contact", "Ask a bookseller"), ("message", "Summer sale")];

const SPLASH: [&str; 2] = ["Before you leave", "Event tonight"];

/// The account at `now`.
#[must_use]
pub fn sample_account(now: Timestamp) -> Store {
    let mut store = Store::default();
    "links@lantern-books.example.com".clone_into(&mut store.account.email);
    "lantern".clone_into(&mut store.account.username);
    "https://links.example.com/avatar/lantern.png".clone_into(&mut store.account.avatar);
    "business".clone_into(&mut store.account.status);
    store.account.registered = datetime(ago(now, 900));
    store.account.expires = datetime(ago(now, -200));
    for (domain, root, missing) in DOMAINS {
        store.domains.add(Domain {
            domain: domain.to_owned(),
            redirectroot: root.to_owned(),
            redirect404: missing.to_owned(),
            ..Domain::default()
        });
    }
    for (name, slug, public) in CAMPAIGNS {
        let id = store.add_campaign(name, slug, public);
        if let Some(row) = store.campaigns.get_mut(id) {
            row.members = (id * 10..id * 10 + id % 4).collect();
        }
    }
    add_codes(&mut store, now);
    add_channels(&mut store, now);
    add_read_only(&mut store, now);
    store
}

fn ago(now: Timestamp, days: i64) -> Timestamp {
    Timestamp(now.0.saturating_sub(days.saturating_mul(DAY)))
}

fn add_codes(store: &mut Store, now: Timestamp) {
    for (place, (name, kind, data, base, period)) in CODES.into_iter().enumerate() {
        let id = store.qr_codes.next_id();
        let data = match kind {
            "wifi" => json!(["lantern-guest", "WPA", "read-more-books"]),
            "vcard" => json!(["Ada", "Lantern", "hello@lantern-books.example.com"]),
            _ => json!(data),
        };
        let row = QrCode {
            link: store.qr_url(id),
            name: name.to_owned(),
            date: datetime(ago(now, 400 - 30 * place as i64)),
            content: QrContentData {
                kind: Some(kind.to_owned()),
                data: Some(data),
                background: Some("rgb(255,255,255)".to_owned()),
                foreground: Some("rgb(31,111,84)".to_owned()),
                logo: None,
            },
            scans: Scans { base, since: now, period },
            ..QrCode::default()
        };
        store.qr_codes.put(id, row);
    }
}

fn add_channels(store: &mut Store, now: Timestamp) {
    let mut next = 100;
    for (name, description, color, starred, items) in CHANNELS {
        let mut row = StoredChannel {
            name: name.to_owned(),
            description: description.to_owned(),
            color: color.to_owned(),
            starred,
            ..StoredChannel::default()
        };
        for (kind, title) in items {
            next += 1;
            let code = store.qr_codes.iter().find(|(_, code)| code.name == *title);
            let (id, link) = match code.filter(|_| *kind == "qr") {
                Some((id, code)) => (id, code.link.clone()),
                None => (next, store.link_url(next)),
            };
            row.items.push(Item {
                kind: (*kind).to_owned(),
                id,
                title: (*title).to_owned(),
                preview: format!("{link}/preview"),
                link,
                date: date(ago(now, 300 - next as i64)),
                ..Item::default()
            });
        }
        store.channels.add(row);
    }
}

fn add_read_only(store: &mut Store, now: Timestamp) {
    for (place, (kind, name, tag)) in PIXELS.into_iter().enumerate() {
        store.pixels.add(Pixel {
            kind: kind.to_owned(),
            name: name.to_owned(),
            tag: tag.to_owned(),
            date: datetime(ago(now, 500 - place as i64)),
            ..Pixel::default()
        });
    }
    for (place, (kind, name)) in OVERLAYS.into_iter().enumerate() {
        store.overlays.add(StoredOverlay {
            kind: kind.to_owned(),
            name: name.to_owned(),
            date: datetime(ago(now, 250 - place as i64)),
            ..StoredOverlay::default()
        });
    }
    for (place, name) in SPLASH.into_iter().enumerate() {
        let date = datetime(ago(now, 90 - place as i64));
        store.splash.add(Splash { name: name.to_owned(), date, ..Splash::default() });
    }
}

#[cfg(test)]
mod tests {
    use crate::sandbox::sample_account::*;

    #[test]
    fn the_account_can_be_read_in_fewer_than_thirty_requests() {
        let store = sample_account(Timestamp(1_750_000_000_000));
        assert!(store.channels.iter().all(|(_, channel)| channel.items.len() <= 15));
        let requests = 1 + 7 + store.channels.len() + store.qr_codes.len();
        assert_eq!(requests, 25);
    }

    #[test]
    fn every_qr_item_is_a_qr_code_of_the_account() {
        let store = sample_account(Timestamp(1_750_000_000_000));
        let items = store.channels.iter().flat_map(|(_, channel)| &channel.items);
        for item in items.filter(|item| item.kind == "qr") {
            assert_eq!(store.qr_codes.get(item.id).unwrap().link, item.link);
        }
    }

    #[test]
    fn a_scan_counter_grows_within_seconds() {
        let now = Timestamp(1_750_000_000_000);
        let store = sample_account(now);
        let scans = |at| store.qr_codes.iter().map(|(_, c)| c.scans.at(at)).sum::<u64>();
        assert!(scans(Timestamp(now.0 + 5_000)) > scans(now));
    }
}
