//! The data of one account: plain, serialisable, without rules of the API.
//! The rules are in `writes`; what goes to the wire is decided in `render`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::{HasName, Names};
use crate::clock::Timestamp;

/// Rows by id. An id is never given twice, not even after its row is gone, unless
/// the table reuses ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreTable<T> {
    next: u64,
    rows: BTreeMap<u64, T>,
    /// The id after the highest is the next, as in databases that keep no sequence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reuses: bool,
    /// Made from the rows when it is needed.
    #[serde(skip)]
    names: Names,
}

impl<T: PartialEq> PartialEq for StoreTable<T> {
    fn eq(&self, other: &Self) -> bool {
        self.next == other.next && self.rows == other.rows
    }
}

impl<T> Default for StoreTable<T> {
    fn default() -> Self {
        Self { next: 1, rows: BTreeMap::new(), reuses: false, names: Names::default() }
    }
}

impl<T> StoreTable<T> {
    /// Adds a row under the next id, and answers that id.
    pub fn add(&mut self, row: T) -> u64 {
        let id = self.next;
        self.put(id, row);
        id
    }

    /// Sets the row of `id`, replacing what was there.
    pub fn put(&mut self, id: u64, row: T) {
        self.next = self.next.max(id.saturating_add(1));
        self.names.touch(id);
        self.rows.insert(id, row);
    }

    /// The id that [`StoreTable::add`] gives next.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        self.next
    }

    #[must_use]
    pub fn get(&self, id: u64) -> Option<&T> {
        self.rows.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.names.touch(id);
        self.rows.get_mut(&id)
    }

    pub fn remove(&mut self, id: u64) -> Option<T> {
        self.names.touch(id);
        let removed = self.rows.remove(&id);
        if self.reuses {
            self.next = self.rows.last_key_value().map_or(1, |(id, _)| id.saturating_add(1));
        }
        removed
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows by ascending id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    /// All rows by ascending id, to change them.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (u64, &mut T)> {
        self.names.touch_all();
        self.rows.iter_mut().map(|(id, row)| (*id, row))
    }
}

impl<T: HasName> StoreTable<T> {
    /// Whether a row other than that of `own` bears `name`, in whatever case.
    pub fn has_name(&mut self, name: &str, own: Option<u64>) -> bool {
        let Self { rows, names, .. } = self;
        names.is_taken(name, own, rows.keys().copied(), |id| rows.get(&id))
    }
}

impl HasName for Campaign {
    fn name(&self) -> &str {
        &self.name
    }
}

impl HasName for StoredChannel {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Fields that the document does not know, or whose value is not of the
/// documented type. They are served as they came and win over the typed field.
pub type Extra = Map<String, Value>;

/// The account's own record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAccount {
    pub id: u64,
    pub email: String,
    pub username: String,
    pub avatar: String,
    pub status: String,
    pub expires: String,
    pub registered: String,
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    pub domain: String,
    pub redirectroot: String,
    pub redirect404: String,
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredOverlay {
    pub kind: String,
    pub name: String,
    pub date: String,
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    pub name: String,
    pub public: bool,
    /// What the rotator's URL was built from. The service never shows it.
    pub slug: Option<String>,
    /// `None` is served as `false`.
    pub rotator: Option<String>,
    pub list: String,
    /// Ids of the short links assigned. The service never shows them.
    pub members: BTreeSet<u64>,
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredChannel {
    pub name: String,
    pub description: String,
    pub color: String,
    pub starred: bool,
    pub items: Vec<Item>,
    pub extra: Extra,
}

/// Something that a channel holds; its id counts within its kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub kind: String,
    pub id: u64,
    pub title: String,
    pub preview: String,
    pub link: String,
    pub date: String,
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Splash {
    pub name: String,
    pub date: String,
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pixel {
    pub kind: String,
    pub name: String,
    pub tag: String,
    pub date: String,
    pub extra: Extra,
}

/// A QR code. Its content is taken on create and never shown again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QrCode {
    pub link: String,
    pub name: String,
    pub date: String,
    pub content: QrContentData,
    pub scans: Scans,
    /// Statistics as they were once read; `None` draws them from the scans.
    pub statistics: Option<Map<String, Value>>,
    pub extra: Extra,
}

/// What a QR code was made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QrContentData {
    pub kind: Option<String>,
    pub data: Option<Value>,
    pub background: Option<String>,
    pub foreground: Option<String>,
    pub logo: Option<String>,
}

/// A counter that moves by itself: one scan each `period` from `since` on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scans {
    pub base: u64,
    pub since: Timestamp,
    /// Milliseconds; 0 stands still.
    pub period: u64,
}

/// Everything one account holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// Where the links of this account live: scheme and host.
    pub base: String,
    pub account: StoredAccount,
    pub domains: StoreTable<Domain>,
    pub overlays: StoreTable<StoredOverlay>,
    pub campaigns: StoreTable<Campaign>,
    pub channels: StoreTable<StoredChannel>,
    pub splash: StoreTable<Splash>,
    pub pixels: StoreTable<Pixel>,
    pub qr_codes: StoreTable<QrCode>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            base: "https://links.example.com".to_owned(),
            account: StoredAccount {
                id: 1,
                email: "owner@example.com".to_owned(),
                username: "owner".to_owned(),
                avatar: "https://links.example.com/avatar/owner.png".to_owned(),
                status: "free".to_owned(),
                expires: "2030-01-01 00:00:00".to_owned(),
                registered: "2024-01-01 00:00:00".to_owned(),
                extra: Extra::new(),
            },
            domains: StoreTable::default(),
            overlays: StoreTable::default(),
            campaigns: StoreTable::default(),
            channels: StoreTable::default(),
            splash: StoreTable::default(),
            pixels: StoreTable::default(),
            qr_codes: StoreTable::default(),
        }
    }
}

