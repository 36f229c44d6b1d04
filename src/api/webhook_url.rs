//! Addresses that the account's owner named for messages: webhooks and
//! heartbeats. Their paths are often secret, so only the host is ever shown.

use std::fmt;

use crate::api::base_url::{BaseUrl, BaseUrlError};

/// A checked address.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    url: String,
    host: String,
    secure: bool,
}

impl WebhookUrl {
    /// Reads an address; no account's key goes there, so plain http will do.
    ///
    /// # Errors
    /// [`BaseUrlError`] when it is none.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let base = BaseUrl::parse(base, true)?;
        if !query.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>#\\^`{|}".contains(&byte)) {
            return Err(BaseUrlError::Character);
        }
        Ok(Self { url: text.to_owned(), host: base.host().to_owned(), secure: base.secure() })
    }

    /// The whole address, for the request alone.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.url
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
    fn what_is_no_address_is_refused() {
        let bad = ["", "chat.example.com", "ftp://x", "https://u:p@x/", "https://x/#f", "https://"];
        for text in bad.into_iter().chain(["https://x/?a=\"", "https://x/?#f", "https://x/a b"]) {
            assert!(WebhookUrl::parse(text).is_err(), "{text}");
        }
    }
}
