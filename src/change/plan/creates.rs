//! Records that are to come to be, or to come back.

use serde_json::Value as Json;

use super::naming::{ROTATOR, a, everything, label, label_of};
use super::order::Draft;
use super::problems::Conflict;
use super::records::Planner;
use super::request::{Ref, Subject};
use super::{Fields, fields, labels, matching};
use crate::change::desired::Wanted;
use crate::change::policy::OnConflict;
use crate::model::{Key, Record, Resource, Role, Value, Verb};

impl Planner<'_> {
    /// A record of the base that is gone from the account.
    pub fn gone(&mut self, resource: Resource, row: &Wanted) -> Option<Ref> {
        let key = Key::Id(row.id?);
        let state = self.base?;
        let base = state.get(resource)?.get(&key)?;
        let spec = resource.spec();
        let edited = row.fields.iter().any(|(place, mine)| {
            let Some(field) = spec.fields.get(*place) else { return false };
            match base.values.get(*place) {
                Some(_) if matches!(field.role, Role::Identity | Role::Counter) => false,
                Some(before) => !fields::same(field, mine, before),
                None => {
                    let sent = match &state.sent {
                        Some(_) => state.sent(resource, &key, field.name),
                        None => self.sent(resource, &key, field.name),
                    };
                    let sent = sent.map(fields::from_json);
                    !fields::same(field, mine, &sent.unwrap_or(Value::Null))
                }
            }
        });
        if !edited {
            return None;
        }
        match self.policy.on_conflict {
            OnConflict::Mine => self.create(resource, row),
            OnConflict::Theirs => None,
            OnConflict::Fail => {
                let row_json = |it: &Record<'static>| Json::Object(everything(resource, it));
                self.problems.conflicts.push(Conflict {
                    resource,
                    key: key.to_string(),
                    field: None,
                    base: row_json(base),
                    mine: Json::Object(given(resource, row)),
                    theirs: Json::Null,
                    source: row.source.clone(),
                });
                None
            }
        }
    }

    pub fn create(&mut self, resource: Resource, row: &Wanted) -> Option<Ref> {
        let spec = resource.spec();
        let (key, source) = (label(resource, row), row.source.as_ref());
        let Some(endpoint) = spec.endpoint(Verb::Create) else {
            let reason = format!("the API cannot create {}", a(resource));
            self.refuse(resource, &key, &reason, source);
            return None;
        };
        let mut body = Fields::new();
        for param in endpoint.params {
            let Some((_, field)) = spec.field(param.name) else { continue };
            let value = row.value(resource, param.name).cloned();
            let value = value.or_else(|| self.lost(resource, row, param.name));
            let value = value.filter(|value| !fields::is_empty(value));
            match value.map(|value| fields::sendable(field, &value)) {
                Some(Some(value)) => {
                    body.insert(param.name.to_owned(), value);
                }
                Some(None) => {
                    let reason = format!("its `{}` is of a form that cannot be sent", param.name);
                    self.refuse(resource, &key, &reason, source);
                    return None;
                }
                None if param.required => {
                    let (title, name) = (spec.title, param.name);
                    let reason =
                        format!("a {title} is created with its `{name}`, which is not known");
                    self.refuse(resource, &key, &reason, source);
                    return None;
                }
                None => {}
            }
        }
        let natural = matching::written(resource, |name| {
            body.get(name).map(|json| json.as_str().map_or_else(|| json.to_string(), str::to_owned))
        });
        let label = labels::of_create(resource);
        let number = u32::try_from(self.drafts.len()).unwrap_or(u32::MAX);
        self.drafts.push(Draft {
            resource,
            verb: Verb::Create,
            key: if natural.is_empty() { key } else { natural },
            name: label_of(resource, |name| row.value(resource, name)),
            id: None,
            subject: Subject::Unnamed,
            before: None,
            after: Some(body.clone()),
            body: Some(body),
            label,
            // Where another record has the id, the id still leads to that one.
            replaces: row.id.filter(|id| !self.reused.contains(resource, *id)),
            fingerprint: None,
            source: row.source.clone(),
        });
        Some(Ref::Step(number))
    }

    /// A value that no list shows, of a record that is to come back.
    fn lost(&self, resource: Resource, row: &Wanted, name: &str) -> Option<Value<'static>> {
        let own = row.id.filter(|id| !self.reused.contains(resource, *id));
        let own = own.filter(|_| !self.foreign() && !self.desired.remembers);
        let sent = own.and_then(|id| self.sent(resource, &Key::Id(id), name));
        let is_hidden = resource.spec().field(name).is_some_and(|(_, field)| !field.is_read());
        if let Some(sent) = sent.filter(|_| is_hidden) {
            return Some(fields::from_json(sent).into_owned());
        }
        let rotator = (name == "slug").then(|| row.value(resource, ROTATOR)).flatten()?;
        let slug = fields::slug(fields::text(rotator)?)?;
        Some(Value::Text(slug.to_owned().into()))
    }
}

fn given(resource: Resource, row: &Wanted) -> Fields {
    let spec = resource.spec();
    let fields = row.fields.iter().filter_map(|(at, value)| Some((spec.fields.get(*at)?, value)));
    fields.map(|(field, value)| (field.name.to_owned(), value.json())).collect()
}
