//! The document with the recorded state of an account, for all machines. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{StoreError, StoreErrorKind};
use super::head::HeadAccount;
use crate::api::pacer::PacerState;
use crate::clock::Timestamp;
use crate::health::persisted_state::PersistedState;

/// The name of the object.
pub const STATE: &str = "STATE";

/// The newest format of `STATE` that this program knows.
pub const STATE_FORMAT: u32 = 1;

/// The largest `STATE`, as the file beside a vault.
pub const MAX_STATE: u64 = 4 << 20;

/// The most machines in the document: those that wrote last.
const MAX_MACHINES: usize = 16;

/// A pacer's state is of use for a window of the rate limit, and some time for wrong clocks.
const PACE_LIFETIME: Duration = Duration::from_secs(300);

/// The most requests of a machine that may be without a response.
const MAX_FLIGHTS: usize = 1024;

/// A machine that delivers alerts has this time, after which another one may.
pub const DELIVERY_TIME: Duration = Duration::from_secs(600);

/// The content of `STATE`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StateDocument {
    /// The format of this document.
    pub format: u32,
    /// The number of its writes.
    pub sequence: u64,
    /// The account; `None` before its first backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<HeadAccount>,
    /// Attempts, problems and pending alerts.
    pub state: PersistedState,
    /// What each machine did last, by the id of the machine.
    #[serde(default)]
    pub machines: BTreeMap<String, MachineUse>,
    /// The delivery of alerts that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryClaim>,
}

/// What a machine did last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MachineUse {
    /// Identifies the machine's last write of this document.
    pub write: String,
    /// When it wrote.
    pub at: Timestamp,
    /// Its last session with the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionUse>,
}

/// A session of a machine with the service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionUse {
    /// The write of the document that recorded its begin.
    pub began_by: u64,
    /// The write that recorded its end, and when it ended by the clock of the machine that recorded
    /// it; `None` if none did, so that it may still send requests.
    pub ended: Option<(u64, Timestamp)>,
    /// Requests that it sent, or may have sent.
    pub requests: u64,
    /// The rate limit that the machine knew; zero means none.
    pub limit: Option<u64>,
    /// The state of the rate limit at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PacerState>,
}

/// A process that delivers alerts, which no other process sends meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryClaim {
    /// A random name of the process.
    pub by: String,
    /// The time from which another one may deliver.
    pub until: Timestamp,
}

impl DeliveryClaim {
    /// Whether no other process may deliver at `now`. A claim for longer than [`DELIVERY_TIME`] was
    /// made by a wrong clock.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        now < self.until && self.until <= now.plus(2 * DELIVERY_TIME)
    }
}

impl StateDocument {
    /// A document with this state, written by no machine yet.
    #[must_use]
    pub fn new(state: PersistedState) -> Self {
        Self { format: STATE_FORMAT, state, ..Self::default() }
    }

    /// The document as an object.
    ///
    /// # Errors
    /// If it is too large.
    pub fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        if text.is_empty() || text.len() as u64 > MAX_STATE {
            let what = format!("{STATE} would have more than {MAX_STATE} bytes");
            return Err(StoreError::new(StoreErrorKind::Local, what));
        }
        Ok(text)
    }

    /// Reads and checks the document. `ours` is the account as far as this machine knows it.
    ///
    /// # Errors
    /// If it is of a newer format, of another account, or not such a document.
    pub fn read(bytes: &[u8], ours: Option<&HeadAccount>) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |what: String| StoreError::new(StoreErrorKind::Damaged, what);
        let invalid = |error| damaged(format!("{STATE} is not a document of linkvault: {error}"));
        let Format { format } = serde_json::from_slice(bytes).map_err(invalid)?;
        if format > STATE_FORMAT {
            let what = format!(
                "{STATE} has format {format}; this program knows formats up to {STATE_FORMAT}"
            );
            return Err(StoreError::new(StoreErrorKind::Newer, what));
        }
        let document: Self = serde_json::from_slice(bytes).map_err(invalid)?;
        // No write could follow one with the largest number.
        let is_valid = format > 0
            && document.sequence < u64::MAX
            && document.machines.len() <= MAX_MACHINES
            && document.machines.keys().all(|id| is_machine_id(id))
            && document.machines.values().all(MachineUse::is_valid);
        if !is_valid {
            return Err(damaged(format!("{STATE} has an invalid format, number or machine")));
        }
        if let (Some(ours), Some(theirs)) = (ours, &document.account)
            && ours.id != theirs.id
        {
            let what = format!(
                "{STATE} belongs to account {} of {}, not to account {} of {}",
                theirs.id, theirs.service, ours.id, ours.service
            );
            return Err(StoreError::new(StoreErrorKind::OtherAccount, what));
        }
        Ok(document)
    }

    /// Records that `machine` writes the document at `now`, and drops what no machine needs any
    /// more.
    pub fn stamp(&mut self, machine: &str, write: &str, now: Timestamp) {
        self.format = STATE_FORMAT;
        self.sequence = self.sequence.saturating_add(1);
        for session in self.machines.values_mut().filter_map(|it| it.session.as_mut()) {
            if session.ended.is_some_and(|(_, ended)| ended.plus(PACE_LIFETIME) < now) {
                session.pace = None;
            }
        }
        let own = self.machines.entry(machine.to_owned()).or_default();
        (own.write, own.at) = (write.to_owned(), now);
        while self.machines.len() > MAX_MACHINES {
            let others = self.machines.iter().filter(|(id, _)| *id != machine);
            let oldest = others.min_by_key(|(_, it)| it.at).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            self.machines.remove(&oldest);
        }
    }

    /// Whether `machine` wrote the document, or another one that was made from it, as `write`.
    #[must_use]
    pub fn was_written(&self, machine: &str, write: &str) -> bool {
        self.machines.get(machine).is_some_and(|it| it.write == write)
    }
}

