//! The local copy of a vault that lives in an object store. In a program without the feature `fleet`
//! no account has such a vault.

#[cfg(feature = "fleet")]
pub(super) use with_stores::{
    IdentityCache, checkpoints, explain, fetch, fetch_held, pause, put, require_copy, verify,
};
#[cfg(not(feature = "fleet"))]
pub(super) use without_stores::{
    IdentityCache, checkpoints, fetch, fetch_held, pause, put, require_copy, verify,
};

use std::path::PathBuf;
use std::sync::Arc;

use super::Events;
use crate::api::redact::Redactor;
use crate::clock::Clock;
use crate::config::{AccountConfig, FleetSettings};

/// What a fetch or a put needs.
#[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "nothing is fetched or put"))]
pub(super) struct StoredVault<'a> {
    pub account: &'a AccountConfig,
    pub clock: &'a Arc<dyn Clock>,
    pub events: &'a Arc<dyn Events>,
    /// Removes the credentials of the store from its errors.
    pub redactor: &'a Redactor,
    pub fleet: FleetSettings,
    /// The local copies of vaults in stores, if they have a bound.
    pub copies: Vec<LocalFile>,
    pub identity: &'a IdentityCache,
    /// The environment variables with secrets of accounts.
    #[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "no identity is read"))]
    pub hidden: Vec<String>,
}

/// A local copy of a vault in a store.
#[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "there are no such copies"))]
pub(super) struct LocalFile {
    pub path: PathBuf,
    /// Whether this process works on it.
    pub in_use: bool,
}

/// The work after which a vault is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredWork {
    /// It changes only the vault.
    Vault,
    /// It may have changed the account at the service.
    Account,
    /// It replaces the vault by a copy, whatever the store has.
    Replacement,
}

impl StoredWork {
    /// The work of a command that writes to the account, unless it is a dry run.
    #[must_use]
    pub const fn account_unless(is_dry_run: bool) -> Self {
        if is_dry_run { Self::Vault } else { Self::Account }
    }
}

#[cfg(not(feature = "fleet"))]
mod without_stores {
    use super::{StoredVault, StoredWork};
    use crate::ops::OpError;
    use crate::vault::Vault;
    use crate::vault::checkpoints::Checkpoints;

    pub(in crate::ops) const fn checkpoints(
        _: &StoredVault<'_>,
    ) -> Result<Option<Box<dyn Checkpoints>>, OpError> {
        Ok(None)
    }

    /// Nothing: no object is encrypted.
    #[derive(Default)]
    pub(in crate::ops) struct IdentityCache;

    pub(in crate::ops) const fn require_copy(
        _: &StoredVault<'_>,
        _: &Vault,
    ) -> Result<(), OpError> {
        Ok(())
    }

    pub(in crate::ops) const fn pause(_: &StoredVault<'_>) -> Result<Option<()>, OpError> {
        Ok(None)
    }

    pub(in crate::ops) const fn fetch(_: &StoredVault<'_>) -> Result<(), OpError> {
        Ok(())
    }

    pub(in crate::ops) const fn fetch_held(_: &StoredVault<'_>) -> Result<(), OpError> {
        Ok(())
    }

    pub(in crate::ops) const fn verify(_: &StoredVault<'_>) -> Result<(), OpError> {
        Ok(())
    }

    pub(in crate::ops) const fn put(_: &StoredVault<'_>, _: StoredWork) -> Result<(), OpError> {
        Ok(())
    }
}

