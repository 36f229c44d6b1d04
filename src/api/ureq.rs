//! The network: [`UreqTransport`], the only user of the ureq library.
//!
//! * The key is only sent to the account's base URL. Redirects are returned as responses and
//!   never followed.
//! * A proxy from the environment (`ALL_PROXY`, `HTTPS_PROXY`, …, `NO_PROXY`) is used only for
//!   https, where it forwards an encrypted tunnel and cannot read the key. Plain http always
//!   connects directly.
//! * A write reuses a connection only for a second after the response before, and only if the service
//!   has not closed it, since services keep idle connections longer than that. If it ends after
//!   the first byte of the write, as any connection may, the outcome is unknown: whether the write
//!   was executed is then found out from the service's lists, never from the connection. From then on
//!   each write has a connection of its own, since that would take many readings of these lists.
//! * Whether bytes may have been sent is not derived from the kind of error: a layer above TCP
//!   and TLS records when the request is first written.

use self::certificates::TrustedCertificates;
use super::base_url::{BaseUrl, BaseUrlError};
use super::http::{ApiKey, Method, Request, Response, Transport, TransportError};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use ureq::config::Config;
use ureq::http::{self, HeaderValue};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport as wire;
use ureq::{Agent, Body, Error};

/// Options of the transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportOptions {
    /// Timeout for resolving the host name, and again for connecting, including TLS.
    pub connect: Duration,
    /// Timeout for the beginning of the response, and between any two parts of it.
    pub read: Duration,
    /// Timeout for a request with its complete response.
    pub overall: Duration,
    /// Maximum size of a response in bytes, after decompression.
    pub max_body: u64,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Whether to accept plain http for hosts other than this machine.
    pub allow_http: bool,
    /// Time after a response in which a further write may use its connection.
    pub reuse_for_writes: Duration,
    /// The certificate authorities to trust instead of the built-in ones.
    pub trust: Option<TrustedCertificates>,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(60),
            overall: Duration::from_secs(180),
            max_body: 64 << 20,
            user_agent: concat!("linkvault/", env!("CARGO_PKG_VERSION")).to_owned(),
            allow_http: false,
            reuse_for_writes: Duration::from_secs(1),
            trust: None,
        }
    }
}

/// Sends HTTP requests to one base URL.
#[derive(Debug)]
pub struct UreqTransport {
    base: BaseUrl,
    connector: SharedConnector,
    reading: Agent,
    writing: Agent,
    /// For writes after one without a response.
    writing_apart: Agent,
    sent: Arc<AtomicBool>,
    max_body: u64,
}

/// Time after a response in which a further read may use its connection. A read can be repeated.
const REUSE_FOR_READS: Duration = Duration::from_secs(15);

/// Size of the buffer for what a connection receives. The headers of a response have to fit.
const INPUT_BUFFER: usize = 32 << 10;

/// Size of the buffer for what a connection sends. The headers of a request have to fit.
const OUTPUT_BUFFER: usize = 16 << 10;

/// Up to this `Content-Length`, the memory for a body is allocated at once.
const MAX_PREALLOCATED: u64 = 1 << 20;

impl UreqTransport {
    /// A transport to `base_url`, the URL before `/api`.
    ///
    /// # Errors
    /// [`BaseUrlError`] if the key must not be sent there.
    pub fn new(base_url: &str, options: &TransportOptions) -> Result<Self, BaseUrlError> {
        let base = BaseUrl::parse(base_url, options.allow_http)?;
        let reuse = [REUSE_FOR_READS, options.reuse_for_writes, Duration::ZERO];
        let configs = reuse.map(|reuse| config(&base, options, reuse));
        Ok(Self::connecting(base, SharedConnector::default(), configs, options.max_body))
    }

    /// A transport to the same service, with connections of its own.
    #[must_use]
    pub fn another(&self) -> Self {
        let agents = [&self.reading, &self.writing, &self.writing_apart];
        let configs = agents.map(|agent| agent.config().clone());
        Self::connecting(self.base.clone(), self.connector.clone(), configs, self.max_body)
    }

    fn connecting(
        base: BaseUrl,
        connector: SharedConnector,
        configs: [Config; 3],
        max_body: u64,
    ) -> Self {
        let sent = Arc::new(AtomicBool::new(false));
        let [reading, writing, writing_apart] = configs.map(|config| {
            let connector = wire::Connector::chain(connector.clone(), SentMarker(sent.clone()));
            Agent::with_parts(config, connector, IpAwareResolver::default())
        });
        Self { base, connector, reading, writing, writing_apart, sent, max_body }
    }

    fn run(&self, request: &Request) -> Result<http::Response<Body>, Error> {
        let mut builder = http::Request::builder()
            .method(request.method.as_str())
            .uri(self.base.join(&request.path))
            .header("accept", "application/json")
            .header("content-type", "application/json");
        if let Some(key) = &request.key {
            builder = builder.header("authorization", bearer(key)?);
        }
        match (request.method, &request.body) {
            (Method::Get | Method::Delete, None) => {
                let agent =
                    if request.method == Method::Get { &self.reading } else { &self.writing };
                agent.run(builder.body(())?)
            }
            (_, body) => self.writing.run(builder.body(body.clone().unwrap_or_default())?),
        }
    }

