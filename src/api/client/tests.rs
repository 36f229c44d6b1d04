//! Tests of the client with a simulated clock and scripted responses.

use super::*;
use crate::api::pacer::StoreOutcome;
use crate::clock::Timestamp;
use std::collections::VecDeque;
use std::sync::Mutex;

/// A clock that moves only by sleeping, and can be interrupted at a given time.
#[derive(Default)]
struct ManualClock {
    now: Mutex<Duration>,
    interrupt_at: Option<Duration>,
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_795_177_885_000).plus(self.monotonic())
    }
    fn monotonic(&self) -> Duration {
        *self.now.lock().unwrap()
    }
    fn sleep(&self, time: Duration) -> SleepOutcome {
        let mut now = self.now.lock().unwrap();
        let end = *now + time;
        *now = self.interrupt_at.map_or(end, |at| end.min(at));
        if *now < end { SleepOutcome::Interrupted } else { SleepOutcome::Finished }
    }
    fn interrupted(&self) -> bool {
        self.interrupt_at.is_some_and(|at| self.monotonic() >= at)
    }
}

type Outcome = Result<Response, TransportError>;

/// A transport with scripted responses that records the requests.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<(VecDeque<Outcome>, Vec<Request>)>>);

impl Transport for Script {
    fn send(&mut self, request: &Request) -> Outcome {
        let mut script = self.0.lock().unwrap();
        script.1.push(request.clone());
        script.0.pop_front().unwrap_or_else(|| Ok(ok()))
    }
}

impl Script {
    fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        Self(Arc::new(Mutex::new((outcomes.into_iter().collect(), Vec::new()))))
    }
    fn sent_requests(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }
}

