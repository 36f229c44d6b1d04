//! URLs, middleware and HTTP responses of the web UI. Turns requests into calls of `pages` and
//! their
//! results into responses.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Form, FromRequest as _, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Clock;
use crate::ui::accounts::Accounts;
use crate::ui::guard::{AccessDecision, AccessGuard, AccessRequest};
use crate::ui::metrics::{self, MetricsFormat};
use crate::ui::pages::{self, PageError};
use crate::ui::server::{Connection, HEADER_TIME};
use crate::ui::token_penalties::TokenPenalties;

#[cfg(test)]
mod tests;

/// The most pages that are rendered at the same time; each blocks a thread.
const MAX_CONCURRENT: usize = 4;

/// How long a page may wait for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The most requests that wait or are answered at the same time; others are refused at once. Less
/// than the number of connections, so that `/healthz` always gets one.
const MAX_WAITING: usize = 48;

/// The overview and the metrics have their own permits, so that pages that read vaults do not block
/// them.
const MAX_CONCURRENT_LISTS: usize = 2;

/// The first and the longest delay after a wrong token.
const PENALTIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long a request waits for the end of a penalty before it is refused.
const MAX_PENALTY_WAIT: Duration = Duration::from_secs(45);

/// The maximum size of a request's body in bytes: the login form is the only one.
const MAX_BODY: usize = 4096;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The state that all requests share.
#[derive(Clone)]
pub(crate) struct UiServer {
    inner: Arc<Inner>,
}

struct Inner {
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
    guard: AccessGuard,
    permits: Arc<Semaphore>,
    overview_permits: Arc<Semaphore>,
    metrics_permits: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    penalties: Mutex<TokenPenalties>,
    /// Time limit of a request, from its first line until the response is complete.
    request_timeout: Duration,
    series: pages::SeriesCache,
}

impl UiServer {
    pub(crate) fn new(
        accounts: Arc<dyn Accounts>,
        clock: Arc<dyn Clock>,
        guard: AccessGuard,
        request_timeout: Duration,
    ) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            inner: Arc::new(Inner {
                accounts,
                clock,
                guard,
                permits: semaphore(MAX_CONCURRENT),
                overview_permits: semaphore(MAX_CONCURRENT_LISTS),
                metrics_permits: semaphore(MAX_CONCURRENT_LISTS),
                waiting: semaphore(MAX_WAITING),
                penalties: Mutex::new(TokenPenalties::new(PENALTIES.0, PENALTIES.1)),
                request_timeout,
                series: pages::SeriesCache::default(),
            }),
        }
    }

    /// Whether `guess` is the token. Waits for the end of the client's penalty before comparing, on
    /// every connection. `None` if the penalty lasts too long.
    async fn is_token(&self, client: Option<IpAddr>, guess: &str) -> Option<bool> {
        let compared = async {
            loop {
                match self.compare(client, guess) {
                    Ok(right) => return right,
                    Err(wait) => tokio::time::sleep(wait).await,
                }
            }
        };
        tokio::time::timeout(MAX_PENALTY_WAIT, compared).await.ok()
    }

    /// Whether `guess` is the token; the remaining penalty of the client as an error.
    fn compare(&self, client: Option<IpAddr>, guess: &str) -> Result<bool, Duration> {
        let inner = &*self.inner;
        let mut penalties = inner.penalties.lock().unwrap_or_else(PoisonError::into_inner);
        let now = inner.clock.monotonic();
        if let Some(wait) = client.and_then(|client| penalties.wait(client, now)) {
            return Err(wait);
        }
        let right = inner.guard.token().is_some_and(|token| token.is(guess));
        if let Some(client) = client.filter(|_| !right) {
            penalties.add(client, now);
        }
        Ok(right)
    }

    /// Waits for a permit. `None` if too many requests wait, or after [`PERMIT_TIMEOUT`].
    async fn permit(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.inner.waiting).try_acquire_owned().ok()?;
        let permit =
            tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(permits).acquire_owned()).await;
        Some((place, permit.ok()?.ok()?))
    }

    /// Renders a page that reads vaults, on a blocking thread, after it got a permit.
    async fn page(
        self,
        make: impl FnOnce(&pages::PageContext<'_>) -> Result<String, PageError> + Send + 'static,
    ) -> Response {
        let permits = Arc::clone(&self.inner.permits);
        self.page_with(&permits, make).await
    }

    /// Renders a page on a blocking thread, after it got one of these permits.
    async fn page_with(
        self,
        permits: &Arc<Semaphore>,
        make: impl FnOnce(&pages::PageContext<'_>) -> Result<String, PageError> + Send + 'static,
    ) -> Response {
        let Some(permit) = self.permit(permits).await else {
            return error_response(&PageError::Busy);
        };
        let made = tokio::task::spawn_blocking(move || {
            let Inner { accounts, clock, series, .. } = &*self.inner;
            let now = clock.now();
            let made = make(&pages::PageContext::new(&**accounts, now, series));
            drop(permit);
            made
        });
        match made.await {
            Ok(Ok(page)) => html(StatusCode::OK, page),
            Ok(Err(error)) => error_response(&error),
            Err(error) => error_response(&PageError::Failed(error.to_string())),
        }
    }
}

pub(crate) fn router(site: UiServer) -> Router {
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
        .route("/metrics", get(metrics_response))
        .route("/healthz", get(health))
        .route("/style.css", get(style))
        .route("/icon.svg", get(icon))
        .route("/login", post(login))
        .fallback(|| async { error_response(&PageError::no_such_page()) })
        .method_not_allowed_fallback(|| async { error_response(&PageError::ReadOnly) })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(site.clone(), check_access))
        .layer(middleware::map_response(add_security_headers))
        .with_state(site)
}

