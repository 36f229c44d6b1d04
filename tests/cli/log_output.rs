//! The log: the events of each level, and where they are written.

use crate::support::{KEY, LiveService, TestEnvironment};

/// The lines of requests.
fn requests(text: &str) -> usize {
    text.lines().filter(|line| line.contains(" ms, limit left: ")).count()
}

#[test]
fn each_log_level_adds_events() {
    let service = LiveService::start("max-limit=100", "");
    let environment = TestEnvironment::new().account(&service.url());
    let quiet = environment.run(&["backup", "main"]).succeeds().stderr();
    assert!(!quiet.contains("proven by") && requests(&quiet) == 0, "{quiet}");
    service.new_requests();

    let decisions = environment.run(&["backup", "main", "-v"]).succeeds().stderr();
    assert!(decisions.contains("/api/qr: proven by "), "{decisions}");
    assert!(decisions.contains("statistics: "), "{decisions}");
    assert_eq!(requests(&decisions), 0, "{decisions}");
    service.new_requests();

    let each = environment.run(&["backup", "main", "-vv"]).succeeds().stderr();
    assert_eq!(requests(&each), service.new_requests().len(), "{each}");
    assert!(each.contains("GET /api/account: HTTP 200, "), "{each}");
    assert!(!each.contains("authorization"), "{each}");

    service.sandbox().mutate(|store| store.account.username = "x".repeat(9_000));
    let all = environment.run(&["backup", "main", "-vvv"]).succeeds().stderr();
    assert!(all.contains("> GET /api/account; authorization: Bearer [redacted]"), "{all}");
    assert!(all.contains("< content-type: application/json"), "{all}");
    assert!(all.contains("< {\"error\":"), "{all}");
    assert!(all.contains(" bytes more"), "{all}");
    let longest = all.lines().map(str::len).max().unwrap();
    assert!(longest < 10_000 && !all.contains(KEY), "{longest}");
}

#[test]
fn reading_and_writing_commands_log() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.write("campaigns.csv", "name\nQuiet Days\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "-vv"];
    let told = environment.run(&import).succeeds().stderr();
    assert!(told.contains("step 1: create campaigns Quiet Days"), "{told}");
    assert!(told.contains("POST /api/campaign/add: HTTP 200, "), "{told}");
    assert_eq!(requests(&told), service.new_requests().len(), "{told}");
    let told = environment.run(&["show", "main@live", "domains", "-vv"]).succeeds().stderr();
    assert!(told.contains("GET /api/domains?limit=1000&page=1: HTTP 200, "), "{told}");
    let told = environment.run(&["forget", "main", "--keep-last", "1", "-n", "-v"]).stderr();
    assert!(told.contains("is kept: "), "{told}");
}

#[test]
fn a_changed_page_size_is_logged_with_its_reason() {
    let service = LiveService::start("", "server-error@/api/campaigns?limit=1000");
    let environment = TestEnvironment::new().account(&service.url());
    let told = environment.run(&["backup", "main", "-v"]).succeeds().stderr();
    assert!(told.contains("/api/campaigns: pages of 500 from now on, since "), "{told}");
}

#[test]
fn a_log_file_is_private_and_does_not_change_stderr() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let quiet = ["backup", "main", "-q", "-vv", "--log-file", "run.log"];
    environment.run(&quiet).succeeds().stderr_is("");
    let first = environment.text("run.log");
    assert_eq!(requests(&first), service.new_requests().len(), "{first}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(environment.path("run.log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Without -v it has the decisions, stderr has none, and it grows at its end.
    let ran = environment.run(&["backup", "main", "--log-file", "run.log"]).succeeds();
    assert!(!ran.stderr().contains("proven by"), "{}", ran.stderr());
    let both = environment.text("run.log");
    assert!(both.starts_with(&first) && both[first.len()..].contains("proven by"), "{both}");
    // The messages on stderr are in the log too, once.
    let ran = environment.run(&["show", "missing@latest", "-v", "--log-file", "run.log"]);
    assert_eq!(ran.stderr().matches("`missing`").count(), 1, "{}", ran.stderr());
    assert!(environment.text("run.log").lines().last().unwrap().contains("missing"));
    let lost = environment.run(&["backup", "main", "--log-file", "no/such/folder"]).exits_with(1);
    lost.stderr_has("no/such/folder");
}

#[test]
fn a_log_has_no_control_characters() {
    let service = LiveService::start("", "");
    let odd = "a\u{1b}[2J\u{9b}b\u{202e}c\u{7f}";
    service.sandbox().mutate(|store| store.account.username = odd.to_owned());
    let environment = TestEnvironment::new().account(&service.url());
    let flags = ["backup", "main", "-vvv", "--log-file", "run.log"];
    let told = environment.run(&flags).succeeds().stderr();
    for text in [told, environment.text("run.log")] {
        assert!(text.contains("username"), "{text}");
        let odd = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
        assert!(!text.chars().any(odd), "{text:?}");
    }
    let json = environment.run(&["show", "main@latest", "account", "--json"]).succeeds();
    assert!(!json.stdout().contains(['\u{9b}', '\u{7f}', '\u{202e}']), "{}", json.stdout());
    assert!(
        json.json().to_string().contains(odd.trim_start_matches("a\u{1b}")),
        "{}",
        json.stdout()
    );
}
