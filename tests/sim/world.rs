//! A service, a clock that only moves when somebody waits, and a client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::Client;
use linkvault::api::http::Key;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock, Slept, Timestamp};
use linkvault::crawl::{self, CrawlError, Options, Summary};
use linkvault::progress::Silent;
use linkvault::sandbox::{Behaviour, SandboxTransport, Service, lifelike};
use linkvault::vault::Vault;

/// 2026-11-01T00:00:00Z.
const BEGIN: i64 = 1_793_491_200_000;

/// Time that passes only by sleeping.
#[derive(Default)]
pub struct SimClock(Mutex<Duration>);

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(BEGIN).plus(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, time: Duration) -> Slept {
        *self.0.lock().unwrap() += time;
        Slept::Whole
    }

    fn interrupted(&self) -> bool {
        false
    }
}

pub struct World {
    pub clock: Arc<SimClock>,
    pub service: Arc<Mutex<Service>>,
}

impl World {
    pub fn lifelike() -> Self {
        let store = lifelike::lifelike(Timestamp(BEGIN));
        let service = Service::new(store, Key::new("sim-key"), Behaviour::default());
        Self { clock: Arc::default(), service: Arc::new(Mutex::new(service)) }
    }

    pub fn crawl(&self, vault: &mut Vault, options: &Options) -> Result<Summary, CrawlError> {
        let transport = SandboxTransport::new(Arc::clone(&self.service), self.clock.clone());
        let mut client = Client::new(Box::new(transport), self.clock.clone(), Pacer::new(0))
            .with_key(Key::new("sim-key"));
        crawl::crawl(&mut client, vault, &*self.clock, &Silent, options)
    }
}
