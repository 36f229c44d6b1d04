//! The exit code of each command for each result, by the table in
//! `docs/json.md`. Each test is a list of commands that end with one code.

use std::process::Command;

use linkvault::clock::{Interrupt, SystemClock};
use linkvault::sandbox::Store;
use linkvault::vault::lock::Lock;

use crate::support::{KEY, LiveService, TestEnvironment, until};

/// The sample account as `main`, backed up and exported to `sheets`.
fn backed_up() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    exported(&environment);
    (environment, service)
}

fn exported(environment: &TestEnvironment) {
    assert_each_exits_with(environment, 0, &["backup -q", "export main --to sheets -q"]);
}

/// A record that any plan can update.
fn edited_campaign(environment: &TestEnvironment) {
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
}

/// The edited export as `plan.json`.
fn saved_plan(environment: &TestEnvironment) {
    edited_campaign(environment);
    assert_each_exits_with(environment, 0, &["plan sheets --to main -o plan.json -q"]);
}

fn new_campaign(environment: &TestEnvironment) {
    environment.write("campaigns.csv", "name\nNew\n");
}

/// Splits a command line at its blanks.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs each command line and asserts its exit code.
#[track_caller]
fn assert_each_exits_with(environment: &TestEnvironment, code: i32, lines: &[&str]) {
    for line in lines {
        environment.run(&words(line)).exits_with(code);
    }
}

const COMMANDS: [&str; 18] = [
    "backup main",
    "snapshots main",
    "show main",
    "log main campaigns 1",
    "diff main",
    "export main --to out",
    "plan campaigns.csv --to main",
    "apply campaigns.csv --to main --yes",
    "import campaigns.csv --to main --yes",
    "restore latest --to main --yes",
    "undo main 1 --yes",
    "runs main",
    "resume main",
    "resolve main 1",
    "forget main --keep-last 1",
    "check main",
    "rehearse campaigns.csv --to main",
    "migrate main other --yes",
];

#[test]
fn a_usage_error_exits_with_64_and_an_unknown_account_with_1() {
    let environment = TestEnvironment::new();
    new_campaign(&environment);
    for line in COMMANDS {
        environment.run(&[&words(line)[..], &["--nonsense"]].concat()).exits_with(64);
        assert_each_exits_with(&environment, 1, &[line]);
    }
    assert_each_exits_with(
        &environment,
        64,
        &["daemon --nonsense", "status --nonsense", "doctor --nonsense"],
    );
    assert_each_exits_with(&environment, 1, &["doctor main", "status main", "daemon --once"]);
}

#[test]
fn changes_exit_with_2_only_if_a_flag_asks_for_it() {
    let (environment, _service) = backed_up();
    new_campaign(&environment);
    assert_each_exits_with(
        &environment,
        0,
        &["diff main campaigns.csv", "plan campaigns.csv --to main"],
    );
    assert_each_exits_with(
        &environment,
        2,
        &[
            "diff main campaigns.csv --detailed-exitcode",
            "plan campaigns.csv --to main --detailed-exitcode",
        ],
    );
    assert_each_exits_with(&environment, 0, &["plan sheets --to main --detailed-exitcode"]);
}

/// Prepares something that the API cannot do; gives a command that asks for it.
type Unsupported = fn(&TestEnvironment, &LiveService) -> &'static str;

/// The API can neither change nor delete a pixel.
fn edited_pixel(environment: &TestEnvironment) {
    environment.edit("sheets/pixels.csv", "Search ads", "Other ads");
    environment.write("pixels.csv", &environment.text("sheets/pixels.csv"));
}

fn renamed_pixel(service: &LiveService) {
    let name = "Renamed there".to_owned();
    service.sandbox().mutate(|store| store.pixels.get_mut(4).unwrap().name = name);
}

fn new_pixel(environment: &TestEnvironment) {
    environment.write("new.csv", "type,name,tag\nbing,New,123\n");
    assert_each_exits_with(
        environment,
        0,
        &["import new.csv --resource pixels --to main --yes -q"],
    );
}

