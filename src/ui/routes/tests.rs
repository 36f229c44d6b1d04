//! Tests over real connections: penalties, connection slots and cookies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::{Interrupt, SystemClock};
use crate::daemon::AccountStatus;
use crate::server::Server;
use crate::ui::routes::*;
use crate::ui::{AccessToken, AccountList, Unavailable, VaultFile};

struct NoAccounts;

impl Accounts for NoAccounts {
    fn list(&self) -> AccountList {
        AccountList::Vaults(Vec::new())
    }

    fn account_status(&self, account: &str) -> Result<AccountStatus, Unavailable> {
        Err(Unavailable::no_account(account))
    }

    fn vault(&self, account: &str) -> Result<VaultFile, Unavailable> {
        Err(Unavailable::no_account(account))
    }

    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

const LONG: Duration = Duration::from_secs(3600);

/// A web UI with this token and time limit of requests.
fn page(token: Option<&str>, request_timeout: Duration, penalty: Duration) -> Server {
    serving(Arc::new(NoAccounts), token, request_timeout, penalty, LONG)
}

fn serving(
    accounts: Arc<dyn Accounts>,
    token: Option<&str>,
    request_timeout: Duration,
    penalty: Duration,
    header_time: Duration,
) -> Server {
    let listen = "127.0.0.1:0".parse().unwrap();
    let token = token.map(|token| AccessToken::new(token).unwrap());
    let guard = AccessGuard::new(listen, token, Vec::new()).unwrap();
    let clock = Arc::new(SystemClock::new(Interrupt::default()));
    let site = UiServer::new(accounts, clock, guard, request_timeout);
    *site.inner.penalties.lock().unwrap() = TokenPenalties::new(penalty, penalty);
    crate::ui::server::serve(listen, router(site), header_time).unwrap()
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
fn a_second_host_header_is_refused() {
    let page = page(None, LONG, Duration::ZERO);
    for second in ["localhost", "evil.example"] {
        for path in ["/healthz", "/"] {
            let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nhost: {second}\r\n\r\n");
            answers(&send(&page, &head), "400");
        }
    }
    answers(&send(&page, HEALTH), "200");
    page.stop();
}

#[test]
fn an_unfinished_request_times_out() {
    let page = page(None, Duration::from_millis(50), Duration::ZERO);
    answers(&send(&page, &form("", 9)), "503");
    page.stop();
}

#[test]
fn an_unfinished_head_times_out() {
    assert_eq!(HEADER_TIME, Duration::from_secs(5));
    let short = Duration::from_millis(50);
    let page = serving(Arc::new(NoAccounts), None, LONG, Duration::ZERO, short);
    for begun in ["", "GET / HTTP/1.1\r\nhost: loc"] {
        let mut stream = send(&page, begun);
        assert_eq!(stream.read(&mut [0; 12]).unwrap(), 0, "{begun}");
    }
    page.stop();
}

/// None of them times out, so that only a free slot lets the health request through.
#[test]
fn unfinished_requests_do_not_block_the_health_check() {
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

/// Reports each call, and then waits.
struct Slow(Mutex<(Sender<()>, Receiver<()>)>);

impl Accounts for Slow {
    fn list(&self) -> AccountList {
        let (asked, go_on) = &*self.0.lock().unwrap();
        asked.send(()).unwrap();
        go_on.recv().unwrap();
        AccountList::Vaults(Vec::new())
    }

    fn account_status(&self, account: &str) -> Result<AccountStatus, Unavailable> {
        Err(Unavailable::no_account(account))
    }

    fn vault(&self, account: &str) -> Result<VaultFile, Unavailable> {
        Err(Unavailable::no_account(account))
    }

    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_page_that_is_being_rendered_keeps_its_slot() {
    let ((tell, asked), (go_on, wait)) = (channel(), channel());
    let slow = Arc::new(Slow(Mutex::new((tell, wait))));
    let page = serving(slow, None, LONG, Duration::ZERO, LONG);
    let made = send(&page, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    asked.recv().unwrap();
    let idle: Vec<_> = (0..300).map(|_| send(&page, "")).collect();
    answers(&send(&page, HEALTH), "200");
    go_on.send(()).unwrap();
    answers(&made, "200");
    drop(idle);
    page.stop();
}

/// Reports each vault that is asked for, and then waits.
struct SlowVaults(Mutex<Sender<()>>, Mutex<Receiver<()>>);

impl Accounts for SlowVaults {
    fn list(&self) -> AccountList {
        AccountList::Vaults(Vec::new())
    }

    fn account_status(&self, account: &str) -> Result<AccountStatus, Unavailable> {
        Err(Unavailable::no_account(account))
    }

    fn vault(&self, account: &str) -> Result<VaultFile, Unavailable> {
        self.0.lock().unwrap().send(()).unwrap();
        let _ = self.1.lock().unwrap().recv();
        Err(Unavailable::Failed(format!("{account} cannot be shown"), "No answer.".to_owned()))
    }

    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn pages_that_wait_for_vaults_do_not_block_the_overview() {
    let ((tell, asked), (go_on, wait)) = (channel(), channel());
    let slow = Arc::new(SlowVaults(Mutex::new(tell), Mutex::new(wait)));
    let page = serving(slow, None, LONG, Duration::ZERO, LONG);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let waiting = [(); MAX_CONCURRENT].map(|()| send(&page, &get("/accounts/main/runs")));
    waiting.iter().for_each(|_| asked.recv().unwrap());
    for path in ["/", "/metrics", "/healthz"] {
        answers(&send(&page, &get(path)), "200");
    }
    waiting.iter().for_each(|_| go_on.send(()).unwrap());
    waiting.iter().for_each(|waiting| answers(waiting, "503"));
    page.stop();
}

const TOKEN: &str = "a-token-of-sixteen";

fn bearer(token: &str) -> String {
    format!("GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n")
}

#[track_caller]
fn is_not_answered(mut stream: &TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

/// The cookie in a response.
fn cookie(mut stream: TcpStream) -> String {
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    let line = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    line.and_then(|line| line.split(';').next()).unwrap().to_owned()
}

#[test]
fn a_wrong_token_slows_down_its_address_on_every_connection() {
    for wrong in [bearer("wrong"), form("wrong", 11)] {
        let page = page(Some(TOKEN), LONG, LONG);
        let cookie = cookie(send(&page, &form(TOKEN, TOKEN.len() + 6)));
        // The penalty outlives the connection.
        answers(&send(&page, &wrong), "401");
        let slowed = [
            send(&page, &bearer("wrong")),
            send(&page, &bearer(TOKEN)),
            send(&page, &form(TOKEN, TOKEN.len() + 6)),
        ];
        let kept = format!("GET / HTTP/1.1\r\nhost: localhost\r\ncookie: {cookie}\r\n\r\n");
        for _ in 0..5 {
            answers(&send(&page, &kept), "200");
            answers(&send(&page, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"), "401");
            answers(&send(&page, HEALTH), "200");
        }
        slowed.iter().for_each(is_not_answered);
        page.stop();
    }
}

#[test]
fn a_token_may_wait_longer_than_the_time_limit_of_a_body() {
    let page = page(Some(TOKEN), Duration::from_secs(1), Duration::from_secs(2));
    for right in [form(TOKEN, TOKEN.len() + 6), bearer(TOKEN)] {
        answers(&send(&page, &bearer("wrong")), "401");
        let status = if right.starts_with("POST") { "303" } else { "200" };
        answers(&send(&page, &right), status);
    }
    page.stop();
}

/// A browser sends the cookies of a host to every port of it.
#[test]
fn web_uis_on_two_ports_have_different_cookie_names() {
    let pages = [(); 2].map(|()| page(Some(TOKEN), LONG, Duration::ZERO));
    let ask = |page: &Server, request: &str| {
        let host = format!("localhost:{}", page.address().port());
        send(page, &request.replace("localhost", &host))
    };
    let login = form(TOKEN, TOKEN.len() + 6);
    let cookies = pages.each_ref().map(|page| cookie(ask(page, &login)));
    let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
    assert_ne!(name(&cookies[0]), name(&cookies[1]));
    let both = cookies.join("; ");
    for page in pages {
        let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\ncookie: {both}\r\n\r\n");
        answers(&ask(&page, &request), "200");
        page.stop();
    }
}
