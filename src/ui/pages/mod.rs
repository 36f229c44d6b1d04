//! The content of each page. A page reads its data from a vault, builds plain data from it with
//! pure
//! functions, and renders that with a template.

pub mod account;
mod changes;
pub mod compare;
pub mod overview;
pub mod record;
pub mod records;
mod rows;
pub mod run;
pub mod runs;
pub mod snapshot;
pub mod snapshots;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use askama::Template;

use crate::clock::Timestamp;
use crate::format;
use crate::model::{Resource, SnapshotId};
use crate::ui::accounts::{Accounts, Unavailable, VaultFile};
use crate::ui::links;
use crate::vault::browse::PageRange;
use crate::vault::lock::{Lock, LockPurpose};
use crate::vault::read::SeriesSample;
use crate::vault::{Vault, VaultError};

/// What a page needs to be rendered.
pub struct PageContext<'a> {
    /// The accounts to show.
    pub accounts: &'a dyn Accounts,
    /// The current time.
    pub now: Timestamp,
    /// The cache of chart data.
    pub series: &'a SeriesCache,
    /// The vault of the page's account, once the page asked for it.
    vault: OnceCell<Result<VaultFile, Unavailable>>,
}

/// Why a page cannot be shown.
#[derive(Debug)]
pub enum PageError {
    /// The page's subject does not exist.
    NotFound {
        /// What was not found, as a heading.
        what: String,
        /// What to do, as a sentence.
        hint: String,
    },
    /// The page's subject cannot be read now.
    Unavailable {
        /// What cannot be read, as a heading.
        what: String,
        /// The reason and what to do, as sentences.
        hint: String,
    },
    /// The vault cannot be read.
    Vault(VaultError),
    /// Too many requests are waiting.
    Busy,
    /// The client's penalty for wrong tokens lasts too long.
    WrongTokens,
    /// The request's method is not allowed.
    ReadOnly,
    /// The `Host` header names this other host.
    OtherHost(String),
    /// There is more than one `Host` header.
    SeveralHosts,
    /// The page cannot be rendered, for this reason.
    Failed(String),
}

impl From<VaultError> for PageError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::NoSnapshot(number) => Self::not_found(
                format!("There is no snapshot #{number}"),
                "It may have been forgotten; the account's page lists the existing snapshots.",
            ),
            VaultError::NoRun(number) => Self::not_found(
                format!("There is no run {number}"),
                "The account's page lists the existing runs.",
            ),
            other => Self::Vault(other),
        }
    }
}

impl From<Unavailable> for PageError {
    fn from(error: Unavailable) -> Self {
        match error {
            Unavailable::NotFound(what, hint) => Self::NotFound { what, hint },
            Unavailable::Failed(what, hint) => Self::Unavailable { what, hint },
        }
    }
}

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl PageError {
    fn not_found(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotFound { what: what.into(), hint: hint.into() }
    }

    /// No page has this URL.
    #[must_use]
    pub fn no_such_page() -> Self {
        Self::not_found("There is no such page", "The overview links to every page.")
    }
}

impl<'a> PageContext<'a> {
    /// What a page at the time `now` is rendered with.
    #[must_use]
    pub fn new(accounts: &'a dyn Accounts, now: Timestamp, series: &'a SeriesCache) -> Self {
        Self { accounts, now, series, vault: OnceCell::new() }
    }

    /// The vault of the page's account. It is fetched before it is opened and not again: a vault
    /// that is open cannot be replaced.
    fn vault_file(&self, account: &str) -> Result<&VaultFile, Unavailable> {
        let vault = self.vault.get_or_init(|| self.accounts.vault(account));
        vault.as_ref().map_err(Clone::clone)
    }

    /// The frame of a page of `account`, as [`PageFrame::of`], with the notice about it.
    fn frame(&self, account: &str, title: &str, way: Vec<Link>) -> PageFrame {
        let notice = self.vault_file(account).ok().and_then(|vault| vault.notice.clone());
        PageFrame { notice, ..PageFrame::of(account, title, way) }
    }

