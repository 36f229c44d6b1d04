//! A plan in a file, which `linkvault apply` executes unchanged and only once. The content of such
//! a file is checked against the table of endpoints before it is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::problems::DecidedConflicts;
use super::request::{RequestSubject, ResolvedRef, request};
use super::types::{JsonFields, Plan, PlanStep, RequestRate};
use crate::change::plan::fingerprints::is_bound_assign;
use crate::change::plan::{order, reversibility, verify_step};
use crate::model::{Resource, Verb};

/// The format version that this program writes and reads.
const FORMAT: u32 = 1;

/// The size limit of a plan file, in bytes.
pub const MAX_PLAN_BYTES: usize = 256 * 1024 * 1024;

const DIGEST: &str = "digest";

/// A plan with its account and its time of creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// The version of the file format: 1.
    pub format: u32,
    /// The account's name in the configuration.
    pub account: String,
    /// The service's base URL.
    pub service: String,
    /// The account's id on the service, if known.
    pub account_id: Option<i64>,
    /// Identifies the plan in the journal, so that it is applied once: up to 64 hex digits.
    pub id: String,
    /// When the plan was made, in milliseconds since 1970.
    pub made: i64,
    /// The rate limit that the cost was computed for, in requests a minute; 0 is no limit.
    pub limit: u64,
    /// The requests a minute that the plan leaves to other programs.
    pub reserve: u64,
    /// Whether assignments have fingerprints of the records that they name; false in plans of older
    /// versions.
    #[serde(default)]
    pub bound: bool,
    /// The steps and their cost.
    #[serde(flatten)]
    pub plan: Plan,
}

/// Why a plan file cannot be applied. Displayed after the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanError {
    /// The file exceeds the size limit.
    #[error("exceeds the size limit of plans ({} MiB)", MAX_PLAN_BYTES / (1024 * 1024))]
    TooLarge,
    /// The content is not JSON, or a member is missing or wrong; with the details.
    #[error("is not a saved plan: {0}")]
    NotAPlan(String),
    /// The format version is not the one that this program reads.
    #[error(
        "has plan format {0}, but only format 1 is supported; create the plan again with \
         `linkvault plan … -o`"
    )]
    Format(u64),
    /// The digest does not match the content.
    #[error("was edited after it was saved; create it again with `linkvault plan … -o`")]
    Changed,
    /// A step contradicts itself or the table of endpoints.
    #[error("step {step} {what}; create the plan again with `linkvault plan … -o`")]
    Step {
        /// The number of the step, from 1.
        step: u32,
        /// The problem, as the end of a sentence whose subject is the step.
        what: &'static str,
    },
}

impl SavedPlan {
    /// Prepares a plan for saving: its id is a hash of its content.
    #[must_use]
    pub fn new(
        (account, service, account_id): (&str, &str, Option<i64>),
        made: i64,
        rate: RequestRate,
        mut plan: Plan,
    ) -> Self {
        // The file does not contain these.
        plan.reused.clear();
        plan.conflicts = DecidedConflicts::default();
        plan.reverts.clear();
        plan.contents.clear();
        if let Some(foreign) = &mut plan.foreign {
            foreign.kept.clear();
            foreign.agreed.clear();
        }
        let mut saved = Self {
            format: FORMAT,
            account: account.to_owned(),
            service: service.to_owned(),
            account_id,
            id: String::new(),
            made,
            limit: rate.limit,
            reserve: rate.reserve,
            bound: true,
            plan,
        };
        let mut id = serde_json::to_value(&saved).map(|json| digest(&json)).unwrap_or_default();
        id.truncate(32);
        saved.id = id;
        saved
    }

