//! The program with a vault in a folder, on machines that are killed: another one continues.

use std::process::Child;

use crate::fleet::folder_store::{Shared, snapshots, suspend};
use crate::support::{LiveService, TestEnvironment, until};

/// A service with many pages, and a store.
fn shared() -> Shared {
    Shared::with(LiveService::start("max-limit=2,result=total,rate-limit=zero", ""))
}

/// A machine that makes a checkpoint each second.
fn machine(shared: &Shared) -> TestEnvironment {
    shared.machine_with("max_in_flight = 1\n\n[fleet]\ncheckpoint = \"1s\"\n")
}

/// A backup that was begun and has made a checkpoint.
fn backup_with_checkpoint(shared: &Shared, machine: &TestEnvironment) -> Child {
    // Without a limit, no machine waits for another one.
    machine.run(&["doctor"]).succeeds();
    shared.service.faults("latency=100ms");
    let begun = shared.service.request_count();
    let backup = machine.start(&["backup", "-q"]);
    until("some pages were read", || shared.service.request_count() > begun + 15);
    let puts = || {
        let head = shared.objects().join("HEAD");
        head.exists().then(|| shared.head()["sequence"].as_u64().unwrap())
    };
    let before = puts();
    // The crawl must not end before the caller stops it, however busy this machine is.
    shared.service.faults("latency=1s");
    until("a checkpoint was made", || puts() > before);
    backup
}

/// The number of requests of a whole backup.
fn whole_backup() -> usize {
    let shared = shared();
    machine(&shared).run(&["backup", "-q"]).succeeds();
    shared.service.new_requests().len()
}

#[test]
fn another_machine_continues_a_crawl_whose_machine_was_lost() {
    let whole = whole_backup();
    let shared = shared();
    let mut lost = backup_with_checkpoint(&shared, &machine(&shared));
    lost.kill().unwrap();
    lost.wait().unwrap();
    shared.service.faults("latency=0ms");
    let read = shared.service.new_requests().len();
    let other = machine(&shared);
    other.run(&["backup", "-q"]).succeeds();
    let rest = shared.service.new_requests().len();
    assert!(rest + 5 < whole, "{read} requests, then {rest} of {whole}");
    assert_eq!(snapshots(&other), 1);
    other.run(&["check"]).succeeds();
}

#[test]
fn a_crawl_that_is_asked_to_stop_is_put_as_it_is() {
    let whole = whole_backup();
    for (signal, code) in [("-TERM", 130), ("-INT", 130)] {
        let shared = shared();
        let one = shared.machine_with("max_in_flight = 1\n");
        shared.service.faults("latency=100ms");
        let backup = one.start(&["backup", "-q"]);
        until("some pages were read", || shared.service.request_count() > 10);
        one.signal(signal, &backup);
        one.wait(backup).exits_with(code).stderr_has("interrupted; what was read is kept");
        shared.service.faults("latency=0ms");
        let read = shared.service.new_requests().len();
        machine(&shared).run(&["backup", "-q"]).succeeds();
        let rest = shared.service.new_requests().len();
        assert!(read + rest <= whole + 5, "{read} requests, then {rest} of {whole}");
    }
}

#[test]
fn a_crawl_stops_with_exit_code_4_when_another_machine_has_continued_it() {
    let shared = shared();
    let (slow, fast) = (machine(&shared), machine(&shared));
    let backup = backup_with_checkpoint(&shared, &slow);
    suspend(&slow, &backup, &shared.objects());
    shared.service.faults("latency=0ms");
    fast.run(&["backup", "-q"]).succeeds();
    let newer = shared.head();
    shared.service.faults("latency=100ms");
    slow.signal("-CONT", &backup);
    let lost = slow.wait(backup).exits_with(4);
    // A checkpoint that was under way says so in other words.
    lost.stderr_has("put a newer vault")
        .stderr_has("the changes of this machine are in")
        .stderr_has("main.db.lost");
    assert_eq!(shared.head(), newer);
    shared.service.faults("latency=0ms");
    assert_eq!(snapshots(&slow), 1);
    slow.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&fast), 2);
}

