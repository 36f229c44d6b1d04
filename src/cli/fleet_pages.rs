//! What the web UI shows of a fleet, by what Temporal and the stores answered. Pure.

use std::path::Path;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::format;
use crate::health::account_status::{AccountStatus, Health};
use crate::health::fleet_state::FleetState;
use crate::ops::fleet::FleetAccount;
use crate::ops::{NextStep, OpError};
use crate::temporal::schedule::RunState;
use crate::ui::{FleetEntry, Unavailable};

/// The row of an account in the overview.
#[must_use]
pub fn entry(it: &FleetAccount) -> FleetEntry {
    let schedule = &it.schedule;
    let complete = schedule.recent.iter().rev().find(|run| run.state == RunState::Complete);
    let is_retrying = schedule.recent.last().is_some_and(|it| it.state == RunState::Retrying);
    let result = match it.state {
        FleetState::Failed if is_retrying => {
            Some("the newest scheduled backup has not succeeded yet, and waits for its repetition")
        }
        FleetState::Failed => Some("the newest scheduled backup failed or is partial"),
        FleetState::Stopped => Some("the newest scheduled backup was cancelled or terminated"),
        FleetState::Paused => None,
        FleetState::New => Some("there has been no scheduled backup yet"),
        FleetState::Good => Some("the newest scheduled backup is complete"),
    };
    let pause = schedule.is_paused.then(|| match &schedule.note {
        Some(note) => format!("the schedule is paused: {note}"),
        None => "the schedule is paused".to_owned(),
    });
    let words: Vec<_> = result.map(str::to_owned).into_iter().chain(pause).collect();
    FleetEntry {
        account: schedule.account.clone(),
        state: it.state,
        words: words.join("; "),
        last: schedule.recent.last().map(|run| (run.started, run.state.name())),
        last_complete: complete.map(|run| run.started),
        next: schedule.next_start(),
        running: schedule.running().map(|run| run.started),
    }
}

/// The status of an account with what Temporal knows of it: a scheduled backup that failed before
/// it was recorded, and a pause.
#[must_use]
pub fn merged(status: AccountStatus, entry: &FleetEntry) -> AccountStatus {
    let health = match entry.state {
        FleetState::Failed => Health::Failing,
        FleetState::Stopped | FleetState::Paused => Health::Warning,
        FleetState::New | FleetState::Good => Health::New,
    };
    let recorded = status.last.as_ref().map(|last| last.ended);
    let is_recorded = entry.last.is_some_and(|(start, _)| recorded >= Some(start));
    let adds = match entry.state {
        FleetState::Failed | FleetState::Stopped => !is_recorded,
        FleetState::Paused => true,
        FleetState::New | FleetState::Good => false,
    };
    let (health, words) = match adds && health > status.health {
        true => (health, entry.words.clone()),
        false => (status.health, status.words),
    };
    let running = entry.running.or(status.running);
    let schedule = status.schedule.filter(|_| entry.next.is_some());
    AccountStatus { health, words, schedule, next: entry.next, running, ..status }
}

/// Why something of a fleet could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    /// The reason and what to do, as sentences.
    pub text: String,
    /// Whether the local copy may be of another vault, so that it is not shown.
    pub is_other_vault: bool,
}

/// The failure of an operation, with a hint.
#[must_use]
pub fn failure(error: &OpError, hint: Option<String>) -> StoreFailure {
    let details = error.details.lines.iter().map(String::as_str);
    let parts = std::iter::once(error.message.as_str()).chain(details).chain(hint.as_deref());
    let text: Vec<_> = parts.map(sentence).collect();
    let is_other_vault =
        matches!(error.next.as_deref(), Some(NextStep::MoveFileAway | NextStep::CheckStoreAddress));
    StoreFailure { text: text.join(" "), is_other_vault }
}

/// `text` in one line, with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '?', '!', ':']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// More fetches are under way than this process makes at the same time.
#[must_use]
pub fn too_many_fetches() -> StoreFailure {
    let text = "Other vaults are being fetched. Load the page again in a moment.".to_owned();
    StoreFailure { text, is_other_vault: false }
}

