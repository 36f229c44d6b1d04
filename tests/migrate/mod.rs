//! Migrations to another account: end-to-end tests.

mod existing_records;
mod manual_tasks;
mod recorded_flags;
mod repeated_migration;
mod report;
