//! A vault in a store, and the local copy on which this machine works. The caller holds the lock of
//! the copy.

use std::fs::File;
use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::tempfile_in;

use super::decision::{
    FetchDecision, LocalCopy, PutOutcome, fetch_decision, put_outcome, recovered,
};
use super::encryption::Identity;
use super::error::{StoreError, StoreErrorKind};
use super::fetch_file::{FetchFile, unused_name};
use super::free_space::require_space;
use super::head::{FetchRecord, FetchedObject, HEAD, Head, HeadAccount};
use super::object_tag::{ConditionalPut, ObjectTag};
use super::objects::Objects;
use super::packing::{self, UnpackError};
use super::probe::probe;
use crate::files::{folder_of, private_file, target};
use crate::vault::restore::{RestoreCandidate, work_folder};
use crate::vault::{Vault, VaultError};

/// A vault in a store, and its local copy.
#[derive(Debug)]
pub struct VaultStore {
    objects: Objects,
    copy: PathBuf,
    file: FetchFile,
    /// Encrypts and decrypts objects.
    identity: Option<Arc<Identity>>,
}

/// What a fetch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchReport {
    /// The store has no vault yet.
    Empty,
    /// The local copy was current.
    Current,
    /// The local copy was replaced by the current object.
    Downloaded,
    /// So it was, and it had changes that were not put; they are in this file.
    SetAside(PathBuf),
}

/// What a put did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutReport {
    /// The local copy has no changes.
    Unchanged,
    /// `HEAD` names a new object.
    Put(Head),
}

/// What a put replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOver {
    /// The object from which the local copy was made.
    Fetched,
    /// Any object, because the local copy was restored from a file.
    Any,
}

/// The largest `HEAD`, and the largest record of a fetch.
const MAX_DOCUMENT: u64 = 64 * 1024;

/// The number of puts of `HEAD` while its version changes and its content does not.
const MAX_PUTS: usize = 3;

impl VaultStore {
    /// The vault whose objects are `objects`, with its local copy at `copy`.
    #[must_use]
    pub fn new(objects: Objects, copy: &Path) -> Self {
        let file = FetchFile::of(copy);
        Self { objects, copy: copy.to_owned(), file, identity: None }
    }

    /// Remembers `address` as that of the store, and refuses a local copy that was made from the
    /// vault at another one.
    #[must_use]
    pub fn at(self, address: String) -> Self {
        Self { file: self.file.at(address), ..self }
    }

    /// Encrypts objects with `identity`, and decrypts those that are encrypted.
    #[must_use]
    pub fn with_identity(self, identity: Option<Arc<Identity>>) -> Self {
        Self { identity, ..self }
    }

    /// Makes the local copy equal to the vault in the store. Changes of the copy that were not put
    /// are kept if no other machine has put a newer vault since.
    ///
    /// # Errors
    /// If the store cannot be read, or what it has does not follow what this machine knows; the
    /// local copy is then unchanged.
    pub fn fetch(&self) -> Result<FetchReport, StoreError> {
        self.with_head(|head| self.fetch_head(head))
    }

    /// Reads the object that `HEAD` names, and verifies its size and digest. Returns whether there
    /// is one. The local copy is not used.
    ///
    /// # Errors
    /// If the store cannot be read, or the object is missing or damaged.
    pub fn verify(&self) -> Result<bool, StoreError> {
        self.with_head(|head| {
            let Some((head, _)) = head else { return Ok(false) };
            let here = |error| StoreError::from(VaultError::io(&self.copy, error));
            let folder = target(&self.copy).and_then(|it| work_folder(&it)).map_err(here)?;
            self.receive(&head, &folder.path().join("vault.db"))?;
            Ok(true)
        })
    }

