//! The daemon as a process: schedules of every second, signals, and what
//! `status` says of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::support::{KEY, LiveService, TestEnvironment};

/// A configuration with these accounts, each at its URL and with its schedule.
fn config(accounts: &[(&str, &str, &str)]) -> String {
    let account = |(name, url, schedule): &(&str, &str, &str)| {
        format!(
            "[accounts.{name}]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n\
             schedule = \"{schedule}\"\n"
        )
    };
    accounts.iter().map(account).collect()
}

fn environment(accounts: &[(&str, &str, &str)]) -> TestEnvironment {
    TestEnvironment::new().variable("LINKS_KEY", KEY).config(&config(accounts))
}

pub const EACH_SECOND: &str = "* * * * * *";
const NIGHTLY: &str = "0 3 * * *";

/// A daemon whose log is read as it comes.
pub struct Daemon<'e> {
    environment: &'e TestEnvironment,
    child: Child,
    lines: Receiver<Value>,
}

impl<'e> Daemon<'e> {
    fn start(environment: &'e TestEnvironment) -> Self {
        Self::listening(environment, "off")
    }

    pub fn listening(environment: &'e TestEnvironment, listen: &str) -> Self {
        Self::with(environment, &["--listen", listen])
    }

    pub fn with(environment: &'e TestEnvironment, flags: &[&str]) -> Self {
        let mut child = environment.start(&[&["daemon", "--log-format", "json"], flags].concat());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| Value::String(line));
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Self { environment, child, lines }
    }

    /// Waits for a line that satisfies the condition.
    #[track_caller]
    pub fn wait_for_line(&self, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let mut heard = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(Duration::from_secs(60)) else {
                panic!("never heard: {what}, but {heard:#?}");
            };
            if so(&line) {
                return line;
            }
            heard.push(line);
        }
    }

    /// Waits for a line about `account` whose message begins with `message`.
    #[track_caller]
    fn wait_for_message(&self, account: &str, message: &str) -> Value {
        self.wait_for_line(&format!("{account}: {message}"), |line| {
            let text = line["message"].as_str().unwrap_or_default();
            line["account"] == account && text.starts_with(message)
        })
    }

    /// Where it serves its page.
    #[track_caller]
    pub fn page(&self) -> String {
        let start = "the web UI is at http://";
        let says = |line: &Value| Some(line["message"].as_str()?.strip_prefix(start)?.to_owned());
        says(&self.wait_for_line(start, |line| says(line).is_some())).unwrap()
    }

    #[track_caller]
    pub fn stops(mut self, signal: &str) -> Vec<Value> {
        self.environment.signal(signal, &self.child);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.lines.iter().collect()
    }
}

/// No daemon outlives a test that failed.
impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_that_fails_half_the_time_delays_no_other() {
    let (good, shaky) = (LiveService::start("", ""), LiveService::start("", "html=0.08,seed=4"));
    let environment =
        environment(&[("good", &good.url(), EACH_SECOND), ("shaky", &shaky.url(), EACH_SECOND)]);
    let daemon = Daemon::start(&environment);
    let (mut complete, mut lacking, mut of_good) = (0, 0, 0);
    while complete < 2 || lacking < 2 || of_good < 4 {
        let line = daemon.wait_for_line("an end", |line| !line["seconds"].is_null());
        let is_complete = line["message"] == "complete";
        match line["account"].as_str() {
            Some("good") => {
                assert!(is_complete && line["run"].is_u64(), "{line}");
                of_good += 1;
            }
            _ if is_complete => complete += 1,
            _ => lacking += 1,
        }
    }
    let rest = daemon.stops("-TERM");
    assert!(rest.iter().all(Value::is_object), "{rest:?}");
    assert_eq!(rest.last().unwrap()["message"], "the daemon ends");
    assert_eq!(good.throttled() + shaky.throttled(), 0);
    let status = environment.run(&["status", "good", "--json"]).succeeds().json();
    let good = &status["accounts"][0];
    // The last one may have been stopped with the daemon; that is no harm.
    assert_eq!(good["health"], "good", "{good}");
    assert!(good["totals"]["complete"].as_u64() >= Some(4), "{good}");
    assert_eq!(good["records"]["campaigns"], 8);
    environment.run(&["check", "shaky"]).succeeds();
}

