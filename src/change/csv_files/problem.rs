//! Mistakes in a CSV file, with their places.

use std::fmt;

/// A mistake in a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvProblem {
    /// Name of the file.
    pub file: String,
    /// Line number from 1; `None` for the whole file.
    pub line: Option<u64>,
    /// Name of the column; `None` for the whole line.
    pub column: Option<String>,
    /// The mistake, as the end of a sentence.
    pub what: String,
}

impl fmt::Display for CsvProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = &self.column {
            write!(f, ": {column}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// The most mistakes that are stored; further ones are counted.
const MAX_STORED: usize = 100;

/// The first mistakes in a file, and the number of further ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvProblems {
    /// The first mistakes.
    pub first: Vec<CsvProblem>,
    /// Number of further mistakes.
    pub more: u64,
}

impl CsvProblems {
    /// Whether there are no mistakes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Number of all mistakes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// Adds a mistake.
    pub fn push(&mut self, problem: CsvProblem) {
        if self.first.len() < MAX_STORED {
            self.first.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Adds the mistakes of another file.
    pub fn append(&mut self, other: Self) {
        self.more += other.more;
        for problem in other.first {
            self.push(problem);
        }
    }

    /// One line for each stored mistake, and a last line with the number of further ones.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.first.iter().map(ToString::to_string).chain(more).collect()
    }
}

/// Collects problems and warnings of one file.
pub(crate) struct Findings<'a> {
    pub file: &'a str,
    /// Whether a column has an unknown name, which may be the one that seems to be missing.
    pub misnamed: bool,
    pub problems: CsvProblems,
    pub warnings: CsvProblems,
}

impl Findings<'_> {
    pub fn problem(&mut self, line: Option<u64>, column: Option<&str>, what: impl Into<String>) {
        self.problems.push(self.problem_at(line, column, what.into()));
    }

    /// Adds a problem about a missing column, unless the column may be misnamed.
    pub fn missing(&mut self, line: u64, column: &str, what: String) {
        if !self.misnamed {
            self.problem(Some(line), Some(column), what);
        }
    }

    pub fn warning(&mut self, line: u64, column: &str, what: String) {
        self.warnings.push(self.problem_at(Some(line), Some(column), what));
    }

    fn problem_at(&self, line: Option<u64>, column: Option<&str>, what: String) -> CsvProblem {
        let column = column.map(str::to_owned);
        CsvProblem { file: self.file.to_owned(), line, column, what }
    }
}
