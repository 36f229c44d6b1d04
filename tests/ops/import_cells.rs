//! CSV files as people write them: names of columns, forms of values, old names, suspicious values
//! and grouped mistakes.

use serde_json::json;

use crate::support::{CommandOutput, TestEnvironment};

#[test]
fn other_forms_of_names_and_values_are_read_with_a_remark() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write(
        "channels.csv",
        "Name;COLOR;starred\nBar;rgb(31,111,84);ja\nShop;#fa0;FALSCH\nTea;1F6F54;x\n",
    );
    let ran = environment.import("channels.csv", &[]).succeeds().stdout_has("3 done");
    ran.stderr_has("channels.csv: column `Name` is read as `name`, `COLOR` as `color`\n")
        .stderr_has("channels.csv: COLOR: 3 cells have another form, such as `rgb(31,111,84)`, read as `#1F6F54`\n")
        .stderr_has("channels.csv: starred: 3 cells have another form, such as `ja`, read as `true`\n");
    let channel = |name: &str, color: &str, starred: bool| json!({"name": name, "color": color, "starred": starred});
    let expected = [
        channel("Bar", "#1F6F54", true),
        channel("Shop", "#FFAA00", false),
        channel("Tea", "#1F6F54", true),
    ];
    assert_eq!(service.bodies(), expected);
    environment.import("channels.csv", &[]).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn colours_of_codes_are_converted_to_rgb() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("qr_codes.csv", "type,data,background\nLink,https://a.example.com,#010203\n");
    let ran = environment.import("qr_codes.csv", &[]).succeeds();
    ran.stderr_has("qr_codes.csv: type: `Link` is read as `link`\n")
        .stderr_has("qr_codes.csv: background: `#010203` is read as `rgb(1,2,3)`\n");
    let code = json!({"type": "link", "data": "https://a.example.com", "background": "rgb(1,2,3)"});
    assert_eq!(service.bodies(), [code]);
    environment.import("qr_codes.csv", &[]).succeeds().stdout_is("Nothing to do.\n");
}

#[test]
fn columns_are_mapped_and_ignored() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "Display name,Owner,Password\nShop,Mia,geheim\n");
    let options = ["--map", "display name=name", "--ignore-columns", "owner,password", "--yes"];
    let said = "channels.csv: column `Display name` is read as `name`\n";
    let plan = |more: &[&str]| {
        environment.run(&[&["plan", "channels.csv", "--to", "main"], more].concat())
    };
    plan(&options[..4]).succeeds().stderr_has(said).stdout_has("1 create");
    let diff = ["diff", "sandbox", "channels.csv"];
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&[&diff, &options[..4]].concat()).succeeds().stderr_has(said);
    let apply = ["apply", "channels.csv", "--to", "main"];
    environment.run(&[&apply[..], &options].concat()).succeeds().stderr_has(said);
    assert_eq!(service.bodies(), [json!({"name": "Shop"})]);
}

#[test]
fn a_column_option_that_fits_no_column_is_a_usage_error() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "Display name\nShop\n");
    let wrong = |options: &[&str], message: &str| {
        let ran = environment.import("channels.csv", options).exits_with(64).stdout_is("");
        ran.stderr_has(&format!("error: channels.csv: {message}\nhint: "));
    };
    let near = "no column is called `Dispaly name`; did you mean `Display name`?";
    wrong(&["--map", "Dispaly name=name"], near);
    let near = "channels has no column `nmae`; did you mean `name`?";
    wrong(&["--map", "Display name=nmae"], near);
    wrong(&["--ignore-columns", "Owner"], "no column is called `Owner`");
    wrong(&["--match-on", "Owner"], "no column is called `Owner`");
    environment.run(&["import", "channels.csv", "--to", "main", "--map", "name"]).exits_with(64);
    environment.run(&["backup", "-q"]).succeeds();
    let handled = service.request_count();
    let of_state = ["apply", "main@latest", "--to", "main", "--yes", "--ignore-columns", "name"];
    let ran = environment.run(&of_state).exits_with(64);
    ran.stderr_has("error: cannot read columns of main@#1: it is not a CSV file\n");
    assert_eq!((service.writes().len(), service.request_count()), (0, handled));
}

