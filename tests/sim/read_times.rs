//! The time and the requests of a backup from a service that is far away and allows many requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::{Client, ClientLimits};
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock as _, SimulatedClock};
use linkvault::crawl::{CrawlOptions, StatisticsMode, crawl};
use linkvault::progress::NoProgress;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;
use linkvault::vault::snapshot::ResourceOutcome;

use super::world::BEGIN;

/// A first backup without statistics, with up to this number of reads in flight. Returns the paths
/// that it requested, and its time.
fn first_backup(
    counts: GeneratedCounts,
    behaviour: &str,
    faults: &str,
    max_in_flight: usize,
) -> (Vec<String>, Duration) {
    let behaviour = Behaviour::parse(behaviour).unwrap();
    let service = SandboxService::new(generate(7, counts), ApiKey::new("k"), behaviour);
    let service = Arc::new(Mutex::new(service));
    let clock = Arc::new(SimulatedClock::new(BEGIN));
    let transport = SandboxTransport::new(Arc::clone(&service), clock.clone())
        .with_faults(Arc::new(Mutex::new(faults.parse().unwrap())))
        .with_latency(Duration::from_millis(200))
        .with_lanes(32);
    let limits = ClientLimits { max_in_flight, ..ClientLimits::default() };
    let mut client = Client::new(Box::new(transport), clock.clone(), Pacer::new(0))
        .with_key(ApiKey::new("k"))
        .with_limits(limits);
    let folder = tempfile::tempdir().unwrap();
    let mut vault = Vault::open_or_create(&folder.path().join("main.db")).unwrap();
    let mut options = CrawlOptions::new("http://sandbox");
    options.stats = StatisticsMode::None;
    let report = crawl(&mut client, &mut vault, &*clock, &NoProgress, &options).unwrap();
    let outcomes = &report.snapshot.outcomes;
    assert!(outcomes.iter().all(ResourceOutcome::is_complete));
    let paths = service.lock().unwrap().log().iter().map(|entry| entry.path.clone()).collect();
    (paths, clock.monotonic())
}

#[test]
fn a_backup_of_a_distant_service_overlaps_nearly_all_of_its_reads() {
    let counts = GeneratedCounts {
        domains: 3,
        campaigns: 8,
        channels: 5,
        channel_items: 3,
        qr_codes: 1_900,
        pixels: 4,
        overlays: 3,
        splash_pages: 2,
    };
    let backup = |width| first_backup(counts, "rate-limit=1000,max-limit=10", "", width);
    let (requests, alone) = backup(1);
    assert_eq!(alone, Duration::from_millis(200) * u32::try_from(requests.len()).unwrap());
    for (max_in_flight, rounds) in [(4, 53), (8, 29), (16, 17)] {
        let (overlapping, time) = backup(max_in_flight);
        assert_eq!(overlapping.len(), requests.len());
        assert_eq!(time, Duration::from_millis(200) * rounds, "{max_in_flight} in flight");
    }
}

#[test]
fn after_pages_that_were_too_large_no_more_of_their_size_are_requested() {
    let counts = GeneratedCounts { qr_codes: 20_000, ..GeneratedCounts::default() };
    let faults = "lost-reply@/api/qr?limit=1000&page=3";
    let (paths, time) = first_backup(counts, "rate-limit=none,result=total", faults, 8);
    let smaller = paths.iter().position(|path| path.contains("limit=500")).unwrap();
    let larger: Vec<_> =
        paths[smaller..].iter().filter(|path| path.contains("limit=1000")).collect();
    // Only the first and the last page are read again in their own size.
    assert_eq!(larger, ["/api/qr?limit=1000&page=1", "/api/qr?limit=1000&page=20"]);
    // Responses that nothing asks for do not keep others from being requested early.
    assert!(time < Duration::from_secs(7), "{time:?}");
}
