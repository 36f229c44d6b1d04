//! Questions on a terminal.

use crate::support::{KEY, LiveService, TestEnvironment};

const KEY_QUESTION: &str = "(not shown; leave it empty to name a variable): ";
const VARIABLE_QUESTION: &str = "[LINKVAULT_KEY]: ";

#[test]
fn init_writes_a_pasted_key_to_a_private_file_and_does_not_show_it() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new();
    let terminal = environment.on_terminal(&["init"]);
    terminal.shows("before /api: ").types(&format!("{}\n", service.url()));
    terminal.shows(KEY_QUESTION).types(&format!("{KEY}\n"));
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("keys/main\n") && !screen.contains(KEY), "{screen}");
    assert_eq!(environment.text("keys/main"), format!("{KEY}\n"));
    assert!(environment.text("config.toml").contains("key_file = \"keys/main\""));
    environment.run(&["backup", "-q"]).succeeds().stderr_is("");
}

#[test]
fn init_asks_for_the_scheme_of_the_url_at_once() {
    let environment = TestEnvironment::new().variable("LINKVAULT_KEY", KEY);
    let terminal = environment.on_terminal(&["init", "--no-check"]);
    terminal.shows("before /api: ").types("links.example.com\n");
    terminal.shows("[https://links.example.com]: ").types("\n");
    terminal.shows(KEY_QUESTION).types("\n");
    terminal.shows(VARIABLE_QUESTION).types("\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    let config = environment.text("config.toml");
    assert!(config.contains("url = \"https://links.example.com\""), "{config}");
    assert!(config.contains("key_env = \"LINKVAULT_KEY\""), "{config}");
    assert!(!environment.path("keys").exists());
}

#[test]
fn a_key_in_place_of_a_variable_is_not_repeated() {
    let environment = TestEnvironment::new();
    for key in ["aB3dE5fG7hJ9kL1mN", "geheim"] {
        let url = "https://links.example.com";
        let terminal = environment.on_terminal(&["init", "--url", url]);
        terminal.shows(KEY_QUESTION).types("\n");
        terminal.shows(VARIABLE_QUESTION).types(&format!("{key}\n"));
        terminal.shows_times(VARIABLE_QUESTION, 2).types("\u{4}");
        let (code, screen) = terminal.ended();
        assert_eq!(code, Some(64), "{screen}");
        // The terminal itself shows what is typed.
        assert_eq!(screen.matches(key).count(), 1, "{screen}");
    }
    let init = ["init", "--url", "https://links.example.com", "--no-check", "--key-env"];
    let ran = environment.run(&[&init[..], &["aB3dE5fG7hJ9kL1mN"]].concat()).exits_with(64);
    assert!(!ran.stderr().contains("aB3d"), "{}", ran.stderr());
    assert_eq!(environment.files(), []);
}

#[test]
fn ctrl_c_at_a_question_of_init_writes_nothing() {
    let environment = TestEnvironment::new();
    let url = ["init", "--url", "https://links.example.com"];
    for (arguments, question) in [(&url[..1], "before /api: "), (&url[..], KEY_QUESTION)] {
        let terminal = environment.on_terminal(arguments);
        terminal.shows(question).types("\u{3}");
        let (code, screen) = terminal.ended();
        assert_eq!(code, Some(130), "{screen}");
        assert!(screen.ends_with("error: interrupted; nothing was written\n"), "{screen}");
        assert_eq!(environment.files(), []);
    }
}

#[test]
fn ctrl_c_at_a_question_for_a_password_leaves_the_echo_on() {
    let (environment, service) = edited();
    let password = ["apply", "--set-password", "--to", "main"];
    let terminal = environment.on_terminal(&password);
    terminal.shows("New password of the account: ").types("geheim\n");
    terminal.shows("The same again: ").types("\u{3}");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.ends_with("error: interrupted; nothing was written\n"), "{screen}");
    assert!(!screen.contains("geheim"), "{screen}");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn init_does_not_replace_a_key_file() {
    let environment = TestEnvironment::new();
    std::fs::create_dir(environment.path("keys")).unwrap();
    environment.write("keys/main", "old");
    let url = ["init", "--url", "https://links.example.com"];
    let (code, screen) = environment.on_terminal(&url).ended();
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.contains("already exists; nothing was"), "{screen}");
    assert!(screen.contains("hint: pass --key-file FILE"), "{screen}");
    assert_eq!(environment.files().len(), 1);
}

const PLAN_QUESTION: &str = "[y/N, s: step by step] ";
const STEP_QUESTION: &str = "[y,n,a,q,g,d,?] ";

/// The sample account, with an export in which two campaigns are renamed and a channel with an item
/// is added: four steps.
fn edited() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    environment.edit("sheets/campaigns.csv", "Summer Sale", "Autumn Sale");
    environment.edit("sheets/campaigns.csv", "Author Evenings", "Author Nights");
    let channels = environment.text("sheets/channels.csv");
    environment.write("sheets/channels.csv", &format!("{channels},Autumn,,#112233,false\n"));
    let items = environment.text("sheets/channel_items.csv");
    environment.write("sheets/channel_items.csv", &format!("{items}Autumn,links,103,,,,\n"));
    service.new_requests();
    (environment, service)
}