/// Checks access before a request is answered.
async fn check_access(State(site): State<UiServer>, request: Request, next: Next) -> Response {
    let guard = &site.inner.guard;
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies: Vec<&str> = cookies.filter_map(|value| value.to_str().ok()).collect();
    let access_request = AccessRequest {
        path: request.uri().path(),
        host: text(header::HOST),
        hosts: headers.get_all(header::HOST).iter().count(),
        authorization: text(header::AUTHORIZATION),
        cookies: &cookies,
    };
    let connection = request.extensions().get::<Connection>().cloned();
    let refusal = match guard.decide(&access_request) {
        AccessDecision::Allowed => None,
        AccessDecision::OtherHost(host) => {
            Some(error_response(&PageError::OtherHost(host.to_owned())))
        }
        AccessDecision::SeveralHosts => Some(error_response(&PageError::SeveralHosts)),
        AccessDecision::NoToken => Some(sign_in(false)),
        AccessDecision::CompareToken(guess) => {
            let client = connection.as_ref().map(|it| it.client);
            refusal(site.is_token(client, guess).await)
        }
    };
    if let Some(refusal) = refusal {
        return refusal;
    }
    if request.uri().path() == "/login" {
        // The login has its own time limits, for its body and for the penalty.
        return next.run(request).await;
    }
    let _working = connection.as_ref().map(|it| it.busy.begin());
    // An unfinished request must not hold a slot forever.
    tokio::time::timeout(site.inner.request_timeout, next.run(request))
        .await
        .unwrap_or_else(|_| error_response(&PageError::Busy))
}

/// The response for a result of [`UiServer::is_token`]; `None` if the token is right.
fn refusal(right: Option<bool>) -> Option<Response> {
    match right {
        Some(true) => None,
        Some(false) => Some(sign_in(true)),
        None => Some(error_response(&PageError::WrongTokens)),
    }
}

