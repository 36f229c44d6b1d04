//! One binary for all end-to-end tests.

// Clippy excuses test functions only, and the helpers here are tests as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod cli;
mod compat;
mod service;
mod sim;
mod support;
mod vault;
