//! Reads API keys and other secrets from environment variables, files and commands. Error messages
//! never contain a secret, nor the output of a command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::api::http::ApiKey;
use crate::api::redact::Redactor;
use crate::clock::Clock;
use crate::config::permissions::permission_warning;
use crate::files::read_named;
use crate::process::{self, ProcessError, ProcessInput};

/// Time limit of a key command: the user may have to unlock a password store.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// Maximum size of a key file in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// The longest word that is redacted in the error output of a command, in bytes.
const MAX_KEY: usize = 4 * 1024;

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The name of an environment variable.
    Variable(String),
    /// The path of a file.
    File(PathBuf),
    /// A program and its arguments, run without a shell.
    Command(Vec<String>),
}

/// Kind of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// The API key of an account.
    Key,
    /// The token of the web UI.
    PageToken,
    /// The secret that signs webhook requests.
    WebhookSecret,
    /// The age identity of the objects in stores.
    Identity,
}

impl SecretKind {
    /// The name of the kind in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::PageToken => "token",
            Self::WebhookSecret => "secret",
            Self::Identity => "identity",
        }
    }
}

/// Why a secret cannot be read. Never contains the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .cause.text(.what.name()))]
pub struct KeySourceError {
    /// Kind of the secret.
    pub what: SecretKind,
    /// What went wrong.
    pub cause: KeySourceCause,
}

/// Cause of a [`KeySourceError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySourceCause {
    /// The environment variable of this name is not set.
    Unset(String),
    /// The environment variable is not set, and its name looks like a secret.
    UnsetSecret,
    /// This source, as a noun phrase, is empty.
    Empty(String),
    /// The content of this source is not one word of visible ASCII characters.
    NoSecret(String),
    /// The content of this source is not a list of age identities.
    NoIdentity(String),
    /// The content of this source is an age identity that is encrypted with a passphrase.
    Passphrase(String),
    /// The file cannot be read.
    File {
        /// Path of the file.
        file: String,
        /// Cause of the error.
        why: String,
    },
    /// The command cannot be started.
    NotRun {
        /// The program, without arguments.
        command: String,
        /// Cause of the error.
        why: String,
    },
    /// The command failed.
    Failed {
        /// The program, without arguments.
        command: String,
        /// The exit code or signal.
        status: String,
        /// Its standard error, redacted.
        stderr: String,
    },
    /// The command ran longer than the limit and was killed.
    Slow {
        /// The program, without arguments.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// The program was interrupted while this command ran.
    Interrupted(String),
}

impl KeySourceCause {
    fn text(&self, what: &str) -> String {
        match self {
            Self::Unset(name) => {
                format!("the environment variable {name} is not set; it should hold the {what}")
            }
            Self::UnsetSecret => format!(
                "the environment variable that should hold the {what} is not set; its name is \
                 not shown, since it looks like a {what} itself"
            ),
            Self::Empty(source) => format!("{source} is empty; it should hold the {what}"),
            Self::NoSecret(source) => format!(
                "{source} does not hold a {what}: a {what} is one word of visible ASCII characters"
            ),
            Self::NoIdentity(source) => format!(
                "{source} does not hold an age identity: a line that begins with {IDENTITY}, as \
                 `age-keygen` prints it"
            ),
            Self::Passphrase(source) => format!(
                "{source} holds an identity that is encrypted with a passphrase, which linkvault \
                 cannot ask for; use one without a passphrase"
            ),
            Self::File { file, why } => format!("cannot read the {what} file {file}: {why}"),
            Self::NotRun { command, why } => {
                format!("cannot run the {what} command `{command}`: {why}")
            }
            Self::Failed { command, status, stderr } => {
                format!("the {what} command `{command}` failed ({status}){}", after_colon(stderr))
            }
            Self::Slow { command, seconds } => format!(
                "the {what} command `{command}` did not end within {seconds} seconds and was killed"
            ),
            Self::Interrupted(command) => {
                format!("interrupted during the {what} command `{command}`")
            }
        }
    }
}

