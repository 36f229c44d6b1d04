//! Programs that tests start, and ports for them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A program on the path, or in the folder into which `.ci/run` installs it. `None` where it is not
/// installed and the tests may do without.
pub fn find(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("target/s3/bin").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(installed)
        .chain(std::env::split_paths(&path).map(|folder| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        assert!(std::env::var_os("LINKVAULT_NEEDS_S3").is_none(), "{name} is not installed");
        println!("{name} is not installed; `.ci/run` installs it");
    }
    found
}

/// The first port for servers that tests start. The system gives ports from 32768 on to connections
/// and to listeners without a port, so that one could be taken before its server listens.
const FIRST_PORT: u16 = 12_000;
/// The number of these ports.
const PORTS: u16 = 20_000;
/// How many of them one process of tests uses before those of another one.
const PORTS_OF_PROCESS: u32 = 500;

/// A port on which nothing listens, and which no other test of this process was given.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id().wrapping_mul(PORTS_OF_PROCESS);
    loop {
        let nth = process.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_PORT + (nth % u32::from(PORTS)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Different ports on which nothing listens.
pub fn free_ports<const NUMBER: usize>() -> [u16; NUMBER] {
    [(); NUMBER].map(|()| free_port())
}
