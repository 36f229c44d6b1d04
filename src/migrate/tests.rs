//! Tests of mapping, plan and report of a migration.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::change::plan::tests::state;
use crate::change::plan::{CurrentState, plan};
use crate::change::policy::Policy;
use crate::migrate::migration_plan::IdMap;

const FROM: MigrationSource<'_> = MigrationSource { id: "https://old.example#1", name: "old@#1" };

fn all() -> MigrateOptions {
    MigrateOptions { which: Resource::ALL.to_vec(), ..MigrateOptions::default() }
}

fn source() -> State {
    state(&[
        (Resource::Account, json!({"id": 1, "email": "a@x.example"})),
        (Resource::Domains, json!({"id": 1, "domain": "https://go.old.example"})),
        (Resource::Campaigns, json!({"id": 1, "name": "Spring", "rotator": "https://o/r/sp"})),
        (Resource::Campaigns, json!({"id": 2, "name": "Autumn"})),
        (Resource::Channels, json!({"id": 1, "name": "News"})),
        (Resource::Channels, json!({"id": 2, "name": "Attic"})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "links", "id": 7})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "links", "id": 8, "title": "t"})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "bio", "id": 7})),
        (Resource::ChannelItems, json!({"channel": 1, "type": "qr", "id": 3})),
        (Resource::ChannelItems, json!({"channel": 2, "type": "links", "id": 7})),
        (Resource::QrCodes, json!({"id": 3, "name": "Door", "link": "https://o/q/3"})),
        (Resource::QrCodes, json!({"id": 4, "name": "Gate", "link": "https://o/q/4"})),
        (Resource::Pixels, json!({"id": 5, "type": "bing", "name": "p", "tag": "t"})),
        (Resource::Pixels, json!({"id": 6, "type": "psychic", "name": "p", "tag": "t"})),
        (Resource::Overlays, json!({"id": 2, "type": "message", "name": "o"})),
        (Resource::SplashPages, json!({"id": 2, "name": "s"})),
    ])
}

