//! Tests of announced reads, with a transport that records the order of requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::api::client::{Client, ClientLimits, GetOptions};
use crate::api::error::ApiErrorKind;
use crate::api::http::{FinishedRead, Method, Request, Response, Transport, TransportError};
use crate::api::pacer::Pacer;
use crate::clock::{Clock, Interrupt, SimulatedClock, SystemClock, Timestamp};

/// Responds to reads, usually in the reverse order, each with its path and a number that grows.
#[derive(Clone, Default)]
struct Reversed {
    log: Arc<Mutex<Vec<String>>>,
    running: Arc<Mutex<Vec<(u64, String)>>>,
    interrupt: Option<Interrupt>,
    /// The first read of this path fails with this status.
    fails_once: Arc<Mutex<Option<(String, u16)>>>,
    /// The service reports that it has no rate limit.
    is_unlimited: bool,
    /// Responds in the order of the requests.
    in_order: bool,
    /// Number of spaces at the end of each body.
    spaces: usize,
}

impl Reversed {
    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn respond(&self, path: &str) -> Result<Response, TransportError> {
        let mut log = self.log.lock().unwrap();
        log.push(format!("end {path}"));
        let failure = self.fails_once.lock().unwrap().take_if(|(failing, _)| failing == path);
        if let Some((_, status)) = failure {
            return Ok(Response { status, ..Response::default() });
        }
        let body = format!(r#"{{"error":0,"data":{{"path":"{path}","nth":{}}}}}"#, log.len());
        let body = body + &" ".repeat(self.spaces);
        let limit = if self.is_unlimited { "0" } else { "900" };
        let headers = [("x-ratelimit-limit", limit), ("x-ratelimit-remaining", "800")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Ok(Response { status: 200, headers, body: body.into_bytes() })
    }
}

impl Transport for Reversed {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        self.log.lock().unwrap().push(format!("send {}", request.path));
        self.respond(&request.path)
    }

    fn lanes(&self) -> usize {
        8
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        self.log.lock().unwrap().push(format!("begin {}", request.path));
        self.running.lock().unwrap().push((id, request.path.clone()));
        true
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        self.next_read()
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        if let Some(interrupt) = &self.interrupt {
            interrupt.raise();
        }
        let mut running = self.running.lock().unwrap();
        let last = running.len().checked_sub(1)?;
        let (id, path) = running.remove(if self.in_order { 0 } else { last });
        drop(running);
        let outcome = self.respond(&path);
        Some(FinishedRead { id, outcome, time: Duration::ZERO, removed: None })
    }
}

fn client(transport: &Reversed, limits: ClientLimits) -> Client {
    let clock: Arc<dyn Clock> = match &transport.interrupt {
        Some(interrupt) => Arc::new(SystemClock::new(interrupt.clone())),
        None => Arc::new(SimulatedClock::new(Timestamp(0))),
    };
    let mut client =
        Client::new(Box::new(transport.clone()), clock, Pacer::new(0)).with_limits(limits);
    // Its response tells the rate limit.
    client.get("/api/account").unwrap();
    transport.log();
    client
}

fn three() -> ClientLimits {
    ClientLimits { max_in_flight: 3, ..ClientLimits::default() }
}

fn pages(numbers: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = String> {
    numbers.map(|number| format!("/api/qr?page={number}"))
}

fn path_of(response: &Response) -> String {
    let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    body["data"]["path"].as_str().unwrap().to_owned()
}

#[test]
fn announced_reads_are_sent_at_once_and_taken_in_any_order_of_their_responses() {
    let transport = Reversed::default();
    let mut client = client(&transport, three());
    client.announce(pages(1..=5));
    for path in pages(1..=5) {
        assert_eq!(path_of(&client.get(&path).unwrap()), path);
    }
    let log = transport.log();
    let first: Vec<_> = pages(1..=3).map(|path| format!("begin {path}")).collect();
    assert_eq!(log[..3], first);
    assert_eq!(log.iter().filter(|line| line.starts_with("begin")).count(), 5);
    assert_eq!(client.counters().requests, 6);
}

#[test]
fn a_write_and_a_read_that_was_not_announced_wait_for_their_turn() {
    let transport = Reversed { in_order: true, ..Reversed::default() };
    let mut client = client(&transport, three());
    client.announce(pages(1..=9));
    client.get("/api/qr?page=1").unwrap();
    client.send_once(Method::Post, "/api/qr/add", None).unwrap();
    let log = transport.log();
    let write = log.iter().position(|line| line == "send /api/qr/add").unwrap();
    let begun = log[..write].iter().filter(|line| line.starts_with("begin")).count();
    let ended = log[..write].iter().filter(|line| line.starts_with("end")).count();
    assert_eq!(begun, ended, "{log:?}");
    assert_eq!(path_of(&client.get("/api/domains").unwrap()), "/api/domains");
}

#[test]
fn reads_in_flight_end_before_the_conditions_of_a_write_are_checked() {
    let transport = Reversed { in_order: true, ..Reversed::default() };
    let mut client = client(&transport, three());
    client.announce(pages(1..=9));
    client.get("/api/qr?page=1").unwrap();
    assert!(!transport.running.lock().unwrap().is_empty());
    client.wait_for_turn(Method::Post, "/api/qr/add").unwrap();
    assert!(transport.running.lock().unwrap().is_empty(), "{:?}", transport.log());
}

#[test]
fn the_account_is_read_alone() {
    let transport = Reversed { in_order: true, ..Reversed::default() };
    let mut client = client(&transport, three());
    client.announce(pages(1..=9));
    client.get("/api/qr?page=1").unwrap();
    client.announce(pages(2..=9));
    transport.log();
    client.get_account("/api/account", &GetOptions::default()).unwrap();
    let log = transport.log();
    assert_eq!(log[log.len() - 2..], ["begin /api/account", "end /api/account"], "{log:?}");
    assert!(log[..log.len() - 2].iter().all(|line| line.starts_with("end")), "{log:?}");
    pages(2..=5).for_each(|path| drop(client.get(&path).unwrap()));
    let log = transport.log();
    assert_eq!(log[..2], ["begin /api/qr?page=5", "begin /api/qr?page=6"], "{log:?}");
}

#[test]
fn a_response_that_was_kept_has_none_of_the_secrets_that_were_added_meanwhile() {
    let transport = Reversed::default();
    let mut client = client(&transport, three());
    client.announce(pages(1..=2).chain(["/api/later-secret".to_owned()]));
    client.get("/api/qr?page=1").unwrap();
    client.redact_secret("later-secret");
    let requests = client.counters().requests;
    let response = client.get("/api/later-secret").unwrap();
    assert_eq!(client.counters().requests, requests);
    assert_eq!(path_of(&response), "/api/[redacted]");
}

#[test]
fn a_failure_of_an_announced_read_is_not_that_of_the_read_which_the_caller_asks_for_later() {
    let transport = Reversed::default();
    let mut client = client(&transport, three());
    *transport.fails_once.lock().unwrap() = Some(("/api/campaigns".to_owned(), 503));
    client.announce(["/api/qr".to_owned(), "/api/domains".to_owned(), "/api/campaigns".to_owned()]);
    let options = GetOptions { retries: Some(0) };
    for path in ["/api/qr", "/api/domains", "/api/campaigns"] {
        assert_eq!(path_of(&client.get_with(path, &options).unwrap()), path);
    }
    let log = transport.log();
    assert_eq!(log.iter().filter(|line| *line == "end /api/campaigns").count(), 2, "{log:?}");
}

#[test]
fn the_responses_to_keep_are_bounded_while_the_service_holds_back_the_wanted_one() {
    let transport = Reversed::default();
    let mut client = client(&transport, three());
    client.announce(pages(1..=99));
    client.get("/api/qr?page=1").unwrap();
    let log = transport.log();
    assert_eq!(log.last().map(String::as_str), Some("end /api/qr?page=1"));
    assert_eq!(log.iter().filter(|line| line.starts_with("begin")).count(), 10, "{log:?}");
}

#[test]
fn few_large_responses_are_in_memory_at_once() {
    for (megabytes, most) in [(1, 10), (5, 6), (20, 1), (40, 0)] {
        let transport = Reversed { spaces: megabytes << 20, ..Reversed::default() };
        let mut client = client(&transport, three());
        client.announce(pages(1..=50));
        client.get("/api/qr?page=1").unwrap();
        let log = transport.log();
        let begun = log.iter().filter(|line| line.starts_with("begin")).count();
        assert_eq!(begun, most, "{megabytes} MiB");
    }
}

#[test]
fn what_was_read_before_a_write_is_read_again_after_it() {
    let transport = Reversed { in_order: true, ..Reversed::default() };
    let mut client = client(&transport, three());
    client.announce(pages(1..=9));
    client.get("/api/qr?page=1").unwrap();
    client.send_once(Method::Post, "/api/qr/add", None).unwrap();
    transport.log();
    client.get("/api/qr?page=2").unwrap();
    assert_eq!(transport.log()[0], "send /api/qr?page=2");
}

#[test]
fn after_a_refusal_no_reads_overlap_even_if_the_service_reports_no_limit() {
    let transport = Reversed { is_unlimited: true, ..Reversed::default() };
    let mut client = client(&transport, three());
    let read = |client: &mut Client| {
        client.announce(pages(1..=4));
        pages(1..=4).for_each(|path| drop(client.get(&path).unwrap()));
        transport.log()
    };
    assert!(read(&mut client)[1].starts_with("begin"));
    *transport.fails_once.lock().unwrap() = Some(("/api/domains".to_owned(), 429));
    client.get("/api/domains").unwrap();
    transport.log();
    let log = read(&mut client);
    assert!(log.iter().skip(1).step_by(2).all(|line| line.starts_with("end")), "{log:?}");
}

#[test]
fn what_has_arrived_is_taken_without_waiting_and_more_is_sent() {
    let transport = Reversed::default();
    let mut client = client(&transport, three());
    client.announce(pages(1..=6));
    client.get("/api/qr?page=1").unwrap();
    for path in pages(2..=4) {
        assert_eq!(path_of(&client.take_arrived(&path).unwrap()), path);
    }
    let log = transport.log();
    assert_eq!(log.iter().filter(|line| line.starts_with("begin")).count(), 6, "{log:?}");
    assert!(client.take_arrived("/api/domains").is_none());
}

#[test]
fn a_discarded_list_is_requested_again() {
    let transport = Reversed::default();
    let mut client = client(&transport, three());
    client.announce(pages(1..=3));
    client.get("/api/qr?page=1").unwrap();
    client.discard_announced("/api/qr");
    transport.log();
    client.get("/api/qr?page=2").unwrap();
    let log = transport.log();
    assert!(log.iter().any(|line| line.ends_with(" /api/qr?page=2")), "{log:?}");
    assert_eq!(log.last().map(String::as_str), Some("end /api/qr?page=2"));
}

#[test]
fn no_more_than_max_requests_are_sent() {
    let transport = Reversed::default();
    let limits = ClientLimits { max_requests: Some(4), ..three() };
    let mut client = client(&transport, limits);
    client.announce(pages(1..=9));
    let read = pages(1..=9).take_while(|path| client.get(path).is_ok()).count();
    assert_eq!((read, client.counters().requests), (3, 4));
}

#[test]
fn what_was_in_flight_at_an_interrupt_is_still_taken() {
    let interrupt = Interrupt::default();
    let transport = Reversed { interrupt: Some(interrupt), ..Reversed::default() };
    let mut client = client(&transport, three());
    client.announce(pages(1..=9));
    let read = pages(1..=9).take_while(|path| client.get(path).is_ok()).count();
    assert_eq!(read, 3);
    assert_eq!(client.get("/api/qr?page=4").unwrap_err().kind, ApiErrorKind::Interrupted);
}

#[test]
fn reads_go_one_at_a_time_with_one_in_flight_or_an_unknown_limit() {
    let transport = Reversed::default();
    let one = ClientLimits { max_in_flight: 1, ..ClientLimits::default() };
    let mut client = client(&transport, one);
    client.announce(pages(1..=2));
    pages(1..=2).for_each(|path| drop(client.get(&path).unwrap()));
    assert!(transport.log().iter().all(|line| !line.starts_with("begin")));

    let transport = Reversed::default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(Interrupt::default()));
    let mut new =
        Client::new(Box::new(transport.clone()), clock, Pacer::new(0)).with_limits(three());
    new.announce(pages(1..=2));
    new.get("/api/qr?page=1").unwrap();
    assert_eq!(transport.log(), ["begin /api/qr?page=1", "end /api/qr?page=1"]);
    assert_eq!(new.estimate(0), Duration::ZERO);
}
