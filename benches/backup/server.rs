//! A server of static pages on the loopback: it does nothing but find the page, wait for its
//! latency, and write it, over kept connections.

use std::io::{BufRead as _, BufReader, IoSlice, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linkvault::clock::{Clock as _, Interrupt, SystemClock};

use crate::account::Site;

/// How a server answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The time from a request to its response.
    pub latency: Duration,
    /// The number of requests in 60 seconds, told in the headers; 0 for no limit.
    pub limit: u64,
}

/// A limit that is never reached: the headers are there, and nothing waits.
pub const UNREACHED: u64 = 1_000_000;

/// A running server; it ends with the program.
pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    site: Mutex<Arc<Site>>,
    conditions: Conditions,
    window: Mutex<Window>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

/// The window of the limit; the first begins with the first request.
#[derive(Default)]
struct Window {
    began: Option<Instant>,
    used: u64,
    requests: u64,
    refused: u64,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Server {
    /// Without latency and limit.
    pub fn start(site: Site) -> Self {
        Self::under(site, Conditions::default())
    }

    pub fn under(site: Site, conditions: Conditions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            site: Mutex::new(Arc::new(site)),
            conditions,
            window: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
        });
        let of_threads = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_threads);
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { url, shared }
    }

    /// Serves `site` to all who connect from now on.
    pub fn publish(&self, site: Site) {
        *self.shared.site.lock().unwrap() = Arc::new(site);
    }

    /// The number of requests so far, and of those that the limit refused.
    pub fn requests(&self) -> (u64, u64) {
        let window = self.shared.window.lock().unwrap();
        (window.requests, window.refused)
    }

    /// The most requests that were without a response at the same time.
    pub fn most_in_flight(&self) -> usize {
        self.shared.most_in_flight.load(Ordering::SeqCst)
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let clock = SystemClock::new(Interrupt::default());
    let site = Arc::clone(&shared.site.lock().unwrap());
    let mut reader = BufReader::new(stream);
    let (mut request, mut header) = (String::new(), String::new());
    loop {
        request.clear();
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
        loop {
            header.clear();
            reader.read_line(&mut header).ok()?;
            if header.trim_end().is_empty() {
                break;
            }
        }
        let now_in_flight = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_in_flight.fetch_max(now_in_flight, Ordering::SeqCst);
        let limits = shared.count(&clock);
        let path = request.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match (&limits, site.body(path)) {
            (Err(_), _) => {
                ("429 Too Many Requests", "{\"error\":1,\"message\":\"too many requests\"}")
            }
            (_, None) => ("404 Not Found", ""),
            (_, Some(body)) => ("200 OK", body),
        };
        let limits = limits.unwrap_or_else(|headers| headers);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{limits}Content-Length: {}\r\n\r\n",
            body.len()
        );
        if !shared.conditions.latency.is_zero() {
            std::thread::sleep(shared.conditions.latency);
        }
        shared.in_flight.fetch_sub(1, Ordering::SeqCst);
        write(stream, &head, body).ok()?;
    }
}

impl Shared {
    /// Counts a request. Returns the headers about the limit; as an error if it is exceeded.
    fn count(&self, clock: &SystemClock) -> Result<String, String> {
        let limit = self.conditions.limit;
        let mut window = self.window.lock().unwrap();
        window.requests += 1;
        if limit == 0 {
            return Ok("X-RateLimit-Limit: 0\r\n".to_owned());
        }
        let now = Instant::now();
        if window.began.is_none_or(|began| now >= began + MINUTE) {
            (window.began, window.used) = (Some(now), 0);
        }
        let admitted = window.used < limit;
        window.used += u64::from(admitted);
        window.refused += u64::from(!admitted);
        let passed = window.began.map_or(Duration::ZERO, |began| now - began);
        let remaining = limit - window.used;
        drop(window);
        let now = clock.now();
        // A time in whole seconds is rounded up.
        let reset = now.plus(MINUTE - passed).0.div_euclid(1000) + 1;
        let date = now.utc().unwrap().format("%a, %d %b %Y %H:%M:%S GMT");
        let headers = format!(
            "Date: {date}\r\nX-RateLimit-Limit: {limit}\r\nX-RateLimit-Remaining: {remaining}\r\n\
             X-RateLimit-Reset: {reset}\r\n"
        );
        if admitted { Ok(headers) } else { Err(headers) }
    }
}

/// Writes both in one packet, if they fit.
fn write(mut stream: &TcpStream, head: &str, body: &str) -> std::io::Result<()> {
    let mut parts = [IoSlice::new(head.as_bytes()), IoSlice::new(body.as_bytes())];
    let mut parts = &mut parts[..];
    while !parts.is_empty() {
        let written = stream.write_vectored(parts)?;
        IoSlice::advance_slices(&mut parts, written);
    }
    Ok(())
}
