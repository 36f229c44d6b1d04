//! The overview of all accounts, the worst first.

use askama::Template;

use crate::clock::Timestamp;
use crate::format;
use crate::health::account_status::{AccountStatus, Health};
use crate::health::attempt::BackupAttempt;
use crate::health::fleet_state::FleetState;
use crate::ui::accounts::{AccountList, FleetEntry};
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
    cells: Cells,
}

/// The cells that only one kind of list has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cells {
    /// From the vault.
    Vault { records: String, used: String },
    /// Start and result of the newest backup that Temporal started.
    Fleet { last: Option<(TimeText, &'static str)> },
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
    /// Age of the list from Temporal; `None` for a list of vaults.
    fleet: Option<String>,
}

/// A state by which the accounts are filtered: its name in URLs, its label and its colour.
type StateFilter = (&'static str, &'static str, &'static str);

const STATES: [Health; 4] = [Health::Failing, Health::Warning, Health::New, Health::Good];

const fn state_of_vault(health: Health) -> StateFilter {
    (health.name(), time_text::health(health), health.name())
}

const fn state_in_fleet(state: FleetState) -> StateFilter {
    let (label, tone) = match state {
        FleetState::Failed => ("Failed", Health::Failing),
        FleetState::Stopped => ("Stopped", Health::Warning),
        FleetState::Paused => ("Paused", Health::Warning),
        FleetState::New => ("No backup yet", Health::New),
        FleetState::Good => ("Good", Health::Good),
    };
    (state.name(), label, tone.name())
}

/// An account, as the list has it.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Vault(&'a AccountStatus),
    Fleet(&'a FleetEntry),
}

impl<'a> Entry<'a> {
    fn account(self) -> &'a str {
        match self {
            Self::Vault(it) => &it.account,
            Self::Fleet(it) => &it.account,
        }
    }

    const fn state(self) -> StateFilter {
        match self {
            Self::Vault(it) => state_of_vault(it.health),
            Self::Fleet(it) => state_in_fleet(it.state),
        }
    }

    fn row(self, now: Timestamp) -> Row {
        let when = |time| TimeText::new(time, now);
        let (name, (_, health, tone)) = (self.account().to_owned(), self.state());
        let href = links::account(&name);
        match self {
            Self::Vault(it) => Row {
                words: time_text::cut(&it.words),
                complete: it.last_complete.map(when),
                next: it.next.map(when),
                running: it.running.is_some(),
                schedule: it.schedule.clone(),
                cells: Cells::Vault {
                    records: format::count(it.records.values().sum()),
                    used: limit_usage(it.limit, it.last.as_ref()),
                },
                name,
                href,
                health,
                tone,
            },
            Self::Fleet(it) => Row {
                words: time_text::cut(&it.words),
                complete: it.last_complete.map(when),
                next: it.next.map(when),
                running: it.running.is_some(),
                schedule: None,
                cells: Cells::Fleet { last: it.last.map(|(start, result)| (when(start), result)) },
                name,
                href,
                health,
                tone,
            },
        }
    }
}

/// Renders the overview.
///
/// # Errors
/// [`PageError::Failed`] when the template fails.
pub fn page(context: &PageContext<'_>, query: &OverviewQuery) -> Result<String, PageError> {
    Ok(build(&context.accounts.list(), query, context.now).render()?)
}

fn build(list: &AccountList, query: &OverviewQuery, now: Timestamp) -> OverviewPage {
    let (mut entries, states, fleet): (Vec<_>, Vec<_>, _) = match list {
        AccountList::Vaults(all) => {
            let states = STATES.map(state_of_vault).to_vec();
            (all.iter().map(Entry::Vault).collect(), states, None)
        }
        AccountList::Fleet(all) => {
            let states = FleetState::ALL.map(state_in_fleet).to_vec();
            (all.entries.iter().map(Entry::Fleet).collect(), states, Some(all))
        }
    };
    let rank = |it: &Entry<'_>| states.iter().position(|state| *state == it.state());
    entries.sort_by_cached_key(|it| (rank(it), it.account()));
    let any = !entries.is_empty();
    let filters = filters(&entries, &states, query);
    let named = query.q.trim().to_lowercase();
    entries.retain(|it| {
        (query.state.is_empty() || it.state().0 == query.state)
            && it.account().to_lowercase().contains(&named)
    });
    let page = at(&query.page);
    let total = entries.len() as u64;
    let pager = Pager::new(page, SIZE, total, |page| {
        links::with("/", &[("state", &query.state), ("q", &query.q), ("page", page)])
    });
    let slice = Pager::slice(page, SIZE);
    let skip = usize::try_from(slice.skip).unwrap_or(usize::MAX);
    let shown = entries.iter().skip(skip).take(SIZE as usize);
    OverviewPage {
        frame: PageFrame {
            title: "Accounts".to_owned(),
            crumbs: vec![Link::new("", "Accounts")],
            notice: fleet.and_then(|it| it.notice.clone()),
        },
        filters,
        state: query.state.clone(),
        q: query.q.clone(),
        rows: shown.map(|it| it.row(now)).collect(),
        pager,
        any,
        fleet: fleet.map(|it| format::age(it.read, now)),
    }
}

fn filters(entries: &[Entry<'_>], states: &[StateFilter], query: &OverviewQuery) -> Vec<Filter> {
    let filter = |state: &str, text: &str, tone, count: usize| Filter {
        href: links::with("/", &[("state", state), ("q", &query.q)]),
        text: text.to_owned(),
        tone,
        count: format::count(count as u64),
        chosen: query.state == state,
    };
    let mut all = vec![filter("", "All", "all", entries.len())];
    for state @ (name, label, tone) in states {
        let count = entries.iter().filter(|it| it.state() == *state).count();
        all.push(filter(name, label, tone, count));
    }
    all
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
    use std::sync::Arc;

    use crate::ui::accounts::FleetList;
    use crate::ui::pages::overview::*;
    use crate::ui::tests::account_status;

    fn sample_statuses() -> AccountList {
        let mut all: Vec<_> =
            (0..250).map(|nth| account_status(&format!("a{nth:03}"), Health::Good)).collect();
        all.push(account_status("zz", Health::Failing));
        all.push(account_status("yy", Health::Warning));
        AccountList::Vaults(all)
    }

    fn names(query: &OverviewQuery) -> (Vec<String>, Pager) {
        let page = build(&sample_statuses(), query, Timestamp(1_760_000_000_000));
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
        let page = build(&sample_statuses(), &OverviewQuery::default(), Timestamp(0));
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
            &AccountList::Vaults(vec![it]),
            &OverviewQuery { q: "\"><".to_owned(), ..OverviewQuery::default() },
            Timestamp(0),
        );
        let text = page.render().unwrap();
        assert!(!text.contains("<img onerror") && !text.contains("<script"), "{text}");
        assert!(!text.contains('\u{202e}') && text.contains(r"&#60;script&#62;\u{202e}"));
    }

    fn entry(account: &str, state: FleetState) -> FleetEntry {
        FleetEntry {
            account: account.to_owned(),
            state,
            words: format!("about {account}"),
            last: Some((Timestamp(1_759_999_000_000), "complete")),
            last_complete: Some(Timestamp(1_759_999_000_000)),
            next: Some(Timestamp(1_760_003_600_000)),
            running: None,
        }
    }

    fn fleet(entries: Vec<FleetEntry>, notice: Option<&str>) -> AccountList {
        AccountList::Fleet(FleetList {
            entries: Arc::new(entries),
            read: Timestamp(1_760_000_000_000 - 12_000),
            notice: notice.map(str::to_owned),
        })
    }

    #[test]
    fn a_fleet_is_shown_in_the_order_of_its_states() {
        let list = fleet(
            vec![
                entry("a-good", FleetState::Good),
                entry("a-new", FleetState::New),
                entry("z-paused", FleetState::Paused),
                entry("b-stopped", FleetState::Stopped),
                entry("a-paused", FleetState::Paused),
                entry("z-failed", FleetState::Failed),
            ],
            None,
        );
        let now = Timestamp(1_760_000_000_000);
        let page = build(&list, &OverviewQuery::default(), now);
        let names: Vec<_> = page.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["z-failed", "b-stopped", "a-paused", "z-paused", "a-new", "a-good"]);
        let counts: Vec<_> = page.filters.iter().map(|it| it.count.as_str()).collect();
        assert_eq!(counts, ["6", "1", "1", "2", "1", "1"]);
        assert_eq!((page.fleet.as_deref(), &page.frame.notice), (Some("12 seconds ago"), &None));
        let query = OverviewQuery { state: "paused".to_owned(), ..OverviewQuery::default() };
        assert_eq!(build(&list, &query, now).rows.len(), 2);
        let text = page.render().unwrap();
        assert!(text.contains("Last start") && text.contains("16 minutes ago"), "{text}");
        // Temporal knows neither of them.
        assert!(!text.contains("Records") && !text.contains("Rate limit usage"), "{text}");
    }

    #[test]
    fn text_from_temporal_is_escaped() {
        let mut it = entry("\"><img onerror=x>", FleetState::Paused);
        it.words = "the schedule is paused: <script>\u{202e}".to_owned();
        let list = fleet(vec![it], Some("Temporal: <script>\u{202e}"));
        let text = build(&list, &OverviewQuery::default(), Timestamp(0)).render().unwrap();
        assert!(!text.contains("<img onerror") && !text.contains("<script"), "{text}");
        assert!(!text.contains('\u{202e}'));
        assert_eq!(text.matches(r"&#60;script&#62;\u{202e}").count(), 2, "{text}");
    }

    #[test]
    fn a_fleet_without_schedules_says_how_to_make_them() {
        let text = build(&fleet(Vec::new(), None), &OverviewQuery::default(), Timestamp(0));
        assert!(text.render().unwrap().contains("linkvault fleet apply"));
    }
}
