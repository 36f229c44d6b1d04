//! Lines of crontab: `schedule::crontab`.

use linkvault::clock::Timestamp;
use linkvault::daemon::Schedule;

pub const WORDS: &[&str] = &[
    "* * * * *",
    "0 3 * * *",
    "*/5",
    "0-59/7",
    "1,2,3",
    "@daily",
    "@yearly",
    "@hourly",
    "mon-fri",
    "sun",
    "7",
    "0",
    "29 2",
    "31 4",
    "12",
    "1-12",
    "*/0",
    "59",
    "60",
    " ",
    "-",
    ",",
    "/",
    "L",
    "?",
    "#",
    "4294967296",
    "* * * * * *",
    "0 0 29 2 1",
    "30 2 * * *",
];

/// The time, in eight bytes, and a line.
pub fn run(input: &[u8]) {
    let Some((time, text)) = input.split_first_chunk::<8>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let schedule = match Schedule::parse(text) {
        Ok(schedule) => schedule,
        Err(why) => {
            assert!(!why.is_empty());
            return super::assert_readable(
                &why.replace(char::is_control, " "),
                500 + text.chars().count(),
            );
        }
    };
    // Any time, and most often one of these years.
    let any = i64::from_be_bytes(*time);
    let near = 1_700_000_000_000 + any.rem_euclid(200_000_000_000);
    for zone in [chrono_tz::UTC, chrono_tz::Europe::Berlin, chrono_tz::Australia::Lord_Howe] {
        let _ = schedule.next_after(Timestamp(any), zone);
        let mut at = Timestamp(near);
        for _ in 0..4 {
            let Some(next) = schedule.next_after(at, zone) else { break };
            assert!(next > at, "{text:?}: {next:?} is not after {at:?}");
            assert_eq!(next.0 % 1000, 0, "{text:?}");
            if at.0 + 1000 < next.0 {
                // Nothing is due in between, whenever one asks.
                let between = Timestamp(at.0 + (next.0 - at.0) / 2);
                let due = schedule.next_after(between, zone);
                assert!(due.is_some_and(|due| due <= next || between >= next), "{text:?}");
                let just = schedule.next_after(Timestamp(next.0 - 1000), zone);
                assert_eq!(just, Some(next), "{text:?} in {zone} before {next:?}");
            }
            at = next;
        }
    }
    // Blanks around it and the letters' case change nothing.
    let other = format!("  {}\t", text.to_ascii_uppercase());
    assert_eq!(Schedule::parse(&other).as_ref(), Ok(&schedule), "{other:?}");
}
