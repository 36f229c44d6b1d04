//! Reads at the same time, by the real program over a socket.

use linkvault::sandbox::generate::{GeneratedCounts, generate};

use crate::ops::killed_backup::equals_the_service;
use crate::support::{LiveService, TestEnvironment};

#[test]
fn overlapping_reads_give_the_same_vault_with_the_same_requests() {
    let counts = GeneratedCounts {
        domains: 5,
        campaigns: 60,
        channels: 12,
        channel_items: 40,
        qr_codes: 300,
        pixels: 30,
        overlays: 12,
        splash_pages: 12,
    };
    let service = LiveService::serving(generate(3, counts), "max-limit=10,rate-limit=none", "");
    let requests = ["1", "8"].map(|number| {
        let environment = TestEnvironment::new().account(&service.url());
        service.new_requests();
        let flags = ["--stats", "none", "--max-in-flight", number];
        environment.run(&[&["backup", "main", "-q"], &flags[..]].concat()).succeeds();
        let mut requests = service.new_requests();
        requests.sort();
        environment.run(&["check", "main"]).succeeds();
        equals_the_service(&environment, &service);
        requests
    });
    assert_eq!(requests[0], requests[1]);
}

#[test]
fn no_read_at_all_is_not_allowed() {
    let environment = TestEnvironment::new().account("http://127.0.0.1:1");
    let ran = environment.run(&["backup", "main", "--max-in-flight", "0"]);
    ran.exits_with(64).stderr_has("--max-in-flight");
    let environment = environment.config(
        "[accounts.main]\nurl = \"http://127.0.0.1:1\"\nkey_env = \"KEY\"\nmax_in_flight = 0\n",
    );
    environment.run(&["backup", "main"]).exits_with(1).stderr_has("max_in_flight");
}
