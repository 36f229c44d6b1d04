//! Vaults with several backups.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::Client;
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock, Interrupt, SimulatedClock, SystemClock, Timestamp};
use linkvault::crawl::{self, CrawlOptions};
use linkvault::progress::NoProgress;
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport, Store};
use linkvault::vault::Vault;

const DAY: Duration = Duration::from_secs(86_400);

/// A vault with one backup for each of `days` days, the last of them an hour ago. `day` is called
/// at the beginning of each day; `faults` are active in its backup.
pub fn vault_with_history(vault: &Path, days: u32, faults: &str, day: impl Fn(u32, &mut Store)) {
    let now = SystemClock::new(Interrupt::default()).now();
    let past = i64::try_from((DAY * (days - 1)).as_millis()).unwrap();
    let begin = Timestamp(now.0 - 3_600_000 - past);
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new(begin));
    let key = ApiKey::new("any");
    let service = SandboxService::new(sample_account(begin), key.clone(), Behaviour::default());
    let service = Arc::new(Mutex::new(service.with_log_limit(0)));
    let mut vault = Vault::open_or_create(vault).unwrap();
    for nth in 0..days {
        service.lock().unwrap().mutate(|store| day(nth, store));
        let transport = SandboxTransport::new(Arc::clone(&service), Arc::clone(&clock))
            .with_faults(Arc::new(Mutex::new(faults.parse().unwrap())))
            .with_latency(Duration::from_millis(150));
        let client = Client::new(Box::new(transport), Arc::clone(&clock), Pacer::new(2));
        let mut client = client.with_key(key.clone());
        let options = CrawlOptions::new("https://links.example");
        crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options).unwrap();
        let next = begin.plus(DAY * (nth + 1));
        clock.sleep(next.since(clock.now()));
    }
    vault.close().unwrap();
}