#[test]
fn a_stopped_backup_continues_where_it_stopped() {
    let service = LiveService::start("", "latency=150ms");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    let daemon = Daemon::start(&environment);
    assert_eq!(daemon.wait_for_message("main", "backup begins")["run"], 1);
    crate::support::until("some requests", || service.request_count() >= 4);
    let rest = daemon.stops("-TERM");
    let stopped = rest.iter().find(|line| !line["seconds"].is_null()).unwrap();
    assert_eq!((&stopped["run"], &stopped["account"]), (&1.into(), &"main".into()));
    assert!(stopped["message"].as_str().unwrap().starts_with("stopped"), "{stopped}");
    let status = environment.run(&["status", "--json"]).exits_with(3).json();
    assert_eq!(status["accounts"][0]["last"]["outcome"], "stopped");
    service.faults("");
    let before = service.new_requests();
    let daemon = Daemon::start(&environment);
    assert_eq!(daemon.wait_for_message("main", "backup continues")["run"], 1);
    assert_eq!(daemon.wait_for_message("main", "complete")["run"], 1);
    daemon.stops("-INT");
    let after = service.new_requests();
    let twice: Vec<_> = after.iter().filter(|path| before.contains(path)).collect();
    assert!(twice.len() <= 2, "{twice:?}");
    environment.run(&["status"]).succeeds().stdout_has("good");
}

#[test]
fn sighup_reloads_the_configuration_unless_it_is_invalid() {
    let service = LiveService::start("", "");
    let url = service.url();
    let environment = environment(&[("one", &url, EACH_SECOND)]);
    let daemon = Daemon::start(&environment);
    daemon.wait_for_message("one", "complete");
    environment.write("config.toml", &config(&[("one", &url, EACH_SECOND), ("two", &url, "x")]));
    environment.signal("-HUP", &daemon.child);
    let told = daemon.wait_for_line("the mistake", |line| {
        line["message"].as_str().is_some_and(|text| text.contains("accounts.two.schedule: must"))
    });
    assert_eq!(told["level"], "ERROR");
    daemon.wait_for_line("the old one", |line| {
        line["message"] == "cannot reload the configuration; the old one stays in effect"
    });
    daemon.wait_for_message("one", "complete");
    environment.write("config.toml", &config(&[("two", &url, EACH_SECOND)]));
    environment.signal("-HUP", &daemon.child);
    daemon.wait_for_line("the new one", |line| line["message"] == "the configuration was reloaded");
    daemon.wait_for_message("two", "complete");
    let rest = daemon.stops("-TERM");
    let begins = |line: &&Value| line["account"] == "one" && line["message"] == "backup begins";
    assert_eq!(rest.iter().find(begins), None);
}

#[test]
fn once_backs_up_due_accounts_and_has_the_exit_code_of_backup() {
    let (service, broken) =
        (LiveService::start("", ""), LiveService::start("", "html@/api/account"));
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    environment.run(&["status"]).exits_with(3).stdout_has("never");
    environment.run(&["daemon", "--once"]).succeeds().stdout_is("").stderr_has("complete");
    assert!(!service.new_requests().is_empty());
    environment.run(&["daemon", "--once"]).succeeds();
    assert_eq!(service.new_requests(), Vec::<String>::new(), "nothing was due");
    environment.run(&["status"]).succeeds().fits();
    let two = [("main", service.url(), NIGHTLY), ("new", broken.url(), NIGHTLY)];
    let two = two.each_ref().map(|(name, url, line)| (*name, url.as_str(), *line));
    environment.write("config.toml", &config(&two));
    environment.run(&["daemon", "--once"]).exits_with(1).stderr_has("failed: ");
    environment.run(&["status", "main"]).succeeds();
    let status = environment.run(&["status", "--json"]).exits_with(1).json();
    assert_eq!(status["accounts"][1]["problems"][0]["kind"], "failed");
    let told = environment.run(&["daemon", "--once", "--json"]).succeeds().json();
    assert_eq!(told["format"], 1);
    for (nth, name) in [(0, "main"), (1, "new")] {
        let (told, status) = (&told["accounts"][nth], &status["accounts"][nth]);
        assert_eq!((&told["account"], &told["last"]), (&Value::from(name), &status["last"]));
    }
    broken.faults("html@/api/pixels");
    environment.run(&["backup", "new", "-q"]).exits_with(3);
    let status = environment.run(&["status", "new"]).exits_with(3);
    status.stdout_has("warning").stdout_has("not read whole: pixels");
}

