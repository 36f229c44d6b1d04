//! Parses the header of a file, and the options by which its columns are read under other names.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::change::csv_files::cells::{Cell, CellFault, Row};
use crate::change::csv_files::problem::{CellMistake, CsvProblemKind};
use crate::change::csv_files::source::RowSource;
use crate::change::csv_files::{CsvKind, PROBLEM, ROW, SECRET};
use crate::escaped::Escaped;
use crate::format::truncate;
use crate::model::Verb;
use crate::suggest::{did_you_mean, suggest};

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// A field, by its index in the table's row; 0 or 1 in `campaign_links.csv`.
    Field(usize),
    /// The name that a record has had so far, by which it is found.
    OldName,
    /// Not read, such as the reasons in rejected rows.
    Ignored,
    /// A column without a name, which must be empty.
    Nameless,
}

/// A column with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvHeader {
    pub column: Column,
    pub name: String,
}

/// A problem of a header cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderProblem {
    pub line: u64,
    /// The name of the column.
    pub name: String,
    pub mistake: CellMistake,
}

impl HeaderProblem {
    fn new(line: u64, name: &str, what: impl Into<String>) -> Self {
        let mistake = CellMistake::new(CsvProblemKind::Header, what);
        Self { line, name: name.to_owned(), mistake }
    }
}

/// Which columns are read under other names, and which are not read. Names are compared without
/// case, spaces, `_` and `-`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ColumnOptions {
    /// Names of columns, each with the name under which it is read.
    pub maps: Vec<(String, String)>,
    /// Columns that are not read.
    pub ignored: Vec<String>,
    /// The column with the name that a record has had so far, by which it is found.
    pub match_on: Option<String>,
    /// Remove blanks at the ends of edited cells.
    pub trim: bool,
}

/// Why [`ColumnOptions`] do not fit files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnOptionError {
    /// No file has a column with this name.
    NoColumn {
        /// The name in the options.
        name: String,
        /// The most similar name in the files.
        nearest: Option<String>,
    },
    /// A column is read as one that the file's kind does not have.
    UnknownField {
        /// The kind of the file.
        kind: CsvKind,
        /// The name in the options.
        name: String,
    },
    /// The API cannot rename records of this kind.
    CannotRename(CsvKind),
}

impl fmt::Display for ColumnOptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoColumn { name, nearest } => {
                write!(f, "no column is called `{}`", Escaped(excerpt(name)))?;
                match nearest {
                    Some(near) => write!(f, "; did you mean `{}`?", Escaped(excerpt(near))),
                    None => Ok(()),
                }
            }
            Self::UnknownField { kind, name } => {
                let near = did_you_mean(name, kind.columns());
                let name = Escaped(excerpt(name)).to_string();
                write!(f, "{kind} has no column `{name}`")?;
                if !near.is_empty() {
                    return f.write_str(&near);
                }
                write!(f, "; its columns are {}", kind.columns().collect::<Vec<_>>().join(", "))
            }
            Self::CannotRename(kind) => write!(f, "the API cannot rename records of {kind}"),
        }
    }
}

impl std::error::Error for ColumnOptionError {}

/// The longest name, in bytes, that is compared with a wrong one.
const MAX_NAME: usize = 100;

impl ColumnOptions {
    /// Whether columns are read under other names or not at all.
    #[must_use]
    pub fn renames(&self) -> bool {
        !(self.maps.is_empty() && self.ignored.is_empty() && self.match_on.is_none())
    }

