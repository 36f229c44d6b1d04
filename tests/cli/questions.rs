//! Questions on a terminal.

use crate::support::{KEY, LiveService, TestEnvironment};

const KEY_QUESTION: &str = "not shown; Enter to name a variable: ";
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
    environment.run(&["backup", "-q"]).succeeds().says("");
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
fn init_does_not_replace_a_key_file() {
    let environment = TestEnvironment::new();
    std::fs::create_dir(environment.path("keys")).unwrap();
    environment.write("keys/main", "old");
    let url = ["init", "--url", "https://links.example.com"];
    let (code, screen) = environment.on_terminal(&url).ended();
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.contains("already exists; nothing was written"), "{screen}");
    assert!(screen.contains("hint: pass --key-file FILE"), "{screen}");
    assert_eq!(environment.files().len(), 1);
}
