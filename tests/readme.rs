//! The README, held against the program: what it shows is run, and what it
//! lists is compared.
//!
//! `LINKVAULT_BLESS=1 cargo test readme` writes what the program prints now
//! into the sessions. Read the difference before you keep it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use linkvault::cli::{Cli, command_line};
use linkvault::vault::Vault;
use serde_json::Value;
use tempfile::TempDir;

const README: &str = include_str!("../README.md");

/// A fenced block: its language, what stands in it, and the line before it.
struct Block {
    language: String,
    text: String,
    before: String,
}

fn blocks(language: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for line in README.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, Some(name)) => {
                let (language, before) = (name.to_owned(), before.to_owned());
                open = Some(Block { language, text: String::new(), before });
            }
            (None, None) => {}
        }
        before = line;
    }
    found.into_iter().filter(|block| block.language == language).collect()
}

/// A user's home on a fresh machine.
struct Home(TempDir);

impl Home {
    fn run(&self, command: &str) -> String {
        let words = words(command);
        match words[0].as_str() {
            "linkvault" => self.linkvault(&words[1..]),
            "sed" => self.sed(&words[1..]),
            "sqlite3" => query(&self.path(&words[1]), &words[2]),
            other => panic!("nobody knows how to run {other}"),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        path.strip_prefix("~/").map_or_else(|| path.into(), |rest| self.0.path().join(rest))
    }

    /// Edits a file, as somebody would in a spreadsheet.
    fn sed(&self, arguments: &[String]) -> String {
        let [flag, script, file] = arguments else { panic!("{arguments:?}") };
        assert_eq!(flag, "-i");
        let ["s", old, new, ""] = script.split('/').collect::<Vec<_>>()[..] else {
            panic!("{script}")
        };
        let path = self.0.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old));
        std::fs::write(path, text.replacen(old, new, 1)).unwrap();
        String::new()
    }

    fn linkvault(&self, arguments: &[String]) -> String {
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("linkvault"))
            .args(arguments)
            .env_clear()
            .envs([("COLUMNS", "80"), ("TZ", "UTC")])
            .env("HOME", self.0.path())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
        String::from_utf8(output.stdout).unwrap().replace(&self.0.path().display().to_string(), "~")
    }
}

/// The words of a command, as a shell splits them.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in command.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What `sqlite3` prints.
fn query(vault: &Path, sql: &str) -> String {
    let db = rusqlite::Connection::open(vault).unwrap();
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let cell = |at| match row.get(at)? {
            rusqlite::types::Value::Text(text) => Ok(text),
            rusqlite::types::Value::Integer(number) => Ok(number.to_string()),
            _ => Ok(String::new()),
        };
        (0..columns).map(cell).collect::<rusqlite::Result<Vec<String>>>()
    };
    let rows = statement.query_map([], row).unwrap();
    rows.map(|row| row.unwrap().join("|") + "\n").collect()
}

/// The text with what differs from run to run made the same: times, durations,
/// sizes, and how many scans there were meanwhile.
fn stable(text: &str) -> String {
    let mut stable = String::new();
    for line in text.lines() {
        let moves = ["requests in", " scan", "Saved in", " 20", "#"];
        let line = line.trim_end();
        if moves.iter().any(|word| line.contains(word)) {
            let digits = line.replace(|letter: char| letter.is_ascii_digit(), "0");
            let words = digits.split_whitespace().map(|word| {
                let number = word.trim_start_matches(['+', '(']).trim_start_matches('0');
                if number.is_empty() || number.starts_with('.') { "0" } else { word }
            });
            stable += &words
                .collect::<Vec<_>>()
                .join(" ")
                .replace("QR codes", "QR code")
                .replace(" scans on", " scan on");
        } else {
            stable += line;
        }
        stable.push('\n');
    }
    stable
}

#[test]
#[cfg(target_os = "linux")] // elsewhere the vaults are in another folder
fn the_sessions_are_true() {
    let home = Home(tempfile::tempdir().unwrap());
    let mut now = README.to_owned();
    for block in blocks("console") {
        if block.before.contains("wait") {
            // Only time moves the counters of the built-in account.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_secs(4));
        }
        let mut told = String::new();
        for command in block.text.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let gap = if told.is_empty() { "" } else { "\n" };
            told += &format!("{gap}$ {command}\n{}", home.run(command));
        }
        if std::env::var_os("LINKVAULT_BLESS").is_some() {
            let (old, new) = (&block.text, &told);
            now =
                now.replacen(&format!("```console\n{old}```"), &format!("```console\n{new}```"), 1);
        } else {
            assert_eq!(stable(&told), stable(&block.text), "\n{told}");
        }
    }
    if now != README {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        std::fs::write(file, now).unwrap();
    }
}

