//! A connection to Temporal. The address and the namespace are those of `[fleet]`; certificates
//! and an API key come from the environment, as Temporal's own tools read them.

use std::time::Duration;

use temporalio_client::envconfig::{
    ClientConfigProfile, ConfigError, LoadClientConfigProfileOptions,
};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest as _;
use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions, Url};
use temporalio_common::envconfig::load_client_config_profile;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;

use super::error::{TemporalError, TemporalErrorKind};
use crate::config::FleetSettings;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The environment variables with secrets for Temporal.
pub const SECRET_VARIABLES: &[&str] = &["TEMPORAL_API_KEY"];

/// Connects to the server of `settings` under the name `identity`.
///
/// # Errors
/// If there is no server, it does not accept the credentials, or a setting cannot be used.
pub async fn connect(settings: &FleetSettings, identity: &str) -> Result<Client, TemporalError> {
    let options = options(settings, environment()?, identity)?;
    let connection =
        match tokio::time::timeout(2 * CONNECT_TIMEOUT, Connection::connect(options)).await {
            Ok(connected) => connected?,
            Err(_) => return Err(TemporalError::new(TemporalErrorKind::NoServer, "no answer")),
        };
    let options = ClientOptions::new(settings.namespace.as_str()).build();
    let mut client = Client::new(connection, options)
        .map_err(|error| TemporalError::new(TemporalErrorKind::Settings, error.to_string()))?;
    let request = DescribeNamespaceRequest {
        namespace: settings.namespace.clone(),
        ..DescribeNamespaceRequest::default()
    };
    WorkflowService::describe_namespace(&mut client, request.into_request()).await?;
    Ok(client)
}

/// The settings of the environment, without Temporal's own configuration file.
fn environment() -> Result<ClientConfigProfile, TemporalError> {
    let options = LoadClientConfigProfileOptions::builder().disable_file(true).build();
    load_client_config_profile(options, None).map_err(wrong_setting)
}

fn options(
    settings: &FleetSettings,
    environment: ClientConfigProfile,
    identity: &str,
) -> Result<ConnectionOptions, TemporalError> {
    let from_environment = ConnectionOptions::try_from(environment).map_err(wrong_setting)?;
    let target = Url::parse(&settings.temporal)
        .map_err(|error| TemporalError::new(TemporalErrorKind::Settings, error.to_string()))?;
    let secure = target.scheme() == "https";
    let tls = from_environment.tls_options.or_else(|| secure.then(Default::default));
    if !secure && tls.is_some() {
        let what = "certificates or an API key are set, so the address must begin with https://";
        return Err(TemporalError::new(TemporalErrorKind::Settings, what));
    }
    Ok(ConnectionOptions::new(target)
        .identity(identity)
        .maybe_api_key(from_environment.api_key)
        .maybe_tls_options(tls)
        .maybe_headers(from_environment.headers)
        .connect_timeout(CONNECT_TIMEOUT)
        .build())
}

fn wrong_setting(error: ConfigError) -> TemporalError {
    TemporalError::new(TemporalErrorKind::Settings, error.to_string())
}
