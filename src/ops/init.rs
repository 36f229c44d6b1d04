//! Adds an account to the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use super::account_session::trusted_certificates;
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::api::client::{Client, GetOptions};
use crate::api::pacer::Pacer;
use crate::api::ureq::{TransportOptions, UreqTransport};
use crate::config::{NewAccount, NewKey, SecretKind, add_account, require_new_key_file};
use crate::crawl::request_account;

/// Refuses a name that another account has.
///
/// # Errors
/// If there is such an account, or the configuration has mistakes.
pub fn require_new_name(env: &Env, name: &str) -> Result<(), OpError> {
    if env.config()?.accounts().iter().all(|account| account.name != name) {
        return Ok(());
    }
    let file = env.home()?.config_file();
    let message = format!("the account `{name}` already exists in {}", file.display());
    Err(OpError::new(OpErrorKind::Config, message).next(NextStep::NameNewAccount))
}

/// The file to which a typed key of the new account `name` would be written.
///
/// # Errors
/// If the name is not allowed, or the file exists.
pub fn new_key_file(env: &Env, name: &str) -> Result<PathBuf, OpError> {
    Ok(require_new_key_file(&env.home()?, name)?)
}

/// Requests the account of the key. Returns its id and name as text: `7 (Anna)`.
///
/// # Errors
/// If the service does not accept the key, or its response is not that of the API.
pub fn check_key(env: &Env, account: &NewAccount) -> Result<String, OpError> {
    env.catch_interrupts();
    let key = match &account.key {
        NewKey::From(source) => env.secret(SecretKind::Key, source)?,
        NewKey::Typed(key) => key.clone(),
    };
    let trust = trusted_certificates(None)?;
    let options =
        TransportOptions { allow_http: account.allow_http, trust, ..TransportOptions::default() };
    let transport = UreqTransport::new(&account.url.to_string(), &options)?;
    let mut client = Client::new(Box::new(transport), Arc::clone(&env.clock), Pacer::new(0))
        .with_redactor(env.redactor.clone())
        .with_key(key)
        .with_progress(env.progress(&account.name));
    // A person waits and may have made a typing error, so there are no retries.
    let answer = request_account(&mut client, &GetOptions { retries: Some(0) })?;
    let account = answer.record(&client)?.record;
    let name = account.values.get(2).map(|name| name.cell().into_owned());
    Ok(format!("{} ({})", account.key, name.unwrap_or_default()))
}

/// Writes the account to the configuration, and returns the file.
///
/// # Errors
/// If the file cannot be written; it is then unchanged.
pub fn write_account(env: &Env, account: &NewAccount) -> Result<PathBuf, OpError> {
    Ok(add_account(&env.home()?, account)?)
}
