//! Access control of the web UI: decides from the headers of a request whether it may be answered.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// The token that gives access to the web UI. Compared by its hash in constant time, and never
/// shown.
#[derive(Clone)]
pub struct AccessToken {
    hash: blake3::Hash,
    cookie: blake3::Hash,
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The name of the cookie for a web UI at `port`. Browsers send the cookies of a host to all its
/// ports, so the name contains the port.
fn cookie_name(port: u16) -> String {
    format!("linkvault-{port}")
}

impl AccessToken {
    /// Makes a token from its secret text.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new(secret: &str) -> io::Result<Self> {
        // Random and not derived from the token: otherwise tokens could be guessed as cookies,
        // which
        // have no penalties.
        let mut cookie = [0; 32];
        getrandom::fill(&mut cookie)?;
        Ok(Self { hash: blake3::hash(secret.as_bytes()), cookie: cookie.into() })
    }

    /// Whether `guess` is the token.
    #[must_use]
    pub fn is(&self, guess: &str) -> bool {
        // Hashes are compared in constant time.
        blake3::hash(guess.as_bytes()) == self.hash
    }

    /// The `Set-Cookie` header. The cookie gives access at `port` until the program ends.
    fn cookie(&self, port: u16) -> String {
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000",
            cookie_name(port),
            self.cookie.to_hex()
        )
    }

    fn is_cookie(&self, header: &str, port: u16) -> bool {
        let name = cookie_name(port);
        let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
        let mut ours = pairs.filter(|(found, _)| *found == name);
        ours.any(|(_, value)| blake3::Hash::from_hex(value).is_ok_and(|found| found == self.cookie))
    }
}

/// Decides which requests may be answered.
#[derive(Debug, Clone)]
pub struct AccessGuard {
    listen: SocketAddr,
    token: Option<AccessToken>,
    /// Allowed host names, besides those of this machine.
    hosts: Vec<String>,
}

/// The parts of a request that decide about access.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessRequest<'a> {
    /// Path of the URL.
    pub path: &'a str,
    /// The first `Host` header.
    pub host: Option<&'a str>,
    /// Number of `Host` headers.
    pub hosts: usize,
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
    /// All `Cookie` headers.
    pub cookies: &'a [&'a str],
}

