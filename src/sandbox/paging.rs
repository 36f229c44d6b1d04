//! Divides a list into pages, and builds the envelope of a page.

use serde_json::{Value, json};

use super::behaviour::{
    Behaviour, BeyondLast, Envelope, NextPage, Order, OverLimit, ResultIs, Twins,
};
use super::fields::RequestRefusal;
use super::render::{Object, RenderOptions};

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPage {
    pub size: u64,
    /// The number in the response.
    pub number: u64,
    /// The number of the page whose records it has.
    holds: u64,
    pub last: u64,
    total: u64,
}

impl ListPage {
    /// Parses `limit` and `page` from a query, for a list of `total` records.
    pub fn from_query(
        query: &str,
        total: usize,
        behaviour: &Behaviour,
    ) -> Result<Self, RequestRefusal> {
        let twin = total > 0 && behaviour.twins != Twins::None;
        let total = total as u64 + u64::from(twin);
        let size = size(parameter(query, "limit"), behaviour)?;
        let asked = parameter(query, "page").unwrap_or(1);
        let last = total.div_ceil(size).max(1);
        let (number, holds) = match behaviour.beyond_last {
            BeyondLast::Empty => (asked, asked),
            BeyondLast::Clamp => (asked.min(last), asked.min(last)),
            BeyondLast::Repeat => (asked, asked.min(last)),
        };
        Ok(Self { size, number, holds, last, total })
    }

    /// The records of this page, in the order of the behaviour.
    pub fn of<'a, T>(
        &self,
        rows: impl DoubleEndedIterator<Item = (u64, &'a T)>,
        name: fn(&T) -> &str,
        behaviour: &Behaviour,
    ) -> Vec<(u64, &'a T)> {
        match behaviour.order {
            Order::Ascending => self.with_duplicate(rows, behaviour.twins),
            Order::Descending => self.with_duplicate(rows.rev(), behaviour.twins),
            Order::ByName => {
                let mut all: Vec<_> = rows.collect();
                all.sort_by(|(_, one), (_, other)| name(one).cmp(name(other)));
                self.with_duplicate(all.into_iter(), behaviour.twins)
            }
        }
    }

    /// Slices the page out of the list, in which the first record may be listed twice.
    fn with_duplicate<T: Copy>(&self, mut rows: impl Iterator<Item = T>, twins: Twins) -> Vec<T> {
        let Some(first) = (twins != Twins::None).then(|| rows.next()).flatten() else {
            return self.cut(rows);
        };
        match twins {
            Twins::Last => self.cut([first].into_iter().chain(rows).chain([first])),
            _ => self.cut([first, first].into_iter().chain(rows)),
        }
    }

    fn cut<T>(&self, rows: impl Iterator<Item = T>) -> Vec<T> {
        let skip = self.size.saturating_mul(self.holds - 1);
        if skip >= self.total {
            return Vec::new();
        }
        let fit = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        rows.skip(fit(skip)).take(fit(self.size)).collect()
    }

    /// The envelope of a list, with its records under `key`.
    pub fn envelope(&self, key: &str, records: Vec<Value>, behaviour: &Behaviour) -> Object {
        let options = RenderOptions(behaviour);
        let result = match behaviour.result {
            ResultIs::Page => Some(records.len() as u64),
            ResultIs::Total => Some(self.total),
            ResultIs::Absent => None,
        };
        let next = match behaviour.next_page {
            _ if self.number < self.last => options.count(self.number + 1),
            NextPage::Following => options.count(self.number.saturating_add(1)),
            NextPage::Same => options.count(self.number),
            NextPage::Null => Value::Null,
        };
        let mut data = Object::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value.filter(|_| holds(behaviour.envelope, name)) {
                data.insert(name.to_owned(), value);
            }
        };
        put("result", result.map(|count| options.count(count)));
        put("perpage", Some(options.count(self.size)));
        put("currentpage", Some(options.count(self.number)));
        put("nextpage", Some(next));
        put("maxpage", Some(options.count(self.last)));
        data.insert(key.to_owned(), json!(records));
        data
    }
}

fn holds(envelope: Envelope, name: &str) -> bool {
    match envelope {
        Envelope::Full => true,
        Envelope::NoMaxPage => name != "maxpage",
        Envelope::NoPerPage => name != "perpage",
        Envelope::NoCurrentPage => name != "currentpage",
        Envelope::RecordsOnly => false,
    }
}

fn size(asked: Option<u64>, behaviour: &Behaviour) -> Result<u64, RequestRefusal> {
    let size = asked.unwrap_or(behaviour.per_page).max(1);
    match behaviour.max_limit {
        Some(most) if size > most => match behaviour.over_limit {
            OverLimit::Clamp => Ok(most.max(1)),
            OverLimit::Refuse => {
                Err(RequestRefusal::bad(format!("The limit cannot exceed {most}.")))
            }
        },
        _ => Ok(size),
    }
}

/// A positive whole number in a query; anything else counts as missing.
fn parameter(query: &str, name: &str) -> Option<u64> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.rev().find(|(key, _)| *key == name)?;
    value.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str, total: usize, behaviour: &str) -> ListPage {
        ListPage::from_query(query, total, &Behaviour::parse(behaviour).unwrap()).unwrap()
    }

    fn rows(page: &ListPage, total: u64, order: Order) -> Vec<u64> {
        let names: Vec<String> = (1..=total).map(|id| (1000 - id).to_string()).collect();
        let rows = names.iter().enumerate().map(|(index, name)| (index as u64 + 1, name));
        let behaviour = Behaviour { order, ..Behaviour::default() };
        page.of(rows, |name| name, &behaviour).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn pages_divide_the_records() {
        let served: Vec<u64> = (1..=3)
            .flat_map(|n| rows(&page(&format!("limit=3&page={n}"), 7, ""), 7, Order::Ascending))
            .collect();
        assert_eq!(served, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(page("limit=3", 7, "").last, 3);
        assert_eq!(page("limit=3", 0, "").last, 1);
    }

    #[test]
    fn lists_have_the_chosen_order() {
        let first = page("limit=2", 5, "");
        assert_eq!(rows(&first, 5, Order::Descending), [5, 4]);
        assert_eq!(rows(&first, 5, Order::ByName), [5, 4]);
    }

    #[test]
    fn a_page_beyond_the_last_follows_the_behaviour() {
        let beyond = |behaviour| {
            let page = page("limit=2&page=9", 5, behaviour);
            (page.number, rows(&page, 5, Order::Ascending))
        };
        assert_eq!(beyond(""), (9, vec![]));
        assert_eq!(beyond("beyond-last=clamp"), (3, vec![5]));
        assert_eq!(beyond("beyond-last=repeat"), (9, vec![5]));
    }

    #[test]
    fn invalid_numbers_count_as_missing() {
        for query in ["limit=0&page=0", "limit=x&page=-1", "limit&page", "limit=&page="] {
            assert_eq!(page(query, 40, ""), page("", 40, ""), "{query}");
        }
        let far = page("page=18446744073709551615&limit=18446744073709551615", 4, "");
        assert_eq!(rows(&far, 4, Order::Ascending), [0; 0]);
    }

    #[test]
    fn a_limit_above_the_largest_is_clamped_or_refused() {
        assert_eq!(page("limit=500", 9, "max-limit=100").size, 100);
        let strict = Behaviour::parse("max-limit=100,over-limit=refuse").unwrap();
        assert_eq!(ListPage::from_query("limit=101", 9, &strict).unwrap_err().status, 400);
        assert_eq!(ListPage::from_query("limit=100", 9, &strict).unwrap().size, 100);
    }
}
