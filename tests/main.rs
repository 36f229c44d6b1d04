//! One binary for all end-to-end tests.

// Clippy excuses test functions only, and the helpers here are tests as well.
// What a test skips or measured is told on stdout, which the harness keeps for failures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod browser;
mod cli;
mod compat;
mod docs;
mod examples;
mod fuzz;
mod service;
mod sim;
mod support;
mod tidy;
mod vault;
