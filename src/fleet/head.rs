//! The documents about a vault in a store: `HEAD`, and the record of what this machine fetched.

use serde::{Deserialize, Serialize};

use super::error::{StoreError, StoreErrorKind};
use super::object_tag::ObjectTag;

/// The name of the object that names the current one.
pub const HEAD: &str = "HEAD";

/// The newest format of `HEAD` that this program knows.
pub const FORMAT: u32 = 2;

/// The format of the `HEAD` of a plain object. Programs that know only this one refuse encrypted
/// objects.
const PLAIN_FORMAT: u32 = 1;

/// The largest ratio of a vault's size to that of its object.
const MAX_RATIO: u64 = 1000;

/// The account whose vault it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadAccount {
    /// The base URL of the service.
    pub service: String,
    /// The account's id on the service.
    pub id: i64,
}

/// The content of `HEAD`: the current object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The format of this document and of the object.
    pub format: u32,
    /// The number of the object: one more than that of the object before.
    pub sequence: u64,
    /// The SHA-256 digest of the vault's file, before compression, in hexadecimal.
    pub digest: String,
    /// The size of the object, in bytes.
    pub size: u64,
    /// The account whose vault it is.
    pub account: HeadAccount,
    /// The size of the vault's file, before compression, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_size: Option<u64>,
    /// Whether the object is encrypted with age.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// The name of the object before, which is kept until the next put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl Head {
    /// The name of the current object.
    #[must_use]
    pub fn object(&self) -> String {
        let suffix = if self.encrypted { ".age" } else { "" };
        format!("{:010}-{}.db.zst{suffix}", self.sequence, self.digest)
    }

    /// The number in the name of an object; `None` if it is not such a name.
    #[must_use]
    pub fn sequence_in(name: &str) -> Option<u64> {
        let (sequence, rest) = name.split_once('-')?;
        let is_object = sequence.len() == 10 && rest.contains(".db.zst");
        sequence.parse().ok().filter(|_| is_object)
    }

    /// The format of a document about such an object.
    #[must_use]
    pub const fn format_of(encrypted: bool) -> u32 {
        if encrypted { FORMAT } else { PLAIN_FORMAT }
    }

    /// The largest size of the vault's file that an object of this size can have. Vaults are
    /// compressed to a twentieth at best, far from this ratio.
    #[must_use]
    pub const fn most_plain(&self) -> u64 {
        let most = self.size.saturating_mul(MAX_RATIO).saturating_add(1 << 20);
        match self.plain_size {
            Some(plain) if plain < most => plain,
            _ => most,
        }
    }

    /// Whether both name the same object.
    #[must_use]
    pub fn is_same_object(&self, other: &Self) -> bool {
        self.sequence == other.sequence && self.digest == other.digest
    }

    /// Whether the object was made from that of `earlier`, or is the same.
    #[must_use]
    pub fn follows(&self, earlier: &Self) -> bool {
        self.is_same_object(earlier) || self.previous.as_ref() == Some(&earlier.object())
    }

    /// The document.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Reads and checks the document.
    ///
    /// # Errors
    /// If it is of a newer format, or not such a document.
    pub fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |what: String| StoreError::new(StoreErrorKind::Damaged, what);
        let found: Format = serde_json::from_slice(bytes)
            .map_err(|error| damaged(format!("{HEAD} is not a document of linkvault: {error}")))?;
        if found.format > FORMAT {
            let what = format!(
                "{HEAD} has format {}; this program knows formats up to {FORMAT}",
                found.format
            );
            return Err(StoreError::new(StoreErrorKind::Newer, what));
        }
        let head: Self = serde_json::from_slice(bytes)
            .map_err(|error| damaged(format!("{HEAD} is not a document of linkvault: {error}")))?;
        // No object could follow one with the largest number.
        if found.format == 0 || head.sequence == u64::MAX || !is_digest(&head.digest) {
            return Err(damaged(format!("{HEAD} has an invalid format, number or digest")));
        }
        if head.encrypted && head.format == PLAIN_FORMAT {
            return Err(damaged(format!("{HEAD} has an encrypted object in an older format")));
        }
        // It is removed by this name.
        if head.previous.as_ref().is_some_and(|name| !is_object_name(name)) {
            return Err(damaged(format!("{HEAD} has an invalid name of the object before")));
        }
        Ok(head)
    }
}

/// A digest in hexadecimal digits.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether [`Head::object`] returns such names.
fn is_object_name(name: &str) -> bool {
    let name = name.strip_suffix(".age").unwrap_or(name);
    let parts = name.strip_suffix(".db.zst").and_then(|it| it.split_once('-'));
    let is_sequence = |text: &str| text.len() >= 10 && text.bytes().all(|it| it.is_ascii_digit());
    parts.is_some_and(|(sequence, digest)| is_sequence(sequence) && is_digest(digest))
}

/// An object that this machine fetched or put, and the content of its own copy then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedObject {
    /// What `HEAD` says.
    pub head: Head,
    /// The version of `HEAD`; `None` before the answer to its put.
    pub tag: Option<ObjectTag>,
    /// The mark of the local copy ([`crate::vault::Vault::content_mark`]). Another mark means that
    /// the copy was changed since.
    pub mark: String,
}

