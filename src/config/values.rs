//! Parsers of names, URLs, time zones, durations and other values. The configuration file and the
//! command line share them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use chrono::{Days, Months, TimeDelta};

use crate::api::base_url::{BaseUrl, BaseUrlError};
use crate::api::webhook_url::WebhookUrl;
use crate::clock::Timestamp;
use crate::schedule::crontab::Schedule;
use crate::suggest::did_you_mean;

/// Name of the built-in account, whose service runs in this process.
pub const SANDBOX: &str = "sandbox";

/// What is wrong with a value, as the end of a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigValueError(String);

pub(super) fn fault<T>(what: impl Into<String>) -> Result<T, ConfigValueError> {
    Err(ConfigValueError(what.into()))
}

/// The command that builds a program with the cargo feature `fleet`.
const BUILD: &str = "`cargo install --path . --locked --features fleet`";

/// Refuses a value that this program cannot use because it was built without the cargo feature
/// `fleet`. `what` says what the value does, as the begin of a sentence.
pub(super) fn require_feature(what: &str) -> Result<(), ConfigValueError> {
    if cfg!(feature = "fleet") {
        return Ok(());
    }
    fault(format!("{what}, for which this program was not built; {BUILD} builds one that has it"))
}

/// Parses the name of an account. It is also used as a file name.
///
/// # Errors
/// When the name is not allowed, or is the name of the built-in account.
pub fn parse_account_name(name: &str) -> Result<String, ConfigValueError> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name == SANDBOX {
        return fault("the account `sandbox` is built in; give this one another name");
    }
    if !name.chars().all(allowed) || !name.starts_with(|first: char| first.is_ascii_alphanumeric())
    {
        return fault(
            "an account's name has letters, digits, `-`, `_` and `.`, \
             and begins with a letter or digit",
        );
    }
    if name.len() > 64 {
        return fault("an account's name has at most 64 characters");
    }
    Ok(name.to_owned())
}

/// Parses the base URL of a service.
pub(super) fn base_url(text: &str, allow_http: bool) -> Result<BaseUrl, ConfigValueError> {
    BaseUrl::parse(text, allow_http).map_err(|error| ConfigValueError(error.to_string()))
}

/// Parses the URL of a webhook or heartbeat.
pub(super) fn hook(text: &str) -> Result<WebhookUrl, ConfigValueError> {
    WebhookUrl::parse(text).map_err(|error| ConfigValueError(error.to_string()))
}

/// The address of the web UI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddress {
    /// No web UI.
    Off,
    /// This address and port.
    At(SocketAddr),
}

/// Parses an address to listen on. `localhost` is 127.0.0.1, without the resolver.
///
/// # Errors
/// When the text is not an IP address with a port.
pub fn parse_address(text: &str) -> Result<SocketAddr, ConfigValueError> {
    let here = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    here.as_deref()
        .unwrap_or(text)
        .parse()
        .or_else(|_| fault("must be an address and a port, such as 127.0.0.1:8080"))
}

/// Parses an address to listen on, or `off`.
///
/// # Errors
/// As [`parse_address`].
pub fn parse_listen(text: &str) -> Result<ListenAddress, ConfigValueError> {
    if text == "off" {
        return Ok(ListenAddress::Off);
    }
    parse_address(text)
        .map(ListenAddress::At)
        .map_err(|wrong| ConfigValueError(format!("{wrong}, or `off`")))
}

/// Parses a percentage such as `30%`.
pub(super) fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number)
}

/// Parses the name of a time zone, such as `Europe/Berlin`.
///
/// # Errors
/// When no time zone has this name; the message suggests a similar one.
pub fn parse_timezone(name: &str) -> Result<chrono_tz::Tz, ConfigValueError> {
    let Ok(zone) = name.parse::<chrono_tz::Tz>() else {
        let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
        // Users may write the city without the continent.
        let city = names().find(|zone| {
            zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name))
        });
        let near = city.map_or_else(
            || did_you_mean(name, names()),
            |city| format!("; did you mean `{city}`?"),
        );
        return fault(format!("unknown time zone `{name}`{near}"));
    };
    Ok(zone)
}

