//! Shows long text page by page, with the program that `PAGER` names.

use crate::process::{self, ProcessError, ProcessInput};

/// The program if `PAGER` is not set: it ends at once where the text fits the screen, leaves the
/// text there, and shows colours.
const DEFAULT: &str = "less -FRX";

/// The words of the program to use, from the value of `PAGER`. `None`: the text is printed.
#[must_use]
pub fn words(variable: Option<&str>) -> Option<Vec<String>> {
    let words: Vec<_> = variable.unwrap_or(DEFAULT).split_whitespace().map(str::to_owned).collect();
    (!words.is_empty() && words != ["cat"]).then_some(words)
}

/// Whether `text` has more rows than a screen of this size, with a row left for the prompt.
#[must_use]
pub fn exceeds_screen(text: &str, (columns, rows): (u16, u16)) -> bool {
    let columns = usize::from(columns.max(1));
    let needed: usize =
        text.lines().map(|line| line.chars().count().div_ceil(columns).max(1)).sum();
    needed >= usize::from(rows)
}

/// Shows `text`. The variables `hidden` are not passed to the program.
///
/// # Errors
/// If there is no such program, or it failed.
pub fn page(words: &[String], text: &str, hidden: &[String]) -> Result<(), ProcessError> {
    let set = [("LESS", "FRX"), ("LV", "-c")];
    process::show(words, &ProcessInput { input: text.as_bytes(), set: &set, hidden })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pager_and_cat_are_none() {
        assert_eq!(words(None).unwrap(), ["less", "-FRX"]);
        assert_eq!(words(Some("bat  --plain")).unwrap(), ["bat", "--plain"]);
        for none in ["", " ", "cat"] {
            assert_eq!(words(Some(none)), None, "{none:?}");
        }
    }

    #[test]
    fn wrapped_lines_count_as_rows() {
        assert!(!exceeds_screen("a\nb\n", (80, 24)));
        assert!(!exceeds_screen(&"a\n".repeat(23), (80, 24)));
        assert!(exceeds_screen(&"a\n".repeat(24), (80, 24)));
        assert!(exceeds_screen(&"ä".repeat(80 * 24), (80, 24)));
        assert!(exceeds_screen("a\n\nb", (0, 3)));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_fails_or_is_missing_is_an_error() {
        let page = |words: &str| {
            page(&words.split(' ').map(str::to_owned).collect::<Vec<_>>(), "text", &[])
        };
        assert!(page("true").is_ok());
        assert!(page("false").is_err());
        assert!(page("no-such-pager").is_err());
    }
}
