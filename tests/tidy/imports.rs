//! No file imports a file that imports it, directly or by a cycle. `mod x;` and `pub use` are
//! no imports.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::{assert_none, program};

/// The files that each file imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// `crate::api::http` of `src/api/http.rs`.
fn module(path: &str) -> Vec<String> {
    let stem = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    stem.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
}

/// The paths that a `use` declaration names.
fn expand(tree: &str, found: &mut Vec<String>) {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return found.push(tree.split(" as ").next().unwrap_or(tree).trim().to_owned());
    };
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner[start..at].trim();
                if !part.is_empty() {
                    expand(&format!("{}{part}", prefix.trim()), found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The paths that a file names, in its `use` declarations and elsewhere.
fn paths(code: &str) -> Vec<String> {
    let (mut found, mut others) = (Vec::new(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if start.starts_with("#[") {
            continue;
        }
        let public =
            start.starts_with("pub use ") || start.starts_with("pub(") && start.contains(") use ");
        if !public && !start.starts_with("use ") {
            others.push_str(line);
            others.push('\n');
            continue;
        }
        let mut whole = start.to_owned();
        while !whole.ends_with(';') {
            let Some(more) = lines.next() else { break };
            whole.push_str(more.trim());
        }
        if let Some(tree) = whole.strip_prefix("use ") {
            expand(tree.trim_end_matches(';'), &mut found);
        }
    }
    let part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = others.split(|letter| !part(letter)).filter(|word| word.contains("::"));
    found.extend(words.map(str::to_owned));
    found
}

/// The file that has what `path` names in the file of module `own`.
fn target<'f>(
    path: &str,
    own: &[String],
    files: &'f BTreeMap<Vec<String>, String>,
) -> Option<&'f String> {
    let mut parts = path.split("::").peekable();
    let mut at = own.to_vec();
    match parts.peek().copied() {
        Some("crate") => at.clear(),
        Some("self") => {}
        Some("super") => {
            while parts.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        Some(first) => {
            at.push(first.to_owned());
            files.get(&at)?;
            at.pop();
        }
        None => return None,
    }
    for part in parts.filter(|part| !["crate", "self"].contains(part)) {
        at.push(part.to_owned());
        if !files.contains_key(&at) {
            at.pop();
            break;
        }
    }
    files.get(&at)
}

fn imports(sources: &[Source]) -> Imports {
    let files = sources.iter().map(|source| (module(&source.path), source.path.clone()));
    let files: BTreeMap<_, _> = files.filter(|(module, _)| !module.is_empty()).collect();
    let of = |source: &Source| {
        let own = module(&source.path);
        let paths = paths(&source.code);
        let targets = paths.iter().filter_map(|path| target(path, &own, &files));
        targets.filter(|path| **path != source.path).cloned().collect()
    };
    sources.iter().map(|source| (source.path.clone(), of(source))).collect()
}

/// The imports of a file that imports the importing one, directly or by others.
fn import_cycles(all: &Imports) -> Vec<String> {
    let reaches = |from: &String, path: &String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(path) = open.pop() {
            if seen.insert(path) {
                open.extend(&all[path]);
            }
        }
        seen.contains(path)
    };
    let edges = all.iter().flat_map(|(path, imports)| imports.iter().map(move |it| (path, it)));
    let rings = edges.filter(|(path, import)| reaches(import, path));
    rings.map(|(path, import)| format!("{path} imports {import}")).collect()
}

#[test]
fn no_file_imports_a_file_that_imports_it() {
    assert_none(
        "move what both need to a third file",
        import_cycles(&imports(&program().collect::<Vec<_>>())),
    );
}

#[test]
fn an_import_cycle_is_found_in_every_spelling() {
    let ring = |one: &str, other: &str| {
        let files = [
            ("src/a/mod.rs", "pub mod b;\npub use b::B;"),
            ("src/a/b.rs", one),
            ("src/c.rs", other),
        ];
        let files = files.map(|(path, text)| Source::new(path, text));
        import_cycles(&imports(&files)).len()
    };
    assert_eq!(ring("use crate::c::C;", "use crate::a::b::B;"), 2);
    assert_eq!(ring("use crate::{\n    c::{C, D},\n};", "fn f() -> crate::a::b::B {}"), 2);
    assert_eq!(ring("use super::super::c;", "use crate::a::{self, b::{B}};"), 2);
    assert_eq!(ring("use crate::c::C;", "#[cfg(test)]\nuse crate::a::b::B;"), 0);
    assert_eq!(ring("use crate::c::C;", "#[cfg(test)]\nmod x {\n    use crate::a::b::B;\n}"), 0);
    assert_eq!(ring("use crate::c::C;", "pub use crate::a::b::B;"), 0);
    assert_eq!(ring("use crate::c::C;", "// as crate::a::b::B\nuse crate::a::B;"), 0);
    let after = "#[cfg(test)]\nmod x {\n    fn f() {}\n}\n\nuse crate::a::b::B;";
    assert_eq!(ring("use crate::c::C;", after), 2);
}
