//! The vault alone: what it gives back, what it shows, what it notices, what it refuses.

mod browsing;
mod damage;
pub mod desk;
mod files;
mod finished;
mod flips;
mod forgetting;
mod held;
mod journal;
mod lock;
mod odd;
mod refusals;
mod replace;
mod retention;
mod rollback;
mod round_trips;
pub mod sample;
mod sent;
mod views;