const APPLY: [&str; 4] = ["apply", "sheets", "--to", "main"];

#[test]
fn keys_that_were_typed_before_the_question_do_not_answer_it() {
    let (environment, service) = edited();
    let terminal = environment.on_terminal(&APPLY);
    terminal.types("y\ny\n");
    terminal.shows("Apply 4 steps to main? [y/N, s: step by step] ").types("n\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.ends_with("nothing was written\n"), "{screen}");
    assert_eq!(service.writes(), Vec::<String>::new());
}

#[test]
fn an_answer_that_is_none_is_asked_again() {
    let (environment, service) = edited();
    let terminal = environment.on_terminal(&APPLY);
    terminal.shows(PLAN_QUESTION).types("x\n");
    terminal.shows_times(PLAN_QUESTION, 2).types("all\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("y: apply all steps; n: apply none"), "{screen}");
    assert_eq!(service.writes().len(), 4);
}

#[test]
fn steps_are_chosen_one_by_one_and_dependents_of_a_declined_one_are_left_out() {
    let (environment, service) = edited();
    let terminal = environment.on_terminal(&APPLY);
    terminal.shows(PLAN_QUESTION).types("s\n");
    // Two campaigns, then the channel, of which the item depends.
    for (nth, answer) in ["n\n", "y\n", "n\n"].iter().enumerate() {
        terminal.shows_times(STEP_QUESTION, nth + 1).types(answer);
    }
    terminal.shows("Apply 1 of 4 steps to main? [y/N] ").types("y\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("Apply this step (3 of 4)? [y,n,a,q,g,d,?] n\nstep 4 "), "{screen}");
    assert!(screen.contains(" is left out: it depends on step 3\n1 step: 1 update. "), "{screen}");
    assert_eq!(service.writes(), ["PUT /api/campaign/4/update"]);
    let shown = environment.run(&["runs", "main", "1"]).succeeds();
    shown.stdout_has("\n   1  update  campaigns  4 Summer Sale  done   verified\nrun 1");
}

#[test]
fn the_results_tell_which_rows_were_declined() {
    let (environment, _service) = edited();
    let results = ["--interactive", "--results", "results.csv"];
    let terminal = environment.on_terminal(&[&APPLY[..], &results].concat());
    terminal.shows(STEP_QUESTION).types("n\n");
    terminal.shows_times(STEP_QUESTION, 2).types("y\n");
    terminal.shows_times(STEP_QUESTION, 3).types("q\n");
    terminal.shows("Apply 1 of 4 steps to main? [y/N] ").types("y\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    let results = environment.text("results.csv");
    assert_eq!(results.matches(",declined,").count(), 3, "{results}");
    assert_eq!(results.matches(",done,").count(), 1, "{results}");
}

#[test]
fn interactive_asks_about_each_step_at_once() {
    let (environment, service) = edited();
    let interactive = [&APPLY[..], &["--interactive"]].concat();
    environment.run(&interactive).exits_with(64).stderr_has("without a terminal");
    let terminal = environment.on_terminal(&interactive);
    terminal.shows(STEP_QUESTION).types("q\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.ends_with("nothing was written\n"), "{screen}");
    let terminal = environment.on_terminal(&interactive);
    terminal.shows(STEP_QUESTION).types("\n");
    terminal.shows_times(STEP_QUESTION, 2).types("?\n");
    terminal.shows_times(STEP_QUESTION, 3).types("a\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("\na: apply it and all the rest\n"), "{screen}");
    assert_eq!(service.writes().len(), 4);
}

#[test]
fn ctrl_c_at_a_step_writes_nothing() {
    let (environment, service) = edited();
    let terminal = environment.on_terminal(&[&APPLY[..], &["--interactive"]].concat());
    terminal.shows(STEP_QUESTION).types("y\n");
    terminal.shows_times(STEP_QUESTION, 2).types("\u{3}");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.ends_with("error: interrupted; nothing was written\n"), "{screen}");
    assert_eq!(service.writes(), Vec::<String>::new());
    let snapshots = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1, "{snapshots}");
}

#[test]
fn the_exact_number_lifts_the_limit_of_a_guard_on_a_terminal() {
    let (environment, service) = edited();
    let limited = [&APPLY[..], &["--max-update", "1"]].concat();
    environment.run(&limited).exits_with(5).stderr_has("intended, add --max-update 2\n");
    environment.run(&[&limited[..], &["--yes"]].concat()).exits_with(5);
    let question = "Type 2 to allow it, or Enter to stop: ";
    for answer in ["\n", "3\n", "y\n"] {
        let terminal = environment.on_terminal(&limited);
        terminal.shows(question).types(answer);
        let (code, screen) = terminal.ended();
        assert_eq!(code, Some(5), "{screen}");
        assert!(screen.contains("warning: the plan updates 2 of 8 campaigns; the limit is 1\n"));
    }
    assert_eq!(service.writes(), Vec::<String>::new());
    let terminal = environment.on_terminal(&limited);
    terminal.shows(question).types("2\n");
    terminal.shows(PLAN_QUESTION).types("y\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(service.writes().len(), 4);
}
