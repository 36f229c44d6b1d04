//! The journal: what each run will do, and the known outcome of each of its steps. A step is marked
//! as sent on disk before its request is sent, so that a resumed run knows which requests may have
//! had an effect. The text of a step belongs to `apply`; this module only stores it.

mod state;

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row};

use super::id_map::{self, IdMapping};
use crate::clock::Timestamp;
use crate::model::{Resource, RunId, SentValue, SnapshotId};
use crate::vault::batch::Batch;
use crate::vault::sent_values::{FirstSnapshot, close_others, remember_in};
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums};

pub use state::{RunCommand, RunStatus, StepState, VerifiedState};

/// The data of a new run.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    /// The command that began it.
    pub command: RunCommand,
    /// The options of the command, as text.
    pub input: String,
    /// The id of the plan; empty if it has none.
    pub plan_id: String,
    /// The plan without its steps, as JSON text.
    pub plan: String,
    /// Resources that the plan changes.
    pub touched: Vec<Resource>,
    /// Number of the snapshot before the first write.
    pub before: SnapshotId,
    /// The text of each step. Steps are numbered from 1 in this order.
    pub steps: Vec<String>,
}

/// A run in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Number of the run, from 1.
    pub number: RunId,
    /// The command that began it.
    pub command: RunCommand,
    /// The options of the command, as text.
    pub input: String,
    /// The id of the plan; empty if it has none.
    pub plan_id: String,
    /// The plan without its steps, as JSON text.
    pub plan: String,
    /// Resources that the plan changes.
    pub touched: Vec<Resource>,
    /// The state of the run.
    pub status: RunStatus,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; `None` while steps are open.
    pub finished: Option<Timestamp>,
    /// Number of the snapshot before the first write.
    pub before: Option<SnapshotId>,
    /// Number of the snapshot after the last write.
    pub after: Option<SnapshotId>,
    /// Number of requests sent so far.
    pub requests: u64,
    /// Number of steps in each state.
    pub steps: BTreeMap<StepState, u64>,
    /// Number of steps whose effect was verified.
    pub verified: u64,
}

impl Run {
    /// Number of steps in `state`.
    #[must_use]
    pub fn count(&self, state: StepState) -> u64 {
        self.steps.get(&state).copied().unwrap_or_default()
    }
}

/// A step in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStep {
    /// Number of the step within its run, from 1.
    pub step: u32,
    /// The request and the expected result, as JSON text of `apply`.
    pub spec: String,
    /// What is known of its outcome.
    pub state: StepState,
    /// Number of times that its request was marked as sent.
    pub attempts: u32,
    /// When its request was last marked as sent.
    pub sent: Option<Timestamp>,
    /// When its outcome became known.
    pub answered: Option<Timestamp>,
    /// Id of the record that it created.
    pub id: Option<i64>,
    /// The service's message, or the reason why it was not sent.
    pub message: Option<String>,
    /// The result of verifying it; `None` before that.
    pub verified: Option<VerifiedState>,
    /// The result of verifying it, in a sentence.
    pub remark: Option<String>,
}

impl JournalStep {
    /// Whether the service has carried it out, or may have. Also if a person decided to send it
    /// again.
    #[must_use]
    pub const fn may_be_done(&self) -> bool {
        match self.state {
            StepState::Done | StepState::Sent | StepState::Unknown => true,
            StepState::Planned => self.attempts > 0,
            StepState::Refused | StepState::Skipped | StepState::Stale => false,
        }
    }

    /// Whether it was done, and the records after the run are not as planned.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.state == StepState::Done && self.verified == Some(VerifiedState::Differs)
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// The new state of the step.
    pub state: StepState,
    /// Id of the record that it created.
    pub id: Option<i64>,
    /// The service's message, or the reason why it was not sent.
    pub message: Option<String>,
    /// The sent values to store.
    pub remember: Vec<SentValue>,
    /// The record that the created one replaces.
    pub maps: Option<IdMapping>,
}

impl StepResult {
    /// A result with only a state.
    #[must_use]
    pub const fn of(state: StepState) -> Self {
        Self { state, id: None, message: None, remember: Vec::new(), maps: None }
    }

    /// Adds a message of the service or of linkvault.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }
}

/// The result of verifying a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepVerification {
    /// Number of the step within its run.
    pub step: u32,
    /// The result.
    pub result: VerifiedState,
    /// The result in a sentence.
    pub remark: Option<String>,
    /// The id of the created record, if the response did not contain it.
    pub id: Option<i64>,
    /// The sent values to store.
    pub remember: Vec<SentValue>,
    /// The record that the created one replaces.
    pub maps: Option<IdMapping>,
}

const RUN: &str = "SELECT run, command, status, started, finished, before, after, plan_id, plan,
    asked, touched, requests FROM run";