fn sign_in(wrong: bool) -> Response {
    let mut answer = match pages::sign_in(wrong) {
        Ok(page) => html(StatusCode::UNAUTHORIZED, page),
        Err(error) => error_response(&error),
    };
    let scheme = HeaderValue::from_static("Bearer realm=\"linkvault\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    answer
}

/// Adds security headers to every response.
async fn add_security_headers(mut answer: Response) -> Response {
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

fn error_response(error: &PageError) -> Response {
    let status = match error {
        PageError::NotFound { .. } => StatusCode::NOT_FOUND,
        PageError::ReadOnly => StatusCode::METHOD_NOT_ALLOWED,
        PageError::OtherHost(_) => StatusCode::MISDIRECTED_REQUEST,
        PageError::SeveralHosts => StatusCode::BAD_REQUEST,
        PageError::Unavailable { .. } | PageError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        PageError::WrongTokens => StatusCode::TOO_MANY_REQUESTS,
        PageError::Vault(_) | PageError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    html(status, pages::error_page(status.as_u16(), error))
}

type QueryResult<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// The query, or the default if it cannot be parsed.
fn query_or_default<T: Default>(query: QueryResult<T>) -> T {
    query.map(|Query(query)| query).unwrap_or_default()
}

async fn overview(
    State(site): State<UiServer>,
    query: QueryResult<pages::overview::OverviewQuery>,
) -> Response {
    let query = query_or_default(query);
    let permits = Arc::clone(&site.inner.overview_permits);
    site.page_with(&permits, move |context| pages::overview::page(context, &query)).await
}

async fn account(State(site): State<UiServer>, Path(name): Path<String>) -> Response {
    site.page(move |context| pages::account::page(context, &name)).await
}

async fn runs(
    State(site): State<UiServer>,
    Path(name): Path<String>,
    query: QueryResult<pages::PagedRows>,
) -> Response {
    let query = query_or_default(query);
    site.page(move |context| pages::runs::page(context, &name, &query)).await
}

async fn run(
    State(site): State<UiServer>,
    Path((name, number)): Path<(String, String)>,
    query: QueryResult<pages::PagedRows>,
) -> Response {
    let query = query_or_default(query);
    site.page(move |context| pages::run::page(context, &name, &number, &query)).await
}

async fn snapshots(
    State(site): State<UiServer>,
    Path(name): Path<String>,
    query: QueryResult<pages::PagedRows>,
) -> Response {
    let query = query_or_default(query);
    site.page(move |context| pages::snapshots::page(context, &name, &query)).await
}

async fn snapshot(
    State(site): State<UiServer>,
    Path((name, number)): Path<(String, String)>,
    query: QueryResult<pages::PagedRows>,
) -> Response {
    let query = query_or_default(query);
    site.page(move |context| pages::snapshot::page(context, &name, &number, &query)).await
}

async fn compare(
    State(site): State<UiServer>,
    Path(name): Path<String>,
    query: QueryResult<pages::compare::CompareQuery>,
) -> Response {
    let query = query_or_default(query);
    site.page(move |context| pages::compare::page(context, &name, &query)).await
}

async fn records(
    State(site): State<UiServer>,
    Path((name, resource)): Path<(String, String)>,
    query: QueryResult<pages::PagedRows>,
) -> Response {
    let query = query_or_default(query);
    site.page(move |context| pages::records::page(context, &name, &resource, &query)).await
}

async fn record(
    State(site): State<UiServer>,
    Path((name, resource, key)): Path<(String, String, String)>,
) -> Response {
    site.page(move |context| pages::record::page(context, &name, &resource, &key)).await
}

async fn metrics_response(State(site): State<UiServer>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = MetricsFormat::accepted(accepted.filter_map(|value| value.to_str().ok()));
    let Some(permit) = site.permit(&site.inner.metrics_permits).await else {
        return error_response(&PageError::Busy);
    };
    let made = tokio::task::spawn_blocking(move || {
        let accounts = &site.inner.accounts;
        let text = metrics::metrics(&accounts.list(), accounts.alive().is_ok(), format);
        drop(permit);
        text
    });
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    match made.await {
        Ok(text) => (headers, text).into_response(),
        Err(error) => error_response(&PageError::Failed(error.to_string())),
    }
}

async fn health(State(site): State<UiServer>) -> Response {
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    // It may wait, for example for Temporal.
    match tokio::task::spawn_blocking(move || site.inner.accounts.alive()).await {
        Ok(Ok(())) => (plain, "ok\n".to_owned()).into_response(),
        Ok(Err(why)) => {
            (StatusCode::SERVICE_UNAVAILABLE, plain, format!("{why}\n")).into_response()
        }
        Err(error) => error_response(&PageError::Failed(error.to_string())),
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

/// Checks the token in the login form and sets the cookie.
async fn login(State(site): State<UiServer>, request: Request) -> Response {
    let client = request.extensions().get::<Connection>().map(|it| it.client);
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let cookie = site.inner.guard.cookie(host);
    let form = Form::<Login>::from_request(request, &());
    let Ok(form) = tokio::time::timeout(site.inner.request_timeout.min(HEADER_TIME), form).await
    else {
        return error_response(&PageError::Busy);
    };
    let Some(cookie) = cookie else { return redirect_to_overview() };
    let Ok(Form(login)) = form else { return sign_in(true) };
    if let Some(refusal) = refusal(site.is_token(client, login.token.trim()).await) {
        return refusal;
    }
    let mut answer = redirect_to_overview();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

fn redirect_to_overview() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}
