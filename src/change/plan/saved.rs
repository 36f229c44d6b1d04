//! A plan as a file: what was shown once, to be applied exactly so, and once.
//! Whatever such a file holds is checked against the table before it is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::request::{RequestSubject, ResolvedRef, request};
use super::types::{JsonFields, Plan, PlanStep};
use crate::change::plan::fingerprints::is_bound_assign;
use crate::change::plan::{order, reversibility, verify_step};
use crate::model::{Resource, Verb};

/// The format that this program writes and reads.
const FORMAT: u32 = 1;

/// The largest file that is read, in bytes.
pub const LARGEST: usize = 256 * 1024 * 1024;

const DIGEST: &str = "digest";

/// A plan with whose it is and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    pub format: u32,
    pub account: String,
    /// The service's base URL.
    pub service: String,
    /// The account's own id there, where it is known.
    pub account_id: Option<i64>,
    /// By which an applied plan is recognised.
    pub id: String,
    /// In milliseconds since 1970.
    pub made: i64,
    /// Requests a minute that the price was made for; 0 is no limit.
    pub limit: u64,
    pub reserve: u64,
    /// Whether each assignment is bound to the records that it names; plans of
    /// older versions are not.
    #[serde(default)]
    pub bound: bool,
    #[serde(flatten)]
    pub plan: Plan,
}

/// Why a file is no plan that can be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanError {
    #[error("is larger than a plan can be ({} MiB)", LARGEST / (1024 * 1024))]
    TooLarge,
    #[error("is no saved plan: {0}")]
    NotAPlan(String),
    #[error(
        "has format {0}, and this program reads format 1; make it anew with `linkvault plan … -o`"
    )]
    Format(u64),
    #[error("was changed by hand; make it anew with `linkvault plan … -o`")]
    Changed,
    #[error("step {step} {what}; make it anew with `linkvault plan … -o`")]
    Step { step: u32, what: &'static str },
}

impl SavedPlan {
    /// A plan that is about to be saved. Its id comes from all that it holds.
    #[must_use]
    pub fn new(
        (account, service, account_id): (&str, &str, Option<i64>),
        made: i64,
        (limit, reserve): (u64, u64),
        mut plan: Plan,
    ) -> Self {
        // What the file does not hold.
        plan.reused.clear();
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
            limit,
            reserve,
            bound: true,
            plan,
        };
        let mut id = serde_json::to_value(&saved).map(|json| digest(&json)).unwrap_or_default();
        id.truncate(32);
        saved.id = id;
        saved
    }

    /// The file's text.
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

/// Reads a saved plan, and believes none of it.
///
/// # Errors
/// When it is no plan, was changed, or holds a step that the table does not give.
pub fn read(bytes: &[u8]) -> Result<SavedPlan, SavedPlanError> {
    if bytes.len() > LARGEST {
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
    let told = members.shift_remove(DIGEST).ok_or_else(|| absent(DIGEST))?;
    if told.as_str() != Some(digest(&json).as_str()) {
        return Err(SavedPlanError::Changed);
    }
    let written = json.get("steps").cloned();
    let saved: SavedPlan = serde_json::from_value(json).map_err(no_plan)?;
    is_as_written(&saved.plan, written.as_ref())?;
    let hex = saved.id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !hex || saved.id.is_empty() || saved.id.len() > 64 {
        return Err(SavedPlanError::NotAPlan("its `id` is not one".to_owned()));
    }
    check(&saved.plan, saved.bound)?;
    Ok(saved)
}

/// Refuses steps that are written otherwise than this program writes them: a member
/// that is missing, has another name or is unknown would be passed over in silence.
fn is_as_written(plan: &Plan, steps: Option<&Json>) -> Result<(), SavedPlanError> {
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

/// The sum over all that a plan says, however it is laid out.
fn digest(json: &Json) -> String {
    let mut sum = blake3::Hasher::new();
    // A hasher takes all that it is given.
    let _ = serde_json::to_writer(&mut sum, &sorted(json));
    sum.finalize().to_hex().to_string()
}

/// The same with its members in the order of their names.
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

/// Holds every step against the table.
fn check(plan: &Plan, bound: bool) -> Result<(), SavedPlanError> {
    let origin = plan.foreign.as_ref().map(|it| it.origin.as_str());
    if origin.is_some_and(|it| it.rsplit_once('#').is_none_or(|(_, id)| id.parse::<i64>().is_err()))
    {
        return Err(SavedPlanError::NotAPlan("its `foreign` names no account".to_owned()));
    }
    for step in &plan.steps {
        // What is moved is all of one account. Earlier versions named it in creates alone.
        let is_moved = step.origin.is_some() || (step.replaces.is_some() && origin.is_some());
        if is_moved && step.origin.as_deref() != origin {
            let what = "names another account than the plan";
            return Err(SavedPlanError::Step { step: step.step, what });
        }
    }
    for (place, step) in plan.steps.iter().enumerate() {
        let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
        let before = &plan.steps[..place];
        fault(step, number, before, bound)
            .map_or(Ok(()), |what| Err(SavedPlanError::Step { step: number, what }))?;
    }
    Ok(())
}

fn fault(step: &PlanStep, number: u32, before: &[PlanStep], bound: bool) -> Option<&'static str> {
    if step.step != number {
        return Some("is not where its number says");
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
        return Some("does not say for which state of its record it was made");
    }
    if !is_called_so(step, before) {
        return Some("is called something that it is not");
    }
    if !reversibility::match_step(step, None) {
        return Some("says of its way back what is not so");
    }
    if step.verb != Verb::Create && step.replaces.is_some() {
        return Some("has `replaces` but is not a create");
    }
    if step.replaces.is_some_and(|id| id <= 0) {
        return Some("has a `replaces` that is no id");
    }
    let Some(subject) = subject(step) else { return Some("does not say what it is about") };
    let mut steps: Vec<u32> = subject.steps().collect();
    steps.sort_unstable();
    if steps != step.waits_for || !stands(&subject, before) {
        return Some("waits for a step that does not create what it needs");
    }
    let made = request(step.resource, step.verb, &subject, body(step));
    (made.as_ref() != Some(&step.request)).then_some("holds another request than it says")
}

/// Whether what it creates, or gives something to, is called so in the plan.
/// What the account has is called so in the account: [`verify_step::describes_state`].
fn is_called_so(step: &PlanStep, before: &[PlanStep]) -> bool {
    let owner = |after: &JsonFields| {
        let owner = after.get("channel").or_else(|| after.get("campaign"))?;
        match ResolvedRef::from_json(owner)? {
            // Each stands where its number says.
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

/// What a step is about, from everything but its request.
fn subject(step: &PlanStep) -> Option<RequestSubject> {
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
            let told = order::assigned(&subject) == step.after && step.id == known;
            (told && step.key == order::assigned_key(&subject)?).then_some(subject)
        }
        _ => None,
    }
}

/// Whether the steps that a subject stands on create what it needs.
fn stands(subject: &RequestSubject, before: &[PlanStep]) -> bool {
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

/// The body that a step's `after` asks for. What the API requires beside it has
/// no other place than the request; only such a field is taken from there, and
/// held against the account by [`verify_step::describes_state`] before it is sent.
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
