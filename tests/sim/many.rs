//! Many lives, each from a seed of its own; what fails is told with its seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first seed, and how many from there on; `usual` many where nobody asks.
pub fn range(usual: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("LINKVAULT_SIM_SEEDS");
    match number("LINKVAULT_SIM_SEED") {
        Some(seed) => (seed, count.unwrap_or(1)),
        None => (1, count.unwrap_or(usual)),
    }
}

/// Lives through each seed, on all cores, and then tells which ones failed.
pub fn live_all(usual: u64, live: impl Fn(u64) + Sync) {
    let (first, count) = range(usual);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |it| it.get().min(4));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| live(seed))) {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
                let text: String = text.unwrap_or_default().chars().take(1500).collect();
                failed.lock().unwrap().push(format!("LINKVAULT_SIM_SEED={seed}: {text}"));
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count} failed:\n{}", failed.len(), failed.join("\n"));
}