#[test]
fn records_are_renamed_by_their_old_names() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write(
        "campaigns.csv",
        "old name,name,public\nnewsletter,Monthly letter,\nPress,Newsletter,no\n,Winter,no\n",
    );
    let ran = environment.import("campaigns.csv", &[]).exits_with(1);
    ran.stderr_has("campaigns.csv:2: public: must not be empty");
    environment.edit("campaigns.csv", "letter,\n", "letter,yes\n");
    let plan = environment.run(&["plan", "campaigns.csv", "--to", "main", "--json"]).succeeds();
    assert_eq!(plan.json()["steps"].as_array().unwrap().len(), 3);
    environment.import("campaigns.csv", &[]).succeeds().stdout_has("3 done");
    let name = |id| service.sandbox().store().campaigns.get(id).unwrap().name.clone();
    assert_eq!((name(3), name(8)), ("Monthly letter".to_owned(), "Newsletter".to_owned()));
    assert_eq!(service.sandbox().store().campaigns.len(), 9);
    let ran = environment.import("campaigns.csv", &[]).exits_with(1);
    ran.stderr_has("campaigns.csv:3: old name: the account has no campaign called `Press`");
}

#[test]
fn rows_whose_records_are_renamed_already_change_nothing() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "old name,name,slug,public\nPress,Media,media,yes\n");
    environment.import("campaigns.csv", &[]).succeeds().stdout_has("1 done");
    environment.import("campaigns.csv", &[]).succeeds().stdout_is("Nothing to do.\n");
    environment.run(&["backup", "-q"]).succeeds();
    let diff = environment.run(&["diff", "main", "campaigns.csv"]).succeeds();
    diff.stdout_has("0 added, 0 changed, 0 removed");
    // A row that would change a record needs its old name.
    environment.edit("campaigns.csv", ",yes", ",no");
    let ran = environment.import("campaigns.csv", &[]).exits_with(1);
    ran.stderr_has("campaigns.csv:2: old name: the account has no campaign called `Press`\n");
    let ran = environment.run(&["diff", "main", "campaigns.csv"]).exits_with(1);
    ran.stderr_has("campaigns.csv:2: old name: the account has no campaign called `Press`\n");
    assert_eq!(service.writes().len(), 1);
}

#[test]
fn unknown_names_are_mistakes_before_the_plan_that_quote_them() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "old name,name\nGift Cards ,A\n");
    let ran = environment.import("campaigns.csv", &[]).exits_with(1);
    ran.stderr_is(
        "main: campaigns: 8 records\nerror: the input has 1 name that no record of the account has\n  \
         campaigns.csv:2: old name: the account has no campaign called `Gift Cards `; `Gift Cards` \
         differs from it in spaces only\n\
         hint: fix the file and run the command again; nothing was written\n",
    );
    environment.write("campaigns.csv", "old name,name\nSomer Sale,A\nWinter,B\n");
    let grouped = "campaigns.csv: old name: 2 cells are names that no record of the account has (rows 2, \
                   3); the first: the account has no campaign called `Somer Sale`; did you mean \
                   `Summer Sale`?\n";
    environment.import("campaigns.csv", &[]).exits_with(1).stderr_has(grouped);
    environment.write("channel_items.csv", "channel,type,id\nSocail,links,105\n");
    let ran = environment.import("channel_items.csv", &[]).exits_with(1).stdout_is("");
    ran.stderr_has(
        "channel_items.csv:2: channel: the account has no channel called `Socail`; did you mean \
         `Social`?\n",
    );
    assert!(!environment.path("channel_items.rejected.csv").exists());
    environment.write("channels.csv", "name\nÆrø \n");
    environment.write("channel_items.csv", "channel,type,id\nÆrø,links,105\n");
    let both = ["import", "channels.csv", "channel_items.csv", "--to", "main", "-n"];
    let ran = environment.run(&both).exits_with(1);
    ran.stderr_has("called `Ærø`; `Ærø ` differs from it in spaces only\n");
    environment.write("campaign_links.csv", "campaign,link\nSumer Sale,5\n");
    let ran = environment.import("campaign_links.csv", &[]).exits_with(1);
    ran.stderr_has(
        "campaign_links.csv:2: campaign: the account has no campaign called `Sumer Sale`;",
    );
    assert_eq!(service.writes().len(), 0);
}

