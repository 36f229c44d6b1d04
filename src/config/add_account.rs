//! Adds an account to the configuration file, or creates the file. Existing text stays unchanged,
//! with comments and layout: the new table is appended, and the file is replaced atomically.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::api::base_url::BaseUrl;
use crate::api::http::ApiKey;
use crate::config::home::{Home, KEYS};
use crate::config::key_source::KeySource;
use crate::config::values::{ConfigValueError, parse_account_name};
use crate::config::{Config, ConfigProblem, document};
use crate::files::{Durability, private_folder, private_folder_of, temporary_beside};

/// An account to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Name of the account.
    pub name: String,
    /// Base URL of the service.
    pub url: BaseUrl,
    /// The API key, or where it comes from.
    pub key: NewKey,
    /// Whether the API key may be sent over plain HTTP.
    pub allow_http: bool,
}

/// The API key of a new account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewKey {
    /// It is read from here.
    From(KeySource),
    /// It was typed, and is written to a file in the folder `keys`.
    Typed(ApiKey),
}

/// Why an account was not added. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum AddAccountError {
    /// The file has an account of this name.
    #[error("the account `{name}` already exists in {}", file.display())]
    Exists {
        /// Name of the account.
        name: String,
        /// The configuration file.
        file: PathBuf,
    },
    /// The name is not allowed.
    #[error("invalid account name `{name}`: {error}")]
    Name {
        /// The refused name.
        name: String,
        /// Why it is not allowed.
        error: ConfigValueError,
    },
    /// The file for its key exists.
    #[error("the key file {} already exists; nothing was written", file.display())]
    KeyFile {
        /// The key file.
        file: PathBuf,
    },
    /// The file has mistakes, with or without the new account.
    #[error("{} is not valid{}", file.display(), lines(file, problems))]
    Invalid {
        /// The configuration file.
        file: PathBuf,
        /// All mistakes, in the order of the file.
        problems: Vec<ConfigProblem>,
    },
    /// The file cannot be read or written.
    #[error("cannot update {}: {error}", file.display())]
    Io {
        /// The configuration file.
        file: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

fn lines(file: &Path, problems: &[ConfigProblem]) -> String {
    problems.iter().map(|problem| format!("\n{}", problem.at(file))).collect()
}

/// Checks that the key of a new account `name` can be written to a file.
///
/// # Errors
/// If the name is not allowed, or [`AddAccountError::KeyFile`].
pub fn require_new_key_file(home: &Home, name: &str) -> Result<PathBuf, AddAccountError> {
    parse_account_name(name)
        .map_err(|error| AddAccountError::Name { name: name.to_owned(), error })?;
    let file = home.key_file(name);
    if file.symlink_metadata().is_ok() {
        return Err(AddAccountError::KeyFile { file });
    }
    Ok(file)
}

/// Adds `account` to the configuration file of `home`, and returns the file's path. A typed key is
/// written to a new file first.
///
/// # Errors
/// [`AddAccountError::Exists`] if the name is taken, or [`AddAccountError::KeyFile`]: neither an
/// account nor a key is ever replaced.
pub fn add_account(home: &Home, account: &NewAccount) -> Result<PathBuf, AddAccountError> {
    let file = home.config_file();
    let name = account.name.clone();
    parse_account_name(&name)
        .map_err(|error| AddAccountError::Name { name: name.clone(), error })?;
    let io = |error| AddAccountError::Io { file: file.clone(), error };
    let old = match document::bytes(&file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io(error)),
    };
    let invalid = |problems| AddAccountError::Invalid { file: file.clone(), problems };
    let before = Config::parse(home, old.as_deref().unwrap_or_default()).map_err(invalid)?;
    if before.accounts().iter().any(|other| other.name == name) {
        return Err(AddAccountError::Exists { name, file });
    }
    let text = appended(old.as_deref().unwrap_or_default(), account);
    Config::parse(home, &text).map_err(invalid)?;
    private_folder(home.config_folder()).map_err(io)?;
    private_folder(&home.vaults_folder()).map_err(io)?;
    let key = match &account.key {
        NewKey::Typed(key) => Some(write_key(home, &name, key)?),
        NewKey::From(_) => None,
    };
    write(&file, &text, old.is_some()).map_err(|error| {
        // Without the account, nothing names the key.
        key.as_ref().map(fs::remove_file);
        io(error)
    })?;
    Ok(file)
}

fn write_key(home: &Home, name: &str, key: &ApiKey) -> Result<PathBuf, AddAccountError> {
    let file = require_new_key_file(home, name)?;
    let text = format!("{}\n", key.reveal());
    let written = private_folder_of(&file).and_then(|()| {
        let new = temporary_beside(&file, text.as_bytes(), Durability::Synced)?;
        Ok(new.persist_noclobber(&file)?)
    });
    match written {
        Ok(_) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(AddAccountError::KeyFile { file })
        }
        Err(error) => Err(AddAccountError::Io { file, error }),
    }
}

const HEAD: &str = "\
# Accounts of linkvault. Each has a table [accounts.NAME]. The keys in
# [defaults] apply to every account that does not set them itself.
";

fn appended(old: &[u8], account: &NewAccount) -> Vec<u8> {
    let mut text = if old.is_empty() { HEAD.as_bytes().to_vec() } else { old.to_vec() };
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(format!("\n{}", table(account)).as_bytes());
    text
}