/// Each process would say anew that the new schedule counts from its own start.
#[test]
fn once_follows_a_changed_schedule() {
    let service = LiveService::start("", "");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    environment.run(&["daemon", "--once"]).succeeds();
    environment.write("config.toml", &config(&[("main", &service.url(), EACH_SECOND)]));
    environment.run(&["daemon", "--once"]).succeeds();
    service.new_requests();
    crate::support::until("a slot of the new schedule", || {
        environment.run(&["daemon", "--once"]).succeeds();
        !service.new_requests().is_empty()
    });
}

#[test]
fn a_locked_account_is_postponed_without_an_alert() {
    let service = LiveService::start("", "");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    environment.run(&["daemon", "--once"]).succeeds();
    environment.write("config.toml", &config(&[("main", &service.url(), EACH_SECOND)]));
    let vault = environment.path("vaults/main.db");
    let clock = linkvault::clock::SystemClock::new(linkvault::clock::Interrupt::default());
    let lock = linkvault::vault::lock::Lock::take(&vault, "test", Duration::ZERO, &clock).unwrap();
    let daemon = Daemon::start(&environment);
    let told = daemon.wait_for_message("main", "postponed: ");
    assert_eq!(told["level"], "WARN", "{told}");
    daemon.stops("-TERM");
    drop(lock);
    let status = environment.run(&["status", "--json"]).succeeds().json();
    let main = &status["accounts"][0];
    assert_eq!((&main["health"], &main["totals"]["failures"]), (&"good".into(), &0.into()));
}

/// `--once` may be all that ever runs.
#[test]
fn once_also_reports_accounts_that_were_not_due() {
    let service = LiveService::start("", "");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    environment.run(&["daemon", "--once"]).succeeds();
    let told = environment.path("told");
    let alerts = format!(
        "[accounts.main.alerts]\nmax_age = \"1s\"\n\
         command = [\"sh\", \"-c\", \"cat >> {}\"]\n",
        told.display()
    );
    let text = config(&[("main", &service.url(), NIGHTLY)]) + &alerts;
    environment.write("config.toml", &text);
    service.new_requests();
    crate::support::until("it is too old", || {
        environment.run(&["daemon", "--once"]).succeeds();
        told.exists()
    });
    environment.run(&["daemon", "--once"]).succeeds();
    let told = std::fs::read_to_string(told).unwrap();
    assert_eq!(told.matches("\"event\":\"begun\"").count(), 1, "{told}");
    assert!(told.contains("\"problem\":\"old\""), "{told}");
    assert_eq!(service.new_requests(), Vec::<String>::new(), "nothing was due");
}

#[test]
fn a_refused_key_is_alerted_and_not_retried() {
    let service = LiveService::start("", "");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    let environment = environment.variable("LINKS_KEY", "wrong");
    environment.run(&["daemon", "--once"]).exits_with(7).stderr_has("failed");
    let status = environment.run(&["status", "--json"]).exits_with(1).json();
    assert_eq!(status["accounts"][0]["problems"][0]["kind"], "key_refused");
}

