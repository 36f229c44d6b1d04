//! Decides what a listing proves: whether its pages show one state of the list, and which records
//! are removed. Pure.
//!
//! Each page is read at one moment, but a list of several pages is not. While it is read, a
//! deletion on an earlier page can move a record over a page's edge, so that no page shows it. So a
//! listing is accepted only if everything that it reports about itself was constant. A record
//! counts as removed only if it is missing *within* a page, or at an edge that was read twice.

use serde::{Deserialize, Serialize};

use crate::api::envelope;
use crate::model::RecordKey;
use crate::model::paging::{Paging, Total};

/// The order of a page's ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListOrder {
    /// One record or none: any order.
    Any,
    /// Each id is greater than the one before.
    Ascending,
    /// Each id is less than the one before.
    Descending,
    /// Neither ascending nor descending.
    Mixed,
}

/// The evidence of one page. Its JSON names are short, because a long list has a thousand of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEvidence {
    /// Number of the requested page.
    #[serde(rename = "p")]
    pub page: u64,
    /// The requested page size.
    #[serde(rename = "l")]
    pub limit: u64,
    /// The page's own number, by the service.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub currentpage: Option<u64>,
    /// Number of the next page, by the service.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub nextpage: Option<u64>,
    /// The page size, by the service.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub perpage: Option<u64>,
    /// Number of records of the page or the list, by the service.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub result: Option<u64>,
    /// Number of the last page, by the service.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub maxpage: Option<u64>,
    /// Number of records on the page, including unreadable ones.
    #[serde(rename = "k")]
    pub count: u64,
    /// Records that this or an earlier page contained already.
    #[serde(rename = "t", default, skip_serializing_if = "is_zero")]
    pub repeats: u64,
    /// Repeats from an earlier page: duplicates, or records that moved.
    #[serde(rename = "x", default, skip_serializing_if = "is_zero")]
    pub cross_page_repeats: u64,
    /// Repeats with other fields.
    #[serde(rename = "d", default, skip_serializing_if = "is_zero")]
    pub differing_repeats: u64,
    /// The first repeat with the same fields.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub first_equal_repeat: Option<String>,
    /// The first repeat with other fields.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub first_differing_repeat: Option<String>,
    /// Records that could not be stored.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub faulty: u64,
    /// Id of the first record.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub first: Option<i64>,
    /// Id of the last record.
    #[serde(rename = "z", default, skip_serializing_if = "Option::is_none")]
    pub last: Option<i64>,
    /// The order of the ids.
    #[serde(rename = "o")]
    pub order: ListOrder,
    /// A fingerprint of the page's ids in order.
    #[serde(rename = "i")]
    pub ids: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl PageEvidence {
    /// The evidence of `page`, requested as page `number` of `limit` records. `keys` are its
    /// readable records in order.
    #[must_use]
    pub fn new(
        number: u64,
        limit: u64,
        page: &envelope::ResponsePage<'_>,
        keys: &[RecordKey],
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        for key in keys {
            if let RecordKey::Item { kind, .. } = key {
                hasher.update(kind.as_bytes());
            }
            hasher.update(&key.id().to_le_bytes());
        }
        let count = page.records.len() as u64;
        hasher.update(&count.to_le_bytes());
        Self {
            page: number,
            limit,
            currentpage: page.currentpage,
            nextpage: page.nextpage,
            perpage: page.perpage,
            result: page.result,
            maxpage: page.maxpage,
            count,
            repeats: 0,
            cross_page_repeats: 0,
            differing_repeats: 0,
            first_equal_repeat: None,
            first_differing_repeat: None,
            faulty: count - (keys.len() as u64).min(count),
            first: keys.first().map(RecordKey::id),
            last: keys.last().map(RecordKey::id),
            order: order(keys),
            ids: hasher.finalize().to_hex()[..32].to_owned(),
        }
    }

    /// Whether a crawl may have written it; the vault may come from an untrusted source.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let pages = 1..=1 << 40;
        pages.contains(&self.page) && (1..=1 << 20).contains(&self.limit) && self.count < 1 << 40
    }

    /// Number of records of a full page, as far as known.
    #[must_use]
    pub fn size(&self) -> u64 {
        let told = self.perpage.filter(|size| *size > 0).unwrap_or(self.limit);
        told.min(self.limit).max(1)
    }
}

