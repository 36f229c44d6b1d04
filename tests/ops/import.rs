//! `import` of CSV rows, and the rejected rows.

use serde_json::json;

use crate::support::TestEnvironment;

/// One row renames a campaign to the name of another, which the service refuses.
const REFUSED: &str = "id,name,public\n2,Newsletter,yes\n,Winter,no\n5,Readers' Club,no\n";

const MESSAGE: &str = "You already have a campaign with that name.";

/// A look at the account without a run must not count as a backup.
#[test]
fn a_plan_that_is_not_applied_leaves_no_snapshot() {
    let (environment, service) = TestEnvironment::with_service("");
    // More than a buffer of the output holds.
    let rows: String = (0..300).map(|nth| format!("New channel {nth}\n")).collect();
    environment.write("channels.csv", &format!("name\n{rows}"));
    let snapshots = || {
        let document = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
        document["snapshots"].as_array().unwrap().len()
    };
    environment.run(&["backup", "-q"]).succeeds();
    // The plan cannot be shown.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let import = ["import", "channels.csv", "--to", "main", "--yes"];
    let output = environment.command(&import).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), snapshots()), (Some(0), 1), "{output:?}");
    // The list of channels cannot be read completely.
    service.faults("html@GET /api/channels");
    assert_ne!(environment.run(&import).code(), Some(0));
    service.faults("");
    assert_eq!(snapshots(), 1);
    assert!(service.writes().is_empty());
}

#[test]
fn rows_without_an_id_create_or_match_by_name() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "name,slug,public\nWinter,winter,yes\nPRESS,,yes\n");
    environment.import("campaigns.csv", &[]).succeeds().fits().stdout_has("2 done, 2 verified");
    assert_eq!(service.writes(), ["PUT /api/campaign/8/update", "POST /api/campaign/add"]);
    assert_eq!(service.sandbox().store().campaigns.len(), 9);
    let again = environment.import("campaigns.csv", &[]).succeeds();
    again.stdout_is("Nothing to do.\n");
}

/// The stored slug must not hide the one in the rotator's address. A service may change a slug that
/// it gets; then it is not sent again.
#[test]
fn a_slug_that_was_replaced_at_the_service_is_sent_again() {
    let (environment, service) = TestEnvironment::with_service("");
    let slug = || service.sandbox().store().campaigns.get(8).unwrap().slug.clone().unwrap();
    let nothing = "Nothing to do.\n";
    environment.write("campaigns.csv", "id,name,slug\n8,Press,aaa/1\n");
    environment.import("campaigns.csv", &[]).succeeds().stdout_has("1 done");
    assert_eq!(slug(), "aaa-1");
    environment.import("campaigns.csv", &[]).succeeds().stdout_is(nothing);
    environment.run(&["backup", "main", "--tag", "made"]).succeeds();
    let replace = || {
        service.sandbox().mutate(|store| {
            let rotator = store.rotator_url("bbb");
            let row = store.campaigns.get_mut(8).unwrap();
            (row.slug, row.rotator) = (Some("bbb".to_owned()), Some(rotator));
        });
    };
    replace();
    // A new export has the account's present slug.
    environment.run(&["backup", "main"]).succeeds();
    environment.run(&["export", "main", "--to", "now", "--only", "campaigns"]).succeeds();
    environment.import("now/campaigns.csv", &[]).succeeds().stdout_is(nothing);
    environment.import("campaigns.csv", &[]).succeeds().stdout_has("1 done");
    assert_eq!(slug(), "aaa-1");
    environment.import("campaigns.csv", &[]).succeeds().stdout_is(nothing);
    replace();
    let restore = ["restore", "made", "--to", "main", "--yes"];
    environment.run(&restore).succeeds().stdout_has("1 done");
    assert_eq!(slug(), "aaa-1");
    environment.run(&restore).succeeds().stdout_is(nothing);
}

/// The restored slug is that of the rotator's address at the time, which is also the one that was
/// sent.
#[test]
fn a_sent_slug_is_restored_after_it_was_replaced_at_the_service() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "id,name,slug\n8,Press,aaa\n");
    environment.import("campaigns.csv", &[]).succeeds().stdout_has("1 done");
    environment.run(&["backup", "main", "--tag", "made"]).succeeds();
    service.sandbox().mutate(|store| {
        let rotator = store.rotator_url("bbb");
        let row = store.campaigns.get_mut(8).unwrap();
        (row.slug, row.rotator) = (Some("bbb".to_owned()), Some(rotator));
    });
    let restore = ["restore", "made", "--to", "main", "--yes"];
    environment.run(&restore).succeeds().stdout_has("1 done");
    let slug = service.sandbox().store().campaigns.get(8).unwrap().slug.clone();
    assert_eq!(slug.as_deref(), Some("aaa"));
}