#[test]
fn a_daemon_without_a_schedule_and_a_second_one_are_refused() {
    let service = LiveService::start("", "latency=1s");
    let bare = TestEnvironment::new().account(&service.url());
    bare.run(&["daemon", "--listen", "off"])
        .exits_with(1)
        .stderr_has("no account has a schedule in HOME/config.toml");
    bare.run(&["daemon", "--listen", "off"]).stderr_has("schedule = \"0 3 * * *\"");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    let daemon = Daemon::start(&environment);
    daemon.wait_for_message("main", "backup begins");
    let second = environment.run(&["daemon", "--once"]).exits_with(11);
    second.stderr_has("another daemon runs for these accounts: pid");
    let status = environment.run(&["status"]).exits_with(3);
    status.stdout_has("under way");
    daemon.stops("-TERM");
}

#[test]
fn the_web_ui_is_served_at_the_configured_address() {
    let service = LiveService::start("", "");
    let page = "[daemon]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"page.token\"\n\
                allow_host = [\"backups.example\"]\n";
    let accounts = config(&[("main", &service.url(), NIGHTLY)]);
    let environment = TestEnvironment::new().variable("LINKS_KEY", KEY);
    let environment =
        environment.config(&format!("{page}{accounts}")).file("page.token", "s3cret-of-the-page");
    let environment = environment.mode("page.token", 0o600);
    let daemon = Daemon::with(&environment, &[]);
    let address = daemon.page();
    let status = |host: &str, token: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!("host: {host}\r\nauthorization: Bearer {token}\r\nconnection: close");
        write!(stream, "GET /metrics HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("backups.example", "s3cret-of-the-page"), "200");
    assert_eq!(status("backups.example", "another"), "401");
    assert_eq!(status("elsewhere.example", "s3cret-of-the-page"), "421");
    daemon.stops("-TERM");
}

#[test]
fn an_unreadable_state_file_is_logged_and_does_not_stop_backups() {
    let service = LiveService::start("", "");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    environment.run(&["daemon", "--once"]).succeeds();
    environment.write("vaults/main.db.daemon", "{\"served\": \"never\"}");
    environment.run(&["status"]).succeeds().stderr_has("starting with an empty state");
    service.new_requests();
    environment.run(&["daemon", "--once"]).succeeds().stderr_has("starting with an empty state");
    assert_eq!(service.new_requests(), Vec::<String>::new(), "the vault tells when it was made");
}

#[test]
fn systemd_is_notified_of_ready_watchdog_reload_and_stop() {
    let service = LiveService::start("", "");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    let path = environment.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let environment = environment.variable("NOTIFY_SOCKET", path.to_str().unwrap());
    let wait_for_line = |what: &str| {
        let mut bytes = [0; 4096];
        loop {
            let length = socket.recv(&mut bytes).unwrap_or_else(|_| panic!("never heard {what}"));
            let told = String::from_utf8_lossy(&bytes[..length]);
            if told.lines().any(|line| line.starts_with(what)) {
                return told.into_owned();
            }
        }
    };
    let daemon = Daemon::start(&environment);
    wait_for_line("READY=1");
    wait_for_line("WATCHDOG=1");
    assert!(wait_for_line("STATUS=").contains("accounts, "));
    environment.signal("-HUP", &daemon.child);
    assert!(wait_for_line("RELOADING=1").contains("MONOTONIC_USEC="));
    wait_for_line("READY=1");
    daemon.stops("-TERM");
    wait_for_line("STOPPING=1");
}

/// A server that records messages: the first line of each, its signature, its body.
struct MessageServer {
    address: String,
    heard: Receiver<[String; 3]>,
}

impl MessageServer {
    fn open() -> Self {
        use std::io::{Read as _, Write as _};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(&stream);
                let mut head = Vec::new();
                for line in reader.by_ref().lines().map_while(Result::ok) {
                    if line.is_empty() {
                        break;
                    }
                    head.push(line);
                }
                let value = |name: &str| {
                    let value = head.iter().find_map(|line| line.strip_prefix(name));
                    value.unwrap_or_default().trim().to_owned()
                };
                let mut body = vec![0; value("content-length:").parse().unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                let told = [head[0].clone(), value("x-linkvault-signature:"), body];
                let _ =
                    (&stream).write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
                if tell.send(told).is_err() {
                    break;
                }
            }
        });
        Self { address, heard }
    }
}

