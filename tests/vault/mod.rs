//! Tests of the vault: reading back, views, damage and errors.

mod batched_pages;
mod bit_flips;
mod browsing;
mod damage;
mod field_types;
mod files;
mod finished_snapshots;
mod forgetting;
mod journal;
mod lock;
mod open_errors;
mod remembered_values;
mod restore_and_logs;
mod retention;
mod rollback;
mod round_trips;
pub mod sample;
mod sent;
pub mod snapshot_builder;
mod unusual_records;
mod vault_files;
mod views;
