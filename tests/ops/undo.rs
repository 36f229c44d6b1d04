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
fn what_asks_nothing_takes_yes_all_the_same() {
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
    environment.run(&["resume", "main", "--yes"]).succeeds().prints_among("3 done");
    let dry = environment.run(&["export", "main", "--to", "sheets", "-n"]).succeeds();
    dry.prints_among("campaigns  11 records").says_among("nothing was written");
    assert!(!environment.path("sheets").exists());
}

/// A shell treats `#1` as a comment.
#[test]
fn restore_takes_the_number_of_a_snapshot_alone() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["restore", "1", "--to", "main", "--yes"]).succeeds();
    assert_eq!(service.inside().store().campaigns.get(4).unwrap().name, "Summer Sale");
    environment
        .run(&["restore", "99", "--to", "main", "--yes"])
        .exits_with(1)
        .says_among("no snapshot #99");
}

const RESTORE: [&str; 5] = ["restore", "#1", "--to", "main", "--yes"];

#[test]
fn undo_takes_back_creates_updates_and_nothing_else() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name,slug\n4,Autumn Sale,\n,Winter,winter\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    // Another user changes the account meanwhile.
    service.inside().mutate(|store| {
        store.add_campaign("Later", None, true);
        store.campaigns.get_mut(5).unwrap().name = "Readers".to_owned();
        store.campaigns.get_mut(4).unwrap().public = false;
    });
    let dry = environment.run(&["undo", "main", "1", "-n"]).succeeds().fits();
    dry.prints_among("\"Autumn Sale\" -> \"Summer Sale\"").prints_among("- 9  Winter");
    environment.run(&["undo", "main", "1"]).exits_with(64);
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    let service = service.inside();
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
fn a_record_that_got_the_id_of_one_that_the_run_deleted_stays_as_it_is() {
    let (environment, service) = backed_up();
    service.inside().mutate(linkvault::sandbox::Store::reuse_ids);
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/campaigns.csv");
    let mut rows: Vec<_> = text.lines().filter(|line| !line.starts_with("8,")).collect();
    assert_eq!(rows.len() + 1, text.lines().count());
    let winter = format!(",Winter{}", ",".repeat(rows[0].matches(',').count() - 1));
    rows.push(&winter);
    environment.write("sheets/campaigns.csv", &rows.join("\n"));
    environment.run(&["apply", "sheets", "--to", "main", "--yes", "--delete"]).succeeds();
    assert_eq!(service.inside().store().campaigns.get(8).unwrap().name, "Winter");
    let sent = service.writes().len();
    for arguments in [&["undo", "main", "1", "-n"][..], &["undo", "main", "1", "--yes"]] {
        let ran = environment.run(arguments).exits_with(3);
        ran.prints_among("the service gave its id to a record that the run created")
            .prints_among("it has the id of a record that was there before the run");
    }
    assert_eq!(service.writes().len(), sent);
    assert_eq!(service.inside().store().campaigns.get(8).unwrap().name, "Winter");
}

#[test]
fn undoing_an_undo_leads_forward_again() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    for (run, name) in [("1", "Summer Sale"), ("2", "Autumn Sale")] {
        environment.run(&["undo", "main", run, "--yes"]).succeeds();
        assert_eq!(service.inside().store().campaigns.get(4).unwrap().name, name);
    }
    // The run was undone and applied again.
    let again = environment.run(&["undo", "main", "2", "--yes"]).succeeds();
    again.prints("Nothing to do.\n");
}

#[test]
fn what_was_changed_since_is_a_conflict() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    let rename = |name: &str| {
        let name = name.to_owned();
        service.inside().mutate(|store| store.campaigns.get_mut(4).unwrap().name = name);
    };
    rename("Winter Sale");
    environment.run(&["undo", "main", "1", "--yes"]).exits_with(4).says_among("Winter Sale");
    assert_eq!(service.writes().len(), 1);
    environment.run(&["undo", "main", "1", "--yes", "--on-conflict", "mine"]).succeeds();
    assert_eq!(service.inside().store().campaigns.get(4).unwrap().name, "Summer Sale");
}

