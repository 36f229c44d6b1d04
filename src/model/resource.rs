//! The table that describes the API. The crawler, the decoder, the diff, the CSV headers, the SQL
//! views, `linkvault capabilities` and the docs are made from it; a new resource is a new row.
//!
//! Source: the service's API document, sections 2 and 4; aliases and pixel types as live services
//! send them.

use serde::{Deserialize, Serialize};

use super::spec::Method::{Delete, Get, Post, Put};
use super::spec::{Endpoint, Field, FieldKind, Param, ResourceSpec, Role, Verb};

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The account itself: one record.
    Account,
    /// Branded domains.
    Domains,
    /// Campaigns.
    Campaigns,
    /// Channels.
    Channels,
    /// Items of channels.
    ChannelItems,
    /// QR codes.
    QrCodes,
    /// Tracking pixels.
    Pixels,
    /// Call-to-action overlays.
    Overlays,
    /// Custom splash pages.
    SplashPages,
}

impl Resource {
    /// All resources, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Account,
        Self::Domains,
        Self::Campaigns,
        Self::Channels,
        Self::ChannelItems,
        Self::QrCodes,
        Self::Pixels,
        Self::Overlays,
        Self::SplashPages,
    ];

    /// The resource's row of the table.
    #[must_use]
    pub fn spec(self) -> &'static ResourceSpec {
        &TABLE[self as usize]
    }

    /// The name on the command line, in SQL and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The resource called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The pixel types, in the order of section 4.6 of the API document.
pub const PIXEL_TYPES: &[&str] = &[
    "gtmpixel",
    "gapixel",
    "fbpixel",
    "adwordspixel",
    "linkedinpixel",
    "twitterpixel",
    "adrollpixel",
    "quorapixel",
    "pinterest",
    "bing",
    "snapchat",
    "reddit",
    "tiktok",
];

/// The types of channel items.
pub const ITEM_TYPES: &[&str] = &["links", "bio", "qr"];

/// The content types of QR codes.
pub const QR_TYPES: &[&str] = &["text", "vcard", "link", "email", "phone", "sms", "wifi"];

const fn field(name: &'static str, kind: FieldKind, role: Role) -> Field {
    Field { name, kind, role, aliases: &[] }
}

const fn alias(name: &'static str, aliases: &'static [&'static str], role: Role) -> Field {
    Field { name, kind: FieldKind::Text, role, aliases }
}

const fn required(name: &'static str) -> Param {
    Param { name, required: true }
}

const fn optional(name: &'static str) -> Param {
    Param { name, required: false }
}

const PAGING: &[Param] = &[optional("limit"), optional("page")];

const fn list(path: &'static str) -> Endpoint {
    Endpoint { verb: Verb::List, method: Get, path, params: PAGING, answer: &["data"] }
}

const fn delete(path: &'static str) -> Endpoint {
    Endpoint { verb: Verb::Delete, method: Delete, path, params: &[], answer: &["message"] }
}

const fn assign(path: &'static str) -> Endpoint {
    Endpoint { verb: Verb::Assign, method: Post, path, params: &[], answer: &["message"] }
}

const fn create(
    path: &'static str,
    params: &'static [Param],
    answer: &'static [&'static str],
) -> Endpoint {
    Endpoint { verb: Verb::Create, method: Post, path, params, answer }
}

const fn update(
    path: &'static str,
    params: &'static [Param],
    answer: &'static [&'static str],
) -> Endpoint {
    Endpoint { verb: Verb::Update, method: Put, path, params, answer }
}

const ID: Field = field("id", FieldKind::Int, Role::Identity);
const DATE: Field = field("date", FieldKind::DateTime, Role::ReadOnly);
const CAMPAIGN: &[&str] = &["id", "domain", "public", "rotator", "list"];

