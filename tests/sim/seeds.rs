//! Many histories, each from its own seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::draw::Drawn;
use super::history::History;
use super::many::range;

/// How many seeds `cargo test` runs.
const SEEDS: u64 = 200;

#[test]
fn every_promise_holds_whatever_happens() {
    let (first, count) = range(SEEDS);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |it| it.get().min(4));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || failed.lock().unwrap().len() >= 20 {
                        return;
                    }
                    if let Err(why) = run(seed) {
                        failed.lock().unwrap().push((seed, why));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    let list: Vec<_> = failed.iter().map(|(seed, why)| format!("{seed}: {why}")).collect();
    if let Some((seed, _)) = failed.first() {
        let drawn = Drawn::from(*seed);
        panic!(
            "run again with LINKVAULT_SIM_SEED={seed}\n{drawn:#?}\nfailed seeds:\n{}",
            list.join("\n")
        );
    }
}

/// Prints the seed first, so that even what cannot be caught can be rerun.
#[allow(clippy::print_stdout)]
fn run(seed: u64) -> Result<(), String> {
    println!("LINKVAULT_SIM_SEED={seed}");
    let drawn = Drawn::from(seed);
    catch_unwind(AssertUnwindSafe(|| History::of(&drawn).live())).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_default().chars().take(1500).collect()
    })
}
