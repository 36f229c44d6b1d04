//! Loads the state that a reference names: a snapshot in a vault, or the live account.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, FixedOffset};

use super::Env;
use super::account_session::{AccountSession, SessionLimits, lock_command};
use super::error_sources::vault_error;
use super::{NextStep, OpError, OpErrorKind};
use crate::apply::deleted_since;
use crate::change::desired::RecordIds;
use crate::change::record_filter::{FilteredRecord, RecordFilter};
use crate::clock::Timestamp;
use crate::config::AccountConfig;
use crate::crawl::{self, ObservationScope};
use crate::model::SentValues;
use crate::model::{Record, RecordKey, Resource, SnapshotId, State};
use crate::vault::reference::{QualifiedReference, Reference, ReferenceError, is_number};
use crate::vault::snapshot::{ReadState, Snapshot};
use crate::vault::{AccountIdentity, Vault, VaultError};

/// A state that a command line names.
pub struct StateRef {
    /// The account of the state.
    pub account: AccountConfig,
    /// A snapshot, or the live account.
    pub reference: Reference,
}

/// A state, with the vault that has it: the account's own, or for the live account a temporary one
/// in memory.
pub struct LoadedState {
    vault: Vault,
    number: SnapshotId,
    /// The resources that were read.
    pub resources: Vec<Resource>,
    /// Such as `main@#12` or `main@live`.
    pub name: String,
    /// The snapshot; `None` for the live account.
    pub snapshot: Option<Snapshot>,
    /// Messages about resources of the live account that could not be read.
    pub unread: Vec<String>,
    /// For the live account, the sent values from its own vault.
    sent_now: Option<SentValues>,
    /// The records that [`LoadedState::each`] passes on.
    pub filter: RecordFilter,
}

impl LoadedState {
    /// Messages about resources that the snapshot could not read and shows as last known before it.
    pub fn stale(&self) -> Vec<String> {
        let mut by_state: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        let snapshot = self.snapshot.iter();
        for unread in snapshot.flat_map(|snapshot| crawl::unread(snapshot, &self.resources)) {
            let state = (unread.state.name(), unread.state);
            by_state.entry(state).or_default().push(unread.resource.name());
        }
        let line = |((name, state), resources): ((&str, ReadState), Vec<&str>)| {
            let resources = resources.join(", ");
            let what = match state {
                ReadState::Skipped | ReadState::Excluded => "did not read",
                _ => "could not read all of",
            };
            format!("{} {what} {resources} ({name}); shown as last known before it", self.name)
        };
        by_state.into_iter().map(line).collect()
    }

    /// All records in memory, to compare them.
    pub fn state(&mut self) -> Result<State, OpError> {
        let state = self.vault.state(self.number, &self.resources)?;
        let sent = self.sent_now.clone().or_else(|| state.sent.clone());
        Ok(state.with_sent(sent))
    }

    /// The records that were deleted since the snapshot, according to the vault.
    pub fn deleted_since(&self) -> Result<RecordIds, OpError> {
        let number = self.snapshot.as_ref().map(|snapshot| snapshot.number);
        let deleted = |number| deleted_since(&self.vault, number);
        Ok(number.map(deleted).transpose()?.unwrap_or_default())
    }

    /// The sent values of this state, as a state without records.
    pub fn sent(&self) -> Result<State, OpError> {
        let sent = match &self.sent_now {
            Some(sent) => sent.clone(),
            None => self.vault.sent_values(Some(self.number), &self.resources)?,
        };
        Ok(State::default().with_sent(Some(sent)))
    }

    /// Calls `take` with each record of `resource` that the filter admits, in the order of keys.
    pub fn each(
        &mut self,
        resource: Resource,
        mut take: impl FnMut(Record<'static>),
    ) -> Result<(), OpError> {
        if self.filter.is_empty() {
            return Ok(self.vault.for_each_record(self.number, resource, take)?);
        }
        // An item goes with its channel.
        let mut parents = match resource {
            Resource::ChannelItems => self.vault.state(self.number, &[Resource::Channels])?,
            _ => State::default(),
        };
        parents.sent = self.sent()?.sent;
        let filter = &self.filter;
        Ok(self.vault.for_each_record(self.number, resource, |record| {
            if filter.admits_in(&parents, resource, &record) {
                take(record);
            }
        })?)
    }

    /// The filters that admit no record of the state, as texts.
    pub fn unmatched_filters(&mut self) -> Result<Vec<String>, OpError> {
        let mut unmatched: Vec<_> = self.filter.unmatched([]);
        for resource in self.resources.clone() {
            if unmatched.is_empty() {
                break;
            }
            let state = self.vault.state(self.number, &[resource])?;
            let here = self.filter.unmatched(FilteredRecord::of_state(&state));
            unmatched.retain(|filter| here.contains(filter));
        }
        Ok(unmatched)
    }

    /// The record with this key.
    pub fn record(
        &mut self,
        resource: Resource,
        key: &RecordKey,
    ) -> Result<Option<Record<'static>>, OpError> {
        Ok(self.vault.record(self.number, resource, key)?)
    }