#[test]
fn an_item_can_name_its_channel_by_the_name_that_the_plan_changes() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "old name,name\nShop window,Window\n");
    environment.write("channel_items.csv", "channel,type,id\nShop window,links,105\n");
    let both = ["import", "channels.csv", "channel_items.csv", "--to", "main", "--yes"];
    environment.run(&both).succeeds().stdout_has("2 done");
    assert!(
        service.writes()[1].contains("/api/channel/1/assign/links/105"),
        "{:?}",
        service.writes()
    );
    // A new channel that takes the name is meant.
    environment.write("channels.csv", "old name,name\nWindow,Glass\n,Window\n");
    environment.write("channel_items.csv", "channel,type,id\nWindow,links,106\n");
    environment.run(&both).succeeds().stdout_has("3 done");
}

#[test]
fn empty_cells_that_clear_values_are_warned_of() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write(
        "channels.csv",
        "old name,name,description\nSocial,Soziales,\nShop window,Fenster,\n,Neu,\n",
    );
    let plan = ["plan", "channels.csv", "--to", "main"];
    let ran = environment.run(&plan).succeeds();
    ran.stderr_has(
        "warning: channels.csv: description: 2 cells are empty and clear the values of existing \
         records; to keep the values, put the rows into a file without this column (rows 2, 3)\n",
    );
    environment.write("channels.csv", "name,description\nSocial,\n");
    let ran = environment.run(&plan).succeeds();
    ran.stderr_has(
        "the empty cell clears `What we post ourselves`; to keep the value, put the row",
    );
    environment.write("channels.csv", "id,name,description\n2,Social,\n");
    let ran = environment.run(&plan).succeeds();
    assert!(!ran.stderr().contains("clears"), "{}", ran.stderr());
    environment.write("channels.csv", "old name,name,starred\nSocial,Soziales,\n");
    let ran = environment.run(&plan).exits_with(1);
    ran.stderr_has("starred: must not be empty; write true or false, or put the row into a file");
    assert_eq!(service.writes().len(), 0);
}

#[test]
fn the_column_with_old_names_can_be_named() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "Title,name\nLetters,Mail\nGhost,Spook\n");
    let options = ["--match-on", "title"];
    let ran = environment.import("channels.csv", &options).exits_with(1);
    let message = "channels.csv:3: old name: the account has no channel called `Ghost`\n";
    ran.stderr_has(message);
    environment.run(&["backup", "-q"]).succeeds();
    let diff = ["diff", "main", "channels.csv"];
    environment.run(&[&diff[..], &options].concat()).exits_with(1).stderr_has(message);
    environment.edit("channels.csv", "Ghost,Spook\n", "");
    let ran = environment.run(&[&diff[..], &options].concat()).succeeds();
    ran.stdout_has("name: \"Letters\" -> \"Mail\"\n");
    assert_eq!(service.writes().len(), 0);
    environment.import("channels.csv", &options).succeeds().stdout_has("1 update");
}

#[test]
fn blanks_at_the_ends_of_edited_cells_are_trimmed() {
    let (environment, service) = TestEnvironment::with_service("");
    service.sandbox().mutate(|store| {
        store.channels.get_mut(2).unwrap().description = " as it was ".to_owned();
    });
    environment.run(&["export", "main@live", "--to", "sheets", "--only", "channels"]).succeeds();
    let text = environment.text("sheets/channels.csv");
    assert!(text.contains(", as it was ,"), "{text}");
    environment.write("sheets/channels.csv", &text.replacen("2,Social,", "2,\u{a0}Media ,", 1));
    environment.import("sheets/channels.csv", &[]).exits_with(64);
    environment.import("sheets/channels.csv", &["--trim"]).succeeds().stdout_has("1 update");
    let sandbox = service.sandbox();
    let channel = sandbox.store().channels.get(2).unwrap();
    assert_eq!((&*channel.name, &*channel.description), ("Media", " as it was "));
}

