//! Compares a desired record with the existing one and finds the fields to change.

use serde_json::Value as Json;

use super::fields;
use super::naming::ROTATOR;
use super::planner::{MatchedPair, Planner};
use super::problems::Conflict;
use super::types::{JsonFields, KeptValue};
use crate::change::plan::verify_step::{still_true, unlisted_value};
use crate::change::policy::OnConflict;
use crate::change::reformatted::is_reformatted;
use crate::model::equality::{are_equal, compare};
use crate::model::state::is_hidden;
use crate::model::value::from_json;
use crate::model::{Field, FieldValue, Resource, Role, Verb};

/// The changes to one record.
#[derive(Default)]
pub(super) struct RecordChanges {
    pub before: JsonFields,
    pub after: JsonFields,
    /// Fields that the API cannot change.
    pub read_only: Vec<&'static str>,
    /// Fields whose desired value has a form that the API does not accept.
    pub unsendable: Vec<&'static str>,
    /// The changes overwrite a value that is not known.
    pub overwrites_unknown: bool,
    /// A list shows one of the changed fields.
    pub visible: bool,
}

impl Planner<'_> {
    /// The changes that make the record equal to the desired one.
    pub fn compare(&mut self, pair: &MatchedPair<'_>) -> RecordChanges {
        let mut changes = RecordChanges::default();
        let spec = pair.resource.spec();
        let params = spec.endpoint(Verb::Update).map_or(&[][..], |endpoint| endpoint.params);
        let settable = |field: &Field| params.iter().any(|param| param.name == field.name);
        let id = pair.live.key.id();
        let was_recreated = self.was_recreated(pair.resource, id);
        let own = !self.is_migration() && pair.row.id == Some(id) && !was_recreated;
        // A record that was restored under another id should have the rotator of the deleted one.
        let same_account = !self.is_migration() && pair.row.id.is_some();
        let slug = if same_account { self.slug_to_restore(pair) } else { None };
        // A new slug changes two URLs; a row without a base may still contain the old ones.
        let given = pair.row.value(pair.resource, "slug").is_some_and(|it| !fields::is_empty(it));
        let changes_urls = slug.is_some() || (given && pair.base.is_none());
        for (place, mine) in &pair.row.fields {
            let Some(field) = spec.fields.get(*place) else { continue };
            let theirs = pair.live.values.get(*place);
            match (field.role, theirs) {
                (Role::Identity, _) => {}
                (Role::Counter, _) => {
                    let before = pair.base.flatten().and_then(|base| base.values.get(*place));
                    let is_edited = before.is_some_and(|it| !are_equal(field, mine, it));
                    let is_same = is_reformatted_cell(pair, field, *place, mine)
                        || theirs.is_some_and(|it| are_equal(field, mine, it));
                    if is_edited && !is_same && !self.is_migration() {
                        self.leave_out(pair.resource, pair.row, field);
                    }
                }
                (Role::ReadOnly, Some(theirs)) => {
                    let follows = changes_urls && [ROTATOR, "list"].contains(&field.name);
                    if follows || is_reformatted_cell(pair, field, *place, mine) {
                        continue;
                    }
                    if own && self.is_edited(pair, field, *place, mine, theirs, false) {
                        changes.read_only.push(field.name);
                    } else if pair.row.id.is_none()
                        && !fields::is_empty(mine)
                        && !are_equal(field, mine, theirs)
                    {
                        self.leave_out(pair.resource, pair.row, field);
                    }
                }
                (Role::Writable, Some(theirs)) => {
                    if !self.is_edited(pair, field, *place, mine, theirs, true) {
                        continue;
                    }
                    if spec.endpoint(Verb::Update).is_some() && !settable(field) {
                        changes.read_only.push(field.name);
                        continue;
                    }
                    if pair.row.id.is_none() && fields::is_empty(mine) && !fields::is_empty(theirs)
                    {
                        self.warn_of_cleared(pair.row, field, theirs);
                    }
                    changes.set(field, theirs.json(), mine);
                    changes.visible = true;
                }
                _ => self.compare_hidden(pair, field, mine, settable(field), &mut changes),
            }
        }
        if let (Some(slug), Some((_, field))) = (slug, spec.field("slug")) {
            self.compare_hidden(pair, field, &slug, true, &mut changes);
        }
        changes
    }

    /// Whether a record was deleted and created again. The new record may have the same id.
    pub fn was_recreated(&self, resource: Resource, id: i64) -> bool {
        let record = (resource, id);
        self.current.memory.ids.get(&record) == Some(&id) || self.desired.deleted.contains(&record)
    }

    /// Reports the fields that linkvault first sent after the desired state was saved: no list
    /// shows
    /// them, so their earlier values are not known and cannot be restored.
    pub fn refuse_fields_sent_later(&mut self, pair: &MatchedPair<'_>) {
        let key = (pair.resource, pair.live.key.clone());
        let Some(sent) = self.current.memory.sent.get(&key) else { return };
        let fields = sent.keys().filter_map(|name| pair.resource.spec().field(name));
        let lost = fields
            .filter(|(place, field)| is_hidden(field) && !pair.row.fields.contains_key(place));
        let names: Vec<_> = lost.map(|(_, field)| field.name).collect();
        if !names.is_empty() {
            let they = if names.len() == 1 { "it" } else { "they" };
            let (key, names) = (pair.live.key.to_string(), names.join("` and `"));
            let reason =
                format!("linkvault set its `{names}` later, and what {they} replaced is not known");
            self.add_unsupported(pair.resource, &key, &reason, pair.row.source.as_ref());
        }
    }

    /// Compares a field that no list shows. With a base that has sent values, the field changes
    /// only
    /// if the input differs from the base; if the account also differs from it, there is a
    /// conflict.
    fn compare_hidden(
        &mut self,
        pair: &MatchedPair<'_>,
        field: &Field,
        mine: &FieldValue<'_>,
        settable: bool,
        changes: &mut RecordChanges,
    ) {
        let sent = self.sent(pair.resource, &pair.live.key, field.name);
        let now = unlisted_value(pair.resource, pair.live, sent, field.name);
        let is = |it: &Json| are_equal(field, &from_json(it), mine);
        if sent.is_some_and(is) || now.as_ref().is_some_and(is) {
            self.record_agreement(pair, field, mine);
            return;
        }
        if now.is_none() && fields::is_empty(mine) {
            return;
        }
        // The service may have changed the sent value; the two count as equal.
        let theirs = if self.is_migration() { sent.or(now.as_ref()) } else { now.as_ref() };
        if !self.is_hidden_edited(pair, field, mine, theirs) {
            return;
        }
        if !settable {
            changes.read_only.push(field.name);
            return;
        }
        changes.overwrites_unknown |= now.is_none();
        changes.set(field, now.unwrap_or_default(), mine);
    }

    /// Whether the input differs from the base in a field that no list shows. `now` is the
    /// account's value, if known.
    fn is_hidden_edited(
        &mut self,
        pair: &MatchedPair<'_>,
        field: &Field,
        mine: &FieldValue<'_>,
        now: Option<&Json>,
    ) -> bool {
        if self.is_migration() {
            let now = now.map(from_json);
            let Some(now) = now.or(self.desired.keep_existing.then_some(FieldValue::Null)) else {
                return true;
            };
            return self.is_edited_in_source(pair, field, mine, &now, true);
        }
        let (Some(base), Some(state)) = (pair.base, self.base) else { return true };
        if state.sent.is_none() {
            return true;
        }
        let sent = base.and_then(|it| {
            let sent = state.sent.as_ref()?.get(&(pair.resource, it.key.clone()))?;
            still_true(it, sent, field.name)
        });
        if sent.is_some_and(|it| are_equal(field, &from_json(it), mine)) {
            return false;
        }
        let before = base.and_then(|it| unlisted_value(pair.resource, it, sent, field.name));
        let before = before.as_ref().map_or(FieldValue::Null, from_json);
        let Some(now) = now else { return !are_equal(field, mine, &before) };
        self.is_edited_since(pair, field, &before, mine, &from_json(now), true)
    }

    /// Whether the input changes a value that was `before` in the base. If the account changed it
    /// too and it is `writable`, there is a conflict.
    fn is_edited_since(
        &mut self,
        pair: &MatchedPair<'_>,
        field: &Field,
        before: &FieldValue<'_>,
        mine: &FieldValue<'_>,
        theirs: &FieldValue<'_>,
        writable: bool,
    ) -> bool {
        if are_equal(field, mine, before) {
            return false;
        }
        let forms = self.forms(pair.resource, &pair.live.key);
        if compare(field, before, theirs, forms).is_same() || !writable {
            return true;
        }
        self.conflict(pair, field, before.json(), mine, theirs.json())
    }

    /// Whether a differing field was changed in the source since the last migration, whose values
    /// are the base. A value that was changed only in the target is kept.
    fn is_edited_in_source(
        &mut self,
        pair: &MatchedPair<'_>,
        field: &Field,
        mine: &FieldValue<'_>,
        theirs: &FieldValue<'_>,
        writable: bool,
    ) -> bool {
        let Some(old) = pair.row.id else { return true };
        if self.desired.keep_existing {
            self.record_kept_value(pair, old, field, mine.json(), theirs.json());
            return false;
        }
        let memory = self.current.memory;
        let known = [&memory.agreed, &memory.agreed_at_first_migration].into_iter();
        let mut known = known.filter_map(|it| it.get(&(pair.resource, old))?.get(field.name));
        let Some(json) = known.next() else { return true };
        let before = from_json(json);
        let forms = self.forms(pair.resource, &pair.live.key);
        let untouched = compare(field, &before, theirs, forms).is_same();
        if are_equal(field, mine, &before) {
            if !untouched {
                self.record_kept_value(pair, old, field, mine.json(), theirs.json());
            }
            return false;
        }
        if untouched || !writable {
            return true;
        }
        if self.policy.on_conflict == OnConflict::Theirs {
            self.record_kept_value(pair, old, field, mine.json(), theirs.json());
        }
        self.conflict(pair, field, json.clone(), mine, theirs.json())
    }

    /// Records that a value is equal in both accounts, unless an earlier migration recorded it.
    fn record_agreement(&mut self, pair: &MatchedPair<'_>, field: &Field, mine: &FieldValue<'_>) {
        let Some(old) = pair.row.id.filter(|_| self.is_migration()) else { return };
        let record = (pair.resource, old);
        let known = self.current.memory.agreed.get(&record).and_then(|it| it.get(field.name));
        if !known.is_some_and(|it| are_equal(field, &from_json(it), mine)) {
            self.agreed.entry(record).or_default().insert(field.name.to_owned(), mine.json());
        }
    }

    fn record_kept_value(
        &mut self,
        pair: &MatchedPair<'_>,
        id: i64,
        field: &Field,
        source: Json,
        target: Json,
    ) {
        let (resource, field) = (pair.resource, field.name.to_owned());
        let existing = self.desired.keep_existing;
        self.kept.push(KeptValue { resource, id, field, source, target, existing });
    }

    /// Whether the input's value is used if both sides changed a field. Reports the conflict if the
    /// policy says so.
    fn conflict(
        &mut self,
        pair: &MatchedPair<'_>,
        field: &Field,
        base: Json,
        mine: &FieldValue<'_>,
        theirs: Json,
    ) -> bool {
        self.decide(Conflict {
            resource: pair.resource,
            key: pair.live.key.to_string(),
            field: Some(field.name.to_owned()),
            base,
            mine: mine.json(),
            theirs,
            source: pair.row.source.clone(),
        })
    }

    /// The slug that restores the desired rotator of a campaign.
    fn slug_to_restore(&self, pair: &MatchedPair<'_>) -> Option<FieldValue<'static>> {
        if pair.resource != Resource::Campaigns || pair.row.value(pair.resource, "slug").is_some() {
            return None;
        }
        let (place, field) = pair.resource.spec().field(ROTATOR)?;
        let mine = pair.row.fields.get(&place)?;
        let theirs = pair.live.values.get(place)?;
        if let Some(base) = pair.base
            && base.and_then(|it| it.values.get(place)).is_none_or(|it| are_equal(field, it, mine))
        {
            return None;
        }
        let mine = fields::text(mine)?;
        let wanted = if mine.is_empty() { "" } else { fields::slug(mine)? };
        let now = fields::text(theirs).map(|it| fields::slug(it).unwrap_or_default());
        let sent = self.sent(pair.resource, &pair.live.key, "slug").and_then(Json::as_str);
        (now != Some(wanted) && sent != Some(wanted))
            .then(|| FieldValue::Text(wanted.to_owned().into()))
    }

    /// Whether the input changes a field: its value differs from the account's and, with a base,
    /// from
    /// the base's. If the account changed it too and it is `writable`, there is a conflict.
    fn is_edited(
        &mut self,
        pair: &MatchedPair<'_>,
        field: &Field,
        place: usize,
        mine: &FieldValue<'_>,
        theirs: &FieldValue<'_>,
        writable: bool,
    ) -> bool {
        let forms = self.forms(pair.resource, &pair.live.key);
        if compare(field, mine, theirs, forms).is_same() {
            self.record_agreement(pair, field, mine);
            return false;
        }
        if self.is_migration() {
            return self.is_edited_in_source(pair, field, mine, theirs, writable);
        }
        let Some(base) = pair.base else { return true };
        let before = base.and_then(|it| it.values.get(place)).unwrap_or(&FieldValue::Null);
        self.is_edited_since(pair, field, before, mine, theirs, writable)
    }
}