fn after_colon(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl KeySource {
    /// Reads the secret. A command does not see the environment variables `hidden`.
    ///
    /// # Errors
    /// A [`KeySourceError`], which never contains the secret.
    pub fn read(
        &self,
        what: SecretKind,
        clock: &dyn Clock,
        hidden: &[String],
    ) -> Result<ApiKey, KeySourceError> {
        self.read_within(what, clock, COMMAND_TIME, hidden)
    }

    /// Reads age identities, each of them a line. Lines that begin with `#` are comments. `hidden`:
    /// as in [`Self::read`].
    ///
    /// # Errors
    /// A [`KeySourceError`], which never contains an identity.
    pub fn read_identities(
        &self,
        clock: &dyn Clock,
        hidden: &[String],
    ) -> Result<Vec<ApiKey>, KeySourceError> {
        let what = SecretKind::Identity;
        let content = self.content(what.name(), clock, COMMAND_TIME, hidden);
        let read = content.and_then(|it| identities(&it.bytes).map_err(|cause| cause(it.source)));
        read.map_err(|cause| KeySourceError { what, cause })
    }

    fn read_within(
        &self,
        what: SecretKind,
        clock: &dyn Clock,
        time: Duration,
        hidden: &[String],
    ) -> Result<ApiKey, KeySourceError> {
        let content = self.content(what.name(), clock, time, hidden);
        let read = content.and_then(|it| checked(&it.bytes, || it.source.clone()));
        read.map_err(|cause| KeySourceError { what, cause })
    }

    fn content(
        &self,
        name: &str,
        clock: &dyn Clock,
        time: Duration,
        hidden: &[String],
    ) -> Result<Content, KeySourceCause> {
        match self {
            Self::Variable(name) => variable(name),
            Self::File(path) => file(path, name),
            Self::Command(words) => command(words, name, clock, time, hidden),
        }
    }

    /// A warning if other users can read the source.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::File(path) => permission_warning(path),
            Self::Variable(_) | Self::Command(_) => None,
        }
    }
}

/// What a source holds.
struct Content {
    bytes: Vec<u8>,
    /// The source, as a noun phrase.
    source: String,
}

fn variable(name: &str) -> Result<Content, KeySourceCause> {
    let unset = || match looks_like_a_key(name) {
        true => KeySourceCause::UnsetSecret,
        false => KeySourceCause::Unset(name.to_owned()),
    };
    let value = std::env::var_os(name).ok_or_else(unset)?;
    let source = format!("the environment variable {name}");
    Ok(Content { bytes: value.into_encoded_bytes(), source })
}

/// Whether a user may have given the key instead of the name of a variable. Names are upper case
/// or short: `LINKS_KEY`.
#[must_use]
pub fn looks_like_a_key(name: &str) -> bool {
    let bytes = name.as_bytes();
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let named = bytes.iter().all(fits) && !bytes.first().is_some_and(u8::is_ascii_digit);
    let long = bytes.len() >= 16;
    !named || long && (bytes.iter().any(u8::is_ascii_lowercase) || !bytes.contains(&b'_'))
}

/// A key that was typed or pasted.
///
/// # Errors
/// If the text is not one word of visible ASCII characters. The error does not contain it.
pub fn typed_key(text: &str) -> Result<ApiKey, KeySourceError> {
    let key = checked(text.as_bytes(), || "the answer".to_owned());
    key.map_err(|cause| KeySourceError { what: SecretKind::Key, cause })
}

fn file(path: &Path, what: &str) -> Result<Content, KeySourceCause> {
    let bytes = read_named(path, MAX_FILE).map_err(|error| KeySourceCause::File {
        file: path.display().to_string(),
        why: error.to_string(),
    })?;
    Ok(Content { bytes, source: format!("the {what} file {}", path.display()) })
}

/// The begin of an age identity.
const IDENTITY: &str = "AGE-SECRET-KEY-1";

