//! A server that returns secrets, in a given encoding, wherever a response can contain them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use linkvault::api::http::{ApiKey, Method, Request, Response};
use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService};
use serde_json::Value;

/// Number of encodings of a secret in a JSON string.
pub const SPELLINGS: usize = 14;

/// `secret` in the encoding `how`, for the inside of a JSON string.
pub fn spell(secret: &str, how: usize) -> String {
    let each = |spell: fn(char) -> String| secret.chars().map(spell).collect::<String>();
    let sign = char::is_alphanumeric;
    match how % SPELLINGS {
        1 => each(|it| format!("\\u{:04x}", u32::from(it))),
        2 => each(|it| format!("\\u{:04X}", u32::from(it))),
        3 => secret.replace('/', "\\/").replace('+', "\\u002b"),
        4 => each(|it| format!("%{:02X}", u32::from(it))),
        5 => secret.replace('/', "%2f").replace('+', "%2b").replace('=', "%3d"),
        6 => each(|it| format!("&#{};", u32::from(it))),
        7 => each(|it| format!("&#x{:X};", u32::from(it))),
        8 => secret.replace('+', "&plus;").replace('/', "&sol;").replace('=', "&equals;"),
        9 => secret.chars().map(|it| if sign(it) { it.into() } else { format!("{it} ") }).collect(),
        10 => {
            secret.chars().map(|it| if sign(it) { it.into() } else { format!("\\n{it}") }).collect()
        }
        11 => each(|it| format!("\\\\u{:04x}", u32::from(it))),
        12 => each(|it| format!("%25{:02X}", u32::from(it))),
        13 => secret.to_uppercase(),
        _ => secret.to_owned(),
    }
}

/// Whether `bytes` contain `secret` in any of the encodings, by code that is independent of the
/// redactor.
pub fn contains_secret(bytes: &[u8], secret: &str) -> bool {
    let mut text = String::from_utf8_lossy(bytes).to_lowercase();
    let wanted = secret.to_lowercase();
    let escape =
        regex::Regex::new(r"\\+u([0-9a-f]{4})|%(?:25)*([0-9a-f]{2})|&#x([0-9a-f]+);|&#([0-9]+);")
            .unwrap();
    for _ in 0..4 {
        let bare: String = text.chars().filter(|it| !it.is_whitespace() && *it != '\\').collect();
        if text.contains(&wanted) || bare.contains(&wanted) {
            return true;
        }
        text = text.replace("&amp;", "&").replace("\\n", " ").replace("&plus;", "+");
        text = text.replace("&sol;", "/").replace("&equals;", "=");
        let decoded = escape.replace_all(&text, |found: &regex::Captures<'_>| {
            let digits = found.iter().skip(1).position(|it| it.is_some()).unwrap();
            let radix = if digits == 3 { 10 } else { 16 };
            let code = u32::from_str_radix(&found[digits + 1], radix).unwrap_or(0);
            char::from_u32(code).unwrap_or(' ').to_string()
        });
        text = decoded.to_lowercase();
    }
    false
}

/// The sandbox on its own port, which returns secrets.
pub struct EchoService {
    address: std::net::SocketAddr,
    service: Arc<Mutex<SandboxService>>,
}

impl EchoService {
    /// Accepts `key`, and returns it, and the password it gets, in the encoding `how`. `write`
    /// selects its responses to writes.
    pub fn start(key: &str, how: usize, write: Write) -> Self {
        Self::with(key, how, write, &[])
    }

    /// The same, and it also returns `others`: secrets that no request contained.
    pub fn with(key: &str, how: usize, write: Write, others: &[&str]) -> Self {
        let clock = SystemClock::new(Interrupt::default());
        let behaviour = Behaviour::parse("rate-limit=none").unwrap();
        let service = SandboxService::new(sample_account(clock.now()), ApiKey::new(key), behaviour);
        let service = Arc::new(Mutex::new(service));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&service);
        let mut password = String::new();
        let others: String = others.iter().map(|it| format!(" and {}", spell(it, how))).collect();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve_connection(stream, &shared, (how, &others), write, &mut password);
            }
        });
        Self { address, service }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Number of requests so far.
    pub fn request_count(&self) -> u64 {
        self.service.lock().unwrap().totals().handled
    }
}

