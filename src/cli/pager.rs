//! Shows long text page by page, with the program that `PAGER` names.

use super::question::PagingGuard;
use super::terminal::SavedMode;
use crate::process::{self, ProcessError, ProcessInput};

/// The program if `PAGER` is not set: it ends at once where the text fits the screen, leaves the
/// text there, and shows colours.
const DEFAULT: &str = "less -FRX";

/// The prompt that `less` shows instead of `:`, which does not say how to go on. Letters that mean
/// something in a prompt have a backslash.
const PROMPT: &str = r"-Ps-- Space\: next page, q\: leave this view?e (end). --";

/// The last line of each text.
pub const LAST_LINE: &str = "-- end of the steps; q leaves this view, then the summary follows --";

/// The words of the program to use, from the values of `PAGER` and `LESS`. `None`: the text is
/// printed.
#[must_use]
pub fn words(pager: Option<&str>, less: Option<&str>) -> Option<Vec<String>> {
    let mut words: Vec<_> =
        pager.unwrap_or(DEFAULT).split_whitespace().map(str::to_owned).collect();
    let is_less = words.first().is_some_and(|it| it == "less" || it.ends_with("/less"));
    let own = |options: &str| options.contains('P') || options.contains("prompt");
    if is_less && !words.iter().any(|it| own(it)) && !less.is_some_and(own) {
        words.insert(1, PROMPT.to_owned());
    }
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

/// Shows `text`. The variables `hidden` are not passed to the program. A signal ends it through
/// `paging`.
///
/// # Errors
/// If there is no such program, or it failed.
pub fn page(
    words: &[String],
    text: &str,
    hidden: &[String],
    paging: &PagingGuard,
) -> Result<(), ProcessError> {
    let set = [("LESS", "FRX"), ("LV", "-c")];
    let _mode = SavedMode::of_stdin();
    let input = ProcessInput { input: text.as_bytes(), set: &set, hidden };
    process::show(words, &input, |id| paging.set_pager(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::question::Prompt;

    #[test]
    fn an_empty_pager_and_cat_are_none() {
        assert_eq!(words(Some("bat  --plain"), None).unwrap(), ["bat", "--plain"]);
        for none in ["", " ", "cat"] {
            assert_eq!(words(Some(none), None), None, "{none:?}");
        }
    }

    #[test]
    fn less_gets_a_prompt_unless_the_user_has_one() {
        assert_eq!(words(None, None).unwrap(), ["less", PROMPT, "-FRX"]);
        assert_eq!(words(Some("/usr/bin/less"), Some("-R")).unwrap(), ["/usr/bin/less", PROMPT]);
        assert_eq!(words(Some("less -PX"), None).unwrap(), ["less", "-PX"]);
        assert_eq!(words(None, Some("-R --prompt=x")).unwrap(), ["less", "-FRX"]);
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
            let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            page(&words, "text", &[], &Prompt::default().paging())
        };
        assert!(page("true").is_ok());
        assert!(page("false").is_err());
        assert!(page("no-such-pager").is_err());
    }
}
