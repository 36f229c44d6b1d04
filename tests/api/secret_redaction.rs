//! Services that echo secrets: no spelling of them is printed or stored.

use std::io::Write as _;
use std::net::TcpStream;

use crate::daemon::process::{Daemon, EACH_SECOND};
use crate::support::canned_responses::{self, Canned};
use crate::support::echo_server::{EchoService, SPELLINGS, Write, contains_secret};
use crate::support::{Host, TestEnvironment};

const KEY: &str = "k3y-of+the/Owner=9";
const TOKEN: &str = "token-of+the/Page=31";
const PASSWORD: &str = "corrEct+horse/battery=7";

fn environment(service: &EchoService, more: &str) -> TestEnvironment {
    TestEnvironment::new().account_with(&service.url(), more).variable("LINKS_KEY", KEY)
}

/// Nothing that came out has one of the secrets in it.
#[track_caller]
fn is_clean(what: &str, bytes: &[u8], secrets: &[&str]) {
    for secret in secrets {
        let text = String::from_utf8_lossy(bytes);
        assert!(!contains_secret(bytes, secret), "{what} has {secret}:\n{text}");
    }
}

#[track_caller]
fn files_are_clean(environment: &TestEnvironment, what: &str, secrets: &[&str]) {
    for (path, bytes) in environment.files() {
        is_clean(&format!("{what}: {}", path.display()), &bytes, secrets);
    }
}

#[test]
fn no_spelling_of_the_key_is_printed_or_stored() {
    for how in 0..SPELLINGS {
        let service = EchoService::start(KEY, how, Write::Done);
        let environment = environment(&service, "");
        let backup = environment.run(&["backup", "main", "-vvv", "--progress", "json"]);
        assert_eq!(backup.code(), Some(3), "{}", backup.stderr());
        is_clean(&format!("backup {how}"), &backup.bytes(), &[KEY]);
        for arguments in [
            &["show", "main@latest", "--json"][..],
            &["show", "main@latest", "campaigns"],
            &["export", "main", "--to", "out", "--format", "json"],
            &["status", "--json"],
            &["doctor", "main", "-vvv"],
        ] {
            let ran = environment.run(arguments);
            is_clean(&format!("{arguments:?} {how}"), &ran.bytes(), &[KEY]);
        }
        let shown = environment.run(&["show", "main@latest", "account", "--json"]).stdout();
        assert!(shown.contains("[redacted]"), "{how}: {shown}");
        let name = environment.run(&["show", "main@latest", "campaigns", "4"]).stdout();
        assert!(name.contains("Sale [redacted] and  now"), "{how}: {name}");
        files_are_clean(&environment, &how.to_string(), &[KEY]);
    }
}

#[test]
fn an_account_password_that_the_service_echoes_is_not_stored() {
    for (nth, write) in
        [Write::Done, Write::Refused, Write::Failed, Write::Redirected].into_iter().enumerate()
    {
        for how in [nth, nth + 6] {
            let service = EchoService::start(KEY, how, write);
            let environment = environment(&service, "");
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("password");
            std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
            let file = file.display().to_string();
            let set =
                ["apply", "--to", "main", "--password-file", &file, "--yes", "-vvv", "--json"];
            let ran = environment.run(&set);
            assert!(service.request_count() > 1, "{}", ran.stderr());
            let secrets = [KEY, PASSWORD];
            is_clean(&format!("{write:?} {how}"), &ran.bytes(), &secrets);
            let runs = environment.run(&["runs", "main", "1", "--json"]);
            is_clean(&format!("runs {write:?} {how}"), &runs.bytes(), &secrets);
            files_are_clean(&environment, &format!("{write:?} {how}"), &secrets);
        }
    }
}

#[test]
fn a_short_key_is_redacted_in_errors_of_a_response_with_status_200() {
    const SHORT: &str = "abc12Z";
    for body in [
        format!("{{\"error\":1,\"message\":\"the key {SHORT} is wrong\"}}"),
        format!("{{\"error\":\"403\",\"message\":\"the key {SHORT} is wrong\"}}"),
        format!("<p>the key {SHORT} is wrong</p>"),
    ] {
        let host = Host::page("200 OK", "application/json", &body);
        let environment =
            TestEnvironment::new().account_with(&host.url(), "").variable("LINKS_KEY", SHORT);
        let backup = environment.run(&["backup", "main", "-vvv"]);
        assert_ne!(backup.code(), Some(0));
        assert!(host.received()[0].contains(SHORT) && backup.stderr().contains("[redacted]"));
        is_clean(&body, &backup.bytes(), &[SHORT]);
        for arguments in [&["status", "--json"][..], &["doctor", "main", "-vvv"]] {
            let ran = environment.run(arguments);
            is_clean(&format!("{arguments:?} {body}"), &ran.bytes(), &[SHORT]);
        }
        files_are_clean(&environment, &body, &[SHORT]);
    }
}

