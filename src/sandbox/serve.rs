//! Serves the sandbox over a socket with HTTP/1.1. The only part of the sandbox that does IO;
//! `exchange` decides the responses.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::block_in_place;
use tokio::time::{Sleep, sleep};

use super::behaviour::{Compression, ContentType};
use super::exchange::{ExchangeEnd, exchange};
use super::faults::Faults;
use super::render::Object;
use super::service::SandboxService;
use super::wire;
use crate::api::http::{ApiKey, Method, Request, Response};
use crate::clock::Clock;
use crate::server::Server;

/// Called after each request that changed the store. Other requests wait meanwhile.
pub type ServeWriteHook = Arc<dyn Fn(&SandboxService) + Send + Sync>;

/// Options of [`serve()`].
#[derive(Clone)]
pub struct ServeOptions {
    /// The largest request body in bytes.
    pub body_limit: usize,
    /// Called after each request that changed the store.
    pub on_write: Option<ServeWriteHook>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { body_limit: 1 << 20, on_write: None }
    }
}

/// Serves `service` on `listener` until [`Server::stop`].
///
/// # Errors
/// When the listener or the runtime's threads cannot be set up.
pub fn serve(
    listener: std::net::TcpListener,
    service: Arc<Mutex<SandboxService>>,
    clock: Arc<dyn Clock>,
    faults: Arc<Mutex<Faults>>,
    options: ServeOptions,
) -> io::Result<Server> {
    let host = Arc::new(SharedServer { service, clock, faults, options });
    Server::start("sandbox", listener, move |stream, _| connection(stream, Arc::clone(&host)))
}

/// The state that all connections share.
struct SharedServer {
    service: Arc<Mutex<SandboxService>>,
    clock: Arc<dyn Clock>,
    faults: Arc<Mutex<Faults>>,
    options: ServeOptions,
}

/// An error that makes hyper close the connection without a response.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed on purpose")]
struct CloseConnection;

async fn connection(stream: TcpStream, host: Arc<SharedServer>) {
    let reset = Arc::new(AtomicBool::new(false));
    let flag = reset.clone();
    let service = service_fn(move |request| -> Answering {
        Box::pin(answer(host.clone(), flag.clone(), request))
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if reset.load(Ordering::SeqCst) {
        let _ = connection.into_parts().io.into_inner().set_zero_linger();
    }
}

type Answering =
    Pin<Box<dyn Future<Output = Result<hyper::Response<FaultyBody>, CloseConnection>> + Send>>;

async fn answer(
    host: Arc<SharedServer>,
    reset: Arc<AtomicBool>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<FaultyBody>, CloseConnection> {
    let packed = accepts_gzip(request.headers());
    let request = match host.request(request).await {
        Ok(request) => request,
        Err(refusal) => return Ok(whole(refusal?)),
    };
    let injected = lock(&host.faults).next(&request);
    if !injected.latency.is_zero() {
        sleep(injected.latency).await;
    }
    let (ending, gzip) = block_in_place(|| host.exchange(&request, injected.fault));
    let pack = |response| if packed && gzip { compressed(response) } else { response };
    match ending {
        ExchangeEnd::Answer(response) => Ok(whole(pack(response))),
        ExchangeEnd::Slow(response, time) => Ok(slow(pack(response), time)),
        ExchangeEnd::Cut(response, at) => Ok(cut(pack(response), at)),
        ExchangeEnd::Silence => Err(CloseConnection),
        ExchangeEnd::Reset | ExchangeEnd::NoConnection => {
            reset.store(true, Ordering::SeqCst);
            Err(CloseConnection)
        }
    }
}

impl SharedServer {
    /// The request as plain data; as an error, the response to it or the end of the connection.
    async fn request(
        &self,
        request: hyper::Request<Incoming>,
    ) -> Result<Request, Result<Response, CloseConnection>> {
        let (head, body) = request.into_parts();
        let refuse = |status, message: &str| Err(Ok(self.refusal(status, message)));
        if head.headers.get_all(header::HOST).iter().count() > 1 {
            return refuse(400, "The request has more than one Host header.");
        }
        let body = match Limited::new(body, self.options.body_limit).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return refuse(413, "The request body is too large.");
            }
            Err(_) => return Err(Err(CloseConnection)),
        };
        let Some(method) = method(&head.method) else {
            return refuse(405, "This method is not supported at this address.");
        };
        if !body.is_empty() && self.is_strict() && !is_json(&head.headers) {
            return refuse(415, "The request body must be sent as application/json.");
        }
        Ok(Request {
            method,
            path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            key: key(&head.headers),
            body: (!body.is_empty()).then(|| body.to_vec()),
        })
    }

    /// Answers one request. Also returns whether the response may be compressed.
    fn exchange(&self, request: &Request, fault: Option<super::Fault>) -> (ExchangeEnd, bool) {
        let mut service = lock(&self.service);
        let before = service.revision();
        let ending = exchange(&mut service, self.clock.now(), request, fault);
        if let Some(save) = self.options.on_write.as_ref().filter(|_| service.revision() != before)
        {
            save(&service);
        }
        (ending, service.behaviour().compression == Compression::Gzip)
    }

    fn is_strict(&self) -> bool {
        lock(&self.service).behaviour().content_type == ContentType::Required
    }

    /// A refusal without calling the service.
    fn refusal(&self, status: u16, message: &str) -> Response {
        let mut body = Object::new();
        body.insert("error".to_owned(), 1.into());
        body.insert("message".to_owned(), message.into());
        wire::json(status, body, lock(&self.service).behaviour())
    }
}

fn method(method: &hyper::Method) -> Option<Method> {
    let all = [Method::Get, Method::Post, Method::Put, Method::Delete];
    all.into_iter().find(|known| known.as_str() == method.as_str())
}

fn key(headers: &HeaderMap) -> Option<ApiKey> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| ApiKey::new(key))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values.filter_map(|value| value.to_str().ok()).any(|value| {
        let names = value.split(',').map(|part| part.split(';').next().unwrap_or_default());
        names.into_iter().any(|name| name.trim().eq_ignore_ascii_case("gzip"))
    })
}

