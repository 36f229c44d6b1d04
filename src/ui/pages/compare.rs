//! Any two snapshots of an account side by side.

use askama::Template;

use crate::clock::Timestamp;
use crate::model::Resource;
use crate::ui::links;
use crate::ui::pages::changes::{self, ChangeRow, CountRow};
use crate::ui::pages::snapshot::SIZE;
use crate::ui::pages::{Link, PageContext, PageError, PageFrame, Pager, at};
use crate::ui::time_text::TimeText;

/// What can be asked of the comparison.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct CompareQuery {
    pub from: String,
    pub to: String,
    pub resource: String,
    pub page: String,
}

/// How many of the newest snapshots the form offers; others go by their number.
const CHOICES: u64 = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    number: i64,
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
    /// Whether the two were asked for in the other order.
    turned: bool,
    counts: Vec<CountRow>,
    only: Option<&'static str>,
    all_href: String,
    changes: Vec<ChangeRow>,
    pager: Pager,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Side {
    number: i64,
    href: String,
    begun: TimeText,
}

/// The comparison; without a choice, of the newest two.
///
/// # Errors
/// When there are no two such snapshots, or the vault cannot be read.
pub fn page(
    context: &PageContext<'_>,
    name: &str,
    ask: &CompareQuery,
) -> Result<String, PageError> {
    let mut vault = context.vault(name)?;
    let times = vault.snapshot_times(CHOICES)?;
    let (from, to, turned) = chosen(ask, &times).ok_or_else(|| {
        let hint = format!("`linkvault backup {name}` makes another.");
        PageError::nothing("There are no two snapshots to compare yet", hint)
    })?;
    let (first, second) = (vault.snapshot(from)?, vault.snapshot(to)?);
    let only = Resource::from_name(&ask.resource);
    let (from_text, to_text) = (from.to_string(), to.to_string());
    let link = |resource: &str, page: &str| {
        let asked = [
            ("from", from_text.as_str()),
            ("to", &to_text),
            ("resource", resource),
            ("page", page),
        ];
        links::with(&links::compare(name), &asked)
    };
    let counts = changes::counts(&vault, (from, to), |it| link(it.name(), ""))?;
    let wanted = changes::wanted(&counts, only);
    let total = wanted.iter().map(|(_, count)| count).sum();
    let slice = Pager::slice(at(&ask.page), SIZE);
    let found = changes::read(&mut vault, name, (from, to), &wanted, slice)?;
    let side = |number, started| Side {
        number,
        href: links::snapshot(name, number),
        begun: TimeText::new(started, context.now),
    };
    let page = ComparePage {
        frame: PageFrame::of(name, "Compare", vec![Link::new(links::snapshots(name), "Snapshots")]),
        action: links::compare(name),
        choices: choices(&times, (from, first.started), (to, second.started), context.now),
        from: side(from, first.started),
        to: side(to, second.started),
        turned,
        counts,
        only: only.map(|it| it.name()),
        all_href: link("", ""),
        changes: found,
        pager: Pager::new(at(&ask.page), SIZE, total, |page| {
            link(only.map_or("", |it| it.name()), page)
        }),
    };
    Ok(page.render()?)
}

/// The earlier and the later of what was asked for, and whether they were asked
/// for the other way round. `times` are the newest snapshots, newest first.
fn chosen(ask: &CompareQuery, times: &[(i64, Timestamp)]) -> Option<(i64, i64, bool)> {
    let to = ask.to.parse().ok().or_else(|| times.first().map(|(number, _)| *number))?;
    let before = || times.iter().map(|(number, _)| *number).find(|number| *number < to);
    let from = ask.from.parse().ok().or_else(before)?;
    Some(if from <= to { (from, to, false) } else { (to, from, true) })
}

fn choices(
    times: &[(i64, Timestamp)],
    from: (i64, Timestamp),
    to: (i64, Timestamp),
    now: Timestamp,
) -> Vec<Choice> {
    let mut all = times.to_vec();
    for chosen in [to, from] {
        if !all.iter().any(|(number, _)| *number == chosen.0) {
            all.push(chosen);
        }
    }
    let one = |(number, started): (i64, Timestamp)| Choice {
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
    fn without_a_choice_the_newest_two_are_compared() {
        let times = [(9, Timestamp(9)), (7, Timestamp(7)), (2, Timestamp(2))];
        let ask = |from: &str, to: &str| CompareQuery {
            from: from.to_owned(),
            to: to.to_owned(),
            ..CompareQuery::default()
        };
        assert_eq!(chosen(&ask("", ""), &times), Some((7, 9, false)));
        assert_eq!(chosen(&ask("", "7"), &times), Some((2, 7, false)));
        assert_eq!(chosen(&ask("9", "2"), &times), Some((2, 9, true)));
        assert_eq!(chosen(&ask("x", ""), &times[2..]), None);
        assert_eq!(chosen(&ask("", ""), &[]), None);
    }
}
