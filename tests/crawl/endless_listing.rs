//! A list that does not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::TestEnvironment;
use crate::support::canned_responses::{Canned, campaign, page, small};

/// Page after page of records that were never seen before.
fn endless(path: &str) -> String {
    let value = |name: &str| {
        let from = path.split(['?', '&']).find_map(|part| part.strip_prefix(name));
        from.and_then(|it| it.parse::<u64>().ok()).unwrap_or(1)
    };
    let (limit, number) = (value("limit="), value("page="));
    let first = (number - 1) * limit + 10;
    let records: Vec<_> = (first..first + limit).map(campaign).collect();
    let envelope = page("/api/campaigns", &records.join(","), 1_000_000_000, number, 100_000_000);
    envelope.replace("\"perpage\":1000", &format!("\"perpage\":{limit}"))
}

#[test]
fn an_endless_list_fails_and_removes_nothing() {
    for (bound, why) in [
        ("max_records = 3000", "the list did not end within 3000 records; `max_records`"),
        ("max_bytes = 200000", "the list did not end within 200000 bytes; `max_bytes`"),
    ] {
        let gone_wild = Arc::new(AtomicBool::new(false));
        let wild = Arc::clone(&gone_wild);
        let service = Canned::start(None, move |path| match path.starts_with("/api/campaigns") {
            true if wild.load(Ordering::SeqCst) => endless(path),
            _ => small(path),
        });
        let url = format!("http://127.0.0.1:{}", service.port());
        let environment = TestEnvironment::new().account_with(&url, &format!("{bound}\n"));
        environment.run(&["backup", "main", "-q"]).succeeds();
        gone_wild.store(true, Ordering::SeqCst);
        let before = service.connections();
        let document = environment.run(&["backup", "main", "--json"]).exits_with(3).json();
        let campaigns = &document["resources"]["campaigns"];
        assert_eq!(document["status"], "partial");
        assert_eq!(campaigns["state"], "failed", "{document}");
        assert_eq!(campaigns["removed"], 0, "{document}");
        assert!(campaigns["message"].as_str().unwrap().contains(why), "{document}");
        assert!(service.connections() - before < 30, "{}", service.connections());
        environment.run(&["show", "main@latest", "campaigns", "3"]).succeeds();
    }
}
