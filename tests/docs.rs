//! README.md and the files in `docs/`, compared with the program: sessions are run
//! (`docs/session.rs`), lists are compared, links are followed.

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Parser;
use linkvault::cli::{Cli, command_line};
use linkvault::clock::Timestamp;
use linkvault::health::alert_message::document;
use linkvault::health::attempt::{Alert, AlertEvent, ProblemKind};
use linkvault::vault::Vault;
use serde_json::Value;

use session::{Home, query, words};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file, by its path from the root of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// README.md and the files in `docs/`.
fn docs() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<_> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .chain(["README.md".to_owned()])
        .collect();
    paths.sort_unstable();
    paths
}

/// A fenced block: its language, its text, and the line before it.
struct Block {
    language: String,
    text: String,
    before: String,
}

fn all_blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
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
    found
}

fn blocks(text: &str, language: &str) -> Vec<Block> {
    all_blocks(text).into_iter().filter(|block| block.language == language).collect()
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The part of a file under the heading `heading`.
fn section(path: &str, heading: &str) -> String {
    let text = read(path);
    let (_, rest) = text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| {
        panic!("{path} has no heading `{heading}`");
    });
    rest.split("\n## ").next().unwrap().to_owned()
}

#[test]
fn every_file_with_a_session_has_a_test() {
    let tests = include_str!("docs/session.rs");
    for path in docs() {
        let tested = tests.contains(&format!("check_session(\"{path}\")"));
        assert_eq!(tested, !blocks(&read(&path), "console").is_empty(), "{path}");
    }
}

/// `console` is run, `sh` parsed, `json` and `toml` are compared with what the program has.
#[test]
fn every_code_block_has_a_tested_language() {
    for path in docs() {
        for block in all_blocks(&read(&path)) {
            let known = match block.language.as_str() {
                "console" => block.text.starts_with("$ "),
                "json" => ["docs/json.md", "docs/daemon.md"].contains(&path.as_str()),
                language => ["sh", "toml"].contains(&language),
            };
            assert!(known, "{path}: ```{}\n{}", block.language, block.text);
        }
    }
}

#[test]
fn every_command_line_parses() {
    let texts: Vec<_> = docs().iter().map(|path| read(path)).collect();
    let mut count = 0;
    for block in texts.iter().flat_map(|text| blocks(text, "sh")) {
        for line in block.text.lines() {
            let line = line.split("  #").next().unwrap().trim();
            let arguments = match line.strip_prefix("cargo run -- ") {
                Some(rest) => words(&format!("linkvault {rest}")),
                None if line.starts_with("linkvault ") => words(line),
                None => continue,
            };
            Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{line}\n{error}"));
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}

/// Inline commands may leave out arguments, but each command and flag must exist.
#[test]
fn every_inline_command_and_flag_exists() {
    for path in docs() {
        let text = read(&path);
        let joined: Vec<_> = prose(&text).collect();
        let joined = joined.join(" ");
        for code in codes(&joined).into_iter().filter_map(|code| code.strip_prefix("linkvault ")) {
            let words = words(code);
            let Some(command) = command_line().find_subcommand(&words[0]).cloned() else {
                assert!(words[0] == "COMMAND", "{path}: linkvault {code}");
                continue;
            };
            let whole = command_line();
            let inner = words.get(1).and_then(|word| command.find_subcommand(word));
            let known = [Some(&command), inner, Some(&whole)];
            for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
                let has =
                    |it: &clap::Command| it.get_arguments().any(|arg| arg.get_long() == Some(flag));
                assert!(known.into_iter().flatten().any(has), "{path}: linkvault {code}");
            }
        }
    }
}

#[test]
fn every_command_is_shown_in_the_readme() {
    let readme = read("README.md").replace('\n', " ");
    for command in command_line().get_subcommands() {
        let shown = format!("linkvault {}", command.get_name());
        assert!(readme.contains(&shown), "{shown}");
    }
}

#[test]
fn the_table_of_capabilities_is_the_printed_one() {
    let text = read("docs/changes.md");
    let (_, rest) = text.split_once("<!-- capabilities -->\n").unwrap();
    let printed = linkvault::cli::commands::capabilities::markdown();
    assert_eq!(rest.split_once("<!-- end -->").unwrap().0, printed);
}

#[test]
fn the_reference_of_configuration_keys_is_that_of_the_parser() {
    let text = read("docs/configuration.md");
    let (_, rest) = text.split_once("<!-- keys -->\n").unwrap();
    let shown = rest.split_once("<!-- end -->").unwrap().0;
    let reference = linkvault::config::reference();
    assert_eq!(shown, reference, "docs/configuration.md must have:\n{reference}");
}

#[test]
fn the_configuration_shown_is_the_sample() {
    let sample = include_str!("../examples/config.toml");
    assert_eq!(blocks(&read("docs/configuration.md"), "toml")[0].text, sample);
}

#[test]
fn every_configuration_key_in_an_example_is_in_the_reference() {
    let reference = linkvault::config::reference();
    for path in docs().iter().filter(|path| *path != "docs/configuration.md") {
        for block in blocks(&read(path), "toml") {
            for (key, _) in block.text.lines().filter_map(|line| line.split_once(" = ")) {
                assert!(reference.contains(&format!("| `{key}` |")), "{path}: {key}");
            }
        }
    }
}

/// The cells of each table row of `text`.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(str::trim).collect()).collect()
}

