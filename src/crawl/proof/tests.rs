//! What proves a list, on pages of made-up ids.

use super::*;

/// Pages of a list with `per` records each, as a correct service returns them.
fn pages(ids: &[i64], per: usize) -> Vec<PageEvidence> {
    let chunks: Vec<_> = ids.chunks(per).collect();
    let one = |(nth, chunk): (usize, &&[i64])| {
        let keys: Vec<_> = chunk.iter().map(|id| RecordKey::Id(*id)).collect();
        let raw = serde_json::value::RawValue::from_string("{}".into()).unwrap();
        let page = envelope::ResponsePage {
            records: vec![&*raw; chunk.len()],
            result: Some(ids.len() as u64),
            perpage: Some(per as u64),
            currentpage: Some(nth as u64 + 1),
            nextpage: None,
            maxpage: Some(chunks.len() as u64),
        };
        PageEvidence::new(nth as u64 + 1, per as u64, &page, &keys)
    };
    chunks.iter().enumerate().map(one).collect()
}

#[test]
fn an_unchanged_list_is_stable() {
    let all = pages(&[9, 8, 7, 6, 5], 2);
    assert_eq!(stable(&all, Some(&all[0])), Ok(()));
    assert_eq!(stable(&pages(&[1, 2], 5), None), Ok(()));
    stable(&all, None).unwrap_err();
}

#[test]
fn every_moved_record_is_noticed() {
    let all = pages(&[9, 8, 7, 6, 5], 2);
    let damage: [fn(&mut Vec<PageEvidence>); 5] = [
        |it| it[1].currentpage = Some(1),
        |it| it[2].maxpage = Some(4),
        |it| it[1].result = Some(6),
        |it| it[1].count = 1,
        |it| drop(it.pop()),
    ];
    for (nth, damage) in damage.iter().enumerate() {
        let mut broken = all.clone();
        damage(&mut broken);
        assert!(stable(&broken, Some(&all[0])).is_err(), "damage {nth}");
    }
    let other = pages(&[10, 9], 2);
    stable(&all, Some(&other[0])).unwrap_err();
}

#[test]
fn a_duplicate_on_another_page_needs_other_edges() {
    let mut all = pages(&[9, 8, 8, 7, 6], 2);
    assert_eq!(needs_other_edges(&all), None);
    (all[1].repeats, all[1].cross_page_repeats) = (1, 1);
    assert_eq!(needs_other_edges(&all), Some(1));
    assert_eq!(stable(&all, Some(&all[0])), Ok(()));
    assert_eq!(order_of_pages(&all), ListOrder::Descending);
    // The service counts its records, or the lines of its list.
    all.iter_mut().for_each(|page| page.result = Some(4));
    assert_eq!(stable(&all, Some(&all[0])), Ok(()));
    all.iter_mut().for_each(|page| page.result = Some(3));
    stable(&all, Some(&all[0])).unwrap_err();
}

#[test]
fn the_last_page_is_read_early_unless_page_1_shows_what_is_created() {
    let early = |ids: &[i64], change: fn(&mut PageEvidence)| {
        let mut all = pages(ids, 10);
        all.iter_mut().for_each(change);
        needs_tail_first(&all[..1], false)
    };
    let untold = |it: &mut PageEvidence| it.maxpage = None;
    let counted = |it: &mut PageEvidence| it.result = Some(it.count);
    let (up, down): (Vec<_>, Vec<_>) = ((1..=25).collect(), (1..=25).rev().collect());
    assert_eq!(early(&up, |_| {}), Some(3));
    assert_eq!(early(&up, untold), Some(3));
    assert_eq!(early(&down, |_| {}), None);
    assert_eq!([early(&up, counted), early(&down, counted)], [Some(3), Some(3)]);
    assert_eq!(early(&up[..20], |_| {}), None);
    assert_eq!(needs_tail_first(&pages(&down, 10)[..1], true), Some(3));
    assert_eq!(needs_tail_first(&pages(&down, 9)[..1], false), Some(3));
    let mut ended = pages(&up, 5);
    ended[4].count = 0;
    assert_eq!(check_tail(&ended, ended.get(3), None), Ok(()));
    let down = [9, 8, 7, 6, 5];
    // Page 1 looked as if the newest record came first.
    let (all, down) = (pages(&[9, 8, 1, 2, 3], 2), pages(&down, 2));
    check_tail(&all, None, None).unwrap_err();
    assert_eq!(check_tail(&down, None, None), Ok(()));
    assert_eq!(check_tail(&all, all.last(), None), Ok(()));
    check_tail(&all, down.last(), None).unwrap_err();
    // The others were read as smaller pages.
    let small = pages(&[9, 8, 1, 2, 3], 1);
    assert_eq!(check_tail(&small, all.last(), all.last()), Ok(()));
    check_tail(&small, all.last(), None).unwrap_err();
}

