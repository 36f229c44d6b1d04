//! Runs that stop at a limit, at an interrupt, at `kill -9`, or at a lost response. Each can be
//! continued, and does nothing twice.

use std::collections::BTreeMap;
use std::process::Child;

use linkvault::sandbox::Store;
use linkvault::sandbox::store::QrCode;
use serde_json::json;

use crate::support::{LiveService, TestEnvironment, until};

/// A service without records, and a CSV file that creates `count` campaigns.
fn rows(count: usize, behaviour: &str, faults: &str) -> (TestEnvironment, LiveService) {
    let service = LiveService::serving(Store::default(), behaviour, faults);
    let environment = TestEnvironment::new().account(&service.url());
    let rows: String = (1..=count).map(|nth| format!("Campaign {nth},slug-{nth}\n")).collect();
    environment.write("campaigns.csv", &format!("name,slug\n{rows}"));
    (environment, service)
}

const IMPORT: [&str; 5] = ["import", "campaigns.csv", "--to", "main", "--yes"];

fn posts(service: &LiveService) -> usize {
    service.writes().len()
}

/// Asserts that each of `count` campaigns exists once, and no step remains.
#[track_caller]
fn assert_created_once(environment: &TestEnvironment, service: &LiveService, count: usize) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (_, row) in service.sandbox().store().campaigns.iter() {
        *found.entry(row.name.clone()).or_default() += 1;
    }
    let wanted = (1..=count).map(|nth| (format!("Campaign {nth}"), 1)).collect();
    assert_eq!(found, wanted);
    environment.run(&IMPORT).succeeds().stdout_is("Nothing to do.\n");
    environment.run(&["check", "main"]).succeeds();
}

#[test]
fn a_thousand_rows_survive_lost_replies_and_twenty_kills() {
    let (environment, service) = rows(1000, "rate-limit=zero", "lost-reply=0.05,seed=20");
    let mut child = environment.start(&[&IMPORT[..], &["-q"]].concat());
    for round in 0..20 {
        let before = posts(&service);
        until("some more writes", || posts(&service) > before + round % 7 * 3);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "round {round}: it was done already");
        child = environment.start(&["resume", "main", "--json"]);
    }
    let document = environment.wait(child).succeeds().json();
    assert_eq!((&document["done"], &document["verified"]), (&1000.into(), &1000.into()));
    assert_eq!((&document["refused"], &document["unknown"]), (&0.into(), &0.into()));
    assert!(posts(&service) > 1000 - 20 * 40, "the kills came while it wrote");
    service.faults("");
    assert_created_once(&environment, &service, 1000);
}

#[test]
fn max_requests_exits_with_8_and_resume_finishes_the_run() {
    let (environment, service) = rows(30, "", "");
    let bound = [&IMPORT[..], &["--max-requests", "12"]].concat();
    let ran = environment.run(&bound).exits_with(8);
    ran.stderr_has("error: run 1 stopped: the limit of 12 requests is reached\n")
        .stderr_has("hint: `linkvault resume main 1` continues it; nothing is done twice\n");
    assert_eq!((service.requests().len(), posts(&service)), (12, 10));
    let told = environment.run(&["runs", "main"]).succeeds().fits();
    told.stdout_has("10 done, 20 planned").stderr_has("`linkvault resume main` continues");
    let second = environment.run(&IMPORT).exits_with(1);
    second
        .stderr_has("error: run 1 of main is not finished\n")
        .stderr_has("`linkvault resume main`");
    let document = environment.run(&["resume", "main", "--json"]).succeeds().json();
    assert_eq!((&document["run"], &document["done"]), (&1.into(), &30.into()));
    assert_eq!(posts(&service), 30);
    assert_created_once(&environment, &service, 30);
    environment.run(&["resume", "main"]).exits_with(1).stderr_is(
        "error: every run of main is finished\nhint: `linkvault runs main` lists them\n",
    );
}

