//! Plans all steps except assignments, and finishes the plan.

use serde_json::Value as Json;

use super::types::{
    AgreedValues, JsonFields, KeptValue, MatchedRecord, MigrationMatches, Plan, ReusedId,
};
use crate::change::desired::DesiredRecord;
use crate::change::plan::PlanProblems;
use crate::change::plan::fields::{self, fingerprint};
use crate::change::plan::matching::{self, RecordMatch};
use crate::change::plan::naming::{ROTATOR, label, name_of, rotator_url, with_article};
use crate::change::plan::order::{self, StepDraft};
use crate::change::plan::planner::{MatchedPair, Planner, Records};
use crate::change::plan::request::{RequestSubject, ResolvedRef};
use crate::change::plan::reused::is_other_record;
use crate::change::plan::reversibility;
use crate::change::plan::verify_step::required_value;
use crate::model::{RecordKey, Resource, Verb};

impl<'a> Planner<'a> {
    pub fn finish(self) -> Result<Plan, PlanProblems> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let mut plan = order::finish(&self.drafts);
        if self.desired.origin.is_some() {
            // Messages name a migrated record by its id in the source account.
            for it in &mut plan.unsupported {
                let old_id = |(of, resolved): (&(Resource, i64), &ResolvedRef)| {
                    (of.0 == it.resource && resolved.to_string() == it.key).then_some(of.1)
                };
                if let Some(old) = self.resolved.iter().find_map(old_id) {
                    it.key = old.to_string();
                }
            }
        }
        plan.reused = self.reused();
        plan.cell_warnings = self.cell_warnings;
        plan.conflicts = self.conflicts;
        plan.filtered = self.filtered_rows;
        plan.unsupported.splice(..0, self.unsupported);
        plan.unsupported.sort_by_key(|it| it.resource);
        if let Some(origin) = &self.desired.origin {
            for step in &mut plan.steps {
                step.origin = Some(origin.clone());
            }
            let matched =
                self.resolved.iter().filter_map(|(&(resource, old), resolved)| match resolved {
                    ResolvedRef::Id(new) => Some(MatchedRecord { resource, old, new: *new }),
                    ResolvedRef::Step(_) => None,
                });
            let mut matched: Vec<_> = matched.collect();
            matched.sort_unstable_by_key(|it| (it.resource, it.old));
            let agreed = self.agreed.into_iter();
            let agreed =
                agreed.map(|((resource, id), values)| AgreedValues { resource, id, values });
            let (origin, agreed) = (origin.clone(), agreed.collect());
            plan.foreign = Some(MigrationMatches { origin, matched, kept: self.kept, agreed });
        }
        Ok(plan)
    }

    /// The desired ids that other records have now.
    fn reused(&self) -> Vec<ReusedId> {
        let mut all = Vec::new();
        for (resource, wanted) in &self.desired.resources {
            let ids = wanted.records.iter().filter_map(|row| row.id);
            for id in ids.filter(|id| self.reused.contains(*resource, *id)) {
                let record =
                    self.current.state.get(*resource).and_then(|it| it.get(&RecordKey::Id(id)));
                let name = record.map(|record| name_of(*resource, record)).unwrap_or_default();
                all.push(ReusedId { resource: *resource, id, name });
            }
        }
        all
    }

    /// Plans all steps except assignments.
    pub fn plan_records(&mut self) {
        let by_name = self.refers_to_names();
        for (resource, wanted) in &self.desired.resources {
            let (resource, rows) = (*resource, wanted.records.as_slice());
            let says_nothing = rows.is_empty() && !wanted.is_complete;
            if resource == Resource::ChannelItems || says_nothing {
                continue;
            }
            let Some(live) = self.current.state.get(resource) else {
                self.add_unread_resource(resource, rows, |row| label(resource, row));
                continue;
            };
            let mut matches = matching::match_records(
                resource,
                wanted,
                self.current,
                self.base,
                self.desired,
                self.reused,
            );
            self.problems.rows.append(&mut matches.problems);
            for (row, found) in rows.iter().zip(&matches.found) {
                if self.filters_out(resource, row, found, by_name) {
                    continue;
                }
                let resolved = self.record(resource, row, found, live);
                if let Some(resolved) = resolved {
                    self.register_reference(resource, row, resolved, by_name);
                }
            }
            if wanted.is_complete && self.policy.deletes_missing(rows.len()) {
                self.plan_deletes(resource, live, &matches);
            }
        }
    }

    /// Reports rows of a resource that was not read from the account.
    pub fn add_unread_resource(
        &mut self,
        resource: Resource,
        rows: &[DesiredRecord],
        key: impl Fn(&DesiredRecord) -> String,
    ) {
        if !self.is_migration() {
            return self.add_unsupported(resource, "", "were not read from the account", None);
        }
        let reason = format!("the new service does not offer {resource}");
        for row in rows {
            self.add_unsupported(resource, &key(row), &reason, row.source.as_ref());
        }
    }

    /// Whether rows may refer to records by name.
    fn refers_to_names(&self) -> bool {
        let items = self.desired.resources.get(&Resource::ChannelItems);
        let any = items.is_some_and(|items| !items.records.is_empty());
        (any || !self.desired.campaign_links.is_empty()) && !self.desired.recreate_missing
    }

    /// Plans one desired record and returns the record that references to it resolve to.
    fn record(
        &mut self,
        resource: Resource,
        row: &DesiredRecord,
        found: &RecordMatch,
        live: &'a Records,
    ) -> Option<ResolvedRef> {
        if row.value(resource, "password").is_some() {
            let what = "a password cannot be set from a file: remove its column";
            self.add_invalid_row(resource, row, what.to_owned());
            return None;
        }
        match found {
            RecordMatch::Existing(id) => {
                let live = live.get(&RecordKey::Id(*id))?;
                let base = self.base.and_then(|base| base.get(resource));
                let of = |base: &'a Records, id: i64| base.get(&RecordKey::Id(id));
                let base =
                    base.map(|it| row.id.and_then(|own| of(it, own)).or_else(|| of(it, *id)));
                self.update(&MatchedPair { resource, row, live, base });
                Some(ResolvedRef::Id(*id))
            }
            RecordMatch::New => self.create(resource, row),
            RecordMatch::DeletedSinceBase => self.plan_deleted_since_base(resource, row),
            RecordMatch::Unsupported(reason) => {
                self.add_unsupported(resource, &label(resource, row), reason, row.source.as_ref());
                None
            }
            RecordMatch::Invalid => None,
        }
    }

    /// Records how references to a desired record resolve.
    pub(super) fn register_reference(
        &mut self,
        resource: Resource,
        row: &DesiredRecord,
        resolved: ResolvedRef,
        by_name: bool,
    ) {
        let foreign = self.is_migration();
        if let Some(id) = row.id.filter(|id| foreign || resolved != ResolvedRef::Id(*id)) {
            self.resolved.insert((resource, id), resolved);
            if foreign {
                self.report_unknown_slug(row, resource);
                self.report_kept_rotator(row, resource, resolved);
            } else if resource == Resource::Campaigns
                && self.desired.recreate_missing
                && !self.desired.has_sent_values
                && !self.reused.contains(resource, id)
            {
                let links = self.current.memory.links_of(id);
                self.inherited_links.extend(links.map(|link| (resolved, link, row.source.clone())));
            }
        }
        if let Some(key) = row.natural_key(resource).filter(|_| by_name) {
            self.named.entry((resource, key)).or_default().push(resolved);
        }
    }

    /// Reports a rotator of the source account whose slug is not known.
    fn report_unknown_slug(&mut self, row: &DesiredRecord, resource: Resource) {
        let rotator = row.value(resource, ROTATOR).and_then(fields::text).unwrap_or_default();
        let known = row.value(resource, "slug").is_some() || fields::slug(rotator).is_some();
        if resource == Resource::Campaigns && !rotator.is_empty() && !known {
            let reason = format!("its rotator `{rotator}` does not tell its slug; it gets another");
            self.add_unsupported(resource, &label(resource, row), &reason, row.source.as_ref());
        }
    }

    /// Reports a rotator that a campaign has in the target only: as far as documented, the API
    /// cannot
    /// remove one.
    fn report_kept_rotator(
        &mut self,
        row: &DesiredRecord,
        resource: Resource,
        resolved: ResolvedRef,
    ) {
        let given = |name| row.value(resource, name).is_some_and(|it| !fields::is_empty(it));
        let ResolvedRef::Id(id) = resolved else { return };
        if resource != Resource::Campaigns || given(ROTATOR) || given("slug") {
            return;
        }
        let live = self.current.state.get(resource).and_then(|live| live.get(&RecordKey::Id(id)));
        let theirs = live.and_then(|live| rotator_url(resource, live)).unwrap_or_default();
        if self.desired.keep_existing && !theirs.is_empty() {
            self.kept.extend(row.id.map(|id| KeptValue {
                resource,
                id,
                field: ROTATOR.to_owned(),
                source: Json::Null,
                target: Json::from(&*theirs),
                existing: true,
            }));
        } else if !theirs.is_empty() {
            let reason = format!("it keeps the rotator `{theirs}`, and has none where it is from");
            self.add_unsupported(resource, &label(resource, row), &reason, row.source.as_ref());
        }
    }

    fn update(&mut self, pair: &MatchedPair<'_>) {
        if self.desired.has_sent_values && !self.is_migration() {
            self.refuse_fields_sent_later(pair);
        }
        let mut changes = self.compare(pair);
        let (resource, here) = (pair.resource, pair.live.key.to_string());
        // Messages name a migrated record by its id in the source account.
        let key = if self.is_migration() { label(resource, pair.row) } else { here.clone() };
        let source = pair.row.source.as_ref();
        let Some(endpoint) = resource.spec().endpoint(Verb::Update) else {
            if !(changes.after.is_empty()
                && changes.read_only.is_empty()
                && changes.unsendable.is_empty())
            {
                let after = changes.after.keys().map(String::as_str);
                let names: Vec<_> =
                    after.chain(changes.read_only).chain(changes.unsendable).collect();
                let names = names.join("` and `");
                let reason =
                    format!("the API cannot change the `{names}` of {}", with_article(resource));
                self.add_unsupported(resource, &key, &reason, source);
            }
            return;
        };
        if !changes.read_only.is_empty() {
            let names = changes.read_only.join("` and `");
            let mut reason =
                format!("the API cannot change the `{names}` of {}", with_article(resource));
            // The id in a row of a CSV file always identifies the record.
            let is_other_record = self.desired.recreate_missing
                && pair.base.is_none()
                && is_other_record(resource, pair.row, pair.live, &changes.read_only);
            if is_other_record && !changes.after.is_empty() {
                reason += "; the id is that of another record now, which is not changed";
                changes.after.clear();
            }
            self.add_unsupported(resource, &key, &reason, source);
        }
        if !changes.unsendable.is_empty() {
            let reason =
                format!("its `{}` is of a form that cannot be sent", changes.unsendable[0]);
            self.add_unsupported(resource, &key, &reason, source);
        }
        if changes.after.is_empty() {
            return;
        }
        if resource == Resource::Account && !self.policy.account {
            let reason = "the account itself is changed with `--resource account` only";
            return self.add_unsupported(resource, &key, reason, source);
        }
        let mut body = JsonFields::new();
        for param in endpoint.params {
            let value = changes.after.get(param.name).cloned();
            let known = || {
                let sent = self.sent(resource, &pair.live.key, param.name);
                required_value(resource, pair.live, sent, param.name)
            };
            let value = value.or_else(|| param.required.then(known)?);
            match value {
                Some(value) => {
                    body.insert(param.name.to_owned(), value);
                }
                None if param.required => {
                    let name = param.name;
                    let reason = format!("an update has to send its `{name}`, which is not known");
                    return self.add_unsupported(resource, &key, &reason, source);
                }
                None => {}
            }
        }
        let id = pair.live.key.id();
        let account = resource == Resource::Account;
        self.drafts.push(StepDraft {
            resource,
            verb: Verb::Update,
            key: here,
            name: name_of(resource, pair.live),
            id: Some(id),
            subject: if account {
                RequestSubject::Unnamed
            } else {
                RequestSubject::Record(ResolvedRef::Id(id))
            },
            before: Some(changes.before),
            after: Some(changes.after),
            body: Some(body),
            reversibility: reversibility::of_update(changes.overwrites_unknown, changes.visible),
            replaces: None,
            fingerprint: Some(fingerprint(resource, pair.live)),
            source: pair.row.source.clone(),
        });
    }
}
