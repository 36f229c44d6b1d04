//! The sandbox as a command.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{KEY, TestEnvironment};

/// A running `linkvault sandbox`.
struct Sandbox {
    child: Child,
    url: String,
}

impl Sandbox {
    fn start(environment: &TestEnvironment, arguments: &[&str]) -> Self {
        let all = [&["sandbox", "--listen", "127.0.0.1:0", "--json", "--key", KEY], arguments];
        let mut command = environment.command(&all.concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&told["format"], &told["key"]), (&json!(1), &json!(KEY)));
        Self { child, url: told["url"].as_str().unwrap().to_owned() }
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(mut self) {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_tells_its_url_and_can_be_backed_up() {
    let environment = TestEnvironment::new();
    let sandbox = Sandbox::start(&environment, &["--limit", "0"]);
    let environment = environment.account(&sandbox.url);
    let document = environment.run(&["backup", "main", "--json"]).succeeds().json();
    assert_eq!((&document["status"], &document["throttled"]), (&json!("complete"), &json!(0)));
    let doctor = environment.run(&["doctor", "main"]).succeeds();
    doctor.prints_among("ok   limit    none");
    sandbox.interrupt();
}

#[test]
fn it_serves_the_records_of_a_vault() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let first = exported(&environment, "sandbox", "first");
    let vault = environment.path("vaults/sandbox.db");
    let mut environment = environment;
    for from in ["sandbox", vault.to_str().unwrap()] {
        let sandbox = Sandbox::start(&environment, &["--from", from, "--limit", "0"]);
        environment = environment.account(&sandbox.url);
        environment.run(&["backup", "main", "-q", "--fresh", "--service-moved"]).succeeds();
        // Only the addresses that the service makes are other ones.
        let again = exported(&environment, "main", "again").to_string();
        let moved =
            first.to_string().replace("https://links.example.com/", &format!("{}/", sandbox.url));
        assert_eq!(again, moved, "{from}");
    }
}

#[test]
fn its_addresses_begin_with_the_url_that_it_is_served_at() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let mut environment = environment;
    for arguments in
        [&["--state", "kept.json"][..], &["--state", "kept.json"], &["--from", "sandbox"]]
    {
        let sandbox = Sandbox::start(&environment, &[arguments, &["--limit", "0"]].concat());
        let url = format!("{}/", sandbox.url);
        environment = environment.account(&sandbox.url);
        post(&sandbox.url, "/api/qr/add", r#"{"type":"text","data":"Hello"}"#);
        let name = format!("Campaign {}", sandbox.child.id());
        let add = format!(r#"{{"name":"{name}","slug":"new-{}"}}"#, sandbox.child.id());
        post(&sandbox.url, "/api/campaign/add", &add);
        environment.run(&["backup", "main", "-q", "--fresh", "--service-moved"]).succeeds();
        let show = |resource: &str| {
            environment.run(&["show", "main", resource, "--json"]).succeeds().json()["records"]
                .take()
        };
        let check = |resource: &str, field: &str| {
            for record in show(resource).as_array().unwrap() {
                let Some(address) = record[field].as_str().filter(|it| !it.is_empty()) else {
                    continue;
                };
                assert!(address.starts_with(&url), "{resource} {field}: {address} at {url}");
            }
        };
        check("account", "avatar");
        check("campaigns", "rotator");
        check("campaigns", "list");
        check("qr_codes", "link");
        check("channel_items", "link");
        check("channel_items", "preview");
        // What the owner wrote stays.
        assert!(show("domains").to_string().contains("https://lantern-books.example.com"));
    }
}

/// The records of an account's newest snapshot, by resource.
fn exported(environment: &TestEnvironment, account: &str, folder: &str) -> Value {
    let export = ["export", account, "--to", folder, "--format", "json", "--skip", "account", "-q"];
    environment.run(&export).succeeds();
    let bytes = std::fs::read(environment.path(folder).join("export.json")).unwrap();
    let mut document: Value = serde_json::from_slice(&bytes).unwrap();
    for code in document["resources"]["qr_codes"].as_array_mut().unwrap() {
        // The one thing that moves by itself.
        code.as_object_mut().unwrap().remove("scans");
    }
    document["resources"].take()
}

#[test]
fn a_state_file_keeps_what_was_written() {
    let environment = TestEnvironment::new();
    let sandbox = Sandbox::start(&environment, &["--state", "state.json", "--limit", "0"]);
    post(&sandbox.url, "/api/channel/add", r#"{"name":"Kept"}"#);
    sandbox.interrupt();
    let sandbox = Sandbox::start(&environment, &["--state", "state.json", "--limit", "0"]);
    let environment = environment.account(&sandbox.url);
    environment.run(&["backup", "main", "-q"]).succeeds();
    environment.run(&["show", "main", "channels"]).succeeds().prints_among("Kept");
}

fn post(url: &str, path: &str, body: &str) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn its_behaviours_and_faults_are_listed() {
    let environment = TestEnvironment::new();
    for flag in ["--behaviour", "--behavior", "--fault"] {
        let list = environment.run(&["sandbox", flag, "list"]).succeeds().fits().stdout();
        for name in ["rate-limit", "not-offered", "lost-reply", "garbage"] {
            assert!(list.contains(&format!("\n{name} ")), "{name} is not in\n{list}");
        }
    }
    let document = environment.run(&["sandbox", "--behaviour", "list", "--json"]).succeeds().json();
    assert_eq!(document["behaviours"][0]["name"], "error-type");
    assert_eq!(document["behaviours"][0]["default"], "documented");
    assert!(document["faults"].as_array().unwrap().iter().any(|it| it["name"] == "reset"));
}

#[test]
fn an_unknown_choice_suggests_a_similar_one() {
    let environment = TestEnvironment::new();
    for (arguments, nearest) in [
        (
            &["--behaviour", "rate-limt=5"][..],
            "unknown behaviour `rate-limt`; did you mean `rate-limit`?",
        ),
        (&["--behaviour", "window=fixd"], "did you mean `fixed`?"),
        (&["--fault", "lost-replay=1"], "did you mean `lost-reply`?"),
        (&["--fault", "reset"], "`reset` has neither the form name=chance nor name@when"),
    ] {
        let all = [&["sandbox", "--listen", "127.0.0.1:0"], arguments].concat();
        let ran = environment.run(&all).exits_with(64).prints("");
        ran.says_among(nearest).says_among(" list` lists them");
    }
}

#[test]
fn an_address_in_use_is_an_error_with_the_way_on() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = TestEnvironment::new().run(&["sandbox", "--listen", &address]).exits_with(1);
    ran.says_among(&format!("error: cannot listen on {address}: "))
        .says_among("hint: name another address with --listen\n");
}

#[test]
fn what_cannot_be_served_is_an_error() {
    let environment =
        TestEnvironment::new().file("not-a-vault", "really not one, however long it is");
    let from = |what: &str| environment.run(&["sandbox", "--from", what]).exits_with(1).prints("");
    from("not-a-vault").says_among("is not a vault of linkvault");
    from("sandbox").says_among("sandbox has no vault yet");
    from("missing").says_among("hint: ");
}

#[test]
fn the_built_in_account_keeps_its_state_between_commands() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let kept = std::fs::read(environment.path("sandbox.json")).unwrap();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    assert!(kept == std::fs::read(environment.path("sandbox.json")).unwrap());
    let environment = environment.file("sandbox.json", "{ spoilt");
    environment
        .run(&["backup", "sandbox"])
        .exits_with(1)
        .says_among("hint: remove the file to begin with a new sandbox");
}
