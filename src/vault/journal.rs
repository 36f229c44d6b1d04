//! The journal: what each run of a plan set out to do, and what is known of each of its steps. An
//! intent is on the disk before its request leaves, so that a resumed run knows what may
//! have happened. What a step is, is the business of `apply`; here its text is only kept.

mod state;

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row};

use super::id_map::{self, IdMapping};
use crate::clock::Timestamp;
use crate::model::{Resource, SentValue};
use crate::vault::sent_values::{FirstSnapshot, end_others, remember_in};
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums};

pub use state::{RunStatus, StepState};

/// A run to begin.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    /// Who runs: `apply`, `import`, `restore`, `undo`.
    pub command: String,
    /// What it was asked for, as text.
    pub asked: String,
    /// The plan's own id; empty where it has none.
    pub plan_id: String,
    /// The plan without its steps, as text.
    pub plan: String,
    pub touched: Vec<Resource>,
    /// The snapshot before its first write.
    pub before: i64,
    /// The text of each step; they are numbered from 1 in this order.
    pub steps: Vec<String>,
}

/// A run, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub number: i64,
    pub command: String,
    pub asked: String,
    pub plan_id: String,
    pub plan: String,
    pub touched: Vec<Resource>,
    pub status: RunStatus,
    pub started: Timestamp,
    pub finished: Option<Timestamp>,
    pub before: Option<i64>,
    pub after: Option<i64>,
    pub requests: u64,
    /// How many steps are in each state.
    pub steps: BTreeMap<StepState, u64>,
    /// How many were seen to be as asked.
    pub verified: u64,
}

impl Run {
    /// How many steps are in `state`.
    #[must_use]
    pub fn count(&self, state: StepState) -> u64 {
        self.steps.get(&state).copied().unwrap_or_default()
    }
}

/// A step, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStep {
    /// Counted from 1.
    pub step: u32,
    /// What it is, as text.
    pub spec: String,
    pub state: StepState,
    /// How often its request was about to leave.
    pub attempts: u32,
    /// When it was last about to leave.
    pub sent: Option<Timestamp>,
    /// When its outcome became known.
    pub answered: Option<Timestamp>,
    /// The id of the record it created.
    pub id: Option<i64>,
    /// What the service said, or why it was not sent.
    pub message: Option<String>,
    /// What looking at it afterwards showed, in a word.
    pub verified: Option<String>,
    /// The same in a sentence.
    pub remark: Option<String>,
}

impl JournalStep {
    /// Whether the service has done it, or may have: also where a person decided that it is to
    /// be sent again.
    #[must_use]
    pub const fn may_be_done(&self) -> bool {
        match self.state {
            StepState::Done | StepState::Sent | StepState::Unknown => true,
            StepState::Planned => self.attempts > 0,
            StepState::Refused | StepState::Skipped | StepState::Stale => false,
        }
    }
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    pub state: StepState,
    pub id: Option<i64>,
    pub message: Option<String>,
    pub remember: Vec<SentValue>,
    /// Of a record that was created for another: which it stands for.
    pub maps: Option<IdMapping>,
}

impl StepResult {
    /// A state, and nothing else.
    #[must_use]
    pub const fn of(state: StepState) -> Self {
        Self { state, id: None, message: None, remember: Vec::new(), maps: None }
    }

    /// With the service's words, or ours.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }
}

/// What looking at a step afterwards showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepVerification {
    pub step: u32,
    pub word: String,
    pub remark: Option<String>,
    /// The record's id, where the answer did not tell it.
    pub id: Option<i64>,
    pub remember: Vec<SentValue>,
    pub maps: Option<IdMapping>,
}

/// How looking at a step that is as asked is called.
pub const AS_ASKED: &str = "verified";

const RUN: &str = "SELECT run, command, status, started, finished, before, after, plan_id, plan,
    asked, touched, requests FROM run";
const STEP: &str = "SELECT step, spec, state, attempts, sent, answered, id, message, verified,
    remark FROM step WHERE run = ?1";