#[test]
fn rejected_rows_are_mended_and_applied_as_told() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("ids.csv", "id;Remark;Title\r\n2;x;Newsletter\r\n");
    let flags = ["--resource", "campaigns", "--map", "Title=name", "--ignore-columns", "Remark"];
    let ran = environment.import("ids.csv", &flags).exits_with(3);
    ran.stderr_has("campaigns.ids.rejected.csv;").stderr_has("--match-on");
    let text = environment.text("campaigns.ids.rejected.csv");
    assert!(text.starts_with("id;name;problem\r\n2;Newsletter;"), "{text:?}");
    let mended = text.replacen("2;Newsletter", "2;Letters", 1);
    environment.write("campaigns.ids.rejected.csv", &mended);
    environment.import("campaigns.ids.rejected.csv", &[]).succeeds().stdout_has("1 done");
    assert_eq!(service.sandbox().store().campaigns.get(2).unwrap().name, "Letters");
}

#[test]
fn rejected_rows_keep_their_old_names() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "old_name,name\nAuthor Evenings,Newsletter\nPress,Media\n");
    environment.import("campaigns.csv", &[]).exits_with(3);
    let text = environment.text("campaigns.rejected.csv");
    assert!(text.starts_with("old_name,name,problem\nAuthor Evenings,Newsletter,"), "{text}");
}

#[test]
fn cells_that_the_api_cannot_set_are_told_for_rows_without_an_id() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write(
        "qr_codes.csv",
        "type,data,name,date\ntext,one,First,10.07.2025 15:05\ntext,two,Second,\n",
    );
    let ran = environment.import("qr_codes.csv", &[]).succeeds().stdout_has("2 done");
    ran.stderr_has("warning: qr_codes.csv: name: 2 cells are left out, because the API cannot set them (rows 2, 3)\n")
        .stderr_has("warning: qr_codes.csv:2: date: left out, because the API cannot set the `date` of a QR code\n");
    assert_eq!(service.writes().len(), 2);
    environment
        .write("campaigns.csv", "name,rotator,slug\nWinter,https://x.example/r/winter,winter\n");
    let ran = environment.import("campaigns.csv", &[]).succeeds();
    assert!(!ran.stderr().contains("left out"), "{}", ran.stderr());
}

#[test]
fn cells_that_the_api_cannot_set_are_told_for_counters_and_items() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    let text = environment.text("sheets/qr_codes.csv");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let mut cells: Vec<_> = lines[1].split(',').map(str::to_owned).collect();
    cells[2] = "123456789".to_owned();
    lines[1] = cells.join(",");
    environment.write("sheets/qr_codes.csv", &lines.join("\n"));
    let ran = environment.run(&["plan", "sheets", "--to", "main"]).succeeds();
    ran.stderr_has(
        "warning: sheets/qr_codes.csv:2: scans: left out, because the API cannot set the `scans` \
         of a QR code\n",
    );
    environment.write("channel_items.csv", "channel,type,id,title\nletters,links,7,x\n");
    environment.import("channel_items.csv", &[]).succeeds();
    let ran = environment.import("channel_items.csv", &[]).succeeds();
    ran.stdout_is("Nothing to do.\n").stderr_has("channel_items.csv:2: title: left out, because");
    assert_eq!(service.writes().len(), 1);
}

#[test]
fn a_reformatted_date_is_no_change() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "--only", "pixels", "-q"]).succeeds();
    let text = environment.text("sheets/pixels.csv");
    let cell = text.lines().nth(1).unwrap().split(',').nth(4).unwrap().to_owned();
    let (date, time) = cell.split_once(' ').unwrap();
    let parts: Vec<_> = date.split('-').collect();
    let local = format!("{}.{}.{} {}", parts[2], parts[1], parts[0], &time[..5]);
    let with_id = text.replace(&cell, &local);
    environment.write("sheets/pixels.csv", &with_id);
    let apply =
        |more: &[&str]| environment.run(&[&["apply", "sheets", "--to", "main"], more].concat());
    apply(&["--yes"]).succeeds().stdout_is("Nothing to do.\n");
    environment.run(&["diff", "main", "sheets"]).succeeds().stdout_has("0 changed");
    let without_id: Vec<_> = with_id.lines().map(|line| line.split_once(',').unwrap().1).collect();
    environment.write("pixels.csv", &without_id.join("\n"));
    let ran = environment.import("pixels.csv", &[]).succeeds().stdout_is("Nothing to do.\n");
    assert!(!ran.stderr().contains("left out"), "{}", ran.stderr());
    environment.edit("sheets/pixels.csv", &local, "11.07.1999");
    apply(&["--yes"]).exits_with(3).stdout_has("the API cannot change the `date` of a pixel");
    environment.edit("pixels.csv", &local, "11.07.1999");
    environment.import("pixels.csv", &[]).succeeds().stderr_has("pixels.csv:2: date: left out");
}

