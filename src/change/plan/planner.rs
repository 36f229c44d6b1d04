//! The state of a running planning, which all parts read and extend.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value as Json;

use super::naming::label;
use super::order::StepDraft;
use super::problems::{Conflict, DecidedConflicts, InvalidRow, PlanProblems};
use super::request::ResolvedRef;
use super::reused::ReusedIds;
use super::types::{CurrentState, JsonFields, KeptValue, UnsupportedChange};
use super::verify_step::still_true;
use crate::change::csv_files::{CsvProblem, CsvProblemKind, CsvProblems};
use crate::change::desired::{DesiredRecord, DesiredState, RecordRef, SourceLocation};
use crate::change::policy::{OnConflict, Policy};
use crate::format::truncate;
use crate::model::FormEvidence;
use crate::model::{Field, FieldValue, NaturalKey, Record, RecordKey, Resource, State};

pub(super) struct Planner<'a> {
    pub desired: &'a DesiredState,
    pub current: CurrentState<'a>,
    pub base: Option<&'a State>,
    pub policy: &'a Policy,
    pub reused: &'a ReusedIds,
    pub drafts: Vec<StepDraft>,
    pub unsupported: Vec<UnsupportedChange>,
    pub kept: Vec<KeptValue>,
    pub conflicts: DecidedConflicts,
    /// Warnings about cells of rows without an id.
    pub cell_warnings: CsvProblems,
    /// Rows that the filter leaves out.
    pub filtered_rows: BTreeSet<SourceLocation>,
    /// Values that are equal in both accounts, by the ids of the source account.
    pub agreed: BTreeMap<(Resource, i64), JsonFields>,
    pub problems: PlanProblems,
    /// The records for desired ids that the account does not have.
    pub resolved: HashMap<(Resource, i64), ResolvedRef>,
    /// The records by desired name. Filled only if the input refers to names.
    pub named: HashMap<(Resource, NaturalKey), Vec<ResolvedRef>>,
    /// The names of desired records and of deleted ones, with the records that have them in the account:
    /// a renamed record can be named by its old name.
    pub freed: HashMap<(Resource, NaturalKey), Vec<i64>>,
    /// The resources for which `named` also has all other records of the account, and `freed` has all.
    pub indexed: HashSet<Resource>,
    pub deleted: HashSet<(Resource, i64)>,
    /// Existing records that the filter admits by their desired values.
    pub selected: HashSet<(Resource, i64)>,
    /// Desired records that the filter leaves out, by id and by name in lower case.
    pub filtered_out: BTreeSet<(Resource, RecordRef)>,
    /// Links of deleted campaigns that are created again.
    pub inherited_links: Vec<(ResolvedRef, i64, Option<SourceLocation>)>,
}

pub(super) type Records = BTreeMap<RecordKey, Record<'static>>;

impl<'a> Planner<'a> {
    pub fn new(
        desired: &'a DesiredState,
        current: CurrentState<'a>,
        base: Option<&'a State>,
        policy: &'a Policy,
        reused: &'a ReusedIds,
    ) -> Self {
        Self {
            desired,
            current,
            base,
            policy,
            reused,
            drafts: Vec::new(),
            unsupported: Vec::new(),
            kept: Vec::new(),
            conflicts: DecidedConflicts::default(),
            cell_warnings: CsvProblems::default(),
            filtered_rows: BTreeSet::new(),
            agreed: BTreeMap::new(),
            problems: PlanProblems::default(),
            resolved: HashMap::new(),
            named: HashMap::new(),
            freed: HashMap::new(),
            indexed: HashSet::new(),
            deleted: HashSet::new(),
            selected: HashSet::new(),
            filtered_out: BTreeSet::new(),
            inherited_links: Vec::new(),
        }
    }

    /// Whether the desired ids are those of a source account: a migration.
    pub fn is_migration(&self) -> bool {
        self.desired.origin.is_some()
    }

    /// The value that was sent for a field of a record, unless it was replaced since.
    pub fn sent(&self, resource: Resource, key: &RecordKey, name: &str) -> Option<&'a Json> {
        let sent = self.current.memory.sent.get(&(resource, key.clone()))?;
        match self.current.state.get(resource).and_then(|live| live.get(key)) {
            Some(record) => still_true(record, sent, name),
            None => sent.get(name),
        }
    }

    /// Decides a conflict by the policy. Returns whether the input's side is used.
    pub fn decide(&mut self, conflict: Conflict) -> bool {
        let used = self.policy.on_conflict == OnConflict::Mine;
        match self.policy.on_conflict {
            OnConflict::Fail => self.problems.conflicts.push(conflict),
            OnConflict::Mine => self.conflicts.overwritten.push(conflict),
            // A migration lists the target's values that stay in another way.
            OnConflict::Theirs if self.is_migration() => {}
            OnConflict::Theirs => self.conflicts.kept.push(conflict),
        }
        used
    }

    /// The forms in which the service stores values of a record.
    pub fn forms(&self, resource: Resource, key: &RecordKey) -> FormEvidence<'a> {
        self.current.memory.forms(resource, key)
    }

    pub fn add_unsupported(
        &mut self,
        resource: Resource,
        key: &str,
        reason: &str,
        source: Option<&SourceLocation>,
    ) {
        self.unsupported.push(UnsupportedChange {
            resource,
            key: key.to_owned(),
            reason: reason.to_owned(),
            source: source.cloned(),
        });
    }

    /// Reports a cell of a row without an id that the API cannot set.
    pub fn leave_out(&mut self, resource: Resource, row: &DesiredRecord, field: &Field) {
        let (title, name) = (resource.spec().title, field.name);
        let what = format!("left out, because the API cannot set the `{name}` of a {title}");
        self.warn_of_cell(row, field, CsvProblemKind::LeftOut, what);
    }

    /// Warns of an empty cell that clears a value, in a row that names its record: such a row often
    /// has only the cells that change.
    pub fn warn_of_cleared(&mut self, row: &DesiredRecord, field: &Field, value: &FieldValue<'_>) {
        let what = format!(
            "the empty cell clears `{}`; to keep the value, put the row into a file without this column",
            truncate(&value.cell(), 40)
        );
        self.warn_of_cell(row, field, CsvProblemKind::Cleared, what);
    }

    fn warn_of_cell(
        &mut self,
        row: &DesiredRecord,
        field: &Field,
        kind: CsvProblemKind,
        what: String,
    ) {
        let Some(source) = row.source.as_ref().filter(|source| source.line.is_some()) else {
            return;
        };
        let (file, column) = (source.file.clone(), Some(field.name.to_owned()));
        let (line, row) = (source.line, source.row);
        self.cell_warnings.push(CsvProblem { file, line, row, column, kind, what });
    }

    pub fn add_invalid_row(&mut self, resource: Resource, row: &DesiredRecord, what: String) {
        let (key, source) = (label(resource, row), row.source.clone());
        self.problems.rows.push(InvalidRow { resource, key, column: None, what, source });
    }
}

/// A desired record and the existing record that it matches.
pub(super) struct MatchedPair<'r> {
    pub resource: Resource,
    pub row: &'r DesiredRecord,
    pub live: &'r Record<'static>,
    /// The record in the base; `None` without a base.
    pub base: Option<Option<&'r Record<'static>>>,
}