impl Vault {
    /// Begins a run, with all its steps planned. From here until it ends, every
    /// commit reaches the disk before it returns.
    ///
    /// # Errors
    /// When the vault cannot be written; there is then no such run.
    pub fn begin_run(&mut self, new: &NewRun, now: Timestamp) -> Result<i64, VaultError> {
        self.durable(true)?;
        let touched: Vec<_> = new.touched.iter().map(|it| it.name()).collect();
        self.transact(|tx, _| {
            let run: i64 =
                tx.query_row("SELECT coalesce(max(run), 0) + 1 FROM run", [], |row| row.get(0))?;
            checksums::run(tx, run, || {
                tx.execute(
                    "INSERT INTO run(run, command, status, started, before, plan_id, plan, asked,
                       touched) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    (
                        run,
                        &new.command,
                        RunStatus::Running.name(),
                        now.0,
                        new.before,
                        &new.plan_id,
                        &new.plan,
                        &new.asked,
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

    /// Takes up a run that was stopped: from here on, commits reach the disk.
    ///
    /// # Errors
    /// When there is no such run, or the vault cannot be read.
    pub fn resume_run(&mut self, run: i64) -> Result<Run, VaultError> {
        self.durable(true)?;
        self.run(run)
    }

    /// Notes that the requests of `steps` are about to leave. It is on the disk
    /// when this returns, together with all that was held.
    ///
    /// # Errors
    /// When the vault cannot be written; nothing may then be sent.
    pub fn mark_sent(&mut self, run: i64, steps: &[u32], now: Timestamp) -> Result<(), VaultError> {
        self.transact_batched(now, |tx, _| {
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

    /// Notes what became of a step, with all that is to be remembered of it.
    /// `hold` lets it wait for the next commit: where settling it again would cost little.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn record_result(
        &mut self,
        run: i64,
        step: u32,
        what: &StepResult,
        now: Timestamp,
        hold: bool,
    ) -> Result<(), VaultError> {
        let answered = (!matches!(what.state, StepState::Planned)).then_some(now.0);
        self.transact_batched(now, |tx, _| {
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
            keep(tx, run, &what.remember, FirstSnapshot::Next, true, what.maps.as_ref(), now)
        })?;
        if hold { Ok(()) } else { self.flush() }
    }

    /// Puts steps whose requests never left back to planned.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn revert_to_planned(
        &mut self,
        run: i64,
        steps: &[u32],
        now: Timestamp,
    ) -> Result<(), VaultError> {
        if steps.is_empty() {
            return Ok(());
        }
        self.transact_batched(now, |tx, _| {
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

    /// Notes what looking at the steps afterwards showed.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn verify_steps(
        &mut self,
        run: i64,
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
                    update.execute((run, it.step, &it.word, &it.remark, it.id))?;
                }
                Ok(())
            })?;
            for it in found {
                let learned = it.id.is_some();
                keep(tx, run, &it.remember, FirstSnapshot::Seen, learned, it.maps.as_ref(), now)?;
            }
            Ok(())
        })
    }

    /// Notes that what was seen at an earlier end of the run is not what it left:
    /// more is about to be sent.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn clear_after_snapshot(&mut self, run: i64) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            checksums::run(tx, run, || {
                tx.execute("UPDATE run SET after = NULL WHERE run = ?1", [run])?;
                Ok(())
            })
        })
    }

    /// Notes that a process ends its work on the run: with what the run is now,
    /// and what the process spent. A run that is complete or partial is finished.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn suspend_run(
        &mut self,
        run: i64,
        status: RunStatus,
        after: Option<i64>,
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
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn runs(&self) -> Result<Vec<Run>, VaultError> {
        self.select_runs(&format!("{RUN} ORDER BY run"), [])
    }

    /// The run of that number.
    ///
    /// # Errors
    /// When there is none, or the vault cannot be read.
    pub fn run(&self, number: i64) -> Result<Run, VaultError> {
        let found = self.select_runs(&format!("{RUN} WHERE run = ?1"), [number])?;
        found.into_iter().next().ok_or(VaultError::NoRun(number))
    }

    /// The newest run that is not finished.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn unfinished_run(&self) -> Result<Option<Run>, VaultError> {
        let sql = format!("{RUN} WHERE finished IS NULL ORDER BY run DESC LIMIT 1");
        Ok(self.select_runs(&sql, [])?.into_iter().next())
    }

    /// The run that used the plan of that id already.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn plan_was_used(&self, plan_id: &str) -> Result<Option<i64>, VaultError> {
        if plan_id.is_empty() {
            return Ok(None);
        }
        self.db
            .query_row("SELECT run FROM run WHERE plan_id = ?1", [plan_id], |row| row.get(0))
            .optional()
            .map_err(|source| self.sql(source))
    }

    /// The steps of a run, in order.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn steps(&self, run: i64) -> Result<Vec<JournalStep>, VaultError> {
        self.steps_where(run, "ORDER BY step", [run])
    }

    /// The steps of a run, ordered and limited as `end`, a statement's end, says.
    pub(super) fn steps_where(
        &self,
        run: i64,
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

    /// The runs that `condition`, the end of a statement, selects.
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
        let number: i64 = row.get(0)?;
        let status: String = row.get(2)?;
        let touched: String = row.get(10)?;
        let touched = touched.split(',').filter(|name| !name.is_empty()).map(resource);
        let mut steps = BTreeMap::new();
        let mut verified = 0;
        let mut count = self.db.prepare_cached(
            "SELECT state, count(*), sum(coalesce(verified = ?2, 0)) FROM step WHERE run = ?1
             GROUP BY state",
        )?;
        let mut counts = count.query((number, AS_ASKED))?;
        while let Some(row) = counts.next()? {
            let state: String = row.get(0)?;
            steps.insert(step_state(number, &state)?, unsigned(row.get(1)?));
            verified += unsigned(row.get(2)?);
        }
        Ok(Run {
            number,
            command: row.get(1)?,
            status: RunStatus::from_name(&status).ok_or_else(|| {
                TransactionError::Damaged(format!("run {number}: no status {status}"))
            })?,
            started: Timestamp(row.get(3)?),
            finished: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            before: row.get(5)?,
            after: row.get(6)?,
            plan_id: row.get(7)?,
            plan: row.get(8)?,
            asked: row.get(9)?,
            touched: touched.collect::<Result<_, _>>()?,
            requests: unsigned(row.get(11)?),
            steps,
            verified,
        })
    }

    /// Whether a commit waits until it is on the disk.
    fn durable(&mut self, on: bool) -> Result<(), VaultError> {
        self.flush()?;
        let level = if on { "FULL" } else { "NORMAL" };
        self.db.pragma_update(None, "synchronous", level).map_err(|source| self.sql(source))
    }
}

