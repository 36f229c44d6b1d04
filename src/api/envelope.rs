//! Parses the envelope of a response body, leniently and without copying. The records inside remain
//! raw text, which `model` decodes.

use super::error::{ApiErrorKind, excerpt, message};
use super::http::Response;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The top level of a successful response.
#[derive(Debug, Clone, Copy)]
pub struct ResponseBody<'a> {
    /// The complete document.
    pub bytes: &'a [u8],
    /// The service's message: a JSON string with its quotes.
    pub message: Option<&'a RawValue>,
}

/// One page of a list. A count is `None` if the service sent none, or something that is not a whole
/// number (`null`, `false`).
#[derive(Debug, Default)]
pub struct ResponsePage<'a> {
    /// The records as raw JSON, in the service's order.
    pub records: Vec<&'a RawValue>,
    /// The member `result`: number of records of the page or of the list, depending on the service.
    pub result: Option<u64>,
    /// The member `perpage`: maximum number of records of a page.
    pub perpage: Option<u64>,
    /// The member `currentpage`: number of this page, from 1.
    pub currentpage: Option<u64>,
    /// The member `nextpage`: number of the next page.
    pub nextpage: Option<u64>,
    /// The member `maxpage`: number of the last page.
    pub maxpage: Option<u64>,
}

/// Whether a response reports an exceeded rate limit.
#[derive(Debug, Default)]
pub(super) struct ThrottleSignal {
    pub refused: bool,
    /// `Retry-After` from the body, as text.
    pub retry_after: Option<String>,
}

/// Whether the response to a write proves that the write was not executed. After any other response
/// that is no success, lists have to show whether it was: a service may fail, and a proxy may
/// respond, after the work is done. The words of a message prove nothing.
fn was_not_executed(response: &Response) -> bool {
    let error = || head(&response.body).ok().and_then(|head| head.error.map(verdict));
    match response.status {
        401 | 403 | 429 => true,
        500.. => false,
        300..=399 | 408 => matches!(error(), Some(EnvelopeVerdict::Status(429))),
        _ => match error() {
            Some(EnvelopeVerdict::Status(code)) => code < 500 && code != 408,
            Some(EnvelopeVerdict::Failed) => true,
            Some(EnvelopeVerdict::Ok | EnvelopeVerdict::Unexpected) | None => false,
        },
    }
}

/// Classifies the response to a write: [`ApiErrorKind::has_unknown_outcome`] is true for each error
/// after which the write may have been executed. Some services respond to a deletion with a success
/// status and an empty body.
pub fn classify_write(response: &Response) -> Result<ResponseBody<'_>, ApiErrorKind> {
    let status = response.status;
    let blank = response.body.iter().all(u8::is_ascii_whitespace);
    if (200..300).contains(&status) && blank {
        return Ok(ResponseBody { bytes: &response.body, message: None });
    }
    classify(response).map_err(|kind| match (was_not_executed(response), kind) {
        (true, ApiErrorKind::Redirected { .. }) => {
            let head = head(&response.body).unwrap_or_default();
            ApiErrorKind::Throttled(message(&head.text()))
        }
        (false, ApiErrorKind::Throttled(message)) if status >= 500 => {
            ApiErrorKind::Refused { status, message }
        }
        (false, kind) if !kind.has_unknown_outcome() => {
            let why = "it does not say whether the write was executed".to_owned();
            malformed(response, InvalidBody { why, cut: false })
        }
        (_, kind) => kind,
    })
}

/// Classifies a response as a success or an error.
///
/// # Errors
/// Any kind that a response can cause.
pub fn classify(response: &Response) -> Result<ResponseBody<'_>, ApiErrorKind> {
    let status = response.status;
    if (300..400).contains(&status) {
        let target = response.header("location").unwrap_or("an unnamed address");
        return Err(ApiErrorKind::Redirected { status, target: message(target) });
    }
    if (200..300).contains(&status) && is_long_success(&response.body) {
        return Ok(ResponseBody { bytes: &response.body, message: None });
    }
    match head(&response.body) {
        Ok(head) => classify_head(response, &head),
        Err(invalid) => Err(not_json(response, invalid)),
    }
}

