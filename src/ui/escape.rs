//! Escapes every value in a page: HTML markup, control characters and direction marks.

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html as Markup};

use crate::escaped::Escaped;

/// The escaper of all templates.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

impl Escaper for Html {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        write!(Inner(&mut out), "{}", Escaped(text))
    }
}

struct Inner<'a, W>(&'a mut W);

impl<W: Write> Write for Inner<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Markup.write_escaped_str(&mut *self.0, text)
    }
}

#[cfg(test)]
mod tests {
    use crate::ui::escape::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        Html.write_escaped_str(&mut out, text).unwrap();
        out
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escaped("<script>"), "&#60;script&#62;");
        assert_eq!(escaped("\"><img onerror='x'>"), "&#34;&#62;&#60;img onerror=&#39;x&#39;&#62;");
        assert_eq!(escaped("a\u{202e}b\u{1b}[2J\n"), r"a\u{202e}b\u{1b}[2J\n");
        assert_eq!(escaped("Käse & 寿司"), "Käse &#38; 寿司");
    }
}
