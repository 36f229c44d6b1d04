//! Two accounts for a migration: creates common records before it, and checks after it that
//! everything that can be migrated is in both, by code independent of the planner.

use std::collections::{BTreeMap, BTreeSet};

use linkvault::change::plan::AccountMemory;
use linkvault::migrate::MigrateOptions;
use linkvault::model::equality::loosened;
use linkvault::model::{RecordKey, Resource};
use linkvault::sandbox::Store;
use linkvault::sandbox::store::{Domain, Item, Pixel, QrCode, StoredChannel};

use crate::sim::account_view::fold;

/// Creates records in the target with some of the source's names, with other values and other ids.
pub fn overlap(source: &Store, target: &mut Store, rng: &mut fastrand::Rng) {
    let mut some = rng.fork();
    let loud = |rng: &mut fastrand::Rng, name: &str| {
        let loud = name.to_uppercase();
        if rng.bool() && fold(&loud) == fold(name) { loud } else { name.to_owned() }
    };
    for (_, row) in source.campaigns.iter().filter(|_| some.u8(..3) == 0) {
        let name = loud(rng, &row.name);
        if !target.campaigns.has_name(&name, None, false) {
            let slug = rng.bool().then(|| row.slug.clone()).flatten();
            target.add_campaign(&name, slug.as_deref(), rng.bool());
        }
    }
    for (_, row) in source.channels.iter().filter(|_| some.u8(..3) == 0) {
        let name = loud(rng, &row.name);
        if !target.channels.has_name(&name, None, false) {
            let color = format!("#{:06x}", rng.u32(..0x0100_0000));
            target.channels.add(StoredChannel { name, color, ..StoredChannel::default() });
        }
    }
    let domains: Vec<_> =
        target.domains.iter().map(|(_, row)| host(&row.domain).to_owned()).collect();
    for (_, row) in source.domains.iter().filter(|_| some.u8(..3) == 0) {
        if !domains.contains(&host(&row.domain).to_owned()) {
            target.domains.add(Domain { domain: row.domain.clone(), ..Domain::default() });
        }
    }
    let pixels: Vec<_> = target.pixels.iter().map(|(_, row)| row.tag.clone()).collect();
    for (_, row) in source.pixels.iter().filter(|_| some.u8(..3) == 0) {
        if !pixels.contains(&row.tag) {
            target.pixels.add(Pixel { name: "theirs".to_owned(), ..row.clone() });
        }
    }
}

/// Gives records of the source names that differ only in case.
pub fn add_case_duplicates(store: &mut Store, rng: &mut fastrand::Rng) {
    let mut some = rng.fork();
    let twin =
        |name: &str| Some(name.to_uppercase()).filter(|it| it != name && fold(it) == fold(name));
    let campaigns: Vec<_> = store.campaigns.iter().filter_map(|(_, row)| twin(&row.name)).collect();
    for name in campaigns.into_iter().filter(|_| some.u8(..12) == 0) {
        store.add_campaign(&name, None, rng.bool());
    }
    let channels: Vec<_> = store.channels.iter().filter_map(|(_, row)| twin(&row.name)).collect();
    for name in channels.into_iter().filter(|_| some.u8(..12) == 0) {
        store.channels.add(StoredChannel { name, ..StoredChannel::default() });
    }
}

/// The host, by which a service identifies a domain.
fn host(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, host)| host)
}

/// Number of occurrences of each name, ignoring case.
pub fn names<'s>(all: impl Iterator<Item = &'s str>) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for name in all {
        *found.entry(fold(name)).or_default() += 1;
    }
    found
}

/// A migrated account, its target, and what is known of both.
pub struct MigrationCheck<'a> {
    pub old: &'a Store,
    pub new: &'a Store,
    /// The target before the first migration.
    pub at_first: &'a Store,
    pub options: &'a MigrateOptions,
    /// The sent values in the source's vault.
    pub known: &'a AccountMemory,
    /// The target stores texts in another form.
    pub folds: bool,
}