/// The table. Its order is the order of [`Resource::ALL`].
pub static TABLE: [ResourceSpec; 9] = [
    ResourceSpec {
        resource: Resource::Account,
        name: "account",
        title: "account",
        list_keys: &[],
        fields: &[
            ID,
            field("email", FieldKind::Text, Role::Writable),
            field("username", FieldKind::Text, Role::ReadOnly),
            field("avatar", FieldKind::Text, Role::ReadOnly),
            field("status", FieldKind::Text, Role::ReadOnly),
            field("expires", FieldKind::DateTime, Role::ReadOnly),
            field("registered", FieldKind::DateTime, Role::ReadOnly),
            field("password", FieldKind::Text, Role::WriteOnly),
        ],
        endpoints: &[
            Endpoint {
                verb: Verb::List,
                method: Get,
                path: "/api/account",
                params: &[],
                answer: &["data"],
            },
            update("/api/account/update", &[optional("email"), optional("password")], &["message"]),
        ],
        natural_key: &["email"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::Domains,
        name: "domains",
        title: "branded domain",
        list_keys: &["domains"],
        fields: &[
            ID,
            field("domain", FieldKind::Domain, Role::Writable),
            field("redirectroot", FieldKind::Text, Role::Writable),
            field("redirect404", FieldKind::Text, Role::Writable),
        ],
        endpoints: &[
            list("/api/domains"),
            create(
                "/api/domain/add",
                &[required("domain"), optional("redirectroot"), optional("redirect404")],
                &["id"],
            ),
            update(
                "/api/domain/:id/update",
                &[optional("redirectroot"), optional("redirect404")],
                &["message"],
            ),
            delete("/api/domain/:id/delete"),
        ],
        natural_key: &["domain"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::Campaigns,
        name: "campaigns",
        title: "campaign",
        list_keys: &["campaigns"],
        fields: &[
            ID,
            alias("name", &["domain", "campaign"], Role::Writable),
            field("public", FieldKind::Bool, Role::Writable),
            field("rotator", FieldKind::TextOrFalse, Role::ReadOnly),
            field("list", FieldKind::Text, Role::ReadOnly),
            field("slug", FieldKind::Text, Role::WriteOnly),
        ],
        endpoints: &[
            list("/api/campaigns"),
            create(
                "/api/campaign/add",
                &[optional("name"), optional("slug"), optional("public")],
                CAMPAIGN,
            ),
            update(
                "/api/campaign/:id/update",
                &[required("name"), optional("slug"), optional("public")],
                CAMPAIGN,
            ),
            delete("/api/campaign/:id/delete"),
            assign("/api/campaign/:campaignid/assign/:linkid"),
        ],
        natural_key: &["name"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::Channels,
        name: "channels",
        title: "channel",
        list_keys: &["channels"],
        fields: &[
            ID,
            field("name", FieldKind::Text, Role::Writable),
            field("description", FieldKind::Text, Role::Writable),
            field("color", FieldKind::HexColor, Role::Writable),
            field("starred", FieldKind::Bool, Role::Writable),
        ],
        endpoints: &[
            list("/api/channels"),
            create(
                "/api/channel/add",
                &[
                    required("name"),
                    optional("description"),
                    optional("color"),
                    optional("starred"),
                ],
                &["id", "name", "description", "color", "starred"],
            ),
            update(
                "/api/channel/:id/update",
                &[
                    optional("name"),
                    optional("description"),
                    optional("color"),
                    optional("starred"),
                ],
                &["message"],
            ),
            delete("/api/channel/:id/delete"),
        ],
        natural_key: &["name"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::ChannelItems,
        name: "channel_items",
        title: "channel item",
        list_keys: &["items"],
        fields: &[
            // Not sent by the service: the id of the channel that was listed.
            field("channel", FieldKind::Int, Role::Identity),
            field("type", FieldKind::OneOf(ITEM_TYPES), Role::Identity),
            ID,
            field("title", FieldKind::Text, Role::ReadOnly),
            field("preview", FieldKind::Text, Role::ReadOnly),
            field("link", FieldKind::Text, Role::ReadOnly),
            field("date", FieldKind::Date, Role::ReadOnly),
        ],
        endpoints: &[
            list("/api/channel/:id"),
            assign("/api/channel/:channelid/assign/:type/:itemid"),
        ],
        natural_key: &["channel", "type", "id"],
        depends_on: &[Resource::Channels, Resource::QrCodes],
        parent: Some(Resource::Channels),
    },
    ResourceSpec {
        resource: Resource::QrCodes,
        name: "qr_codes",
        title: "QR code",
        list_keys: &["qrs"],
        fields: &[
            ID,
            field("link", FieldKind::Text, Role::ReadOnly),
            field("scans", FieldKind::Int, Role::Counter),
            field("name", FieldKind::Text, Role::ReadOnly),
            DATE,
            field("type", FieldKind::OneOf(QR_TYPES), Role::WriteOnly),
            field("data", FieldKind::TextOrList, Role::WriteOnly),
            field("background", FieldKind::RgbColor, Role::WriteOnly),
            field("foreground", FieldKind::RgbColor, Role::WriteOnly),
            field("logo", FieldKind::Text, Role::WriteOnly),
        ],
        endpoints: &[
            list("/api/qr"),
            Endpoint {
                verb: Verb::Read,
                method: Get,
                path: "/api/qr/:id",
                params: &[],
                answer: &["details", "data"],
            },
            create(
                "/api/qr/add",
                &[
                    required("type"),
                    required("data"),
                    optional("background"),
                    optional("foreground"),
                    optional("logo"),
                ],
                &["id", "link"],
            ),
            update(
                "/api/qr/:id/update",
                &[
                    required("data"),
                    optional("background"),
                    optional("foreground"),
                    optional("logo"),
                ],
                &["message"],
            ),
            delete("/api/qr/:id/delete"),
        ],
        natural_key: &["type", "data"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::Pixels,
        name: "pixels",
        title: "pixel",
        list_keys: &["pixels"],
        fields: &[
            ID,
            field("type", FieldKind::OneOf(PIXEL_TYPES), Role::Writable),
            field("name", FieldKind::Text, Role::Writable),
            field("tag", FieldKind::Text, Role::Writable),
            DATE,
        ],
        endpoints: &[
            list("/api/pixels"),
            create("/api/pixel/add", &[required("type"), required("name"), required("tag")], &[]),
        ],
        natural_key: &["type", "tag"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::Overlays,
        name: "overlays",
        title: "CTA overlay",
        list_keys: &["cta", "overlay"],
        fields: &[
            ID,
            field("type", FieldKind::Text, Role::ReadOnly),
            field("name", FieldKind::Text, Role::ReadOnly),
            DATE,
        ],
        endpoints: &[list("/api/overlay")],
        natural_key: &["name"],
        depends_on: &[],
        parent: None,
    },
    ResourceSpec {
        resource: Resource::SplashPages,
        name: "splash_pages",
        title: "custom splash page",
        list_keys: &["splash"],
        fields: &[ID, field("name", FieldKind::Text, Role::ReadOnly), DATE],
        endpoints: &[list("/api/splash")],
        natural_key: &["name"],
        depends_on: &[],
        parent: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum() {
        for resource in Resource::ALL {
            assert_eq!(resource.spec().resource, resource);
            assert_eq!(Resource::from_name(resource.name()), Some(resource));
            assert_eq!(serde_json::to_value(resource).unwrap(), resource.name());
        }
    }

    #[test]
    fn a_plan_has_verbs_by_name_and_no_reads() {
        use super::super::spec::Method;
        for verb in [Verb::List, Verb::Read, Verb::Create, Verb::Update, Verb::Delete, Verb::Assign]
        {
            let text = serde_json::to_string(&verb).unwrap();
            assert_eq!(text, format!("\"{}\"", verb.name()));
            let is_read = matches!(verb, Verb::List | Verb::Read);
            assert_eq!(serde_json::from_str::<Verb>(&text).is_err(), is_read);
        }
        for method in [Get, Post, Put, Delete] {
            let text = serde_json::to_string(&method).unwrap();
            assert_eq!(text, format!("\"{method}\""));
            assert_eq!(serde_json::from_str::<Method>(&text).is_err(), method == Get);
        }
    }

    #[test]
    fn field_names_and_aliases_are_unique() {
        for resource in Resource::ALL {
            let spec = resource.spec();
            let mut names: Vec<_> = spec
                .fields
                .iter()
                .flat_map(|field| std::iter::once(&field.name).chain(field.aliases))
                .collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{resource}");
        }
    }

    #[test]
    fn writes_take_only_declared_settable_fields() {
        for resource in Resource::ALL {
            let spec = resource.spec();
            for endpoint in spec.endpoints.iter().filter(|endpoint| endpoint.verb != Verb::List) {
                for param in endpoint.params {
                    let (_, field) = spec.field(param.name).expect(param.name);
                    let settable = matches!(field.role, Role::Writable | Role::WriteOnly);
                    assert!(settable, "{resource}.{}", param.name);
                }
            }
        }
    }

    #[test]
    fn every_settable_field_is_a_parameter_of_a_write() {
        for resource in Resource::ALL {
            let spec = resource.spec();
            for field in spec.fields {
                let taken = spec
                    .endpoints
                    .iter()
                    .any(|endpoint| endpoint.params.iter().any(|param| param.name == field.name));
                let settable = matches!(field.role, Role::Writable | Role::WriteOnly);
                assert_eq!(taken, settable, "{resource}.{}", field.name);
            }
        }
    }

    #[test]
    fn natural_keys_are_declared_fields() {
        for resource in Resource::ALL {
            let spec = resource.spec();
            for name in spec.natural_key {
                assert!(spec.field(name).is_some(), "{resource}.{name}");
            }
        }
    }
}
