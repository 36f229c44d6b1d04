//! The types of behaviours' values: how each is parsed, shown and listed.

/// A value of a behaviour, in the spelling of the command line.
pub trait ChoiceValue: Sized {
    /// Parses a value; `None` if the text is not one.
    fn parse(text: &str) -> Option<Self>;
    /// The value in the form of [`ChoiceValue::parse`].
    fn show(&self) -> String;
    /// The allowed values; a word in capitals is a placeholder.
    fn values() -> &'static [&'static str];
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        #[doc = "Values of a choice in [`CHOICES`](crate::sandbox::behaviour::CHOICES), which describes it."]
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $(#[doc = concat!("`", $text, "` on the command line.")] $variant),+ }

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

/// The host that every request is redirected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectTarget(pub Option<String>);

impl ChoiceValue for RedirectTarget {
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

/// The parts of the API that are not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOffered(pub Vec<&'static str>);

/// Names of the parts of the API: the list path without `/api/`.
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

/// The number of requests allowed in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// This number of requests; the next one is refused.
    Per(u64),
    /// No limit, reported as a limit of 0.
    Zero,
    /// No limit, reported as a very large number.
    Unlimited,
}

impl ChoiceValue for RateLimit {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "zero" | "0" => Some(Self::Zero),
            "none" => Some(Self::Unlimited),
            number => number.parse().ok().map(Self::Per),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Per(number) => number.to_string(),
            Self::Zero => "zero".to_owned(),
            Self::Unlimited => "none".to_owned(),
        }
    }

    fn values() -> &'static [&'static str] {
        &["NUMBER", "zero", "none"]
    }
}
