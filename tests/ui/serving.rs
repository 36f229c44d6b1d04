//! The web UI end to end: the program, a socket, and the requests of a browser.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{LiveService, TestEnvironment};

/// A running `linkvault ui`.
pub struct Page {
    child: Child,
    pub address: String,
}

/// What came of a request.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Page {
    pub fn start(environment: &TestEnvironment, arguments: &[&str]) -> Self {
        let all = [&["ui", "--listen", "127.0.0.1:0", "--json"], arguments].concat();
        let mut command = environment.command(&all);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(told["format"], json!(1));
        let url = told["url"].as_str().unwrap();
        Self { child, address: url.strip_prefix("http://").unwrap().to_owned() }
    }

    pub fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub fn request(&self, method: &str, path: &str, more: &str) -> Answer {
        let host = &self.address;
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n"
        ))
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> String {
        let answer = self.request("GET", path, "");
        assert_eq!(answer.status, 200, "{path}\n{}\n{}", answer.head, answer.body);
        answer.body
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(mut self) {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An account with two snapshots between which things changed, and a run.
fn vault_with_history() -> (LiveService, TestEnvironment) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "main", "-q"]).succeeds();
    let rows = "id,name\n1,<script>alert(1)</script>\n,\"\"\"><img onerror=x>\u{202e}\"\n";
    environment.write("channels.csv", rows);
    let import = ["import", "channels.csv", "--to", "main", "--yes", "-q"];
    environment.run(&import).succeeds();
    environment.run(&["backup", "main", "-q"]).succeeds();
    (service, environment)
}

/// Every link of a page that leads to another of ours.
fn links(body: &str) -> Vec<String> {
    let parts = body.split("href=\"").skip(1).filter_map(|part| part.split('"').next());
    let ours = parts.filter(|link| link.starts_with('/'));
    ours.map(|link| link.replace("&#38;", "&")).collect()
}

