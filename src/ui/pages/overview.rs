//! The overview of all accounts, the worst first.

use askama::Template;

use crate::clock::Timestamp;
use crate::format;
use crate::health::account_status::{AccountStatus, Health};
use crate::health::attempt::BackupAttempt;
use crate::ui::links;
use crate::ui::pages::{Link, PageContext, PageError, PageFrame, Pager, at};
use crate::ui::time_text::{self, TimeText};

/// Accounts per page.
const SIZE: u64 = 100;

/// Query of the overview. Invalid values count as empty.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct OverviewQuery {
    /// Name of the only state to show; empty for all.
    pub state: String,
    /// Part of the account's name.
    pub q: String,
    /// Number of the page, from 1.
    pub page: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    name: String,
    href: String,
    health: &'static str,
    tone: &'static str,
    words: String,
    complete: Option<TimeText>,
    next: Option<TimeText>,
    running: bool,
    schedule: Option<String>,
    records: String,
    used: String,
}

/// A link that filters by state, with the number of accounts in that state.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Filter {
    href: String,
    text: String,
    tone: &'static str,
    count: String,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "overview.html", config = "src/ui/templates/askama.toml")]
struct OverviewPage {
    frame: PageFrame,
    filters: Vec<Filter>,
    state: String,
    q: String,
    rows: Vec<Row>,
    pager: Pager,
    any: bool,
}

const STATES: [Health; 4] = [Health::Failing, Health::Warning, Health::New, Health::Good];

/// Renders the overview.
///
/// # Errors
/// [`PageError::Failed`] when the template fails.
pub fn page(context: &PageContext<'_>, query: &OverviewQuery) -> Result<String, PageError> {
    Ok(build(context.accounts.account_statuses(), query, context.now).render()?)
}

fn build(
    mut account_statuses: Vec<AccountStatus>,
    query: &OverviewQuery,
    now: Timestamp,
) -> OverviewPage {
    account_statuses.sort_by(|one, other| {
        other.health.cmp(&one.health).then_with(|| one.account.cmp(&other.account))
    });
    let any = !account_statuses.is_empty();
    let filters = filters(&account_statuses, query);
    let named = query.q.trim().to_lowercase();
    account_statuses.retain(|it| {
        (query.state.is_empty() || it.health.name() == query.state)
            && it.account.to_lowercase().contains(&named)
    });
    let page = at(&query.page);
    let total = account_statuses.len() as u64;
    let pager = Pager::new(page, SIZE, total, |page| {
        links::with("/", &[("state", &query.state), ("q", &query.q), ("page", page)])
    });
    let slice = Pager::slice(page, SIZE);
    let skip = usize::try_from(slice.skip).unwrap_or(usize::MAX);
    let shown = account_statuses.iter().skip(skip).take(SIZE as usize);
    OverviewPage {
        frame: PageFrame { title: "Accounts".to_owned(), crumbs: vec![Link::new("", "Accounts")] },
        filters,
        state: query.state.clone(),
        q: query.q.clone(),
        rows: shown.map(|it| row(it, now)).collect(),
        pager,
        any,
    }
}

fn filters(account_statuses: &[AccountStatus], query: &OverviewQuery) -> Vec<Filter> {
    let filter = |state: &str, text: &str, tone, count: usize| Filter {
        href: links::with("/", &[("state", state), ("q", &query.q)]),
        text: text.to_owned(),
        tone,
        count: format::count(count as u64),
        chosen: query.state == state,
    };
    let mut all = vec![filter("", "All", "all", account_statuses.len())];
    for health in STATES {
        let count = account_statuses.iter().filter(|it| it.health == health).count();
        all.push(filter(health.name(), time_text::health(health), health.name(), count));
    }
    all
}

fn row(it: &AccountStatus, now: Timestamp) -> Row {
    Row {
        name: it.account.clone(),
        href: links::account(&it.account),
        health: time_text::health(it.health),
        tone: it.health.name(),
        words: time_text::cut(&it.words),
        complete: it.last_complete.map(|time| TimeText::new(time, now)),
        next: it.next.map(|time| TimeText::new(time, now)),
        running: it.running.is_some(),
        schedule: it.schedule.clone(),
        records: format::count(it.records.values().sum()),
        used: limit_usage(it.limit, it.last.as_ref()),
    }
}

