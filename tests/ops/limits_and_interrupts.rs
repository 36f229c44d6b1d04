//! Limits, locks and interrupts: an interrupted backup can be continued.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use linkvault::clock::{Clock as _, Interrupt, SystemClock};

use crate::support::{LiveService, TestEnvironment, until};

#[test]
fn the_rate_limit_is_never_exceeded() {
    let service = LiveService::start("rate-limit=20,rate-window=1", "");
    let environment = TestEnvironment::new().account(&service.url());
    let document = environment.run(&["backup", "--json"]).succeeds().json();
    assert_eq!((&document["throttled"], service.throttled()), (&0.into(), 0));
    assert!(document["waited_seconds"].as_f64().unwrap() > 0.0);
    assert!(service.request_count() > 20);
}

#[test]
fn the_next_process_knows_the_requests_of_the_previous_one() {
    let service = LiveService::start("rate-limit=14,rate-window=1", "");
    let environment = TestEnvironment::new().account(&service.url());
    for _ in 0..2 {
        environment.run(&["backup", "-q", "--stats", "none"]).succeeds();
    }
    assert_eq!((service.request_count(), service.throttled()), (26, 0));
}

#[test]
fn max_requests_exits_with_8_and_the_next_backup_reads_only_the_rest() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let ran =
        environment.run(&["backup", "main", "--max-requests", "5"]).exits_with(8).stdout_is("");
    ran.stderr_has("the limit of 5 requests is reached").stderr_has("to continue");
    let first = service.new_requests();
    assert_eq!(first.len(), 5);
    let ran = environment.run(&["backup", "main", "--json"]).succeeds();
    assert_eq!((&ran.json()["resumed"], &ran.json()["snapshot"]), (&true.into(), &1.into()));
    for again in service.new_requests() {
        assert!(again == "/api/account" || !first.contains(&again), "{again} was read twice");
    }
}

#[test]
fn fresh_starts_a_new_snapshot() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "main", "--max-requests", "5"]).exits_with(8);
    let first = service.new_requests();
    let document = environment.run(&["backup", "main", "--fresh", "--json"]).succeeds().json();
    assert_eq!((&document["resumed"], &document["snapshot"]), (&false.into(), &2.into()));
    let second = service.new_requests();
    assert!(first.iter().all(|path| second.contains(path)), "{first:?} {second:?}");
}

#[test]
fn max_duration_stops_before_a_longer_wait() {
    let service = LiveService::start("rate-limit=10,rate-window=60", "");
    let environment = TestEnvironment::new().account(&service.url());
    let ran = environment.run(&["backup", "main", "--max-duration", "5s"]).exits_with(8);
    ran.stdout_is("").stderr_has("hint: What was done is kept");
    assert_eq!(service.throttled(), 0);
}

#[test]
fn no_minute_has_more_requests_than_the_configured_limit() {
    for (behaviour, told) in [
        ("rate-limit=900", "900 requests a minute, 899 left now; 4 by the configuration"),
        ("rate-limit=zero", "none; 4 by the configuration"),
        ("rate-headers=none", "not reported: 4 a minute are assumed"),
    ] {
        let service = LiveService::start(behaviour, "");
        let environment = TestEnvironment::new().account_with(&service.url(), "limit = 4\n");
        std::fs::create_dir(environment.path("vaults")).unwrap();
        environment.run(&["doctor"]).stdout_has(told);
        let bounded = ["backup", "main", "--max-duration", "5s"];
        environment.run(&bounded).exits_with(8).stderr_has("waiting");
        assert_eq!(service.request_count(), 4, "{behaviour}");
        let estimate = environment.run(&["backup", "main", "--dry-run", "--json"]).json();
        let estimate = &estimate["accounts"][0];
        assert_eq!((&estimate["requests"], &estimate["seconds"]), (&8.into(), &60.into()));
    }
}

/// A running backup: the service has sent a response, and continues slowly.
fn running_backup(environment: &TestEnvironment, service: &LiveService) -> Child {
    let child = environment.start(&["backup", "main"]);
    until("a few requests", || service.request_count() >= 3);
    child
}

fn slow_service() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "latency=500ms");
    let environment = TestEnvironment::new().account(&service.url());
    (environment, service)
}