#[test]
fn every_link_leads_to_a_page_and_hostile_text_is_escaped() {
    let (_service, environment) = vault_with_history();
    let page = Page::start(&environment, &[]);
    let mut todo = vec!["/".to_owned()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(link) = todo.pop() {
        if !seen.insert(link.clone()) {
            continue;
        }
        let body = page.get(&link);
        for bad in ["<script", "<img onerror", "\u{202e}", "style=\"", " onclick"] {
            assert!(!body.contains(bad), "{bad} in {link}\n{body}");
        }
        todo.extend(links(&body));
    }
    for wanted in [
        "/accounts/main",
        "/accounts/main/runs/1",
        "/accounts/main/snapshots/2",
        "/accounts/main/compare",
        "/accounts/main/records/channels",
        "/accounts/main/records/channels/1",
        "/accounts/main/records/qr_codes/1",
    ] {
        assert!(seen.contains(wanted), "nothing leads to {wanted}: {seen:#?}");
    }
    page.interrupt();
}

#[test]
fn pages_agree_with_the_commands() {
    let (_service, environment) = vault_with_history();
    let page = Page::start(&environment, &["main"]);
    let overview = page.get("/");
    assert!(overview.contains(">main</a>") && overview.contains("badge good\">Good<"));
    let account = page.get("/accounts/main");
    for words in ["Records over time", "Scans over time", "<svg", "Newest changes", "channels: 1"] {
        assert!(account.contains(words), "{words}\n{account}");
    }
    let found = page.get("/accounts/main/compare?from=1&to=latest");
    assert!(found.contains("<del>Shop window</del>"), "{found}");
    assert!(found.contains("<ins>&#60;script&#62;alert(1)&#60;/script&#62;</ins>"), "{found}");
    let one = page.get("/accounts/main/compare?from=1&resource=channels");
    assert!(one.contains("Only channels are shown"));
    let search = page.get("/accounts/main/records/channels?q=img%20ON");
    assert!(search.contains("all 1<") && search.contains(r"onerror=x&#62;\u{202e}"), "{search}");
    page.get(&format!("/accounts/main/records/channels?q={}", "%25".repeat(20_000)));
    let none = page.get("/accounts/main/records/channels?q=100%25");
    assert!(none.contains("No record matches"));
    let record = page.get("/accounts/main/records/channels/1");
    assert!(record.contains(">changed<") && record.contains(">added<"), "{record}");
    let run = page.get("/accounts/main/runs/1");
    assert!(run.contains("2 done") && run.contains(">update<") && run.contains(">create<"));
    let metrics = page.get("/metrics");
    assert!(
        metrics.contains("linkvault_health{account=\"main\",health=\"good\"} 1.0"),
        "{metrics}"
    );
    assert_eq!(page.get("/healthz"), "ok\n");
}

#[test]
fn a_missing_page_has_the_same_layout() {
    let environment = TestEnvironment::new();
    let page = Page::start(&environment, &[]);
    assert!(page.get("/").contains("No backup yet"));
    assert!(page.get("/accounts/sandbox").contains("linkvault backup sandbox"));
    for path in [
        "/nowhere",
        "/accounts/other",
        "/accounts/sandbox/snapshots/1",
        "/accounts/sandbox/compare",
        "/accounts/sandbox/records/campaigns",
        "/accounts/sandbox/records/nonsense",
        "/accounts/%2e%2e%2fsandbox/records/campaigns",
        "/accounts/%ff",
    ] {
        let answer = page.request("GET", path, "");
        assert!([400, 404].contains(&answer.status), "{path} {}", answer.status);
        assert!(answer.head.contains("content-security-policy: default-src 'none'"), "{path}");
    }
    let body = page.request("GET", "/accounts/%3Cscript%3E", "").body;
    assert!(body.contains("&#60;script&#62;") && body.contains("stylesheet"), "{body}");
}

#[test]
fn a_damaged_vault_affects_only_its_account() {
    let (_service, environment) = vault_with_history();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let vault = environment.path("vaults/main.db");
    std::fs::write(&vault, "not a vault").unwrap();
    let page = Page::start(&environment, &[]);
    let overview = page.get("/");
    assert!(
        overview.contains("badge failing\">Failing<") && overview.contains("badge good\">Good<")
    );
    let answer = page.request("GET", "/accounts/main", "");
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("Cannot read the vault") && answer.body.contains("stylesheet"));
    page.get("/accounts/sandbox");
    assert!(
        page.get("/metrics").contains("linkvault_problem{account=\"main\",kind=\"failed\"} 1.0")
    );
    assert_eq!(std::fs::read_to_string(&vault).unwrap(), "not a vault");
}

#[test]
fn the_configured_limit_is_shown_before_the_service_reports_one() {
    let environment = TestEnvironment::new().account_with("https://links.example", "limit = 7\n");
    let page = Page::start(&environment, &[]);
    let told = "linkvault_limit_requests_per_minute{account=\"main\"} 7";
    assert!(page.get("/metrics").contains(told));
}

#[test]
fn every_response_is_guarded_and_read_only() {
    let environment = TestEnvironment::new();
    let page = Page::start(&environment, &["--allow-host", "vault.example"]);
    for path in ["/", "/metrics", "/healthz", "/style.css", "/nowhere"] {
        let head = page.request("GET", path, "").head;
        for header in [
            "content-security-policy: default-src 'none'; style-src 'self'; img-src 'self' data:; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(header), "{path}: {header}\n{head}");
        }
        assert_eq!(page.request("HEAD", path, "").body, "");
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let answer = page.request(method, path, "content-length: 0\r\n");
            assert!([404, 405].contains(&answer.status), "{method} {path} {}", answer.status);
        }
    }
    for (host, status) in [("evil.example", 421), ("vault.example:80", 200), ("localhost", 200)] {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        assert_eq!(page.send(&request).status, status, "{host}");
    }
    assert_eq!(page.send("GET / HTTP/1.0\r\n\r\n").status, 421);
}

