//! Takes two snapshots of an account and tells what changed between them.
//!
//!     cargo run --example compare

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use linkvault::api::client::Client;
use linkvault::api::http::{ApiKey, Method, Request};
use linkvault::api::pacer::Pacer;
use linkvault::change::diff::diff;
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

/// Prints the difference of two snapshots.
///
/// # Errors
/// When the account cannot be read.
pub fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(Interrupt::default()));
    let key = ApiKey::new("any word will do");
    // Two backups need more than the 30 requests a minute of a real service.
    let behaviour = Behaviour::parse("rate-limit=600")?;
    let service = SandboxService::new(lifelike(clock.now()), key.clone(), behaviour);
    let service = Arc::new(Mutex::new(service));
    let transport = SandboxTransport::new(Arc::clone(&service), Arc::clone(&clock));
    let mut client =
        Client::new(Box::new(transport), Arc::clone(&clock), Pacer::new(0)).with_key(key.clone());

    let mut vault = Vault::in_memory()?;
    let options = CrawlOptions::new("http://sandbox.example");
    let first = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options)?;

    // Somebody renames a campaign and deletes a channel.
    for (method, path, body) in [
        (Method::Put, "/api/campaign/3/update", Some(r#"{"name":"Letter to readers"}"#)),
        (Method::Delete, "/api/channel/2/delete", None),
    ] {
        let body = body.map(|body| body.as_bytes().to_vec());
        let request = Request { method, path: path.to_owned(), key: Some(key.clone()), body };
        let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
        service.handle(clock.now(), &request);
    }
    let second = crawl::crawl(&mut client, &mut vault, &*clock, &NoProgress, &options)?;

    let before = vault.state(first.snapshot.number, &Resource::ALL)?;
    let after = vault.state(second.snapshot.number, &Resource::ALL)?;
    for change in &diff(&before, &after).changes {
        writeln!(out, "{} {} {}", change.resource, change.key, change.kind.name())?;
        for field in &change.fields {
            writeln!(out, "    {}: {} -> {}", field.name, field.before, field.after)?;
        }
    }
    Ok(())
}
