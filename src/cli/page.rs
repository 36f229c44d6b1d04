//! Who may see the page, by flags and configuration, for `ui` and `daemon`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{App, CliError, OpErrorKind, hints};
use crate::config::{DaemonSettings, KeySource, SecretKind};
use crate::ui::{AccessToken, WebUiSettings};

/// Who may see the page.
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
    /// With what the configuration says where a flag says nothing.
    #[must_use]
    pub fn over(&self, settings: DaemonSettings) -> Self {
        let token_file = self.token_file.clone().or(settings.token_file);
        let allow_host =
            if self.allow_host.is_empty() { settings.allow_host } else { self.allow_host.clone() };
        Self { token_file, allow_host }
    }

    /// What the server is to be like at `listen`.
    ///
    /// # Errors
    /// When the token cannot be read.
    pub fn settings(&self, app: &App, listen: SocketAddr) -> Result<WebUiSettings, CliError> {
        let source = self.token_file.clone().map(KeySource::File);
        let token = source.map(|source| token(app, &source)).transpose()?;
        Ok(WebUiSettings { listen, token, hosts: self.allow_host.clone() })
    }
}

/// The token that `source` holds.
///
/// # Errors
/// When it holds none.
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

/// A shorter token can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Why the page is not served at `listen`.
pub fn cannot_serve(listen: SocketAddr, error: &io::Error) -> CliError {
    if error.kind() == io::ErrorKind::InvalidInput {
        return CliError::new(OpErrorKind::Usage, error).hint(hints::MAKE_TOKEN);
    }
    CliError::new(OpErrorKind::Failed, format_args!("cannot listen on {listen}: {error}"))
        .hint(hints::LISTEN_ELSEWHERE)
}
