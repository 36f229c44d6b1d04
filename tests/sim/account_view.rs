//! An account without ids, as its owner sees it, so that two can be compared.

use std::collections::{BTreeMap, BTreeSet};

use linkvault::change::plan::AccountMemory;
use linkvault::model::SentValues;
use linkvault::model::equality::loosened;
use linkvault::model::{RecordKey, Resource, State};
use linkvault::sandbox::Store;
use linkvault::sandbox::store::{Campaign, Item, QrContentData, StoredChannel};
use serde_json::{Value, json};

/// Records by their natural key, each with its settable fields.
pub type View = BTreeMap<String, Vec<Value>>;

/// The view of `store`. Records keep the id that they have in each of `kept`; an id that is not in
/// all of them is left out. `folds`: the service stores texts in another form.
pub fn view(store: &Store, kept: &[&Store], folds: bool) -> View {
    let mut all = View::new();
    let name = |text: &str| if folds { loosened(text) } else { text.to_owned() };
    let fold = |text: &str| if folds { loosened(text) } else { fold(text) };
    let mut put = |resource, id, key: &str, mut fields: Value| {
        if kept.iter().all(|store| has(store, resource, id)) {
            fields["id"] = id.into();
        }
        all.entry(format!("{resource} {key}")).or_default().push(fields);
    };
    put(Resource::Account, store.account.id, "", json!({"email": store.account.email}));
    for (id, row) in store.domains.iter() {
        let fields = json!({"domain": name(&row.domain), "redirectroot": name(&row.redirectroot),
            "redirect404": name(&row.redirect404)});
        put(Resource::Domains, id, &fold(&row.domain), fields);
    }
    for (id, row) in store.campaigns.iter() {
        let fields = json!({"name": name(&row.name), "public": row.public, "slug": row.slug,
            "rotator": row.rotator, "members": row.members});
        put(Resource::Campaigns, id, &fold(&row.name), fields);
    }
    for (id, row) in store.channels.iter() {
        let mut items: Vec<_> = row.items.iter().map(|item| item_target(store, item)).collect();
        items.sort();
        let fields = json!({"name": name(&row.name), "description": name(&row.description),
            "color": row.color.to_lowercase(), "starred": row.starred, "items": items});
        put(Resource::Channels, id, &fold(&row.name), fields);
    }
    for (id, row) in store.qr_codes.iter() {
        let fields = json!({"background": row.content.background, "logo": row.content.logo,
            "foreground": row.content.foreground});
        put(Resource::QrCodes, id, &content(&row.content), fields);
    }
    for (id, row) in store.pixels.iter() {
        let key = format!("{} {}", row.kind, name(&row.tag));
        put(Resource::Pixels, id, &key, json!({"name": name(&row.name)}));
    }
    all
}

pub fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn content(content: &QrContentData) -> String {
    format!("{:?} {:?}", content.kind, content.data)
}

/// An item by its target, because a recreated code has another id.
fn item_target(store: &Store, item: &Item) -> String {
    match store.qr_codes.get(item.id).filter(|_| item.kind == "qr") {
        Some(code) => format!("qr {}", content(&code.content)),
        None => format!("{} {}", item.kind, item.id),
    }
}

pub fn has(store: &Store, resource: Resource, id: u64) -> bool {
    match resource {
        Resource::Account => true,
        Resource::Domains => store.domains.get(id).is_some(),
        Resource::Campaigns => store.campaigns.get(id).is_some(),
        Resource::Channels => store.channels.get(id).is_some(),
        Resource::QrCodes => store.qr_codes.get(id).is_some(),
        _ => store.pixels.get(id).is_some(),
    }
}

/// The differences of two accounts, in words; empty if they are equal.
pub fn differences(wanted: &View, found: &View) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let keys: BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    for key in keys {
        let (wanted, found) = (wanted.get(key), found.get(key));
        if wanted != found {
            let show = |it: Option<&Vec<Value>>| it.map_or(Value::Null, |it| json!(it)).to_string();
            writeln!(text, "{key}\n  wanted {}\n  found  {}", show(wanted), show(found)).unwrap();
        }
    }
    text
}

