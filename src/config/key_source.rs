//! Where an account's key comes from. The key itself is never part of a
//! message: not even what a command printed beside it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{AccountConfig, AccountLocation};
use crate::api::http::ApiKey;
use crate::api::redact::Redactor;
use crate::clock::Clock;
use crate::config::permissions::permission_warning;
use crate::files::read_named;
use crate::process::{self, ProcessError, ProcessInput};

/// How long a key command may take: somebody may have to touch a token.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// The most bytes that are read of a file that should hold a key.
const LARGEST: u64 = 64 * 1024;
/// The longest key that is looked for in what a command complains of.
const LONGEST_KEY: usize = 4 * 1024;

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// An environment variable.
    Variable(String),
    File(PathBuf),
    /// A program and its arguments, run without a shell.
    Command(Vec<String>),
}

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySourceError {
    #[error("the environment variable {0} is not set; it should hold the key")]
    Unset(String),
    #[error(
        "the environment variable that should hold the key is not set; its name is not shown, \
         since it looks like a key itself"
    )]
    UnsetKey,
    #[error("{0} is empty; it should hold the key")]
    Empty(String),
    #[error("{0} does not hold a key: a key is one word of visible ASCII characters")]
    NoKey(String),
    #[error("the key file {file} cannot be read: {why}")]
    File { file: String, why: String },
    #[error("the key command `{command}` cannot be run: {why}")]
    NotRun { command: String, why: String },
    #[error("the key command `{command}` failed ({status}){}", after_colon(stderr))]
    Failed { command: String, status: String, stderr: String },
    #[error("the key command `{command}` did not end within {seconds} seconds and was stopped")]
    Slow { command: String, seconds: u64 },
    #[error("interrupted while the key command `{0}` ran")]
    Interrupted(String),
}

fn after_colon(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl KeySource {
    /// Fetches the key.
    ///
    /// # Errors
    /// [`KeySourceError`], which never holds the key.
    pub fn read(&self, clock: &dyn Clock) -> Result<ApiKey, KeySourceError> {
        self.read_within(clock, COMMAND_TIME)
    }

    fn read_within(&self, clock: &dyn Clock, time: Duration) -> Result<ApiKey, KeySourceError> {
        match self {
            Self::Variable(name) => variable(name),
            Self::File(path) => file(path),
            Self::Command(words) => command(words, clock, time),
        }
    }

    /// A warning about the source, when others can read it too.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::File(path) => permission_warning(path),
            Self::Variable(_) | Self::Command(_) => None,
        }
    }
}

fn variable(name: &str) -> Result<ApiKey, KeySourceError> {
    let unset = || match looks_like_a_key(name) {
        true => KeySourceError::UnsetKey,
        false => KeySourceError::Unset(name.to_owned()),
    };
    let value = std::env::var_os(name).ok_or_else(unset)?;
    checked(value.as_encoded_bytes(), || format!("the environment variable {name}"))
}

/// Whether somebody may have written the key where the name of its variable belongs.
fn looks_like_a_key(name: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| name.as_bytes().iter().any(kind);
    name.len() >= 16 && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

fn file(path: &Path) -> Result<ApiKey, KeySourceError> {
    let bytes = read_named(path, LARGEST).map_err(|error| KeySourceError::File {
        file: path.display().to_string(),
        why: error.to_string(),
    })?;
    checked(&bytes, || format!("the key file {}", path.display()))
}

/// The key in `bytes`. What could not stand in a header is no key.
fn checked(bytes: &[u8], source: impl Fn() -> String) -> Result<ApiKey, KeySourceError> {
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Err(KeySourceError::Empty(source()));
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(ApiKey::new(text)),
        _ => Err(KeySourceError::NoKey(source())),
    }
}

fn command(words: &[String], clock: &dyn Clock, time: Duration) -> Result<ApiKey, KeySourceError> {
    // The program alone: among its arguments may be a secret.
    let command = words.first().cloned().unwrap_or_default();
    let ended = match process::run(words, &ProcessInput::default(), clock, time) {
        Ok(ended) => ended,
        Err(ProcessError::NotStarted(why)) => return Err(KeySourceError::NotRun { command, why }),
        Err(ProcessError::TimedOut) => {
            return Err(KeySourceError::Slow { command, seconds: time.as_secs() });
        }
        Err(ProcessError::Interrupted) => return Err(KeySourceError::Interrupted(command)),
    };
    if !ended.status.success() {
        // It may have printed the key before it failed, and complain with it.
        let redactor = Redactor::default();
        let printed = String::from_utf8_lossy(&ended.stdout);
        let arguments = words.iter().skip(1).map(String::as_str);
        // What is longer than any header is no key.
        let words = printed.split_whitespace().chain(arguments);
        words.filter(|text| text.len() <= LONGEST_KEY).for_each(|text| redactor.add(text));
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let stderr = redactor.text(stderr.trim()).into_owned();
        return Err(KeySourceError::Failed { command, status: ended.exit(), stderr });
    }
    checked(&ended.stdout, || format!("the output of the key command `{command}`"))
}

