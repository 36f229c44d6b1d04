//! What the settings of an account mean to those who do the work.

use super::states;
use crate::clock::Timestamp;
use crate::config::{Account, Keep, Stats};
use crate::crawl::{self, Options};
use crate::shown::Shown;
use crate::vault::retention::{self, Verdict};
use crate::vault::snapshot::Snapshot;

/// What a backup of `account` does where only the configuration is asked.
#[must_use]
pub fn standing(account: &Account, service: &str) -> Options {
    let settings = &account.settings;
    let stats_budget = settings.stats_budget.map(u64::from);
    let all = Options::new(service).excluding(&settings.skip);
    Options { stats: which(settings.stats), stats_budget, ..all }
}

/// Whose statistics a backup fetches.
#[must_use]
pub const fn which(stats: Stats) -> crawl::Stats {
    match stats {
        Stats::Changed => crawl::Stats::Changed,
        Stats::All => crawl::Stats::All,
        Stats::None => crawl::Stats::None,
    }
}

/// What becomes of each snapshot of `account`.
#[must_use]
pub fn decide(
    account: &Account,
    snapshots: &[Snapshot],
    needed: &[i64],
    rules: &Keep,
    newest: Timestamp,
) -> Vec<Verdict> {
    let zone = |time| states::local(account, time);
    let verdicts = retention::decide(snapshots, &keep(rules, newest), needed, newest, &zone);
    for verdict in &verdicts {
        let (account, snapshot) = (account.name.as_str(), verdict.number);
        match verdict.reasons.is_empty() {
            true => tracing::debug!(account, "snapshot {snapshot} is forgotten: no rule keeps it"),
            false => {
                let reasons = verdict.reasons.join(", ");
                tracing::debug!(account, "snapshot {snapshot} is kept: {}", Shown(reasons));
            }
        }
    }
    verdicts
}

/// The rules with every period as a time before the newest snapshot.
fn keep(rules: &Keep, newest: Timestamp) -> retention::Keep {
    let count = |rule: Option<u32>| u64::from(rule.unwrap_or(0));
    retention::Keep {
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
