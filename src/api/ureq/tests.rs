//! Tests with real sockets on this machine, one thread per service.

use super::*;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use ureq::tls::RootCerts;

/// Serves one connection with each reply, and returns the request of each.
fn serve(replies: Vec<Vec<u8>>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        replies
            .iter()
            .map(|reply| {
                let (mut stream, _) = listener.accept().unwrap();
                let requests = read_request(&mut stream);
                let _gone = stream.write_all(reply);
                requests
            })
            .collect()
    });
    (url, thread)
}

/// The head of a request, and the body by its `Content-Length`.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

fn reply(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn quick() -> TransportOptions {
    TransportOptions {
        connect: Duration::from_secs(2),
        read: Duration::from_millis(150),
        overall: Duration::from_millis(600),
        max_body: 1_000,
        ..TransportOptions::default()
    }
}

fn send(url: &str) -> Result<Response, TransportError> {
    let request =
        Request { key: Some(ApiKey::new("s3cret-key")), ..Request::get("/api/qr?page=1") };
    UreqTransport::new(url, &quick()).unwrap().send(&request)
}

fn outcome_of(reply: Vec<u8>) -> Result<Response, TransportError> {
    let (url, thread) = serve(vec![reply]);
    let outcome = send(&url);
    thread.join().unwrap();
    outcome
}

fn assert_unknown(outcome: &Result<Response, TransportError>) {
    let Err(TransportError::Unknown(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.starts_with("127.0.0.1: ") && !why.contains("s3cret"), "{why}");
}

#[test]
fn a_request_has_key_and_json_headers_and_gets_the_whole_response() {
    let (url, thread) = serve(vec![reply("200 OK", "X-RateLimit-Remaining: 29\r\n", b"{}")]);
    let answer = send(&format!("{url}/short/api/")).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"{}"[..]));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("29"));
    let requests = thread.join().unwrap().remove(0);
    assert!(requests.starts_with("GET /short/api/qr?page=1 HTTP/1.1\r\n"), "{requests}");
    for line in [
        "authorization: Bearer s3cret-key",
        "accept: application/json",
        "content-type: application/json",
        "accept-encoding: gzip",
        "user-agent: linkvault/",
    ] {
        assert!(requests.contains(line), "{line} in {requests}");
    }
}

#[test]
fn writes_send_their_body_and_a_length_even_if_empty() {
    let ok = || reply("201 Created", "", b"{}");
    let (url, thread) = serve(vec![ok(), ok(), ok()]);
    let mut transport = UreqTransport::new(&url, &quick()).unwrap();
    for (method, body) in
        [(Method::Put, Some(b"{\"a\":1}".to_vec())), (Method::Post, None), (Method::Delete, None)]
    {
        let request = Request { method, body, ..Request::get("/api/x") };
        assert_eq!(transport.send(&request).unwrap().status, 201);
    }
    let requests = thread.join().unwrap();
    assert!(
        requests[0].starts_with("PUT /api/x ") && requests[0].ends_with("{\"a\":1}"),
        "{}",
        requests[0]
    );
    assert!(
        requests[1].starts_with("POST ") && requests[1].contains("content-length: 0"),
        "{}",
        requests[1]
    );
    assert!(requests[2].starts_with("DELETE "), "{}", requests[2]);
    assert!(!requests[0].contains("authorization"));
}

#[test]
fn a_refused_connection_is_not_sent() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for url in [format!("http://127.0.0.1:{port}"), "http://[::1]:1".to_owned()] {
        assert!(matches!(send(&url), Err(TransportError::NotSent(_))), "{url}");
    }
}

#[test]
fn a_failed_tls_handshake_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _some = stream.read(&mut [0; 64]);
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let outcome = send(&url);
    thread.join().unwrap();
    assert!(matches!(outcome, Err(TransportError::NotSent(_))), "{outcome:?}");
}

