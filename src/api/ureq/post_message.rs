//! Sends a message to an address from the configuration, without an API key and without following
//! redirects. It reads only the status of the response.

use std::time::Duration;

use ureq::Agent;

use crate::api::ureq::certificates::TrustedCertificates;
use crate::api::ureq::describe;
use crate::api::webhook_url::WebhookUrl;

/// Timeout of a message with its response.
const TIME: Duration = Duration::from_secs(30);

/// Sends `body` as JSON with these headers in a POST to `hook`; without a body, sends a GET.
///
/// # Errors
/// In words, without the address's path. A status other than 2xx is an error.
pub fn post_message(
    hook: &WebhookUrl,
    body: Option<&[u8]>,
    headers: &[(&str, &str)],
    trust: Option<&TrustedCertificates>,
) -> Result<(), String> {
    let agent = agent(hook, trust, TIME);
    let answer = match body {
        Some(body) => {
            let mut request = agent.post(hook.reveal()).header("content-type", "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.send(body)
        }
        None => agent.get(hook.reveal()).call(),
    };
    let status = answer.map_err(|error| format!("{hook}: {}", describe(&error)))?.status();
    if status.is_success() {
        return Ok(());
    }
    let redirect = if status.is_redirection() { ", a redirect, which is not followed" } else { "" };
    Err(format!("{hook} answered {}{redirect}", status.as_u16()))
}

/// Timeout of [`reach_host`].
const REACH_TIME: Duration = Duration::from_secs(10);

/// Whether the host of `hook` responds, with whatever status. Requests only its root, which no receiver
/// takes for a message.
///
/// # Errors
/// In words.
pub fn reach_host(hook: &WebhookUrl, trust: Option<&TrustedCertificates>) -> Result<(), String> {
    let answer = agent(hook, trust, REACH_TIME).head(hook.root()).call();
    answer.map(drop).map_err(|error| format!("{hook}: {}", describe(&error)))
}

fn agent(hook: &WebhookUrl, trust: Option<&TrustedCertificates>, time: Duration) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .https_only(hook.secure())
        .user_agent(concat!("linkvault/", env!("CARGO_PKG_VERSION")))
        .max_idle_connections(0)
        .timeout_global(Some(time));
    if !hook.secure() {
        config = config.proxy(None);
    }
    if let Some(trust) = trust {
        config = config.tls_config(trust.config());
    }
    Agent::new_with_config(config.build())
}
