//! What a plan is: its steps, what it costs, and what it is made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::change::desired::SourceLocation;
use crate::model::spec::Method;
use crate::model::{Blanks, NaturalKey, Record, RecordKey, Resource, SentValues, State, Verb};

/// Fields by name, in the order of the table.
pub type JsonFields = Map<String, Json>;

/// What linkvault remembers of an account beside its records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccountMemory {
    /// What was sent and cannot be read back.
    pub sent: SentValues,
    /// For a move, what the moves before it set or found the same on both sides, by the
    /// ids of the source: the base of a three-way comparison.
    pub agreed: BTreeMap<(Resource, i64), JsonFields>,
    /// The same for what the journal does not tell, by the snapshot before the first move.
    pub before_moves: BTreeMap<(Resource, i64), JsonFields>,
    /// New ids of records that were created anew, by their old ones; for a move,
    /// by those of the account that it is from.
    pub ids: BTreeMap<(Resource, i64), i64>,
}

impl AccountMemory {
    /// The natural key of a record in the account.
    pub(super) fn natural_key(
        &self,
        resource: Resource,
        record: &Record<'static>,
    ) -> Option<NaturalKey> {
        let sent = self.sent.get(&(resource, record.key.clone()));
        NaturalKey::of_record(resource, Blanks::Exact, record, sent)
    }

    /// The links that linkvault assigned to a campaign.
    pub(super) fn links_of(&self, campaign: i64) -> impl Iterator<Item = i64> + use<'_> {
        let sent = self.sent.get(&(Resource::Campaigns, RecordKey::Id(campaign)));
        let links = sent.and_then(|sent| sent.get("links")?.as_array());
        links.into_iter().flatten().filter_map(Json::as_i64)
    }
}

/// What is there now.
#[derive(Debug, Clone, Copy)]
pub struct CurrentState<'a> {
    pub state: &'a State,
    pub memory: &'a AccountMemory,
}

/// A request as it will be sent. In its path, `{3}` stands for the id that step
/// 3 is going to get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRequest {
    pub method: Method,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<JsonFields>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Counted from 1, in the order of sending.
    pub step: u32,
    pub resource: Resource,
    pub verb: Verb,
    /// The record: its id, `7/links/33`, or of a create its natural key.
    pub key: String,
    /// What its owner calls it; empty where nothing but the key is known.
    pub name: String,
    /// The record's id, unless the step or one before it creates the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// The fields that change, as they are; `null` of a create.
    pub before: Option<JsonFields>,
    /// The fields that change, as they will be; `null` of a delete.
    pub after: Option<JsonFields>,
    pub request: PlannedRequest,
    /// Steps without which this one makes no sense.
    #[serde(default)]
    pub waits_for: Vec<u32>,
    pub reversible: bool,
    /// Whether a list can tell afterwards that it was done.
    pub verifiable: bool,
    /// Why it is not reversible, or cannot be verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// The id that the record had before it was lost, where a create brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i64>,
    /// The account that the plan is from, if it is another one: `replaces` is an id there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// [`fingerprint`](super::fingerprint) of the record it changes; of an assignment, those of
    /// the records that it names: [`super::fingerprints`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLocation>,
}

/// Something wanted that the API cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedChange {
    pub resource: Resource,
    pub key: String,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLocation>,
}

/// A record of the account that is what another account's record moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedRecord {
    pub resource: Resource,
    pub old: i64,
    pub new: i64,
}

/// What a plan for records of another account knows beside its steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationMatches {
    /// The other account, as `service#id`.
    pub origin: String,
    pub matched: Vec<MatchedRecord>,
    /// Not part of a saved plan: nothing is done about it.
    #[serde(skip)]
    pub kept: Vec<KeptValue>,
    /// Nor is this: a plan file is not believed in what two accounts had.
    #[serde(skip)]
    pub agreed: Vec<AgreedValues>,
}

/// Values that this plan found the same in both accounts, and of which no earlier move
/// tells that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreedValues {
    pub resource: Resource,
    /// The record's id in the other account.
    pub id: i64,
    pub values: JsonFields,
}

/// What the journal keeps of a move beside its steps, for the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveNote {
    /// The other account, as `service#id`.
    pub origin: String,
    pub agreed: Vec<AgreedValues>,
}

/// A value that was changed in the account since the last move from the other one,
/// and that this move keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptValue {
    pub resource: Resource,
    /// The record's id in the other account.
    pub id: i64,
    pub field: String,
    /// The other account's value.
    pub source: Json,
    /// The account's own value.
    pub target: Json,
}

/// What a plan costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanCost {
    /// Reading what it touches, before and after, and one for each step.
    pub requests: u64,
    pub seconds: f64,
    /// Requests among these that prove the account again and read lists again, since
    /// both became too old.
    #[serde(default)]
    pub rereads: u64,
    /// Whether lists are among them.
    #[serde(skip)]
    pub rereads_lists: bool,
    /// How old a list may be when a step that stands on it leaves, in seconds: the
    /// longest time of any list; 0 where no step stands on one.
    #[serde(default)]
    pub staleness: f64,
}

/// A plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
    pub unsupported: Vec<UnsupportedChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<MigrationMatches>,
    #[serde(flatten)]
    pub cost: PlanCost,
    /// Wanted ids that other records have by now. Not part of a saved plan: these records
    /// are not changed into the wanted ones.
    #[serde(skip)]
    pub reused: Vec<Reused>,
}

/// An id of a wanted record that was deleted, and that another record of the account has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reused {
    pub resource: Resource,
    pub id: i64,
    /// What the record that has it is called.
    pub name: String,
}

impl Plan {
    /// The resources that its steps touch. A channel's items go with it.
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
