//! Addresses from the configuration for alerts and heartbeats. Their paths are often secret, so
//! only the host is shown.

use std::fmt;

use crate::api::base_url::{BaseUrl, BaseUrlError};

/// A valid address. `Display` and `Debug` show only the host.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    url: String,
    host: String,
    secure: bool,
}

impl WebhookUrl {
    /// Parses an address. Plain `http` is accepted, because no API key is sent there.
    ///
    /// # Errors
    /// [`BaseUrlError`] if it is not valid.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let base = BaseUrl::parse(base, true)?;
        if !query.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>#\\^`{|}".contains(&byte)) {
            return Err(BaseUrlError::Character);
        }
        Ok(Self { url: text.to_owned(), host: base.host().to_owned(), secure: base.secure() })
    }

    /// The complete address. Use it only for the request.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.url
    }

    /// The address of the host's root.
    #[must_use]
    pub fn root(&self) -> &str {
        let place = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[place..].find(['/', '?']).map_or(self.url.len(), |at| place + at);
        &self.url[..end]
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn secure(&self) -> bool {
        self.secure
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({}…)", self.host)
    }
}

#[cfg(test)]
mod tests {
    use crate::api::webhook_url::*;

    #[test]
    fn only_the_host_is_ever_shown() {
        let hook =
            WebhookUrl::parse("https://chat.example.com/hooks/s3cret/api?token=t0p").unwrap();
        assert_eq!(hook.reveal(), "https://chat.example.com/hooks/s3cret/api?token=t0p");
        assert_eq!(format!("{hook} {hook:?}"), "chat.example.com Hook(chat.example.com…)");
        assert!(!WebhookUrl::parse("http://alerts:9093/").unwrap().secure());
    }

    #[test]
    fn invalid_urls_are_refused() {
        let bad = ["", "chat.example.com", "ftp://x", "https://u:p@x/", "https://x/#f", "https://"];
        for text in bad.into_iter().chain(["https://x/?a=\"", "https://x/?#f", "https://x/a b"]) {
            assert!(WebhookUrl::parse(text).is_err(), "{text}");
        }
    }
}
