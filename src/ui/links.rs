//! The URLs of all pages. A name is encoded, so that it stays within its segment of the path.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::{RecordKey, Resource, RunId, SnapshotId};

/// Characters that are encoded: all but the unreserved ones.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn encoded(text: &str) -> String {
    match text {
        // A browser would resolve dot segments.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        text => utf8_percent_encode(text, PLAIN).to_string(),
    }
}

/// Page of an account.
#[must_use]
pub fn account(name: &str) -> String {
    format!("/accounts/{}", encoded(name))
}

/// Page of a run.
#[must_use]
pub fn run(name: &str, number: RunId) -> String {
    format!("{}/runs/{number}", account(name))
}

/// Page of a snapshot.
#[must_use]
pub fn snapshot(name: &str, number: SnapshotId) -> String {
    format!("{}/snapshots/{number}", account(name))
}

/// List of an account's snapshots.
#[must_use]
pub fn snapshots(name: &str) -> String {
    format!("{}/snapshots", account(name))
}

/// List of an account's runs.
#[must_use]
pub fn runs(name: &str) -> String {
    format!("{}/runs", account(name))
}

/// Comparison of two snapshots of an account.
#[must_use]
pub fn compare(name: &str) -> String {
    format!("{}/compare", account(name))
}

/// List of a resource's records.
#[must_use]
pub fn records(name: &str, resource: Resource) -> String {
    format!("{}/records/{resource}", account(name))
}

/// Page of a record.
#[must_use]
pub fn record(name: &str, resource: Resource, key: &RecordKey) -> String {
    let key = match key {
        RecordKey::Id(id) => id.to_string(),
        RecordKey::Item { channel, kind, id } => format!("{channel}/{}/{id}", encoded(kind)),
    };
    format!("{}/{key}", records(name, resource))
}

/// `path` with a query of these names and values. Empty values are omitted.
#[must_use]
pub fn with(path: &str, values: &[(&str, &str)]) -> String {
    let pairs: Vec<_> = values
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use crate::ui::links::*;

    #[test]
    fn a_hostile_name_stays_in_its_path_segment() {
        assert_eq!(account("a/../b?c#d\""), "/accounts/a%2F..%2Fb%3Fc%23d%22");
        assert_eq!(account(".."), "/accounts/%2E%2E");
        let item = RecordKey::Item { channel: 7, kind: "..".into(), id: 3 };
        let found = record("main", Resource::ChannelItems, &item);
        assert_eq!(found, "/accounts/main/records/channel_items/7/%2E%2E/3");
    }

    #[test]
    fn query_values_are_encoded_and_empty_ones_omitted() {
        assert_eq!(with("/x", &[("q", "a&b=c d"), ("page", "")]), "/x?q=a%26b%3Dc%20d");
        assert_eq!(with("/x", &[("q", "")]), "/x");
    }
}