/// The identities in `bytes`. The error needs the source.
fn identities(bytes: &[u8]) -> Result<Vec<ApiKey>, fn(String) -> KeySourceCause> {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return Err(KeySourceCause::Empty);
    }
    let encrypted: [&[u8]; 2] = [b"-----BEGIN AGE ENCRYPTED FILE", b"age-encryption.org/"];
    if encrypted.iter().any(|begin| bytes.starts_with(begin)) {
        return Err(KeySourceCause::Passphrase);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| KeySourceCause::NoIdentity as fn(_) -> _)?;
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
    let valid =
        |line: &str| line.starts_with(IDENTITY) && line.bytes().all(|byte| byte.is_ascii_graphic());
    let keys: Option<Vec<_>> = lines.map(|it| valid(it).then(|| ApiKey::new(it))).collect();
    keys.filter(|keys| !keys.is_empty()).ok_or(KeySourceCause::NoIdentity)
}

/// The key in `bytes`, without surrounding white space. It must be valid in an HTTP header.
fn checked(bytes: &[u8], source: impl Fn() -> String) -> Result<ApiKey, KeySourceCause> {
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Err(KeySourceCause::Empty(source()));
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(ApiKey::new(text)),
        _ => Err(KeySourceCause::NoSecret(source())),
    }
}

