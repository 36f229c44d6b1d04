//! References: names of snapshots and of the live account, and the snapshot that each one means.
//! Pure.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Timelike as _};

use super::snapshot::Snapshot;
use crate::clock::Timestamp;
use crate::model::SnapshotId;

/// A reference to a state of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `live`: the present state on the service.
    Live,
    /// `latest` or `latest~N`: the newest snapshot, or the N-th backup before it. Snapshots of runs
    /// before the newest are not counted.
    Latest(usize),
    /// `#N`: the snapshot with this number.
    Number(SnapshotId),
    /// A date or time: the newest snapshot that began at or before this local time.
    At(NaiveDateTime),
    /// Any other text: the newest snapshot with this tag, or the number of a snapshot.
    Tag(String),
}

/// A reference with its account, as on a command line: `account@reference`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualifiedReference {
    /// The name before the `@`; `None` if only a reference was given.
    pub account: Option<String>,
    /// The text after the `@`; `None` if only an account was given.
    pub reference: Option<Reference>,
}

/// Why a reference does not name a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The reference, and the part of it that should be a number.
    #[error("`{0}` is not a valid reference: `{1}` is not a number")]
    Number(String, String),
    /// A reference with the form of a date that is not a valid date or time.
    #[error("`{0}` is not a valid date or time")]
    Time(String),
    /// There is no account before the `@`.
    #[error("the account before the @ is missing")]
    NoAccount,
    /// There is no reference after the `@`.
    #[error("the reference after the @ of `{0}` is missing")]
    NoReference(String),
    /// The account has no readable snapshot.
    #[error("there is no snapshot yet")]
    Empty,
    /// The missing snapshot, and the ranges of existing ones.
    #[error("there is no snapshot #{0}; the snapshots are {1}")]
    NoNumber(SnapshotId, String),
    /// `latest~N` with only one backup.
    #[error("there is no snapshot before the newest: only one backup exists")]
    OnlyOne,
    /// `latest~N` is out of range: N, and the number of backups.
    #[error("latest~{0} is out of range: only {1} backups exist")]
    NoOlder(usize, usize),
    /// The given time is before the start of the oldest snapshot.
    #[error("no snapshot is that old: the oldest one began {0}")]
    NoneBefore(String),
    /// No snapshot has this tag.
    #[error("no snapshot has the tag `{0}`")]
    NoTag(String),
    /// The digits are the number of one snapshot and the tag of another, whose number follows.
    #[error("`{0}` is the number of a snapshot and the tag of #{1}; write #{0} or #{1}")]
    Ambiguous(String, SnapshotId),
}

impl QualifiedReference {
    /// Parses `account`, `account@reference`, or a reference that cannot be an account name
    /// (`live`, `latest~1`, `#3`, a date).
    ///
    /// # Errors
    /// [`ReferenceError`] if it is malformed.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        if let Some((account, reference)) = text.split_once('@') {
            return match (account, reference) {
                ("", _) => Err(ReferenceError::NoAccount),
                (_, "") => Err(ReferenceError::NoReference(text.to_owned())),
                _ => Ok(Self {
                    account: Some(account.to_owned()),
                    reference: Some(Reference::parse(reference)?),
                }),
            };
        }
        match Reference::parse(text)? {
            Reference::Tag(account) => Ok(Self { account: Some(account), reference: None }),
            reference => Ok(Self { account: None, reference: Some(reference) }),
        }
    }
}

