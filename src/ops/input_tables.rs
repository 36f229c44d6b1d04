//! The tables of files that are read as input: their rows, and the options of their columns.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::output_files::{OutputKind, require_no_input, require_output, write_output};
use super::{NextStep, OpError, OpErrorKind};
use crate::change::csv_files::{
    ColumnOptions, CsvKind, CsvProblems, EncodingProblem, RowSource, TextEncoding, annotated,
    header_names,
};
use crate::change::workbook::Sheet;
use crate::files::open_named;
use crate::format;
use crate::model::Resource;
use crate::suggest::suggest;

/// The most files that a message names.
pub(super) const MOST_NAMED: usize = 5;

/// How the columns of CSV files are read, and what becomes of rows with mistakes.
#[derive(Debug, Clone, Default)]
pub struct CsvOptions {
    /// Which columns are read under other names.
    pub columns: ColumnOptions,
    /// The file for the rows with mistakes, and the reasons.
    pub annotate: Option<PathBuf>,
    /// Whether that file may replace any file.
    pub force: bool,
}

impl CsvOptions {
    /// Refuses these options for an input that has no columns.
    ///
    /// # Errors
    /// If there are options.
    pub fn require_none(&self, name: &str, what: &str) -> Result<(), OpError> {
        if self.columns.is_empty() && self.annotate.is_none() {
            return Ok(());
        }
        let message = format!("cannot read columns of {name}: it is {what}");
        Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::OmitColumnOptions))
    }

    /// Checks that the options fit the tables. With `others`, further tables are not read, and the names
    /// of columns may be for them.
    pub(super) fn check(
        &self,
        tables: &[InputTable],
        encoding: Option<TextEncoding>,
        others: bool,
    ) -> Result<(), OpError> {
        if let Some(to) = &self.annotate {
            if tables.len() != 1 {
                let names: Vec<_> = tables.iter().map(|table| table.name.clone()).collect();
                let (count, names) = (tables.len(), format::list(&names, MOST_NAMED));
                let message =
                    format!("cannot annotate {count} files or sheets in one copy: {names}");
                return Err(
                    OpError::new(OpErrorKind::Usage, message).next(NextStep::AnnotateOneFile)
                );
            }
            require_no_input(to, tables.iter().map(|table| &table.path))?;
            require_output(to, OutputKind::Annotated, self.force)?;
        }
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut headers = Vec::new();
        for table in tables {
            // A file that cannot be decoded is a mistake that is reported later.
            let Ok(source) = table.source(encoding) else { return Ok(()) };
            headers.push((table.kind, header_names(table.kind, &source)));
        }
        self.columns.check(&headers, others).map_err(|error| {
            let names: Vec<_> = tables.iter().map(|table| table.name.clone()).collect();
            let message = format!("{}: {error}", format::list(&names, MOST_NAMED));
            OpError::new(OpErrorKind::Usage, message).next(NextStep::NameColumns)
        })
    }
}

/// A table of an input: a CSV file or a sheet.
pub(super) struct InputTable {
    /// The path of the file.
    pub path: PathBuf,
    /// Its name in messages: the path, and for a sheet `#` with its title.
    pub name: String,
    /// What its rows are.
    pub kind: CsvKind,
    /// The rows.
    pub content: TableContent,
    /// Whether it is unedited since its export.
    pub untouched: bool,
}

/// The rows of a table.
pub(super) enum TableContent {
    /// The bytes of a CSV file.
    Csv(Vec<u8>),
    /// A sheet of a workbook.
    Sheet(Sheet),
}

impl InputTable {
    /// Its rows. `encoding` is that of CSV files, if the user named it.
    ///
    /// # Errors
    /// If a CSV file is not valid in its encoding.
    pub fn source(&self, encoding: Option<TextEncoding>) -> Result<RowSource<'_>, EncodingProblem> {
        match &self.content {
            TableContent::Csv(bytes) => RowSource::of_csv(bytes, encoding),
            TableContent::Sheet(sheet) => Ok(RowSource::Sheet(sheet)),
        }
    }

    /// Writes the rows with mistakes and the reasons to the file `to`, as CSV. `None` if no row has a
    /// mistake.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn annotate(
        &self,
        problems: &CsvProblems,
        encoding: Option<TextEncoding>,
        to: &Path,
        force: bool,
    ) -> Result<Option<PathBuf>, OpError> {
        let rows = self
            .source(encoding)
            .ok()
            .and_then(|source| annotated(&source, problems.reasons(&self.name)?));
        let Some(rows) = rows else { return Ok(None) };
        write_output(to, OutputKind::Annotated, force, &rows)
            .map_err(|failure| OpError { details: problems.into(), ..failure })?;
        Ok(Some(to.to_owned()))
    }
}

/// The content of a CSV file that a user names, by its name.
///
/// # Errors
/// If its name does not name a resource, or names the account's own record.
pub(super) fn kind_from_name(path: &Path) -> Result<CsvKind, OpError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match CsvKind::of_title(&name) {
        Ok(CsvKind::Resource(Resource::Account)) => {
            let message = format!("{} is for the account's own record", path.display());
            Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::NameAccountResource))
        }
        Ok(kind) => Ok(kind),
        Err(word) => {
            if let Some((_, kind)) = CsvKind::of_sheet_file(&name) {
                return Ok(kind);
            }
            let message =
                format!("cannot read {}: its name does not name a resource", path.display());
            let nearest = suggest(&word, CsvKind::all().map(CsvKind::name));
            Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::NameResource { nearest }))
        }
    }
}

/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// The bytes of a file of at most 256 MiB.
///
/// # Errors
/// If it does not exist, is not a regular file, is larger, or cannot be read.
pub fn bytes(path: &Path) -> Result<Vec<u8>, OpError> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            OpError::new(OpErrorKind::NotFound, format_args!("there is no file {shown}"))
        }
        _ => OpError::new(OpErrorKind::Failed, format_args!("cannot read {shown}: {error}")),
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(OpError::new(
            OpErrorKind::Failed,
            format_args!("cannot read {shown}: it is not a file"),
        ));
    }
    let too_large = || {
        let most = LARGEST >> 20;
        OpError::new(
            OpErrorKind::Failed,
            format_args!("cannot read {shown}: it is larger than {most} MiB"),
        )
        .next(NextStep::SplitFile)
    };
    if found.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let file = open_named(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}