/// Records keep such a word; errors about a malformed response do not.
#[test]
fn a_short_key_is_redacted_in_errors_about_a_response() {
    const SHORT: &str = "abc12Z";
    for (path, body) in [
        ("/api/account", format!("{{\"error\":0,\"id\":1,\"note\":\"{SHORT}\"}}")),
        ("/api/campaigns", format!("{{\"error\":0,\"data\":\"{SHORT}\"}}")),
        ("/api/campaigns", format!("{{\"error\":0,\"data\":{{\"campaigns\":\"{SHORT}\"}}}}")),
        ("/api/campaigns", format!("{{\"error\":0,\"data\":{{\"other\":[\"{SHORT}\"]}}}}")),
    ] {
        let answer = body.clone();
        let host = Canned::start(None, move |asked| match asked.starts_with(path) {
            true => answer.clone(),
            false => canned_responses::small(asked),
        });
        let url = format!("http://127.0.0.1:{}", host.port());
        let environment =
            TestEnvironment::new().account_with(&url, "").variable("LINKS_KEY", SHORT);
        let backup = environment.run(&["backup", "main", "-vv"]);
        assert_ne!(backup.code(), Some(0));
        assert!(backup.stderr().contains("[redacted]"), "{body}: {}", backup.stderr());
        is_clean(&body, &backup.bytes(), &[SHORT]);
        for arguments in [&["status", "--json"][..], &["doctor", "main"], &["show", "main"]] {
            let ran = environment.run(arguments);
            is_clean(&format!("{arguments:?} {body}"), &ran.bytes(), &[SHORT]);
        }
        files_are_clean(&environment, &body, &[SHORT]);
    }
}

#[test]
fn a_response_that_is_not_http_reveals_no_key() {
    for first in [format!("HTTP/1.1 {KEY} OK"), KEY.to_owned(), format!("HTTP/1.1 200 {KEY}")] {
        let host = Host::answering(format!("{first}\r\n{KEY}\u{1}: {KEY}\r\n\r\n{KEY}"));
        let environment = TestEnvironment::new().variable("LINKS_KEY", KEY);
        let ran = environment.run(&[
            "init",
            "main",
            "--url",
            &host.url(),
            "--key-env",
            "LINKS_KEY",
            "-vvv",
        ]);
        assert!(host.received()[0].contains(KEY));
        is_clean(&first, &ran.bytes(), &[KEY]);
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let close = format!("authorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{close}").unwrap();
    std::io::read_to_string(stream).unwrap()
}

#[test]
fn alerts_web_ui_and_persisted_state_have_no_key() {
    for how in [0, 3, 6] {
        let secrets = [KEY, "the-shared-secret", TOKEN, "a-secret-of-chat-room-7"];
        let service = EchoService::with(KEY, how, Write::Done, &secrets[1..]);
        let listener = Host::answering(format!(
            "HTTP/1.1 302 {KEY}\r\nlocation: http://{KEY}/\r\ncontent-length: 0\r\n\
             connection: close\r\n\r\n"
        ));
        let url = listener.url();
        let more = format!(
            "schedule = \"{EACH_SECOND}\"\n[accounts.main.alerts]\n\
             webhook = \"{url}/hooks/a-secret-of-chat-room-7\"\nsecret_env = \"ALERTS\"\n\
             command = [\"sh\", \"-c\", \"(env; cat) >> told\"]\n"
        );
        let environment = environment(&service, &more).variable("ALERTS", "the-shared-secret");
        let environment = environment.file("page.token", TOKEN).mode("page.token", 0o600);
        let token = environment.path("page.token").display().to_string();
        let flags = ["--listen", "127.0.0.1:0", "--token-file", &token, "-vvv"];
        let daemon = Daemon::with(&environment, &flags);
        let address = daemon.page();
        let mut lines = vec![daemon.wait_for_line("a delivery that failed", |line| {
            line["message"]
                .as_str()
                .is_some_and(|it| it.contains("cannot deliver the alert to the webhook"))
        })];
        let (mut paths, mut seen) = (vec!["/".to_owned(), "/metrics".to_owned()], 0);
        while let Some(path) = paths.get(seen).cloned().filter(|_| seen < 40) {
            seen += 1;
            let page = get(&address, &path);
            is_clean(&format!("{path} {how}"), page.as_bytes(), &secrets);
            for link in page.split("href=\"/").skip(1) {
                let link = format!("/{}", link.split('"').next().unwrap().replace("&amp;", "&"));
                if !paths.contains(&link) {
                    paths.push(link);
                }
            }
        }
        assert!(seen > 10, "{paths:?}");
        lines.extend(daemon.stops("-TERM"));
        is_clean(&format!("log {how}"), format!("{lines:?}").as_bytes(), &secrets);
        let status = environment.run(&["status", "--json"]);
        is_clean(&format!("status {how}"), &status.bytes(), &secrets);
        is_clean(&format!("webhook {how}"), listener.received().concat().as_bytes(), &secrets[..3]);
        assert!(environment.text("told").contains("LINKVAULT_TEXT="));
        for own in ["config.toml", "page.token"] {
            std::fs::remove_file(environment.path(own)).unwrap();
        }
        files_are_clean(&environment, &how.to_string(), &secrets);
    }
}
