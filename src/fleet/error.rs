//! Why a vault cannot be fetched from its store or put into it.

use std::fmt;

use crate::vault::VaultError;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The store cannot be reached, or does not answer as such a store does.
    Unavailable,
    /// The store refuses the credentials, or these may not read or write.
    Refused,
    /// The clock of this machine is wrong.
    Clock,
    /// The bucket or folder does not exist.
    NoBucket,
    /// The store ignores the conditions of a put.
    NoConditions,
    /// An object is missing, cut, or does not have its digest.
    Damaged,
    /// An object was written by a newer program.
    Newer,
    /// An object is encrypted, and this machine has no identity or another one.
    Encrypted,
    /// An object is of another account.
    OtherAccount,
    /// The store returned an older state than before, or has none any more.
    Older,
    /// `HEAD` is lost: there were backups before.
    NoHead,
    /// The local copy was not made from the store's objects.
    LocalCopy,
    /// Another machine put a newer vault.
    Lost,
    /// A local file cannot be read or written.
    Local,
    /// The file that says from which object the local copy was made is damaged.
    LocalRecord,
    /// The disk has not enough space for the vault.
    NoSpace,
}

/// Why a vault cannot be fetched from its store or put into it.
#[derive(Debug)]
pub struct StoreError {
    /// The kind of failure.
    pub kind: StoreErrorKind,
    /// The cause, without the address of the store.
    pub what: String,
    /// The error of the local copy, if it is one.
    pub vault: Option<VaultError>,
}

impl StoreError {
    /// The error of an object that is larger than it may be.
    pub fn too_large(name: &str, most: u64) -> Self {
        Self::new(StoreErrorKind::Damaged, format!("{name} has more than {most} bytes"))
    }

    /// An error of the store.
    pub fn new(kind: StoreErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), vault: None }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StoreError {}

impl From<VaultError> for StoreError {
    fn from(error: VaultError) -> Self {
        Self { kind: StoreErrorKind::Local, what: error.to_string(), vault: Some(error) }
    }
}
