//! The program with a vault on a real S3 server.

use serde_json::Value;

use super::folder_store::{snapshots, stopped_backup};
use super::s3_servers::{S3Server, answering, create_bucket, http, refusal};
use crate::support::{LiveService, TestEnvironment};

const SECRET: &str = "s3cr3t-0f-the-st0re";

fn machine(service: &LiveService, endpoint: &str, bucket: &str) -> TestEnvironment {
    let vault = format!("vault = \"s3://{bucket}/prefix/main\"\n");
    TestEnvironment::new()
        .account_with(&service.url(), &vault)
        .variable("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .variable("AWS_SECRET_ACCESS_KEY", SECRET)
        .variable("AWS_REGION", "us-east-1")
        .variable("AWS_ENDPOINT_URL", endpoint)
}

#[test]
fn machines_share_a_vault_on_an_s3_server() {
    let Some(server) = S3Server::moto() else { return };
    let service = LiveService::start("rate-limit=zero", "");
    let [one, other] = [(); 2].map(|()| machine(&service, &server.url, "vaults"));
    let missing = one.run(&["backup", "-q"]).exits_with(1);
    missing.stderr_has("cannot fetch the vault of main at s3://vaults/prefix/main: HEAD: ");
    create_bucket(&server.url, "vaults");
    one.run(&["backup", "-q"]).succeeds().stderr_is("");
    other.run(&["backup", "-q"]).succeeds();
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&other), 3);
    other.run(&["check"]).succeeds();
    let (_, head) = http("GET", &format!("{}/vaults/prefix/main/HEAD", server.url));
    let head: Value = serde_json::from_str(&head).unwrap();
    assert_eq!(head["sequence"], 3);
    let (_, listed) = http("GET", &format!("{}/vaults?list-type=2", server.url));
    assert_eq!(listed.matches("<Key>").count(), 4, "HEAD, STATE and two objects: {listed}");
    // The second of two machines loses.
    let cut = machine(&service, &server.url, "vaults");
    assert_eq!(snapshots(&cut), 3);
    service.faults("latency=500ms");
    let stopped = stopped_backup(&cut, &service);
    one.run(&["backup", "-q"]).succeeds();
    service.faults("latency=0ms");
    cut.signal("-CONT", &stopped);
    cut.wait(stopped).exits_with(4).stderr_has("another machine put a newer vault meanwhile");
    assert_eq!(snapshots(&cut), 4);
}

#[test]
fn a_store_that_ignores_conditions_is_refused_before_the_first_put() {
    let Some(server) = S3Server::rclone() else { return };
    let service = LiveService::start("", "");
    let machine = machine(&service, &server.url, "vaults");
    let refused = machine.run(&["backup", "-q"]).exits_with(1);
    refused
        .stderr_has("cannot put the vault of main at s3://vaults/prefix/main: the store ignores")
        .stderr_has("hint: use a store that supports conditional writes");
    let left: Vec<_> = walk(&server.files.path().join("vaults"));
    assert_eq!(left, [""; 0]);
    assert_eq!(snapshots(&machine), 1, "the local copy has the backup");
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path))
        } else {
            files.push(path.display().to_string())
        }
    }
    files
}

#[test]
fn each_failure_of_a_store_is_one_error_without_its_secrets() {
    let service = LiveService::start("", "");
    let wrong = refusal(
        "403 Forbidden",
        "SignatureDoesNotMatch",
        &format!("The signature is wrong {SECRET}"),
    );
    let wrong = answering(move |_| wrong.clone());
    let skewed = refusal("403 Forbidden", "RequestTimeTooSkewed", "The times differ by too much");
    let skewed = answering(move |_| skewed.clone());
    let gone = "http://127.0.0.1:1".to_owned();
    let plain = wrong.replace("http://", "https://");
    let cases = [
        (wrong, "The signature is wrong [redacted] (SignatureDoesNotMatch)"),
        (skewed, "(RequestTimeTooSkewed)\nhint: set the clock of this machine"),
        (gone, "Connection refused"),
        (plain, "HEAD: "),
    ];
    for (endpoint, message) in cases {
        let machine = machine(&service, &endpoint, "vaults");
        for verbose in ["-q", "-vv"] {
            let failed = machine.run(&["backup", verbose]).exits_with(1).stderr_has(message);
            let text = String::from_utf8(failed.bytes()).unwrap();
            assert!(!text.contains(SECRET), "{text}");
            assert_eq!(text.matches("error: ").count(), 1, "{text}");
        }
        assert!(!machine.path("vaults/main.db").exists());
    }
}

#[test]
fn a_store_that_may_only_be_read_is_one_error_and_the_local_copy_stays() {
    let service = LiveService::start("", "");
    let server = answering(|method| match method {
        "GET" => refusal("404 Not Found", "NoSuchKey", "The key does not exist"),
        _ => refusal("403 Forbidden", "AccessDenied", &format!("Access Denied {SECRET}")),
    });
    let machine = machine(&service, &server, "vaults");
    let failed = machine.run(&["backup", "-q"]).exits_with(1);
    failed
        .stderr_has("cannot put the vault of main at s3://vaults/prefix/main: probe-")
        .stderr_has("Access Denied [redacted] (AccessDenied)");
    assert_eq!(snapshots(&machine), 1);
    machine.run(&["status"]).exits_with(1).stdout_has("Access Denied");
}

#[test]
fn the_api_key_is_not_asked_for_before_the_store_answers() {
    let service = LiveService::start("", "");
    let machine = machine(&service, "http://127.0.0.1:1", "vaults");
    machine.run(&["doctor"]).exits_with(1).stdout_has("cannot fetch the vault of main");
    machine.run(&["status"]).stderr_has("cannot fetch the vault of main");
    assert_eq!(service.sandbox().log().len(), 1, "the request of doctor");
}