/// Checks a crontab expression and returns its text unchanged.
pub(super) fn schedule(text: &str) -> Result<String, ConfigValueError> {
    Schedule::parse(text).map(|_| text.to_owned()).map_err(ConfigValueError)
}

/// Parses the name of an environment variable.
pub(super) fn variable(text: &str) -> Result<String, ConfigValueError> {
    if text.is_empty() || text.contains(['=', '\0']) {
        return fault("must be the name of an environment variable, such as `LINKS_KEY`");
    }
    Ok(text.to_owned())
}

/// Parses one of these names.
pub(super) fn one_of<T: Copy>(
    text: &str,
    names: &[(&'static str, T)],
) -> Result<T, ConfigValueError> {
    if let Some((_, value)) = names.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let list: Vec<_> = names.iter().map(|(name, _)| format!("`{name}`")).collect();
    fault(format!("must be one of {}", list.join(", ")))
}

/// Parses a duration that is not zero.
pub(super) fn nonzero_duration(text: &str) -> Result<Duration, ConfigValueError> {
    let time = parse_duration(text)?;
    if time.is_zero() { fault("must be longer than 0 seconds") } else { Ok(time) }
}

/// Splits a text such as `1h30m` into numbers with their units.
fn parts(text: &str) -> Option<Vec<(u32, char)>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = rest[digits..].chars().next()?;
        parts.push((rest[..digits].parse().ok()?, unit));
        rest = &rest[digits + unit.len_utf8()..];
    }
    (!parts.is_empty()).then_some(parts)
}

/// Parses a duration: `90s`, `10m`, `2h`, `7d`, `1h30m`; a number without a unit is seconds.
///
/// # Errors
/// When the text is not a duration.
pub fn parse_duration(text: &str) -> Result<Duration, ConfigValueError> {
    let wrong = || ConfigValueError("must be a duration such as `90s`, `10m`, `2h` or `7d`".into());
    let bare = text.bytes().all(|byte| byte.is_ascii_digit());
    if bare && let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let mut seconds = 0_u64;
    for (number, unit) in parts(text).ok_or_else(wrong)? {
        let each = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        seconds = seconds.saturating_add(u64::from(number) * each);
    }
    Ok(Duration::from_secs(seconds))
}

/// Parses a size in bytes with a binary unit: `512 MiB`, `10 GiB`.
pub(super) fn parse_size(text: &str) -> Result<u64, ConfigValueError> {
    let wrong = || ConfigValueError("must be a size such as `512 MiB` or `10 GiB`".into());
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = units.iter().position(|it| *it == unit.trim_start()).ok_or_else(wrong)?;
    let bytes = (0..power).try_fold(number, |bytes, _| bytes.checked_mul(1024));
    bytes.ok_or_else(wrong)
}

/// Parses the URL of a Temporal server. Returns it without a slash at its end.
pub(super) fn temporal_url(text: &str) -> Result<String, ConfigValueError> {
    match BaseUrl::parse(text, true) {
        Ok(url) => Ok(url.to_string()),
        Err(BaseUrlError::Scheme) => fault("must be a URL such as `http://127.0.0.1:7233`"),
        Err(BaseUrlError::UserInfo) => fault("the url must not contain a user name or password"),
        Err(error) => fault(error.to_string()),
    }
}

/// Parses the name of a namespace or task queue of Temporal.
pub(super) fn temporal_name(text: &str) -> Result<String, ConfigValueError> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.is_empty() || !text.chars().all(allowed) {
        return fault("must be letters, digits, `-`, `_` and `.`");
    }
    if text.len() > 200 {
        return fault("must have at most 200 characters");
    }
    Ok(text.to_owned())
}

/// A calendar period such as `1y6m2d12h`. Unlike a [`Duration`], its length depends on the date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CalendarPeriod {
    /// Calendar years.
    pub years: u32,
    /// Calendar months.
    pub months: u32,
    /// Days.
    pub days: u32,
    /// Hours.
    pub hours: u32,
}

