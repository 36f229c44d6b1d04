//! The objects of one vault, in a folder or in the bucket of a service.

use std::fs::File;

use super::bucket::Bucket;
use super::error::StoreError;
use super::folder::Folder;
use super::object_tag::{ConditionalPut, ObjectTag};
use crate::config::{StoreScheme, VaultAddress};

/// The objects of one vault.
#[derive(Debug)]
pub enum Objects {
    /// Files in a folder.
    Folder(Folder),
    /// Objects of a service.
    Bucket(Bucket),
}

impl Objects {
    /// The objects at `address`. Sends no request.
    ///
    /// # Errors
    /// If the settings of the store, which are environment variables, are invalid.
    pub fn open(address: &VaultAddress) -> Result<Self, StoreError> {
        Ok(match address.scheme {
            StoreScheme::File => Self::Folder(Folder::new(&address.path)),
            _ => Self::Bucket(Bucket::open(address)?),
        })
    }

    /// The content and version of a small object; `None` if it does not exist.
    ///
    /// # Errors
    /// If the store cannot be read, or the object is larger than `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<(Vec<u8>, ObjectTag)>, StoreError> {
        match self {
            Self::Folder(folder) => folder.read(name, most),
            Self::Bucket(bucket) => bucket.read(name, most),
        }
    }

    /// Appends the content of an object to `to`, at most `most` bytes; `false` if the object does
    /// not exist.
    ///
    /// # Errors
    /// If the store cannot be read, the object is larger, or `to` cannot be written.
    pub fn download(&self, name: &str, to: &mut File, most: u64) -> Result<bool, StoreError> {
        match self {
            Self::Folder(folder) => folder.download(name, to, most),
            Self::Bucket(bucket) => bucket.download(name, to, most),
        }
    }

    /// Writes an object with the content of `from`, from its present position on. An object of this
    /// name is replaced.
    ///
    /// # Errors
    /// If the store cannot be written, or `from` cannot be read.
    pub fn upload(&self, name: &str, from: &mut File) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder.upload(name, from),
            Self::Bucket(bucket) => bucket.upload(name, from),
        }
    }

    /// Replaces an object if it has the version `expected`, or if it does not exist and that is
    /// `None`.
    ///
    /// # Errors
    /// If the store cannot be written, or its answer is lost.
    pub fn put_if(
        &self,
        name: &str,
        bytes: &[u8],
        expected: Option<&ObjectTag>,
    ) -> Result<ConditionalPut, StoreError> {
        match self {
            Self::Folder(folder) => folder.put_if(name, bytes, expected),
            Self::Bucket(bucket) => bucket.put_if(name, bytes, expected),
        }
    }

    /// Removes an object, if it exists.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder.remove(name),
            Self::Bucket(bucket) => bucket.remove(name),
        }
    }

    /// The names of all objects.
    ///
    /// # Errors
    /// If the store cannot be read, or does not allow to list.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Folder(folder) => folder.names(),
            Self::Bucket(bucket) => bucket.names(),
        }
    }
}