/// The state of the newest fetch of a vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchState {
    /// The local copy is the vault of the store.
    Current,
    /// It has been under way for this time.
    UnderWay(Duration),
    /// It failed, for this reason if it is known.
    Failed(Option<StoreFailure>),
}

/// Whether the pages of the account called `name` are shown, and the notice on them. `copy` is
/// `Some` if there is a local copy, with the time of the last fetch if it is known.
///
/// # Errors
/// If there is nothing that can be shown.
pub fn shown(
    name: &str,
    state: &FetchState,
    copy: Option<Option<Timestamp>>,
    now: Timestamp,
) -> Result<Option<String>, Unavailable> {
    let age = |time: Option<Timestamp>| match time {
        Some(time) => format!("This page shows the vault as of {}.", format::age(time, now)),
        None => "This page shows the vault as this machine knew it last.".to_owned(),
    };
    match (state, copy) {
        (FetchState::Current, _) => Ok(None),
        (FetchState::UnderWay(time), Some(copy)) => {
            let time = format::duration(*time);
            Ok(Some(format!(
                "{} The store was asked for a newer one {time} ago; load the page again in a moment.",
                age(copy)
            )))
        }
        (FetchState::UnderWay(time), None) => {
            let time = format::duration(*time);
            Err(Unavailable::Failed(
                format!("The vault of {name} is being fetched"),
                format!("It has taken {time} so far. Load the page again in a moment."),
            ))
        }
        (FetchState::Failed(failure), copy) => {
            let text = failure.as_ref().map_or("The fetch failed.", |it| it.text.as_str());
            let usable = !failure.as_ref().is_some_and(|it| it.is_other_vault);
            match copy.filter(|_| usable) {
                Some(copy) => Ok(Some(format!("{} {text}", age(copy)))),
                None => Err(not_shown(name, text)),
            }
        }
    }
}

/// The account is not in Temporal's list.
#[must_use]
pub fn not_listed(name: &str) -> Unavailable {
    Unavailable::NotFound(
        format!("The fleet has no account {name}"),
        "Temporal has no schedule of it. `linkvault fleet apply` makes the schedules.".to_owned(),
    )
}

/// The vault of an account of the fleet is in no store, as far as this machine knows.
#[must_use]
pub fn not_stored(name: &str, is_configured: bool, file: &Path) -> Unavailable {
    let file = file.display();
    let (what, why) = match is_configured {
        true => (
            format!("The vault of {name} is a local file"),
            format!("The fleet keeps its vaults in stores. Give [accounts.{name}] in {file} the"),
        ),
        false => (
            format!("{name} is not in the configuration of this machine"),
            format!("Temporal has a schedule of it. Add [accounts.{name}] to {file}, with the"),
        ),
    };
    let hint = format!(
        "{why} address of its vault that the workers have, such as `vault = \
         \"s3://bucket/prefix/{name}\"`, and load the page again."
    );
    Unavailable::NotFound(what, hint)
}

/// The vault of an account cannot be shown.
#[must_use]
pub fn not_shown(name: &str, why: &str) -> Unavailable {
    Unavailable::Failed(format!("The vault of {name} cannot be shown"), why.to_owned())
}

/// To list a large fleet takes some time, so that a list of less than this age needs no remark.
const OLD_LIST: Duration = Duration::from_secs(60);

/// What the overview says of a list of this age.
#[must_use]
pub fn list_notice(
    age: Duration,
    failure: Option<&StoreFailure>,
    under_way: Option<Duration>,
) -> Option<String> {
    let old = format!("This list is {} old.", format::duration(age));
    match (failure, under_way) {
        (Some(failure), _) => Some(format!("{old} {}", failure.text)),
        (None, Some(time)) if age >= OLD_LIST => {
            let time = format::duration(time);
            Some(format!("{old} Temporal was asked for a newer one {time} ago."))
        }
        (None, _) => None,
    }
}

