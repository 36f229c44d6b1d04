//! The way to the service, overheard.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use linkvault::api::http::{Request, Response, Transport, TransportError};
use linkvault::progress::{Event, Progress};

use super::oracle::texts;
use crate::support::echo::{SPELLINGS, spell};

/// So many requests in one crawl mean that it hangs.
const TOO_MANY: usize = 30_000;

/// What passed over the wire.
#[derive(Debug, Default)]
pub struct Overheard {
    /// Paths with their queries, in order.
    pub asked: Vec<String>,
    /// Every record that arrived whole, as text.
    pub delivered: HashSet<String>,
}

/// Passes requests on and listens.
pub struct Wire<T> {
    pub inner: T,
    pub overheard: Arc<Mutex<Overheard>>,
    /// Lets failures repeat the key, as careless services do.
    pub indiscreet: bool,
    /// What each path that begins so is answered with, whatever the service says.
    pub canned: Option<(String, String)>,
}

impl<T: Transport> Transport for Wire<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        {
            let mut overheard = self.overheard.lock().unwrap();
            overheard.asked.push(request.path.clone());
            assert!(overheard.asked.len() < TOO_MANY, "the crawl does not end");
        }
        let mut response = self.inner.send(request)?;
        let canned = self.canned.as_ref().filter(|(path, _)| request.path.starts_with(path));
        if let Some((_, body)) = canned {
            response.body = body.clone().into_bytes();
        }
        let mut overheard = self.overheard.lock().unwrap();
        overheard.delivered.extend(texts(&response.body));
        if self.indiscreet && response.status >= 400 {
            let key = request.key.as_ref().unwrap().reveal();
            let body = String::from_utf8_lossy(&response.body);
            let spoken = format!("Your token {}: ", spell(key, overheard.asked.len()));
            let body = ["\"message\":\"", "\"message\": \"", "<h1>"]
                .iter()
                .fold(body.into_owned(), |body, at| body.replace(at, &format!("{at}{spoken}")));
            response.body = body.into_bytes();
            response.headers.push(("x-echo".to_owned(), spoken));
        }
        Ok(response)
    }
}

/// Whether a secret stands in `bytes` in one of the spellings that services echo it in.
pub fn tells(bytes: &[u8], secret: &str) -> bool {
    (0..SPELLINGS).any(|how| memchr::memmem::find(bytes, spell(secret, how).as_bytes()).is_some())
}

/// Remembers what a watcher is told.
#[derive(Debug, Default)]
pub struct Watcher(Mutex<String>);

impl Watcher {
    /// What was said since the last call.
    pub fn heard(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Progress for Watcher {
    fn event(&self, event: &Event<'_>) {
        use std::fmt::Write as _;
        writeln!(self.0.lock().unwrap(), "{event:?}").unwrap();
    }
}
