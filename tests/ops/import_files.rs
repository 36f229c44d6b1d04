//! `import` of files in other encodings, of folders and of several files.

use crate::support::TestEnvironment;

fn write(environment: &TestEnvironment, name: &str, bytes: &[u8]) {
    let path = environment.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

const GUESSED: &str = "channels.csv: read as Windows-1252; --encoding names another\n";

#[test]
fn a_file_of_a_western_spreadsheet_is_read_and_named() {
    let (environment, service) = TestEnvironment::with_service("");
    write(&environment, "channels.csv", b"name;color\r\nB\xE4ren \x80;#aabbcc\r\n");
    let import = ["import", "channels.csv", "--to", "main", "--yes"];
    environment.run(&import).succeeds().stderr_has(GUESSED);
    let named = |name: &str| service.sandbox().store().channels.iter().any(|it| it.1.name == name);
    assert!(named("Bären €"));
    let quiet = environment.run(&[&import[..], &["-q"]].concat()).succeeds();
    assert!(!quiet.stderr().contains("Windows"), "{}", quiet.stderr());
    let chosen = [&import[..], &["--encoding", "iso-8859-5"]].concat();
    let ran = environment.run(&chosen).succeeds();
    assert!(!ran.stderr().contains("read as"), "{}", ran.stderr());
    assert!(named("Bфren \u{80}"));
    let text: Vec<u8> =
        "name\tcolor\nŁódź\t#aabbcc\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(&environment, "channels.csv", &[&b"\xFF\xFE"[..], &text].concat());
    environment.run(&import).succeeds().stderr_has("channels.csv: read as UTF-16LE");
    assert!(named("Łódź"));
}

#[test]
fn a_wrong_encoding_is_one_mistake_and_nothing_is_sent() {
    let (environment, service) = TestEnvironment::with_service("");
    let import = ["import", "channels.csv", "--to", "main", "--yes"];
    write(&environment, "channels.csv", b"name\nB\xC3\xA4r\nB\xE4r\nB\xE4r\n");
    environment.run(&import).exits_with(1).stderr_is(
        "error: channels.csv has a mistake\n  channels.csv:3: the line is not UTF-8, but another \
         line is, so the encoding is ambiguous\nhint: save the file as UTF-8, or name its encoding \
         with --encoding; nothing was written\n",
    );
    let ran = environment.run(&[&import[..], &["--encoding", "utf-8"]].concat()).exits_with(1);
    ran.stderr_has("channels.csv:3: the line is not valid UTF-8\n");
    write(&environment, "channels.csv", b"name\nA\nB\0\nC\0\n");
    let ran = environment.run(&import).exits_with(1);
    ran.stderr_has("channels.csv has a mistake\n  channels.csv:3: the line has a NUL character");
    let columns = format!("name{}\n", ",".repeat(1_000_000));
    write(&environment, "channels.csv", columns.as_bytes());
    let ran = environment.run(&import).exits_with(1);
    ran.stderr_has(
        "channels.csv has a mistake\n  channels.csv:1: header: too many columns: 1000001\n",
    );
    environment
        .run(&[&import[..], &["--encoding", "klingon"]].concat())
        .exits_with(64)
        .stderr_has("unknown encoding");
    assert_eq!(service.request_count(), 0);
}

#[test]
fn rejected_rows_of_another_encoding_are_written_as_utf_8() {
    let (environment, _service) = TestEnvironment::with_service("");
    write(&environment, "campaigns.csv", b"id;name;public\n2;Newsletter;yes\n99;B\xE4r;no\n");
    environment.run(&["import", "campaigns.csv", "--to", "main", "--yes"]).exits_with(3);
    let text = environment.text("campaigns.rejected.csv");
    assert!(text.starts_with("\u{feff}id;name;public;problem\n"), "{text}");
    assert!(text.contains("\n99;Bär;no;"), "{text}");
}

#[test]
fn new_channels_and_their_items_are_one_plan_and_one_undo() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    write(&environment, "spring/channels.csv", b"name,color\nWindow,#aabbcc\nDoor,#aabbcc\n");
    let items = b"channel,type,id\nWindow,qr,1\nDoor,links,2\n";
    write(&environment, "spring/channel_items.csv", items);
    write(&environment, "spring/notes.txt", b"mine");
    write(&environment, "spring/channels.rejected.csv", b"name\nWindow\n");
    write(&environment, "spring/old/channels.csv", b"name\nOld\n");
    let import = ["import", "spring", "--to", "main", "--yes"];
    let ran = environment.run(&import).succeeds();
    ran.stderr_has("spring: ignored channels.rejected.csv, notes.txt, old\n")
        .stdout_has("run 1 of main: 4 done, 4 verified");
    environment.run(&import).succeeds().stdout_is("Nothing to do.\n");
    environment.run(&["undo", "main", "1", "--yes"]).succeeds();
    let left = service.sandbox().store().channels.iter().any(|it| it.1.name == "Door");
    assert!(!left);
    let files = ["import", "spring/channel_items.csv", "spring/channels.csv", "--to", "main", "-n"];
    environment.run(&files).succeeds().stdout_has("4 steps");
    let plan = ["plan", "spring/channel_items.csv", "spring/channels.csv", "--to", "main"];
    environment.run(&plan).succeeds().stdout_has("4 steps");
    let rehearse = [&["rehearse"], &plan[1..]].concat();
    environment.run(&rehearse).succeeds().stdout_has("4 done");
    let apply = [&["apply"], &plan[1..], &["--yes"]].concat();
    environment.run(&apply).succeeds().stdout_has("run 3 of main: 4 done");
}

