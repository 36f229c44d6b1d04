//! Saved plans: applied unchanged, once, and only to their account.

use linkvault::change::plan::{MatchedRecord, MigrationMatches, PlanStep, saved};
use linkvault::model::Resource;
use linkvault::vault::Vault;
use serde_json::{Value, json};

use crate::support::{KEY, LiveService, TestEnvironment};

/// An edited export of the sample account, planned into `plan.json`.
fn saved() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    environment.edit("sheets/channels.csv", "#1F6F54", "#000000");
    let plan = environment.run(&["plan", "sheets", "--to", "main", "-o", "plan.json"]).succeeds();
    plan.fits().stderr_has("saved; `linkvault apply plan.json --to main` applies it\n");
    service.new_requests();
    (environment, service)
}

const APPLY: [&str; 5] = ["apply", "plan.json", "--to", "main", "--yes"];

#[test]
fn a_saved_plan_is_sent_as_displayed() {
    let (environment, service) = saved();
    let plan: Value = serde_json::from_str(&environment.text("plan.json")).unwrap();
    environment.run(&APPLY).succeeds().fits().stdout_has("run 1 of main: 2 done, 2 verified; ");
    let shown: Vec<_> = plan["steps"].as_array().unwrap().iter().map(|it| &it["request"]).collect();
    let service = service.sandbox();
    let sent: Vec<_> = service.log().iter().filter(|entry| entry.body.is_some()).collect();
    assert_eq!(shown.len(), sent.len());
    for (shown, sent) in shown.iter().zip(&sent) {
        let body: Value = serde_json::from_slice(sent.body.as_ref().unwrap()).unwrap();
        let sent = json!({"method": sent.method.as_str(), "path": sent.path, "body": body});
        assert_eq!(**shown, sent);
    }
}

