//! What further requests cost.

use super::request_log::WINDOW;
use super::{Pacer, millis, ms};
use std::time::Duration;

impl Pacer {
    /// Estimated time of `requests` further requests from `now` on.
    #[must_use]
    pub fn estimate(&self, now: Duration, requests: u64) -> Duration {
        let now = ms(now);
        let first = self.ready_at(now).saturating_sub(now).max(0);
        let by_own_pace = self.share().saturating_sub(self.log.live(now));
        let at_once = match self.known {
            _ if first > 0 => self.share(),
            _ if self.limit == Some(0) => by_own_pace,
            Some(known) if known.remaining > self.reserve => {
                let left = known.remaining - self.reserve;
                if self.cap.is_some() { left.min(by_own_pace) } else { left }
            }
            Some(_) => self.share(),
            None => by_own_pace,
        };
        let Some(later) = requests.checked_sub(at_once).filter(|&later| later > 0) else {
            return millis(if requests == 0 { 0 } else { first });
        };
        let full = i64::try_from((later - 1) / self.share()).unwrap_or(i64::MAX);
        let window_end = match self.known {
            Some(known) if first == 0 && known.until > now => known.until - now,
            _ => first.saturating_add(WINDOW),
        };
        millis(window_end.saturating_add(full.saturating_mul(WINDOW)))
    }

    /// How much later the last of many requests is sent if one of them is repeated. `None` if the
    /// limit is not known, or few requests are left in the window.
    #[must_use]
    pub fn cost_of_repeat(&self, now: Duration) -> Option<Duration> {
        match self.limit()? {
            0 => Some(Duration::ZERO),
            _ if self.has_many(now) => {
                Some(Duration::from_millis(WINDOW.unsigned_abs().div_ceil(self.share())))
            }
            _ => None,
        }
    }

    /// Whether a request may be sent now, and many more in the window by the service's headers.
    #[must_use]
    pub fn has_many(&self, now: Duration) -> bool {
        /// Fewer than this part of a window are few.
        const FEW: u64 = 10;
        let Some(known) = self.known.filter(|_| self.limit() != Some(0)) else { return false };
        let left = known.remaining.saturating_sub(self.reserve);
        left >= self.share().div_ceil(FEW)
            && self.ready_at(ms(now)) <= ms(now)
            && !self.distrusts_headers
    }
}
