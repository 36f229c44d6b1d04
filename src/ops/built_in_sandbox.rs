//! The built-in account `sandbox`: a service inside this process, whose state is stored in a file
//! between commands.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::error_sources::cannot_write;
use super::{NextStep, OpError, OpErrorKind};
use crate::api::http::ApiKey;
use crate::clock::Clock;
use crate::config::Home;
use crate::files::{Durability, private_folder_of, read_private, replace};
use crate::sandbox::behaviour::RateLimit;
use crate::sandbox::sample_account::sample_account;
use crate::sandbox::{Behaviour, SandboxService, SandboxTransport, Store};

/// The key of the built-in account; no other service accepts it.
const KEY: &str = "sandbox";

/// The rate limit of the built-in account in requests per minute: high, so that commands are fast.
pub const LIMIT: u64 = 600;

/// The transport to the built-in account, and its key. Creates its state if there is none.
///
/// # Errors
/// If the state cannot be read, or not be created.
pub fn transport(
    home: &Home,
    clock: &Arc<dyn Clock>,
) -> Result<(SandboxTransport, ApiKey), OpError> {
    let file = home.sandbox_file();
    let store = match load(&file)? {
        Some(store) => store,
        None => {
            let store = sample_account(clock.now());
            save(&store, &file).map_err(|error| cannot_write(&file, &error))?;
            store
        }
    };
    let key = ApiKey::new(KEY);
    let behaviour = Behaviour { rate_limit: RateLimit::Per(LIMIT), ..Behaviour::default() };
    let service = SandboxService::new(store, key.clone(), behaviour).with_log_limit(0);
    let transport = SandboxTransport::new(Arc::new(Mutex::new(service)), Arc::clone(clock))
        .with_on_write(saver(file));
    Ok((transport, key))
}

/// The largest state that is read, in bytes.
const LARGEST: u64 = 1 << 30;

/// The state in `file`; `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, or is not a state of the sandbox.
pub fn load(file: &Path) -> Result<Option<Store>, OpError> {
    let bytes = match read_private(file, LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("cannot read {}: {error}", file.display());
            return Err(OpError::new(OpErrorKind::Failed, message));
        }
    };
    let store = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("cannot read {} as a state of the sandbox: {error}", file.display());
        OpError::new(OpErrorKind::Failed, message).next(NextStep::RemoveSandboxFile)
    })?;
    Ok(Some(store))
}

/// Replaces the file by the new state, atomically.
///
/// # Errors
/// If the file cannot be written; it is then unchanged.
pub fn save(store: &Store, file: &Path) -> std::io::Result<()> {
    private_folder_of(file)?;
    replace(file, &serde_json::to_vec(store)?, Durability::Unsynced)
}

/// A function that saves the service's state after each write. A failure to save is logged; the
/// write itself remains in effect.
pub fn saver(file: PathBuf) -> impl Fn(&SandboxService) + Send + Sync + 'static {
    move |service| {
        if let Err(error) = save(service.store(), &file) {
            tracing::error!("cannot write {}: {error}", file.display());
        }
    }
}
