//! Names of snapshots: `vault::reference`.

use std::collections::BTreeSet;

use linkvault::clock::Timestamp;
use linkvault::model::SnapshotId;
use linkvault::vault::reference::{QualifiedReference, Reference, is_number};
use linkvault::vault::snapshot::{RequestUsage, Snapshot, SnapshotStatus};

pub const WORDS: &[&str] = &[
    "latest",
    "latest~",
    "~1",
    "live",
    "#",
    "#12",
    "@",
    "main@",
    "2026-11-01",
    "T14:00",
    " 14:00:59",
    "2026-02-30",
    "0000-01-01",
    "9999-12-31",
    "18446744073709551616",
    "-1",
    "tag",
    "12",
    "T24:00",
    "23:59:60",
    "\u{0661}",
    "\n",
];

pub fn run(input: &[u8]) {
    let (which, text) = super::choice(input);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let snapshots = snapshots(which);
    let named = QualifiedReference::parse(text);
    if let Ok(named) = &named {
        assert!(named.account.is_some() || named.reference.is_some());
        assert!(named.account.as_ref().is_none_or(|it| text.starts_with(it.as_str())));
    }
    let reference = match Reference::parse(text) {
        Ok(reference) => reference,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(text.contains('@') || named.is_err(), "{text:?}");
            return;
        }
    };
    assert_eq!(is_number(text), text.bytes().all(|it| it.is_ascii_digit()) && !text.is_empty());
    for zone in [chrono_tz::UTC, chrono_tz::Europe::Berlin, chrono_tz::Pacific::Apia] {
        let found = reference.find(&snapshots, &zone);
        match (&reference, found) {
            (Reference::Live, found) => assert_eq!(found, Ok(None)),
            (_, Ok(found)) => {
                let found = found.unwrap_or_else(|| panic!("{reference:?} means a snapshot"));
                assert!(snapshots.iter().any(|it| it.number == found.number));
                means(&reference, found, &snapshots);
            }
            (_, Err(error)) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn means(reference: &Reference, found: &Snapshot, all: &[Snapshot]) {
    match reference {
        Reference::Number(number) => assert_eq!(found.number, *number),
        Reference::Latest(0) => assert_eq!(Some(found.number), all.last().map(|it| it.number)),
        Reference::Latest(_) => assert!(!found.of_run),
        Reference::Tag(tag) => {
            let numbers: BTreeSet<_> = [found.number.to_string()].into();
            let of_number = tag.trim_start_matches('0');
            assert!(found.tag.as_deref() == Some(tag) || numbers.contains(of_number), "{tag:?}");
        }
        Reference::At(_) | Reference::Live => {}
    }
}

/// Up to seven snapshots, some of them looks of runs, some with tags.
fn snapshots(which: usize) -> Vec<Snapshot> {
    const DAY: i64 = 86_400_000;
    let one = |nth: i64| Snapshot {
        number: SnapshotId(nth * 2 + 1),
        status: SnapshotStatus::Complete,
        started: Timestamp(1_793_000_000_000 + nth * DAY),
        touched: Timestamp(0),
        finished: Some(Timestamp(0)),
        forgotten: None,
        tag: (nth % 3 == 0).then(|| if nth == 3 { "5".to_owned() } else { format!("tag{nth}") }),
        usage: RequestUsage::default(),
        digest: None,
        outcomes: Vec::new(),
        of_run: nth % 4 == 2,
    };
    (0..(which % 8) as i64).map(one).collect()
}
