//! Reads a CSV file that maps ids of one account to ids of another.

use std::collections::BTreeMap;

use crate::change::csv_files::CsvProblems;
use crate::change::csv_files::cells::Cell;
use crate::change::csv_files::problem::{CsvProblemKind, Findings};
use crate::change::csv_files::source::RowSource;

const COLUMNS: [&str; 2] = ["from", "to"];

/// Reads a CSV file with the columns `from` and `to`. `name` is the file's name in messages.
///
/// # Errors
/// All mistakes in the file.
pub fn pairs(name: &str, bytes: &[u8]) -> Result<BTreeMap<i64, i64>, CsvProblems> {
    let mut findings = Findings::new(name);
    let source = RowSource::of_csv(bytes, None).map_err(|problem| problem.of_file(name))?;
    let mut rows = source.rows();
    let header = rows.next().map(|row| {
        let cells = row.cells.iter();
        cells.map(|cell| cell.text().unwrap_or_default().trim().to_lowercase()).collect::<Vec<_>>()
    });
    let header = header.unwrap_or_default();
    let places = COLUMNS.map(|column| header.iter().position(|it| it == column));
    let [Some(from), Some(to)] = places else {
        let what = "the first line must have the columns `from` and `to`";
        findings.problem(CsvProblemKind::Header, None, None, what);
        return Err(findings.problems);
    };
    let mut pairs = BTreeMap::new();
    for row in rows {
        let id = |place: usize| {
            let text = row.cells.get(place).and_then(|cell: &Cell<'_>| cell.text().ok());
            text.and_then(|text| text.trim().parse::<i64>().ok()).filter(|id| *id > 0)
        };
        findings.row = Some(row.number);
        let mut problem = |kind, column, what: &str| {
            findings.problem(kind, Some(row.line), Some(column), what);
        };
        match (id(from), id(to)) {
            (Some(old), Some(new)) => {
                if pairs.insert(old, new).is_some_and(|before| before != new) {
                    let what = format!("{old} is in the file twice with different ids");
                    problem(CsvProblemKind::Duplicate, COLUMNS[0], &what);
                }
            }
            (None, _) => problem(CsvProblemKind::NotAnId, COLUMNS[0], "is not an id"),
            (_, None) => problem(CsvProblemKind::NotAnId, COLUMNS[1], "is not an id"),
        }
    }
    if findings.problems.is_empty() { Ok(pairs) } else { Err(findings.problems) }
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::pairs::*;

    fn read(text: &str) -> Result<Vec<(i64, i64)>, Vec<String>> {
        let read = pairs("map.csv", text.as_bytes());
        read.map(|all| all.into_iter().collect()).map_err(|it| it.lines().into_iter().collect())
    }

    #[test]
    fn two_columns_in_any_order_are_pairs_of_ids() {
        assert_eq!(read("from,to\n1,10\n2, 20\n"), Ok(vec![(1, 10), (2, 20)]));
        assert_eq!(read("name;To;From\nx;10;1\n\n"), Ok(vec![(1, 10)]));
        assert_eq!(read("from,to\n1,10\n1,10\n"), Ok(vec![(1, 10)]));
    }

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let columns = "map.csv: the first line must have the columns `from` and `to`";
        assert_eq!(read("old,new\n1,2\n"), Err(vec![columns.to_owned()]));
        assert_eq!(read(""), Err(vec![columns.to_owned()]));
        let wrong = read("from,to\nx,1\n2,-5\n3\n4,5\n4,6\n").unwrap_err();
        assert_eq!(
            wrong,
            [
                "map.csv:2: from: is not an id",
                "map.csv:3: to: is not an id",
                "map.csv:4: to: is not an id",
                "map.csv:6: from: 4 is in the file twice with different ids",
            ]
        );
    }
}
