//! Plans assignments: items of channels and links of campaigns. The API can add them, but not
//! remove them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::fields::{is_empty, text};
use super::matching;
use super::naming::{MAX_SUGGESTED, name_of, names_of};
use super::order::StepDraft;
use super::planner::Planner;
use super::problems::{InvalidRow, no_such_name};
use super::request::{RequestSubject, ResolvedRef};
use crate::change::desired::{CampaignLink, DesiredRecord, RecordRef, SourceLocation};
use crate::change::plan::{fingerprints, reversibility};
use crate::change::reformatted::is_reformatted;
use crate::model::equality::are_equal;
use crate::model::resource::ITEM_TYPES;
use crate::model::{FieldValue, NaturalKey, Record, RecordKey, Resource, Role, Verb};

/// Why a reference cannot be resolved, as a message.
enum UnresolvedRef {
    /// No such record exists.
    NotFound(String),
    /// Neither the account nor the input has a record of this name.
    UnknownName(String),
    /// Several records match.
    Ambiguous(String),
}

/// The record that a name means.
enum FoundName {
    /// This record.
    One(ResolvedRef),
    /// Any of these.
    Several(Vec<ResolvedRef>),
    /// A record of the input that cannot be created or changed.
    Unplanned,
    /// No record of the account or the input.
    Unknown,
}