/// The values of `message` at the top level of a successful response. `None` for an error, whatever
/// its status: the service also sends errors with status 200.
pub(super) fn success_messages(response: &Response) -> Option<Vec<&RawValue>> {
    classify(response).ok()?;
    let mut messages = Vec::new();
    visit(&response.body, |name, value| {
        if name == "message" {
            messages.push(value);
        }
    })
    .ok()?;
    Some(messages)
}

/// Parses one page of a list whose records are in `data` under one of `list_keys`.
///
/// # Errors
/// Why the body is not a page, in words. A missing list is an error and never an empty list, which
/// a comparison of states would take for "all deleted".
pub fn page<'a>(body: &'a [u8], list_keys: &[&str]) -> Result<ResponsePage<'a>, String> {
    let mut page = ResponsePage::default();
    let mut best = None;
    let seed = Member {
        name: "data",
        seed: PageSeed { keys: list_keys, page: &mut page, best: &mut best },
    };
    // In valid UTF-8, serde_json need not check each record's bytes.
    let found = match std::str::from_utf8(body) {
        Ok(text) => read(seed, serde_json::Deserializer::from_str(text)),
        Err(_) => read(seed, serde_json::Deserializer::from_slice(body)),
    };
    let found = found.map_err(|error| error.to_string())?;
    if !found {
        return Err("`data` is missing".into());
    }
    match best {
        Some(_) => Ok(page),
        None => Err(format!("the list `{}` is missing from `data`", list_keys.join("` or `"))),
    }
}

fn read<'a, S: DeserializeSeed<'a>, R: serde_json::de::Read<'a>>(
    seed: S,
    mut json: serde_json::Deserializer<R>,
) -> Result<S::Value, serde_json::Error> {
    let value = seed.deserialize(&mut json)?;
    json.end().map(|()| value)
}

/// Finds the value of `key` at the top level: `data` of the account, `details` and `data` of a QR
/// code.
///
/// # Errors
/// Why there is no such value, in words.
pub fn single<'a>(body: &'a [u8], key: &str) -> Result<&'a RawValue, String> {
    let mut found = None;
    visit(body, |name, value| {
        if name == key {
            found = Some(value);
        }
    })
    .map_err(|error| error.to_string())?;
    match found {
        Some(value) if value.get() != "null" => Ok(value),
        _ => Err(format!("`{key}` is missing")),
    }
}

/// A body of at least this many bytes is a list and never an error.
const MIN_LIST_LENGTH: usize = 4096;

/// Whether a long body begins like a success and ends like a list, so that it is not cut off.
/// [`page`] and [`single`] check the rest: pages are large and should be parsed only once.
fn is_long_success(body: &[u8]) -> bool {
    let begins = body.starts_with(b"{\"error\":\"0\",") || body.starts_with(b"{\"error\":0,");
    body.len() >= MIN_LIST_LENGTH && begins && body.trim_ascii_end().ends_with(b"]}}")
}

/// Whether a response reports an exceeded rate limit, and its `Retry-After`.
pub(super) fn throttle(response: &Response) -> ThrottleSignal {
    let by_status = response.status == 429;
    // Only small bodies can be errors, so that pages need not be parsed for this.
    let head = if by_status || response.body.len() < MIN_LIST_LENGTH {
        head(&response.body).ok()
    } else {
        None
    };
    let Some(head) = head else {
        return ThrottleSignal { refused: by_status, retry_after: None };
    };
    ThrottleSignal {
        refused: by_status || says_throttled(&head),
        retry_after: head.retry_after.map(|raw| text(raw).into_owned()),
    }
}

fn says_throttled(head: &Head<'_>) -> bool {
    match head.error.map(verdict) {
        Some(EnvelopeVerdict::Status(429)) => true,
        Some(EnvelopeVerdict::Ok) | None => false,
        Some(_) => {
            head.retry_after.is_some()
                || head.text().to_lowercase().starts_with("too many requests")
        }
    }
}

/// The top-level members that distinguish success from failure.
#[derive(Default)]
struct Head<'a> {
    error: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    retry_after: Option<&'a RawValue>,
    has_content: bool,
}

impl Head<'_> {
    fn text(&self) -> Cow<'_, str> {
        self.message.map_or(Cow::Borrowed(""), text)
    }
}

/// Why a body is not a JSON object.
struct InvalidBody {
    why: String,
    cut: bool,
}

