//! Many histories, each with its own seed.

use super::history::History;
use crate::sim::seed_runner::{live_all, range};
use crate::sim::seeded_choices::Drawn;

/// Number of seeds that `cargo test` runs.
const SEEDS: u64 = 200;

#[test]
fn every_promise_holds_under_random_faults() {
    live_all(SEEDS, live);
}

/// With a single seed, the random choices are printed too.
#[allow(clippy::print_stdout)]
fn live(seed: u64) {
    let drawn = Drawn::from(seed);
    if range(SEEDS).1 == 1 {
        println!("{drawn:#?}");
    }
    History::of(&drawn).live();
}
