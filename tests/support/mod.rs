//! Helpers of the tests: a temporary home folder for the program, and the result of running it
//! there.

pub mod canned_responses;
pub mod echo_server;
pub mod service;
#[cfg(target_os = "linux")]
pub mod terminal;
mod vault_history;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use linkvault::clock::{Clock, Interrupt, SystemClock};
use tempfile::TempDir;

pub use service::{Host, KEY, LiveService};
pub use vault_history::vault_with_history;

/// A temporary home folder for the program, with a fixed environment: no colours, 80 columns, UTC.
pub struct TestEnvironment {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl TestEnvironment {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// Sets an environment variable for every later run.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the configuration with mode 0600.
    pub fn config(self, text: &str) -> Self {
        let file = self.path("config.toml");
        std::fs::write(&file, text).unwrap();
        self.mode("config.toml", 0o600)
    }

    /// Writes a file in the home folder.
    pub fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path(name), text).unwrap();
        self
    }

    /// Writes a file in the home folder between two commands.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The text of a file in the home folder.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Replaces the only occurrence of `from` in a file.
    #[track_caller]
    pub fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.text(name);
        assert_eq!(text.matches(from).count(), 1, "{from:?} in\n{text}");
        self.write(name, &text.replacen(from, to, 1));
    }

    /// Sends a signal to a started program.
    pub fn signal(&self, signal: &str, child: &Child) {
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Whether a file's mode prevents this user from writing it; it does not prevent root.
    pub fn cannot_write(&self) -> bool {
        use std::os::unix::fs::PermissionsExt as _;
        let probe = self.path("probe");
        std::fs::write(&probe, "").unwrap();
        std::fs::set_permissions(&probe, std::fs::Permissions::from_mode(0o400)).unwrap();
        let drops = std::fs::File::options().write(true).open(&probe).is_err();
        std::fs::remove_file(&probe).unwrap();
        drops
    }

    /// An environment with the account `main`, and its service.
    pub fn with_service(behaviour: &str) -> (Self, LiveService) {
        let service = LiveService::start(behaviour, "");
        let environment = Self::new().account(&service.url());
        (environment, service)
    }

    /// Imports a file without a question.
    pub fn import(&self, file: &str, more: &[&str]) -> CommandOutput {
        self.run(&[&["import", file, "--to", "main", "--yes"], more].concat())
    }

    /// Configures the account `main` at `url`, with its key in an environment variable.
    pub fn account(self, url: &str) -> Self {
        self.account_with(url, "")
    }

    /// Like [`TestEnvironment::account`], with further lines of configuration.
    pub fn account_with(self, url: &str, more: &str) -> Self {
        let text = format!("[accounts.main]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n{more}");
        self.variable("LINKS_KEY", KEY).config(&text)
    }

    /// Sets the mode of a file in the home folder.
    pub fn mode(self, name: &str, mode: u32) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(self.path(name), permissions).unwrap();
        }
        self
    }

    /// A path in the home folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command that `run` executes, for tests that change it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linkvault"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LINKVAULT_HOME", self.folder.path())
            .env("NO_COLOR", "1")
            .env("COLUMNS", "80")
            .env("TZ", "UTC")
            // Tests compare the order of requests.
            .env("LINKVAULT_MAX_IN_FLIGHT", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Starts the program without waiting for it.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for a started program.
    pub fn wait(&self, child: Child) -> CommandOutput {
        let output = child.wait_with_output().unwrap();
        CommandOutput { shown: "started".to_owned(), output, home: self.home() }
    }

    fn home(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// The vault of an account, opened without linkvault's settings.
    pub fn sqlite(&self, account: &str) -> rusqlite::Connection {
        let file = self.path("vaults").join(account).with_extension("db");
        rusqlite::Connection::open(file).unwrap()
    }

    /// Every file under the home folder, with its bytes.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found
    }

    /// Runs the program and waits for it.
    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        let output = self.command(arguments).output().unwrap();
        CommandOutput {
            shown: format!("linkvault {}", arguments.join(" ")),
            output,
            home: self.home(),
        }
    }
}

/// The result of running the program. In its texts, the home folder's path is `HOME`.
pub struct CommandOutput {
    shown: String,
    output: Output,
    home: String,
}

impl CommandOutput {
    pub fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap().replace(&self.home, "HOME")
    }

    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap().replace(&self.home, "HOME")
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        let (out, err) = (self.stdout(), self.stderr());
        assert_eq!(self.output.status.code(), Some(code), "{}\n{out}\n{err}", self.shown);
        self
    }

    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.exits_with(0)
    }

    /// Asserts the whole of stdout.
    #[track_caller]
    pub fn stdout_is(self, text: &str) -> Self {
        assert_eq!(self.stdout(), text, "{}", self.shown);
        self
    }

    /// Asserts the whole of stderr.
    #[track_caller]
    pub fn stderr_is(self, text: &str) -> Self {
        assert_eq!(self.stderr(), text, "{}", self.shown);
        self
    }

    /// Asserts a part of stdout.
    #[track_caller]
    pub fn stdout_has(self, part: &str) -> Self {
        let out = self.stdout();
        assert!(out.contains(part), "{}: {part:?} is not in\n{out}", self.shown);
        self
    }

    /// Asserts a part of stderr.
    #[track_caller]
    pub fn stderr_has(self, part: &str) -> Self {
        let err = self.stderr();
        assert!(err.contains(part), "{}: {part:?} is not in\n{err}", self.shown);
        self
    }

    /// Asserts that both streams fit an 80-column terminal.
    #[track_caller]
    pub fn fits(self) -> Self {
        for line in self.stdout().lines().chain(self.stderr().lines()) {
            assert!(line.chars().count() <= 80, "{}: {line}", self.shown);
        }
        self
    }

    /// The bytes of both streams.
    pub fn bytes(&self) -> Vec<u8> {
        [self.output.stdout.as_slice(), &self.output.stderr].concat()
    }

    /// Stdout as a single JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let out = self.stdout();
        let document: serde_json::Value = serde_json::from_str(&out)
            .unwrap_or_else(|error| panic!("{}: {error} in\n{out}", self.shown));
        assert_eq!(document["format"], 1, "{}", self.shown);
        document
    }
}

/// Waits until `so` returns true; panics after a minute.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let clock = SystemClock::new(Interrupt::default());
    let end = clock.monotonic() + Duration::from_secs(60);
    while !so() {
        assert!(clock.monotonic() < end, "it never came: {what}");
        clock.sleep(Duration::from_millis(1));
    }
}
