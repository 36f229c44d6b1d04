//! What the daemon sends and serves: alerts, heartbeats, and the web UI.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::health::alert_message::signature;
use serde_json::Value;

use crate::daemon::process::{Daemon, EACH_SECOND};
use crate::support::{Host, LiveService, TestEnvironment, until};
use crate::ui::serving::Page;

fn alerting(service: &LiveService, listener: &Host) -> TestEnvironment {
    let more = format!(
        "schedule = \"{EACH_SECOND}\"\nheartbeat = \"{0}/alive\"\n[accounts.main.alerts]\n\
         webhook = \"{0}/hooks/s3cret\"\nsecret_env = \"ALERTS\"\n\
         command = [\"sh\", \"-c\", \"echo $LINKVAULT_EVENT $LINKS_KEY $ALERTS >> told\"]\n",
        listener.url()
    );
    TestEnvironment::new().account_with(&service.url(), &more).variable("ALERTS", "shared")
}

#[test]
fn one_alert_when_a_problem_begins_one_when_it_ends_and_a_heartbeat() {
    let service = LiveService::start("", "html@/api/account");
    let listener = Host::status("200 X");
    let environment = alerting(&service, &listener);
    let daemon = Daemon::listening(&environment, "off");
    let (head, body) = listener.next();
    assert!(head.starts_with("POST /hooks/s3cret HTTP/1.1\r\n"), "{head}");
    let signed = format!("x-linkvault-signature: {}\r\n", signature(b"shared", body.as_bytes()));
    assert!(head.contains(&signed), "{head}");
    let begun: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&begun["event"], &begun["problem"]), (&"begun".into(), &"failed".into()));
    assert!(begun["text"].as_str().unwrap().contains("`linkvault doctor main`"), "{begun}");
    for _ in 0..2 {
        daemon.wait_for_line("another failure", |line| !line["seconds"].is_null());
    }
    service.faults("");
    let (head, body) = listener.next();
    assert!(head.starts_with("POST "), "no heartbeat before a complete backup: {head}");
    let ended: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&ended["event"], &ended["since"]), (&"ended".into(), &begun["since"]));
    let (head, _) = listener.next();
    assert!(head.starts_with("GET /alive HTTP/1.1\r\n"), "{head}");
    let rest = daemon.stops("-TERM");
    assert!(!format!("{rest:?}").contains("s3cret"));
    let told = environment.text("told");
    assert_eq!(told.lines().map(str::trim_end).collect::<Vec<_>>(), ["begun", "ended"]);
    let posts = listener.unread().iter().filter(|head| head.starts_with("POST")).count();
    assert_eq!(posts, 0, "nothing more was told");
}

#[test]
fn undelivered_alerts_are_sent_by_the_next_process() {
    let service = LiveService::start("", "html@/api/account");
    let listener = Host::status("500 X");
    let environment = alerting(&service, &listener);
    let daemon = Daemon::listening(&environment, "off");
    listener.next();
    daemon.wait_for_line("that it failed", |line| {
        line["message"].as_str().is_some_and(|it| it.contains("127.0.0.1 answered 500"))
    });
    daemon.stops("-TERM");
    let notes: Value = serde_json::from_str(&environment.text("vaults/main.db.daemon")).unwrap();
    assert_eq!(notes["outbox"].as_array().unwrap().len(), 1, "{notes}");
    assert_eq!(notes["outbox"][0]["channel"], "webhook");
}