impl Store {
    /// From now on the id of a record that was the last of its list, and is
    /// gone, is given again.
    pub fn reuse_ids(&mut self) {
        self.domains.reuses = true;
        self.campaigns.reuses = true;
        self.channels.reuses = true;
        self.pixels.reuses = true;
        self.qr_codes.reuses = true;
    }

    /// The rotator's URL for `slug`.
    #[must_use]
    pub fn rotator_url(&self, slug: &str) -> String {
        format!("{}/r/{slug}", self.base)
    }

    /// The URL of a campaign's list page.
    #[must_use]
    pub fn list_url(&self, slug: Option<&str>, id: u64) -> String {
        let username = &self.account.username;
        format!("{}/u/{username}/{}-{id}", self.base, slug.unwrap_or("list"))
    }

    /// The URL that a QR code opens.
    #[must_use]
    pub fn qr_url(&self, id: u64) -> String {
        format!("{}/qr/{}", self.base, short_code(id))
    }

    /// The URL of a short link.
    #[must_use]
    pub fn link_url(&self, id: u64) -> String {
        format!("{}/{}", self.base, short_code(id))
    }

    /// Moves the account to `base`: every address that the service makes begins
    /// with it. Addresses of branded domains and everything that the owner wrote
    /// stay.
    pub fn serve_at(&mut self, base: &str) {
        let old = std::mem::replace(&mut self.base, base.to_owned());
        let moved = |address: &mut String| {
            let rest = address.strip_prefix(&old).filter(|it| it.is_empty() || it.starts_with('/'));
            if let Some(rest) = rest {
                *address = format!("{base}{rest}");
            }
        };
        moved(&mut self.account.avatar);
        for (_, campaign) in self.campaigns.iter_mut() {
            campaign.rotator.iter_mut().for_each(moved);
            moved(&mut campaign.list);
        }
        for (_, channel) in self.channels.iter_mut() {
            for item in &mut channel.items {
                moved(&mut item.link);
                moved(&mut item.preview);
            }
        }
        self.qr_codes.iter_mut().for_each(|(_, code)| moved(&mut code.link));
    }

    /// Adds a campaign whose URLs are built from its slug.
    pub fn add_campaign(&mut self, name: &str, slug: Option<&str>, public: bool) -> u64 {
        let slug = slug.filter(|slug| !slug.is_empty());
        let id = self.campaigns.next_id();
        let row = Campaign {
            name: name.to_owned(),
            public,
            slug: slug.map(str::to_owned),
            rotator: slug.map(|slug| self.rotator_url(slug)),
            list: self.list_url(slug, id),
            ..Campaign::default()
        };
        self.campaigns.put(id, row);
        id
    }

    /// Deletes a QR code, and takes it out of the channels that hold it.
    pub fn remove_qr(&mut self, id: u64) -> Option<QrCode> {
        let removed = self.qr_codes.remove(id)?;
        for (_, channel) in self.channels.iter_mut() {
            channel.items.retain(|item| item.kind != "qr" || item.id != id);
        }
        Some(removed)
    }
}

/// A short, steady code for `id`, as the end of a link.
fn short_code(id: u64) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    // An odd factor scatters neighbours over the range without collisions.
    let mut rest = id.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(20);
    let mut code = String::new();
    for _ in 0..13 {
        code.push(char::from(DIGITS[(rest & 31) as usize]));
        rest >>= 5;
    }
    code
}

/// `YYYY-MM-DD HH:MM:SS` in UTC.
#[must_use]
pub fn datetime(time: Timestamp) -> String {
    time.utc().map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// `YYYY-MM-DD` in UTC.
#[must_use]
pub fn date(time: Timestamp) -> String {
    time.utc().map_or_else(String::new, |time| time.format("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_given_twice() {
        let mut table = StoreTable::default();
        assert_eq!((table.add("a"), table.add("b")), (1, 2));
        table.remove(2);
        assert_eq!(table.add("c"), 3);
        table.put(40, "d");
        assert_eq!(table.add("e"), 41);
    }

    #[test]
    fn short_codes_differ() {
        let codes: BTreeSet<_> = (0..2000).map(short_code).collect();
        assert_eq!(codes.len(), 2000);
    }

    #[test]
    fn deleting_a_qr_code_takes_it_out_of_its_channels() {
        let mut store = Store::default();
        let code = store.qr_codes.add(QrCode::default());
        let item = |kind: &str| Item { kind: kind.to_owned(), id: code, ..Item::default() };
        let items = vec![item("qr"), item("links")];
        let channel = store.channels.add(StoredChannel { items, ..StoredChannel::default() });
        store.remove_qr(code);
        assert_eq!(store.channels.get(channel).unwrap().items, [item("links")]);
    }

    #[test]
    fn a_store_reads_back_from_its_json_form() {
        let mut store = Store::default();
        store.add_campaign("Größe \u{1f4a1}", Some("size"), true);
        store.qr_codes.put(9, QrCode { link: "x".to_owned(), ..QrCode::default() });
        let text = serde_json::to_string(&store).unwrap();
        assert_eq!(serde_json::from_str::<Store>(&text).unwrap(), store);
    }
}
