//! Mistakes in the configuration file.

use std::path::Path;

/// One mistake in the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key, such as `accounts.main.url`; empty for a syntax error.
    pub key: String,
    /// The mistake, as the end of a sentence about the key.
    pub what: String,
}

impl ConfigProblem {
    /// The mistake as one line: `file:line:column: key: what`.
    #[must_use]
    pub fn at(&self, file: &Path) -> String {
        let Self { line, column, key, what } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        format!("{}:{line}:{column}: {key}{colon}{what}", file.display())
    }
}