#[test]
fn a_second_process_shows_the_holder_of_the_lock() {
    let (environment, service) = slow_service();
    let holder = running_backup(&environment, &service);
    let pid = holder.id();
    let ran = environment.run(&["backup", "main"]).exits_with(11).stdout_is("");
    ran.stderr_has(&format!(
        "another process works on this account: pid {pid}, `linkvault backup main`"
    ))
    .stderr_has("--lock-timeout");
    // These commands do not have the flag.
    let commands: [&[&str]; 2] =
        [&["forget", "main", "--keep-last", "1"], &["resolve", "main", "1"]];
    for command in commands {
        let ran = environment.run(command).exits_with(11);
        ran.stderr_has("hint: wait for it, and run the command again\n");
    }
    environment.run(&["snapshots", "main"]).succeeds();
    environment.run(&["doctor", "main"]).succeeds().stdout_has(&format!("pid {pid} runs"));
    service.faults("");
    environment.wait(holder).succeeds();
}

#[test]
fn lock_timeout_waits_for_the_lock() {
    let (environment, service) = slow_service();
    let holder = running_backup(&environment, &service);
    let waiting = environment.start(&["backup", "main", "--lock-timeout", "1m"]);
    service.faults("");
    environment.wait(holder).succeeds().stdout_has("snapshot #1");
    environment.wait(waiting).succeeds().stdout_has("snapshot #2");
}

#[test]
fn an_interrupt_exits_with_130_and_the_next_backup_continues() {
    for signal in ["-INT", "-TERM"] {
        let (environment, service) = slow_service();
        let child = running_backup(&environment, &service);
        send(signal, &child);
        let ran = environment.wait(child).exits_with(130).stdout_is("");
        ran.stderr_has("error: interrupted; what was read is kept\n")
            .stderr_has("hint: run the same command again to continue\n");
        let read = service.new_requests();
        service.faults("");
        let document = environment.run(&["backup", "main", "--json"]).succeeds().json();
        assert_eq!(document["resumed"], true);
        let again = service.new_requests();
        let twice = again.iter().filter(|path| read[..read.len() - 1].contains(path)).count();
        assert!(twice <= 2, "{read:?} {again:?}");
    }
}

#[test]
fn an_interrupt_does_not_wait_for_slow_responses_to_reads_in_flight() {
    let slow = "slow-body:10m@/api/campaigns,slow-body:10m@/api/channels";
    let service = LiveService::start("rate-limit=2000", slow);
    let environment = TestEnvironment::new().account(&service.url());
    let environment = environment.variable("LINKVAULT_MAX_IN_FLIGHT", "4");
    let child = environment.start(&["backup", "main"]);
    // The account and three lists, of which one has arrived.
    until("reads in flight", || service.request_count() == 4);
    let clock = SystemClock::new(Interrupt::default());
    send("-INT", &child);
    let ran = environment.wait(child).exits_with(130);
    ran.stderr_has("error: interrupted; what was read is kept\n");
    assert!(clock.monotonic() < Duration::from_secs(60), "{:?}", clock.monotonic());
    // All four count as spent.
    let is_shared = |name: &String| name.len() == "0123456789abcdef.pace".len();
    let entries = std::fs::read_dir(environment.path("vaults")).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let shared: Vec<_> = names.filter(|name| name.ends_with(".pace")).filter(is_shared).collect();
    assert_eq!(shared.len(), 1, "{shared:?}");
    let pace: serde_json::Value =
        serde_json::from_str(&environment.text(&format!("vaults/{}", shared[0]))).unwrap();
    let spent: u64 =
        pace["requests"].as_array().unwrap().iter().map(|it| it[1].as_u64().unwrap()).sum();
    assert_eq!((spent, pace["in_flight"].as_array().unwrap().len()), (4, 0), "{pace}");
}

