//! The valid name that somebody most likely meant: of a key, a column, a word.

/// Longer than any name, in bytes: comparing costs time and room.
const LONGEST: usize = 100;

/// The candidate nearest to `name`, if one is near enough to be a slip.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_lowercase();
    let (slips, candidate) = candidates
        .into_iter()
        .map(|candidate| (edit_distance_limit(&name, &candidate.to_lowercase()), candidate))
        .min_by_key(|(slips, _)| *slips)?;
    // A third of the letters may be wrong: more is another word.
    let bound = name.chars().count().max(3).div_ceil(3);
    (slips <= bound).then_some(candidate)
}

fn edit_distance_limit(name: &str, candidate: &str) -> usize {
    let swapped = |text: &str| text.replace('-', "_");
    strsim::damerau_levenshtein(&swapped(name), &swapped(candidate))
}

/// ` (did you mean …?)`, or nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    suggest(name, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use crate::suggest::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let names = ["schedule", "timezone", "key_env"];
        assert_eq!(suggest("shedule", names), Some("schedule"));
        assert_eq!(suggest("key-env", names), Some("key_env"));
        assert_eq!(suggest("TimeZone", names), Some("timezone"));
        assert_eq!(suggest("password", names), None);
    }
}
