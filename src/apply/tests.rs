//! Steps and records made by hand, for tests.

use serde_json::Value as Json;

use crate::apply::reconcile::RecordMap;
use crate::change::plan::{PlanStep, PlannedRequest};
use crate::model::{DecodedRecord, Resource, Verb};

/// A step with the given request.
pub fn step(
    number: u32,
    resource: Resource,
    verb: Verb,
    path: &str,
    body: Option<Json>,
) -> PlanStep {
    use crate::model::spec::Method;
    let method = resource.spec().endpoint(verb).map_or(Method::Post, |it| it.method);
    let body = body.map(|body| body.as_object().unwrap().clone());
    PlanStep {
        step: number,
        resource,
        verb,
        key: format!("k{number}"),
        name: String::new(),
        id: None,
        before: None,
        after: body.clone(),
        request: PlannedRequest { method, path: path.to_owned(), body },
        waits_for: Vec::new(),
        reversible: true,
        verifiable: true,
        remark: None,
        replaces: None,
        origin: None,
        fingerprint: None,
        source: None,
    }
}

/// Records decoded from the JSON of a list.
pub fn records(resource: Resource, raw: &[String]) -> RecordMap {
    let decoded = raw.iter().map(|raw| DecodedRecord::read(resource, None, raw).unwrap().record);
    decoded.map(|record| (record.key.clone(), record.into_owned())).collect()
}