fn codes(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_view_is_listed_with_its_columns() {
    let text = read("docs/sql.md");
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
        let listed = rows(&text).into_iter().any(|row| {
            row[0] == format!("`{plain}`") && row.len() == 2 && codes(row[1]).join(" ") == columns
        });
        assert!(listed, "| `{plain}` | {columns} |");
    }
    assert!(views.lines().count() > 20);
}

#[test]
fn exactly_the_exit_codes_are_listed() {
    let numbers = |text: &str| text.trim().parse::<u8>().ok();
    let text = section("docs/json.md", "## Exit codes");
    let listed: BTreeSet<_> = rows(&text).iter().filter_map(|row| numbers(row[0])).collect();
    let source = include_str!("../src/cli/exit.rs");
    let (_, rest) = source.split_once("pub enum Exit {").unwrap();
    let names = rest.split_once("\n}").unwrap().0.lines();
    let real = names.filter_map(|line| numbers(line.split_once('=')?.1.trim_end_matches(',')));
    assert_eq!(listed, real.collect());
}

#[test]
fn every_command_has_its_exit_codes_once() {
    let text = section("docs/json.md", "### Codes by command");
    let table = rows(&text).into_iter().flat_map(|row| codes(row[0]));
    let mut listed: Vec<_> = table.map(|code| code.split(' ').next().unwrap()).collect();
    listed.sort_unstable();
    // `daemon` has a row with `--once` and one without.
    listed.dedup();
    let whole = command_line();
    let mut real: Vec<_> = whole.get_subcommands().map(clap::Command::get_name).collect();
    real.sort_unstable();
    assert_eq!(listed, real);
}

#[test]
fn exactly_the_variables_are_listed() {
    let mut real = vec!["LINKVAULT_HOME".to_owned(), "LINKVAULT_KEY".to_owned()];
    for command in command_line().get_subcommands().chain([&command_line()]) {
        let of = |it: &clap::Arg| it.get_env().map(|name| name.to_str().unwrap().to_owned());
        real.extend(command.get_arguments().filter_map(of));
    }
    real.sort_unstable();
    real.dedup();
    let text = section("docs/json.md", "## Environment variables");
    let mut listed: Vec<_> = rows(&text).iter().flat_map(|row| variables(row[0])).collect();
    listed.sort_unstable();
    assert_eq!(listed, real);
}

#[test]
fn every_variable_of_an_alert_command_is_listed() {
    let text = section("docs/daemon.md", "## Alerts");
    let listed: BTreeSet<_> = variables(&text).collect();
    let (code, _) =
        include_str!("../src/ops/alert_delivery.rs").split_once("#[cfg(test)]").unwrap();
    assert_eq!(listed, variables(code).collect());
    assert!(listed.len() > 2);
}

