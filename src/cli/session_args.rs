//! The flags of every command that sends requests.

use std::time::Duration;

use crate::config::parse_duration;
use crate::ops::account_session::SessionLimits;

/// Limits of a session: flags of every command that sends requests.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct SessionArgs {
    /// Leave this number of requests per rate-limit window unused, for other tools; default:
    /// `reserve` in the configuration, else 0
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_RESERVE", hide_env_values = true)]
    pub reserve: Option<u32>,
    /// Stop after this time, such as 10m; a later run continues the work
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        env = "LINKVAULT_MAX_DURATION",
        hide_env_values = true
    )]
    pub max_duration: Option<Duration>,
    /// Stop after this number of requests; a later run continues the work
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_MAX_REQUESTS", hide_env_values = true)]
    pub max_requests: Option<u64>,
    /// Send at most this number of reads at the same time; default: `max_in_flight` in the
    /// configuration, else 4
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_MAX_IN_FLIGHT", hide_env_values = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub max_in_flight: Option<u32>,
    /// Wait up to this time, such as 10m, for another process to release the account's lock;
    /// default: do not wait
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        env = "LINKVAULT_LOCK_TIMEOUT",
        hide_env_values = true
    )]
    pub lock_timeout: Option<Duration>,
}

impl SessionArgs {
    /// These flags as limits of an operation.
    #[must_use]
    pub const fn limits(&self) -> SessionLimits {
        let Self { reserve, max_duration, max_requests, max_in_flight, lock_timeout } = *self;
        SessionLimits { reserve, max_duration, max_requests, max_in_flight, lock_timeout }
    }
}