fn compressed(mut response: Response) -> Response {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = encoder.write_all(&response.body).and_then(|()| encoder.finish());
    if let Ok(body) = written {
        response.body = body;
        response.headers.push(("content-encoding".to_owned(), "gzip".to_owned()));
    }
    response
}

fn whole(response: Response) -> hyper::Response<FaultyBody> {
    let body = Bytes::from(response.body.clone());
    message(response, FaultyBody::parts([body]))
}

/// A response in eight parts with a pause before each.
fn slow(response: Response, time: Duration) -> hyper::Response<FaultyBody> {
    let body = Bytes::from(response.body.clone());
    let size = body.len().div_ceil(8).max(1);
    let parts = (0..body.len()).step_by(size);
    let parts = parts.map(|at| body.slice(at..body.len().min(at + size)));
    let mut sent = FaultyBody::parts(parts);
    sent.pause = time / 8;
    message(response, sent)
}

/// A response with the full length in its header, whose body ends after `at` bytes.
fn cut(response: Response, at: usize) -> hyper::Response<FaultyBody> {
    let body = Bytes::from(response.body.clone());
    let mut sent = FaultyBody::parts([body.slice(..at.min(body.len()))]);
    sent.breaks = at < body.len();
    message(response, sent)
}

fn message(response: Response, body: FaultyBody) -> hyper::Response<FaultyBody> {
    let mut message = hyper::Response::new(body);
    *message.status_mut() = hyper::StatusCode::from_u16(response.status).unwrap_or_default();
    let headers = message.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(response.body.len()));
    for (name, value) in response.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            headers.append(name, value);
        }
    }
    message
}

/// A body that can be slow and can end early.
struct FaultyBody {
    parts: VecDeque<Bytes>,
    pause: Duration,
    breaks: bool,
    waiting: Option<Pin<Box<Sleep>>>,
}

/// Time for the bytes sent before to leave.
const BEFORE_BREAK: Duration = Duration::from_millis(20);

impl FaultyBody {
    fn parts(parts: impl IntoIterator<Item = Bytes>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            pause: Duration::ZERO,
            breaks: false,
            waiting: None,
        }
    }

    /// Waits for `time` before the next frame.
    fn wait(&mut self, time: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if time.is_zero() {
            return Poll::Ready(());
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(time)));
        let waited = waiting.as_mut().poll(cx);
        if waited.is_ready() {
            self.waiting = None;
        }
        waited
    }
}

impl Body for FaultyBody {
    type Data = Bytes;
    type Error = CloseConnection;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CloseConnection>>> {
        if self.parts.is_empty() {
            if !self.breaks {
                return Poll::Ready(None);
            }
            return self.wait(BEFORE_BREAK, cx).map(|()| Some(Err(CloseConnection)));
        }
        let pause = self.pause;
        self.wait(pause, cx).map(|()| self.parts.pop_front().map(|part| Ok(Frame::data(part))))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
