//! A server whose responses the test determines by path, with or without TLS.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Responds to every `GET` with the JSON that a function returns for its path.
pub struct Canned {
    address: std::net::SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Canned {
    pub fn start(
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = match &tls {
                    Some(tls) => encrypted(stream, tls, &answer),
                    None => serve_connection(stream, &answer),
                };
            }
        });
        Self { address, connections }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn encrypted(
    stream: TcpStream,
    tls: &Arc<ServerConfig>,
    answer: &impl Fn(&str) -> String,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(tls)).map_err(std::io::Error::other)?;
    serve_connection(StreamOwned::new(connection, stream), answer)
}

fn serve_connection(
    stream: impl Read + Write,
    answer: &impl Fn(&str) -> String,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head)? > 0 {}
    let body = answer(head.split(' ').nth(1).unwrap_or_default());
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-ratelimit-limit: 0";
    let stream = stream.get_mut();
    write!(stream, "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")?;
    stream.flush()
}

/// The responses of a small account: three campaigns, and nothing else.
pub fn small(path: &str) -> String {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    if path == "/api/account" {
        return r#"{"error":0,"data":{"id":7,"email":"a@example.com","username":"a"}}"#.to_owned();
    }
    let records = match path {
        "/api/campaigns" => [1, 2, 3].map(campaign).join(","),
        _ => String::new(),
    };
    page(path, &records, 3, 1, 1)
}

pub fn campaign(id: u64) -> String {
    format!(r#"{{"id":{id},"name":"Campaign {id}","public":true,"rotator":false,"list":""}}"#)
}

pub fn page(path: &str, records: &str, result: u64, page: u64, last: u64) -> String {
    let key = match path.trim_start_matches("/api/") {
        "overlay" => "cta",
        "qr" => "qrs",
        other => other,
    };
    let result = if records.is_empty() { 0 } else { result };
    format!(
        "{{\"error\":\"0\",\"data\":{{\"result\":{result},\"perpage\":1000,\"currentpage\":{page},\
         \"nextpage\":null,\"maxpage\":{last},\"{key}\":[{records}]}}}}"
    )
}
