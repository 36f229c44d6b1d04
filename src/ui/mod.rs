//! The web UI: the status of the accounts, their changes and runs. It reads vaults and changes
//! nothing.
//!
//! In reading order: [`guard`] access control · `routes` URLs and HTTP responses · [`pages`] the
//! content of each page · [`chart`] and [`chart_ticks`] charts · [`links`] URLs of pages ·
//! [`time_text`] times and values as text · [`escape`] escapes values · [`metrics`] for Prometheus
//! ·
//! `server` the socket · `connection_slots` limits open connections · `token_penalties` delays
//! after
//! wrong tokens.

mod accounts;
pub mod chart;
pub mod chart_ticks;
mod connection_slots;
pub mod escape;
pub mod guard;
pub mod links;
pub mod metrics;
pub mod pages;
mod routes;
mod server;
#[cfg(test)]
pub(crate) mod tests;
pub mod time_text;
mod token_penalties;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use accounts::{AccountList, Accounts, FleetEntry, FleetList, Unavailable, VaultFile};
pub use guard::AccessToken;

pub use axum::Router;

use crate::clock::Clock;
use crate::server::Server;

/// Address and access of the web UI.
#[derive(Debug, Clone)]
pub struct WebUiSettings {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// The required token. `None` is allowed only for loopback addresses.
    pub token: Option<AccessToken>,
    /// Allowed host names, besides those of this machine.
    pub hosts: Vec<String>,
}

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves the web UI until [`Server::stop`].
///
/// # Errors
/// `InvalidInput` when other machines can reach it and there is no token; else when the address
/// cannot be listened on.
pub fn start(
    settings: WebUiSettings,
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
) -> io::Result<Server> {
    let listen = settings.listen;
    server::serve(listen, router(settings, accounts, clock)?, server::HEADER_TIME)
}

/// The web UI without a socket, with the same guard and routes as [`start`].
///
/// # Errors
/// `InvalidInput` when other machines can reach `settings.listen` and there is no token.
pub fn router(
    settings: WebUiSettings,
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
) -> io::Result<Router> {
    let guard = guard::AccessGuard::new(settings.listen, settings.token, settings.hosts)
        .map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
    Ok(routes::router(routes::UiServer::new(accounts, clock, guard, REQUEST_TIMEOUT)))
}
