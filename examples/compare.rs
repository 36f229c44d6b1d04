//! Imports a CSV file between two backups and prints what changed between them.
//!
//!     cargo run --example compare

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use linkvault::change::record_filter::RecordFilter;
use linkvault::clock::{Interrupt, SystemClock};
use linkvault::config::Home;
use linkvault::ops::account_session::SessionLimits;
use linkvault::ops::apply::{ApplyInput, ApplyRequest, RunOptions, apply};
use linkvault::ops::backup::{BackupRequest, backup};
use linkvault::ops::diff::{DiffRequest, compare};
use linkvault::ops::input::{CsvOptions, InputOptions};
use linkvault::ops::{Env, NoEvents};
use linkvault::vault::journal::RunCommand;

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Prints the difference of two snapshots.
///
/// # Errors
/// When the account cannot be read or changed.
pub fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let env = Env::new(clock, Arc::new(NoEvents)).with_home(Home::at(folder.path()));
    let account = env.account("sandbox")?;
    backup(&env, &BackupRequest::new("backup", &account))?;

    let file = folder.path().join("campaigns.csv");
    std::fs::write(&file, "id,name\n3,Letter to readers\n,Winter Reading List\n")?;
    let request = ApplyRequest {
        account: &account,
        command: RunCommand::Import,
        input: ApplyInput::Files(vec![file]),
        options: InputOptions::default(),
        policy: Default::default(),
        password: None,
        run: RunOptions { yes: true, ..RunOptions::default() },
        limits: SessionLimits::default(),
    };
    apply(&env, request)?;
    backup(&env, &BackupRequest::new("backup", &account))?;

    let request = DiffRequest {
        from: "sandbox@1",
        to: None,
        only: &[],
        skip: &[],
        filter: RecordFilter::default(),
        resource: None,
        encoding: None,
        csv: CsvOptions::default(),
        limits: SessionLimits::default(),
    };
    for change in &compare(&env, &request)?.found.changes {
        writeln!(out, "{} {} {}", change.resource, change.key, change.kind.name())?;
        for field in &change.fields {
            writeln!(out, "    {}: {} -> {}", field.name, field.before, field.after)?;
        }
    }
    Ok(())
}
