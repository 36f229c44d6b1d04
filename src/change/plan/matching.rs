//! Matches desired records with records of the account: by id, by the id of the restored or
//! migrated record, or by natural key.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::naming::{MAX_SUGGESTED, label, name_of, names_of};
use super::problems::{InvalidRow, no_such_name};
use super::reused::ReusedIds;
use super::types::{AccountMemory, CurrentState, PlanStep};
use crate::change::csv_files::OLD_NAME;
use crate::change::desired::{DesiredRecord, DesiredRecords, DesiredState, SourceLocation};
use crate::model::equality::{are_equal, compare};
use crate::model::natural_key::{json_text, value_text};
use crate::model::value::from_json;
use crate::model::{
    FieldValue, KeyForm, NaturalKey, Record, RecordKey, Resource, Role, State, Verb,
};

/// The record of the account that a desired record corresponds to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordMatch {
    /// The record with this id.
    Existing(i64),
    /// None: the record is to be created.
    New,
    /// The record was in the base and has been deleted from the account.
    DeletedSinceBase,
    /// The desired record cannot be created or changed, for this reason.
    Unsupported(String),
    /// Reported as a problem.
    Invalid,
}

type Records = BTreeMap<RecordKey, Record<'static>>;

/// The current id of a record that was restored any number of times.
pub(super) fn current_id(
    memory: &AccountMemory,
    resource: Resource,
    id: i64,
    live: &Records,
) -> Option<i64> {
    // The limit ends the loop if the map has a cycle.
    let mut now = id;
    for _ in 0..64 {
        now = *memory.ids.get(&(resource, now))?;
        if live.contains_key(&RecordKey::Id(now)) {
            return Some(now);
        }
    }
    None
}

/// The id in this account of a migrated record, by its id in the source account.
pub(super) fn migrated_id(
    memory: &AccountMemory,
    resource: Resource,
    id: i64,
    live: &Records,
) -> Option<i64> {
    let now = *memory.ids.get(&(resource, id))?;
    live.contains_key(&RecordKey::Id(now)).then_some(now)
}

/// The numbers of the creates in `steps` whose record exists already according to the journal: a
/// QR code that linkvault created, or a deleted record that was restored.
#[must_use]
pub fn already_created(steps: &[PlanStep], current: CurrentState<'_>) -> HashSet<u32> {
    let creates = || steps.iter().filter(|step| step.verb == Verb::Create);
    let codes = if creates().any(|step| step.resource == Resource::QrCodes) {
        ids_by_natural_key(current, Resource::QrCodes)
    } else {
        IdsByNaturalKey::new()
    };
    // Ids of a source account do not identify records of this one.
    let own = |step: &PlanStep| step.replaces.filter(|_| step.origin.is_none());
    let exists = |step: &&PlanStep| match own(step) {
        Some(old) => current.state.get(step.resource).is_some_and(|live| {
            live.contains_key(&RecordKey::Id(old))
                || current_id(current.memory, step.resource, old, live).is_some()
        }),
        None => {
            let body = step.request.body.as_ref().filter(|_| step.resource == Resource::QrCodes);
            body.and_then(|body| NaturalKey::of_json(step.resource, KeyForm::Exact, body))
                .is_some_and(|key| codes.contains_key(&key))
        }
    };
    creates().filter(exists).map(|step| step.step).collect()
}

/// Ids by natural key.
pub(super) type IdsByNaturalKey = HashMap<NaturalKey, Vec<i64>>;

/// Every record of `resource` by its natural key.
fn ids_by_natural_key(current: CurrentState<'_>, resource: Resource) -> IdsByNaturalKey {
    let mut index = IdsByNaturalKey::new();
    for record in current.state.get(resource).into_iter().flat_map(BTreeMap::values) {
        for key in current.memory.natural_keys(resource, record) {
            index.entry(key).or_default().push(record.key.id());
        }
    }
    index
}

