//! The SQL that stores a page, as text. It is made once for each resource: a
//! page of a hundred records takes less time than making it does.

use std::sync::LazyLock;

use super::schema::{columns, key_columns, version_table};
use crate::model::Resource;
use crate::vault::version_rows::StoredVersion;

/// The most rows that one statement inserts: a statement has its own cost.
pub(super) const MANY: usize = 16;

/// The statements on a resource's versions.
#[derive(Debug)]
pub(super) struct Statements {
    /// The open version of one record, by its key.
    pub find: String,
    /// The open versions of a span of ids, in their order.
    pub walk: String,
    pub insert: String,
    /// [`MANY`] versions of one shape that need nothing extra: parameters 2 and 3.
    pub insert_alike: String,
    pub overwrite: String,
    pub close: String,
    pub delete: String,
    pub series: Option<SeriesStatements>,
}

/// The statements on a counter's series.
#[derive(Debug)]
pub(super) struct SeriesStatements {
    pub newest: String,
    pub walk: String,
    pub store: String,
    pub begin: String,
}

impl Statements {
    pub fn of(resource: Resource) -> &'static Self {
        static ALL: LazyLock<Vec<Statements>> =
            LazyLock::new(|| Resource::ALL.into_iter().map(Statements::new).collect());
        &ALL[resource as usize]
    }

    fn new(resource: Resource) -> Self {
        let table = version_table(resource);
        let columns: Vec<_> =
            columns(resource).map(|field| format!("\"{}\"", field.name)).collect();
        let keys: Vec<_> = key_columns(resource)
            .enumerate()
            .map(|(nth, name)| format!("v.\"{name}\" = ?{}", nth + 1))
            .collect();
        let sets: Vec<_> = columns.iter().map(|column| format!("{column} = ?")).collect();
        let select = StoredVersion::select(resource);
        let key = key_columns(resource).next().unwrap_or("id");
        let into = format!("{table}(since, shape, extra, {})", columns.join(", "));
        Self {
            find: format!(
                "SELECT {select} FROM {table} v WHERE {} AND v.until IS NULL",
                keys.join(" AND ")
            ),
            walk: format!(
                "SELECT {select} FROM {table} v
                 WHERE v.\"{key}\" BETWEEN ?1 AND ?2 AND v.until IS NULL ORDER BY v.\"{key}\""
            ),
            insert: insert(&into, 3, columns.len(), 1),
            insert_alike: insert(&into, 3, columns.len(), MANY),
            overwrite: format!(
                "UPDATE {table} SET since = ?1, shape = ?, extra = ?, {} WHERE version = ?",
                sets.join(", ")
            ),
            close: format!(
                "UPDATE {table} SET until = ?2, extra = nullif(extra, ?3) WHERE version = ?1"
            ),
            delete: format!("DELETE FROM {table} WHERE version = ?1"),
            series: resource.spec().counter().map(|_| SeriesStatements::new(resource)),
        }
    }
}

impl SeriesStatements {
    fn new(resource: Resource) -> Self {
        let table = format!("sample_{resource}");
        Self {
            newest: format!(
                "SELECT snapshot, value FROM {table} WHERE id = ?1 ORDER BY snapshot DESC LIMIT 1"
            ),
            walk: format!(
                "SELECT id, snapshot, value FROM {table} WHERE id BETWEEN ?1 AND ?2
                 ORDER BY id, snapshot"
            ),
            store: format!(
                "INSERT INTO {table} VALUES(?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET value = excluded.value"
            ),
            begin: insert(&format!("{table}(snapshot, id, value)"), 1, 2, MANY),
        }
    }
}

/// The statement that inserts `rows` rows. Its first `shared` parameters stand
/// first in every row; `each` of its own follow. A failure undoes the whole transaction, so
/// that the statement need not keep what it would take to undo itself.
fn insert(into: &str, shared: usize, each: usize, rows: usize) -> String {
    let shared: Vec<_> = (1..=shared).map(|nth| format!("?{nth}")).collect();
    let row = format!("({}{})", shared.join(", "), ", ?".repeat(each));
    format!("INSERT OR FAIL INTO {into} VALUES{}", vec![row; rows].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_its_own_statements() {
        for resource in Resource::ALL {
            let table = version_table(resource);
            assert!(Statements::of(resource).delete.contains(&table), "{resource}");
        }
    }
}
