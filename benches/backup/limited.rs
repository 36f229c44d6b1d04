//! A backup under the service's limit, on simulated time, against the sandbox
//! in process, with pages of ten records at most.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::{Client, ClientLimits};
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock, SimulatedClock, Timestamp};
use linkvault::crawl::{self, CrawlOptions, StatisticsMode};
use linkvault::progress::NoProgress;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport, Store};
use linkvault::vault::Vault;

/// 2026-11-01T00:00:00Z.
const BEGIN: Timestamp = Timestamp(1_793_491_200_000);

/// The service, and how it is read.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub latency: Duration,
    /// In requests a minute.
    pub limit: u64,
    pub in_flight: usize,
}

impl Cell {
    /// The time that limit and latency impose on this number of requests.
    pub fn bound(&self, requests: u64) -> Duration {
        let windows = u32::try_from((requests - 1) / self.limit).unwrap();
        let in_flight = self.latency.mul_f64(requests as f64 / self.in_flight as f64);
        // The last window's requests still take their latency.
        (Duration::from_secs(60) * windows).max(in_flight)
    }
}

/// What a backup took, beside what it could not do without.
#[derive(Debug, Clone, Copy)]
pub struct Limited {
    pub requests: u64,
    /// One for the account, one for each page of a list; an empty list has one.
    pub least: u64,
    pub refused: u64,
    pub time: Duration,
    pub bound: Duration,
}

/// An account with this number of QR codes.
pub fn store(codes: u64) -> Store {
    generate(7, GeneratedCounts { qr_codes: codes, ..GeneratedCounts::default() })
}

/// Backs up the `codes` QR codes of `store`, ten a page.
pub fn run(store: Store, codes: u64, cell: Cell) -> Limited {
    let behaviour = format!("max-limit=10,rate-limit={},result=total", cell.limit);
    let behaviour = Behaviour::parse(&behaviour).unwrap();
    let service = SandboxService::new(store, ApiKey::new("bench-key"), behaviour);
    let service = Arc::new(Mutex::new(service.with_log_limit(0)));
    let clock = Arc::new(SimulatedClock::new(BEGIN));
    let transport = SandboxTransport::new(service, clock.clone())
        .with_latency(cell.latency)
        .with_lanes(cell.in_flight);
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(ApiKey::new("bench-key"))
        .with_limits(ClientLimits { max_in_flight: cell.in_flight, ..ClientLimits::default() });
    let mut vault = Vault::in_memory().unwrap();
    let options = CrawlOptions { stats: StatisticsMode::None, ..CrawlOptions::new("http://bench") };
    let summary = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options).unwrap();
    let records = summary.snapshot.records();
    assert_eq!(records, codes + 1, "{:?}", summary.snapshot);
    let lists = 6;
    let least = 1 + lists + codes.div_ceil(10);
    Limited {
        requests: summary.usage.requests,
        least,
        refused: summary.usage.throttled,
        time: clock.monotonic(),
        bound: cell.bound(least),
    }
}
