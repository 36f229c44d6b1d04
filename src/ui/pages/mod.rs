//! What stands on each page. Every page reads what it needs from a vault, and
//! builds itself from that, purely; its template turns it into markup.

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

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use askama::Template;

use crate::clock::Timestamp;
use crate::format;
use crate::health::account_status::AccountStatus;
use crate::model::Resource;
use crate::ui::Accounts;
use crate::ui::links;
use crate::vault::browse::PageRange;
use crate::vault::read::SeriesSample;
use crate::vault::{Vault, VaultError};

/// What a page is made at.
pub struct PageContext<'a> {
    pub accounts: &'a dyn Accounts,
    pub now: Timestamp,
    pub series: &'a Series,
}

/// Why there is no page.
#[derive(Debug)]
pub enum PageError {
    /// There is no such thing.
    Nothing {
        what: String,
        hint: String,
    },
    Vault(VaultError),
    /// Too many others ask.
    Busy,
    /// A token waits too long for the end of a penalty.
    WrongTokens,
    /// Somebody wants to change something.
    ReadOnly,
    /// The request is for another host.
    OtherHost(String),
    Failed(String),
}

impl From<VaultError> for PageError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::NoSnapshot(number) => Self::nothing(
                format!("There is no snapshot #{number} here"),
                "It may have been forgotten; the account's page lists those that are there.",
            ),
            VaultError::NoRun(number) => Self::nothing(
                format!("There is no run {number} here"),
                "The account's page lists those that are there.",
            ),
            other => Self::Vault(other),
        }
    }
}

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl PageError {
    fn nothing(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Nothing { what: what.into(), hint: hint.into() }
    }

    /// There is no page of that address.
    #[must_use]
    pub fn nothing_here() -> Self {
        Self::nothing("There is no such page", "The overview leads to every page there is.")
    }
}

impl PageContext<'_> {
    /// How the account of that name fares.
    fn account_status(&self, name: &str) -> Result<AccountStatus, PageError> {
        self.accounts.account_status(name).ok_or_else(|| {
            let what = format!("There is no account {name} here");
            PageError::nothing(what, "The overview lists those that are served.")
        })
    }

    /// The vault of an account, showing one moment; `None` before its first backup.
    fn open(&self, name: &str) -> Result<Option<Vault>, PageError> {
        let path = self.accounts.vault(name).ok_or_else(|| {
            let what = format!("There is no account {name} here");
            PageError::nothing(what, "The overview lists those that are served.")
        })?;
        let vault = Vault::open_if_there(&path)?;
        if let Some(vault) = &vault {
            vault.read_transaction()?;
        }
        Ok(vault)
    }

    /// The vault of an account that must have had a backup.
    fn vault(&self, name: &str) -> Result<Vault, PageError> {
        self.open(name)?.ok_or_else(|| {
            let hint = format!("`linkvault backup {name}` makes the first one.");
            PageError::nothing(format!("{name} has no backup yet"), hint)
        })
    }
}

/// The number in a part of a path.
fn number(text: &str) -> Result<i64, PageError> {
    text.parse().map_err(|_| PageError::nothing_here())
}

fn resource(name: &str) -> Result<Resource, PageError> {
    Resource::from_name(name).ok_or_else(|| {
        let what = format!("There is no resource {name}");
        let names: Vec<_> = Resource::ALL.iter().map(|it| it.name()).collect();
        PageError::nothing(what, format!("The resources are {}.", names.join(", ")))
    })
}

/// Records and scans of one vault over time.
#[derive(Debug, Default)]
pub struct Lines {
    pub records: Vec<SeriesSample<i64>>,
    pub scans: Vec<SeriesSample<i64>>,
}

/// The series of vaults that were asked for lately. They change only when a
/// snapshot ends, and take long to add up where there are many codes.
#[derive(Debug, Default)]
pub struct Series(Mutex<HashMap<PathBuf, Known>>);

/// The newest snapshot and when it began, and the series up to there.
type Known = ((i64, Timestamp), Arc<Lines>);

/// The most series that are kept.
const KEPT: usize = 64;

impl Series {
    fn of(&self, vault: &Vault) -> Result<Arc<Lines>, VaultError> {
        let Some(newest) = vault.snapshot_times(1)?.pop() else { return Ok(Arc::default()) };
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, lines)) = known().get(vault.path())
            && *at == newest
        {
            return Ok(Arc::clone(lines));
        }
        let lines = Lines { records: vault.records_over_time()?, scans: vault.scans_over_time()? };
        let lines = Arc::new(lines);
        let mut known = known();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(vault.path().to_owned(), (newest, Arc::clone(&lines)));
        Ok(lines)
    }
}

