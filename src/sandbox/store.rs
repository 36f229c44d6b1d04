//! The data of one account: plain and serialisable, without the rules of the API. `writes` has the
//! rules, `render` the JSON form.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::{HasName, NameIndex};
use crate::clock::Timestamp;

/// Rows by id. An id is never given twice, even after its row is removed, unless the table reuses
/// ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreTable<T> {
    next: u64,
    rows: BTreeMap<u64, T>,
    /// Whether the next id follows the highest existing one, as in databases without a sequence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reuses: bool,
    /// Built from the rows on demand.
    #[serde(skip)]
    names: NameIndex,
}

impl<T: PartialEq> PartialEq for StoreTable<T> {
    fn eq(&self, other: &Self) -> bool {
        self.next == other.next && self.rows == other.rows
    }
}

impl<T> Default for StoreTable<T> {
    fn default() -> Self {
        Self { next: 1, rows: BTreeMap::new(), reuses: false, names: NameIndex::default() }
    }
}

impl<T> StoreTable<T> {
    /// Adds a row with the next id, and returns the id.
    pub fn add(&mut self, row: T) -> u64 {
        let id = self.next;
        self.put(id, row);
        id
    }

    /// Sets the row of `id`.
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

    /// The row of `id`.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&T> {
        self.rows.get(&id)
    }

    /// The row of `id`, to change it.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.names.touch(id);
        self.rows.get_mut(&id)
    }

    /// Removes the row of `id` and returns it.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        self.names.touch(id);
        let removed = self.rows.remove(&id);
        if self.reuses {
            self.next = self.rows.last_key_value().map_or(1, |(id, _)| id.saturating_add(1));
        }
        removed
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows in ascending order of ids.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    /// All rows in ascending order of ids, to change them.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (u64, &mut T)> {
        self.names.touch_all();
        self.rows.iter_mut().map(|(id, row)| (*id, row))
    }
}

impl<T: HasName> StoreTable<T> {
    /// Whether a row other than `own` has `name`, ignoring case unless `exact`.
    pub fn has_name(&mut self, name: &str, own: Option<u64>, exact: bool) -> bool {
        if exact {
            return self.iter().any(|(id, row)| Some(id) != own && row.name() == name);
        }
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

/// Fields that the API document does not have, and values that are not of the documented type. They
/// are served unchanged, in place of the typed field.
pub type Extra = Map<String, Value>;

/// The account's own record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAccount {
    /// Id.
    pub id: u64,
    /// E-mail url.
    pub email: String,
    /// User name.
    pub username: String,
    /// URL of the avatar.
    pub avatar: String,
    /// Name of the plan.
    pub status: String,
    /// End of the plan, `YYYY-MM-DD HH:MM:SS`.
    pub expires: String,
    /// Registration, `YYYY-MM-DD HH:MM:SS`.
    pub registered: String,
    /// Other fields.
    pub extra: Extra,
}

/// A branded domain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// URL of the domain.
    pub domain: String,
    /// URL that the root redirects to; empty for none.
    pub redirectroot: String,
    /// URL for unknown links; empty for none.
    pub redirect404: String,
    /// Other fields.
    pub extra: Extra,
}

/// A call-to-action overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredOverlay {
    /// Type of the overlay.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Creation, `YYYY-MM-DD HH:MM:SS`.
    pub date: String,
    /// Other fields.
    pub extra: Extra,
}

/// A campaign.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Name; may be empty.
    pub name: String,
    /// Whether the list page is public.
    pub public: bool,
    /// The slug in the rotator's URL. The service never shows it.
    pub slug: Option<String>,
    /// URL of the rotator; `None` is served as `false`.
    pub rotator: Option<String>,
    /// URL of the list page.
    pub list: String,
    /// Ids of the assigned short links. The service never shows them.
    pub members: BTreeSet<u64>,
    /// Other fields.
    pub extra: Extra,
}

/// A channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredChannel {
    /// Name.
    pub name: String,
    /// Description; may be empty.
    pub description: String,
    /// Colour `#RRGGBB`, or empty.
    pub color: String,
    /// Whether it is starred.
    pub starred: bool,
    /// Its items, in order of assignment.
    pub items: Vec<Item>,
    /// Other fields.
    pub extra: Extra,
}

/// An item of a channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Type: `links`, `bio` or `qr`.
    pub kind: String,
    /// Id, unique within its type.
    pub id: u64,
    /// Title.
    pub title: String,
    /// URL of the preview.
    pub preview: String,
    /// URL that it opens.
    pub link: String,
    /// Date of the assignment, `YYYY-MM-DD`.
    pub date: String,
    /// Other fields.
    pub extra: Extra,
}

/// A custom splash page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Splash {
    /// Name.
    pub name: String,
    /// Creation, `YYYY-MM-DD HH:MM:SS`.
    pub date: String,
    /// Other fields.
    pub extra: Extra,
}

