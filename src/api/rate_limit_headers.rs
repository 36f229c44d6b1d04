//! Parses the rate limit and the time of the service from a response's headers, and `Retry-After`
//! also from its body. Pure. [`crate::api::pacer`] decides what follows from them.

use crate::api::envelope;
use crate::api::http::Response;
use chrono::{DateTime, NaiveDateTime};

/// A time sent by the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTime {
    /// Milliseconds after the response.
    Relative(u64),
    /// Milliseconds since 1970, by the service's clock.
    Absolute(i64),
}

/// The data of a response that the pacer needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// `X-RateLimit-Limit`, in requests per minute; zero means that there is no limit.
    pub limit: Option<u64>,
    /// `X-RateLimit-Remaining`: requests left in the present window.
    pub remaining: Option<u64>,
    /// `X-RateLimit-Reset`: the end of the window, relative or absolute by its magnitude.
    pub reset: Option<ResetTime>,
    /// `Date`, in milliseconds since 1970. The service truncates it to the second.
    pub date: Option<i64>,
    /// `Retry-After` of a failed request, from the header or otherwise from the body.
    pub retry_after: Option<ResetTime>,
    /// The request exceeded the rate limit and was not executed.
    pub throttled: bool,
}

impl RateLimitHeaders {
    /// Parses the headers of a response.
    #[must_use]
    pub fn read(response: &Response) -> Self {
        let throttle = envelope::throttle(response);
        let failed = throttle.refused || response.status == 429 || response.status >= 500;
        Self {
            limit: response.header("x-ratelimit-limit").and_then(whole),
            remaining: response.header("x-ratelimit-remaining").and_then(whole),
            reset: response.header("x-ratelimit-reset").and_then(reset_time),
            date: response.header("date").and_then(date),
            retry_after: response
                .header("retry-after")
                .and_then(reset_time)
                .or_else(|| throttle.retry_after.as_deref().and_then(reset_time))
                // Beside a success it must not cause a wait.
                .filter(|_| failed),
            throttled: throttle.refused,
        }
    }
}

/// Parses a whole number; a negative one is zero. Some servers repeat a header, and some libraries
/// join the copies by commas: the first counts.
fn whole(text: &str) -> Option<u64> {
    let first = text.split(',').next()?.trim();
    let number: f64 = first.parse().ok()?;
    // A float represents whole numbers of this size exactly; larger ones saturate.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    number.is_finite().then_some(number.max(0.0) as u64)
}

/// A number of seconds from which on it is a date and not a wait: three years.
const MAX_WAIT_SECONDS: f64 = 1e8;
/// A number from which on it is a date in milliseconds: the year 5138 in seconds.
const MAX_EPOCH_SECONDS: f64 = 1e11;

/// Parses a time in any of the forms that services use: seconds to wait, a Unix time in seconds or
/// milliseconds, or a date.
#[must_use]
pub fn reset_time(text: &str) -> Option<ResetTime> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return reset_from_number(number);
    }
    date(text).map(ResetTime::Absolute)
}

fn reset_from_number(number: f64) -> Option<ResetTime> {
    // `as` saturates, and the bounds below keep everything in range.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    match number {
        n if !n.is_finite() || n < 0.0 => None,
        n if n < MAX_WAIT_SECONDS => Some(ResetTime::Relative((n * 1000.0) as u64)),
        n if n < MAX_EPOCH_SECONDS => Some(ResetTime::Absolute((n * 1000.0) as i64)),
        n => Some(ResetTime::Absolute(n as i64)),
    }
}

/// Parses a date in HTTP's form, in ISO 8601, or as `YYYY-MM-DD HH:MM:SS`. A date without a zone is
/// UTC. If it is not, it is off by hours, and the pacer ignores it.
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
            assert_eq!(reset_time(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_invalid_reset_is_ignored() {
        for text in ["", "soon", "-5", "NaN", "inf", "1e999", "2026-13-45 99:00:00", "\u{0}"] {
            assert_eq!(reset_time(text), None, "{text}");
        }
        assert_eq!(reset_time("1e300"), Some(ResetTime::Absolute(i64::MAX)));
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