/// What can be asked of a list.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct PagedRows {
    pub page: String,
    pub q: String,
    pub resource: String,
}

impl PagedRows {
    fn at(&self) -> u64 {
        at(&self.page)
    }
}

/// The page that a query asks for, counted from 1; what is none is the first.
fn at(page: &str) -> u64 {
    page.parse().ok().filter(|page| *page > 0).unwrap_or(1)
}

/// Which part of a list a page shows, and the way to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pager {
    pub text: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Lists are read from the front, so no page begins further back than this.
const FURTHEST: u64 = 1_000_000;

impl Pager {
    /// The `page`th part of `total`, each of `size`; `link` leads to another.
    fn new(page: u64, size: u64, total: u64, link: impl Fn(&str) -> String) -> Self {
        let first = (page - 1).min(FURTHEST) * size;
        let last = (first + size).min(total);
        let text = match total {
            0 => "none".to_owned(),
            _ if first >= total => format!("none here of {}", format::count(total)),
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
        PageRange { skip: (page - 1).min(FURTHEST) * size, take: size }
    }
}

/// What surrounds every page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFrame {
    pub title: String,
    /// The way from the overview to here; the last one is this page.
    pub crumbs: Vec<Link>,
}

/// Somewhere to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub href: String,
    pub text: String,
}

impl Link {
    fn new(href: impl Into<String>, text: impl Into<String>) -> Self {
        Self { href: href.into(), text: text.into() }
    }
}

impl PageFrame {
    /// The frame of a page of `account` that is called `title`.
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
        Self { title, crumbs }
    }
}

#[derive(Template)]
#[template(path = "trouble.html", config = "src/ui/templates/askama.toml")]
struct TroublePage {
    frame: PageFrame,
    status: u16,
    what: String,
    hint: String,
}

/// The page that stands where another should.
#[must_use]
pub fn trouble(status: u16, trouble: &PageError) -> String {
    let (what, hint) = match trouble {
        PageError::Nothing { what, hint } => (what.clone(), hint.clone()),
        PageError::Vault(error) => (
            "The vault cannot be read".to_owned(),
            format!("{error}. `linkvault check` tells more."),
        ),
        PageError::Busy => {
            ("Too many pages are asked for at once".to_owned(), "Ask again in a moment.".to_owned())
        }
        PageError::ReadOnly => (
            "Nothing can be changed here".to_owned(),
            "The command line can: `linkvault --help` shows how.".to_owned(),
        ),
        PageError::WrongTokens => (
            "Too many wrong tokens".to_owned(),
            "Your address sent wrong tokens, so this one was not compared. Try again in a minute."
                .to_owned(),
        ),
        PageError::OtherHost(host) => (
            format!("This is not {}", if host.is_empty() { "a host without a name" } else { host }),
            "Ask for it as localhost or by its address, or name the host with --allow-host."
                .to_owned(),
        ),
        PageError::Failed(what) => ("The page cannot be made".to_owned(), what.clone()),
    };
    let frame = PageFrame { title: what.clone(), crumbs: vec![Link::new("/", "Accounts")] };
    let page = TroublePage { frame, status, what: what.clone(), hint };
    // A template that fails is a mistake in the program: its words are enough.
    page.render().unwrap_or(what)
}

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/ui/templates/askama.toml")]
struct SignIn {
    frame: PageFrame,
    wrong: bool,
}

/// The page that asks for the token.
///
/// # Errors
/// When it cannot be made.
pub fn sign_in(wrong: bool) -> Result<String, PageError> {
    let frame = PageFrame { title: "Token".to_owned(), crumbs: Vec::new() };
    Ok(SignIn { frame, wrong }.render()?)
}

#[cfg(test)]
mod tests {
    use crate::ui::pages::*;

    fn pager(page: u64, total: u64) -> Pager {
        Pager::new(page, 50, total, |page| links::with("/x", &[("page", page)]))
    }

    #[test]
    fn a_pager_tells_where_it_is_and_where_to_go() {
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
    fn a_page_that_is_none_leads_back() {
        let beyond = pager(u64::MAX, 120);
        assert_eq!((beyond.text.as_str(), beyond.after), ("none here of 120", None));
        assert_eq!(beyond.before.as_deref(), Some("/x?page=3"));
        for text in ["", "0", "-1", "x", "99999999999999999999999"] {
            assert_eq!(at(text), 1);
        }
    }

    #[test]
    fn what_went_wrong_is_escaped_too() {
        let page = trouble(404, &PageError::nothing("<script>alert(1)</script>", "\u{202e}x"));
        assert!(!page.contains("<script") && page.contains("&#60;script&#62;"), "{page}");
        assert!(page.contains(r"\u{202e}x"));
    }
}
