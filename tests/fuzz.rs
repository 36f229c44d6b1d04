//! The fuzz targets of `fuzz/`, without a fuzzer: every file of their corpora, and
//! mutations of those. Coverage-guided runs are described in `fuzz/README.md`.
//!
//! `LINKVAULT_FUZZ_INPUTS` is how many mutations each target gets, and
//! `LINKVAULT_FUZZ_SECONDS` how long it gets more of them. `LINKVAULT_FUZZ_SEED` repeats a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{Clock, Interrupt, SystemClock};

#[path = "../fuzz/src/targets/mod.rs"]
mod targets;

/// The longest mutated input, in bytes.
const MAX_LENGTH: usize = 1 << 14;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[track_caller]
fn fuzz(name: &str) {
    let target = targets::find(name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has no seeds");
    for input in &corpus {
        check(target, input);
    }
    let seed = number("LINKVAULT_FUZZ_SEED").unwrap_or(1);
    let clock = SystemClock::new(Interrupt::default());
    let end = number("LINKVAULT_FUZZ_SECONDS").map(Duration::from_secs);
    let least = number("LINKVAULT_FUZZ_INPUTS").unwrap_or(200);
    let mut rng = Rng::with_seed(seed);
    let mut done = 0_u64;
    while done < least || end.is_some_and(|end| clock.monotonic() < end) {
        check(target, &mutated(&corpus, target.words, &mut rng));
        done += 1;
    }
    println!("fuzz {name}: {} seeds and {done} mutations from seed {seed}", corpus.len());
}

/// Runs one input. Where it fails, the input is written to a file.
#[track_caller]
fn check(target: &targets::Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
        std::fs::create_dir_all(&folder).unwrap();
        let name = format!("{}-{:08x}", target.name, fingerprint(input));
        let file = folder.join(name);
        std::fs::write(&file, input).unwrap();
        println!("the input is {}: {:?}", file.display(), String::from_utf8_lossy(input));
        std::panic::resume_unwind(panic);
    }
}

fn fingerprint(input: &[u8]) -> u32 {
    input.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A seed with one to eight changes.
fn mutated(corpus: &[Vec<u8>], words: &[&str], rng: &mut Rng) -> Vec<u8> {
    let mut input = corpus[rng.usize(..corpus.len())].clone();
    for _ in 0..rng.usize(1..=8) {
        let at = rng.usize(..=input.len());
        match rng.u8(..9) {
            0 if !input.is_empty() => {
                let at = at % input.len();
                input[at] ^= 1 << rng.u8(..8);
            }
            1 if !input.is_empty() => {
                let at = at % input.len();
                input[at] = rng.u8(..);
            }
            2 => input.insert(at, rng.u8(..)),
            3 => {
                let end = input.len().min(at + rng.usize(..16));
                input.drain(at..end);
            }
            4 => {
                let end = input.len().min(at + rng.usize(..64));
                let copy = input[at..end].to_vec();
                let to = rng.usize(..=input.len());
                input.splice(to..to, copy);
            }
            5 | 6 => {
                let word = words[rng.usize(..words.len())].as_bytes();
                let over = if rng.bool() { word.len() } else { 0 };
                let end = input.len().min(at + over);
                input.splice(at..end, word.iter().copied());
            }
            7 => {
                let other = &corpus[rng.usize(..corpus.len())];
                input.truncate(at);
                input.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
            _ => {
                let digits = rng.i64(..).to_string();
                let end = input.len().min(at + rng.usize(..4));
                input.splice(at..end, digits.bytes());
            }
        }
        input.truncate(MAX_LENGTH);
    }
    input
}

macro_rules! targets {
    ($($name:ident)+) => {
        $(#[test] fn $name() { fuzz(stringify!($name)); })+

        #[test]
        fn every_target_is_run() {
            let names: Vec<_> = targets::ALL.iter().map(|it| it.name).collect();
            assert_eq!(names, [$(stringify!($name)),+]);
        }
    };
}

targets! { envelope record csv plan config reference schedule web workbook }
