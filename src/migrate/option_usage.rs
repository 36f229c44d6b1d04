//! Whether each option had an effect. One that did nothing is most likely
//! a mistake, and is told.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::migrate::options::{MigrateOptions, OptionFields};
use crate::model::{RecordKey, Resource, State};

/// What options were good for so far.
#[derive(Debug, Default)]
pub(super) struct OptionUsage {
    /// The substitutions that replaced something.
    pub set: HashSet<usize>,
    /// The old short links whose new id was needed.
    pub links: HashSet<i64>,
    /// Of each filter, how many records it saw, and how many it let through.
    wheres: BTreeMap<usize, (u64, u64)>,
}

impl OptionUsage {
    /// Whether all filters let a record through.
    pub fn admit(
        &mut self,
        options: &MigrateOptions,
        resource: Resource,
        key: &RecordKey,
        fields: &OptionFields,
    ) -> bool {
        let mut all = true;
        for (nth, filter) in options.wheres.iter().enumerate() {
            if filter.resource != resource {
                continue;
            }
            let admits = filter.admits(resource, key, fields);
            let (seen, through) = self.wheres.entry(nth).or_default();
            *seen += 1;
            *through += u64::from(admits);
            all &= admits;
        }
        all
    }

    /// What came to nothing, or may not be meant so, in sentences.
    pub fn warnings(&self, options: &MigrateOptions, source: &State) -> Vec<String> {
        let set = options.set.iter().enumerate().filter(|(nth, _)| !self.set.contains(nth));
        let mut doubts: Vec<_> =
            set.map(|(_, set)| format!("--set {set} replaces nothing")).collect();
        for (nth, filter) in options.wheres.iter().enumerate() {
            let resource = filter.resource;
            match self.wheres.get(&nth) {
                None => doubts.push(format!("--where {filter}: no {resource} are looked at")),
                Some((seen, 0)) => {
                    doubts.push(format!("--where {filter} matches none of {seen} {resource}"));
                }
                Some(_) => {}
            }
        }
        doubts.extend(self.links(options));
        doubts.extend(codes(options, source));
        doubts
    }

    fn links(&self, options: &MigrateOptions) -> Vec<String> {
        if options.links.is_empty() {
            return Vec::new();
        }
        if self.links.is_empty() {
            return vec!["--links names no short link that is to be moved".to_owned()];
        }
        let mut olds: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (old, new) in options.links.iter().filter(|(old, _)| self.links.contains(old)) {
            olds.entry(*new).or_default().push(*old);
        }
        let several = olds.into_iter().filter(|(_, olds)| olds.len() > 1);
        let told = several.map(|(new, olds)| {
            format!("--links makes one link, {new}, of {}", listed(olds.into_iter()))
        });
        told.collect()
    }
}

/// What is told of codes that are not there.
fn codes(options: &MigrateOptions, source: &State) -> Option<String> {
    if options.codes.is_empty() {
        return None;
    }
    if !options.which.contains(&Resource::QrCodes) {
        return Some("--qr-data is of no use where qr_codes are left out".to_owned());
    }
    let there = source.get(Resource::QrCodes);
    let is_there = |id: &i64| there.is_some_and(|all| all.contains_key(&RecordKey::Id(*id)));
    let lost: BTreeSet<_> = options.codes.keys().copied().filter(|id| !is_there(id)).collect();
    (!lost.is_empty())
        .then(|| format!("--qr-data tells of QR codes that are not there: {}", listed(lost)))
}

fn listed(ids: impl IntoIterator<Item = i64>) -> String {
    const SHOWN: usize = 5;
    let all: Vec<_> = ids.into_iter().map(|id| id.to_string()).collect();
    let mut text = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if all.len() > SHOWN {
        text += &format!(" and {} more", all.len() - SHOWN);
    }
    text
}