#[test]
fn a_key_that_no_header_can_carry_is_not_sent_and_not_shown() {
    let request = Request { key: Some(ApiKey::new("s3cret\nX: y")), ..Request::get("/api/qr") };
    let outcome = UreqTransport::new("http://127.0.0.1:1", &quick()).unwrap().send(&request);
    let Err(TransportError::NotSent(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("the key") && !why.contains("s3cret"), "{why}");
}

#[test]
fn a_path_outside_the_api_is_not_sent() {
    let mut transport = UreqTransport::new("http://127.0.0.1:1", &quick()).unwrap();
    for path in ["/", "@evil.example/api/", ".evil.example/api/", "/apis", "/api/a b", "/api/\r\n"]
    {
        let outcome = transport.send(&Request::get(path));
        assert!(matches!(outcome, Err(TransportError::NotSent(_))), "{path} {outcome:?}");
    }
}

#[test]
fn a_connection_closed_without_a_response_has_an_unknown_outcome() {
    assert_unknown(&outcome_of(Vec::new()));
}

#[test]
fn a_cut_body_has_an_unknown_outcome() {
    let mut complete = reply("200 OK", "", b"{\"error\":0}");
    complete.truncate(complete.len() - 3);
    assert_unknown(&outcome_of(complete));
    let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"err";
    assert_unknown(&outcome_of(chunks.to_vec()));
}

#[test]
fn a_response_that_is_not_http_has_an_unknown_outcome() {
    assert_unknown(&outcome_of(b"SSH-2.0-x\r\n\r\n".to_vec()));
    let endless = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'y'; 200_000]].concat();
    assert_unknown(&outcome_of(endless));
}

#[test]
fn a_service_that_never_responds_has_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outcome = send(&format!("http://{}", listener.local_addr().unwrap()));
    assert_unknown(&outcome);
    assert!(format!("{outcome:?}").contains("timed out"), "{outcome:?}");
}

#[test]
fn a_stalled_body_has_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{").unwrap();
        stream
    });
    assert_unknown(&send(&url));
    drop(thread.join().unwrap());
}

#[test]
fn a_redirect_is_returned_and_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let target = format!("http://{}/api/qr", elsewhere.local_addr().unwrap());
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let answer =
            outcome_of(reply(status, &format!("location: {target}\r\n"), b"error")).unwrap();
        assert_eq!(answer.header("location"), Some(target.as_str()));
        assert!(elsewhere.accept().is_err(), "{status}");
    }
}

#[test]
fn error_statuses_are_responses() {
    for status in ["400 Bad Request", "429 Too Many Requests", "503 Unavailable"] {
        assert_eq!(outcome_of(reply(status, "", b"no")).unwrap().body, b"no", "{status}");
    }
}

#[test]
fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    assert_eq!(outcome_of(reply("200 OK", "", &[b' '; 1_000])).unwrap().body.len(), 1_000);
    let larger = outcome_of(reply("200 OK", "", &[b' '; 1_001]));
    assert_eq!(larger, Err(TransportError::TooLarge(1_000)));
}

#[test]
fn bytes_that_are_not_utf8_are_unchanged() {
    let answer = outcome_of(reply("200 OK", "x-odd: \u{ff}\r\n", &[0xff, 0x00, 0xfe])).unwrap();
    assert_eq!(answer.body, [0xff, 0x00, 0xfe]);
}

/// `runs` times 258 zero bytes as gzip, by repeating the byte before.
fn zeros_in_gzip(runs: usize) -> Vec<u8> {
    let (mut bits, size) = (String::from("110"), 1 + runs * 258);
    bits.push_str("00110000"); // the literal zero
    bits.push_str(&"1100010100000".repeat(runs)); // length 258, distance 1
    bits.push_str("0000000"); // the end
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for byte in bits.as_bytes().chunks(8) {
        let set = byte.iter().enumerate().filter(|(_, bit)| **bit == b'1');
        bytes.push(set.fold(0, |byte, (place, _)| byte | 1 << place));
    }
    bytes.extend(crc32_of_zeros(size).to_le_bytes());
    bytes.extend(u32::try_from(size).unwrap().to_le_bytes());
    bytes
}

fn crc32_of_zeros(size: usize) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !(0..size * 8).fold(!0, |crc, _| step(crc))
}

#[test]
fn a_gzip_body_is_unpacked() {
    let packed = reply("200 OK", "content-encoding: gzip\r\n", &zeros_in_gzip(3));
    assert_eq!(outcome_of(packed).unwrap().body, vec![0; 775]);
}

#[test]
fn a_gzip_bomb_is_stopped_at_the_limit() {
    let bomb = zeros_in_gzip(5_000);
    assert!(bomb.len() < 10_000);
    let outcome = outcome_of(reply("200 OK", "content-encoding: gzip\r\n", &bomb));
    assert_eq!(outcome, Err(TransportError::TooLarge(1_000)));
}

#[test]
fn a_damaged_gzip_body_has_an_unknown_outcome() {
    let mut packed = zeros_in_gzip(3);
    packed[12] ^= 0x55;
    assert_unknown(&outcome_of(reply("200 OK", "content-encoding: gzip\r\n", &packed)));
}

