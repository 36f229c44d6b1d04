//! Random plans made without the planner, and checks that an account is as expected.

use std::collections::BTreeSet;

use linkvault::change::plan::{Plan, PlanStep, PlannedRequest};
use linkvault::model::equality::loosened;
use linkvault::model::{Resource, Verb};
use linkvault::sandbox::Store;
use linkvault::sandbox::second_user::random_change;
use linkvault::vault::Vault;
use linkvault::vault::journal::{JournalStep, StepState};
use serde_json::{Value, json};

/// Appends a step to a plan.
pub fn add(
    plan: &mut Plan,
    resource: Resource,
    verb: Verb,
    path: &str,
    body: Option<Value>,
) -> u32 {
    let step = plan.steps.len() as u32 + 1;
    let body = body.map(|body| body.as_object().unwrap().clone());
    let method = resource.spec().endpoint(verb).unwrap().method;
    let id = path.split('/').filter_map(|part| part.parse().ok()).next();
    plan.steps.push(PlanStep {
        step,
        resource,
        verb,
        key: format!("{step}"),
        name: String::new(),
        id: id.filter(|_| verb != Verb::Assign),
        before: None,
        after: body.clone(),
        request: PlannedRequest { method, path: path.to_owned(), body },
        waits_for: waits_for(path),
        reversible: true,
        verifiable: true,
        remark: None,
        replaces: None,
        origin: None,
        fingerprint: None,
        source: None,
    });
    step
}

fn waits_for(path: &str) -> Vec<u32> {
    path.split('{').skip(1).map(|part| part.split('}').next().unwrap().parse().unwrap()).collect()
}

/// A plan of random deletes, updates, assignments and up to `most` creates for the account in
/// `store`.
pub fn draw(store: &Store, rng: &mut fastrand::Rng, codes: bool, most: u64) -> Plan {
    use Resource::{Campaigns, ChannelItems, Channels, Domains, Pixels, QrCodes};
    use Verb::{Assign, Create, Delete, Update};
    let mut plan = Plan::default();
    let all = &mut plan;
    let mut some = |ids: Vec<u64>, most: usize| {
        let mut ids = ids;
        rng.shuffle(&mut ids);
        ids.truncate(rng.usize(..=most));
        ids
    };
    let campaigns = some(store.campaigns.iter().map(|(id, _)| id).collect(), 4);
    let channels = some(store.channels.iter().map(|(id, _)| id).collect(), 4);
    let domains = some(store.domains.iter().map(|(id, _)| id).collect(), 2);
    let gone = some(store.qr_codes.iter().map(|(id, _)| id).collect(), 2);
    let half = campaigns.len() / 2;
    for id in &campaigns[..half] {
        add(all, Campaigns, Delete, &format!("/api/campaign/{id}/delete"), None);
    }
    for id in &gone {
        add(all, QrCodes, Delete, &format!("/api/qr/{id}/delete"), None);
    }
    for id in &domains {
        let body = json!({"redirect404": format!("https://new{id}.example.com/")});
        add(all, Domains, Update, &format!("/api/domain/{id}/update"), Some(body));
    }
    for id in &campaigns[half..] {
        let body = json!({"name": format!("renamed {id}"), "public": true});
        add(all, Campaigns, Update, &format!("/api/campaign/{id}/update"), Some(body));
    }
    for id in &channels {
        let body = json!({"description": format!("about {id}"), "color": "#aB00cD"});
        add(all, Channels, Update, &format!("/api/channel/{id}/update"), Some(body));
    }
    let mut made = Vec::new();
    for nth in 0..rng.u64(1..=most) {
        let name = format!("Made {nth}");
        made.push(match rng.u8(..if codes { 5 } else { 4 }) {
            0 => {
                let body = json!({"domain": format!("https://made{nth}.example.org")});
                (Domains, add(all, Domains, Create, "/api/domain/add", Some(body)))
            }
            1 => {
                let body = json!({"name": name, "slug": format!("made-{nth}"), "public": true});
                (Campaigns, add(all, Campaigns, Create, "/api/campaign/add", Some(body)))
            }
            2 => {
                let body = json!({"name": name, "starred": true});
                (Channels, add(all, Channels, Create, "/api/channel/add", Some(body)))
            }
            3 => {
                let body = json!({"type": "bing", "name": name, "tag": format!("made-{nth}")});
                (Pixels, add(all, Pixels, Create, "/api/pixel/add", Some(body)))
            }
            _ => {
                let body = json!({"type": "text", "data": format!("made {nth}")});
                (QrCodes, add(all, QrCodes, Create, "/api/qr/add", Some(body)))
            }
        });
    }
    let of = |made: &[(Resource, u32)], which| -> Vec<u32> {
        made.iter().filter(|(resource, _)| *resource == which).map(|(_, step)| *step).collect()
    };
    let (codes, new) = (of(&made, QrCodes), of(&made, Channels));
    for (nth, code) in codes.iter().enumerate().filter(|_| !new.is_empty()) {
        let path = format!("/api/channel/{{{}}}/assign/qr/{{{code}}}", new[nth % new.len()]);
        add(all, ChannelItems, Assign, &path, None);
    }
    for channel in &channels {
        let link = rng.u64(2_000_000..3_000_000);
        add(
            all,
            ChannelItems,
            Assign,
            &format!("/api/channel/{channel}/assign/links/{link}"),
            None,
        );
    }
    for campaign in of(&made, Campaigns) {
        let link = rng.u64(1..9_000);
        add(all, Campaigns, Assign, &format!("/api/campaign/{{{campaign}}}/assign/{link}"), None);
    }
    plan
}