fn order(keys: &[RecordKey]) -> ListOrder {
    let mut found = ListOrder::Any;
    for pair in keys.windows(2) {
        let step = match (&pair[0], &pair[1]) {
            (RecordKey::Id(one), RecordKey::Id(other)) if one < other => ListOrder::Ascending,
            (RecordKey::Id(one), RecordKey::Id(other)) if one > other => ListOrder::Descending,
            // A twin beside its like.
            (RecordKey::Id(_), RecordKey::Id(_)) => ListOrder::Any,
            _ => ListOrder::Mixed,
        };
        found = combine(found, step);
    }
    found
}

fn combine(one: ListOrder, other: ListOrder) -> ListOrder {
    match (one, other) {
        (ListOrder::Any, order) | (order, ListOrder::Any) => order,
        (one, other) if one == other => one,
        _ => ListOrder::Mixed,
    }
}

/// Number of records of a full page so far, as far as known: a service that does not tell its page
/// size may return fewer than requested.
#[must_use]
pub fn page_size(pages: &[PageEvidence]) -> Option<u64> {
    let (first, last) = pages.first().zip(pages.last())?;
    Some(if last.perpage.is_some() { last.size() } else { first.count.min(last.limit) })
}

/// How the service divides the list into pages, as far as these pages show.
#[must_use]
pub fn paging(pages: &[PageEvidence]) -> Option<Paging> {
    let first = pages.first()?;
    let size = if pages.len() > 1 { page_size(pages)? } else { first.size() };
    let total = match first.result {
        None => Total::Unreported,
        Some(_) if pages.len() > 1 && total(pages).is_some() => Total::OfList,
        Some(_) => Total::OfPage,
    };
    Some(Paging { size, total, last: first.maxpage.is_some() })
}

/// Whether another page must be read after these.
#[must_use]
pub fn needs_next_page(pages: &[PageEvidence]) -> bool {
    let Some(last) = pages.last() else { return true };
    // A page that is empty or shows nothing new, or that is not the one asked
    // for, is a contradiction and not a reason to go on.
    let stray = last.currentpage.is_some_and(|current| current != last.page);
    if stray || last.count == last.repeats {
        return false;
    }
    match (last.maxpage, last.perpage, last.nextpage) {
        (Some(maxpage), ..) => last.page < maxpage,
        (None, None, Some(next)) if next > last.page => true,
        _ => page_size(pages).is_none_or(|full| last.count >= full),
    }
}

/// Whether `page` only repeats the one before it: the response of some services to a page after the
/// last.
#[must_use]
pub fn is_echo(pages: &[PageEvidence], page: &PageEvidence) -> bool {
    let same = |before: &PageEvidence| before.ids == page.ids && before.limit == page.limit;
    page.maxpage.is_none() && page.count > 0 && pages.last().is_some_and(same)
}

/// Number of records of the whole list, if the service reports it.
#[must_use]
pub fn total(pages: &[PageEvidence]) -> Option<u64> {
    let first = pages.first()?;
    let result = first.result?;
    // On the first of several pages, `result` may be the page's own count.
    let whole = pages.len() == 1 && !needs_next_page(pages);
    (result > first.count || (whole && result == first.count)).then_some(result)
}

/// Number of distinct records on the pages.
#[must_use]
pub fn distinct(pages: &[PageEvidence]) -> u64 {
    pages.iter().map(|page| page.count.saturating_sub(page.repeats)).sum()
}

/// The number of records on page 1 from which on their order is not an accident.
const CLEAR_ORDER: u64 = 10;

/// The page to read early, before the second: the last one. A record that moves over the edge of
/// two inner pages while they are read also shifts the last page, so the same last page before and
/// after proves them all. The total does not: a deletion on an inner page and a creation at the end
/// keep it.
///
/// Not needed where page 1, read again, shows the creation as well: in a list with a total that
/// begins with the newest record, which a page of several records shows. `again`: the list is read
/// another time, perhaps because its order was not what page 1 looked like.
#[must_use]
pub fn needs_tail_first(pages: &[PageEvidence], again: bool) -> Option<u64> {
    let [first] = pages else { return None };
    let total = total(pages);
    let is_newest_first = first.order == ListOrder::Descending && first.count >= CLEAR_ORDER;
    if is_newest_first && total.is_some() && !again {
        return None;
    }
    let end = || Some(total?.div_ceil(page_size(pages)?.max(1)));
    first.maxpage.or_else(end).filter(|last| *last > 2 && first.count > 0)
}

