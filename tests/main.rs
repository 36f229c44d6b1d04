//! One binary for all end-to-end tests.

// Clippy excuses test functions only, and the helpers here are tests as well.
// Tests print what they skip or measure to stdout, which the harness shows for failures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod api;
mod browser;
mod change;
mod cli;
mod compat;
mod config;
mod crawl;
mod daemon;
mod docs;
mod examples;
#[cfg(feature = "fleet")]
mod fleet;
mod fuzz;
mod migrate;
mod ops;
mod sandbox;
mod sim;
mod support;
mod tidy;
mod ui;
mod vault;
