//! `undo` of a run, and `restore` of a snapshot.

use crate::support::{LiveService, TestEnvironment};

fn backed_up() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    service.new_requests();
    (environment, service)
}

/// Scripts pass `--yes` everywhere.
#[test]
fn commands_without_a_question_accept_yes() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nA\nB\nC\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "4"];
    environment.run(&import).exits_with(8);
    let sent = service.writes().len();
    let dry = environment.run(&["resume", "main", "-n", "--json"]).succeeds().json();
    assert_eq!((&dry["run"], &dry["format"]), (&1.into(), &1.into()));
    environment.run(&["resolve", "main", "1", "--abandon", "-n"]).succeeds();
    assert_eq!(service.writes().len(), sent, "a dry run sends nothing");
    environment.run(&["resolve", "main", "1", "--yes"]).succeeds();
    environment.run(&["resume", "main", "--yes"]).succeeds().stdout_has("3 done");
    let dry = environment.run(&["export", "main", "--to", "sheets", "-n"]).succeeds();
    dry.stdout_has("campaigns  11 records").stderr_has("nothing was written");
    assert!(!environment.path("sheets").exists());
}

/// A shell treats `#1` as a comment.
#[test]
fn restore_accepts_a_snapshot_number() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["restore", "1", "--to", "main", "--yes"]).succeeds();
    assert_eq!(service.sandbox().store().campaigns.get(4).unwrap().name, "Summer Sale");
    environment
        .run(&["restore", "99", "--to", "main", "--yes"])
        .exits_with(1)
        .stderr_has("no snapshot #99");
}

const RESTORE: [&str; 5] = ["restore", "#1", "--to", "main", "--yes"];

#[test]
fn undo_reverts_only_the_changes_of_its_run() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name,slug\n4,Autumn Sale,\n,Winter,winter\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    // Another user changes the account meanwhile.
    service.sandbox().mutate(|store| {
        store.add_campaign("Later", None, true);
        store.campaigns.get_mut(5).unwrap().name = "Readers".to_owned();
        store.campaigns.get_mut(4).unwrap().public = false;
    });
    let dry = environment.run(&["undo", "main", "1", "-n"]).succeeds().fits();
    dry.stdout_has("\"Autumn Sale\" -> \"Summer Sale\"").stdout_has("- 9  Winter");
    environment.run(&["undo", "main", "1"]).exits_with(64);
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    let service = service.sandbox();
    let campaigns = &service.store().campaigns;
    assert_eq!(campaigns.get(4).unwrap().name, "Summer Sale");
    assert_eq!(campaigns.get(4).unwrap().slug.as_deref(), Some("summer"));
    assert!(!campaigns.get(4).unwrap().public);
    assert!(campaigns.get(9).is_none());
    assert_eq!(campaigns.get(10).unwrap().name, "Later");
    assert_eq!(campaigns.get(5).unwrap().name, "Readers");
}

/// The service gives the id of the campaign that the run deleted to the one that it created.
#[test]
fn a_record_with_the_id_of_a_deleted_one_is_unchanged() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(linkvault::sandbox::Store::reuse_ids);
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/campaigns.csv");
    let mut rows: Vec<_> = text.lines().filter(|line| !line.starts_with("8,")).collect();
    assert_eq!(rows.len() + 1, text.lines().count());
    let winter = format!(",Winter{}", ",".repeat(rows[0].matches(',').count() - 1));
    rows.push(&winter);
    environment.write("sheets/campaigns.csv", &rows.join("\n"));
    environment.run(&["apply", "sheets", "--to", "main", "--yes", "--delete"]).succeeds();
    assert_eq!(service.sandbox().store().campaigns.get(8).unwrap().name, "Winter");
    let sent = service.writes().len();
    for arguments in [&["undo", "main", "1", "-n"][..], &["undo", "main", "1", "--yes"]] {
        let ran = environment.run(arguments).exits_with(3);
        ran.stdout_has("the service gave its id to a record that the run created")
            .stdout_has("it has the id of a record that existed before the run");
    }
    assert_eq!(service.writes().len(), sent);
    assert_eq!(service.sandbox().store().campaigns.get(8).unwrap().name, "Winter");
}

