//! The types of a plan: its steps, its cost and its input.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::change::csv_files::CsvProblems;
use crate::change::desired::SourceLocation;
use crate::change::plan::problems::DecidedConflicts;
use crate::escaped::Escaped;
use crate::model::spec::Method;
use crate::model::{
    FormEvidence, KeyForm, NaturalKey, Record, RecordKey, Resource, SentValues, SnapshotId, State,
    Verb,
};

/// Fields by name, in the order of the table.
pub type JsonFields = Map<String, Json>;

/// What linkvault knows about an account in addition to its records. Source: the journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccountMemory {
    /// Values that linkvault sent, by record.
    pub sent: SentValues,
    /// In a migration, the values that earlier migrations set or found equal in both accounts, by
    /// the ids of the source: the base of a three-way comparison.
    pub agreed: BTreeMap<(Resource, i64), JsonFields>,
    /// The same from the snapshot before the first migration, for values that the journal lacks.
    pub agreed_at_first_migration: BTreeMap<(Resource, i64), JsonFields>,
    /// The new ids of records that were created again, by their old ids; in a migration, by the ids
    /// of the source account.
    pub ids: BTreeMap<(Resource, i64), i64>,
    /// For the check whether the steps of a migration are stale: the ids in the source account of
    /// records of this one.
    pub migrated: BTreeMap<(Resource, i64), i64>,
}

impl AccountMemory {
    /// The natural key of a record in the account.
    pub(super) fn natural_key(
        &self,
        resource: Resource,
        record: &Record<'static>,
    ) -> Option<NaturalKey> {
        let sent = self.sent.get(&(resource, record.key.clone()));
        NaturalKey::of_record(resource, KeyForm::Exact, record, sent)
    }

    /// The natural keys by which a record in the account is found, its own first.
    pub(crate) fn natural_keys(
        &self,
        resource: Resource,
        record: &Record<'static>,
    ) -> impl Iterator<Item = NaturalKey> + use<> {
        let sent = self.sent.get(&(resource, record.key.clone()));
        NaturalKey::all_of_record(resource, record, sent)
    }

    /// The forms in which the service stores values of a record.
    pub(super) fn forms(&self, resource: Resource, key: &RecordKey) -> FormEvidence<'_> {
        self.sent.get(&(resource, key.clone())).into()
    }

    /// The links that linkvault assigned to a campaign.
    pub(super) fn links_of(&self, campaign: i64) -> impl Iterator<Item = i64> + use<'_> {
        let sent = self.sent.get(&(Resource::Campaigns, RecordKey::Id(campaign)));
        let links = sent.and_then(|sent| sent.get("links")?.as_array());
        links.into_iter().flatten().filter_map(Json::as_i64)
    }
}

/// The account at the time of planning.
#[derive(Debug, Clone, Copy)]
pub struct CurrentState<'a> {
    /// The records that were read.
    pub state: &'a State,
    /// What is known in addition to the records.
    pub memory: &'a AccountMemory,
}

/// A request that a step sends. `{3}` in the path is replaced by the id of the record that step
/// 3 creates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRequest {
    /// The HTTP method.
    pub method: Method,
    /// From `/api` on.
    pub path: String,
    /// `None` for endpoints without parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<JsonFields>,
}

/// A step: one write request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The number, from 1, in the order of sending.
    pub step: u32,
    /// The resource of the record that the step changes.
    pub resource: Resource,
    /// Create, update, delete or assign.
    pub verb: Verb,
    /// Identifies the record: its id, `7/links/33` for an assignment, or the natural key for a
    /// create.
    pub key: String,
    /// The record's name; empty if only the key is known.
    pub name: String,
    /// The record's id; `None` if this step or an earlier one creates the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// The current values of the fields that change; `None` for a create.
    pub before: Option<JsonFields>,
    /// The new values of the fields that change; `None` for a delete.
    pub after: Option<JsonFields>,
    /// The request that is sent.
    pub request: PlannedRequest,
    /// The numbers of the steps that create records which this step needs.
    #[serde(default)]
    pub waits_for: Vec<u32>,
    /// Whether the step can be undone.
    pub reversible: bool,
    /// Whether a list shows afterwards if the step succeeded.
    pub verifiable: bool,
    /// Why the step is not reversible or not verifiable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// For a create that restores a deleted record: the id that the record had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i64>,
    /// In a migration, the source account as `service#id`; `replaces` is then an id of that
    /// account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// [`fingerprint`](super::fingerprint) of the record that the step changes; for an assignment,
    /// those of the records that it names: [`super::fingerprints`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The file and line of the row that caused the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLocation>,
}

/// A desired change that the API cannot make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedChange {
    /// The resource of the record.
    pub resource: Resource,
    /// The record's id or natural key; empty if the change concerns the whole resource.
    pub key: String,
    /// Why the API cannot make the change.
    pub reason: String,
    /// The file and line of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLocation>,
}

/// In a migration, a record of the target that corresponds to a record of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedRecord {
    /// The resource of both records.
    pub resource: Resource,
    /// The id in the source account.
    pub old: i64,
    /// The id in the target account.
    pub new: i64,
}

