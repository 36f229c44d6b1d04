//! A proxy in front of a real S3 server, with faults drawn from a seed.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{Clock as _, Interrupt, SystemClock, Timestamp};
use linkvault::fleet::head::Head;

use super::s3_servers::refusal;

/// A fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoreFault {
    /// It is answered with 503, and not passed on.
    Refused,
    /// It is not passed on, and the connection is closed after some time.
    TimedOut,
    /// It is passed on, and its answer is lost.
    AnswerLost,
    /// It is passed on, and its answer comes late.
    Late,
    /// A read of `HEAD` has the answer of an earlier one. Once for each vault.
    Stale,
}

/// The faults of requests in a round. Each round has them in an order of its own. Reads of `HEAD` are
/// stale independently of them.
const ROUND: [StoreFault; 8] = [
    StoreFault::Refused,
    StoreFault::Refused,
    StoreFault::Refused,
    StoreFault::Refused,
    StoreFault::TimedOut,
    StoreFault::Late,
    StoreFault::AnswerLost,
    StoreFault::AnswerLost,
];

/// A `HEAD` that the store has.
#[derive(Debug, Clone)]
pub struct StoredHead {
    pub head: Head,
    /// When the store said so first.
    pub at: Timestamp,
}

/// The proxy. Its threads end with the process.
pub struct FaultProxy {
    pub url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    rng: Rng,
    /// One of this number of requests has a fault; none if 0.
    faults: u32,
    /// How long an answer that is late or timed out takes.
    delay: Duration,
    /// The faults of the next requests that have one.
    next: Vec<StoreFault>,
    counts: HashMap<StoreFault, u32>,
    heads: HashMap<String, ReadHead>,
    /// By path; each content once.
    stored: HashMap<String, Vec<StoredHead>>,
}

/// The reads of a `HEAD`.
#[derive(Default)]
struct ReadHead {
    answer: Vec<u8>,
    was_stale: bool,
}

impl FaultProxy {
    /// Passes requests on to the server at `url`.
    pub fn start(url: &str, seed: u64, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            rng: Rng::with_seed(seed),
            faults: 6,
            delay,
            next: Vec::new(),
            counts: HashMap::new(),
            heads: HashMap::new(),
            stored: HashMap::new(),
        }));
        let server = url.trim_start_matches("http://").to_owned();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (server, shared) = (server.clone(), Arc::clone(&shared));
                // An error ends this connection only.
                std::thread::spawn(move || drop(serve(stream, &server, &shared)));
            }
        });
        Self { url: own, state }
    }

    /// Has no faults from now on.
    pub fn heal(&self) {
        self.state.lock().unwrap().faults = 0;
    }

    /// The faults so far, with their numbers.
    pub fn counts(&self) -> Vec<(StoreFault, u32)> {
        let mut counts: Vec<_> = self
            .state
            .lock()
            .unwrap()
            .counts
            .iter()
            .map(|(fault, count)| (*fault, *count))
            .collect();
        counts.sort();
        counts
    }

    /// Whether each of these faults has happened.
    pub fn had(&self, faults: &[StoreFault]) -> bool {
        let state = self.state.lock().unwrap();
        faults.iter().all(|it| state.counts.contains_key(it))
    }

    /// The `HEAD`s that the store had at `path`, in the order in which they became known.
    pub fn stored(&self, path: &str) -> Vec<StoredHead> {
        self.state.lock().unwrap().stored.get(path).cloned().unwrap_or_default()
    }
}

impl State {
    fn fault(&mut self, method: &str) -> Option<StoreFault> {
        if self.faults == 0 || self.rng.u32(..self.faults) > 0 {
            return None;
        }
        let fits = |fault: &StoreFault| method != "GET" || *fault != StoreFault::AnswerLost;
        if !self.next.iter().any(fits) {
            let mut round = ROUND;
            self.rng.shuffle(&mut round);
            self.next.extend(round);
        }
        let fault = self.next.remove(self.next.iter().position(fits)?);
        *self.counts.entry(fault).or_default() += 1;
        Some(fault)
    }

    /// The answer to an earlier read of the `HEAD` at `path`, which is now `answer`.
    fn stale(&mut self, path: &str, answer: &[u8]) -> Option<Vec<u8>> {
        if !is_ok(answer) && !answer.starts_with(b"HTTP/1.1 404") {
            return None;
        }
        let head = self.heads.entry(path.to_owned()).or_default();
        let before = std::mem::replace(&mut head.answer, answer.to_vec());
        let changed = is_ok(answer) && !before.is_empty() && body(&before) != body(answer);
        // Not only those from before the first put.
        let is_first = !self.counts.contains_key(&StoreFault::Stale);
        let drawn = is_first || is_ok(&before) || self.rng.bool();
        if self.faults == 0 || head.was_stale || !changed || !drawn {
            return None;
        }
        head.was_stale = true;
        *self.counts.entry(StoreFault::Stale).or_default() += 1;
        Some(before)
    }

    /// Notes that the store has the `HEAD` of this message at `path`. Ignores an incomplete one.
    fn has(&mut self, path: &str, message: &[u8]) {
        let Ok(head) = Head::read(body(message).unwrap_or_default()) else { return };
        let stored = self.stored.entry(path.to_owned()).or_default();
        if !stored.iter().any(|it| it.head == head) {
            stored.push(StoredHead { head, at: SystemClock::new(Interrupt::default()).now() });
        }
    }
}

fn is_ok(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200")
}

fn body(message: &[u8]) -> Option<&[u8]> {
    let end = message.windows(4).position(|it| it == b"\r\n\r\n")?;
    Some(&message[end + 4..])
}

/// Answers the one request of a connection.
fn serve(mut client: TcpStream, server: &str, state: &Mutex<State>) -> std::io::Result<()> {
    let request = request(&client)?;
    let first = String::from_utf8_lossy(&request);
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let (fault, delay) = {
        let mut state = state.lock().unwrap();
        (state.fault(&method), state.delay)
    };
    let wait = || SystemClock::new(Interrupt::default()).sleep(delay);
    match fault {
        Some(StoreFault::Refused) => {
            let text = refusal("503 Slow Down", "SlowDown", "reduce your request rate");
            return client.write_all(text.as_bytes());
        }
        Some(StoreFault::TimedOut) => {
            wait();
            return Ok(());
        }
        _ => {}
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(&request)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    if path.ends_with("/HEAD") && is_ok(&answer) {
        let message = if method == "PUT" { &request } else { &answer };
        state.lock().unwrap().has(&path, message);
    }
    if method == "GET" && path.ends_with("/HEAD") {
        let stale = state.lock().unwrap().stale(&path, &answer);
        answer = stale.unwrap_or(answer);
    }
    match fault {
        Some(StoreFault::AnswerLost) => return Ok(()),
        Some(StoreFault::Late) => drop(wait()),
        _ => {}
    }
    client.write_all(&answer)
}

/// A request with its body, that asks for the connection to be closed after the answer.
pub fn request(client: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut reader = BufReader::new(client);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let small = line.to_ascii_lowercase();
        if let Some(text) = small.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            head += "connection: close\r\n\r\n";
            break;
        }
        if !small.starts_with("connection:") {
            head += &line;
        }
    }
    let mut request = head.into_bytes();
    reader.take(length).read_to_end(&mut request)?;
    Ok(request)
}
