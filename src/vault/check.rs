//! `check`: recomputes all checksums and digests of a vault.
//!
//! One pass over all versions computes the checksums of every snapshot: each version is added where
//! it begins and subtracted where it ends.
//!
//! Not covered: the progress of a running crawl, learned page sizes, and templates that no record
//! uses. None of them is shown as content.

use std::collections::{BTreeMap, BTreeSet};

use super::digest::{self, DigestSum};
use super::schema::{differences, version_table};
use super::snapshot::{Snapshot, SnapshotStatus, chain, digest};
use crate::model::{Resource, SnapshotId};
use crate::vault::checksums::{self, ChecksumScope};
use crate::vault::version_rows::StoredVersion;
use crate::vault::version_rows::{stored_hash, stored_key};
use crate::vault::{TransactionError, Vault, VaultError, read, template};

/// The result of [`Vault::check`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of readable snapshots.
    pub snapshots: u64,
    /// Number of versions of records.
    pub versions: u64,
    /// The problems found, at most 100, for people. Empty if the vault is intact.
    pub problems: Vec<String>,
}

/// Maximum number of problems in a report.
const MAX_PROBLEMS: usize = 100;

impl CheckReport {
    fn problem(&mut self, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(what.into());
        }
    }
}

/// The changes of checksum and number of records at each snapshot.
type Changes = BTreeMap<SnapshotId, (DigestSum, i64)>;

impl Vault {
    /// Recomputes all checksums and digests, and compares all redundant data.
    ///
    /// # Errors
    /// If the file cannot be read at all. Damage is in the [`CheckReport`].
    pub fn check(&mut self) -> Result<CheckReport, VaultError> {
        // A concurrent backup must not look like damage.
        self.db.execute_batch("BEGIN").map_err(|source| self.sql(source))?;
        let report = self.check_all();
        self.db.execute_batch("COMMIT").map_err(|source| self.sql(source))?;
        Ok(report)
    }

    fn check_all(&mut self) -> CheckReport {
        let mut report = CheckReport::default();
        // The file may have changed since the templates were read.
        self.templates.clear();
        self.check_file(&mut report);
        self.check_checksums(&mut report);
        let all = match self.all_snapshots() {
            Ok(all) => all,
            Err(error) => {
                report.problem(error.to_string());
                Vec::new()
            }
        };
        let mut sums = BTreeMap::new();
        for resource in Resource::ALL {
            let mut changes = Changes::new();
            let forgotten = merged_snapshots(&all);
            if let Err(failure) =
                self.check_versions(resource, &forgotten, &mut changes, &mut report)
            {
                report.problem(format!("{resource}: {}", failure.at(&self.path)));
            }
            if let Err(failure) = self.check_series(resource, &mut changes) {
                report.problem(format!("{resource}: {}", failure.at(&self.path)));
            }
            sums.insert(resource, changes);
        }
        if let Err(failure) = self.check_snapshots(&all, &sums, &mut report) {
            report.problem(failure.at(&self.path).to_string());
        }
        report
    }

    /// Runs SQLite's own check, and compares tables and views with those of this program.
    fn check_file(&self, report: &mut CheckReport) {
        let sound = || -> rusqlite::Result<Vec<String>> {
            let mut check = self.db.prepare("PRAGMA integrity_check(20)")?;
            check.query_map([], |row| row.get(0))?.collect()
        };
        match sound() {
            Ok(lines) if lines == ["ok"] => {}
            Ok(lines) => lines.into_iter().for_each(|line| report.problem(line)),
            Err(source) => report.problem(source.to_string()),
        }
        match differences(&self.db) {
            Ok(found) => found.into_iter().for_each(|it| report.problem(it.text)),
            Err(source) => report.problem(source.to_string()),
        }
    }

    fn check_checksums(&self, report: &mut CheckReport) {
        for scope in ChecksumScope::ALL {
            let stored = checksums::read(&self.db, scope);
            let found = scope.recompute(&self.db);
            match stored.and_then(|stored| found.map(|found| stored == found)) {
                Ok(true) => {}
                Ok(false) => report.problem(scope.message()),
                Err(failure) => report.problem(describe(failure)),
            }
        }
    }