    /// The account to which the state belongs; `None` for an empty vault.
    pub fn identity(&self) -> Result<Option<AccountIdentity>, OpError> {
        Ok(self.vault.identity()?)
    }

    /// The number of records of each resource that the filter admits.
    pub fn admitted_counts(&mut self) -> Result<Vec<(Resource, u64)>, OpError> {
        let mut counts = Vec::new();
        for resource in self.resources.clone() {
            let mut count = 0;
            self.each(resource, |_| count += 1)?;
            counts.push((resource, count));
        }
        Ok(counts)
    }

    /// The number of records of each resource.
    pub fn counts(&self) -> Result<Vec<(Resource, u64)>, OpError> {
        let snapshot = self.vault.snapshot(self.number)?;
        let count = |resource| snapshot.outcome(resource).map_or(0, |outcome| outcome.records);
        Ok(self.resources.iter().map(|resource| (*resource, count(*resource))).collect())
    }
}

/// The account to which the vault of `account` belongs; `None` without a vault or for an empty one.
pub fn identity_of(account: &AccountConfig) -> Result<Option<AccountIdentity>, OpError> {
    let vault = open_if_there(account)?;
    Ok(vault.map(|vault| vault.identity()).transpose()?.flatten())
}

impl StateRef {
    /// Parses `text` and finds its account. `missing` and `account` are used if `text` has no
    /// reference or no account.
    ///
    /// # Errors
    /// If the account does not exist, or the reference is malformed.
    pub fn parse(
        env: &Env,
        text: &str,
        missing: Reference,
        account: Option<&AccountConfig>,
    ) -> Result<Self, OpError> {
        // A reference without an account, such as `latest~1` or a tag, belongs to `account`.
        let named = match account {
            Some(account) if !text.contains('@') && env.account(text).is_err() => {
                QualifiedReference {
                    account: Some(account.name.clone()),
                    reference: Some(Reference::parse(text)?),
                }
            }
            _ => QualifiedReference::parse(text)?,
        };
        let bare = named.reference.is_none();
        let reference = named.reference.unwrap_or(missing);
        let account = match (named.account, account) {
            (Some(name), _) => {
                let config = env.config()?;
                match (config.account(&name), config.accounts()) {
                    (Err(error), [only]) if bare => {
                        env.fetch(only)?;
                        return Self::of_only_account(only, text)?.ok_or_else(|| error.into());
                    }
                    (found, _) => found?,
                }
            }
            (None, Some(account)) => account.clone(),
            (None, None) => only_account(env, text)?,
        };
        env.fetch(&account)?;
        Ok(Self { account, reference })
    }

    /// The snapshot with the tag or number `text` in the only account; `None` if there is none and
    /// `text` can only be the name of an account.
    fn of_only_account(account: &AccountConfig, text: &str) -> Result<Option<Self>, OpError> {
        let target = Self { account: account.clone(), reference: Reference::parse(text)? };
        match target.find() {
            Ok(_) => Ok(Some(target)),
            Err(failure) if is_number(text) => Err(failure),
            Err(_) => Ok(None),
        }
    }

    /// Loads the resources in `which`.
    ///
    /// # Errors
    /// If the snapshot or the vault does not exist, or the service cannot be read.
    pub fn load(
        &self,
        env: &Env,
        bounds: &SessionLimits,
        which: &[Resource],
    ) -> Result<LoadedState, OpError> {
        match self.find()? {
            None => self.live(env, bounds, which),
            Some((vault, snapshot)) => Ok(snapshot_state(&self.account, vault, snapshot, which)),
        }
    }

    /// The snapshot and its vault; `None` for the live account.
    ///
    /// # Errors
    /// If the snapshot or the vault does not exist.
    pub fn find(&self) -> Result<Option<(Vault, Snapshot)>, OpError> {
        if self.reference == Reference::Live {
            return Ok(None);
        }
        let vault = open(&self.account)?;
        let snapshots = vault.snapshots()?;
        let found = match self.account.settings.timezone {
            Some(zone) => self.reference.find(&snapshots, &zone),
            None => self.reference.find(&snapshots, &chrono::Local),
        };
        let found = found.map_err(|error| self.explain(error))?;
        Ok(found.cloned().map(|snapshot| (vault, snapshot)))
    }

    fn explain(&self, error: ReferenceError) -> OpError {
        let name = &self.account.name;
        match error {
            ReferenceError::Empty => {
                OpError::new(OpErrorKind::NotFound, format_args!("{name} has no snapshot yet"))
                    .next(NextStep::BackUp(Some(name.clone())))
            }
            ReferenceError::OnlyOne => {
                OpError::new(OpErrorKind::NotFound, format_args!("{name}: {error}"))
                    .next(NextStep::BackUpAgain(name.clone()))
            }
            error => OpError::new(OpErrorKind::NotFound, format_args!("{name}: {error}"))
                .next(NextStep::ListSnapshots(name.clone())),
        }
    }

