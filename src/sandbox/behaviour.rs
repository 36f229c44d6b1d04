//! The behaviours that the API document leaves open, as named choices. Each default is the plainest
//! reading of the document, or what live services do where the document is silent. This table is
//! the source of the parser, `--behaviour list` and the docs.

use std::fmt;
use std::str::FromStr;

pub use crate::sandbox::behaviour_values::{ChoiceValue, NotOffered, RateLimit, RedirectTarget};

use crate::sandbox::behaviour_values::choice;

choice!(ErrorType { Documented = "documented", Integer = "integer", Text = "string" });
choice!(Ids { Integers = "integers", Strings = "strings", Mixed = "mixed" });
choice!(Counts { Integers = "integers", Strings = "strings" });
choice!(Booleans { Json = "json", Integers = "integers", Strings = "strings" });
choice!(ResultIs { Page = "page", Total = "total", Absent = "absent" });
choice!(NextPage { Following = "last+1", Null = "null", Same = "same" });
choice!(OverLimit { Clamp = "clamp", Refuse = "refuse" });
choice!(BeyondLast { Empty = "empty", Clamp = "clamp", Repeat = "repeat" });
choice!(Envelope {
    Full = "full",
    NoMaxPage = "no-maxpage",
    NoPerPage = "no-perpage",
    NoCurrentPage = "no-currentpage",
    RecordsOnly = "records-only",
});
choice!(Order { Ascending = "ascending", Descending = "descending", ByName = "by-name" });
choice!(Twins { None = "none", Beside = "beside", Last = "last" });
choice!(CampaignList {
    Documented = "documented",
    Name = "name",
    Domain = "domain",
    Campaign = "campaign",
});
choice!(CampaignCreate { Domain = "domain", Name = "name", Campaign = "campaign" });
choice!(OverlayKey { Cta = "cta", Overlay = "overlay" });
choice!(EmptyMaps { Object = "object", Zero = "zero", Array = "array" });
choice!(CreateStatus { Ok = "200", Created = "201" });
choice!(ChannelUpdate { Message = "message", Whole = "whole" });
choice!(PixelAnswer { Id = "id", Message = "message", Bare = "bare" });
choice!(PixelType { Warn = "warn", Refuse = "refuse" });
choice!(QrName { Ignored = "ignored", Taken = "taken" });
choice!(QrData { Documented = "documented", Lists = "lists", Objects = "objects" });
choice!(QrUpdateType { Ignored = "ignored", Required = "required" });
choice!(Unlisted { Ignore = "ignore", Refuse = "refuse" });
choice!(AssignAgain { Accept = "accept", Refuse = "refuse" });
choice!(Dns { Pointed = "pointed", Missing = "missing" });
choice!(Names { Kept = "kept", Lowered = "lowered" });
choice!(StoredTexts {
    Kept = "kept",
    Trimmed = "trimmed",
    Collapsed = "collapsed",
    Lowered = "lowered",
    WithoutSlash = "without-slash",
    Encoded = "encoded",
    Escaped = "escaped",
});
choice!(NameCase { Ignored = "ignored", Exact = "exact" });
choice!(ErrorStatus { Fitting = "4xx", Ok = "200" });
choice!(UnknownPath { Json = "json", Html = "html" });
choice!(BadKey { Forbidden = "403", Unauthorized = "401", Ok = "200" });
choice!(Authorization { Read = "read", Dropped = "dropped" });
choice!(NotOfferedStatus { NotFound = "404", Forbidden = "403" });
choice!(Window { Fixed = "fixed", Aligned = "aligned", Sliding = "sliding" });
choice!(Throttle {
    Json429 = "429-json",
    Json200 = "200-json",
    Html429 = "429-html",
    Html503 = "503-html",
});
choice!(ThrottleError { Status = "429", One = "1" });
choice!(RetryAfter { Body = "body", Header = "header", Both = "both", None = "none" });
choice!(RateHeaders { Yes = "yes", None = "none" });
choice!(Reset {
    EpochSeconds = "epoch-seconds",
    EpochMs = "epoch-ms",
    RelativeSeconds = "relative-seconds",
    HttpDate = "http-date",
    Iso = "iso",
    SqlDatetime = "sql-datetime",
    Past = "past",
    FarFuture = "far-future",
});
choice!(DateHeader { Yes = "yes", No = "no" });
choice!(Escapes { Plain = "plain", Php = "php" });
choice!(Layout { Compact = "compact", Pretty = "pretty" });
choice!(Compression { None = "none", Gzip = "gzip" });
choice!(ContentType { Ignored = "ignored", Required = "required" });

