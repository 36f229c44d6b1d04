//! Builds the requests of steps from the table of endpoints.

use std::fmt;

use serde_json::Value as Json;

use super::types::{JsonFields, PlannedRequest};
use crate::model::resource::ITEM_TYPES;
use crate::model::{Resource, Verb};

/// An existing record, or one that an earlier step creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResolvedRef {
    /// The record's id in the account.
    Id(i64),
    /// The number of the step that creates the record.
    Step(u32),
}

impl ResolvedRef {
    /// The form in a step's `after`: a number, or `"{3}"` for step 3.
    #[must_use]
    pub fn json(self) -> Json {
        match self {
            Self::Id(id) => id.into(),
            Self::Step(_) => self.to_string().into(),
        }
    }

    /// Parses the output of [`ResolvedRef::json`]; `None` for any other form.
    #[must_use]
    pub fn from_json(json: &Json) -> Option<Self> {
        if let Some(id) = json.as_i64() {
            return Some(Self::Id(id));
        }
        let text = json.as_str()?;
        let step = text.strip_prefix('{')?.strip_suffix('}')?.parse().ok()?;
        Some(Self::Step(step)).filter(|it| it.to_string() == text)
    }
}

impl fmt::Display for ResolvedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Step(step) => write!(f, "{{{step}}}"),
        }
    }
}

/// The ids in a request's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestSubject {
    /// The path has no id: a create, or an update of the account.
    Unnamed,
    /// A record by its id.
    Record(ResolvedRef),
    /// An item of a channel.
    Item {
        /// The channel.
        channel: ResolvedRef,
        /// One of [`ITEM_TYPES`].
        kind: String,
        /// The QR code, link or bio page.
        id: ResolvedRef,
    },
    /// A link of a campaign.
    Link {
        /// The campaign.
        campaign: ResolvedRef,
        /// The link's id.
        link: i64,
    },
}

impl RequestSubject {
    /// The steps that create the records it refers to.
    pub fn steps(&self) -> impl Iterator<Item = u32> + use<> {
        let refs = match self {
            Self::Unnamed => [None, None],
            Self::Record(id) => [Some(*id), None],
            Self::Item { channel, id, .. } => [Some(*channel), Some(*id)],
            Self::Link { campaign, .. } => [Some(*campaign), None],
        };
        refs.into_iter().flatten().filter_map(|it| match it {
            ResolvedRef::Step(step) => Some(step),
            ResolvedRef::Id(_) => None,
        })
    }

    /// The value of the placeholder `name` in a path of the table.
    fn param(&self, name: &str) -> Option<String> {
        match (self, name) {
            (Self::Record(id), "id") => Some(id.to_string()),
            (Self::Item { channel, .. }, "channelid") => Some(channel.to_string()),
            (Self::Item { kind, .. }, "type") => {
                Some(kind.clone()).filter(|kind| ITEM_TYPES.contains(&kind.as_str()))
            }
            (Self::Item { id, .. }, "itemid") => Some(id.to_string()),
            (Self::Link { campaign, .. }, "campaignid") => Some(campaign.to_string()),
            (Self::Link { link, .. }, "linkid") => Some(link.to_string()),
            _ => None,
        }
    }
}

/// The request for `verb` on `subject`. `None` if the table has no such endpoint, or if `body`
/// has a field that the endpoint does not accept or lacks one that it requires.
#[must_use]
pub fn request(
    resource: Resource,
    verb: Verb,
    subject: &RequestSubject,
    body: Option<JsonFields>,
) -> Option<PlannedRequest> {
    let write = matches!(verb, Verb::Create | Verb::Update | Verb::Delete | Verb::Assign);
    let endpoint = resource.spec().endpoint(verb).filter(|_| write)?;
    let given = body.as_ref();
    let has = |name: &str| given.is_some_and(|body| body.contains_key(name));
    let taken = |name: &String| {
        name != "password" && endpoint.params.iter().any(|param| param.name == name.as_str())
    };
    let complete = endpoint.params.iter().all(|param| !param.required || has(param.name));
    let fits = given.is_none_or(|body| body.keys().all(taken));
    let bodiless = endpoint.params.is_empty();
    if !complete || !fits || bodiless == given.is_some() {
        return None;
    }
    let segments = endpoint.path.split('/').map(|segment| match segment.strip_prefix(':') {
        Some(name) => subject.param(name),
        None => Some(segment.to_owned()),
    });
    let path = segments.collect::<Option<Vec<_>>>()?.join("/");
    Some(PlannedRequest { method: endpoint.method, path, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(json: Json) -> Option<JsonFields> {
        json.as_object().cloned()
    }

    #[test]
    fn a_request_names_ids_and_steps_in_its_path() {
        let item = RequestSubject::Item {
            channel: ResolvedRef::Step(3),
            kind: "qr".to_owned(),
            id: ResolvedRef::Id(9),
        };
        let made = request(Resource::ChannelItems, Verb::Assign, &item, None).unwrap();
        assert_eq!(made.path, "/api/channel/{3}/assign/qr/9");
        assert_eq!(item.steps().collect::<Vec<_>>(), [3]);
        let link = RequestSubject::Link { campaign: ResolvedRef::Id(1), link: 2 };
        let made = request(Resource::Campaigns, Verb::Assign, &link, None).unwrap();
        assert_eq!(made.path, "/api/campaign/1/assign/2");
    }

    #[test]
    fn a_request_that_is_not_in_the_table_is_not_parsed() {
        let one = RequestSubject::Record(ResolvedRef::Id(1));
        let none = |resource, verb, subject: &RequestSubject, fields| {
            assert_eq!(request(resource, verb, subject, body(fields)), None);
        };
        none(Resource::Pixels, Verb::Delete, &one, Json::Null);
        none(Resource::Domains, Verb::Update, &one, json!({"domain": "x"}));
        none(Resource::Campaigns, Verb::Update, &one, json!({"public": true}));
        none(Resource::Account, Verb::Update, &RequestSubject::Unnamed, json!({"password": "x"}));
        none(Resource::Campaigns, Verb::Delete, &one, json!({}));
        none(Resource::Campaigns, Verb::Delete, &RequestSubject::Unnamed, Json::Null);
        none(Resource::Campaigns, Verb::List, &one, Json::Null);
        let odd = RequestSubject::Item {
            channel: ResolvedRef::Id(1),
            kind: "../x".to_owned(),
            id: ResolvedRef::Id(9),
        };
        none(Resource::ChannelItems, Verb::Assign, &odd, Json::Null);
    }

    #[test]
    fn a_reference_reads_back_as_itself_only() {
        for it in [ResolvedRef::Id(-3), ResolvedRef::Step(7)] {
            assert_eq!(ResolvedRef::from_json(&it.json()), Some(it));
        }
        for wrong in [json!("{+7}"), json!("{07}"), json!("7"), json!(1.5), json!(null)] {
            assert_eq!(ResolvedRef::from_json(&wrong), None, "{wrong}");
        }
    }
}