/// The environment variables that hold secrets of `accounts`: no alert command sees them.
#[must_use]
pub fn key_variables<'a>(
    accounts: impl IntoIterator<Item = &'a AccountConfig> + Clone,
) -> Vec<String> {
    let keys = accounts.clone().into_iter().filter_map(|account| match &account.place {
        AccountLocation::Service { key, .. } => Some(key),
        AccountLocation::Sandbox => None,
    });
    let secrets =
        accounts.into_iter().filter_map(|account| account.settings.alerts.secret.as_ref());
    let names = keys.chain(secrets).filter_map(|source| match source {
        KeySource::Variable(name) => Some(name.clone()),
        KeySource::File(_) | KeySource::Command(_) => None,
    });
    names.collect()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use crate::clock::{Interrupt, SystemClock};
    use crate::config::key_source::*;

    fn read(source: &KeySource) -> Result<ApiKey, String> {
        let clock = SystemClock::new(Interrupt::default());
        source.read_within(&clock, Duration::from_millis(300)).map_err(|error| error.to_string())
    }

    fn shell(script: &str) -> KeySource {
        KeySource::Command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[test]
    fn a_key_loses_the_white_space_around_it() {
        assert_eq!(read(&shell("echo ' abc '")).unwrap().reveal(), "abc");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = read(&KeySource::Variable("LINKVAULT_TEST_UNSET".into())).unwrap_err();
        assert_eq!(
            error,
            "the environment variable LINKVAULT_TEST_UNSET is not set; it should hold the key"
        );
    }

    #[test]
    fn a_key_in_place_of_a_variables_name_is_not_shown() {
        let source = KeySource::Variable("aB3dE5fG7hJ9kL1mN".into());
        let error = read(&source).unwrap_err();
        assert!(error.contains("looks like a key") && !error.contains("aB3d"), "{error}");
    }

    #[test]
    fn a_missing_and_an_empty_file_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let source = KeySource::File(path.clone());
        assert!(read(&source).unwrap_err().contains("cannot be read: No such file"));
        std::fs::write(&path, "\n").unwrap();
        assert!(read(&source).unwrap_err().ends_with("is empty; it should hold the key"));
    }

    #[test]
    fn what_cannot_be_a_key_is_refused_without_being_shown() {
        let error = read(&shell("printf 'geheim\\nzwei'")).unwrap_err();
        assert!(error.contains("does not hold a key"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "geheim\u{fc}").unwrap();
        let error = read(&KeySource::File(path)).unwrap_err();
        assert!(!error.contains("geheim"), "{error}");
    }

    #[test]
    fn a_failing_command_shows_its_exit_code_and_what_it_said() {
        let error = read(&shell("echo locked >&2; echo secret; exit 3")).unwrap_err();
        assert!(error.ends_with("failed (exit code 3): locked"), "{error}");
    }

    #[test]
    fn what_a_failing_command_printed_and_was_given_stands_in_no_message() {
        let script = "echo the-real-key-1; echo \"bad: the-real-key-1 $0\" >&2; exit 3";
        let words = ["sh", "-c", script, "the-argument-2"].map(str::to_owned);
        let error = read(&KeySource::Command(words.to_vec())).unwrap_err();
        let said = "the key command `sh` failed (exit code 3): bad: [redacted] [redacted]";
        assert_eq!(error, said);
    }

    #[test]
    fn a_command_that_hangs_is_stopped() {
        assert!(read(&shell("sleep 60")).unwrap_err().contains("did not end within"));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = read(&KeySource::Command(vec!["no-such-program".into()])).unwrap_err();
        assert!(error.starts_with("the key command `no-such-program` cannot be run"), "{error}");
    }

    #[test]
    fn a_flood_of_output_does_not_block_the_command() {
        let error = read(&shell("head -c 300000 /dev/zero; exit 1")).unwrap_err();
        assert!(error.ends_with("failed (exit code 1)"), "{error}");
    }
}