const UNSUPPORTED: [(&str, Unsupported); 12] = [
    ("import", |environment, _| {
        edited_pixel(environment);
        "import pixels.csv --to main --yes"
    }),
    ("import, beside steps that are done", |environment, _| {
        edited_pixel(environment);
        let text = environment.text("pixels.csv");
        let columns = text.lines().next().unwrap().split(',').count();
        let new = text.lines().next().unwrap().split(',').map(|column| match column {
            "type" => "bing",
            "name" => "New",
            "tag" => "123",
            _ => "",
        });
        let row = new.collect::<Vec<_>>().join(",");
        assert_eq!(row.split(',').count(), columns);
        environment.write("pixels.csv", &format!("{}\n{row}\n", text.trim_end()));
        "import pixels.csv --to main --yes"
    }),
    ("apply of files", |environment, _| {
        edited_pixel(environment);
        "apply sheets --to main --yes"
    }),
    ("apply of a snapshot", |_, service| {
        renamed_pixel(service);
        "apply main@latest --to main --yes"
    }),
    ("apply of a saved plan", |environment, _| {
        edited_pixel(environment);
        saved_plan(environment);
        "apply plan.json --to main --yes"
    }),
    ("apply -n", |environment, _| {
        edited_pixel(environment);
        edited_campaign(environment);
        "apply sheets --to main -n"
    }),
    ("restore", |_, service| {
        renamed_pixel(service);
        "restore latest --to main --yes"
    }),
    ("undo", |environment, _| {
        new_pixel(environment);
        "undo main 1 --yes"
    }),
    ("undo -n", |environment, _| {
        new_pixel(environment);
        "undo main 1 -n"
    }),
    ("rehearse", |environment, _| {
        edited_pixel(environment);
        "rehearse sheets --to main"
    }),
    ("rehearse of a saved plan", |environment, _| {
        edited_pixel(environment);
        saved_plan(environment);
        "rehearse plan.json --to main"
    }),
    ("plan --detailed-exitcode", |environment, _| {
        edited_pixel(environment);
        "plan sheets --to main --detailed-exitcode"
    }),
];

#[test]
fn unsupported_changes_exit_with_3_in_every_command() {
    for (name, prepare) in UNSUPPORTED {
        let (environment, service) = backed_up();
        let line = prepare(&environment, &service);
        let ran = environment.run(&words(line));
        assert_eq!(ran.code(), Some(3), "{name}: {}{}", ran.stdout(), ran.stderr());
    }
}

/// The accounts `main` and `empty`, and what the latter is served by.
fn two() -> (TestEnvironment, LiveService, LiveService) {
    let (old, new) = (LiveService::start("", ""), LiveService::serving(Store::default(), "", ""));
    let account = |name: &str, service: &LiveService| {
        format!("[accounts.{name}]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", service.url())
    };
    let text = account("main", &old) + &account("empty", &new);
    let environment = TestEnvironment::new().variable("LINKS_KEY", KEY);
    (environment.config(&text), old, new)
}

/// Overlays and splash pages can only be made by hand.
#[test]
fn records_that_a_migration_leaves_exit_with_3_and_a_verification_with_2() {
    let (environment, _old, new) = two();
    assert_each_exits_with(
        &environment,
        3,
        &["migrate main empty -n", "migrate main empty --yes", "migrate main empty --yes"],
    );
    let some = "--only campaigns,channels";
    assert_each_exits_with(
        &environment,
        0,
        &[&format!("migrate main empty -n {some}"), &format!("migrate main empty --yes {some}")],
    );
    new.sandbox().mutate(|store| store.campaigns.remove(1));
    assert_each_exits_with(&environment, 2, &[&format!("migrate main empty --verify-only {some}")]);
}

#[test]
fn a_resumed_run_has_the_exit_code_of_an_uninterrupted_one() {
    let (environment, _service) = backed_up();
    edited_pixel(&environment);
    edited_campaign(&environment);
    environment.edit("sheets/campaigns.csv", "Newsletter", "News");
    // One request too few for the second step.
    let mut stopped = None;
    for bound in 3..12 {
        let line = format!("apply sheets --to main --yes -q --max-requests {bound}");
        let code = environment.run(&words(&line)).code();
        if environment.run(&["resume", "main", "-n"]).code() == Some(0) {
            stopped = code;
            break;
        }
    }
    assert_eq!(stopped, Some(8));
    assert_each_exits_with(&environment, 3, &["resume main"]);

    let (environment, _old, _new) = two();
    assert_each_exits_with(&environment, 8, &["migrate main empty --yes -q --max-requests 20"]);
    assert_each_exits_with(&environment, 3, &["resume empty"]);
}

