//! Tables as text. Cells are escaped, and cells that do not fit the width are wrapped within their
//! column.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};

use crate::escaped::Escaped;

/// A table: headers, then rows with one cell for each header.
#[derive(Debug)]
pub struct TextTable {
    table: comfy_table::Table,
    right: Vec<usize>,
}

impl TextTable {
    /// A table without rows. Headers are printed in upper case.
    #[must_use]
    pub fn new(headers: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(headers.iter().map(|header| Cell::new(header.to_uppercase())));
        Self { table, right: Vec::new() }
    }

    /// The same table, with these columns (from 0) aligned right, as numbers are.
    #[must_use]
    pub fn right(self, columns: &[usize]) -> Self {
        Self { right: columns.to_vec(), ..self }
    }

    /// Adds a row.
    pub fn row<T: std::fmt::Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.table.add_row(cells.into_iter().map(|cell| Cell::new(Escaped(cell).to_string())));
    }

    /// Whether the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The table as text, if possible not wider than `width` columns.
    #[must_use]
    pub fn render(mut self, width: u16) -> String {
        self.table.set_width(width);
        for (index, column) in self.table.column_iter_mut().enumerate() {
            // Two spaces separate the columns; lines are not indented.
            column.set_padding((0, 2));
            if self.right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<_> = self.table.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_right_aligned() {
        let mut table = TextTable::new(&["resource", "records"]).right(&[1]);
        table.row(["campaigns", "7"]);
        table.row(["qr\u{1b}", "1,200"]);
        let expected = "RESOURCE   RECORDS\ncampaigns        7\nqr\\u{1b}     1,200";
        assert_eq!(table.render(80), expected);
    }

    #[test]
    fn long_cells_are_wrapped_to_the_width() {
        let mut table = TextTable::new(&["name", "what"]);
        table.row(["a", &"word ".repeat(40)]);
        assert!(table.render(40).lines().all(|line| line.len() <= 40));
    }
}