/// What cannot be restored in an account, given what is known of it.
pub struct Unrestorable {
    /// The codes whose type and data are known as sent values.
    pub codes: BTreeSet<u64>,
    /// The known content of codes in the state to restore, if it is a state.
    pub content: BTreeMap<u64, BTreeMap<String, Value>>,
    /// The campaign links that are known as sent values.
    pub links: BTreeMap<u64, BTreeSet<u64>>,
    /// Whether the items of channels were read before.
    pub items: bool,
    /// Whether the content of a code is known from the steps, even without sent values.
    pub restores_content: bool,
    /// Whether records that were created since are deleted.
    pub deletes: bool,
    /// Whether a resource without records in the desired state is left unchanged.
    pub spares: bool,
}

/// The sent values of codes and links.
pub fn unrestorable(memory: &AccountMemory) -> Unrestorable {
    let mut codes = BTreeSet::new();
    let mut links = BTreeMap::new();
    for ((resource, key), sent) in &memory.sent {
        let id = key.id().cast_unsigned();
        if *resource == Resource::QrCodes && sent.contains_key("type") && sent.contains_key("data")
        {
            codes.insert(id);
        }
        if let Some(all) = sent.get("links").and_then(|it| it.as_array()) {
            links.insert(id, all.iter().filter_map(Value::as_u64).collect());
        }
    }
    Unrestorable {
        codes,
        links,
        content: BTreeMap::new(),
        items: false,
        restores_content: false,
        deletes: false,
        spares: false,
    }
}

/// The id of a recreated record.
fn new_id(
    now: &Store,
    ids: &BTreeMap<(Resource, i64), i64>,
    resource: Resource,
    old: u64,
) -> Option<u64> {
    let mut id = old;
    for _ in 0..10 {
        id = ids.get(&(resource, id.cast_signed()))?.cast_unsigned();
        if has(now, resource, id) {
            return Some(id);
        }
    }
    None
}

/// What an older state knew, by the present ids of its records.
pub fn sent_values_then(
    first: &State,
    now: &Store,
    ids: &BTreeMap<(Resource, i64), i64>,
) -> SentValues {
    let sent = first.sent.iter().flatten().map(|((resource, key), fields)| {
        let id = key.id().cast_unsigned();
        let lost = !has(now, *resource, id);
        let id = lost.then(|| new_id(now, ids, *resource, id)).flatten().unwrap_or(id);
        ((*resource, RecordKey::Id(id.cast_signed())), fields.clone())
    });
    sent.collect()
}

/// The same account with the new ids of recreated records.
pub fn renumbered(store: &Store, now: &Store, ids: &BTreeMap<(Resource, i64), i64>) -> Store {
    let mut store = store.clone();
    let new = |resource, old| new_id(now, ids, resource, old);
    macro_rules! renumber {
        ($($table:ident $resource:ident),+) => {$(
            let all: Vec<_> = store.$table.iter().map(|(id, _)| id).collect();
            for old in all.into_iter().filter(|old| now.$table.get(*old).is_none()) {
                if let Some(id) = new(Resource::$resource, old) {
                    let row = store.$table.remove(old).unwrap();
                    store.$table.put(id, row);
                }
            }
        )+};
    }
    renumber!(domains Domains, campaigns Campaigns, channels Channels, qr_codes QrCodes);
    for (_, row) in store.channels.iter_mut() {
        for item in row.items.iter_mut().filter(|it| it.kind == "qr") {
            if now.qr_codes.get(item.id).is_none() {
                item.id = new(Resource::QrCodes, item.id).unwrap_or(item.id);
            }
        }
    }
    store
}

/// The same account in which deleted campaigns and channels have the ids of those that were created
/// since with their names; and these ids, new by old.
pub fn found_by_name(store: &Store, now: &Store) -> (Store, BTreeMap<(Resource, u64), u64>) {
    let (mut found, mut ids) = (store.clone(), BTreeMap::new());
    macro_rules! find {
        ($($table:ident $resource:ident),+) => {$(
            for (id, there) in now.$table.iter().filter(|(id, _)| store.$table.get(*id).is_none()) {
                let mut gone = store.$table.iter().filter(|(old, _)| now.$table.get(*old).is_none());
                let Some((old, _)) = gone.find(|(_, row)| fold(&row.name) == fold(&there.name))
                else {
                    continue;
                };
                let row = found.$table.remove(old).unwrap();
                found.$table.put(id, row);
                ids.insert((Resource::$resource, old), id);
            }
        )+};
    }
    find!(campaigns Campaigns, channels Channels);
    (found, ids)
}

