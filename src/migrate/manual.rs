//! Tasks that the user must do by hand, with their reasons.

use crate::model::Resource;
use crate::model::resource::PIXEL_TYPES;

/// A task that the user must do by hand.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ManualTask {
    /// Resource that the task is about.
    pub resource: Resource,
    /// The record's id in the source; empty for a task about the whole resource.
    pub id: String,
    /// Name of the record; empty for a task about the whole resource.
    pub name: String,
    /// The reason, and what to do.
    pub reason: String,
    /// Whether the record is not moved.
    #[serde(skip)]
    pub not_moved: bool,
    /// Whether the task is done as soon as the record has moved.
    #[serde(skip)]
    pub done_when_moved: bool,
    /// Whether the service refuses to list the resource.
    #[serde(skip)]
    pub unread: bool,
}

impl ManualTask {
    /// A task about a whole resource.
    #[must_use]
    pub fn of_all(resource: Resource, reason: &str) -> Self {
        let (id, name) = (String::new(), String::new());
        Self {
            resource,
            id,
            name,
            reason: reason.to_owned(),
            not_moved: false,
            done_when_moved: false,
            unread: false,
        }
    }

    /// A task about a resource that the service refuses to list.
    #[must_use]
    pub fn unread(resource: Resource) -> Self {
        Self { unread: true, ..Self::of_all(resource, UNREAD) }
    }

    /// A task about one record that is not moved.
    #[must_use]
    pub fn not_moved(resource: Resource, id: impl ToString, name: &str, reason: &str) -> Self {
        let (id, name) = (id.to_string(), name.to_owned());
        Self { id, name, not_moved: true, ..Self::of_all(resource, reason) }
    }

    /// The same task, for a record that is moved.
    #[must_use]
    pub fn moved(self) -> Self {
        Self { not_moved: false, ..self }
    }

    /// The same task, done as soon as the record has moved.
    #[must_use]
    pub fn until_moved(self) -> Self {
        Self { done_when_moved: true, ..self }
    }
}

/// The service refuses to list a resource.
const UNREAD: &str = "the old service does not list them; check there whether there are any";
/// The settings of the account itself.
pub const ACCOUNT: &str = "e-mail, password and subscription of each account stay unchanged; change \
    them in the services' web interfaces";
/// An overlay.
pub const OVERLAY: &str = "the API cannot create a CTA overlay; create it in the new service's web \
    interface";
/// A splash page.
pub const SPLASH: &str = "the API cannot create a splash page; create it in the new service's web \
    interface";
/// A short link without a new id in `--links`.
pub const LINK: &str = "the API has no short links; create the link in the new service and put both \
    ids into the file for --links";
/// A bio page in a channel.
pub const BIO: &str = "the API has no bio pages; create the page in the new service and add it to \
    the channel there";
/// Links of campaigns that linkvault did not assign.
pub const CAMPAIGN_LINKS: &str = "no list shows the short links of a campaign; --links moves those \
    that linkvault assigned, add the others by hand";
/// Rotators and list pages of campaigns.
pub const ADDRESSES: &str = "rotators and list pages get URLs of the new service; the old URLs keep \
    opening the old account";
/// A domain.
pub const DOMAIN: &str = "the new service accepts a domain only if its DNS points to it; change the \
    DNS first, which ends the old service's links on this domain";
/// Scans and statistics of QR codes.
pub const STATISTICS: &str = "scans and statistics stay in the old account; its vault keeps those \
    that were backed up";
/// Printed QR codes.
pub const PRINTED: &str = "printed codes open the old service; keep the old account until they are \
    replaced";
/// Names and design of QR codes.
pub const CODE_DESIGN: &str = "the API cannot set names of codes, and no list shows their colours and \
    logos; those that linkvault sent or --qr-data has are moved, set the others by hand";
/// A QR code that opens the link of the old code.
pub const OLD_LINK: &str = "its content is not known; the new code opens the link of the old code, \
    which stays with the old service";
/// A QR code whose content is not known.
pub const UNKNOWN_CODE: &str = "no list shows its content; give the content with --qr-data, or use \
    --qr-content link to make a code that opens the old code's link";

/// The reason why a pixel of type `kind` is not moved.
#[must_use]
pub fn unsupported_pixel(kind: &str) -> String {
    format!("the API has no pixel type `{kind}`; its types are {}", PIXEL_TYPES.join(", "))
}