#[test]
fn changed_fields_are_one_alert() {
    let service = LiveService::start("", "");
    let listener = Host::status("200 X");
    let environment = alerting(&service, &listener);
    environment.run(&["backup", "main", "-q"]).succeeds();
    service.sandbox().mutate(|store| {
        for (_, pixel) in store.pixels.iter_mut() {
            pixel.extra.insert("owner".to_owned(), "s3cret".into());
        }
    });
    let daemon = Daemon::listening(&environment, "off");
    let next_alert = || loop {
        let (head, body) = listener.next();
        if head.starts_with("POST ") {
            break serde_json::from_str::<Value>(&body).unwrap();
        }
    };
    let begun = next_alert();
    assert_eq!((&begun["event"], &begun["problem"]), (&"begun".into(), &"fields".into()));
    assert_eq!(begun["message"], "the service now sends `owner` (text) for pixels");
    let ended = next_alert();
    assert_eq!((&ended["event"], &ended["since"]), (&"ended".into(), &begun["since"]));
    for _ in 0..2 {
        daemon.wait_for_line("another backup", |line| line["message"] == "complete");
    }
    // The command runs after the webhook has answered.
    until("the command has run twice", || environment.text("told").lines().count() >= 2);
    daemon.stops("-TERM");
    let told = environment.text("told");
    assert_eq!(told.lines().map(str::trim_end).collect::<Vec<_>>(), ["begun", "ended"]);
    environment.run(&["doctor", "main"]).succeeds().stdout_has("the service now sends `owner`");
}

#[test]
fn the_daemon_serves_web_ui_health_and_metrics() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new()
        .account_with(&service.url(), &format!("schedule = \"{EACH_SECOND}\"\n"));
    let daemon = Daemon::listening(&environment, "127.0.0.1:0");
    let address = daemon.page();
    daemon.wait_for_line("a backup", |line| line["message"] == "complete");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let close = "connection: close\r\n\r\n";
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{close}").unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200 "));
    let metrics = get("/metrics");
    assert!(metrics.contains("account=\"main\""), "{metrics}");
    assert!(get("/").contains("href=\"/accounts/main\""));
    assert!(get("/accounts/main").starts_with("HTTP/1.1 200 "));
    daemon.stops("-TERM");
    assert!(TcpStream::connect(&address).is_err(), "the page ends with the daemon");
}

/// An address where nothing listens.
fn dead_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn doctor_finds_alerts_copies_and_heartbeats_that_cannot_work() {
    let service = LiveService::start("", "");
    let dead = dead_address();
    let more = format!(
        "heartbeat = \"{dead}/alive\"\ncopy = \"/dev/null/copies\"\n\
         [accounts.main.export]\nto = \"/dev/null/sheets\"\n[accounts.main.alerts]\n\
         webhook = \"{dead}/hooks/s3cret-1\"\ncommand = [\"no-such-program\", \"x\"]\n"
    );
    let environment = TestEnvironment::new().account_with(&service.url(), &more);
    let doctor = environment.run(&["doctor", "main"]).exits_with(1);
    let doctor = doctor
        .stdout_has("fail copy      cannot write to /dev/null/copies: ")
        .stdout_has("fail export    cannot write to /dev/null/sheets: ")
        .stdout_has("fail webhook   cannot reach 127.0.0.1: ")
        .stdout_has(
            "fail command   cannot run `no-such-program`: no folder of PATH has `no-such-program`",
        )
        .stdout_has("fail heartbeat cannot reach 127.0.0.1: ");
    assert!(!doctor.stdout().contains("s3cret"));
    let told = environment.run(&["doctor", "main", "--json"]).exits_with(1).json();
    let findings = told["accounts"][0]["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(|it| it["ok"] == false).count(), 5, "{told}");
}

/// The check sends no alert and no heartbeat, and leaves nothing in the folders.
#[test]
fn doctor_checks_alerts_without_sending_one() {
    let service = LiveService::start("", "");
    let listener = Host::status("404 X");
    let environment = alerting(&service, &listener);
    let config = environment.text("config.toml");
    let config = config.replacen("heartbeat", "copy = \"copies/deep\"\nheartbeat", 1);
    environment.write("config.toml", &config);
    environment
        .run(&["doctor", "main"])
        .succeeds()
        .stdout_has("ok   webhook   127.0.0.1 responds")
        .stdout_has("ok   heartbeat 127.0.0.1 responds")
        .stdout_has("/sh can be run; `linkvault alerts test` runs it");
    let heads: Vec<_> = listener.received();
    assert_eq!(heads.len(), 2);
    assert!(heads.iter().all(|head| head.starts_with("HEAD / HTTP/1.1\r\n")), "{heads:?}");
    assert!(!environment.path("copies").exists());
    assert!(!environment.path("told").exists());
}

#[test]
fn alerts_test_sends_one_alert_to_each_channel() {
    let service = LiveService::start("", "");
    let listener = Host::status("200 X");
    let environment = alerting(&service, &listener);
    environment.run(&["alerts", "test", "main"]).succeeds().stdout_is(
        "ok   main: webhook: a test alert was sent\nok   main: command: a test alert was sent\n",
    );
    let (head, body) = listener.next();
    let signed = format!("x-linkvault-signature: {}\r\n", signature(b"shared", body.as_bytes()));
    assert!(head.starts_with("POST /hooks/s3cret ") && head.contains(&signed), "{head}");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&told["event"], &told["problem"]), (&"test".into(), &"test".into()));
    assert_eq!(environment.text("told").trim_end(), "test");
    assert!(listener.unread().is_empty(), "a heartbeat would be taken for a backup");
    environment
        .write("config.toml", &environment.text("config.toml").replace("\"sh\"", "\"gone\""));
    let ran = environment.run(&["alerts", "test", "--json"]).exits_with(1).json();
    let channels = &ran["accounts"][0]["channels"];
    assert_eq!((&channels[0]["ok"], &channels[1]["ok"]), (&true.into(), &false.into()), "{ran}");
    let none = TestEnvironment::new().account(&service.url());
    none.run(&["alerts", "test"]).exits_with(1).stderr_has("no alerts are configured for main");
}