/// The result of restoring `before` from `now`: everything except what the API cannot undo.
pub fn restored(before: &Store, now: &Store, lost: &Unrestorable) -> Store {
    let mut goal = before.clone();
    // Pixels are never deleted, and nothing is unassigned.
    for (id, row) in now.pixels.iter().filter(|(id, _)| before.pixels.get(*id).is_none()) {
        goal.pixels.put(id, row.clone());
    }
    for (id, row) in goal.campaigns.iter_mut() {
        match now.campaigns.get(id) {
            Some(there) => row.members.clone_from(&there.members),
            None => row.members = lost.links.get(&id).cloned().unwrap_or_default(),
        }
    }
    let gone: BTreeSet<_> = before
        .qr_codes
        .iter()
        .map(|(id, _)| id)
        .filter(|id| now.qr_codes.get(*id).is_none())
        .collect();
    for id in gone.iter().filter(|id| !lost.codes.contains(id)) {
        goal.remove_qr(*id);
    }
    if !lost.restores_content {
        for (id, row) in goal.qr_codes.iter_mut() {
            // An unknown value stays unchanged; that of a deleted code is lost.
            row.content = now.qr_codes.get(id).map(|it| it.content.clone()).unwrap_or_default();
            for (name, value) in lost.content.get(&id).into_iter().flatten() {
                let text = || value.as_str().map(str::to_owned);
                match name.as_str() {
                    "type" => row.content.kind = text(),
                    "data" => row.content.data = Some(value.clone()),
                    "background" => row.content.background = text(),
                    "foreground" => row.content.foreground = text(),
                    "logo" => row.content.logo = text(),
                    _ => {}
                }
            }
        }
    }
    for (id, row) in goal.channels.iter_mut() {
        match now.channels.get(id) {
            None if !lost.items => row.items.clear(),
            None => {}
            Some(there) => {
                row.items.retain(|it| lost.items || it.kind != "qr" || !gone.contains(&it.id));
                for item in &there.items {
                    if !row.items.iter().any(|it| it.kind == item.kind && it.id == item.id) {
                        row.items.push(item.clone());
                    }
                }
            }
        }
    }
    macro_rules! keep {
        ($($table:ident),+) => {$(
            let stays = !lost.deletes || (lost.spares && before.$table.is_empty());
            let new = now.$table.iter().filter(|(id, _)| before.$table.get(*id).is_none());
            for (id, row) in new.filter(|_| stays) {
                goal.$table.put(id, row.clone());
            }
        )+};
    }
    keep!(domains, campaigns, channels, qr_codes);
    if lost.deletes && !(lost.spares && before.qr_codes.is_empty()) {
        // A deleted code is removed from channels, also from those left unchanged.
        for (_, row) in goal.channels.iter_mut() {
            row.items.retain(|it| it.kind != "qr" || before.qr_codes.get(it.id).is_some());
        }
    }
    goal
}

/// The campaigns and channels of `now` that cannot get their names in `goal`: each would take a
/// name that another one can only give up later.
pub fn rename_cycles(goal: &Store, now: &Store) -> BTreeSet<(Resource, u64)> {
    let mut renames = BTreeMap::new();
    macro_rules! collect {
        ($($table:ident $resource:ident),+) => {$(
            for (id, row) in goal.$table.iter() {
                let Some(there) = now.$table.get(id) else { continue };
                let (old, new) = (fold(&there.name), fold(&row.name));
                if old != new {
                    renames.insert((Resource::$resource, id), (old, new));
                }
            }
        )+};
    }
    collect!(campaigns Campaigns, channels Channels);
    loop {
        let held: BTreeSet<_> =
            renames.iter().map(|((resource, _), (old, _))| (*resource, old.clone())).collect();
        let count = renames.len();
        renames.retain(|(resource, _), (_, new)| held.contains(&(*resource, new.clone())));
        if renames.len() == count {
            return renames.into_keys().collect();
        }
    }
}

/// Copies these records of `now` into `goal`, with their assignments.
pub fn keep_fields(goal: &mut Store, now: &Store, records: &BTreeSet<(Resource, u64)>) {
    for (resource, id) in records {
        if *resource == Resource::Campaigns {
            let row = goal.campaigns.get_mut(*id).unwrap();
            let members = std::mem::take(&mut row.members);
            *row = Campaign { members, ..now.campaigns.get(*id).unwrap().clone() };
        } else {
            let row = goal.channels.get_mut(*id).unwrap();
            let items = std::mem::take(&mut row.items);
            *row = StoredChannel { items, ..now.channels.get(*id).unwrap().clone() };
        }
    }
}