#[test]
fn max_requests_during_verification_can_be_resumed() {
    let (environment, service) = rows(5, "", "");
    environment.run(&[&IMPORT[..], &["--max-requests", "7"]].concat()).exits_with(8);
    assert_eq!(posts(&service), 5);
    environment.run(&["resume", "main"]).succeeds().stdout_has("5 done, 5 verified");
    assert_created_once(&environment, &service, 5);
}

#[test]
fn a_limit_reached_before_the_first_write_leaves_no_run() {
    let (environment, service) = rows(5, "", "");
    environment.run(&[&IMPORT[..], &["--max-requests", "1"]].concat()).exits_with(8);
    assert_eq!(posts(&service), 0);
    environment.run(&IMPORT).succeeds();
    assert_created_once(&environment, &service, 5);
}

#[test]
fn max_duration_exits_with_8_and_resume_finishes_the_run() {
    let (environment, service) = rows(20, "rate-limit=14,rate-window=3", "");
    let ran = environment.run(&[&IMPORT[..], &["--max-duration", "1s"]].concat()).exits_with(8);
    ran.stderr_has("`linkvault resume main 1` continues");
    let sent = posts(&service);
    assert!((1..20).contains(&sent), "{sent}");
    environment.run(&["resume", "main"]).succeeds();
    assert_eq!((posts(&service), service.throttled()), (20, 0));
    service.sandbox().behaviour_mut().apply("rate-limit=none").unwrap();
    assert_created_once(&environment, &service, 20);
}

#[test]
fn an_interrupt_exits_with_130_and_resume_finishes_the_run() {
    for signal in ["-INT", "-TERM"] {
        let (environment, service) = rows(30, "rate-limit=1000", "latency=20ms");
        let child = environment.start(&IMPORT);
        until("a few writes", || posts(&service) >= 5);
        environment.signal(signal, &child);
        let ran = environment.wait(child).exits_with(130);
        ran.stderr_has("error: run 1 was interrupted\n")
            .stderr_has("hint: `linkvault resume main 1` continues it; nothing is done twice\n");
        assert!(posts(&service) < 30);
        service.faults("");
        environment.run(&["resume", "main"]).succeeds().stdout_has("30 done, 30 verified");
        assert_eq!(posts(&service), 30);
        assert_created_once(&environment, &service, 30);
    }
}

#[test]
fn a_key_that_expires_exits_with_7_and_a_new_key_resumes() {
    let (environment, service) = rows(30, "rate-limit=1000", "latency=10ms");
    let child = environment.start(&IMPORT);
    until("a few writes", || posts(&service) >= 5);
    service.sandbox().behaviour_mut().apply("authorization=dropped").unwrap();
    let ran = environment.wait(child).exits_with(7);
    ran.stderr_has("error: run 1 stopped: ").stderr_has("`linkvault resume main 1` continues");
    service.sandbox().behaviour_mut().apply("authorization=read").unwrap();
    environment.run(&["resume", "main"]).succeeds().stdout_has("30 done, 30 verified");
    assert_created_once(&environment, &service, 30);
}

