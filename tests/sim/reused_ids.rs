//! Reused ids: which records are deleted, and what a plan may do to records that have their ids
//! now.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use linkvault::api::http::Method;
use linkvault::apply::deleted_since;
use linkvault::change::plan::{Plan, PlanStep};
use linkvault::model::{Resource, SnapshotId, Verb};
use linkvault::sandbox::Store;
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::service::LogEntry;
use linkvault::vault::journal::{JournalStep, StepState};
use serde_json::json;

use super::world::World;
use crate::sim::account_view::{fold, has};
use crate::sim::unknown_outcomes::{create, options};

/// Another user deletes a campaign after the run has read the list, and the service gives its id to
/// the one that the run creates: every snapshot has the id.
#[test]
fn a_record_whose_id_a_create_got_counts_as_deleted() {
    let begin = || {
        let mut store = generate(5, GeneratedCounts::each(4));
        store.reuse_ids();
        let mut world = World::of(store, "");
        let number = world.backup().snapshot.number;
        world.requested_paths();
        (world, number)
    };
    let mut plan = Plan::default();
    create(&mut plan, Resource::Campaigns, json!({"name": "Ours"}));
    let mut quiet = begin().0;
    quiet.apply(&plan, &options()).unwrap();
    assert_eq!(deleted_since(&quiet.open(), SnapshotId(1)).unwrap(), BTreeSet::new());
    let at =
        1 + quiet.requested_paths().iter().position(|path| path.ends_with("/add")).unwrap() as u64;
    let (mut world, number) = begin();
    world.before_each_request(move |store, nth| {
        if nth == at {
            store.campaigns.remove(4);
        }
    });
    world.apply(&plan, &options()).unwrap();
    assert_eq!(world.service().store().campaigns.get(4).unwrap().name, "Ours");
    let deleted = deleted_since(&world.open(), number).unwrap();
    assert_eq!(deleted, BTreeSet::from([(Resource::Campaigns, 4)]));
}

/// Deleted records, even if other records have their ids by now.
#[derive(Debug, Default)]
pub struct DeletedRecords {
    records: BTreeSet<(Resource, u64)>,
    /// The present ids of recreated records.
    again: BTreeSet<(Resource, u64)>,
}

impl DeletedRecords {
    /// Records what a run deleted, by the requests that the service executed, and removes what the
    /// run recreated with the same id.
    pub fn record<'w>(
        &mut self,
        wrote: impl Iterator<Item = &'w LogEntry>,
        plan: &Plan,
        rows: &[JournalStep],
    ) {
        for entry in wrote.filter(|entry| entry.method == Method::Delete) {
            let mut parts = entry.path.split('/').skip(2);
            let resource = match parts.next() {
                Some("campaign") => Resource::Campaigns,
                Some("channel") => Resource::Channels,
                Some("domain") => Resource::Domains,
                Some("qr") => Resource::QrCodes,
                other => panic!("{other:?}"),
            };
            let record = (resource, parts.next().unwrap().parse().unwrap());
            self.records.insert(record);
            self.again.remove(&record);
        }
        for (step, row) in plan.steps.iter().zip(rows) {
            let Some((id, old)) = row.id.zip(step.replaces) else { continue };
            let record = (step.resource, id.cast_unsigned());
            self.again.insert(record);
            if id == old {
                self.records.remove(&record);
            }
        }
    }

    /// Whether a record of `then` is deleted and another one has its id `now`.
    pub fn has_reused_id(&self, then: &Store, now: &Store) -> bool {
        let is_reused =
            |&(resource, id): &(Resource, u64)| has(then, resource, id) && has(now, resource, id);
        self.records.iter().any(is_reused)
    }

    /// Asserts that a plan from `now` back to `then` changes no record into another one, and
    /// deletes none of `then`. By `ids`, recreated records stand for those of `then`, but not those
    /// that were created since, deleted, and recreated by an undo.
    #[track_caller]
    pub fn assert_spares_others(
        &self,
        plan: &Plan,
        then: &Store,
        now: &Store,
        ids: &BTreeMap<(Resource, i64), i64>,
    ) {
        for (step, id) in plan.steps.iter().filter_map(|step| Some((step, step.id?))) {
            let record = (step.resource, id.cast_unsigned());
            let next = |old: &i64| ids.get(&(step.resource, *old)).copied();
            let leads_here = |old: i64| successors(next(&old), next).take(64).any(|it| it == id);
            let stands = ids
                .keys()
                .filter(|(of, old)| *of == record.0 && has(then, *of, old.cast_unsigned()))
                .any(|(_, old)| leads_here(*old));
            let is_there = has(then, record.0, record.1) || stands;
            // The earlier record with this id may be deleted as well.
            let is_again = stands && self.again.contains(&record);
            let is_other = !is_again && (self.records.contains(&record) || !is_there);
            match step.verb {
                Verb::Update => {
                    let is_found =
                        name(now, record).is_some_and(|name| has_record_named(then, step, &name));
                    assert!(!is_other || is_found, "{step:?}");
                }
                Verb::Delete => assert!(is_other, "{step:?}"),
                _ => {}
            }
        }
    }
}