/// Whether a list of this age is new enough.
///
/// # Errors
/// A sentence with the reason.
pub fn alive(
    age: Duration,
    oldest: Duration,
    failure: Option<&StoreFailure>,
) -> Result<(), String> {
    if age <= oldest {
        return Ok(());
    }
    let why = failure.map_or_else(String::new, |failure| format!(". {}", failure.text));
    Err(format!("the list of Temporal is {} old{why}", format::duration(age)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::attempt::{AttemptOutcome, BackupAttempt};
    use crate::ops::{OpErrorKind, fleet};
    use crate::temporal::schedule::{FleetSchedule, StartedBackup};
    use crate::ui::tests::account_status;

    fn scheduled(runs: &[RunState], is_paused: bool) -> FleetEntry {
        let recent = runs.iter().enumerate().map(|(nth, state)| StartedBackup {
            started: Timestamp(1000 * nth as i64),
            state: *state,
            workflow: String::new(),
        });
        let schedule = FleetSchedule {
            account: "main".to_owned(),
            definition: String::new(),
            is_paused,
            note: Some("moving".to_owned()),
            recent: recent.collect(),
            next: Some(Timestamp(9000)),
        };
        entry(&FleetAccount { state: fleet::state(&schedule), schedule })
    }

    #[test]
    fn a_row_has_what_temporal_knows() {
        use RunState::{Complete, Failed, Running, Stopped};
        let good = scheduled(&[Failed, Complete, Running], false);
        assert_eq!(good.state, FleetState::Good);
        assert_eq!(good.words, "the newest scheduled backup is complete");
        assert_eq!(good.last, Some((Timestamp(2000), "running")));
        assert_eq!(good.last_complete, Some(Timestamp(1000)));
        assert_eq!((good.running, good.next), (Some(Timestamp(2000)), Some(Timestamp(9000))));
        let failed = scheduled(&[Complete, Failed], true);
        assert_eq!((failed.state, failed.next, failed.running), (FleetState::Failed, None, None));
        assert_eq!(
            failed.words,
            "the newest scheduled backup failed or is partial; the schedule is paused: moving"
        );
        assert_eq!(scheduled(&[Complete, Stopped], false).state, FleetState::Stopped);
        let retrying = scheduled(&[Complete, RunState::Retrying], false);
        assert_eq!((retrying.state, retrying.running), (FleetState::Failed, None));
        assert!(retrying.words.ends_with("waits for its repetition"), "{}", retrying.words);
        let paused = scheduled(&[Complete], true);
        assert_eq!(
            (paused.state, &*paused.words),
            (FleetState::Paused, "the schedule is paused: moving")
        );
        let new = scheduled(&[], false);
        assert_eq!((new.state, new.last, new.last_complete), (FleetState::New, None, None));
    }

    #[test]
    fn a_status_has_the_problems_that_only_temporal_knows() {
        let mut recorded = account_status("main", Health::Good);
        let ended = Timestamp(1500);
        recorded.last = Some(BackupAttempt::new(ended, ended, AttemptOutcome::Complete));
        let merged = |runs: &[RunState], is_paused| {
            let it = merged(recorded.clone(), &scheduled(runs, is_paused));
            assert_eq!(it.schedule.is_some(), it.next.is_some());
            (it.health, it.words, it.next)
        };
        let own = || (Health::Good, recorded.words.clone(), Some(Timestamp(9000)));
        let failed = RunState::Failed;
        // The recorded attempt is newer than the second start, and older than the third.
        assert_eq!(merged(&[failed, failed], false), own());
        assert_eq!(merged(&[RunState::Complete], false), own());
        assert_eq!(merged(&[], false), own());
        let (health, words, _) = merged(&[failed, failed, failed], false);
        assert_eq!(health, Health::Failing);
        assert_eq!(words, "the newest scheduled backup failed or is partial");
        let (health, words, next) = merged(&[], true);
        assert_eq!((health, next), (Health::Warning, None));
        assert!(words.ends_with("the schedule is paused: moving"), "{words}");
    }

    #[test]
    fn a_worse_recorded_problem_is_not_replaced() {
        let recorded = account_status("main", Health::Failing);
        let it = merged(recorded.clone(), &scheduled(&[RunState::Stopped], true));
        assert_eq!((it.health, it.words), (Health::Failing, recorded.words));
    }

    fn store_failure(next: NextStep) -> StoreFailure {
        let error = OpError::new(OpErrorKind::Failed, "cannot fetch it:\n no answer").next(next);
        failure(&error, Some("check the address".to_owned()))
    }

    #[test]
    fn a_failure_is_told_in_sentences() {
        let it = store_failure(NextStep::CheckStore);
        assert_eq!(it.text, "Cannot fetch it: no answer. Check the address.");
        assert!(!it.is_other_vault && store_failure(NextStep::MoveFileAway).is_other_vault);
    }

    #[test]
    fn a_local_copy_is_shown_with_its_age_if_the_store_does_not_answer() {
        let now = Timestamp(7_200_000);
        let text = |state: &FetchState, copy| match shown("main", state, copy, now) {
            Ok(notice) => notice.unwrap_or_default(),
            Err(Unavailable::Failed(what, hint) | Unavailable::NotFound(what, hint)) => {
                format!("{what}: {hint}")
            }
        };
        let (known, unknown) = (Some(Some(Timestamp(0))), Some(None));
        assert_eq!(text(&FetchState::Current, None), "");
        assert_eq!(text(&FetchState::Current, known), "");
        let failed = FetchState::Failed(Some(store_failure(NextStep::CheckStore)));
        assert_eq!(
            text(&failed, known),
            "This page shows the vault as of 2 hours ago. Cannot fetch it: no answer. Check the address."
        );
        assert!(text(&failed, unknown).starts_with("This page shows the vault as this machine"));
        assert_eq!(
            text(&failed, None),
            "The vault of main cannot be shown: Cannot fetch it: no answer. Check the address."
        );
        let other = FetchState::Failed(Some(store_failure(NextStep::CheckStoreAddress)));
        assert!(text(&other, known).starts_with("The vault of main cannot be shown"));
        let slow = FetchState::UnderWay(Duration::from_secs(12));
        assert!(
            text(&slow, known)
                .contains("2 hours ago. The store was asked for a newer one 12 s ago")
        );
        assert!(
            text(&slow, None).starts_with("The vault of main is being fetched: It has taken 12 s")
        );
        assert!(text(&FetchState::Failed(None), None).ends_with("The fetch failed."));
    }

    #[test]
    fn an_old_list_says_why_and_ends_the_health_after_a_while() {
        let failure = store_failure(NextStep::StartTemporal);
        let age = Duration::from_secs(200);
        assert_eq!(list_notice(age, None, None), None);
        assert_eq!(
            list_notice(age, Some(&failure), None).unwrap(),
            "This list is 3 min 20 s old. Cannot fetch it: no answer. Check the address."
        );
        let slow = list_notice(age, None, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(
            slow,
            "This list is 3 min 20 s old. Temporal was asked for a newer one 5 s ago."
        );
        let slow = Some(Duration::from_secs(5));
        assert_eq!(list_notice(OLD_LIST - Duration::from_millis(1), None, slow), None);
        assert_eq!(alive(age, age, Some(&failure)), Ok(()));
        let dead = alive(age, Duration::from_secs(199), Some(&failure)).unwrap_err();
        assert!(dead.starts_with("the list of Temporal is 3 min 20 s old. Cannot"), "{dead}");
    }

    #[test]
    fn an_account_that_this_machine_lacks_says_what_to_add() {
        let hint = |is_configured| match not_stored("main", is_configured, Path::new("/c.toml")) {
            Unavailable::NotFound(what, hint) => format!("{what}. {hint}"),
            Unavailable::Failed(..) => String::new(),
        };
        let absent = hint(false);
        assert!(
            absent.contains("not in the configuration")
                && absent.contains("Add [accounts.main] to /c.toml")
        );
        let local = hint(true);
        assert!(
            local.contains("is a local file") && local.contains("s3://bucket/prefix/main"),
            "{local}"
        );
    }
}