#[test]
fn codes_are_created_once_despite_lost_requests_and_replies() {
    let faults = "lost-reply@POST /api/qr/add#2,cut-body@POST /api/qr/add#5,\
                  lost-request@POST /api/qr/add#7,garbage:empty@POST /api/qr/add#9";
    let service = LiveService::serving(Store::default(), "", faults);
    let environment = TestEnvironment::new().account(&service.url());
    let rows: String = (1..=10).map(|nth| format!("text,Content {nth}\n")).collect();
    environment.write("qr_codes.csv", &format!("type,data\n{rows}"));
    let import = ["import", "qr_codes.csv", "--to", "main", "--yes"];
    environment.run(&import).succeeds().stdout_has("10 done, 10 verified");
    let mut made: Vec<_> = service
        .sandbox()
        .store()
        .qr_codes
        .iter()
        .map(|(_, code)| code.content.data.as_ref().unwrap().as_str().unwrap().to_owned())
        .collect();
    made.sort();
    let mut wanted: Vec<_> = (1..=10).map(|nth| format!("Content {nth}")).collect();
    wanted.sort();
    assert_eq!(made, wanted);
    environment.run(&import).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn an_update_without_a_response_is_sent_again() {
    let faults = "lost-reply@PUT /api/campaign#1,lost-request@PUT /api/campaign#3";
    let (environment, service) = rows(3, "", "");
    environment.run(&IMPORT).succeeds();
    service.faults(faults);
    environment.write("campaigns.csv", "id,name\n1,Eins\n2,Zwei\n3,Drei\n");
    let ran = environment.run(&IMPORT).succeeds();
    ran.stdout_has("3 done, 3 verified").stderr_has("trying again");
    environment.run(&IMPORT).succeeds().stdout_is("Nothing to do.\n");
    let names: Vec<_> =
        service.sandbox().store().campaigns.iter().map(|(_, row)| row.name.clone()).collect();
    assert_eq!(names, ["Eins", "Zwei", "Drei"]);
}

/// A code whose response is lost while another user creates one: either may be it.
fn two_candidates() -> (TestEnvironment, LiveService) {
    let faults = "lost-reply@POST /api/qr/add,latency=150ms";
    let service = LiveService::serving(Store::default(), "", faults);
    let environment = TestEnvironment::new().account(&service.url());
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    let child: Child = environment.start(&["import", "qr_codes.csv", "--to", "main", "--yes"]);
    until("the write", || posts(&service) == 1);
    service.sandbox().mutate(|store| {
        let link = store.qr_url(2);
        store.qr_codes.add(QrCode { link, name: "Theirs".to_owned(), ..QrCode::default() });
    });
    service.faults("");
    let ran = environment.wait(child).exits_with(6);
    ran.stdout_has("1 unknown")
        .stderr_has("any of 1 and 2 may be its record")
        .stderr_has("`linkvault resolve main 1` shows the records that it may have created\n");
    assert_eq!(posts(&service), 1, "it is not sent again blindly");
    (environment, service)
}

#[test]
fn an_unknown_create_can_be_adopted() {
    let (environment, service) = two_candidates();
    let shown = environment.run(&["resolve", "main", "1"]).exits_with(6);
    shown
        .stdout_has("step 1: create QR code text/hello\n")
        .stdout_has("may be 1: ")
        .stdout_has("may be 2: ")
        .stderr_has("--adopt STEP=ID, --retry STEP or --leave STEP");
    let open = environment.run(&["resolve", "main", "1", "--json"]).exits_with(6).json();
    let ids: Vec<_> =
        open["open"][0]["candidates"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2)]);
    let wrong = environment.run(&["resolve", "main", "1", "--adopt", "1=9"]).exits_with(64);
    wrong.stderr_has("9 cannot be its record; these can: 1 and 2");
    environment.run(&["resolve", "main", "1", "--adopt", "2=1"]).exits_with(64);
    let decided = environment.run(&["resolve", "main", "1", "--adopt", "1=1"]).succeeds();
    decided.stderr_has("`linkvault resume main 1` continues it\n");
    environment.run(&["resume", "main"]).succeeds().stdout_has("1 done, 1 verified");
    // The code is identified by its sent values.
    let again = ["import", "qr_codes.csv", "--to", "main", "--yes"];
    environment.run(&again).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!(posts(&service), 1);
}

#[test]
fn an_unknown_create_can_be_retried_or_skipped() {
    let (environment, service) = two_candidates();
    environment.run(&["resolve", "main", "1", "--retry", "1"]).succeeds();
    environment.run(&["resume", "main"]).succeeds().stdout_has("1 done");
    assert_eq!(posts(&service), 2);

    let (environment, service) = two_candidates();
    environment.run(&["resolve", "main", "1", "--leave", "1"]).succeeds();
    environment.run(&["resume", "main"]).exits_with(3).stdout_has("1 skipped");
    let undo = environment.run(&["undo", "main", "1", "-n"]).exits_with(3);
    undo.stdout_has("text/hello: the create cannot be reverted: whether it was done is");
    assert_eq!(posts(&service), 1);
}

