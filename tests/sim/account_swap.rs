//! Another account that responds to the URL and key for a while: from the start of a process, from
//! a long wait, or from a shorter wait after a write, until the process ends.

use std::time::Duration;

use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{SandboxService, Store};

/// Text in each of its records.
pub const MARK: &str = "of-the-other-account";

/// A process confirms the account after a shorter pause than this.
const LONG: Duration = Duration::from_secs(80);
/// After a write and a shorter wait than this, a process confirms the account before another write,
/// and before it observes the result.
const LONG_AFTER_WRITE: Duration = Duration::from_secs(55);

pub struct OtherAccount {
    rng: fastrand::Rng,
    chance: f64,
    theirs: Store,
    /// Our account, while the other one responds.
    ours: Option<Store>,
    /// When the last request of the process ended.
    ended: Option<Duration>,
    /// Whether that was a write.
    has_written: bool,
}

impl OtherAccount {
    /// The chance that it appears after a long wait.
    pub fn new(seed: u64, chance: f64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { rng, chance, theirs: other_store(seed), ours: None, ended: None, has_written: false }
    }

    /// Called when a process starts.
    pub const fn begin(&mut self) {
        self.ended = None;
    }

    pub const fn is_active(&self) -> bool {
        self.ours.is_some()
    }

    /// Called when a request is sent at `now`.
    pub fn before_request(&mut self, service: &mut SandboxService, now: Duration) {
        let long = if self.has_written { LONG_AFTER_WRITE } else { LONG };
        let may = self.ended.is_none_or(|ended| now.saturating_sub(ended) > long);
        if self.ours.is_some() || !may || self.rng.f64() >= self.chance {
            return;
        }
        self.theirs.account.id = service.store().account.id + 1;
        let theirs = self.theirs.clone();
        self.ours = Some(service.mutate(|store| std::mem::replace(store, theirs)));
    }

    /// Called when a request has ended at `now`. Its duration is not a pause: if proving the
    /// account takes minutes, no write could follow soon after.
    pub const fn request_ended(&mut self, now: Duration, is_write: bool) {
        self.ended = Some(now);
        self.has_written = is_write;
    }

    /// Restores our account, and asserts that nothing was written to the other one.
    #[track_caller]
    pub fn leave(&mut self, service: &mut SandboxService) {
        let Some(ours) = self.ours.take() else { return };
        let theirs = service.mutate(|store| std::mem::replace(store, ours));
        assert_eq!(theirs, self.theirs, "another account was written to");
    }
}

fn other_store(seed: u64) -> Store {
    let mut store = generate(!seed, GeneratedCounts::each(3));
    let mark = |text: &mut String| *text = format!("{text} {MARK}");
    mark(&mut store.account.username);
    store.domains.iter_mut().for_each(|(_, row)| mark(&mut row.redirectroot));
    store.campaigns.iter_mut().for_each(|(_, row)| mark(&mut row.name));
    store.qr_codes.iter_mut().for_each(|(_, row)| mark(&mut row.name));
    store.pixels.iter_mut().for_each(|(_, row)| mark(&mut row.name));
    store.overlays.iter_mut().for_each(|(_, row)| mark(&mut row.name));
    store.splash.iter_mut().for_each(|(_, row)| mark(&mut row.name));
    for (_, row) in store.channels.iter_mut() {
        mark(&mut row.name);
        row.items.iter_mut().for_each(|item| mark(&mut item.title));
    }
    store
}