    /// Does `work` with `HEAD`, and again with a new one if the object of the first is gone.
    fn with_head<T>(
        &self,
        work: impl Fn(Option<(Head, ObjectTag)>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let before = self.head()?;
        match work(before.clone()) {
            // The object is removed two puts later, which may have been a moment ago.
            Err(error) if error.kind == StoreErrorKind::Damaged => match self.head()? {
                now if now == before => Err(error),
                now => work(now),
            },
            done => done,
        }
    }

    fn fetch_head(&self, remote: Option<(Head, ObjectTag)>) -> Result<FetchReport, StoreError> {
        let (known, local) = (self.record()?, self.local()?);
        let (head, tag) = remote.unzip();
        let record = recovered(known.clone(), &local, head.as_ref());
        let decision = fetch_decision(&local, &record, head.as_ref());
        let refuse = |kind, what| Err(StoreError::new(kind, what));
        let Some(head) = head else {
            if decision == FetchDecision::UseLocal {
                let begun = record.begun || local == LocalCopy::Missing;
                self.remember(&known, &FetchRecord { begun, ..record })?;
                return Ok(FetchReport::Empty);
            }
            let what = format!("{HEAD} does not exist, but this machine fetched or put it before");
            return refuse(StoreErrorKind::Older, what);
        };
        match decision {
            FetchDecision::UseLocal => {
                // `HEAD` may be new although it names the same object.
                let base = record.base.clone().map(|base| FetchedObject { head, tag, ..base });
                self.remember(&known, &FetchRecord { base, ..record })?;
                Ok(FetchReport::Current)
            }
            FetchDecision::Download => {
                self.download(head, tag, record)?;
                Ok(FetchReport::Downloaded)
            }
            FetchDecision::SetAsideAndDownload => {
                let aside = unused_name(&self.copy);
                Vault::open_read_only(&self.copy)?.copy_to(&aside)?;
                self.download(head, tag, record)?;
                Ok(FetchReport::SetAside(aside))
            }
            FetchDecision::RefuseOlder | FetchDecision::RefuseGone => {
                let before = record.base.map_or(0, |base| base.head.sequence);
                let other = if head.sequence == before { "another " } else { "" };
                let what = format!(
                    "{HEAD} names object {}, but this machine fetched or put {other}object {before} \
                     before",
                    head.sequence
                );
                refuse(StoreErrorKind::Older, what)
            }
            FetchDecision::RefuseLocalCopy => {
                let copy = self.copy.display();
                let what = format!("{copy} exists, and was not made from the vault in the store");
                refuse(StoreErrorKind::LocalCopy, what)
            }
        }
    }

    /// Puts the local copy into the store if it was changed since it was fetched or put.
    ///
    /// # Errors
    /// [`StoreErrorKind::Lost`] if another machine put a newer vault: the local copy is then that
    /// vault, and its changes are in the file beside it whose name ends with `.lost`. After other
    /// errors the changes remain in the local copy, and the next put puts them.
    pub fn put(&self, over: PutOver) -> Result<PutReport, StoreError> {
        let aside = match self.attempt(over)? {
            Ok(report) => return Ok(report),
            Err(LostPut) => match self.fetch()? {
                FetchReport::SetAside(aside) => {
                    format!("; the changes of this machine are in {}", aside.display())
                }
                _ => String::new(),
            },
        };
        let what = format!("another machine put a newer vault meanwhile{aside}");
        Err(StoreError::new(StoreErrorKind::Lost, what))
    }

    /// Like [`Self::put`] while this process has the local copy open: after
    /// [`StoreErrorKind::Lost`] the copy is as before, and the next put sets it aside.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_open(&self) -> Result<PutReport, StoreError> {
        let report = self.attempt(PutOver::Fetched)?.map_err(|LostPut| lost())?;
        if report == PutReport::Unchanged {
            self.confirm()?;
        }
        Ok(report)
    }