#[test]
fn snapshot_after_is_cleared_when_a_run_sends_more() {
    let (environment, service) = two_candidates();
    let seen = || {
        let run = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
        run["snapshot_after"].as_i64()
    };
    assert!(seen().is_some());
    environment.run(&["resolve", "main", "1", "--retry", "1"]).succeeds();
    // One request confirms the account, one creates the code.
    environment.run(&["resume", "main", "--max-requests", "2"]).exits_with(8);
    assert_eq!((posts(&service), seen()), (2, None));
    environment.run(&["resume", "main"]).succeeds();
    assert!(seen().is_some());
}

#[test]
fn a_new_run_can_begin_after_abandon() {
    let (environment, service) = rows(10, "", "");
    environment.run(&[&IMPORT[..], &["--max-requests", "5"]].concat()).exits_with(8);
    environment.run(&["resolve", "main", "1", "--abandon", "--retry", "1"]).exits_with(64);
    let ended = environment.run(&["resolve", "main", "1", "--abandon"]).succeeds();
    ended
        .stdout_is("run 1 of main was ended; its other steps are not sent\n")
        .stderr_has("`linkvault undo main 1` reverts what it has done");
    let again = environment.run(&["resolve", "main", "1", "--abandon"]).exits_with(1);
    again.stderr_has("error: run 1 is finished\n");
    environment.run(&IMPORT).succeeds();
    assert_created_once(&environment, &service, 10);
}

#[test]
fn resolve_without_unknown_steps_succeeds() {
    let (environment, _service) = rows(1, "", "");
    environment.run(&IMPORT).succeeds();
    environment.run(&["resolve", "main", "1"]).succeeds();
    environment.run(&["resolve", "main", "9"]).exits_with(1);
}

#[test]
fn a_refusal_is_printed_once_and_again_by_resume() {
    let (environment, service) = rows(2, "cap-campaigns=1", "");
    let ran = environment.run(&IMPORT).exits_with(3);
    assert_eq!(ran.stderr().matches("maximum limit").count(), 1, "{}", ran.stderr());
    ran.stderr_has("step 2 (create campaign Campaign 2) refused: ");
    let document = environment.run(&["resume", "main", "1", "--json"]).exits_with(3).json();
    let problems = document["problems"].as_array().unwrap();
    assert!(problems[0].as_str().unwrap().starts_with("step 2 (create campaign "), "{document}");
    environment.run(&["resume", "main", "1"]).exits_with(3).stderr_has("Campaign 2) refused: ");
    assert_eq!(posts(&service), 2);
}

#[test]
fn an_unknown_run_is_an_error_with_a_hint() {
    let (environment, _service) = rows(1, "", "");
    environment.run(&IMPORT).succeeds();
    for command in ["undo", "resume", "runs", "resolve"] {
        let ran = environment.run(&[command, "main", "9"]).exits_with(1);
        ran.stderr_is("error: main has no run 9\nhint: `linkvault runs main` lists them\n");
    }
    environment
        .run(&["undo", "main", "latest"])
        .exits_with(64)
        .stderr_has("is not a run number; `linkvault runs ACCOUNT` lists them");
}

#[test]
fn an_update_cannot_be_adopted() {
    let (environment, service) = rows(1, "", "");
    environment.run(&["backup", "-q"]).succeeds();
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    environment.write("qr_codes.csv", "id,data\n1,bye\n");
    service.faults("lost-reply@PUT /api/qr");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).exits_with(6);
    let ran = environment.run(&["resolve", "main", "2", "--adopt", "1=1"]).exits_with(64);
    ran.stderr_has("it creates no record to adopt; --retry sends it again");
}

#[test]
fn a_damaged_journal_is_an_error_before_any_request() {
    for number in [0, 2, 99] {
        let (environment, service) = rows(3, "", "");
        environment.run(&[&IMPORT[..], &["--max-requests", "3"]].concat()).exits_with(8);
        let sent = posts(&service);
        let spec = format!("replace(spec, '\"step\":1,', '\"step\":{number},')");
        let sql = format!("UPDATE step SET spec = {spec} WHERE step = 1");
        assert_eq!(environment.sqlite("main").execute(&sql, []).unwrap(), 1);
        let ran = environment.run(&["resume", "main"]).exits_with(1);
        ran.stderr_has("error: step 1 is damaged in the journal: it has another number\n");
        assert_eq!(posts(&service), sent);
    }
}