impl MachineUse {
    fn is_valid(&self) -> bool {
        let pace = self.session.as_ref().and_then(|session| session.pace.as_ref());
        self.write.len() <= 64
            && pace.is_none_or(|it| {
                [it.requests.len(), it.in_flight.len(), it.queue.len()]
                    .into_iter()
                    .all(|count| count <= MAX_FLIGHTS)
            })
    }
}

/// Whether the text can be the id of a machine.
#[must_use]
pub fn is_machine_id(text: &str) -> bool {
    (16..=64).contains(&text.len())
        && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::attempt::AttemptOutcome;
    use crate::health::persisted_state::tests::attempt;

    const MACHINE: &str = "00000000000000aa";

    fn account(id: i64) -> HeadAccount {
        HeadAccount { service: "https://links.example.com".to_owned(), id }
    }

    fn document() -> StateDocument {
        let mut state = PersistedState::default();
        state.add(&attempt(AttemptOutcome::Failed, 5000));
        state.pending.clear();
        let mut document = StateDocument { account: Some(account(7)), ..StateDocument::new(state) };
        document.stamp(MACHINE, "1", Timestamp(5));
        document
    }

    #[test]
    fn a_document_reads_back_as_it_was_written() {
        let document = document();
        let bytes = document.bytes().unwrap();
        assert_eq!(StateDocument::read(&bytes, Some(&account(7))).unwrap(), document);
        assert_eq!(StateDocument::read(&bytes, None).unwrap(), document);
        assert!(document.was_written(MACHINE, "1") && !document.was_written(MACHINE, "2"));
    }

    #[test]
    fn cut_foreign_newer_and_other_documents_are_refused() {
        let bytes = document().bytes().unwrap();
        let kind = |bytes: &[u8], ours: i64| {
            StateDocument::read(bytes, Some(&account(ours))).unwrap_err().kind
        };
        for cut in 0..bytes.len() - 1 {
            assert_eq!(kind(&bytes[..cut], 7), StoreErrorKind::Damaged, "{cut}");
        }
        assert_eq!(kind(&bytes, 8), StoreErrorKind::OtherAccount);
        assert_eq!(kind(br#"{"format":2,"content":"x"}"#, 7), StoreErrorKind::Newer);
        for text in [
            "",
            "null",
            "{}",
            r#"{"format":1}"#,
            r#"{"format":0,"sequence":1,"state":{}}"#,
            r#"{"format":-1,"sequence":1,"state":{}}"#,
            r#"{"format":1,"sequence":18446744073709551615,"state":{}}"#,
            r#"{"format":1,"sequence":1,"state":{"totals":{"backups":-1}}}"#,
            r#"{"format":1,"sequence":1,"state":{},"machines":{"../x":{"write":"1","at":1}}}"#,
            r#"{"format":1,"sequence":1,"state":{},"machines":{"00000000000000aa":{"at":1}}}"#,
        ] {
            assert_eq!(kind(text.as_bytes(), 7), StoreErrorKind::Damaged, "{text}");
        }
    }

    #[test]
    fn the_machines_that_wrote_last_are_kept() {
        let mut document = document();
        for at in 0..40_u64 {
            document.stamp(&format!("{at:016x}"), "1", Timestamp(10 + at as i64));
        }
        assert_eq!(document.machines.len(), MAX_MACHINES);
        assert!(document.machines.contains_key(&format!("{:016x}", 39)));
        assert!(!document.machines.contains_key(MACHINE));
        assert!(StateDocument::read(&document.bytes().unwrap(), None).is_ok());
    }

    #[test]
    fn a_claim_of_a_clock_that_is_far_ahead_does_not_hold() {
        let claim = |until| DeliveryClaim { by: String::new(), until: Timestamp(until) };
        let now = Timestamp(1_000_000_000);
        assert!(claim(now.0 + 600_000).holds(now));
        assert!(!claim(now.0).holds(now));
        assert!(!claim(i64::MAX).holds(now));
    }
}
