//! Tests of the recorded state of an account with a local vault.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::clock::{Interrupt, SystemClock};
use crate::config::Home;
use crate::ops::NoEvents;

/// An environment with the account `main`, whose alerts append a line to the file `told`.
fn environment(home: &Path) -> Env {
    let told = home.join("told");
    let text = format!(
        "[accounts.main]\nurl = \"https://a.example\"\nkey_env = \"LINKS_KEY\"\n\
         [accounts.main.alerts]\n\
         command = [\"sh\", \"-c\", \"echo $LINKVAULT_EVENT $LINKVAULT_PROBLEM >> {}\"]\n",
        told.display()
    );
    crate::files::write_private(&home.join("config.toml"), text.as_bytes()).unwrap();
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    Env::new(clock, Arc::new(NoEvents)).with_home(Home::at(home))
}

fn attempt(env: &Env, outcome: AttemptOutcome) -> BackupAttempt {
    BackupAttempt::new(env.clock.now(), env.clock.now(), outcome)
}

#[test]
fn a_failure_is_one_alert_when_it_begins_and_one_when_it_ends() {
    let home = tempfile::tempdir().unwrap();
    let env = environment(home.path());
    let account = env.config().unwrap().account("main").unwrap();
    let breaker = CircuitBreaker::default();
    let told = || std::fs::read_to_string(home.path().join("told")).unwrap_or_default();
    assert!(!deliver_alerts(&env, &account, &breaker).unwrap().is_pending);
    for _ in 0..2 {
        let failed = attempt(&env, AttemptOutcome::Failed);
        assert!(record_backup(&env, &account, &failed).unwrap().is_pending);
    }
    let delivered = deliver_alerts(&env, &account, &breaker).unwrap();
    assert_eq!(delivered, RecordedState { is_pending: false, next: None, unshared: None });
    assert!(!deliver_alerts(&env, &account, &breaker).unwrap().is_pending);
    assert_eq!(told(), "begun failed\n");
    let complete = attempt(&env, AttemptOutcome::Complete);
    assert!(record_backup(&env, &account, &complete).unwrap().is_pending);
    let failures = ["the vault was not copied".to_owned()];
    assert!(record_post_backup(&env, &account, &failures).unwrap().is_pending);
    assert!(!deliver_alerts(&env, &account, &breaker).unwrap().is_pending);
    assert_eq!(told(), "begun failed\nended failed\nbegun after\n");
    let (persisted, _) = PersistedState::read(&account.vault);
    assert_eq!((persisted.totals.backups, persisted.totals.failures), (3, 2));
}

#[test]
fn an_alert_that_could_not_be_delivered_is_tried_again_later() {
    let home = tempfile::tempdir().unwrap();
    let env = environment(home.path());
    let account = env.config().unwrap().account("main").unwrap();
    let breaker = CircuitBreaker::default();
    std::fs::create_dir(home.path().join("told")).unwrap();
    record_backup(&env, &account, &attempt(&env, AttemptOutcome::Failed)).unwrap();
    let left = deliver_alerts(&env, &account, &breaker).unwrap();
    assert!(left.is_pending && left.next > Some(env.clock.now()));
    std::fs::remove_dir(home.path().join("told")).unwrap();
    assert!(deliver_alerts(&env, &account, &breaker).unwrap().is_pending, "too early");
    PersistedState::update(&account.vault, |it| it.outbox[0].next = Timestamp(0)).unwrap();
    assert!(!deliver_alerts(&env, &account, &breaker).unwrap().is_pending);
}
