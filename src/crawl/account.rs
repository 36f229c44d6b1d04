//! The request for the account, which confirms the account's identity and the key.

use super::error::CrawlError;
use crate::api::client::{Client, GetOptions};
use crate::api::envelope;
use crate::api::error::ApiError;
use crate::api::http::Response;
use crate::clock::{Clock, ClockReading};
use crate::model::{DecodedRecord, Resource, Verb};
use crate::vault::{AccountIdentity, Vault};

/// The service's response to the request for the account.
pub struct AccountAnswer {
    /// The response, a success by its envelope.
    pub response: Response,
    path: &'static str,
}

impl AccountAnswer {
    /// The account's own record.
    ///
    /// # Errors
    /// If the response contains no record, or one without an id.
    pub fn record(&self, client: &Client) -> Result<DecodedRecord<'_>, CrawlError> {
        let raw = envelope::single(&self.response.body, "data")
            .map_err(|why| client.malformed_response(self.path, &self.response, &why))?;
        DecodedRecord::read(Resource::Account, None, raw.get()).map_err(CrawlError::Account)
    }
}

/// A request that confirmed that the account is the vault's own, and what its client had counted by
/// then.
#[derive(Debug, Clone, Copy)]
pub struct AccountCheck {
    /// When it was sent, or before.
    pub at: ClockReading,
    /// Requests, with this one.
    pub requests: u64,
    /// Requests that failed because there was no connection: a new connection may lead to another
    /// service.
    pub failures: u64,
    /// Requests after a long pause.
    pub pauses: u64,
}

impl AccountCheck {
    /// The check that is the next request of `client`.
    #[must_use]
    pub fn next(clock: &dyn Clock, client: &Client) -> Self {
        Self {
            at: ClockReading::now(clock),
            requests: client.counters().requests + 1,
            failures: client.connection_failures(),
            pauses: client.pauses(),
        }
    }
}

/// Reads the account of `client`.
///
/// # Errors
/// If there is no usable response, or the key is refused.
pub fn request_account(
    client: &mut Client,
    options: &GetOptions,
) -> Result<AccountAnswer, ApiError> {
    let path = Resource::Account.spec().endpoint(Verb::List).map_or("", |it| it.path);
    Ok(AccountAnswer { response: client.get_account(path, options)?, path })
}

/// Confirms that the account of `client` is that of `vault`.
///
/// # Errors
/// If the account cannot be read, or the vault belongs to another one.
pub fn verify_account(
    client: &mut Client,
    vault: &mut Vault,
    service: &str,
) -> Result<(), CrawlError> {
    let answer = request_account(client, &GetOptions::default())?;
    Ok(vault.claim(&identity(&answer.record(client)?, service), false)?)
}

/// The identity of the account `record` at `service`.
pub(super) fn identity(record: &DecodedRecord<'_>, service: &str) -> AccountIdentity {
    let service = service.trim_end_matches('/').to_owned();
    AccountIdentity { service, account: record.record.key.id() }
}