/// An import whose machine is killed after some writes. Another one resumes it, with an empty home.
fn resumed_import(resource: &str, csv: &str, path: &str, key: &str, at: usize) {
    let shared = shared();
    let lost = machine(&shared);
    lost.run(&["backup", "-q"]).succeeds();
    let before = shared.service.list(path, key).len();
    lost.write("new.csv", csv);
    shared.service.faults("latency=50ms");
    let import = ["import", "new.csv", "--resource", resource, "--to", "main", "--yes", "-q"];
    let mut import = lost.start(&import);
    until("some records were created", || shared.service.writes().len() >= at);
    import.kill().unwrap();
    import.wait().unwrap();
    shared.service.faults("latency=0ms");
    let other = machine(&shared);
    other.run(&["runs", "main"]).succeeds().stdout_has("stopped");
    other.run(&["resume", "main", "-q"]).succeeds();
    let created = csv.lines().count() - 1;
    assert_eq!(shared.service.list(path, key).len(), before + created, "{resource}");
    other.run(&["check"]).succeeds();
    // The machine that was lost comes back.
    lost.run(&["runs", "main"]).succeeds().stdout_has("complete");
    lost.run(&["resume", "main"]).exits_with(1).stderr_has("every run of main is finished");
}

#[test]
fn another_machine_resumes_an_import_of_a_lost_machine_without_duplicates() {
    let rows: String = (0..30).map(|nth| format!("Campaign {nth}\n")).collect();
    let csv = format!("name\n{rows}");
    for at in [1, 7, 29] {
        resumed_import("campaigns", &csv, "/api/campaigns", "campaigns", at);
    }
}

#[test]
fn another_machine_resumes_an_import_of_qr_codes_without_duplicates() {
    let rows: String = (0..8).map(|nth| format!("text,made {nth}\n")).collect();
    let csv = format!("type,data\n{rows}");
    for at in [1, 4] {
        resumed_import("qr_codes", &csv, "/api/qr", "qrs", at);
    }
}

/// Another machine puts a vault while the account is read before a run.
#[test]
fn a_run_that_another_machine_overtook_writes_nothing_and_exits_with_4() {
    let shared = shared();
    let (one, other) = (machine(&shared), machine(&shared));
    one.run(&["backup", "-q"]).succeeds();
    shared.service.faults("latency=50ms");
    one.write("new.csv", "name\nNever sent\n");
    let begun = shared.service.request_count();
    let import = ["import", "new.csv", "--resource", "campaigns", "--to", "main", "--yes", "-q"];
    let slow = one.start(&import);
    until("the account is read", || shared.service.request_count() > begun);
    suspend(&one, &slow, &shared.objects());
    shared.service.faults("latency=0ms");
    other.run(&["backup", "-q"]).succeeds();
    one.signal("-CONT", &slow);
    let lost = one.wait(slow).exits_with(4);
    lost.stderr_has("run 1 stopped before its first write: another machine works on main")
        .stderr_has("hint: run the same command again");
    assert_eq!(shared.service.writes(), [""; 0]);
    one.run(&import).succeeds();
    assert_eq!(shared.service.writes().len(), 1);
}

#[test]
fn a_crawl_that_reaches_a_limit_is_put_as_it_is() {
    let whole = whole_backup();
    let shared = shared();
    let one = shared.machine_with("max_in_flight = 1\n");
    assert_ne!(one.run(&["backup", "-q", "--max-requests", "12"]).code(), Some(0));
    let read = shared.service.new_requests().len();
    machine(&shared).run(&["backup", "-q"]).succeeds();
    let rest = shared.service.new_requests().len();
    assert!(read >= 12 && read + rest <= whole + 5, "{read} requests, then {rest} of {whole}");
}