/// The decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDecision<'a> {
    /// The request may be answered.
    Allowed,
    /// The `Host` header names another host.
    OtherHost(&'a str),
    /// There is more than one `Host` header: a proxy may have checked another one.
    SeveralHosts,
    /// The request needs a token and has none.
    NoToken,
    /// The request may be answered if this is the token. Not compared yet.
    CompareToken(&'a str),
}

/// Paths that need no token: they contain nothing about accounts.
const OPEN: [&str; 4] = ["/healthz", "/style.css", "/icon.svg", "/login"];

impl AccessGuard {
    /// A guard for a server that listens at `listen`.
    ///
    /// # Errors
    /// A sentence, when other machines can reach `listen` and there is no token.
    pub fn new(
        listen: SocketAddr,
        token: Option<AccessToken>,
        hosts: Vec<String>,
    ) -> Result<Self, String> {
        if token.is_none() && !listen.ip().is_loopback() {
            return Err(format!(
                "other machines can reach {listen}, so the web UI needs a token: \
                 pass a file with a token as --token-file, or listen on 127.0.0.1"
            ));
        }
        let hosts = hosts.iter().map(|host| name_of(host).to_ascii_lowercase()).collect();
        Ok(Self { listen, token, hosts })
    }

    /// The token, if one is required.
    #[must_use]
    pub const fn token(&self) -> Option<&AccessToken> {
        self.token.as_ref()
    }

    /// The `Set-Cookie` header for a browser that sent the token to `host`, if a token is required.
    #[must_use]
    pub fn cookie(&self, host: Option<&str>) -> Option<String> {
        Some(self.token.as_ref()?.cookie(self.port(host.unwrap_or_default())))
    }

    /// The port in this host, else the port of the listener. Behind a container or a tunnel the
    /// browser's port may differ from the listener's.
    fn port(&self, host: &str) -> u16 {
        port_of(host).unwrap_or(self.listen.port())
    }

    /// Decides whether the request may be answered.
    #[must_use]
    pub fn decide<'a>(&self, request: &AccessRequest<'a>) -> AccessDecision<'a> {
        if request.hosts > 1 {
            return AccessDecision::SeveralHosts;
        }
        let host = request.host.unwrap_or_default();
        if !self.is_own_host(host) {
            return AccessDecision::OtherHost(host);
        }
        let Some(token) = self.token.as_ref().filter(|_| !OPEN.contains(&request.path)) else {
            return AccessDecision::Allowed;
        };
        let port = self.port(host);
        if request.cookies.iter().any(|header| token.is_cookie(header, port)) {
            return AccessDecision::Allowed;
        }
        let bearer = request.authorization.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.map_or(AccessDecision::NoToken, AccessDecision::CompareToken)
    }

    /// Whether `host` names this server. Refuses other names, since an attacker can make a DNS name
    /// resolve to this address (DNS rebinding).
    fn is_own_host(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        if self.hosts.contains(&name) || name == "localhost" {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(&name);
        let Ok(address) = bare.parse::<IpAddr>() else { return false };
        // DNS rebinding works with names only, not with addresses.
        address.is_loopback() || self.listen.ip().is_unspecified() || address == self.listen.ip()
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    split(host).0
}

/// The port of a host that names one.
fn port_of(host: &str) -> Option<u16> {
    split(host).1.parse().ok()
}

/// The name of a host and its port; an empty port if there is none.
fn split(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|it| it.is_ascii_digit()) && !name.ends_with(':') =>
        {
            if name.contains(':') && !name.ends_with(']') { (host, "") } else { (name, port) }
        }
        _ => (host, ""),
    }
}

#[cfg(test)]
mod tests {
    use crate::ui::guard::*;

    fn guard(listen: &str, token: Option<&str>, hosts: &[&str]) -> AccessGuard {
        let token = token.map(|token| AccessToken::new(token).unwrap());
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        AccessGuard::new(listen.parse().unwrap(), token, hosts).unwrap()
    }

    fn is_allowed_host(guard: &AccessGuard, host: &str) -> bool {
        let request = AccessRequest { path: "/", host: Some(host), ..AccessRequest::default() };
        guard.decide(&request) == AccessDecision::Allowed
    }

