//! Where the program keeps its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folders of the configuration and of the vaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    config: PathBuf,
    data: PathBuf,
}

/// There is no place for the program's files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this user has no home folder, so there is no place for the configuration and the vaults")]
pub struct HomeError;

impl Home {
    /// `LINKVAULT_HOME` where it is set and not empty, else the platform's own folders.
    ///
    /// # Errors
    /// [`HomeError`] when the platform knows no folders for this user.
    pub fn find() -> Result<Self, HomeError> {
        Self::from_variable(std::env::var_os("LINKVAULT_HOME"))
    }

    fn from_variable(variable: Option<OsString>) -> Result<Self, HomeError> {
        if let Some(folder) = variable.filter(|folder| !folder.is_empty()) {
            let folder = PathBuf::from(folder);
            return Ok(Self::at(&std::path::absolute(&folder).unwrap_or(folder)));
        }
        let folders = directories::ProjectDirs::from("", "", "linkvault").ok_or(HomeError)?;
        Ok(Self {
            config: folders.config_dir().to_owned(),
            data: folders.data_local_dir().to_owned(),
        })
    }

    /// Everything in one folder.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { config: folder.to_owned(), data: folder.to_owned() }
    }

    /// The folder of the configuration; relative paths in it start here.
    #[must_use]
    pub fn config_folder(&self) -> &Path {
        &self.config
    }

    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    #[must_use]
    pub fn vaults_folder(&self) -> PathBuf {
        self.data.join("vaults")
    }

    /// Where the vault of the account `name` is, unless the account says otherwise.
    #[must_use]
    pub fn vault_file(&self, name: &str) -> PathBuf {
        self.vaults_folder().join(format!("{name}.db"))
    }

    /// What the daemon of this home locks, so that there is only one.
    #[must_use]
    pub fn daemon_file(&self) -> PathBuf {
        self.data.join("daemon")
    }

    /// What a run locks that writes to the account `id` at `service`, so that no other
    /// name of the account is written to meanwhile.
    #[must_use]
    pub fn writes_file(&self, service: &str, id: i64) -> PathBuf {
        let name = blake3::hash(format!("{service}\n{id}").as_bytes()).to_hex();
        self.data.join("writes").join(&name[..32])
    }

    /// Where the built-in sandbox keeps its state between commands.
    #[must_use]
    pub fn sandbox_file(&self) -> PathBuf {
        self.data.join("sandbox.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_moves_config_and_vaults_together() {
        let home = Home::from_variable(Some("/srv/lv".into())).unwrap();
        assert_eq!(home.config_file(), Path::new("/srv/lv/config.toml"));
        assert_eq!(home.vault_file("main"), Path::new("/srv/lv/vaults/main.db"));
    }

    #[test]
    fn a_relative_home_is_made_absolute() {
        assert!(Home::from_variable(Some("here".into())).unwrap().config_file().is_absolute());
    }
}