    /// Adds up the versions of one resource. None may begin or end at a snapshot in `forgotten`.
    fn check_versions(
        &mut self,
        resource: Resource,
        forgotten: &BTreeSet<SnapshotId>,
        changes: &mut Changes,
        report: &mut CheckReport,
    ) -> Result<(), TransactionError> {
        let Self { db, templates, .. } = self;
        let table = version_table(resource);
        let mut all =
            db.prepare(&format!("SELECT {} FROM {table} v", StoredVersion::select(resource)))?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            report.versions += 1;
            let stored = StoredVersion::read(resource, row).and_then(|mut stored| {
                let hash = stored_hash(db, templates, resource, &mut stored)?;
                Ok((stored, hash))
            });
            let (stored, hash) = match stored {
                Ok(found) => found,
                Err(failure) => {
                    report.problem(format!("{resource}: {}", describe(failure)));
                    continue;
                }
            };
            let begin = changes.entry(stored.since).or_default();
            begin.0.add(hash);
            begin.1 += 1;
            if let Some(until) = stored.until {
                let end = changes.entry(until).or_default();
                end.0.sub(hash);
                end.1 -= 1;
                if until <= stored.since {
                    report.problem(format!("{}: ends before it begins", name(resource, &stored)));
                }
            }
            if [Some(stored.since), stored.until]
                .iter()
                .flatten()
                .any(|end| forgotten.contains(end))
            {
                let name = name(resource, &stored);
                report.problem(format!("{name}: begins or ends at a forgotten snapshot"));
            }
            let template = templates.template(db, stored.template_id)?;
            if let Err(failure) = columns_agree(resource, &stored, template) {
                report.problem(format!("{}: {}", name(resource, &stored), describe(failure)));
            }
        }
        Ok(())
    }

    fn check_series(
        &self,
        resource: Resource,
        changes: &mut Changes,
    ) -> Result<(), TransactionError> {
        if resource.spec().counter().is_none() {
            return Ok(());
        }
        self.add_series(
            &format!("SELECT id, snapshot, value FROM sample_{resource} ORDER BY id, snapshot"),
            |id, snapshot, row| Ok(digest::sample(resource, id, snapshot, row.get(2)?)),
            changes,
        )?;
        self.add_series(
            &format!(
                "SELECT id, snapshot, scans, body FROM statistics_{resource} ORDER BY id, snapshot"
            ),
            |id, snapshot, row| {
                let body = row.get_ref(3)?.as_str()?;
                Ok(digest::statistics(id, snapshot, row.get(2)?, body))
            },
            changes,
        )
    }

    /// Adds up one series: each value is valid until the next.
    fn add_series(
        &self,
        sql: &str,
        hash: impl Fn(i64, SnapshotId, &rusqlite::Row<'_>) -> rusqlite::Result<blake3::Hash>,
        changes: &mut Changes,
    ) -> Result<(), TransactionError> {
        let mut all = self.db.prepare(sql)?;
        let mut rows = all.query([])?;
        let mut before: Option<(i64, blake3::Hash)> = None;
        while let Some(row) = rows.next()? {
            let (id, snapshot): (i64, SnapshotId) = (row.get(0)?, row.get(1)?);
            let hash = hash(id, snapshot, row)?;
            let change = &mut changes.entry(snapshot).or_default().0;
            change.add(hash);
            if let Some((_, old)) = before.filter(|(known, _)| *known == id) {
                change.sub(old);
            }
            before = Some((id, hash));
        }
        Ok(())
    }

    fn check_snapshots(
        &self,
        all: &[Snapshot],
        sums: &BTreeMap<Resource, Changes>,
        report: &mut CheckReport,
    ) -> Result<(), TransactionError> {
        let mut found: BTreeMap<Resource, (DigestSum, i64)> = BTreeMap::new();
        let mut last = SnapshotId::default();
        let newest = all.last().map(|snapshot| snapshot.number);
        for snapshot in all {
            let number = snapshot.number;
            if number < SnapshotId::FIRST {
                report.problem(format!("there cannot be a snapshot #{number}"));
                continue;
            }
            if number != last.next() {
                report.problem(format!("the snapshots between #{last} and #{number} are missing"));
            }
            let stored = self.stored_sums(number)?;
            for (resource, changes) in sums {
                let all = found.entry(*resource).or_default();
                for (_, (sum, count)) in changes.range(last.next()..=number) {
                    all.0.plus(*sum);
                    all.1 += count;
                }
                // Of the forgotten snapshots, only the newest still has all its versions.
                let intact = snapshot.forgotten.is_none() || Some(number) == newest;
                if intact && stored.get(resource) != Some(all) {
                    report.problem(format!(
                        "snapshot #{number}: {resource} do not match their digest"
                    ));
                }
            }
            last = number;
            if snapshot.finished.is_some() {
                report.snapshots += u64::from(snapshot.forgotten.is_none());
                self.check_seal(number, report)?;
            }
            let touched = snapshot.finished.unwrap_or(snapshot.touched);
            if (snapshot.status == SnapshotStatus::Running) != snapshot.finished.is_none()
                || snapshot.touched != touched
            {
                report.problem(format!("snapshot #{number}: its times are inconsistent"));
            }
        }
        let orphaned: bool = self.db.query_row(
            "SELECT count(*) FROM snapshot_resource
             WHERE snapshot NOT IN (SELECT snapshot FROM snapshot)",
            [],
            |row| row.get(0),
        )?;
        let beyond = sums.values().any(|changes| changes.keys().next_back() > Some(&last));
        let before =
            sums.values().any(|changes| changes.range(..SnapshotId::FIRST).next().is_some());
        if beyond || before || orphaned {
            report.problem("some records belong to snapshots that do not exist");
        }
        Ok(())
    }

    fn check_seal(
        &self,
        number: SnapshotId,
        report: &mut CheckReport,
    ) -> Result<(), TransactionError> {
        let (sealed, chained): (Vec<u8>, Vec<u8>) = self.db.query_row(
            "SELECT coalesce(digest, x''), coalesce(chain, x'') FROM snapshot WHERE snapshot = ?1",
            [number],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let digest = digest(&self.db, number)?;
        if digest.as_bytes().as_slice() != sealed {
            report.problem(format!("snapshot #{number}: its digest does not match"));
        }
        if chain(&self.db, number, &digest)?.as_bytes().as_slice() != chained {
            report.problem(format!("snapshot #{number}: the chain of digests is broken"));
        }
        Ok(())
    }

    fn stored_sums(
        &self,
        number: SnapshotId,
    ) -> Result<BTreeMap<Resource, (DigestSum, i64)>, TransactionError> {
        let mut find = self.db.prepare_cached(
            "SELECT resource, sum, records FROM snapshot_resource WHERE snapshot = ?1",
        )?;
        let mut rows = find.query([number])?;
        let mut sums = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            if let Some(resource) = Resource::from_name(&name) {
                sums.insert(resource, (DigestSum::from_bytes(row.get(1)?), row.get(2)?));
            }
        }
        Ok(sums)
    }
}