#[test]
fn an_ip_address_needs_no_dns() {
    for (url, address) in [
        ("http://127.0.0.1/api", Some("127.0.0.1:80")),
        ("https://10.1.2.3/api", Some("10.1.2.3:443")),
        ("http://[::1]:8080/api", Some("[::1]:8080")),
        ("http://localhost:8080/api", None),
    ] {
        let found = ip_address_of(&url.parse().unwrap()).map(|it| it.to_string());
        assert_eq!(found.as_deref(), address, "{url}");
    }
}

#[test]
fn a_message_carries_its_headers_and_no_key() {
    let (url, thread) = serve(vec![reply("204 No Content", "", b""), reply("200 OK", "", b"ok")]);
    let hook =
        crate::api::webhook_url::WebhookUrl::parse(&format!("{url}/hooks/s3cret?a=b")).unwrap();
    post_message::post_message(&hook, Some(b"{}"), &[("x-linkvault-signature", "sha256=ab")], None)
        .unwrap();
    post_message::post_message(&hook, None, &[], None).unwrap();
    let requests = thread.join().unwrap();
    assert!(requests[0].starts_with("POST /hooks/s3cret?a=b HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("x-linkvault-signature: sha256=ab\r\n"), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\n{}"), "{}", requests[0]);
    assert!(requests[1].starts_with("GET /hooks/s3cret?a=b HTTP/1.1\r\n"), "{}", requests[1]);
    assert!(!requests.concat().contains("authorization"));
}

#[test]
fn a_rejected_message_is_an_error_without_the_path() {
    let moved = reply("302 Found", "location: http://elsewhere.example/\r\n", b"");
    let (url, thread) = serve(vec![moved, reply("500 Oops", "", b"")]);
    let hook = crate::api::webhook_url::WebhookUrl::parse(&format!("{url}/hooks/s3cret")).unwrap();
    let first = post_message::post_message(&hook, Some(b"{}"), &[], None).unwrap_err();
    let second = post_message::post_message(&hook, Some(b"{}"), &[], None).unwrap_err();
    assert_eq!(first, "127.0.0.1 answered 302, a redirect, which is not followed");
    assert_eq!(second, "127.0.0.1 answered 500");
    thread.join().unwrap();
    let error = post_message::post_message(&hook, None, &[], None).unwrap_err();
    assert!(error.starts_with("127.0.0.1: ") && !error.contains("s3cret"), "{error}");
}

/// Serves connections, each with a number of requests, and then closes each without a response to
/// what may follow. Returns the number of connections with a request.
fn serve_connections(requests: Vec<usize>) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for count in &requests {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..*count {
                read_request(&mut stream);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            }
            if requests.len() == 1 {
                // A further request arrives, but is not responded to.
                let _arrived = stream.read(&mut [0; 512]);
            }
        }
        requests.len()
    });
    (url, thread)
}

fn write() -> Request {
    Request { method: Method::Post, body: Some(b"{}".to_vec()), ..Request::get("/api/x") }
}

#[test]
fn a_write_that_follows_soon_uses_the_same_connection_and_is_unknown_if_that_ends() {
    let (url, thread) = serve_connections(vec![2]);
    let mut transport = UreqTransport::new(&url, &quick()).unwrap();
    transport.send(&write()).unwrap();
    transport.send(&write()).unwrap();
    assert_unknown(&transport.send(&write()));
    assert_eq!(thread.join().unwrap(), 1);
}

#[test]
fn after_a_connection_ended_each_write_has_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            // A further request, or the end.
            let _arrived = stream.read(&mut [0; 512]);
        }
    });
    let mut transport = UreqTransport::new(&url, &quick()).unwrap();
    transport.send(&write()).unwrap();
    assert_unknown(&transport.send(&write()));
    transport.send(&write()).unwrap();
    transport.send(&write()).unwrap();
    drop(transport);
    thread.join().unwrap();
}

