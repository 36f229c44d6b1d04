//! The crawler and the vault on simulated time, against the sandbox in process.
//!
//! `history` lives through what `draw` drew from a seed, and `checks` says
//! what must then be true; the other files hold the hard cases one by one.
//! `pushes` does the same for writes: `edits` draws what a person wants, `views`
//! compares accounts, and `sent` what was sent with what was planned.
//! `account` draws an account to write to, and `reused` tells apart records that had the
//! same id.
//! `migrations` moves one account to another, and `moved` tells whether all arrived.
//! `overtaken` has somebody else edit what a run is about to change.
//! `secrets` sends the key back in every spelling and looks for it, and `stranger` lets
//! another account answer.
//! `many` lives through many seeds.
//! `LINKVAULT_SIM_SEED=n` runs one seed, `LINKVAULT_SIM_SEEDS=count` that many,
//! and both together `count` seeds from `n` on. `LINKVAULT_SIM_SECONDS=time` runs as
//! many as that time allows.

mod account;
mod answers;
mod applied;
mod applies;
mod checks;
mod crashes;
mod daemon;
mod doubts;
mod draw;
mod edits;
mod history;
mod least;
mod listings;
mod many;
mod migrations;
mod moved;
mod oracle;
mod overtaken;
mod proven;
mod pushes;
mod reused;
mod secrets;
mod seeds;
mod sent;
mod stranger;
mod switched;
mod twins;
mod views;
mod wire;
pub mod world;
