//! Records whether each option had an effect. An option without effect is most likely a mistake and
//! causes a warning.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::change::record_filter::FilteredRecord;
use crate::migrate::options::{MigrateOptions, OptionFields};
use crate::model::{RecordKey, Resource, State};

/// The effects of the options so far.
#[derive(Debug, Default)]
pub(super) struct OptionUsage {
    /// Indices of the substitutions that replaced something.
    pub set: HashSet<usize>,
    /// Ids in the source of the short links whose new id was used.
    pub links: HashSet<i64>,
    /// For each filter, how many records it checked and how many it accepted.
    wheres: BTreeMap<usize, (u64, u64)>,
}

impl OptionUsage {
    /// Whether all filters accept a record.
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
            let admits =
                filter.admits(&FilteredRecord::of_fields(resource, Some(key.clone()), fields));
            let (seen, through) = self.wheres.entry(nth).or_default();
            *seen += 1;
            *through += u64::from(admits);
            all &= admits;
        }
        all
    }

    /// Warnings about options that had no effect or may be mistakes.
    pub fn warnings(&self, options: &MigrateOptions, source: &State) -> Vec<String> {
        let set = options.set.iter().enumerate().filter(|(nth, _)| !self.set.contains(nth));
        let mut warnings: Vec<_> =
            set.map(|(_, set)| format!("--set {set} replaces nothing")).collect();
        for (nth, filter) in options.wheres.iter().enumerate() {
            let resource = filter.resource;
            match self.wheres.get(&nth) {
                None => warnings
                    .push(format!("--where {filter} was not applied: no {resource} are moved")),
                Some((seen, 0)) => {
                    warnings.push(format!("--where {filter} matches none of {seen} {resource}"));
                }
                Some(_) => {}
            }
        }
        warnings.extend(self.links(options));
        warnings.extend(codes(options, source));
        warnings
    }

    fn links(&self, options: &MigrateOptions) -> Vec<String> {
        if options.links.is_empty() {
            return Vec::new();
        }
        if self.links.is_empty() {
            return vec!["--links contains no short link that is moved".to_owned()];
        }
        let mut olds: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (old, new) in options.links.iter().filter(|(old, _)| self.links.contains(old)) {
            olds.entry(*new).or_default().push(*old);
        }
        let several = olds.into_iter().filter(|(_, olds)| olds.len() > 1);
        let several = several.map(|(new, olds)| {
            format!("--links maps several links to {new}: {}", listed(olds.into_iter()))
        });
        several.collect()
    }
}

/// The warning about contents of QR codes that do not exist.
fn codes(options: &MigrateOptions, source: &State) -> Option<String> {
    if options.codes.is_empty() {
        return None;
    }
    if !options.which.contains(&Resource::QrCodes) {
        return Some("--qr-data has no effect: qr_codes are not moved".to_owned());
    }
    let existing = source.get(Resource::QrCodes);
    let exists = |id: &i64| existing.is_some_and(|all| all.contains_key(&RecordKey::Id(*id)));
    let missing: BTreeSet<_> = options.codes.keys().copied().filter(|id| !exists(id)).collect();
    (!missing.is_empty())
        .then(|| format!("--qr-data contains QR codes that do not exist: {}", listed(missing)))
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