impl MigrationCheck<'_> {
    /// Asserts that everything that can be migrated is there once, and nothing was deleted.
    #[track_caller]
    pub fn check(&self) {
        let (old, new) = (self.old, self.new);
        let twice = names(old.campaigns.iter().map(|(_, row)| row.name.as_str()));
        for (id, row) in old.campaigns.iter() {
            let named =
                new.campaigns.iter().filter(|(_, it)| self.fold(&it.name) == self.fold(&row.name));
            let named: Vec<_> = named.collect();
            assert_eq!(named.len(), twice[&fold(&row.name)], "campaign {id} {:?}", row.name);
            if twice[&fold(&row.name)] > 1 {
                continue;
            }
            let there = named[0].1;
            assert_eq!(there.public, row.public, "campaign {id}");
            if row.slug.is_some() {
                assert_eq!(there.slug, row.slug, "campaign {id}");
            }
        }
        for (id, row) in old.domains.iter() {
            let named = new.domains.iter().filter(|(_, it)| host(&it.domain) == host(&row.domain));
            let named: Vec<_> = named.collect();
            assert_eq!(named.len(), 1, "domain {id} {:?}", row.domain);
            let there = named[0].1;
            assert_eq!(self.text(&there.redirectroot), self.text(&row.redirectroot), "domain {id}");
            assert_eq!(self.text(&there.redirect404), self.text(&row.redirect404), "domain {id}");
        }
        for (id, row) in old.pixels.iter() {
            let same =
                |it: &Pixel| it.kind == row.kind && self.text(&it.tag) == self.text(&row.tag);
            let there = new.pixels.iter().filter(|(_, it)| same(it)).count();
            assert_eq!(there, 1, "pixel {id}");
        }
        self.codes();
        self.channels();
        self.assert_none_removed();
    }

    /// A text of the source as the target may store it.
    fn text(&self, text: &str) -> String {
        if self.folds { loosened(text) } else { text.to_owned() }
    }

    fn fold(&self, name: &str) -> String {
        if self.folds { loosened(name) } else { fold(name) }
    }

    fn codes(&self) {
        let (old, new) = (self.old, self.new);
        for (id, row) in old.qr_codes.iter() {
            let Some((kind, data)) = self.migrated_form(id, row) else { continue };
            let holds = |it: &QrCode| it.content.kind == kind && it.content.data == data;
            let there = new.qr_codes.iter().filter(|(_, it)| holds(it)).count();
            assert!(there >= 1, "code {id} {data:?}");
        }
    }

    /// The code as it is migrated; `None` if it is not.
    fn migrated_form(
        &self,
        id: u64,
        row: &QrCode,
    ) -> Option<(Option<String>, Option<serde_json::Value>)> {
        let key = RecordKey::Id(id.cast_signed());
        if self.known.sent.contains_key(&(Resource::QrCodes, key)) {
            return Some((row.content.kind.clone(), row.content.data.clone()));
        }
        let link = (Some("link".to_owned()), Some(row.link.clone().into()));
        (self.options.link_codes && !row.link.is_empty()).then_some(link)
    }

    fn channels(&self) {
        let (old, new) = (self.old, self.new);
        let twice = names(old.channels.iter().map(|(_, row)| row.name.as_str()));
        for (id, row) in old.channels.iter() {
            let named =
                new.channels.iter().filter(|(_, it)| self.fold(&it.name) == self.fold(&row.name));
            let named: Vec<_> = named.collect();
            assert_eq!(named.len(), twice[&fold(&row.name)], "channel {id} {:?}", row.name);
            if twice[&fold(&row.name)] > 1 {
                continue;
            }
            let there = named[0].1;
            assert_eq!(self.text(&there.description), self.text(&row.description), "channel {id}");
            assert_eq!(there.color.to_lowercase(), row.color.to_lowercase(), "channel {id}");
            assert_eq!(there.starred, row.starred, "channel {id}");
            for item in &row.items {
                let at = format!("channel {id}: {}/{}", item.kind, item.id);
                let count = |items: &[Item], is: &dyn Fn(&Item) -> bool| {
                    items.iter().filter(|it| is(it)).count()
                };
                match item.kind.as_str() {
                    "links" => {
                        if let Some(link) = self.options.links.get(&item.id.cast_signed()) {
                            let is =
                                |it: &Item| it.kind == "links" && it.id == link.cast_unsigned();
                            assert_eq!(count(&there.items, &is), 1, "{at}");
                        }
                    }
                    "qr" => {
                        let code = old.qr_codes.get(item.id).unwrap();
                        let Some((kind, data)) = self.migrated_form(item.id, code) else {
                            continue;
                        };
                        let is = |it: &Item| {
                            let code = new.qr_codes.get(it.id).filter(|_| it.kind == "qr");
                            code.is_some_and(|code| {
                                code.content.kind == kind && code.content.data == data
                            })
                        };
                        // No list shows whether a code that was already in the target's channel has
                        // the same content.
                        let own = self.at_first.channels.get(named[0].0);
                        let own = own.map_or(0, |it| count(&it.items, &is));
                        let found = count(&there.items, &is);
                        assert!((1..=1 + own).contains(&found), "{at}: {found}");
                    }
                    _ => {}
                }
            }
        }
    }

    /// Asserts that the target's records still exist.
    fn assert_none_removed(&self) {
        let all = |store: &Store| {
            let ids = [
                store.campaigns.iter().map(|(id, _)| id).collect::<Vec<_>>(),
                store.channels.iter().map(|(id, _)| id).collect(),
                store.domains.iter().map(|(id, _)| id).collect(),
                store.qr_codes.iter().map(|(id, _)| id).collect(),
                store.pixels.iter().map(|(id, _)| id).collect(),
            ];
            let each = ids.into_iter().enumerate();
            each.flat_map(|(kind, ids)| ids.into_iter().map(move |id| (kind, id)))
                .collect::<BTreeSet<_>>()
        };
        let gone: Vec<_> = all(self.at_first).difference(&all(self.new)).copied().collect();
        assert_eq!(gone, [], "of the target's own");
    }
}