/// The source's vault has the content of one code and the links of one campaign.
fn memory() -> AccountMemory {
    let mut memory = AccountMemory::default();
    let of = |all: &[(&str, Json)]| {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let code = of(&[("type", json!("vcard")), ("data", json!(["Ann", "Lee"]))]);
    memory.sent.insert((Resource::QrCodes, RecordKey::Id(3)), code);
    memory.sent.insert((Resource::Campaigns, RecordKey::Id(1)), of(&[("links", json!([7, 9]))]));
    memory
}

fn ids(mapped: &MappedRecords, resource: Resource) -> Vec<i64> {
    let wanted = mapped.desired.resources.get(&resource);
    wanted.into_iter().flat_map(|it| &it.records).filter_map(|row| row.id).collect()
}

fn by_hand(mapped: &MappedRecords) -> Vec<String> {
    let each = |it: &ManualTask| format!("{} {} {}", it.resource, it.id, it.not_moved);
    mapped.manual.iter().map(each).collect()
}

#[test]
fn records_that_cannot_move_are_manual_tasks() {
    let options = MigrateOptions { links: BTreeMap::from([(7, 70)]), ..all() };
    let mapped = map(&source(), &memory(), FROM, &options);
    assert_eq!(
        by_hand(&mapped),
        [
            "account  false",
            "domains 1 false",
            "campaigns  false",
            "campaigns  false",
            "campaigns 1/links/9 true",
            "channel_items 1/bio/7 true",
            "channel_items 1/links/8 true",
            "qr_codes  false",
            "qr_codes  false",
            "qr_codes  false",
            "qr_codes 4 true",
            "pixels 6 true",
            "overlays 2 true",
            "splash_pages 2 true",
        ]
    );
    assert_eq!(ids(&mapped, Resource::ChannelItems), [70, 3, 70]);
    assert_eq!(ids(&mapped, Resource::QrCodes), [3]);
    assert_eq!(ids(&mapped, Resource::Pixels), [5]);
    assert!(!mapped.desired.resources.contains_key(&Resource::Account));
    assert!(!mapped.desired.resources.contains_key(&Resource::Overlays));
    let links = &mapped.desired.campaign_links;
    assert_eq!(links.iter().map(|it| it.link).collect::<Vec<_>>(), [70]);
    let spring = &mapped.desired.resources[&Resource::Campaigns].records[0];
    assert_eq!(spring.value(Resource::Campaigns, "slug"), Some(&FieldValue::Text("sp".into())));
}

/// Its rotator contains no slug, and differs from the rotator seen after the slug was sent.
#[test]
fn a_slug_that_was_replaced_in_the_source_does_not_move() {
    let campaign = json!({"id": 1, "name": "Spring", "rotator": "https://o/?c=5"});
    let source = state(&[(Resource::Campaigns, campaign)]);
    let slug = |rotator: &str| {
        let sent = [("slug", json!("sp")), ("rotator", json!(rotator))];
        let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
        let sent = [((Resource::Campaigns, RecordKey::Id(1)), sent)].into();
        let memory = AccountMemory { sent, ..AccountMemory::default() };
        let mapped = map(&source, &memory, FROM, &all());
        let row = &mapped.desired.resources[&Resource::Campaigns].records[0];
        row.value(Resource::Campaigns, "slug").map(|it| it.cell().into_owned())
    };
    assert_eq!(slug("https://o/?c=5").as_deref(), Some("sp"));
    assert_eq!(slug("https://o/r/sp"), None);
}

#[test]
fn a_code_of_unknown_content_opens_its_old_link_or_gets_given_content() {
    let content = |mapped: &MappedRecords| {
        let code = mapped.desired.resources[&Resource::QrCodes].records.last().unwrap().clone();
        let cell = |name| code.value(Resource::QrCodes, name).unwrap().cell().into_owned();
        (code.id.unwrap(), cell("type"), cell("data"))
    };
    let options = MigrateOptions { link_codes: true, ..all() };
    let mapped = map(&source(), &memory(), FROM, &options);
    assert_eq!(content(&mapped), (4, "link".to_owned(), "https://o/q/4".to_owned()));
    assert!(mapped.manual.iter().any(|it| it.id == "4" && it.reason == manual::OLD_LINK));
    let place = |name| Resource::QrCodes.spec().field(name).unwrap().0;
    let told = OptionFields::from([
        (place("name"), FieldValue::Text("not from here".into())),
        (place("type"), FieldValue::Text("text".into())),
        (place("data"), FieldValue::Text("hi".into())),
    ]);
    let options = MigrateOptions { codes: BTreeMap::from([(4, told)]), ..options };
    let mapped = map(&source(), &memory(), FROM, &options);
    assert_eq!(content(&mapped), (4, "text".to_owned(), "hi".to_owned()));
    assert!(!mapped.manual.iter().any(|it| it.id == "4"));
    // An empty cell does not replace a known value.
    let empty =
        ["type", "data", "foreground"].map(|name| (place(name), FieldValue::Text("".into())));
    let codes = BTreeMap::from([(3, OptionFields::from(empty))]);
    let mapped = map(&source(), &memory(), FROM, &MigrateOptions { codes, ..all() });
    let data = content(&mapped).2;
    assert!(data.contains("Ann"), "{data}");
}

#[test]
fn items_and_links_of_an_excluded_record_are_excluded() {
    let wheres = ["channels.name~^News$", "campaigns.name~^Autumn$", "qr_codes.id~^4$"];
    let wheres = wheres.map(|it| it.parse().unwrap()).into();
    let options =
        MigrateOptions { links: BTreeMap::from([(7, 70)]), wheres, link_codes: true, ..all() };
    let mapped = map(&source(), &memory(), FROM, &options);
    assert_eq!(ids(&mapped, Resource::Channels), [1]);
    assert_eq!(ids(&mapped, Resource::ChannelItems), [70]);
    assert_eq!(ids(&mapped, Resource::Campaigns), [2]);
    assert!(mapped.desired.campaign_links.is_empty());
    let kept: Vec<_> = mapped.excluded.iter().map(|(it, count)| (it.name(), *count)).collect();
    let expected = [("campaigns", 1), ("channels", 1), ("channel_items", 2), ("qr_codes", 1)];
    assert_eq!(kept, expected);
    let told = by_hand(&mapped);
    assert!(!told.iter().any(|it| it.starts_with("campaigns 1")), "{told:?}");
    // A filter can use the channel of an item.
    let wheres = vec!["channel_items.channel~^2$".parse().unwrap()];
    let mapped = map(&source(), &memory(), FROM, &MigrateOptions { wheres, ..options.clone() });
    assert_eq!(ids(&mapped, Resource::ChannelItems), [70]);
    // Filters also apply to channels and codes that are not moved.
    let options = MigrateOptions { which: vec![Resource::ChannelItems], ..options };
    let mapped = map(&source(), &memory(), FROM, &options);
    assert_eq!(ids(&mapped, Resource::ChannelItems), [70]);
    assert_eq!(mapped.desired.resources.len(), 1);
    assert_eq!((mapped.excluded.len(), mapped.not_asked.len()), (1, 8));
}

#[test]
fn options_without_effect_cause_warnings() {
    let set = ["domains.domain:https://go.old=https://go.new", "campaigns.name:Winter=Summer"];
    let options = MigrateOptions { set: set.map(|it| it.parse().unwrap()).into(), ..all() };
    let mapped = map(&source(), &memory(), FROM, &options);
    let domain = &mapped.desired.resources[&Resource::Domains].records[0];
    let url = domain.value(Resource::Domains, "domain").unwrap().cell();
    assert_eq!(url, "https://go.new.example");
    assert_eq!(mapped.warnings, [format!("--set {} replaces nothing", set[1])]);

    let wheres = ["campaigns.name~^Winter", "pixels.tag~^t$", "qr_codes.name~Door"];
    let options = MigrateOptions {
        which: vec![Resource::Campaigns, Resource::Pixels],
        wheres: wheres.map(|it| it.parse().unwrap()).into(),
        links: BTreeMap::from([(70, 7)]),
        codes: BTreeMap::from([(3, OptionFields::new())]),
        ..MigrateOptions::default()
    };
    let mut part = source();
    part.resource_mut(Resource::QrCodes).clear();
    assert_eq!(
        map(&part, &memory(), FROM, &options).warnings,
        [
            "--where campaigns.name~^Winter matches none of 2 campaigns",
            "--where qr_codes.name~Door was not applied: no qr_codes are moved",
            "--links contains no short link that is moved",
            "--qr-data has no effect: qr_codes are not moved",
        ]
    );
    let codes = [4, 5, 6].map(|id| (id, OptionFields::new())).into();
    let options =
        MigrateOptions { links: BTreeMap::from([(7, 70), (8, 70), (9, 9)]), codes, ..all() };
    assert_eq!(
        map(&source(), &memory(), FROM, &options).warnings,
        [
            "--links maps several links to 70: 7, 8",
            "--qr-data contains QR codes that do not exist: 5, 6",
        ]
    );
}

#[test]
fn the_report_counts_results_and_escapes_markdown() {
    let mapped = map(&source(), &memory(), FROM, &all());
    let live = state(&[
        (Resource::Domains, json!({"id": 9, "domain": "https://go.old.example"})),
        (Resource::Campaigns, json!({"id": 9, "name": "SPRING", "rotator": "https://n/r/sp"})),
        (Resource::Channels, json!({"id": 99, "name": "none"})),
        (Resource::ChannelItems, json!({"channel": 99, "type": "links", "id": 1})),
        (Resource::QrCodes, json!({"id": 99, "name": "none"})),
        (Resource::Pixels, json!({"id": 99, "type": "bing", "name": "p", "tag": "other"})),
    ]);
    let memory = AccountMemory::default();
    let current = CurrentState { state: &live, memory: &memory };
    let plan = plan(&mapped.desired, current, None, &Policy::default()).unwrap();
    let autumn = plan.steps.iter().find(|step| step.key == "Autumn").unwrap().step;
    let undone = BTreeMap::from([(autumn, "a | limit".to_owned())]);
    let ids = BTreeMap::from([((Resource::Campaigns, 1), 9)]);
    let report = MigrationReport::new(&mapped.desired, &plan, mapped.manual.clone(), &undone, &ids);
    let of = |name: &str| {
        let it = report.counts[name];
        [it.created, it.matched, it.unchanged, it.unsupported, it.failed]
    };
    assert_eq!(of("domains"), [0, 0, 1, 0, 0]);
    assert_eq!(of("campaigns"), [0, 1, 0, 0, 1]);
    assert_eq!(of("channels"), [2, 0, 0, 0, 0]);
    // The code of the item is made by this plan; its links are not in the map.
    assert_eq!(of("channel_items"), [1, 0, 0, 4, 0]);
    assert_eq!(of("campaign_links"), [0, 0, 0, 2, 0]);
    assert_eq!(of("qr_codes"), [1, 0, 0, 1, 0]);
    assert_eq!(of("pixels"), [1, 0, 0, 1, 0]);
    assert_eq!(of("overlays"), [0, 0, 0, 1, 0]);
    let mut text = String::new();
    report.markdown(&mut text).unwrap();
    assert!(text.contains("- campaigns: 1 updated, 1 not done"), "{text}");
    assert!(text.contains("- campaigns Autumn: a \\| limit"), "{text}");
    assert!(!text.contains("Excluded"), "{text}");
    assert!(text.contains("- 1 → 9 Spring\n"), "{text}");
    assert!(text.contains("  - 4 Gate\n"), "{text}");
}

/// The counts of a resource.
fn counted(report: &MigrationReport, name: &str) -> [u64; 5] {
    let it = report.counts.get(name).copied().unwrap_or_default();
    [it.created, it.matched, it.unchanged, it.unsupported, it.failed]
}

/// The migration of `source` to an account with `live`; `ids` moved before.
fn moving(
    source: &State,
    live: &State,
    ids: &[(Resource, i64, i64)],
    options: &MigrateOptions,
) -> MigrationPlan {
    let ids = ids.iter().map(|(resource, old, new)| ((*resource, *old), *new)).collect();
    let known = AccountMemory { ids, ..AccountMemory::default() };
    let mapped = map(source, &memory(), FROM, options);
    MigrationPlan::plan(mapped, CurrentState { state: live, memory: &known }, &Policy::default())
        .unwrap()
}

fn empty() -> State {
    let mut state = State::default();
    for resource in Resource::ALL {
        state.resource_mut(resource);
    }
    state
}

#[test]
fn each_record_is_counted_once() {
    use Resource::{Campaigns, ChannelItems, Channels, Domains, Pixels};
    let old = state(&[
        (Domains, json!({"id": 1, "domain": "https://a.example"})),
        (Campaigns, json!({"id": 3, "name": "x/links/1"})),
        (Channels, json!({"id": 1, "name": "News"})),
        (ChannelItems, json!({"channel": 1, "type": "links", "id": 7})),
        (ChannelItems, json!({"channel": 1, "type": "links", "id": 8})),
        (Pixels, json!({"id": 1, "type": "bing", "name": "ours", "tag": "t"})),
        (Pixels, json!({"id": 2, "type": "bing", "name": "ours", "tag": "u"})),
    ]);
    let mut live = empty();
    let there = state(&[
        (Domains, json!({"id": 7, "domain": "http://a.example"})),
        (Pixels, json!({"id": 8, "type": "bing", "name": "theirs", "tag": "t"})),
    ]);
    for (resource, records) in there.iter() {
        live.resource_mut(resource).extend(records.clone());
    }
    let options = MigrateOptions { links: BTreeMap::from([(7, 70), (8, 70)]), ..all() };
    let moving = moving(&old, &live, &[], &options);
    let done = moving.plan.steps.iter().map(|it| (it.step, None)).collect();
    let report = moving.report(&done, BTreeMap::new());
    assert_eq!(counted(&report, "domains"), [0, 0, 0, 1, 0]);
    assert_eq!(counted(&report, "pixels"), [1, 0, 0, 1, 0]);
    assert_eq!(counted(&report, "campaigns"), [1, 0, 0, 0, 0]);
    assert!(!report.counts.contains_key("campaign_links"));
    assert_eq!(counted(&report, "channel_items"), [1, 0, 0, 0, 0]);
}

#[test]
fn the_report_has_the_ids_of_the_source() {
    use Resource::{ChannelItems, Channels, Pixels, QrCodes};
    let links = BTreeMap::from([(7, 70), (9, 90)]);
    let report =
        moving(&source(), &empty(), &[], &MigrateOptions { links: links.clone(), ..all() })
            .report(&BTreeMap::new(), BTreeMap::new());
    let failed: Vec<_> = report.failed.iter().filter_map(|it| it.id.as_deref()).collect();
    assert_eq!(failed.len(), report.failed.len(), "{:#?}", report.failed);
    for id in ["1/links/7", "2/links/7", "1/qr/3", "1/links/9"] {
        assert!(failed.contains(&id), "{id} is not in {failed:?}");
    }
    let mut text = String::new();
    report.markdown(&mut text).unwrap();
    assert!(text.contains("- campaigns 2 Autumn: the record is not created yet"), "{text}");
    assert!(!text.contains('{'), "{text}");

    // Existing and unsupported records.
    let mut live = empty();
    let there = state(&[
        (Channels, json!({"id": 11, "name": "News", "description": "x"})),
        (Pixels, json!({"id": 50, "type": "bing", "name": "other", "tag": "t"})),
    ]);
    for (resource, records) in there.iter() {
        live.resource_mut(resource).extend(records.clone());
    }
    let moved = moving(
        &source(),
        &live,
        &[(Channels, 1, 11)],
        &MigrateOptions { links: links.clone(), ..all() },
    );
    assert!(
        moved.plan.unsupported.iter().any(|it| (it.resource, it.key.as_str()) == (Pixels, "5"))
    );
    let report = moved.report(&BTreeMap::new(), BTreeMap::new());
    let of = |resource, id: &str| {
        report.failed.iter().find(|it| it.resource == resource && it.id.as_deref() == Some(id))
    };
    assert_eq!(of(Channels, "1").unwrap().reason, "the record exists and is not updated yet");
    assert!(of(ChannelItems, "1/links/7").is_some());
    let which = vec![ChannelItems];
    let alone = moving(
        &source(),
        &empty(),
        &[],
        &MigrateOptions { which, links, ..MigrateOptions::default() },
    );
    let odd: Vec<_> = alone.plan.unsupported.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(odd, ["1/links/7", "1/qr/3", "2/links/7"]);
    assert!(of(QrCodes, "3").is_some());
}

#[test]
fn swapped_names_are_reported_with_their_ids_in_the_source() {
    use Resource::Campaigns;
    let mut live = empty();
    let there = state(&[
        (Campaigns, json!({"id": 8, "name": "Autumn", "rotator": "https://n/r/sp"})),
        (Campaigns, json!({"id": 9, "name": "Spring"})),
    ]);
    for (resource, records) in there.iter() {
        live.resource_mut(resource).extend(records.clone());
    }
    let moved = moving(&source(), &live, &[(Campaigns, 1, 8), (Campaigns, 2, 9)], &all());
    let mut odd: Vec<_> = moved
        .plan
        .unsupported
        .iter()
        .filter(|it| it.resource == Campaigns)
        .map(|it| it.key.as_str())
        .collect();
    odd.sort_unstable();
    assert_eq!(odd, ["1", "2"]);
    let report = moved.report(&BTreeMap::new(), BTreeMap::new());
    assert_eq!(counted(&report, "campaigns"), [0, 0, 0, 2, 0]);
}

#[test]
fn finished_tasks_are_not_in_the_report() {
    let moving = moving(&source(), &empty(), &[], &all());
    let told =
        |report: &MigrationReport| report.manual.iter().any(|it| it.reason == manual::DOMAIN);
    let done: BTreeMap<_, _> = moving.plan.steps.iter().map(|it| (it.step, None)).collect();
    assert!(told(&moving.report(&BTreeMap::new(), BTreeMap::new())));
    assert!(!told(&moving.report(&done, BTreeMap::from([((Resource::Domains, 1), 9)]))));
}

#[test]
fn a_rotator_that_only_the_target_has_is_reported() {
    let mut live = empty();
    let autumn = json!({"id": 9, "name": "autumn", "rotator": "https://n/r/theirs"});
    for (resource, records) in state(&[(Resource::Campaigns, autumn)]).iter() {
        live.resource_mut(resource).extend(records.clone());
    }
    let plan = moving(&source(), &live, &[], &all()).plan;
    let odd: Vec<_> = plan.unsupported.iter().filter(|it| it.key == "2").collect();
    assert_eq!(odd.len(), 1, "{:?}", plan.unsupported);
    assert!(odd[0].reason.contains("keeps the rotator `https://n/r/theirs`"), "{}", odd[0].reason);
}

#[test]
fn excluded_records_are_in_the_report() {
    let wheres = vec!["channels.name~^News$".parse().unwrap()];
    let mut options = MigrateOptions { wheres, ..all() };
    options.which.retain(|it| *it != Resource::Pixels);
    let report = moving(&source(), &empty(), &[], &options).report(&BTreeMap::new(), IdMap::new());
    let mut text = String::new();
    report.markdown(&mut text).unwrap();
    for line in
        ["- channels: 1, excluded by `--where`", "- channel items: 1, excl", "- pixels: all, excl"]
    {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

/// Plans the migration of `source` to an account with `live`; `ids` moved before.
fn planned(
    source: &State,
    live: &[(Resource, Json)],
    ids: &[(Resource, i64, i64)],
) -> crate::change::plan::Plan {
    let mapped = map(source, &AccountMemory::default(), FROM, &all());
    let mut live = state(live);
    for resource in [Resource::Domains, Resource::Campaigns, Resource::Channels, Resource::Pixels] {
        live.resource_mut(resource);
    }
    let ids = ids.iter().map(|(resource, old, new)| ((*resource, *old), *new)).collect();
    let memory = AccountMemory { ids, ..AccountMemory::default() };
    let current = CurrentState { state: &live, memory: &memory };
    MigrationPlan::plan(mapped, current, &Policy::default()).unwrap().plan
}

fn told(plan: &crate::change::plan::Plan) -> (Vec<String>, Vec<String>) {
    let steps = plan.steps.iter().map(|it| format!("{} {}", it.verb.name(), it.key));
    let odd = plan.unsupported.iter().map(|it| format!("{} {}", it.resource, it.key));
    (steps.collect(), odd.collect())
}

#[test]
fn the_second_record_with_the_same_key_is_unsupported() {
    use Resource::{Campaigns, Channels, Domains, Pixels};
    let twins = state(&[
        (Campaigns, json!({"id": 1, "name": "Spring"})),
        (Campaigns, json!({"id": 2, "name": "SPRING"})),
        (Campaigns, json!({"id": 3, "name": ""})),
        (Campaigns, json!({"id": 4, "name": ""})),
        (Channels, json!({"id": 1, "name": "Spring"})),
        (Domains, json!({"id": 1, "domain": "https://a.example"})),
        (Domains, json!({"id": 2, "domain": "http://A.example"})),
        (Pixels, json!({"id": 1, "type": "bing", "name": "p", "tag": "t"})),
        (Pixels, json!({"id": 2, "type": "bing", "name": "q", "tag": "t"})),
        (Pixels, json!({"id": 3, "type": "bing", "name": "q", "tag": "T"})),
    ]);
    // A service may accept names that differ in case only.
    let odd = ["domains 2", "pixels 2"];
    let (steps, unsupported) = told(&planned(&twins, &[], &[]));
    assert_eq!(unsupported, odd);
    assert_eq!(steps.len(), 8, "{steps:?}");
    // The existing record stays matched, whichever it was, and under any name.
    let spring = (Campaigns, json!({"id": 9, "name": "spring"}));
    let (steps, unsupported) = told(&planned(&twins, std::slice::from_ref(&spring), &[]));
    assert!(steps.contains(&"create SPRING".to_owned()), "{steps:?}");
    assert_eq!(unsupported, odd);
    let second = [(Campaigns, 2, 9)];
    let (steps, unsupported) = told(&planned(&twins, &[spring], &second));
    assert!(steps.contains(&"create Spring".to_owned()), "{steps:?}");
    assert_eq!(unsupported, odd);
    // If both exist, one keeps its name, and the other gets its own.
    let both = [
        (Campaigns, json!({"id": 8, "name": "Other"})),
        (Campaigns, json!({"id": 9, "name": "SPRING"})),
    ];
    let moved = [(Campaigns, 1, 8), (Campaigns, 2, 9)];
    let (steps, unsupported) = told(&planned(&twins, &both, &moved));
    assert_eq!(unsupported, odd);
    assert!(steps.contains(&"update 8".to_owned()), "{steps:?}");
    let plan = planned(&twins, &[], &[]);
    let why = "has the `type` and `tag` of pixel 1; an account holds only one such";
    assert_eq!(plan.unsupported[1].reason, why);
}

#[test]
fn a_domain_with_another_scheme_is_matched() {
    let source = state(&[(Resource::Domains, json!({"id": 1, "domain": "http://a.example"}))]);
    let there = (Resource::Domains, json!({"id": 7, "domain": "https://a.example"}));
    let plan = planned(&source, &[there], &[]);
    assert_eq!(told(&plan), (vec![], vec!["domains 1".to_owned()]));
    assert_eq!(plan.foreign.unwrap().matched[0].new, 7);
}

proptest! {
    /// Every record of the source is desired, a manual task, or excluded.
    #[test]
    fn every_record_is_moved_reported_or_excluded(
        linked in prop::collection::btree_set(0..12_i64, 0..12), link_codes in any::<bool>(),
        known in any::<bool>(), skip in 0..9_usize, only in prop::option::of(1..5_i64),
    ) {
        let source = source();
        let memory = if known { memory() } else { AccountMemory::default() };
        let mut which = Resource::ALL.to_vec();
        let skipped = which.remove(skip);
        let links = linked.iter().map(|id| (*id, id + 100)).collect();
        let wheres = only.into_iter().flat_map(|id| {
            ["channels", "campaigns", "qr_codes"].map(|it| format!("{it}.id~^{id}$").parse().unwrap())
        });
        let wheres = wheres.collect();
        let options = MigrateOptions { which, links, link_codes, wheres, ..MigrateOptions::default() };
        let mapped = map(&source, &memory, FROM, &options);
        for (resource, records) in source.iter() {
            let wanted = mapped.desired.resources.get(&resource).map_or(0, |it| it.records.len());
            let left = mapped.manual.iter().filter(|it| it.not_moved && it.resource == resource);
            let left = left.filter(|it| resource != Resource::Campaigns || !it.id.contains('/'));
            let kept = mapped.excluded.get(&resource).map_or(0, |count| *count as usize);
            let found = wanted + left.count() + kept;
            let account = resource == Resource::Account;
            let expected = if resource == skipped || account { 0 } else { records.len() };
            prop_assert_eq!(found, expected, "{}", resource);
        }
    }
}
