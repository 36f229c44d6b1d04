//! The address of a service, checked before a key is sent there. Pure: no name lookup, no
//! connection.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A service's address: the URL before `/api`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    secure: bool,
    authority: String,
    host: String,
    prefix: String,
}

/// Why a text is not a valid address of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// The text does not begin with `https://` or `http://`.
    #[error("the url must begin with https://")]
    Scheme,
    /// There is no host, or an invalid IPv6 address.
    #[error("the url has no host")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the url's port is not a number from 1 to 65535")]
    Port,
    /// There is an `@` before the path.
    #[error("the url must not contain a user name or password; the key is configured separately")]
    UserInfo,
    /// There is a query or a fragment.
    #[error("the url must not contain a query or a fragment")]
    Query,
    /// A character is not allowed in a URL, or the path has a segment `.` or `..`.
    #[error("the url contains an invalid character")]
    Character,
    #[error(
        "plain http would send the key unencrypted; \
         use https, or set allow_http for this account"
    )]
    /// The scheme is `http`, the host is not this machine, and `allow_http` is off.
    PlainHttp,
}

impl BaseUrl {
    /// Parses an address. A trailing slash and a trailing `/api` are optional.
    ///
    /// # Errors
    /// [`BaseUrlError`]. Plain `http` is accepted for loopback addresses, and for others only with
    /// `allow_http`.
    pub fn parse(text: &str, allow_http: bool) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        let (secure, rest) = scheme(text).ok_or(BaseUrlError::Scheme)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(BaseUrlError::UserInfo);
        }
        if path.contains(['?', '#']) {
            return Err(BaseUrlError::Query);
        }
        let host = host(authority)?;
        let prefix = prefix(path)?;
        if !secure && !allow_http && !is_loopback(&host) {
            return Err(BaseUrlError::PlainHttp);
        }
        Ok(Self { secure, authority: authority.to_ascii_lowercase(), host, prefix })
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn secure(&self) -> bool {
        self.secure
    }

    /// The host, without port and path.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    fn service_name(&self) -> String {
        let (scheme, default) = if self.secure { ("https", 443) } else { ("http", 80) };
        let host = self.host.strip_suffix('.').unwrap_or(&self.host);
        let host = match host.parse::<Ipv6Addr>() {
            Ok(Ipv6Addr::LOCALHOST) => "localhost".to_owned(),
            Ok(address) => format!("[{address}]"),
            Err(_) if host == "127.0.0.1" => "localhost".to_owned(),
            Err(_) => host.to_owned(),
        };
        let after_host = self.authority.rsplit_once(']').map_or(&*self.authority, |(_, it)| it);
        let port = after_host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.filter(|port| *port != default);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{}", self.prefix)
    }

    /// The complete URL of `path`, which must begin with `/api`.
    #[must_use]
    pub fn join(&self, path: &str) -> String {
        format!("{self}{path}")
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

/// One name for all spellings of a service's address: with the case of the host, the default port,
/// a dot or slashes at the end, or another name of this machine. A text that is no address, such as
/// that of the built-in sandbox, stays the same.
#[must_use]
pub fn service_name(service: &str) -> String {
    BaseUrl::parse(service, true).map_or_else(|_| service.to_owned(), |base| base.service_name())
}

fn scheme(text: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Some((true, rest)),
        "http" => Some((false, rest)),
        _ => None,
    }
}

fn host(authority: &str) -> Result<String, BaseUrlError> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(BaseUrlError::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| BaseUrlError::Host)?;
        (
            host,
            if after.is_empty() {
                None
            } else {
                Some(after.strip_prefix(':').ok_or(BaseUrlError::Port)?)
            },
        )
    } else {
        let (host, port) =
            authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if !host.bytes().all(allowed) {
            return Err(BaseUrlError::Character);
        }
        (host, port)
    };
    if host.is_empty() {
        return Err(BaseUrlError::Host);
    }
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match port.map(|port| (digits(port), port.parse::<u16>())) {
        None | Some((true, Ok(1..))) => Ok(host.to_ascii_lowercase()),
        Some(_) => Err(BaseUrlError::Port),
    }
}

fn prefix(path: &str) -> Result<String, BaseUrlError> {
    let fits = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}')
    };
    let dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    if dots || !path.bytes().all(fits) {
        return Err(BaseUrlError::Character);
    }
    let path = path.trim_end_matches('/');
    Ok(path.strip_suffix("/api").unwrap_or(path).trim_end_matches('/').to_owned())
}

