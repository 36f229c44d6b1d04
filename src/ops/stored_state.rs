//! The recorded state of an account: in the file beside its vault or, if the vault lives in an
//! object store, in the store too. In a program without the feature `fleet` no account has such a
//! vault.

#[cfg(feature = "fleet")]
pub(super) use with_stores::{EndedSessions, SharedSession, begin_session, refresh};
#[cfg(not(feature = "fleet"))]
pub(super) use without_stores::{EndedSessions, SharedSession, begin_session, refresh};

use super::{Env, NextStep, OpError, OpErrorKind};
use crate::config::AccountConfig;
use crate::health::attempt::BackupAttempt;
use crate::health::pending_alerts::PendingAlerts;
use crate::health::persisted_state::{self, PersistedState};

/// The state after a change.
pub(super) struct Recorded {
    pub persisted: PersistedState,
    /// Why the store was not reached, so that the change is on this machine only.
    pub unshared: Option<String>,
}

/// Adds `attempt`, and makes `change`. If another machine changes the state meanwhile, `change` is
/// made again.
pub(super) fn update(
    #[cfg_attr(not(feature = "fleet"), expect(unused_variables, reason = "for stores"))] env: &Env,
    account: &AccountConfig,
    attempt: Option<&BackupAttempt>,
    change: &mut dyn FnMut(&mut PersistedState),
) -> Result<Recorded, OpError> {
    #[cfg(feature = "fleet")]
    if let Some(stored) = env.stored_vault(account)? {
        return with_stores::update(env, &stored, attempt, change);
    }
    let changed = PersistedState::update(&account.vault, |persisted| {
        attempt.into_iter().for_each(|attempt| persisted.add(attempt));
        change(persisted);
    });
    let persisted = changed.map_err(|error| {
        let file = persisted_state::file(&account.vault);
        let message = format!("cannot write {}: {error}", file.display());
        OpError::new(OpErrorKind::Vault, message).next(NextStep::CheckDisk)
    })?;
    Ok(Recorded { persisted, unshared: None })
}

/// Calls `send` with what is to be delivered, and removes what it delivered. Of several machines,
/// one delivers at a time.
pub(super) fn deliver(
    env: &Env,
    account: &AccountConfig,
    send: &mut dyn FnMut(&mut PendingAlerts),
) -> Result<Recorded, OpError> {
    #[cfg(feature = "fleet")]
    if let Some(stored) = env.stored_vault(account)? {
        return with_stores::deliver(env, &stored, send);
    }
    let (persisted, _) = PersistedState::read(&account.vault);
    let Some(taken) = persisted.pending_alerts() else {
        return Ok(Recorded { persisted, unshared: None });
    };
    let mut left = taken.clone();
    send(&mut left);
    if left == taken {
        return Ok(Recorded { persisted, unshared: None });
    }
    update(env, account, None, &mut |persisted| persisted.restore_pending(&taken, &left))
}

#[cfg(not(feature = "fleet"))]
mod without_stores {
    use crate::api::pacer::PacerState;
    use crate::config::AccountConfig;
    use crate::ops::pace_file::PaceFile;
    use crate::ops::{Env, OpError};

    /// Nothing: no state is shared.
    #[derive(Default)]
    pub(in crate::ops) struct EndedSessions;

    /// A session of an account whose state is shared: there is none.
    pub(in crate::ops) enum SharedSession {}

    impl SharedSession {
        pub const fn take_over(&self, _: &mut PaceFile) -> Option<PacerState> {
            match *self {}
        }

        pub const fn end(self, _: u64, _: PacerState) {
            match self {}
        }

        pub const fn end_with_record(&mut self) {
            match *self {}
        }
    }

    pub(in crate::ops) const fn refresh(_: &Env, _: &AccountConfig) -> Result<(), OpError> {
        Ok(())
    }

    pub(in crate::ops) const fn begin_session(
        _: &Env,
        _: &AccountConfig,
        _: Option<u64>,
    ) -> Result<Option<SharedSession>, OpError> {
        Ok(None)
    }
}

