//! What is where, and what every answer carries. What stands on a page is the
//! business of `pages`; here requests become calls, and results answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Accounts;
use super::guard::{Asked, Guard, Verdict};
use super::metrics::{self, Format};
use super::pages::{self, Trouble};
use super::server::{Connection, HEADER_TIME};
use crate::clock::Clock;

/// So many pages are made at once; each has a thread while it reads.
const AT_ONCE: usize = 4;

/// How long a page may wait for its turn.
const TURN: Duration = Duration::from_secs(20);

/// So many requests wait for their turn or are answered; the others are told to come
/// again, at once. It is less than there are connections, so that `/healthz` always
/// finds one.
const WAITING: usize = 48;

/// The metrics have turns of their own, whatever pages are asked for.
const METRICS_AT_ONCE: usize = 2;

/// How long the answer to a wrong token takes; so much longer for each other wrong
/// one of the same client that still waits.
pub(super) const WRONG_TOKEN: Duration = Duration::from_secs(1);

/// The most penalties that the answer to a wrong token waits for.
const MOST_WRONG: u32 = 10;

/// The longest body of a request: the login form.
const LONGEST: usize = 4096;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all requests share.
#[derive(Clone)]
pub(super) struct Site {
    inner: Arc<Inner>,
}

struct Inner {
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
    guard: Guard,
    turns: Arc<Semaphore>,
    metrics_turns: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Clients with wrong tokens whose answers wait.
    wrong: Mutex<HashMap<IpAddr, u32>>,
    wrong_token: Duration,
    /// How long a request may take, from its first line to the whole answer made.
    patience: Duration,
    series: pages::Series,
}

impl Site {
    pub(super) fn new(
        accounts: Arc<dyn Accounts>,
        clock: Arc<dyn Clock>,
        guard: Guard,
        patience: Duration,
        wrong_token: Duration,
    ) -> Self {
        let room = |places| Arc::new(Semaphore::new(places));
        Self {
            inner: Arc::new(Inner {
                accounts,
                clock,
                guard,
                turns: room(AT_ONCE),
                metrics_turns: room(METRICS_AT_ONCE),
                waiting: room(WAITING),
                wrong: Mutex::default(),
                wrong_token,
                patience,
                series: pages::Series::default(),
            }),
        }
    }

    /// Waits before a wrong token is answered. Only the connection that sent it waits.
    async fn slow_down(&self, client: Option<IpAddr>) {
        let Some(client) = client else { return };
        let inner = &*self.inner;
        let count = || inner.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = {
            let mut counts = count();
            let waiting = counts.entry(client).or_default();
            *waiting = waiting.saturating_add(1);
            *waiting
        };
        // Also when the client goes before it is answered.
        let _leaves = Leaves(|| {
            let mut counts = count();
            if let Some(waiting) = counts.get_mut(&client) {
                *waiting = waiting.saturating_sub(1);
            }
            counts.retain(|_, waiting| *waiting > 0);
        });
        tokio::time::sleep(inner.wrong_token * waiting.min(MOST_WRONG)).await;
    }

    /// A place among those who wait for `turns`, and then a turn.
    async fn turn(
        &self,
        turns: &Arc<Semaphore>,
    ) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.inner.waiting).try_acquire_owned().ok()?;
        let turn = tokio::time::timeout(TURN, Arc::clone(turns).acquire_owned()).await;
        Some((place, turn.ok()?.ok()?))
    }

    /// Makes a page on a thread that may wait for the disk, when its turn comes.
    async fn page(
        self,
        make: impl FnOnce(&pages::Desk<'_>) -> Result<String, Trouble> + Send + 'static,
    ) -> Response {
        let Some(turn) = self.turn(&self.inner.turns).await else {
            return trouble(&Trouble::Busy);
        };
        let made = tokio::task::spawn_blocking(move || {
            let Inner { accounts, clock, series, .. } = &*self.inner;
            let now = clock.now();
            let made = make(&pages::Desk { accounts: &**accounts, now, series });
            drop(turn);
            made
        });
        match made.await {
            Ok(Ok(page)) => html(StatusCode::OK, page),
            Ok(Err(error)) => trouble(&error),
            Err(error) => trouble(&Trouble::Failed(error.to_string())),
        }
    }
}

/// Does something when it is dropped.
struct Leaves<F: Fn()>(F);

impl<F: Fn()> Drop for Leaves<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Marks the answer to a wrong token.
#[derive(Clone)]
struct WrongToken;