/// A run of assignments that a limit stopped in the middle.
fn stopped_assigning(file: &str) -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    let rows = |row: fn(u32) -> String| -> String { (0..12).map(|nth| row(9000 + nth)).collect() };
    let text = match file {
        "channel_items.csv" => {
            format!("channel,type,id\n{}", rows(|id| format!("Newsletter,links,{id}\n")))
        }
        _ => format!("campaign,link\n{}", rows(|id| format!("Summer Sale,{id}\n"))),
    };
    let text = text.replace("Newsletter", &service.sandbox().store().channels.get(1).unwrap().name);
    environment.write(file, &text);
    let most = if file == "channel_items.csv" { "12" } else { "6" };
    let bound = ["import", file, "--to", "main", "--yes", "--max-requests", most];
    environment.run(&bound).exits_with(8);
    assert!((1..12).contains(&posts(&service)), "{:?}", service.requests());
    (environment, service)
}

#[test]
fn a_resumed_run_writes_to_no_other_account_behind_the_same_url() {
    for file in ["channel_items.csv", "campaign_links.csv"] {
        let (environment, service) = stopped_assigning(file);
        let sent = posts(&service);
        service.sandbox().mutate(|store| store.account.id = 99);
        let ran = environment.run(&["resume", "main", "--yes"]).exits_with(1);
        ran.stderr_has("answers for 99 of");
        assert_eq!(posts(&service), sent, "{file}");
        service.sandbox().mutate(|store| store.account.id = 1);
        environment.run(&["resume", "main", "--yes"]).succeeds();
        assert_eq!(posts(&service), 12, "{file}");
    }
}

#[test]
fn a_resumed_run_writes_to_no_other_service() {
    for file in ["channel_items.csv", "campaign_links.csv"] {
        let (environment, _service) = stopped_assigning(file);
        let other = LiveService::start("", "");
        let environment = environment.account(&other.url());
        environment.run(&["resume", "main", "--yes"]).exits_with(1);
        assert_eq!(other.writes(), Vec::<String>::new(), "{file}");
    }
}

#[test]
fn a_resumed_assignment_to_a_replaced_record_is_stale() {
    for file in ["channel_items.csv", "campaign_links.csv"] {
        let (environment, service) = stopped_assigning(file);
        let sent = posts(&service);
        // The id now belongs to another record, of the same name.
        service.sandbox().mutate(|store| {
            store.channels.get_mut(1).unwrap().description = "another one".to_owned();
            store.campaigns.get_mut(4).unwrap().public ^= true;
        });
        let ran = environment.run(&["resume", "main", "--yes", "--json"]).exits_with(3);
        let document = ran.json();
        assert_eq!(document["stale"].as_u64(), Some(12 - sent as u64), "{file}: {document}");
        assert_eq!(posts(&service), sent, "{file}");
    }
}

#[test]
fn a_run_with_only_stale_steps_exits_with_4_and_is_finished() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.write("campaign_links.csv", "campaign,link\nSummer Sale,4711\n");
    let import = ["import", "campaign_links.csv", "--to", "main", "--yes"];
    environment.run(&[&import[..], &["--max-requests", "2"]].concat()).exits_with(8);
    service.sandbox().mutate(|store| store.campaigns.get_mut(4).unwrap().public ^= true);
    let ran = environment.run(&["resume", "main", "--yes"]).exits_with(4);
    ran.stdout_has("1 stale")
        .stderr_has("names campaign 4, which has changed since")
        .stderr_has("`public` was `");
    assert_eq!(service.writes(), Vec::<String>::new());
    environment.run(&import).succeeds();
    assert_eq!(service.writes().len(), 1);
}
