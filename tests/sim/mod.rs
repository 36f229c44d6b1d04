//! The program on simulated time, against the sandbox in process, with faults and edits
//! drawn from a seed.
//!
//! - `history_seeds` runs a `history` of backups; `seeded_choices` draws its events, and
//!   `invariants` checks what must be true after each.
//! - `random_pushes` plans and applies what `random_edits` draws; `account_view` compares
//!   accounts, and `sent_requests` compares requests with the plan. `account` draws the
//!   account, and `reused_ids` distinguishes records that had the same id.
//! - `apply_runs` loses requests and responses; `expected_account` is what must result.
//! - `migrations` moves an account, and `migration_check` checks that all of it arrived.
//! - The other files hold single difficult cases.
//! - `seed_runner` reads `LINKVAULT_SIM_SEED=n` (run that seed), `LINKVAULT_SIM_SEEDS=count`
//!   (run that number of seeds; with both, `count` seeds from `n` on) and
//!   `LINKVAULT_SIM_SECONDS=time` (run seeds for that time).

mod account;
mod account_swap;
mod account_view;
pub mod apply_runs;
mod concurrent_changes;
mod crashes;
mod daemon;
mod duplicate_listings;
mod executed_writes;
pub mod expected_account;
mod history;
mod history_seeds;
pub mod invariants;
mod late_answers;
mod late_commits;
mod listings;
mod migration_check;
mod migrations;
mod minimal_requests;
mod oracle;
mod overlapping_reads;
mod proven_listings;
mod random_edits;
mod random_pushes;
mod read_times;
pub mod recorded_transport;
mod reordered_transport;
mod reused_ids;
mod secrets;
pub mod seed_runner;
pub mod seeded_choices;
mod sent_requests;
mod swapped_mid_crawl;
mod unknown_outcomes;
mod use_cases;
pub mod world;
mod wrong_responses;