pub(super) fn router(site: Site) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/accounts/{name}", get(account))
        .route("/accounts/{name}/runs", get(runs))
        .route("/accounts/{name}/runs/{number}", get(run))
        .route("/accounts/{name}/snapshots", get(snapshots))
        .route("/accounts/{name}/snapshots/{number}", get(snapshot))
        .route("/accounts/{name}/compare", get(compare))
        .route("/accounts/{name}/records/{resource}", get(records))
        .route("/accounts/{name}/records/{resource}/{*key}", get(record))
        .route("/metrics", get(measured))
        .route("/healthz", get(health))
        .route("/style.css", get(style))
        .route("/icon.svg", get(icon))
        .route("/login", post(login))
        .fallback(|| async { trouble(&Trouble::nothing_here()) })
        .method_not_allowed_fallback(|| async { trouble(&Trouble::ReadOnly) })
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(from_fn_with_state(site.clone(), guarded))
        .layer(middleware::map_response(dressed))
        .with_state(site)
}

/// Lets in who may come in.
async fn guarded(State(site): State<Site>, request: Request, next: Next) -> Response {
    let guard = &site.inner.guard;
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies: Vec<&str> = cookies.filter_map(|value| value.to_str().ok()).collect();
    let asked = Asked {
        path: request.uri().path(),
        host: text(header::HOST),
        authorization: text(header::AUTHORIZATION),
        cookies: &cookies,
    };
    let verdict = guard.judge(&asked);
    let connection = request.extensions().get::<Connection>().cloned();
    let answer = match verdict {
        Verdict::Welcome => {
            // Only the form has a body to wait for.
            let form = request.uri().path() == "/login";
            let _working = connection.as_ref().filter(|_| !form).map(|it| it.busy.begin());
            let patience = site.inner.patience;
            let patience = if form { patience.min(HEADER_TIME) } else { patience };
            // An unfinished request must not hold a place forever.
            tokio::time::timeout(patience, next.run(request))
                .await
                .unwrap_or_else(|_| trouble(&Trouble::Busy))
        }
        Verdict::OtherHost(host) => trouble(&Trouble::OtherHost(host)),
        Verdict::NoToken { wrong } => sign_in(wrong),
    };
    if answer.extensions().get::<WrongToken>().is_some() {
        site.slow_down(connection.map(|it| it.client)).await;
    }
    answer
}

fn sign_in(wrong: bool) -> Response {
    let mut answer = match pages::sign_in(wrong) {
        Ok(page) => html(StatusCode::UNAUTHORIZED, page),
        Err(error) => trouble(&error),
    };
    let scheme = HeaderValue::from_static("Bearer realm=\"linkvault\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    if wrong {
        answer.extensions_mut().insert(WrongToken);
    }
    answer
}

/// What every answer carries.
async fn dressed(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn html(status: StatusCode, page: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

fn trouble(trouble: &Trouble) -> Response {
    let status = match trouble {
        Trouble::Nothing { .. } => StatusCode::NOT_FOUND,
        Trouble::ReadOnly => StatusCode::METHOD_NOT_ALLOWED,
        Trouble::OtherHost(_) => StatusCode::MISDIRECTED_REQUEST,
        Trouble::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Trouble::Vault(_) | Trouble::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    html(status, pages::trouble(status.as_u16(), trouble))
}

type Asks<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// What was asked for; what cannot be read asks for nothing.
fn asks<T: Default>(query: Asks<T>) -> T {
    query.map(|Query(query)| query).unwrap_or_default()
}

async fn overview(State(site): State<Site>, query: Asks<pages::overview::Ask>) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::overview::page(desk, &ask)).await
}

async fn account(State(site): State<Site>, Path(name): Path<String>) -> Response {
    site.page(move |desk| pages::account::page(desk, &name)).await
}

async fn runs(
    State(site): State<Site>,
    Path(name): Path<String>,
    query: Asks<pages::Paged>,
) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::runs::page(desk, &name, &ask)).await
}

async fn run(
    State(site): State<Site>,
    Path((name, number)): Path<(String, String)>,
    query: Asks<pages::Paged>,
) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::run::page(desk, &name, &number, &ask)).await
}

async fn snapshots(
    State(site): State<Site>,
    Path(name): Path<String>,
    query: Asks<pages::Paged>,
) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::snapshots::page(desk, &name, &ask)).await
}

async fn snapshot(
    State(site): State<Site>,
    Path((name, number)): Path<(String, String)>,
    query: Asks<pages::Paged>,
) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::snapshot::page(desk, &name, &number, &ask)).await
}

async fn compare(
    State(site): State<Site>,
    Path(name): Path<String>,
    query: Asks<pages::compare::Ask>,
) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::compare::page(desk, &name, &ask)).await
}

async fn records(
    State(site): State<Site>,
    Path((name, resource)): Path<(String, String)>,
    query: Asks<pages::Paged>,
) -> Response {
    let ask = asks(query);
    site.page(move |desk| pages::records::page(desk, &name, &resource, &ask)).await
}

async fn record(
    State(site): State<Site>,
    Path((name, resource, key)): Path<(String, String, String)>,
) -> Response {
    site.page(move |desk| pages::record::page(desk, &name, &resource, &key)).await
}

