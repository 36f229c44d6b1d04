//! Who may see a page: a decision on what a request says, and nothing else.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// What opens the page from another machine. It is compared by its hash, in the
/// same time whatever is guessed, and never shown.
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

/// The name of the cookie of a page at `port`: a browser sends the cookies of a host to all of its
/// ports, and keeps one of each name.
fn cookie_name(port: u16) -> String {
    format!("linkvault-{port}")
}

impl AccessToken {
    /// The token `secret`.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new(secret: &str) -> io::Result<Self> {
        // Random and not made from the token: otherwise tokens could be guessed as cookies, which
        // have no penalties.
        let mut cookie = [0; 32];
        getrandom::fill(&mut cookie)?;
        Ok(Self { hash: blake3::hash(secret.as_bytes()), cookie: cookie.into() })
    }

    /// Whether `guess` is it.
    #[must_use]
    pub fn is(&self, guess: &str) -> bool {
        // Hashes are compared in constant time.
        blake3::hash(guess.as_bytes()) == self.hash
    }

    /// What a browser is given to keep. It opens the page at `port` until the program ends.
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

/// Who may ask for what.
#[derive(Debug, Clone)]
pub struct AccessGuard {
    listen: SocketAddr,
    token: Option<AccessToken>,
    /// Names that the page may be called by, beside those of this machine.
    hosts: Vec<String>,
}

