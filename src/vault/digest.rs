//! Digests of a snapshot's content, and the chain that links them.
//!
//! A resource's checksum is the sum, modulo 2²⁵⁶, of the hashes of everything that the snapshot
//! shows of it. A backup that changes ten records of a million computes twenty hashes, and `check`
//! recomputes every snapshot in one pass over the versions. The sums detect damage and mistakes,
//! not somebody who rewrites the whole file. The input of a hash is the service's text, not the
//! table row, so that it survives changes of the vault's format.

use std::fmt::Write;

use arrayvec::ArrayVec;

use crate::model::{RecordKey, Resource, SnapshotId};

/// A sum of hashes, modulo 2²⁵⁶.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestSum([u64; 4]);

impl DigestSum {
    /// Adds a hash.
    pub fn add(&mut self, hash: blake3::Hash) {
        self.plus(Self::of(hash));
    }

    /// Subtracts a hash.
    pub fn sub(&mut self, hash: blake3::Hash) {
        self.minus(Self::of(hash));
    }

    /// Subtracts another sum.
    pub fn minus(&mut self, other: Self) {
        // a − b = a + (−b): two's complement over 256 bits.
        let mut negative = Self(other.0.map(|limb| !limb));
        negative.plus(Self([1, 0, 0, 0]));
        self.plus(negative);
    }

    /// Adds another sum.
    pub fn plus(&mut self, other: Self) {
        let mut carry = false;
        for (limb, more) in self.0.iter_mut().zip(other.0) {
            let (partial, first) = limb.overflowing_add(more);
            let (whole, second) = partial.overflowing_add(u64::from(carry));
            *limb = whole;
            carry = first || second;
        }
    }

    /// The sum as 32 bytes, little-endian. The vault stores it in this form.
    #[must_use]
    pub fn bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// The sum from its stored bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut limbs = [0; 4];
        for (limb, chunk) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = chunk.iter().rev().fold(0, |all, byte| (all << 8) | u64::from(*byte));
        }
        Self(limbs)
    }

    fn of(hash: blake3::Hash) -> Self {
        Self::from_bytes(*hash.as_bytes())
    }
}

/// The kind of content in a hash, so that two kinds never have the same hash.
#[derive(Debug, Clone, Copy)]
enum DigestContent {
    Version,
    Sample,
    Statistics,
}

/// The hash of a version. `text` is the record's JSON text with its counter set to zero.
#[must_use]
pub fn version(resource: Resource, key: &RecordKey, text: &str) -> blake3::Hash {
    version_of(resource, key, &[text])
}

/// Like [`version`], for a text in several parts.
#[must_use]
pub fn version_of(resource: Resource, key: &RecordKey, parts: &[&str]) -> blake3::Hash {
    content(DigestContent::Version, resource, key, |input| {
        parts.iter().for_each(|part| input.push(part.as_bytes()));
    })
}

/// The hash of a counter's value and of the snapshot that first read it.
#[must_use]
pub fn sample(
    resource: Resource,
    id: i64,
    snapshot: SnapshotId,
    value: Option<i64>,
) -> blake3::Hash {
    content(DigestContent::Sample, resource, &RecordKey::Id(id), |input| {
        // Writing to an input cannot fail.
        let _ = match value {
            Some(value) => write!(input, "{snapshot}:{value}"),
            None => write!(input, "{snapshot}:null"),
        };
    })
}

/// The hash of a QR code's statistics and scans, and of the snapshot that read them.
#[must_use]
pub fn statistics(id: i64, snapshot: SnapshotId, scans: i64, body: &str) -> blake3::Hash {
    content(DigestContent::Statistics, Resource::QrCodes, &RecordKey::Id(id), |input| {
        let _ = write!(input, "{snapshot}:{scans}:{body}");
    })
}

/// The hash of one piece of content.
fn content(
    kind: DigestContent,
    resource: Resource,
    key: &RecordKey,
    text: impl FnOnce(&mut Input),
) -> blake3::Hash {
    // Most content is short, and hashing it at once is several times faster.
    let mut input = Input { short: ArrayVec::new(), long: None };
    input.push(&[kind as u8, resource as u8]);
    input.push(&key.id().to_le_bytes());
    if let RecordKey::Item { channel, kind, .. } = key {
        input.push(&channel.to_le_bytes());
        input.push(&(kind.len() as u64).to_le_bytes());
        input.push(kind.as_bytes());
    }
    text(&mut input);
    input.hash()
}

const MAX_SHORT: usize = 512;

/// Input of a hash: collected while it is short, otherwise hashed incrementally.
struct Input {
    short: ArrayVec<u8, MAX_SHORT>,
    long: Option<Box<blake3::Hasher>>,
}

impl Input {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.long {
            hasher.update(bytes);
        } else if self.short.try_extend_from_slice(bytes).is_err() {
            let mut hasher = Box::new(blake3::Hasher::new());
            hasher.update(&self.short).update(bytes);
            self.long = Some(hasher);
        }
    }

    fn hash(self) -> blake3::Hash {
        match self.long {
            Some(hasher) => hasher.finalize(),
            None => blake3::hash(&self.short),
        }
    }
}

impl Write for Input {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Hashes a sequence of byte strings, each with its length.
#[must_use]
pub fn fields<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_and_long_content_is_hashed_alike() {
        for length in [0, 1, MAX_SHORT - 11, MAX_SHORT - 10, MAX_SHORT - 9, 4000] {
            let text = "x".repeat(length);
            let all = [&[0, Resource::QrCodes as u8], &7_i64.to_le_bytes()[..], text.as_bytes()];
            let found = version(Resource::QrCodes, &RecordKey::Id(7), &text);
            assert_eq!(found, blake3::hash(&all.concat()), "{length}");
        }
    }

    proptest! {
        #[test]
        fn sums_can_be_subtracted_in_any_order(texts in prop::collection::vec(any::<String>(), 0..9)) {
            let hashes: Vec<_> = texts.iter().map(|text| blake3::hash(text.as_bytes())).collect();
            let mut sum = DigestSum::default();
            hashes.iter().for_each(|hash| sum.add(*hash));
            prop_assert_eq!(DigestSum::from_bytes(sum.bytes()), sum);
            hashes.iter().rev().for_each(|hash| sum.sub(*hash));
            prop_assert_eq!(sum, DigestSum::default());
        }
    }
}
