//! What can be set for an account, and for all of them.

use std::path::PathBuf;
use std::time::Duration;

use super::values::{CalendarPeriod, ListenAddress};
use crate::api::webhook_url::WebhookUrl;
use crate::config::key_source::KeySource;
use crate::model::{CountOrPercent, Resource};

/// How an account is treated. Everything here has a default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccountSettings {
    /// When the daemon backs the account up, as crontab writes it.
    pub schedule: Option<String>,
    /// The zone of `schedule` and of calendar rules; the machine's own when absent.
    pub timezone: Option<chrono_tz::Tz>,
    /// Requests of each window that are left to the account's other tools.
    pub reserve: u32,
    /// Requests a minute where the service does not tell its limit.
    pub limit: Option<u32>,
    /// How old a list may be when a write that stands on it leaves.
    pub max_staleness: Option<Duration>,
    /// Which snapshots `forget` keeps; nothing is forgotten when absent.
    pub keep: Option<RetentionRules>,
    /// Resources that are not backed up; a snapshot without them lacks nothing.
    pub skip: Vec<Resource>,
    pub stats: StatisticsSetting,
    /// The most QR codes whose statistics one backup fetches.
    pub stats_budget: Option<u32>,
    pub timeouts: Timeouts,
    /// The file of the certificates that are trusted instead of the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// The most records of one list.
    pub max_records: Option<u32>,
    /// The most bytes of one list.
    pub max_bytes: Option<u32>,
    /// Where the newest snapshot is exported after each backup: a folder of the
    /// account's name in it.
    pub export: Option<ExportSettings>,
    /// The folder for a copy of the vault after each backup.
    pub copy: Option<PathBuf>,
    /// What is asked after each complete backup.
    pub heartbeat: Option<WebhookUrl>,
    pub alerts: AlertSettings,
}

/// How the daemon itself is run. Flags and variables outweigh it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaemonSettings {
    /// The most backups at once.
    pub workers: Option<u16>,
    /// Where the page is served.
    pub listen: Option<ListenAddress>,
    /// The file with the token that opens the page.
    pub token_file: Option<PathBuf>,
    /// Names by which the page may be called, beside this machine's own.
    pub allow_host: Vec<String>,
}

/// An export after each backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSettings {
    pub folder: PathBuf,
    pub format: ExportFormat,
}

/// The form of exported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportFormat {
    #[default]
    Csv,
    Json,
}

impl ExportFormat {
    /// Every choice with its name.
    pub const NAMES: [(&'static str, Self); 2] = [("csv", Self::Csv), ("json", Self::Json)];
}

/// Who is told of problems, and what is one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AlertSettings {
    pub webhook: Option<WebhookUrl>,
    /// What the webhook's messages are signed with.
    pub secret: Option<KeySource>,
    /// A program and its arguments, run without a shell.
    pub command: Option<Vec<String>>,
    /// More removed records than this are a problem.
    pub removed: CountOrPercent,
    /// The oldest that the newest complete backup may be.
    pub max_age: Option<Duration>,
}

/// Which QR codes' statistics a backup fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatisticsSetting {
    /// Those whose scans moved since the last fetch.
    #[default]
    Changed,
    All,
    None,
}

impl StatisticsSetting {
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

/// Which snapshots are kept: a number of the newest, the last of each hour, day, … for a
/// number of these, all within a time of the newest, and all with a tag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionRules {
    pub last: Option<u32>,
    pub hourly: Option<u32>,
    pub daily: Option<u32>,
    pub weekly: Option<u32>,
    pub monthly: Option<u32>,
    pub yearly: Option<u32>,
    pub within: Option<CalendarPeriod>,
    /// All with one of these tags.
    pub tags: Vec<String>,
}