#[test]
fn other_separators_byte_order_marks_and_line_ends_are_accepted() {
    let (environment, service) = TestEnvironment::with_service("");
    environment
        .write("list.csv", "\u{feff}name;color;starred\r\n\"Größe; \"\"M\"\"\";#aabbcc;1\r\n");
    let more = ["--resource", "channels"];
    environment.import("list.csv", &more).succeeds();
    let expected = json!({"name": "Größe; \"M\"", "color": "#aabbcc", "starred": true});
    assert_eq!(service.bodies(), [expected]);
    environment.import("list.csv", &more).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn all_mistakes_are_reported_before_any_request() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "name,colour\nA,red\n");
    let ran = environment.import("channels.csv", &[]).exits_with(1).stdout_is("");
    ran.stderr_has("channels.csv:1: colour: ")
        .stderr_has("did you mean `color`?")
        .stderr_has("--map");
    environment.write("channels.csv", "name,color,starred\n,red,maybe\nA,,\nA,,\n");
    let ran = environment.import("channels.csv", &[]).exits_with(1);
    ran.stderr_has("channels.csv:2: color: `red`").stderr_has("channels.csv:2: starred: `maybe`");
    assert_eq!(service.request_count(), 0);
}

#[test]
fn a_refused_row_keeps_the_services_message_and_the_others_are_written() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", REFUSED);
    let ran = environment.import("campaigns.csv", &[]).exits_with(3);
    ran.stdout_has("run 1 of main: 2 done, 1 refused, 2 verified; ")
        .stderr_has(&format!("step 1 (update campaign 2) refused: {MESSAGE}\n"))
        .stderr_has(
            "1 row rejected and written to campaigns.rejected.csv; fix and apply that file\n",
        );
    assert_eq!(service.writes().len(), 3);
    assert_eq!(
        environment.text("campaigns.rejected.csv"),
        format!("id,name,public,problem\n2,Newsletter,yes,{MESSAGE}\n")
    );
    let steps = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
    assert_eq!(steps["steps"][0]["message"], MESSAGE);
    environment.run(&["runs", "main", "1"]).succeeds().stdout_has(&format!("step 1: {MESSAGE}"));
}

#[test]
fn rejected_rows_can_be_fixed_and_applied() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", REFUSED);
    let document = environment.import("campaigns.csv", &["--json"]).exits_with(3).json();
    assert_eq!((&document["done"], &document["refused"]), (&2.into(), &1.into()));
    environment.edit("campaigns.rejected.csv", "Newsletter", "Evenings");
    environment.import("campaigns.rejected.csv", &[]).succeeds().stdout_has("1 done");
    assert_eq!(service.sandbox().store().campaigns.get(2).unwrap().name, "Evenings");
    assert!(!environment.path("campaigns.rejected.rejected.csv").exists());
}

#[test]
fn rejected_rows_are_written_to_the_given_file() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", REFUSED);
    environment.import("campaigns.csv", &["--rejected", "again.csv"]).exits_with(3);
    assert!(environment.text("again.csv").contains(MESSAGE));
    assert!(!environment.path("campaigns.rejected.csv").exists());
}

#[test]
fn fail_fast_stops_at_the_first_refusal() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", REFUSED);
    let ran = environment.import("campaigns.csv", &["--fail-fast", "--json"]).exits_with(3);
    let document = ran.json();
    let counts = ["done", "refused", "skipped"].map(|it| document[it].as_u64().unwrap());
    assert_eq!((counts, service.writes().len()), ([0, 1, 2], 1));
    assert_eq!(environment.text("campaigns.rejected.csv").lines().count(), 4);
}

#[test]
fn steps_that_depend_on_a_refused_step_are_skipped() {
    let (environment, service) = TestEnvironment::with_service("cap-campaigns=8");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let campaigns = environment.text("sheets/campaigns.csv");
    environment.write("sheets/campaigns.csv", &format!("{campaigns},Winter,true,,,\n"));
    environment.write("sheets/campaign_links.csv", "campaign,link\nWinter,7\nPress,8\n");
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--json"];
    let ran = environment.run(&apply).exits_with(3);
    let document = ran.json();
    let counts = ["done", "refused", "skipped"].map(|it| document[it].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 1], "{document}");
    ran.stderr_has("You have reach the maximum limit for this feature.");
    let writes: Vec<_> = service.writes();
    assert_eq!(writes, ["POST /api/campaign/add", "POST /api/campaign/8/assign/8"]);
    let rejected = environment.text("sheets/campaign_links.rejected.csv");
    assert_eq!(rejected, "campaign,link,problem\nWinter,7,step 1 was refused\n");
    assert!(environment.path("sheets/campaigns.rejected.csv").exists());
    // Steps that are done are not repeated.
    service.sandbox().behaviour_mut().apply("cap-campaigns=none").unwrap();
    environment.run(&apply).succeeds();
    let last = service.writes().split_off(2);
    assert_eq!(last, ["POST /api/campaign/add", "POST /api/campaign/9/assign/7"]);
}

