//! What a user might write instead: a pipe of curl and jq, and a loop in Python.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/backup");

/// A script that reads all pages of the list of QR codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    CurlAndJq,
    Python,
}

impl Script {
    pub const ALL: [Self; 2] = [Self::CurlAndJq, Self::Python];

    pub const fn name(self) -> &'static str {
        match self {
            Self::CurlAndJq => "curl and jq",
            Self::Python => "Python requests",
        }
    }

    /// The command that fails if a program or a library is missing.
    const fn probe(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::CurlAndJq => ("bash", ["-c", "curl --version && jq --version"]),
            Self::Python => ("python3", ["-c", "import requests, sqlite3"]),
        }
    }

    /// Whether it can run here.
    pub fn is_installed(self) -> bool {
        let (program, arguments) = self.probe();
        let mut command = Command::new(program);
        let probe = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    /// Runs it, and returns its time with the start of its programs.
    pub fn run(self, url: &str, page_size: usize, file: &Path, records: usize) -> Duration {
        let (program, script) = match self {
            Self::CurlAndJq => ("bash", "curl_jq.sh"),
            Self::Python => ("python3", "requests_loop.py"),
        };
        let script = Path::new(FOLDER).join(script);
        let began = Instant::now();
        let output = Command::new(program)
            .args([script.as_os_str(), url.as_ref(), page_size.to_string().as_ref()])
            .arg(file)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let time = began.elapsed();
        let count = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(count, records.to_string(), "{self:?}");
        time
    }
}