    #[test]
    fn only_hosts_of_this_machine_are_allowed() {
        let own = guard("127.0.0.1:8080", None, &[]);
        for host in
            ["localhost", "LocalHost:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]:80", "[::1]"]
        {
            assert!(is_allowed_host(&own, host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "192.0.2.7",
            "evil.example:80@127.0.0.1",
            "[::1",
            ":8080",
        ] {
            assert!(!is_allowed_host(&own, host), "{host}");
        }
        assert_eq!(own.decide(&AccessRequest::default()), AccessDecision::OtherHost(""));
    }

    #[test]
    fn other_host_names_must_be_allowed() {
        let named = guard("192.0.2.7:80", Some("t"), &["Vault.Example:8080"]);
        let request =
            |host| AccessRequest { path: "/healthz", host: Some(host), ..AccessRequest::default() };
        assert_eq!(named.decide(&request("vault.example")), AccessDecision::Allowed);
        assert_eq!(named.decide(&request("192.0.2.7:80")), AccessDecision::Allowed);
        assert_ne!(named.decide(&request("192.0.2.8:80")), AccessDecision::Allowed);
        let everywhere = guard("0.0.0.0:80", Some("t"), &[]);
        assert_eq!(everywhere.decide(&request("192.0.2.8:80")), AccessDecision::Allowed);
        assert_ne!(everywhere.decide(&request("vault.example")), AccessDecision::Allowed);
    }

    #[test]
    fn a_public_address_needs_a_token() {
        for listen in ["0.0.0.0:80", "192.0.2.7:80", "[::]:80"] {
            let refused = AccessGuard::new(listen.parse().unwrap(), None, Vec::new()).unwrap_err();
            assert!(refused.contains("needs a token") && refused.contains("--token-file"));
        }
        AccessGuard::new("[::1]:80".parse().unwrap(), None, Vec::new()).unwrap();
    }

    #[test]
    fn a_bearer_token_is_compared_and_a_cookie_is_allowed() {
        let guard = guard("127.0.0.1:80", Some("s3cret"), &[]);
        let host = Some("localhost");
        let base = AccessRequest { path: "/metrics", host, ..AccessRequest::default() };
        assert_eq!(guard.decide(&base), AccessDecision::NoToken);
        let with = |value| guard.decide(&AccessRequest { authorization: Some(value), ..base });
        assert_eq!(with("Bearer s3cret"), AccessDecision::CompareToken("s3cret"));
        assert_eq!(with("bearer  other "), AccessDecision::CompareToken("other"));
        assert_eq!(with("Basic s3cret"), AccessDecision::NoToken);
        let token = guard.token().unwrap();
        assert!(token.is("s3cret") && !token.is("s3cret2"));
        let whole = guard.cookie(host).unwrap();
        assert!(
            whole.starts_with("linkvault-80=")
                && whole.contains("; HttpOnly; SameSite=Strict;")
                && !whole.contains("s3cret")
        );
        let pair = format!("other=1; {}", whole.split(';').next().unwrap());
        let authorization = Some("Bearer wrong");
        let request = AccessRequest { cookies: &[&pair], authorization, ..base };
        assert_eq!(guard.decide(&request), AccessDecision::Allowed);
        for wrong in ["linkvault-80=s3cret", "linkvault-80=", "linkvault-80", "linkvault-8=1"] {
            assert_eq!(
                guard.decide(&AccessRequest { cookies: &[wrong], ..base }),
                AccessDecision::NoToken
            );
        }
    }

    /// Otherwise a token could be guessed as its cookie, without a penalty.
    #[test]
    fn the_cookie_does_not_depend_on_the_token() {
        let [one, other] =
            [AccessToken::new("s3cret"), AccessToken::new("s3cret")].map(Result::unwrap);
        assert_ne!(one.cookie(80), other.cookie(80));
    }

    /// Several containers or tunnels may have the same port inside.
    #[test]
    fn the_cookie_name_has_the_port_of_the_browser() {
        let guard = guard("127.0.0.1:8080", Some("s3cret"), &["vault.example"]);
        for (host, name) in [
            ("localhost:9000", "linkvault-9000="),
            ("[::1]:9000", "linkvault-9000="),
            ("vault.example", "linkvault-8080="),
            ("vault.example:99999", "linkvault-8080="),
        ] {
            let cookie = guard.cookie(Some(host)).unwrap();
            assert!(cookie.starts_with(name), "{host}: {cookie}");
            let pair = cookie.split(';').next().unwrap();
            let opens = |host| {
                let request =
                    AccessRequest { path: "/", host: Some(host), ..AccessRequest::default() };
                guard.decide(&AccessRequest { cookies: &[pair], ..request })
                    == AccessDecision::Allowed
            };
            assert!(opens(host) && !opens("localhost:9001"), "{host}");
        }
    }

    #[test]
    fn only_health_needs_no_token() {
        let guard = guard("127.0.0.1:80", Some("s3cret"), &[]);
        let at = |path| {
            guard.decide(&AccessRequest {
                path,
                host: Some("localhost"),
                ..AccessRequest::default()
            })
        };
        assert_eq!(at("/healthz"), AccessDecision::Allowed);
        for path in ["/", "/metrics", "/accounts/main", "/healthz/", "//healthz"] {
            assert_eq!(at(path), AccessDecision::NoToken, "{path}");
        }
    }
}
