//! What is wrong in a file: where, and what. All of it is told at once.

use std::fmt;

/// A mistake in a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvProblem {
    pub file: String,
    /// Counted from 1; `None` where it is the file as a whole.
    pub line: Option<u64>,
    /// The column's name; `None` where it is the whole line.
    pub column: Option<String>,
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

/// No more than this many are kept: who has more mends the first ones first.
const MOST: usize = 100;

/// The first mistakes of a file in full, and how many there are beyond.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvProblems {
    pub first: Vec<CsvProblem>,
    pub more: u64,
}

impl CsvProblems {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// How many there are in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// Adds a mistake.
    pub fn push(&mut self, problem: CsvProblem) {
        if self.first.len() < MOST {
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

    /// One line for each, and a last one for those beyond.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.first.iter().map(ToString::to_string).chain(more).collect()
    }
}

/// What is found wrong on the way.
pub(crate) struct Notes<'a> {
    pub file: &'a str,
    /// A column's name is wrong, so what seems to be missing may stand there.
    pub misnamed: bool,
    pub problems: CsvProblems,
    pub warnings: CsvProblems,
}

impl Notes<'_> {
    pub fn problem(&mut self, line: Option<u64>, column: Option<&str>, what: impl Into<String>) {
        self.problems.push(self.note(line, column, what.into()));
    }

    /// A value whose column is not there, unless it may just be misnamed.
    pub fn missing(&mut self, line: u64, column: &str, what: String) {
        if !self.misnamed {
            self.problem(Some(line), Some(column), what);
        }
    }

    pub fn warning(&mut self, line: u64, column: &str, what: String) {
        self.warnings.push(self.note(Some(line), Some(column), what));
    }

    fn note(&self, line: Option<u64>, column: Option<&str>, what: String) -> CsvProblem {
        let column = column.map(str::to_owned);
        CsvProblem { file: self.file.to_owned(), line, column, what }
    }
}
