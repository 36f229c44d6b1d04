//! A move between its map and its report: the plan for it, and what is left to
//! a person once the plan is known.

use std::collections::BTreeMap;

use crate::change::desired::DesiredState;
use crate::change::plan::request::ResolvedRef;
use crate::change::plan::{CurrentState, Plan, PlanProblems, PlanStep, plan};
use crate::change::policy::Policy;
use crate::migrate::{ManualTask, MappedRecords, MigrationReport};
use crate::model::{RecordKey, Resource, Verb};

/// What the records of the source are in the other account, by their old ids.
pub type IdMap = BTreeMap<(Resource, i64), i64>;

/// A move with its plan.
#[derive(Debug, Clone, Default)]
pub struct MigrationPlan {
    pub desired: DesiredState,
    /// What is left to a person.
    pub manual: Vec<ManualTask>,
    /// Records that are there, and whose content cannot be compared.
    unseen: Vec<ManualTask>,
    pub plan: Plan,
    /// What is there already.
    here: IdMap,
    /// What the old account calls that which a step is about.
    olds: BTreeMap<u32, String>,
    kept_back: BTreeMap<Resource, u64>,
    not_asked: Vec<Resource>,
}

impl MigrationPlan {
    /// Plans. `current` is the other account, with the ids that it is known to
    /// have for those of the source.
    ///
    /// # Errors
    /// When rows leave open what is meant.
    pub fn plan(
        mapped: MappedRecords,
        current: CurrentState<'_>,
        policy: &Policy,
    ) -> Result<Self, PlanProblems> {
        let MappedRecords { desired, mut manual, kept_back, not_asked, old_links, .. } = mapped;
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
        // A record that moved before, and of which this move does not know what it holds.
        let unseen = manual.iter().filter(|it| it.left && is_done(it, &here)).cloned().collect();
        manual.retain(|it| !is_done(it, &here));
        let olds = Olds::new(&plan, &here, &old_links);
        let olds = plan.steps.iter().filter_map(|it| Some((it.step, olds.of(it)?))).collect();
        Ok(Self { desired, manual, unseen, plan, here, olds, kept_back, not_asked })
    }

    /// What comes of it if every step is done.
    #[must_use]
    pub fn foreseen(&self) -> MigrationReport {
        let all = self.plan.steps.iter().map(|it| (it.step, None));
        self.report(&all.collect(), IdMap::new())
    }

    /// What came of it. `steps` tells of the plan's steps, by their numbers, why
    /// each was not done, or nothing of one that was; a step that it does not have
    /// was not begun. `made` are the ids that a run gave.
    #[must_use]
    pub fn report(&self, steps: &BTreeMap<u32, Option<String>>, made: IdMap) -> MigrationReport {
        let not_begun = |it: &PlanStep| match it.verb {
            Verb::Update => Some("it is there, and not the same yet".to_owned()),
            _ => Some("it is not there yet".to_owned()),
        };
        let undone = self.plan.steps.iter().filter_map(|it| {
            let why = steps.get(&it.step).cloned().unwrap_or_else(|| not_begun(it))?;
            Some((it.step, why))
        });
        let mut ids = self.here.clone();
        ids.extend(made);
        ids.extend(matched(&self.plan));
        let mut manual = self.manual.clone();
        manual.retain(|it| !is_done(it, &ids));
        let mut report =
            MigrationReport::new(&self.desired, &self.plan, manual, &undone.collect(), &ids);
        for it in &mut report.failed {
            it.id = self.olds.get(&it.step).cloned();
        }
        report.kept_back.clone_from(&self.kept_back);
        report.unseen.clone_from(&self.unseen);
        report.not_asked.clone_from(&self.not_asked);
        report
    }
}

/// Whether nothing is left to be done about a record that has moved.
fn is_done(manual: &ManualTask, ids: &IdMap) -> bool {
    let moved = |id| ids.contains_key(&(manual.resource, id));
    manual.once && manual.id.parse().is_ok_and(moved)
}

/// The key of an assignment, with the short link's old id.
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

/// What the old account calls what a plan is about.
struct Olds<'a> {
    made: BTreeMap<u32, i64>,
    here: BTreeMap<(Resource, i64), i64>,
    links: &'a BTreeMap<i64, i64>,
}

impl<'a> Olds<'a> {
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
