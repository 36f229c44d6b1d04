//! What the daemon sends and serves: alerts, heartbeats, and the web UI.

use std::io::Write as _;
use std::net::TcpStream;

use linkvault::health::alert_message::signature;
use serde_json::Value;

use crate::daemon::process::{Daemon, EACH_SECOND};
use crate::support::{Host, LiveService, TestEnvironment, until};

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
