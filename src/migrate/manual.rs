//! What only a person can move, and why.

use crate::model::Resource;
use crate::model::resource::PIXEL_TYPES;

/// Something to be done by hand.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ManualTask {
    pub resource: Resource,
    /// The record's old id; empty where it is about all of the resource.
    pub id: String,
    pub name: String,
    /// Why, and what to do.
    pub reason: String,
    /// The record is not moved.
    #[serde(skip)]
    pub left: bool,
    /// There is nothing to be done any more once the record has moved.
    #[serde(skip)]
    pub once: bool,
}

impl ManualTask {
    /// About a whole resource.
    #[must_use]
    pub fn of_all(resource: Resource, reason: &str) -> Self {
        let (id, name) = (String::new(), String::new());
        Self { resource, id, name, reason: reason.to_owned(), left: false, once: false }
    }

    /// About one record, which stays behind.
    #[must_use]
    pub fn left(resource: Resource, id: impl ToString, name: &str, reason: &str) -> Self {
        let (id, name) = (id.to_string(), name.to_owned());
        Self { resource, id, name, reason: reason.to_owned(), left: true, once: false }
    }

    /// The same, about a record that comes along.
    #[must_use]
    pub fn comes_along(self) -> Self {
        Self { left: false, ..self }
    }

    /// The same, until the record has moved.
    #[must_use]
    pub fn until_moved(self) -> Self {
        Self { once: true, ..self }
    }
}

pub const UNREAD: &str = "the old service does not give them; look there whether there are any";
pub const ACCOUNT: &str = "e-mail, password and plan of the account stay as they are in each; \
    change them on the services' own pages";
pub const OVERLAY: &str = "the API cannot create a CTA overlay; make it anew on the new service's \
    page";
pub const SPLASH: &str = "the API cannot create a splash page; make it anew on the new service's \
    page";
pub const LINK: &str = "short links are not in the API; make the link in the new service and name \
    both ids in the file for --links";
pub const BIO: &str = "bio pages are not in the API; make the page in the new service and add it to \
    the channel there";
pub const CAMPAIGN_LINKS: &str = "no list tells which short links a campaign has; those that \
    linkvault itself assigned are moved with --links, add the others by hand";
pub const ADDRESSES: &str = "rotators and list pages get addresses of the new service; who has the \
    old ones opens the old account";
pub const DOMAIN: &str = "the new service takes a domain only when its DNS points there; change the \
    DNS first, and the old service's links on it end";
pub const STATISTICS: &str = "scans and statistics stay in the old account; its vault keeps those \
    that were backed up";
pub const PRINTED: &str = "codes that are printed open the old service; keep that account until they \
    are replaced";
pub const LOOKS: &str = "the API takes no names of codes, and no list tells their colours and logos; \
    what linkvault sent or --qr-data tells comes along, set the rest by hand";
pub const OLD_LINK: &str = "its content is not known; the new code opens the old code's link, \
    which stays with the old service";
pub const UNKNOWN_CODE: &str = "no list tells what it contains; give its content with --qr-data, or \
    let the new code open the old link with --qr-content link";

/// Why a pixel stays behind.
#[must_use]
pub fn odd_pixel(kind: &str) -> String {
    format!("`{kind}` is no type that the API takes; it takes {}", PIXEL_TYPES.join(", "))
}
