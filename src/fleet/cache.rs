//! Which local copies of vaults in stores are removed when they are larger than their bound. Pure.

use std::cmp::Reverse;
use std::time::Duration;

/// A local copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedCopy<T> {
    /// What names it.
    pub copy: T,
    /// Its size in bytes.
    pub size: u64,
    /// The time since its last use.
    pub idle: Duration,
}

/// A copy is kept for this time after its last use: the command that fetched it may not have opened
/// it yet.
pub const IN_USE: Duration = Duration::from_secs(60);

/// Removes copies by `remove`, which returns whether it did, until the others have at most `bound`
/// bytes: the least recently used ones first.
pub fn trim<T>(mut copies: Vec<CachedCopy<T>>, bound: u64, mut remove: impl FnMut(&T) -> bool) {
    let mut total = copies.iter().fold(0_u64, |total, it| total.saturating_add(it.size));
    copies.retain(|it| it.idle >= IN_USE);
    copies.sort_by_key(|it| Reverse(it.idle));
    for CachedCopy { copy, size, .. } in copies {
        if total <= bound {
            return;
        }
        if remove(&copy) {
            total = total.saturating_sub(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        /// A copy, and whether it can be removed.
        fn copy()(size in 0_u64..100, idle in 0_u64..300, removable in any::<bool>()) -> (u64, Duration, bool) {
            (size, Duration::from_secs(idle), removable)
        }
    }

    proptest! {
        #[test]
        fn the_least_recently_used_copies_are_removed_and_no_more_than_needed(
            found in proptest::collection::vec(copy(), 0..12), bound in 0_u64..500,
        ) {
            let copies = found.iter().enumerate();
            let copies = copies.map(|(copy, &(size, idle, _))| CachedCopy { copy, size, idle });
            let mut removed = Vec::new();
            trim(copies.collect(), bound, |&at| {
                if found[at].2 { removed.push(at) }
                found[at].2
            });
            let is_free = |at: usize| found[at].2 && found[at].1 >= IN_USE;
            let left = |removed: &[usize]| -> u64 {
                (0..found.len()).filter(|at| !removed.contains(at)).map(|at| found[at].0).sum()
            };
            // Only copies that can be removed and are not in use, each once.
            prop_assert!(removed.iter().all(|at| is_free(*at)));
            prop_assert_eq!(removed.iter().collect::<std::collections::BTreeSet<_>>().len(), removed.len());
            // The rest fits, or nothing more can be removed.
            let kept: Vec<_> = (0..found.len()).filter(|at| is_free(*at) && !removed.contains(at)).collect();
            prop_assert!(left(&removed) <= bound || kept.is_empty());
            // The last removal was needed.
            if let Some((_, before)) = removed.split_last() {
                prop_assert!(left(before) > bound);
            }
            // Each copy that remains was used later than those that were removed.
            for (kept, removed) in kept.iter().flat_map(|kept| removed.iter().map(move |it| (kept, it))) {
                prop_assert!(found[*kept].1 <= found[*removed].1);
            }
        }
    }
}