    /// Opens the vault of an account in a read transaction; `None` before its first backup.
    fn open(&self, name: &str) -> Result<Option<Vault>, PageError> {
        let vault = Vault::open_if_there(&self.vault_file(name)?.path)?;
        if let Some(vault) = &vault {
            vault.read_transaction()?;
        }
        Ok(vault)
    }

    /// Which process may execute the unfinished run of the account `name`.
    fn run_executor(&self, name: &str) -> RunExecutor {
        let Ok(vault) = self.vault_file(name) else { return RunExecutor::None };
        match Lock::holder_for(&vault.path, LockPurpose::Run) {
            Some(_) => RunExecutor::ThisMachine,
            None if vault.is_shared => RunExecutor::MaybeOther,
            None => RunExecutor::None,
        }
    }

    /// Opens the vault of an account; an error before its first backup.
    fn vault(&self, name: &str) -> Result<Vault, PageError> {
        self.open(name)?.ok_or_else(|| {
            let hint = format!("Run `linkvault backup {name}` to make the first one.");
            PageError::not_found(format!("{name} has no backup yet"), hint)
        })
    }
}

/// Which process executes an unfinished run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunExecutor {
    /// One of this machine.
    ThisMachine,
    /// None of this machine, but other machines work on the account, too.
    MaybeOther,
    /// None.
    None,
}

/// Parses a number in a path.
fn number<T: FromStr>(text: &str) -> Result<T, PageError> {
    text.parse().map_err(|_| PageError::no_such_page())
}

fn resource(name: &str) -> Result<Resource, PageError> {
    Resource::from_name(name).ok_or_else(|| {
        let what = format!("There is no resource {name}");
        let names: Vec<_> = Resource::ALL.iter().map(|it| it.name()).collect();
        PageError::not_found(what, format!("The resources are {}.", names.join(", ")))
    })
}

/// The data of one vault's charts.
#[derive(Debug, Default)]
pub struct ChartSeries {
    /// Number of records in each snapshot.
    pub records: Vec<SeriesSample<i64>>,
    /// Sum of the scans in each snapshot.
    pub scans: Vec<SeriesSample<i64>>,
}

/// A cache of chart data by vault. The data changes only when a snapshot ends, and takes long to
/// compute for many QR codes.
#[derive(Debug, Default)]
pub struct SeriesCache(Mutex<HashMap<PathBuf, CachedSeries>>);

/// Id and start of the newest snapshot, and the data up to it.
type CachedSeries = ((SnapshotId, Timestamp), Arc<ChartSeries>);

/// The most vaults in the cache.
const MAX_CACHED: usize = 64;

impl SeriesCache {
    fn of(&self, vault: &Vault) -> Result<Arc<ChartSeries>, VaultError> {
        let Some(newest) = vault.snapshot_times(1)?.pop() else { return Ok(Arc::default()) };
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, lines)) = known().get(vault.path())
            && *at == newest
        {
            return Ok(Arc::clone(lines));
        }
        let lines =
            ChartSeries { records: vault.records_over_time()?, scans: vault.scans_over_time()? };
        let lines = Arc::new(lines);
        let mut known = known();
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(vault.path().to_owned(), (newest, Arc::clone(&lines)));
        Ok(lines)
    }
}

/// Query of a list. Invalid values count as empty.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct PagedRows {
    /// Number of the page, from 1.
    pub page: String,
    /// Text to search for.
    pub q: String,
    /// Name of a resource.
    pub resource: String,
}

impl PagedRows {
    fn at(&self) -> u64 {
        at(&self.page)
    }
}

/// Parses the number of a page, from 1; an invalid one is the first page.
fn at(page: &str) -> u64 {
    page.parse().ok().filter(|page| *page > 0).unwrap_or(1)
}

/// The shown part of a list, with links to the parts before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pager {
    /// The shown range, such as `51–100 of 120`.
    pub text: String,
    /// URL of the page before, if there is one.
    pub before: Option<String>,
    /// URL of the page after, if there is one.
    pub after: Option<String>,
}