    /// The content of the file: JSON with a digest.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Ok(mut json) = serde_json::to_value(self) else { return String::new() };
        let sum = digest(&json);
        if let Json::Object(members) = &mut json {
            members.insert(DIGEST.to_owned(), sum.into());
        }
        let mut text = serde_json::to_string_pretty(&json).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Parses and checks the content of a plan file.
pub fn read(bytes: &[u8]) -> Result<SavedPlan, SavedPlanError> {
    if bytes.len() > MAX_PLAN_BYTES {
        return Err(SavedPlanError::TooLarge);
    }
    let no_plan = |error: serde_json::Error| SavedPlanError::NotAPlan(error.to_string());
    let mut json: Json = serde_json::from_slice(bytes).map_err(no_plan)?;
    let absent = |what: &str| SavedPlanError::NotAPlan(format!("it has no `{what}`"));
    let format = json.get("format").and_then(Json::as_u64).ok_or_else(|| absent("format"))?;
    if format != u64::from(FORMAT) {
        return Err(SavedPlanError::Format(format));
    }
    let members = json.as_object_mut().ok_or_else(|| absent("format"))?;
    let found = members.shift_remove(DIGEST).ok_or_else(|| absent(DIGEST))?;
    if found.as_str() != Some(digest(&json).as_str()) {
        return Err(SavedPlanError::Changed);
    }
    let written = json.get("steps").cloned();
    let saved: SavedPlan = serde_json::from_value(json).map_err(no_plan)?;
    check_members(&saved.plan, written.as_ref())?;
    let hex = saved.id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !hex || saved.id.is_empty() || saved.id.len() > 64 {
        return Err(SavedPlanError::NotAPlan("its `id` is not one".to_owned()));
    }
    check(&saved.plan, saved.bound)?;
    Ok(saved)
}

/// Rejects steps that this program would serialize differently: a missing, misspelt or unknown
/// member would otherwise be ignored.
fn check_members(plan: &Plan, steps: Option<&Json>) -> Result<(), SavedPlanError> {
    let written = steps.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    for (step, written) in plan.steps.iter().zip(written) {
        if serde_json::to_value(step).is_ok_and(|it| it == *written) {
            continue;
        }
        let what = "has members that are unknown or missing";
        return Err(SavedPlanError::Step { step: step.step, what });
    }
    Ok(())
}

/// A hash of the JSON value that ignores its layout and the order of members.
fn digest(json: &Json) -> String {
    let mut sum = blake3::Hasher::new();
    // Writing to a hasher cannot fail.
    let _ = serde_json::to_writer(&mut sum, &sorted(json));
    sum.finalize().to_hex().to_string()
}

/// Sorts the members of all objects by name.
fn sorted(json: &Json) -> Json {
    match json {
        Json::Array(items) => items.iter().map(sorted).collect(),
        Json::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            Json::Object(members.into_iter().map(|(name, it)| (name.clone(), sorted(it))).collect())
        }
        plain => plain.clone(),
    }
}

/// Checks every step against the table of endpoints.
fn check(plan: &Plan, bound: bool) -> Result<(), SavedPlanError> {
    let origin = plan.foreign.as_ref().map(|it| it.origin.as_str());
    if origin.is_some_and(|it| it.rsplit_once('#').is_none_or(|(_, id)| id.parse::<i64>().is_err()))
    {
        return Err(SavedPlanError::NotAPlan("its `foreign` names no account".to_owned()));
    }
    for step in &plan.steps {
        // All migrated records are from one account. Earlier versions set `origin` for creates
        // only.
        let is_moved = step.origin.is_some() || (step.replaces.is_some() && origin.is_some());
        if is_moved && step.origin.as_deref() != origin {
            let what = "names another account than the plan";
            return Err(SavedPlanError::Step { step: step.step, what });
        }
    }
    for (place, step) in plan.steps.iter().enumerate() {
        let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
        let before = &plan.steps[..place];
        step_problem(step, number, before, bound)
            .map_or(Ok(()), |what| Err(SavedPlanError::Step { step: number, what }))?;
    }
    Ok(())
}

fn step_problem(
    step: &PlanStep,
    number: u32,
    before: &[PlanStep],
    bound: bool,
) -> Option<&'static str> {
    if step.step != number {
        return Some("is at the wrong position for its number");
    }
    let all = [step.before.as_ref(), step.after.as_ref(), step.request.body.as_ref()];
    if all.into_iter().flatten().any(|fields| fields.contains_key("password")) {
        return Some("holds a password");
    }
    let is_bound = match step.verb {
        Verb::Update | Verb::Delete => verify_step::has_fingerprint(step),
        Verb::Assign => is_bound_assign(step, bound),
        _ => !verify_step::has_fingerprint(step),
    };
    if !is_bound {
        return Some("has no valid fingerprint of its record");
    }
    if !has_consistent_name(step, before) {
        return Some("has a wrong name or key");
    }
    if !reversibility::matches_step(step, None) {
        return Some("has a wrong `reversible`, `verifiable` or `remark`");
    }
    if step.verb != Verb::Create && step.replaces.is_some() {
        return Some("has `replaces` but is not a create");
    }
    if step.replaces.is_some_and(|id| id <= 0) {
        return Some("has a `replaces` that is not an id");
    }
    let Some(subject) = subject(step) else { return Some("does not identify its record") };
    let mut steps: Vec<u32> = subject.steps().collect();
    steps.sort_unstable();
    if steps != step.waits_for || !creates_references(&subject, before) {
        return Some("waits for a step that does not create what it needs");
    }
    let made = request(step.resource, step.verb, &subject, body(step));
    (made.as_ref() != Some(&step.request))
        .then_some("has a request that does not match its `after`")
}