#[test]
fn an_interrupt_ends_a_wait_for_the_limit() {
    let service = LiveService::start("rate-limit=10,rate-window=60", "");
    let environment = TestEnvironment::new().account(&service.url());
    let mut command = environment.command(&["backup", "main"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(
        lines.any(|line| line.starts_with("main: waiting ") && line.ends_with(" for the limit"))
    );
    send("-INT", &child);
    assert!(lines.any(|line| line == "error: interrupted; what was read is kept"));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

fn send(signal: &str, child: &Child) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Two accounts with the same key.
fn two_accounts(service: &LiveService, more: &str) -> TestEnvironment {
    let account = |name: &str| {
        let url = service.url();
        format!("[accounts.{name}]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n{more}")
    };
    TestEnvironment::new()
        .variable("LINKS_KEY", crate::support::KEY)
        .config(&(account("main") + &account("second")))
}

#[test]
fn two_processes_with_the_same_key_never_exceed_its_rate_limit() {
    let service = LiveService::start("rate-limit=10,rate-window=1", "latency=20ms");
    let environment = two_accounts(&service, "reserve = 3\n");
    let backup = |account| environment.start(&["backup", account, "-q", "--stats", "none"]);
    for child in ["main", "second"].map(backup) {
        environment.wait(child).succeeds();
    }
    assert_eq!((service.request_count(), service.throttled()), (26, 0));
}

#[test]
fn two_processes_with_the_same_key_leave_one_reserve_of_a_window() {
    for (behaviour, more, sent) in [
        ("rate-limit=10,rate-window=60", "reserve = 3\n", 7),
        (
            "rate-limit=10,rate-window=60,rate-headers=none,retry-after=none",
            "limit = 10\nreserve = 3\n",
            7,
        ),
        ("rate-limit=zero", "limit = 10\n", 10),
    ] {
        let service = LiveService::start(behaviour, "");
        let environment = two_accounts(&service, more);
        let bounded = |account| ["backup", account, "--max-duration", "8s"];
        let both = ["main", "second"].map(|account| environment.start(&bounded(account)));
        for child in both {
            environment.wait(child).exits_with(8);
        }
        assert_eq!((service.request_count(), service.throttled()), (sent, 0), "{behaviour}");
        // Also with the next process.
        environment.run(&bounded("main")).exits_with(8);
        assert_eq!(service.request_count(), sent);
    }
}

#[test]
fn a_refusal_stops_the_other_process_too() {
    let service = LiveService::start("rate-limit=1000,rate-window=60", "");
    let environment = two_accounts(&service, "");
    environment.run(&["backup", "main", "-q"]).succeeds();
    service.faults("throttled@/api/account");
    environment.run(&["backup", "main", "--max-duration", "3s"]).exits_with(8);
    service.faults("");
    let before = service.request_count();
    environment.run(&["backup", "second", "--max-duration", "3s"]).exits_with(8);
    assert_eq!(service.request_count(), before);
}

/// The process may be killed or suspended at any time, also while it holds the lock of the file.
#[cfg(unix)]
#[test]
fn a_killed_or_suspended_process_does_not_block_another() {
    let service = LiveService::start("rate-limit=1000,rate-window=2", "latency=200ms");
    let environment = two_accounts(&service, "");
    for (signal, last) in [("-KILL", None), ("-STOP", Some("-CONT"))] {
        let child = environment.start(&["backup", "second", "-q"]);
        let before = service.request_count();
        until("a request", || service.request_count() > before + 2);
        environment.signal(signal, &child);
        environment.run(&["backup", "main", "-q", "--max-duration", "30s"]).succeeds();
        if let Some(last) = last {
            environment.signal(last, &child);
        }
        environment.wait(child);
    }
    assert_eq!(service.throttled(), 0);
    // As if a process was suspended while it had the lock.
    let shared = std::fs::read_dir(environment.path("vaults")).unwrap();
    let mut shared = shared.map(|entry| entry.unwrap().path()).filter(|path| {
        path.extension().is_some_and(|it| it == "pace") && !path.to_string_lossy().contains(".db")
    });
    let shared = shared.next().unwrap();
    assert!(!std::fs::read_to_string(&shared).unwrap().contains(crate::support::KEY));
    let file = std::fs::File::open(&shared).unwrap();
    file.lock().unwrap();
    environment.run(&["backup", "main", "-q", "--max-duration", "30s"]).succeeds();
    assert_eq!(service.throttled(), 0);
    // A file that cannot be used limits only what is shared.
    drop(file);
    std::fs::remove_file(&shared).unwrap();
    std::fs::create_dir(&shared).unwrap();
    environment.run(&["backup", "main", "-q", "--max-duration", "30s"]).succeeds();
    assert_eq!(service.throttled(), 0);
}