/// A tracking pixel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pixel {
    /// Type, such as `gtmpixel`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Tag of the provider.
    pub tag: String,
    /// Creation, `YYYY-MM-DD HH:MM:SS`.
    pub date: String,
    /// Other fields.
    pub extra: Extra,
}

/// A QR code. The service never shows its content after the create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QrCode {
    /// URL that the code opens.
    pub link: String,
    /// Name.
    pub name: String,
    /// Creation, `YYYY-MM-DD HH:MM:SS`.
    pub date: String,
    /// Its content, which the service never shows.
    pub content: QrContentData,
    /// The scan counter.
    pub scans: Scans,
    /// Recorded statistics; `None` to compute them from the scans.
    pub statistics: Option<Map<String, Value>>,
    /// Other fields.
    pub extra: Extra,
}

/// The content of a QR code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QrContentData {
    /// Type, such as `link`.
    pub kind: Option<String>,
    /// The data to encode: text, a list or an object.
    pub data: Option<Value>,
    /// Background colour `rgb(r,g,b)`.
    pub background: Option<String>,
    /// Foreground colour `rgb(r,g,b)`.
    pub foreground: Option<String>,
    /// URL of the logo.
    pub logo: Option<String>,
}

/// A counter that grows by one every `period` after `since`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scans {
    /// Scans at `since`.
    pub base: u64,
    /// Start of the counting.
    pub since: Timestamp,
    /// Milliseconds between two scans; 0 for a constant counter.
    pub period: u64,
}

/// All data of one account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// Scheme and host of the account's links.
    pub base: String,
    /// The account's own record.
    pub account: StoredAccount,
    /// Branded domains.
    pub domains: StoreTable<Domain>,
    /// Call-to-action overlays.
    pub overlays: StoreTable<StoredOverlay>,
    /// Campaigns.
    pub campaigns: StoreTable<Campaign>,
    /// Channels with their items.
    pub channels: StoreTable<StoredChannel>,
    /// Custom splash pages.
    pub splash: StoreTable<Splash>,
    /// Tracking pixels.
    pub pixels: StoreTable<Pixel>,
    /// QR codes.
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
    /// Makes the tables reuse the id of a deleted record that was the last of its list.
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

    /// Replaces the base URL in all URLs that the service makes. Branded domains and values that
    /// the
    /// owner wrote stay unchanged.
    pub fn serve_at(&mut self, base: &str) {
        let old = std::mem::replace(&mut self.base, base.to_owned());
        let rebase = |url: &mut String| {
            let rest = url.strip_prefix(&old).filter(|it| it.is_empty() || it.starts_with('/'));
            if let Some(rest) = rest {
                *url = format!("{base}{rest}");
            }
        };
        rebase(&mut self.account.avatar);
        for (_, campaign) in self.campaigns.iter_mut() {
            campaign.rotator.iter_mut().for_each(rebase);
            rebase(&mut campaign.list);
        }
        for (_, channel) in self.channels.iter_mut() {
            for item in &mut channel.items {
                rebase(&mut item.link);
                rebase(&mut item.preview);
            }
        }
        self.qr_codes.iter_mut().for_each(|(_, code)| rebase(&mut code.link));
    }

    /// Adds a campaign, with URLs made from its slug.
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

    /// Deletes a QR code, and removes it from all channels.
    pub fn remove_qr(&mut self, id: u64) -> Option<QrCode> {
        let removed = self.qr_codes.remove(id)?;
        for (_, channel) in self.channels.iter_mut() {
            channel.items.retain(|item| item.kind != "qr" || item.id != id);
        }
        Some(removed)
    }
}

/// A short reproducible code for `id`, as the end of a URL.
fn short_code(id: u64) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    // An odd factor maps ids to distinct, scattered numbers.
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
    fn deleting_a_qr_code_removes_it_from_its_channels() {
        let mut store = Store::default();
        let code = store.qr_codes.add(QrCode::default());
        let item = |kind: &str| Item { kind: kind.to_owned(), id: code, ..Item::default() };
        let items = vec![item("qr"), item("links")];
        let channel = store.channels.add(StoredChannel { items, ..StoredChannel::default() });
        store.remove_qr(code);
        assert_eq!(store.channels.get(channel).unwrap().items, [item("links")]);
    }

    #[test]
    fn a_store_round_trips_through_json() {
        let mut store = Store::default();
        store.add_campaign("Größe \u{1f4a1}", Some("size"), true);
        store.qr_codes.put(9, QrCode { link: "x".to_owned(), ..QrCode::default() });
        let text = serde_json::to_string(&store).unwrap();
        assert_eq!(serde_json::from_str::<Store>(&text).unwrap(), store);
    }
}