/// The account as TOML.
fn table(account: &NewAccount) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let name = &account.name;
    let url = quoted(&account.url.to_string());
    let key = match &account.key {
        // Relative to the configuration, so that the folder can be moved.
        NewKey::Typed(_) => format!("key_file = {}", quoted(&format!("{KEYS}/{name}"))),
        NewKey::From(KeySource::Variable(variable)) => format!("key_env = {}", quoted(variable)),
        NewKey::From(KeySource::File(path)) => {
            format!("key_file = {}", quoted(&path.to_string_lossy()))
        }
        NewKey::From(KeySource::Command(words)) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            format!("key_command = [{}]", words.join(", "))
        }
    };
    // An unquoted dot would start a subtable.
    let name = if name.contains('.') { quoted(name) } else { name.clone() };
    let http = if account.allow_http { "allow_http = true\n" } else { "" };
    format!("[accounts.{name}]\nurl = {url}\n{key}\n{http}")
}

fn write(file: &Path, text: &[u8], exists: bool) -> io::Result<()> {
    if !exists {
        // Does not overwrite a file that another process created meanwhile.
        temporary_beside(file, text, Durability::Synced)?.persist_noclobber(file)?;
        return Ok(());
    }
    // Replaces the target of a link, not the link.
    let file = fs::canonicalize(file)?;
    let new = temporary_beside(&file, text, Durability::Synced)?;
    fs::set_permissions(new.path(), fs::metadata(&file)?.permissions())?;
    new.persist(&file)?;
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use crate::config::add_account::*;
    use std::os::unix::fs::PermissionsExt;

    fn main_account() -> NewAccount {
        NewAccount {
            name: "main".into(),
            url: BaseUrl::parse("https://links.example.com/", false).unwrap(),
            key: NewKey::From(KeySource::Variable("LINKS_KEY".into())),
            allow_http: false,
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_first_account_creates_private_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("deep/home"));
        let file = add_account(&home, &main_account()).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(home.config_folder()), 0o700);
        assert_eq!(mode(&home.vaults_folder()), 0o700);
        let config = Config::load(&home).unwrap();
        assert_eq!(config.accounts().len(), 1);
        assert!(config.warnings.is_empty());
    }

    #[test]
    fn a_second_account_keeps_the_existing_text() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let before =
            "# mine\n[accounts.main]   # odd   layout\nurl='https://a.example'\nkey_env='K'";
        fs::write(home.config_file(), before).unwrap();
        let key = KeySource::Command(vec!["pass".into(), "it\"s".into()]);
        let key = NewKey::From(key);
        let other = NewAccount { name: "b.c".into(), key, ..main_account() };
        add_account(&home, &other).unwrap();
        let after = fs::read_to_string(home.config_file()).unwrap();
        assert!(after.starts_with(before));
        let config = Config::load(&home).unwrap();
        assert!(config.account("b.c").is_ok() && config.account("main").is_ok());
    }

    #[test]
    fn an_existing_account_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        add_account(&home, &main_account()).unwrap();
        let before = fs::read(home.config_file()).unwrap();
        let key = NewKey::From(KeySource::Variable("OTHER".into()));
        let again = NewAccount { key, ..main_account() };
        assert!(matches!(add_account(&home, &again), Err(AddAccountError::Exists { .. })));
        assert_eq!(fs::read(home.config_file()).unwrap(), before);
    }

    #[test]
    fn a_file_with_mistakes_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        fs::write(home.config_file(), "accounts = {}\n").unwrap();
        let result = add_account(&home, &main_account());
        assert!(matches!(result, Err(AddAccountError::Invalid { .. })), "{result:?}");
        assert_eq!(fs::read_to_string(home.config_file()).unwrap(), "accounts = {}\n");
    }

    #[test]
    fn a_typed_key_goes_to_a_private_file_that_the_account_names() {
        use crate::clock::{Interrupt, SystemClock};
        use crate::config::{AccountLocation, SecretKind};
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("home"));
        let typed = NewAccount { key: NewKey::Typed(ApiKey::new("geheim-1")), ..main_account() };
        let dotted = NewAccount { name: "b.c".into(), ..typed.clone() };
        add_account(&home, &typed).unwrap();
        add_account(&home, &dotted).unwrap();
        let file = home.key_file("main");
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        assert!(!fs::read_to_string(home.config_file()).unwrap().contains("geheim"));
        for account in Config::load(&home).unwrap().accounts() {
            let AccountLocation::Service { key, .. } = &account.place else { continue };
            let clock = SystemClock::new(Interrupt::default());
            assert_eq!(key.read(SecretKind::Key, &clock, &[]).unwrap().reveal(), "geheim-1");
            assert_eq!(key.warning(), None);
        }
    }

    #[test]
    fn a_key_file_is_never_replaced_and_none_is_left_without_its_account() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let typed = NewAccount { key: NewKey::Typed(ApiKey::new("new")), ..main_account() };
        fs::create_dir(folder.path().join(KEYS)).unwrap();
        fs::write(home.key_file("main"), "old").unwrap();
        let refused = add_account(&home, &typed).unwrap_err();
        assert!(matches!(refused, AddAccountError::KeyFile { .. }), "{refused}");
        assert_eq!(fs::read_to_string(home.key_file("main")).unwrap(), "old");
        assert!(!home.config_file().exists());
        fs::remove_file(home.key_file("main")).unwrap();
        // A dangling link: the configuration can be neither read nor created.
        std::os::unix::fs::symlink(folder.path().join("none/file"), home.config_file()).unwrap();
        add_account(&home, &typed).unwrap_err();
        assert!(!home.key_file("main").exists());
    }

    #[test]
    fn a_link_to_the_file_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("home"));
        let real = folder.path().join("real.toml");
        fs::create_dir(home.config_folder()).unwrap();
        fs::write(&real, "# mine\n").unwrap();
        std::os::unix::fs::symlink(&real, home.config_file()).unwrap();
        add_account(&home, &main_account()).unwrap();
        assert!(fs::symlink_metadata(home.config_file()).unwrap().is_symlink());
        assert!(fs::read_to_string(real).unwrap().contains("[accounts.main]"));
    }
}
