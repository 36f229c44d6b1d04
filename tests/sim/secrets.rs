//! Secrets that the service returns, in every place and encoding, and the search for them in what a
//! process stores, prints and logs.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use linkvault::api::http::Response;
use tracing::Dispatch;

use super::world::KEY;
use crate::support::echo_server;

/// Which responses contain the key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Echoes {
    #[default]
    None,
    /// Responses with a status of 400 or more.
    Failures,
    /// Also the messages and records of all others, and connection errors. Records have the same
    /// encoding each time, so that they do not seem to change.
    All { how: usize },
}

/// Number of encodings: those of the test server, hex and base64.
const SPELLINGS: usize = echo_server::SPELLINGS + 4;

fn spell(how: usize) -> String {
    let hex = || KEY.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    match (how % SPELLINGS).checked_sub(echo_server::SPELLINGS) {
        None => echo_server::spell(KEY, how % SPELLINGS),
        Some(0) => hex(),
        Some(1) => hex().to_uppercase(),
        Some(2) => base64(KEY.as_bytes()),
        Some(_) => base64(format!("k:{KEY}").as_bytes()),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |three: &[u8]| {
        let bits =
            three.iter().chain(&[0, 0]).take(3).fold(0, |all, it| all << 8 | usize::from(*it));
        let digit = move |nth: usize| char::from(DIGITS[bits >> (18 - 6 * nth) & 63]);
        let known = three.len() + 1;
        (0..4).map(move |nth| if nth < known { digit(nth) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}

impl Echoes {
    /// `response`, the `nth`, with the key in it.
    pub fn in_response(self, nth: usize, mut response: Response) -> Response {
        let failed = response.status >= 400;
        if self == Self::None || (self == Self::Failures && !failed) {
            return response;
        }
        let key = spell(nth);
        let spoken = format!("Your token {key}: ");
        let mut body = String::from_utf8_lossy(&response.body).into_owned();
        for at in ["\"message\":\"", "\"message\": \"", "<h1>"] {
            body = body.replace(at, &format!("{at}{spoken}"));
        }
        if let Self::All { how } = self
            && !failed
        {
            let member = format!("{MEMBER}\"{}\",\"id\":", spell(how));
            body = body.replace("\"id\":", &member);
        }
        if std::str::from_utf8(&response.body).is_ok() {
            response.body = body.into_bytes();
        }
        response.headers.push(("x-echo".to_owned(), spoken));
        response
    }

    /// The `nth` request's error, with the key in it.
    pub fn in_error(self, nth: usize, why: String) -> String {
        if matches!(self, Self::All { .. }) { format!("{why}: Bearer {}", spell(nth)) } else { why }
    }
}

/// The beginning of what [`Echoes::All`] inserts before the id of a record.
const MEMBER: &str = "\"apikey\":";

/// A record's text without what [`Echoes`] inserted.
pub fn without_echoes(raw: &str) -> String {
    let mut text = raw.to_owned();
    while let Some(begin) = text.find(MEMBER) {
        let value = begin + MEMBER.len() + 1;
        let Some(end) = text[value..].find("\",") else { break };
        text.replace_range(begin..value + end + 2, "");
    }
    text
}

/// Whether `bytes` contain the key in one of the encodings: as sent, in JSON, and with one layer of
/// escapes resolved.
pub fn tells(bytes: &[u8]) -> bool {
    static SEARCH: OnceLock<AhoCorasick> = OnceLock::new();
    let search = SEARCH.get_or_init(|| {
        let mut all: Vec<String> = (0..SPELLINGS).map(spell).collect();
        // The digits that depend on the bytes before or after it.
        for encoded in all.iter_mut().skip(echo_server::SPELLINGS + 2) {
            *encoded = encoded[4..encoded.len() - 4].to_owned();
        }
        let plain = all.clone();
        all.extend(
            plain.iter().map(|it| serde_json::to_string(it).unwrap().trim_matches('"').to_owned()),
        );
        all.extend(plain.iter().filter_map(|it| serde_json::from_str(&format!("\"{it}\"")).ok()));
        all.sort();
        all.dedup();
        AhoCorasick::new(all).unwrap()
    });
    search.is_match(bytes)
}

/// Collects the log at level trace.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A log of `-vvv`, kept in memory.
pub struct Log {
    lines: Lines,
    dispatch: Dispatch,
}

impl Log {
    pub fn new() -> Self {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        Self { lines, dispatch: Dispatch::new(log) }
    }

    pub fn over<T>(&self, work: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch, work)
    }

    /// What was logged since the last call.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.lines.0.lock().unwrap())
    }
}

#[test]
fn base64_follows_the_standard() {
    for (plain, encoded) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
        assert_eq!(base64(plain.as_bytes()), encoded);
    }
}

#[test]
fn the_key_and_nothing_else_is_redacted_in_every_spelling() {
    for how in 0..SPELLINGS {
        assert!(tells(format!("a {} b", spell(how)).as_bytes()), "{}", spell(how));
        let raw = format!(r#"{{"a":1,"apikey":"{}","id":7}}"#, spell(how));
        assert_eq!(without_echoes(&raw), r#"{"a":1,"id":7}"#);
    }
    assert!(!tells(b"Your token [redacted]: no"));
}
