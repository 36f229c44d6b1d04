//! Access to the web UI, from flags and configuration, for `ui` and `daemon`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{App, CliError, OpErrorKind, hints};
use crate::config::{DaemonSettings, KeySource, SecretKind};
use crate::ui::{AccessToken, WebUiSettings};

/// The flags for access to the web UI.
#[derive(Debug, Clone, clap::Args)]
pub struct UiArgs {
    /// File with the access token of the web UI
    #[arg(long, value_name = "FILE", env = "LINKVAULT_UI_TOKEN_FILE", hide_env_values = true)]
    pub token_file: Option<PathBuf>,
    /// Additional host name that the web UI accepts
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub allow_host: Vec<String>,
}

impl UiArgs {
    /// These flags, with the values of the configuration for flags that are not given.
    #[must_use]
    pub fn with_defaults(&self, settings: DaemonSettings) -> Self {
        let token_file = self.token_file.clone().or(settings.token_file);
        let allow_host =
            if self.allow_host.is_empty() { settings.allow_host } else { self.allow_host.clone() };
        Self { token_file, allow_host }
    }

    /// The settings of the web UI at the address `listen`.
    ///
    /// # Errors
    /// If the token cannot be read or is too short.
    pub fn settings(&self, app: &App, listen: SocketAddr) -> Result<WebUiSettings, CliError> {
        let source = self.token_file.clone().map(KeySource::File);
        let token = source.map(|source| token(app, &source)).transpose()?;
        Ok(WebUiSettings { listen, token, hosts: self.allow_host.clone() })
    }
}

/// Reads the token from `source`.
///
/// # Errors
/// If it cannot be read or is too short.
fn token(app: &App, source: &KeySource) -> Result<AccessToken, CliError> {
    let secret = app.env.secret(SecretKind::PageToken, source)?;
    let length = secret.reveal().chars().count();
    if length < SHORTEST_TOKEN {
        let message = format!(
            "cannot use the page token: it has {length} characters and needs {SHORTEST_TOKEN}"
        );
        return Err(CliError::new(OpErrorKind::Config, message).hint(hints::MAKE_TOKEN));
    }
    AccessToken::new(secret.reveal()).map_err(|error| {
        CliError::new(OpErrorKind::Failed, format_args!("cannot make a cookie: {error}"))
    })
}

/// The minimum length of a token in characters; a shorter one can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// The error if the web UI cannot be served at `listen`.
pub fn cannot_serve(listen: SocketAddr, error: &io::Error) -> CliError {
    if error.kind() == io::ErrorKind::InvalidInput {
        return CliError::new(OpErrorKind::Usage, error).hint(hints::MAKE_TOKEN);
    }
    CliError::new(OpErrorKind::Failed, format_args!("cannot listen on {listen}: {error}"))
        .hint(hints::LISTEN_ELSEWHERE)
}