/// The last page that is read: lists are read from their beginning, which takes time.
const MAX_PAGE: u64 = 1_000_000;

impl Pager {
    /// The pager of page `page` of `total` entries, `size` on each page. `link` returns the URL of
    /// a page.
    fn new(page: u64, size: u64, total: u64, link: impl Fn(&str) -> String) -> Self {
        let first = (page - 1).min(MAX_PAGE) * size;
        let last = (first + size).min(total);
        let text = match total {
            0 => "none".to_owned(),
            _ if first >= total => format!("none of {}", format::count(total)),
            _ if total <= size => format!("all {}", format::count(total)),
            _ => format!(
                "{}–{} of {}",
                format::count(first + 1),
                format::count(last),
                format::count(total)
            ),
        };
        let pages = total.div_ceil(size).max(1);
        let to = |page: u64| link(&if page == 1 { String::new() } else { page.to_string() });
        Self {
            text,
            before: (page > 1).then(|| to((page - 1).min(pages))),
            after: (page < pages).then(|| to(page + 1)),
        }
    }

    fn slice(page: u64, size: u64) -> PageRange {
        PageRange { skip: (page - 1).min(MAX_PAGE) * size, take: size }
    }
}

/// Title and navigation of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFrame {
    /// Title of the page.
    pub title: String,
    /// The breadcrumbs from the overview; the last one is this page.
    pub crumbs: Vec<Link>,
    /// A remark above the content, such as why the page shows old data; as sentences.
    pub notice: Option<String>,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The URL; empty for the current page.
    pub href: String,
    /// The link text.
    pub text: String,
}

impl Link {
    fn new(href: impl Into<String>, text: impl Into<String>) -> Self {
        Self { href: href.into(), text: text.into() }
    }
}

impl PageFrame {
    /// The frame of a page of `account` with this title, empty for the account's own page. `way`
    /// are the breadcrumbs in between.
    fn of(account: &str, title: &str, way: Vec<Link>) -> Self {
        let mut crumbs = vec![Link::new("/", "Accounts")];
        let title = if title.is_empty() {
            crumbs.push(Link::new("", account));
            account.to_owned()
        } else {
            crumbs.push(Link::new(links::account(account), account));
            crumbs.extend(way);
            crumbs.push(Link::new("", title));
            format!("{title} · {account}")
        };
        Self { title, crumbs, notice: None }
    }
}

#[derive(Template)]
#[template(path = "error.html", config = "src/ui/templates/askama.toml")]
struct ErrorPage {
    frame: PageFrame,
    status: u16,
    what: String,
    hint: String,
}

/// Renders the page for an error.
#[must_use]
pub fn error_page(status: u16, error: &PageError) -> String {
    let (what, hint) = match error {
        PageError::NotFound { what, hint } | PageError::Unavailable { what, hint } => {
            (what.clone(), hint.clone())
        }
        PageError::Vault(error) => (
            "Cannot read the vault".to_owned(),
            format!("{error}. Run `linkvault check` for details."),
        ),
        PageError::Busy => {
            ("Too many requests".to_owned(), "Try again in a moment.".to_owned())
        }
        PageError::ReadOnly => (
            "The web UI is read-only".to_owned(),
            "Use the command line to change something; see `linkvault --help`.".to_owned(),
        ),
        PageError::WrongTokens => (
            "Too many wrong tokens".to_owned(),
            "Your address sent wrong tokens, so this one was not checked. Try again in a minute."
                .to_owned(),
        ),
        PageError::OtherHost(host) => (
            format!("This server is not {}", if host.is_empty() { "a host without a name" } else { host }),
            "Use localhost or the address of the machine, or allow the host name with --allow-host."
                .to_owned(),
        ),
        PageError::SeveralHosts => (
            "The request names several hosts".to_owned(),
            "Send one Host header.".to_owned(),
        ),
        PageError::Failed(what) => ("Cannot show the page".to_owned(), what.clone()),
    };
    let crumbs = vec![Link::new("/", "Accounts")];
    let frame = PageFrame { title: what.clone(), crumbs, notice: None };
    let page = ErrorPage { frame, status, what: what.clone(), hint };
    // A template never fails; its text is enough if it did.
    page.render().unwrap_or(what)
}

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/ui/templates/askama.toml")]
struct SignIn {
    frame: PageFrame,
    wrong: bool,
}

