//! Plans that are longer than the screen.

use crate::support::{KEY, LiveService, TestEnvironment};

/// A pager that notes its input and its environment, and shows a line.
const NOTE: &str = "cat > seen; env > variables; echo paged";

/// The sample account, with a file of 30 new campaigns.
fn many() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let rows: Vec<_> = (1..=30).map(|nth| format!("Campaign {nth}\n")).collect();
    let environment = TestEnvironment::new()
        .account(&service.url())
        .variable("PAGER", "sh pager.sh")
        .file("pager.sh", NOTE)
        .file("campaigns.csv", &format!("name\n{}", rows.concat()));
    (environment, service)
}

const IMPORT: [&str; 4] = ["import", "campaigns.csv", "--to", "main"];
const PLAN: [&str; 4] = ["plan", "campaigns.csv", "--to", "main"];

#[test]
fn a_long_plan_goes_through_a_pager_that_does_not_get_the_key() {
    let (environment, service) = many();
    let terminal = environment.on_terminal(&IMPORT);
    terminal.shows("Apply 30 steps to main? ").types("n\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    // The end of the plan is shown above the question, and only there.
    let (_, after) = screen.split_once("paged\n").unwrap();
    assert!(after.starts_with("\n30 steps: 30 creates. "), "{screen}");
    assert_eq!(screen.matches("30 steps: ").count(), 1, "{screen}");
    assert!(!screen.contains("--summary"), "{screen}");
    assert!(!screen.contains("Campaign 7"), "{screen}");
    let seen = environment.text("seen");
    assert!(seen.starts_with("campaigns\n  + Campaign 1\n") && !seen.contains("30 steps: "));
    assert!(seen.ends_with("q leaves this view, then the summary follows --\n"), "{seen}");
    let variables = environment.text("variables");
    assert!(variables.contains("LESS=FRX") && !variables.contains(KEY), "{variables}");
    assert!(!variables.contains("LINKS_KEY"), "{variables}");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_pager_that_is_missing_or_fails_is_replaced_by_plain_output() {
    let (environment, _service) = many();
    for pager in ["no-such-pager", "false"] {
        let terminal = environment.on_terminal_with(&PLAN, |command| {
            command.env("PAGER", pager);
        });
        let (code, screen) = terminal.ended();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("  + Campaign 1\n") && screen.contains("30 steps: "), "{screen}");
    }
}

#[test]
fn no_pager_is_used_for_short_plans_and_where_none_is_wanted() {
    let (environment, _service) = many();
    let without = |arguments: &[&str], name: &str, value: &str| {
        let terminal = environment.on_terminal_with(arguments, |command| {
            command.env(name, value);
        });
        let (code, screen) = terminal.ended();
        assert_eq!(code, Some(0), "{screen}");
        assert!(!environment.path("seen").exists(), "{arguments:?} {name}={value}");
        screen
    };
    without(&[&PLAN[..], &["--no-pager"]].concat(), "X", "");
    without(&[&PLAN[..], &["--json"]].concat(), "X", "");
    without(&[&PLAN[..], &["-q"]].concat(), "X", "");
    without(&[&PLAN[..], &["--form", "markdown"]].concat(), "X", "");
    without(&PLAN, "TERM", "dumb");
    without(&PLAN, "PAGER", "cat");
    environment.run(&PLAN).succeeds();
    let short = without(&[&PLAN[..], &["--summary"]].concat(), "X", "");
    assert!(short.contains("campaigns: 30 creates\n\n30 steps: 30 creates. "), "{short}");
    environment.write("campaigns.csv", "name\nOne\n");
    without(&PLAN, "X", "");
    assert!(!environment.path("seen").exists());
}

#[test]
fn ctrl_c_in_the_pager_does_not_end_the_program() {
    let (environment, service) = many();
    // A shell that waits in `read` or for a child that reads the terminal can miss the signal just
    // before it begins to wait.
    environment.write(
        "pager.sh",
        "trap 'echo caught' INT; cat > /dev/null; echo ready; while [ ! -e go ]; do sleep 0.05; done",
    );
    let terminal = environment.on_terminal(&IMPORT);
    terminal.shows("ready\n").types("\u{3}").shows("caught\n");
    environment.write("go", "");
    terminal.shows("Apply 30 steps to main? ").types("n\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.ends_with("nothing was written\n"), "{screen}");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn sigterm_and_sighup_end_the_pager_and_then_the_program() {
    let (environment, service) = many();
    environment.write(
        "pager.sh",
        "echo $PPID > parent; cat > /dev/null; echo ready; while true; do sleep 0.05; done",
    );
    for signal in ["-TERM", "-HUP"] {
        let terminal = environment.on_terminal(&IMPORT);
        terminal.shows("ready\n");
        let parent = environment.text("parent");
        let killed = std::process::Command::new("kill").args([signal, parent.trim()]).status();
        assert!(killed.unwrap().success());
        let (code, screen) = terminal.ended();
        assert_eq!(code, Some(130), "{screen}");
        assert!(!screen.contains("stopping after"), "{screen}");
        assert!(screen.ends_with("nothing was written\n"), "{screen}");
    }
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn a_very_long_plan_names_the_flag_for_its_counts() {
    let (environment, _service) = many();
    let rows: Vec<_> = (1..=250).map(|nth| format!("Campaign {nth}\n")).collect();
    environment.write("campaigns.csv", &format!("name\n{}", rows.concat()));
    let (code, screen) = environment.on_terminal(&PLAN).ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        screen.contains("the plan has 503 lines; --summary prints its counts only"),
        "{screen}"
    );
}

#[test]
fn messages_are_broken_at_words_on_a_terminal_only() {
    let (environment, _service) = many();
    environment.write("channels.csv", "name,color\nOne,green\nTwo,blue\n");
    let import = ["import", "channels.csv", "--to", "main", "--annotate", "mistakes.csv"];
    let (code, screen) = environment.on_terminal(&import).ended();
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let hint = "hint: mistakes.csv has the rows with mistakes and the reasons; fix them in the";
    assert!(screen.contains(&format!("\n{hint}\n  input file and run ")), "{screen}");
    environment.run(&import).exits_with(1).stderr_has(&format!("\n{hint} input file and run "));
}
