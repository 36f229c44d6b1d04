//! Finds the valid name that is most similar to a wrong one.

/// Longer inputs, in bytes, get no suggestion: the comparison takes time and memory.
const MAX_LENGTH: usize = 100;

/// The candidate most similar to `name`, if it is similar enough for a typo.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_LENGTH {
        return None;
    }
    let name = name.to_lowercase();
    // At most a third of the letters may be wrong.
    let bound = name.chars().count().max(3).div_ceil(3);
    let letters = letter_counts(&name);
    let (distance, candidate) = candidates
        .into_iter()
        .map(|candidate| (candidate.to_lowercase(), candidate))
        .filter(|(lower, _)| fewest_edits(&letters, &letter_counts(lower)) <= bound)
        .map(|(lower, candidate)| (edit_distance(&name, &lower), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= bound).then_some(candidate)
}

/// How often each letter occurs, where `-` counts as `_` and some letters share a place.
fn letter_counts(text: &str) -> [u8; 32] {
    let mut counts = [0; 32];
    for letter in text.chars().map(|letter| if letter == '-' { '_' } else { letter }) {
        counts[letter as usize % 32] = u8::saturating_add(counts[letter as usize % 32], 1);
    }
    counts
}

/// A lower bound of the [`edit_distance`] of texts with these letters. It takes far less time, and
/// most candidates are above the limit.
fn fewest_edits(one: &[u8; 32], other: &[u8; 32]) -> usize {
    let more = |one: &[u8; 32], other: &[u8; 32]| -> usize {
        one.iter().zip(other).map(|(one, other)| usize::from(one.saturating_sub(*other))).sum()
    };
    more(one, other).max(more(other, one))
}

fn edit_distance(name: &str, candidate: &str) -> usize {
    let swapped = |text: &str| text.replace('-', "_");
    strsim::damerau_levenshtein(&swapped(name), &swapped(candidate))
}

/// `; did you mean …?`, or an empty string.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    suggest(name, candidates)
        .map_or_else(String::new, |candidate| format!("; did you mean `{candidate}`?"))
}

/// The end of the message that no record has the name `name`: the candidate that differs only in
/// spaces, or the nearest one. Empty if no candidate is near.
pub fn did_you_mean_name<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> String {
    fn letters(name: &str) -> impl Iterator<Item = char> + '_ {
        let kept = |letter: &char| {
            !letter.is_whitespace() && !matches!(letter, '\u{200B}' | '\u{2060}' | '\u{FEFF}')
        };
        name.chars().filter(kept).flat_map(char::to_lowercase)
    }
    match candidates.clone().find(|candidate| letters(candidate).eq(letters(name))) {
        Some(same) => format!("; `{same}` differs from it in spaces only"),
        // Any two names of one or two letters are similar.
        None if name.chars().count() < 3 => String::new(),
        None => did_you_mean(name, candidates),
    }
}

#[cfg(test)]
mod tests {
    use crate::suggest::*;

    #[test]
    fn typos_are_found_and_other_words_are_not() {
        let names = ["schedule", "timezone", "key_env"];
        assert_eq!(suggest("shedule", names), Some("schedule"));
        assert_eq!(suggest("key-env", names), Some("key_env"));
        assert_eq!(suggest("TimeZone", names), Some("timezone"));
        assert_eq!(suggest("password", names), None);
    }

    #[test]
    fn names_that_differ_in_spaces_are_told() {
        let names = ["Gift Cards", "Summer Sale"];
        let told = |name: &str| did_you_mean_name(name, names.iter().copied());
        assert_eq!(told("gift\u{a0}cards "), "; `Gift Cards` differs from it in spaces only");
        assert_eq!(told("Somer Sale"), "; did you mean `Summer Sale`?");
        assert_eq!(told("Winter"), "");
    }

    #[test]
    fn the_bound_is_never_above_the_distance() {
        let zones = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name().to_lowercase());
        let names: Vec<_> =
            zones.chain(["key-env", "key_env", "", "ß", "ss"].map(str::to_owned)).collect();
        for one in names.iter().step_by(40) {
            for other in &names {
                let bound = fewest_edits(&letter_counts(one), &letter_counts(other));
                assert!(bound <= edit_distance(one, other), "{one} {other}");
            }
        }
    }
}