impl Planner<'_> {
    /// Plans the assignments of desired channel items.
    pub fn items(&mut self) {
        let resource = Resource::ChannelItems;
        let Some(wanted) = self.desired.resources.get(&resource) else { return };
        if wanted.records.is_empty() {
            return;
        }
        let Some(live) = self.current.state.get(resource) else {
            return self.add_unread_resource(resource, &wanted.records, key_of);
        };
        let mut seen = HashSet::new();
        let mut claimed = HashSet::new();
        for row in &wanted.records {
            if self.is_filtered_out(Resource::Channels, row.channel.as_ref()) {
                self.filtered_rows.extend(row.source.clone());
                continue;
            }
            let Some(subject) = self.item(row) else { continue };
            let RequestSubject::Item { channel, kind, id } = &subject else { continue };
            if !self.admits_item(row, *channel, kind, *id) {
                self.filtered_rows.extend(row.source.clone());
                continue;
            }
            if let (ResolvedRef::Id(channel), ResolvedRef::Id(id)) = (channel, id) {
                let key = RecordKey::Item { channel: *channel, kind: kind.clone(), id: *id };
                if let Some((key, record)) = live.get_key_value(&key) {
                    if claimed.insert(key) {
                        self.report_read_only_changes(row, record);
                    }
                    continue;
                }
                if self.was_unassigned(row) {
                    continue;
                }
            }
            if let Some(channel_ref) = &row.channel
                && let Some(what) = self.also_named(Resource::Channels, channel_ref, *channel)
            {
                self.add_invalid_row(resource, row, what);
                continue;
            }
            if seen.insert((*channel, kind.clone(), *id)) {
                self.assign(resource, None, subject, row.source.clone());
            }
        }
        if wanted.is_complete && self.policy.delete {
            self.report_unassigned(live, &claimed);
        }
    }

    /// Resolves the channel and the item of a row; reports a row that has no valid ones.
    fn item(&mut self, row: &DesiredRecord) -> Option<RequestSubject> {
        let resource = Resource::ChannelItems;
        let kind = row.value(resource, "type").and_then(text).unwrap_or_default();
        let (Some(channel), Some(id)) = (&row.channel, row.id) else {
            self.add_invalid_row(resource, row, "needs a channel, a type and an id".to_owned());
            return None;
        };
        if !ITEM_TYPES.contains(&kind) {
            let reason = format!("a channel takes {}, not `{kind}`", ITEM_TYPES.join(", "));
            self.add_unsupported(resource, &key_of(row), &reason, row.source.as_ref());
            return None;
        }
        let channel = self.resolve(Resource::Channels, channel);
        let item = match kind {
            "qr" => self.resolve(Resource::QrCodes, &RecordRef::Id(id)),
            _ => Ok(ResolvedRef::Id(id)),
        };
        match (channel, item) {
            (Ok(channel), Ok(id)) => {
                Some(RequestSubject::Item { channel, kind: kind.to_owned(), id })
            }
            (Err(unresolved), _) | (_, Err(unresolved)) => {
                self.add_unresolved(resource, key_of(row), row.source.as_ref(), unresolved);
                None
            }
        }
    }

    /// Reports an assignment with a reference that cannot be resolved.
    fn add_unresolved(
        &mut self,
        resource: Resource,
        key: String,
        source: Option<&SourceLocation>,
        unresolved: UnresolvedRef,
    ) {
        let (column, what) = match unresolved {
            UnresolvedRef::NotFound(why) => {
                return self.add_unsupported(resource, &key, &why, source);
            }
            UnresolvedRef::UnknownName(what) => {
                let column = if resource == Resource::Campaigns { "campaign" } else { "channel" };
                (Some(column), what)
            }
            UnresolvedRef::Ambiguous(what) => (None, what),
        };
        let source = source.cloned();
        self.problems.rows.push(InvalidRow { resource, key, column, what, source });
    }

    /// Reports the fields of an existing item that the row would change: the API cannot change
    /// them.
    fn report_read_only_changes(&mut self, row: &DesiredRecord, live: &Record<'static>) {
        let RecordKey::Item { channel, kind, id } = &live.key else { return };
        let was_recreated = self.was_recreated(Resource::Channels, *channel)
            || (kind == "qr" && self.was_recreated(Resource::QrCodes, *id));
        let is_named = row.channel == Some(RecordRef::Id(*channel)) && row.id == Some(*id);
        let own = is_named && !self.is_migration() && !was_recreated;
        let resource = Resource::ChannelItems;
        let base = self.base.and_then(|base| base.get(resource)).map(|it| it.get(&live.key));
        let spec = resource.spec();
        let differs = |(place, mine): (&usize, &FieldValue<'static>)| {
            let field = spec.fields.get(*place).filter(|field| field.role == Role::ReadOnly)?;
            // A row for a new item has no values for the fields that the service sets.
            if is_empty(mine) {
                return None;
            }
            let same_as = |record: &Record<'static>| {
                let is_same =
                    |value| are_equal(field, mine, value) || is_reformatted(field, mine, value);
                record.values.get(*place).is_none_or(is_same)
            };
            let untouched = base.flatten().is_some_and(same_as);
            (!untouched && !same_as(live)).then_some(field)
        };
        let fixed: Vec<_> = row.fields.iter().filter_map(differs).collect();
        if matches!(row.channel, Some(RecordRef::Name(_))) {
            fixed.iter().for_each(|field| self.leave_out(resource, row, field));
            return;
        }
        let fixed: Vec<_> = fixed.iter().map(|field| field.name).collect();
        // An item with another date was assigned again since the state was read.
        let is_again = self.desired.recreate_missing && fixed.contains(&"date");
        if own && !is_again && !fixed.is_empty() {
            let names = fixed.join("` and `");
            let reason = format!("the API cannot change the `{names}` of a channel item");
            self.add_unsupported(resource, &live.key.to_string(), &reason, row.source.as_ref());
        }
    }

    /// Whether the item existed when the row was exported and was deleted since.
    fn was_unassigned(&self, row: &DesiredRecord) -> bool {
        let base = self.base.and_then(|base| base.get(Resource::ChannelItems));
        let key = RecordKey::parse(Resource::ChannelItems, &key_of(row));
        base.zip(key).is_some_and(|(base, key)| base.contains_key(&key))
    }

    /// Reports items that the desired state lacks: the API cannot remove them.
    fn report_unassigned(
        &mut self,
        live: &BTreeMap<RecordKey, Record<'static>>,
        claimed: &HashSet<&RecordKey>,
    ) {
        let base = self.base.and_then(|base| base.get(Resource::ChannelItems));
        for (key, item) in live.iter().filter(|(key, _)| !claimed.contains(key)) {
            let RecordKey::Item { channel, kind, id } = key else { continue };
            if !self.desired.filter.admits_in(self.current.state, Resource::ChannelItems, item) {
                continue;
            }
            let is_deleted_too = self.deleted.contains(&(Resource::Channels, *channel))
                || (kind == "qr" && self.deleted.contains(&(Resource::QrCodes, *id)));
            let in_base = base.is_none_or(|base| base.contains_key(key));
            if in_base && !is_deleted_too {
                let reason = "the API cannot unassign an item";
                self.add_unsupported(Resource::ChannelItems, &key.to_string(), reason, None);
            }
        }
    }

    /// Plans the assignments of desired campaign links.
    pub fn links(&mut self) {
        let resource = Resource::Campaigns;
        let mut wanted = std::mem::take(&mut self.inherited_links);
        for link in &self.desired.campaign_links {
            if self.is_filtered_out(resource, Some(&link.campaign)) {
                self.filtered_rows.extend(link.source.clone());
                continue;
            }
            match self.resolve(resource, &link.campaign) {
                Ok(campaign) if !self.admits_resolved(resource, campaign) => {
                    self.filtered_rows.extend(link.source.clone());
                }
                Ok(campaign) => match self.also_named(resource, &link.campaign, campaign) {
                    Some(what) if !self.is_assigned(campaign, link.link) => {
                        let what = UnresolvedRef::Ambiguous(what);
                        self.add_unresolved(resource, link_key(link), link.source.as_ref(), what);
                    }
                    _ => wanted.push((campaign, link.link, link.source.clone())),
                },
                Err(unresolved) => {
                    let source = link.source.as_ref();
                    self.add_unresolved(resource, link_key(link), source, unresolved);
                }
            }
        }
        if self.desired.has_sent_values && !self.is_migration() {
            self.report_links_assigned_later(&wanted);
        }
        let mut known: HashMap<i64, HashSet<i64>> = HashMap::new();
        let mut seen = HashSet::new();
        for (campaign, link, source) in wanted {
            if let ResolvedRef::Id(id) = campaign {
                let memory = self.current.memory;
                let links = known.entry(id).or_insert_with(|| memory.links_of(id).collect());
                if links.contains(&link) {
                    continue;
                }
            }
            if seen.insert((campaign, link)) {
                let id = match campaign {
                    ResolvedRef::Id(id) => Some(id),
                    ResolvedRef::Step(_) => None,
                };
                self.assign(resource, id, RequestSubject::Link { campaign, link }, source);
            }
        }
    }

    /// Reports links that linkvault assigned after the desired state was saved: the API cannot
    /// remove
    /// them.
    fn report_links_assigned_later(
        &mut self,
        wanted: &[(ResolvedRef, i64, Option<SourceLocation>)],
    ) {
        let resource = Resource::Campaigns;
        let wanted: HashSet<_> =
            wanted.iter().map(|(campaign, link, _)| (*campaign, *link)).collect();
        let (desired, memory) = (self.desired, self.current.memory);
        for row in desired.resources.get(&resource).into_iter().flat_map(|it| &it.records) {
            let campaign = row.id.and_then(|id| self.by_id(resource, id).ok());
            let Some(campaign @ ResolvedRef::Id(id)) = campaign else { continue };
            for link in memory.links_of(id).filter(|link| !wanted.contains(&(campaign, *link))) {
                let reason = "linkvault assigned it later, and the API cannot unassign it";
                self.add_unsupported(
                    resource,
                    &format!("{id}/links/{link}"),
                    reason,
                    row.source.as_ref(),
                );
            }
        }
    }

    fn assign(
        &mut self,
        resource: Resource,
        id: Option<i64>,
        subject: RequestSubject,
        source: Option<SourceLocation>,
    ) {
        let (id, verifiable) = match &subject {
            RequestSubject::Item {
                channel: ResolvedRef::Id(_), id: ResolvedRef::Id(item), ..
            } => (Some(*item), true),
            RequestSubject::Item { .. } => (None, true),
            _ => (id, false),
        };
        let name = match &subject {
            RequestSubject::Item { channel, .. } => self.owner(Resource::Channels, *channel),
            RequestSubject::Link { campaign, .. } => self.owner(Resource::Campaigns, *campaign),
            _ => String::new(),
        };
        let fingerprint = fingerprints::assignment_fingerprint(&subject, self.current.state);
        self.drafts.push(StepDraft {
            resource,
            verb: Verb::Assign,
            key: String::new(),
            name,
            id,
            subject,
            before: None,
            after: None,
            body: None,
            reversibility: reversibility::of_assign(verifiable),
            replaces: None,
            fingerprint,
            source,
        });
    }

    /// The name of the record to which something is assigned.
    fn owner(&self, resource: Resource, owner: ResolvedRef) -> String {
        match owner {
            ResolvedRef::Id(id) => {
                let record =
                    self.current.state.get(resource).and_then(|it| it.get(&RecordKey::Id(id)));
                record.map(|record| name_of(resource, record)).unwrap_or_default()
            }
            ResolvedRef::Step(draft) => {
                let draft = self.drafts.get(draft as usize);
                draft.map(|draft| draft.name.clone()).unwrap_or_default()
            }
        }
    }

    /// Resolves a reference to an existing record or to a planned create.
    fn resolve(
        &mut self,
        resource: Resource,
        reference: &RecordRef,
    ) -> Result<ResolvedRef, UnresolvedRef> {
        match reference {
            RecordRef::Id(id) => self.by_id(resource, *id),
            RecordRef::Name(name) => self.by_name(resource, name),
        }
    }

    fn by_id(&self, resource: Resource, id: i64) -> Result<ResolvedRef, UnresolvedRef> {
        let title = resource.spec().title;
        if let Some(resolved) = self.resolved.get(&(resource, id)) {
            return Ok(*resolved);
        }
        if self.deleted.contains(&(resource, id)) {
            return Err(UnresolvedRef::NotFound(format!(
                "{title} {id} is deleted by the same plan"
            )));
        }
        let live = self.current.state.get(resource);
        if self.is_migration() {
            let memory = self.current.memory;
            let moved = live.and_then(|live| matching::migrated_id(memory, resource, id, live));
            let not_found = || UnresolvedRef::NotFound(format!("{title} {id} has not moved here"));
            return moved.map(ResolvedRef::Id).ok_or_else(not_found);
        }
        let Some(live) = live else { return Ok(ResolvedRef::Id(id)) };
        let is_reused = self.reused.contains(resource, id);
        if live.contains_key(&RecordKey::Id(id)) && !is_reused {
            return Ok(ResolvedRef::Id(id));
        }
        let mapped = matching::current_id(self.current.memory, resource, id, live);
        if mapped.is_none_or(|now| now == id) && is_reused {
            return Err(UnresolvedRef::NotFound(format!(
                "the {title} that had the id {id} was deleted"
            )));
        }
        mapped
            .map(ResolvedRef::Id)
            .ok_or_else(|| UnresolvedRef::NotFound(format!("the account has no {title} {id}")))
    }

    fn by_name(&mut self, resource: Resource, name: &str) -> Result<ResolvedRef, UnresolvedRef> {
        let title = resource.spec().title;
        match self.find_name(resource, name) {
            FoundName::One(found) => Ok(found),
            FoundName::Several(several) => {
                let ids: Vec<_> = several.iter().take(10).map(ToString::to_string).collect();
                let what = format!("`{name}` could be any of {}: give the id", ids.join(", "));
                Err(UnresolvedRef::Ambiguous(what))
            }
            FoundName::Unplanned => {
                Err(UnresolvedRef::NotFound(format!("the account has no {title} called `{name}`")))
            }
            FoundName::Unknown => {
                let mut names = Vec::new();
                if self.problems.rows.len() < MAX_SUGGESTED {
                    let live = self.current.state.get(resource);
                    names.extend(live.into_iter().flat_map(|live| names_of(resource, live)));
                    let rows = self.desired.resources.get(&resource);
                    let rows = rows.into_iter().flat_map(|it| &it.records);
                    names.extend(rows.filter_map(|row| text(row.value(resource, "name")?)));
                }
                Err(UnresolvedRef::UnknownName(no_such_name(resource, name, &names)))
            }
        }
    }

    fn find_name(&mut self, resource: Resource, name: &str) -> FoundName {
        if self.indexed.insert(resource) {
            self.index_other_names(resource);
        }
        let Some(key) = NaturalKey::of_name(resource, name).map(|key| (resource, key)) else {
            return FoundName::Unplanned;
        };
        match self.named.get(&key).map_or(&[][..], Vec::as_slice) {
            [] => {}
            [one] => return FoundName::One(*one),
            several => return FoundName::Several(several.to_vec()),
        }
        let is_of_file = !self.desired.recreate_missing && !self.is_migration();
        match self.freed.get(&key).map(Vec::as_slice) {
            // The plan changes this name, so that only this record can be meant.
            Some([id]) => FoundName::One(ResolvedRef::Id(*id)),
            None if is_of_file && self.current.state.get(resource).is_some() => FoundName::Unknown,
            _ => FoundName::Unplanned,
        }
    }

    /// Whether linkvault has assigned a link to a campaign.
    fn is_assigned(&self, campaign: ResolvedRef, link: i64) -> bool {
        let ResolvedRef::Id(id) = campaign else { return false };
        self.current.memory.links_of(id).any(|it| it == link)
    }

    /// The problem of a number in a file that is the id of one record, `resolved`, and the name of
    /// another: an assignment to the wrong one cannot be undone.
    fn also_named(
        &mut self,
        resource: Resource,
        record: &RecordRef,
        resolved: ResolvedRef,
    ) -> Option<String> {
        // The ids of a state are ids.
        if self.desired.recreate_missing || self.is_migration() {
            return None;
        }
        let RecordRef::Id(id) = record else { return None };
        match self.find_name(resource, &id.to_string()) {
            FoundName::One(named) if named == resolved => return None,
            FoundName::Unplanned | FoundName::Unknown => return None,
            FoundName::One(_) | FoundName::Several(_) => {}
        }
        let title = resource.spec().title;
        Some(format!(
            "`{id}` is the id of one {title} and the name of another: give the name of the first, or \
             the id of the second"
        ))
    }

    /// Adds the names of the records that are not desired records to the index, and the names in the
    /// account of those that are, which the plan may change.
    fn index_other_names(&mut self, resource: Resource) {
        let wanted: HashSet<ResolvedRef> = self
            .named
            .iter()
            .filter(|((of, _), _)| *of == resource)
            .flat_map(|(_, refs)| refs.iter().copied())
            .collect();
        for record in self.current.state.get(resource).into_iter().flat_map(BTreeMap::values) {
            let id = record.key.id();
            let Some(key) = self.current.memory.natural_key(resource, record) else { continue };
            if self.deleted.contains(&(resource, id)) {
                self.freed.entry((resource, key)).or_default();
            } else if wanted.contains(&ResolvedRef::Id(id)) {
                self.freed.entry((resource, key)).or_default().push(id);
            } else {
                self.named.entry((resource, key)).or_default().push(ResolvedRef::Id(id));
            }
        }
        let rows = self.desired.resources.get(&resource).into_iter().flat_map(|it| &it.records);
        for key in rows.filter_map(|row| row.natural_key(resource)) {
            self.freed.entry((resource, key)).or_default();
        }
    }
}

/// The key of a link as the row gives it: `campaign/links/id`.
fn link_key(link: &CampaignLink) -> String {
    match &link.campaign {
        RecordRef::Id(id) => format!("{id}/links/{}", link.link),
        RecordRef::Name(name) => format!("{name}/links/{}", link.link),
    }
}

/// The key of an item as the row gives it: `channel/type/id`.
fn key_of(row: &DesiredRecord) -> String {
    let kind = row.value(Resource::ChannelItems, "type").and_then(text).unwrap_or_default();
    let channel = match &row.channel {
        Some(RecordRef::Id(id)) => id.to_string(),
        Some(RecordRef::Name(name)) => name.clone(),
        None => String::new(),
    };
    format!("{channel}/{kind}/{}", row.id.map(|id| id.to_string()).unwrap_or_default())
}