#[test]
fn undoing_an_undo_applies_the_run_again() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    for (run, name) in [("1", "Summer Sale"), ("2", "Autumn Sale")] {
        environment.run(&["undo", "main", run, "--yes"]).succeeds();
        assert_eq!(service.sandbox().store().campaigns.get(4).unwrap().name, name);
    }
    // The run was undone and applied again.
    let again = environment.run(&["undo", "main", "2", "--yes"]).succeeds();
    again.stdout_is("Nothing to do.\n");
}

#[test]
fn records_changed_after_the_run_are_conflicts() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    let rename = |name: &str| {
        let name = name.to_owned();
        service.sandbox().mutate(|store| store.campaigns.get_mut(4).unwrap().name = name);
    };
    rename("Winter Sale");
    environment.run(&["undo", "main", "1", "--yes"]).exits_with(4).stderr_has("Winter Sale");
    assert_eq!(service.writes().len(), 1);
    environment.run(&["undo", "main", "1", "--yes", "--on-conflict", "mine"]).succeeds();
    assert_eq!(service.sandbox().store().campaigns.get(4).unwrap().name, "Summer Sale");
}

/// A run that stopped after its writes. Another user changed its records before it was resumed and
/// verified.
fn edited_before_verification(
    edit: impl FnOnce(&mut linkvault::sandbox::Store),
) -> (TestEnvironment, LiveService) {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n,Winter\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "4"];
    environment.run(&import).exits_with(8);
    assert_eq!(service.writes().len(), 2, "{:?}", service.requests());
    service.sandbox().mutate(edit);
    environment.run(&["resume", "main", "--yes"]).exits_with(3);
    (environment, service)
}

