//! Compares the sandbox with the service's document, by its public API only.

mod behaviours;
mod command;
mod endpoints;
mod limits;
mod lists;
mod refusals;
mod resource_table;
mod socket;
mod writes;

use linkvault::api::http::{ApiKey, Method, Request, Response};
use linkvault::clock::Timestamp;
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService, Store};
use serde_json::Value;

const NOW: Timestamp = Timestamp(1_763_640_000_000);
const KEY: &str = "good-key";

/// A service with a clock that only the test moves.
struct TestService {
    service: SandboxService,
    now: Timestamp,
}

impl TestService {
    /// The sample account without a rate limit.
    fn new(behaviour: &str) -> Self {
        let mut service = Self::limited(behaviour);
        service.service.behaviour_mut().set("rate-limit", "none").unwrap();
        service
    }

    /// The sample account with its rate limit.
    fn limited(behaviour: &str) -> Self {
        Self::with(sample_account(NOW), behaviour)
    }

    fn with(store: Store, behaviour: &str) -> Self {
        let behaviour = Behaviour::parse(behaviour).unwrap();
        Self { service: SandboxService::new(store, ApiKey::new(KEY), behaviour), now: NOW }
    }

    fn send(&mut self, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = Request {
            method,
            path: path.to_owned(),
            key: Some(ApiKey::new(KEY)),
            body: body.map(|body| body.to_string().into_bytes()),
        };
        self.service.handle(self.now, &request)
    }

    fn get(&mut self, path: &str) -> Value {
        json(&self.send(Method::Get, path, None))
    }

    fn post(&mut self, path: &str, body: Value) -> Value {
        json(&self.send(Method::Post, path, Some(body)))
    }

    fn put(&mut self, path: &str, body: Value) -> Value {
        json(&self.send(Method::Put, path, Some(body)))
    }

    fn delete(&mut self, path: &str) -> Value {
        json(&self.send(Method::Delete, path, None))
    }
}

fn json(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}