    /// Whether there are no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that each option fits a column of a file. With `others`, further files are not read, and
    /// the options may be for them.
    ///
    /// # Errors
    /// The first option that fits none.
    pub fn check(
        &self,
        files: &[(CsvKind, Vec<String>)],
        others: bool,
    ) -> Result<(), ColumnOptionError> {
        let with = |name: &str| -> Vec<CsvKind> {
            let has = |names: &[String]| names.iter().any(|it| same_name(it, name));
            files.iter().filter(|(_, names)| has(names)).map(|(kind, _)| *kind).collect()
        };
        let sources = self.maps.iter().map(|(from, _)| from);
        for name in sources.chain(&self.ignored).chain(&self.match_on) {
            if with(name).is_empty() && !others {
                let names = files.iter().flat_map(|(_, names)| names).map(String::as_str);
                // The comparison with a long name takes memory.
                let names = names.filter(|name| name.len() <= MAX_NAME);
                let nearest = suggest(name, names).map(str::to_owned);
                return Err(ColumnOptionError::NoColumn { name: name.clone(), nearest });
            }
        }
        for (from, to) in &self.maps {
            let kinds = with(from);
            let fits = kinds.iter().any(|kind| known(*kind, to).is_some());
            if let Some(kind) = kinds.first().copied().filter(|_| !fits) {
                return Err(ColumnOptionError::UnknownField { kind, name: to.clone() });
            }
        }
        let kinds = self.match_on.as_ref().map(|name| with(name)).unwrap_or_default();
        if let Some(kind) = kinds.first().filter(|_| !kinds.iter().any(|kind| can_rename(*kind))) {
            return Err(ColumnOptionError::CannotRename(*kind));
        }
        Ok(())
    }
}

/// The row that looks like the header of an input, if the first row looks like a title: it has one
/// cell, which names no column.
pub(crate) fn header_below_title<'s>(kind: CsvKind, source: &'s RowSource<'_>) -> Option<Row<'s>> {
    let is_known = |cell: &&Cell<'_>| known(kind, cell.raw.trim()).is_some();
    let mut rows = source.rows();
    let first = rows.next()?;
    let mut filled = first.cells.iter().filter(|cell| !cell.raw.trim().is_empty());
    let title = filled.next().filter(|cell| !is_known(cell));
    if title.is_none() || filled.next().is_some() {
        return None;
    }
    rows.take(MAX_TITLE_ROWS).find(|row| row.cells.iter().filter(is_known).count() > 1)
}

/// The most rows in which a header is looked for.
const MAX_TITLE_ROWS: usize = 10;

/// The names in the header of an input; empty if it has none that can be read.
#[must_use]
pub fn header_names(kind: CsvKind, source: &RowSource<'_>) -> Vec<String> {
    let header = header_below_title(kind, source).or_else(|| source.rows().next());
    let cells = header.iter().flat_map(|row| &row.cells);
    cells.filter_map(|cell| Some(cell.text().ok()?.trim().to_owned())).collect()
}