#[test]
fn changes_by_others_during_the_run_are_conflicts() {
    let (environment, service) = edited_before_verification(|store| {
        store.campaigns.get_mut(4).unwrap().name = "Theirs".to_owned();
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.stderr_has("Theirs").stderr_has("Autumn Sale");
    assert_eq!(service.writes().len(), 2);
    assert_eq!(service.sandbox().store().campaigns.get(4).unwrap().name, "Theirs");
    let theirs = ["undo", "main", "1", "--yes", "--on-conflict", "theirs"];
    environment.run(&theirs).exits_with(3).stdout_has("Conflicts, not written:\n");
    let service = service.sandbox();
    let campaigns = &service.store().campaigns;
    assert_eq!(campaigns.get(4).unwrap().name, "Theirs");
    assert!(campaigns.get(9).is_none());
}

#[test]
fn records_created_by_the_run_and_changed_during_it_are_conflicts() {
    let (environment, service) = edited_before_verification(|store| {
        store.campaigns.get_mut(9).unwrap().name = "Theirs".to_owned();
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.stderr_has("campaigns 9: would be deleted and has changed in the account");
    assert_eq!(service.writes().len(), 2);
}

#[test]
fn records_deleted_by_others_during_the_run_are_not_restored() {
    let (environment, service) = edited_before_verification(|store| {
        store.campaigns.remove(4);
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.stderr_has("campaigns 4");
    assert_eq!(service.writes().len(), 2);
}

#[test]
fn created_records_that_changed_after_the_run_are_conflicts() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nWinter\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    let name = "Somebody's".to_owned();
    service.sandbox().mutate(|store| store.campaigns.get_mut(9).unwrap().name = name);
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.stderr_has("campaigns 9: would be deleted and has changed in the account");
    let theirs = ["undo", "main", "1", "--yes", "--on-conflict", "theirs"];
    environment.run(&theirs).exits_with(3).stdout_has("No step can be taken.\n");
    assert_eq!(service.writes(), ["POST /api/campaign/add"]);
    environment.run(&["undo", "main", "1", "--yes", "--on-conflict", "mine"]).succeeds();
    assert_eq!(service.writes()[1..], ["DELETE /api/campaign/9/delete"]);
}

#[test]
fn a_channel_with_new_items_has_changed() {
    let (environment, service) = backed_up();
    environment.write("channels.csv", "name\nPosters\n");
    environment.run(&["import", "channels.csv", "--to", "main", "--yes"]).succeeds();
    service.sandbox().mutate(|store| {
        let item = store.channels.get(1).unwrap().items[0].clone();
        store.channels.get_mut(6).unwrap().items.push(item);
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.stderr_has("channels 6: would be deleted and has changed in the account");
    assert_eq!(service.writes(), ["POST /api/channel/add"]);
}

#[test]
fn a_channel_deleted_by_a_saved_plan_is_restored_with_its_items() {
    let (environment, service) = backed_up();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/channels.csv");
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("1,")).collect();
    environment.write("channels.csv", &kept.join("\n"));
    std::fs::rename(environment.path("channels.csv"), environment.path("sheets/channels.csv"))
        .unwrap();
    environment.run(&["plan", "sheets", "--to", "main", "--delete", "-o", "plan.json"]).succeeds();
    environment.run(&["apply", "plan.json", "--to", "main", "--yes", "--delete"]).succeeds();
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    let inside = service.sandbox();
    assert_eq!(inside.store().channels.get(6).unwrap().items.len(), 3);
}

#[test]
fn irreversible_changes_are_listed() {
    let (environment, service) = backed_up();
    environment.write("pixels.csv", "type,name,tag\nbing,New,123\n");
    environment.run(&["import", "pixels.csv", "--to", "main", "--yes"]).succeeds();
    let why = "the create cannot be reverted: the API cannot delete it";
    for arguments in [&["undo", "main", "1", "-n"][..], &["undo", "main", "1", "--yes"]] {
        let document = environment.run(&[arguments, &["--json"]].concat()).exits_with(3).json();
        let told = &document["unsupported"][0];
        assert_eq!(
            (told["resource"].as_str(), told["key"].as_str()),
            (Some("pixels"), Some("bing/123"))
        );
        assert_eq!(told["reason"], why);
    }
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(3);
    ran.stdout_has("Not supported:").stdout_has("pixels bing/123: the create cannot be reverted");
    assert_eq!(service.writes().len(), 1);
}

#[test]
fn undo_of_an_unknown_run_is_an_error() {
    let (environment, _service) = backed_up();
    environment.run(&["undo", "main", "7", "--yes"]).exits_with(1);
}

#[test]
fn undo_ends_a_run_that_is_not_finished_and_reverts_what_was_done() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nA\nB\nC\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "4"];
    environment.run(&import).exits_with(8);
    let made = service.sandbox().store().campaigns.len() - 8;
    assert!((1..3).contains(&made), "{made}");
    // No process executes it.
    environment.run(&["runs", "main"]).succeeds().stdout_has("stopped");
    let runs = environment.run(&["runs", "main", "--json"]).succeeds().json();
    assert_eq!(runs["runs"][0]["status"], "stopped");

    let dry = environment.run(&["undo", "main", "1", "-n"]).succeeds();
    dry.stderr_has("run 1 of main is not finished").stdout_has("- 9  A");
    assert_eq!(service.sandbox().store().campaigns.len() - 8, made);
    environment
        .run(&["undo", "main", "1"])
        .exits_with(64)
        .stderr_has("Run 1 of main is not finished: ")
        .stderr_has(" of 3 steps are done. End it and revert it?");

    environment
        .run(&["undo", "main", "1", "--yes"])
        .succeeds()
        .stderr_has("run 1 of main was ended")
        .stdout_has(&format!("{made} done"));
    assert_eq!(service.sandbox().store().campaigns.len(), 8);
    let runs = environment.run(&["runs", "main", "--json"]).succeeds().json();
    assert_eq!(runs["runs"][0]["status"], "partial");
    assert_eq!(runs["runs"][1]["status"], "complete");
    environment.run(&["resume", "main"]).exits_with(1).stderr_has("every run of main is finished");
}

/// The service created the record, and its response was lost: the list shows what was done.
#[test]
fn undo_of_a_run_that_is_not_finished_finds_a_create_without_a_response() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nA\nB\n");
    service.faults("lost-reply@POST /api/campaign#1");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "3"];
    environment.run(&import).exits_with(8);
    assert_eq!(service.sandbox().store().campaigns.len(), 9);
    let steps = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
    assert_eq!(steps["steps"][0]["state"], "sent");
    environment.run(&["undo", "main", "1", "--yes"]).succeeds().stdout_has("1 done");
    assert_eq!(service.sandbox().store().campaigns.len(), 8);
}

#[test]
fn a_list_that_cannot_be_read_causes_no_hint_to_a_flag_that_undo_does_not_have() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nA\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    service.faults("html@GET /api/campaigns");
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(1);
    ran.stderr_has("campaigns could not be read completely")
        .stderr_has("hint: run the command again later\n");
}

#[test]
fn undo_of_a_run_without_its_first_snapshot_is_an_error() {
    let (environment, _service) = backed_up();
    environment.write("campaigns.csv", "name\nA\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["forget", "main", "--keep-last", "1", "--yes", "-q"]).succeeds();
    environment.run(&["undo", "main", "1", "--yes"]).exits_with(1).fits().stderr_is(
        "error: cannot undo run 1: snapshot #2, made before it, was forgotten\n\
         hint: `linkvault restore REF --to main` restores a snapshot that still exists\n",
    );
}

#[test]
fn a_record_restored_by_undo_has_a_new_id() {
    let (environment, service) = backed_up();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/channels.csv");
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("1,")).collect();
    environment.write("sheets/channels.csv", &kept.join("\n"));
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--delete"];
    environment.run(&apply).succeeds().stdout_has(
        "1 delete of channels: a deleted channel comes back with a new id, and its items one by one",
    );
    assert!(service.sandbox().store().channels.get(1).is_none());
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    let inside = service.sandbox();
    let channel = inside.store().channels.get(6).unwrap();
    assert_eq!((channel.name.as_str(), channel.items.len()), ("Shop window", 3));
}

#[test]
fn a_deleted_campaign_is_restored_once() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| store.campaigns.remove(4));
    let dry = environment.run(&["restore", "#1", "--to", "main", "-n"]).succeeds().fits();
    dry.stdout_has("(was 4)");
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes(), ["POST /api/campaign/add"]);
    {
        let service = service.sandbox();
        let anew = service.store().campaigns.get(9).unwrap();
        assert_eq!((anew.name.as_str(), anew.public), ("Summer Sale", true));
        assert_eq!(anew.rotator.as_deref(), Some("https://links.example.com/r/summer"));
    }
    environment.run(&RESTORE).succeeds().stdout_has("Nothing to do.\n");
    // It is the same record even with another name.
    let name = "Another name".to_owned();
    service.sandbox().mutate(|store| store.campaigns.get_mut(9).unwrap().name = name);
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes()[1..], ["PUT /api/campaign/9/update"]);
}

