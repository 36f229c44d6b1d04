//! The page that compares two snapshots of an account.

use askama::Template;

use crate::clock::Timestamp;
use crate::model::{Resource, SnapshotId};
use crate::ui::links;
use crate::ui::pages::changes::{self, ChangeRow, CountRow};
use crate::ui::pages::snapshot::SIZE;
use crate::ui::pages::{Link, PageContext, PageError, PageFrame, Pager, at};
use crate::ui::time_text::TimeText;

/// Query of the comparison. Invalid values count as empty.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct CompareQuery {
    /// Id of the first snapshot; empty for the one before `to`.
    pub from: String,
    /// Id of the second snapshot; empty for the newest.
    pub to: String,
    /// Name of the only resource to show; empty for all.
    pub resource: String,
    /// Number of the page, from 1.
    pub page: String,
}

/// How many of the newest snapshots the form offers.
const CHOICES: u64 = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    number: SnapshotId,
    text: String,
    from: bool,
    to: bool,
}

#[derive(Template)]
#[template(path = "compare.html", config = "src/ui/templates/askama.toml")]
struct ComparePage {
    frame: PageFrame,
    action: String,
    choices: Vec<Choice>,
    from: Side,
    to: Side,
    /// Whether the query had the later snapshot first.
    swapped: bool,
    scans: Option<String>,
    counts: Vec<CountRow>,
    only: Option<&'static str>,
    all_href: String,
    changes: Vec<ChangeRow>,
    pager: Pager,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Side {
    number: SnapshotId,
    href: String,
    begun: TimeText,
}

/// Renders the comparison, by default of the newest two snapshots.
///
/// # Errors
/// [`PageError::NotFound`] when the account or one of the snapshots does not exist.
pub fn page(
    context: &PageContext<'_>,
    name: &str,
    query: &CompareQuery,
) -> Result<String, PageError> {
    let mut vault = context.vault(name)?;
    let times = vault.snapshot_times(CHOICES)?;
    let (from, to, swapped) = chosen(query, &times).ok_or_else(|| {
        let hint = format!("Run `linkvault backup {name}` to make another one.");
        PageError::not_found("There are no two snapshots to compare yet", hint)
    })?;
    let (first, second) = (vault.snapshot(from)?, vault.snapshot(to)?);
    let only = Resource::from_name(&query.resource);
    let (from_text, to_text) = (from.to_string(), to.to_string());
    let link = |resource: &str, page: &str| {
        let parameters = [
            ("from", from_text.as_str()),
            ("to", &to_text),
            ("resource", resource),
            ("page", page),
        ];
        links::with(&links::compare(name), &parameters)
    };
    let counts = changes::counts(&vault, (from, to), |it| link(it.name(), ""))?;
    let scans = changes::scans(&vault, (from, to))?;
    let selected = changes::selected(&counts, only);
    let total = selected.iter().map(|(_, count)| count).sum();
    let slice = Pager::slice(at(&query.page), SIZE);
    let found = changes::read(&mut vault, name, (from, to), &selected, slice)?;
    let side = |number, started| Side {
        number,
        href: links::snapshot(name, number),
        begun: TimeText::new(started, context.now),
    };
    let page = ComparePage {
        frame: context.frame(name, "Compare", vec![Link::new(links::snapshots(name), "Snapshots")]),
        action: links::compare(name),
        choices: choices(&times, (from, first.started), (to, second.started), context.now),
        from: side(from, first.started),
        to: side(to, second.started),
        swapped,
        scans,
        counts,
        only: only.map(|it| it.name()),
        all_href: link("", ""),
        changes: found,
        pager: Pager::new(at(&query.page), SIZE, total, |page| {
            link(only.map_or("", |it| it.name()), page)
        }),
    };
    Ok(page.render()?)
}

/// The earlier and the later snapshot of the query, and whether the query had them swapped.
/// `times` are the newest snapshots, newest first.
fn chosen(
    query: &CompareQuery,
    times: &[(SnapshotId, Timestamp)],
) -> Option<(SnapshotId, SnapshotId, bool)> {
    let to = query.to.parse().ok().or_else(|| times.first().map(|(number, _)| *number))?;
    let before = || times.iter().map(|(number, _)| *number).find(|number| *number < to);
    let from = query.from.parse().ok().or_else(before)?;
    Some(if from <= to { (from, to, false) } else { (to, from, true) })
}

fn choices(
    times: &[(SnapshotId, Timestamp)],
    from: (SnapshotId, Timestamp),
    to: (SnapshotId, Timestamp),
    now: Timestamp,
) -> Vec<Choice> {
    let mut all = times.to_vec();
    for chosen in [to, from] {
        if !all.iter().any(|(number, _)| *number == chosen.0) {
            all.push(chosen);
        }
    }
    let one = |(number, started): (SnapshotId, Timestamp)| Choice {
        number,
        text: format!("#{number}, {}", TimeText::new(started, now).short),
        from: number == from.0,
        to: number == to.0,
    };
    all.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use crate::ui::pages::compare::*;

    #[test]
    fn the_newest_two_are_compared_by_default() {
        let times = [9, 7, 2].map(|number| (SnapshotId(number), Timestamp(number)));
        let ask = |from: &str, to: &str| CompareQuery {
            from: from.to_owned(),
            to: to.to_owned(),
            ..CompareQuery::default()
        };
        assert_eq!(chosen(&ask("", ""), &times), Some((SnapshotId(7), SnapshotId(9), false)));
        assert_eq!(chosen(&ask("", "7"), &times), Some((SnapshotId(2), SnapshotId(7), false)));
        assert_eq!(chosen(&ask("9", "2"), &times), Some((SnapshotId(2), SnapshotId(9), true)));
        assert_eq!(chosen(&ask("x", ""), &times[2..]), None);
        assert_eq!(chosen(&ask("", ""), &[]), None);
    }
}