/// What this machine knows about its copy of a vault. It is stored in a file beside the copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRecord {
    /// The object from which the copy was made, or that was last put.
    #[serde(default)]
    pub base: Option<FetchedObject>,
    /// The object whose put was begun and perhaps not answered.
    #[serde(default)]
    pub pending: Option<FetchedObject>,
    /// Whether the copy was begun for this store, when the store had no vault.
    #[serde(default)]
    pub begun: bool,
    /// The object by which the copy is being replaced.
    #[serde(default)]
    pub arriving: Option<FetchedObject>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn heads()(
            sequence in 1..u64::MAX,
            digest in "[0-9a-f]{64}",
            size in any::<u64>(),
            plain_size in proptest::option::of(any::<u64>()),
            encrypted in any::<bool>(),
            service in "\\PC{0,40}",
            id in any::<i64>(),
            previous in proptest::option::of("[0-9]{10}-[0-9a-f]{64}\\.db\\.zst(\\.age)?"),
        ) -> Head {
            let account = HeadAccount { service, id };
            let format = Head::format_of(encrypted);
            Head { format, sequence, digest, size, plain_size, encrypted, account, previous }
        }
    }

    proptest! {
        #[test]
        fn a_head_reads_back_as_it_was_written(head in heads()) {
            prop_assert_eq!(Head::read(&head.bytes()).unwrap(), head);
        }

        #[test]
        fn a_cut_or_foreign_head_is_an_error(head in heads(), cut in 0_usize..60, any in any::<Vec<u8>>()) {
            let bytes = head.bytes();
            prop_assert!(Head::read(&bytes[..cut]).is_err());
            prop_assert!(Head::read(&any).is_err());
        }

        #[test]
        fn names_of_objects_sort_by_their_sequence(one in heads(), other in heads()) {
            let bounded = |head: Head| Head { sequence: head.sequence % 10_000_000_000, ..head };
            let (one, other) = (bounded(one), bounded(other));
            let by_name = one.object()[..10].cmp(&other.object()[..10]);
            prop_assert_eq!(by_name, one.sequence.cmp(&other.sequence));
        }
    }

    #[test]
    fn a_newer_format_is_refused_before_the_rest_is_read() {
        let error = Head::read(br#"{"format":3,"pack":"x"}"#).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Newer);
        let error = Head::read(br#"{"format":1,"sequence":1,"digest":"../x","size":1,"account":{"service":"","id":1}}"#);
        assert_eq!(error.unwrap_err().kind, StoreErrorKind::Damaged);
    }

    fn head(sequence: u64, previous: Option<String>) -> Head {
        let account = HeadAccount { service: String::new(), id: 1 };
        let digest = "0".repeat(64);
        let (format, size) = (Head::format_of(false), 1);
        Head {
            format,
            sequence,
            digest,
            size,
            plain_size: None,
            encrypted: false,
            account,
            previous,
        }
    }

    #[test]
    fn a_sequence_that_no_object_can_follow_is_damaged() {
        let head = head(u64::MAX, None);
        assert_eq!(Head::read(&head.bytes()).unwrap_err().kind, StoreErrorKind::Damaged);
    }

    #[test]
    fn a_plain_head_has_the_format_that_older_programs_read_and_an_encrypted_one_has_not() {
        let plain = head(1, None);
        let text = String::from_utf8(plain.bytes()).unwrap();
        assert!(text.starts_with("{\"format\":1,") && !text.contains("encrypted"), "{text}");
        let encrypted = Head { format: Head::format_of(true), encrypted: true, ..plain };
        let text = String::from_utf8(encrypted.bytes()).unwrap();
        assert!(
            text.starts_with("{\"format\":2,") && text.contains("\"encrypted\":true"),
            "{text}"
        );
        assert!(encrypted.object().ends_with(".db.zst.age"));
        // An older program would misread it.
        let misread = Head { format: 1, ..encrypted };
        assert_eq!(Head::read(&misread.bytes()).unwrap_err().kind, StoreErrorKind::Damaged);
    }

    #[test]
    fn the_stated_size_of_a_vault_is_bounded_by_that_of_its_object() {
        let of = |size, plain_size| Head { size, plain_size, ..head(1, None) }.most_plain();
        assert_eq!(of(1 << 20, Some(5 << 20)), 5 << 20);
        assert_eq!(of(1 << 20, None), 1001 << 20);
        assert_eq!(of(1 << 20, Some(u64::MAX)), 1001 << 20);
        assert_eq!(of(u64::MAX, None), u64::MAX);
    }

    #[test]
    fn only_an_object_of_a_vault_can_be_the_one_before() {
        let digest = "0".repeat(64);
        let read = |previous: &str| Head::read(&head(2, Some(previous.to_owned())).bytes());
        for name in ["db.zst", "db.zst.age"] {
            assert!(read(&format!("0000000001-{digest}.{name}")).is_ok());
        }
        let beside = format!("../other/0000000001-{digest}.db.zst");
        let signed = format!("+000000001-{digest}.db.zst");
        let twice = format!("0000000001-{digest}.db.zst.age.age");
        for name in ["", "HEAD", "../main.db", "0000000001-.db.zst", &beside, &signed, &twice] {
            assert_eq!(read(name).unwrap_err().kind, StoreErrorKind::Damaged, "{name}");
        }
    }

    #[test]
    fn the_number_of_an_object_is_in_its_name() {
        for (name, sequence) in [
            ("0000000012-ab.db.zst", Some(12)),
            ("0000000012-ab.db.zst.age", Some(12)),
            ("12-ab.db.zst", None),
            ("99999999999999999999-ab.db.zst", None),
            ("probe-0000000012", None),
            ("HEAD", None),
        ] {
            assert_eq!(Head::sequence_in(name), sequence, "{name}");
        }
    }
}
