//! Hosts that are not the API: what was asked, and what came back.

use crate::support::{Host, TestEnvironment};

#[test]
fn a_web_page_is_told_with_status_type_and_excerpt() {
    let page = "<html><title>Welcome to our shop</title></html>";
    let host = Host::page("200 OK", "text/html; charset=utf-8", page);
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).prints("");
    ran.says_among("error: GET /api/account: expected a JSON document of the API")
        .says_among("got HTTP 200, text/html; charset=utf-8: <html><title>Welcome to our shop")
        .says_among("Check the account's url");
}

#[test]
fn a_host_without_the_path_is_told() {
    let host = Host::page("404 Not Found", "text/html", "<h1>Not Found</h1>");
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).prints("");
    ran.says_among("GET /api/account: ").says_among("404").says_among("url");
}

#[test]
fn a_document_of_another_api_is_told() {
    let host = Host::page("200 OK", "application/json", "{\"status\":\"up\"}");
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).prints("");
    ran.says_among("GET /api/account: ").says_among("{\"status\":\"up\"}");
}

#[test]
fn a_closed_port_is_told_at_once_by_doctor() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let environment = TestEnvironment::new().account(&format!("http://{closed}"));
    let ran = environment.run(&["doctor", "main"]).exits_with(1);
    ran.prints_among("fail answer").prints_among("refused");
    let init = ["init", "other", "--url", &format!("http://{closed}"), "--key-env", "LINKS_KEY"];
    environment.run(&init).exits_with(1).says_among("not sent: ").says_among("network");
}

#[test]
fn a_redirect_is_not_followed_and_the_other_host_gets_no_request() {
    let other = Host::page("200 OK", "application/json", "{}");
    let target = format!("{}/api/account", other.url());
    let host = Host::answering(format!(
        "HTTP/1.1 301 Moved Permanently\r\nlocation: {target}\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n"
    ));
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).prints("");
    ran.says_among(&format!("redirected to {target} (HTTP 301), not followed"));
    assert_eq!(host.heard().len(), 1);
    assert_eq!(other.heard().len(), 0);
}

#[test]
fn control_characters_from_an_unexpected_host_are_escaped() {
    let host = Host::page("200 OK", "text/plain", "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}");
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1);
    assert!(!ran.stderr().contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", ran.stderr());
}
