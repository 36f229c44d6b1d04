//! Recognises the reason of a refusal by its message. Services refuse with status 200 or 400 as
//! well as with 403 and 404, so the status alone is not enough. Pure.

/// Whether the message says that the account's subscription does not include the resource.
#[must_use]
pub fn mentions_subscription(message: &str) -> bool {
    const WORDS: &[&str] = &[
        "plan",
        "plans",
        "upgrade",
        "subscription",
        "subscribe",
        "package",
        "feature",
        "features",
        "membership",
        "premium",
    ];
    let message = message.to_lowercase();
    let mut words = message.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| WORDS.contains(&word)) && !mentions_page_size(&message)
}

/// Whether the message says that nothing exists at that address.
#[must_use]
pub fn mentions_absence(message: &str) -> bool {
    const PHRASES: &[&str] =
        &["not found", "does not exist", "doesn't exist", "no such", "nothing at this address"];
    contains_any(message, PHRASES)
}

/// Whether the message says that the service does not offer the resource. Not so if it is about the
/// page size or a temporary problem.
#[must_use]
pub fn says_not_offered(message: &str) -> bool {
    const PHRASES: &[&str] = &[
        "permission",
        "forbidden",
        "access denied",
        "not allowed",
        "not permitted",
        "unauthorized",
        "unauthorised",
        "not enabled",
        "not included",
        "not available",
        "disabled",
    ];
    const PASSING: &[&str] = &["try again", "tempor", "maintenance", "later", "moment"];
    let named = mentions_subscription(message)
        || mentions_absence(message)
        || contains_any(message, PHRASES);
    named && !mentions_page_size(message) && !contains_any(message, PASSING)
}

/// Whether the message is about the number of records per page.
fn mentions_page_size(message: &str) -> bool {
    contains_any(message, &["limit", "per page", "perpage", "per_page", "page size"])
}

fn contains_any(message: &str, phrases: &[&str]) -> bool {
    let message = message.to_lowercase();
    phrases.iter().any(|phrase| message.contains(phrase))
}

#[cfg(test)]
mod tests {
    use crate::api::refusal::*;

    #[test]
    fn a_subscription_is_recognized_and_a_page_size_is_not() {
        assert!(mentions_subscription("Your plan does not include this feature."));
        assert!(mentions_subscription("Please UPGRADE to use overlays"));
        assert!(!mentions_subscription("The limit cannot exceed 100 on your plan."));
        assert!(!mentions_subscription("No explanation"));
    }

    #[test]
    fn an_unavailable_resource_is_distinguished_from_a_failing_one() {
        for message in [
            "Your plan does not include this feature.",
            "You do not have permission to do this",
            "There is nothing at this address.",
            "Overlays are disabled",
            "This action is unauthorized.",
        ] {
            assert!(says_not_offered(message), "{message}");
        }
        for message in [
            "Something went wrong",
            "Overlays are temporarily disabled",
            "This feature is under maintenance",
            "The limit cannot exceed 50.",
            "You have reach the maximum limit for this feature.",
            "",
        ] {
            assert!(!says_not_offered(message), "{message}");
        }
    }
}