#[test]
fn the_ui_requires_its_token() {
    let environment = TestEnvironment::new().file("page.token", "s3cret-of-the-page\n");
    let environment = environment.mode("page.token", 0o600);
    let page = Page::start(&environment, &["--token-file", "page.token"]);
    assert_eq!(page.get("/healthz"), "ok\n");
    for path in ["/", "/metrics", "/accounts/sandbox", "/nowhere"] {
        let answer = page.request("GET", path, "");
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: bearer"));
        // A client without the token does not learn the path of its file.
        assert!(answer.body.contains("--token-file"), "{}", answer.body);
        assert!(!answer.body.contains("page.token"), "{}", answer.body);
    }
    let right = "authorization: Bearer s3cret-of-the-page\r\n";
    assert_eq!(page.request("GET", "/metrics", right).status, 200);
    let login = |body: &str| {
        let length = body.len();
        let head = "content-type: application/x-www-form-urlencoded\r\nconnection: close";
        let host = &page.address;
        page.send(&format!(
            "POST /login HTTP/1.1\r\nhost: {host}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    };
    assert_eq!(login("").status, 401);
    assert_eq!(login(&format!("token={}", "x".repeat(9000))).status, 401);
    let answer = login("token=s3cret-of-the-page");
    assert_eq!(answer.status, 303);
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    assert!(!answer.head.contains("s3cret"));
    let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(page.request("GET", "/", &cookie).status, 200);
    // The second one waits for a second.
    let wrong = page.request("GET", "/metrics", "authorization: Bearer wrong\r\n");
    for wrong in [wrong, login("token=wrong")] {
        assert_eq!(wrong.status, 401);
        assert!(wrong.body.contains("Wrong token"));
    }
    assert_eq!(page.request("GET", "/", &cookie).status, 200);
}

#[test]
fn a_public_listen_address_needs_a_token() {
    let environment = TestEnvironment::new().file("empty", "\n");
    let refused = environment.run(&["ui", "--listen", "0.0.0.0:0"]).exits_with(64);
    refused.stderr_has("needs a token").stderr_has("--token-file");
    let empty = environment.run(&["ui", "--token-file", "empty"]).exits_with(1);
    empty.stderr_has("it should hold the token");
    environment.write("short", "fifteen-letters\n");
    let environment = environment.mode("short", 0o600);
    let short = environment.run(&["ui", "--token-file", "short"]).exits_with(1);
    short
        .stderr_has("error: cannot use the page token: it has 15 characters and needs 16\n")
        .stderr_has("hint: `openssl rand -hex 32 > page.token` makes a token\n");
    environment.run(&["ui", "missing"]).exits_with(1).stderr_has("no account");
}

/// Where the tool is not installed this says so and tries nothing; with
/// `LINKVAULT_NEEDS_PROMTOOL` that is a failure.
#[test]
#[allow(clippy::print_stdout)]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let (_service, environment) = vault_with_history();
    let page = Page::start(&environment, &[]);
    let text = page.request("GET", "/metrics", "");
    assert!(text.head.contains("content-type: text/plain; version=0.0.4"), "{}", text.head);
    assert!(text.head.contains("vary: accept"), "{}", text.head);
    let accept = "accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let open = page.request("GET", "/metrics", accept);
    assert!(open.head.contains("content-type: application/openmetrics-text"), "{}", open.head);
    assert!(open.body.ends_with("# EOF\n") && !text.body.contains("# EOF"));
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let promtool = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut promtool = match promtool {
        Ok(promtool) => promtool,
        Err(error) => {
            assert!(std::env::var_os("LINKVAULT_NEEDS_PROMTOOL").is_none(), "{error}");
            println!("skipped: promtool is not installed");
            return;
        }
    };
    promtool.stdin.take().unwrap().write_all(text.body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}\n{}", text.body);
}

#[test]
fn new_scans_are_shown_where_nothing_else_changed() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    service.sandbox().mutate(|store| {
        for (_, code) in store.qr_codes.iter_mut().take(3) {
            code.scans.base += 1_000;
        }
    });
    environment.run(&["backup", "-q"]).succeeds();
    let diff = environment.run(&["diff", "main@#1", "main@#2"]).succeeds();
    let told = diff.stdout().lines().last().unwrap_or_default().to_owned() + &diff.stderr();
    let scans = told.split("; ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(scans.contains("QR codes"), "{told}");
    let page = Page::start(&environment, &[]);
    for path in ["/accounts/main/compare", "/accounts/main/snapshots/2"] {
        let shown = page.get(path);
        assert!(shown.contains(&scans), "{path}: {scans} is not in {shown}");
        assert!(!shown.contains("Nothing changed"), "{path}");
    }
}
