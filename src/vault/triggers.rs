//! The triggers that keep finished snapshots read-only, for every statement of every SQLite tool.

use super::schema::{columns, key_columns, version_table};
use crate::model::Resource;

/// The error message of every trigger that protects a finished snapshot.
pub const READ_ONLY_SNAPSHOT: &str = "a finished snapshot is read-only";

/// A trigger that rolls the transaction back when `condition` holds.
fn refuse(event: &str, table: &str, condition: &str) -> String {
    format!(
        "CREATE TRIGGER {table}_{} BEFORE {event} ON {table} WHEN\n  {condition}\nBEGIN SELECT \
         RAISE(ROLLBACK, '{READ_ONLY_SNAPSHOT}'); END;\n",
        event.to_lowercase()
    )
}

/// Triggers that refuse every statement that changes a finished snapshot's own rows, save that
/// it can be marked as forgotten. A snapshot is finished once it has a digest.
pub(super) fn of_snapshots() -> String {
    let others = [
        "status",
        "started",
        "touched",
        "finished",
        "tag",
        "scope",
        "requests",
        "throttled",
        "waited",
        "digest",
        "chain",
    ];
    let finished = |row: &str| {
        format!(
            "EXISTS(SELECT 1 FROM snapshot WHERE snapshot = {row}.snapshot AND digest IS NOT NULL)"
        )
    };
    [
        refuse(
            "INSERT",
            "snapshot",
            "NEW.finished IS NOT NULL OR NEW.digest IS NOT NULL OR NEW.forgotten IS NOT NULL
  OR NEW.snapshot <= (SELECT max(snapshot) FROM snapshot)",
        ),
        refuse(
            "UPDATE",
            "snapshot",
            &format!(
                "NEW.snapshot IS NOT OLD.snapshot OR (OLD.digest IS NOT NULL AND (
    (OLD.forgotten IS NOT NULL AND NEW.forgotten IS NOT OLD.forgotten)
    OR {}))",
                differ(&others)
            ),
        ),
        refuse("DELETE", "snapshot", "OLD.digest IS NOT NULL"),
        refuse("INSERT", "snapshot_resource", &finished("NEW")),
        refuse(
            "UPDATE",
            "snapshot_resource",
            &format!("{} OR {}", finished("OLD"), finished("NEW")),
        ),
        refuse("DELETE", "snapshot_resource", &finished("OLD")),
        refuse(
            "INSERT",
            "shape",
            "EXISTS(SELECT 1 FROM shape WHERE shape = NEW.shape OR template = NEW.template)",
        ),
        refuse("UPDATE", "shape", "1"),
        refuse("DELETE", "shape", "OLD.shape NOT IN (SELECT shape FROM unused_template)"),
    ]
    .concat()
}

/// Triggers that refuse every statement on a resource's versions that changes what a finished
/// snapshot shows. A forgotten snapshot shows nothing, so `forget` needs no exception.
pub(super) fn of_versions(resource: Resource) -> String {
    let table = version_table(resource);
    let keys: Vec<_> = key_columns(resource).collect();
    let same_key: Vec<_> = keys.iter().map(|key| format!("\"{key}\" = NEW.\"{key}\"")).collect();
    let contents: Vec<_> =
        ["shape"].into_iter().chain(columns(resource).map(|field| field.name)).collect();
    // While a version is open, `extra` may hold room for its end.
    let extra = "nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2))";
    [
        // The third and fourth condition are about `INSERT OR REPLACE`.
        refuse(
            "INSERT",
            &table,
            &format!(
                "NEW.until IS NOT NULL\n  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= \
                 NEW.since AND digest IS NOT NULL)\n  OR EXISTS(SELECT 1 FROM {table} WHERE \
                 version = NEW.version)\n  OR EXISTS(SELECT 1 FROM {table} WHERE {} AND until IS \
                 NULL AND since < NEW.since)",
                same_key.join(" AND ")
            ),
        ),
        refuse(
            "UPDATE",
            &table,
            &format!(
                "NEW.version IS NOT OLD.version OR {}\n  OR (({} OR {extra})\n    AND ({}\n    \
                 OR {}))\n  OR {}\n  OR {}",
                differ(&keys),
                differ(&contents),
                within("OLD"),
                within("NEW"),
                between("OLD.since", "NEW.since"),
                between(&end("OLD"), &end("NEW")),
            ),
        ),
        refuse("DELETE", &table, &within("OLD")),
    ]
    .concat()
}

/// Triggers that refuse every statement that changes what a finished snapshot shows of a series:
/// each value stands from its snapshot to the next value.
pub(super) fn of_series(table: &str) -> String {
    let shown = |row: &str| {
        format!(
            "EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= {row}.snapshot AND digest IS NOT NULL)"
        )
    };
    [
        refuse("INSERT", table, &shown("NEW")),
        refuse("UPDATE", table, &format!("{} OR {}", shown("OLD"), shown("NEW"))),
        refuse("DELETE", table, &shown("OLD")),
    ]
    .concat()
}

/// Triggers that refuse every statement that changes what a finished snapshot shows of sent values,
/// save for the values that `sent_correction` lists.
pub(super) fn of_sent() -> String {
    let corrected = |row: &str| {
        format!(
            "EXISTS(SELECT 1 FROM sent_correction c WHERE c.resource = {row}.resource
    AND c.key = {row}.key AND c.field = {row}.field)"
        )
    };
    let contents = ["resource", "key", "field", "value", "sent"];
    [
        refuse(
            "INSERT",
            "sent",
            &format!(
                "EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT \
                 NULL)\n  AND NOT {}",
                corrected("NEW")
            ),
        ),
        refuse(
            "UPDATE",
            "sent",
            &format!(
                "((({}) AND ({}\n    OR {}))\n  OR {}\n  OR {})\n  AND NOT ({} AND {})",
                differ(&contents),
                within("OLD"),
                within("NEW"),
                between("OLD.since", "NEW.since"),
                between(&end("OLD"), &end("NEW")),
                corrected("OLD"),
                corrected("NEW"),
            ),
        ),
        refuse("DELETE", "sent", &format!("{} AND NOT {}", within("OLD"), corrected("OLD"))),
    ]
    .concat()
}

/// The end of a version.
fn end(row: &str) -> String {
    format!("coalesce({row}.until, {})", i64::MAX)
}

/// Whether a snapshot that can be read is in a span.
fn shown(from: &str, to: &str) -> String {
    format!(
        "EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= {from} AND snapshot < {to}
    AND digest IS NOT NULL AND forgotten IS NULL)"
    )
}

/// Whether a snapshot that can be read shows the version.
fn within(row: &str) -> String {
    shown(&format!("{row}.since"), &end(row))
}

/// Whether a snapshot that can be read is between two ends.
fn between(one: &str, other: &str) -> String {
    let span = shown(&format!("min({one}, {other})"), &format!("max({one}, {other})"));
    format!("({one} <> {other} AND {span})")
}

/// The condition that any of `columns` changes.
fn differ(columns: &[&str]) -> String {
    let changes = columns.iter().map(|name| format!("NEW.\"{name}\" IS NOT OLD.\"{name}\""));
    changes.collect::<Vec<_>>().join(" OR ")
}
