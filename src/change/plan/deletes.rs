//! Plans deletes.

use serde_json::Value as Json;

use super::fields::fingerprint;
use super::matching::RecordMatches;
use super::naming::{all_fields, name_of, with_article};
use super::order::StepDraft;
use super::planner::{Planner, Records};
use super::problems::Conflict;
use super::request::{RequestSubject, ResolvedRef};
use crate::change::plan::reversibility;
use crate::model::{Record, RecordKey, Resource, State, Verb};

impl Planner<'_> {
    pub fn plan_deletes(&mut self, resource: Resource, live: &Records, matches: &RecordMatches) {
        let base = self.base.and_then(|base| base.get(resource));
        for (key, record) in live {
            if matches.claimed.contains_key(&key.id()) || !self.admits_live(resource, record) {
                continue;
            }
            let before = base.map(|base| base.get(key));
            match before {
                None => {}
                // Somebody else created it since the base.
                Some(None) => continue,
                Some(Some(_)) if self.reused.contains(resource, key.id()) => continue,
                Some(Some(before)) if !self.may_delete(resource, before, record) => continue,
                Some(Some(_)) => {}
            }
            self.delete(resource, key, record);
        }
    }

    fn may_delete(
        &mut self,
        resource: Resource,
        before: &Record<'static>,
        record: &Record<'static>,
    ) -> bool {
        !self.has_changed(resource, before, record)
            || self.may_delete_changed(resource, before, record)
    }

    /// Whether a record was changed since the base, or a channel got new items.
    fn has_changed(
        &self,
        resource: Resource,
        before: &Record<'static>,
        record: &Record<'static>,
    ) -> bool {
        let items = |state: &'_ State| -> Option<Vec<RecordKey>> {
            let of = |key: &&RecordKey| matches!(key, RecordKey::Item { channel, .. } if *channel == record.key.id());
            Some(state.get(Resource::ChannelItems)?.keys().filter(of).cloned().collect())
        };
        let has_new_items = || {
            let (old, new) = (items(self.base?)?, items(self.current.state)?);
            Some(new.iter().any(|key| !old.contains(key)))
        };
        let same = before.raw == record.raw
            || fingerprint(resource, before) == fingerprint(resource, record);
        !same || (resource == Resource::Channels && has_new_items() == Some(true))
    }

    /// Plans deletes of the records that the desired state lists by id. The policy decides about
    /// records that changed since the base.
    pub fn plan_deletes_by_id(&mut self) {
        if !self.policy.delete {
            return;
        }
        for (resource, ids) in &self.desired.to_delete {
            let live = self.current.state.get(*resource).into_iter().flatten();
            let base = self.base.and_then(|base| base.get(*resource));
            let is_listed = |key: &RecordKey| {
                ids.contains(&key.id()) && !self.reused.contains(*resource, key.id())
            };
            for (key, record) in live.filter(|(key, _)| is_listed(key)) {
                let before = base.and_then(|base| base.get(key));
                if let Some(before) = before
                    && !self.may_delete(*resource, before, record)
                {
                    continue;
                }
                self.delete(*resource, key, record);
            }
        }
    }

    fn may_delete_changed(
        &mut self,
        resource: Resource,
        before: &Record<'static>,
        theirs: &Record<'static>,
    ) -> bool {
        self.decide(Conflict {
            resource,
            key: theirs.key.to_string(),
            field: None,
            base: Json::Object(all_fields(resource, before)),
            mine: Json::Null,
            theirs: Json::Object(all_fields(resource, theirs)),
            source: None,
        })
    }

    fn delete(&mut self, resource: Resource, key: &RecordKey, record: &Record<'static>) {
        if resource.spec().endpoint(Verb::Delete).is_none() {
            let reason = format!("the API cannot delete {}", with_article(resource));
            return self.add_unsupported(resource, &key.to_string(), &reason, None);
        }
        let id = key.id();
        let content_unknown =
            resource == Resource::QrCodes && self.sent(resource, key, "data").is_none();
        self.deleted.insert((resource, id));
        self.drafts.push(StepDraft {
            resource,
            verb: Verb::Delete,
            key: key.to_string(),
            name: name_of(resource, record),
            id: Some(id),
            subject: RequestSubject::Record(ResolvedRef::Id(id)),
            before: Some(all_fields(resource, record)),
            after: None,
            body: None,
            reversibility: reversibility::of_delete(resource, content_unknown),
            replaces: None,
            fingerprint: Some(fingerprint(resource, record)),
            source: None,
        });
    }
}
