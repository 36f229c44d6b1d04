//! Finds the valid name that is most similar to a wrong one.

/// Longer inputs, in bytes, get no suggestion: the comparison takes time and memory.
const MAX_LENGTH: usize = 100;

/// The candidate most similar to `name`, if it is similar enough for a typo.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_LENGTH {
        return None;
    }
    let name = name.to_lowercase();
    let (distance, candidate) = candidates
        .into_iter()
        .map(|candidate| (edit_distance(&name, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    // At most a third of the letters may be wrong.
    let bound = name.chars().count().max(3).div_ceil(3);
    (distance <= bound).then_some(candidate)
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
}
