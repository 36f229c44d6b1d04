//! The sandbox over a real socket, with handwritten requests.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::http::ApiKey;
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService, ServeOptions, serve};
use linkvault::server::Server;

use super::{KEY, NOW};

struct Served {
    server: Server,
    service: Arc<Mutex<SandboxService>>,
    saved: Arc<AtomicUsize>,
}

fn served(behaviour: &str, faults: &str) -> Served {
    let behaviour = Behaviour::parse(behaviour).unwrap();
    let service = SandboxService::new(sample_account(NOW), ApiKey::new(KEY), behaviour);
    let service = Arc::new(Mutex::new(service));
    let saved = Arc::new(AtomicUsize::new(0));
    let counter = saved.clone();
    let options = ServeOptions {
        body_limit: 1000,
        on_write: Some(Arc::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        })),
    };
    let server = serve(
        TcpListener::bind("127.0.0.1:0").unwrap(),
        service.clone(),
        Arc::new(SystemClock::new(Interrupt::default())),
        Arc::new(Mutex::new(faults.parse().unwrap())),
        options,
    )
    .unwrap();
    Served { server, service, saved }
}

impl Served {
    /// Everything the server sends on one connection until it closes it.
    fn exchange(&self, text: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.server.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(text.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn text(&self, request: &str) -> String {
        String::from_utf8(self.exchange(request).unwrap()).unwrap()
    }
}

fn request(line: &str, more: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {}\r\n\
         {more}\r\n{body}",
        body.len()
    )
}

fn add(name: &str) -> String {
    request("POST /api/channel/add", "Connection: close\r\n", &format!("{{\"name\":\"{name}\"}}"))
}

#[test]
fn connections_are_kept_alive() {
    let served = served("", "");
    let first = request("GET /api/account", "", "");
    let last = request("GET /api/qr?limit=2", "Connection: close\r\n", "");
    let answer = served.text(&format!("{first}{last}"));
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2);
    assert_eq!(answer.matches("x-ratelimit-remaining: 28").count(), 1);
    assert_eq!(answer.matches("\r\ndate: ").count(), 2);
    served.server.stop();
}

#[test]
fn only_writes_are_saved() {
    let served = served("", "");
    served.text(&request("GET /api/account", "Connection: close\r\n", ""));
    assert!(served.text(&add("New")).contains("\"name\":\"New\""));
    assert!(served.text(&add("New")).starts_with("HTTP/1.1 400"));
    assert_eq!(served.saved.load(Ordering::SeqCst), 1);
}

#[test]
fn a_lost_reply_has_an_effect_and_no_response() {
    let served = served("", "lost-reply=1");
    assert_eq!(served.exchange(&add("New")).unwrap(), b"");
    assert_eq!(served.service.lock().unwrap().store().channels.len(), 6);
}

#[test]
fn a_reset_fault_resets_the_connection() {
    let served = served("", "reset=1");
    let error = served.exchange(&add("New")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(served.service.lock().unwrap().store().channels.len(), 5);
}

#[test]
fn a_cut_body_is_shorter_than_its_content_length() {
    let served = served("", "cut-body=1:10");
    let answer = served.text(&request("GET /api/account", "", ""));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), 10);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert!(length.parse::<usize>().unwrap() > 100);
}

#[test]
fn a_slow_body_arrives_whole() {
    let served = served("", "latency=5ms,slow-body=1:80ms");
    let answer = served.text(&request("GET /api/account", "Connection: close\r\n", ""));
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
}

#[test]
fn a_response_is_compressed_if_the_client_accepts_it() {
    let served = served("compression=gzip", "");
    let more = "Accept-Encoding: br, gzip\r\nConnection: close\r\n";
    let answer = served.exchange(&request("GET /api/account", more, "")).unwrap();
    let at = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let mut body = String::new();
    flate2::read::GzDecoder::new(&answer[at..]).read_to_string(&mut body).unwrap();
    assert!(body.contains("\"username\":\"lantern\""));
    let plain = served.text(&request("GET /api/account", "Connection: close\r\n", ""));
    assert!(plain.contains("\"username\":\"lantern\""));
}

#[test]
fn invalid_requests_are_refused_without_effect() {
    let served = served("content-type=required", "");
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(2000));
    let large = request("POST /api/channel/add", "Connection: close\r\n", &large);
    assert!(served.text(&large).starts_with("HTTP/1.1 413"));
    let patch = request("PATCH /api/account", "Connection: close\r\n", "");
    assert!(served.text(&patch).starts_with("HTTP/1.1 405"));
    assert!(served.text(&add("x")).starts_with("HTTP/1.1 415"));
    let two_hosts = request("GET /api/account", "Host: y\r\nConnection: close\r\n", "");
    assert!(served.text(&two_hosts).starts_with("HTTP/1.1 400"));
    assert!(served.text("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let good = request("GET /api/account", "Connection: close\r\n", "");
    assert!(served.text(&good).starts_with("HTTP/1.1 200"));
}

#[test]
fn after_a_shutdown_no_request_is_answered() {
    let served = served("", "");
    let address = served.server.address();
    let open = TcpStream::connect(address).unwrap();
    served.server.stop();
    assert!(TcpStream::connect(address).is_err());
    drop(open);
}
