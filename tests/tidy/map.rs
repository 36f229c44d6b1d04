//! Compares `ARCHITECTURE.md` with the existing files.

use std::collections::BTreeSet;

use super::assert_none;
use super::source::{files, names, read, sources};

const MAX_LINES: usize = 390;

/// The paths that the document names. Under a heading with a folder in it, names
/// of files are relative to that folder.
fn named() -> BTreeSet<String> {
    let text = read("ARCHITECTURE.md");
    let mut folder = String::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<_> = line.split('`').skip(1).step_by(2).collect();
        if line.starts_with('#') {
            let own = words.iter().find(|word| word.ends_with('/'));
            folder = own.map_or_else(String::new, |own| (*own).to_owned());
        }
        for word in words {
            let whole = ["src/", "tests/", "benches/", "examples/", "."];
            let is_path = (word.ends_with(".rs") || word.ends_with('/')) && !word.contains(' ');
            if is_path && whole.iter().any(|start| word.starts_with(start)) {
                found.insert(word.to_owned());
            } else if is_path {
                found.insert(format!("{folder}{word}"));
            }
        }
    }
    found
}

#[test]
fn the_map_names_every_file_of_the_program() {
    let named = named();
    let tests = |path: &String| path.ends_with("/tests.rs") || path.contains("/tests/");
    // Of what is no code, the folder is enough.
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
    let in_named = |path: &String| {
        !path.ends_with(".rs") && folder(path).is_some_and(|folder| named.contains(&folder))
    };
    let unnamed = files("src").into_iter();
    let unnamed = unnamed.filter(|it| !tests(it) && !named.contains(it) && !in_named(it));
    assert_none("ARCHITECTURE.md does not name", unnamed);
}

#[test]
fn the_map_names_every_folder_of_tests_and_examples() {
    let named = named();
    let rooms: BTreeSet<_> = ["tests", "benches", "examples"]
        .into_iter()
        .flat_map(files)
        .filter(|path| path.ends_with(".rs") || path.matches('/').count() > 1)
        .map(|path| {
            let parts: Vec<_> = path.split('/').collect();
            if parts.len() > 2 { format!("{}/{}/", parts[0], parts[1]) } else { path }
        })
        .collect();
    // A file and the folder beside it are one module, as `tidy.rs` and `tidy/`.
    let known = |room: &String| {
        let beside = format!("{}.rs", room.trim_end_matches('/'));
        let folder = room.split('/').next().map(|folder| format!("{folder}/"));
        named.contains(room)
            || named.contains(&beside)
            || folder.is_some_and(|folder| named.contains(&folder))
    };
    assert_none("ARCHITECTURE.md does not name", rooms.into_iter().filter(|room| !known(room)));
}

#[test]
fn every_path_on_the_map_exists() {
    let root = super::source::root();
    assert_none("gone", named().into_iter().filter(|path| !root.join(path).exists()));
}

#[test]
fn every_type_that_the_map_names_is_declared() {
    let text = read("ARCHITECTURE.md");
    let code = sources("src");
    let is_type = |word: &&str| {
        word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric)
    };
    let named: BTreeSet<_> = text.split('`').skip(1).step_by(2).filter(is_type).collect();
    assert!(named.len() > 25, "{named:?}");
    let declared = |name: &str| {
        let forms = ["struct", "enum", "trait", "type"].map(|kind| format!("{kind} {name}"));
        let is_it = |line: &str| forms.iter().any(|form| names(line, form));
        code.iter().any(|source| source.code.lines().any(is_it))
    };
    let undeclared = named.into_iter().filter(|name| !declared(name));
    assert_none("declared nowhere", undeclared.map(str::to_owned));
}

#[test]
fn the_map_is_short() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines < MAX_LINES, "{lines} lines");
}