#[cfg(feature = "fleet")]
mod with_stores {
    use std::collections::BTreeMap;
    use std::io;
    use std::path::Path;
    use std::sync::{Arc, Mutex, OnceLock, PoisonError};

    use super::Recorded;
    use crate::api::pacer::PacerState;
    use crate::clock::{Clock, Timestamp};
    use crate::config::AccountConfig;
    use crate::files::{Durability, private_folder_of, read_private, temporary_beside};
    use crate::fleet::error::StoreErrorKind;
    use crate::fleet::shared_state::{KnownState, SharedState};
    use crate::fleet::state_document::{MachineUse, is_machine_id};
    use crate::fleet::takeover;
    use crate::health::attempt::BackupAttempt;
    use crate::health::pending_alerts::PendingAlerts;
    use crate::health::persisted_state::PersistedState;
    use crate::ops::pace_file::PaceFile;
    use crate::ops::stored_vault::{StoredVault, explain};
    use crate::ops::{Env, NextStep, OpError, OpErrorKind};

    /// A session that ended, and is not in the store yet.
    struct EndedSession {
        requests: u64,
        pace: PacerState,
        at: Timestamp,
    }

    /// Ended sessions by the name of the account. The next change of its state has them.
    type Ended = Arc<Mutex<BTreeMap<String, EndedSession>>>;

    /// What a process knows about its sessions, and the id of its machine.
    #[derive(Default)]
    pub(in crate::ops) struct EndedSessions {
        machine: OnceLock<String>,
        ended: Ended,
    }

