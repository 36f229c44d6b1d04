//! Many histories, each from its own seed.

use super::history::History;
use crate::sim::seed_runner::{live_all, range};
use crate::sim::seeded_choices::Drawn;

/// How many seeds `cargo test` runs.
const SEEDS: u64 = 200;

#[test]
fn every_promise_holds_under_random_faults() {
    live_all(SEEDS, live);
}

/// Of a single seed, what was drawn is told as well.
#[allow(clippy::print_stdout)]
fn live(seed: u64) {
    let drawn = Drawn::from(seed);
    if range(SEEDS).1 == 1 {
        println!("{drawn:#?}");
    }
    History::of(&drawn).live();
}
