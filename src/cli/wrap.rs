//! Wraps lines at words to the width of a terminal.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr as _;

/// `text` with lines of at most `width` columns, if its words allow it. A line is broken at spaces
/// only, and not between backticks, so that paths and commands can be copied. The rest of a broken
/// line is indented.
#[must_use]
pub fn wrapped(text: &str, width: u16) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| wrapped_line(line, width.into())).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, width: usize) -> Cow<'_, str> {
    if columns(line) <= width {
        return line.into();
    }
    let blanks = |text: &str| text.len() - text.trim_start_matches(' ').len();
    let indent = " ".repeat((blanks(line) + 2).min(width / 2));
    let (mut out, mut used, mut rest) = (String::new(), 0, line);
    while !rest.is_empty() {
        let space = blanks(rest);
        let word = word(&rest[space..], width - indent.len());
        let needed = columns(word);
        if !out.trim().is_empty() && used + space + needed > width {
            out.push('\n');
            out.push_str(&indent);
            used = indent.len();
        } else {
            out.push_str(&rest[..space]);
            used += space;
        }
        out.push_str(word);
        used += needed;
        rest = &rest[space + word.len()..];
    }
    out.into()
}

/// The beginning of `text` up to the next space, or up to one after the closing backtick, if that
/// fits into `width`.
fn word(text: &str, width: usize) -> &str {
    let mut end = 0;
    loop {
        let part = text[end..].split(' ').next().unwrap_or_default();
        let quoted = &text[end..];
        let close = part.find('`').and_then(|at| {
            let length = quoted[at + 1..].find('`')?;
            Some(end + at + length + 2)
        });
        match close {
            Some(close) if columns(&text[..close]) <= width => end = close,
            _ => return &text[..end + part.len()],
        }
    }
}

/// The columns of `text` on a terminal, without the codes of colours.
fn columns(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let plain = parts.next().map_or(0, |first| first.width());
    let after = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text).width());
    plain + after.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_words_and_indented() {
        assert_eq!(wrapped("one two three\nfour", 9), "one two\n  three\nfour");
        assert_eq!(wrapped("  a  b c d e", 8), "  a  b c\n    d e");
        assert_eq!(wrapped("  short", 9), "  short");
        assert_eq!(wrapped("größe größe", 11), "größe größe");
        assert_eq!(wrapped("大大大 大大大", 12), "大大大\n  大大大");
    }

    #[test]
    fn paths_commands_and_colours_stay_in_one_piece() {
        let long = "see /a/very/long/path/of/a/file now";
        assert_eq!(wrapped(long, 12), "see\n  /a/very/long/path/of/a/file\n  now");
        assert_eq!(wrapped("run `a b c` or `d`, then", 14), "run `a b c` or\n  `d`, then");
        assert_eq!(wrapped("please run `a b c`.", 12), "please run\n  `a b c`.");
        // A text that is too long, or has no end, is broken at its words.
        assert_eq!(wrapped("`aaaa bbbb cccc dddd`", 12), "`aaaa bbbb\n  cccc dddd`");
        assert_eq!(wrapped("it is ` a quote", 8), "it is `\n  a\n  quote");
        assert_eq!(
            wrapped("\u{1b}[1;31merror:\u{1b}[0m one", 10),
            "\u{1b}[1;31merror:\u{1b}[0m one"
        );
    }
}