/// A run that stopped after its writes. Another user changed its records before it was resumed and
/// verified.
fn edited_before_the_last_look(
    edit: impl FnOnce(&mut linkvault::sandbox::Store),
) -> (TestEnvironment, LiveService) {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "id,name\n4,Autumn Sale\n,Winter\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "4"];
    environment.run(&import).exits_with(8);
    assert_eq!(service.writes().len(), 2, "{:?}", service.requests());
    service.inside().mutate(edit);
    environment.run(&["resume", "main", "--yes"]).exits_with(3);
    (environment, service)
}

#[test]
fn what_others_changed_while_the_run_was_under_way_is_a_conflict() {
    let (environment, service) = edited_before_the_last_look(|store| {
        store.campaigns.get_mut(4).unwrap().name = "Theirs".to_owned();
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.says_among("Theirs").says_among("Autumn Sale");
    assert_eq!(service.writes().len(), 2);
    assert_eq!(service.inside().store().campaigns.get(4).unwrap().name, "Theirs");
    let theirs = ["undo", "main", "1", "--yes", "--on-conflict", "theirs"];
    environment.run(&theirs).succeeds();
    let service = service.inside();
    let campaigns = &service.store().campaigns;
    assert_eq!(campaigns.get(4).unwrap().name, "Theirs");
    assert!(campaigns.get(9).is_none());
}

#[test]
fn what_the_run_created_and_others_changed_meanwhile_is_not_just_deleted() {
    let (environment, service) = edited_before_the_last_look(|store| {
        store.campaigns.get_mut(9).unwrap().name = "Theirs".to_owned();
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.says_among("campaigns 9: was removed here and has changed in the account");
    assert_eq!(service.writes().len(), 2);
}

#[test]
fn what_others_deleted_while_the_run_was_under_way_does_not_come_back() {
    let (environment, service) = edited_before_the_last_look(|store| {
        store.campaigns.remove(4);
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.says_among("campaigns 4");
    assert_eq!(service.writes().len(), 2);
}

#[test]
fn what_was_created_and_changed_since_is_not_just_deleted() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nWinter\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    let name = "Somebody's".to_owned();
    service.inside().mutate(|store| store.campaigns.get_mut(9).unwrap().name = name);
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.says_among("campaigns 9: was removed here and has changed in the account");
    let theirs = ["undo", "main", "1", "--yes", "--on-conflict", "theirs"];
    environment.run(&theirs).succeeds().prints("Nothing to do.\n");
    assert_eq!(service.writes(), ["POST /api/campaign/add"]);
    environment.run(&["undo", "main", "1", "--yes", "--on-conflict", "mine"]).succeeds();
    assert_eq!(service.writes()[1..], ["DELETE /api/campaign/9/delete"]);
}

#[test]
fn a_channel_that_was_given_items_since_has_changed() {
    let (environment, service) = backed_up();
    environment.write("channels.csv", "name\nPosters\n");
    environment.run(&["import", "channels.csv", "--to", "main", "--yes"]).succeeds();
    service.inside().mutate(|store| {
        let item = store.channels.get(1).unwrap().items[0].clone();
        store.channels.get_mut(6).unwrap().items.push(item);
    });
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(4);
    ran.says_among("channels 6: was removed here and has changed in the account");
    assert_eq!(service.writes(), ["POST /api/channel/add"]);
}

#[test]
fn a_channel_that_a_saved_plan_deleted_comes_back_with_its_items() {
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
    let inside = service.inside();
    assert_eq!(inside.store().channels.get(6).unwrap().items.len(), 3);
}

#[test]
fn what_cannot_be_reverted_is_listed() {
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
    ran.prints_among("Not supported:")
        .prints_among("pixels bing/123: the create cannot be reverted");
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
    let made = service.inside().store().campaigns.len() - 8;
    assert!((1..3).contains(&made), "{made}");
    // No process executes it.
    environment.run(&["runs", "main"]).succeeds().prints_among("stopped");
    let runs = environment.run(&["runs", "main", "--json"]).succeeds().json();
    assert_eq!(runs["runs"][0]["status"], "stopped");

    let dry = environment.run(&["undo", "main", "1", "-n"]).succeeds();
    dry.says_among("run 1 of main is not finished").prints_among("- 9  A");
    assert_eq!(service.inside().store().campaigns.len() - 8, made);
    environment
        .run(&["undo", "main", "1"])
        .exits_with(64)
        .says_among("Run 1 of main is not finished: ")
        .says_among(" of 3 steps are done. End it and revert it?");

    environment
        .run(&["undo", "main", "1", "--yes"])
        .succeeds()
        .says_among("run 1 of main was ended")
        .prints_among(&format!("{made} done"));
    assert_eq!(service.inside().store().campaigns.len(), 8);
    let runs = environment.run(&["runs", "main", "--json"]).succeeds().json();
    assert_eq!(runs["runs"][0]["status"], "partial");
    assert_eq!(runs["runs"][1]["status"], "complete");
    environment.run(&["resume", "main"]).exits_with(1).says_among("every run of main is finished");
}

/// The service created the record, and its response was lost: the list shows what was done.
#[test]
fn undo_of_a_run_that_is_not_finished_finds_a_create_without_a_response() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nA\nB\n");
    service.faults("lost-reply@POST /api/campaign#1");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--max-requests", "3"];
    environment.run(&import).exits_with(8);
    assert_eq!(service.inside().store().campaigns.len(), 9);
    let steps = environment.run(&["runs", "main", "1", "--json"]).succeeds().json();
    assert_eq!(steps["steps"][0]["state"], "sent");
    environment.run(&["undo", "main", "1", "--yes"]).succeeds().prints_among("1 done");
    assert_eq!(service.inside().store().campaigns.len(), 8);
}

#[test]
fn a_list_that_cannot_be_read_causes_no_hint_to_a_flag_that_undo_does_not_have() {
    let (environment, service) = backed_up();
    environment.write("campaigns.csv", "name\nA\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    service.faults("html@GET /api/campaigns");
    let ran = environment.run(&["undo", "main", "1", "--yes"]).exits_with(1);
    ran.says_among("campaigns could not be read whole")
        .says_among("hint: run the command again when the service answers for it\n");
}

#[test]
fn a_run_whose_beginning_was_forgotten_says_so() {
    let (environment, _service) = backed_up();
    environment.write("campaigns.csv", "name\nA\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["forget", "main", "--keep-last", "1", "--yes", "-q"]).succeeds();
    environment.run(&["undo", "main", "1", "--yes"]).exits_with(1).fits().says(
        "error: cannot undo run 1: snapshot #2, made before it, was forgotten\n\
         hint: `linkvault restore REF --to main` restores a snapshot that still exists\n",
    );
}

#[test]
fn an_undone_delete_comes_back_with_a_new_id() {
    let (environment, service) = backed_up();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/channels.csv");
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("1,")).collect();
    environment.write("sheets/channels.csv", &kept.join("\n"));
    let apply = ["apply", "sheets", "--to", "main", "--yes", "--delete"];
    environment.run(&apply).succeeds().prints_among(
        "1 delete of channels: a deleted channel comes back with a new id, and its items one by one",
    );
    assert!(service.inside().store().channels.get(1).is_none());
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    let inside = service.inside();
    let channel = inside.store().channels.get(6).unwrap();
    assert_eq!((channel.name.as_str(), channel.items.len()), ("Shop window", 3));
}

#[test]
fn a_deleted_campaign_is_restored_once() {
    let (environment, service) = backed_up();
    service.inside().mutate(|store| store.campaigns.remove(4));
    let dry = environment.run(&["restore", "#1", "--to", "main", "-n"]).succeeds().fits();
    dry.prints_among("(was 4)");
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes(), ["POST /api/campaign/add"]);
    {
        let service = service.inside();
        let anew = service.store().campaigns.get(9).unwrap();
        assert_eq!((anew.name.as_str(), anew.public), ("Summer Sale", true));
        assert_eq!(anew.rotator.as_deref(), Some("https://links.example.com/r/summer"));
    }
    environment.run(&RESTORE).succeeds().prints_among("Nothing to do.\n");
    // It is the same record even with another name.
    let name = "Another name".to_owned();
    service.inside().mutate(|store| store.campaigns.get_mut(9).unwrap().name = name);
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes()[1..], ["PUT /api/campaign/9/update"]);
}

/// Snapshot 1 has campaign 8 (`Press`), which is then deleted, and its id given to `Later`.
fn given_again(
    delete: impl FnOnce(&TestEnvironment, &LiveService),
) -> (TestEnvironment, LiveService) {
    let (environment, service) = backed_up();
    service.inside().mutate(linkvault::sandbox::Store::reuse_ids);
    delete(&environment, &service);
    let id = service.inside().mutate(|store| store.add_campaign("Later", None, false));
    assert_eq!(id, 8);
    (environment, service)
}

fn deleted_before_a_backup(environment: &TestEnvironment, service: &LiveService) {
    service.inside().mutate(|store| store.campaigns.remove(8));
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
        let (environment, service) = given_again(delete);
        let sent = service.writes().len();
        let restore = ["restore", "#1", "--to", "main", "--only", "campaigns"];
        environment.run(&[&restore[..], &["-n"]].concat()).succeeds().says_among(
            "campaign 8 was deleted; its id belongs to Later now, which is not updated",
        );
        environment.run(&[&restore[..], &["--yes"]].concat()).succeeds();
        assert_eq!(service.writes()[sent..], ["POST /api/campaign/add"]);
        {
            let inside = service.inside();
            let name = |id| inside.store().campaigns.get(id).unwrap().name.clone();
            assert_eq!((name(8), name(9)), ("Later".to_owned(), "Press".to_owned()));
        }
        let again = environment.run(&[&restore[..], &["--yes"]].concat()).succeeds();
        again.prints("Nothing to do.\n");
        environment.run(&[&restore[..], &["--yes", "--delete"]].concat()).succeeds();
        assert_eq!(service.writes()[sent + 1..], ["DELETE /api/campaign/8/delete"]);
    }
}

#[test]
fn an_edited_row_whose_record_was_deleted_does_not_change_the_next_one_with_its_id() {
    let (environment, service) = given_again(|environment, service| {
        environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
        deleted_before_a_backup(environment, service);
    });
    let text = environment.text("sheets/campaigns.csv");
    let row = text.lines().find(|line| line.starts_with("8,")).unwrap();
    environment.edit("sheets/campaigns.csv", row, &row.replace("false", "true"));
    let ran = environment.run(&["apply", "sheets", "--to", "main", "--yes"]).exits_with(4);
    ran.says_among("campaigns 8: was edited here and is gone from the account");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_record_that_was_restored_under_its_id_is_the_wanted_one() {
    let (environment, service) = backed_up();
    service.inside().mutate(linkvault::sandbox::Store::reuse_ids);
    deleted_before_a_backup(&environment, &service);
    environment.run(&RESTORE).succeeds();
    let name = "Renamed".to_owned();
    service.inside().mutate(|store| store.campaigns.get_mut(8).unwrap().name = name);
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes(), ["POST /api/campaign/add", "PUT /api/campaign/8/update"]);
    // The record is deleted once more.
    deleted_before_a_backup(&environment, &service);
    service.inside().mutate(|store| store.add_campaign("Later", None, true));
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes()[2..], ["POST /api/campaign/add"]);
    assert_eq!(service.inside().store().campaigns.get(8).unwrap().name, "Later");
}

/// Another user removed an item from its channel. The service sets an item's date when it is
/// assigned.
#[test]
fn an_item_that_was_restored_is_not_compared_with_the_one_of_then() {
    let (environment, service) = backed_up();
    service.inside().mutate(|store| store.channels.get_mut(1).unwrap().items.remove(0));
    environment.run(&RESTORE).succeeds().prints_among("1 done");
    environment.run(&RESTORE).succeeds().prints("Nothing to do.\n");
}

/// The service sets an item's date when it is assigned.
#[test]
fn a_channel_that_was_restored_under_its_id_has_other_items() {
    let (environment, service) = backed_up();
    service.inside().mutate(|store| {
        store.reuse_ids();
        assert!(!store.channels.get(5).unwrap().items.is_empty());
        store.channels.remove(5);
    });
    environment.run(&RESTORE).succeeds();
    assert!(service.inside().store().channels.get(5).is_some());
    environment.run(&RESTORE).succeeds().prints("Nothing to do.\n");
}

/// Run 1 deletes campaign 8; run 2 creates one that gets its id.
#[test]
fn undo_does_not_change_what_has_the_id_of_a_record_by_now() {
    let (environment, service) = given_again(deleted_by_a_run);
    let sent = service.writes().len();
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    assert_eq!(service.writes()[sent..], ["POST /api/campaign/add"]);
    assert_eq!(service.inside().store().campaigns.get(8).unwrap().name, "Later");
    assert_eq!(service.inside().store().campaigns.get(9).unwrap().name, "Press");
    // Another user deletes the record that the undo created, and its id is reused.
    service.inside().mutate(|store| {
        store.campaigns.remove(9);
        store.add_campaign("Latest", None, true);
    });
    environment.run(&["undo", "main", "2", "--yes"]).exits_with(4);
    service.inside().mutate(|store| store.campaigns.remove(9));
    environment.run(&["backup", "-q"]).succeeds();
    service.inside().mutate(|store| store.add_campaign("Latest", None, true));
    environment.run(&["undo", "main", "2", "--yes"]).succeeds().prints("Nothing to do.\n");
    assert_eq!(service.inside().store().campaigns.get(9).unwrap().name, "Latest");
}

#[test]
fn a_deleted_channel_comes_back_with_its_items() {
    let (environment, service) = backed_up();
    let before = service.inside().store().channels.get(1).unwrap().clone();
    service.inside().mutate(|store| store.channels.remove(1));
    environment.run(&RESTORE).succeeds().prints_among("4 done, 4 verified");
    let after = service.inside().store().channels.get(6).unwrap().clone();
    let items = |channel: &linkvault::sandbox::store::StoredChannel| {
        let items = channel.items.iter().map(|item| (item.kind.clone(), item.id));
        items.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((after.name.as_str(), after.color.as_str()), ("Shop window", "#1F6F54"));
    assert_eq!((after.starred, items(&after)), (true, items(&before)));
    environment.run(&RESTORE).succeeds().prints_among("Nothing to do.\n");
}

#[test]
fn a_code_of_unknown_content_cannot_be_restored_and_is_listed() {
    let (environment, service) = backed_up();
    service.inside().mutate(|store| store.remove_qr(3));
    let ran = environment.run(&RESTORE).exits_with(3);
    ran.prints_among("Not supported:\n").prints_among("qr_codes 3");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_code_that_linkvault_made_is_restored_from_memory() {
    let (environment, service) = backed_up();
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    environment.run(&["import", "qr_codes.csv", "--to", "main", "--yes"]).succeeds();
    environment.run(&["backup", "-q", "--tag", "with-code"]).succeeds();
    service.inside().mutate(|store| store.remove_qr(13));
    let restore = ["restore", "with-code", "--to", "main", "--yes", "--only", "qr_codes"];
    environment.run(&restore).succeeds();
    let content = service.inside().store().qr_codes.get(14).unwrap().content.clone();
    assert_eq!((content.kind.as_deref(), content.data), (Some("text"), Some("hello".into())));
    environment.run(&restore).succeeds().prints("Nothing to do.\n");
}

#[test]
fn what_came_later_stays_unless_it_is_to_be_deleted() {
    let (environment, service) = backed_up();
    service.inside().mutate(|store| store.add_campaign("Later", None, true));
    let ran = environment.run(&RESTORE).succeeds().prints("Nothing to do.\n");
    ran.says_among("left as they are: 1 record of campaigns; --delete deletes them\n");
    environment.run(&[&RESTORE[..], &["--delete"]].concat()).succeeds();
    assert_eq!(service.writes(), ["DELETE /api/campaign/9/delete"]);
    environment.run(&["diff", "main@#1", "main", "--detailed-exitcode"]).succeeds();
}

#[test]
fn the_accounts_own_record_is_not_restored_by_the_way() {
    let (environment, service) = backed_up();
    let email = "other@example.com".to_owned();
    service.inside().mutate(|store| store.account.email = email);
    environment.run(&RESTORE).succeeds();
    assert_eq!(service.writes(), Vec::<String>::new());
    let named = [&RESTORE[..], &["--resource", "account"]].concat();
    environment.run(&named).succeeds();
    assert_eq!(service.inside().store().account.email, "links@lantern-books.example.com");
}
