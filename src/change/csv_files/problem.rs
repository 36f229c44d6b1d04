//! Mistakes in a CSV file, with their places, and grouped by kind.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::change::desired::SourceLocation;
use crate::escaped::Escaped;
use crate::format;
use crate::model::resource::PIXEL_TYPES;

/// The kind of a mistake, or of a value that is suspicious. Those of one kind in one column are
/// shown as one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvProblemKind {
    /// The file as a whole cannot be read.
    File,
    /// A column of the header.
    Header,
    /// A column that the file's kind does not have.
    UnknownColumn,
    /// A row with more or fewer cells than the header.
    CellCount,
    /// A cell in a column without a name.
    NamelessColumn,
    /// Quotes that do not fit together.
    Quoting,
    /// A formula of a workbook with an error as its result.
    FormulaError,
    /// A formula of a workbook without a stored result.
    NotComputed,
    /// A row with merged cells.
    Merged,
    /// A number of a workbook with more digits than a spreadsheet stores.
    TooManyDigits,
    /// Not a boolean.
    Boolean,
    /// Not a colour. The text is the form to write.
    Color(&'static str),
    /// Not a whole number.
    WholeNumber,
    /// A number that does not fit into 64 bits.
    OutOfRange,
    /// Not one of the words that a column takes.
    Word(&'static [&'static str]),
    /// Begins like JSON but is not valid.
    Json,
    /// A web address without `http://` or `https://`.
    WebAddress,
    /// An empty cell in a column that must not be empty.
    Empty,
    /// A row without a value that it must have.
    Missing,
    /// A row for the same record as an earlier row.
    Duplicate,
    /// Not an id, in a file of pairs.
    NotAnId,
    /// An empty cell in a column of booleans, which says nothing.
    EmptyBoolean,
    /// A value that the API cannot set.
    LeftOut,
    /// An empty cell that clears a value.
    Cleared,
    /// A name that no record of the account has.
    UnknownName,
    /// A row that identifies no record, or several.
    Unmatched,
    /// Suspicious: a name with spaces at its ends.
    BlankEnds,
    /// Suspicious: a number in scientific notation.
    RoundedNumber,
    /// Suspicious: a date, a time or a percentage of a workbook as a text.
    Formatted,
    /// Suspicious: the address of a `link` code without a scheme.
    NoScheme,
    /// Suspicious: an address with blanks or typographic quotes.
    OddAddress,
    /// Suspicious: a logo that is a file of this computer.
    LocalLogo,
    /// Suspicious: the data of a `phone` or `sms` code without a phone number.
    NotAPhone,
    /// Suspicious: the data of an `email` code that is not an address.
    NotAnEmail,
    /// Suspicious: an unknown type of a new pixel.
    PixelType,
    /// Suspicious: the error of a formula as a text.
    ErrorText,
    /// Suspicious: a name with characters that a conversion has replaced.
    LostCharacters,
    /// Suspicious: a tag of a new pixel that is a date, a boolean or a formatted number.
    NotATag,
}

impl CsvProblemKind {
    /// What is wrong with `count` cells or rows; `None` if each such mistake has its own line.
    fn of_several(self, count: &str) -> Option<Cow<'static, str>> {
        let cells = |what: &str| Some(Cow::Owned(format!("{count} cells {what}")));
        let rows = |what: &str| Some(Cow::Owned(format!("{count} rows {what}")));
        match self {
            Self::File | Self::Header | Self::UnknownColumn | Self::Unmatched => None,
            Self::CellCount => rows("have more or fewer cells than the header"),
            Self::NamelessColumn => cells("are in a column without a name"),
            Self::Quoting => cells("have quotes that do not fit together"),
            Self::FormulaError => cells("have a formula with an error as its result"),
            Self::NotComputed => {
                cells("have a formula without a result; open the file in a spreadsheet and save it")
            }
            Self::Merged => {
                rows("have merged cells, of which only the first has a value; unmerge them")
            }
            Self::TooManyDigits => cells(
                "are numbers with more digits than a spreadsheet stores; format them as text and type \
                 them again",
            ),
            Self::Boolean => cells("are not a boolean; write true or false"),
            Self::Color(form) => cells(&format!("are not a colour; write {form}")),
            Self::WholeNumber => cells("are not a whole number"),
            Self::OutOfRange => cells("are out of range for 64 bits"),
            Self::Word(words) => cells(&format!("are not one of {}", words.join(", "))),
            Self::Json => cells("begin like JSON but are not valid"),
            Self::WebAddress => cells("have no http:// or https:// in front"),
            Self::Empty => cells("must not be empty"),
            Self::Missing => rows("do not have it"),
            Self::Duplicate => rows("repeat an earlier row"),
            Self::NotAnId => cells("are not an id"),
            Self::EmptyBoolean => cells(&format!("must not be empty; {EMPTY_BOOLEAN}")),
            Self::Cleared => cells(
                "are empty and clear the values of existing records; to keep the values, put the rows \
                 into a file without this column",
            ),
            Self::UnknownName => cells("are names that no record of the account has"),
            Self::LeftOut => cells("are left out, because the API cannot set them"),
            Self::BlankEnds => cells("begin or end with a space"),
            Self::RoundedNumber => cells("are numbers that a spreadsheet has rounded"),
            Self::Formatted => {
                cells("are dates, times or percentages, which the sheet shows in another form")
            }
            Self::NoScheme => cells("are web addresses without http:// or https://"),
            Self::OddAddress => cells("are addresses with blanks or typographic quotes"),
            Self::LocalLogo => cells("are files of this computer, which the service cannot read"),
            Self::NotAPhone => cells("are not phone numbers"),
            Self::NotAnEmail => cells("are not e-mail addresses"),
            Self::PixelType => {
                cells(&format!("are not a known pixel type; known: {}", PIXEL_TYPES.join(", ")))
            }
            Self::ErrorText => cells("are errors of formulas in a spreadsheet"),
            Self::LostCharacters => {
                cells("have `?` where a conversion seems to have lost a character")
            }
            Self::NotATag => cells("are dates, booleans or numbers as a spreadsheet writes them"),
        }
    }
}

