//! The SQL that stores a page, generated once for each resource: generating it takes longer than
//! storing a page of a hundred records.

use std::sync::LazyLock;

use super::schema::{columns, key_columns, version_table};
use crate::model::Resource;
use crate::vault::version_rows::StoredVersion;

/// Number of rows of a multi-row insert, which amortizes the cost of a statement.
pub(super) const INSERT_ROWS: usize = 16;

/// The statements on a resource's versions.
#[derive(Debug)]
pub(super) struct Statements {
    /// The open version of one record, by its key.
    pub find: String,
    /// The open versions of a range of ids, in order.
    pub scan: String,
    pub insert: String,
    /// Inserts [`INSERT_ROWS`] versions with the same template and `extra` (parameters 2 and 3).
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
    pub scan: String,
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
            scan: format!(
                "SELECT {select} FROM {table} v
                 WHERE v.\"{key}\" BETWEEN ?1 AND ?2 AND v.until IS NULL ORDER BY v.\"{key}\""
            ),
            insert: insert(&into, 3, columns.len(), 1),
            insert_alike: insert(&into, 3, columns.len(), INSERT_ROWS),
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
            scan: format!(
                "SELECT id, snapshot, value FROM {table} WHERE id BETWEEN ?1 AND ?2
                 ORDER BY id, snapshot"
            ),
            store: format!(
                "INSERT INTO {table} VALUES(?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET value = excluded.value"
            ),
            begin: insert(&format!("{table}(snapshot, id, value)"), 1, 2, INSERT_ROWS),
        }
    }
}

/// SQL that inserts `rows` rows. The first `shared` parameters are the first values of every row;
/// `each` values of its own follow. `OR FAIL` avoids a statement journal: a failure rolls back the
/// whole transaction anyway.
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
