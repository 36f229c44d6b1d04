//! The configured accounts, and the errors if there are none.

use crate::support::TestEnvironment;

const MAIN: &str = "[accounts.main]\nurl = \"https://a.example\"\nkey_env = \"K\"\n";

#[test]
fn a_command_without_a_configuration_prints_a_hint() {
    for command in [&["backup"][..], &["check", "main"]] {
        TestEnvironment::new().run(command).exits_with(1).stdout_is("").stderr_is(
            "error: no account is configured in HOME/config.toml\n\
             hint: run `linkvault init` to add an account, \
             or try things with the built-in account `sandbox`\n",
        );
    }
}

#[test]
fn an_unknown_account_suggests_a_similar_one_and_lists_all() {
    TestEnvironment::new().config(MAIN).run(&["check", "mian"]).exits_with(1).stderr_is(
        "error: there is no account `mian`\n\
         hint: did you mean `main`? The accounts are: main, sandbox\n",
    );
}

#[test]
fn all_mistakes_of_the_configuration_are_reported_at_once() {
    let config = "[accounts.main]\nurl = \"http://a.example\"\nshedule = \"0 3 * * *\"\n";
    TestEnvironment::new().config(config).run(&["check", "main"]).exits_with(1).stderr_is(
        "error: the configuration has 3 mistakes\n  \
           HOME/config.toml:1:1: accounts.main: the API key has no source; \
           add `key_env`, `key_file` or `key_command`\n  \
           HOME/config.toml:2:7: accounts.main.url: plain http would send the key \
           unencrypted; use https, or set allow_http for this account\n  \
           HOME/config.toml:3:1: accounts.main.shedule: unknown key; \
           did you mean `schedule`?\n\
         hint: fix the file and run the command again; nothing was done\n",
    );
}

#[test]
fn a_configuration_error_with_json_is_a_document() {
    let ran = TestEnvironment::new().run(&["check", "main", "--json"]).exits_with(1);
    let error = &ran.json()["error"];
    assert_eq!(error["kind"], "account");
    assert_eq!(error["message"], "no account is configured in HOME/config.toml");
    assert!(error["hint"].as_str().unwrap().contains("linkvault init"));
}

#[test]
#[cfg(unix)]
fn a_configuration_that_others_can_read_causes_a_warning() {
    TestEnvironment::new()
        .config(MAIN)
        .mode("config.toml", 0o644)
        .run(&["check", "mian"])
        .stderr_has(
            "warning: HOME/config.toml can be read by other users (mode 0644); \
             run: chmod 600 HOME/config.toml\n",
        );
}

/// A user who can write to the folder can replace the configuration.
#[test]
#[cfg(unix)]
fn a_home_that_others_can_write_to_causes_a_warning() {
    for config in [MAIN, ""] {
        let environment = TestEnvironment::new().config(config).mode(".", 0o777);
        if config.is_empty() {
            std::fs::remove_file(environment.path("config.toml")).unwrap();
        }
        environment.run(&["check", "mian"]).stderr_has(
            "warning: HOME can be written to by other users (mode 0777); run: chmod go-w HOME\n",
        );
        let environment = environment.mode(".", 0o755);
        let quiet = environment.run(&["check", "mian"]).stderr();
        assert!(!quiet.contains("written to by other users"), "{quiet}");
    }
}