/// The matches of all desired records of one resource.
#[derive(Debug, Default)]
pub(super) struct RecordMatches {
    /// One for each desired record, in the same order.
    pub found: Vec<RecordMatch>,
    /// The matched records of the account, with the position of the desired record.
    pub claimed: HashMap<i64, usize>,
    pub problems: Vec<InvalidRow>,
}

/// Matches the records of one resource.
struct RecordMatcher<'a> {
    resource: Resource,
    current: CurrentState<'a>,
    live: &'a Records,
    wanted: &'a [DesiredRecord],
    /// The records at the time of the export that the desired records come from.
    base: Option<&'a Records>,
    /// The ids of desired records are those of a source account.
    foreign: bool,
    /// The desired state includes sent values.
    has_sent_values: bool,
    reused: &'a ReusedIds,
    out: RecordMatches,
    /// Built for the first search by natural key.
    index: Option<IdsByNaturalKey>,
    /// The natural keys of new records without ids, with their positions; in a migration, of all
    /// desired records. In a migration, with the spelling of names: a service may accept names that
    /// differ in case only.
    new_keys: HashMap<(NaturalKey, String), usize>,
}

/// Matches the desired records of one resource other than channel items.
pub(super) fn match_records(
    resource: Resource,
    wanted: &DesiredRecords,
    current: CurrentState<'_>,
    base: Option<&State>,
    desired: &DesiredState,
    reused: &ReusedIds,
) -> RecordMatches {
    let (wanted, recreate) = (wanted.records.as_slice(), desired.recreate_missing);
    let foreign = desired.origin.is_some();
    let nothing = Records::new();
    let live = current.state.get(resource).unwrap_or(&nothing);
    let base = base.and_then(|base| base.get(resource));
    let out =
        RecordMatches { found: vec![RecordMatch::New; wanted.len()], ..RecordMatches::default() };
    let mut matcher = RecordMatcher {
        resource,
        current,
        live,
        wanted,
        base,
        foreign,
        has_sent_values: desired.has_sent_values,
        reused,
        out,
        index: None,
        new_keys: HashMap::new(),
    };
    let mut rest = Vec::new();
    for (at, row) in wanted.iter().enumerate() {
        match row.id.and_then(|id| matcher.by_id(id)) {
            Some(id) => matcher.claim_by_id(at, id),
            None => rest.push(at),
        }
    }
    if foreign {
        matcher.reject_duplicate_names();
    }
    // A row with an old name takes its record before another row takes the name that becomes free.
    rest.sort_by_key(|at| wanted[*at].old_name.is_none());
    if foreign {
        // Of names that differ in case only, the one that a record has takes it.
        rest.sort_by_key(|at| matcher.same_spelling(*at).is_none());
    }
    for at in rest {
        match wanted[at].id {
            None if wanted[at].old_name.is_some() => matcher.match_by_old_name(at),
            None => matcher.match_by_natural_key(at),
            Some(id) if base.is_some_and(|base| base.contains_key(&RecordKey::Id(id))) => {
                matcher.out.found[at] = RecordMatch::DeletedSinceBase;
            }
            Some(_) if recreate => matcher.match_recreated(at),
            Some(id) => {
                let title = resource.spec().title;
                let cure = "empty its id to create it";
                let reason = format!("the account has no {title} {id}; {cure}");
                matcher.out.found[at] = RecordMatch::Unsupported(reason);
            }
        }
    }
    matcher.out
}

