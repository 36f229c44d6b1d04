//! Hosts that are not the API: the errors name the request and the response.

use crate::support::{Host, TestEnvironment};

#[test]
fn a_web_page_is_reported_with_status_type_and_excerpt() {
    let page = "<html><title>Welcome to our shop</title></html>";
    let host = Host::page("200 OK", "text/html; charset=utf-8", page);
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
    ran.stderr_has("error: GET /api/account: expected a JSON document of the API")
        .stderr_has("got HTTP 200, text/html; charset=utf-8: <html><title>Welcome to our shop")
        .stderr_has("Check the account's url");
}

#[test]
fn a_host_without_the_api_path_is_reported() {
    let host = Host::page("404 Not Found", "text/html", "<h1>Not Found</h1>");
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
    ran.stderr_has("GET /api/account: ").stderr_has("404").stderr_has("url");
}

#[test]
fn a_response_of_another_api_is_reported() {
    let host = Host::page("200 OK", "application/json", "{\"status\":\"up\"}");
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
    ran.stderr_has("GET /api/account: ").stderr_has("{\"status\":\"up\"}");
}

#[test]
fn doctor_reports_a_closed_port_at_once() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let environment = TestEnvironment::new().account(&format!("http://{closed}"));
    let ran = environment.run(&["doctor", "main"]).exits_with(1);
    ran.stdout_has("fail answer").stdout_has("refused");
    let init = ["init", "other", "--url", &format!("http://{closed}"), "--key-env", "LINKS_KEY"];
    environment.run(&init).exits_with(1).stderr_has("not sent: ").stderr_has("network");
}

#[test]
fn a_redirect_to_another_host_is_not_followed() {
    let other = Host::page("200 OK", "application/json", "{}");
    let target = format!("{}/api/account", other.url());
    let host = Host::answering(format!(
        "HTTP/1.1 301 Moved Permanently\r\nlocation: {target}\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n"
    ));
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
    ran.stderr_has(&format!("redirected to {target} (HTTP 301), not followed"));
    assert_eq!(host.received().len(), 1);
    assert_eq!(other.received().len(), 0);
}

#[test]
fn control_characters_from_an_unexpected_host_are_escaped() {
    let host = Host::page("200 OK", "text/plain", "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}");
    let environment = TestEnvironment::new().account(&host.url());
    let ran = environment.run(&["backup", "main"]).exits_with(1);
    assert!(!ran.stderr().contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", ran.stderr());
}
