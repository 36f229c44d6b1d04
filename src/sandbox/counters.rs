//! Scans and statistics of a QR code as pure functions of time.

use super::store::{QrCode, Scans};
use crate::clock::Timestamp;

impl Scans {
    /// The counter at `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> u64 {
        let elapsed = u64::try_from(now.since(self.since).as_millis()).unwrap_or(u64::MAX);
        self.base.saturating_add(elapsed.checked_div(self.period).unwrap_or(0))
    }
}

/// The statistics of one code at one time, before rendering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanStatistics {
    pub clicks: u64,
    pub unique: u64,
    /// JSON key, with labels and counts, largest first.
    pub maps: [(&'static str, Vec<(&'static str, u64)>); 4],
    pub social: Vec<(&'static str, u64)>,
}

const COUNTRIES: [&str; 5] = ["Germany", "Brazil", "United States", "Japan", "Kenya"];
const REFERRERS: [&str; 4] =
    ["Direct, email and other", "https://news.example.org", "https://blog.example.net", "App"];
const BROWSERS: [&str; 4] = ["Mobile browser", "Desktop browser", "In-app browser", "Text browser"];
const SYSTEMS: [&str; 3] = ["Phone", "Tablet", "Desktop"];
const NETWORKS: [&str; 3] = ["social_network", "microblog_network", "professional_network"];

/// Statistics that are consistent with the code's scans at `now`: each map adds up to the clicks.
#[must_use]
pub fn statistics(id: u64, code: &QrCode, now: Timestamp) -> ScanStatistics {
    let clicks = code.scans.at(now);
    let social = spread(clicks / 4, &NETWORKS, id);
    ScanStatistics {
        clicks,
        unique: clicks - clicks / 3,
        maps: [
            ("topCountries", spread(clicks, &COUNTRIES, id)),
            ("topReferrers", spread(clicks, &REFERRERS, id)),
            ("topBrowsers", spread(clicks, &BROWSERS, id)),
            ("topOs", spread(clicks, &SYSTEMS, id)),
        ],
        social: NETWORKS
            .iter()
            .map(|name| {
                (*name, social.iter().find(|(label, _)| label == name).map_or(0, |(_, n)| *n))
            })
            .collect(),
    }
}

/// Divides `total` over the labels: half to the first, half of the rest to the next, and so on.
fn spread(total: u64, labels: &[&'static str], turn: u64) -> Vec<(&'static str, u64)> {
    let start = usize::try_from(turn % labels.len() as u64).unwrap_or(0);
    let mut rest = total;
    let mut shares = Vec::new();
    for (place, label) in labels.iter().cycle().skip(start).take(labels.len()).enumerate() {
        let share = if place + 1 == labels.len() { rest } else { rest.div_ceil(2) };
        rest -= share;
        shares.push((*label, share));
    }
    shares.retain(|(_, share)| *share > 0);
    shares.sort_by_key(|(_, share)| std::cmp::Reverse(*share));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(base: u64, period: u64) -> QrCode {
        QrCode { scans: Scans { base, since: Timestamp(1_000), period }, ..QrCode::default() }
    }

    #[test]
    fn scans_grow_with_time() {
        let scans = code(10, 500).scans;
        assert_eq!(scans.at(Timestamp(0)), 10);
        assert_eq!(scans.at(Timestamp(1_499)), 10);
        assert_eq!(scans.at(Timestamp(6_000)), 20);
        assert_eq!(code(10, 0).scans.at(Timestamp(i64::MAX)), 10);
    }

    #[test]
    fn every_map_adds_up_to_the_clicks() {
        for (id, base) in [(1, 0), (2, 1), (3, 7), (4, 1_000_003)] {
            let numbers = statistics(id, &code(base, 0), Timestamp(5));
            assert_eq!(numbers.clicks, base);
            assert!(numbers.unique <= numbers.clicks);
            for (name, map) in &numbers.maps {
                assert_eq!(map.iter().map(|(_, n)| n).sum::<u64>(), base, "{name}");
            }
            assert_eq!(numbers.social.len(), 3);
        }
    }
}