impl RecordMatcher<'_> {
    fn by_id(&self, id: i64) -> Option<i64> {
        if self.foreign {
            return migrated_id(self.current.memory, self.resource, id, self.live);
        }
        let is_reused = self.reused.contains(self.resource, id);
        if !is_reused && self.live.contains_key(&RecordKey::Id(id)) {
            return Some(id);
        }
        current_id(self.current.memory, self.resource, id, self.live).filter(|now| *now != id)
    }

    /// Matches a row with the record of its id, if the old name of the row is the record's.
    fn claim_by_id(&mut self, at: usize, id: i64) {
        let (resource, row) = (self.resource, &self.wanted[at]);
        let named = row.old_name.as_ref().zip(self.live.get(&RecordKey::Id(id)));
        if let Some((old, record)) = named {
            // The new name: the input was applied before.
            let names = [NaturalKey::of_name(resource, old), row.natural_key(resource)];
            let mut live = self.current.memory.natural_keys(resource, record).map(Some);
            if !live.any(|it| names.contains(&it)) {
                let (title, name) = (resource.spec().title, name_of(resource, record));
                return self
                    .reject(at, format!("the {title} {id} is called `{name}`, not `{old}`"));
            }
        }
        self.claim(at, id);
    }

    fn claim(&mut self, at: usize, id: i64) {
        match self.out.claimed.get(&id) {
            Some(first) if self.foreign => self.reject_duplicate(at, *first),
            Some(first) => self.reject_repeated(at, *first),
            None => {
                self.out.claimed.insert(id, at);
                self.out.found[at] = RecordMatch::Existing(id);
            }
        }
    }

    /// In a migration, rejects records that would be renamed to a name that another record has.
    fn reject_duplicate_names(&mut self) {
        let live = |id: &i64| self.live.get(&RecordKey::Id(*id));
        let moved = self.out.found.iter().enumerate().filter_map(|(at, found)| match found {
            RecordMatch::Existing(id) => Some((at, self.own_key(at)?, live(id)?)),
            _ => None,
        });
        let keeps_key = |key: &NaturalKey, record: &Record<'static>| {
            self.current.memory.natural_keys(self.resource, record).any(|it| it == *key)
        };
        let (kept, renamed): (Vec<_>, Vec<_>) =
            moved.partition(|(_, key, record)| keeps_key(key, record));
        let renamed: Vec<_> = renamed.into_iter().map(|(at, key, _)| (at, key)).collect();
        let kept: Vec<_> = kept.into_iter().map(|(at, key, _)| (at, key)).collect();
        for (at, key) in kept {
            let spelling = self.spelling(at);
            self.new_keys.entry((key, spelling)).or_insert(at);
        }
        for (at, key) in renamed {
            self.claim_natural_key(at, key);
        }
    }

    /// In a migration, the natural key of a record if it must be unique in an account. QR codes may
    /// have equal ones.
    fn own_key(&self, at: usize) -> Option<NaturalKey> {
        let one = self.foreign && self.resource != Resource::QrCodes;
        self.wanted[at].natural_key(self.resource).filter(|_| one)
    }

    /// Whether a migrated record is the first one with its natural key; rejects the others.
    fn claim_natural_key(&mut self, at: usize, key: NaturalKey) -> bool {
        let spelling = self.spelling(at);
        let first = *self.new_keys.entry((key, spelling)).or_insert(at);
        if first != at {
            self.reject_duplicate(at, first);
        }
        first == at
    }

    fn reject_duplicate(&mut self, at: usize, first: usize) {
        let (title, first) = (self.resource.spec().title, self.label(first));
        let names = self.resource.spec().natural_key.join("` and `");
        let case = if self.resource == Resource::Domains { ", case aside" } else { "" };
        let reason =
            format!("has the `{names}` of {title} {first}{case}; an account holds only one such");
        self.out.found[at] = RecordMatch::Unsupported(reason);
    }

    fn candidates(&mut self, at: usize) -> Option<(NaturalKey, Vec<i64>)> {
        // There is only one record of this resource.
        if self.resource == Resource::Account {
            return Some((NaturalKey::default(), self.live.keys().map(RecordKey::id).collect()));
        }
        let (resource, current) = (self.resource, self.current);
        let row = &self.wanted[at];
        let own = row.id.filter(|id| !self.reused.contains(resource, *id));
        let own = own.filter(|_| !self.foreign && !self.has_sent_values);
        let sent = own.and_then(|id| current.memory.sent.get(&(resource, RecordKey::Id(id))));
        let value = |name: &str| match row.value(resource, name) {
            Some(given) => Some(value_text(given)),
            None => sent?.get(name).map(json_text),
        };
        let key = NaturalKey::of(resource, KeyForm::Exact, value)?;
        let index = self.index.get_or_insert_with(|| ids_by_natural_key(current, resource));
        let found = index.get(&key).cloned().unwrap_or_default();
        Some((key, found))
    }

    /// Matches a row without an id.
    fn match_by_natural_key(&mut self, at: usize) {
        let Some((key, candidates)) = self.candidates(at) else {
            let names = self.resource.spec().natural_key.join("` and `");
            return self.reject(at, format!("has neither an id nor `{names}`"));
        };
        let free = self.unclaimed(&candidates);
        match (free.as_slice(), candidates.first()) {
            ([one], _) => self.claim(at, *one),
            ([], Some(taken)) => {
                let first = self.out.claimed.get(taken).copied().unwrap_or(at);
                if candidates.iter().all(|id| self.renames_record(*id, &key)) {
                    self.match_new(at, key);
                } else {
                    self.reject_repeated(at, first);
                }
            }
            ([], None) => self.match_new(at, key),
            (several, _) => self.ambiguous(at, several),
        }
    }

    /// Matches a row without an id that has the name of its record.
    fn match_by_old_name(&mut self, at: usize) {
        let (resource, current) = (self.resource, self.current);
        let index = self.index.get_or_insert_with(|| ids_by_natural_key(current, resource));
        let key = self.wanted[at].current_key(resource);
        let candidates = key.and_then(|key| index.get(&key)).cloned().unwrap_or_default();
        match (self.unclaimed(&candidates).as_slice(), candidates.first()) {
            ([one], _) => self.claim(at, *one),
            ([], Some(taken)) => {
                let first = self.out.claimed.get(taken).copied().unwrap_or(at);
                self.reject_repeated(at, first);
            }
            ([], None) => match self.renamed_before(at) {
                Some(id) => self.claim(at, id),
                None => self.reject_old_name(at),
            },
            (several, _) => self.ambiguous(at, several),
        }
    }

    /// The record that has the new name and all other values of a row, so that an input that was
    /// applied asks for no change.
    fn renamed_before(&self, at: usize) -> Option<i64> {
        let row = &self.wanted[at];
        let candidates = self.index.as_ref()?.get(&row.natural_key(self.resource)?)?;
        let [id] = self.unclaimed(candidates)[..] else { return None };
        let record = self.live.get(&RecordKey::Id(id))?;
        let sent = self.current.memory.sent.get(&(self.resource, record.key.clone()));
        let forms = self.current.memory.forms(self.resource, &record.key);
        let has_value = |(place, mine): (&usize, &FieldValue<'static>)| {
            let Some(field) = self.resource.spec().fields.get(*place) else { return false };
            let sent = sent.and_then(|sent| sent.get(field.name));
            match (field.role, record.values.get(*place)) {
                (Role::WriteOnly, _) => {
                    sent.is_some_and(|sent| are_equal(field, &from_json(sent), mine))
                }
                (Role::Writable, Some(theirs)) => compare(field, mine, theirs, forms).is_same(),
                _ => true,
            }
        };
        row.fields.iter().all(has_value).then_some(id)
    }

    fn match_new(&mut self, at: usize, key: NaturalKey) {
        match self.new_keys.insert((key, String::new()), at) {
            Some(first) => self.reject_repeated(at, first),
            None => self.out.found[at] = RecordMatch::New,
        }
    }

    /// Whether the row matched with the record `id` renames it, so that `key` becomes free. Updates
    /// come before creates.
    fn renames_record(&self, id: i64, key: &NaturalKey) -> bool {
        let resource = self.resource;
        let named = matches!(resource, Resource::Campaigns | Resource::Channels);
        let Some(row) = self.out.claimed.get(&id).map(|at| &self.wanted[*at]) else { return false };
        let Some(mine) = row.natural_key(resource) else { return false };
        let before = self.base.map(|base| {
            let record = base.get(&RecordKey::Id(row.id.unwrap_or(id)));
            record.is_some_and(|record| {
                self.current.memory.natural_keys(resource, record).any(|it| it == mine)
            })
        });
        // An unedited row does not change the record.
        let edited = before != Some(true);
        named && mine != *key && edited
    }

    /// Matches a row whose id no longer exists and that is to be created again.
    fn match_recreated(&mut self, at: usize) {
        if let Some(key) = self.own_key(at)
            && !self.claim_natural_key(at, key)
        {
            return;
        }
        if let Some(same) = self.same_spelling(at) {
            return self.claim(at, same);
        }
        let candidates = self.candidates(at).map(|(_, found)| found).unwrap_or_default();
        match self.unclaimed(&candidates).as_slice() {
            [] => self.out.found[at] = RecordMatch::New,
            [one] => self.claim(at, *one),
            several if self.foreign => {
                let ids: Vec<_> = several.iter().take(10).map(ToString::to_string).collect();
                let reason = format!("could be any of {}: rename one of them", ids.join(", "));
                self.out.found[at] = RecordMatch::Unsupported(reason);
            }
            several => self.ambiguous(at, several),
        }
    }

    /// The name of a migrated record where names may differ in case only; empty elsewhere.
    fn spelling(&self, at: usize) -> String {
        let named = matches!(self.resource, Resource::Campaigns | Resource::Channels);
        let name = self.wanted[at].value(self.resource, "name").filter(|_| self.foreign && named);
        name.map(|name| value_text(name).into_owned()).unwrap_or_default()
    }

    /// The only unclaimed record with exactly the name of a migrated record.
    fn same_spelling(&mut self, at: usize) -> Option<i64> {
        let spelling = Some(self.spelling(at)).filter(|it| !it.is_empty())?;
        let (_, candidates) = self.candidates(at)?;
        let (place, field) = self.resource.spec().field("name")?;
        let spelling = FieldValue::Text(spelling.into());
        let memory = self.current.memory;
        let same = |id: &i64| {
            let key = RecordKey::Id(*id);
            let name = self.live.get(&key).and_then(|record| record.values.get(place));
            let forms = memory.forms(self.resource, &key);
            name.is_some_and(|name| compare(field, &spelling, name, forms).is_same())
        };
        let same: Vec<_> = self.unclaimed(&candidates).into_iter().filter(same).collect();
        if let [one] = same[..] { Some(one) } else { None }
    }

    fn unclaimed(&self, candidates: &[i64]) -> Vec<i64> {
        candidates.iter().copied().filter(|id| !self.out.claimed.contains_key(id)).collect()
    }

    fn ambiguous(&mut self, at: usize, several: &[i64]) {
        let ids: Vec<_> = several.iter().take(10).map(ToString::to_string).collect();
        let more = if several.len() > ids.len() { " and more" } else { "" };
        let what = format!("could be any of {}{more}: give the id of one", ids.join(", "));
        self.reject(at, what);
    }

    fn reject_repeated(&mut self, at: usize, first: usize) {
        let title = self.resource.spec().title;
        let source: Option<&SourceLocation> = self.wanted[first].source.as_ref();
        let what = match source.and_then(|source| source.line.map(|_| source)) {
            Some(source) => format!("is the same {title} as {source}"),
            None => format!("is the same {title} as {}", self.label(first)),
        };
        self.reject(at, what);
    }

    fn label(&self, at: usize) -> String {
        label(self.resource, &self.wanted[at])
    }

    fn reject(&mut self, at: usize, what: String) {
        let source = self.wanted[at].source.clone();
        let key = self.label(at);
        self.out.found[at] = RecordMatch::Invalid;
        self.out.problems.push(InvalidRow {
            resource: self.resource,
            key,
            column: None,
            what,
            source,
        });
    }

    /// Rejects a row with an old name that is the name of no record.
    fn reject_old_name(&mut self, at: usize) {
        let old = self.wanted[at].old_name.clone().unwrap_or_default();
        let names = match self.out.problems.len() < MAX_SUGGESTED {
            true => names_of(self.resource, self.live),
            false => Vec::new(),
        };
        self.reject(at, no_such_name(self.resource, &old, &names));
        if let Some(problem) = self.out.problems.last_mut() {
            problem.column = Some(OLD_NAME);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{FREE, requests, sheet, state};
    use super::super::{AccountMemory, CurrentState, plan};
    use super::*;

    /// The requests or the problems of rows with an old name (empty for none) and a name.
    fn renamed(rows: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let json: Vec<_> = rows.iter().map(|(_, name)| json!({"name": name})).collect();
        let mut desired = sheet(Resource::Channels, &json);
        let records = &mut desired.resources.get_mut(&Resource::Channels).unwrap().records;
        for (record, (old, _)) in records.iter_mut().zip(rows) {
            record.old_name = Some((*old).to_owned()).filter(|old| !old.is_empty());
        }
        planned(&desired)
    }

    fn planned(desired: &DesiredState) -> Result<Vec<String>, String> {
        let names = [(1, "A"), (2, "B"), (3, "Twin"), (4, "twin")];
        let records = names.map(|(id, name)| (Resource::Channels, json!({"id": id, "name": name})));
        let (live, memory) = (state(&records), AccountMemory::default());
        let current = CurrentState { state: &live, memory: &memory };
        plan(desired, current, None, &FREE).map(|it| requests(&it)).map_err(|it| it.to_string())
    }

    #[test]
    fn a_row_with_an_old_name_renames_its_record() {
        assert_eq!(
            renamed(&[("a", "C")]),
            Ok(vec![r#"PUT /api/channel/1/update {"name":"C"}"#.to_owned()])
        );
        // The name that becomes free can be taken by a new record, in any order of the rows.
        let freed = [
            r#"PUT /api/channel/1/update {"name":"C"}"#.to_owned(),
            r#"POST /api/channel/add {"name":"A"}"#.to_owned(),
        ];
        assert_eq!(renamed(&[("", "A"), ("A", "C")]), Ok(freed.to_vec()));
        assert_eq!(renamed(&[("A", "C"), ("", "A")]), Ok(freed.to_vec()));
        assert_eq!(renamed(&[("A", "B"), ("B", "C")]).unwrap().len(), 2);
    }

    #[test]
    fn an_id_and_an_old_name_must_be_of_one_record() {
        let with_id = |id: i64, old: &str, name: &str| {
            let mut desired = sheet(Resource::Channels, &[json!({"id": id, "name": name})]);
            let records = &mut desired.resources.get_mut(&Resource::Channels).unwrap().records;
            records[0].old_name = Some(old.to_owned());
            planned(&desired)
        };
        assert_eq!(with_id(1, "a", "C").unwrap().len(), 1);
        assert_eq!(with_id(1, "Z", "A"), Ok(Vec::new()), "it is renamed already");
        let other = "sheet.csv:2: channels 1: the channel 1 is called `A`, not `B`";
        assert_eq!(with_id(1, "B", "C"), Err(other.to_owned()));
    }

    #[test]
    fn a_row_whose_record_is_renamed_already_changes_nothing() {
        assert_eq!(renamed(&[("Z", "A")]), Ok(Vec::new()));
        let taken = "sheet.csv:3: old name: the account has no channel called `Z`";
        assert_eq!(renamed(&[("A", "C"), ("Z", "A")]), Err(taken.to_owned()));
    }

    #[test]
    fn an_old_name_of_no_record_or_of_several_is_a_problem() {
        let none = "sheet.csv:2: old name: the account has no channel called `Z`";
        assert_eq!(renamed(&[("Z", "C")]), Err(none.to_owned()));
        let several = "sheet.csv:2: channels Twin: could be any of 3, 4: give the id of one";
        assert_eq!(renamed(&[("Twin", "C")]), Err(several.to_owned()));
        let twice = "sheet.csv:3: channels a: is the same channel as sheet.csv:2";
        assert_eq!(renamed(&[("A", "C"), ("a", "D")]), Err(twice.to_owned()));
    }
}