/// Renders the sign-in page. `wrong` says that the last token was wrong.
///
/// # Errors
/// [`PageError::Failed`] when the template fails.
pub fn sign_in(wrong: bool) -> Result<String, PageError> {
    let frame = PageFrame { title: "Token".to_owned(), crumbs: Vec::new(), notice: None };
    Ok(SignIn { frame, wrong }.render()?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::health::account_status::{AccountStatus, Health};
    use crate::ui::accounts::AccountList;
    use crate::ui::pages::*;
    use crate::ui::tests::account_status;

    fn pager(page: u64, total: u64) -> Pager {
        Pager::new(page, 50, total, |page| links::with("/x", &[("page", page)]))
    }

    #[test]
    fn a_pager_has_the_range_and_its_neighbours() {
        assert_eq!(pager(1, 0).text, "none");
        assert_eq!(pager(1, 50).text, "all 50");
        let second = pager(2, 120);
        assert_eq!(second.text, "51–100 of 120");
        assert_eq!(second.before.as_deref(), Some("/x"));
        assert_eq!(second.after.as_deref(), Some("/x?page=3"));
        let last = pager(3, 120);
        assert_eq!((last.text.as_str(), last.after), ("101–120 of 120", None));
    }

    #[test]
    fn a_page_beyond_the_end_links_back() {
        let beyond = pager(u64::MAX, 120);
        assert_eq!((beyond.text.as_str(), beyond.after), ("none of 120", None));
        assert_eq!(beyond.before.as_deref(), Some("/x?page=3"));
        for text in ["", "0", "-1", "x", "99999999999999999999999"] {
            assert_eq!(at(text), 1);
        }
    }

    /// Counts how often its vault is asked for.
    struct CountingAccounts {
        vault: PathBuf,
        asked: AtomicUsize,
    }

    impl Accounts for CountingAccounts {
        fn list(&self) -> AccountList {
            AccountList::Vaults(Vec::new())
        }

        fn account_status(&self, account: &str) -> Result<AccountStatus, Unavailable> {
            Ok(account_status(account, Health::Good))
        }

        fn vault(&self, _account: &str) -> Result<VaultFile, Unavailable> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let notice = Some("It is <old>.".to_owned());
            Ok(VaultFile { path: self.vault.clone(), notice, is_shared: true })
        }

        fn alive(&self) -> Result<(), String> {
            Ok(())
        }
    }

    /// A fetch in between would wait for the page to close the vault.
    #[test]
    fn a_page_asks_for_its_vault_once_and_shows_the_notice() {
        let folder = tempfile::tempdir().unwrap();
        let vault = folder.path().join("main.db");
        drop(Vault::open_or_create(&vault).unwrap());
        let accounts = CountingAccounts { vault, asked: AtomicUsize::new(0) };
        let series = SeriesCache::default();
        for page in [
            |context: &PageContext<'_>| account::page(context, "main"),
            |context: &PageContext<'_>| runs::page(context, "main", &PagedRows::default()),
        ] {
            accounts.asked.store(0, Ordering::SeqCst);
            let text = page(&PageContext::new(&accounts, Timestamp(0), &series)).unwrap();
            assert!(text.contains("role=\"status\">It is &#60;old&#62;.</p>"), "{text}");
            assert_eq!(accounts.asked.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn errors_are_escaped() {
        let page = error_page(404, &PageError::not_found("<script>alert(1)</script>", "\u{202e}x"));
        assert!(!page.contains("<script") && page.contains("&#60;script&#62;"), "{page}");
        assert!(page.contains(r"\u{202e}x"));
    }
}