fn head(body: &[u8]) -> Result<Head<'_>, InvalidBody> {
    let mut head = Head::default();
    visit(body, |name, value| match name {
        "error" => head.error = Some(value),
        "message" => head.message = Some(value),
        "data" | "details" | "id" => head.has_content = true,
        _ if name.eq_ignore_ascii_case("retry-after") || name == "retry_after" => {
            head.retry_after = Some(value);
        }
        _ => {}
    })
    .map_err(|error| invalid(body, &error))?;
    Ok(head)
}

fn invalid(body: &[u8], error: &serde_json::Error) -> InvalidBody {
    let blank = body.iter().all(u8::is_ascii_whitespace);
    let starts = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let cut = blank || (error.is_eof() && starts == Some(&b'{'));
    let why = match (blank, cut, starts) {
        (true, ..) => "the body is empty".to_owned(),
        (_, true, _) => "the document is cut off".to_owned(),
        (_, _, Some(b'{')) => format!("it is damaged ({error})"),
        (_, _, Some(b'[' | b'"' | b'0'..=b'9' | b'-')) => "it is not a JSON object".to_owned(),
        _ => "it is not JSON".to_owned(),
    };
    InvalidBody { why, cut }
}

/// The meaning of the `error` member.
enum EnvelopeVerdict {
    Ok,
    Failed,
    Status(u16),
    /// A list or an object, which no known service sends.
    Unexpected,
}

fn verdict(raw: &RawValue) -> EnvelopeVerdict {
    let text = text(raw);
    match text.trim() {
        _ if raw.get().starts_with(['[', '{']) => EnvelopeVerdict::Unexpected,
        "0" | "0.0" | "false" | "null" | "" => EnvelopeVerdict::Ok,
        other => match other.parse::<u16>() {
            Ok(status) if (400..600).contains(&status) => EnvelopeVerdict::Status(status),
            _ => EnvelopeVerdict::Failed,
        },
    }
}

fn classify_head<'a>(
    response: &'a Response,
    head: &Head<'a>,
) -> Result<ResponseBody<'a>, ApiErrorKind> {
    let good_status = (200..300).contains(&response.status);
    let verdict = head.error.map(verdict);
    match verdict {
        Some(EnvelopeVerdict::Ok) if good_status => {}
        // Without `error`, the other members must be those of this API.
        None if good_status && head.has_content => {}
        None if good_status => {
            let invalid = InvalidBody { why: "it has no `error`".into(), cut: false };
            return Err(malformed(response, invalid));
        }
        Some(EnvelopeVerdict::Status(code)) if good_status => return Err(refusal(code, head)),
        // Such a response does not tell whether a write was executed.
        Some(EnvelopeVerdict::Unexpected) if good_status && !says_throttled(head) => {
            let invalid = InvalidBody { why: "its `error` is not a number".into(), cut: false };
            return Err(malformed(response, invalid));
        }
        _ => return Err(refusal(response.status, head)),
    }
    Ok(ResponseBody { bytes: &response.body, message: head.message })
}

fn refusal(status: u16, head: &Head<'_>) -> ApiErrorKind {
    let text = head.text();
    let message = message(if text.is_empty() { "the service gave no reason" } else { &text });
    if status == 429 || says_throttled(head) {
        ApiErrorKind::Throttled(message)
    } else if status == 401 || (status < 500 && mentions_key(&text)) {
        ApiErrorKind::Unauthorised { status, message }
    } else {
        ApiErrorKind::Refused { status, message }
    }
}

/// Whether a message is about the API key, as in "A valid API key is required".
fn mentions_key(text: &str) -> bool {
    text.to_lowercase().contains("api key")
}

fn not_json(response: &Response, invalid: InvalidBody) -> ApiErrorKind {
    let status = response.status;
    let shown = || excerpt(&response.body);
    match status {
        429 => ApiErrorKind::Throttled(shown()),
        401 => ApiErrorKind::Unauthorised { status, message: shown() },
        403 if mentions_key(&shown()) => ApiErrorKind::Unauthorised { status, message: shown() },
        // A 403 of something else, such as a firewall, is not a refusal by the API.
        404 => ApiErrorKind::NotOffered { status, message: shown() },
        _ => malformed(response, invalid),
    }
}

fn malformed(response: &Response, invalid: InvalidBody) -> ApiErrorKind {
    malformed_response(response, invalid.why, invalid.cut)
}