/// How much of the service's rate limit the newest backup used.
pub(crate) fn limit_usage(limit: Option<u64>, last: Option<&BackupAttempt>) -> String {
    let limit = limit.filter(|limit| *limit > 0);
    match (limit, last) {
        (None, None) => "—".to_owned(),
        (Some(limit), None) => format!("{} per minute", format::count(limit)),
        (None, Some(last)) => format::counted(last.requests, "request", "requests"),
        (Some(limit), Some(last)) => {
            // The window is per minute; a shorter backup used one window. One that began near the
            // end of a window, or under a higher limit, sent more in a minute than the limit.
            let minutes = last.ended.since(last.started).as_secs().div_ceil(60).max(1);
            let each = last.requests.div_ceil(minutes).min(limit);
            let percent = each.saturating_mul(100) / limit;
            format!(
                "{} of {} per minute ({percent}\u{a0}%)",
                format::count(each),
                format::count(limit)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ui::pages::overview::*;
    use crate::ui::tests::account_status;

    fn sample_statuses() -> Vec<AccountStatus> {
        let mut all: Vec<_> =
            (0..250).map(|nth| account_status(&format!("a{nth:03}"), Health::Good)).collect();
        all.push(account_status("zz", Health::Failing));
        all.push(account_status("yy", Health::Warning));
        all
    }

    fn names(query: &OverviewQuery) -> (Vec<String>, Pager) {
        let page = build(sample_statuses(), query, Timestamp(1_760_000_000_000));
        (page.rows.into_iter().map(|row| row.name).collect(), page.pager)
    }

    #[test]
    fn the_worst_accounts_are_first_and_the_list_is_paged() {
        let (rows, pager) = names(&OverviewQuery::default());
        assert_eq!((rows.len(), rows[0].as_str(), rows[1].as_str()), (100, "zz", "yy"));
        assert_eq!(pager.text, "1–100 of 252");
        let (rows, _) = names(&OverviewQuery { page: "3".to_owned(), ..OverviewQuery::default() });
        assert_eq!((rows.len(), rows[51].as_str()), (52, "a249"));
    }

    #[test]
    fn accounts_can_be_filtered_by_state_or_name() {
        let (rows, _) =
            names(&OverviewQuery { state: "warning".to_owned(), ..OverviewQuery::default() });
        assert_eq!(rows, ["yy"]);
        let (rows, _) = names(&OverviewQuery { q: " A01".to_owned(), ..OverviewQuery::default() });
        assert_eq!(rows.len(), 10);
        let page = build(sample_statuses(), &OverviewQuery::default(), Timestamp(0));
        let counts: Vec<_> = page.filters.iter().map(|it| it.count.as_str()).collect();
        assert_eq!(counts, ["252", "1", "1", "0", "250"]);
    }

    #[test]
    fn the_usage_of_the_limit_is_shown() {
        let it = account_status("main", Health::Good);
        assert_eq!(limit_usage(Some(30), it.last.as_ref()), "12 of 30 per minute (40\u{a0}%)");
        assert_eq!(limit_usage(Some(5), it.last.as_ref()), "5 of 5 per minute (100\u{a0}%)");
        assert_eq!(limit_usage(None, it.last.as_ref()), "24 requests");
        assert_eq!(limit_usage(Some(0), None), "—");
    }

    #[test]
    fn a_hostile_account_name_is_escaped() {
        let mut it = account_status("\"><img onerror=x>", Health::Failing);
        it.words = "<script>\u{202e}".to_owned();
        let page = build(
            vec![it],
            &OverviewQuery { q: "\"><".to_owned(), ..OverviewQuery::default() },
            Timestamp(0),
        );
        let text = page.render().unwrap();
        assert!(!text.contains("<img onerror") && !text.contains("<script"), "{text}");
        assert!(!text.contains('\u{202e}') && text.contains(r"&#60;script&#62;\u{202e}"));
    }
}
