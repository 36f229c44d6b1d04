//! What is where, and what every answer carries. What stands on a page is the
//! business of `pages`; here requests become calls, and results answers.

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
use crate::ui::Accounts;
use crate::ui::guard::{AccessDecision, AccessGuard, AccessRequest};
use crate::ui::metrics::{self, MetricsFormat};
use crate::ui::pages::{self, PageError};
use crate::ui::server::{Connection, HEADER_TIME};
use crate::ui::token_penalties::TokenPenalties;

#[cfg(test)]
mod tests;

/// How many pages are rendered at the same time; each uses a thread while it reads.
const AT_ONCE: usize = 4;

/// How long a page may wait for its turn.
const TURN: Duration = Duration::from_secs(20);

/// How many requests may wait or be answered at the same time; others are refused at once
/// and may be repeated. It is less than the number of connections, so that `/healthz` always
/// has one.
const WAITING: usize = 48;

/// The metrics have turns of their own, whatever pages are asked for.
const METRICS_AT_ONCE: usize = 2;

/// How long a client waits after its first wrong token, and at most after a further one.
const PENALTIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long a token waits to be compared before the request is refused.
const LONGEST_WAIT: Duration = Duration::from_secs(45);

/// The longest body of a request: the login form.
const LONGEST: usize = 4096;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all requests share.
#[derive(Clone)]
pub(crate) struct UiServer {
    inner: Arc<Inner>,
}

struct Inner {
    accounts: Arc<dyn Accounts>,
    clock: Arc<dyn Clock>,
    guard: AccessGuard,
    turns: Arc<Semaphore>,
    metrics_turns: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    penalties: Mutex<TokenPenalties>,
    /// How long a request may take, from its first line to the whole answer made.
    patience: Duration,
    series: pages::Series,
}

impl UiServer {
    pub(crate) fn new(
        accounts: Arc<dyn Accounts>,
        clock: Arc<dyn Clock>,
        guard: AccessGuard,
        patience: Duration,
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
                penalties: Mutex::new(TokenPenalties::new(PENALTIES.0, PENALTIES.1)),
                patience,
                series: pages::Series::default(),
            }),
        }
    }

    /// Whether `guess` is the token. While a penalty of the client lasts, no token that it sends
    /// is compared, on whatever connection. `None` where it lasts too long.
    async fn is_token(&self, client: Option<IpAddr>, guess: &str) -> Option<bool> {
        let compared = async {
            loop {
                match self.compare(client, guess) {
                    Ok(right) => return right,
                    Err(wait) => tokio::time::sleep(wait).await,
                }
            }
        };
        tokio::time::timeout(LONGEST_WAIT, compared).await.ok()
    }

    /// Whether `guess` is the token, or how long its client has to wait for that.
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
        make: impl FnOnce(&pages::PageContext<'_>) -> Result<String, PageError> + Send + 'static,
    ) -> Response {
        let Some(turn) = self.turn(&self.inner.turns).await else {
            return trouble(&PageError::Busy);
        };
        let made = tokio::task::spawn_blocking(move || {
            let Inner { accounts, clock, series, .. } = &*self.inner;
            let now = clock.now();
            let made = make(&pages::PageContext { accounts: &**accounts, now, series });
            drop(turn);
            made
        });
        match made.await {
            Ok(Ok(page)) => html(StatusCode::OK, page),
            Ok(Err(error)) => trouble(&error),
            Err(error) => trouble(&PageError::Failed(error.to_string())),
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
        .route("/metrics", get(measured))
        .route("/healthz", get(health))
        .route("/style.css", get(style))
        .route("/icon.svg", get(icon))
        .route("/login", post(login))
        .fallback(|| async { trouble(&PageError::nothing_here()) })
        .method_not_allowed_fallback(|| async { trouble(&PageError::ReadOnly) })
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(from_fn_with_state(site.clone(), guarded))
        .layer(middleware::map_response(dressed))
        .with_state(site)
}

/// Lets in who may come in.
async fn guarded(State(site): State<UiServer>, request: Request, next: Next) -> Response {
    let guard = &site.inner.guard;
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies: Vec<&str> = cookies.filter_map(|value| value.to_str().ok()).collect();
    let asked = AccessRequest {
        path: request.uri().path(),
        host: text(header::HOST),
        authorization: text(header::AUTHORIZATION),
        cookies: &cookies,
    };
    let connection = request.extensions().get::<Connection>().cloned();
    let refusal = match guard.judge(&asked) {
        AccessDecision::Welcome => None,
        AccessDecision::OtherHost(host) => Some(trouble(&PageError::OtherHost(host.to_owned()))),
        AccessDecision::NoToken => Some(sign_in(false)),
        AccessDecision::Guess(guess) => {
            let client = connection.as_ref().map(|it| it.client);
            refusal(site.is_token(client, guess).await)
        }
    };
    if let Some(refusal) = refusal {
        return refusal;
    }
    if request.uri().path() == "/login" {
        // It waits for a body and for the end of a penalty, with times of its own.
        return next.run(request).await;
    }
    let _working = connection.as_ref().map(|it| it.busy.begin());
    // An unfinished request must not hold a place forever.
    tokio::time::timeout(site.inner.patience, next.run(request))
        .await
        .unwrap_or_else(|_| trouble(&PageError::Busy))
}

/// The answer to what [`UiServer::is_token`] gave, where that is not the token.
fn refusal(right: Option<bool>) -> Option<Response> {
    match right {
        Some(true) => None,
        Some(false) => Some(sign_in(true)),
        None => Some(trouble(&PageError::WrongTokens)),
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

fn trouble(trouble: &PageError) -> Response {
    let status = match trouble {
        PageError::Nothing { .. } => StatusCode::NOT_FOUND,
        PageError::ReadOnly => StatusCode::METHOD_NOT_ALLOWED,
        PageError::OtherHost(_) => StatusCode::MISDIRECTED_REQUEST,
        PageError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        PageError::WrongTokens => StatusCode::TOO_MANY_REQUESTS,
        PageError::Vault(_) | PageError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    html(status, pages::trouble(status.as_u16(), trouble))
}

type Asks<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// What was asked for; what cannot be read asks for nothing.
fn asks<T: Default>(query: Asks<T>) -> T {
    query.map(|Query(query)| query).unwrap_or_default()
}

async fn overview(
    State(site): State<UiServer>,
    query: Asks<pages::overview::OverviewQuery>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::overview::page(context, &ask)).await
}

async fn account(State(site): State<UiServer>, Path(name): Path<String>) -> Response {
    site.page(move |context| pages::account::page(context, &name)).await
}

async fn runs(
    State(site): State<UiServer>,
    Path(name): Path<String>,
    query: Asks<pages::PagedRows>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::runs::page(context, &name, &ask)).await
}

async fn run(
    State(site): State<UiServer>,
    Path((name, number)): Path<(String, String)>,
    query: Asks<pages::PagedRows>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::run::page(context, &name, &number, &ask)).await
}

async fn snapshots(
    State(site): State<UiServer>,
    Path(name): Path<String>,
    query: Asks<pages::PagedRows>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::snapshots::page(context, &name, &ask)).await
}