/// What to write in place of an empty cell in a column of booleans.
pub(crate) const EMPTY_BOOLEAN: &str =
    "write true or false, or put the row into a file without this column";

/// A mistake in a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvProblem {
    /// Name of the file.
    pub file: String,
    /// Line number from 1; `None` for the whole file.
    pub line: Option<u64>,
    /// The row as spreadsheets number it, if its number differs from the line's: cells before it
    /// contain line breaks.
    pub row: Option<u64>,
    /// Name of the column; `None` for the whole line.
    pub column: Option<String>,
    /// The kind of mistake.
    pub kind: CsvProblemKind,
    /// The mistake, as the end of a sentence.
    pub what: String,
}

impl fmt::Display for CsvProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (self.row, self.line) {
            (Some(_), Some(_)) => {
                write!(f, ": row {}", RowPlace { row: self.row, line: self.line })?
            }
            (_, Some(line)) => write!(f, ":{line}")?,
            _ => {}
        }
        if let Some(column) = &self.column {
            write!(f, ": {column}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// The number of a row, and the line if that is another number: `7 (line 9)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowPlace {
    row: Option<u64>,
    line: Option<u64>,
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.row, self.line) {
            (Some(row), Some(line)) if row != line => write!(f, "{row} (line {line})"),
            (Some(number), _) | (None, Some(number)) => write!(f, "{number}"),
            (None, None) => Ok(()),
        }
    }
}

/// The most mistakes that are stored; further ones are counted.
const MAX_STORED: usize = 100;

/// The most rows whose reasons are stored, to bound the memory.
const MAX_REASONS: usize = 100_000;

/// The length, in bytes, from which on no further mistake is added to the reason of a row.
const MAX_REASON: usize = 500;

/// The most rows that a line about several mistakes names.
const MAX_NAMED_ROWS: usize = 5;

/// The mistakes in files: the first ones, all of them grouped, and the reasons by row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvProblems {
    /// The first mistakes.
    pub first: Vec<CsvProblem>,
    /// Number of further mistakes.
    pub more: u64,
    groups: Vec<ProblemGroup>,
    /// Number of mistakes that are in no group.
    ungrouped: u64,
    reasons: BTreeMap<String, BTreeMap<u64, String>>,
}