/// The columns of a file, and problems about them.
pub(crate) struct ParsedHeader {
    pub columns: Vec<CsvHeader>,
    /// The columns that are read under other names than their own.
    pub renamed: Vec<(String, &'static str)>,
    pub wrong: Vec<HeaderProblem>,
}

/// Parses the header of a file. Returns its columns and all problems. An unknown column is ignored,
/// so that the rows can be checked too.
///
/// # Errors
/// The problems, if no row can be read with this header.
pub(crate) fn header(
    kind: CsvKind,
    row: &Row<'_>,
    options: &ColumnOptions,
) -> Result<ParsedHeader, Vec<HeaderProblem>> {
    let mut wrong = Vec::new();
    let mut columns: Vec<CsvHeader> = Vec::new();
    let mut renamed = Vec::new();
    for (nth, cell) in row.cells.iter().enumerate() {
        match header_column(kind, nth, cell, options) {
            Ok((header_column, read_as)) => {
                let is_same = |it: &&CsvHeader| {
                    matches!(it.column, Column::Field(_) | Column::OldName)
                        && it.column == header_column.column
                };
                if let Some(earlier) = columns.iter().find(is_same) {
                    let what = match earlier.name == header_column.name {
                        true => "duplicate column".to_owned(),
                        false => format!("duplicate column: the same as `{}`", earlier.name),
                    };
                    wrong.push(HeaderProblem::new(cell.line, &header_column.name, what));
                }
                let name = Escaped(&header_column.name);
                match read_as {
                    ReadAs::Named | ReadAs::Nothing => {}
                    ReadAs::Other(field) => renamed.push((name.to_string(), field)),
                }
                columns.push(header_column);
            }
            Err(what) => {
                columns.push(CsvHeader { column: Column::Ignored, name: what.name.clone() });
                wrong.push(what);
            }
        }
    }
    if row.count > row.cells.len() {
        let what = format!("too many columns: {}", row.count);
        wrong.push(HeaderProblem::new(row.line, "header", what));
        return Err(wrong);
    }
    let any = columns.iter().any(|it| matches!(it.column, Column::Field(_)));
    if wrong.is_empty() && !any {
        let what = format!("none of the columns of {} is there", kind.name());
        wrong.push(HeaderProblem::new(row.line, "header", what));
    }
    if any { Ok(ParsedHeader { columns, renamed, wrong }) } else { Err(wrong) }
}

/// A remark on the columns of files that are read under other names. `None` if there are none.
#[must_use]
pub fn renamed_note(files: &[(String, Vec<(String, &'static str)>)]) -> Option<String> {
    let mut pairs: Vec<&(String, &str)> = Vec::new();
    for pair in files.iter().flat_map(|(_, renamed)| renamed) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let ((name, field), rest) = pairs.split_first()?;
    let place = match files {
        [(file, _)] => file.clone(),
        files => format!("in {} files or sheets", files.len()),
    };
    let rest = rest.iter().map(|(name, field)| format!(", `{name}` as `{field}`"));
    let rest = rest.collect::<String>();
    Some(format!("{place}: column `{name}` is read as `{field}`{rest}"))
}

/// Under which name a column is read.
enum ReadAs {
    /// Its own.
    Named,
    /// This one.
    Other(&'static str),
    /// The options exclude it.
    Nothing,
}

fn header_column(
    kind: CsvKind,
    nth: usize,
    cell: &Cell<'_>,
    options: &ColumnOptions,
) -> Result<(CsvHeader, ReadAs), HeaderProblem> {
    let number = || format!("column {}", nth + 1);
    let faulty =
        |(line, fault): (u64, CellFault)| HeaderProblem::new(line, &number(), fault.message());
    let text = cell.text().map_err(faulty)?;
    let text = text.trim();
    let headed = |column, read_as| {
        let name = excerpt(text).into_owned();
        Ok((CsvHeader { column, name }, read_as))
    };
    if text.is_empty() {
        return Ok((CsvHeader { column: Column::Nameless, name: number() }, ReadAs::Named));
    }
    let wrong =
        |mistake| Err(HeaderProblem { line: cell.line, name: excerpt(text).into_owned(), mistake });
    let is_text = |name: &&String| same_name(name, text);
    if options.ignored.iter().any(|name| is_text(&name)) {
        return headed(Column::Ignored, ReadAs::Nothing);
    }
    if let Some((_, to)) = options.maps.iter().find(|(from, _)| is_text(&from)) {
        return match known(kind, to) {
            Some((column, name)) => headed(column, ReadAs::Other(name)),
            None => wrong(unknown(kind, to)),
        };
    }
    if options.match_on.iter().any(|name| is_text(&name)) {
        return match can_rename(kind) {
            true => headed(Column::OldName, ReadAs::Other(OLD_NAME)),
            false => {
                let what = ColumnOptionError::CannotRename(kind).to_string();
                wrong(CellMistake::new(CsvProblemKind::Header, what))
            }
        };
    }
    if same_name(text, PROBLEM) {
        return headed(Column::Ignored, ReadAs::Named);
    }
    if text == ROW {
        return headed(Column::Ignored, ReadAs::Nothing);
    }
    match known(kind, text) {
        Some((column, name)) => {
            let is_own =
                text == name || column == Column::OldName || column_place(kind, text).is_some();
            headed(column, if is_own { ReadAs::Named } else { ReadAs::Other(name) })
        }
        None => wrong(unknown(kind, text)),
    }
}

/// The name under which a copy of the column is read without options: its own, or that of its field.
/// `None` for a column that is not read.
pub(crate) fn readable_name(
    kind: CsvKind,
    nth: usize,
    cell: &Cell<'_>,
    options: &ColumnOptions,
) -> Option<String> {
    let own = || Some(cell.raw.clone().into_owned());
    let Ok((header, read_as)) = header_column(kind, nth, cell, options) else { return own() };
    if header.column == Column::Ignored {
        return None;
    }
    let plain = header_column(kind, nth, cell, &ColumnOptions::default());
    let is_plain = plain.is_ok_and(|(plain, _)| plain.column == header.column);
    match read_as {
        ReadAs::Other(field) if !is_plain => Some(field.to_owned()),
        _ => own(),
    }
}

/// The name of the column with the name that a record has had so far.
pub const OLD_NAME: &str = "old name";

/// Whether the API can rename the records, so that a file may have their old names.
pub(crate) fn can_rename(kind: CsvKind) -> bool {
    let CsvKind::Resource(resource) = kind else { return false };
    let update = resource.spec().endpoint(Verb::Update);
    let sets_name = update.is_some_and(|it| it.params.iter().any(|param| param.name == "name"));
    sets_name && resource.spec().natural_key == ["name"]
}

/// The column with a name, and its own name. The name itself has priority over another spelling.
fn known(kind: CsvKind, name: &str) -> Option<(Column, &'static str)> {
    let names = || kind.columns().map(|own| (own, column_place(kind, own)));
    let exact = column_place(kind, name);
    let named = |(own, at): (&'static str, Option<usize>)| Some((Column::Field(at?), own));
    names()
        .find(|(_, at)| exact.is_some() && *at == exact)
        .or_else(|| names().find(|(own, _)| same_name(own, name)))
        .and_then(named)
        .or_else(|| {
            (can_rename(kind) && same_name(name, OLD_NAME)).then_some((Column::OldName, OLD_NAME))
        })
}

/// Whether two names differ at most in case, spaces, `_` and `-`.
fn same_name(one: &str, other: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = char> + '_ {
        let kept = |letter: &char| !letter.is_whitespace() && !matches!(letter, '_' | '-');
        name.chars().filter(kept).flat_map(char::to_lowercase)
    }
    letters(one).eq(letters(other))
}

fn column_place(kind: CsvKind, name: &str) -> Option<usize> {
    match kind {
        CsvKind::Resource(resource) => {
            let (place, field) = resource.spec().field(name)?;
            (!crate::change::csv_files::is_secret(field)).then_some(place)
        }
        CsvKind::CampaignLinks => kind.columns().position(|it| it == name),
    }
}

fn unknown(kind: CsvKind, name: &str) -> CellMistake {
    if same_name(name, SECRET) {
        let what = "passwords are not allowed in files; remove the column";
        return CellMistake::new(CsvProblemKind::Header, what);
    }
    let what = match suggest(name, kind.columns()) {
        Some(near) => format!("unknown column; did you mean `{near}`?"),
        None => {
            let known: Vec<_> = kind.columns().collect();
            format!("unknown column; the columns are {}", known.join(", "))
        }
    };
    CellMistake::new(CsvProblemKind::UnknownColumn, what)
}

/// The beginning of a text from a file, for messages.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    truncate(text, 40)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::columns::*;
    use crate::model::Resource;

    const CHANNELS: CsvKind = CsvKind::Resource(Resource::Channels);

    fn options(maps: &[(&str, &str)], ignored: &[&str], match_on: Option<&str>) -> ColumnOptions {
        let owned = |text: &&str| (*text).to_owned();
        ColumnOptions {
            maps: maps.iter().map(|(from, to)| (owned(from), owned(to))).collect(),
            ignored: ignored.iter().map(owned).collect(),
            match_on: match_on.as_ref().map(owned),
            trim: false,
        }
    }

    fn parsed(kind: CsvKind, text: &str, options: &ColumnOptions) -> ParsedHeader {
        let source = RowSource::of_csv(text.as_bytes(), None).unwrap();
        let row = source.rows().next().unwrap();
        header(kind, &row, options).map_err(|wrong| format!("{wrong:?}")).unwrap()
    }

    fn note(renamed: Vec<(String, &'static str)>) -> Option<String> {
        renamed_note(&[("x".to_owned(), renamed)])
    }

    #[test]
    fn columns_of_several_files_are_one_remark() {
        let file = |names: &[&str]| {
            let pairs = names.iter().map(|name| ((*name).to_owned(), "name"));
            ("x".to_owned(), pairs.collect())
        };
        let told = renamed_note(&[file(&["Name"]), file(&["Name", "Display"]), file(&["Display"])]);
        let expected = "in 3 files or sheets: column `Name` is read as `name`, `Display` as `name`";
        assert_eq!(told.unwrap(), expected);
        assert_eq!(renamed_note(&[]), None);
    }

    #[test]
    fn names_are_compared_without_case_spaces_and_dashes() {
        let header =
            parsed(CHANNELS, "ID,Name, co-LOR ,star_red,Problem", &ColumnOptions::default());
        let place = |name| Column::Field(column_place(CHANNELS, name).unwrap());
        let columns: Vec<_> = header.columns.iter().map(|it| it.column).collect();
        let expected = [place("id"), place("name"), place("color"), place("starred")];
        assert_eq!(columns, [&expected[..], &[Column::Ignored]].concat());
        assert_eq!(
            note(header.renamed).unwrap(),
            "x: column `ID` is read as `id`, `Name` as `name`, `co-LOR` as `color`, `star_red` as `starred`"
        );
        assert_eq!(header.wrong, []);
        let header = parsed(CHANNELS, "id,name,color", &ColumnOptions::default());
        assert_eq!(header.renamed, []);
    }

    #[test]
    fn two_columns_for_one_field_are_a_mistake() {
        let header = parsed(CHANNELS, "name,Name", &ColumnOptions::default());
        let what = "duplicate column: the same as `name`".to_owned();
        assert_eq!(header.wrong, [HeaderProblem::new(1, "Name", what)]);
    }

    #[test]
    fn columns_are_mapped_and_ignored() {
        let options =
            options(&[("display name", "name"), ("Nr.=", "ID")], &["Owner", "password"], None);
        let header = parsed(CHANNELS, "Display Name,nr.=,owner,Password", &options);
        assert_eq!(header.wrong, []);
        assert_eq!(
            note(header.renamed).unwrap(),
            "x: column `Display Name` is read as `name`, `nr.=` as `id`"
        );
        let none = parsed(CHANNELS, "name,Pass word", &ColumnOptions::default());
        assert!(none.wrong[0].mistake.what.starts_with("passwords are not allowed"));
    }

    #[test]
    fn an_old_name_is_a_column_of_records_that_can_be_renamed() {
        for name in ["old name", "old_name", "Old Name", "oldname"] {
            let header = parsed(CHANNELS, &format!("{name},name"), &ColumnOptions::default());
            assert_eq!((header.columns[0].column, header.renamed.len()), (Column::OldName, 0));
        }
        let matched = parsed(CHANNELS, "Title,name", &options(&[], &[], Some("title")));
        assert_eq!(matched.columns[0].column, Column::OldName);
        let note = note(matched.renamed).unwrap();
        assert_eq!(note, "x: column `Title` is read as `old name`");
        let domains = CsvKind::Resource(Resource::Domains);
        let header = parsed(domains, "old name,domain", &ColumnOptions::default());
        assert!(header.wrong[0].mistake.kind == CsvProblemKind::UnknownColumn);
        let renamed: Vec<_> = CsvKind::all().filter(|kind| can_rename(*kind)).collect();
        assert_eq!(renamed, [CsvKind::Resource(Resource::Campaigns), CHANNELS]);
    }

    #[test]
    fn options_that_fit_no_column_are_refused() {
        let names =
            |text: &str| header_names(CHANNELS, &RowSource::of_csv(text.as_bytes(), None).unwrap());
        let files =
            [(CHANNELS, names("Display name;color")), (CsvKind::CampaignLinks, names("link"))];
        let told =
            |options: &ColumnOptions| options.check(&files, false).map_err(|it| it.to_string());
        assert_eq!(told(&options(&[("display_name", "Name")], &["LINK"], None)), Ok(()));
        let wrong = |options: ColumnOptions| told(&options).unwrap_err();
        assert_eq!(
            wrong(options(&[("Dispaly name", "name")], &[], None)),
            "no column is called `Dispaly name`; did you mean `Display name`?"
        );
        assert_eq!(wrong(options(&[], &["owner"], None)), "no column is called `owner`");
        assert_eq!(options(&[("x", "name")], &["owner"], Some("y")).check(&files, true), Ok(()));
        assert_eq!(
            wrong(options(&[("color", "nmae")], &[], None)),
            "channels has no column `nmae`; did you mean `name`?"
        );
        assert_eq!(
            wrong(options(&[("color", "password")], &[], None)),
            "channels has no column `password`; its columns are id, name, description, color, starred"
        );
        assert_eq!(
            wrong(options(&[], &[], Some("link"))),
            "the API cannot rename records of campaign_links"
        );
    }
}
