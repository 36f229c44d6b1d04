//! Two custom transports: one that records what passes through another,
//! and one that replays a recording where there is no service at all.
//!
//! A transport is the only connection between the program and a network. So a
//! backup can be tested against recorded answers, or sent through a tunnel.
//!
//!     cargo run --example transport

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use linkvault::api::client::Client;
use linkvault::api::http::{ApiKey, Request, Response, Transport, TransportError};
use linkvault::api::pacer::Pacer;
use linkvault::change::diff::{StateDiff, diff};
use linkvault::clock::{Clock, Interrupt, SystemClock};
use linkvault::crawl::{self, CrawlOptions, StatisticsMode};
use linkvault::model::{Resource, State};
use linkvault::progress::NoProgress;
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;

/// What was asked and what was answered, in order. The key is left out.
type Recording = Arc<Mutex<Vec<(String, Response)>>>;

fn name(request: &Request) -> String {
    format!("{} {}", request.method, request.path)
}

/// Passes requests on to `inner` and writes every answer down.
struct RecordingTransport<T> {
    inner: T,
    recording: Recording,
}

impl<T: Transport> Transport for RecordingTransport<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let response = self.inner.send(request)?;
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        recording.push((name(request), response.clone()));
        Ok(response)
    }
}

/// Answers as the recording does.
struct ReplayTransport {
    recording: Recording,
}

impl Transport for ReplayTransport {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = recording.iter().find(|(asked, _)| *asked == name(request));
        // `NotSent` says that repeating the request would be safe.
        let missing = || TransportError::NotSent(format!("{} is not recorded", name(request)));
        answer.map(|(_, response)| response.clone()).ok_or_else(missing)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Prints what a backup asked for, and whether its replay came to the same.
///
/// # Errors
/// When the account cannot be read.
pub fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(Interrupt::default()));
    let key = ApiKey::new("any word will do");
    let service =
        SandboxService::new(sample_account(clock.now()), key.clone(), Behaviour::default());
    let inner = SandboxTransport::new(Arc::new(Mutex::new(service)), Arc::clone(&clock));

    let recording = Recording::default();
    let recorder = RecordingTransport { inner, recording: Arc::clone(&recording) };
    let recorded = back_up(Box::new(recorder), &key, &clock)?;
    for (asked, response) in recording.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        writeln!(out, "{} {asked}", response.status)?;
    }

    let replayed = back_up(Box::new(ReplayTransport { recording }), &key, &clock)?;
    let same = diff(&recorded, &replayed) == StateDiff::default();
    writeln!(out, "the replay is {}", if same { "the same" } else { "different" })?;
    Ok(())
}

fn back_up(
    transport: Box<dyn Transport>,
    key: &ApiKey,
    clock: &Arc<dyn Clock>,
) -> Result<State, Box<dyn Error>> {
    let mut client = Client::new(transport, Arc::clone(clock), Pacer::new(0)).with_key(key.clone());
    let mut vault = Vault::in_memory()?;
    let options =
        CrawlOptions { stats: StatisticsMode::None, ..CrawlOptions::new("http://sandbox.example") };
    let summary = crawl::crawl(&mut client, &mut vault, &**clock, &NoProgress, &options)?;
    Ok(vault.state(summary.snapshot.number, &Resource::ALL)?)
}
