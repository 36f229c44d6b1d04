//! The order of creates, and `--results`: the outcome of each row.

use serde_json::json;

use crate::support::TestEnvironment;

#[test]
fn new_records_are_created_in_the_order_of_the_file() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "name\nChan 2\nChan 10\nAlpha\nChan 1\n");
    environment.import("channels.csv", &[]).succeeds();
    let service = service.sandbox();
    let bodies = service.log().iter().filter_map(|entry| entry.body.as_deref());
    let names = bodies.map(|body| serde_json::from_slice::<serde_json::Value>(body).unwrap());
    let names: Vec<_> = names.map(|body| body["name"].clone()).collect();
    assert_eq!(names, ["Chan 2", "Chan 10", "Alpha", "Chan 1"].map(|name| json!(name)));
}

#[test]
fn the_results_name_the_outcome_the_id_and_the_address_of_each_row() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write(
        "campaigns.csv",
        "id,name,public,slug\n2,Newsletter,yes,\n,Winter,no,winter\n,PRESS,yes,\n5,Book Club,no,\n",
    );
    environment.import("campaigns.csv", &["--results", "results.csv"]).exits_with(3);
    let rotator = |slug: &str| service.sandbox().store().rotator_url(slug);
    let message = "You already have a campaign with that name.";
    let lines = [
        "file,line,resource,action,record,outcome,id,address,message".to_owned(),
        format!(
            "campaigns.csv,2,campaigns,update,Author Evenings,refused,2,{},{message}",
            rotator("evenings")
        ),
        format!("campaigns.csv,3,campaigns,create,Winter,done,9,{},", rotator("winter")),
        "campaigns.csv,4,campaigns,update,Press,done,8,,".to_owned(),
        "campaigns.csv,5,campaigns,,Book Club,unchanged,5,,".to_owned(),
    ];
    assert_eq!(
        std::fs::read_to_string(environment.path("results.csv"))
            .unwrap()
            .lines()
            .collect::<Vec<_>>(),
        lines
    );
}

#[test]
fn the_results_of_qr_codes_have_their_short_addresses_and_unchanged_rows_their_ids() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("qr_codes.csv", "type,data\nlink,https://example.com/a\ntext,Hall 3\n");
    let address = |id: u64| service.sandbox().store().qr_codes.get(id).unwrap().link.clone();
    for (action, outcome) in [("create", "done"), ("", "unchanged")] {
        environment
            .import("qr_codes.csv", &["--results", "results.csv"])
            .succeeds()
            .stderr_has("the outcome of 2 rows was written to results.csv");
        let text = std::fs::read_to_string(environment.path("results.csv")).unwrap();
        println!("{text}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        for row in &rows {
            assert_eq!((&row[3], &row[5]), (action, outcome));
            assert_eq!(row[7], address(row[6].parse().unwrap()));
        }
    }
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_is_sent() {
    let (environment, service) = TestEnvironment::with_service("");
    let rows = "name\nNew\n";
    std::fs::create_dir(environment.path("new")).unwrap();
    environment.write("new/channels.csv", rows);
    for flag in ["--results", "--rejected"] {
        let ran = environment.import("new", &[flag, "missing/results.csv"]).exits_with(1);
        ran.stderr_has("cannot write missing/results.csv: not a directory");
        environment.import("new", &[flag, "new"]).exits_with(1);
        // It would replace the input.
        let ran = environment.import("new", &[flag, "./new/channels.csv"]).exits_with(64);
        ran.stderr_has("cannot write to ./new/channels.csv: it is an input file");
    }
    assert_eq!(environment.text("new/channels.csv"), rows);
    assert_eq!(service.request_count(), 0);
    environment.import("new", &[]).succeeds();
    environment.run(&["plan", "new", "--to", "main", "-o", "plan.json"]).succeeds();
    let plan = ["apply", "plan.json", "--to", "main", "--yes", "--results", "plan.json"];
    environment.run(&plan).exits_with(64).stderr_has("it is an input file");
    let undo = ["undo", "main", "1", "--yes", "--results", "missing/r.csv"];
    environment.run(&undo).exits_with(1).stderr_has("cannot write missing/r.csv");
    assert_eq!(service.writes().len(), 1);
}

