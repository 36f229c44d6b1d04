//! Options of a migration: texts to replace, filters, and contents of QR codes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use crate::change::record_filter::FieldFilter;
use crate::model::{FieldValue, Resource, Role};

/// Fields of one record, by their index in the table's row.
pub type OptionFields = BTreeMap<usize, FieldValue<'static>>;

/// Options of a migration.
#[derive(Debug, Clone, Default)]
pub struct MigrateOptions {
    /// The resources to move.
    pub which: Vec<Resource>,
    /// Ids of short links in the target, by their ids in the source.
    pub links: BTreeMap<i64, i64>,
    /// Texts to replace.
    pub set: Vec<Substitution>,
    /// Filters; a record must match all that name its resource.
    pub wheres: Vec<FieldFilter>,
    /// Contents of QR codes, by their ids in the source.
    pub codes: BTreeMap<i64, OptionFields>,
    /// Whether a QR code of unknown content becomes a code that opens the old code's link.
    pub link_codes: bool,
    /// Whether records that exist in the target stay as they are.
    pub keep_existing: bool,
}

/// Why an option cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrateOptionError {
    /// Not of the expected form. The option's value and the form.
    #[error("`{0}` does not have the form {1}")]
    Form(String, &'static str),
    /// Not the name of a resource that can be moved.
    #[error("`{0}` is not a resource that can be moved")]
    Resource(String),
    /// The resource has no such field for this option.
    #[error("`{resource}` has no field `{field}` for this option; allowed are {known}")]
    Field {
        /// The resource.
        resource: Resource,
        /// The unknown field.
        field: String,
        /// Names of the allowed fields.
        known: String,
    },
}

/// Replaces the value of a field, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Substitution {
    /// Resource of the records.
    pub resource: Resource,
    /// Name of the field.
    pub field: &'static str,
    /// The whole value, or its beginning, that is replaced.
    pub old: String,
    /// The replacement.
    pub new: String,
}

const MOVABLE: [Resource; 6] = [
    Resource::Domains,
    Resource::Campaigns,
    Resource::Channels,
    Resource::ChannelItems,
    Resource::QrCodes,
    Resource::Pixels,
];

fn field(
    resource: &str,
    field: &str,
    may: impl Fn(Role) -> bool,
) -> Result<(Resource, &'static str), MigrateOptionError> {
    let found = Resource::from_name(resource).filter(|it| MOVABLE.contains(it));
    let resource = found.ok_or_else(|| MigrateOptionError::Resource(resource.to_owned()))?;
    let fields = || resource.spec().fields.iter().filter(|it| may(it.role)).map(|it| it.name);
    let found = fields().find(|name| *name == field);
    found.map(|name| (resource, name)).ok_or_else(|| MigrateOptionError::Field {
        resource,
        field: field.to_owned(),
        known: fields().collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for Substitution {
    type Err = MigrateOptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || MigrateOptionError::Form(text.to_owned(), "RESOURCE.FIELD:old=new");
        let (place, texts) = text.split_once(':').ok_or_else(form)?;
        // Short form of `domains.domain`.
        let place = if place == "domain" { "domains.domain" } else { place };
        let (resource, name) = place.split_once('.').ok_or_else(form)?;
        let (old, new) = texts.split_once('=').ok_or_else(form)?;
        if old.is_empty() {
            return Err(form());
        }
        let settable = |role| matches!(role, Role::Writable | Role::WriteOnly);
        let (resource, field) = field(resource, name, settable)?;
        Ok(Self { resource, field, old: old.to_owned(), new: new.to_owned() })
    }
}

impl std::fmt::Display for Substitution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}:{}={}", self.resource, self.field, self.old, self.new)
    }
}

impl Substitution {
    /// Applies the substitution to a record's fields. Returns whether it replaced something.
    pub fn apply(&self, resource: Resource, fields: &mut OptionFields) -> bool {
        let Some((place, _)) = self.resource.spec().field(self.field) else { return false };
        let value = fields.get_mut(&place).filter(|_| resource == self.resource);
        let Some(FieldValue::Text(text)) = value else { return false };
        // A domain also matches without its scheme: `domain:old.example=new.example`.
        let scheme = match text.find("://") {
            Some(end) if resource == Resource::Domains => end + 3,
            _ => 0,
        };
        let (scheme, bare) = text.split_at(scheme);
        // If only the old text has a scheme, the domain keeps it.
        let kept = if self.old.contains("://") { scheme } else { "" };
        let whole = text.strip_prefix(self.old.as_str()).map(|rest| (kept, rest));
        let found = whole.or_else(|| Some((scheme, bare.strip_prefix(self.old.as_str())?)));
        let Some((scheme, rest)) = found else { return false };
        let scheme = if self.new.contains("://") { "" } else { scheme };
        *text = Cow::Owned(format!("{scheme}{}{rest}", self.new));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Result<Substitution, String> {
        text.parse().map_err(|error: MigrateOptionError| error.to_string())
    }

    #[test]
    fn a_substitution_is_a_field_and_two_texts() {
        let it = set("domains.domain:https://old.example=https://new.example").unwrap();
        assert_eq!((it.resource, it.field), (Resource::Domains, "domain"));
        assert_eq!(
            (it.old.as_str(), it.new.as_str()),
            ("https://old.example", "https://new.example")
        );
        let short = set("domain:old.example=new.example").unwrap();
        assert_eq!(short.to_string(), "domains.domain:old.example=new.example");
        let form = "does not have the form RESOURCE.FIELD:old=new";
        for wrong in ["x", "domains:a=b", "domains.domain:a", "domains.domain:=b"] {
            assert_eq!(set(wrong), Err(format!("`{wrong}` {form}")));
        }
        assert!(
            set("overlays.name:a=b")
                .unwrap_err()
                .contains("`overlays` is not a resource that can be moved")
        );
        assert!(set("campaigns.list:a=b").unwrap_err().contains("allowed are name, public, slug"));
    }

    #[test]
    fn a_value_or_its_beginning_is_replaced() {
        let it = set("campaigns.name:Old=New").unwrap();
        let of = |text: &'static str| {
            let mut fields = OptionFields::from([(1, FieldValue::Text(text.into()))]);
            let used = it.apply(Resource::Campaigns, &mut fields);
            (used, fields[&1].cell().into_owned())
        };
        assert_eq!(of("Old"), (true, "New".to_owned()));
        assert_eq!(of("Old shop"), (true, "New shop".to_owned()));
        assert_eq!(of("Very Old"), (false, "Very Old".to_owned()));
    }

    #[test]
    fn a_domain_is_replaced_with_or_without_its_scheme() {
        let of = |set: &str, text: &'static str| {
            let it: Substitution = set.parse().unwrap();
            let mut fields = OptionFields::from([(1, FieldValue::Text(text.into()))]);
            let used = it.apply(Resource::Domains, &mut fields);
            (used, fields[&1].cell().into_owned())
        };
        let to = |text: &str| (true, text.to_owned());
        let old = "http://old.example";
        assert_eq!(of("domain:old.example=new.example", old), to("http://new.example"));
        assert_eq!(of("domain:old.example=https://new.example", old), to("https://new.example"));
        assert_eq!(of("domain:http://old.example=new.example", old), to("http://new.example"));
        assert_eq!(
            of("domain:http://old.example=https://new.example", old),
            to("https://new.example")
        );
        assert_eq!(of("domain:http=https", old), to("https://old.example"));
    }
}