#[test]
fn every_problem_of_an_alert_is_listed() {
    let text = section("docs/daemon.md", "## Alerts");
    let listed: BTreeSet<_> =
        rows(&text).into_iter().skip(1).flat_map(|row| codes(row[0])).collect();
    let real = ProblemKind::ALL.map(|kind| kind.name());
    assert_eq!(listed, real.into_iter().collect());
}

#[test]
fn the_alert_shown_has_the_keys_of_an_alert() {
    let shown: Value =
        serde_json::from_str(&blocks(&read("docs/daemon.md"), "json")[0].text).unwrap();
    let alert = Alert {
        kind: ProblemKind::Failed,
        event: AlertEvent::Begun,
        since: Timestamp(0),
        at: Timestamp(0),
        message: String::new(),
        hint: Some(String::new()),
    };
    let real = document("main", &alert);
    assert_has_keys(&real, &shown);
    assert_has_keys(&shown, &real);
}

fn variables(text: &str) -> impl Iterator<Item = String> {
    let part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let words = text.split(move |letter: char| !part(letter));
    words.filter(|word| word.starts_with("LINKVAULT_")).map(str::to_owned)
}

#[test]
fn the_json_documents_have_the_keys_that_are_shown() {
    let text = read("docs/json.md");
    let home = Home::new();
    home.run("linkvault backup sandbox");
    for block in blocks(&text, "json") {
        let before = text.split(&block.text).next().unwrap();
        let shown = |part: &&str| part.starts_with("linkvault ") && part.ends_with("--json");
        let command = before.rsplit('`').find(shown).unwrap();
        let real: Value = serde_json::from_str(&home.run(command)).unwrap();
        assert_has_keys(&real, &serde_json::from_str(&block.text).unwrap());
    }
}

/// Of each command under `Other commands`: the keys in its paragraph are in its documents,
/// and the members of the last document are in the paragraph.
#[test]
fn the_json_documents_of_other_commands_have_the_listed_keys() {
    let text = section("docs/json.md", "## Documents");
    let (_, others) = text.split_once("### Other commands\n").unwrap();
    let home = Home::new();
    home.run("linkvault sandbox --listen 127.0.0.1:8081 --key key-of-new --limit 0 &");
    home.run("export NEW_KEY=key-of-new");
    home.run("linkvault init new --url http://127.0.0.1:8081 --key-env NEW_KEY --yes");
    home.run("linkvault export sandbox@live --to sheets --only channels,pixels");
    home.run("sed -i s/5,Partners/,Partner/ sheets/channels.csv");
    home.run("sed -i s/GTM-/GTX-/ sheets/pixels.csv");
    let commands = [
        ("plan", vec!["plan sheets --to sandbox"]),
        ("apply", vec!["apply sheets --to sandbox -n", "apply sheets --to sandbox --yes"]),
        ("migrate", vec!["migrate sandbox new -n", "migrate sandbox new --verify-only"]),
    ];
    let paragraphs: Vec<_> = others.trim().split("\n- ").collect();
    assert_eq!(paragraphs.len(), commands.len());
    for (paragraph, (name, runs)) in paragraphs.into_iter().zip(commands) {
        let (names, rest) = paragraph.split_once(':').unwrap();
        assert!(codes(names).contains(&name), "{names}");
        let (mut real, mut last) = (BTreeSet::new(), Value::Null);
        for run in runs {
            let (document, _) = home.try_run(&format!("linkvault {run} --json"));
            last = serde_json::from_str(&document).unwrap();
            collect_keys(&last, &mut real);
        }
        for key in last.as_object().unwrap().keys().filter(|key| *key != "format") {
            assert!(codes(rest).contains(&key.as_str()), "{name}: {key} is not named");
        }
        let is_key = |code: &&str| !code.starts_with('-') && *code != "null";
        for key in codes(rest).into_iter().filter(is_key) {
            assert!(real.contains(key), "{name}: {key} is not in {real:?}");
        }
    }
}

/// The names of all members of a document.
fn collect_keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                found.insert(name.clone());
                collect_keys(member, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, found)),
        _ => {}
    }
}

