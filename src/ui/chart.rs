//! Computes the chart of a series of numbers over time: lines, ticks and texts. Pure.

use crate::clock::Timestamp;
use crate::format;
use crate::ui::chart_ticks;
use crate::ui::time_text::TimeText;
use crate::vault::read::SeriesSample;

/// A chart in two sizes, for wide and for narrow screens, and its values as a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Prefix of the element ids, which screen readers use.
    pub id: &'static str,
    /// Heading of the chart.
    pub title: &'static str,
    /// First and last value in one sentence.
    pub summary: String,
    /// The same chart in several sizes.
    pub drawings: Vec<ChartSize>,
    /// Time and value of each point, newest first.
    pub rows: Vec<(TimeText, String)>,
}

/// One drawing of a chart. All lengths are in SVG user units.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartSize {
    /// CSS class of the drawing.
    pub name: &'static str,
    /// Width of the drawing.
    pub width: u32,
    /// Height of the drawing.
    pub height: u32,
    /// Left edge of the plot area.
    pub left: u32,
    /// Right edge of the plot area.
    pub right: u32,
    /// Top edge of the plot area.
    pub top: u32,
    /// Bottom edge of the plot area.
    pub bottom: u32,
    /// Ticks of the value axis.
    pub values: Vec<Tick>,
    /// Ticks of the time axis.
    pub times: Vec<Tick>,
    /// The line as an SVG path; empty for less than two points.
    pub path: String,
    /// The points, oldest first.
    pub dots: Vec<ChartPoint>,
}

/// A tick of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Position along the axis.
    pub at: String,
    /// Text beside the tick.
    pub label: String,
}

/// A point of the line.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartPoint {
    /// Horizontal position.
    pub x: String,
    /// Vertical position.
    pub y: String,
    /// Time and value as text.
    pub label: String,
    /// Whether it is the newest point.
    pub last: bool,
}

/// The most points that are drawn; longer series are thinned.
const MAX_POINTS: usize = 120;

/// Draws `samples`. `what` is the counted noun in singular and plural.
#[must_use]
pub fn chart(
    id: &'static str,
    title: &'static str,
    what: (&str, &str),
    samples: &[SeriesSample<i64>],
    now: Timestamp,
) -> Chart {
    let mut points: Vec<(Timestamp, i64)> = samples.iter().map(|it| (it.time, it.value)).collect();
    points.sort_by_key(|(time, _)| *time);
    let points = sampled(&points);
    let rows = points.iter().rev().map(|(at, it)| (TimeText::new(*at, now), number(*it)));
    Chart {
        id,
        title,
        summary: summary(what, &points),
        drawings: vec![
            drawing("wide", (560, 230), 5, &points),
            drawing("narrow", (320, 200), 3, &points),
        ],
        rows: rows.collect(),
    }
}

/// At most [`MAX_POINTS`] points, evenly spaced, with the first and the last.
fn sampled(points: &[(Timestamp, i64)]) -> Vec<(Timestamp, i64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    (0..MAX_POINTS).map(|nth| points[nth * (points.len() - 1) / (MAX_POINTS - 1)]).collect()
}

fn number(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", format::count(value.unsigned_abs()))
}

fn summary((one, many): (&str, &str), points: &[(Timestamp, i64)]) -> String {
    let counted = |value: i64| format!("{} {}", number(value), if value == 1 { one } else { many });
    let day = |time: Timestamp| time.iso().chars().take(10).collect::<String>();
    match points {
        [] => format!("No {many} recorded yet"),
        [(time, value)] => format!("{} on {}", counted(*value), day(*time)),
        [(begin, first), .., (end, last)] => format!(
            "From {} on {} to {} on {}",
            counted(*first),
            day(*begin),
            counted(*last),
            day(*end)
        ),
    }
}