/// Mistakes of one kind in one column.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProblemGroup {
    first: CsvProblem,
    count: u64,
    /// The first rows.
    rows: Vec<RowPlace>,
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
        self.add_reason(&problem);
        self.add_to_group(&problem);
        if self.first.len() < MAX_STORED {
            self.first.push(problem);
        } else {
            self.more += 1;
        }
    }

    fn add_reason(&mut self, problem: &CsvProblem) {
        // A mistake in the header is not a mistake of a row.
        let is_of_row = problem.kind.of_several("").is_some();
        let Some(row) = problem.row.or(problem.line).filter(|_| is_of_row) else { return };
        let reasons = self.reasons.entry(problem.file.clone()).or_default();
        if reasons.len() >= MAX_REASONS && !reasons.contains_key(&row) {
            return;
        }
        let reason = reasons.entry(row).or_default();
        if reason.len() > MAX_REASON {
            return;
        }
        if !reason.is_empty() {
            reason.push_str("; ");
        }
        if let Some(column) = &problem.column {
            reason.push_str(column);
            reason.push_str(": ");
        }
        reason.push_str(&problem.what);
    }

    fn add_to_group(&mut self, problem: &CsvProblem) {
        let place = RowPlace { row: problem.row, line: problem.line };
        let is_same = |group: &&mut ProblemGroup| {
            let first = &group.first;
            (first.kind, &first.column, &first.file)
                == (problem.kind, &problem.column, &problem.file)
        };
        // Mistakes without a text for several ones have a group each.
        let groups = problem.kind.of_several("").is_some();
        if let Some(group) = self.groups.iter_mut().find(is_same).filter(|_| groups) {
            group.count += 1;
            if group.rows.len() < MAX_NAMED_ROWS {
                group.rows.push(place);
            }
        } else if self.groups.len() < MAX_STORED {
            let first = problem.clone();
            self.groups.push(ProblemGroup { first, count: 1, rows: vec![place] });
        } else {
            self.ungrouped += 1;
        }
    }

    /// Whether a file has a column with an unknown name.
    #[must_use]
    pub fn has_unknown_columns(&self) -> bool {
        self.groups.iter().any(|group| group.first.kind == CsvProblemKind::UnknownColumn)
    }

    /// Adds the mistakes of another file.
    pub fn append(&mut self, other: Self) {
        self.more += other.more;
        for problem in other.first {
            if self.first.len() < MAX_STORED {
                self.first.push(problem);
            } else {
                self.more += 1;
            }
        }
        self.ungrouped += other.ungrouped;
        for group in other.groups {
            if self.groups.len() < MAX_STORED {
                self.groups.push(group);
            } else {
                self.ungrouped += group.count;
            }
        }
        self.reasons.extend(other.reasons);
    }

    /// One line for each stored mistake, and a last line with the number of further ones.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self.first.iter().map(ToString::to_string);
        lines.chain(and_more(self.more)).collect()
    }

    /// One line for all mistakes of one kind in one column, and a last line with the number of
    /// further mistakes.
    #[must_use]
    pub fn grouped_lines(&self) -> Vec<String> {
        let lines = self.groups.iter().map(ToString::to_string);
        lines.chain(and_more(self.ungrouped)).collect()
    }

    /// The reasons by the rows of `file`, as spreadsheets number them; at most 100,000.
    #[must_use]
    pub fn reasons(&self, file: &str) -> Option<&BTreeMap<u64, String>> {
        self.reasons.get(file)
    }
}

fn and_more(count: u64) -> Option<String> {
    (count > 0).then(|| format!("and {} more", format::count(count)))
}

impl fmt::Display for ProblemGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.first.kind.of_several(&format::count(self.count));
        let Some(several) = several.filter(|_| self.count > 1) else {
            return write!(f, "{}", self.first);
        };
        f.write_str(&self.first.file)?;
        if let Some(column) = &self.first.column {
            write!(f, ": {column}")?;
        }
        let rows: Vec<_> = self.rows.iter().map(ToString::to_string).collect();
        let more = if self.count > self.rows.len() as u64 { ", …" } else { "" };
        write!(f, ": {several} (rows {}{more})", rows.join(", "))?;
        match self.first.kind {
            CsvProblemKind::UnknownName | CsvProblemKind::FormulaError => {
                write!(f, "; the first: {}", self.first.what)
            }
            _ => Ok(()),
        }
    }
}

/// A mistake in a cell, without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellMistake {
    pub kind: CsvProblemKind,
    pub what: String,
}

impl CellMistake {
    pub fn new(kind: CsvProblemKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

/// Collects mistakes, suspicious values and remarks of one file.
pub(crate) struct Findings<'a> {
    pub file: &'a str,
    /// The number of the row that is read.
    pub row: Option<u64>,
    /// Whether a column has an unknown name, which may be the one that seems to be missing.
    pub misnamed: bool,
    pub problems: CsvProblems,
    pub suspicious: CsvProblems,
    conversions: Vec<Conversion>,
}

/// Cells of a column that have their values in another form.
struct Conversion {
    column: String,
    count: u64,
    /// The first cell, and its value.
    example: (String, String),
}

impl<'a> Findings<'a> {
    pub fn new(file: &'a str) -> Self {
        Self {
            file,
            row: None,
            misnamed: false,
            problems: CsvProblems::default(),
            suspicious: CsvProblems::default(),
            conversions: Vec::new(),
        }
    }