    /// Checks that the store has what this machine fetched or put last.
    ///
    /// # Errors
    /// [`StoreErrorKind::Lost`] if another machine has put a newer vault.
    pub fn confirm(&self) -> Result<(), StoreError> {
        let Some(base) = self.record()?.base else { return Ok(()) };
        match self.head()? {
            Some((now, _)) if now.is_same_object(&base.head) => Ok(()),
            Some((now, _)) if now.sequence > base.head.sequence => Err(lost()),
            _ => {
                Err(StoreError::new(StoreErrorKind::Older, format!("{HEAD} is older than before")))
            }
        }
    }

    /// Tries to put the local copy. The inner error: another machine put a newer vault.
    fn attempt(&self, over: PutOver) -> Result<Result<PutReport, LostPut>, StoreError> {
        let mut tries = 1;
        loop {
            let mut known = match over {
                PutOver::Fetched => self.record()?,
                // A restored copy replaces whatever was there.
                PutOver::Any => self.record().unwrap_or_default(),
            };
            if known.pending.is_some() && over == PutOver::Fetched {
                // An earlier put may have been done since it failed, as its answer was lost.
                known = self.recover(known)?;
            }
            match self.attempt_over(known, over)? {
                // An earlier put of this machine arrived late.
                Err(winner) if winner.is_own && tries < MAX_PUTS => tries += 1,
                Err(_) => return Ok(Err(LostPut)),
                Ok(report) => return Ok(Ok(report)),
            }
        }
    }

    /// The present record, after a put whose outcome is not known.
    fn recover(&self, known: FetchRecord) -> Result<FetchRecord, StoreError> {
        let (head, tag) = self.head()?.unzip();
        let mut record = recovered(known.clone(), &self.local()?, head.as_ref());
        if let (Some(base), Some(head)) = (&mut record.base, head)
            && head.is_same_object(&base.head)
        {
            (base.head, base.tag) = (head, tag);
        }
        self.remember(&known, &record)?;
        Ok(record)
    }

    fn attempt_over(
        &self,
        mut known: FetchRecord,
        over: PutOver,
    ) -> Result<Result<PutReport, Winner>, StoreError> {
        let local = self.local()?;
        // Other machines refuse a number that is not higher than those that they have seen.
        let objects = [&known.base, &known.pending, &known.arriving].into_iter().flatten();
        let mut seen = objects.map(|it| it.head.sequence).max().unwrap_or(0);
        let mut damaged = None;
        if over == PutOver::Any {
            let base = match self.readable_head()? {
                Some((Ok(head), tag)) => {
                    Some(FetchedObject { head, tag: Some(tag), mark: String::new() })
                }
                Some((Err(_), tag)) => {
                    damaged = Some(tag);
                    None
                }
                None => None,
            };
            if base.is_none() {
                // Other machines may have seen more. A store that refuses to list has no answer.
                let names = self.objects.names().unwrap_or_default();
                let listed = names.iter().filter_map(|name| Head::sequence_in(name)).max();
                seen = seen.max(listed.unwrap_or(0));
            }
            known = FetchRecord { base, ..FetchRecord::default() };
        }
        if let Some(base) = &known.base
            && over == PutOver::Fetched
        {
            // It would be followed by a plain one.
            self.require_identity(&base.head)?;
        }
        if local == LocalCopy::Missing || known.base.as_ref().is_some_and(|it| local.is_as(it)) {
            return Ok(Ok(PutReport::Unchanged));
        }
        let packed = self.pack(known.base.as_ref().map(|base| &base.head), seen)?;
        let Some(Packed { head, mark, mut file }) = packed else {
            return Ok(Ok(PutReport::Unchanged));
        };
        if known.base.is_none() {
            probe(&self.objects)?;
        }
        let object = head.object();
        self.objects.upload(&object, &mut file)?;
        let ours = FetchedObject { head: head.clone(), tag: None, mark };
        self.write_record(&FetchRecord { pending: Some(ours.clone()), ..known.clone() })?;
        let winner = match self.replace_head(&head, known.base.as_ref(), damaged)? {
            Ok(tag) => {
                let base = Some(FetchedObject { tag, ..ours });
                self.write_record(&FetchRecord { base, ..FetchRecord::default() })?;
                let old = known.base.and_then(|base| base.head.previous);
                // The condition of an earlier put that was not done cannot hold any more.
                let unnamed = known.pending.map(|pending| pending.head.object());
                for name in old.into_iter().chain(unnamed) {
                    if name != object && Some(&name) != head.previous.as_ref() {
                        // An object that remains only takes space.
                        let _ = self.objects.remove(&name);
                    }
                }
                return Ok(Ok(PutReport::Put(head)));
            }
            Err(winner) => winner,
        };
        self.write_record(&known)?;
        let is_winner = |it: &Head| winner.as_ref().is_some_and(|winner| winner.is_same_object(it));
        let is_own = known.pending.is_some_and(|pending| is_winner(&pending.head));
        if winner.is_some_and(|winner| winner.sequence == head.sequence) {
            // Both were to replace the same object, so ours is not and will not be named.
            let _ = self.objects.remove(&object);
        }
        Ok(Err(Winner { is_own }))
    }