#[test]
fn a_name_altered_by_the_service_is_reported_and_not_planned_again() {
    let (environment, service) = TestEnvironment::with_service("names=lowered");
    environment.write("channels.csv", "name\nReading Weeks\n");
    let ran = environment.import("channels.csv", &[]).succeeds();
    ran.stderr_has("`Reading Weeks` is stored as `reading weeks`");
    environment.import("channels.csv", &[]).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!(service.writes().len(), 1);
}

#[test]
fn many_remarks_are_summarized() {
    let (environment, _service) = TestEnvironment::with_service("names=lowered");
    let rows: String = (0..60).map(|nth| format!("Channel {nth}\n")).collect();
    environment.write("channels.csv", &format!("name\n{rows}"));
    let ran = environment.import("channels.csv", &[]).succeeds();
    assert_eq!(ran.stderr().matches("stored as `channel").count(), 20);
    ran.stderr_has("and 40 more; `linkvault runs main 1` shows them all\n");
    environment.run(&["runs", "main", "1"]).succeeds().stdout_has("stored as `channel 59`");
}

#[test]
fn items_and_links_are_assigned_once() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channel_items.csv", "channel,type,id\nletters,links,7\n3,qr,4\n");
    environment.write("campaign_links.csv", "campaign,link\nPress,5\n");
    environment.import("channel_items.csv", &[]).succeeds().stdout_has("2 done, 2 verified");
    environment.import("campaign_links.csv", &[]).succeeds().stdout_has("1 done");
    assert_eq!(service.writes().len(), 3);
    assert!(service.sandbox().store().campaigns.get(8).unwrap().members.contains(&5));
    for file in ["channel_items.csv", "campaign_links.csv"] {
        environment.import(file, &[]).succeeds().stdout_is("Nothing to do.\n");
    }
}

#[test]
fn codes_are_matched_by_their_sent_content() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write(
        "qr_codes.csv",
        "type,data,background\nlink,https://a.example.com,\"rgb(1,2,3)\"\n\
         wifi,\"[\"\"guest\"\",\"\"WPA\"\"]\",\n",
    );
    environment.import("qr_codes.csv", &[]).succeeds().stdout_has("2 done, 2 verified");
    assert_eq!(service.writes(), ["POST /api/qr/add", "POST /api/qr/add"]);
    let wifi = json!({"type": "wifi", "data": ["guest", "WPA"]});
    assert_eq!(service.bodies()[1], wifi);
    environment.import("qr_codes.csv", &[]).succeeds().stdout_is("Nothing to do.\n");

    // An update must send the data, which is stored as a sent value.
    environment.write("qr_codes.csv", "id,background\n13,\"rgb(9,9,9)\"\n");
    environment.import("qr_codes.csv", &[]).succeeds().stdout_has("1 done");
    let update = json!({"background": "rgb(9,9,9)", "data": "https://a.example.com"});
    assert_eq!(service.bodies()[2], update);
}

#[test]
fn a_code_of_unknown_content_is_updated_by_a_row_with_content() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("qr_codes.csv", "id,background\n3,\"rgb(9,9,9)\"\n");
    let ran = environment.import("qr_codes.csv", &[]).exits_with(3);
    ran.stdout_has("qr_codes 3: an update has to send its `data`, which is not known\n")
        .stdout_has("\nNo step can be taken.\n");
    assert_eq!(service.writes(), Vec::<String>::new());
    environment.write("qr_codes.csv", "id,data,background\n3,hello,\"rgb(9,9,9)\"\n");
    environment.import("qr_codes.csv", &[]).succeeds();
    assert_eq!(service.bodies(), [json!({"data": "hello", "background": "rgb(9,9,9)"})]);
    environment.import("qr_codes.csv", &[]).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn an_id_that_the_account_does_not_have_is_not_created() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "id,name\n77,Winter\n");
    let ran = environment.import("campaigns.csv", &[]).exits_with(3);
    ran.stdout_has("the account has no campaign 77; empty its id to create it");
    assert_eq!(service.writes(), Vec::<String>::new());
}