/// The declaration of one behaviour.
#[derive(Debug)]
pub struct Choice {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one sentence, without a period.
    pub about: &'static str,
    values: fn() -> &'static [&'static str],
    show: fn(&Behaviour) -> String,
    set: fn(&mut Behaviour, &str) -> bool,
}

impl Choice {
    /// The allowed values; a word in capitals is a placeholder.
    #[must_use]
    pub fn values(&self) -> &'static [&'static str] {
        (self.values)()
    }

    /// The default value.
    #[must_use]
    pub fn default_value(&self) -> String {
        (self.show)(&Behaviour::default())
    }

    /// The value in `behaviour`.
    #[must_use]
    pub fn value_in(&self, behaviour: &Behaviour) -> String {
        (self.show)(behaviour)
    }
}

macro_rules! behaviours {
    ($($name:literal $field:ident: $type:ty = $default:expr, $about:literal;)+) => {
        /// The behaviour of a sandbox where the API document leaves it open.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Behaviour { $(#[doc = $about] pub $field: $type,)+ }

        impl Default for Behaviour {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        /// All behaviours, in the order of the docs.
        pub static CHOICES: &[Choice] = &[$(Choice {
            name: $name,
            about: $about,
            values: <$type as ChoiceValue>::values,
            show: |behaviour| behaviour.$field.show(),
            set: |behaviour, text| {
                let value = <$type as ChoiceValue>::parse(text);
                value.is_some_and(|value| { behaviour.$field = value; true })
            },
        },)+];
    };
}

behaviours! {
    "error-type" error_type: ErrorType = ErrorType::Documented,
        "How `error` is written: \"0\" on lists and 0 elsewhere, or one type everywhere";
    "ids" ids: Ids = Ids::Integers,
        "How ids are written; mixed: strings in lists of domains, overlays, pixels and QR codes";
    "counts" counts: Counts = Counts::Integers,
        "How counts and page numbers are written";
    "booleans" booleans: Booleans = Booleans::Json,
        "How `public` and `starred` are written";
    "result" result: ResultIs = ResultIs::Page,
        "What `result` of a list counts: the records of the page, all records, or no `result` at all";
    "nextpage" next_page: NextPage = NextPage::Following,
        "The value of `nextpage` on the last page";
    "perpage" per_page: u64 = 15,
        "The page size without the parameter `limit`";
    "max-limit" max_limit: Option<u64> = None,
        "The maximum `limit`";
    "over-limit" over_limit: OverLimit = OverLimit::Clamp,
        "What happens to a `limit` above the maximum";
    "beyond-last" beyond_last: BeyondLast = BeyondLast::Empty,
        "The response for a page after the last; repeat: the records of the last page with the requested number";
    "envelope" envelope: Envelope = Envelope::Full,
        "Which fields the envelope of a list has";
    "order" order: Order = Order::Ascending,
        "The order of lists: by id or by name";
    "twins" twins: Twins = Twins::None,
        "Whether the first record of each list is listed twice: next to itself, or again at the end";
    "campaign-list" campaign_list: CampaignList = CampaignList::Documented,
        "The key of a campaign's name in lists; documented: `domain` in the second record of a page, else `name`";
    "campaign-create" campaign_create: CampaignCreate = CampaignCreate::Domain,
        "The key of a campaign's name in the responses to create and update";
    "overlay-key" overlay_key: OverlayKey = OverlayKey::Cta,
        "The list key of overlays";
    "empty-maps" empty_maps: EmptyMaps = EmptyMaps::Object,
        "How a statistics map without entries is written";
    "create-status" create_status: CreateStatus = CreateStatus::Ok,
        "The HTTP status of a create";
    "channel-update" channel_update: ChannelUpdate = ChannelUpdate::Message,
        "The response to a channel update: a message, or the whole channel";
    "pixel-answer" pixel_answer: PixelAnswer = PixelAnswer::Id,
        "The response to a pixel create, besides `error`";
    "pixel-type" pixel_type: PixelType = PixelType::Warn,
        "What happens to a pixel type outside the list";
    "qr-name" qr_name: QrName = QrName::Ignored,
        "Whether a QR code create accepts a `name`";
    "qr-data" qr_data: QrData = QrData::Documented,
        "When QR code data can be an object, as PHP writes an array with keys; documented: for every type except text and link; lists: never";
    "qr-update-type" qr_update_type: QrUpdateType = QrUpdateType::Ignored,
        "What a QR code update does with `type`";
    "unlisted-fields" unlisted: Unlisted = Unlisted::Ignore,
        "What happens to request fields that the document does not list";
    "assign-again" assign_again: AssignAgain = AssignAgain::Accept,
        "The response to an assignment that already exists";
    "links" links: Option<u64> = None,
        "The largest id of a short link or bio page that exists; none: every id exists";
    "dns" dns: Dns = Dns::Pointed,
        "Whether new domains point to the service; those under .invalid never do";
    "names" names: Names = Names::Kept,
        "How the service stores names";
    "texts" texts: StoredTexts = StoredTexts::Kept,
        "How the service stores texts: unchanged, without blanks at both ends, also with one space for several blanks, in lower case, without a slash at the end, with percent-encoding in URLs, or with HTML entities";
    "name-case" name_case: NameCase = NameCase::Ignored,
        "Whether campaigns and channels whose names differ in case only have the same name";
    "error-status" error_status: ErrorStatus = ErrorStatus::Fitting,
        "The HTTP status of a refusal";
    "unknown-path" unknown_path: UnknownPath = UnknownPath::Json,
        "The body of the 404 response for a path outside the document";
    "bad-key" bad_key: BadKey = BadKey::Forbidden,
        "The HTTP status for a missing or wrong key";
    "authorization" authorization: Authorization = Authorization::Read,
        "Whether the service reads the Authorization header";
    "not-offered" not_offered: NotOffered = NotOffered(Vec::new()),
        "Parts of the API that are not offered";
    "not-offered-status" not_offered_status: NotOfferedStatus = NotOfferedStatus::NotFound,
        "The HTTP status of a part that is not offered";
    "redirect" redirect: RedirectTarget = RedirectTarget(None),
        "The host that every request is redirected to, with 301";
    "cap-domains" cap_domains: Option<u64> = None,
        "The maximum number of domains in the plan";
    "cap-campaigns" cap_campaigns: Option<u64> = None,
        "The maximum number of campaigns in the plan";
    "cap-channels" cap_channels: Option<u64> = None,
        "The maximum number of channels in the plan";
    "cap-pixels" cap_pixels: Option<u64> = None,
        "The maximum number of pixels in the plan";
    "cap-qr" cap_qr: Option<u64> = None,
        "The maximum number of QR codes in the plan";
    "rate-limit" rate_limit: RateLimit = RateLimit::Per(30),
        "Requests per window; zero: no limit, written as 0; none: no limit";
    "rate-window" rate_window: u64 = 60,
        "The window of the rate limit in seconds";
    "window" window: Window = Window::Fixed,
        "When a window starts: at its first request, at multiples of its length, or sliding";
    "throttle" throttle: Throttle = Throttle::Json429,
        "The response to a request above the limit";
    "throttle-error" throttle_error: ThrottleError = ThrottleError::Status,
        "The value of `error` for a request above the limit";
    "retry-after" retry_after: RetryAfter = RetryAfter::Body,
        "Where the response to a request above the limit has the seconds to wait";
    "rate-headers" rate_headers: RateHeaders = RateHeaders::Yes,
        "Whether responses have the X-RateLimit headers";
    "reset" reset: Reset = Reset::EpochSeconds,
        "How X-RateLimit-Reset is written";
    "date-header" date_header: DateHeader = DateHeader::Yes,
        "Whether responses have a Date header";
    "skew" skew: i64 = 0,
        "Seconds by which the service's clock is ahead";
    "json-escapes" escapes: Escapes = Escapes::Plain,
        "Whether slashes and non-ASCII characters are escaped in JSON";
    "json-layout" layout: Layout = Layout::Compact,
        "Whether JSON is indented";
    "compression" compression: Compression = Compression::None,
        "Whether responses over a socket are compressed if the client accepts it";
    "content-type" content_type: ContentType = ContentType::Ignored,
        "Whether a body over a socket needs the content type application/json";
}

/// Why a behaviour cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BehaviourError {
    /// Not of the form `name=value`.
    #[error("`{0}` does not have the form name=value")]
    Form(String),
    /// No behaviour has this name.
    #[error("unknown behaviour `{given}`; did you mean `{nearest}`?")]
    Name {
        /// The given name.
        given: String,
        /// The most similar name.
        nearest: &'static str,
    },
    /// The behaviour does not have this value.
    #[error(
        "invalid value `{given}` for behaviour `{name}`; did you mean `{nearest}`? Allowed are {all}"
    )]
    Value {
        /// Name of the behaviour.
        name: &'static str,
        /// The given value.
        given: String,
        /// The most similar value.
        nearest: &'static str,
        /// All allowed values, separated by commas.
        all: String,
    },
}

