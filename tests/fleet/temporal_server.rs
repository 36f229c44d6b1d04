//! A real Temporal server for tests, with a database file, on a port of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::programs::{find, free_port};
use crate::support::until;

/// A server that stops when it is dropped.
pub struct TemporalServer {
    program: PathBuf,
    process: Child,
    port: u16,
    /// Has the database.
    files: TempDir,
}

impl TemporalServer {
    /// `None` where it is not installed.
    pub fn start() -> Option<Self> {
        let program = find("temporal")?;
        let files = tempfile::tempdir().unwrap();
        let port = free_port();
        let process = serve(&program, port, &files);
        let server = Self { program, process, port, files };
        server.wait();
        Some(server)
    }

    /// Kills it.
    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Kills it, and deletes its database.
    pub fn lose(&mut self) {
        self.stop();
        for file in std::fs::read_dir(self.files.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }

    /// Kills it, and starts it with the same port and database.
    pub fn restart(&mut self) {
        self.stop();
        self.process = serve(&self.program, self.port, &self.files);
        self.wait();
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The output of Temporal's own command.
    pub fn command(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.program)
            .args(arguments)
            .args(["--address", &format!("127.0.0.1:{}", self.port)])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The ids of the newest workflows, with their states.
    pub fn workflows(&self) -> Vec<(String, String)> {
        let text = self.command(&["workflow", "list", "-o", "json"]);
        let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        all.iter().map(|it| (word(&it["execution"]["workflowId"]), word(&it["status"]))).collect()
    }

    /// It answers before it has its namespace.
    fn wait(&self) {
        let arguments = ["operator", "namespace", "describe", "-n", "default", "-o", "json"];
        until("Temporal is ready", || self.command(&arguments).contains("\"name\": \"default\""));
    }
}

fn serve(program: &PathBuf, port: u16, files: &TempDir) -> Child {
    Command::new(program)
        .args(["server", "start-dev", "--headless", "--log-level", "never"])
        .args(["--port", &port.to_string()])
        .arg("--db-filename")
        .arg(files.path().join("temporal.db"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for TemporalServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