#[test]
fn undelivered_alerts_are_in_status_web_ui_and_metrics() {
    let service = LiveService::start("", "html@/api/account");
    let listener = Host::status("500 X");
    let environment = alerting(&service, &listener);
    environment.run(&["daemon", "--once"]).exits_with(1);
    let told = environment.run(&["status", "main", "--json"]).exits_with(1).json();
    let account = &told["accounts"][0];
    assert_eq!(account["undelivered_alerts"], 1, "{account}");
    let problem = account["problems"].as_array().unwrap().last().unwrap();
    assert_eq!(problem["kind"], "undelivered", "{account}");
    let why = "an alert was not delivered: cannot deliver the alert to the webhook: 127.0.0.1 answered 500";
    assert_eq!(problem["message"], why);
    let page = Page::start(&environment, &[]);
    assert!(page.get("/accounts/main").contains("an alert was not delivered"));
    let metrics = page.get("/metrics");
    assert!(metrics.contains("linkvault_undelivered_alerts{account=\"main\"} 1.0\n"), "{metrics}");
    page.interrupt();
    // The heartbeat of a complete backup.
    service.faults("");
    environment.run(&["daemon", "--once"]);
    let told = environment.run(&["status", "main"]);
    told.stdout_has("not delivered");
}

/// The webhook accepts the connection and never responds.
#[test]
fn sigterm_ends_the_daemon_while_a_webhook_hangs() {
    let service = LiveService::start("", "html@/api/account");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!(
        "schedule = \"{EACH_SECOND}\"\n[accounts.main.alerts]\nwebhook = \"http://{}/hook\"\n",
        silent.local_addr().unwrap()
    );
    let environment = TestEnvironment::new().account_with(&service.url(), &more);
    let daemon = Daemon::listening(&environment, "off");
    let _connection = silent.accept().unwrap();
    let clock = SystemClock::new(Interrupt::default());
    daemon.stops("-TERM");
    assert!(clock.monotonic() < Duration::from_secs(5), "{:?}", clock.monotonic());
    // It is not lost.
    let notes: Value = serde_json::from_str(&environment.text("vaults/main.db.daemon")).unwrap();
    assert_eq!(
        (&notes["outbox"][0]["channel"], &notes["outbox"][0]["tries"]),
        (&"webhook".into(), &0.into())
    );
}