    /// Reads the live account into a temporary vault in memory.
    fn live(
        &self,
        env: &Env,
        bounds: &SessionLimits,
        which: &[Resource],
    ) -> Result<LoadedState, OpError> {
        let progress = env.progress(&self.account.name);
        let words = lock_command("(reading live)", &self.account.name);
        let mut session =
            AccountSession::open(env, &self.account, &words, bounds, Arc::clone(&progress))?;
        // The live account must be the account of the vault.
        let (mut vault, sent_now) = match open_if_there(&self.account)? {
            Some(own) => (own.empty_of_same_account()?, own.sent_values(None, which)?),
            None => (Vault::in_memory()?, SentValues::new()),
        };
        let link = session.link(&*env.clock, &*progress);
        let snapshot = crawl::observe(link, ObservationScope::Fresh(which), &mut vault)?.snapshot;
        let live = live_state(&self.account, vault, &snapshot, which);
        Ok(LoadedState { sent_now: Some(sent_now), ..live })
    }
}

/// The state of the live account that was read as `snapshot` of `vault`: without the resources that
/// could not be read.
fn live_state(
    account: &AccountConfig,
    vault: Vault,
    snapshot: &Snapshot,
    which: &[Resource],
) -> LoadedState {
    let unread = crawl::unread(snapshot, &crawl::with_parents(which));
    let is_read = |it: &Resource| unread.iter().all(|unread| unread.resource != *it);
    let resources = which.iter().copied().filter(is_read).collect();
    let unread =
        unread.iter().map(|it| format!("{}: {}: {}", it.resource, it.state.name(), it.why));
    LoadedState {
        vault,
        number: snapshot.number,
        resources,
        name: format!("{}@live", account.name),
        unread: unread.collect(),
        snapshot: None,
        sent_now: None,
        filter: RecordFilter::default(),
    }
}

/// The state of the live account as the snapshot `number` of its vault has it, which was just taken.
///
/// # Errors
/// If the vault cannot be read.
pub fn recorded_live_state(
    account: &AccountConfig,
    number: SnapshotId,
    which: &[Resource],
) -> Result<LoadedState, OpError> {
    let vault = open(account)?;
    let snapshot = vault.snapshot(number)?;
    let live = live_state(account, vault, &snapshot, which);
    Ok(LoadedState { snapshot: Some(snapshot), ..live })
}

/// A snapshot of `account`'s vault.
fn snapshot_state(
    account: &AccountConfig,
    vault: Vault,
    snapshot: Snapshot,
    which: &[Resource],
) -> LoadedState {
    LoadedState {
        vault,
        number: snapshot.number,
        resources: which.to_vec(),
        name: format!("{}@#{}", account.name, snapshot.number),
        snapshot: Some(snapshot),
        unread: Vec::new(),
        sent_now: None,
        filter: RecordFilter::default(),
    }
}

/// The newest snapshot of `account`, with all resources.
///
/// # Errors
/// If there is no snapshot or no vault.
pub fn newest_state(account: &AccountConfig) -> Result<LoadedState, OpError> {
    let target = StateRef { account: account.clone(), reference: Reference::Latest(0) };
    let (vault, snapshot) = target.find()?.ok_or_else(|| target.explain(ReferenceError::Empty))?;
    Ok(snapshot_state(account, vault, snapshot, &Resource::ALL))
}

/// Opens an account's vault for reading.
///
/// # Errors
/// If there is no vault yet.
pub fn open(account: &AccountConfig) -> Result<Vault, OpError> {
    Vault::open_read_only(&account.vault).map_err(|error| match error {
        VaultError::Missing(_) => {
            let name = &account.name;
            OpError::new(OpErrorKind::NotFound, format_args!("{name} has no vault yet"))
                .next(NextStep::BackUp(Some(name.clone())))
        }
        error => vault_error(error, &account.name),
    })
}

/// Opens an account's vault for reading, if there is one.
///
/// # Errors
/// If it cannot be read.
pub fn open_if_there(account: &AccountConfig) -> Result<Option<Vault>, OpError> {
    Vault::open_if_there(&account.vault).map_err(|error| vault_error(error, &account.name))
}

/// The only configured account, for the reference `text`, which names no account.
pub fn only_account(env: &Env, text: &str) -> Result<AccountConfig, OpError> {
    let config = env.config()?;
    match config.accounts() {
        [only] => {
            env.fetch(only)?;
            Ok(only.clone())
        }
        _ => {
            Err(OpError::new(OpErrorKind::Usage, format_args!("`{text}` does not name an account"))
                .next(NextStep::QualifyReference(text.to_owned())))
        }
    }
}

/// A time in the time zone of `account`; `None` if it is out of range.
#[must_use]
pub fn local_time(account: &AccountConfig, time: Timestamp) -> Option<DateTime<FixedOffset>> {
    let utc = time.utc()?;
    Some(match account.settings.timezone {
        Some(zone) => utc.with_timezone(&zone).fixed_offset(),
        None => utc.with_timezone(&chrono::Local).fixed_offset(),
    })
}
