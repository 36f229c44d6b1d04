//! The plan of a migration, and its report before and after the run.

use std::collections::BTreeMap;

use crate::change::desired::DesiredState;
use crate::change::plan::request::ResolvedRef;
use crate::change::plan::{CurrentState, Plan, PlanProblems, PlanStep, plan};
use crate::change::policy::Policy;
use crate::migrate::{ManualTask, MappedRecords, MigrationReport, name_case};
use crate::model::{RecordKey, Resource, Verb};

/// Ids of records in the target, by resource and id in the source.
pub type IdMap = BTreeMap<(Resource, i64), i64>;

/// A migration with its plan.
#[derive(Debug, Clone, Default)]
pub struct MigrationPlan {
    /// The desired state of the target.
    pub desired: DesiredState,
    /// Tasks that the user must do by hand.
    pub manual: Vec<ManualTask>,
    /// Records that exist in the target and whose content cannot be compared.
    unseen: Vec<ManualTask>,
    /// The plan for the target.
    pub plan: Plan,
    /// Records that exist in the target already.
    here: IdMap,
    /// For each step number, the id in the source of the record that it is about.
    olds: BTreeMap<u32, String>,
    excluded: BTreeMap<Resource, u64>,
    not_asked: Vec<Resource>,
}

impl MigrationPlan {
    /// Makes the plan. `current` is the target, with the ids in it that are known for records of
    /// the source.
    ///
    /// # Errors
    /// [`PlanProblems`] when records are ambiguous.
    pub fn plan(
        mapped: MappedRecords,
        current: CurrentState<'_>,
        policy: &Policy,
    ) -> Result<Self, PlanProblems> {
        let MappedRecords { desired, mut manual, excluded, not_asked, old_links, .. } = mapped;
        let mut plan = plan(&desired, current, None, policy)?;
        for it in &mut plan.unsupported {
            it.key = with_old_link(it.resource, &it.key, &old_links);
        }
        let is_there = |resource, id| {
            current.state.get(resource).is_some_and(|live| live.contains_key(&RecordKey::Id(id)))
        };
        let known = current.memory.ids.iter().map(|(old, new)| (*old, *new));
        let mut here: IdMap =
            known.filter(|((resource, _), new)| is_there(*resource, *new)).collect();
        here.extend(matched(&plan));
        // Records that moved before and whose content this migration does not know.
        let unseen =
            manual.iter().filter(|it| it.not_moved && is_done(it, &here)).cloned().collect();
        manual.retain(|it| !is_done(it, &here));
        let olds = SourceIds::new(&plan, &here, &old_links);
        let olds = plan.steps.iter().filter_map(|it| Some((it.step, olds.of(it)?))).collect();
        Ok(Self { desired, manual, unseen, plan, here, olds, excluded, not_asked })
    }

    /// The report if every step succeeds.
    #[must_use]
    pub fn expected_report(&self) -> MigrationReport {
        let all = self.plan.steps.iter().map(|it| (it.step, None));
        self.report(&all.collect(), IdMap::new())
    }

    /// The report of a run. `steps` has the reason why a step was not done, by step number, and
    /// `None` for a step that was done. Missing steps were not started. `made` are the ids of
    /// created records.
    #[must_use]
    pub fn report(&self, steps: &BTreeMap<u32, Option<String>>, made: IdMap) -> MigrationReport {
        let not_started = |it: &PlanStep| match it.verb {
            Verb::Update => Some("the record exists and is not updated yet".to_owned()),
            _ => Some("the record is not created yet".to_owned()),
        };
        let undone = self.plan.steps.iter().filter_map(|it| {
            let why = steps.get(&it.step).cloned().unwrap_or_else(|| not_started(it))?;
            Some((it.step, why))
        });
        let mut ids = self.here.clone();
        ids.extend(made);
        ids.extend(matched(&self.plan));
        let mut manual = self.manual.clone();
        manual.retain(|it| !is_done(it, &ids));
        let mut report =
            MigrationReport::new(&self.desired, &self.plan, manual, &undone.collect(), &ids);
        let same_names = name_case::groups(&self.desired);
        for it in &mut report.failed {
            it.id = self.olds.get(&it.step).cloned();
            let id = it.id.as_deref().unwrap_or_default();
            let same = same_names.iter().filter(|same| same.resource == it.resource);
            if let Some(others) = same.filter_map(|same| same.others(id)).next() {
                it.reason = format!("{}; {others}", it.reason.trim_end_matches('.'));
            }
        }
        report.excluded.clone_from(&self.excluded);
        report.unseen.clone_from(&self.unseen);
        report.not_asked.clone_from(&self.not_asked);
        report
    }
}

/// Whether a task is done because its record has moved.
fn is_done(manual: &ManualTask, ids: &IdMap) -> bool {
    let moved = |id| ids.contains_key(&(manual.resource, id));
    manual.done_when_moved && manual.id.parse().is_ok_and(moved)
}

/// The key of an assignment, with the short link's id in the source.
fn with_old_link(resource: Resource, key: &str, old_links: &BTreeMap<i64, i64>) -> String {
    let mark = "/links/";
    let assigned = matches!(resource, Resource::Campaigns | Resource::ChannelItems);
    let Some((owner, link)) = key.rsplit_once(mark).filter(|_| assigned) else {
        return key.to_owned();
    };
    match link.parse().ok().and_then(|new: i64| old_links.get(&new)) {
        Some(old) => format!("{owner}{mark}{old}"),
        None => key.to_owned(),
    }
}

/// Looks up the ids in the source of what a plan is about.
struct SourceIds<'a> {
    made: BTreeMap<u32, i64>,
    here: BTreeMap<(Resource, i64), i64>,
    links: &'a BTreeMap<i64, i64>,
}

impl<'a> SourceIds<'a> {
    fn new(plan: &Plan, here: &IdMap, links: &'a BTreeMap<i64, i64>) -> Self {
        let made = plan.steps.iter().filter_map(|it| Some((it.step, it.replaces?))).collect();
        let here = here.iter().map(|((resource, old), new)| ((*resource, *new), *old)).collect();
        Self { made, here, links }
    }

    fn of(&self, step: &PlanStep) -> Option<String> {
        let (resource, after) = (step.resource, step.after.as_ref());
        let part = |name: &str| after?.get(name);
        let record = |resource, name| match ResolvedRef::from_json(part(name)?)? {
            ResolvedRef::Id(new) => self.here.get(&(resource, new)).copied(),
            ResolvedRef::Step(step) => self.made.get(&step).copied(),
        };
        let link = |name| self.links.get(&part(name)?.as_i64()?).copied();
        match (step.verb, resource) {
            (Verb::Create, _) => step.replaces.map(|old| old.to_string()),
            (Verb::Assign, Resource::Campaigns) => {
                Some(format!("{}/links/{}", record(resource, "campaign")?, link("link")?))
            }
            (Verb::Assign, _) => {
                let kind = part("type")?.as_str()?;
                let item = match kind {
                    "qr" => record(Resource::QrCodes, "id")?,
                    _ => link("id")?,
                };
                Some(format!("{}/{kind}/{item}", record(Resource::Channels, "channel")?))
            }
            _ => self.here.get(&(resource, step.id?)).map(ToString::to_string),
        }
    }
}

fn matched(plan: &Plan) -> impl Iterator<Item = ((Resource, i64), i64)> + '_ {
    let all = plan.foreign.iter().flat_map(|it| &it.matched);
    all.map(|it| ((it.resource, it.old), it.new))
}
