//! The settings of an account as options of crawler and retention.

use std::time::Duration;

use super::state_ref;
use crate::change::staleness;
use crate::clock::Timestamp;
use crate::config::{AccountConfig, RetentionRules, StatisticsSetting};
use crate::crawl::{self, CrawlOptions};
use crate::escaped::Escaped;
use crate::model::SnapshotId;
use crate::vault::retention::{self, RetentionDecision};
use crate::vault::snapshot::Snapshot;

/// The options of a backup of `account`, from the configuration alone.
#[must_use]
pub fn configured_backup(account: &AccountConfig, service: &str) -> CrawlOptions {
    let settings = &account.settings;
    let stats_budget = settings.stats_budget.map(u64::from);
    let all = CrawlOptions::new(service).excluding(&settings.skip);
    CrawlOptions { stats: statistics_mode(settings.stats), stats_budget, ..all }
}

/// Of which QR codes a backup requests statistics.
#[must_use]
pub const fn statistics_mode(stats: StatisticsSetting) -> crawl::StatisticsMode {
    match stats {
        StatisticsSetting::Changed => crawl::StatisticsMode::Changed,
        StatisticsSetting::All => crawl::StatisticsMode::All,
        StatisticsSetting::None => crawl::StatisticsMode::None,
    }
}

/// The maximum age of a list of `account`: the option, or the configuration's, or the default.
#[must_use]
pub fn max_staleness(option: Option<Duration>, account: &AccountConfig) -> Duration {
    option.or(account.settings.max_staleness).unwrap_or(staleness::DEFAULT)
}

/// For each snapshot of `account`, the rules that keep it. `needed` are snapshots that must
/// stay, with the reason; periods end at `newest`. Logs each decision.
#[must_use]
pub fn retention_decisions(
    account: &AccountConfig,
    snapshots: &[Snapshot],
    needed: &[(SnapshotId, &str)],
    rules: &RetentionRules,
    newest: Timestamp,
) -> Vec<RetentionDecision> {
    let zone = |time| state_ref::local_time(account, time);
    let decisions = retention::decide(snapshots, &keep(rules, newest), needed, newest, &zone);
    for decision in &decisions {
        let (account, snapshot) = (account.name.as_str(), decision.number);
        match decision.reasons.is_empty() {
            true => tracing::debug!(account, "snapshot {snapshot} is forgotten: no rule keeps it"),
            false => {
                let reasons = decision.reasons.join(", ");
                tracing::debug!(account, "snapshot {snapshot} is kept: {}", Escaped(reasons));
            }
        }
    }
    decisions
}

/// The rules, with each period as a duration before the newest snapshot.
fn keep(rules: &RetentionRules, newest: Timestamp) -> retention::RetentionPolicy {
    let count = |rule: Option<u32>| u64::from(rule.unwrap_or(0));
    retention::RetentionPolicy {
        last: count(rules.last),
        hourly: count(rules.hourly),
        daily: count(rules.daily),
        weekly: count(rules.weekly),
        monthly: count(rules.monthly),
        yearly: count(rules.yearly),
        within: rules.within.map(|period| newest.since(period.before(newest))),
        tags: rules.tags.clone(),
    }
}