/// Snapshot 1 has campaign 8 (`Press`), which is then deleted, and its id given to `Later`.
fn with_reused_id(
    delete: impl FnOnce(&TestEnvironment, &LiveService),
) -> (TestEnvironment, LiveService) {
    let (environment, service) = backed_up();
    service.sandbox().mutate(linkvault::sandbox::Store::reuse_ids);
    delete(&environment, &service);
    let id = service.sandbox().mutate(|store| store.add_campaign("Later", None, false));
    assert_eq!(id, 8);
    (environment, service)
}

fn deleted_before_a_backup(environment: &TestEnvironment, service: &LiveService) {
    service.sandbox().mutate(|store| store.campaigns.remove(8));
    environment.run(&["backup", "-q"]).succeeds();
}

fn deleted_by_a_run(environment: &TestEnvironment, _: &LiveService) {
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/campaigns.csv");
    let rows: Vec<_> = text.lines().filter(|line| !line.starts_with("8,")).collect();
    environment.write("sheets/campaigns.csv", &rows.join("\n"));
    environment.run(&["apply", "sheets", "--to", "main", "--yes", "--delete"]).succeeds();
}

#[test]
fn a_record_with_the_id_of_a_deleted_one_is_not_overwritten_by_a_restore() {
    for delete in [deleted_before_a_backup, deleted_by_a_run] {
        let (environment, service) = with_reused_id(delete);
        let sent = service.writes().len();
        let restore = ["restore", "#1", "--to", "main", "--only", "campaigns"];
        environment.run(&[&restore[..], &["-n"]].concat()).succeeds().stderr_has(
            "campaign 8 was deleted; its id belongs to Later now, which is not updated",
        );
        environment.run(&[&restore[..], &["--yes"]].concat()).succeeds();
        assert_eq!(service.writes()[sent..], ["POST /api/campaign/add"]);
        {
            let inside = service.sandbox();
            let name = |id| inside.store().campaigns.get(id).unwrap().name.clone();
            assert_eq!((name(8), name(9)), ("Later".to_owned(), "Press".to_owned()));
        }
        let again = environment.run(&[&restore[..], &["--yes"]].concat()).succeeds();
        again.stdout_is("Nothing to do.\n");
        environment.run(&[&restore[..], &["--yes", "--delete"]].concat()).succeeds();
        assert_eq!(service.writes()[sent + 1..], ["DELETE /api/campaign/8/delete"]);
    }
}

