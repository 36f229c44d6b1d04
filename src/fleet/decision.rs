//! What to do with the local copy of a vault, by what the store and this machine know. Pure.

use super::head::{FetchRecord, FetchedObject, Head};

/// The local copy of a vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalCopy {
    /// There is no file, or it is a vault without an account.
    Missing,
    /// A file whose content has this mark.
    Marked(String),
}

impl LocalCopy {
    /// Whether the copy is as it was when `object` was fetched or put.
    #[must_use]
    pub fn is_as(&self, object: &FetchedObject) -> bool {
        matches!(self, Self::Marked(mark) if *mark == object.mark)
    }
}

/// What a fetch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchDecision {
    /// The local copy, or its absence, is current.
    UseLocal,
    /// The local copy is missing or older, and has no changes of its own.
    Download,
    /// The local copy has changes that were not put before another machine put a newer vault.
    SetAsideAndDownload,
    /// The store had a vault and has none any more.
    RefuseGone,
    /// The store returns an older object than it did before.
    RefuseOlder,
    /// The local copy was not made from an object of the store.
    RefuseLocalCopy,
}

/// The present record. The process may have been killed after it replaced the local copy, or
/// after it put an object that `HEAD` names.
#[must_use]
pub fn recovered(record: FetchRecord, local: &LocalCopy, remote: Option<&Head>) -> FetchRecord {
    let FetchRecord { base, pending, begun, arriving } = record;
    if let Some(replaced) = arriving.filter(|arriving| local.is_as(arriving)) {
        return FetchRecord { base: Some(replaced), ..FetchRecord::default() };
    }
    let done = |pending: &FetchedObject| remote.is_some_and(|remote| remote.follows(&pending.head));
    match pending {
        Some(pending) if done(&pending) => {
            FetchRecord { base: Some(pending), ..FetchRecord::default() }
        }
        pending => FetchRecord { base, pending, begun, arriving: None },
    }
}

/// Decides what a fetch does. `record` is [`recovered`].
#[must_use]
pub fn fetch_decision(
    local: &LocalCopy,
    record: &FetchRecord,
    remote: Option<&Head>,
) -> FetchDecision {
    use FetchDecision::{
        Download, RefuseGone, RefuseLocalCopy, RefuseOlder, SetAsideAndDownload, UseLocal,
    };
    let missing = *local == LocalCopy::Missing;
    match (&record.base, remote) {
        (None, None) => UseLocal,
        (Some(_), None) => RefuseGone,
        (None, Some(_)) if missing => Download,
        (None, Some(_)) if record.begun => SetAsideAndDownload,
        (None, Some(_)) => RefuseLocalCopy,
        (Some(base), Some(remote)) if base.head.is_same_object(remote) => {
            if missing {
                Download
            } else {
                UseLocal
            }
        }
        (Some(base), Some(remote)) if remote.sequence <= base.head.sequence => RefuseOlder,
        (Some(base), Some(_)) => {
            if missing || local.is_as(base) {
                Download
            } else {
                SetAsideAndDownload
            }
        }
    }
}

/// What came of a put of `HEAD` whose answer was lost or negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// `HEAD` names our object, or one that was made from it.
    Done,
    /// `HEAD` is as it was before the put.
    NotDone,
    /// Another machine replaced `HEAD`.
    Lost,
    /// `HEAD` is older than before the put, so that this is not known.
    Unknown,
}

