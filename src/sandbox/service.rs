//! The service: answers one request. Pure: no IO, and the caller passes the time. Paths are in
//! `routes`, the handlers in `reads` and `writes`, the JSON form in `render`.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::behaviour::{
    Authorization, BadKey, Behaviour, CreateStatus, DateHeader, ErrorStatus, ErrorType,
    NotOfferedStatus, RateHeaders, RetryAfter, Throttle, ThrottleError, UnknownPath,
};
use super::fields::RequestRefusal;
use super::limiter::{LimitDecision, Limiter, reset_text, wait_seconds};
use super::reads::Reader;
use super::render::Object;
use super::routes::{Lookup, Route, find};
use super::store::Store;
use super::wire;
use super::writes::{Answer, WriteHandler};
use crate::api::http::{ApiKey, Method, Request, Response};
use crate::clock::Timestamp;

/// One handled request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Time by the service's own clock, which may be ahead.
    pub at: Timestamp,
    /// HTTP method.
    pub method: Method,
    /// Path with query.
    pub path: String,
    /// Body of the request.
    pub body: Option<Vec<u8>>,
    /// HTTP status of the response.
    pub status: u16,
    /// Whether it was refused because of the rate limit, so not executed.
    pub throttled: bool,
}

/// Counts of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceTotals {
    /// All requests that reached the service.
    pub handled: u64,
    /// Requests that the rate limit refused.
    pub throttled: u64,
}

/// The service of one account.
#[derive(Debug, Clone)]
pub struct SandboxService {
    store: Store,
    key: ApiKey,
    behaviour: Behaviour,
    prefix: String,
    limiter: Limiter,
    log: VecDeque<LogEntry>,
    log_limit: usize,
    totals: ServiceTotals,
    revision: u64,
    /// Accepted requests, with the time at which each is executed.
    late: Vec<(Timestamp, Request)>,
}

impl SandboxService {
    /// A service that accepts `key`.
    #[must_use]
    pub fn new(store: Store, key: ApiKey, behaviour: Behaviour) -> Self {
        Self {
            store,
            key,
            behaviour,
            prefix: String::new(),
            limiter: Limiter::default(),
            log: VecDeque::new(),
            log_limit: usize::MAX,
            totals: ServiceTotals::default(),
            revision: 0,
            late: Vec::new(),
        }
    }

    /// Serves only paths under `prefix`, such as `/links` + `/api/account`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Keeps only the last `entries` requests in the log; 0 for no log.
    #[must_use]
    pub fn with_log_limit(mut self, entries: usize) -> Self {
        self.log_limit = entries;
        let over = self.log.len().saturating_sub(entries);
        self.log.drain(..over);
        self
    }

    /// The current data of the account.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Changes the account without the API, like a second user.
    pub fn mutate<T>(&mut self, change: impl FnOnce(&mut Store) -> T) -> T {
        self.revision += 1;
        change(&mut self.store)
    }

    /// Increases with every change of the store.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The current behaviour.
    #[must_use]
    pub const fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// The behaviour, to change it from the next request on.
    pub const fn behaviour_mut(&mut self) -> &mut Behaviour {
        &mut self.behaviour
    }

    /// The requests handled so far, oldest first.
    #[must_use]
    pub const fn log(&self) -> &VecDeque<LogEntry> {
        &self.log
    }

    /// Clears the log, but not the totals.
    pub fn clear_log(&mut self) {
        self.log.clear();
    }

    /// Counts of requests so far.
    #[must_use]
    pub const fn totals(&self) -> ServiceTotals {
        self.totals
    }

    /// Accepts a request at `now`, and executes it only at `due`.
    pub fn accept_late(&mut self, now: Timestamp, due: Timestamp, request: &Request) {
        let now = self.server_time(now);
        let admitted = self.limiter.admit(now, &self.behaviour).allowed;
        if admitted && request.method != Method::Get {
            self.late.push((self.server_time(due), request.clone()));
            self.revision += 1;
            self.add_to_log(now, request, &wire::html(504, "Gateway Timeout"), false);
        }
    }