impl Reference {
    /// Parses a reference. A text of no other form is a tag.
    ///
    /// # Errors
    /// [`ReferenceError::Number`] or [`ReferenceError::Time`] for an invalid number or time.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let number = |part: &str| ReferenceError::Number(text.to_owned(), part.to_owned());
        if text == "live" {
            return Ok(Self::Live);
        }
        if let Some(digits) = text.strip_prefix('#') {
            return digits.parse().map(Self::Number).map_err(|_| number(digits));
        }
        if let Some(rest) = text.strip_prefix("latest") {
            if rest.is_empty() {
                return Ok(Self::Latest(0));
            }
            if let Some(digits) = rest.strip_prefix('~') {
                return digits.parse().map(Self::Latest).map_err(|_| number(digits));
            }
        }
        if looks_like_a_date(text) {
            return local_time(text)
                .map(Self::At)
                .ok_or_else(|| ReferenceError::Time(text.to_owned()));
        }
        Ok(Self::Tag(text.to_owned()))
    }

    /// Finds the snapshot among `snapshots`, which must be readable and oldest first; `None` for
    /// the live account. Times are local times in `zone`.
    ///
    /// # Errors
    /// [`ReferenceError`] if there is no such snapshot.
    pub fn find<'s, Tz: TimeZone>(
        &self,
        snapshots: &'s [Snapshot],
        zone: &Tz,
    ) -> Result<Option<&'s Snapshot>, ReferenceError> {
        if *self == Self::Live {
            return Ok(None);
        }
        let oldest = snapshots.first().ok_or(ReferenceError::Empty)?;
        let found = match self {
            Self::Live => None,
            Self::Latest(back) => {
                let (newest, older) = snapshots.split_last().ok_or(ReferenceError::Empty)?;
                let mut older = older.iter().rev().filter(|it| !it.of_run);
                let none = match older.clone().count() {
                    0 => ReferenceError::OnlyOne,
                    many => ReferenceError::NoOlder(*back, many + 1),
                };
                let found = match back.checked_sub(1) {
                    None => Some(newest),
                    Some(back) => older.nth(back),
                };
                Some(found.ok_or(none)?)
            }
            Self::Number(number) => {
                let found = snapshots.iter().find(|it| it.number == *number);
                Some(found.ok_or_else(|| ReferenceError::NoNumber(*number, numbers(snapshots)))?)
            }
            Self::At(local) => {
                let time = instant(*local, zone);
                let found = snapshots.iter().rev().find(|it| it.started <= time);
                Some(found.ok_or_else(|| ReferenceError::NoneBefore(oldest.started.iso()))?)
            }
            Self::Tag(tag) => {
                let found = snapshots.iter().rev().find(|it| it.tag.as_deref() == Some(tag));
                // A shell treats `#12` as a comment, so `12` is accepted as well.
                let number = is_number(tag).then(|| tag.parse().ok()).flatten();
                let number = number.map(|number| Self::Number(number).find(snapshots, zone));
                match (found, number) {
                    (Some(tagged), Some(Ok(Some(other)))) if tagged.number != other.number => {
                        return Err(ReferenceError::Ambiguous(tag.clone(), tagged.number));
                    }
                    (Some(tagged), _) => Some(tagged),
                    (None, Some(found)) => return found,
                    (None, None) => return Err(ReferenceError::NoTag(tag.clone())),
                }
            }
        };
        Ok(found)
    }
}

/// Whether `text` consists of digits only: the number of a snapshot, or a tag.
#[must_use]
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn looks_like_a_date(text: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() >= 10 && text.bytes().take(10).enumerate().all(shape)
}

/// Parses a local date or time. A date means its end: `2026-11-01` finds the newest snapshot of
/// that day.
fn local_time(text: &str) -> Option<NaiveDateTime> {
    let last = NaiveTime::from_hms_milli_opt(23, 59, 59, 999)?;
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(date.and_time(last));
    }
    let text = text.replacen(' ', "T", 1);
    let whole = |time: NaiveDateTime, seconds: u32| {
        time.with_second(time.second() + seconds)?.with_nanosecond(999_000_000)
    };
    if let Ok(time) = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M") {
        return whole(time, 59);
    }
    let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S").ok()?;
    whole(time, 0)
}

/// Converts a local time. Of two possible instants, the later. A time that the clock skipped is
/// read as UTC, which is off by less than a day.
fn instant<Tz: TimeZone>(local: NaiveDateTime, zone: &Tz) -> Timestamp {
    let utc = |time: DateTime<Tz>| Timestamp(time.timestamp_millis());
    zone.from_local_datetime(&local)
        .latest()
        .map_or(Timestamp(local.and_utc().timestamp_millis()), utc)
}