async fn measured(State(site): State<Site>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = Format::accepted(accepted.filter_map(|value| value.to_str().ok()));
    let Some(turn) = site.turn(&site.inner.metrics_turns).await else {
        return trouble(&Trouble::Busy);
    };
    let made = tokio::task::spawn_blocking(move || {
        let accounts = &site.inner.accounts;
        let text = metrics::metrics(&accounts.conditions(), accounts.alive().is_ok(), format);
        drop(turn);
        text
    });
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    match made.await {
        Ok(text) => (headers, text).into_response(),
        Err(error) => trouble(&Trouble::Failed(error.to_string())),
    }
}

async fn health(State(site): State<Site>) -> Response {
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    match site.inner.accounts.alive() {
        Ok(()) => (plain, "ok\n".to_owned()).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, plain, format!("{why}\n")).into_response(),
    }
}

async fn style() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (kind, include_str!("templates/style.css")).into_response()
}

async fn icon() -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], include_str!("templates/icon.svg")).into_response()
}

#[derive(serde::Deserialize)]
struct Login {
    token: String,
}

/// Takes the token from the form. It changes nothing but what the browser keeps.
async fn login(
    State(site): State<Site>,
    form: Result<Form<Login>, axum::extract::rejection::FormRejection>,
) -> Response {
    let guard = &site.inner.guard;
    let Some(token) = guard.token() else { return to_the_overview() };
    match form {
        Ok(Form(login)) if token.is(login.token.trim()) => {
            let mut answer = to_the_overview();
            if let Ok(cookie) = HeaderValue::from_str(&token.cookie()) {
                answer.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            answer
        }
        _ => sign_in(true),
    }
}

fn to_the_overview() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::path::PathBuf;

    use super::super::Token;
    use super::*;
    use crate::clock::{Interrupt, SystemClock};
    use crate::daemon::Condition;
    use crate::server::Server;

    struct Nobody;

    impl Accounts for Nobody {
        fn conditions(&self) -> Vec<Condition> {
            Vec::new()
        }

        fn vault(&self, _account: &str) -> Option<PathBuf> {
            None
        }

        fn alive(&self) -> Result<(), String> {
            Ok(())
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    /// A page with this token, where a client may be slow for so long.
    fn page(token: Option<&str>, patience: Duration, wrong_token: Duration) -> Server {
        let listen = "127.0.0.1:0".parse().unwrap();
        let guard = Guard::new(listen, token.map(Token::new), Vec::new()).unwrap();
        let clock = Arc::new(SystemClock::new(Interrupt::default()));
        let site = Site::new(Arc::new(Nobody), clock, guard, patience, wrong_token);
        super::super::server::serve(listen, router(site), LONG).unwrap()
    }

    fn send(page: &Server, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(page.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    #[track_caller]
    fn answers(mut stream: &TcpStream, status: &str) {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
    }

    fn form(token: &str, length: usize) -> String {
        format!(
            "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\
             content-type: application/x-www-form-urlencoded\r\n\r\ntoken={token}"
        )
    }

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

    #[test]
    fn a_request_that_never_ends_is_ended() {
        let page = page(None, Duration::from_millis(50), Duration::ZERO);
        answers(&send(&page, &form("", 9)), "503");
        page.stop();
    }

    /// None of them is ended by its time, so that only a place of its own lets the
    /// health be asked for.
    #[test]
    fn unfinished_requests_keep_no_health_away() {
        let page = page(Some("a token of sixteen"), LONG, LONG);
        let wrong = "GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\r\n";
        let mut held = Vec::new();
        for begun in ["", "GET /healthz HTTP/1.1\r\nhost: loc", &form("", 900), wrong] {
            held.extend((0..300).map(|_| send(&page, begun)));
            answers(&send(&page, HEALTH), "200");
            held.clear();
        }
        page.stop();
    }

    #[test]
    fn a_wrong_token_is_slowed_down_and_nobody_else() {
        let page = page(Some("a token of sixteen"), LONG, LONG);
        let wrong = [
            send(&page, &form("wrong", 11)),
            send(&page, "GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer x\r\n\r\n"),
        ];
        let right = "authorization: Bearer a token of sixteen";
        let right = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{right}\r\n\r\n");
        answers(&send(&page, &right), "200");
        answers(&send(&page, &form("a+token+of+sixteen", 24)), "303");
        answers(&send(&page, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"), "401");
        answers(&send(&page, HEALTH), "200");
        for mut slowed in wrong {
            slowed.set_nonblocking(true).unwrap();
            let told = slowed.read(&mut [0]).unwrap_err();
            assert_eq!(told.kind(), std::io::ErrorKind::WouldBlock, "it is not answered yet");
        }
        page.stop();
        let quick = self::page(Some("a token of sixteen"), LONG, Duration::ZERO);
        answers(&send(&quick, &form("wrong", 11)), "401");
        quick.stop();
    }
}
