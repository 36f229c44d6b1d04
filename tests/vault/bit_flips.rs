//! Changes random bytes of the file. Nothing may panic, and `check` must report every change of
//! what can be read.

use std::panic::{AssertUnwindSafe, catch_unwind};

use linkvault::vault::Vault;

use super::damage::{Original, reported};
use crate::vault::snapshot_builder::contents;

#[test]
fn a_changed_byte_is_reported_or_changes_nothing_that_can_be_read() {
    let original = Original::new();
    let rounds = std::env::var("LINKVAULT_FLIPS").map_or(150, |it| it.parse().unwrap());
    let seed = std::env::var("LINKVAULT_SEED").map_or(7, |it| it.parse().unwrap());
    println!("LINKVAULT_SEED={seed} LINKVAULT_FLIPS={rounds}, {} bytes", original.bytes.len());
    let mut random = fastrand::Rng::with_seed(seed);
    let used: Vec<usize> =
        (0..original.bytes.len()).filter(|at| original.bytes[*at] != 0).collect();
    let mut noticed = 0;
    for round in 0..rounds {
        let path = original.copy();
        let mut bytes = original.bytes.clone();
        // Mostly in used bytes, since most of a page is empty.
        let at = match round % 8 {
            0 => random.usize(..bytes.len()),
            1 => random.usize(..100),
            _ => *random.choice(&used).unwrap(),
        };
        let to = match round % 2 {
            0 => bytes[at] ^ (1 << random.u8(..8)),
            _ => random.u8(..),
        };
        let shown = format!("byte {at}: {:#04x} to {to:#04x}", bytes[at]);
        bytes[at] = to;
        std::fs::write(&path, &bytes).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if reported(&path) {
                return true;
            }
            let mut vault = Vault::open(&path).unwrap();
            assert_eq!(contents(&mut vault, &path).unwrap(), original.contents, "{shown}");
            false
        }));
        noticed += u32::from(outcome.unwrap_or_else(|_| panic!("{shown}")));
    }
    println!("{noticed} of {rounds} were reported");
    assert!(noticed > rounds / 4);
}

#[test]
fn reading_a_damaged_vault_never_panics() {
    let original = Original::new();
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..60 {
        let path = original.copy();
        let mut bytes = original.bytes.clone();
        for _ in 0..20 {
            let at = random.usize(100..bytes.len());
            bytes[at] = random.u8(..);
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(mut vault) = Vault::open_read_only(&path) {
            let _ = contents(&mut vault, &path);
            let _ = vault.check();
        }
    }
}