fn assert_has_keys(real: &Value, shown: &Value) {
    for (name, value) in shown.as_object().into_iter().flatten() {
        let found = real.get(name).unwrap_or_else(|| panic!("{name} is not in {real}"));
        assert_eq!(std::mem::discriminant(found), std::mem::discriminant(value), "{name}");
        assert_has_keys(found, value);
    }
}

#[test]
fn the_figures_of_the_readme_are_in_the_benchmarks() {
    let benchmarks = read("docs/benchmarks.md");
    let benchmarks = rows(&benchmarks);
    let readme = section("README.md", "## Figures");
    let figures = rows(&readme);
    assert_eq!(figures.len(), 4);
    for figure in &figures[1..] {
        let same = |row: &&Vec<&str>| row[0] == figure[2] && row[1] == figure[1];
        assert!(benchmarks.iter().any(|row| same(&row)), "{figure:?}");
    }
}

#[test]
fn every_source_path_that_is_named_exists() {
    let starts = ["src/", "tests/", "examples/", "docs/", "LICENSE", "ARCHITECTURE", "benches/"];
    let mut count = 0;
    for path in docs() {
        let text = read(&path);
        for name in prose(&text).flat_map(codes) {
            if starts.iter().any(|start| name.starts_with(start)) {
                assert!(root().join(name).exists(), "{path}: {name}");
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}

/// The targets of `[text](target)`, `src="target"` and `srcset="target"`, in or out of the
/// repository.
fn links(text: &str) -> Vec<String> {
    let lines: Vec<_> = prose(text).collect();
    let joined = lines.join("\n");
    let ends = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')];
    let targets = ends.into_iter().flat_map(|(start, end)| {
        joined.split(start).skip(1).filter_map(move |rest| rest.split_once(end)).map(|it| it.0)
    });
    targets.map(str::to_owned).collect()
}

/// The anchors of a file's headings, made as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let titles = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let part = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    titles.map(|title| title.chars().filter(part).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let others = ["ARCHITECTURE.md", "CHANGELOG.md", "fuzz/README.md"].map(str::to_owned);
    let mut count = 0;
    for path in docs().into_iter().chain(others) {
        let text = read(&path);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = root().join(&path).parent().unwrap().to_owned();
            let file = if target.is_empty() { root().join(&path) } else { folder.join(target) };
            assert!(file.exists(), "{path}: {link}");
            if !anchor.is_empty() {
                let anchors = anchors(&std::fs::read_to_string(&file).unwrap());
                assert!(anchors.iter().any(|it| it == anchor), "{path}: {link} of {anchors:?}");
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn every_file_of_docs_is_linked_from_the_readme() {
    let links = links(&read("README.md"));
    for path in docs().into_iter().filter(|path| path != "README.md") {
        assert!(links.contains(&path), "{path}");
    }
}

#[test]
fn every_screenshot_is_shown_and_no_other_file_is_in_docs() {
    let shown: Vec<_> = docs()
        .into_iter()
        .flat_map(|path| links(&read(&path)))
        .map(|link| link.trim_start_matches("docs/").to_owned())
        .collect();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_shown = name.ends_with(".png") && shown.contains(&name);
        assert!(is_shown || name.ends_with(".md"), "{name}");
    }
}

#[test]
fn every_file_begins_with_one_sentence_about_its_purpose() {
    for path in docs() {
        let text = read(&path);
        let mut parts = text.split("\n\n");
        let title = parts.next().unwrap();
        assert!(title.starts_with("# ") && !title.contains('\n'), "{path}: {title}");
        let sentence = parts.next().unwrap().replace('\n', " ");
        assert!(sentence.ends_with('.') && !sentence.contains(". "), "{path}: {sentence}");
    }
}

/// A long line that two files have was copied.
#[test]
fn no_line_is_in_two_files() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for path in docs() {
        let text = read(&path);
        for line in prose(&text).map(str::trim).filter(|line| line.len() > 40) {
            let first = seen.entry(line.to_owned()).or_insert_with(|| path.clone());
            assert_eq!(first, &path, "{line}");
        }
    }
}