/// Whether the host is certainly this machine. Other names may resolve to any address.
fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(text: &str) -> Result<String, BaseUrlError> {
        BaseUrl::parse(text, false).map(|base| base.join("/api/qr"))
    }

    #[test]
    fn a_trailing_slash_or_api_makes_no_difference_and_a_prefix_is_kept() {
        for text in [
            "https://Links.example.com",
            "https://links.example.com/",
            "HTTPS://links.example.com/api",
            "https://links.example.com/api/",
            " https://links.example.com ",
        ] {
            assert_eq!(joined(text).unwrap(), "https://links.example.com/api/qr", "{text}");
        }
        assert_eq!(
            joined("https://x.example:8443/short/api").unwrap(),
            "https://x.example:8443/short/api/qr"
        );
        assert_eq!(joined("https://x.example/myapi").unwrap(), "https://x.example/myapi/api/qr");
    }

    #[test]
    fn plain_http_is_accepted_only_for_loopback_unless_allowed() {
        for text in
            ["http://127.0.0.1:8080", "http://127.9.9.9", "http://localhost:1", "http://[::1]:80"]
        {
            assert!(joined(text).is_ok(), "{text}");
        }
        for text in [
            "http://links.example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example",
            "http://10.0.0.1",
            "http://127.1",
            "http://[::2]",
        ] {
            assert_eq!(joined(text), Err(BaseUrlError::PlainHttp), "{text}");
            assert!(BaseUrl::parse(text, true).is_ok(), "{text}");
        }
    }

    #[test]
    fn urls_that_could_leak_the_key_are_refused() {
        for (text, why) in [
            ("links.example.com", BaseUrlError::Scheme),
            ("ftp://links.example.com", BaseUrlError::Scheme),
            ("https://", BaseUrlError::Host),
            ("https:///api", BaseUrlError::Host),
            ("https://:443", BaseUrlError::Host),
            ("https://user:pw@links.example.com", BaseUrlError::UserInfo),
            ("http://127.0.0.1@evil.example", BaseUrlError::UserInfo),
            ("https://x.example?key=1", BaseUrlError::Query),
            ("https://x.example/#a", BaseUrlError::Query),
            ("https://x.example:0", BaseUrlError::Port),
            ("https://x.example:99999", BaseUrlError::Port),
            ("https://x.example:+80", BaseUrlError::Port),
            ("https://x.example:", BaseUrlError::Port),
            ("https://x example", BaseUrlError::Character),
            ("https://x.example\\@evil.example", BaseUrlError::UserInfo),
            ("https://x.example\\evil.example", BaseUrlError::Character),
            ("https://x.example/a/../b", BaseUrlError::Character),
            ("https://x.example/\r\nHost: evil", BaseUrlError::Character),
            ("https://[::1", BaseUrlError::Host),
        ] {
            assert_eq!(joined(text), Err(why), "{text}");
        }
    }

    #[test]
    fn spellings_of_one_service_have_one_name_and_others_do_not() {
        for (name, spellings) in [
            (
                "https://links.example.com",
                &[
                    "https://links.example.com",
                    "https://Links.Example.COM/",
                    "https://links.example.com:443/api",
                    "HTTPS://links.example.com.:0443//",
                ][..],
            ),
            (
                "http://localhost:8080",
                &[
                    "http://127.0.0.1:8080",
                    "http://LOCALHOST:8080/",
                    "http://[::1]:8080",
                    "http://[0:0::1]:8080/api/",
                ],
            ),
            ("http://localhost", &["http://localhost", "http://127.0.0.1:80"]),
            ("https://x.example:8443", &["https://x.example:8443/"]),
            ("https://x.example:80", &["https://x.example:80"]),
            ("http://x.example", &["http://x.example:80"]),
            (
                "https://x.example/short",
                &["https://x.example/short/", "https://x.example/short/api"],
            ),
            ("http://127.9.9.9:8080", &["http://127.9.9.9:8080"]),
            ("https://[2001:db8::1]", &["https://[2001:DB8:0::1]:443"]),
            ("sandbox", &["sandbox"]),
        ] {
            for text in spellings {
                assert_eq!(service_name(text), name, "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}", rest in "\\PC{0,20}") {
            let _any = joined(&text);
            let _any = joined(&format!("https://{rest}"));
        }
    }
}
