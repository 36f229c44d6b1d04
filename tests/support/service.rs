//! Servers for tests over a socket: the sandbox, and servers that are not the service.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use linkvault::api::http::{ApiKey, Method, Request};
use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::sandbox::behaviour::RateLimit;
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, Faults, SandboxService, ServeOptions, Store, serve};
use linkvault::server::Server;

/// The API key of every server here.
pub const KEY: &str = "k3y-of-the-owner";

/// The sandbox on its own port; it stops when it is dropped.
pub struct LiveService {
    service: Arc<Mutex<SandboxService>>,
    faults: Arc<Mutex<Faults>>,
    server: Server,
}

impl LiveService {
    /// The sample account, without a rate limit unless `behaviour` sets one.
    pub fn start(behaviour: &str, faults: &str) -> Self {
        let store = sample_account(SystemClock::new(Interrupt::default()).now());
        Self::serving(store, behaviour, faults)
    }

    pub fn serving(store: Store, behaviour: &str, faults: &str) -> Self {
        let behaviour = Behaviour::parse(&format!("rate-limit=none,{behaviour}")).unwrap();
        let service = Arc::new(Mutex::new(SandboxService::new(store, ApiKey::new(KEY), behaviour)));
        let faults = Arc::new(Mutex::new(faults.parse().unwrap()));
        let server = serve(
            TcpListener::bind("127.0.0.1:0").unwrap(),
            Arc::clone(&service),
            Arc::new(SystemClock::new(Interrupt::default())),
            Arc::clone(&faults),
            ServeOptions::default(),
        )
        .unwrap();
        Self { service, faults, server }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The service itself, to read or change it without the API.
    pub fn sandbox(&self) -> MutexGuard<'_, SandboxService> {
        self.service.lock().unwrap()
    }

    /// Replaces the faults of later requests.
    pub fn faults(&self, faults: &str) {
        *self.faults.lock().unwrap() = faults.parse().unwrap();
    }

    /// The requested paths so far, in order.
    pub fn requests(&self) -> Vec<String> {
        self.sandbox().log().iter().map(|entry| entry.path.clone()).collect()
    }

    /// The writes received so far, as `POST /api/campaign/add`.
    pub fn writes(&self) -> Vec<String> {
        let service = self.sandbox();
        let writes = service.log().iter().filter(|entry| entry.method != Method::Get);
        writes.map(|entry| format!("{} {}", entry.method, entry.path)).collect()
    }

    /// The bodies of all requests that had one.
    pub fn bodies(&self) -> Vec<serde_json::Value> {
        let sandbox = self.sandbox();
        let bodies = sandbox.log().iter().filter_map(|entry| entry.body.as_deref());
        bodies.map(|body| serde_json::from_slice(body).unwrap()).collect()
    }

    /// The requests since the last call.
    pub fn new_requests(&self) -> Vec<String> {
        let requests = self.requests();
        self.sandbox().clear_log();
        requests
    }

    /// Number of requests, and number of those that exceeded the rate limit.
    pub fn request_count(&self) -> u64 {
        self.sandbox().totals().handled
    }

    pub fn throttled(&self) -> u64 {
        self.sandbox().totals().throttled
    }

    /// The service's response to `path`, without rate limit and paging.
    pub fn answer(&self, path: &str) -> serde_json::Value {
        let mut service = self.sandbox().clone();
        service.behaviour_mut().rate_limit = RateLimit::Unlimited;
        service.behaviour_mut().max_limit = None;
        let now = SystemClock::new(Interrupt::default()).now();
        let request = Request { key: Some(ApiKey::new(KEY)), ..Request::get(path) };
        serde_json::from_slice(&service.handle(now, &request).body).unwrap()
    }

    /// All records of a list, as the service sends them.
    pub fn list(&self, path: &str, key: &str) -> Vec<serde_json::Value> {
        let answer = self.answer(&format!("{path}?limit=100000"));
        answer["data"][key].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }
}

/// A server that sends the same response to every request and records the requests.
pub struct Host {
    address: std::net::SocketAddr,
    state: Arc<(Mutex<HostState>, Condvar)>,
}

struct HostState {
    response: Vec<u8>,
    heard: Vec<String>,
    /// Number of requests that [`Host::next`] returned.
    given: usize,
}

impl Host {
    /// Sends `response`, the bytes of a complete HTTP response.
    pub fn answering(response: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = HostState { response: response.into(), heard: Vec::new(), given: 0 };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = converse(stream, &shared);
            }
        });
        Self { address, state }
    }

    /// Sends a page with this status (as `200 OK`) and content type.
    pub fn page(status: &str, kind: &str, body: &str) -> Self {
        let length = body.len();
        Self::answering(format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        ))
    }

    /// Sends only a status (as `500 X`).
    pub fn status(status: &str) -> Self {
        let end = "content-length: 0\r\nconnection: close";
        Self::answering(format!("HTTP/1.1 {status}\r\n{end}\r\n\r\n"))
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The received requests, each with its body.
    pub fn received(&self) -> Vec<String> {
        self.state.0.lock().unwrap().heard.clone()
    }

    /// Waits for the next request, and returns its head and body.
    #[track_caller]
    pub fn next(&self) -> (String, String) {
        let (state, news) = &*self.state;
        let state = state.lock().unwrap();
        let none = |state: &mut HostState| state.heard.len() == state.given;
        let (mut state, waited) =
            news.wait_timeout_while(state, Duration::from_secs(60), none).unwrap();
        assert!(!waited.timed_out(), "no request came");
        state.given += 1;
        let request = &state.heard[state.given - 1];
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        (format!("{head}\r\n"), body.to_owned())
    }

    /// The requests that [`Host::next`] has not returned yet.
    pub fn unread(&self) -> Vec<String> {
        let state = self.state.0.lock().unwrap();
        state.heard[state.given..].to_vec()
    }
}

fn converse(stream: TcpStream, state: &(Mutex<HostState>, Condvar)) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(&stream);
    while !request.ends_with("\r\n\r\n") && reader.read_line(&mut request)? > 0 {}
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_string(&mut request)?;
    let (state, news) = state;
    let response = {
        let mut state = state.lock().unwrap();
        state.heard.push(request);
        state.response.clone()
    };
    news.notify_all();
    (&stream).write_all(&response)?;
    stream.shutdown(std::net::Shutdown::Write)
}
