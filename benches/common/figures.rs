//! Times and sizes, as the tables show them.

use std::time::Duration;

use crate::child::Run;
use crate::table::{Kind, Table};

/// The best time of several runs.
pub fn best(runs: &[Run]) -> Duration {
    runs.iter().map(|run| run.time).min().unwrap_or_default()
}

pub fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

pub fn times(ours: Duration, other: Duration) -> String {
    format!("{} = {:.2} ×", seconds(ours), ours.as_secs_f64() / other.as_secs_f64())
}

/// The best time of `ours`, as a multiple of that of `other`, and the same of the medians.
pub fn best_and_median(ours: &[Run], other: &[Run]) -> String {
    let ratio = median(ours).as_secs_f64() / median(other).as_secs_f64();
    format!("{}, median {ratio:.2} ×", times(best(ours), best(other)))
}

fn median(runs: &[Run]) -> Duration {
    let mut times: Vec<Duration> = runs.iter().map(|run| run.time).collect();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A row for the highest peak of several runs, which is to be `most` MiB at most.
pub fn memory<'a>(
    table: &mut Table,
    name: &str,
    runs: impl IntoIterator<Item = &'a Run>,
    most: u64,
) {
    if let Some(peak) = runs.into_iter().filter_map(|run| run.peak).max() {
        let measured = format!("{:.1} MiB", peak as f64 / f64::from(1 << 20));
        table.row(Kind::Exact, name, measured, format!("≤ {most} MiB"), peak <= most << 20);
    }
}