/// What a request says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessRequest<'a> {
    pub path: &'a str,
    pub host: Option<&'a str>,
    pub authorization: Option<&'a str>,
    pub cookies: &'a [&'a str],
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDecision<'a> {
    Welcome,
    /// It is for a host that this page is not.
    OtherHost(&'a str),
    NoToken,
    /// It may be answered if this is the token, which is not compared yet.
    Guess(&'a str),
}

/// What anybody may see: nothing of it is about an account.
const OPEN: [&str; 4] = ["/healthz", "/style.css", "/icon.svg", "/login"];

impl AccessGuard {
    /// Guards a page that listens at `listen`.
    ///
    /// # Errors
    /// What to do, when others could reach it and there is no token.
    pub fn new(
        listen: SocketAddr,
        token: Option<AccessToken>,
        hosts: Vec<String>,
    ) -> Result<Self, String> {
        if token.is_none() && !listen.ip().is_loopback() {
            return Err(format!(
                "{listen} can be reached from other machines, so the page needs a token there: \
                 name a file that holds one with --token-file, or listen on 127.0.0.1"
            ));
        }
        let hosts = hosts.iter().map(|host| name_of(host).to_ascii_lowercase()).collect();
        Ok(Self { listen, token, hosts })
    }

    /// The token, if one is asked for.
    #[must_use]
    pub const fn token(&self) -> Option<&AccessToken> {
        self.token.as_ref()
    }

    /// The cookie for a browser that sent the right token to `host`, if a token is asked for.
    #[must_use]
    pub fn cookie(&self, host: Option<&str>) -> Option<String> {
        Some(self.token.as_ref()?.cookie(self.port(host.unwrap_or_default())))
    }

    /// The port of the page for a browser that names this host: that of a container or a tunnel
    /// may be another one than the page listens at.
    fn port(&self, host: &str) -> u16 {
        port_of(host).unwrap_or(self.listen.port())
    }

    /// Whether the request may be answered.
    #[must_use]
    pub fn judge<'a>(&self, asked: &AccessRequest<'a>) -> AccessDecision<'a> {
        let host = asked.host.unwrap_or_default();
        if !self.is_ours(host) {
            return AccessDecision::OtherHost(host);
        }
        let Some(token) = self.token.as_ref().filter(|_| !OPEN.contains(&asked.path)) else {
            return AccessDecision::Welcome;
        };
        let port = self.port(host);
        if asked.cookies.iter().any(|header| token.is_cookie(header, port)) {
            return AccessDecision::Welcome;
        }
        let bearer = asked.authorization.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.map_or(AccessDecision::NoToken, AccessDecision::Guess)
    }

    /// Whether a browser that names this host means us. One that was led here by
    /// somebody else's name does not.
    fn is_ours(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        if self.hosts.contains(&name) || name == "localhost" {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(&name);
        let Ok(address) = bare.parse::<IpAddr>() else { return false };
        // An attacker can make a name lead elsewhere, but not an address.
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

/// The name of a host, and its port or nothing.
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

    fn asks(guard: &AccessGuard, host: &str) -> bool {
        let asked = AccessRequest { path: "/", host: Some(host), ..AccessRequest::default() };
        guard.judge(&asked) == AccessDecision::Welcome
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let own = guard("127.0.0.1:8080", None, &[]);
        for host in
            ["localhost", "LocalHost:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]:80", "[::1]"]
        {
            assert!(asks(&own, host), "{host}");
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
            assert!(!asks(&own, host), "{host}");
        }
        assert_eq!(own.judge(&AccessRequest::default()), AccessDecision::OtherHost(""));
    }

    #[test]
    fn further_names_must_be_allowed() {
        let named = guard("192.0.2.7:80", Some("t"), &["Vault.Example:8080"]);
        let asked =
            |host| AccessRequest { path: "/healthz", host: Some(host), ..AccessRequest::default() };
        assert_eq!(named.judge(&asked("vault.example")), AccessDecision::Welcome);
        assert_eq!(named.judge(&asked("192.0.2.7:80")), AccessDecision::Welcome);
        assert_ne!(named.judge(&asked("192.0.2.8:80")), AccessDecision::Welcome);
        let everywhere = guard("0.0.0.0:80", Some("t"), &[]);
        assert_eq!(everywhere.judge(&asked("192.0.2.8:80")), AccessDecision::Welcome);
        assert_ne!(everywhere.judge(&asked("vault.example")), AccessDecision::Welcome);
    }

    #[test]
    fn an_address_that_others_reach_needs_a_token() {
        for listen in ["0.0.0.0:80", "192.0.2.7:80", "[::]:80"] {
            let refused = AccessGuard::new(listen.parse().unwrap(), None, Vec::new()).unwrap_err();
            assert!(refused.contains("needs a token") && refused.contains("--token-file"));
        }
        AccessGuard::new("[::1]:80".parse().unwrap(), None, Vec::new()).unwrap();
    }

    #[test]
    fn the_token_opens_as_bearer_and_its_cookie_at_once() {
        let guard = guard("127.0.0.1:80", Some("s3cret"), &[]);
        let host = Some("localhost");
        let base = AccessRequest { path: "/metrics", host, ..AccessRequest::default() };
        assert_eq!(guard.judge(&base), AccessDecision::NoToken);
        let with = |value| guard.judge(&AccessRequest { authorization: Some(value), ..base });
        assert_eq!(with("Bearer s3cret"), AccessDecision::Guess("s3cret"));
        assert_eq!(with("bearer  other "), AccessDecision::Guess("other"));
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
        let asked = AccessRequest { cookies: &[&pair], authorization, ..base };
        assert_eq!(guard.judge(&asked), AccessDecision::Welcome);
        for wrong in ["linkvault-80=s3cret", "linkvault-80=", "linkvault-80", "linkvault-8=1"] {
            assert_eq!(
                guard.judge(&AccessRequest { cookies: &[wrong], ..base }),
                AccessDecision::NoToken
            );
        }
    }

    /// Otherwise a token could be guessed without a penalty, as its cookie.
    #[test]
    fn the_cookie_cannot_be_made_from_the_token() {
        let [one, other] =
            [AccessToken::new("s3cret"), AccessToken::new("s3cret")].map(Result::unwrap);
        assert_ne!(one.cookie(80), other.cookie(80));
    }

    /// Two containers, or two tunnels to two machines, may all listen at one port.
    #[test]
    fn the_cookie_is_of_the_port_that_the_browser_names() {
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
                let asked =
                    AccessRequest { path: "/", host: Some(host), ..AccessRequest::default() };
                guard.judge(&AccessRequest { cookies: &[pair], ..asked }) == AccessDecision::Welcome
            };
            assert!(opens(host) && !opens("localhost:9001"), "{host}");
        }
    }

    #[test]
    fn health_needs_no_token_and_all_else_does() {
        let guard = guard("127.0.0.1:80", Some("s3cret"), &[]);
        let at = |path| {
            guard.judge(&AccessRequest {
                path,
                host: Some("localhost"),
                ..AccessRequest::default()
            })
        };
        assert_eq!(at("/healthz"), AccessDecision::Welcome);
        for path in ["/", "/metrics", "/accounts/main", "/healthz/", "//healthz"] {
            assert_eq!(at(path), AccessDecision::NoToken, "{path}");
        }
    }
}
