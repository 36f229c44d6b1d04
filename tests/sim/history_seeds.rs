//! Many histories, each with its own seed.

use super::history::History;
use crate::sim::seed_runner::{range, run_seeds};
use crate::sim::seeded_choices::SimulatedHistory;

/// Number of seeds that `cargo test` runs.
const SEEDS: u64 = 200;

#[test]
fn every_invariant_holds_under_random_faults() {
    run_seeds(SEEDS, simulate);
}

/// With a single seed, the random choices are printed too.
#[allow(clippy::print_stdout)]
fn simulate(seed: u64) {
    let drawn = SimulatedHistory::from(seed);
    if range(SEEDS).1 == 1 {
        println!("{drawn:#?}");
    }
    History::of(&drawn).simulate();
}
