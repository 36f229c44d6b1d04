//! Simulates a second user who changes the account while it is read: random changes from a seed.

use super::generate::Draw;
use super::store::{Store, StoreTable};

/// Makes one random change of the account, and describes it.
pub fn random_change(store: &mut Store, rng: &mut fastrand::Rng) -> String {
    let mut draw = Draw(rng.fork());
    let kind = rng.u8(..KINDS);
    match rng.u8(..7) {
        0 | 1 => insert(store, &mut draw, kind),
        2 | 3 => change(store, &mut draw),
        4 | 5 => delete(store, &mut draw, kind, false),
        _ => {
            // If the table reuses ids, the new record gets the id of the deleted one.
            let deleted = delete(store, &mut draw, kind, true);
            format!("{deleted}, {}", insert(store, &mut draw, kind))
        }
    }
}

/// Domains, campaigns, channels, pixels and QR codes.
const KINDS: u8 = 5;

/// Adds one record.
fn insert(store: &mut Store, draw: &mut Draw, kind: u8) -> String {
    // Larger than the numbers in `generate`, so that names stay unique.
    let n = draw.0.u64(1_000_000_000..);
    match kind {
        0 => format!("added domain {}", store.domains.add(draw.domain(n))),
        1 => format!("added campaign {}", draw.campaign(store, n)),
        2 => {
            let row = draw.channel(store, n, 0);
            format!("added channel {}", store.channels.add(row))
        }
        3 => format!("added pixel {}", store.pixels.add(draw.pixel(n))),
        _ => {
            let row = draw.qr_code(store, n);
            format!("added qr code {}", store.qr_codes.add(row))
        }
    }
}

/// Changes one record, if there is one.
fn change(store: &mut Store, draw: &mut Draw) -> String {
    let n = draw.0.u64(1_000_000_000..);
    match draw.0.u8(..4) {
        0 => edit(&mut store.domains, draw, "domain", |row, _| {
            row.redirectroot = format!("https://moved{n}.example.com");
        }),
        1 => edit(&mut store.campaigns, draw, "campaign", |row, draw| row.name = draw.name(n)),
        2 => edit(&mut store.channels, draw, "channel", |row, draw| {
            draw.word().clone_into(&mut row.description);
            row.starred = !row.starred;
        }),
        _ => edit(&mut store.qr_codes, draw, "qr code", |row, draw| row.name = draw.name(n)),
    }
}

fn edit<T>(
    table: &mut StoreTable<T>,
    draw: &mut Draw,
    what: &str,
    change: impl FnOnce(&mut T, &mut Draw),
) -> String {
    let picked = pick(table, draw, false);
    match picked.and_then(|id| table.get_mut(id).map(|row| (id, row))) {
        Some((id, row)) => {
            change(row, draw);
            format!("changed {what} {id}")
        }
        None => "did nothing".to_owned(),
    }
}

/// Deletes one record, if there is one: the last one or a random one.
fn delete(store: &mut Store, draw: &mut Draw, kind: u8, last: bool) -> String {
    let (what, id) = match kind {
        0 => ("domain", take(&mut store.domains, draw, last)),
        1 => ("campaign", take(&mut store.campaigns, draw, last)),
        2 => ("channel", take(&mut store.channels, draw, last)),
        3 => ("pixel", take(&mut store.pixels, draw, last)),
        _ => {
            let id = pick(&store.qr_codes, draw, last);
            ("qr code", id.filter(|id| store.remove_qr(*id).is_some()))
        }
    };
    id.map_or_else(|| "did nothing".to_owned(), |id| format!("deleted {what} {id}"))
}

fn take<T>(table: &mut StoreTable<T>, draw: &mut Draw, last: bool) -> Option<u64> {
    let id = pick(table, draw, last)?;
    table.remove(id).map(|_| id)
}

fn pick<T>(table: &StoreTable<T>, draw: &mut Draw, last: bool) -> Option<u64> {
    if table.is_empty() {
        return None;
    }
    let nth = if last { table.len() - 1 } else { draw.0.usize(..table.len()) };
    table.iter().nth(nth).map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::generate::{GeneratedCounts, generate};

    #[test]
    fn changes_are_reproducible_and_of_all_kinds() {
        let run = || {
            let mut store = generate(1, GeneratedCounts::each(10));
            let mut rng = fastrand::Rng::with_seed(5);
            let descriptions: Vec<String> =
                (0..60).map(|_| random_change(&mut store, &mut rng)).collect();
            (store, descriptions)
        };
        let (store, descriptions) = run();
        assert_eq!((store, descriptions.clone()), run());
        for verb in ["added", "changed", "deleted"] {
            assert!(descriptions.iter().any(|line| line.starts_with(verb)), "{verb}");
        }
    }

    #[test]
    fn a_replacing_record_gets_the_reused_id() {
        let mut store = generate(1, GeneratedCounts::each(3));
        store.reuse_ids();
        let mut rng = fastrand::Rng::with_seed(5);
        let mut descriptions = (0..200).map(|_| random_change(&mut store, &mut rng));
        let replaced =
            descriptions.find(|line| line.starts_with("deleted") && line.contains(", added"));
        let replaced = replaced.unwrap();
        let ids: Vec<_> =
            replaced.split([' ', ',']).filter_map(|it| it.parse::<u64>().ok()).collect();
        assert_eq!(ids[0], ids[1], "{replaced}");
    }
}
