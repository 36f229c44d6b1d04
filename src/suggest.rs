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
}