/// Decides it by what `HEAD` says now: `ours` was put to replace `before`.
#[must_use]
pub fn put_outcome(ours: &Head, before: Option<&Head>, now: Option<&Head>) -> PutOutcome {
    match (before, now) {
        (_, Some(now)) if now.follows(ours) => PutOutcome::Done,
        (None, None) => PutOutcome::NotDone,
        (Some(before), Some(now)) if now.is_same_object(before) => PutOutcome::NotDone,
        (None, Some(_)) => PutOutcome::Lost,
        // Each object has a higher number than the one that it replaced.
        (Some(before), Some(now)) if now.sequence > before.sequence => PutOutcome::Lost,
        (Some(_), _) => PutOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::head::HeadAccount;

    fn head(sequence: u64, content: u8) -> Head {
        let account = HeadAccount { service: "https://links.example.com".into(), id: 7 };
        let digest = format!("{content:064x}");
        Head {
            format: Head::format_of(false),
            sequence,
            digest,
            size: 1,
            plain_size: None,
            encrypted: false,
            account,
            previous: None,
        }
    }

    prop_compose! {
        fn some_head()(
            sequence in 1_u64..5, content in 0_u8..3, before in proptest::option::of(0_u8..3),
        ) -> Head {
            let previous = before.map(|before| head(sequence - 1, before).object());
            Head { previous, ..head(sequence, content) }
        }
    }

    prop_compose! {
        fn object()(head in some_head(), mark in "[ab]") -> FetchedObject {
            FetchedObject { head, tag: None, mark }
        }
    }

    prop_compose! {
        fn record()(base in maybe(object()), begun in any::<bool>()) -> FetchRecord {
            FetchRecord { base, begun, ..FetchRecord::default() }
        }
    }

    fn local() -> impl Strategy<Value = LocalCopy> {
        prop_oneof![Just(LocalCopy::Missing), "[abc]".prop_map(LocalCopy::Marked)]
    }

    fn maybe<T: Strategy>(of: T) -> impl Strategy<Value = Option<T::Value>> {
        proptest::option::of(of)
    }

    proptest! {
        #[test]
        fn changes_that_were_not_put_are_never_overwritten(
            local in local(), record in record(), remote in maybe(some_head()),
        ) {
            let decision = fetch_decision(&local, &record, remote.as_ref());
            let base = record.base;
            let changed = local != LocalCopy::Missing && !base.as_ref().is_some_and(|it| local.is_as(it));
            prop_assert!(!(changed && decision == FetchDecision::Download));
        }

        #[test]
        fn a_copy_is_replaced_only_by_a_newer_object(
            local in local(), base in object(), remote in maybe(some_head()),
        ) {
            let record = FetchRecord { base: Some(base.clone()), ..FetchRecord::default() };
            let decision = fetch_decision(&local, &record, remote.as_ref());
            let newer = remote.as_ref().is_some_and(|it| it.sequence > base.head.sequence);
            if local != LocalCopy::Missing {
                use FetchDecision::{Download, SetAsideAndDownload};
                prop_assert_eq!(matches!(decision, Download | SetAsideAndDownload), newer);
            }
        }

        #[test]
        fn only_a_missing_or_current_copy_is_used_without_a_download(
            local in local(), record in record(), remote in some_head(),
        ) {
            let decision = fetch_decision(&local, &record, Some(&remote));
            let base = record.base;
            if decision == FetchDecision::UseLocal {
                prop_assert!(local != LocalCopy::Missing);
                prop_assert!(base.is_some_and(|base| base.head.is_same_object(&remote)));
            }
        }

        #[test]
        fn a_put_is_done_exactly_if_head_names_its_object(
            ours in some_head(), before in maybe(some_head()), now in maybe(some_head()),
        ) {
            let outcome = put_outcome(&ours, before.as_ref(), now.as_ref());
            let named = now.as_ref().is_some_and(|now| now.follows(&ours));
            if let (PutOutcome::Lost, Some(before)) = (outcome, &before) {
                prop_assert!(now.as_ref().is_some_and(|now| now.sequence > before.sequence));
            }
            prop_assert_eq!(outcome == PutOutcome::Done, named);
            if outcome == PutOutcome::NotDone {
                let same = now.as_ref().zip(before.as_ref()).is_some_and(|(now, it)| now.is_same_object(it));
                prop_assert!(same || now.is_none() && before.is_none());
            }
        }

        #[test]
        fn a_kill_leaves_the_base_of_the_copy_that_is_there(
            base in maybe(object()), pending in maybe(object()), arriving in maybe(object()),
            local in local(), remote in maybe(some_head()), begun in any::<bool>(),
        ) {
            let record = FetchRecord { base, pending, begun, arriving };
            let recovered = recovered(record.clone(), &local, remote.as_ref());
            prop_assert_eq!(&recovered.arriving, &None);
            let shown = |it: &FetchedObject| remote.as_ref().is_some_and(|now| now.follows(&it.head));
            let expected = record.arriving.clone().filter(|it| local.is_as(it));
            let expected = expected.or(record.pending.clone().filter(shown)).or(record.base);
            prop_assert_eq!(recovered.base, expected);
            // A put that may still arrive is not forgotten.
            if let Some(pending) = record.pending && !shown(&pending) && !record.arriving.is_some_and(|it| local.is_as(&it)) {
                prop_assert_eq!(recovered.pending, Some(pending));
            }
        }
    }
}
