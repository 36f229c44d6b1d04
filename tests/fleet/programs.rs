//! Programs that tests start, and ports for them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

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

/// A port on which nothing listens.
pub fn free_port() -> u16 {
    let [port] = free_ports();
    port
}

/// Different ports on which nothing listens.
pub fn free_ports<const NUMBER: usize>() -> [u16; NUMBER] {
    let listeners = [(); NUMBER].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|it| it.local_addr().unwrap().port())
}