fn answer(status: u16, body: &str) -> Response {
    Response { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
}

fn ok() -> Response {
    answer(200, r#"{"error":0,"data":{}}"#)
}

fn throttled(after: u64) -> Response {
    answer(429, &format!(r#"{{"error":429,"message":"Too Many Requests","Retry-After":{after}}}"#))
}

fn unknown() -> Outcome {
    Err(TransportError::Unknown("timed out".into()))
}

fn client(script: &Script, clock: &Arc<ManualClock>) -> Client {
    let clock: Arc<dyn Clock> = clock.clone();
    Client::new(Box::new(script.clone()), clock, Pacer::new(0))
        .with_key(ApiKey::new("s3cret-key"))
        .with_seed(7)
}

#[test]
fn a_read_is_retried_after_every_transient_failure() {
    for failure in [
        Err(TransportError::NotSent("refused".into())),
        unknown(),
        Ok(answer(500, r#"{"error":1,"message":"boom"}"#)),
        Ok(answer(502, "<html>bad gateway")),
        Ok(answer(200, r#"{"error":0,"data":{"#)),
        Ok(answer(200, "")),
    ] {
        let (script, clock) = (Script::of([failure.clone(), failure]), Arc::default());
        let mut client = client(&script, &clock);
        assert_eq!(client.get("/api/domains").unwrap(), ok());
        assert_eq!(script.sent_requests(), 3);
        let waited = client.counters().waited.as_secs_f64();
        assert!((3.0..=4.5).contains(&waited), "{waited}");
    }
}

#[test]
fn a_refusal_is_not_retried_and_keeps_its_message() {
    let body = r#"{"error":1,"message":"You already have a campaign with that name."}"#;
    for (status, body) in [(400, body), (200, body), (404, "<html>"), (404, body), (302, "")] {
        let (script, clock) = (Script::of([Ok(answer(status, body))]), Arc::default());
        client(&script, &clock).get("/api/campaigns").unwrap_err();
        assert_eq!(script.sent_requests(), 1, "{status} {body}");
    }
    let (script, clock) = (Script::of([Ok(answer(400, body))]), Arc::default());
    let error = client(&script, &clock).get("/api/campaigns").unwrap_err();
    assert!(error.to_string().contains("You already have a campaign with that name."));
}

#[test]
fn a_response_that_is_not_of_the_api_is_retried_once() {
    let page = || Ok(answer(200, "<html>Welcome"));
    let (script, clock) = (Script::of([page()]), Arc::default());
    assert_eq!(client(&script, &clock).get("/api/domains").unwrap(), ok());
    assert_eq!(script.sent_requests(), 2);
    let script = Script::of([page(), page(), page()]);
    client(&script, &clock).get("/api/domains").unwrap_err();
    assert_eq!(script.sent_requests(), 2);
}

#[test]
fn a_missing_resource_is_not_offered_and_a_missing_record_is_refused() {
    let missing = || Script::of([Ok(answer(404, r#"{"error":1,"message":"Not found."}"#))]);
    let clock = Arc::default();
    let read = client(&missing(), &clock).get("/api/splash").unwrap_err();
    assert!(matches!(read.kind, ApiErrorKind::NotOffered { status: 404, .. }));
    let path = "/api/domain/1/delete";
    let write = client(&missing(), &clock).send_once(Method::Delete, path, None).unwrap_err();
    assert!(matches!(write.kind, ApiErrorKind::Refused { status: 404, .. }));
}

#[test]
fn retries_are_limited_by_the_policy_and_by_the_caller() {
    let failures = || Script::of((0..20).map(|_| unknown()));
    let (script, clock) = (failures(), Arc::default());
    assert!(client(&script, &clock).get("/api/qr").unwrap_err().is_overload());
    assert_eq!(script.sent_requests(), 5);
    let script = failures();
    let once = GetOptions { retries: Some(0) };
    client(&script, &clock).get_with("/api/qr", &once).unwrap_err();
    assert_eq!(script.sent_requests(), 1);
}

#[test]
fn a_throttled_read_waits_for_retry_after_up_to_the_limit() {
    let (script, clock) = (Script::of([Ok(throttled(41))]), Arc::default());
    let mut one = client(&script, &clock);
    one.get("/api/qr").unwrap();
    assert_eq!((one.counters().requests, one.counters().throttled), (2, 1));
    assert_eq!(one.counters().waited, Duration::from_millis(42_050));
    let script = Script::of((0..20).map(|_| Ok(throttled(1))));
    let error = client(&script, &clock).get("/api/qr").unwrap_err();
    assert!(matches!(error.kind, ApiErrorKind::Throttled(_)));
    assert_eq!(script.sent_requests(), 6);
}

#[test]
fn a_wait_of_days_fails_at_once() {
    let (script, clock) = (Script::of([Ok(throttled(300_000))]), Arc::default());
    let error = client(&script, &clock).get("/api/qr").unwrap_err();
    assert!(matches!(error.kind, ApiErrorKind::Throttled(_)), "{error}");
    assert_eq!(clock.monotonic(), Duration::ZERO);
}

#[test]
fn a_write_is_never_retried() {
    for failure in [
        unknown(),
        Ok(answer(502, "<html>")),
        Ok(answer(200, "{")),
        Err(TransportError::TooLarge(9)),
    ] {
        let (script, clock) = (Script::of([failure]), Arc::default());
        let body = Some(b"{}".to_vec());
        let error = client(&script, &clock).send_once(Method::Post, "/api/domain/add", body);
        assert!(error.unwrap_err().has_unknown_outcome());
        assert_eq!(script.sent_requests(), 1);
    }
}

#[test]
fn a_throttled_write_fails_at_once_and_the_next_one_waits_for_retry_after() {
    let (script, clock) = (Script::of([Ok(throttled(3))]), Arc::default());
    let mut client = client(&script, &clock);
    let error = client.send_once(Method::Post, "/api/domain/add", None).unwrap_err();
    assert!(matches!(error.kind, ApiErrorKind::Throttled(_)) && !error.has_unknown_outcome());
    assert_eq!((script.sent_requests(), clock.monotonic()), (1, Duration::ZERO));
    client.wait_for_turn(Method::Post, "/api/domain/add").unwrap();
    let waited = clock.monotonic();
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
    assert_eq!(client.time_since_send(), Some(waited));
    client.send_once(Method::Post, "/api/domain/add", None).unwrap();
    assert_eq!((script.sent_requests(), clock.monotonic()), (2, waited));
}

#[test]
fn a_request_that_leaves_long_after_the_one_before_it_is_a_pause() {
    let refusals = [60, 75, 20].map(|seconds| Ok(throttled(seconds)));
    let (script, clock) = (Script::of(refusals), Arc::default());
    let mut client = client(&script, &clock);
    let mut pauses = || {
        let _ = client.send_once(Method::Post, "/api/domain/add", None);
        client.pauses()
    };
    assert_eq!([pauses(), pauses(), pauses(), pauses()], [0, 0, 1, 1]);
}

#[test]
fn a_request_that_was_not_sent_is_not_counted() {
    let not_sent = Err(TransportError::NotSent("no route".into()));
    let (script, clock) = (Script::of([not_sent]), Arc::default());
    let mut client = client(&script, &clock);
    let error = client.send_once(Method::Post, "/api/domain/add", None).unwrap_err();
    assert!(!error.has_unknown_outcome());
    assert_eq!(client.counters().requests, 0);
}

#[test]
fn a_wait_longer_than_max_duration_is_not_begun() {
    let (script, clock) = (Script::default(), Arc::default());
    let limits =
        ClientLimits { max_duration: Some(Duration::from_secs(50)), ..ClientLimits::default() };
    let mut client = client(&script, &clock).with_limits(limits);
    for _ in 0..30 {
        client.get("/api/qr").unwrap();
    }
    let error = client.get("/api/qr").unwrap_err();
    assert!(matches!(error.kind, ApiErrorKind::LimitReached(_)), "{error}");
    assert_eq!((script.sent_requests(), clock.monotonic()), (30, Duration::ZERO));
}

#[test]
fn max_requests_is_exact() {
    let (script, clock) = (Script::default(), Arc::default());
    let limits = ClientLimits { max_requests: Some(3), ..ClientLimits::default() };
    let mut client = client(&script, &clock).with_limits(limits);
    while client.get("/api/qr").is_ok() {}
    assert_eq!(script.sent_requests(), 3);
}

#[test]
fn an_interrupt_ends_the_wait_and_nothing_more_is_sent() {
    let clock = Arc::new(ManualClock {
        interrupt_at: Some(Duration::from_secs(5)),
        ..ManualClock::default()
    });
    let script = Script::of([Ok(throttled(41))]);
    let mut client = client(&script, &clock);
    assert_eq!(client.get("/api/qr").unwrap_err().kind, ApiErrorKind::Interrupted);
    assert_eq!(client.get("/api/qr").unwrap_err().kind, ApiErrorKind::Interrupted);
    assert_eq!((script.sent_requests(), clock.monotonic()), (1, Duration::from_secs(5)));
}

#[test]
fn the_pacer_state_is_stored_before_each_request_and_after_its_response() {
    let (script, clock) = (Script::default(), Arc::default());
    let states = Arc::new(Mutex::new(Vec::new()));
    let stored = states.clone();
    let mut client = client(&script, &clock).with_shared_pacer(Box::new(move |change| {
        let mut states = stored.lock().unwrap();
        let state = change(states.last().cloned());
        states.push(state);
        StoreOutcome::Stored
    }));
    client.get("/api/qr").unwrap();
    let flights: Vec<_> = states.lock().unwrap().iter().map(|it| it.in_flight.len()).collect();
    assert_eq!(flights, [1, 0]);
}

#[test]
fn waits_are_reported_as_progress() {
    #[derive(Default)]
    struct Watch(Mutex<Vec<String>>);
    impl Progress for Watch {
        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }
    let (script, clock, watch) =
        (Script::of([Ok(throttled(41))]), Arc::default(), Arc::new(Watch::default()));
    client(&script, &clock).with_progress(watch.clone()).get("/api/qr").unwrap();
    let seen = watch.0.lock().unwrap().join(";");
    assert_eq!(seen, r#"Waiting { time: 42.05s, why: "the limit" }"#);
}

#[test]
fn the_transport_is_told_of_each_wait_through_the_transports_around_it() {
    struct Pauses(Script, Arc<Mutex<Vec<Duration>>>);
    impl Transport for Pauses {
        fn send(&mut self, request: &Request) -> Outcome {
            self.0.send(request)
        }
        fn pause(&mut self, time: Duration) {
            self.1.lock().unwrap().push(time);
        }
    }
    let pauses = Arc::new(Mutex::new(Vec::new()));
    let inner = Pauses(Script::of([Ok(throttled(41))]), Arc::clone(&pauses));
    let boxed: Box<dyn Transport> = Box::new(inner);
    let transport = Box::new(crate::api::read_only::ReadOnlyTransport(boxed));
    let clock = Arc::<ManualClock>::default();
    Client::new(transport, clock, Pacer::new(0)).get("/api/qr").unwrap();
    assert_eq!(*pauses.lock().unwrap(), [Duration::from_millis(42_050)]);
}

#[test]
fn no_error_contains_a_key_that_the_service_echoes() {
    let key = "s3cret-key";
    let long = format!("{}{key}", "x".repeat(115));
    let located = Response {
        headers: vec![("location".into(), format!("https://x.example/?{key}"))],
        ..answer(302, "")
    };
    for outcome in [
        Ok(answer(400, &format!(r#"{{"error":1,"message":"bad key {key}"}}"#))),
        Ok(answer(403, &format!("<p>{key}"))),
        Ok(answer(200, &long)),
        Ok(answer(200, &format!(r#"{{"{key}"#))),
        Ok(located),
        Err(TransportError::Unknown(format!("sent {key}"))),
        Err(TransportError::NotSent(format!("header {key}"))),
    ] {
        let (script, clock) = (Script::of([outcome]), Arc::default());
        let mut client = client(&script, &clock);
        let error = client.get_with("/api/qr", &GetOptions { retries: Some(0) }).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("s3cre"), "{shown}");
    }
}

#[test]
fn on_simulated_time_a_hundred_reads_take_three_windows() {
    let (script, clock) = (Script::default(), Arc::default());
    let mut client = client(&script, &clock);
    for _ in 0..100 {
        client.get("/api/qr").unwrap();
    }
    assert_eq!(clock.monotonic().as_secs(), 180);
}

#[test]
fn a_repeated_request_costs_its_share_of_the_window_while_many_are_left() {
    let ms = Duration::from_millis;
    let cost = |limit: u64, remaining: u64| {
        let mut pacer = Pacer::new(5);
        let now = Duration::from_secs(1);
        let request = pacer.sent(now);
        let headers = RateLimitHeaders {
            limit: Some(limit),
            remaining: Some(remaining),
            ..RateLimitHeaders::default()
        };
        pacer.answered(request, now, Timestamp(0), &headers);
        pacer.cost_of_repeat(now)
    };
    assert_eq!(Pacer::new(5).cost_of_repeat(Duration::ZERO), None);
    assert_eq!(cost(0, 0), Some(Duration::ZERO));
    assert_eq!(cost(1005, 1000), Some(ms(60)));
    assert_eq!(cost(1005, 105), Some(ms(60)));
    assert_eq!(cost(1005, 104), None);
    assert_eq!(cost(1005, 0), None);
    assert_eq!(cost(30, 29), Some(ms(2400)));
    assert_eq!(cost(5, 4), None);
}