fn command(
    words: &[String],
    what: &str,
    clock: &dyn Clock,
    time: Duration,
    hidden: &[String],
) -> Result<Content, KeySourceCause> {
    // Without arguments: they may contain a secret.
    let command = words.first().cloned().unwrap_or_default();
    let input = ProcessInput { hidden, ..ProcessInput::default() };
    let exit = match process::run(words, &input, clock, time) {
        Ok(exit) => exit,
        Err(ProcessError::NotStarted(why)) => return Err(KeySourceCause::NotRun { command, why }),
        Err(ProcessError::TimedOut) => {
            return Err(KeySourceCause::Slow { command, seconds: time.as_secs() });
        }
        Err(ProcessError::Interrupted) => return Err(KeySourceCause::Interrupted(command)),
    };
    if !exit.status.success() {
        // Its error message may contain the key that it printed before.
        let redactor = Redactor::default();
        let printed = String::from_utf8_lossy(&exit.stdout);
        let arguments = words.iter().skip(1).map(String::as_str);
        // A word longer than any HTTP header is not a key.
        let words = printed.split_whitespace().chain(arguments);
        words.filter(|text| text.len() <= MAX_KEY).for_each(|text| redactor.add(text));
        let stderr = String::from_utf8_lossy(&exit.stderr);
        let stderr = redactor.text(stderr.trim()).into_owned();
        return Err(KeySourceCause::Failed { command, status: exit.exit(), stderr });
    }
    let source = format!("the output of the {what} command `{command}`");
    Ok(Content { bytes: exit.stdout, source })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use crate::clock::{Interrupt, SystemClock};
    use crate::config::key_source::*;

    fn read(source: &KeySource) -> Result<ApiKey, String> {
        let clock = SystemClock::new(Interrupt::default());
        source
            .read_within(SecretKind::Key, &clock, Duration::from_millis(300), &[])
            .map_err(|error| error.to_string())
    }

    fn shell(script: &str) -> KeySource {
        KeySource::Command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[test]
    fn white_space_around_a_key_is_removed() {
        assert_eq!(read(&shell("echo ' abc '")).unwrap().reveal(), "abc");
    }

    #[test]
    fn a_key_is_read_although_a_background_child_keeps_the_output_open() {
        for script in
            ["echo geheim; sleep 20 &", "sleep 20 & echo geheim", "printf geheim; sleep 20 &"]
        {
            assert_eq!(read(&shell(script)).unwrap().reveal(), "geheim", "{script}");
        }
        let error = read(&shell("sleep 20 &")).unwrap_err();
        assert!(error.ends_with("is empty; it should hold the key"), "{error}");
        let error = read(&shell("printf 'geheim\\nzwei\\n'; sleep 20 &")).unwrap_err();
        assert!(error.contains("does not hold a key"), "{error}");
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
        for key in ["aB3dE5fG7hJ9kL1mN", "abcdefghijklmnopq", "AB3DE5FG7HJ9KL1M", "4-4", "a.b"] {
            let error = read(&KeySource::Variable(key.into())).unwrap_err();
            assert!(error.contains("looks like a key") && !error.contains(key), "{error}");
        }
        for name in ["LINKS_KEY", "links_key_2", "LINKVAULT_TEST_KEY_2", "K", "my_links_key"] {
            assert!(!looks_like_a_key(name), "{name}");
        }
    }

    #[test]
    fn a_typed_key_is_one_word_and_its_error_does_not_show_it() {
        assert_eq!(typed_key(" geheim-1 \n").unwrap().reveal(), "geheim-1");
        for text in ["", "two words", "geheim\u{fc}"] {
            let error = typed_key(text).unwrap_err().to_string();
            assert!(error.starts_with("the answer "), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_missing_and_an_empty_file_have_different_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let source = KeySource::File(path.clone());
        assert!(read(&source).unwrap_err().contains(": No such file"));
        std::fs::write(&path, "\n").unwrap();
        assert!(read(&source).unwrap_err().ends_with("is empty; it should hold the key"));
    }

    #[test]
    fn an_invalid_key_is_refused_and_not_shown() {
        let error = read(&shell("printf 'geheim\\nzwei'")).unwrap_err();
        assert!(error.contains("does not hold a key"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "geheim\u{fc}").unwrap();
        let error = read(&KeySource::File(path)).unwrap_err();
        assert!(!error.contains("geheim"), "{error}");
    }

    #[test]
    fn identities_are_lines_and_each_other_content_has_its_error() {
        let clock = SystemClock::new(Interrupt::default());
        let read = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("key");
            std::fs::write(&path, text).unwrap();
            let keys = KeySource::File(path).read_identities(&clock, &[]);
            keys.map(|keys| keys.iter().map(|key| key.reveal().to_owned()).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        let keys = read(
            "# created: now\n# public key: age1x\nAGE-SECRET-KEY-1A\n\n  AGE-SECRET-KEY-1B \n",
        );
        assert_eq!(keys.unwrap(), ["AGE-SECRET-KEY-1A", "AGE-SECRET-KEY-1B"]);
        let cases = [
            ("", "is empty; it should hold the identity"),
            ("# only a comment", "does not hold an age identity"),
            ("geheim", "does not hold an age identity"),
            ("AGE-SECRET-KEY-1A\ngeheim", "does not hold an age identity"),
            ("AGE-PLUGIN-X-1geheim", "does not hold an age identity"),
            ("-----BEGIN AGE ENCRYPTED FILE-----\ngeheim", "is encrypted with a passphrase"),
            ("age-encryption.org/v1\n-> scrypt geheim", "is encrypted with a passphrase"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("the identity file "), "{error}");
            assert!(error.contains(expected) && !error.contains("geheim"), "{text}: {error}");
        }
        let source = shell("echo AGE-SECRET-KEY-1GEHEIM; echo AGE-SECRET-KEY-1GEHEIM >&2; exit 1");
        let error = source.read_identities(&clock, &[]).unwrap_err().to_string();
        assert_eq!(error, "the identity command `sh` failed (exit code 1): [redacted]");
        let error = shell("true").read_identities(&clock, &[]).unwrap_err().to_string();
        assert!(error.ends_with("is empty; it should hold the identity"), "{error}");
    }

    #[test]
    fn a_failing_command_shows_its_exit_code_and_error_output() {
        let error = read(&shell("echo locked >&2; echo secret; exit 3")).unwrap_err();
        assert!(error.ends_with("failed (exit code 3): locked"), "{error}");
    }

    #[test]
    fn output_and_arguments_of_a_failing_command_are_redacted() {
        let script = "echo the-real-key-1; echo \"bad: the-real-key-1 $0\" >&2; exit 3";
        let words = ["sh", "-c", script, "the-argument-2"].map(str::to_owned);
        let error = read(&KeySource::Command(words.to_vec())).unwrap_err();
        let expected = "the key command `sh` failed (exit code 3): bad: [redacted] [redacted]";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        assert!(read(&shell("sleep 60")).unwrap_err().contains("did not end within"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = read(&KeySource::Command(vec!["no-such-program".into()])).unwrap_err();
        assert!(error.starts_with("cannot run the key command `no-such-program`: "), "{error}");
    }

    #[test]
    fn large_output_does_not_block_the_command() {
        let error = read(&shell("head -c 300000 /dev/zero; exit 1")).unwrap_err();
        assert!(error.ends_with("failed (exit code 1)"), "{error}");
    }
}