#[test]
fn a_webhook_is_signed_and_an_outdated_heartbeat_is_not_sent() {
    let (service, server) = (LiveService::start("", ""), MessageServer::open());
    let environment = environment(&[("main", &service.url(), NIGHTLY)]).variable("HOOK", "hush");
    let text = |schedule: &str, heartbeat: &str| {
        let main = config(&[("main", &service.url(), schedule)]);
        format!(
            "{main}heartbeat = \"http://{heartbeat}/beat\"\n[accounts.main.alerts]\n\
             webhook = \"http://{}/hook\"\nsecret_env = \"HOOK\"\n",
            server.address
        )
    };
    // No server listens there yet.
    environment.write("config.toml", &text(NIGHTLY, "127.0.0.1:1"));
    environment.run(&["daemon", "--once"]).succeeds().stderr_has("cannot deliver the heartbeat");
    service.faults("html@/api/account");
    environment.write("config.toml", &text(EACH_SECOND, "127.0.0.1:1"));
    let once = |wanted: &str| {
        crate::support::until(wanted, || {
            let status = environment.run(&["status", "--json"]).json();
            environment.run(&["daemon", "--once"]);
            status["accounts"][0]["last"]["outcome"] == wanted
        });
    };
    once("failed");
    // The backup of before is complete still, but the newest failed.
    environment.write("config.toml", &text(EACH_SECOND, &server.address));
    environment.run(&["daemon", "--once"]);
    service.faults("");
    once("complete");
    let heard: Vec<_> = server.heard.try_iter().collect();
    let lines: Vec<_> = heard.iter().map(|[line, _, _]| line.as_str()).collect();
    assert_eq!(lines[..2], ["POST /hook HTTP/1.1"; 2], "the failure, its end, and then: {heard:?}");
    assert!(lines[2..].iter().all(|line| *line == "GET /beat HTTP/1.1"), "{heard:?}");
    let signed = linkvault::health::alert_message::signature(b"hush", heard[0][2].as_bytes());
    assert_eq!(heard[0][1], signed);
    assert!(heard[0][2].contains("\"event\":\"begun\"") && heard[1][2].contains("\"ended\""));
}

/// A supervisor may repeat itself.
#[test]
fn fifty_sigterms_end_the_daemon_like_one() {
    let service = LiveService::start("", "latency=150ms");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    let mut daemon = Daemon::start(&environment);
    daemon.wait_for_message("main", "backup begins");
    for _ in 0..50 {
        environment.signal("-TERM", &daemon.child);
    }
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    let rest: Vec<_> = daemon.lines.iter().collect();
    assert_eq!(rest.last().unwrap()["message"], "the daemon ends");
    let status = environment.run(&["status", "--json"]).exits_with(3).json();
    assert_eq!(status["accounts"][0]["last"]["outcome"], "stopped");
}

#[test]
fn fifty_sigterms_end_a_backup_like_one() {
    let service = LiveService::start("", "latency=150ms");
    let environment = environment(&[("main", &service.url(), NIGHTLY)]);
    let child = environment.start(&["backup", "main"]);
    crate::support::until("some requests", || service.request_count() >= 2);
    for _ in 0..50 {
        environment.signal("-TERM", &child);
    }
    let ended = environment.wait(child).exits_with(130);
    assert_eq!(ended.stderr().matches("stopping after").count(), 1);
    let stopped = environment.run(&["status", "--json"]).exits_with(3).json();
    assert_eq!(stopped["accounts"][0]["last"]["outcome"], "stopped");
}

/// The second Ctrl-C does not wait for the service.
#[test]
#[cfg(unix)]
fn a_second_ctrl_c_ends_a_command_at_once() {
    use std::os::unix::process::ExitStatusExt as _;
    let never = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", never.local_addr().unwrap());
    let environment = environment(&[("main", &url, NIGHTLY)]);
    let mut child = environment.start(&["backup", "main", "-q"]);
    let (mut asked, _) = never.accept().unwrap();
    asked.read_exact(&mut [0; 4]).unwrap();
    crate::support::until("the end", || {
        environment.signal("-INT", &child);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}