/// The forgotten snapshots before the newest readable one. No span begins or ends there.
fn merged_snapshots(all: &[Snapshot]) -> BTreeSet<SnapshotId> {
    let readable = |it: &&Snapshot| it.finished.is_some() && it.forgotten.is_none();
    let newest = all.iter().rfind(readable).map(|snapshot| snapshot.number);
    let forgotten = all.iter().filter(|it| it.forgotten.is_some() && Some(it.number) < newest);
    forgotten.map(|snapshot| snapshot.number).collect()
}

/// Returns an error if the columns, which the views show, differ from the record's text.
fn columns_agree(
    resource: Resource,
    stored: &StoredVersion,
    template: &str,
) -> Result<(), TransactionError> {
    let mut zeroed = stored.values.clone();
    if let Some(place) = super::schema::counter_place(resource) {
        zeroed[place] = crate::model::FieldValue::Int(0);
    }
    let raw = template::unpack(template, &zeroed, stored.extra.as_deref())?;
    let decoded = read::decode(resource, stored, &raw)?;
    let counter = super::schema::counter_place(resource);
    let agree = decoded.record.values.iter().zip(&stored.values).enumerate().all(
        |(place, (decoded_value, column))| {
            use crate::model::FieldValue;
            let decoded_value = if matches!(decoded_value, FieldValue::Json(_)) {
                &FieldValue::Null
            } else {
                decoded_value
            };
            Some(place) == counter || decoded_value == column
        },
    );
    if agree {
        Ok(())
    } else {
        Err(TransactionError::Damaged("a column differs from its text".into()))
    }
}

fn name(resource: Resource, stored: &StoredVersion) -> String {
    format!("{resource} {}", stored_key(resource, stored))
}

fn describe(failure: TransactionError) -> String {
    match failure {
        TransactionError::Sql(source) => source.to_string(),
        TransactionError::Damaged(what) => what,
        TransactionError::NoSnapshot(number) => format!("there is no snapshot #{number}"),
        TransactionError::Finished(number) => format!("snapshot #{number} is finished"),
    }
}
