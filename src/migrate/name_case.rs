//! Names of the source that differ in case only. The API document does not say whether a service
//! takes both; services that were seen refuse the second.

use std::collections::BTreeMap;

use crate::change::desired::DesiredState;
use crate::model::Resource;
use crate::model::equality::fold_case;
use crate::model::natural_key::value_text;

/// The records of one resource whose names differ in case only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameGroup {
    pub resource: Resource,
    /// Id in the source and name of each, at least two.
    pub records: Vec<(i64, String)>,
}

impl NameGroup {
    /// A warning that names all of them.
    pub fn warning(&self) -> String {
        let Self { resource, records } = self;
        let names: Vec<_> = records.iter().map(|(id, name)| format!("{id} `{name}`")).collect();
        let names = names.join(" and ");
        format!("{resource} {names} differ in case only; a service may refuse all but one")
    }

    /// What to add to the reason why the record `id` was not migrated.
    pub fn others(&self, id: &str) -> Option<String> {
        let is_other = |(own, _): &&(i64, String)| own.to_string() != id;
        let others: Vec<_> = self.records.iter().filter(is_other).collect();
        if others.len() == self.records.len() {
            return None;
        }
        let others = others.iter().map(|(id, name)| format!("{id} `{name}`"));
        let others = others.collect::<Vec<_>>().join(" and ");
        Some(format!("differs in case only from {others}"))
    }
}

/// The campaigns and channels whose names differ in case only.
pub(super) fn groups(desired: &DesiredState) -> Vec<NameGroup> {
    let mut groups = Vec::new();
    for resource in [Resource::Campaigns, Resource::Channels] {
        let mut names: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        let rows = desired.resources.get(&resource).into_iter().flat_map(|it| &it.records);
        for (id, name) in rows.filter_map(|row| Some((row.id?, row.value(resource, "name")?))) {
            let name = value_text(name).into_owned();
            let same = names.entry(fold_case(&name)).or_default();
            if !name.is_empty() && same.iter().all(|(_, other)| *other != name) {
                same.push((id, name));
            }
        }
        let several = names.into_values().filter(|it| it.len() > 1);
        groups.extend(several.map(|records| NameGroup { resource, records }));
    }
    groups
}
