//! Plans creates, of new records and of deleted ones.

use serde_json::Value as Json;

use super::naming::{ROTATOR, all_fields, label, label_of, with_article};
use super::order::StepDraft;
use super::planner::Planner;
use super::problems::Conflict;
use super::request::{RequestSubject, ResolvedRef};
use super::types::JsonFields;
use super::verify_step::same_address;
use crate::change::desired::DesiredRecord;
use crate::change::plan::{fields, reversibility};
use crate::model::equality::are_equal;
use crate::model::value::from_json;
use crate::model::{FieldValue, NaturalKey, RecordKey, Resource, Role, Verb};

impl Planner<'_> {
    /// Plans a record of the base that was deleted from the account: a conflict if the row was
    /// edited.
    pub fn plan_deleted_since_base(
        &mut self,
        resource: Resource,
        row: &DesiredRecord,
    ) -> Option<ResolvedRef> {
        let key = RecordKey::Id(row.id?);
        let state = self.base?;
        let base = state.get(resource)?.get(&key)?;
        let spec = resource.spec();
        let edited = row.fields.iter().any(|(place, mine)| {
            let Some(field) = spec.fields.get(*place) else { return false };
            match base.values.get(*place) {
                Some(_) if matches!(field.role, Role::Identity | Role::Counter) => false,
                Some(before) => !are_equal(field, mine, before),
                None => {
                    let sent = match &state.sent {
                        Some(_) => state.sent(resource, &key, field.name),
                        None => self.sent(resource, &key, field.name),
                    };
                    let sent = sent.map(from_json);
                    !are_equal(field, mine, &sent.unwrap_or(FieldValue::Null))
                }
            }
        });
        if !edited {
            return None;
        }
        let conflict = Conflict {
            resource,
            key: key.to_string(),
            field: None,
            base: Json::Object(all_fields(resource, base)),
            mine: Json::Object(fields_json(resource, row)),
            theirs: Json::Null,
            source: row.source.clone(),
        };
        if self.decide(conflict) { self.create(resource, row) } else { None }
    }

    pub fn create(&mut self, resource: Resource, row: &DesiredRecord) -> Option<ResolvedRef> {
        let spec = resource.spec();
        let (key, source) = (label(resource, row), row.source.as_ref());
        let Some(endpoint) = spec.endpoint(Verb::Create) else {
            let reason = format!("the API cannot create {}", with_article(resource));
            self.add_unsupported(resource, &key, &reason, source);
            return None;
        };
        let mut body = JsonFields::new();
        for param in endpoint.params {
            let Some((_, field)) = spec.field(param.name) else { continue };
            let value = row.value(resource, param.name).cloned();
            let value = value.or_else(|| self.unlisted_value(resource, row, param.name));
            let value = value.filter(|value| !fields::is_empty(value));
            match value.map(|value| fields::sendable(field, &value)) {
                Some(Some(value)) => {
                    body.insert(param.name.to_owned(), value);
                }
                Some(None) => {
                    let reason = format!("its `{}` is of a form that cannot be sent", param.name);
                    self.add_unsupported(resource, &key, &reason, source);
                    return None;
                }
                None if param.required => {
                    let (title, name) = (spec.title, param.name);
                    let reason =
                        format!("a {title} is created with its `{name}`, which is not known");
                    self.add_unsupported(resource, &key, &reason, source);
                    return None;
                }
                None => {}
            }
        }
        if row.id.is_none() {
            self.leave_out_read_only(resource, row, body.contains_key("slug"));
        }
        let natural = NaturalKey::text_of_json(resource, &body);
        let reversibility = reversibility::of_create(resource);
        let number = u32::try_from(self.drafts.len()).unwrap_or(u32::MAX);
        self.drafts.push(StepDraft {
            resource,
            verb: Verb::Create,
            key: if natural.is_empty() { key } else { natural },
            name: label_of(resource, |name| row.value(resource, name)),
            id: None,
            subject: RequestSubject::Unnamed,
            before: None,
            after: Some(body.clone()),
            body: Some(body),
            reversibility,
            // If another record has the id now, references to the id mean that record.
            replaces: row.id.filter(|id| !self.reused.contains(resource, *id)),
            fingerprint: None,
            source: row.source.clone(),
        });
        Some(ResolvedRef::Step(number))
    }

    /// Reports the values of a new record that the service sets itself. A slug determines two
    /// URLs.
    fn leave_out_read_only(&mut self, resource: Resource, row: &DesiredRecord, has_slug: bool) {
        for (place, value) in &row.fields {
            let Some(field) = resource.spec().fields.get(*place) else { continue };
            let is_set = match field.role {
                Role::ReadOnly => !fields::is_empty(value),
                Role::Counter => !fields::is_empty(value) && value.cell() != "0",
                _ => false,
            };
            let follows = has_slug && [ROTATOR, "list"].contains(&field.name);
            if is_set && !follows {
                self.leave_out(resource, row, field);
            }
        }
    }

    /// A value that no list shows, for a deleted record that is created again.
    fn unlisted_value(
        &self,
        resource: Resource,
        row: &DesiredRecord,
        name: &str,
    ) -> Option<FieldValue<'static>> {
        let own = row.id.filter(|id| !self.reused.contains(resource, *id));
        let own = own.filter(|_| !self.is_migration() && !self.desired.has_sent_values);
        let sent = own.and_then(|id| self.sent(resource, &RecordKey::Id(id), name));
        let is_hidden = resource.spec().field(name).is_some_and(|(_, field)| !field.is_read());
        let rotator = (name == "slug").then(|| row.value(resource, ROTATOR)).flatten();
        let rotator = rotator.and_then(fields::text);
        // Whether the service made the row's rotator from this slug or from another one.
        let seen = own.and_then(|id| self.sent(resource, &RecordKey::Id(id), ROTATOR)?.as_str());
        let is_of_row = match (rotator, seen) {
            (Some(rotator), Some(seen)) => {
                same_address(seen, rotator)
                    || (!rotator.is_empty() && fields::slug(rotator).is_none())
            }
            (Some(rotator), None) => fields::slug(rotator).is_none(),
            (None, _) => true,
        };
        if let Some(sent) = sent.filter(|_| is_hidden && is_of_row) {
            return Some(from_json(sent).into_owned());
        }
        let slug = fields::slug(rotator?)?;
        Some(FieldValue::Text(slug.to_owned().into()))
    }
}