/// The natural key of a record, if lists show it.
fn name(store: &Store, (resource, id): (Resource, u64)) -> Option<String> {
    match resource {
        Resource::Domains => store.domains.get(id).map(|it| fold(&it.domain)),
        Resource::Campaigns => store.campaigns.get(id).map(|it| fold(&it.name)),
        Resource::Channels => store.channels.get(id).map(|it| fold(&it.name)),
        Resource::QrCodes => {
            let content = store.qr_codes.get(id).map(|it| &it.content);
            content.map(|it| format!("{:?} {:?}", it.kind, it.data))
        }
        _ => None,
    }
}

/// Whether `store` has a record with this name of the resource that `step` changes.
fn has_record_named(store: &Store, step: &PlanStep, called: &str) -> bool {
    let ids: Vec<_> = match step.resource {
        Resource::Domains => store.domains.iter().map(|(id, _)| id).collect(),
        Resource::Campaigns => store.campaigns.iter().map(|(id, _)| id).collect(),
        Resource::Channels => store.channels.iter().map(|(id, _)| id).collect(),
        _ => store.qr_codes.iter().map(|(id, _)| id).collect(),
    };
    ids.into_iter().any(|id| name(store, (step.resource, id)).as_deref() == Some(called))
}

/// The changes of a run, by record id.
pub struct RunChanges {
    created: BTreeSet<(Resource, i64)>,
    changed: BTreeSet<(Resource, i64)>,
    deleted: BTreeSet<(Resource, i64)>,
}

impl RunChanges {
    pub fn of(rows: &[JournalStep]) -> Self {
        let of = |verb: Verb| {
            let done = rows.iter().filter(|row| row.state == StepState::Done);
            let record = |row: &JournalStep| {
                let step: PlanStep = serde_json::from_str(&row.spec).unwrap();
                let id = row.id.or(step.id).filter(|_| step.verb == verb);
                id.map(|id| (step.resource, id))
            };
            done.filter_map(record).collect()
        };
        Self { created: of(Verb::Create), changed: of(Verb::Update), deleted: of(Verb::Delete) }
    }

    /// Whether the service gave the id of a record that the run deleted to one that it created.
    pub fn reused(&self) -> bool {
        !self.created.is_disjoint(&self.deleted)
    }

    /// Asserts that the undo plan changes what the run changed, deletes what it created, and
    /// touches no record with the id of a deleted one.
    #[track_caller]
    pub fn assert_reverted_by(&self, plan: &Plan, before: &Store) {
        for step in &plan.steps {
            let Some(record) = step.id.map(|id| (step.resource, id)) else { continue };
            match step.verb {
                Verb::Update => {
                    let is_own = self.changed.contains(&record) && !self.created.contains(&record);
                    assert!(is_own || step.resource == Resource::Account, "{step:?}");
                }
                Verb::Delete => {
                    let was_there = has(before, step.resource, record.1.cast_unsigned());
                    assert!(self.created.contains(&record) && !was_there, "{step:?}");
                }
                _ => {}
            }
        }
    }
}
