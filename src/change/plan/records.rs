//! What is wanted of each record against what is there, and the updates between.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value as Json;

use super::claims::{carried, unseen};
use super::fields::{self, fingerprint};
use super::labels;
use super::matching::{self, Match};
use super::naming::{a, label, name_of, rotator};
use super::order::{self, Draft};
use super::problems::{BadRow, Conflict};
use super::request::{Ref, Subject};
use super::{Current, Fields, Foreign, Kept, Matched, Plan, PlanProblems, Unsupported};
use crate::change::desired::{Desired, Source, Wanted};
use crate::change::policy::{OnConflict, Policy};
use crate::model::{Field, Key, Record, Resource, Role, State, Value, Verb};

pub(super) struct Planner<'a> {
    pub desired: &'a Desired,
    pub current: Current<'a>,
    pub base: Option<&'a State>,
    pub policy: &'a Policy,
    pub drafts: Vec<Draft>,
    unsupported: Vec<Unsupported>,
    kept: Vec<Kept>,
    pub problems: PlanProblems,
    /// What became of wanted ids that the account does not have.
    pub became: HashMap<(Resource, i64), Ref>,
    /// Wanted names, where something refers to them.
    pub named: HashMap<(Resource, String), Vec<Ref>>,
    pub deleted: HashSet<(Resource, i64)>,
    /// Links of campaigns that come back under another id.
    pub inherited: Vec<(Ref, i64, Option<Source>)>,
}

pub(super) type Records = BTreeMap<Key, Record<'static>>;

/// What is to change in one record.
#[derive(Default)]
struct Changes {
    before: Fields,
    after: Fields,
    /// Fields that the API cannot change.
    fixed: Vec<&'static str>,
    /// Fields whose value the API would not take.
    odd: Vec<&'static str>,
    /// A value that nobody knows is overwritten.
    forgets: bool,
    /// A list can tell whether it was done.
    visible: bool,
}

/// One wanted record beside the one that is there.
struct Pair<'r> {
    resource: Resource,
    row: &'r Wanted,
    live: &'r Record<'static>,
    /// The record in the base; `None` without a base.
    base: Option<Option<&'r Record<'static>>>,
}

impl<'a> Planner<'a> {
    pub fn new(
        desired: &'a Desired,
        current: Current<'a>,
        base: Option<&'a State>,
        policy: &'a Policy,
    ) -> Self {
        Self {
            desired,
            current,
            base,
            policy,
            drafts: Vec::new(),
            unsupported: Vec::new(),
            kept: Vec::new(),
            problems: PlanProblems::default(),
            became: HashMap::new(),
            named: HashMap::new(),
            deleted: HashSet::new(),
            inherited: Vec::new(),
        }
    }