fn drawing(
    name: &'static str,
    (width, height): (u32, u32),
    most_times: usize,
    points: &[(Timestamp, i64)],
) -> ChartSize {
    let least = points.iter().map(|(_, value)| *value).min().unwrap_or(0);
    let most = points.iter().map(|(_, value)| *value).max().unwrap_or(0);
    let values = chart_ticks::values(least, most, 4);
    let labels: Vec<_> = values.iter().map(|it| chart_ticks::label(*it)).collect();
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let left = 16 + 7 * u32::try_from(longest).unwrap_or(0).min(12);
    let (right, top, bottom) = (width - 16, 12, height - 30);
    let (low, high) = (values[0], values[values.len() - 1]);
    let y = |value: i128| {
        let part = (value - low) as f64 / (high - low).max(1) as f64;
        f64::from(bottom) - part * f64::from(bottom - top)
    };
    let begin = points.first().map_or(Timestamp(0), |(time, _)| *time);
    let end = points.last().map_or(Timestamp(0), |(time, _)| *time);
    let span = i128::from(end.0) - i128::from(begin.0);
    let x = |time: Timestamp| {
        let part = match span {
            0 => 0.5,
            span => (i128::from(time.0) - i128::from(begin.0)) as f64 / span as f64,
        };
        f64::from(left) + part * f64::from(right - left)
    };
    let times = match points {
        [] => Vec::new(),
        [(time, _)] => vec![(*time, time.iso().chars().take(10).collect())],
        _ => chart_ticks::times(begin, end, most_times),
    };
    let at = |value: f64| format!("{value:.1}");
    let mut path = String::new();
    for (nth, (time, value)) in points.iter().enumerate().filter(|_| points.len() > 1) {
        let letter = if nth == 0 { 'M' } else { 'L' };
        path.push_str(&format!("{letter}{} {}", at(x(*time)), at(y(i128::from(*value)))));
    }
    let dots = points.iter().enumerate().map(|(nth, (time, value))| ChartPoint {
        x: at(x(*time)),
        y: at(y(i128::from(*value))),
        label: format!("{}: {}", time.iso(), number(*value)),
        last: nth + 1 == points.len(),
    });
    ChartSize {
        name,
        width,
        height,
        left,
        right,
        top,
        bottom,
        values: values
            .iter()
            .zip(labels)
            .map(|(value, label)| Tick { at: at(y(*value)), label })
            .collect(),
        times: times.into_iter().map(|(time, label)| Tick { at: at(x(time)), label }).collect(),
        path,
        dots: dots.collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::SnapshotId;
    use crate::ui::chart::*;
    use proptest::prelude::*;

    fn samples(values: &[(i64, i64)]) -> Vec<SeriesSample<i64>> {
        let one = |(nth, (hour, value)): (usize, &(i64, i64))| SeriesSample {
            snapshot: SnapshotId(nth as i64 + 1),
            time: Timestamp(hour.saturating_mul(3_600_000)),
            value: *value,
        };
        values.iter().enumerate().map(one).collect()
    }

    fn drawn(values: &[(i64, i64)]) -> Chart {
        chart("scans", "Scans", ("scan", "scans"), &samples(values), Timestamp(0))
    }

    #[test]
    fn an_empty_series_has_no_line() {
        let chart = drawn(&[]);
        assert_eq!(chart.summary, "No scans recorded yet");
        let wide = &chart.drawings[0];
        assert_eq!((wide.path.as_str(), wide.dots.len(), wide.times.len()), ("", 0, 0));
    }

    #[test]
    fn one_point_is_in_the_middle() {
        let chart = drawn(&[(24, 1)]);
        assert_eq!(chart.summary, "1 scan on 1970-01-02");
        let wide = &chart.drawings[0];
        assert_eq!((wide.path.as_str(), wide.dots[0].x.as_str()), ("", "283.5"));
        assert_eq!(wide.times[0].label, "1970-01-02");
    }

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let chart = drawn(&[(0, 0), (24, 50), (48, 100)]);
        let wide = &chart.drawings[0];
        assert_eq!(wide.path, "M37.0 200.0L290.5 106.0L544.0 12.0");
        assert_eq!(wide.dots[1].label, "1970-01-02T00:00:00Z: 50");
        assert_eq!(chart.rows[0].1, "100");
        assert_eq!(chart.summary, "From 0 scans on 1970-01-01 to 100 scans on 1970-01-03");
    }

    #[test]
    fn a_flat_line_is_horizontal_and_inside() {
        let chart = drawn(&[(0, 52), (24, 52)]);
        assert_eq!(chart.drawings[0].path, "M30.0 106.0L544.0 106.0");
    }

    #[test]
    fn many_points_are_thinned_and_keep_their_ends() {
        let many: Vec<_> = (0..10_000).map(|it| (it, it)).collect();
        let chart = drawn(&many);
        assert_eq!((chart.rows.len(), chart.rows[0].1.as_str()), (MAX_POINTS, "9,999"));
        assert_eq!(chart.rows[MAX_POINTS - 1].1, "0");
    }

    proptest! {
        #[test]
        fn any_series_stays_inside_its_frame(
            values in prop::collection::vec((any::<i64>(), any::<i64>()), 0..20)
        ) {
            for drawing in drawn(&values).drawings {
                for dot in &drawing.dots {
                    let (x, y): (f64, f64) = (dot.x.parse().unwrap(), dot.y.parse().unwrap());
                    prop_assert!(x >= f64::from(drawing.left) && x <= f64::from(drawing.right));
                    prop_assert!(y >= f64::from(drawing.top) && y <= f64::from(drawing.bottom));
                }
            }
        }
    }
}