/// Remembers what was sent, and which record stands for which. `learned`: the id of what was
/// created is known from now on.
fn keep(
    tx: &Transaction<'_>,
    run: i64,
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
        0
    };
    if let Some(first) = remember.iter().find(|it| it.created && learned) {
        let fields: Vec<_> = remember.iter().map(|it| it.field.as_str()).collect();
        end_others(tx, (first.resource, &first.key), &fields, FirstSnapshot::Created { before })?;
    }
    for it in remember {
        let begins = if it.created { FirstSnapshot::Created { before } } else { from };
        remember_in(tx, (it.resource, &it.key, &it.field), &it.value.to_string(), begins, now)?;
    }
    maps.map_or(Ok(()), |it| id_map::keep(tx, run, it))
}

fn journal_step(run: i64, row: &Row<'_>) -> Result<JournalStep, TransactionError> {
    let state: String = row.get(2)?;
    Ok(JournalStep {
        step: row.get(0)?,
        spec: row.get(1)?,
        state: step_state(run, &state)?,
        attempts: row.get(3)?,
        sent: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        answered: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        id: row.get(6)?,
        message: row.get(7)?,
        verified: row.get(8)?,
        remark: row.get(9)?,
    })
}

fn step_state(run: i64, name: &str) -> Result<StepState, TransactionError> {
    StepState::from_name(name)
        .ok_or_else(|| TransactionError::Damaged(format!("run {run}: no step can be {name}")))
}

fn resource(name: &str) -> Result<Resource, TransactionError> {
    Resource::from_name(name)
        .ok_or_else(|| TransactionError::Damaged(format!("`{name}` is no resource")))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
