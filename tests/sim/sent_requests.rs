//! Compares the requests that arrived at the service with the plan.

use linkvault::api::http::Method;
use linkvault::change::plan::{Plan, PlanStep};
use linkvault::model::{Resource, Verb};
use linkvault::sandbox::service::LogEntry;
use linkvault::vault::journal::{JournalStep, StepState};
use serde_json::Value;

use super::world::World;

/// A write: its method, its path and its body.
pub type Write = (String, String, Value);

fn write(entry: &LogEntry) -> Write {
    let body = entry.body.as_deref().map(|body| serde_json::from_slice(body).unwrap());
    (entry.method.as_str().to_owned(), entry.path.clone(), body.unwrap_or_default())
}

/// The writes that reached the service since its log was cleared.
pub fn arrived(world: &World) -> Vec<Write> {
    let service = world.service();
    service.log().iter().filter(|it| it.method != Method::Get).map(write).collect()
}

/// The request of a step, with the ids of records created by earlier steps.
fn planned(step: &PlanStep, rows: &[JournalStep]) -> Write {
    let mut path = step.request.path.clone();
    for on in &step.waits_for {
        if let Some(id) = rows[*on as usize - 1].id {
            path = path.replace(&format!("{{{on}}}"), &id.to_string());
        }
    }
    let body = step.request.body.clone().map(Value::Object).unwrap_or_default();
    (step.request.method.as_str().to_owned(), path, body)
}

/// Whether another user's edit of a channel may have the effect of this step by chance.
fn others_may_do(step: &PlanStep) -> bool {
    let is_drawn = |name: &String| matches!(name.as_str(), "starred" | "description");
    (step.verb, step.resource) == (Verb::Update, Resource::Channels)
        && step.after.iter().flat_map(|it| it.keys()).all(is_drawn)
}

/// Asserts that only planned requests were sent, no create was executed twice, and every done step
/// was sent. `alone`: no other user deletes a created record, which would have to be created again.
/// `quiet`: each step is one request.
#[track_caller]
pub fn as_planned(world: &World, plan: &Plan, rows: &[JournalStep], alone: bool, quiet: bool) {
    let all: Vec<_> = plan.steps.iter().map(|step| planned(step, rows)).collect();
    let arrived = arrived(world);
    for write in &arrived {
        assert!(all.contains(write), "not planned: {write:?}");
    }
    let wrote: Vec<_> = world.wrote.lock().unwrap().iter().map(write).collect();
    for ((step, row), request) in plan.steps.iter().zip(rows).zip(&all) {
        let at = format!("{step:?} {row:?}");
        let is_sent = arrived.contains(request);
        // Another user may delete or change a record in the way that an unsent step of a killed
        // process would.
        let theirs = !alone && (step.verb == Verb::Delete || others_may_do(step));
        assert!(is_sent || row.state != StepState::Done || theirs, "{at}");
        assert!(!is_sent || row.state != StepState::Skipped, "{at}");
        if step.verb == Verb::Create && alone {
            let times = wrote.iter().filter(|it| *it == request).count();
            assert_eq!(times, usize::from(row.state == StepState::Done), "{at}");
        }
    }
    if quiet {
        let sent: Vec<_> = all
            .iter()
            .zip(rows)
            .filter(|(_, row)| row.state != StepState::Skipped)
            .map(|(it, _)| it.clone())
            .collect();
        assert_eq!(arrived, sent);
    }
}
