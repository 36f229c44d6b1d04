//! The program with a vault at `gs://`. The server is moto behind a proxy with the conditions of Google
//! Cloud Storage, as its documentation describes them: each object has a generation, and a put names
//! the one that it replaces, or 0 for none.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::fault_proxy::request;
use super::folder_store::{snapshots, stopped_backup};
use super::s3_servers::{AUTHORIZATION, S3Server, create_bucket, http, refusal};
use crate::support::{LiveService, TestEnvironment};

/// The generations of the objects by path, and the number of puts so far.
#[derive(Default)]
struct Generations {
    puts: u64,
    now: HashMap<String, u64>,
}

/// Starts the proxy in front of the server at `url`, and returns its address. With `ignores`, it
/// ignores the conditions.
fn google(url: &str, ignores: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let server = url.trim_start_matches("http://").to_owned();
    let generations = Arc::new(Mutex::new(Generations::default()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (server, generations) = (server.clone(), Arc::clone(&generations));
            // An error ends this connection only.
            std::thread::spawn(move || drop(serve(stream, &server, ignores, &generations)));
        }
    });
    own
}

fn serve(
    mut client: TcpStream,
    server: &str,
    ignores: bool,
    generations: &Mutex<Generations>,
) -> std::io::Result<()> {
    let message = request(&client)?;
    let end = message.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(message.len());
    let head = String::from_utf8_lossy(&message[..end]).into_owned();
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // One request at a time, so that no put comes between a condition and its put.
    let mut generations = generations.lock().unwrap();
    let now = generations.now.get(path).copied().unwrap_or(0);
    let expected = head.lines().find_map(|it| it.strip_prefix("x-goog-if-generation-match: "));
    if expected.is_some_and(|it| it.trim().parse() != Ok(now)) && !ignores {
        let text = refusal("412 Precondition Failed", "PreconditionFailed", "another generation");
        return client.write_all(text.as_bytes());
    }
    let signed = |it: &&str| !it.to_ascii_lowercase().starts_with("authorization:");
    let kept: Vec<_> = head.lines().filter(signed).collect();
    let mut upstream = TcpStream::connect(server)?;
    write!(upstream, "{}\r\nauthorization: {AUTHORIZATION}", kept.join("\r\n"))?;
    upstream.write_all(&message[end..])?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    let first = answer.windows(2).position(|it| it == b"\r\n").unwrap_or(0);
    if answer.starts_with(b"HTTP/1.1 2") {
        match method {
            "PUT" => {
                generations.puts += 1;
                let puts = generations.puts;
                generations.now.insert(path.to_owned(), puts);
            }
            "DELETE" => drop(generations.now.remove(path)),
            _ => {}
        }
    }
    client.write_all(&answer[..first])?;
    if let Some(now) = generations.now.get(path) {
        write!(client, "\r\nx-goog-generation: {now}")?;
    }
    client.write_all(&answer[first..])
}

fn machine(service: &LiveService, endpoint: &str) -> TestEnvironment {
    let key = format!(
        "{{\"private_key\":\"\",\"private_key_id\":\"\",\"client_email\":\"\",\
         \"disable_oauth\":true,\"gcs_base_url\":\"{endpoint}\"}}"
    );
    TestEnvironment::new()
        .account_with(&service.url(), "vault = \"gs://vaults/prefix/main\"\n")
        .variable("GOOGLE_SERVICE_ACCOUNT_KEY", &key)
        .variable("GOOGLE_BASE_URL", endpoint)
}

#[test]
fn machines_share_a_vault_on_a_store_with_generations() {
    let Some(server) = S3Server::moto() else { return };
    let service = LiveService::start("rate-limit=zero", "");
    let endpoint = google(&server.url, false);
    let [one, other] = [(); 2].map(|()| machine(&service, &endpoint));
    one.run(&["backup", "-q"]).exits_with(1).stderr_has("gs://vaults/prefix/main");
    create_bucket(&server.url, "vaults");
    one.run(&["backup", "-q"]).succeeds().stderr_is("");
    other.run(&["backup", "-q"]).succeeds();
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&other), 3);
    other.run(&["check"]).succeeds();
    let (_, listed) = http("GET", &format!("{}/vaults?list-type=2", server.url));
    assert_eq!(listed.matches("<Key>").count(), 4, "HEAD, STATE and two objects: {listed}");
    // The second of two machines loses.
    service.faults("latency=500ms");
    let stopped = stopped_backup(&other, &service);
    one.run(&["backup", "-q"]).succeeds();
    service.faults("latency=0ms");
    other.signal("-CONT", &stopped);
    other.wait(stopped).exits_with(4).stderr_has("another machine put a newer vault meanwhile");
    assert_eq!(snapshots(&other), 4);
}

#[test]
fn a_store_that_ignores_generations_is_refused_before_the_first_put() {
    let Some(server) = S3Server::moto() else { return };
    create_bucket(&server.url, "vaults");
    let service = LiveService::start("rate-limit=zero", "");
    let machine = machine(&service, &google(&server.url, true));
    let refused = machine.run(&["backup", "-q"]).exits_with(1);
    refused
        .stderr_has("cannot put the vault of main at gs://vaults/prefix/main: the store ignores");
    let (_, listed) = http("GET", &format!("{}/vaults?list-type=2", server.url));
    assert!(!listed.contains("<Key>prefix/main/HEAD</Key>"), "{listed}");
}
