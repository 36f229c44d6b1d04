//! Backs an account up into a vault, and reads it back from there.
//!
//! The account lives in a sandbox in this very process. For a service on the
//! network, take a `linkvault::api::ureq::UreqTransport` instead.
//!
//!     cargo run --example back_up

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex};

use linkvault::api::client::Client;
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock, Interrupt, SystemClock};
use linkvault::crawl::{self, CrawlOptions};
use linkvault::model::Resource;
use linkvault::progress::NoProgress;
use linkvault::sandbox::sample_account::lifelike;
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Prints what a backup saved.
///
/// # Errors
/// When the account cannot be read, or the vault not be written.
pub fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(Interrupt::default()));
    let key = ApiKey::new("any word will do");
    let service = SandboxService::new(lifelike(clock.now()), key.clone(), Behaviour::default());

    // A client knows the key and keeps to the service's limit. The pacer's
    // number is what it leaves to the account's other tools.
    let transport = SandboxTransport::new(Arc::new(Mutex::new(service)), Arc::clone(&clock));
    let mut client =
        Client::new(Box::new(transport), Arc::clone(&clock), Pacer::new(2)).with_key(key);

    let folder = tempfile::tempdir()?;
    let mut vault = Vault::open_or_create(&folder.path().join("example.db"))?;
    let options = CrawlOptions::new("http://sandbox.example");
    let summary = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options)?;

    let snapshot = &summary.snapshot;
    writeln!(out, "snapshot #{}: {}", snapshot.number, snapshot.status.name())?;
    for outcome in &snapshot.outcomes {
        writeln!(out, "{:>4} {} ({})", outcome.records, outcome.resource, outcome.state.name())?;
    }

    writeln!(out, "the campaigns, each as the service sent it:")?;
    vault.each(snapshot.number, Resource::Campaigns, |record| {
        // Closures that are given records cannot fail; a lost line is no harm here.
        let _ = writeln!(out, "{}", record.raw);
    })?;
    Ok(())
}