#[cfg(feature = "fleet")]
mod with_stores {
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, UNIX_EPOCH};

    use super::{StoredVault, StoredWork};
    use crate::api::redact::Redactor;
    use crate::config::{AccountConfig, KeySource, SecretKind, VaultAddress};
    use crate::fleet::encryption::Identity;
    use crate::fleet::error::{StoreError, StoreErrorKind};
    use crate::fleet::fetch_file::FetchFile;
    use crate::fleet::head::{FetchRecord, HEAD};
    use crate::fleet::local_copies::remove_least_recently_used;
    use crate::fleet::objects::Objects;
    use crate::fleet::shared_state::SharedState;
    use crate::fleet::state_document::STATE;
    use crate::fleet::store_checkpoints::{CheckpointEvents, StoreCheckpoints};
    use crate::fleet::vault_store::{FetchReport, PutOver, VaultStore};
    use crate::ops::error_sources::lock_timeout_error;
    use crate::ops::schedule_pause::{self, PausedSchedule};
    use crate::ops::{Events, NextStep, OpError, OpErrorKind};
    use crate::vault::Vault;
    use crate::vault::checkpoints::Checkpoints;
    use crate::vault::lock::{Lock, LockCommand, LockError, LockHolder, LockPurpose};

    /// The command in the lock of a process that fetches a vault.
    const FETCH: &str = "linkvault (fetching the vault)";

    /// The command in the lock of a process that removes a local copy.
    const REMOVE: &str = "linkvault (removing a local copy)";

    /// How long to wait for another process of this machine that works on the vault when it is to be
    /// put.
    const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

    /// Makes the local copy equal to the vault in the store. Another process of this machine that
    /// works on the account has done so.
    pub(in crate::ops) fn fetch(it: &StoredVault<'_>) -> Result<(), OpError> {
        if it.account.store.is_none() {
            return Ok(());
        }
        let copy = &it.account.vault;
        let command = LockCommand { purpose: LockPurpose::Fetch, ..LockCommand::from(FETCH) };
        let fetches = |it: &LockHolder| it.purpose == LockPurpose::Fetch;
        // It waits for another fetch.
        let _lock = match Lock::take(copy, &command, Duration::ZERO, &**it.clock) {
            Err(LockError::Held(holder)) if !holder.as_ref().is_some_and(fetches) => {
                return Ok(());
            }
            taken => taken.map_err(lock_timeout_error)?,
        };
        fetch_held(it)
    }

    /// Like [`fetch`], for a caller that holds the lock of the local copy, and has no open vault.
    pub(in crate::ops) fn fetch_held(it: &StoredVault<'_>) -> Result<(), OpError> {
        let Some(address) = &it.account.store else { return Ok(()) };
        let copy = &it.account.vault;
        let store = open(it, address, "fetch the vault")?;
        let fetched = store.fetch().and_then(|fetched| {
            if fetched == FetchReport::Empty && !copy.exists() {
                require_no_backup(address, copy)?;
            }
            Ok(fetched)
        });
        let fetched = fetched.map_err(|error| explain(it, "fetch the vault", error))?;
        if fetched != FetchReport::Current {
            respect_bound(it);
        }
        if let FetchReport::SetAside(aside) = fetched {
            it.events.warning(&format!(
                "changes of {} that were not put into its store are in {}: another machine put a \
                 newer vault",
                it.account.name,
                aside.display()
            ));
        }
        Ok(())
    }

    /// Reads the object in the store to its end, and verifies it.
    pub(in crate::ops) fn verify(it: &StoredVault<'_>) -> Result<(), OpError> {
        let Some(address) = &it.account.store else { return Ok(()) };
        let doing = "verify the vault";
        let verified = open(it, address, doing)?.verify();
        verified.map(drop).map_err(|error| explain(it, doing, error))
    }

    /// Refuses to begin a vault whose `HEAD` is lost. Its objects would be unknown to the new one.
    fn require_no_backup(address: &VaultAddress, copy: &Path) -> Result<(), StoreError> {
        if !SharedState::open(Some(address), copy, "").has_backup()? {
            return Ok(());
        }
        let what = format!("{HEAD} does not exist, but {STATE} records earlier backups");
        Err(StoreError::new(StoreErrorKind::NoHead, what))
    }

    /// Pauses the schedule of the account, if the configuration names a Temporal server, until the
    /// result is dropped.
    pub(in crate::ops) fn pause(it: &StoredVault<'_>) -> Result<Option<PausedSchedule>, OpError> {
        if !it.fleet.names_temporal {
            return Ok(None);
        }
        schedule_pause::pause(&it.account.name, &it.fleet, it.redactor, &**it.clock, it.events)
    }

    /// Refuses an empty vault in the place of a local copy that was removed after it was fetched. A
    /// backup into it would be put over the vault in the store.
    pub(in crate::ops) fn require_copy(it: &StoredVault<'_>, vault: &Vault) -> Result<(), OpError> {
        let is_empty = vault.identity()?.is_none();
        let record = FetchFile::of(&it.account.vault).read();
        let was_fetched = matches!(record, Ok(Ok(FetchRecord { base: Some(_), .. })));
        if !is_empty || !was_fetched {
            return Ok(());
        }
        let name = &it.account.name;
        let what =
            format!("the local copy of the vault of {name} was removed after it was fetched");
        Err(OpError::new(OpErrorKind::Failed, what).next(NextStep::RunAgain))
    }

    /// The vault in its store.
    fn open(
        it: &StoredVault<'_>,
        address: &VaultAddress,
        verb: &str,
    ) -> Result<VaultStore, OpError> {
        let identity = identity(it)?;
        let objects = Objects::open(address).map_err(|error| explain(it, verb, error))?;
        let store = VaultStore::new(objects, &it.account.vault).at(address.to_string());
        Ok(store.with_identity(identity))
    }

    /// The identity that was last read, and its source.
    #[derive(Default)]
    pub(in crate::ops) struct IdentityCache(Mutex<Option<(KeySource, Arc<Identity>)>>);

    /// The identity of the objects, read once by a process.
    fn identity(it: &StoredVault<'_>) -> Result<Option<Arc<Identity>>, OpError> {
        let Some(source) = &it.fleet.identity else { return Ok(None) };
        // Other threads wait: a command may ask a person.
        let mut read = it.identity.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, identity)) = read.as_ref().filter(|(of, _)| of == source) {
            return Ok(Some(Arc::clone(identity)));
        }
        if let Some(warning) = source.warning() {
            it.events.warning(&warning);
        }
        let keys = source.read_identities(&**it.clock, &it.hidden).map_err(|error| {
            let failure = OpError::from(error);
            let message = it.redactor.text(&failure.message).into_owned();
            OpError { message, ..failure }
        })?;
        keys.iter().for_each(|key| it.redactor.add(key.reveal()));
        let identity = Identity::parse(keys.iter().map(|key| key.reveal())).map_err(|error| {
            let what = format!("cannot use the {}: {error}", SecretKind::Identity.name());
            OpError::new(OpErrorKind::Config, what)
        })?;
        let identity = Arc::new(identity);
        *read = Some((source.clone(), Arc::clone(&identity)));
        Ok(Some(identity))
    }

    /// The checkpoints of the local copy, while this process has it open and locked. `None` for a
    /// vault that lives in no store.
    pub(in crate::ops) fn checkpoints(
        it: &StoredVault<'_>,
    ) -> Result<Option<Box<dyn Checkpoints>>, OpError> {
        let Some(address) = &it.account.store else { return Ok(None) };
        let store = open(it, address, "put the vault")?;
        let reports = CheckpointReports {
            account: it.account.clone(),
            events: Arc::clone(it.events),
            redactor: it.redactor.clone(),
        };
        let clock = Arc::clone(it.clock);
        Ok(Some(Box::new(StoreCheckpoints::new(
            store,
            clock,
            it.fleet.checkpoint,
            Box::new(reports),
        ))))
    }

    /// Reports failed checkpoints of an account.
    struct CheckpointReports {
        account: AccountConfig,
        events: Arc<dyn Events>,
        redactor: Redactor,
    }

    impl CheckpointEvents for CheckpointReports {
        fn text(&self, error: &StoreError) -> String {
            let name = &self.account.name;
            let text = match error.kind {
                StoreErrorKind::Lost => format!(
                    "another machine works on {name}: it put a newer vault into the store meanwhile"
                ),
                _ => format!("cannot put the vault of {name} into its store: {error}"),
            };
            self.redactor.text(&text).into_owned()
        }

        fn postponed(&self, text: &str) {
            self.events.warning(&format!("{text}; trying again later"));
        }
    }

    /// Puts the local copy into the store, if it was changed.
    pub(in crate::ops) fn put(it: &StoredVault<'_>, work: StoredWork) -> Result<(), OpError> {
        let Some(address) = &it.account.store else { return Ok(()) };
        let copy = &it.account.vault;
        let over = match work {
            StoredWork::Replacement => PutOver::Any,
            StoredWork::Vault | StoredWork::Account => PutOver::Fetched,
        };
        let store = open(it, address, "put the vault")?;
        let command = format!("linkvault (putting the vault of {})", it.account.name);
        let _lock = Lock::take(copy, command.as_str(), LOCK_TIMEOUT, &**it.clock)
            .map_err(lock_timeout_error)?;
        let put = store.put(over);
        respect_bound(it);
        put.map(drop).map_err(|error| {
            let lost = error.kind == StoreErrorKind::Lost;
            let failure = explain(it, "put the vault", error);
            match work {
                // What was sent to the service is not undone.
                StoredWork::Account if lost => OpError { kind: OpErrorKind::Failed, ..failure },
                _ => failure,
            }
        })
    }

    /// Removes the local copies of other vaults that were not used for longest, if all copies are
    /// larger than their bound.
    fn respect_bound(it: &StoredVault<'_>) {
        let Some(bound) = it.fleet.cache else { return };
        let now = it.clock.now().0;
        let now = UNIX_EPOCH + Duration::from_millis(now.try_into().unwrap_or_default());
        let lock = |copy: &Path| {
            // A process that works on the vault is not waited for.
            if Lock::holder(copy).is_some() {
                return None;
            }
            // A fetch waits for it.
            let command = LockCommand { purpose: LockPurpose::Fetch, ..LockCommand::from(REMOVE) };
            Lock::take(copy, &command, Duration::ZERO, &**it.clock).ok()
        };
        let failed = |copy: &Path, error: &StoreError| {
            it.events.warning(&format!("cannot remove the copy {}: {error}", copy.display()));
        };
        let copies = it.copies.iter().map(|it| (it.path.as_path(), it.in_use));
        remove_least_recently_used(copies, bound, now, lock, failed);
    }

    /// The error of an operation. `doing` is what failed, such as `fetch the vault`.
    pub(in crate::ops) fn explain(it: &StoredVault<'_>, doing: &str, error: StoreError) -> OpError {
        if let Some(local) = error.vault {
            return local.into();
        }
        let name = &it.account.name;
        let (kind, next) = match error.kind {
            StoreErrorKind::Lost => (OpErrorKind::Stale, NextStep::RunAgain),
            StoreErrorKind::Unavailable | StoreErrorKind::Refused | StoreErrorKind::NoBucket => {
                (OpErrorKind::Failed, NextStep::CheckStore)
            }
            StoreErrorKind::Clock => (OpErrorKind::Failed, NextStep::SetClock),
            StoreErrorKind::Local => (OpErrorKind::Vault, NextStep::CheckDisk),
            StoreErrorKind::LocalRecord => (OpErrorKind::Vault, NextStep::MoveCopyAway),
            StoreErrorKind::NoSpace => (OpErrorKind::Vault, NextStep::FreeSpace),
            StoreErrorKind::NoConditions => (OpErrorKind::Failed, NextStep::UseOtherStore),
            StoreErrorKind::Damaged => {
                (OpErrorKind::Vault, NextStep::RestoreStoredVault(name.clone()))
            }
            StoreErrorKind::Encrypted => (OpErrorKind::Vault, NextStep::NameIdentity),
            StoreErrorKind::Newer => (OpErrorKind::Vault, NextStep::UseNewerProgram),
            StoreErrorKind::NoHead => (OpErrorKind::Vault, NextStep::FindNewestObject),
            StoreErrorKind::OtherAccount => (OpErrorKind::Vault, NextStep::CheckStoreAddress),
            StoreErrorKind::Older => (OpErrorKind::Vault, NextStep::CheckStoreState(name.clone())),
            StoreErrorKind::LocalCopy => (OpErrorKind::Vault, NextStep::MoveFileAway),
        };
        let address = it.account.store.as_ref().map(ToString::to_string).unwrap_or_default();
        let message = format!("cannot {doing} of {name} at {address}: {error}");
        OpError::new(kind, it.redactor.text(&message)).next(next)
    }
}
