//! A plan as a file: what was shown once, to be applied exactly so, and once.
//! Whatever such a file holds is checked against the table before it is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::against::is_bound_assign;
use super::request::{Ref, Subject, request};
use super::{Fields, Plan, Step, claims, labels, order};
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
        plan: Plan,
    ) -> Self {
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
        // Ids that are brought back are all of one account.
        if step.origin.as_deref() != origin.filter(|_| step.replaces.is_some()) {
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

fn fault(step: &Step, number: u32, before: &[Step], bound: bool) -> Option<&'static str> {
    if step.step != number {
        return Some("is not where its number says");
    }
    let all = [step.before.as_ref(), step.after.as_ref(), step.request.body.as_ref()];
    if all.into_iter().flatten().any(|fields| fields.contains_key("password")) {
        return Some("holds a password");
    }
    let is_bound = match step.verb {
        Verb::Update | Verb::Delete => claims::is_bound(step),
        Verb::Assign => is_bound_assign(step, bound),
        _ => !claims::is_bound(step),
    };
    if !is_bound {
        return Some("does not say for which state of its record it was made");
    }
    if !is_called_so(step, before) {
        return Some("is called something that it is not");
    }
    if !labels::are_so(step, None) {
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
/// What the account has is called so in the account: [`claims::is_so`].
fn is_called_so(step: &Step, before: &[Step]) -> bool {
    let owner = |after: &Fields| {
        let owner = after.get("channel").or_else(|| after.get("campaign"))?;
        match Ref::from_json(owner)? {
            // Each stands where its number says.
            Ref::Step(number) => before.get((number as usize).checked_sub(1)?),
            Ref::Id(_) => None,
        }
    };
    match step.verb {
        Verb::Create => claims::is_named(step),
        Verb::Assign => {
            let owner = step.after.as_ref().and_then(owner);
            owner.is_none_or(|owner| owner.name == step.name)
        }
        _ => true,
    }
}

/// What a step is about, from everything but its request.
fn subject(step: &Step) -> Option<Subject> {
    let after = step.after.as_ref();
    let reference = |name: &str| Ref::from_json(after?.get(name)?);
    let keyed = |subject: Subject| {
        let id = step.id?;
        (step.key == id.to_string()).then_some(subject)
    };
    let shape = (step.before.is_some(), after.is_some());
    match (step.verb, step.resource, shape) {
        (Verb::Create, _, (false, true)) if step.id.is_none() => Some(Subject::Unnamed),
        (Verb::Update, Resource::Account, (true, true)) => keyed(Subject::Unnamed),
        (Verb::Update, _, (true, true)) => keyed(Subject::Record(Ref::Id(step.id?))),
        (Verb::Delete, _, (true, false)) => keyed(Subject::Record(Ref::Id(step.id?))),
        (Verb::Assign, resource, (false, true)) => {
            let (subject, id) = if resource == Resource::Campaigns {
                let campaign = reference("campaign")?;
                let link = after?.get("link")?.as_i64()?;
                (Subject::Link { campaign, link }, [campaign, campaign])
            } else {
                let (channel, id) = (reference("channel")?, reference("id")?);
                let kind = after?.get("type")?.as_str()?.to_owned();
                (Subject::Item { channel, kind, id }, [channel, id])
            };
            let known = match id {
                [Ref::Id(_), Ref::Id(id)] => Some(id),
                _ => None,
            };
            let told = order::assigned(&subject) == step.after && step.id == known;
            (told && step.key == order::assigned_key(&subject)?).then_some(subject)
        }
        _ => None,
    }
}

/// Whether the steps that a subject stands on create what it needs.
fn stands(subject: &Subject, before: &[Step]) -> bool {
    let creates = |it: Ref, resource: Resource| match it {
        Ref::Id(_) => true,
        Ref::Step(number) => {
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let step = place.and_then(|place| before.get(place));
            step.is_some_and(|step| step.verb == Verb::Create && step.resource == resource)
        }
    };
    match subject {
        Subject::Item { channel, kind, id } => {
            let made = matches!(id, Ref::Id(_)) || kind == "qr";
            made && creates(*channel, Resource::Channels) && creates(*id, Resource::QrCodes)
        }
        Subject::Link { campaign, .. } => creates(*campaign, Resource::Campaigns),
        Subject::Record(Ref::Step(_)) => false,
        _ => true,
    }
}

/// The body that a step's `after` asks for. What the API requires beside it has
/// no other place than the request; only such a field is taken from there, and
/// held against the account by [`claims::is_so`] before it is sent.
fn body(step: &Step) -> Option<Fields> {
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
mod tests {
    use super::*;
    use crate::change::plan::against::against;
    use crate::change::plan::tests::{everything, lifelike, told};
    use crate::change::plan::{Current, Memory, fingerprint};
    use crate::model::Key;
    use proptest::prelude::*;
    use serde_json::json;

    fn saved() -> SavedPlan {
        let whose = ("main", "https://links.example.com", Some(7));
        SavedPlan::new(whose, 1_700_000_000_000, (30, 5), everything())
    }

    /// The file with one thing changed, and its sum made to agree.
    fn forged(pointer: &str, value: Json) -> Result<SavedPlan, SavedPlanError> {
        let mut json = serde_json::to_value(saved()).unwrap();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = json.pointer_mut(parent).unwrap();
        match parent {
            Json::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        let sum = digest(&json);
        json[DIGEST] = sum.into();
        read(json.to_string().as_bytes())
    }

    #[test]
    fn a_saved_plan_reads_back_as_it_was() {
        let saved = saved();
        assert_eq!(read(saved.to_json().as_bytes()), Ok(saved.clone()));
        assert!(!told(&saved.plan).is_empty());
    }

    #[test]
    fn an_edited_plan_is_refused_and_another_layout_is_not() {
        let text = saved().to_json();
        let edited = text.replacen("\"main\"", "\"other\"", 1);
        assert_eq!(read(edited.as_bytes()), Err(SavedPlanError::Changed));
        let json: Json = serde_json::from_str(&text).unwrap();
        assert!(read(sorted(&json).to_string().as_bytes()).is_ok());
    }

    #[test]
    fn a_forged_step_is_refused_whatever_its_sum_says() {
        let of = |verb: &str, resource: &str| {
            let steps = saved().plan.steps;
            let is = |step: &&Step| step.verb.name() == verb && step.resource.name() == resource;
            steps.iter().rfind(is).unwrap().step as usize - 1
        };
        let update = format!("/steps/{}", of("update", "campaigns"));
        let item = format!("/steps/{}", of("assign", "channel_items"));
        let delete = format!("/steps/{}", of("delete", "campaigns"));
        let create = format!("/steps/{}", of("create", "campaigns"));
        let forgeries = [
            (format!("{update}/request/path"), json!("/api/campaign/9/delete")),
            (format!("{update}/request/method"), json!("DELETE")),
            (format!("{update}/request/body/slug"), json!("x")),
            (format!("{update}/request/body/password"), json!("x")),
            (format!("{update}/after/password"), json!("x")),
            (format!("{update}/id"), json!(99)),
            (format!("{update}/step"), json!(99)),
            (format!("{item}/waits_for"), json!([])),
            (format!("{item}/waits_for"), json!([u32::MAX])),
            (format!("{item}/after/type"), json!("../..")),
            (format!("{item}/after/channel"), json!("{1}")),
            (format!("{delete}/request/path"), json!("/api/campaign/{1}/delete")),
            (format!("{delete}/after"), json!({})),
            (format!("{update}/reversible"), json!(false)),
            (format!("{update}/verifiable"), json!(false)),
            (format!("{update}/remark"), json!("all is well")),
            (format!("{update}/replaces"), json!(5)),
            (format!("{delete}/reversible"), json!(true)),
            (format!("{delete}/remark"), json!(null)),
            (format!("{item}/reversible"), json!(true)),
            (format!("{create}/reversible"), json!(false)),
            (format!("{create}/origin"), json!("https://old.example.com#3")),
        ];
        for (pointer, value) in forgeries {
            let found = forged(&pointer, value.clone());
            assert!(
                matches!(found, Err(SavedPlanError::Step { .. })),
                "{pointer} {value} {found:?}"
            );
        }
        assert!(forged("/id", json!("../x")).is_err());
        for origin in ["", "https://links.example.com", "#x"] {
            let foreign = json!({"origin": origin, "matched": []});
            assert!(forged("/foreign", foreign).is_err(), "{origin}");
        }
        assert_eq!(forged("/format", json!(2)), Err(SavedPlanError::Format(2)));
        assert!(forged("/made", json!(1)).is_ok(), "what the sum guards, and nothing else");
    }

    #[test]
    fn what_is_sent_never_changes_unless_what_is_shown_does() {
        let shown = |plan: &Plan| {
            let mut text = String::new();
            crate::change::render::text(plan, &mut text).map(|()| text)
        };
        let saved = saved();
        let whole = serde_json::to_value(&saved).unwrap();
        for odd in [json!("Old"), json!(true)] {
            for at in 0.. {
                let (mut json, mut left) = (whole.clone(), at);
                replace(&mut json, &mut left, &odd);
                if left <= usize::MAX / 2 {
                    break;
                }
                let sum = digest(&json);
                json[DIGEST] = sum.into();
                let Ok(found) = read(json.to_string().as_bytes()) else { continue };
                if all_is_so(&found.plan) && told(&found.plan) != told(&saved.plan) {
                    assert_ne!(shown(&found.plan), shown(&saved.plan), "{at} {odd}");
                }
            }
        }
    }

    /// Whether steps tell the truth of the account that the plan is for.
    fn all_is_so(plan: &Plan) -> bool {
        let (state, memory) = (lifelike(), Memory::default());
        plan.steps
            .iter()
            .all(|step| claims::is_so(step, Current { state: &state, memory: &memory }))
    }

    /// Members that a step may have, and such as it never has.
    const OPTIONAL: [&str; 9] = [
        "id",
        "replaces",
        "origin",
        "remark",
        "fingerprint",
        "source",
        "waits_for",
        "waits_fo",
        "verifiable ",
    ];

    /// Whether each step is for the records that the account has.
    fn all_are_as_planned(plan: &Plan) -> bool {
        let state = lifelike();
        let is = |it: super::super::against::Against<'_>| {
            let record = state.get(it.resource).and_then(|all| all.get(&Key::Id(it.id)));
            record.is_some_and(|record| fingerprint(it.resource, record) == it.fingerprint)
        };
        plan.steps.iter().flat_map(against).all(is)
    }

    #[test]
    fn no_field_of_any_step_can_be_altered_unseen() {
        let whole = serde_json::to_value(saved()).unwrap();
        let steps = whole["steps"].as_array().unwrap().clone();
        let odd = |old: &Json| {
            let mut odd =
                vec![json!(null), json!(true), json!(false), json!(0), json!(-1), json!(1)];
            odd.extend([json!(2), json!(99), json!(""), json!("x"), json!("{1}"), json!([])]);
            odd.extend([json!([1]), json!([1, 2]), json!([0]), json!({}), json!("4"), json!(4)]);
            match old {
                Json::Array(all) => {
                    let (mut more, mut less) = (all.clone(), all.clone());
                    more.extend(all.last().cloned());
                    less.pop();
                    odd.extend([json!(more), json!(less)]);
                    for number in 1..=steps.len() {
                        let mut more = all.clone();
                        more.push(json!(number));
                        odd.push(json!(more));
                    }
                }
                Json::String(text) => {
                    odd.extend([json!(format!("{text} ")), json!(text.to_uppercase())])
                }
                _ => {}
            }
            odd
        };
        let shown = |plan: &Plan| {
            let mut text = String::new();
            crate::change::render::text(plan, &mut text).map(|()| text)
        };
        let mut accepted = Vec::new();
        for (nth, step) in steps.iter().enumerate() {
            let mut names: Vec<String> = step.as_object().unwrap().keys().cloned().collect();
            for name in OPTIONAL {
                if !names.iter().any(|it| it == name) {
                    names.push(name.to_owned());
                }
            }
            for name in names {
                let old = step.get(&name).cloned().unwrap_or_default();
                let mut values: Vec<_> = odd(&old).into_iter().map(Some).collect();
                values.push(None);
                for value in values {
                    let mut json = whole.clone();
                    let members = json["steps"][nth].as_object_mut().unwrap();
                    match &value {
                        Some(value) => drop(members.insert(name.clone(), value.clone())),
                        None => drop(members.shift_remove(&name)),
                    }
                    if json == whole {
                        continue;
                    }
                    let sum = digest(&json);
                    json[DIGEST] = sum.into();
                    let Ok(found) = read(json.to_string().as_bytes()) else { continue };
                    // Where a row stood is for messages alone; what is shown is seen.
                    let seen = shown(&found.plan) != shown(&saved().plan) || name == "source";
                    if !seen && all_is_so(&found.plan) && all_are_as_planned(&found.plan) {
                        accepted.push(format!("{nth} {name}: {old} -> {value:?}"));
                    }
                }
            }
        }
        assert!(accepted.is_empty(), "{}", accepted.join("\n"));
    }

    #[test]
    fn what_a_forged_step_says_of_the_account_is_not_so() {
        assert!(all_is_so(&saved().plan));
        let steps = saved().plan.steps;
        let of = |verb: Verb, resource: Resource| {
            let step = steps.iter().rfind(|it| (it.verb, it.resource) == (verb, resource));
            format!("/steps/{}", step.unwrap().step - 1)
        };
        let campaign = of(Verb::Update, Resource::Campaigns);
        let code = of(Verb::Update, Resource::QrCodes);
        let delete = of(Verb::Delete, Resource::Campaigns);
        for (pointer, value) in [
            (format!("{campaign}/request/body/name"), json!("Winter")),
            (format!("{campaign}/before/public"), json!(true)),
            (format!("{campaign}/before/name"), json!("Spring")),
            (format!("{campaign}/name"), json!("Winter")),
            (format!("{delete}/name"), json!("Spring")),
            (format!("{delete}/before/name"), json!("Spring")),
            (format!("{delete}/before"), json!({})),
            ("/steps/10/name".to_owned(), json!("Old")),
        ] {
            let found = forged(&pointer, value);
            assert!(found.is_ok_and(|found| !all_is_so(&found.plan)), "{pointer}");
        }
        for (pointer, value) in [
            (format!("{campaign}/fingerprint"), json!(null)),
            (format!("{delete}/fingerprint"), json!(null)),
            // What it replaces would be known, and it says that it is not.
            (format!("{code}/before/data"), json!("https://example.org")),
            ("/steps/6/name".to_owned(), json!("Old")),
            ("/steps/6/key".to_owned(), json!("Old")),
            ("/steps/11/name".to_owned(), json!("Old")),
        ] {
            let found = forged(&pointer, value);
            assert!(matches!(found, Err(SavedPlanError::Step { .. })), "{pointer} {found:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn a_flipped_byte_never_changes_what_is_applied(at in any::<usize>(), byte in any::<u8>()) {
            let saved = saved();
            let mut bytes = saved.to_json().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(found) = read(&bytes) {
                prop_assert_eq!(found, saved);
            }
        }

        #[test]
        fn a_value_anywhere_replaced_never_makes_it_panic(at in 0..400_usize, odd in 0..6_usize) {
            let mut json = serde_json::to_value(saved()).unwrap();
            let odd = [json!(null), json!(-1), json!(""), json!([]), json!({}), json!("{1}")][odd].clone();
            replace(&mut json, &mut at.clone(), &odd);
            let sum = digest(&json);
            json[DIGEST] = sum.into();
            if let Ok(found) = read(json.to_string().as_bytes()) {
                prop_assert_eq!(check(&found.plan, found.bound), Ok(()));
            }
        }
    }

    /// Replaces the value that is reached after `left` others; `left` is huge then.
    fn replace(json: &mut Json, left: &mut usize, odd: &Json) {
        let inner: Vec<&mut Json> = match json {
            Json::Array(items) => items.iter_mut().collect(),
            Json::Object(members) => members.values_mut().collect(),
            _ => Vec::new(),
        };
        for value in inner {
            if *left == 0 {
                *value = odd.clone();
                *left = usize::MAX;
                return;
            }
            *left -= 1;
            replace(value, left, odd);
            if *left > usize::MAX / 2 {
                return;
            }
        }
    }
}