const SUSPICIOUS: &str = "type,name,tag\nbing,Pinterest ,a\nbing,b,\"1,23457E+14\"\nfoo,c,d\n";

const FOUND: [&str; 3] = [
    "pixels.csv:2: name: `Pinterest ` ends with a space",
    "pixels.csv:3: tag: `1,23457E+14` is a number that a spreadsheet has rounded",
    "pixels.csv:4: type: `foo` is not a known pixel type; known: gtmpixel, gapixel, fbpixel, \
     adwordspixel, linkedinpixel, twitterpixel, adrollpixel, quorapixel, pinterest, bing, \
     snapchat, reddit, tiktok",
];

#[test]
fn suspicious_values_stop_an_import_without_a_terminal() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("pixels.csv", SUSPICIOUS);
    let ran = environment.import("pixels.csv", &[]).exits_with(64).stdout_is("");
    ran.stderr_is(&format!(
        "error: cannot ask \"Use these 3 suspicious values as they are?\" without a terminal; \
         nothing was written\n  {}\n  {}\n  {}\n\
         hint: correct them, or pass --accept-suspicious to use them as they are\n",
        FOUND[0], FOUND[1], FOUND[2]
    ));
    assert_eq!(service.request_count(), 0);
    let document = environment.import("pixels.csv", &["--json"]).exits_with(64).json();
    assert_eq!(document["error"]["details"], json!(FOUND));
    environment.import("pixels.csv", &["--accept-suspicious"]).succeeds().stdout_has("3 done");
}

#[test]
fn a_plan_and_a_dry_run_only_warn_of_suspicious_values() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("pixels.csv", SUSPICIOUS);
    let warned = |ran: CommandOutput| {
        FOUND.iter().fold(ran, |ran, line| ran.stderr_has(&format!("warning: {line}\n")));
    };
    warned(environment.run(&["plan", "pixels.csv", "--to", "main"]).succeeds());
    warned(environment.import("pixels.csv", &["-n"]).succeeds());
    environment.run(&["backup", "-q"]).succeeds();
    warned(environment.run(&["diff", "main", "pixels.csv"]).succeeds());
    assert_eq!(service.writes().len(), 0);
}

#[test]
fn suspicious_values_are_asked_about_on_a_terminal() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("qr_codes.csv", "type,data\nlink,www.example.com\nlink,menu\n");
    let command = ["import", "qr_codes.csv", "--to", "main", "--yes"];
    let question = "Use these 2 suspicious values as they are? [y/N] ";
    let terminal = environment.on_terminal(&command);
    terminal.shows(question).types("\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    let line = "qr_codes.csv: data: 2 cells are web addresses without http:// or https://\n    (rows 2, 3)";
    assert!(screen.contains(line) && screen.contains("nothing was written"), "{screen}");
    assert_eq!(service.request_count(), 0);
    let terminal = environment.on_terminal(&command);
    terminal.shows(question).types("y\n");
    let (code, screen) = terminal.ended();
    assert_eq!((code, service.writes().len()), (Some(0), 2), "{screen}");
}

#[test]
fn a_domain_without_a_scheme_is_a_mistake_before_any_request() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("domains.csv", "domain\ngo.example.com\n");
    let ran = environment.import("domains.csv", &[]).exits_with(1);
    ran.stderr_has("domains.csv:2: domain: `go.example.com` has no http:// or https:// in front\n");
    assert_eq!(service.request_count(), 0);
}