#[test]
fn unread_resources_and_refused_steps_exit_with_3() {
    let (environment, service) = backed_up();
    service.faults("html@/api/campaigns");
    assert_each_exits_with(
        &environment,
        3,
        &[
            "backup main",
            "show main@live",
            "export main@live --to live",
            "diff main@latest main@live",
            "diff main@latest main@live --detailed-exitcode",
        ],
    );
    service.faults("");
    service.sandbox().behaviour_mut().cap_campaigns = Some(8);
    environment.write("campaigns.csv", "name\nOne too many\n");
    assert_each_exits_with(&environment, 0, &["backup main"]);
    assert_each_exits_with(
        &environment,
        3,
        &[
            "import campaigns.csv --to main --yes",
            "apply campaigns.csv --to main --yes",
            "rehearse campaigns.csv --to main --cap campaigns=8",
        ],
    );
}

#[test]
fn a_stale_plan_and_a_conflict_exit_with_4() {
    let (environment, service) = backed_up();
    saved_plan(&environment);
    service.sandbox().mutate(|store| {
        store.campaigns.get_mut(4).unwrap().name = "Winter Sale".to_owned();
    });
    assert_each_exits_with(
        &environment,
        4,
        &[
            "apply plan.json --to main --yes",
            "apply plan.json --to main -n",
            "apply sheets --to main --yes",
            "plan sheets --to main",
        ],
    );
    assert_each_exits_with(&environment, 0, &["backup main"]);
    assert_each_exits_with(
        &environment,
        4,
        &["rehearse plan.json --to main", "rehearse sheets --to main"],
    );

    new_campaign(&environment);
    assert_each_exits_with(&environment, 0, &["import campaigns.csv --to main --yes"]);
    service.sandbox().mutate(|store| {
        store.campaigns.get_mut(9).unwrap().name = "Somebody's".to_owned();
    });
    assert_each_exits_with(&environment, 4, &["undo main 1 --yes"]);
}

#[test]
fn a_guard_refusal_exits_with_5() {
    let mut store = Store::default();
    for nth in 1..=20 {
        store.add_campaign(&format!("Campaign {nth}"), None, true);
    }
    let service = LiveService::serving(store, "", "");
    let environment = TestEnvironment::new().account(&service.url());
    exported(&environment);
    let text = environment.text("sheets/campaigns.csv").replace("Campaign", "Kampagne");
    environment.write("sheets/campaigns.csv", &text);
    environment.write("campaigns.csv", &text);
    assert_each_exits_with(
        &environment,
        5,
        &[
            "apply sheets --to main --yes",
            "apply sheets --to main -n",
            "import campaigns.csv --to main --yes",
            "rehearse sheets --to main",
        ],
    );
    service.sandbox().mutate(|store| {
        for id in 1..=20 {
            store.campaigns.get_mut(id).unwrap().name = format!("Other {id}");
        }
    });
    assert_each_exits_with(&environment, 5, &["restore latest --to main --yes"]);
}

#[test]
fn an_unknown_outcome_exits_with_6_until_it_is_resolved() {
    let (environment, service) = backed_up();
    environment.write("qr_codes.csv", "type,data\ntext,hello\n");
    assert_each_exits_with(&environment, 0, &["import qr_codes.csv --to main --yes"]);
    environment.write("qr_codes.csv", "type,data\ntext,hello\ntext,bye\n");
    environment.edit("qr_codes.csv", "type,data\ntext,hello\n", "id,type,data\n13,text,salut\n");
    environment.edit("qr_codes.csv", "text,bye", ",text,bye");
    service.faults("lost-reply@PUT /api/qr");
    assert_each_exits_with(
        &environment,
        6,
        &["import qr_codes.csv --to main --yes", "resolve main 2"],
    );
    service.faults("");
    assert_each_exits_with(&environment, 0, &["resolve main 2 --leave 1"]);
}

/// Commands that write; each fails only because of what the test removes.
const WRITING: [&str; 4] = [
    "apply campaigns.csv --to main --yes",
    "import campaigns.csv --to main --yes",
    "restore latest --to main --yes",
    "undo main 1 --yes",
];

fn with_a_run() -> (TestEnvironment, LiveService) {
    let (environment, service) = backed_up();
    new_campaign(&environment);
    assert_each_exits_with(&environment, 0, &["import campaigns.csv --to main --yes -q"]);
    environment.write("campaigns.csv", "name\nAnother\n");
    (environment, service)
}

