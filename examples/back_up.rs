//! Backs up an account into a vault and reads the records back.
//!
//! The account is the built-in sandbox. For your own, write a configuration file to the
//! home folder, or leave `with_home` out to use the one that `linkvault init` made.
//!
//!     cargo run --example back_up

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use linkvault::clock::{Interrupt, SystemClock};
use linkvault::config::Home;
use linkvault::model::Resource;
use linkvault::ops::backup::{BackupRequest, backup};
use linkvault::ops::state_ref::newest_state;
use linkvault::ops::{Env, NoEvents};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Prints what a backup saved.
///
/// # Errors
/// When the account cannot be read, or the vault not be written.
pub fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let env = Env::new(clock, Arc::new(NoEvents)).with_home(Home::at(folder.path()));
    let account = env.account("sandbox")?;

    let report = backup(&env, &BackupRequest::new("backup", &account))?;
    let snapshot = &report.summary.snapshot;
    writeln!(out, "snapshot #{}: {}", snapshot.number, snapshot.status.name())?;
    for outcome in &snapshot.outcomes {
        writeln!(out, "{:>4} {} ({})", outcome.records, outcome.resource, outcome.state.name())?;
    }

    writeln!(out, "the campaigns, each as the service sent it:")?;
    let state = newest_state(&account)?.state()?;
    for record in state.get(Resource::Campaigns).into_iter().flat_map(|records| records.values()) {
        writeln!(out, "{}", record.raw)?;
    }
    Ok(())
}
