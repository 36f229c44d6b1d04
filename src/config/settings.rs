//! What can be set for an account, and for all of them.

use std::time::Duration;

use super::values::Period;

/// How an account is treated. Everything here has a default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// When the daemon backs the account up, as crontab writes it.
    pub schedule: Option<String>,
    /// The zone of `schedule` and of calendar rules; the machine's own when absent.
    pub timezone: Option<chrono_tz::Tz>,
    /// Requests of each window that are left to the account's other tools.
    pub reserve: u32,
    /// Requests a minute where the service does not tell its limit.
    pub limit: Option<u32>,
    /// Which snapshots `forget` keeps; nothing is forgotten when absent.
    pub keep: Option<Keep>,
    pub stats: Stats,
    /// The most QR codes whose statistics one backup fetches.
    pub stats_budget: Option<u32>,
    pub timeouts: Timeouts,
}

/// Which QR codes' statistics a backup fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stats {
    /// Those whose scans moved since the last fetch.
    #[default]
    Changed,
    All,
    None,
}

impl Stats {
    /// Every choice with its name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("changed", Self::Changed), ("all", Self::All), ("none", Self::None)];
}

/// How long each part of a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Between two pieces of an answer.
    pub read: Duration,
    /// From the first byte of the request to the last of the answer.
    pub overall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), read: seconds(60), overall: seconds(180) }
    }
}

/// Which snapshots are kept: the last so many, the last of each of so many
/// hours, days, …, and all within a time of the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    pub last: Option<u32>,
    pub hourly: Option<u32>,
    pub daily: Option<u32>,
    pub weekly: Option<u32>,
    pub monthly: Option<u32>,
    pub yearly: Option<u32>,
    pub within: Option<Period>,
}