#[test]
fn what_follows_a_response_is_not_the_response_to_the_next_write() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let response = |nth: u8| format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{nth}");
    let (say, told) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        read_request(&mut first);
        first.write_all((response(1) + &response(9)).as_bytes()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        read_request(&mut second);
        second.write_all(response(2).as_bytes()).unwrap();
        // After the client has read the response.
        let () = told.recv().unwrap();
        second.write_all(response(9).as_bytes()).unwrap();
        done.send(()).unwrap();
        let (mut third, _) = listener.accept().unwrap();
        read_request(&mut third);
        third.write_all(response(3).as_bytes()).unwrap();
    });
    let mut transport = UreqTransport::new(&url, &quick()).unwrap();
    assert_eq!(transport.send(&write()).unwrap().body, b"1");
    assert_eq!(transport.send(&write()).unwrap().body, b"2");
    say.send(()).unwrap();
    is_done.recv().unwrap();
    assert_eq!(transport.send(&write()).unwrap().body, b"3");
    thread.join().unwrap();
}

#[test]
fn a_write_does_not_use_an_old_connection() {
    let (url, thread) = serve_connections(vec![1, 1]);
    let options = TransportOptions { reuse_for_writes: Duration::ZERO, ..quick() };
    let mut transport = UreqTransport::new(&url, &options).unwrap();
    transport.send(&write()).unwrap();
    transport.send(&write()).unwrap();
    drop(transport);
    assert_eq!(thread.join().unwrap(), 2);
}

#[test]
fn a_write_does_not_use_a_connection_that_the_service_has_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut transport = UreqTransport::new(&url, &quick()).unwrap();
    for _ in 0..2 {
        let accepting = listener.try_clone().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = accepting.accept().unwrap();
            read_request(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        });
        transport.send(&write()).unwrap();
        // The service has closed the connection when its thread has ended.
        thread.join().unwrap();
    }
}

/// A response with as much in its headers as the largest that proxies send by default.
#[test]
fn headers_of_16_kib_fit_into_the_buffer_of_a_connection() {
    let headers: String =
        (0..16).map(|nth| format!("x-header-{nth}: {}\r\n", "v".repeat(1000))).collect();
    let answer = outcome_of(reply("200 OK", &headers, b"{}")).unwrap();
    assert_eq!(answer.header("x-header-15").map(str::len), Some(1000));
    assert_eq!(answer.body, b"{}");
}

#[test]
fn a_connection_takes_little_memory() {
    let transport = UreqTransport::new("https://links.example", &quick()).unwrap();
    for agent in [&transport.reading, &transport.writing, &transport.another().reading] {
        let config = agent.config();
        assert!(config.input_buffer_size() + config.output_buffer_size() <= 48 << 10);
    }
}

#[test]
fn further_transports_share_the_trusted_certificates() {
    let key = rcgen::generate_simple_self_signed(vec!["links.example".to_owned()]).unwrap();
    let trust = TrustedCertificates::from_pem(key.cert.pem().as_bytes()).unwrap();
    let options = TransportOptions { trust: Some(trust.clone()), ..quick() };
    let first = UreqTransport::new("https://links.example", &options).unwrap();
    let second = first.another();
    let expected = trust.config();
    let RootCerts::Specific(expected) = expected.root_certs() else { panic!() };
    for agent in [&first.reading, &first.writing, &second.reading, &second.writing] {
        let RootCerts::Specific(found) = agent.config().tls_config().root_certs() else { panic!() };
        assert!(Arc::ptr_eq(found, expected));
    }
    assert!(Arc::ptr_eq(&first.connector.0, &second.connector.0));
}

#[test]
fn further_transports_send_to_the_same_service_and_know_themselves_what_was_sent() {
    let (url, thread) = serve(vec![reply("200 OK", "", b"{}"), b"HTTP/1.1 200".to_vec()]);
    let mut first = UreqTransport::new(&url, &quick()).unwrap();
    let mut second = first.another();
    second.send(&Request::get("/api/qr")).unwrap();
    assert_unknown(&second.send(&write()));
    let requests = thread.join().unwrap();
    assert!(requests[0].starts_with("GET /api/qr "), "{requests:?}");
    let refused = first.send(&write()).unwrap_err();
    assert!(matches!(refused, TransportError::NotSent(_)), "{refused:?}");
}

#[test]
fn a_connection_ends_before_a_pause_after_which_it_would_not_be_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..2 {
            read_request(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        }
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read(&mut [0]).unwrap()
    });
    let mut transport = UreqTransport::new(&url, &quick()).unwrap();
    transport.send(&Request::get("/api/qr")).unwrap();
    transport.pause(REUSE_FOR_READS - Duration::from_secs(1));
    transport.send(&Request::get("/api/qr")).unwrap();
    transport.pause(REUSE_FOR_READS);
    assert_eq!(thread.join().unwrap(), 0, "the end of the connection");
}