#[test]
fn an_edited_row_whose_record_was_deleted_does_not_change_the_next_one_with_its_id() {
    let (environment, service) = with_reused_id(|environment, service| {
        environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
        deleted_before_a_backup(environment, service);
    });
    let text = environment.text("sheets/campaigns.csv");
    let row = text.lines().find(|line| line.starts_with("8,")).unwrap();
    environment.edit("sheets/campaigns.csv", row, &row.replace("false", "true"));
    let ran = environment.run(&["apply", "sheets", "--to", "main", "--yes"]).exits_with(4);
    ran.stderr_has("campaigns 8: was edited in the input and is gone from the account");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_record_restored_under_its_id_is_the_desired_one() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(linkvault::sandbox::Store::reuse_ids);
    deleted_before_a_backup(&environment, &service);
    environment.run(&RESTORE).succeeds();
    let name = "Renamed".to_owned();
    service.sandbox().mutate(|store| store.campaigns.get_mut(8).unwrap().name = name);
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes(), ["POST /api/campaign/add", "PUT /api/campaign/8/update"]);
    // The record is deleted once more.
    deleted_before_a_backup(&environment, &service);
    service.sandbox().mutate(|store| store.add_campaign("Later", None, true));
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes()[2..], ["POST /api/campaign/add"]);
    assert_eq!(service.sandbox().store().campaigns.get(8).unwrap().name, "Later");
}

/// Another user removed an item from its channel. The service sets an item's date when it is
/// assigned.
#[test]
fn a_restored_item_is_not_compared_with_the_old_one() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| store.channels.get_mut(1).unwrap().items.remove(0));
    environment.run(&RESTORE).succeeds().stdout_has("1 done");
    environment.run(&RESTORE).succeeds().stdout_is("Nothing to do.\n");
}

/// The service sets an item's date when it is assigned.
#[test]
fn a_channel_that_was_restored_under_its_id_has_other_items() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| {
        store.reuse_ids();
        assert!(!store.channels.get(5).unwrap().items.is_empty());
        store.channels.remove(5);
    });
    environment.run(&RESTORE).succeeds();
    assert!(service.sandbox().store().channels.get(5).is_some());
    environment.run(&RESTORE).succeeds().stdout_is("Nothing to do.\n");
}

/// Run 1 deletes campaign 8; run 2 creates one that gets its id.
#[test]
fn undo_does_not_change_a_record_with_a_reused_id() {
    let (environment, service) = with_reused_id(deleted_by_a_run);
    let sent = service.writes().len();
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    assert_eq!(service.writes()[sent..], ["POST /api/campaign/add"]);
    assert_eq!(service.sandbox().store().campaigns.get(8).unwrap().name, "Later");
    assert_eq!(service.sandbox().store().campaigns.get(9).unwrap().name, "Press");
    // Another user deletes the record that the undo created, and its id is reused.
    service.sandbox().mutate(|store| {
        store.campaigns.remove(9);
        store.add_campaign("Latest", None, true);
    });
    environment.run(&["undo", "main", "2", "--yes"]).exits_with(4);
    service.sandbox().mutate(|store| store.campaigns.remove(9));
    environment.run(&["backup", "-q"]).succeeds();
    service.sandbox().mutate(|store| store.add_campaign("Latest", None, true));
    environment.run(&["undo", "main", "2", "--yes"]).succeeds().stdout_is("Nothing to do.\n");
    assert_eq!(service.sandbox().store().campaigns.get(9).unwrap().name, "Latest");
}

