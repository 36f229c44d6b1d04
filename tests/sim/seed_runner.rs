//! Runs a simulation with many seeds, and reports failures with their seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linkvault::clock::{Clock as _, Interrupt, SystemClock};

/// Number of failures after which no more seeds are started.
const MAX_FAILURES: usize = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The first seed and the number of seeds: `usual`, unless the environment sets them.
pub fn range(usual: u64) -> (u64, u64) {
    let count = number("LINKVAULT_SIM_SEEDS");
    match number("LINKVAULT_SIM_SEED") {
        Some(seed) => (seed, count.unwrap_or(1)),
        None => (1, count.unwrap_or(usual)),
    }
}

/// Runs each seed, on all cores, and then reports those that failed. Each seed is printed first, so
/// that a failure that cannot be caught can be repeated. `LINKVAULT_SIM_SECONDS` limits the time
/// instead of the number of seeds.
#[allow(clippy::print_stdout)]
pub fn run_seeds(usual: u64, simulate: impl Fn(u64) + Sync) {
    let (first, count) = range(usual);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let clock = SystemClock::new(Interrupt::default());
    let begun = clock.monotonic();
    let end = number("LINKVAULT_SIM_SECONDS").map(|it| begun + Duration::from_secs(it));
    let finished = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |it| it.get().min(4));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let over = match end {
                Some(end) => clock.monotonic() >= end,
                None => seed >= first + count,
            };
            if over || failed.lock().unwrap().len() >= MAX_FAILURES {
                return;
            }
            finished.fetch_add(1, Ordering::Relaxed);
            println!("LINKVAULT_SIM_SEED={seed}");
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
                let text: String = text.unwrap_or_default().chars().take(1500).collect();
                // Immediately, in case a long run is stopped.
                println!("failed: LINKVAULT_SIM_SEED={seed}");
                failed.lock().unwrap().push((seed, text));
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let finished = finished.into_inner();
    let seconds = clock.monotonic().saturating_sub(begun).as_secs_f64();
    println!("{finished} seeds from {first} in {seconds:.1} s");
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    let told: Vec<_> =
        failed.iter().map(|(seed, text)| format!("LINKVAULT_SIM_SEED={seed}: {text}")).collect();
    assert!(failed.is_empty(), "{} of {finished} failed:\n{}", failed.len(), told.join("\n"));
}