    pub fn finish(self) -> Result<Plan, PlanProblems> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let mut plan = order::finish(&self.drafts);
        if self.desired.origin.is_some() {
            // Here as elsewhere, a record of another account is told by its id there.
            for it in &mut plan.unsupported {
                let is_meant = |(of, became): (&(Resource, i64), &Ref)| {
                    (of.0 == it.resource && became.to_string() == it.key).then_some(of.1)
                };
                if let Some(old) = self.became.iter().find_map(is_meant) {
                    it.key = old.to_string();
                }
            }
        }
        plan.unsupported.splice(..0, self.unsupported);
        plan.unsupported.sort_by_key(|it| it.resource);
        if let Some(origin) = &self.desired.origin {
            for step in plan.steps.iter_mut().filter(|step| step.replaces.is_some()) {
                step.origin = Some(origin.clone());
            }
            let matched =
                self.became.iter().filter_map(|(&(resource, old), became)| match became {
                    Ref::Id(new) => Some(Matched { resource, old, new: *new }),
                    Ref::Step(_) => None,
                });
            let mut matched: Vec<_> = matched.collect();
            matched.sort_unstable_by_key(|it| (it.resource, it.old));
            plan.foreign = Some(Foreign { origin: origin.clone(), matched, kept: self.kept });
        }
        Ok(plan)
    }

    /// Everything but assignments.
    pub fn records(&mut self) {
        let by_name = self.refers_to_names();
        for (resource, wanted) in &self.desired.resources {
            let (resource, rows) = (*resource, wanted.records.as_slice());
            if resource == Resource::ChannelItems || rows.is_empty() {
                continue;
            }
            let Some(live) = self.current.state.get(resource) else {
                self.unread(resource, rows, |row| label(resource, row));
                continue;
            };
            let mut matches =
                matching::match_records(resource, wanted, self.current, self.base, self.desired);
            self.problems.rows.append(&mut matches.problems);
            for (row, found) in rows.iter().zip(&matches.found) {
                let became = self.record(resource, row, found, live);
                if let Some(became) = became {
                    self.note(resource, row, became, by_name);
                }
            }
            if wanted.whole && self.policy.delete {
                self.deletions(resource, live, &matches);
            }
        }
    }

    /// Tells that a resource cannot be had, since it was not read.
    pub fn unread(&mut self, resource: Resource, rows: &[Wanted], key: impl Fn(&Wanted) -> String) {
        if !self.foreign() {
            return self.refuse(resource, "", "were not read from the account", None);
        }
        let reason = format!("the new service does not offer {resource}");
        for row in rows {
            self.refuse(resource, &key(row), &reason, row.source.as_ref());
        }
    }

    /// Whether the wanted ids are of another account.
    pub fn foreign(&self) -> bool {
        self.desired.origin.is_some()
    }

    fn refers_to_names(&self) -> bool {
        use crate::change::desired::Meant;
        let items = self.desired.resources.get(&Resource::ChannelItems);
        let mut items = items.into_iter().flat_map(|items| &items.records);
        items.any(|item| matches!(item.channel, Some(Meant::Name(_))))
            || self.desired.campaign_links.iter().any(|it| matches!(it.campaign, Meant::Name(_)))
    }

    /// One wanted record; what it will be known by.
    fn record(
        &mut self,
        resource: Resource,
        row: &Wanted,
        found: &Match,
        live: &'a Records,
    ) -> Option<Ref> {
        if row.value(resource, "password").is_some() {
            let what = "a password is never set from here: take its column away";
            self.bad(resource, row, what.to_owned());
            return None;
        }
        match found {
            Match::Live(id) => {
                let live = live.get(&Key::Id(*id))?;
                let base = self.base.and_then(|base| base.get(resource));
                let of = |base: &'a Records, id: i64| base.get(&Key::Id(id));
                let base =
                    base.map(|it| row.id.and_then(|own| of(it, own)).or_else(|| of(it, *id)));
                self.update(&Pair { resource, row, live, base });
                Some(Ref::Id(*id))
            }
            Match::New => self.create(resource, row),
            Match::Gone => self.gone(resource, row),
            Match::Unsupported(reason) => {
                self.refuse(resource, &label(resource, row), reason, row.source.as_ref());
                None
            }
            Match::Bad => None,
        }
    }

    /// Remembers under what a wanted record can be referred to.
    fn note(&mut self, resource: Resource, row: &Wanted, became: Ref, by_name: bool) {
        let foreign = self.foreign();
        if let Some(id) = row.id.filter(|id| foreign || became != Ref::Id(*id)) {
            self.became.insert((resource, id), became);
            if foreign {
                self.slug_is_lost(row, resource);
                self.rotator_stays(row, resource, became);
            } else if resource == Resource::Campaigns
                && self.desired.recreate
                && !self.desired.remembers
            {
                let links = super::assign::links_of(self.current.memory, id);
                self.inherited.extend(links.map(|link| (became, link, row.source.clone())));
            }
        }
        let name = row.value(resource, "name").and_then(fields::text);
        if by_name && let Some(name) = name.filter(|name| !name.is_empty()) {
            self.named.entry((resource, fields::folded(name))).or_default().push(became);
        }
    }

    /// Tells of a rotator from another account whose address nobody can rebuild.
    fn slug_is_lost(&mut self, row: &Wanted, resource: Resource) {
        let rotator = row.value(resource, "rotator").and_then(fields::text).unwrap_or_default();
        let known = row.value(resource, "slug").is_some() || fields::slug(rotator).is_some();
        if resource == Resource::Campaigns && !rotator.is_empty() && !known {
            let reason = format!("its rotator `{rotator}` does not tell its slug; it gets another");
            self.refuse(resource, &label(resource, row), &reason, row.source.as_ref());
        }
    }

    /// Tells of a rotator that a campaign has here and not in the account that it
    /// is from: nothing says that the API can take one away.
    fn rotator_stays(&mut self, row: &Wanted, resource: Resource, became: Ref) {
        let given = |name| row.value(resource, name).is_some_and(|it| !fields::is_empty(it));
        let Ref::Id(id) = became else { return };
        if resource != Resource::Campaigns || given("rotator") || given("slug") {
            return;
        }
        let live = self.current.state.get(resource).and_then(|live| live.get(&Key::Id(id)));
        let theirs = live.and_then(|live| rotator(resource, live)).unwrap_or_default();
        if !theirs.is_empty() {
            let reason = format!("it keeps the rotator `{theirs}`, and has none where it is from");
            self.refuse(resource, &label(resource, row), &reason, row.source.as_ref());
        }
    }

    fn update(&mut self, pair: &Pair<'_>) {
        let changes = self.compare(pair);
        let (resource, here) = (pair.resource, pair.live.key.to_string());
        // Whoever wants a record of another account knows it by its id there.
        let key = if self.foreign() { label(resource, pair.row) } else { here.clone() };
        let source = pair.row.source.as_ref();
        let Some(endpoint) = resource.spec().endpoint(Verb::Update) else {
            if !(changes.after.is_empty() && changes.fixed.is_empty() && changes.odd.is_empty()) {
                let after = changes.after.keys().map(String::as_str);
                let names: Vec<_> = after.chain(changes.fixed).chain(changes.odd).collect();
                let names = names.join("` and `");
                let reason = format!("the API cannot change the `{names}` of {}", a(resource));
                self.refuse(resource, &key, &reason, source);
            }
            return;
        };
        if !changes.fixed.is_empty() {
            let names = changes.fixed.join("` and `");
            let reason = format!("the API cannot change the `{names}` of {}", a(resource));
            self.refuse(resource, &key, &reason, source);
        }
        if !changes.odd.is_empty() {
            let reason = format!("its `{}` is of a form that cannot be sent", changes.odd[0]);
            self.refuse(resource, &key, &reason, source);
        }
        if changes.after.is_empty() {
            return;
        }
        if resource == Resource::Account && !self.policy.account {
            let reason = "the account itself is changed with `--resource account` only";
            return self.refuse(resource, &key, reason, source);
        }
        let mut body = Fields::new();
        for param in endpoint.params {
            let value = changes.after.get(param.name).cloned();
            let known = || {
                let sent = self.sent(resource, &pair.live.key, param.name);
                carried(resource, pair.live, sent, param.name)
            };
            let value = value.or_else(|| param.required.then(known)?);
            match value {
                Some(value) => {
                    body.insert(param.name.to_owned(), value);
                }
                None if param.required => {
                    let name = param.name;
                    let reason = format!("an update has to send its `{name}`, which is not known");
                    return self.refuse(resource, &key, &reason, source);
                }
                None => {}
            }
        }
        let id = pair.live.key.id();
        let account = resource == Resource::Account;
        self.drafts.push(Draft {
            resource,
            verb: Verb::Update,
            key: here,
            name: name_of(resource, pair.live),
            id: Some(id),
            subject: if account { Subject::Unnamed } else { Subject::Record(Ref::Id(id)) },
            before: Some(changes.before),
            after: Some(changes.after),
            body: Some(body),
            label: labels::of_update(changes.forgets, changes.visible),
            replaces: None,
            fingerprint: Some(fingerprint(resource, pair.live)),
            source: pair.row.source.clone(),
        });
    }

    pub fn sent(&self, resource: Resource, key: &Key, name: &str) -> Option<&'a Json> {
        self.current.memory.sent.get(&(resource, key.clone()))?.get(name)
    }

    fn compare(&mut self, pair: &Pair<'_>) -> Changes {
        let mut changes = Changes::default();
        let spec = pair.resource.spec();
        let params = spec.endpoint(Verb::Update).map_or(&[][..], |endpoint| endpoint.params);
        let settable = |field: &Field| params.iter().any(|param| param.name == field.name);
        let own = !self.foreign() && pair.row.id == Some(pair.live.key.id());
        // A record that came back under another id has the rotator of the lost one.
        let same_account = !self.foreign() && pair.row.id.is_some();
        let slug = if same_account { self.slug_to_restore(pair) } else { None };
        // A slug changes two addresses; a lone row may still show them as they were.
        let given = pair.row.value(pair.resource, "slug").is_some_and(|it| !fields::is_empty(it));
        let moves = slug.is_some() || (given && pair.base.is_none());
        for (place, mine) in &pair.row.fields {
            let Some(field) = spec.fields.get(*place) else { continue };
            let theirs = pair.live.values.get(*place);
            match (field.role, theirs) {
                (Role::Identity | Role::Counter, _) => {}
                (Role::ReadOnly, Some(theirs)) => {
                    let follows = moves && ["rotator", "list"].contains(&field.name);
                    if own && !follows && self.is_edited(pair, field, *place, mine, theirs, false) {
                        changes.fixed.push(field.name);
                    }
                }
                (Role::Writable, Some(theirs)) => {
                    if !self.is_edited(pair, field, *place, mine, theirs, true) {
                        continue;
                    }
                    if spec.endpoint(Verb::Update).is_some() && !settable(field) {
                        changes.fixed.push(field.name);
                        continue;
                    }
                    changes.set(field, theirs.json(), mine);
                    changes.visible = true;
                }
                _ => self.hidden(pair, field, mine, settable(field), &mut changes),
            }
        }
        if let (Some(slug), Some((_, field))) = (slug, spec.field("slug")) {
            self.hidden(pair, field, &slug, true, &mut changes);
        }
        changes
    }

    /// A field that no list shows. With a base that knows what was sent, it changes
    /// where it was edited here; two edits are a conflict.
    fn hidden(
        &mut self,
        pair: &Pair<'_>,
        field: &Field,
        mine: &Value<'_>,
        settable: bool,
        changes: &mut Changes,
    ) {
        let sent = self.sent(pair.resource, &pair.live.key, field.name);
        let now = unseen(pair.resource, pair.live, sent, field.name);
        let is = |it: &Json| fields::same(field, &fields::from_json(it), mine);
        if sent.is_some_and(is) || now.as_ref().is_some_and(is) {
            return;
        }
        if now.is_none() && fields::is_empty(mine) {
            return;
        }
        if !self.is_hidden_edited(pair, field, mine, now.as_ref()) {
            return;
        }
        if !settable {
            changes.fixed.push(field.name);
            return;
        }
        changes.forgets |= now.is_none();
        changes.set(field, now.unwrap_or_default(), mine);
    }

    /// Whether a field that no list shows was edited here since the base. `now` is
    /// what it holds, as far as it is known.
    fn is_hidden_edited(
        &mut self,
        pair: &Pair<'_>,
        field: &Field,
        mine: &Value<'_>,
        now: Option<&Json>,
    ) -> bool {
        if self.foreign() {
            let Some(now) = now.map(fields::from_json) else { return true };
            return self.is_moved_edited(pair, field, mine, &now, true);
        }
        let (Some(base), Some(state)) = (pair.base, self.base) else { return true };
        if state.sent.is_none() {
            return true;
        }
        let sent = base.and_then(|it| state.sent(pair.resource, &it.key, field.name));
        let before = base.and_then(|it| unseen(pair.resource, it, sent, field.name));
        let is = |it: Option<&Json>, other: &Value<'_>| {
            fields::same(field, &it.map_or(Value::Null, fields::from_json), other)
        };
        if is(sent, mine) || is(before.as_ref(), mine) {
            return false;
        }
        if now.is_none() || is(before.as_ref(), &now.map_or(Value::Null, fields::from_json)) {
            return true;
        }
        self.conflict(
            pair,
            field,
            before.unwrap_or_default(),
            mine,
            now.cloned().unwrap_or_default(),
        )
    }

    /// Whether a field that differs was changed in the source since the last move,
    /// whose values are the base. What was changed in the target alone is kept.
    fn is_moved_edited(
        &mut self,
        pair: &Pair<'_>,
        field: &Field,
        mine: &Value<'_>,
        theirs: &Value<'_>,
        writable: bool,
    ) -> bool {
        let Some(old) = pair.row.id else { return true };
        let agreed = &self.current.memory.agreed;
        let agreed = agreed.get(&(pair.resource, old)).and_then(|it| it.get(field.name));
        let Some(json) = agreed else { return true };
        let before = fields::from_json(json);
        // The service may have given another form to what it was sent.
        let untouched = fields::same(field, theirs, &before)
            || fields::settled(field, Some(json), &before, theirs);
        if fields::same(field, mine, &before) {
            if !untouched {
                self.keep(pair, old, field, mine.json(), theirs.json());
            }
            return false;
        }
        if untouched || !writable {
            return true;
        }
        if self.policy.on_conflict == OnConflict::Theirs {
            self.keep(pair, old, field, mine.json(), theirs.json());
        }
        self.conflict(pair, field, json.clone(), mine, theirs.json())
    }

    fn keep(&mut self, pair: &Pair<'_>, id: i64, field: &Field, source: Json, target: Json) {
        let (resource, field) = (pair.resource, field.name.to_owned());
        self.kept.push(Kept { resource, id, field, source, target });
    }

    /// Whether this side's value wins where both sides changed a field.
    fn conflict(
        &mut self,
        pair: &Pair<'_>,
        field: &Field,
        base: Json,
        mine: &Value<'_>,
        theirs: Json,
    ) -> bool {
        if self.policy.on_conflict == OnConflict::Fail {
            self.problems.conflicts.push(Conflict {
                resource: pair.resource,
                key: pair.live.key.to_string(),
                field: Some(field.name.to_owned()),
                base,
                mine: mine.json(),
                theirs,
                source: pair.row.source.clone(),
            });
        }
        self.policy.on_conflict == OnConflict::Mine
    }

    /// The slug that gives a campaign back the rotator which it had.
    fn slug_to_restore(&self, pair: &Pair<'_>) -> Option<Value<'static>> {
        if pair.resource != Resource::Campaigns || pair.row.value(pair.resource, "slug").is_some() {
            return None;
        }
        let (place, field) = pair.resource.spec().field("rotator")?;
        let mine = pair.row.fields.get(&place)?;
        let theirs = pair.live.values.get(place)?;
        if let Some(base) = pair.base
            && base
                .and_then(|it| it.values.get(place))
                .is_none_or(|it| fields::same(field, it, mine))
        {
            return None;
        }
        let mine = fields::text(mine)?;
        let wanted = if mine.is_empty() { "" } else { fields::slug(mine)? };
        let now = fields::text(theirs).map(|it| fields::slug(it).unwrap_or_default());
        let sent = self.sent(pair.resource, &pair.live.key, "slug").and_then(Json::as_str);
        (now != Some(wanted) && sent != Some(wanted)).then(|| Value::Text(wanted.to_owned().into()))
    }

    /// Whether a cell is to be changed: it differs from what is there, and, with a
    /// base, somebody edited it here. Two edits of a `writable` one are a conflict.
    fn is_edited(
        &mut self,
        pair: &Pair<'_>,
        field: &Field,
        place: usize,
        mine: &Value<'_>,
        theirs: &Value<'_>,
        writable: bool,
    ) -> bool {
        let sent = self.sent(pair.resource, &pair.live.key, field.name);
        if fields::same(field, mine, theirs) || fields::settled(field, sent, mine, theirs) {
            return false;
        }
        if self.foreign() {
            return self.is_moved_edited(pair, field, mine, theirs, writable);
        }
        let Some(base) = pair.base else { return true };
        let before = base.and_then(|it| it.values.get(place)).unwrap_or(&Value::Null);
        if fields::same(field, mine, before) {
            return false;
        }
        if fields::same(field, theirs, before) || !writable {
            return true;
        }
        self.conflict(pair, field, before.json(), mine, theirs.json())
    }

    pub fn refuse(&mut self, resource: Resource, key: &str, reason: &str, source: Option<&Source>) {
        self.unsupported.push(Unsupported {
            resource,
            key: key.to_owned(),
            reason: reason.to_owned(),
            source: source.cloned(),
        });
    }

    pub fn bad(&mut self, resource: Resource, row: &Wanted, what: String) {
        let (key, source) = (label(resource, row), row.source.clone());
        self.problems.rows.push(BadRow { resource, key, what, source });
    }
}

impl Changes {
    fn set(&mut self, field: &Field, before: Json, mine: &Value<'_>) {
        match fields::sendable(field, mine) {
            Some(after) => {
                self.before.insert(field.name.to_owned(), before);
                self.after.insert(field.name.to_owned(), after);
            }
            None => self.odd.push(field.name),
        }
    }
}
