//! The repository's own files, read for inspection.

use std::path::{Path, PathBuf};

/// A Rust file.
pub struct Source {
    /// Relative to the repository, with `/`.
    pub path: String,
    /// The exact text of the file.
    pub text: String,
    /// Without remarks and tests.
    pub code: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let mut lines = text.lines();
        let mut code = Vec::new();
        while let Some(line) = lines.next() {
            if line.trim() == "#[cfg(test)]" {
                let item = lines.find(|line| !line.trim_start().starts_with("#["));
                // `mod tests;` and most of `use` end where they begin.
                if item.is_some_and(|item| !item.ends_with([';', '}'])) {
                    let end = line.replace("#[cfg(test)]", "}");
                    lines.find(|line| line.starts_with(&end));
                }
                continue;
            }
            if !line.trim_start().starts_with("//") {
                code.push(line);
            }
        }
        let code = code.join("\n");
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Whether the file holds nothing but tests.
    pub fn is_test(&self) -> bool {
        let files = ["/tests.rs", "/properties.rs"];
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || files.iter().any(|file| self.path.ends_with(file))
    }

    /// The lines of code that `found` says yes to, each with its place.
    pub fn lines(&self, found: impl Fn(&str) -> bool) -> Vec<String> {
        let lines = self.code.lines().filter(|line| found(line));
        lines.map(|line| format!("{}: {}", self.path, line.trim())).collect()
    }
}

/// Whether `line` contains `word` as a separate word, or as the beginning of
/// a path, but not as a part of another path.
pub fn names(line: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let open = word.ends_with(|last: char| !part(last));
        !before.ends_with(part) && !before.ends_with("::") && (open || !after.starts_with(part))
    })
}

/// The path after each `prefix` in `line`.
pub fn paths_after<'l>(line: &'l str, prefix: &str) -> Vec<&'l str> {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let ends = |rest: &str| rest.find(|letter| !part(letter)).unwrap_or(rest.len());
    line.match_indices(prefix)
        .filter(|(at, _)| !line[..*at].ends_with(|letter: char| letter.is_alphanumeric()))
        .map(|(at, _)| &line[at + prefix.len()..])
        .map(|rest| rest[..ends(rest)].trim_end_matches("::"))
        .collect()
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file under `folder`.
pub fn sources(folder: &str) -> Vec<Source> {
    let rust = |path: &String| path.ends_with(".rs");
    files(folder).into_iter().filter(rust).map(|path| Source::new(&path, &read(&path))).collect()
}

/// Every file under `folder`, sorted.
pub fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            let relative = path.strip_prefix(root()).unwrap();
            found.push(relative.to_str().unwrap().replace('\\', "/"));
        }
    }
}
