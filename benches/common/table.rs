//! The table of results.

/// Whether missing a target fails the run: time is noisy, sizes and numbers
/// of requests are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    #[allow(dead_code, reason = "not every benchmark tells times")]
    Noisy,
    Exact,
}

#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 4]>,
    failed: bool,
}

impl Table {
    /// A figure with no target of its own.
    pub fn note(&mut self, name: impl Into<String>, measured: impl Into<String>) {
        self.rows.push([name.into(), measured.into(), String::new(), String::new()]);
    }

    /// A figure and what it should be.
    pub fn row(
        &mut self,
        kind: Kind,
        name: impl Into<String>,
        measured: impl Into<String>,
        target: impl Into<String>,
        met: bool,
    ) {
        let verdict = if met { "ok" } else { "OVER" };
        self.failed |= !met && kind == Kind::Exact;
        let row = [name.into(), measured.into(), target.into(), verdict.to_owned()];
        eprintln!("  {}: {} (target {}) {}", row[0], row[1], row[2], row[3]);
        self.rows.push(row);
    }

    /// Prints the table as Markdown. Says whether every exact target was met.
    pub fn print(&self) -> bool {
        let heads = ["figure", "measured", "target", ""];
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.chain([heads[at].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..4).map(width).collect();
        let line = |cells: [&str; 4]| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
        };
        println!("{}", line(heads));
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        println!("{}", line([&rules[0], &rules[1], &rules[2], &rules[3]]));
        for row in &self.rows {
            println!("{}", line([&row[0], &row[1], &row[2], &row[3]]));
        }
        !self.failed
    }
}
