//! Help texts: complete, within 80 columns, with examples that work.

use clap::Parser;
use linkvault::cli::{Cli, command_line};

use crate::support::TestEnvironment;

const COMMANDS: [&str; 32] = [
    "init",
    "doctor",
    "backup",
    "snapshots",
    "show",
    "log",
    "diff",
    "export",
    "template",
    "plan",
    "rehearse",
    "apply",
    "import",
    "restore",
    "migrate",
    "runs",
    "undo",
    "resume",
    "resolve",
    "forget",
    "check",
    "vault",
    "daemon",
    "status",
    "alerts",
    "ui",
    "sandbox",
    "capabilities",
    "worker",
    "fleet",
    "completions",
    "man",
];

#[test]
fn every_command_is_listed() {
    let help = TestEnvironment::new().run(&["--help"]).succeeds().stdout();
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
    }
    assert_eq!(command_line().get_subcommands().count(), COMMANDS.len());
}

#[test]
fn help_fits_eighty_columns_even_in_a_wide_terminal() {
    let environment = TestEnvironment::new().variable("COLUMNS", "200");
    let whole = std::iter::once(None).chain(COMMANDS.map(Some));
    for command in whole {
        let arguments: Vec<_> = command.into_iter().chain(["--help"]).collect();
        let help = environment.run(&arguments).succeeds().stderr_is("").stdout();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
        }
    }
}

#[test]
fn every_argument_has_a_help_sentence() {
    for command in command_line().get_subcommands() {
        let name = command.get_name();
        let about = command.get_about().expect(name).to_string();
        assert!(!about.ends_with('.') && !about.contains('\n'), "{name}: {about}");
        for argument in command.get_arguments() {
            let id = argument.get_id();
            let help = argument.get_help().unwrap_or_else(|| panic!("{name} {id}")).to_string();
            assert!(!help.ends_with('.') && !help.contains('\n'), "{name} {id}: {help}");
            assert!(argument.get_long_help().is_none(), "{name} {id} is explained twice");
        }
    }
}

#[test]
fn every_command_has_examples_that_parse() {
    for command in command_line().get_subcommands().chain([&command_line()]) {
        let name = command.get_name();
        let text = command.get_after_help().expect(name).to_string();
        let text = text.split("\n\n").next().unwrap().replace("\\\n", " ");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("Examples:"), "{name}");
        for line in lines {
            Cli::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}\n{error}"));
        }
    }
}

/// The words of an example, without its remark and what follows it in a pipe.
fn words(line: &str) -> Vec<&str> {
    let line = line.trim_start();
    let line = line.split([';', '|', '>']).next().unwrap();
    // A remark is indented; a continued line is indented further.
    let remark = line.find("  ").filter(|at| !line[*at..].trim_start().starts_with("--"));
    line[..remark.unwrap_or(line.len())].split_whitespace().collect()
}

#[test]
fn usage_errors_end_with_64_and_help_with_0() {
    let environment = TestEnvironment::new();
    environment.run(&["bakup"]).exits_with(64).stdout_is("").stderr_has("'backup'");
    environment.run(&[]).exits_with(64).stdout_is("");
    environment.run(&["backup", "--reserve", "-1"]).exits_with(64);
    environment.run(&["show", "main", "campains"]).exits_with(64).stderr_has("'campaigns'");
    let listen = ["sandbox", "--listen", "8080"];
    environment.run(&listen).exits_with(64).stderr_has("a port, such as 127.0.0.1:8080");
    environment.run(&["--version"]).succeeds().stdout_has("linkvault 0.");
    environment.run(&["help"]).succeeds().stdout_has("\nExamples:\n");
    let help = environment.run(&["help", "backup"]).succeeds().stdout();
    environment.run(&["backup", "--help"]).succeeds().stdout_is(&help);
    environment.run(&["help", "bakup"]).exits_with(64);
}

#[test]
fn localhost_is_a_valid_listen_address() {
    for command in ["ui", "daemon", "sandbox"] {
        let line = ["linkvault", command, "--listen", "localhost:8080"];
        Cli::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_usage_error_with_json_is_a_document() {
    let ran = TestEnvironment::new().run(&["show", "--json"]).exits_with(64);
    assert_eq!(ran.json()["error"]["kind"], "usage");
}

#[test]
fn a_usage_error_escapes_characters_that_could_deceive_a_terminal() {
    let environment = TestEnvironment::new();
    for wrong in ["bak\u{202e}up", "bak\u{2066}up", "bak\u{1b}[31mup", "bak\u{7}up", "bak\u{9b}up"]
    {
        for arguments in
            [&[wrong][..], &["backup", "--reserve", wrong], &["show", "--json", "x", wrong]]
        {
            let ran = environment.run(arguments).exits_with(64);
            let deceives = |it: char| {
                (it.is_control() && it != '\n') || ('\u{202a}'..='\u{2069}').contains(&it)
            };
            for text in [ran.stderr(), ran.stdout()] {
                assert!(!text.contains(deceives), "{text:?}");
            }
        }
    }
    environment.run(&["bak\u{202e}up"]).stderr_has("bak\\u{202e}up");
}

#[test]
fn a_flag_overrides_its_environment_variable() {
    let environment = TestEnvironment::new().variable("LINKVAULT_RESERVE", "many");
    environment.run(&["backup"]).exits_with(64).stderr_has("invalid value 'many'");
    environment.run(&["backup", "--reserve", "3"]).exits_with(1).stderr_has("no account");
    let environment = TestEnvironment::new().variable("LINKVAULT_MAX_STALENESS", "many");
    for command in [&["apply", "x"][..], &["restore", "#1"], &["import", "x.csv"], &["plan", "x"]] {
        let ran = environment.run(&[command, &["--to", "main"]].concat()).exits_with(64);
        ran.stderr_has("invalid value 'many'");
    }
    for command in [&["undo", "main", "1"][..], &["resume", "main"], &["migrate", "a", "b"]] {
        environment.run(command).exits_with(64).stderr_has("invalid value 'many'");
    }
}