fn fields_json(resource: Resource, row: &DesiredRecord) -> JsonFields {
    let spec = resource.spec();
    let fields = row.fields.iter().filter_map(|(at, value)| Some((spec.fields.get(*at)?, value)));
    fields.map(|(field, value)| (field.name.to_owned(), value.json())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, sheet};
    use super::super::{AccountMemory, CurrentState, plan};
    use super::*;
    use crate::change::policy::Policy;
    use crate::model::State;
    use serde_json::json;

    /// The slug with which a deleted campaign is created again from a row with this `rotator`.
    fn slug(rotator: Json, sent: &[(&str, Json)]) -> Option<String> {
        let raw = json!({"id": 1, "name": "a", "rotator": rotator});
        let mut desired = sheet(Resource::Campaigns, std::slice::from_ref(&raw));
        desired.recreate_missing = true;
        let mut state = State::default();
        let other = record(Resource::Campaigns, &json!({"id": 2, "name": "b"}));
        state.resource_mut(Resource::Campaigns).insert(other.key.clone(), other);
        let mut memory = AccountMemory::default();
        let sent = sent.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        memory.sent.insert((Resource::Campaigns, RecordKey::Id(1)), sent);
        let current = CurrentState { state: &state, memory: &memory };
        let plan = plan(&desired, current, None, &Policy::default()).unwrap();
        let body = plan.steps[0].request.body.clone().unwrap();
        body.get("slug").and_then(Json::as_str).map(str::to_owned)
    }

    #[test]
    fn a_restored_campaign_gets_the_slug_of_its_rotator_or_the_sent_slug_behind_that_rotator() {
        let is = |rotator: Json, sent: &[(&str, Json)], expected: Option<&str>| {
            assert_eq!(slug(rotator.clone(), sent).as_deref(), expected, "{rotator} {sent:?}");
        };
        let (old, new) = (json!("https://x/r/old"), json!("https://x/r/new"));
        let of = |slug: &str, seen: Json| [("slug", json!(slug)), (ROTATOR, seen)];
        is(new.clone(), &[], Some("new"));
        is(new.clone(), &of("old", old.clone()), Some("new"));
        is(new.clone(), &of("old", Json::Null), Some("new"));
        is(new.clone(), &[("slug", json!("old"))], Some("new"));
        // The service made `new` from the sent slug.
        is(new.clone(), &of("New!", new.clone()), Some("New!"));
        is(json!(""), &of("old", old), None);
        is(json!(""), &of("old", json!("")), Some("old"));
        is(json!("https://x/?c=5"), &of("old", new), Some("old"));
    }
}
