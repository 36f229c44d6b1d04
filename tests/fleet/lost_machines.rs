//! The program with a vault in a folder, on machines that are killed: another one continues.

use std::process::Child;

use crate::fleet::folder_store::{Shared, snapshots};
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
    shared.service.faults("latency=100ms");
    let backup = machine.start(&["backup", "-q"]);
    until("a checkpoint was made", || shared.objects().join("HEAD").exists());
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
    slow.signal("-STOP", &backup);
    shared.service.faults("latency=0ms");
    fast.run(&["backup", "-q"]).succeeds();
    let newer = shared.head();
    shared.service.faults("latency=100ms");
    slow.signal("-CONT", &backup);
    let lost = slow.wait(backup).exits_with(4);
    lost.stderr_has("another machine works on main: it put a newer vault into the store meanwhile")
        .stderr_has("the changes of this machine are in")
        .stderr_has("main.db.lost");
    assert_eq!(shared.head(), newer);
    shared.service.faults("latency=0ms");
    assert_eq!(snapshots(&slow), 1);
    slow.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&fast), 2);
}
