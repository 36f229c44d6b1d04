//! Tests of saved plans: unchanged, edited and forged ones.

use super::*;
use crate::change::plan::fingerprints::fingerprints;
use crate::change::plan::tests::{plan_with_every_verb, requests, sample_state};
use crate::change::plan::{AccountMemory, CurrentState, fingerprint};
use crate::model::RecordKey;
use proptest::prelude::*;
use serde_json::json;

fn saved() -> SavedPlan {
    let whose = ("main", "https://links.example.com", Some(7));
    SavedPlan::new(
        whose,
        1_700_000_000_000,
        RequestRate { limit: 30, reserve: 5 },
        plan_with_every_verb(),
    )
}

/// Reads the file with one value changed and the digest updated.
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
    assert!(!requests(&saved.plan).is_empty());
}

#[test]
fn an_edited_plan_is_refused_and_a_reformatted_one_is_not() {
    let text = saved().to_json();
    let edited = text.replacen("\"main\"", "\"other\"", 1);
    assert_eq!(read(edited.as_bytes()), Err(SavedPlanError::Changed));
    let json: Json = serde_json::from_str(&text).unwrap();
    assert!(read(sorted(&json).to_string().as_bytes()).is_ok());
}

#[test]
fn a_forged_step_is_refused_even_with_a_valid_checksum() {
    let of = |verb: &str, resource: &str| {
        let steps = saved().plan.steps;
        let is = |step: &&PlanStep| step.verb.name() == verb && step.resource.name() == resource;
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
        assert!(matches!(found, Err(SavedPlanError::Step { .. })), "{pointer} {value} {found:?}");
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
fn a_changed_request_is_always_displayed() {
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
            if describes_account(&found.plan) && requests(&found.plan) != requests(&saved.plan) {
                assert_ne!(shown(&found.plan), shown(&saved.plan), "{at} {odd}");
            }
        }
    }
}

/// Whether all steps agree with the account.
fn describes_account(plan: &Plan) -> bool {
    let (state, memory) = (sample_state(), AccountMemory::default());
    plan.steps.iter().all(|step| {
        verify_step::describes_state(step, CurrentState { state: &state, memory: &memory })
    })
}

/// Members that a step may have, and misspelt ones.
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

/// Whether all fingerprints agree with the account.
fn matches_fingerprints(plan: &Plan) -> bool {
    let state = sample_state();
    let is = |it: crate::change::plan::fingerprints::RecordFingerprint<'_>| {
        let record = state.get(it.resource).and_then(|all| all.get(&RecordKey::Id(it.id)));
        record.is_some_and(|record| fingerprint(it.resource, record) == it.fingerprint)
    };
    plan.steps.iter().flat_map(fingerprints).all(is)
}

#[test]
fn every_altered_field_of_a_step_is_rejected_or_displayed() {
    let whole = serde_json::to_value(saved()).unwrap();
    let steps = whole["steps"].as_array().unwrap().clone();
    let odd = |old: &Json| {
        let mut odd = vec![json!(null), json!(true), json!(false), json!(0), json!(-1), json!(1)];
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
                // The source of a row is used only for messages; other displayed changes are
                // visible.
                let seen = shown(&found.plan) != shown(&saved().plan) || name == "source";
                if !seen && describes_account(&found.plan) && matches_fingerprints(&found.plan) {
                    accepted.push(format!("{nth} {name}: {old} -> {value:?}"));
                }
            }
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

#[test]
fn a_forged_step_contradicts_the_account() {
    assert!(describes_account(&saved().plan));
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
        assert!(found.is_ok_and(|found| !describes_account(&found.plan)), "{pointer}");
    }
    for (pointer, value) in [
        (format!("{campaign}/fingerprint"), json!(null)),
        (format!("{delete}/fingerprint"), json!(null)),
        // `before` has a value, but `remark` says that it is not known.
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
    fn no_replaced_value_causes_a_panic(at in 0..400_usize, odd in 0..6_usize) {
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

/// Replaces the value after `left` others; `left` is then close to `usize::MAX`.
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