/// The records that a plan changes or deletes.
pub fn touched(plan: &Plan) -> Vec<(Resource, u64)> {
    plan.steps.iter().filter_map(|step| Some((step.resource, step.id?.cast_unsigned()))).collect()
}

/// A random change by another user: of a record in `touched` as often as of any other.
pub fn change_as_other_user(
    store: &mut Store,
    touched: &[(Resource, u64)],
    rng: &mut fastrand::Rng,
) {
    let picked = if rng.bool() { rng.choice(touched) } else { None };
    let Some((resource, id)) = picked else { return drop(random_change(store, rng)) };
    let (id, deletes, text) = (*id, rng.u8(..3) == 0, format!("theirs {}", rng.u32(..)));
    // The value in another letter case.
    let loud = rng.u8(..4) == 0;
    macro_rules! edit {
        ($table:ident $field:ident) => {
            match store.$table.get_mut(id) {
                Some(_) if deletes => drop(store.$table.remove(id)),
                Some(row) if loud => row.$field = row.$field.to_uppercase(),
                Some(row) => row.$field = text,
                None => {}
            }
        };
    }
    match resource {
        Resource::Domains => edit!(domains redirectroot),
        Resource::Campaigns => edit!(campaigns name),
        Resource::Channels => edit!(channels description),
        Resource::QrCodes if deletes => drop(store.remove_qr(id)),
        Resource::QrCodes => edit!(qr_codes name),
        _ => {}
    }
}

/// Number of records equal to that of a create.
pub fn times(store: &Store, step: &PlanStep) -> usize {
    let body = step.request.body.as_ref().unwrap();
    let text = |name: &str| loosened(body[name].as_str().unwrap());
    let same = |found: &str, name: &str| loosened(found) == text(name);
    match step.resource {
        Resource::Domains => {
            store.domains.iter().filter(|(_, it)| same(&it.domain, "domain")).count()
        }
        Resource::Campaigns => {
            store.campaigns.iter().filter(|(_, it)| same(&it.name, "name")).count()
        }
        Resource::Channels => {
            store.channels.iter().filter(|(_, it)| same(&it.name, "name")).count()
        }
        Resource::Pixels => store.pixels.iter().filter(|(_, it)| same(&it.tag, "tag")).count(),
        _ => {
            let wanted = Some(&body["data"]);
            store.qr_codes.iter().filter(|(_, it)| it.content.data.as_ref() == wanted).count()
        }
    }
}