/// The part of a migration's plan that is not steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationMatches {
    /// The source account, as `service#id`.
    pub origin: String,
    /// Records that exist in both accounts.
    pub matched: Vec<MatchedRecord>,
    /// Values of the target that differ and stay. Not saved: they cause no request.
    #[serde(skip)]
    pub kept: Vec<KeptValue>,
    /// Values that are equal in both accounts. Not saved: a plan file could state wrong values.
    #[serde(skip)]
    pub agreed: Vec<AgreedValues>,
}

/// Values of a record that are equal in both accounts, except those that the journal already has
/// from an earlier migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreedValues {
    /// The resource of the record.
    pub resource: Resource,
    /// The record's id in the source account.
    pub id: i64,
    /// The equal values.
    pub values: JsonFields,
}

/// What the journal stores about a migration in addition to its steps, for the next migration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationNote {
    /// The source account, as `service#id`.
    pub origin: String,
    /// The values that the migration found equal in both accounts.
    pub agreed: Vec<AgreedValues>,
}

/// A value of the target that differs, and that this migration does not overwrite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptValue {
    /// The resource of the record.
    pub resource: Resource,
    /// The record's id in the source account.
    pub id: i64,
    /// The field's name.
    pub field: String,
    /// The source account's value.
    pub source: Json,
    /// The target account's value.
    pub target: Json,
    /// Whether it is kept because no existing record is changed. Otherwise it was changed in the
    /// target since the last migration.
    #[serde(skip)]
    pub existing: bool,
}

/// The rate limit of an account, of which a plan uses a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests per minute; 0 for no limit.
    pub limit: u64,
    /// The requests of each minute that are left to others.
    pub reserve: u64,
}

/// The estimated cost of applying a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanCost {
    /// All requests: the steps, and the reads before and after them.
    pub requests: u64,
    /// The duration at the rate limit.
    pub seconds: f64,
    /// The requests among them that verify the account and read lists again because the earlier
    /// reads have become too old.
    #[serde(default)]
    pub rereads: u64,
    /// Whether `rereads` includes lists.
    #[serde(skip)]
    pub rereads_lists: bool,
    /// The largest age, in seconds, that any list may have when a step that depends on it is sent;
    /// 0
    /// if no step depends on a list.
    #[serde(default)]
    pub staleness: f64,
}

/// The steps that change the account's state into the desired one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// In the order of sending.
    pub steps: Vec<PlanStep>,
    /// Desired changes that the API cannot make, sorted by resource.
    pub unsupported: Vec<UnsupportedChange>,
    /// `Some` for a migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<MigrationMatches>,
    /// The estimated cost.
    #[serde(flatten)]
    pub cost: PlanCost,
    /// Desired ids that the service has given to other records. Not saved: those records are not
    /// changed.
    #[serde(skip)]
    pub reused: Vec<ReusedId>,
    /// Warnings about cells of rows without an id: those that the API cannot set, and empty ones that
    /// clear a value. Not saved: they cause no request.
    #[serde(skip)]
    pub cell_warnings: CsvProblems,
    /// Rows of the input that the filter leaves out. Not saved: they cause no request.
    #[serde(skip)]
    pub filtered: BTreeSet<SourceLocation>,
    /// The conflicts that the policy decided. Not saved: they cause no request.
    #[serde(skip)]
    pub conflicts: DecidedConflicts,
    /// Changes that may revert another person's edit, because the input has no base. Not saved: they
    /// cause no request.
    #[serde(skip)]
    pub reverts: Vec<PossibleRevert>,
    /// The known contents of QR codes, by id, to name them. Not saved: a plan file could state wrong
    /// ones.
    #[serde(skip)]
    pub contents: BTreeMap<i64, String>,
}

/// A change that sets a field to a value that an earlier snapshot shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PossibleRevert {
    /// The resource of the record.
    pub resource: Resource,
    /// The record's id.
    pub key: String,
    /// The field's name.
    pub field: String,
    /// The account's value.
    pub before: Json,
    /// The input's value.
    pub after: Json,
    /// The snapshot from which on the record had the input's value.
    pub snapshot: SnapshotId,
    /// The row's file and line.
    pub source: Option<SourceLocation>,
}

impl PossibleRevert {
    /// The change in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { resource, key, field, before, after, snapshot, source } = self;
        let source = source.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
        let text = format!(
            "{source}{resource} {key}: {field}: {after} is the value of snapshot #{snapshot}, and the \
             account has {before}"
        );
        Escaped(text).to_string()
    }
}

/// An id of a deleted desired record that the service has given to another record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReusedId {
    /// The resource of both records.
    pub resource: Resource,
    /// The id.
    pub id: i64,
    /// The name of the record that has the id now.
    pub name: String,
}

impl Plan {
    /// The number of changes in the input without a step.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        (self.unsupported.len() + self.conflicts.kept.len()) as u64
    }

    /// The resources that the steps change. Deleting a channel also changes channel items.
    #[must_use]
    pub fn touched(&self) -> Vec<Resource> {
        let goes_with = |it: &PlanStep, resource: Resource| {
            resource == Resource::ChannelItems
                && it.resource == Resource::Channels
                && it.verb == Verb::Delete
        };
        let touches = |resource: &Resource| {
            self.steps.iter().any(|it| it.resource == *resource || goes_with(it, *resource))
        };
        Resource::ALL.into_iter().filter(touches).collect()
    }
}