#[test]
fn a_record_listed_twice_in_place_of_another_needs_other_edges() {
    let mut all = pages(&[9, 8, 8, 6, 5], 3);
    (all[0].repeats, all[0].first_equal_repeat) = (1, Some("8".to_owned()));
    // Five are reported, four are shown: the fifth may be missing.
    assert_eq!(needs_other_edges(&all), Some(2));
    // The service counts its records, and all of them are shown.
    all.iter_mut().for_each(|page| page.result = Some(4));
    assert_eq!(needs_other_edges(&all), None);
    let mut single = pages(&[9, 8, 8], 5);
    single[0].repeats = 1;
    assert_eq!(needs_other_edges(&single), Some(4));
}

#[test]
fn a_record_missing_inside_a_page_is_removed_and_one_at_an_edge_is_not() {
    for ids in [[20, 18, 16, 12, 10, 8], [8, 10, 12, 16, 18, 20]] {
        let all = pages(&ids, 3);
        let inside = if ids[0] == 20 { 17 } else { 11 };
        assert_eq!(gone(&all, &RecordKey::Id(inside)), RemovedRecords::Proven);
        assert_eq!(gone(&all, &RecordKey::Id(14)), RemovedRecords::AtEdge(0));
        assert_eq!(gone(&all, &RecordKey::Id(99)), RemovedRecords::Proven);
        assert_eq!(gone(&all, &RecordKey::Id(1)), RemovedRecords::Proven);
    }
}

#[test]
fn the_list_ends_at_the_reported_page_or_at_a_contradiction() {
    let more = |change: fn(&mut PageEvidence)| {
        let mut first = pages(&[1, 2, 3, 4], 2).remove(0);
        change(&mut first);
        needs_next_page(&[first])
    };
    assert!(more(|_| {}));
    assert!(more(|it| (it.maxpage, it.perpage, it.nextpage) = (None, None, Some(2))));
    assert!(more(|it| (it.maxpage, it.perpage) = (None, None)));
    assert!(!more(|it| it.maxpage = Some(1)));
    assert!(!more(|it| (it.maxpage, it.repeats) = (Some(u64::MAX), 2)));
    assert!(!more(|it| (it.maxpage, it.currentpage) = (Some(u64::MAX), Some(7))));
    assert!(!more(|it| (it.maxpage, it.count) = (Some(9), 0)));
}

#[test]
fn an_empty_list_removes_nothing_before_it_was_read_twice() {
    let mut empty = pages(&[1], 5);
    (empty[0].count, empty[0].result) = (0, Some(0));
    assert_eq!(gone(&empty, &RecordKey::Id(1)), RemovedRecords::Unclear);
}

#[test]
fn a_list_without_order_or_total_needs_a_second_listing() {
    assert_eq!(gone(&pages(&[3, 9, 1, 7], 2), &RecordKey::Id(5)), RemovedRecords::Unclear);
    let mut untold = pages(&[1, 2, 3], 5);
    untold[0].result = None;
    assert_eq!(gone(&untold, &RecordKey::Id(4)), RemovedRecords::Unclear);
}

#[test]
fn the_count_of_a_page_is_not_a_total() {
    let mut counted = pages(&[1, 2, 3, 4, 5], 2);
    for page in &mut counted {
        page.result = Some(page.count);
    }
    assert_eq!(total(&counted), None);
    assert_eq!(stable(&counted, Some(&counted[0])), Ok(()));
}
