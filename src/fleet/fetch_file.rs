//! The file beside the local copy of a vault that says from which object it was made.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::{StoreError, StoreErrorKind};
use super::head::FetchRecord;
use crate::files::{Durability, beside, private_folder_of, read_private, replace};
use crate::vault::VaultError;

/// The file and the store whose objects it names.
#[derive(Debug)]
pub struct FetchFile {
    path: PathBuf,
    /// The address of the vault; `None` in tests.
    store: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[serde(flatten)]
    record: FetchRecord,
}

/// The largest file.
const MAX_FILE: u64 = 64 * 1024;

impl FetchFile {
    /// The file of the local copy at `copy`.
    #[must_use]
    pub fn of(copy: &Path) -> Self {
        Self { path: beside(copy, ".fetched"), store: None }
    }

    /// The file, for objects of the vault at the address `store`.
    #[must_use]
    pub fn at(self, store: String) -> Self {
        Self { store: Some(store), ..self }
    }

    /// What this machine knows, or the address of another store that it is about.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn read(&self) -> Result<Result<FetchRecord, String>, StoreError> {
        let bytes = match read_private(&self.path, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Ok(FetchRecord::default()));
            }
            Err(error) => return Err(VaultError::io(&self.path, error).into()),
        };
        let document: Document = serde_json::from_slice(&bytes).map_err(|error| {
            let what = format!("{} is damaged: {error}", self.path.display());
            StoreError::new(StoreErrorKind::LocalRecord, what)
        })?;
        let Document { store, record } = document;
        // Earlier programs wrote no address.
        let other = store.filter(|store| self.store.as_ref().is_some_and(|ours| ours != store));
        Ok(other.map_or(Ok(record), Err))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, record: &FetchRecord) -> Result<(), StoreError> {
        let fail = |error| VaultError::io(&self.path, error);
        private_folder_of(&self.path).map_err(fail)?;
        let document = Document { store: self.store.clone(), record: record.clone() };
        let text = serde_json::to_vec(&document).map_err(|error| fail(error.into()))?;
        Ok(replace(&self.path, &text, Durability::Synced).map_err(fail)?)
    }
}

/// A name for changes of the local copy that were lost, which no file has yet: `NAME.db.lost`,
/// `NAME.db.lost.2`, ….
pub fn unused_name(copy: &Path) -> PathBuf {
    let names = std::iter::once(".lost".to_owned()).chain((2..).map(|it| format!(".lost.{it}")));
    let mut paths = names.map(|name| beside(copy, &name));
    paths.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| beside(copy, ".lost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_an_earlier_program_is_about_any_store_and_one_of_another_store_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("main.db");
        let at = |store: &str| FetchFile::of(&copy).at(store.to_owned());
        let record = FetchRecord { begun: true, ..FetchRecord::default() };
        assert_eq!(at("s3://a/main").read().unwrap(), Ok(FetchRecord::default()));
        FetchFile::of(&copy).write(&record).unwrap();
        assert_eq!(at("s3://a/main").read().unwrap(), Ok(record.clone()));
        at("s3://a/main").write(&record).unwrap();
        assert_eq!(at("s3://a/main").read().unwrap(), Ok(record));
        assert_eq!(at("s3://b/main").read().unwrap(), Err("s3://a/main".to_owned()));
        std::fs::write(folder.path().join("main.db.fetched"), "{\"begun\":").unwrap();
        let error = at("s3://a/main").read().unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::LocalRecord);
    }
}
