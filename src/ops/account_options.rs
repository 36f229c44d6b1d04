//! The settings of an account as options of crawler and retention.

use std::time::Duration;

use super::state_ref;
use crate::change::staleness;
use crate::clock::Timestamp;
use crate::config::{AccountConfig, RetentionRules, StatisticsSetting};
use crate::crawl::{self, CrawlOptions};
use crate::escaped::Escaped;
use crate::vault::retention::{self, RetentionDecision};
use crate::vault::snapshot::Snapshot;

/// What a backup of `account` does where only the configuration is asked.
#[must_use]
pub fn configured_backup(account: &AccountConfig, service: &str) -> CrawlOptions {
    let settings = &account.settings;
    let stats_budget = settings.stats_budget.map(u64::from);
    let all = CrawlOptions::new(service).excluding(&settings.skip);
    CrawlOptions { stats: statistics_mode(settings.stats), stats_budget, ..all }
}

/// Whose statistics a backup fetches.
#[must_use]
pub const fn statistics_mode(stats: StatisticsSetting) -> crawl::StatisticsMode {
    match stats {
        StatisticsSetting::Changed => crawl::StatisticsMode::Changed,
        StatisticsSetting::All => crawl::StatisticsMode::All,
        StatisticsSetting::None => crawl::StatisticsMode::None,
    }
}

/// How old a list of `account` may be, where an option may say so.
#[must_use]
pub fn max_staleness(option: Option<Duration>, account: &AccountConfig) -> Duration {
    option.or(account.settings.max_staleness).unwrap_or(staleness::DEFAULT)
}

/// What becomes of each snapshot of `account`.
#[must_use]
pub fn retention_decisions(
    account: &AccountConfig,
    snapshots: &[Snapshot],
    needed: &[i64],
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

/// The rules with every period as a time before the newest snapshot.
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