#[test]
fn a_wrong_key_exits_with_7() {
    let (environment, _service) = with_a_run();
    let environment = environment.variable("LINKS_KEY", "another-key");
    assert_each_exits_with(&environment, 7, &WRITING);
    assert_each_exits_with(
        &environment,
        7,
        &[
            "backup main",
            "doctor main",
            "doctor",
            "plan campaigns.csv --to main",
            "show main@live",
            "diff main@latest main@live",
            "export main@live --to live",
        ],
    );
    let (environment, _old, _new) = two();
    let environment = environment.variable("LINKS_KEY", "another-key");
    assert_each_exits_with(&environment, 7, &["migrate main empty --yes"]);
}

#[test]
fn a_reached_limit_exits_with_8() {
    let (environment, _service) = with_a_run();
    for line in WRITING.iter().chain(&[
        "backup main --fresh",
        "plan campaigns.csv --to main",
        "show main@live",
        "diff main@latest main@live",
        "export main@live --to live",
    ]) {
        assert_each_exits_with(&environment, 8, &[&format!("{line} --max-requests 1")]);
    }
    assert_each_exits_with(
        &environment,
        8,
        &["import campaigns.csv --to main --yes --max-requests 3"],
    );
    assert_each_exits_with(&environment, 8, &["resume main --max-requests 1"]);
    let (environment, _old, _new) = two();
    assert_each_exits_with(&environment, 8, &["migrate main empty --yes --max-requests 1"]);
}

#[test]
fn a_locked_vault_exits_with_11() {
    let (environment, _service) = with_a_run();
    let clock = SystemClock::new(Interrupt::default());
    let vault = environment.path("vaults").join("main.db");
    let lock = Lock::take(&vault, "another", std::time::Duration::ZERO, &clock).unwrap();
    assert_each_exits_with(&environment, 11, &WRITING);
    assert_each_exits_with(
        &environment,
        11,
        &["backup main", "resume main 1", "resolve main 1", "forget main --keep-last 1"],
    );
    drop(lock);
}

#[test]
fn an_interrupt_exits_with_130() {
    let (environment, service) = with_a_run();
    service.faults("latency=300ms");
    let migrate = "migrate main sandbox --yes";
    for line in WRITING.iter().chain(&["backup main --fresh", migrate]) {
        let before = service.request_count();
        let child = environment.start(&words(line));
        until("a request", || service.request_count() > before);
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let ran = environment.wait(child);
        assert_eq!(ran.code(), Some(130), "{line}: {}{}", ran.stdout(), ran.stderr());
    }
}

#[test]
fn daemon_once_has_the_exit_code_of_its_backups() {
    for (code, faults, key) in [
        (0, "", KEY),
        (3, "html@/api/campaigns", KEY),
        (1, "html@/api/account", KEY),
        (7, "", "no"),
    ] {
        let service = LiveService::start("", faults);
        let schedule = "schedule = \"0 3 * * *\"\n";
        let environment = TestEnvironment::new().account_with(&service.url(), schedule);
        assert_each_exits_with(&environment.variable("LINKS_KEY", key), code, &["daemon --once"]);
    }
}

/// A code that a command picks by itself is one that the table does not know of.
#[test]
fn exit_codes_are_made_in_one_file() {
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/cli")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("src/cli/exit.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|line| !line.contains("= Exit::")) {
                for code in ["Partial", "Failed", "Changes", "Unknown", "Stopped", "Guarded"] {
                    let named = line.contains(&format!("Exit::{code}"));
                    assert!(!named, "{}: {line}; use Exit::of", path.display());
                }
            }
        }
    }
}

/// The service answers a create with success, and the list afterwards lacks the record.
#[test]
fn a_confirmed_step_that_the_list_does_not_show_exits_with_3() {
    let faults = "garbage:huge-numbers@POST /api/campaign/add#1";
    let options = "cap-campaigns=0,error-status=200";
    let service = LiveService::serving(Store::default(), options, faults);
    let environment = TestEnvironment::new().account(&service.url());
    new_campaign(&environment);
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "--json"];
    let document = environment.run(&import).exits_with(3).json();
    let counts = ["done", "differs", "verified"].map(|it| document[it].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(0)]);
    environment.run(&["runs", "main"]).succeeds().stdout_has("partial");
    let resume = ["resume", "main", "1"];
    let resumed = environment.run(&resume).exits_with(3);
    resumed.stdout_has("1 done, 1 not as asked, 0 verified");
}
