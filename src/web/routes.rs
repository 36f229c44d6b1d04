//! What is where, and what every answer carries. What stands on a page is the
//! business of `pages`; here requests become calls, and results answers.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use tokio::sync::Semaphore;

use super::guard::{Asked, Guard, Verdict};
use super::pages::{self, Trouble};
use super::{Accounts, metrics};
use crate::clock::Clock;

/// So many pages are made at once; each has a thread while it reads.
const AT_ONCE: usize = 4;

/// How long a page may wait for its turn.
const TURN: Duration = Duration::from_secs(20);

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
    ) -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let series = pages::Series::default();
        Self { inner: Arc::new(Inner { accounts, clock, guard, turns, patience, series }) }
    }

    /// Makes a page on a thread that may wait for the disk, when its turn comes.
    async fn page(
        self,
        make: impl FnOnce(&pages::Desk<'_>) -> Result<String, Trouble> + Send + 'static,
    ) -> Response {
        let turns = Arc::clone(&self.inner.turns);
        let turn = tokio::time::timeout(TURN, turns.acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return trouble(&Trouble::Busy) };
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
    match guard.judge(&asked) {
        // Who never says the rest of it holds a place for nobody else.
        Verdict::Welcome => tokio::time::timeout(site.inner.patience, next.run(request))
            .await
            .unwrap_or_else(|_| trouble(&Trouble::Busy)),
        Verdict::OtherHost(host) => trouble(&Trouble::OtherHost(host)),
        Verdict::NoToken { wrong } => sign_in(wrong),
    }
}

fn sign_in(wrong: bool) -> Response {
    let mut answer = match pages::sign_in(wrong) {
        Ok(page) => html(StatusCode::UNAUTHORIZED, page),
        Err(error) => trouble(&error),
    };
    let scheme = HeaderValue::from_static("Bearer realm=\"linkvault\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
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

async fn measured(State(site): State<Site>) -> Response {
    let made = tokio::task::spawn_blocking(move || {
        let accounts = &site.inner.accounts;
        metrics::metrics(&accounts.conditions(), accounts.alive().is_ok())
    });
    match made.await {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::KIND)], text).into_response(),
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
    use std::path::PathBuf;

    use super::*;
    use crate::clock::{Interrupt, SystemClock};
    use crate::daemon::Condition;

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

    #[test]
    fn a_request_that_never_ends_is_ended() {
        let listen = "127.0.0.1:0".parse().unwrap();
        let guard = Guard::new(listen, None, Vec::new()).unwrap();
        let clock = Arc::new(SystemClock::new(Interrupt::default()));
        let site = Site::new(Arc::new(Nobody), clock, guard, Duration::from_millis(50));
        let page = super::super::server::serve(listen, router(site)).unwrap();
        let mut stream = std::net::TcpStream::connect(page.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\
                    content-type: application/x-www-form-urlencoded\r\n\r\ntoken";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
        page.stop();
    }
}