#[test]
fn a_deleted_channel_is_restored_with_its_items() {
    let (environment, service) = backed_up();
    let before = service.sandbox().store().channels.get(1).unwrap().clone();
    service.sandbox().mutate(|store| store.channels.remove(1));
    environment.run(&RESTORE).succeeds().stdout_has("4 done, 4 verified");
    let after = service.sandbox().store().channels.get(6).unwrap().clone();
    let items = |channel: &linkvault::sandbox::store::StoredChannel| {
        let items = channel.items.iter().map(|item| (item.kind.clone(), item.id));
        items.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((after.name.as_str(), after.color.as_str()), ("Shop window", "#1F6F54"));
    assert_eq!((after.starred, items(&after)), (true, items(&before)));
    environment.run(&RESTORE).succeeds().stdout_has("Nothing to do.\n");
}

#[test]
fn a_code_of_unknown_content_cannot_be_restored_and_is_listed() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| store.remove_qr(3));
    let ran = environment.run(&RESTORE).exits_with(3);
    ran.stdout_has("Not supported:\n").stdout_has("qr_codes 3");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_code_that_linkvault_made_is_restored_from_memory() {
    let (environment, service) = backed_up();
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["backup", "-q", "--tag", "with-code"]).succeeds();
    service.sandbox().mutate(|store| store.remove_qr(13));
    let restore = ["restore", "with-code", "--to", "main", "--yes", "--only", "qr_codes"];
    environment.run(&restore).succeeds();
    let content = service.sandbox().store().qr_codes.get(14).unwrap().content.clone();
    assert_eq!((content.kind.as_deref(), content.data), (Some("text"), Some("hello".into())));
    environment.run(&restore).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn newer_records_stay_unless_delete_is_passed() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| store.add_campaign("Later", None, true));
    let ran = environment.run(&RESTORE).succeeds().stdout_is("Nothing to do.\n");
    ran.stderr_has("left as they are: 1 record of campaigns; --delete deletes them\n");
    environment.run(&[&RESTORE[..], &["--delete"]].concat()).succeeds();
    assert_eq!(service.writes(), ["DELETE /api/campaign/9/delete"]);
    environment.run(&["diff", "main@#1", "main", "--detailed-exitcode"]).succeeds();
}

#[test]
fn the_account_record_is_restored_only_if_named() {
    let (environment, service) = backed_up();
    let email = "other@example.com".to_owned();
    service.sandbox().mutate(|store| store.account.email = email);
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes(), Vec::<String>::new());
    let named = [&RESTORE[..], &["--resource", "account"]].concat();
    environment.run(&named).succeeds();
    assert_eq!(service.sandbox().store().account.email, "links@lantern-books.example.com");
}

/// What `restore` and `undo` create again gets another id and other addresses.
#[test]
fn a_plan_names_what_records_lose_that_are_created_again() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q", "--stats", "none"]).succeeds();
    service.sandbox().mutate(|store| {
        store.campaigns.remove(1);
        store.campaigns.remove(2);
        store.channels.remove(1);
    });
    let lost = "campaigns: its id, list page, and links assigned by hand\n";
    let terminal = environment.on_terminal(&["restore", "#1", "--to", "main", "--no-pager"]);
    terminal.shows("Lost by creating again:").shows("[y/N").types("n\r");
    let (code, screen) = terminal.ended();
    let (lost_at, asked_at) = (screen.find(lost), screen.find("[y/N"));
    assert!(code == Some(0) && lost_at.is_some() && lost_at < asked_at, "{screen}");
    assert!(screen.contains("1 create of channels: its id\n"), "{screen}");
}
