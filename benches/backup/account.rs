//! The account that is backed up: QR codes as live services send them, as many
//! as wanted, rendered into pages beforehand.

use std::collections::HashMap;
use std::fmt::Write as _;

use linkvault::model::{Resource, Verb};

/// How the service writes its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// As PHP writes JSON: `\/`, and ids in quotes.
    pub php: bool,
    /// The newest record first.
    pub descending: bool,
}

impl Style {
    pub const PLAIN: Self = Self { php: false, descending: false };

    pub const ALL: [Self; 4] = [
        Self::PLAIN,
        Self { php: false, descending: true },
        Self { php: true, descending: false },
        Self { php: true, descending: true },
    ];
}

impl std::fmt::Display for Style {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let order = if self.descending { "newest first" } else { "oldest first" };
        let escapes = if self.php { "PHP's escapes" } else { "plain" };
        write!(f, "{order}, {escapes}")
    }
}

/// What one day changes in an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daily {
    /// One record in a hundred gets another name.
    Names,
    /// One code in a hundred was scanned.
    Scans,
}

/// The account on some day.
#[derive(Debug, Clone)]
pub struct Account {
    style: Style,
    /// How often each record was renamed, and how often scanned.
    codes: Vec<(u16, u32)>,
}

impl Account {
    pub fn new(records: usize, style: Style) -> Self {
        let scans = |nth: usize| u32::try_from(mix(nth as u64) % 5000).unwrap_or(0);
        Self { style, codes: (0..records).map(|nth| (0, scans(nth))).collect() }
    }

    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Lets day number `day` pass. The changed records lie anywhere.
    pub fn advance(&mut self, day: u64, daily: Daily) {
        for (nth, (names, scans)) in self.codes.iter_mut().enumerate() {
            if mix(mix(nth as u64) ^ day).is_multiple_of(100) {
                match daily {
                    Daily::Names => *names += 1,
                    Daily::Scans => *scans += 1 + u32::try_from(day % 7).unwrap_or(0),
                }
            }
        }
    }

    fn record(&self, nth: usize, out: &mut String) {
        let (names, scans) = self.codes[nth];
        let id = 1000 + nth;
        let (quote, slash) = if self.style.php { ("\"", "\\/") } else { ("", "/") };
        let campaign = mix(nth as u64 / 50) % 1000;
        let renamed = if names == 0 { String::new() } else { format!(" v{names}") };
        let (day, second) = (nth / 900, nth * 96 % 86400);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{{\"id\":{quote}{id}{quote},\"link\":\"https:{slash}{slash}go.example-links.com{slash}qr\
             {slash}{:07x}\",\"scans\":{scans},\"name\":\"Poster {campaign} #{id}{renamed}\",\
             \"date\":\"20{:02}-{:02}-{:02} {hour:02}:{minute:02}:{:02}\"}}",
            mix(id as u64) & 0xfff_ffff,
            15 + day / 336 % 20,
            1 + day / 28 % 12,
            1 + day % 28,
            second % 60,
        );
    }

    /// Every body, by path; lists by the number of their page.
    pub fn render(&self, most: usize) -> Site {
        let mut pages = Vec::with_capacity(self.len().div_ceil(most));
        let places: Vec<usize> = if self.style.descending {
            (0..self.len()).rev().collect()
        } else {
            (0..self.len()).collect()
        };
        for (nth, chunk) in places.chunks(most).enumerate() {
            let mut records = String::with_capacity(chunk.len() * 140);
            for place in chunk {
                self.record(*place, &mut records);
                records.push(',');
            }
            records.pop();
            pages.push(list("qrs", &records, nth + 1, most, self.len()));
        }
        let mut fixed = HashMap::new();
        let account = "{\"error\":\"0\",\"data\":{\"id\":1,\"email\":\"owner@example.com\",\
                       \"username\":\"owner\",\"status\":\"pro\"}}";
        fixed.insert("/api/account".to_owned(), account.to_owned());
        for resource in Resource::ALL {
            let spec = resource.spec();
            if let Some((key, endpoint)) = spec.list_keys.first().zip(spec.endpoint(Verb::List))
                && resource != Resource::QrCodes
            {
                fixed.insert(endpoint.path.to_owned(), list(key, "", 1, most, 0));
            }
        }
        Site { pages, fixed, most }
    }
}

/// What a server of static pages answers.
pub struct Site {
    pages: Vec<String>,
    fixed: HashMap<String, String>,
    /// The largest page.
    most: usize,
}

impl Site {
    /// The body of the answer to a `GET` of `path`.
    pub fn body(&self, path: &str) -> Option<&str> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if path != "/api/qr" {
            return self.fixed.get(path).map(String::as_str);
        }
        let number = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(found, _)| *found == name)?.1.parse::<usize>().ok()
        };
        let limit = number("limit").unwrap_or(15);
        // Pages are static: only the server's own size is rendered.
        let page = (limit >= self.most).then(|| number("page").unwrap_or(1))?;
        self.pages.get(page.checked_sub(1)?).map(String::as_str)
    }
}

fn list(key: &str, records: &str, page: usize, most: usize, total: usize) -> String {
    let last = total.div_ceil(most).max(1);
    let next = if page < last { (page + 1).to_string() } else { "null".to_owned() };
    format!(
        "{{\"error\":\"0\",\"data\":{{\"result\":{total},\"perpage\":{most},\"currentpage\":{page},\
         \"nextpage\":{next},\"maxpage\":{last},\"{key}\":[{records}]}}}}"
    )
}

/// A number that looks drawn at random and is always the same.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