    /// Executes the accepted requests that are due at `now`, as the next request does first.
    pub fn execute_late(&mut self, now: Timestamp) {
        let now = self.server_time(now);
        let late = std::mem::take(&mut self.late);
        let (due, rest) = late.into_iter().partition::<Vec<_>, _>(|(due, _)| *due <= now);
        self.late = rest;
        for (due, request) in due {
            self.answer(due, &request);
        }
    }

    /// Answers one request at `now`.
    pub fn handle(&mut self, now: Timestamp, request: &Request) -> Response {
        self.execute_late(now);
        let now = self.server_time(now);
        let decision = self.limiter.admit(now, &self.behaviour);
        let response = if decision.allowed {
            self.answer(now, request)
        } else {
            self.throttled(now, decision)
        };
        self.finish(now, request, decision, response)
    }

    /// Refuses one request because of the rate limit, even if it is not reached.
    pub fn refuse_for_limit(&mut self, now: Timestamp, request: &Request) -> Response {
        let now = self.server_time(now);
        let counted = self.limiter.admit(now, &self.behaviour);
        let decision = LimitDecision { allowed: false, remaining: 0, ..counted };
        let response = self.throttled(now, decision);
        self.finish(now, request, decision, response)
    }

    fn server_time(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_add(self.behaviour.skew.saturating_mul(1000)))
    }

    fn finish(
        &mut self,
        now: Timestamp,
        request: &Request,
        decision: LimitDecision,
        mut response: Response,
    ) -> Response {
        self.add_to_log(now, request, &response, !decision.allowed);
        if self.behaviour.rate_headers == RateHeaders::Yes {
            let reset = reset_text(decision.reset, now, self.behaviour.reset);
            response.headers.extend([
                ("x-ratelimit-limit".to_owned(), decision.limit.to_string()),
                ("x-ratelimit-remaining".to_owned(), decision.remaining.to_string()),
                ("x-ratelimit-reset".to_owned(), reset),
            ]);
        }
        if self.behaviour.date_header == DateHeader::Yes {
            response.headers.push(("date".to_owned(), wire::http_date(now)));
        }
        response
    }

    fn add_to_log(
        &mut self,
        at: Timestamp,
        request: &Request,
        response: &Response,
        throttled: bool,
    ) {
        self.totals.handled += 1;
        self.totals.throttled += u64::from(throttled);
        if self.log_limit == 0 {
            return;
        }
        if self.log.len() >= self.log_limit {
            self.log.pop_front();
        }
        self.log.push_back(LogEntry {
            at,
            method: request.method,
            path: request.path.clone(),
            body: request.body.clone(),
            status: response.status,
            throttled,
        });
    }

    fn throttled(&self, now: Timestamp, decision: LimitDecision) -> Response {
        let behaviour = &self.behaviour;
        let wait = wait_seconds(decision.reset, now);
        let title = "Too Many Requests";
        let mut response = match behaviour.throttle {
            Throttle::Json429 => wire::json(429, self.throttle_body(wait), behaviour),
            Throttle::Json200 => wire::json(200, self.throttle_body(wait), behaviour),
            Throttle::Html429 => wire::html(429, title),
            Throttle::Html503 => wire::html(503, "Service Temporarily Unavailable"),
        };
        if matches!(behaviour.retry_after, RetryAfter::Header | RetryAfter::Both) {
            response.headers.push(("retry-after".to_owned(), wait.to_string()));
        }
        response
    }

    fn throttle_body(&self, wait: u64) -> Object {
        let error = match self.behaviour.throttle_error {
            ThrottleError::Status => json!(429),
            ThrottleError::One => json!(1),
        };
        let mut body = Object::new();
        body.insert("error".to_owned(), error);
        body.insert("message".to_owned(), json!("Too Many Requests. Please try again later."));
        if matches!(self.behaviour.retry_after, RetryAfter::Body | RetryAfter::Both) {
            body.insert("Retry-After".to_owned(), json!(wait));
        }
        body
    }

    fn answer(&mut self, now: Timestamp, request: &Request) -> Response {
        if let Some(target) = &self.behaviour.redirect.0 {
            return redirect(target, &request.path);
        }
        match self.execute(now, request) {
            Ok(answer) => self.success(answer),
            Err(refusal) => self.failure(&refusal),
        }
    }

    fn execute(&mut self, now: Timestamp, request: &Request) -> Result<Answer, RequestRefusal> {
        self.admit_key(request.key.as_ref())?;
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let path =
            path.strip_prefix(self.prefix.as_str()).ok_or_else(RequestRefusal::wrong_path)?;
        let route = match find(request.method, path) {
            Lookup::Found(route) => route,
            Lookup::WrongMethod => return Err(RequestRefusal::wrong_method()),
            Lookup::Unknown => return Err(RequestRefusal::wrong_path()),
        };
        self.check_offered(&route)?;
        if request.method == Method::Get {
            let reader = Reader { store: &self.store, behaviour: &self.behaviour, now };
            return reader.read(&route, query);
        }
        let mut writer = WriteHandler { store: &mut self.store, behaviour: &self.behaviour, now };
        let answer = writer.write(route, request.body.as_deref())?;
        self.revision += 1;
        Ok(answer)
    }

    fn admit_key(&self, key: Option<&ApiKey>) -> Result<(), RequestRefusal> {
        let arrived = key.filter(|_| self.behaviour.authorization == Authorization::Read);
        if arrived == Some(&self.key) {
            return Ok(());
        }
        let status = match self.behaviour.bad_key {
            BadKey::Forbidden => 403,
            BadKey::Unauthorized => 401,
            BadKey::Ok => 200,
        };
        Err(RequestRefusal::new(status, "A valid API key is required to use this service."))
    }

    fn check_offered(&self, route: &Route) -> Result<(), RequestRefusal> {
        if !self.behaviour.not_offered.0.contains(&route.part()) {
            return Ok(());
        }
        Err(match self.behaviour.not_offered_status {
            NotOfferedStatus::NotFound => RequestRefusal::wrong_path(),
            NotOfferedStatus::Forbidden => {
                RequestRefusal::new(403, "Your plan does not include this feature.")
            }
        })
    }

    fn success(&self, answer: Answer) -> Response {
        let (status, error, fields) = match answer {
            Answer::List(data) => {
                let mut fields = Object::new();
                fields.insert("data".to_owned(), Value::Object(data));
                (200, self.error_value(true, 0), fields)
            }
            Answer::Plain(fields) => (200, self.error_value(false, 0), fields),
            Answer::Created(fields) => {
                let created = self.behaviour.create_status == CreateStatus::Created;
                (if created { 201 } else { 200 }, self.error_value(false, 0), fields)
            }
        };
        let mut body = Object::new();
        body.insert("error".to_owned(), error);
        body.extend(fields);
        wire::json(status, body, &self.behaviour)
    }

    fn failure(&self, refusal: &RequestRefusal) -> Response {
        if matches!(refusal.status, 404 | 405)
            && refusal.message.ends_with("address.")
            && self.behaviour.unknown_path == UnknownPath::Html
        {
            return wire::html(refusal.status, "Not Found");
        }
        let status = match self.behaviour.error_status {
            ErrorStatus::Fitting => refusal.status,
            ErrorStatus::Ok => 200,
        };
        let mut body = Object::new();
        body.insert("error".to_owned(), self.error_value(false, 1));
        body.insert("message".to_owned(), json!(refusal.message));
        wire::json(status, body, &self.behaviour)
    }

    fn error_value(&self, list: bool, error: u8) -> Value {
        match self.behaviour.error_type {
            ErrorType::Documented if list => json!(error.to_string()),
            ErrorType::Documented | ErrorType::Integer => json!(error),
            ErrorType::Text => json!(error.to_string()),
        }
    }
}

fn redirect(target: &str, path: &str) -> Response {
    let mut response = wire::html(301, "Moved Permanently");
    response.headers.push(("location".to_owned(), format!("{target}{path}")));
    response
}
