//! The triggers that keep finished snapshots read-only for every SQLite tool.

use super::columns::{columns, key_columns, version_table};
use crate::model::Resource;

/// The error message of every trigger that protects a finished snapshot.
pub const READ_ONLY_SNAPSHOT: &str = "a finished snapshot is read-only";

/// The SQL of a trigger that rolls the transaction back when `condition` holds.
fn refuse(event: &str, table: &str, condition: &str) -> String {
    format!(
        "CREATE TRIGGER {table}_{} BEFORE {event} ON {table} WHEN\n  {condition}\nBEGIN SELECT \
         RAISE(ROLLBACK, '{READ_ONLY_SNAPSHOT}'); END;\n",
        event.to_lowercase()
    )
}

/// Triggers against changes of a finished snapshot's own rows. Marking it as forgotten is allowed.
/// A snapshot is finished once it has a digest.
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

/// Triggers against changes of versions that a finished snapshot shows. A forgotten snapshot shows
/// no versions, so `forget` needs no exception.
pub(super) fn of_versions(resource: Resource) -> String {
    let table = version_table(resource);
    let keys: Vec<_> = key_columns(resource).collect();
    let same_key: Vec<_> = keys.iter().map(|key| format!("\"{key}\" = NEW.\"{key}\"")).collect();
    let contents: Vec<_> =
        ["shape"].into_iter().chain(columns(resource).map(|field| field.name)).collect();
    // An open version may have a placeholder for `until` in `extra`.
    let extra = "nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2))";
    [
        // The third and fourth condition cover `INSERT OR REPLACE`.
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

/// Triggers against changes of series values that a finished snapshot shows. A value is valid from
/// its snapshot to the next value.
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

/// Triggers against changes of sent values that a finished snapshot shows, except for those listed
/// in `sent_correction`.
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

/// SQL: the end of a version, or the largest number while it is open.
fn end(row: &str) -> String {
    format!("coalesce({row}.until, {})", i64::MAX)
}

/// SQL condition: a readable snapshot is in the span from `from` up to, but not including, `to`.
fn shown(from: &str, to: &str) -> String {
    format!(
        "EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= {from} AND snapshot < {to}
    AND digest IS NOT NULL AND forgotten IS NULL)"
    )
}

/// SQL condition: a readable snapshot shows the version.
fn within(row: &str) -> String {
    shown(&format!("{row}.since"), &end(row))
}

/// SQL condition: a readable snapshot is between two ends.
fn between(one: &str, other: &str) -> String {
    let span = shown(&format!("min({one}, {other})"), &format!("max({one}, {other})"));
    format!("({one} <> {other} AND {span})")
}

/// SQL condition: any of `columns` changes.
fn differ(columns: &[&str]) -> String {
    let changes = columns.iter().map(|name| format!("NEW.\"{name}\" IS NOT OLD.\"{name}\""));
    changes.collect::<Vec<_>>().join(" OR ")
}
