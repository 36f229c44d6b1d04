//! The page: how the accounts fare, what changed and when. It reads vaults and
//! changes nothing.
//!
//! Reading order: [`guard`] who may see it · `routes` what is where · [`pages`]
//! what stands on each · [`chart`] series as drawings, with [`chart_ticks`] · [`links`]
//! where a page is · [`time_text`] its words · [`escape`] what every value passes ·
//! [`metrics`] the same for Prometheus · `server` the socket · `connection_slots` which
//! connections stay open · `token_penalties` how long wrong tokens make a client wait.

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
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use guard::AccessToken;

pub use axum::Router;

use crate::clock::Clock;
use crate::health::account_status::AccountStatus;
use crate::server::Server;

/// The accounts that the page shows, as the process that serves it knows them.
pub trait Accounts: Send + Sync {
    /// How each of them fares now.
    fn account_statuses(&self) -> Vec<AccountStatus>;
    /// How the account of that name fares; `None` where there is none.
    fn account_status(&self, account: &str) -> Option<AccountStatus> {
        self.account_statuses().into_iter().find(|it| it.account == account)
    }
    /// Where the vault of an account is; `None` for an account that is none.
    fn vault(&self, account: &str) -> Option<PathBuf>;
    /// Whether the program does what it is there for.
    ///
    /// # Errors
    /// Why not.
    fn alive(&self) -> Result<(), String>;
}

/// Where and for whom the page is served.
#[derive(Debug, Clone)]
pub struct WebUiSettings {
    pub listen: SocketAddr,
    /// What opens it; without one, only this machine may reach it.
    pub token: Option<AccessToken>,
    /// Names, beside those of this machine, by which the page may be called.
    pub hosts: Vec<String>,
}

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves the page until [`Server::stop`].
///
/// # Errors
/// When others could reach it and there is no token (`InvalidInput`, with what to
/// do), or the address cannot be listened on.
pub fn start(
    settings: WebUiSettings,
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
) -> io::Result<Server> {
    let listen = settings.listen;
    server::serve(listen, router(settings, accounts, clock)?, server::HEADER_TIME)
}

/// The page without a socket: each request goes through the guard and the routes
/// as [`start`] serves them.
///
/// # Errors
/// When others could reach `settings.listen` and there is no token.
pub fn router(
    settings: WebUiSettings,
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
) -> io::Result<Router> {
    let guard = guard::AccessGuard::new(settings.listen, settings.token, settings.hosts)
        .map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
    Ok(routes::router(routes::UiServer::new(accounts, clock, guard, PATIENCE)))
}
