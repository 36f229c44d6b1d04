//! The locations of the program's files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::api::base_url::service_name;
use crate::api::http::ApiKey;

/// The folders of the configuration and of the vaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    config: PathBuf,
    data: PathBuf,
}

/// The folder of the key files, in that of the configuration.
pub const KEYS: &str = "keys";

/// The user has no home folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot locate the configuration and the vaults: this user has no home folder")]
pub struct HomeError;

impl Home {
    /// The folder `LINKVAULT_HOME` if it is set and not empty, else the platform's folders.
    ///
    /// # Errors
    /// [`HomeError`] when the platform has no folders for this user.
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

    /// A home with configuration and data in one folder.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { config: folder.to_owned(), data: folder.to_owned() }
    }

    /// The folder of the configuration. Relative paths in the configuration start here.
    #[must_use]
    pub fn config_folder(&self) -> &Path {
        &self.config
    }

    /// Path of `config.toml`.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// The folder of the vaults of all accounts.
    #[must_use]
    pub fn vaults_folder(&self) -> PathBuf {
        self.data.join("vaults")
    }

    /// Default path of the vault of the account `name`.
    #[must_use]
    pub fn vault_file(&self, name: &str) -> PathBuf {
        self.vaults_folder().join(format!("{name}.db"))
    }

    /// The file for the key of the account `name` that `init` writes.
    #[must_use]
    pub fn key_file(&self, name: &str) -> PathBuf {
        self.config.join(KEYS).join(name)
    }

    /// The lock file of the daemon: a home has at most one daemon.
    #[must_use]
    pub fn daemon_file(&self) -> PathBuf {
        self.data.join("daemon")
    }

    /// The lock file of a run that writes to the account `id` at `service`, whatever name the
    /// account has in the configuration.
    #[must_use]
    pub fn writes_file(&self, service: &str, id: i64) -> PathBuf {
        let name = blake3::hash(format!("{}\n{id}", service_name(service)).as_bytes()).to_hex();
        self.data.join("writes").join(&name[..32])
    }

    /// The file through which all processes that use a key share its rate limit.
    #[must_use]
    pub fn pace_file(&self, service: &str, key: &ApiKey) -> PathBuf {
        self.vaults_folder().join(format!("{}.pace", key.fingerprint(&service_name(service))))
    }

    /// The file with the random id of this home, by which machines that share a vault tell each
    /// other apart.
    #[must_use]
    pub fn machine_file(&self) -> PathBuf {
        self.data.join("machine")
    }

    /// The file with the state of the built-in sandbox.
    #[must_use]
    pub fn sandbox_file(&self) -> PathBuf {
        self.data.join("sandbox.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_sets_the_folder_of_config_and_vaults() {
        let home = Home::from_variable(Some("/srv/lv".into())).unwrap();
        assert_eq!(home.config_file(), Path::new("/srv/lv/config.toml"));
        assert_eq!(home.vault_file("main"), Path::new("/srv/lv/vaults/main.db"));
    }

    #[test]
    fn a_relative_home_is_made_absolute() {
        assert!(Home::from_variable(Some("here".into())).unwrap().config_file().is_absolute());
    }
}