    impl EndedSessions {
        fn take(&self, account: &str) -> Option<EndedSession> {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).remove(account)
        }
    }

    /// A session of an account whose state is shared with other machines.
    pub(in crate::ops) struct SharedSession {
        account: String,
        state: SharedState,
        machine: String,
        /// What each machine did before the session.
        before: BTreeMap<String, MachineUse>,
        clock: Arc<dyn Clock>,
        ended: Ended,
        /// Whether the result of the session is recorded afterwards, with its end.
        with_record: bool,
    }

    impl SharedSession {
        /// The state of the rate limit from which the session continues. Other processes of this
        /// machine continue from it, too.
        pub fn take_over(&self, pace: &mut PaceFile) -> Option<PacerState> {
            let now = self.clock.now();
            let taken = |own| takeover::taken_over(own, &self.machine, &self.before, now);
            let own = pace.load();
            let state = taken(own.clone());
            if state != own {
                pace.exchange(&mut |found| taken(found).unwrap_or_default());
            }
            state
        }

        /// From now on the end of the session is recorded together with its result.
        pub const fn end_with_record(&mut self) {
            self.with_record = true;
        }

        /// Records the end of the session.
        pub fn end(self, requests: u64, pace: PacerState) {
            let now = self.clock.now();
            if self.with_record {
                let ended = EndedSession { requests, pace, at: now };
                let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(self.account, ended);
                return;
            }
            // Without a record, other machines wait for a window.
            let _ = self.state.update(None, false, now, &mut |document| {
                takeover::end_session(document, &self.machine, requests, &pace, now);
            });
        }
    }

    /// Records that a session begins. `limit` is the rate limit that this machine knows.
    pub(in crate::ops) fn begin_session(
        env: &Env,
        account: &AccountConfig,
        limit: Option<u64>,
    ) -> Result<Option<SharedSession>, OpError> {
        let Some(stored) = env.stored_vault(account)? else { return Ok(None) };
        let (state, machine) = open(env, &stored)?;
        let (mut before, now) = (BTreeMap::new(), env.clock.now());
        let known = state.update(None, true, now, &mut |document| {
            before.clone_from(&document.machines);
            takeover::begin_session(document, &machine, limit, now);
        });
        // A session that cannot be recorded may begin: its vault cannot be put either.
        if let Ok(KnownState { unshared, warning, .. }) = known {
            warn(env, warning);
            let refused = unshared.filter(|error| {
                matches!(error.kind, StoreErrorKind::Newer | StoreErrorKind::OtherAccount)
            });
            if let Some(error) = refused {
                return Err(explain(&stored, "read the state", error));
            }
        }
        let (clock, ended) = (Arc::clone(&env.clock), Arc::clone(&env.sessions.ended));
        let account = account.name.clone();
        let with_record = false;
        Ok(Some(SharedSession { account, state, machine, before, clock, ended, with_record }))
    }

    /// Reads the state of `account` from its store into the file beside the vault.
    pub(in crate::ops) fn refresh(env: &Env, account: &AccountConfig) -> Result<(), OpError> {
        let Some(stored) = env.stored_vault(account)? else { return Ok(()) };
        let (state, _) = open(env, &stored)?;
        let warning = state.refresh().map_err(|error| explain(&stored, "read the state", error))?;
        warn(env, warning);
        Ok(())
    }

    pub(super) fn update(
        env: &Env,
        stored: &StoredVault<'_>,
        attempt: Option<&BackupAttempt>,
        change: &mut dyn FnMut(&mut PersistedState),
    ) -> Result<Recorded, OpError> {
        let (state, machine) = open(env, stored)?;
        let name = &stored.account.name;
        let ended = env.sessions.take(name);
        let known = state.update(attempt, false, env.clock.now(), &mut |document| {
            change(&mut document.state);
            if let Some(EndedSession { requests, pace, at }) = &ended {
                takeover::end_session(document, &machine, *requests, pace, *at);
            }
        });
        let known = known.map_err(|error| explain(stored, "record the state", error))?;
        if let Some(ended) = ended.filter(|_| known.unshared.is_some()) {
            let mut all = env.sessions.ended.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(name.clone()).or_insert(ended);
        }
        Ok(recorded(env, stored, known))
    }

    pub(super) fn deliver(
        env: &Env,
        stored: &StoredVault<'_>,
        send: &mut dyn FnMut(&mut PendingAlerts),
    ) -> Result<Recorded, OpError> {
        let (state, _) = open(env, stored)?;
        let known = state.deliver(&*env.clock, send);
        let known = known.map_err(|error| explain(stored, "record the state", error))?;
        Ok(recorded(env, stored, known))
    }

    fn warn(env: &Env, warning: Option<String>) {
        warning.into_iter().for_each(|warning| env.warn(env.redactor.text(&warning)));
    }

    fn recorded(env: &Env, stored: &StoredVault<'_>, known: KnownState) -> Recorded {
        warn(env, known.warning);
        let unshared = known.unshared.map(|error| explain(stored, "record the state", error));
        Recorded { persisted: known.document.state, unshared: unshared.map(|it| it.message) }
    }

    fn open(env: &Env, stored: &StoredVault<'_>) -> Result<(SharedState, String), OpError> {
        let machine = machine(env)?;
        let account = stored.account;
        Ok((SharedState::open(account.store.as_ref(), &account.vault, &machine), machine))
    }

    /// The id of this machine's home folder.
    fn machine(env: &Env) -> Result<String, OpError> {
        if let Some(machine) = env.sessions.machine.get() {
            return Ok(machine.clone());
        }
        let file = env.home()?.machine_file();
        let machine = read_or_create(&file).map_err(|error| {
            let message = format!("cannot write {}: {error}", file.display());
            OpError::new(OpErrorKind::Vault, message).next(NextStep::CheckDisk)
        })?;
        Ok(env.sessions.machine.get_or_init(|| machine).clone())
    }

    fn read_or_create(file: &Path) -> io::Result<String> {
        let read = || {
            let bytes = read_private(file, 128)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        match read() {
            Ok(machine) if is_machine_id(&machine) => return Ok(machine),
            Ok(_) => std::fs::remove_file(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        private_folder_of(file)?;
        let text = format!("{:032x}\n", fastrand::u128(..));
        let new = temporary_beside(file, text.as_bytes(), Durability::Synced)?;
        match new.persist_noclobber(file) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
            // Another process may have created it.
            _ => read(),
        }
    }
}