#[test]
fn the_same_record_in_two_files_is_reported_with_both_places() {
    let (environment, service) = TestEnvironment::with_service("");
    write(&environment, "new/channels.csv", b"id,name\n,Window\n1,One\n");
    write(&environment, "new/channels.more.csv", b"id,name\n,WINDOW\n1,Two\n");
    environment.run(&["import", "new", "--to", "main", "--yes"]).exits_with(1).stderr_has(
        "new has 2 mistakes\n  new/channels.more.csv:2: name: `WINDOW` is already in \
         new/channels.csv:2\n  new/channels.more.csv:3: id: 1 is already in new/channels.csv:3\n",
    );
    assert_eq!(service.request_count(), 0);
}

#[test]
fn a_copy_in_the_same_folder_is_one_mistake() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let copy = environment.path("sheets/campaigns.copy.csv");
    std::fs::copy(environment.path("sheets/campaigns.csv"), copy).unwrap();
    service.new_requests();
    environment.run(&["plan", "sheets", "--to", "main"]).exits_with(1).stderr_has(
        "error: sheets has a mistake\n  sheets/campaigns.copy.csv: this file and \
         sheets/campaigns.csv hold the same records, in 8 rows; remove one of the files\n",
    );
    assert_eq!(service.new_requests(), Vec::<String>::new());
}

#[test]
fn files_beside_an_export_are_further_rows() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    write(&environment, "sheets/channels.new.csv", b"name,color\nWindow,#aabbcc\n");
    write(&environment, "sheets/todo.md", b"mine");
    let plan = ["plan", "sheets", "--to", "main", "--delete", "--detailed-exitcode"];
    let ran = environment.run(&plan).exits_with(2);
    ran.stdout_has("1 step: 1 create.").stderr_has("sheets: ignored todo.md\n");
    let both = ["import", "sheets", "sheets/channels.new.csv", "--to", "main", "-n"];
    environment.run(&both).succeeds().stdout_has("1 step: 1 create.");
    environment.run(&["export", "main", "--to", "other", "-q"]).succeeds();
    environment
        .run(&["import", "sheets", "other", "--to", "main", "--yes"])
        .exits_with(64)
        .stderr_has("error: cannot combine other with another exported folder\nhint: ");
    for other in ["main@#1", "other/export.json"] {
        environment
            .run(&["plan", "other", other, "--to", "main"])
            .exits_with(64)
            .stderr_has("error: cannot combine ");
    }
}

/// An assignment cannot be undone, so it must not go to the record that was not meant.
#[test]
fn a_number_that_is_an_id_and_a_name_is_ambiguous() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "name\n2\n");
    environment.write("channel_items.csv", "channel,type,id\n2,qr,1\n3,qr,1\n");
    environment.write("campaigns.csv", "name\n1\n");
    environment.write("campaign_links.csv", "campaign,link\n1,7\n");
    let files = ["channel_items.csv", "campaign_links.csv", "channels.csv", "campaigns.csv"];
    let command = [&["import", "--to", "main", "--yes"], &files[..]].concat();
    let both = "is the id of one channel and the name of another: give the name of the first";
    environment
        .run(&command)
        .exits_with(1)
        .stderr_has(&format!("channel_items.csv:2: channel_items 1: `2` {both}"))
        .stderr_has("campaign_links.csv:2: campaigns 1/links/7: `1` is the id of one campaign");
    assert!(service.writes().is_empty());
    // Rows of an export have ids.
    environment.import("campaign_links.csv", &[]).succeeds();
    service.sandbox().mutate(|store| {
        store.channels.get_mut(1).unwrap().name = "2".to_owned();
        store.campaigns.get_mut(2).unwrap().name = "1".to_owned();
    });
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    environment.edit("sheets/channel_items.csv", "1,qr,2,", "1 ,qr,2,");
    environment.edit("sheets/campaign_links.csv", "1,7", "1, 7");
    environment.run(&["plan", "sheets", "--to", "main"]).stdout_has("Nothing to do.");
}

#[test]
fn the_sheets_that_a_spreadsheet_saved_as_csv_are_one_plan() {
    let (environment, _service) = TestEnvironment::with_service("");
    write(&environment, "plan/spring-2026-Channels.csv", b"name\nDoor\n");
    write(&environment, "plan/spring-2026-Channel items.csv", b"channel,type,id\nDoor,qr,1\n");
    write(&environment, "plan/spring-2026-Notes.csv", b"mine");
    write(&environment, "plan/spring-2026-Channels.rejected.csv", b"name\nOld\n");
    let dry = |input: &str| environment.run(&["import", input, "--to", "main", "-n"]);
    dry("plan").succeeds().stdout_has("\n2 steps: ").stderr_has(
        "plan: read spring-2026-Channel items.csv as channel_items, spring-2026-Channels.csv as channels\n\
         plan: ignored spring-2026-Channels.rejected.csv, spring-2026-Notes.csv\n",
    );
    dry("plan/spring-2026-Channels.csv").succeeds().stdout_has("\n1 step: ");
    dry("plan/spring-2026-Channels.rejected.csv").succeeds().stdout_has("\n1 step: ");
    dry("plan/spring-2026-Notes.csv").exits_with(64);
    // Sheets of two workbooks are not one plan, and where other files are read, these are not.
    write(&environment, "plan/autumn-Channels.csv", b"name\nOther\n");
    dry("plan").exits_with(1).stderr_has("no file in it is named after a resource");
    write(&environment, "plan/channels.csv", b"name\nWindow\n");
    dry("plan").succeeds().stdout_has("\n1 step: ").stderr_has("ignored autumn-Channels.csv, ");
}
