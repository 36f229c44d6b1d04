//! The recorded state of an account whose vault lives in a store: the object `STATE`, and the file
//! beside the local copy of the vault, which has the state as this machine last knew it.
//!
//! A change is made to the present `STATE`, and replaces it if no other machine replaced it
//! meanwhile; otherwise it is made again. A change that cannot reach the store is made to the file
//! and remains there. The next change that reaches the store adds it: the file has the document on
//! which it is based, and the attempts that the document lacks.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::{StoreError, StoreErrorKind};
use super::fetch_file::FetchFile;
use super::head::HeadAccount;
use super::object_tag::{ConditionalPut, ObjectTag};
use super::objects::Objects;
use super::probe::probe;
use super::state_document::{DELIVERY_TIME, MAX_STATE, STATE, StateDocument};
use crate::clock::Timestamp;
use crate::config::VaultAddress;
use crate::files::{Durability, beside, read_private, replace};
use crate::health::attempt::BackupAttempt;
use crate::health::pending_alerts::PendingAlert;
use crate::health::persisted_state::{PersistedState, file};
use crate::model::field_changes::ServiceFieldChange;
use crate::state_file::{self, MAX_SIZE};
use crate::vault::VaultError;

/// The number of machines that replace `STATE` between two reads of it until a change gives up.
const MAX_PUTS: usize = 50;

/// The state of an account in a store, and the file with the last known one.
#[derive(Debug)]
pub struct SharedState {
    /// The error of a store whose settings are invalid.
    objects: Result<Objects, (StoreErrorKind, String)>,
    copy: PathBuf,
    machine: String,
    /// The address of the store; `None` in tests.
    store: Option<String>,
}

/// What a change or a reading came to.
#[derive(Debug)]
pub struct KnownState {
    /// The document; without the store, as this machine knows it.
    pub document: StateDocument,
    /// Why the store was not reached. A change is then in the file only.
    pub unshared: Option<StoreError>,
    /// A warning about a broken file or object.
    pub warning: Option<String>,
    /// The alerts that other machines may deliver: those of the last known `STATE`, and for ten
    /// minutes those of a put without an answer.
    pub shared_outbox: Vec<PendingAlert>,
}

/// The content of the file: the state with this machine's changes, and what the store has of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct LocalState {
    #[serde(flatten)]
    state: PersistedState,
    shared: SharedRecord,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SharedRecord {
    /// The address of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    /// The last known `STATE`, and its version.
    known: Option<(ObjectTag, StateDocument)>,
    /// The attempts that it lacks.
    unsynced: Vec<LateAttempt>,
    /// The puts since then that may have been done. The file calls them `doubts`, as that of earlier versions.
    #[serde(rename = "doubts")]
    unknown_puts: Vec<UnknownPut>,
}

/// An attempt with what [`PersistedState`] has apart from it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LateAttempt {
    attempt: BackupAttempt,
    #[serde(default)]
    field_changes: Vec<ServiceFieldChange>,
}

/// A put that may have been done.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct UnknownPut {
    write: String,
    /// The number of the document that it was to make.
    sequence: u64,
    /// How many of the attempts it has.
    attempts: usize,
    state: PersistedState,
}

/// What is at the name of the object.
enum Found {
    Missing,
    Document(ObjectTag, Box<StateDocument>),
    Broken(ObjectTag, StoreError),
}

impl SharedState {
    /// The state whose object is among `objects`, for the vault whose local copy is at `copy`, on
    /// the machine with this id.
    #[must_use]
    pub fn new(objects: Objects, copy: &Path, machine: &str) -> Self {
        let (copy, machine) = (copy.to_owned(), machine.to_owned());
        Self { objects: Ok(objects), copy, machine, store: None }
    }

    /// As [`Self::new`], with the objects at `address`. Sends no request. If the settings of the
    /// store are invalid, changes are made to the file.
    #[must_use]
    pub fn open(address: Option<&VaultAddress>, copy: &Path, machine: &str) -> Self {
        let objects = match address.map(Objects::open) {
            Some(objects) => objects.map_err(|error| (error.kind, error.what)),
            None => Err((StoreErrorKind::NoBucket, "the vault lives in no store".to_owned())),
        };
        let store = address.map(ToString::to_string);
        Self { objects, copy: copy.to_owned(), machine: machine.to_owned(), store }
    }

