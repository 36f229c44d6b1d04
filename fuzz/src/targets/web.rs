//! Requests to the web UI: `ui`, in process, without a socket.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::Service as _;
use hyper::{Method, Request};
use hyper_util::service::TowerToHyperService;
use linkvault::api::client::Client;
use linkvault::api::http::ApiKey;
use linkvault::api::pacer::Pacer;
use linkvault::cli::ui_accounts::VaultAccounts;
use linkvault::clock::{Clock, SimulatedClock, Timestamp};
use linkvault::config::{Config, Home};
use linkvault::crawl::{self, CrawlOptions};
use linkvault::progress::NoProgress;
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::ui::{self, WebUiSettings};
use linkvault::vault::Vault;

pub const WORDS: &[&str] = &[
    "/accounts/main",
    "/accounts/",
    "/runs",
    "/runs/1",
    "/snapshots",
    "/snapshots/1",
    "/compare",
    "/compare?a=1&b=2",
    "/records/campaigns",
    "/records/channel_items/",
    "/records/qr_codes/1",
    "1/links/3",
    "?page=2",
    "?q=",
    "&",
    "=",
    "%00",
    "%2f",
    "%ff",
    "..",
    "//",
    "/metrics",
    "/healthz",
    "/login",
    "/style.css",
    "<script>alert(1)</script>",
    "'\"><img>",
    "\nhost: evil.example",
    "\nauthorization: Bearer x",
    "\ncookie: linkvault=",
    "\n\ntoken=",
    "18446744073709551616",
    "-1",
    "?from=2026-11-01",
    "\naccept: application/openmetrics-text",
];

/// The largest page that any request may make.
const MAX_RESPONSE: usize = 4 << 20;

/// Text that a page must always escape.
const MARKUP: &str = "<script>alert(1)</script>";

type Router = TowerToHyperService<ui::Router>;

struct Site {
    runtime: tokio::runtime::Runtime,
    router: Router,
    _home: tempfile::TempDir,
}

/// A page of one account with two backups; made once a process.
static SITE: LazyLock<Mutex<Site>> = LazyLock::new(|| Mutex::new(site()));

fn site() -> Site {
    let home = tempfile::tempdir().unwrap_or_else(|it| panic!("{it}"));
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new(Timestamp(1_793_000_000_000)));
    let at = Home::at(home.path());
    let text = "[accounts.main]\nurl = \"http://127.0.0.1:9\"\nkey_env = \"NONE\"\n";
    let config = Config::parse(&at, text.as_bytes()).unwrap_or_else(|it| panic!("{it:?}"));
    let accounts = config.accounts().to_vec();
    back_up(&accounts[0].vault, &clock).unwrap_or_else(|it| panic!("{it}"));
    let daemon_state = Arc::new(VaultAccounts::new(accounts, Vec::new(), Arc::clone(&clock)));
    let listen = ([127, 0, 0, 1], 8080).into();
    let settings = WebUiSettings { listen, token: None, hosts: Vec::new() };
    let router = ui::router(settings, daemon_state, clock).unwrap_or_else(|it| panic!("{it}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.unwrap_or_else(|it| panic!("{it}"));
    Site { runtime, router: TowerToHyperService::new(router), _home: home }
}

fn back_up(vault: &Path, clock: &Arc<dyn Clock>) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = vault.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let key = ApiKey::new("any");
    let service =
        SandboxService::new(sample_account(clock.now()), key.clone(), Behaviour::default());
    let transport = SandboxTransport::new(Arc::new(Mutex::new(service)), Arc::clone(clock));
    let client = Client::new(Box::new(transport), Arc::clone(clock), Pacer::new(0));
    let mut client = client.with_key(key);
    let mut vault = Vault::open_or_create(vault)?;
    for _ in 0..2 {
        let options = CrawlOptions::new("http://127.0.0.1:9");
        crawl::crawl(&mut client, &mut vault, &**clock, &NoProgress, &options)?;
        clock.sleep(Duration::from_secs(86_400));
    }
    vault.close()?;
    Ok(())
}

/// A path, lines of headers, an empty line, a body.
pub fn run(input: &[u8]) {
    let (method, rest) = super::choice(input);
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let path = lines.next().unwrap_or_default();
    let method =
        [Method::GET, Method::POST, Method::HEAD, Method::PUT, Method::DELETE][method % 5].clone();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = Request::builder().method(method.clone()).uri(&path);
    let mut named = false;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        named |= name.eq_ignore_ascii_case("host");
        request = request.header(name, value.trim());
    }
    if !named {
        request = request.header("host", "localhost");
    }
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))) else {
        return;
    };

    let site = SITE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (parts, body) = site.runtime.block_on(async {
        let Ok(answer) = site.router.call(request).await;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap_or_else(|it| panic!("{path:?}: {it}"));
        (parts, body.to_bytes())
    });
    assert!(parts.status.as_u16() < 500, "{} for {path:?}", parts.status);
    for header in
        ["content-security-policy", "x-content-type-options", "cache-control", "x-frame-options"]
    {
        assert!(parts.headers.contains_key(header), "{header} is missing for {path:?}");
    }
    assert!(body.len() <= MAX_RESPONSE, "{} bytes for {path:?}", body.len());
    let read_only = ![Method::GET, Method::HEAD].contains(&method) && !path.starts_with("/login");
    assert!(!(read_only && parts.status.is_success()), "{method} {path:?}");
    let page = String::from_utf8_lossy(&body);
    assert!(!page.contains(MARKUP) && !page.contains("'\"><img>"), "{path:?} is not escaped");
}
