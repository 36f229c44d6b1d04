//! The status of accounts, from their vaults and their recorded backups.

use super::vault_summary::vault_summary;
use super::{Env, OpError, OpErrorKind};
use crate::clock::Timestamp;
use crate::config::{AccountConfig, machine_time_zone};
use crate::health::account_status::{AccountStatus, DueTimes, age_reference};
use crate::health::attempt::VaultSummary;
use crate::health::persisted_state::PersistedState;
use crate::health::scheduled_account::ScheduledAccount;
use crate::schedule::crontab::Schedule;
use crate::schedule::due_queue::{DueQueue, Timetable};

/// The status of `accounts` at `now`. Warns of data that cannot be read.
///
/// # Errors
/// If a schedule is invalid; the configuration was checked, so this is a defect.
pub fn status(
    env: &Env,
    accounts: &[AccountConfig],
    now: Timestamp,
) -> Result<Vec<AccountStatus>, OpError> {
    let scheduled = scheduled_accounts(env, accounts)?;
    let one = |account: &AccountConfig| {
        let schedule = scheduled.iter().find(|it| it.account == account.name);
        let (status, trouble) = account_status(account, schedule, now);
        trouble.iter().for_each(|what| env.warn(what));
        status
    };
    Ok(accounts.iter().map(one).collect())
}

/// The status of `account`, from its persisted state, its vault and its schedule; and messages
/// about data that could not be read.
#[must_use]
pub fn account_status(
    account: &AccountConfig,
    scheduled: Option<&ScheduledAccount>,
    now: Timestamp,
) -> (AccountStatus, Vec<String>) {
    let (persisted, broken) = PersistedState::read(&account.vault);
    let mut trouble: Vec<_> = broken.into_iter().collect();
    let held = vault_summary(account).unwrap_or_else(|failure| {
        let why = failure.message;
        trouble.push(format!("{}: the vault cannot be read: {why}", account.name));
        VaultSummary { unreadable: Some(why), ..VaultSummary::default() }
    });
    (evaluate(account, scheduled, &persisted, &held, now), trouble)
}

/// The status of `account` by its recorded state and the summary of its vault.
#[must_use]
pub fn evaluate(
    account: &AccountConfig,
    scheduled: Option<&ScheduledAccount>,
    persisted: &PersistedState,
    held: &VaultSummary,
    now: Timestamp,
) -> AccountStatus {
    let mut due = DueTimes::default();
    let alerts = &account.settings.alerts;
    let from = age_reference(persisted, held, now);
    // Without a schedule, only `max_age` limits the age of a backup.
    due.old_from = from.zip(alerts.max_age).map(|(from, age)| from.plus(age));
    if let Some(scheduled) = scheduled {
        let mut due_queue = DueQueue::default();
        let past = persisted.past(&scheduled.schedule_id(), held, now);
        due_queue.insert(&account.name, scheduled.timetable.clone(), past, now);
        due.schedule = Some(scheduled.schedule.clone());
        due.next = due_queue.next(&account.name);
        due.old_from = from.and_then(|from| scheduled.too_old_at(from));
    }
    AccountStatus::evaluate(&account.name, persisted, held, due, now)
}

/// The accounts with a schedule, each with its timetable.
///
/// # Errors
/// If a schedule is invalid; the configuration was checked, so this is a defect.
pub fn scheduled_accounts(
    env: &Env,
    accounts: &[AccountConfig],
) -> Result<Vec<ScheduledAccount>, OpError> {
    let mut machine = None;
    let mut all_scheduled = Vec::new();
    for account in accounts {
        let Some(line) = &account.settings.schedule else { continue };
        let schedule = Schedule::parse(line).map_err(|error| {
            OpError::new(
                OpErrorKind::Config,
                format_args!("accounts.{}.schedule: {error}", account.name),
            )
        })?;
        let zone = account.settings.timezone.unwrap_or_else(|| {
            *machine.get_or_insert_with(|| {
                machine_time_zone().unwrap_or_else(|why| {
                    env.warn(format_args!("{why}; schedules without `timezone` are in UTC"));
                    chrono_tz::UTC
                })
            })
        });
        all_scheduled.push(ScheduledAccount {
            account: account.name.clone(),
            vault: account.vault.clone(),
            schedule: line.clone(),
            timetable: Timetable::new(&account.name, schedule, zone),
            max_age: account.settings.alerts.max_age,
        });
    }
    Ok(all_scheduled)
}