const STEP: &str = "SELECT step, spec, state, attempts, sent, answered, id, message, verified,
    remark FROM step WHERE run = ?1";

impl Vault {
    /// Begins a run with all its steps planned, and returns its number. Until the run ends, each
    /// commit is synced to disk.
    pub fn begin_run(&mut self, new: &NewRun, now: Timestamp) -> Result<RunId, VaultError> {
        self.durable(true)?;
        let touched: Vec<_> = new.touched.iter().map(|it| it.name()).collect();
        self.transact(|tx, _| {
            let run: RunId =
                tx.query_row("SELECT coalesce(max(run), 0) + 1 FROM run", [], |row| row.get(0))?;
            checksums::run(tx, run, || {
                tx.execute(
                    "INSERT INTO run(run, command, status, started, before, plan_id, plan, asked,
                       touched) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    (
                        run,
                        new.command.name(),
                        RunStatus::Running.name(),
                        now.0,
                        new.before,
                        &new.plan_id,
                        &new.plan,
                        &new.input,
                        touched.join(","),
                    ),
                )?;
                Ok(())
            })?;
            checksums::all_steps(tx, run, || {
                let mut insert = tx.prepare(
                    "INSERT INTO step(run, step, spec, state, attempts) VALUES(?1, ?2, ?3, ?4, 0)",
                )?;
                for (nth, spec) in (1_i64..).zip(&new.steps) {
                    insert.execute((run, nth, spec, StepState::Planned.name()))?;
                }
                Ok(())
            })?;
            Ok(run)
        })
    }

    /// Continues an interrupted run: each commit is synced to disk.
    ///
    /// # Errors
    /// [`VaultError::NoRun`] if the run does not exist.
    pub fn resume_run(&mut self, run: RunId) -> Result<Run, VaultError> {
        self.durable(true)?;
        self.run(run)
    }

    /// Marks steps as sent, before their requests are sent. When it returns, the mark and the open
    /// batch are on disk. If it fails, nothing may be sent.
    pub fn mark_sent(
        &mut self,
        run: RunId,
        steps: &[u32],
        now: Timestamp,
    ) -> Result<(), VaultError> {
        self.transact_batched(Batch::free(now), |tx, _| {
            checksums::steps(tx, run, steps, || {
                let mut update = tx.prepare_cached(
                    "UPDATE step SET state = ?3, attempts = attempts + 1, sent = ?4
                     WHERE run = ?1 AND step = ?2",
                )?;
                for step in steps {
                    update.execute((run, step, StepState::Sent.name(), now.0))?;
                }
                Ok(())
            })
        })?;
        self.flush()
    }

    /// Stores the result of a step and its sent values. With `batch`, it is committed together with
    /// later results, for steps whose outcome is cheap to determine again.
    pub fn record_result(
        &mut self,
        run: RunId,
        step: u32,
        what: &StepResult,
        now: Timestamp,
        batch: bool,
    ) -> Result<(), VaultError> {
        let answered = (!matches!(what.state, StepState::Planned)).then_some(now.0);
        self.transact_batched(Batch::free(now), |tx, _| {
            checksums::steps(tx, run, &[step], || {
                tx.prepare_cached(
                    "UPDATE step SET state = ?3, answered = ?4, id = ?5, message = ?6
                     WHERE run = ?1 AND step = ?2",
                )?
                .execute((
                    run,
                    step,
                    what.state.name(),
                    answered,
                    what.id,
                    &what.message,
                ))?;
                Ok(())
            })?;
            store_sent(tx, run, &what.remember, FirstSnapshot::Next, true, what.maps.as_ref(), now)
        })?;
        if batch { Ok(()) } else { self.flush() }
    }

    /// Resets steps whose requests were not sent to planned.
    pub fn revert_to_planned(
        &mut self,
        run: RunId,
        steps: &[u32],
        now: Timestamp,
    ) -> Result<(), VaultError> {
        if steps.is_empty() {
            return Ok(());
        }
        self.transact_batched(Batch::free(now), |tx, _| {
            checksums::steps(tx, run, steps, || {
                let mut update = tx.prepare_cached(
                    "UPDATE step SET state = ?3, attempts = max(attempts - 1, 0)
                     WHERE run = ?1 AND step = ?2",
                )?;
                for step in steps {
                    update.execute((run, step, StepState::Planned.name()))?;
                }
                Ok(())
            })
        })?;
        self.flush()
    }

    /// Stores the results of verifying steps.
    pub fn verify_steps(
        &mut self,
        run: RunId,
        found: &[StepVerification],
        now: Timestamp,
    ) -> Result<(), VaultError> {
        let numbers: Vec<_> = found.iter().map(|it| it.step).collect();
        self.transact(|tx, _| {
            checksums::steps(tx, run, &numbers, || {
                let mut update = tx.prepare_cached(
                    "UPDATE step SET verified = ?3, remark = ?4, id = coalesce(id, ?5)
                     WHERE run = ?1 AND step = ?2",
                )?;
                for it in found {
                    update.execute((run, it.step, it.result.name(), &it.remark, it.id))?;
                }
                Ok(())
            })?;
            for it in found {
                let learned = it.id.is_some();
                store_sent(
                    tx,
                    run,
                    &it.remember,
                    FirstSnapshot::Seen,
                    learned,
                    it.maps.as_ref(),
                    now,
                )?;
            }
            Ok(())
        })
    }

    /// Removes the `after` snapshot of a run, because more requests will be sent.
    pub fn clear_after_snapshot(&mut self, run: RunId) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            checksums::run(tx, run, || {
                tx.execute("UPDATE run SET after = NULL WHERE run = ?1", [run])?;
                Ok(())
            })
        })
    }

    /// Stores the state of a run when a process stops working on it, and adds the requests it sent.
    /// A complete or partial run is finished.
    pub fn suspend_run(
        &mut self,
        run: RunId,
        status: RunStatus,
        after: Option<SnapshotId>,
        requests: u64,
        now: Timestamp,
    ) -> Result<(), VaultError> {
        let ends = matches!(status, RunStatus::Complete | RunStatus::Partial);
        let finished = ends.then_some(now.0);
        self.transact(|tx, _| {
            checksums::run(tx, run, || {
                tx.execute(
                    "UPDATE run SET status = ?2, after = coalesce(?3, after),
                       requests = requests + ?4, finished = ?5 WHERE run = ?1",
                    (run, status.name(), after, super::snapshot::signed(requests), finished),
                )?;
                Ok(())
            })
        })?;
        self.durable(false)
    }

    /// Every run, oldest first.
    pub fn runs(&self) -> Result<Vec<Run>, VaultError> {
        self.select_runs(&format!("{RUN} ORDER BY run"), [])
    }

    /// The run with this number.
    ///
    /// # Errors
    /// [`VaultError::NoRun`] if it does not exist.
    pub fn run(&self, number: RunId) -> Result<Run, VaultError> {
        let found = self.select_runs(&format!("{RUN} WHERE run = ?1"), [number])?;
        found.into_iter().next().ok_or(VaultError::NoRun(number))
    }

    /// The newest unfinished run.
    pub fn unfinished_run(&self) -> Result<Option<Run>, VaultError> {
        let sql = format!("{RUN} WHERE finished IS NULL ORDER BY run DESC LIMIT 1");
        Ok(self.select_runs(&sql, [])?.into_iter().next())
    }

    /// The number of the run that used this plan; `None` for an empty id.
    pub fn run_of_plan(&self, plan_id: &str) -> Result<Option<RunId>, VaultError> {
        if plan_id.is_empty() {
            return Ok(None);
        }
        self.db
            .query_row("SELECT run FROM run WHERE plan_id = ?1", [plan_id], |row| row.get(0))
            .optional()
            .map_err(|source| self.sql(source))
    }

    /// The steps of a run, in order.
    pub fn steps(&self, run: RunId) -> Result<Vec<JournalStep>, VaultError> {
        self.steps_where(run, "ORDER BY step", [run])
    }

    /// The creates and updates that were done since the first run after which a list could not be
    /// read, so that no list showed their result. Not those of QR codes, of which no list shows what
    /// was sent.
    pub fn steps_since_unseen(&self) -> Result<Vec<JournalStep>, VaultError> {
        let is_write = "state = 'done'
             AND CASE WHEN json_valid(spec) THEN spec ->> 'verb' IN ('create', 'update')
                 AND spec ->> 'resource' <> 'qr_codes' END";
        let unseen = format!(
            "WHERE run >= (SELECT min(run) FROM step
               WHERE (verified IS NULL OR verified = 'unverifiable') AND {is_write})
             AND {is_write} ORDER BY run, step"
        );
        let sql = STEP.replace("WHERE run = ?1", &unseen);
        let read = || -> Result<Vec<JournalStep>, TransactionError> {
            let mut find = self.db.prepare_cached(&sql)?;
            let mut rows = find.query([])?;
            let mut steps = Vec::new();
            while let Some(row) = rows.next()? {
                steps.push(journal_step(RunId::default(), row)?);
            }
            Ok(steps)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// The steps of a run. `end` is the end of the statement, with `ORDER BY` and `LIMIT`.
    pub(super) fn steps_where(
        &self,
        run: RunId,
        end: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<JournalStep>, VaultError> {
        let read = || -> Result<Vec<JournalStep>, TransactionError> {
            let mut find = self.db.prepare_cached(&format!("{STEP} {end}"))?;
            let mut rows = find.query(params)?;
            let mut steps = Vec::new();
            while let Some(row) = rows.next()? {
                steps.push(journal_step(run, row)?);
            }
            Ok(steps)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// The runs that `condition` selects, which may include `ORDER BY` and `LIMIT`.
    pub(super) fn runs_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Run>, VaultError> {
        self.select_runs(&format!("{RUN} WHERE {condition}"), params)
    }

    fn select_runs(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Run>, VaultError> {
        let read = || -> Result<Vec<Run>, TransactionError> {
            let mut find = self.db.prepare(sql)?;
            let mut rows = find.query(params)?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                runs.push(self.one_run(row)?);
            }
            Ok(runs)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    fn one_run(&self, row: &Row<'_>) -> Result<Run, TransactionError> {
        let number: RunId = row.get(0)?;
        let (command, status): (String, String) = (row.get(1)?, row.get(2)?);
        let touched: String = row.get(10)?;
        let touched = touched.split(',').filter(|name| !name.is_empty()).map(resource);
        let mut steps = BTreeMap::new();
        let mut verified = 0;
        let mut count = self.db.prepare_cached(
            "SELECT state, count(*), sum(coalesce(verified = ?2, 0)) FROM step WHERE run = ?1
             GROUP BY state",
        )?;
        let mut counts = count.query((number, VerifiedState::Verified.name()))?;
        while let Some(row) = counts.next()? {
            let state: String = row.get(0)?;
            steps.insert(
                named(number, "state of a step", &state, StepState::from_name)?,
                unsigned(row.get(1)?),
            );
            verified += unsigned(row.get(2)?);
        }
        Ok(Run {
            number,
            command: named(number, "command", &command, RunCommand::from_name)?,
            status: named(number, "status", &status, RunStatus::from_name)?,
            started: Timestamp(row.get(3)?),
            finished: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            before: row.get(5)?,
            after: row.get(6)?,
            plan_id: row.get(7)?,
            plan: row.get(8)?,
            input: row.get(9)?,
            touched: touched.collect::<Result<_, _>>()?,
            requests: unsigned(row.get(11)?),
            steps,
            verified,
        })
    }

    /// Sets whether a commit waits until it is synced to disk.
    fn durable(&mut self, on: bool) -> Result<(), VaultError> {
        self.flush()?;
        let level = if on { "FULL" } else { "NORMAL" };
        self.db.pragma_update(None, "synchronous", level).map_err(|source| self.sql(source))
    }
}

/// Stores sent values, and which record replaces which. `learned`: the id of the created record was
/// unknown until now.
fn store_sent(
    tx: &Transaction<'_>,
    run: RunId,
    remember: &[SentValue],
    from: FirstSnapshot,
    learned: bool,
    maps: Option<&IdMapping>,
    now: Timestamp,
) -> Result<(), TransactionError> {
    let before = if remember.iter().any(|it| it.created) {
        let sql = "SELECT coalesce(before, 0) FROM run WHERE run = ?1";
        tx.prepare_cached(sql)?.query_row([run], |row| row.get(0))?
    } else {
        SnapshotId::default()
    };
    if let Some(first) = remember.iter().find(|it| it.created && learned) {
        let fields: Vec<_> = remember.iter().map(|it| it.field.as_str()).collect();
        close_others(tx, (first.resource, &first.key), &fields, FirstSnapshot::Created { before })?;
    }
    for it in remember {
        let begins = if it.created { FirstSnapshot::Created { before } } else { from };
        remember_in(tx, (it.resource, &it.key, &it.field), &it.value.to_string(), begins, now)?;
    }
    maps.map_or(Ok(()), |it| id_map::store(tx, run, it))
}

fn journal_step(run: RunId, row: &Row<'_>) -> Result<JournalStep, TransactionError> {
    let (state, verified): (String, Option<String>) = (row.get(2)?, row.get(8)?);
    let verified = verified
        .map(|name| named(run, "result of verifying a step", &name, VerifiedState::from_name));
    Ok(JournalStep {
        step: row.get(0)?,
        spec: row.get(1)?,
        state: named(run, "state of a step", &state, StepState::from_name)?,
        attempts: row.get(3)?,
        sent: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        answered: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        id: row.get(6)?,
        message: row.get(7)?,
        verified: verified.transpose()?,
        remark: row.get(9)?,
    })
}

/// The value called `name`, as `from_name` finds it.
fn named<T>(
    run: RunId,
    what: &str,
    name: &str,
    from_name: impl Fn(&str) -> Option<T>,
) -> Result<T, TransactionError> {
    from_name(name)
        .ok_or_else(|| TransactionError::Damaged(format!("run {run}: `{name}` is no {what}")))
}

fn resource(name: &str) -> Result<Resource, TransactionError> {
    Resource::from_name(name)
        .ok_or_else(|| TransactionError::Damaged(format!("`{name}` is no resource")))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
