//! Settings of accounts and of the daemon.

use std::path::PathBuf;
use std::time::Duration;

use super::values::{CalendarPeriod, ListenAddress};
use crate::api::webhook_url::WebhookUrl;
use crate::config::key_source::KeySource;
use crate::model::{CountOrPercent, Resource};

/// Settings of an account. Each has a default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccountSettings {
    /// When the daemon backs up the account, in crontab syntax.
    pub schedule: Option<String>,
    /// The time zone of `schedule` and of retention rules; default: the machine's.
    pub timezone: Option<chrono_tz::Tz>,
    /// Requests per window of the rate limit that are left to other tools.
    pub reserve: u32,
    /// The maximum number of requests in any minute, also if the service allows more.
    pub limit: Option<u32>,
    /// The maximum age of a list that a write depends on.
    pub max_staleness: Option<Duration>,
    /// Which snapshots `forget` keeps; `None` to keep all.
    pub keep: Option<RetentionRules>,
    /// Resources that are not backed up. A snapshot without them is complete.
    pub skip: Vec<Resource>,
    /// Which QR codes' statistics a backup fetches.
    pub stats: StatisticsSetting,
    /// The maximum number of QR codes whose statistics one backup fetches.
    pub stats_budget: Option<u32>,
    /// Timeouts of requests.
    pub timeouts: Timeouts,
    /// A file with certificates to trust instead of the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// The maximum number of records of one list.
    pub max_records: Option<u32>,
    /// The maximum number of bytes of one list.
    pub max_bytes: Option<u32>,
    /// The maximum number of reads that overlap.
    pub max_in_flight: Option<u32>,
    /// The export of the newest snapshot after each backup.
    pub export: Option<ExportSettings>,
    /// The folder for a copy of the vault after each backup.
    pub copy: Option<PathBuf>,
    /// The URL that is requested after each complete backup.
    pub heartbeat: Option<WebhookUrl>,
    /// Alerts about problems.
    pub alerts: AlertSettings,
}

/// Settings of the daemon itself. Flags and environment variables take precedence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaemonSettings {
    /// The maximum number of concurrent backups.
    pub workers: Option<u16>,
    /// The address of the web UI.
    pub listen: Option<ListenAddress>,
    /// The file with the token of the web UI.
    pub token_file: Option<PathBuf>,
    /// Allowed host names of the web UI, besides those of this machine.
    pub allow_host: Vec<String>,
}

/// An export after each backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSettings {
    /// The folder that gets one subfolder per account.
    pub folder: PathBuf,
    /// Format of the files.
    pub format: ExportFormat,
}

/// The format of exported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportFormat {
    /// CSV files.
    #[default]
    Csv,
    /// JSON files.
    Json,
    /// Workbooks.
    Xlsx,
}

impl ExportFormat {
    /// All variants with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 3] =
        [("csv", Self::Csv), ("json", Self::Json), ("xlsx", Self::Xlsx)];
}

/// Receivers of alerts, and limits of the problems.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AlertSettings {
    /// The URL that receives each alert as JSON.
    pub webhook: Option<WebhookUrl>,
    /// The secret that signs webhook requests.
    pub secret: Option<KeySource>,
    /// A program and its arguments, run without a shell. It reads each alert as JSON.
    pub command: Option<Vec<String>>,
    /// The most removed records between two backups that are not a problem.
    pub removed: CountOrPercent,
    /// The maximum age of the newest complete backup.
    pub max_age: Option<Duration>,
}

/// Which QR codes' statistics a backup fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatisticsSetting {
    /// QR codes whose scan count changed since the last fetch.
    #[default]
    Changed,
    /// All QR codes.
    All,
    /// No QR codes.
    None,
}

impl StatisticsSetting {
    /// All variants with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 3] =
        [("changed", Self::Changed), ("all", Self::All), ("none", Self::None)];
}

/// Timeouts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For establishing a connection.
    pub connect: Duration,
    /// Between two parts of a response.
    pub read: Duration,
    /// From the first byte of the request to the last byte of the response.
    pub overall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), read: seconds(60), overall: seconds(180) }
    }
}

/// Which snapshots are kept. A snapshot is kept if one of the rules applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionRules {
    /// The number of newest snapshots.
    pub last: Option<u32>,
    /// The last snapshot of each hour, for this number of hours.
    pub hourly: Option<u32>,
    /// The last snapshot of each day, for this number of days.
    pub daily: Option<u32>,
    /// The last snapshot of each week, for this number of weeks.
    pub weekly: Option<u32>,
    /// The last snapshot of each month, for this number of months.
    pub monthly: Option<u32>,
    /// The last snapshot of each year, for this number of years.
    pub yearly: Option<u32>,
    /// All snapshots within this period before the newest.
    pub within: Option<CalendarPeriod>,
    /// All snapshots with one of these tags.
    pub tags: Vec<String>,
}
