//! Shared test data of the web UI.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::health::account_status::{AccountStatus, Health};
use crate::health::attempt::{
    AttemptOutcome, BackupAttempt, BackupTotals, HealthProblem, ProblemKind,
};
use crate::model::SnapshotId;

const NOW: i64 = 1_760_000_000_000;

/// A status with a value in every field.
pub(crate) fn account_status(account: &str, health: Health) -> AccountStatus {
    let problem = HealthProblem {
        kind: ProblemKind::Partial,
        since: Timestamp(NOW),
        message: "pixels could not be read".to_owned(),
        hint: Some("look".to_owned()),
        newest: None,
    };
    let totals = BackupTotals {
        backups: 20,
        complete: 18,
        failures: 1,
        requests: 480,
        throttled: 0,
        waited: Duration::from_secs(30),
    };
    AccountStatus {
        account: account.to_owned(),
        health,
        words: "the newest backup is complete".to_owned(),
        schedule: Some("0 3 * * *".to_owned()),
        next: Some(Timestamp(NOW + 3_600_000)),
        running: None,
        last: Some(BackupAttempt {
            snapshot: Some(SnapshotId(3)),
            requests: 24,
            waited: Duration::from_millis(1500),
            added: 1,
            changed: 2,
            ..BackupAttempt::new(Timestamp(NOW - 120_000), Timestamp(NOW), AttemptOutcome::Complete)
        }),
        last_success: Some(Timestamp(NOW)),
        last_complete: Some(Timestamp(NOW)),
        records: BTreeMap::from([("campaigns".to_owned(), 12)]),
        problems: vec![problem],
        totals,
        limit: Some(30),
        undelivered_alerts: 0,
        unknown_writes: 0,
        new_alerts: Vec::new(),
    }
}