impl CalendarPeriod {
    /// The time of this period before `time`, in UTC; the earliest possible time if it is out of
    /// the
    /// calendar's range.
    #[must_use]
    pub fn before(self, time: Timestamp) -> Timestamp {
        let months = self.years.saturating_mul(12).saturating_add(self.months);
        let begin = time
            .utc()
            .and_then(|time| time.checked_sub_months(Months::new(months)))
            .and_then(|time| time.checked_sub_days(Days::new(self.days.into())))
            .and_then(|time| time.checked_sub_signed(TimeDelta::hours(self.hours.into())));
        Timestamp(begin.map_or(i64::MIN, |time| time.timestamp_millis()))
    }
}

impl fmt::Display for CalendarPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(self.years, 'y'), (self.months, 'm'), (self.days, 'd'), (self.hours, 'h')];
        for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, "{number}{unit}")?;
        }
        Ok(())
    }
}

/// Parses a [`CalendarPeriod`] of years, months, weeks, days and hours, such as `1y6m2d12h`.
///
/// # Errors
/// When the text is not a period, or an empty one.
pub fn parse_period(text: &str) -> Result<CalendarPeriod, ConfigValueError> {
    let wrong =
        || ConfigValueError("must be a period such as `7d`, `2w`, `6m` or `1y6m2d12h`".into());
    let mut period = CalendarPeriod::default();
    for (number, unit) in parts(text).ok_or_else(wrong)? {
        let (place, each) = match unit {
            'y' => (&mut period.years, 1),
            'm' => (&mut period.months, 1),
            'w' => (&mut period.days, 7),
            'd' => (&mut period.days, 1),
            'h' => (&mut period.hours, 1),
            _ => return Err(wrong()),
        };
        let more = number.checked_mul(each).and_then(|more| place.checked_add(more));
        *place = more.ok_or_else(wrong)?;
    }
    if period == CalendarPeriod::default() { Err(wrong()) } else { Ok(period) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_add_up() {
        assert_eq!(parse_duration("90s").unwrap().as_secs(), 90);
        assert_eq!(parse_duration("1h30m").unwrap().as_secs(), 5400);
        assert_eq!(parse_duration("7d").unwrap().as_secs(), 604_800);
        assert_eq!(parse_duration("90").unwrap().as_secs(), 90);
        for bad in ["", "+10", "99999999999", "m", "-1s", "1.5h", "10 m", "5ü", "99999999999s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_has_a_binary_unit() {
        for (text, bytes) in [("0 B", 0), ("512 MiB", 512 << 20), ("10GiB", 10 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "10", "GiB", "1.5 GiB", "10 GB", "10 gib", "99999999 TiB", "-1 B", "1 B "] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn periods_have_calendar_units() {
        let period = parse_period("1y6m2w3h").unwrap();
        assert_eq!(period, CalendarPeriod { years: 1, months: 6, days: 14, hours: 3 });
        assert_eq!(period.to_string(), "1y6m14d3h");
        for bad in ["", "0d", "3s", "y"] {
            assert!(parse_period(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_period_goes_back_by_the_calendar() {
        let march = Timestamp(1_711_843_200_000); // 2024-03-31T00:00:00Z
        let before = |text: &str| parse_period(text).unwrap().before(march).iso();
        assert_eq!(before("1m"), "2024-02-29T00:00:00Z");
        assert_eq!(before("1y1d12h"), "2023-03-29T12:00:00Z");
        let ages = parse_period("4000000000y4000000000m").unwrap();
        assert_eq!(ages.before(march), Timestamp(i64::MIN));
    }

    #[test]
    fn a_city_suggests_its_time_zone() {
        assert_eq!(parse_timezone("Europe/Berlin").unwrap(), chrono_tz::Europe::Berlin);
        let city = parse_timezone("berlin").unwrap_err().to_string();
        assert_eq!(city, "unknown time zone `berlin`; did you mean `Europe/Berlin`?");
        let typo = parse_timezone("Europe/Berln").unwrap_err().to_string();
        assert_eq!(typo, "unknown time zone `Europe/Berln`; did you mean `Europe/Berlin`?");
    }

    #[test]
    fn account_names_are_safe_file_names() {
        for good in ["main", "a.b", "client-2_x"] {
            assert!(parse_account_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "-x", "a/b", "a b", "ü", "sandbox"] {
            assert!(parse_account_name(bad).is_err(), "{bad}");
        }
    }
}