    fn objects(&self) -> Result<&Objects, StoreError> {
        self.objects.as_ref().map_err(|(kind, what)| StoreError::new(*kind, what.clone()))
    }

    /// Reads `STATE` into the file.
    ///
    /// # Errors
    /// If it cannot be read, is of a newer format, or of another account. The file is then
    /// unchanged.
    pub fn refresh(&self) -> Result<Option<String>, StoreError> {
        let _lock = state_file::lock(&file(&self.copy));
        let (mut local, warning) = self.load();
        match self.read()? {
            Found::Missing => {}
            Found::Broken(_, error) => return Ok(Some(self.keep_broken(&error))),
            Found::Document(tag, theirs) => {
                self.advance(&mut local, &tag, &theirs);
                self.store(&local)?;
            }
        }
        Ok(warning)
    }

    /// Whether `STATE` records a backup of a vault that was put into the store.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn has_backup(&self) -> Result<bool, StoreError> {
        Ok(match self.read()? {
            Found::Document(_, it) => it.account.is_some() && it.state.last_success.is_some(),
            Found::Missing | Found::Broken(..) => false,
        })
    }

    /// Makes `change` to the present state, after `attempt` was added to it. Reads `STATE` before
    /// if `is_fresh`; otherwise only if another machine has replaced it since this one knew it.
    ///
    /// # Errors
    /// If neither the store nor the file can be written.
    pub fn update(
        &self,
        attempt: Option<&BackupAttempt>,
        is_fresh: bool,
        now: Timestamp,
        change: &mut dyn FnMut(&mut StateDocument),
    ) -> Result<KnownState, StoreError> {
        let _lock = state_file::lock(&file(&self.copy));
        let (mut local, mut warning) = self.load();
        let late = attempt.map(|attempt| {
            let field_changes = attempt.field_changes.clone();
            LateAttempt { attempt: attempt.clone(), field_changes }
        });
        if let Some(attempt) = attempt {
            let mut kept = local.clone();
            kept.state.add(attempt);
            kept.shared.unsynced.extend(late.clone());
            // If the process is killed before the store answers, the attempt is in the file. If
            // the file cannot be written, the store may still be.
            let _ = self.store(&kept);
        }
        let mut make = |document: &mut StateDocument| {
            if let Some(attempt) = attempt {
                document.state.add(attempt);
            }
            change(document);
            document.state.pending.clear();
        };
        let attempts = local.shared.unsynced.len() + late.iter().len();
        let put = self.put(&mut local, attempts, is_fresh, now, &mut warning, &mut make);
        match put {
            Ok((tag, document)) => {
                let known = Some((tag, document.clone()));
                let store = self.store.clone();
                let shared = SharedRecord { store, known, ..SharedRecord::default() };
                let state = document.state.clone();
                let shared_outbox = state.outbox.clone();
                // The store has it.
                let _ = self.store(&LocalState { state, shared });
                Ok(KnownState { document, unshared: None, warning, shared_outbox })
            }
            Err(error) => {
                let known = local.shared.known.as_ref().map(|(_, document)| document.clone());
                let mut document = known.unwrap_or_default();
                let mut shared_outbox = document.state.outbox.clone();
                let maybe_shared =
                    local.shared.unknown_puts.iter().flat_map(|it| it.state.outbox.iter());
                let maybe_shared = maybe_shared.filter(|it| it.alert.at.plus(DELIVERY_TIME) > now);
                shared_outbox.extend(maybe_shared.cloned());
                document.state = local.state;
                make(&mut document);
                local.state = document.state.clone();
                local.shared.unsynced.extend(late);
                self.store(&local)?;
                Ok(KnownState { document, unshared: Some(error), warning, shared_outbox })
            }
        }
    }

    /// Makes `change` to `STATE` until no other machine replaces it meanwhile. What is read
    /// meanwhile is in `local`, also after an error. `attempts` is the number of attempts that the
    /// store may lack, with that of `change`.
    fn put(
        &self,
        local: &mut LocalState,
        attempts: usize,
        is_fresh: bool,
        now: Timestamp,
        warning: &mut Option<String>,
        change: &mut dyn FnMut(&mut StateDocument),
    ) -> Result<(ObjectTag, StateDocument), StoreError> {
        let before = local.shared.unsynced.len();
        let mut found = match &local.shared.known {
            Some((tag, document)) if !is_fresh && local.shared.unknown_puts.is_empty() => {
                Found::Document(tag.clone(), Box::new(document.clone()))
            }
            _ => self.read()?,
        };
        let mut writes: Vec<String> = Vec::new();
        for _ in 0..MAX_PUTS {
            if let Found::Document(tag, theirs) = &found {
                if writes.iter().any(|it| theirs.was_written(&self.machine, it)) {
                    return Ok((tag.clone(), theirs.as_ref().clone()));
                }
                self.advance(local, tag, theirs);
            }
            let (tag, theirs) = match &found {
                Found::Missing => (None, None),
                Found::Broken(tag, error) => {
                    *warning = Some(self.keep_broken(error));
                    (Some(tag), None)
                }
                Found::Document(tag, document) => (Some(tag), Some(&**document)),
            };
            let mut document = self.merged(local, theirs);
            change(&mut document);
            if let (Some(tag), Some(theirs)) = (tag, theirs)
                && *theirs == document
            {
                return Ok((tag.clone(), document));
            }
            document.account = self.account().or(document.account);
            let write = format!("{:016x}", fastrand::u64(..));
            document.stamp(&self.machine, &write, now);
            let bytes = document.bytes()?;
            if tag.is_none() {
                probe(self.objects()?)?;
            }
            let failure = match self.objects()?.put_if(STATE, &bytes, tag) {
                Ok(ConditionalPut::Written(tag)) if tag.e_tag.is_some() => {
                    return Ok((tag, document));
                }
                Ok(_) => None,
                Err(error) => Some(error),
            };
            // The answer may be lost, or a refused put may be the repetition of one that was done.
            writes.push(write.clone());
            let attempts = attempts - (before - local.shared.unsynced.len());
            let StateDocument { sequence, state, .. } = document;
            local.shared.unknown_puts.push(UnknownPut { write, sequence, attempts, state });
            found = match self.read() {
                Ok(found) => found,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            let Some(error) = failure else { continue };
            if let Found::Document(tag, theirs) = &found {
                if writes.iter().any(|it| theirs.was_written(&self.machine, it)) {
                    return Ok((tag.clone(), theirs.as_ref().clone()));
                }
                self.advance(local, tag, theirs);
            }
            return Err(error);
        }
        let what = format!("{STATE} was replaced {MAX_PUTS} times while it was to be changed");
        Err(StoreError::new(StoreErrorKind::Unavailable, what))
    }

    /// Adds what `theirs` has to `local`, unless the store returned an older document than before.
    fn advance(&self, local: &mut LocalState, tag: &ObjectTag, theirs: &StateDocument) {
        let known = local.shared.known.as_ref().map_or(0, |(_, document)| document.sequence);
        if theirs.sequence < known {
            return;
        }
        let state = self.merged(local, Some(theirs)).state;
        let done = self.done(local, theirs).map_or(0, |it| it.attempts);
        let SharedRecord { known, unsynced, unknown_puts, .. } = &mut local.shared;
        unsynced.drain(..done.min(unsynced.len()));
        // A put that was to make a document before this one will never be done.
        unknown_puts.retain(|it| it.sequence > theirs.sequence);
        *known = Some((tag.clone(), theirs.clone()));
        local.state = state;
    }

    /// `theirs` with the changes of this machine that it lacks.
    fn merged(&self, local: &LocalState, theirs: Option<&StateDocument>) -> StateDocument {
        let SharedRecord { known, unsynced, .. } = &local.shared;
        let known = known.as_ref().map(|(_, document)| document);
        let Some(theirs) = theirs else {
            // It was never there, or is lost: as this machine knows it.
            let document = StateDocument::new(local.state.clone());
            let (sequence, machines) =
                known.map(|it| (it.sequence, it.machines.clone())).unwrap_or_default();
            return StateDocument { sequence, machines, ..document };
        };
        let put = self.done(local, theirs);
        let empty = PersistedState::default();
        let base = put.map(|it| &it.state).or(known.map(|it| &it.state)).unwrap_or(&empty);
        let mut document = StateDocument { state: local.state.clone(), ..theirs.clone() };
        document.state.pending.clear();
        document.state.rebase(base, &theirs.state);
        for late in unsynced.iter().skip(put.map_or(0, |it| it.attempts)) {
            let field_changes = late.field_changes.clone();
            document.state.add_late(&BackupAttempt { field_changes, ..late.attempt.clone() });
        }
        document.state.pending.clear();
        document
    }

    /// The put without an answer that `theirs` shows to be done.
    fn done<'a>(&self, local: &'a LocalState, theirs: &StateDocument) -> Option<&'a UnknownPut> {
        local.shared.unknown_puts.iter().find(|it| theirs.was_written(&self.machine, &it.write))
    }

    fn read(&self) -> Result<Found, StoreError> {
        let Some((bytes, tag)) = self.objects()?.read(STATE, MAX_STATE)? else {
            return Ok(Found::Missing);
        };
        match StateDocument::read(&bytes, self.account().as_ref()) {
            Ok(document) => Ok(Found::Document(tag, Box::new(document))),
            Err(error) if error.kind == StoreErrorKind::Damaged => {
                let _ = replace(&self.broken_file(), &bytes, Durability::Unsynced);
                Ok(Found::Broken(tag, error))
            }
            Err(error) => Err(error),
        }
    }

    /// The warning about a broken object, which is in a file.
    fn keep_broken(&self, error: &StoreError) -> String {
        let copy = self.broken_file();
        format!(
            "{error}; its bytes are in {}; continuing with the state that this machine knows",
            copy.display()
        )
    }

    fn broken_file(&self) -> PathBuf {
        beside(&file(&self.copy), ".broken")
    }

    /// The account of the vault that this machine fetched or put, also at another address.
    fn account(&self) -> Option<HeadAccount> {
        let record = FetchFile::of(&self.copy).read().ok()?.ok()?;
        Some(record.base?.head.account)
    }

    /// The content of the file. A missing or broken one is empty; for a broken one there is a
    /// warning.
    fn load(&self) -> (LocalState, Option<String>) {
        let path = file(&self.copy);
        let read = read_private(&path, MAX_SIZE);
        match read.and_then(|bytes| Ok(serde_json::from_slice::<LocalState>(&bytes)?)) {
            Ok(local) if local.shared.store == self.store => (local, None),
            Ok(local) => {
                // What is known of another store says nothing about this one.
                let unsynced = local.shared.unsynced;
                let store = self.store.clone();
                let shared = SharedRecord { store, unsynced, ..SharedRecord::default() };
                (LocalState { shared, ..local }, None)
            }
            Err(error) => {
                let is_missing = error.kind() == std::io::ErrorKind::NotFound;
                let path = path.display();
                let warning = format!("cannot read {path}: {error}; starting with an empty state");
                let shared = SharedRecord { store: self.store.clone(), ..SharedRecord::default() };
                let local = LocalState { shared, ..LocalState::default() };
                (local, (!is_missing).then_some(warning))
            }
        }
    }

    fn store(&self, local: &LocalState) -> Result<(), StoreError> {
        let path = file(&self.copy);
        let fail = |error| StoreError::from(VaultError::io(&path, error));
        let size = serde_json::to_vec(local).map_err(|error| fail(error.into()))?.len();
        if size as u64 <= MAX_SIZE {
            return state_file::replace(&path, local).map_err(fail);
        }
        // Only the state itself has a bounded size.
        let mut smaller = local.clone();
        smaller.shared.unknown_puts.clear();
        smaller.shared.known = None;
        state_file::replace(&path, &smaller).map_err(fail)
    }
}
