//! The flags of every command that reads CSV files.

use std::path::PathBuf;

use super::App;
use crate::change::csv_files::ColumnOptions;
use crate::ops::input::CsvOptions;

/// How the columns of CSV files are read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct CsvArgs {
    /// Read a column of the CSV file as another one, such as "Display name=name"; can be repeated
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = column_map)]
    pub map: Vec<(String, String)>,
    /// Do not read these columns of the CSV file
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub ignore_columns: Vec<String>,
    /// Find records by the name in this column, and give them the name in `name`
    #[arg(long, value_name = "COLUMN")]
    pub match_on: Option<String>,
    /// Remove blanks at the beginning and the end of each edited cell
    #[arg(long)]
    pub trim: bool,
    /// If the CSV file has mistakes, write the rows with them and the reasons to this file
    #[arg(long, value_name = "FILE")]
    pub annotate: Option<PathBuf>,
}

/// The answer to the question about suspicious values: a flag of every command that asks it.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct SuspiciousArgs {
    /// Use values that are probably mistakes without asking, such as a name that ends with a space
    #[arg(long)]
    pub accept_suspicious: bool,
}

impl CsvArgs {
    /// These flags as options of an operation.
    #[must_use]
    pub fn options(&self, app: &App) -> CsvOptions {
        let columns = ColumnOptions {
            maps: self.map.clone(),
            ignored: self.ignore_columns.clone(),
            match_on: self.match_on.clone(),
            trim: self.trim,
        };
        CsvOptions { columns, annotate: self.annotate.clone(), force: app.env.force }
    }
}

/// Parses `COLUMN=FIELD`. The name of a field has no `=`.
fn column_map(text: &str) -> Result<(String, String), String> {
    let (column, field) = text.rsplit_once('=').unwrap_or_default();
    if column.trim().is_empty() || field.trim().is_empty() {
        return Err("write COLUMN=FIELD, such as \"Display name=name\"".to_owned());
    }
    Ok((column.to_owned(), field.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_a_column_and_a_field() {
        let map = |column: &str, field: &str| Ok((column.to_owned(), field.to_owned()));
        assert_eq!(column_map("Display name=name"), map("Display name", "name"));
        assert_eq!(column_map("a=b=name"), map("a=b", "name"));
        for wrong in ["", "name", "=name", "a=", " = "] {
            assert!(column_map(wrong).is_err(), "{wrong}");
        }
    }
}
