//! What the tests stand on: a place of their own for the program, and what
//! came of running it there.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A home for the program, its environment fixed: no colours, 80 columns, UTC.
pub struct TestEnvironment {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl TestEnvironment {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// Sets a variable for every later run.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the configuration, for its user alone.
    pub fn config(self, text: &str) -> Self {
        let file = self.path("config.toml");
        std::fs::write(&file, text).unwrap();
        self.mode("config.toml", 0o600)
    }

    /// Sets the mode of a file in the home.
    pub fn mode(self, name: &str, mode: u32) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(self.path(name), permissions).unwrap();
        }
        self
    }

    /// A path in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, ready to be given more than `run` gives it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("linkvault"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LINKVAULT_HOME", self.folder.path())
            .env("NO_COLOR", "1")
            .env("COLUMNS", "80")
            .env("TZ", "UTC")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        let home = self.folder.path().display().to_string();
        Ran { shown: format!("linkvault {}", arguments.join(" ")), output, home }
    }
}

/// What came of a run. The home's path reads as `HOME` in its texts.
pub struct Ran {
    shown: String,
    output: Output,
    home: String,
}

impl Ran {
    pub fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap().replace(&self.home, "HOME")
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
    pub fn prints(self, text: &str) -> Self {
        assert_eq!(self.stdout(), text, "{}", self.shown);
        self
    }

    /// Asserts the whole of stderr.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert_eq!(self.stderr(), text, "{}", self.shown);
        self
    }

    /// Asserts a part of stdout.
    #[track_caller]
    pub fn prints_among(self, part: &str) -> Self {
        let out = self.stdout();
        assert!(out.contains(part), "{}: {part:?} is not in\n{out}", self.shown);
        self
    }

    /// Asserts a part of stderr.
    #[track_caller]
    pub fn says_among(self, part: &str) -> Self {
        let err = self.stderr();
        assert!(err.contains(part), "{}: {part:?} is not in\n{err}", self.shown);
        self
    }

    /// Stdout as the one JSON document it is.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let out = self.stdout();
        let document: serde_json::Value = serde_json::from_str(&out)
            .unwrap_or_else(|error| panic!("{}: {error} in\n{out}", self.shown));
        assert_eq!(document["format"], 1, "{}", self.shown);
        document
    }
}