#[test]
fn mistakes_are_grouped_and_shown_one_by_one_with_verbose() {
    let (environment, service) = TestEnvironment::with_service("");
    let rows: String = (0..42).map(|nth| format!("C{nth},red{nth},maybe\n")).collect();
    environment.write("channels.csv", &format!("name,color,starred\n{rows}"));
    let ran = environment.import("channels.csv", &[]).exits_with(1);
    ran.stderr_is(
        "error: channels.csv has 84 mistakes\n  \
         channels.csv: color: 42 cells are not a colour; write #RRGGBB (rows 2, 3, 4, 5, 6, …)\n  \
         channels.csv: starred: 42 cells are not a boolean; write true or false (rows 2, 3, 4, 5, 6, …)\n  \
         (-v shows each of them)\n\
         hint: fix the file and run the command again; nothing was written\n",
    );
    let ran = environment.import("channels.csv", &["-v"]).exits_with(1);
    ran.stderr_has("  channels.csv:43: color: `red41` is not a colour; write #RRGGBB\n");
    let document = environment.import("channels.csv", &["--json"]).exits_with(1).json();
    assert_eq!(document["error"]["details"].as_array().unwrap().len(), 84);
    assert_eq!(service.request_count(), 0);
}

#[test]
fn rows_with_mistakes_are_written_to_an_annotated_copy() {
    let (environment, service) = TestEnvironment::with_service("");
    let text = "name;description;color;problem\nA;\"x\ny\";red;old\nB;;#000000;\n;z;blue;\n";
    environment.write("channels.csv", text);
    let annotate = ["--annotate", "mistakes.csv"];
    let ran = environment.import("channels.csv", &annotate).exits_with(1);
    ran.stderr_has("hint: mistakes.csv has the rows with mistakes and the reasons; fix them in the input file and run the command again; nothing was written to the account\n");
    assert_eq!(
        environment.text("mistakes.csv"),
        "name;description;color;row;problem\n\
         A;\"x\ny\";red;2;\"color: `red` is not a colour; write #RRGGBB\"\n\
         ;z;blue;4;\"color: `blue` is not a colour; write #RRGGBB; name: is missing; a channel \
         without an id needs it\"\n"
    );
    assert_eq!(service.request_count(), 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            std::fs::metadata(environment.path("mistakes.csv")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let ran = environment.import("channels.csv", &["--annotate", "./channels.csv"]);
    ran.exits_with(64).stderr_has("error: cannot write to ./channels.csv: it is an input file\n");
    assert_eq!(environment.text("channels.csv"), text);
    environment.write("campaigns.csv", "name\nA\n");
    let both = ["plan", "channels.csv", "campaigns.csv", "--to", "main", "--annotate", "m.csv"];
    let ran = environment.run(&both).exits_with(64);
    ran.stderr_has("error: cannot annotate 2 files or sheets in one copy: channels.csv, campaigns.csv\nhint: read one at a time, such as with --only channels");
    assert!(!environment.path("m.csv").exists());
}

#[test]
fn hostile_cells_are_escaped_and_cut() {
    let (environment, service) = TestEnvironment::with_service("");
    let long = "x".repeat(1 << 20);
    environment.write("channels.csv", &format!("N\u{1b}[2Jame,color\nA,\u{1b}]0;{long}\nB,=1+1\n"));
    let ran = environment.import("channels.csv", &[]).exits_with(1);
    assert!(!ran.stderr().contains('\u{1b}') && ran.stderr().len() < 1000, "{}", ran.stderr());
    environment
        .write("channels.csv", &format!("name,starred\n\" A\nwarning: x\u{1b}{long}\",ja\n"));
    let ran = environment.import("channels.csv", &[]).exits_with(64);
    assert!(!ran.stderr().contains('\u{1b}') && ran.stderr().len() < 1000, "{}", ran.stderr());
    assert!(!ran.stderr().contains("\nwarning: x"), "{}", ran.stderr());
    assert_eq!(service.request_count(), 0);
    let ran = environment.run(&["plan", "channels.csv", "--to", "main"]).succeeds();
    assert!(!ran.stderr().contains('\u{1b}') && ran.stderr().len() < 1000, "{}", ran.stderr());
    assert!(!ran.stderr().contains("\nwarning: x"), "{}", ran.stderr());
    // A long name in the header is no candidate for a similar name.
    environment.write("channels.csv", &format!("name,{long}\nA,b\n"));
    let ran = environment.import("channels.csv", &["--ignore-columns", "Owner"]).exits_with(64);
    ran.stderr_has("error: channels.csv: no column is called `Owner`\n");
}