/// Whether the row has the value of the account or of the base in another form.
fn is_reformatted_cell(
    pair: &MatchedPair<'_>,
    field: &Field,
    place: usize,
    mine: &FieldValue<'_>,
) -> bool {
    let records = [Some(pair.live), pair.base.flatten()].into_iter().flatten();
    let mut values = records.filter_map(|record| record.values.get(place));
    values.any(|value| is_reformatted(field, mine, value))
}

impl RecordChanges {
    fn set(&mut self, field: &Field, before: Json, mine: &FieldValue<'_>) {
        match fields::sendable(field, mine) {
            Some(after) => {
                self.before.insert(field.name.to_owned(), before);
                self.after.insert(field.name.to_owned(), after);
            }
            None => self.unsendable.push(field.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AccountMemory, CurrentState, plan};
    use super::*;
    use crate::change::desired::{DesiredRecord, DesiredState};
    use crate::change::policy::Policy;
    use crate::model::{DecodedRecord, State};
    use serde_json::json;

    fn state(record: &Json) -> State {
        let raw = record.to_string();
        let record =
            DecodedRecord::read(Resource::Campaigns, None, &raw).unwrap().record.into_owned();
        let mut state = State::default();
        state.resource_mut(Resource::Campaigns).insert(record.key.clone(), record);
        state
    }

    /// The target's service changed the slug that the last migration sent.
    #[test]
    fn a_slug_altered_by_the_service_does_not_count_as_changed_in_the_target() {
        let source = state(&json!({"id": 1, "name": "a", "rotator": "https://o/r/new"}));
        let live = state(&json!({"id": 3, "name": "a", "rotator": "https://n/r/old-1"}));
        let mut desired = DesiredState::of_state(&source, "old@#1");
        desired.origin = Some("https://o#1".to_owned());
        let slug = |row: &mut DesiredRecord| {
            let place = Resource::Campaigns.spec().field("slug").map(|(place, _)| place);
            row.fields.insert(place.unwrap(), FieldValue::Text("new".into()));
        };
        desired.resources.values_mut().flat_map(|it| &mut it.records).for_each(slug);
        let campaign = (Resource::Campaigns, 1);
        let mut memory = AccountMemory::default();
        memory.ids.insert(campaign, 3);
        memory.agreed.insert(campaign, json!({"slug": "old"}).as_object().unwrap().clone());
        let sent = [("slug", json!("old")), ("rotator", json!("https://n/r/old-1"))];
        let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
        memory.sent.insert((Resource::Campaigns, crate::model::RecordKey::Id(3)), sent);
        let current = CurrentState { state: &live, memory: &memory };
        let made = plan(&desired, current, None, &Policy::default()).unwrap();
        assert_eq!(made.steps.len(), 1, "{made:?}");
        let after = made.steps[0].after.as_ref().unwrap();
        assert_eq!(after["slug"], "new");
    }
}