/// The numbers of the snapshots as ranges: `#3 to #9, #12`.
fn numbers(snapshots: &[Snapshot]) -> String {
    let mut spans: Vec<(SnapshotId, SnapshotId)> = Vec::new();
    for snapshot in snapshots {
        match spans.last_mut() {
            Some((_, end)) if end.next() == snapshot.number => *end = snapshot.number,
            _ => spans.push((snapshot.number, snapshot.number)),
        }
    }
    let span = |(from, to): &(SnapshotId, SnapshotId)| {
        if from == to { format!("#{from}") } else { format!("#{from} to #{to}") }
    };
    spans.iter().map(span).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::snapshot::{RequestUsage, SnapshotStatus};
    use chrono::FixedOffset;
    use proptest::prelude::*;

    fn snapshots(starts: &[&str]) -> Vec<Snapshot> {
        let one = |(nth, time): (usize, &&str)| Snapshot {
            number: SnapshotId(nth as i64 + 1),
            status: SnapshotStatus::Complete,
            started: Timestamp(DateTime::parse_from_rfc3339(time).unwrap().timestamp_millis()),
            touched: Timestamp(0),
            finished: Some(Timestamp(0)),
            forgotten: None,
            tag: (nth == 0).then(|| "first".to_owned()),
            usage: RequestUsage::default(),
            digest: None,
            outcomes: Vec::new(),
            of_run: false,
        };
        starts.iter().enumerate().map(one).collect()
    }

    fn found(text: &str) -> Result<i64, ReferenceError> {
        let all =
            snapshots(&["2026-11-01T10:00:00Z", "2026-11-01T23:30:00Z", "2026-11-03T10:00:30Z"]);
        let east = FixedOffset::east_opt(3600).unwrap();
        let named = QualifiedReference::parse(&format!("main@{text}"))?;
        assert_eq!(named.account.as_deref(), Some("main"));
        Ok(named.reference.unwrap().find(&all, &east)?.map_or(0, |it| it.number.0))
    }

    #[test]
    fn every_form_finds_its_snapshot() {
        for (text, number) in [
            ("live", 0),
            ("latest", 3),
            ("latest~2", 1),
            ("#2", 2),
            ("2", 2),
            ("first", 1),
            ("2026-11-01", 1),
            ("2026-11-02", 2),
            ("2026-11-03T11:00", 3),
            ("2026-11-03T11:00:29", 2),
            ("2026-11-03 11:00:30", 3),
        ] {
            assert_eq!(found(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn snapshots_of_runs_count_as_latest_and_not_as_backups_before_it() {
        let mut all = snapshots(&["2026-11-01T10:00:00Z"; 5]);
        for at in [1, 2, 4] {
            all[at].of_run = true;
        }
        let found = |back| {
            let found = Reference::Latest(back).find(&all, &chrono::Utc)?;
            Ok::<_, ReferenceError>(found.unwrap().number.0)
        };
        assert_eq!([found(0), found(1), found(2)], [Ok(5), Ok(4), Ok(1)]);
        assert_eq!(found(3), Err(ReferenceError::NoOlder(3, 3)));
        all.truncate(1);
        let error = Reference::Latest(1).find(&all, &chrono::Utc);
        assert_eq!(error, Err(ReferenceError::OnlyOne));
    }

    #[test]
    fn each_missing_reference_has_its_error() {
        for (text, message) in [
            ("#9", "there is no snapshot #9; the snapshots are #1 to #3"),
            ("9", "there is no snapshot #9; the snapshots are #1 to #3"),
            ("latest~3", "latest~3 is out of range: only 3 backups exist"),
            ("latest~x", "`latest~x` is not a valid reference: `x` is not a number"),
            ("2026-10-01", "no snapshot is that old: the oldest one began 2026-11-01T10:00:00Z"),
            ("2026-13-01", "`2026-13-01` is not a valid date or time"),
            ("second", "no snapshot has the tag `second`"),
        ] {
            assert_eq!(found(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_tag_that_is_also_a_snapshot_number_is_ambiguous() {
        let mut all = snapshots(&["2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z"]);
        all[0].tag = Some("2".to_owned());
        let found = |text| {
            let reference = Reference::parse(text).unwrap();
            reference.find(&all, &chrono::Utc).map(|found| found.unwrap().number.0)
        };
        let message = found("2").unwrap_err().to_string();
        assert_eq!(message, "`2` is the number of a snapshot and the tag of #1; write #2 or #1");
        assert_eq!((found("#2"), found("1")), (Ok(2), Ok(1)));
        all[0].tag = Some("7".to_owned());
        let reference = Reference::parse("7").unwrap();
        assert_eq!(reference.find(&all, &chrono::Utc).unwrap().unwrap().number.0, 1);
    }

    #[test]
    fn a_plain_word_is_an_account_and_a_plain_reference_is_not() {
        let both =
            |text| QualifiedReference::parse(text).map(|it| (it.account, it.reference)).unwrap();
        assert_eq!(both("main"), (Some("main".into()), None));
        assert_eq!(both("latest~1"), (None, Some(Reference::Latest(1))));
        QualifiedReference::parse("@latest").unwrap_err();
        QualifiedReference::parse("main@").unwrap_err();
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = QualifiedReference::parse(&text);
            let _ = found(&text);
        }
    }
}