    /// Replaces the `HEAD` of `base`, or a damaged one. The inner error is the `HEAD` of another
    /// machine.
    fn replace_head(
        &self,
        ours: &Head,
        base: Option<&FetchedObject>,
        damaged: Option<ObjectTag>,
    ) -> Result<Result<Option<ObjectTag>, Option<Head>>, StoreError> {
        let mut expected = damaged.or_else(|| base.and_then(|base| base.tag.clone()));
        let mut failure = None;
        for _ in 0..MAX_PUTS {
            let put = self.objects.put_if(HEAD, &ours.bytes(), expected.as_ref());
            match put {
                Ok(ConditionalPut::Written(tag)) if tag.e_tag.is_some() => {
                    return Ok(Ok(Some(tag)));
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
            // The answer may be lost, or a refused put may be the repetition of one that was done.
            let now = match self.head() {
                Ok(now) => now,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            let before = base.map(|base| &base.head);
            let (head, tag) = now.unzip();
            match (put_outcome(ours, before, head.as_ref()), failure.take()) {
                (PutOutcome::Done, _) => {
                    // The version is that of ours only if no other machine has replaced it since.
                    let is_ours = head.is_some_and(|head| head.is_same_object(ours));
                    return Ok(Ok(tag.filter(|_| is_ours)));
                }
                (PutOutcome::Lost, _) => return Ok(Err(head)),
                (PutOutcome::Unknown, error) => {
                    let what = format!("{HEAD} is older than before it was replaced");
                    return Err(error.unwrap_or(StoreError::new(StoreErrorKind::Older, what)));
                }
                (PutOutcome::NotDone, Some(error)) => return Err(error),
                (PutOutcome::NotDone, None) => expected = tag,
            }
        }
        Err(StoreError::new(
            StoreErrorKind::NoConditions,
            format!("the store refuses to replace {HEAD} although it has the expected version"),
        ))
    }

    /// `HEAD` and its version; `None` if it does not exist.
    fn head(&self) -> Result<Option<(Head, ObjectTag)>, StoreError> {
        let Some((head, tag)) = self.readable_head()? else { return Ok(None) };
        let head = head?;
        self.require_identity(&head)?;
        Ok(Some((head, tag)))
    }

    /// `HEAD` and its version; the inner error is that of a damaged document.
    #[expect(clippy::type_complexity, reason = "one caller wants the version of a damaged HEAD")]
    fn readable_head(&self) -> Result<Option<(Result<Head, StoreError>, ObjectTag)>, StoreError> {
        let Some((bytes, tag)) = self.objects.read(HEAD, MAX_DOCUMENT)? else { return Ok(None) };
        match Head::read(&bytes) {
            Err(error) if error.kind != StoreErrorKind::Damaged => Err(error),
            head => Ok(Some((head, tag))),
        }
    }

    /// Refuses an encrypted object on a machine without an identity, which could not read it and
    /// would put a plain one after it.
    fn require_identity(&self, head: &Head) -> Result<(), StoreError> {
        if !head.encrypted || self.identity.is_some() {
            return Ok(());
        }
        let what = format!("{} is encrypted, and this machine has no identity", head.object());
        Err(StoreError::new(StoreErrorKind::Encrypted, what))
    }

    fn local(&self) -> Result<LocalCopy, StoreError> {
        Ok(match Vault::open_if_there(&self.copy)? {
            Some(vault) if vault.identity()?.is_some() => LocalCopy::Marked(vault.content_mark()?),
            // Without an account it holds nothing, such as a file that a full disk emptied.
            _ => LocalCopy::Missing,
        })
    }

    /// A consistent, compressed copy of the vault, to follow `before` with a number above `seen`;
    /// `None` for a vault that belongs to no account yet.
    fn pack(&self, before: Option<&Head>, seen: u64) -> Result<Option<Packed>, StoreError> {
        let here = |error| StoreError::from(VaultError::io(&self.copy, error));
        let folder = target(&self.copy).and_then(|it| work_folder(&it)).map_err(here)?;
        let file = folder.path().join("vault.db");
        let vault = Vault::open_read_only(&self.copy)?;
        // The copy has a mark of its own. A change after this line is put the next time.
        let mark = vault.content_mark()?;
        let Some(identity) = vault.identity()? else { return Ok(None) };
        vault.copy_to(&file)?;
        drop(vault);
        let account = HeadAccount { service: identity.service, id: identity.account };
        if let Some(before) = before
            && before.account.id != account.id
        {
            return Err(other_account(before, &account));
        }
        let mut plain = File::open(&file).map_err(here)?;
        let packed = tempfile_in(folder_of(&self.copy)).map_err(here)?;
        let identity = self.identity.as_deref();
        let (mut packed, digest, plain_size) =
            packing::pack(&mut plain, packed, identity).map_err(here)?;
        let size = packed.stream_position().map_err(here)?;
        packed.rewind().map_err(here)?;
        let sequence = before.map_or(0, |before| before.sequence).max(seen).saturating_add(1);
        let previous = before.map(Head::object);
        let encrypted = identity.is_some();
        let format = Head::format_of(encrypted);
        let plain_size = Some(plain_size);
        let head =
            Head { format, sequence, digest, size, plain_size, encrypted, account, previous };
        Ok(Some(Packed { head, mark, file: packed }))
    }

    /// Replaces the local copy by the object that `head` names, once it is verified.
    fn download(
        &self,
        head: Head,
        tag: Option<ObjectTag>,
        record: FetchRecord,
    ) -> Result<(), StoreError> {
        let candidate = RestoreCandidate::receive(&self.copy, |file| self.receive(&head, file))
            .map_err(|error| about_object(error, &head))?;
        let found = candidate.identity.as_ref();
        if found.is_none_or(|found| found.account != head.account.id) {
            let account = found.map_or_else(
                || "no account".to_owned(),
                |it| format!("account {} of {}", it.account, it.service),
            );
            let what = format!(
                "{} belongs to {account}, not to account {} of {}, as {HEAD} says",
                head.object(),
                head.account.id,
                head.account.service
            );
            return Err(StoreError::new(StoreErrorKind::OtherAccount, what));
        }
        let arriving = FetchedObject { head, tag, mark: candidate.mark.clone() };
        self.write_record(&FetchRecord { arriving: Some(arriving.clone()), ..record })?;
        candidate.replace(&mut |_| Ok(()))?;
        self.write_record(&FetchRecord { base: Some(arriving), ..FetchRecord::default() })
    }

    /// Writes the vault in the object that `head` names to the new file `to`.
    fn receive(&self, head: &Head, to: &Path) -> Result<(), StoreError> {
        let object = head.object();
        let damaged =
            |what: String| StoreError::new(StoreErrorKind::Damaged, format!("{object} {what}"));
        let here = |error| StoreError::from(VaultError::io(&self.copy, error));
        let mut packed = tempfile_in(folder_of(to)).map_err(here)?;
        require_space(head, folder_of(to))?;
        if !self.objects.download(&object, &mut packed, head.size)? {
            return Err(damaged(format!("does not exist, although {HEAD} names it")));
        }
        let size = packed.stream_position().map_err(here)?;
        if size != head.size {
            return Err(damaged(format!("has {size} bytes, not {}", head.size)));
        }
        packed.rewind().map_err(here)?;
        let mut new = private_file(to).map_err(here)?;
        let identity = self.identity.as_deref().filter(|_| head.encrypted);
        let most = head.most_plain();
        let digest = match packing::unpack(packed, &mut new, identity, most) {
            Ok(digest) => digest,
            Err(UnpackError::Object(error)) => {
                return Err(damaged(format!("is damaged: {error}")));
            }
            Err(UnpackError::TooLarge) => {
                return Err(damaged(format!("is damaged: its content has more than {most} bytes")));
            }
            Err(UnpackError::OtherIdentity) => {
                let what = format!("{object} is encrypted to another identity, or damaged");
                return Err(StoreError::new(StoreErrorKind::Encrypted, what));
            }
            Err(UnpackError::File(error)) => return Err(here(error)),
        };
        if digest != head.digest {
            return Err(damaged(format!("is damaged: its content has the digest {digest}")));
        }
        Ok(())
    }

    fn record(&self) -> Result<FetchRecord, StoreError> {
        match self.file.read()? {
            Ok(record) => Ok(record),
            Err(_) if self.local()? == LocalCopy::Missing => Ok(FetchRecord::default()),
            Err(store) => {
                let what = format!("{} was made from the vault at {store}", self.copy.display());
                Err(StoreError::new(StoreErrorKind::LocalCopy, what))
            }
        }
    }

    fn remember(&self, known: &FetchRecord, record: &FetchRecord) -> Result<(), StoreError> {
        if known == record { Ok(()) } else { self.write_record(record) }
    }

    fn write_record(&self, record: &FetchRecord) -> Result<(), StoreError> {
        self.file.write(record)
    }
}

/// Another machine put a newer vault.
struct LostPut;

/// The put that replaced `HEAD` instead of the one that was tried.
struct Winner {
    /// Whether it is an earlier put of this machine.
    is_own: bool,
}

/// An object to be put.
struct Packed {
    head: Head,
    /// The mark of the content.
    mark: String,
    file: File,
}

fn lost() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "another machine put a newer vault meanwhile")
}

fn other_account(before: &Head, ours: &HeadAccount) -> StoreError {
    let what = format!(
        "the vault there belongs to account {} of {}, not to account {} of {}",
        before.account.id, before.account.service, ours.id, ours.service
    );
    StoreError::new(StoreErrorKind::OtherAccount, what)
}

/// An error about a temporary file, as one about the object in it.
fn about_object(error: StoreError, head: &Head) -> StoreError {
    let object = head.object();
    match error.vault {
        Some(VaultError::Newer { found, known, .. }) => StoreError::new(
            StoreErrorKind::Newer,
            format!("{object} has vault format {found}; this program knows formats up to {known}"),
        ),
        Some(VaultError::NotAVault(_)) => {
            StoreError::new(StoreErrorKind::Damaged, format!("{object} is not a vault"))
        }
        Some(VaultError::Damaged { what, .. }) => {
            StoreError::new(StoreErrorKind::Damaged, format!("{object} is damaged: {what}"))
        }
        _ => error,
    }
}
