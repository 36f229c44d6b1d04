//! Somebody else who works in the same account while we read it: changes
//! behind the API's back, drawn from a seed.

use super::generate::Draw;
use super::store::{Store, Table};

/// Does one thing to the account, and says what.
pub fn meddle(store: &mut Store, rng: &mut fastrand::Rng) -> String {
    let mut draw = Draw(rng.fork());
    match rng.u8(..3) {
        0 => insert(store, &mut draw),
        1 => change(store, &mut draw),
        _ => delete(store, &mut draw),
    }
}

/// Adds one record to some resource.
fn insert(store: &mut Store, draw: &mut Draw) -> String {
    // Beyond what `generate` numbers, so that names stay unique.
    let n = draw.0.u64(1_000_000_000..);
    match draw.0.u8(..5) {
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

/// Changes one record where there is one.
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
    table: &mut Table<T>,
    draw: &mut Draw,
    what: &str,
    change: impl FnOnce(&mut T, &mut Draw),
) -> String {
    let picked = pick(table, draw);
    match picked.and_then(|id| table.get_mut(id).map(|row| (id, row))) {
        Some((id, row)) => {
            change(row, draw);
            format!("changed {what} {id}")
        }
        None => "did nothing".to_owned(),
    }
}

/// Deletes one record where there is one.
fn delete(store: &mut Store, draw: &mut Draw) -> String {
    let (what, id) = match draw.0.u8(..5) {
        0 => ("domain", take(&mut store.domains, draw)),
        1 => ("campaign", take(&mut store.campaigns, draw)),
        2 => ("channel", take(&mut store.channels, draw)),
        3 => ("pixel", take(&mut store.pixels, draw)),
        _ => {
            let id = pick(&store.qr_codes, draw);
            ("qr code", id.filter(|id| store.remove_qr(*id).is_some()))
        }
    };
    id.map_or_else(|| "did nothing".to_owned(), |id| format!("deleted {what} {id}"))
}

fn take<T>(table: &mut Table<T>, draw: &mut Draw) -> Option<u64> {
    let id = pick(table, draw)?;
    table.remove(id).map(|_| id)
}

fn pick<T>(table: &Table<T>, draw: &mut Draw) -> Option<u64> {
    if table.is_empty() {
        return None;
    }
    table.iter().nth(draw.0.usize(..table.len())).map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::generate::{Counts, generate};

    #[test]
    fn meddling_is_steady_and_does_all_three_things() {
        let run = || {
            let mut store = generate(1, Counts::each(10));
            let mut rng = fastrand::Rng::with_seed(5);
            let said: Vec<String> = (0..60).map(|_| meddle(&mut store, &mut rng)).collect();
            (store, said)
        };
        let (store, said) = run();
        assert_eq!((store, said.clone()), run());
        for verb in ["added", "changed", "deleted"] {
            assert!(said.iter().any(|line| line.starts_with(verb)), "{verb}");
        }
    }
}