/// The error for a response with an unexpected envelope, for callers of [`page`] and [`single`].
#[must_use]
pub fn malformed_response(response: &Response, why: String, cut: bool) -> ApiErrorKind {
    ApiErrorKind::Malformed {
        status: response.status,
        content_type: message(response.header("content-type").unwrap_or_default()),
        excerpt: excerpt(&response.body),
        why: message(&why),
        cut,
    }
}

/// A scalar as text: a string's content, anything else unchanged.
fn text(raw: &RawValue) -> Cow<'_, str> {
    let written = raw.get();
    if written.starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(written)
    {
        return Cow::Owned(text);
    }
    Cow::Borrowed(written)
}

/// Parses a whole number, written as a number or as a string.
fn number(raw: &RawValue) -> Option<u64> {
    let written = raw.get().trim_matches('"').trim();
    written.parse().ok().or_else(|| {
        let float: f64 = written.parse().ok()?;
        // Whole and small enough for an exact cast.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
    })
}

/// Calls `each` with every member of the top-level object, without copying. Values are skipped, not
/// parsed into a tree, so deep nesting cannot overflow the stack.
fn visit<'a>(body: &'a [u8], each: impl FnMut(&str, &'a RawValue)) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_slice(body);
    json.deserialize_map(Each(each))?;
    json.end()
}

struct Each<F>(F);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            let value: &'de RawValue = map.next_value()?;
            (self.0)(&name, value);
        }
        Ok(())
    }
}

/// A member's name, borrowed unless it is written with escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Finds one member of an object and deserializes it with `seed`. Returns whether the member
/// exists.
struct Member<'n, S> {
    name: &'n str,
    seed: S,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Member<'_, S> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Member<'_, S> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut seed = Some(self.seed);
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            if name != self.name {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            // With two members of one name, a guess could lose records.
            let Some(seed) = seed.take() else { return Err(duplicate_member(&name)) };
            map.next_value_seed(seed)?;
        }
        Ok(seed.is_none())
    }
}

fn duplicate_member<E: serde::de::Error>(name: &str) -> E {
    E::custom(format_args!("`{name}` is given twice"))
}

/// Deserializes `data` of a list into `page`. `best` is the index in `keys` of the list that was
/// chosen.
struct PageSeed<'p, 'k, 'a> {
    keys: &'k [&'k str],
    page: &'p mut ResponsePage<'a>,
    best: &'p mut Option<usize>,
}

impl<'de> DeserializeSeed<'de> for PageSeed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PageSeed<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`data` as a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen = vec![false; self.keys.len()];
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            if let Some(place) = self.keys.iter().position(|key| *key == name) {
                if std::mem::replace(&mut seen[place], true) {
                    return Err(duplicate_member(&name));
                }
                self.add_list(place, map.next_value::<Records<'de>>()?.0);
                continue;
            }
            let slot = match &*name {
                "result" => &mut self.page.result,
                "perpage" => &mut self.page.perpage,
                "currentpage" => &mut self.page.currentpage,
                "nextpage" => &mut self.page.nextpage,
                "maxpage" => &mut self.page.maxpage,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *slot = number(map.next_value()?);
        }
        Ok(())
    }
}

impl<'a> PageSeed<'_, '_, 'a> {
    /// Takes a list found under the key at index `place`. If a service sends the list under two
    /// names, the longer list is used, otherwise the earlier name.
    fn add_list(&mut self, place: usize, records: Vec<&'a RawValue>) {
        let better = match *self.best {
            None => true,
            Some(best) => {
                let (old, new) = (self.page.records.len(), records.len());
                new > old || (new == old && place < best)
            }
        };
        if better {
            self.page.records = records;
            *self.best = Some(place);
        }
    }
}

/// A list, or an object with numbers as names, which PHP makes of an array with gaps. Anything
/// else, including `null`, is an error.
struct Records<'a>(Vec<&'a RawValue>);

impl<'de> serde::Deserialize<'de> for Records<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(RecordsVisitor)
    }
}

struct RecordsVisitor;

impl<'de> Visitor<'de> for RecordsVisitor {
    type Value = Records<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut records = Vec::new();
        while let Some(record) = seq.next_element()? {
            records.push(record);
        }
        Ok(Records(records))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut records = Vec::new();
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(serde::de::Error::custom("expected a list, found an object"));
            }
            records.push(map.next_value()?);
        }
        Ok(Records(records))
    }
}

#[cfg(test)]
mod tests;