/// Whether the name agrees with the rest of the plan: of a create with its fields, of an
/// assignment with the create of its owner. [`verify_step::describes_state`] checks the names of
/// existing records against the account.
fn has_consistent_name(step: &PlanStep, before: &[PlanStep]) -> bool {
    let owner = |after: &JsonFields| {
        let owner = after.get("channel").or_else(|| after.get("campaign"))?;
        match ResolvedRef::from_json(owner)? {
            // The caller has checked that each step is at the position of its number.
            ResolvedRef::Step(number) => before.get((number as usize).checked_sub(1)?),
            ResolvedRef::Id(_) => None,
        }
    };
    match step.verb {
        Verb::Create => verify_step::has_correct_name(step),
        Verb::Assign => {
            let owner = step.after.as_ref().and_then(owner);
            owner.is_none_or(|owner| owner.name == step.name)
        }
        _ => true,
    }
}

/// The subject of a step, derived from all its members except the request.
pub(super) fn subject(step: &PlanStep) -> Option<RequestSubject> {
    let after = step.after.as_ref();
    let reference = |name: &str| ResolvedRef::from_json(after?.get(name)?);
    let keyed = |subject: RequestSubject| {
        let id = step.id?;
        (step.key == id.to_string()).then_some(subject)
    };
    let shape = (step.before.is_some(), after.is_some());
    match (step.verb, step.resource, shape) {
        (Verb::Create, _, (false, true)) if step.id.is_none() => Some(RequestSubject::Unnamed),
        (Verb::Update, Resource::Account, (true, true)) => keyed(RequestSubject::Unnamed),
        (Verb::Update, _, (true, true)) => keyed(RequestSubject::Record(ResolvedRef::Id(step.id?))),
        (Verb::Delete, _, (true, false)) => {
            keyed(RequestSubject::Record(ResolvedRef::Id(step.id?)))
        }
        (Verb::Assign, resource, (false, true)) => {
            let (subject, id) = if resource == Resource::Campaigns {
                let campaign = reference("campaign")?;
                let link = after?.get("link")?.as_i64()?;
                (RequestSubject::Link { campaign, link }, [campaign, campaign])
            } else {
                let (channel, id) = (reference("channel")?, reference("id")?);
                let kind = after?.get("type")?.as_str()?.to_owned();
                (RequestSubject::Item { channel, kind, id }, [channel, id])
            };
            let known = match id {
                [ResolvedRef::Id(_), ResolvedRef::Id(id)] => Some(id),
                _ => None,
            };
            let matches = order::assigned(&subject) == step.after && step.id == known;
            (matches && step.key == order::assigned_key(&subject)?).then_some(subject)
        }
        _ => None,
    }
}

/// Whether the steps that a subject refers to create records of the right resource.
fn creates_references(subject: &RequestSubject, before: &[PlanStep]) -> bool {
    let creates = |it: ResolvedRef, resource: Resource| match it {
        ResolvedRef::Id(_) => true,
        ResolvedRef::Step(number) => {
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let step = place.and_then(|place| before.get(place));
            step.is_some_and(|step| step.verb == Verb::Create && step.resource == resource)
        }
    };
    match subject {
        RequestSubject::Item { channel, kind, id } => {
            let made = matches!(id, ResolvedRef::Id(_)) || kind == "qr";
            made && creates(*channel, Resource::Channels) && creates(*id, Resource::QrCodes)
        }
        RequestSubject::Link { campaign, .. } => creates(*campaign, Resource::Campaigns),
        RequestSubject::Record(ResolvedRef::Step(_)) => false,
        _ => true,
    }
}

/// The body for a step's `after`. Fields that the API requires in addition are stored only in the
/// request: they are taken from there, and [`verify_step::describes_state`] compares them with
/// the account before the step is sent.
fn body(step: &PlanStep) -> Option<JsonFields> {
    let endpoint = step.resource.spec().endpoint(step.verb)?;
    let after = step.after.as_ref().filter(|_| !endpoint.params.is_empty())?;
    let mut body = after.clone();
    for param in endpoint.params.iter().filter(|_| step.verb == Verb::Update) {
        let sent = step.request.body.as_ref().and_then(|body| body.get(param.name));
        if let Some(sent) = sent.filter(|_| param.required && !after.contains_key(param.name)) {
            body.insert(param.name.to_owned(), sent.clone());
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests;