impl Behaviour {
    /// Sets the behaviour called `name`.
    ///
    /// # Errors
    /// An unknown name or an invalid value, with the most similar valid one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BehaviourError> {
        let Some(choice) = CHOICES.iter().find(|choice| choice.name == name) else {
            let nearest = nearest(name, CHOICES.iter().map(|choice| choice.name));
            return Err(BehaviourError::Name { given: name.to_owned(), nearest });
        };
        if (choice.set)(self, value) {
            return Ok(());
        }
        Err(BehaviourError::Value {
            name: choice.name,
            given: value.to_owned(),
            nearest: nearest(value, choice.values().iter().copied()),
            all: choice.values().join(", "),
        })
    }

    /// Parses `name=value` pairs separated by commas; other behaviours have their defaults.
    ///
    /// # Errors
    /// The error of the first invalid pair.
    pub fn parse(text: &str) -> Result<Self, BehaviourError> {
        let mut behaviour = Self::default();
        behaviour.apply(text)?;
        Ok(behaviour)
    }

    /// Applies `name=value` pairs separated by commas, in order.
    ///
    /// # Errors
    /// The error of the first invalid pair; the pairs before it are applied.
    pub fn apply(&mut self, text: &str) -> Result<(), BehaviourError> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| BehaviourError::Form(part.to_owned()))?;
            self.set(name.trim(), value.trim())?;
        }
        Ok(())
    }
}

