//! What a behaviour's value can be: how it is written, read and listed.

/// A value that a behaviour can take, in the words of the command line.
pub trait ChoiceValue: Sized {
    /// Reads the value; `None` when it is not one.
    fn parse(text: &str) -> Option<Self>;
    /// The value as [`ChoiceValue::parse`] reads it.
    fn show(&self) -> String;
    /// The words that can stand here; capitals stand for something to fill in.
    fn values() -> &'static [&'static str];
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($variant),+ }

        impl $crate::sandbox::behaviour_values::ChoiceValue for $name {
            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn show(&self) -> String {
                match self { $(Self::$variant => $text,)+ }.to_owned()
            }

            fn values() -> &'static [&'static str] {
                &[$($text),+]
            }
        }
    };
}
pub(super) use choice;

impl ChoiceValue for u64 {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|number| *number > 0)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn values() -> &'static [&'static str] {
        &["NUMBER"]
    }
}

impl ChoiceValue for i64 {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn values() -> &'static [&'static str] {
        &["NUMBER"]
    }
}

impl ChoiceValue for Option<u64> {
    fn parse(text: &str) -> Option<Self> {
        if text == "none" { Some(None) } else { text.parse().ok().map(Some) }
    }

    fn show(&self) -> String {
        self.map_or_else(|| "none".to_owned(), |number| number.to_string())
    }

    fn values() -> &'static [&'static str] {
        &["none", "NUMBER"]
    }
}

/// The host that every request is sent on to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere(pub Option<String>);

impl ChoiceValue for Elsewhere {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Self(None)),
            url if url.starts_with("http://") || url.starts_with("https://") => {
                Some(Self(Some(url.trim_end_matches('/').to_owned())))
            }
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.0.clone().unwrap_or_else(|| "none".to_owned())
    }

    fn values() -> &'static [&'static str] {
        &["none", "URL"]
    }
}

/// The parts of the API that this deployment does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOffered(pub Vec<&'static str>);

/// Ways to name a part of the API: its list path without `/api/`.
const PARTS: [&str; 8] =
    ["account", "domains", "overlay", "campaigns", "channels", "splash", "pixels", "qr"];

impl ChoiceValue for NotOffered {
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self(Vec::new()));
        }
        let part = |name: &str| PARTS.into_iter().find(|part| *part == name);
        text.split('+').map(part).collect::<Option<Vec<_>>>().map(Self)
    }

    fn show(&self) -> String {
        if self.0.is_empty() { "none".to_owned() } else { self.0.join("+") }
    }

    fn values() -> &'static [&'static str] {
        &[
            "none",
            "account",
            "domains",
            "overlay",
            "campaigns",
            "channels",
            "splash",
            "pixels",
            "qr",
            "PART+PART",
        ]
    }
}

/// How many requests a window holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// That many; one more is refused.
    Per(u64),
    /// No limit, written as a limit of 0.
    Zero,
    /// No limit in practice: a very large number, never reached.
    Endless,
}

impl ChoiceValue for RateLimit {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "zero" | "0" => Some(Self::Zero),
            "none" => Some(Self::Endless),
            number => number.parse().ok().map(Self::Per),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Per(number) => number.to_string(),
            Self::Zero => "zero".to_owned(),
            Self::Endless => "none".to_owned(),
        }
    }

    fn values() -> &'static [&'static str] {
        &["NUMBER", "zero", "none"]
    }
}
