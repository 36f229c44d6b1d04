//! Checks before a write is sent: the account behind the URL is the vault's own, and the lists of
//! the records that the write depends on are recent enough.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::client::LONG_PAUSE;
use crate::api::http::Method;
use crate::apply::error::ApplyError;
use crate::apply::journal_step::StepRun;
use crate::apply::recovery::{ListingEvidence, evidence_for};
use crate::apply::runner::{MAX_READS, PlanRunner};
use crate::apply::stale::changed_by_others;
use crate::change::plan::fingerprints::fingerprints;
use crate::change::staleness::{SinceAccountCheck, lists};
use crate::crawl::{self, AccountCheck, CrawlError};
use crate::model::{Resource, State, Verb};
use crate::vault::journal::{StepResult, StepState};

/// After a wait for the rate limit of at most this, lists that were just read need no new check of
/// their age.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Indexes of updates in the run's steps, by the records that they change.
pub(super) type OwnUpdates = BTreeMap<(Resource, i64), Vec<usize>>;

impl PlanRunner<'_> {
    /// Waits until the rate limit allows the request of the `nth` step, reads lists again that are
    /// too old, and closes steps whose records others have changed. False if that closed the `nth`
    /// step.
    pub fn prepare(&mut self, nth: usize) -> Result<bool, ApplyError> {
        let prepared = self.prepare_once_ready(nth);
        if prepared.is_err() {
            // The error that stopped it is returned, even if writing the journal fails too.
            let _ = self.revert_to_planned();
        }
        prepared
    }

    fn prepare_once_ready(&mut self, nth: usize) -> Result<bool, ApplyError> {
        let (method, path) = {
            let request = &self.all[nth].step.request;
            (request.method, request.path.clone())
        };
        let (mut looks, mut proofs, mut young) = (0, 0, Vec::new());
        loop {
            let began = self.clock.monotonic();
            if let Err(error) = self.client.wait_for_turn(method, &path) {
                return self.stop(error).map(|()| false);
            }
            if self.clock.monotonic().saturating_sub(began) > SHORT_WAIT {
                young.clear();
            }
            if !self.all[nth].is_open() {
                return Ok(false);
            }
            let mut due = self.lists_due(nth);
            due.retain(|list| !young.contains(list));
            if due.is_empty() && self.qr_codes_are_stale(nth) {
                due.push(self.all[nth].step.resource);
            }
            if !self.is_unresolved(|it| due.contains(&it)).is_empty() {
                // After this read, the records that they created would count as known.
                self.reconcile(|it| due.contains(&it))?;
            } else if !due.is_empty() {
                looks += 1;
                if looks > MAX_READS {
                    let why = "it takes longer to read than --max-staleness allows".to_owned();
                    return Err(ApplyError::OutcomeUnreadable {
                        run: self.run,
                        resource: due[0],
                        why,
                    });
                }
                let state = self.observe_into_vault(&due)?;
                self.close_steps_changed_by_others(&state)?;
                young = due;
            } else if self.is_journal_due(nth) {
                self.put_journal()?;
            } else if self.all[nth].state == StepState::Sent && self.vault.is_unconfirmed() {
                self.confirm_newest()?;
            } else if proofs < self.proofs.staleness.account_checks() && self.is_account_due() {
                proofs += 1;
                self.verify_account()?;
            } else {
                return Ok(true);
            }
        }
    }

    /// The lists that the step depends on and that were read too long ago.
    fn lists_due(&self, nth: usize) -> Vec<Resource> {
        let proofs = &self.proofs;
        let is_due = |list: &Resource| {
            let age = proofs.read.get(list).map(|it| it.age(self.clock));
            age.is_none_or(|age| proofs.staleness.is_due(*list, age))
        };
        let mut due: Vec<_> = lists(&self.all[nth].step).filter(is_due).collect();
        due.dedup();
        due
    }

    fn is_account_due(&self) -> bool {
        self.since_account_check().is_none_or(|since| since.is_due_before_write())
    }

    /// What happened since this process last checked the account; `None` if it did not.
    fn since_account_check(&self) -> Option<SinceAccountCheck> {
        let check = self.proofs.account?;
        Some(SinceAccountCheck {
            age: check.at.age(self.clock),
            requests: self.client.counters().requests.saturating_sub(check.requests),
            has_failed: check.failures != self.client.connection_failures(),
            is_paused: self.client.time_since_send().is_none_or(|idle| idle > LONG_PAUSE),
        })
    }

    /// Whether the observation after the run checks the account, if this many requests are sent
    /// before.
    pub fn is_account_due_after(&self, requests: u64) -> bool {
        self.since_account_check().is_none_or(|since| {
            let requests = since.requests.saturating_add(requests);
            let since = SinceAccountCheck { requests, ..since };
            since.is_due_after_run(self.touched.contains(&Resource::Account))
        })
    }

    /// The check of the account with which the observation after the run can begin. Waits for the
    /// rate limit first, as before a write: after the wait, the check may be too old.
    pub fn check_for_observation(&mut self) -> Result<Option<AccountCheck>, ApplyError> {
        if self.is_account_due_after(0) {
            return Ok(None);
        }
        let path = Resource::Account.spec().endpoint(Verb::List).map_or("", |it| it.path);
        if let Err(error) = self.client.wait_for_turn(Method::Get, path) {
            return self.stop(error).map(|()| None);
        }
        Ok(self.proofs.account.filter(|_| !self.is_account_due_after(0)))
    }

    /// Requests the account and checks that it is the vault's own.
    fn verify_account(&mut self) -> Result<(), ApplyError> {
        let check = AccountCheck::next(self.clock, self.client);
        match crawl::verify_account(self.client, self.vault, &self.options.service) {
            Ok(()) => {
                let failures = self.client.connection_failures();
                let pauses = self.client.pauses();
                self.proofs.account = Some(AccountCheck { failures, pauses, ..check });
                Ok(())
            }
            Err(CrawlError::Api(error)) => self.stop(error),
            Err(other) => Err(self.observation_error(other)),
        }
    }

    /// Records that `lists` were read completely, beginning at `began`.
    pub fn record_observation(&mut self, lists: &[Resource], began: AccountCheck) {
        self.proofs.account = Some(began);
        self.proofs.read.extend(lists.iter().map(|list| (*list, began.at)));
    }

    /// Closes the open steps whose records others have changed according to `now`.
    pub fn close_steps_changed_by_others(&mut self, now: &State) -> Result<(), ApplyError> {
        let ours = self.own_updates();
        for nth in 0..self.all.len() {
            let work = &self.all[nth];
            if !work.is_open() || work.step.verb == Verb::Create {
                continue;
            }
            let may_be_done = work.may_have_run && !work.retried;
            if may_be_done && matches!(work.step.verb, Verb::Update | Verb::Delete) {
                self.close_if_evident(nth, now, &ours)?;
                continue;
            }
            let Some(why) = self.external_changes(nth, now, &ours) else { continue };
            if may_be_done {
                self.close_as_unknown(nth, &format!("it {why}"))?;
            } else {
                self.intended.remove(&nth);
                self.close(nth, &StepResult::of(StepState::Stale).with_message(why))?;
            }
        }
        Ok(())
    }

    /// The updates of this run that took effect or may have, by their records.
    pub fn own_updates(&self) -> OwnUpdates {
        let mut ours = OwnUpdates::new();
        for (nth, work) in self.all.iter().enumerate() {
            let may_be_done = matches!(work.state, StepState::Done | StepState::Unknown)
                || (work.is_open() && work.may_have_run);
            if let Some(id) = work.step.id.filter(|_| work.step.verb == Verb::Update && may_be_done)
            {
                ours.entry((work.step.resource, id)).or_default().push(nth);
            }
        }
        ours
    }

    /// What others have changed in the records that the step depends on.
    fn external_changes(&self, nth: usize, now: &State, ours: &OwnUpdates) -> Option<String> {
        let ours = |resource: Resource, id: i64| {
            let places = ours.get(&(resource, id)).into_iter().flatten();
            places.map(|at| &self.all[*at].step).collect::<Vec<_>>()
        };
        changed_by_others(&self.all[nth].step, &self.proofs.base, now, ours)
    }

    /// Closes a step that may have taken effect already, if `now` shows its outcome.
    fn close_if_evident(
        &mut self,
        nth: usize,
        now: &State,
        ours: &OwnUpdates,
    ) -> Result<(), ApplyError> {
        let step = &self.all[nth].step;
        if now.get(step.resource).is_none() || fingerprints(step).next().is_none() {
            return Ok(());
        }
        match evidence_for(step, &[], now) {
            ListingEvidence::Done => {
                self.intended.remove(&nth);
                self.done(nth, None, &[])
            }
            ListingEvidence::Changed(why) => self.close_as_unknown(nth, &why),
            ListingEvidence::NotDone | ListingEvidence::NotVisible(_) => {
                match self.external_changes(nth, now, ours) {
                    None => Ok(()),
                    Some(why) => self.close_as_unknown(nth, &format!("it {why}")),
                }
            }
        }
    }

    /// Closes a step that may have taken effect as unknown: there is no response, and `why` says
    /// why no list shows the outcome.
    pub fn close_as_unknown(&mut self, nth: usize, why: &str) -> Result<(), ApplyError> {
        self.intended.remove(&nth);
        let why = format!("the service did not confirm it, and {why}");
        self.close(nth, &StepResult::of(StepState::Unknown).with_message(why))
    }

    /// Whether the list must be read again before a create of the `nth` step, because lists do not
    /// show the natural key of the new record and the known ids are too old.
    fn qr_codes_are_stale(&self, nth: usize) -> bool {
        let StepRun { step, state, .. } = &self.all[nth];
        let keyless = step.verb == Verb::Create && !step.resource.spec().shows_key();
        let fresh = self.known.get(&step.resource).is_some_and(|it| it.is_fresh(self.clock.now()));
        keyless && *state == StepState::Planned && !fresh
    }
}
