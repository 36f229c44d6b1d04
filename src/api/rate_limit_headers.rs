//! What one answer says about the limit and about the service's clock, read
//! from its headers (and `Retry-After` from its body). Pure text to numbers;
//! what follows from the numbers is decided in [`crate::api::pacer`].

use crate::api::envelope;
use crate::api::http::Response;
use chrono::{DateTime, NaiveDateTime};

/// A moment as the service wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTime {
    /// Milliseconds from the moment of the answer.
    Relative(u64),
    /// Milliseconds since 1970 on the service's own clock.
    Absolute(i64),
}

/// Everything the pacer needs to know of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// `X-RateLimit-Limit`; zero means that there is no limit.
    pub limit: Option<u64>,
    /// `X-RateLimit-Remaining`.
    pub remaining: Option<u64>,
    /// `X-RateLimit-Reset`, read by its magnitude.
    pub reset: Option<ResetTime>,
    /// `Date`, in milliseconds since 1970, truncated to the second by the service.
    pub date: Option<i64>,
    /// `Retry-After`, from the header or else from the body.
    pub retry_after: Option<ResetTime>,
    /// The request was refused for the limit, and so was not executed.
    pub throttled: bool,
}

impl RateLimitHeaders {
    /// Reads the signals of one answer.
    #[must_use]
    pub fn read(response: &Response) -> Self {
        let throttle = envelope::throttle(response);
        let failed = throttle.refused || response.status == 429 || response.status >= 500;
        Self {
            limit: response.header("x-ratelimit-limit").and_then(whole),
            remaining: response.header("x-ratelimit-remaining").and_then(whole),
            reset: response.header("x-ratelimit-reset").and_then(moment),
            date: response.header("date").and_then(date),
            retry_after: response
                .header("retry-after")
                .and_then(moment)
                .or_else(|| throttle.retry_after.as_deref().and_then(moment))
                // Beside a good answer it says nothing that anybody should wait for.
                .filter(|_| failed),
            throttled: throttle.refused,
        }
    }
}

/// A whole number; anything below zero is zero. Some servers repeat a header,
/// and some libraries join the copies by commas: the first counts.
fn whole(text: &str) -> Option<u64> {
    let first = text.split(',').next()?.trim();
    let number: f64 = first.parse().ok()?;
    // A float carries whole numbers of this size exactly; larger ones saturate.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    number.is_finite().then_some(number.max(0.0) as u64)
}

/// Above this many seconds a bare number is a date and not a wait: three years.
const LONGEST_WAIT_SECONDS: f64 = 1e8;
/// Above this a bare number counts milliseconds: the year 5138 in seconds.
const LARGEST_EPOCH_SECONDS: f64 = 1e11;

/// A moment in any of the forms that services use.
#[must_use]
pub fn moment(text: &str) -> Option<ResetTime> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return number_moment(number);
    }
    date(text).map(ResetTime::Absolute)
}

fn number_moment(number: f64) -> Option<ResetTime> {
    // `as` saturates, and the bounds below keep everything in range.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    match number {
        n if !n.is_finite() || n < 0.0 => None,
        n if n < LONGEST_WAIT_SECONDS => Some(ResetTime::Relative((n * 1000.0) as u64)),
        n if n < LARGEST_EPOCH_SECONDS => Some(ResetTime::Absolute((n * 1000.0) as i64)),
        n => Some(ResetTime::Absolute(n as i64)),
    }
}

/// A date in HTTP's form, in ISO 8601, or as `YYYY-MM-DD HH:MM:SS`. A date
/// that names no zone is taken as UTC; were it not, it would lie hours off,
/// which the pacer distrusts.
fn date(text: &str) -> Option<i64> {
    const WITHOUT_ZONE: [&str; 3] =
        ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%a, %d %b %Y %H:%M:%S GMT"];
    let text = text.trim();
    let zoned = DateTime::parse_from_rfc2822(text).or_else(|_| DateTime::parse_from_rfc3339(text));
    if let Ok(time) = zoned {
        return Some(time.timestamp_millis());
    }
    WITHOUT_ZONE
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
        .map(|time| time.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use crate::api::rate_limit_headers::*;

    #[test]
    fn a_reset_is_read_by_its_magnitude() {
        let at = 1_795_177_885_000;
        for (text, expected) in [
            ("41", ResetTime::Relative(41_000)),
            ("0", ResetTime::Relative(0)),
            ("12.5", ResetTime::Relative(12_500)),
            ("1795177885", ResetTime::Absolute(at)),
            ("1795177885123", ResetTime::Absolute(at + 123)),
            ("Fri, 20 Nov 2026 12:31:25 GMT", ResetTime::Absolute(at)),
            ("2026-11-20T12:31:25Z", ResetTime::Absolute(at)),
            ("2026-11-20T13:31:25+01:00", ResetTime::Absolute(at)),
            ("2026-11-20 12:31:25", ResetTime::Absolute(at)),
            ("2026-11-20T12:31:25", ResetTime::Absolute(at)),
        ] {
            assert_eq!(moment(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_no_moment() {
        for text in ["", "soon", "-5", "NaN", "inf", "1e999", "2026-13-45 99:00:00", "\u{0}"] {
            assert_eq!(moment(text), None, "{text}");
        }
        assert_eq!(moment("1e300"), Some(ResetTime::Absolute(i64::MAX)));
    }

    #[test]
    fn counts_are_read_leniently_and_never_below_zero() {
        assert_eq!(whole("30"), Some(30));
        assert_eq!(whole(" 30 , 30"), Some(30));
        assert_eq!(whole("-1"), Some(0));
        assert_eq!(whole("many"), None);
    }

    #[test]
    fn retry_after_comes_from_the_header_or_else_from_the_body() {
        let body = br#"{"error":429,"message":"Too Many Requests","Retry-After":"41"}"#.to_vec();
        let mut response = Response { status: 200, headers: Vec::new(), body };
        let signals = RateLimitHeaders::read(&response);
        assert!(signals.throttled);
        assert_eq!(signals.retry_after, Some(ResetTime::Relative(41_000)));
        response.headers.push(("retry-after".into(), "7".into()));
        assert_eq!(RateLimitHeaders::read(&response).retry_after, Some(ResetTime::Relative(7_000)));
    }
}