#[test]
fn outputs_replace_only_earlier_outputs_of_the_same_kind() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "main"]).succeeds();
    environment.write("channels.csv", "name,color\nNew,#102030\n");
    environment.write("bad.csv", "name,color\nNew,blue\n");
    environment.write("notes.txt", "mine");
    let (vault, config) = ("vaults/main.db", "config.toml");
    std::os::unix::fs::symlink(environment.path(vault), environment.path("symlink")).unwrap();
    std::fs::hard_link(environment.path(vault), environment.path("hardlink")).unwrap();
    let read = || [vault, config].map(|file| std::fs::read(environment.path(file)).unwrap());
    let before = read();
    let requests = service.request_count();
    let import = ["import", "channels.csv", "--to", "main", "--yes"];
    let plan = ["plan", "channels.csv", "--to", "main"];
    let bad = ["import", "bad.csv", "--resource", "channels", "--to", "main", "--yes"];
    let migrate = ["migrate", "main", "sandbox", "--yes"];
    let resume = ["resume", "main"];
    let commands: [(&[&str], &str); 11] = [
        (&import, "--results"),
        (&import, "--rejected"),
        (&import, "--log-file"),
        (&bad, "--annotate"),
        (&plan, "-o"),
        (&migrate, "-o"),
        (&migrate, "--report"),
        (&resume, "--results"),
        (&resume, "--rejected"),
        (&["undo", "main", "1", "--yes"], "--results"),
        (&["backup", "main"], "--log-file"),
    ];
    for (command, flag) in commands {
        for file in [vault, config, "symlink", "hardlink", "notes.txt"] {
            let ran = environment.run(&[command, &[flag, file]].concat()).exits_with(64);
            ran.stderr_has(&format!("cannot write to {file}: it exists and is not "))
                .stderr_has("pass --force to replace this one");
        }
    }
    assert_eq!(read(), before);
    assert_eq!(environment.text("notes.txt"), "mine");
    assert_eq!(service.request_count(), requests);
    // A further output replaces the earlier one, and `--force` replaces any file.
    for _ in 0..2 {
        environment.run(&[&plan[..], &["-o", "plan.json"]].concat()).succeeds();
    }
    environment.run(&[&plan[..], &["-o", "notes.txt", "--force"]].concat()).succeeds();
    assert_eq!(environment.text("notes.txt").lines().next(), Some("{"));
}

#[test]
fn rows_that_a_filter_leaves_out_are_told() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "id,name\n1,Shop window\n2,Other\n3,Another\n");
    environment.write("channel_items.csv", "channel,type,id\n2,qr,3\n3,qr,3\n");
    environment.write("campaign_links.csv", "campaign,link\n1,7\n");
    let files = ["import", "channels.csv", "channel_items.csv", "campaign_links.csv"];
    let flags = ["--to", "main", "--yes", "--where", "channels.id~^[12]$", "--where"];
    let flags = [&flags[..], &["campaigns.id~2", "--results", "results.csv"]].concat();
    environment.run(&[&files[..], &flags].concat()).succeeds();
    let text = environment.text("results.csv");
    let outcome = |begin: &str| {
        let line = text.lines().find(|line| line.starts_with(begin)).unwrap();
        line.split(',').nth(5).unwrap().to_owned()
    };
    assert_eq!(outcome("channels.csv,2,"), "unchanged");
    assert_eq!(outcome("channels.csv,3,"), "done");
    assert_eq!(outcome("channels.csv,4,"), "filtered");
    assert_eq!(outcome("channel_items.csv,2,"), "done");
    assert_eq!(outcome("channel_items.csv,3,"), "filtered");
    assert_eq!(outcome("campaign_links.csv,2,"), "filtered");
}

#[test]
fn a_run_that_stopped_has_results_of_what_it_did() {
    let (environment, _service) = TestEnvironment::with_service("");
    let rows: String = (0..9).map(|nth| format!(",New {nth}\n")).collect();
    environment.write("channels.csv", &format!("id,name\n1,Shop window\n{rows}"));
    let limit = ["--results", "results.csv", "--max-requests", "8"];
    environment.import("channels.csv", &limit).exits_with(8);
    let outcomes = |name: &str| {
        let text = environment.text(name);
        let rows = text.lines().skip(1).map(|line| line.split(',').nth(5).unwrap().to_owned());
        rows.collect::<Vec<_>>()
    };
    let found = outcomes("results.csv");
    assert_eq!((found.len(), found[0].as_str(), found[1].as_str()), (10, "unchanged", "done"));
    assert_eq!(found.last().unwrap(), "planned");
    environment.run(&["resume", "main", "--results", "rest.csv"]).succeeds();
    assert!(outcomes("rest.csv").iter().all(|it| it == "done"));
}

#[test]
fn a_plan_that_is_not_executed_writes_no_results() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "name\nNew\n");
    environment.import("channels.csv", &["-n", "--results", "results.csv"]).succeeds();
    assert!(!environment.path("results.csv").exists());
}

#[test]
fn the_results_of_items_have_the_type_and_the_id_of_the_item() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "name\nDoor\n");
    environment.write("channel_items.csv", "channel,type,id\nDoor,qr,3\n2,links,108\n99,qr,1\n");
    let files = ["import", "channels.csv", "channel_items.csv", "--to", "main", "--yes"];
    let results = |code| {
        let ran = environment.run(&[&files[..], &["--results", "results.csv"]].concat());
        ran.exits_with(code);
        let text = environment.text("results.csv");
        let lines = text.lines().filter(|line| line.starts_with("channel_items.csv,"));
        let cells = lines.map(|line| line.split(',').skip(3).take(4).collect::<Vec<_>>().join(","));
        cells.collect::<Vec<_>>()
    };
    let unsupported = ",99/qr/1,unsupported,1";
    assert_eq!(
        results(3),
        ["assign,Door/qr/3,done,3", "assign,Social/links/108,done,108", unsupported]
    );
    assert_eq!(
        results(3),
        [",Door/qr/3,unchanged,3", ",Social/links/108,unchanged,108", unsupported]
    );
}