/// The last page that may be read at the same time as other pages: the one before the list's last
/// page. `None` if pages must be read one after the other.
///
/// The pages may be read in any order if the list reports its total on each of them, or if its last
/// page was read early (`tail`). A record that is added or removed meanwhile then changes the total
/// or the last page, which is read again after all others.
///
/// Between two reads, a deletion on page `p` and a creation at the end keep the total. In whatever
/// order the pages are read, this is noticed by a record that two pages show, unless the pages from
/// `p` on that were read before are the first ones from `p` on. For pages that are read one after
/// the other, that is so for every `p` that was read. So another order notices no less; what none
/// notices is shown by the last page ([`needs_tail_first`]).
#[must_use]
pub fn last_inner_page(pages: &[PageEvidence], tail: Option<&PageEvidence>) -> Option<u64> {
    let last = pages.last()?;
    let total = total(pages);
    if total.is_none() && tail.is_none() {
        return None;
    }
    let full = page_size(pages)?.max(1);
    let done: u64 = pages.iter().map(|page| page.count).sum();
    let later = || Some(total?.saturating_sub(done).div_ceil(full));
    let end = last.maxpage.or_else(|| Some(last.page.saturating_add(later()?)))?;
    end.checked_sub(1).filter(|inner| *inner > last.page)
}

/// Checks that the last page is the same at the end as when it was read early. `end` is that page
/// at the end, in the size in which it was read early.
///
/// # Errors
/// What changed, in words; or that the list needs the early reading and had none.
pub fn check_tail(
    pages: &[PageEvidence],
    tail: Option<&PageEvidence>,
    end: Option<&PageEvidence>,
) -> Result<(), String> {
    let mut filled = pages.iter().filter(|page| page.count > 0);
    let Some(tail) = tail else {
        let shows_creations = order_of_pages(pages) == ListOrder::Descending;
        return match filled.count() < 3 || total(pages).is_none() || shows_creations {
            true => Ok(()),
            false => Err("the last page was not read before the others".into()),
        };
    };
    // After it, an empty page may have shown the end of the list.
    match end.or(filled.next_back()) {
        Some(last) if (last.page, last.limit) != (tail.page, tail.limit) => {
            Err("the number of pages changed".into())
        }
        Some(last) if last.ids == tail.ids => Ok(()),
        _ => Err("the last page changed meanwhile".into()),
    }
}

/// Whether only a second listing can prove that no record was missed: neither the number of records
/// nor the last page is known.
#[must_use]
pub fn needs_second_listing(pages: &[PageEvidence], tail: Option<&PageEvidence>) -> bool {
    pages.len() > 2 && tail.is_none() && total(pages).is_none()
}

/// The page size with which the list must be read again if a record is listed twice, on one page or
/// on two. It may be in the list twice, or have moved over the edge of a page, or be listed in place
/// of another record, which is on no page. Only in the first case do pages with other edges show the
/// same records. A repeat within a page needs no proof if the service reports as many records as
/// were shown.
#[must_use]
pub fn needs_other_edges(pages: &[PageEvidence]) -> Option<u64> {
    let full = page_size(pages)?;
    let is_complete = total(pages) == Some(distinct(pages));
    let is_open =
        |page: &PageEvidence| page.cross_page_repeats > 0 || (page.repeats > 0 && !is_complete);
    pages.iter().any(is_open).then(|| (full - 1).max(1))
}