    /// Takes the place of a row that was read before, and returns its line.
    pub fn at(&mut self, source: Option<&SourceLocation>) -> Option<u64> {
        let line = source.and_then(|source| source.line);
        self.row = source.and_then(|source| source.row).or(line);
        line
    }

    pub fn problem(
        &mut self,
        kind: CsvProblemKind,
        line: Option<u64>,
        column: Option<&str>,
        what: impl Into<String>,
    ) {
        self.problems.push(self.placed(CellMistake::new(kind, what), line, column));
    }

    /// Adds a mistake in a cell.
    pub fn mistake(&mut self, mistake: CellMistake, line: u64, column: &str) {
        self.problems.push(self.placed(mistake, Some(line), Some(column)));
    }

    /// Adds a problem about a missing column, unless the column may be misnamed.
    pub fn missing(&mut self, line: u64, column: &str, what: String) {
        if !self.misnamed {
            self.problem(CsvProblemKind::Missing, Some(line), Some(column), what);
        }
    }

    /// Adds a value that is probably a mistake.
    pub fn suspicion(&mut self, mistake: CellMistake, line: u64, column: &str) {
        self.suspicious.push(self.placed(mistake, Some(line), Some(column)));
    }

    /// Adds a cell that has its value in another form.
    pub fn conversion(&mut self, column: &str, text: &str, value: &str) {
        match self.conversions.iter_mut().find(|it| it.column == column) {
            Some(known) => known.count += 1,
            None => {
                let shown = |text: &str| Escaped(format::truncate(text, 40)).to_string();
                let example = (shown(text), shown(value));
                self.conversions.push(Conversion { column: column.to_owned(), count: 1, example });
            }
        }
    }

    /// One remark for each column with cells that have their values in another form.
    pub fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.conversions.iter().map(|Conversion { column, count, example: (text, value) }| {
            let column = Escaped(column);
            match count {
                1 => format!("{column}: `{text}` is read as `{value}`"),
                many => {
                    let many = format::count(*many);
                    format!("{column}: {many} cells have another form, such as `{text}`, read as `{value}`")
                }
            }
        })
    }

    fn placed(&self, mistake: CellMistake, line: Option<u64>, column: Option<&str>) -> CsvProblem {
        let row = self.row.filter(|row| line.is_some_and(|line| line != *row));
        let (file, column) = (self.file.to_owned(), column.map(str::to_owned));
        CsvProblem { file, line, row, column, kind: mistake.kind, what: mistake.what }
    }
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::problem::*;

    fn findings(rows: &[(u64, u64)]) -> CsvProblems {
        let mut findings = Findings::new("x.csv");
        for (row, line) in rows {
            findings.row = Some(*row);
            let mistake = CellMistake::new(CsvProblemKind::Boolean, "`maybe` is not a boolean");
            findings.mistake(mistake, *line, "public");
        }
        findings.problems
    }

    #[test]
    fn mistakes_of_one_kind_and_column_are_one_line() {
        let mut problems = findings(&[(4, 4), (7, 9), (8, 10), (9, 11), (10, 12), (11, 13)]);
        problems.append(findings(&[(2, 2)]));
        assert_eq!(
            problems.grouped_lines(),
            [
                "x.csv: public: 6 cells are not a boolean; write true or false \
                 (rows 4, 7 (line 9), 8 (line 10), 9 (line 11), 10 (line 12), …)",
                "x.csv:2: public: `maybe` is not a boolean",
            ]
        );
        assert_eq!(problems.lines()[1], "x.csv: row 7 (line 9): public: `maybe` is not a boolean");
        assert_eq!(problems.count(), 7);
    }

    #[test]
    fn mistakes_of_the_header_have_a_line_each() {
        let mut findings = Findings::new("x.csv");
        for name in ["a", "b"] {
            findings.problem(CsvProblemKind::Header, Some(1), Some(name), "unknown column");
        }
        let lines = ["x.csv:1: a: unknown column", "x.csv:1: b: unknown column"];
        assert_eq!(findings.problems.grouped_lines(), lines);
        assert_eq!(findings.problems.reasons("x.csv"), None);
    }

    #[test]
    fn lines_rows_and_reasons_are_bounded() {
        let rows: Vec<_> = (2..150_000).map(|row| (row, row)).collect();
        let problems = findings(&rows);
        assert_eq!((problems.first.len(), problems.grouped_lines().len()), (MAX_STORED, 1));
        assert_eq!(problems.reasons("x.csv").map(BTreeMap::len), Some(MAX_REASONS));
    }
}
