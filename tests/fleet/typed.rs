//! The commands of docs/fleet.md, run as they stand.

use std::path::Path;
use std::process::Command;

use super::programs::{find, free_port};

/// The commands that bring up a fleet, without those that install Temporal's server.
fn commands() -> String {
    let text = include_str!("../../docs/fleet.md");
    let section = text.split("\n## Bring up a fleet of ten\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(2).map(|it| it.split("```").next().unwrap());
    blocks.collect()
}

#[test]
fn a_fleet_of_ten_comes_up_as_it_is_documented() {
    let Some(temporal) = find("temporal") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (port, sandbox) = (free_port().to_string(), free_port().to_string());
    let script = commands()
        .replace("start-dev", "start-dev --headless --port 7233")
        .replace("7233", "TEMPORAL")
        // A port may have the digits of another one.
        .replace("8080", &sandbox)
        .replace("TEMPORAL", &port);
    let program = Path::new(env!("CARGO_BIN_EXE_linkvault"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [program, &temporal].map(|it| it.parent().unwrap().to_owned());
    let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&path)));
    // Nothing is left if a command waits for something that does not happen.
    let output = Command::new("timeout")
        .args(["480", "bash", "-u", "-c", &script])
        .current_dir(&folder)
        .env("PATH", path.unwrap())
        .env("TEMPORAL_ADDRESS", format!("127.0.0.1:{port}"))
        .env("LINKVAULT_SANDBOX_LISTEN", format!("127.0.0.1:{sandbox}"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let logs = logs(&folder.path().join("fleet"));
    for line in [
        "10 changes made\n",
        "10 accounts: 10 new; 0 running\n",
        "customer-07 is sound: 1 snapshot with 52 versions of records checked\n",
    ] {
        assert!(told.contains(line), "{line}\n{told}\n{errors}\n{logs}");
    }
    // Before and after a worker was killed.
    assert_eq!(told.matches("10 accounts: 10 good; ").count(), 2, "{told}\n{errors}\n{logs}");
}

/// What the servers and the workers wrote.
fn logs(folder: &Path) -> String {
    let names = ["temporal.log", "sandbox.log", "worker-a.log", "worker-b.log", "status.txt"];
    let log = |name| {
        let text = std::fs::read(folder.join(name)).unwrap_or_default();
        format!("== {name}\n{}\n", String::from_utf8_lossy(&text))
    };
    names.into_iter().map(log).collect()
}
