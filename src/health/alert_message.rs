//! An alert as a message: a JSON document for programs, a sentence for people, and the signature of
//! a webhook.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value as Json, json};
use sha2::Sha256;

use crate::escaped::Escaped;
use crate::health::attempt::{Alert, AlertEvent};

/// The HTTP header with the [`signature`].
pub const SIGNATURE: &str = "x-linkvault-signature";

/// The alert in one or two sentences: the account, the problem, since when, and a hint. The
/// document contains it as `text`, for chat services.
#[must_use]
pub fn sentence(account: &str, alert: &Alert) -> String {
    let Alert { message, since, at, .. } = alert;
    let text = match alert.event {
        AlertEvent::Begun => {
            let hint = alert.hint.as_ref().map_or(String::new(), |hint| format!(". {hint}"));
            format!("linkvault: {account}: {message} (since {}){hint}", since.iso())
        }
        AlertEvent::Test => format!("linkvault: {account}: {message}"),
        AlertEvent::Ended => {
            let minutes = at.since(*since).as_secs().div_ceil(60);
            let (hours, minutes) = (minutes / 60, minutes % 60);
            let time = if hours == 0 {
                format!("{minutes} min")
            } else {
                format!("{hours} h {minutes} min")
            };
            format!("linkvault: {account}: {message}; resolved after {time}")
        }
    };
    Escaped(text).to_string()
}

/// The name of the alert's problem; `test` for a test.
#[must_use]
pub fn problem(alert: &Alert) -> &'static str {
    match alert.event {
        AlertEvent::Test => "test",
        AlertEvent::Begun | AlertEvent::Ended => alert.kind.name(),
    }
}

/// The JSON document: the body of a webhook, and the standard input of an alert command.
#[must_use]
pub fn document(account: &str, alert: &Alert) -> Json {
    json!({
        "format": 1,
        "account": account,
        "event": alert.event.name(),
        "problem": problem(alert),
        "since": alert.since.iso(),
        "at": alert.at.iso(),
        "message": alert.message,
        "hint": alert.hint,
        "text": sentence(account, alert),
    })
}

/// The value of the header [`SIGNATURE`]: `sha256=` and the HMAC-SHA256 of the body in hexadecimal.
/// The body contains its time, so that a receiver can reject a replayed one.
#[must_use]
pub fn signature(secret: &[u8], body: &[u8]) -> String {
    // Never fails: HMAC accepts a secret of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(body);
    let hex: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use crate::clock::Timestamp;
    use crate::health::alert_message::*;
    use crate::health::attempt::ProblemKind;

    fn alert(event: AlertEvent) -> Alert {
        Alert {
            kind: ProblemKind::Failed,
            event,
            since: Timestamp(1_000_000),
            at: Timestamp(1_000_000 + 7_500_000),
            message: "the backup failed: \u{1b}[31mred\n".to_owned(),
            hint: Some("`linkvault doctor main` shows why".to_owned()),
        }
    }

    #[test]
    fn a_sentence_has_account_problem_time_and_hint() {
        let text = sentence("main", &alert(AlertEvent::Begun));
        assert!(text.starts_with("linkvault: main: the backup failed: "), "{text}");
        assert!(text.contains("(since 1970-01-01T00:16:40Z). `linkvault doctor main`"), "{text}");
        assert!(!text.contains(['\u{1b}', '\n']), "{text:?}");
        let text = sentence("main", &alert(AlertEvent::Ended));
        assert!(text.ends_with("; resolved after 2 h 5 min"), "{text}");
    }

    #[test]
    fn the_document_has_stable_names() {
        let document = document("main", &alert(AlertEvent::Begun));
        assert_eq!(document["event"], "begun");
        assert_eq!(document["problem"], "failed");
        assert_eq!(document["since"], "1970-01-01T00:16:40Z");
        for kind in ProblemKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    /// Test case 2 of RFC 4231.
    #[test]
    fn the_signature_matches_the_rfc() {
        let signed = signature(b"Jefe", b"what do ya want for nothing?");
        let hex = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signed, format!("sha256={hex}"));
    }
}
