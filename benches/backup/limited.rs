//! A backup under the service's limit, on simulated time, against the sandbox
//! in process: 30 requests a minute, and pages of ten records at most.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::Client;
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock, SimulatedClock, Timestamp};
use linkvault::crawl::{self, CrawlOptions, StatisticsMode};
use linkvault::progress::NoProgress;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;

/// 2026-11-01T00:00:00Z.
const BEGIN: Timestamp = Timestamp(1_793_491_200_000);

/// What the backup came to, beside what it could not do without.
#[derive(Debug)]
pub struct Limited {
    pub requests: u64,
    /// One for the account, one for each page of a list; an empty list has one.
    pub least: u64,
    pub refused: u64,
    pub time: Duration,
    /// What the limit itself imposes on these requests.
    pub imposed: Duration,
}

/// Backs up `codes` QR codes, ten a page, at a latency of 200 ms.
pub fn run(codes: u64) -> Limited {
    let latency = Duration::from_millis(200);
    let store = generate(7, GeneratedCounts { qr_codes: codes, ..GeneratedCounts::default() });
    let behaviour = Behaviour::parse("max-limit=10,rate-limit=30,result=total").unwrap();
    let service =
        Arc::new(Mutex::new(SandboxService::new(store, ApiKey::new("bench-key"), behaviour)));
    let clock = Arc::new(SimulatedClock::new(BEGIN));
    let transport = SandboxTransport::new(service, clock.clone()).with_latency(latency);
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(ApiKey::new("bench-key"));
    let mut vault = Vault::in_memory().unwrap();
    let options = CrawlOptions { stats: StatisticsMode::None, ..CrawlOptions::new("http://bench") };
    let summary = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options).unwrap();
    let outcome = summary.snapshot.records();
    assert_eq!(outcome, codes + 1, "{:?}", summary.snapshot);
    let lists = 6;
    let requests = summary.usage.requests;
    let windows = u32::try_from((requests - 1) / 30).unwrap();
    Limited {
        requests,
        least: 1 + lists + codes.div_ceil(10),
        refused: summary.usage.throttled,
        time: clock.monotonic(),
        // The last window's requests still take their latency.
        imposed: Duration::from_secs(60) * windows,
    }
}