/// Whether an account without other users is as its done steps make it.
#[track_caller]
pub fn assert_matches_journal(before: &Store, after: &Store, plan: &Plan, rows: &[JournalStep]) {
    let id_of = |number: u32| rows[number as usize - 1].id.unwrap();
    let mut gone = BTreeSet::new();
    for (step, row) in plan.steps.iter().zip(rows) {
        let at = format!("{step:?} {row:?}");
        if step.verb == Verb::Create {
            let expected = usize::from(row.state == StepState::Done);
            // A person determines the outcome of an unknown step.
            let most = usize::from(row.state == StepState::Unknown).max(expected);
            assert!((expected..=most).contains(&times(after, step)), "{at}");
        }
        if row.state != StepState::Done {
            continue;
        }
        let id = row.id.or(step.id).map(i64::cast_unsigned);
        match (step.verb, step.resource) {
            (Verb::Create, Resource::Campaigns) => {
                let row = after.campaigns.get(id.unwrap()).unwrap();
                let asked = step.request.body.as_ref().unwrap().get("public").is_some();
                assert_eq!(row.public, asked, "{at}");
            }
            (Verb::Create, Resource::QrCodes) => {
                let row = after.qr_codes.get(id.unwrap()).unwrap();
                let data = step.request.body.as_ref().unwrap().get("data");
                assert_eq!(row.content.data.as_ref(), data, "{at}");
            }
            (Verb::Delete, resource) => {
                gone.insert((resource, id.unwrap()));
                // The service may reuse the id for a record that the plan creates.
                let mut made = plan.steps.iter().zip(rows);
                let again = made.any(|(step, row)| {
                    let of = (step.verb, step.resource) == (Verb::Create, resource);
                    // If no list could be read any more, its id is unknown.
                    of && row.id.is_none_or(|made| Some(made.cast_unsigned()) == id)
                });
                let is_there = match resource {
                    Resource::Campaigns => after.campaigns.get(id.unwrap()).is_some(),
                    Resource::QrCodes => after.qr_codes.get(id.unwrap()).is_some(),
                    _ => false,
                };
                assert!(!is_there || again, "{at}");
            }
            (Verb::Update, Resource::Campaigns) => {
                let name = after.campaigns.get(id.unwrap()).unwrap().name.to_lowercase();
                assert_eq!(name, format!("renamed {}", id.unwrap()), "{at}");
            }
            (Verb::Update, Resource::Channels) => {
                let row = after.channels.get(id.unwrap()).unwrap();
                assert_eq!(row.description, format!("about {}", id.unwrap()), "{at}");
            }
            (Verb::Assign, Resource::ChannelItems) => {
                let mut path = step.request.path.clone();
                for on in &step.waits_for {
                    path = path.replace(&format!("{{{on}}}"), &id_of(*on).to_string());
                }
                let parts: Vec<_> = path.split('/').collect();
                let (channel, item): (u64, u64) =
                    (parts[3].parse().unwrap(), parts[6].parse().unwrap());
                let channel = after.channels.get(channel).unwrap();
                let held = channel.items.iter().filter(|it| it.kind == parts[5] && it.id == item);
                assert_eq!(held.count(), 1, "{at}");
            }
            _ => {}
        }
    }
    let kept = |resource, ids: Vec<u64>| {
        ids.into_iter().filter(|id| !gone.contains(&(resource, *id))).collect::<Vec<_>>()
    };
    for id in kept(Resource::Campaigns, before.campaigns.iter().map(|(id, _)| id).collect()) {
        assert!(after.campaigns.get(id).is_some(), "campaign {id} is gone");
    }
    assert_eq!(
        before.channels.iter().filter(|(id, _)| after.channels.get(*id).is_none()).count(),
        0
    );
}

/// Asserts that no created record exists twice.
#[track_caller]
pub fn assert_no_duplicates(store: &Store, plan: &Plan) {
    for step in plan.steps.iter().filter(|step| step.verb == Verb::Create) {
        assert!(times(store, step) <= 1, "{step:?}");
    }
}

/// The journal's steps of the newest run.
pub fn rows(vault: &Vault) -> Vec<JournalStep> {
    let run = vault.runs().unwrap().last().unwrap().number;
    vault.steps(run).unwrap()
}