#[test]
fn a_saved_plan_is_private_and_has_no_secret() {
    use std::os::unix::fs::PermissionsExt as _;
    let (environment, _service) = saved();
    assert!(!environment.text("plan.json").contains(KEY));
    let mode = std::fs::metadata(environment.path("plan.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
}

#[test]
fn a_plan_is_applied_once() {
    let (environment, service) = saved();
    environment.run(&APPLY).succeeds();
    // Even if the account is as it was then.
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    service.new_requests();
    let ran = environment.run(&APPLY).exits_with(4).fits().stdout_is("");
    ran.stderr_is(
        "error: this plan was applied already, in run 1\n\
         hint: nothing was written; make a new plan, which may be empty\n",
    );
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_plan_is_stale_after_one_of_its_records_changed() {
    let (environment, service) = saved();
    service.sandbox().mutate(|store| store.campaigns.get_mut(4).unwrap().public = false);
    let ran = environment.run(&[&APPLY[..], &["-q"]].concat()).exits_with(4).fits().stdout_is("");
    ran.stderr_is(
        "error: the plan is stale; nothing was written\n  \
         step 1: campaign 4 has changed since the plan was made\n\
         hint: make a new plan and review it\n",
    );
    service.sandbox().mutate(|store| store.campaigns.remove(4));
    environment.run(&APPLY).exits_with(4).stderr_has("campaign 4 was deleted after");
    let document = environment.run(&[&APPLY[..], &["--json"]].concat()).exits_with(4).json();
    assert_eq!(document["error"]["kind"], "stale");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_plan_stays_valid_while_other_records_change() {
    let (environment, service) = saved();
    service.sandbox().mutate(|store| store.campaigns.get_mut(5).unwrap().public = true);
    environment.run(&APPLY).succeeds();
    assert_eq!(service.writes().len(), 2);
}

#[test]
fn a_create_of_an_existing_record_is_stale() {
    let (environment, service) = saved();
    environment.write("campaigns.csv", "name\nWinter\n");
    let plan = ["plan", "campaigns.csv", "--to", "main", "-o", "plan.json"];
    environment.run(&plan).succeeds();
    service.sandbox().mutate(|store| store.add_campaign("winter", None, true));
    environment.run(&APPLY).exits_with(4).stderr_has("campaign Winter exists already");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_code_is_created_by_one_plan_only() {
    let (environment, service) = saved();
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    for file in ["plan.json", "second.json"] {
        environment.run(&["plan", "qr_codes.csv", "--to", "main", "-o", file]).succeeds();
    }
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&APPLY).exits_with(4).stderr_has("QR code text/hello exists already");
    service.sandbox().mutate(|store| store.remove_qr(13));
    environment.run(&APPLY).succeeds();
    let second = ["apply", "second.json", "--to", "main", "--yes"];
    environment.run(&second).exits_with(4).stderr_has("QR code text/hello exists already");
    assert_eq!(service.writes(), ["POST /api/qr/add", "POST /api/qr/add"]);
}

#[test]
fn a_deleted_record_is_restored_by_one_plan_only() {
    let (environment, service) = saved();
    service.sandbox().mutate(|store| store.campaigns.remove(4));
    for file in ["plan.json", "second.json"] {
        environment.run(&["plan", "main@#1", "--to", "main", "-o", file]).succeeds();
    }
    environment.run(&APPLY).succeeds();
    let name = "Another name".to_owned();
    service.sandbox().mutate(|store| store.campaigns.get_mut(9).unwrap().name = name);
    let second = ["apply", "second.json", "--to", "main", "--yes"];
    environment.run(&second).exits_with(4).stderr_has("exists already");
    assert_eq!(service.writes(), ["POST /api/campaign/add"]);
}

#[test]
fn a_plan_for_another_account_is_refused() {
    let (environment, _service) = saved();
    let other = LiveService::start("", "");
    let environment = environment.account(&other.url());
    let ran = environment.run(&APPLY);
    assert!(ran.code() == Some(4) || ran.code() == Some(1), "{}", ran.stderr());
    let (url, key) = (other.url(), "key_env = \"LINKS_KEY\"");
    let environment = environment.config(&format!("[accounts.second]\nurl = \"{url}\"\n{key}\n"));
    let ran = environment.run(&["apply", "plan.json", "--to", "second", "--yes"]).exits_with(4);
    ran.stderr_has("error: the plan was made for `main` at ").stderr_has("nothing was written");
    assert_eq!(other.writes(), Vec::<String>::new());
}

#[test]
fn an_account_with_another_id_than_the_plans_is_refused() {
    let (environment, service) = saved();
    std::fs::remove_file(environment.path("vaults/main.db")).unwrap();
    service.sandbox().mutate(|store| store.account.id = 2);
    let ran = environment.run(&APPLY).exits_with(4);
    ran.stderr_has("the plan was made for another account at");
    assert_eq!(service.writes(), Vec::<String>::new());
}

/// The plan with an edit.
fn edited_plan(change: impl FnOnce(&mut Value)) -> (TestEnvironment, LiveService) {
    let (environment, service) = saved();
    let mut plan: Value = serde_json::from_str(&environment.text("plan.json")).unwrap();
    change(&mut plan);
    environment.write("plan.json", &plan.to_string());
    (environment, service)
}

#[test]
fn an_edited_plan_file_is_refused() {
    let edits: [fn(&mut Value); 6] = [
        |plan| plan["steps"][0]["request"]["path"] = json!("/api/campaign/5/update"),
        |plan| plan["steps"][0]["request"]["body"]["name"] = json!("Something else"),
        |plan| plan["steps"][0]["after"]["name"] = json!("Something else"),
        |plan| plan["steps"][0]["verb"] = json!("delete"),
        |plan| plan["steps"][0]["request"]["path"] = json!("/api/url/add"),
        |plan| plan["steps"][1]["waits_for"] = json!([9]),
    ];
    for (nth, edit) in edits.into_iter().enumerate() {
        let (environment, service) = edited_plan(edit);
        let ran = environment.run(&APPLY);
        assert!(matches!(ran.code(), Some(1 | 4)), "{nth}: {:?} {}", ran.code(), ran.stdout());
        assert!(ran.stderr().starts_with("error: plan.json "), "{nth}: {}", ran.stderr());
        assert!(ran.stderr().contains("\nhint: "), "{nth}: {}", ran.stderr());
        assert_eq!(service.writes(), Vec::<String>::new(), "{nth}");
    }
}

/// The plan with an edit and a valid digest.
fn forged(change: impl FnOnce(&mut Vec<PlanStep>)) -> (TestEnvironment, LiveService) {
    let (environment, service) = saved();
    let mut plan = saved::read(environment.text("plan.json").as_bytes()).unwrap();
    change(&mut plan.plan.steps);
    environment.write("plan.json", &plan.to_json());
    (environment, service)
}

#[test]
fn an_edited_plan_with_a_new_digest_sends_only_displayed_steps() {
    type Forgery = (fn(&mut PlanStep), i32, &'static str);
    let forgeries: [Forgery; 4] = [
        (
            // Of a campaign, `name` goes with every update.
            |step| {
                let fields = [&mut step.before, &mut step.after];
                for (fields, value) in fields.into_iter().zip([true, false]) {
                    *fields = json!({"public": value}).as_object().cloned();
                }
                let body = json!({"name": "Forged", "public": false});
                step.request.body = body.as_object().cloned();
            },
            4,
            "step 1: campaign 4 is not as the plan describes it\n",
        ),
        (|step| step.name = "Another one".to_owned(), 4, "is not as the plan describes it\n"),
        (
            |step| step.before.as_mut().unwrap()["name"] = json!("x"),
            4,
            "is not as the plan describes",
        ),
        (|step| step.fingerprint = None, 1, "plan.json step 1 has no valid fingerprint of its"),
    ];
    for (forge, code, says) in forgeries {
        let (environment, service) = forged(|steps| forge(&mut steps[0]));
        environment.run(&APPLY).exits_with(code).stderr_has(says);
        assert_eq!(service.writes(), Vec::<String>::new());
    }
}

#[test]
fn a_stale_plan_is_neither_shown_nor_confirmed() {
    let (environment, service) = saved();
    service.sandbox().mutate(|store| store.campaigns.get_mut(4).unwrap().public = false);
    let dry = environment.run(&["apply", "plan.json", "--to", "main", "-n"]).exits_with(4);
    dry.stdout_is("").stderr_has("step 1: campaign 4 has changed since the plan was made\n");
    let snapshots = || {
        let ran = environment.run(&["snapshots", "main", "--json"]).succeeds();
        ran.json()["snapshots"].as_array().unwrap().len()
    };
    let before = snapshots();
    environment.run(&APPLY).exits_with(4).stdout_is("");
    assert_eq!(snapshots(), before, "a look that no run came of stands between no others");
}

#[test]
fn a_plan_file_cannot_map_ids_to_other_records() {
    let (environment, _service) = saved();
    let mut plan = saved::read(environment.text("plan.json").as_bytes()).unwrap();
    let matched = MatchedRecord { resource: Resource::Campaigns, old: 1, new: 2 };
    let id = plan.account_id.unwrap();
    for (origin, code) in [(String::new(), 1), (format!("{}#{id}", plan.service), 4)] {
        plan.plan.foreign = Some(MigrationMatches {
            origin: origin.clone(),
            matched: vec![matched],
            kept: vec![],
            agreed: vec![],
        });
        environment.write("plan.json", &plan.to_json());
        environment.run(&APPLY).exits_with(code);
        let vault = Vault::open(&environment.path("vaults/main.db")).unwrap();
        assert!(vault.id_map(&origin).unwrap().is_empty(), "{origin}");
    }
}

#[test]
fn a_file_that_is_not_a_plan_is_refused() {
    let (environment, service) = saved();
    for text in ["", "{}", "[]", "{\"steps\":1}", "\u{feff}x", "{\"format\":9,\"steps\":[]}"] {
        environment.write("plan.json", text);
        let ran = environment.run(&APPLY).exits_with(1).stdout_is("");
        assert!(ran.stderr().starts_with("error: plan.json "), "{text}: {}", ran.stderr());
    }
    let ran = environment.run(&["apply", "gone.json", "--to", "main", "--yes"]).exits_with(1);
    ran.stderr_has("error: there is no file gone.json\n");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn guards_apply_to_a_saved_plan() {
    let (environment, service) = saved();
    let ran = environment.run(&[&APPLY[..], &["--max-update", "0"]].concat()).exits_with(5);
    ran.stderr_has("the plan updates 1 of 8 campaigns; the limit is 0");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_plan_that_cannot_be_saved_is_an_error() {
    let (environment, _service) = saved();
    let ran = environment.run(&["plan", "sheets", "--to", "main", "-o", "no/where/plan.json"]);
    ran.exits_with(1).stderr_has("error: cannot write no/where/plan.json: ");
}

#[test]
fn an_assignment_is_sent_only_for_the_planned_records() {
    let (environment, service) = saved();
    let channel = service.sandbox().store().channels.get(1).unwrap().name.clone();
    environment.write("channel_items.csv", &format!("channel,type,id\n{channel},qr,3\n"));
    environment.write("campaign_links.csv", "campaign,link\nSummer Sale,4711\n");
    type Change = fn(&mut linkvault::sandbox::Store);
    let reuses: [(&str, Change, &str); 3] = [
        // The names stay equal, so that only the other fields differ.
        (
            "channel_items.csv",
            |store| store.channels.get_mut(1).unwrap().description = "x".to_owned(),
            "names channel 1, which has changed since",
        ),
        (
            "channel_items.csv",
            |store| store.qr_codes.get_mut(3).unwrap().name = "x".to_owned(),
            "names QR code 3, which has changed since",
        ),
        (
            "campaign_links.csv",
            |store| store.campaigns.get_mut(4).unwrap().public ^= true,
            "names campaign 4, which has changed since",
        ),
    ];
    for (file, change, says) in reuses {
        let plan = ["plan", file, "--to", "main", "-o", "plan.json"];
        environment.run(&plan).succeeds();
        service.sandbox().mutate(change);
        environment.run(&APPLY).exits_with(4).stderr_has(says);
        assert_eq!(service.writes(), Vec::<String>::new());
    }
}