async fn snapshot(
    State(site): State<UiServer>,
    Path((name, number)): Path<(String, String)>,
    query: Asks<pages::PagedRows>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::snapshot::page(context, &name, &number, &ask)).await
}

async fn compare(
    State(site): State<UiServer>,
    Path(name): Path<String>,
    query: Asks<pages::compare::CompareQuery>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::compare::page(context, &name, &ask)).await
}

async fn records(
    State(site): State<UiServer>,
    Path((name, resource)): Path<(String, String)>,
    query: Asks<pages::PagedRows>,
) -> Response {
    let ask = asks(query);
    site.page(move |context| pages::records::page(context, &name, &resource, &ask)).await
}

async fn record(
    State(site): State<UiServer>,
    Path((name, resource, key)): Path<(String, String, String)>,
) -> Response {
    site.page(move |context| pages::record::page(context, &name, &resource, &key)).await
}

async fn measured(State(site): State<UiServer>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = MetricsFormat::accepted(accepted.filter_map(|value| value.to_str().ok()));
    let Some(turn) = site.turn(&site.inner.metrics_turns).await else {
        return trouble(&PageError::Busy);
    };
    let made = tokio::task::spawn_blocking(move || {
        let accounts = &site.inner.accounts;
        let text = metrics::metrics(&accounts.account_statuses(), accounts.alive().is_ok(), format);
        drop(turn);
        text
    });
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    match made.await {
        Ok(text) => (headers, text).into_response(),
        Err(error) => trouble(&PageError::Failed(error.to_string())),
    }
}

async fn health(State(site): State<UiServer>) -> Response {
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
async fn login(State(site): State<UiServer>, request: Request) -> Response {
    let client = request.extensions().get::<Connection>().map(|it| it.client);
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let cookie = site.inner.guard.cookie(host);
    let form = Form::<Login>::from_request(request, &());
    let Ok(form) = tokio::time::timeout(site.inner.patience.min(HEADER_TIME), form).await else {
        return trouble(&PageError::Busy);
    };
    let Some(cookie) = cookie else { return to_the_overview() };
    let Ok(Form(login)) = form else { return sign_in(true) };
    if let Some(refusal) = refusal(site.is_token(client, login.token.trim()).await) {
        return refusal;
    }
    let mut answer = to_the_overview();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

fn to_the_overview() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}
