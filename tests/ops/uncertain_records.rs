//! `undo` of a run that took a record for its own which another user may have created.

use crate::support::{LiveService, TestEnvironment};

/// A code whose create got no response: another user may have created the one in the list.
fn with_an_uncertain_code() -> (TestEnvironment, LiveService) {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.write("qr_codes.csv", "type,data\ntext,ours\n");
    service.faults("lost-reply@POST /api/qr/add#1");
    let ran = environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    ran.stderr_has("no list shows whether this step or another user created the record");
    service.faults("");
    (environment, service)
}

#[test]
fn undo_leaves_a_record_that_another_user_may_have_created() {
    let (environment, service) = with_an_uncertain_code();
    let before = service.sandbox().store().qr_codes.len();
    let steps = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
    let message = steps["steps"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("another user"), "{message}");
    let undone = environment.run(&["undo", "main", "1", "--yes"]).exits_with(3);
    undone.stdout_has("was left: no list shows whether the run or another user created it");
    assert_eq!(service.sandbox().store().qr_codes.len(), before);
}

#[test]
fn undo_deletes_such_a_record_if_a_person_says_so() {
    let (environment, service) = with_an_uncertain_code();
    let before = service.sandbox().store().qr_codes.len();
    let terminal = environment.on_terminal(&["undo", "main", "1"]);
    terminal.shows("No list shows whether the run or another user created qr_codes").types("y\n");
    terminal.shows("1 delete").types("y\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(service.sandbox().store().qr_codes.len(), before - 1);
}
