//! The one request that tells whose account it is, and whether the key is accepted.

use super::error::CrawlError;
use crate::api::client::{Client, GetOptions};
use crate::api::envelope;
use crate::api::error::ApiError;
use crate::api::http::Response;
use crate::model::{DecodedRecord, Resource, Verb};
use crate::vault::{AccountIdentity, Vault};

/// The service's answer to a request for the account.
pub struct AccountAnswer {
    pub response: Response,
    path: &'static str,
}

impl AccountAnswer {
    /// The account's own record.
    ///
    /// # Errors
    /// When the answer shows none, or one without an id.
    pub fn record(&self, client: &Client) -> Result<DecodedRecord<'_>, CrawlError> {
        let raw = envelope::single(&self.response.body, "data")
            .map_err(|why| client.malformed_response(self.path, &self.response, &why))?;
        DecodedRecord::read(Resource::Account, None, raw.get()).map_err(CrawlError::Account)
    }
}

/// Reads the account that `client` speaks for.
///
/// # Errors
/// When the service cannot be asked, or refuses the key.
pub fn request_account(
    client: &mut Client,
    options: &GetOptions,
) -> Result<AccountAnswer, ApiError> {
    let path = Resource::Account.spec().endpoint(Verb::List).map_or("", |it| it.path);
    Ok(AccountAnswer { response: client.get_account(path, options)?, path })
}

/// Proves that the account that `client` speaks for is the one of `vault`.
///
/// # Errors
/// When the account cannot be read, or the vault belongs to another one.
pub fn verify_account(
    client: &mut Client,
    vault: &mut Vault,
    service: &str,
) -> Result<(), CrawlError> {
    let answer = request_account(client, &GetOptions::default())?;
    Ok(vault.claim(&identity(&answer.record(client)?, service), false)?)
}

/// Whose account `record` is, at `service`.
pub(super) fn identity(record: &DecodedRecord<'_>, service: &str) -> AccountIdentity {
    let service = service.trim_end_matches('/').to_owned();
    AccountIdentity { service, account: record.record.key.id() }
}