    fn read(&self, response: http::Response<Body>) -> Result<Response, TransportError> {
        let (parts, mut body) = response.into_parts();
        let length = body.content_length().unwrap_or(0).min(MAX_PREALLOCATED);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        // One byte more than allowed, to distinguish a complete response from one that is too
        // large.
        let mut reader = body.as_reader().take(self.max_body.saturating_add(1));
        reader.read_to_end(&mut bytes).map_err(|error| self.failure(&Error::from(error)))?;
        if bytes.len() as u64 > self.max_body {
            return Err(TransportError::TooLarge(self.max_body));
        }
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers =
            parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
        Ok(Response { status: parts.status.as_u16(), headers: headers.collect(), body: bytes })
    }

    fn failure(&self, error: &Error) -> TransportError {
        let text = format!("{}: {}", self.base.host(), describe(error));
        if certificates::refused(error).is_some() {
            return TransportError::Untrusted(text);
        }
        // A proxy that refused the tunnel has only received its own request.
        let proxy_refused = matches!(error, Error::ConnectProxyFailed(_));
        if proxy_refused || !self.sent.load(Ordering::SeqCst) {
            TransportError::NotSent(text)
        } else {
            TransportError::Unknown(text)
        }
    }
}

impl Transport for UreqTransport {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        if !request.path.starts_with("/api/") {
            return Err(TransportError::NotSent("the path does not begin with /api/".into()));
        }
        self.sent.store(false, Ordering::SeqCst);
        let response = self.run(request).map_err(|error| self.failure(&error));
        let outcome = response.and_then(|response| self.read(response));
        if request.method != Method::Get && matches!(outcome, Err(TransportError::Unknown(_))) {
            self.writing = self.writing_apart.clone();
        }
        outcome
    }

    fn pause(&mut self, time: Duration) {
        if time >= REUSE_FOR_READS {
            // Its connections would not be used again.
            *self = self.another();
        }
    }
}

fn config(base: &BaseUrl, options: &TransportOptions, reuse: Duration) -> Config {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .https_only(base.secure())
        .user_agent(&options.user_agent)
        .input_buffer_size(INPUT_BUFFER)
        .output_buffer_size(OUTPUT_BUFFER)
        .max_idle_connections(1)
        .max_idle_connections_per_host(1)
        .max_idle_age(reuse)
        .timeout_resolve(Some(options.connect))
        .timeout_connect(Some(options.connect))
        .timeout_recv_response(Some(options.read))
        .timeout_per_read(Some(options.read))
        .timeout_global(Some(options.overall));
    if !base.secure() {
        config = config.proxy(None);
    }
    if let Some(trust) = &options.trust {
        config = config.tls_config(trust.config());
    }
    config.build()
}

fn bearer(key: &ApiKey) -> Result<HeaderValue, Error> {
    // The error of an invalid value does not contain the value.
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal())).map_err(|_| {
        Error::Other("the key contains a character that is invalid in a header".into())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The error for people. It contains the kind of error, and nothing of the request.
fn describe(error: &Error) -> String {
    if let Some(why) = certificates::refused(error) {
        return why;
    }
    match error {
        Error::HostNotFound => "the host name is unknown".into(),
        Error::Timeout(which) => format!("timed out ({which})"),
        Error::Io(error) => error.to_string(),
        Error::Other(error) => error.to_string(),
        Error::Http(_) | Error::BadUri(_) => "the request cannot be written as HTTP".into(),
        other => other.to_string(),
    }
}

/// Resolves host names. For IP addresses it avoids the default resolver, which starts a thread for
/// each request to limit its time.
#[derive(Debug, Default)]
struct IpAwareResolver(DefaultResolver);

impl Resolver for IpAwareResolver {
    fn resolve(
        &self,
        uri: &http::Uri,
        config: &Config,
        timeout: wire::NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let Some(address) = ip_address_of(uri) else { return self.0.resolve(uri, config, timeout) };
        let mut addresses = self.empty();
        addresses.push(address);
        Ok(addresses)
    }
}

/// The socket address of a URL whose host is an IP address.
fn ip_address_of(uri: &http::Uri) -> Option<SocketAddr> {
    let address: IpAddr = uri.host()?.trim_matches(['[', ']']).parse().ok()?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some(SocketAddr::new(address, uri.port_u16().unwrap_or(usual)))
}

/// Connects for several agents, which share the prepared certificates and the TLS sessions.
#[derive(Debug, Clone, Default)]
struct SharedConnector(Arc<wire::DefaultConnector>);

impl wire::Connector for SharedConnector {
    type Out = Box<dyn wire::Transport>;

    fn connect(
        &self,
        details: &wire::ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, chained)
    }
}

/// Sets the flag when a request is first written to a connection.
#[derive(Debug)]
struct SentMarker(Arc<AtomicBool>);

impl<In: wire::Transport> wire::Connector<In> for SentMarker {
    type Out = MarkedTransport<In>;

    fn connect(
        &self,
        _details: &wire::ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        // A proxy's tunnel may have set the flag; the request itself was not sent.
        self.0.store(false, Ordering::SeqCst);
        Ok(chained.map(|inner| MarkedTransport { inner, sent: self.0.clone() }))
    }
}

#[derive(Debug)]
struct MarkedTransport<T> {
    inner: T,
    sent: Arc<AtomicBool>,
}

impl<T: wire::Transport> wire::Transport for MarkedTransport<T> {
    fn buffers(&mut self) -> &mut dyn wire::Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: wire::NextTimeout) -> Result<(), Error> {
        self.sent.store(true, Ordering::SeqCst);
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: wire::NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

pub mod certificates;
pub mod post_message;
#[cfg(test)]
mod tests;