impl FromStr for Behaviour {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// The choices that differ from the default, in the form of [`Behaviour::parse`].
impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen =
            CHOICES.iter().filter(|choice| choice.value_in(self) != choice.default_value());
        let parts: Vec<_> =
            chosen.map(|choice| format!("{}={}", choice.name, choice.value_in(self))).collect();
        f.write_str(&parts.join(","))
    }
}

fn nearest(given: &str, valid: impl Iterator<Item = &'static str>) -> &'static str {
    let near = |name: &&str| (strsim::jaro_winkler(given, name) * 1_000_000.0) as u64;
    valid.max_by_key(near).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_descriptions_have_no_period() {
        for (index, choice) in CHOICES.iter().enumerate() {
            assert!(CHOICES[..index].iter().all(|other| other.name != choice.name));
            assert!(!choice.about.is_empty() && !choice.about.ends_with('.'), "{}", choice.name);
        }
    }

    #[test]
    fn every_value_can_be_set_and_is_shown_unchanged() {
        for choice in CHOICES {
            for word in choice.values().iter().filter(|word| !word.contains(char::is_uppercase)) {
                let behaviour = Behaviour::parse(&format!("{}={word}", choice.name)).unwrap();
                assert_eq!(choice.value_in(&behaviour), *word, "{}", choice.name);
            }
        }
    }

    #[test]
    fn the_first_value_is_the_default() {
        for choice in CHOICES.iter().filter(|choice| choice.values()[0] != "NUMBER") {
            assert_eq!(choice.default_value(), choice.values()[0], "{}", choice.name);
        }
    }

    #[test]
    fn the_displayed_text_parses_back() {
        let text = "ids=strings,result=total,max-limit=100,not-offered=overlay+splash,skew=-90";
        let behaviour = Behaviour::parse(text).unwrap();
        assert_eq!(behaviour.to_string(), text);
        assert_eq!(Behaviour::parse(&behaviour.to_string()).unwrap(), behaviour);
        assert_eq!(Behaviour::default().to_string(), "");
    }

    #[test]
    fn an_unknown_name_or_value_suggests_a_similar_one() {
        let wrong = Behaviour::parse("resullt=total").unwrap_err();
        assert!(wrong.to_string().contains("did you mean `result`?"), "{wrong}");
        let wrong = Behaviour::parse("ids=string").unwrap_err();
        assert!(wrong.to_string().contains("did you mean `strings`?"), "{wrong}");
        assert!(Behaviour::parse("ids").is_err());
        assert!(Behaviour::parse("perpage=0").is_err());
    }
}
