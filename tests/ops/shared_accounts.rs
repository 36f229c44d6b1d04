//! Two names in the configuration for the same account.

use serde_json::json;

use crate::support::{KEY, LiveService, TestEnvironment, until};

/// Accounts `main` and `copy`, with these sources of the key.
fn two(url: &str, keys: [&str; 2]) -> TestEnvironment {
    let [main, copy] = keys;
    TestEnvironment::new().variable("LINKS_KEY", KEY).variable("OTHER_KEY", KEY).config(&format!(
        "[accounts.main]\nurl = \"{url}\"\nkey_env = \"{main}\"\n\
         [accounts.copy]\nurl = \"{url}/\"\nkey_env = \"{copy}\"\n"
    ))
}

#[test]
fn two_names_with_the_same_url_and_key_are_reported() {
    let service = LiveService::start("", "");
    let environment = two(&service.url(), ["LINKS_KEY", "LINKS_KEY"]);
    let doctor = environment.run(&["doctor"]).succeeds();
    doctor.stderr_has("are the same account (same key at http://127.0.0.1:");
    let told = environment.run(&["doctor", "main", "--json"]).succeeds().json();
    assert_eq!(told["same_account"][0]["accounts"], json!(["copy", "main"]));
    environment
        .run(&["backup", "main"])
        .succeeds()
        .stderr_has("warning: copy, main are the same account (same key at ")
        .stderr_has("hint: remove all but one of them from the configuration\n");
}

/// The keys have different sources; the id that the service returns is the same.
#[test]
fn two_names_of_one_account_id_are_reported_if_both_have_a_vault() {
    let service = LiveService::start("", "");
    let environment = two(&service.url(), ["LINKS_KEY", "OTHER_KEY"]);
    let first = environment.run(&["backup", "main"]).succeeds();
    assert!(!first.stderr().contains("the same account"), "{}", first.stderr());
    let second = environment.run(&["backup", "copy"]).succeeds();
    second.stderr_has("warning: copy, main are the same account (account 1 at ");
    environment.run(&["doctor", "copy"]).succeeds().stderr_has("(account 1 at ");
    let other = LiveService::start("", "");
    environment.edit("config.toml", &format!("{}/", service.url()), &other.url());
    let apart = environment.run(&["doctor"]);
    assert!(!apart.stderr().contains("the same account"), "{}", apart.stderr());
}

#[test]
fn writes_to_one_account_by_two_names_take_turns() {
    let service = LiveService::start("", "");
    let environment = two(&service.url(), ["LINKS_KEY", "OTHER_KEY"]);
    environment.run(&["backup", "-q"]).succeeds();
    let rows: String = (0..60).map(|nth| format!("Of a test {nth}\n")).collect();
    environment.write("campaigns.csv", &format!("name\n{rows}"));
    service.faults("latency=300ms");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "-q"];
    let child = environment.start(&import);
    until("a write", || !service.writes().is_empty());
    let by_copy = ["import", "campaigns.csv", "--to", "copy", "--yes", "-q"];
    let refused = environment.run(&by_copy).exits_with(11);
    refused.stderr_has("another process works on this account: pid ").stderr_has("import main");
    // A backup with the other name only reads.
    service.faults("");
    environment.run(&["backup", "copy", "-q", "--only", "pixels"]).succeeds();
    environment.wait(child).succeeds();
    environment.run(&by_copy).succeeds();
    let names = service.list("/api/campaigns", "campaigns");
    let ours = names.iter().filter(|it| it.to_string().contains("Of a test")).count();
    assert_eq!(ours, 60, "each of them once");
}