/// The kind of response to writes.
#[derive(Debug, Clone, Copy)]
pub enum Write {
    Done,
    Refused,
    Failed,
    Redirected,
}

fn serve_connection(
    stream: TcpStream,
    service: &Mutex<SandboxService>,
    (how, others): (usize, &str),
    write: Write,
    password: &mut String,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(&stream);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let key = header("authorization: Bearer ").unwrap_or_default();
    let mut body = vec![0; header("content-length: ").map_or(0, |it| it.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let mut words = head.split(' ');
    let method = match words.next().unwrap() {
        "GET" => Method::Get,
        "PUT" => Method::Put,
        "POST" => Method::Post,
        _ => Method::Delete,
    };
    let request = Request {
        method,
        path: words.next().unwrap().to_owned(),
        key: Some(ApiKey::new(key)),
        body: (!body.is_empty()).then_some(body),
    };
    if let Some(given) =
        request.body.as_ref().and_then(|it| serde_json::from_slice::<Value>(it).ok())
        && let Some(given) = given["password"].as_str()
    {
        given.clone_into(password);
    }
    let now = SystemClock::new(Interrupt::default()).now();
    let response = service.lock().unwrap().handle(now, &request);
    let secrets = [key, password].map(|it| spell(it, how)).join(" and ") + others;
    let (status, headers, body) = echo(&request, response, &secrets, how, write);
    let length = body.len();
    let echo = secrets.replace("\\n", " ");
    (&stream).write_all(
        format!(
            "HTTP/1.1 {status} {echo}\r\nx-echo: {echo}\r\ncontent-length: {length}\r\n\
             connection: close\r\n{headers}\r\n{body}"
        )
        .as_bytes(),
    )
}

/// Status, further headers and body of a response with `secrets` in it.
fn echo(
    request: &Request,
    response: Response,
    secrets: &str,
    how: usize,
    write: Write,
) -> (u16, String, String) {
    let json = "content-type: application/json\r\n".to_owned();
    let html = |status| {
        let page = format!("<html><title>Oh, {secrets}</title><p>You sent {secrets}</p></html>");
        (status, "content-type: text/html\r\n".to_owned(), page)
    };
    let redirect = || {
        let place = secrets.replace(' ', "%20").replace("\\n", "%0A");
        (302, format!("location: https://x.example/?key={place}\r\n"), String::new())
    };
    let refusal =
        |status| (status, json.clone(), format!("{{\"error\":1,\"message\":\"No: {secrets}\"}}"));
    if request.method != Method::Get {
        return match write {
            Write::Refused => refusal(400),
            Write::Failed => html(500),
            Write::Redirected => redirect(),
            Write::Done => {
                let body = format!("{{\"error\":0,\"id\":1,\"message\":\"Done, {secrets}\"}}");
                (200, json, body)
            }
        };
    }
    let path = request.path.split('?').next().unwrap();
    let mut body = String::from_utf8(response.body).unwrap();
    match path {
        "/api/overlay" => return refusal(400),
        "/api/splash" => return redirect(),
        "/api/pixels" => return html(404),
        "/api/channels" if how != 0 => return refusal(422),
        "/api/channels" => {
            return (
                200,
                format!("content-type: text/x; {}\r\n", secrets.replace("\\n", " ")),
                secrets.to_owned(),
            );
        }
        "/api/campaigns" => body = body.replace("Summer Sale", &format!("Sale {secrets} now")),
        _ => {}
    }
    let member = format!("\"apikey\":\"{secrets}\",\"Bearer {secrets}\":1,\"id\":");
    (response.status, json, body.replace("\"id\":", &member))
}