#[test]
fn every_command_line_is_understood() {
    let mut count = 0;
    for line in blocks("sh").iter().flat_map(|block| block.text.lines()) {
        let line = line.split("  #").next().unwrap().trim_end();
        let arguments = match line.strip_prefix("cargo run --release -- ") {
            Some(rest) => words(&format!("linkvault {rest}")),
            None if line.starts_with("linkvault ") => words(line),
            None => continue,
        };
        Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{line}\n{error}"));
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn every_command_is_shown() {
    for command in command_line().get_subcommands() {
        let shown = format!("linkvault {}", command.get_name());
        assert!(README.contains(&shown), "{shown}");
    }
}

#[test]
fn the_resources_are_those_of_the_table() {
    let printed = linkvault::cli::commands::capabilities::markdown();
    let (_, rest) = README.split_once("<!-- capabilities -->\n").unwrap();
    assert_eq!(rest.split_once("<!-- end -->").unwrap().0, printed);
}

#[test]
fn the_configuration_shown_is_the_sample() {
    let sample = include_str!("../examples/config.toml");
    assert_eq!(blocks("toml")[0].text, sample);
}

/// The cells of the README's table rows.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = README.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").collect())
}

fn codes(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_view_is_listed_with_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.db");
    Vault::open_or_create(&file).unwrap().close().unwrap();
    let sql = "select m.name, group_concat(p.name, ' ') from sqlite_master m,
               pragma_table_info(m.name) p where m.type = 'view' group by 1";
    let views = query(&file, sql);
    for view in views.lines() {
        let (name, columns) = view.split_once('|').unwrap();
        let (plain, columns) = match name.strip_suffix("_history") {
            Some(plain) => {
                let history = "since_snapshot until_snapshot since until ";
                (plain, columns.strip_prefix(history).expect(name))
            }
            None => (name, columns),
        };
        let listed = rows().any(|row| {
            row[0] == format!("`{plain}`") && row.len() == 2 && codes(row[1]).join(" ") == columns
        });
        assert!(listed, "| `{plain}` | {columns} |");
    }
    assert!(views.lines().count() > 20);
}

#[test]
fn every_exit_code_is_listed_and_no_other() {
    let numbers = |text: &str| text.trim().parse::<u8>().ok();
    let listed: BTreeSet<_> = rows().filter_map(|row| numbers(row[0])).collect();
    let source = include_str!("../src/cli/error.rs");
    let (_, rest) = source.split_once("pub enum Exit {").unwrap();
    let names = rest.split_once("\n}").unwrap().0.lines();
    let real = names.filter_map(|line| numbers(line.split_once('=')?.1.trim_end_matches(',')));
    assert_eq!(listed, real.collect());
}

#[test]
fn every_variable_is_listed_once_and_no_other() {
    let mut real = vec!["LINKVAULT_HOME".to_owned(), "LINKVAULT_KEY".to_owned()];
    for command in command_line().get_subcommands().chain([&command_line()]) {
        let of = |it: &clap::Arg| it.get_env().map(|name| name.to_str().unwrap().to_owned());
        real.extend(command.get_arguments().filter_map(of));
    }
    real.sort_unstable();
    real.dedup();
    let mut listed: Vec<_> = rows().flat_map(|row| variables(row[0])).collect();
    listed.sort_unstable();
    assert_eq!(listed, real);
}

#[test]
fn every_variable_that_a_command_for_alerts_is_given_is_told() {
    let (_, passage) = README.split_once("`command`\nreads the same JSON").unwrap();
    let told: BTreeSet<_> = variables(passage.split_once("\n\n").unwrap().0).collect();
    let (code, _) = include_str!("../src/cli/alerting.rs").split_once("#[cfg(test)]").unwrap();
    assert_eq!(told, variables(code).collect());
    assert!(told.len() > 2);
}

fn variables(text: &str) -> impl Iterator<Item = String> {
    let part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let words = text.split(move |letter: char| !part(letter));
    words.filter(|word| word.starts_with("LINKVAULT_")).map(str::to_owned)
}

#[test]
fn the_documents_for_programs_have_the_keys_that_are_promised() {
    let home = Home(tempfile::tempdir().unwrap());
    home.run("linkvault backup sandbox");
    for block in blocks("json") {
        let command = README
            .split(&block.text)
            .next()
            .unwrap()
            .rsplit('`')
            .find(|part| part.starts_with("linkvault ") && part.ends_with("--json"));
        let real: Value = serde_json::from_str(&home.run(command.unwrap())).unwrap();
        assert_has_keys(&real, &serde_json::from_str(&block.text).unwrap());
    }
}

fn assert_has_keys(real: &Value, promised: &Value) {
    for (name, value) in promised.as_object().into_iter().flatten() {
        let found = real.get(name).unwrap_or_else(|| panic!("{name} is not in {real}"));
        assert_eq!(std::mem::discriminant(found), std::mem::discriminant(value), "{name}");
        assert_has_keys(found, value);
    }
}

#[test]
fn everything_that_it_points_to_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let starts = ["src/", "tests/", "examples/", "LICENSE", "ARCHITECTURE", "benches/"];
    let mut count = 0;
    for name in README.lines().filter(|line| !line.starts_with("```")).flat_map(codes) {
        if starts.iter().any(|start| name.starts_with(start)) {
            assert!(root.join(name).exists(), "{name}");
            count += 1;
        }
    }
    assert!(count > 10);
}