/// Checks that the pages show one state of the list. `again` is page 1, read again at the end; a
/// list of one page needs none.
///
/// # Errors
/// What changed, in words.
pub fn stable(pages: &[PageEvidence], again: Option<&PageEvidence>) -> Result<(), String> {
    let Some(first) = pages.first() else { return Err("no page was read".into()) };
    if first.page != 1 {
        return Err("page 1 was not read".into());
    }
    for page in pages {
        if page.currentpage.is_some_and(|current| current != page.page && page.count > 0) {
            return Err(format!("page {} was requested, but another one was returned", page.page));
        }
    }
    for pair in pages.windows(2).filter(|pair| pair[0].limit == pair[1].limit) {
        if pair[0].maxpage != pair[1].maxpage {
            return Err("the number of pages changed".into());
        }
    }
    let sum: u64 = pages.iter().map(|page| page.count).sum();
    if let Some(total) = total(pages) {
        if pages.iter().any(|page| page.result != Some(total)) {
            return Err("the number of records changed".into());
        }
        // Some services count a record once that their list shows twice.
        if sum != total && distinct(pages) != total {
            return Err(format!("{total} records were reported, but {sum} were returned"));
        }
    }
    fits_pages(pages)?;
    match again {
        None if pages.len() > 1 => Err("page 1 was not read again".into()),
        Some(again) if again.ids != first.ids => Err("page 1 changed meanwhile".into()),
        Some(again) if again.maxpage != first.maxpage && again.limit == first.limit => {
            Err("the number of pages changed".into())
        }
        _ => Ok(()),
    }
}

/// Checks that every page but the last is full; otherwise a record was missed.
fn fits_pages(pages: &[PageEvidence]) -> Result<(), String> {
    if let Some(last) = pages.last()
        && let Some(maxpage) = last.maxpage
        && last.page < maxpage
    {
        return Err(format!("page {} of {maxpage} is empty", last.page));
    }
    let inner = &pages[..pages.len().saturating_sub(1)];
    match inner.iter().find(|page| page.perpage.is_some() && page.count < page.size()) {
        Some(page) => Err(format!("page {} is not full", page.page)),
        None => Ok(()),
    }
}

/// Whether the pages prove that a record they do not contain is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovedRecords {
    /// It is missing within a page.
    Proven,
    /// It would be between page `.0` (its index in the pages) and the next: removed if that page,
    /// read again, is unchanged.
    AtEdge(usize),
    /// Only a second listing can prove it.
    Unclear,
}

/// What a stable listing of `pages` proves about `key`, which no page contains.
#[must_use]
pub fn gone(pages: &[PageEvidence], key: &RecordKey) -> RemovedRecords {
    // That everything is gone at once is believed when it is said twice.
    let empty = pages.iter().all(|page| page.count == 0);
    if empty || total(pages).is_none() {
        return RemovedRecords::Unclear;
    }
    if pages.len() == 1 {
        return RemovedRecords::Proven;
    }
    let RecordKey::Id(id) = key else { return RemovedRecords::Unclear };
    let order = order_of_pages(pages);
    let before = |edge: i64| match order {
        ListOrder::Descending => edge > *id,
        _ => edge < *id,
    };
    if order == ListOrder::Mixed {
        return RemovedRecords::Unclear;
    }
    for (at, page) in pages.iter().enumerate() {
        let (Some(first), Some(last)) = (page.first, page.last) else {
            return RemovedRecords::Unclear;
        };
        let next = pages.get(at + 1).and_then(|next| next.first);
        match next {
            _ if !before(first) => return RemovedRecords::Proven,
            _ if !before(last) => return RemovedRecords::Proven,
            Some(next) if !before(next) => return RemovedRecords::AtEdge(at),
            None => return RemovedRecords::Proven,
            Some(_) => {}
        }
    }
    RemovedRecords::Unclear
}

fn order_of_pages(pages: &[PageEvidence]) -> ListOrder {
    let mut order = ListOrder::Any;
    for (at, page) in pages.iter().enumerate() {
        order = combine(order, page.order);
        let next = pages.get(at + 1).and_then(|next| next.first);
        if let Some((last, next)) = page.last.zip(next) {
            let step = match last.cmp(&next) {
                std::cmp::Ordering::Less => ListOrder::Ascending,
                std::cmp::Ordering::Equal => ListOrder::Any,
                std::cmp::Ordering::Greater => ListOrder::Descending,
            };
            order = combine(order, step);
        }
    }
    order
}

#[cfg(test)]
mod tests;
