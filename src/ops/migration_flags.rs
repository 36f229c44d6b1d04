//! The flags of a migration: as given by the user, and as the journal of its run stores them for a
//! later verification and for the report.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Env, OpError, input};
use crate::change::plan::MigrationNote;
use crate::change::record_filter::FieldFilter;
use crate::migrate::Substitution;
use crate::model::{Resource, RunId};
use crate::vault::Vault;

/// The flags that decide which records of the source are migrated, and how.
#[derive(Debug, Clone, Default)]
pub struct MigrationFlags {
    /// A CSV file with the ids of short links in both accounts.
    pub links: Option<PathBuf>,
    /// A `qr_codes.csv` with the content of the QR codes.
    pub qr_data: Option<PathBuf>,
    /// A QR code of unknown content gets the link of the old code as content.
    pub link_codes: bool,
    /// Records that the target has under the same name are not updated.
    pub keep_existing: bool,
    /// Values, or beginnings of values, to replace in the source's records.
    pub set: Vec<Substitution>,
    /// Filters; a record must match all that name its resource.
    pub wheres: Vec<FieldFilter>,
    /// Only these resources; all if empty.
    pub only: Vec<Resource>,
    /// Not these resources.
    pub skip: Vec<Resource>,
}

/// [`MigrationFlags`] in the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedFlags {
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<RecordedFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qr_data: Option<RecordedFile>,
    link_codes: bool,
    keep_existing: bool,
    set: Vec<String>,
    wheres: Vec<String>,
    only: Vec<Resource>,
    skip: Vec<Resource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedFile {
    path: PathBuf,
    blake3: String,
}

/// What the journal stores about a migration in addition to its steps.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordedMigration {
    /// The source, and the values that were found equal in both accounts.
    #[serde(flatten)]
    pub note: MigrationNote,
    /// The flags; `None` in the journal of earlier versions, and for a saved plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<RecordedFlags>,
}

impl RecordedMigration {
    /// Reads the text of the journal about a run; `None` if the run is not a migration.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Noted {
            moved: Option<RecordedMigration>,
        }
        serde_json::from_str::<Noted>(text).unwrap_or_default().moved
    }
}

impl RecordedFile {
    fn of(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let blake3 = blake3::hash(&input::bytes(&path).ok()?).to_hex().to_string();
        Some(Self { path, blake3 })
    }

    /// The path, if the file can be read. Warns if it cannot, or has changed.
    fn path(&self, env: &Env, run: RunId) -> Option<PathBuf> {
        let path = self.path.display();
        match Self::of(&self.path) {
            None => {
                env.warn(format_args!("cannot read {path} again, which run {run} read"));
                return None;
            }
            Some(now) if now.blake3 != self.blake3 => {
                env.warn(format_args!("{path} has changed since run {run}"));
            }
            Some(_) => {}
        }
        Some(self.path.clone())
    }
}

impl RecordedFlags {
    /// `flags` for the journal. Reads their files.
    #[must_use]
    pub fn of(flags: &MigrationFlags) -> Self {
        let file = |path: &Option<PathBuf>| path.as_deref().and_then(RecordedFile::of);
        Self {
            links: file(&flags.links),
            qr_data: file(&flags.qr_data),
            link_codes: flags.link_codes,
            keep_existing: flags.keep_existing,
            set: flags.set.iter().map(ToString::to_string).collect(),
            wheres: flags.wheres.iter().map(ToString::to_string).collect(),
            only: flags.only.clone(),
            skip: flags.skip.clone(),
        }
    }

    /// The recorded flags, with those of `given` in their place where the user gave some.
    #[must_use]
    pub fn with(&self, given: &MigrationFlags, env: &Env, run: RunId) -> MigrationFlags {
        let file = |given: &Option<PathBuf>, recorded: &Option<RecordedFile>| {
            given.clone().or_else(|| recorded.as_ref()?.path(env, run))
        };
        fn all<T: std::str::FromStr + Clone>(given: &[T], recorded: &[String]) -> Vec<T> {
            let recorded = || recorded.iter().filter_map(|it| it.parse().ok()).collect();
            if given.is_empty() { recorded() } else { given.to_vec() }
        }
        let scope = if given.only.is_empty() && given.skip.is_empty() {
            (self.only.clone(), self.skip.clone())
        } else {
            (given.only.clone(), given.skip.clone())
        };
        MigrationFlags {
            links: file(&given.links, &self.links),
            qr_data: file(&given.qr_data, &self.qr_data),
            link_codes: given.link_codes || self.link_codes,
            keep_existing: given.keep_existing || self.keep_existing,
            set: all(&given.set, &self.set),
            wheres: all(&given.wheres, &self.wheres),
            only: scope.0,
            skip: scope.1,
        }
    }
}

impl MigrationFlags {
    /// Whether none is given.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.links.is_none()
            && self.qr_data.is_none()
            && !(self.link_codes || self.keep_existing)
            && self.set.is_empty()
            && self.wheres.is_empty()
            && self.only.is_empty()
            && self.skip.is_empty()
    }

    /// These flags, completed by those of the newest migration from `origin` in `vault` that has
    /// recorded some, and the number of its run.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn completed(
        &self,
        env: &Env,
        vault: &Vault,
        origin: &str,
    ) -> Result<Option<(Self, RunId)>, OpError> {
        let runs = vault.runs()?;
        let recorded = runs.iter().rev().find_map(|run| {
            let moved = RecordedMigration::read(&run.plan)?;
            let moved = Some(moved).filter(|it| it.note.origin == origin)?;
            Some((moved.flags?, run.number))
        });
        Ok(recorded.map(|(flags, run)| (flags.with(self, env, run), run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_back_and_unknown_ones_are_ignored() {
        let flags = MigrationFlags {
            set: vec!["campaigns.name:a b=c=d".parse().unwrap()],
            wheres: vec!["qr_codes.id~^[12]$".parse().unwrap()],
            only: vec![Resource::Campaigns],
            keep_existing: true,
            ..MigrationFlags::default()
        };
        let recorded = RecordedFlags::of(&flags);
        let text = serde_json::to_string(&recorded).unwrap().replacen('{', "{\"new\":1,", 1);
        assert_eq!(serde_json::from_str::<RecordedFlags>(&text).unwrap(), recorded);
        assert_eq!(recorded.set, ["campaigns.name:a b=c=d"]);
        let note = r#"{"moved":{"origin":"http://old#1","agreed":[]}}"#;
        let moved = RecordedMigration::read(note).unwrap();
        assert_eq!((moved.note.origin.as_str(), moved.flags), ("http://old#1", None));
    }
}
