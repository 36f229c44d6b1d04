//! Removes the secrets of this process from every text that comes from outside.
//!
//! A service may return a key in any encoding: with JSON, percent or HTML escapes, escaped twice,
//! as hexadecimal digits or base64, with white space in between, in other letter case. [`Redactor`]
//! finds a secret in all of them and replaces it by [`PLACEHOLDER`]; all other bytes remain.
//! [`RedactingTransport`] applies it to each response and error of a transport, so that no other
//! part of the program receives a secret from the service.
//!
//! The length of a secret decides where it is removed:
//!
//! * 8 characters or more (digits only: 16): everywhere.
//! * 4 to 7 characters (digits only: up to 15): as a whole word, but not in records of a
//!   successful response, where the word may be data. The response's `message` is not a record.
//! * fewer: nowhere, since one or two letters are in every text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind, packed};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::envelope::success_messages;
use super::http::{Method, RemovedSecrets, Request, Response, Transport, TransportError};
pub use crate::api::redact::decoding::STRONG_SECRET_LENGTH;
use crate::api::redact::decoding::{Decoding, Mapped, has_escape, pass, quick_pass};
use crate::api::webhook_url::WebhookUrl;

mod decoding;
#[cfg(test)]
mod tests;

/// Replaces a secret.
pub const PLACEHOLDER: &str = "[redacted]";
/// Length from which on secrets are removed at all.
pub const MIN_SECRET_LENGTH: usize = 4;
/// Length from which on a part of an address is a secret by itself.
const MIN_TOKEN_LENGTH: usize = 16;
/// Length up to which the encodings of a secret are searched for; a longer one only literally.
const MAX_ENCODED_LENGTH: usize = 4 << 10;
/// Maximum number of times that nested escapes are resolved.
const MAX_PASSES: usize = 12;
/// Size of the overlapping pieces in which text is searched.
const PIECE: usize = 1 << 20;
const OVERLAP: usize = 1 << 16;

const AS_WRITTEN: Decoding = Decoding { decode: false, loose: true };
const DECODED: Decoding = Decoding { decode: true, loose: true };

/// The secrets of a process. Clones share the same list.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// All secrets.
    all: BTreeSet<String>,
    /// Searchers for long secrets, in groups of doubling size: adding one is cheap, and there are
    /// few groups.
    strong: Vec<Group>,
    weak: Vec<Vec<u8>>,
    /// Whether a secret has a character that begins an escape.
    escapes: bool,
}

/// Some secrets, and a searcher for all their encodings.
struct Group {
    secrets: Vec<Vec<Pattern>>,
    search: AhoCorasick,
    /// A faster search for any of them, if the processor and the number of patterns allow it.
    any: Option<packed::Searcher>,
}

impl Group {
    fn is_in(&self, text: &[u8]) -> bool {
        match &self.any {
            Some(any) => any.find(text).is_some(),
            None => self.search.is_match(text),
        }
    }
}

/// One byte string to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: Vec<u8>,
    /// Whether it is base64 without the first and last digits, which depend on adjacent bytes.
    base64: bool,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(…)")
    }
}

impl Redactor {
    /// Adds a secret, which is removed by the rules of this module.
    pub fn add(&self, secret: &str) {
        self.add_all([secret]);
    }

    /// As [`Redactor::add`] for each of `secrets`, with one searcher for all of them.
    pub fn add_all<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut strong = Vec::new();
        for secret in secrets.into_iter().map(str::trim) {
            if secret.len() < MIN_SECRET_LENGTH || known.all.contains(secret) {
                continue;
            }
            // A secret within the placeholder would be found there again.
            if PLACEHOLDER.contains(&secret.to_lowercase()) {
                continue;
            }
            known.all.insert(secret.to_owned());
            let digits = secret.bytes().all(|byte| byte.is_ascii_digit());
            if secret.len() < if digits { 2 * STRONG_SECRET_LENGTH } else { STRONG_SECRET_LENGTH } {
                known.weak.push(secret.as_bytes().to_vec());
                continue;
            }
            known.escapes |= secret.contains(['\\', '%', '&', '<']);
            strong.push(patterns(secret));
        }
        if !strong.is_empty() {
            known.add(strong);
        }
    }

    /// Removes the secrets from the result of a request.
    ///
    /// # Errors
    /// The error in `outcome`, without secrets.
    pub fn outcome(
        &self,
        request: &Request,
        outcome: Result<Response, TransportError>,
    ) -> Result<Response, TransportError> {
        let clean = |why: String| self.text(&why).into_owned();
        match outcome {
            Ok(response) => Ok(self.response(request, response)),
            Err(TransportError::NotSent(why)) => Err(TransportError::NotSent(clean(why))),
            Err(TransportError::Untrusted(why)) => Err(TransportError::Untrusted(clean(why))),
            Err(TransportError::Unknown(why)) => Err(TransportError::Unknown(clean(why))),
            Err(TransportError::TooLarge(bytes)) => Err(TransportError::TooLarge(bytes)),
        }
    }

    /// What this redactor removes now.
    #[must_use]
    pub fn removed_secrets(&self) -> RemovedSecrets {
        let number = self.0.read().unwrap_or_else(PoisonError::into_inner).all.len();
        RemovedSecrets { list: Arc::as_ptr(&self.0).addr(), number }
    }

    /// Adds the addresses of webhooks: the whole of each, and each part that is long enough to be a
    /// secret.
    pub fn add_addresses<'h>(&self, hooks: impl IntoIterator<Item = &'h WebhookUrl>) {
        self.add_all(hooks.into_iter().flat_map(address_secrets));
    }

    /// As [`Redactor::add_addresses`] for one address.
    pub fn add_address(&self, hook: &WebhookUrl) {
        self.add_addresses([hook]);
    }

    /// `text` without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes(), true) {
            None => Cow::Borrowed(text),
            Some(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// `response` to `request` without secrets. Valid JSON remains valid.
    #[must_use]
    pub fn response(&self, request: &Request, mut response: Response) -> Response {
        if let Some(clean) = self.body(request, &response) {
            response.body = clean;
        }
        for (name, value) in &mut response.headers {
            for part in [name, value] {
                if let Some(clean) = self.bytes(part.as_bytes(), true) {
                    *part = String::from_utf8_lossy(&clean).into_owned();
                }
            }
        }
        response
    }

    /// The body of `response` without secrets; `None` if it contains none.
    fn body(&self, request: &Request, response: &Response) -> Option<Vec<u8>> {
        let weak = !self.0.read().unwrap_or_else(PoisonError::into_inner).weak.is_empty();
        // Bodies are large: the envelope is parsed only if it makes a difference.
        let reads = weak && request.method == Method::Get;
        let Some(messages) = reads.then(|| success_messages(response)).flatten() else {
            return self.bytes(&response.body, weak);
        };
        let mut body = Cow::Borrowed(&response.body[..]);
        // From the last on, so that the offsets of the others remain valid.
        for message in messages.iter().rev().map(|it| it.get()) {
            if let Some(clean) = self.bytes(message.as_bytes(), true) {
                let begin = message.as_ptr().addr() - response.body.as_ptr().addr();
                body.to_mut().splice(begin..begin + message.len(), clean);
            }
        }
        let clean = self.bytes(&body, false);
        clean.or(match body {
            Cow::Owned(body) => Some(body),
            Cow::Borrowed(_) => None,
        })
    }

    /// `text` without secrets; `None` if it contains none.
    fn bytes(&self, text: &[u8], weak: bool) -> Option<Vec<u8>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if !known.is_in(text, weak) {
            return None;
        }
        let json = |text: &[u8]| serde_json::from_slice::<IgnoredAny>(text).is_ok();
        let clean = known.removed(text, weak);
        if !known.is_in(&clean, weak) && (json(&clean) || !json(text)) {
            return Some(clean);
        }
        // Replacing the bytes made the JSON invalid, for example for a number, or the beginning of
        // the secret is part of an escape.
        if let Ok(mut document) = serde_json::from_slice::<Value>(text) {
            let before = document.clone();
            known.clean(&mut document, weak);
            let clean = (document != before).then(|| serde_json::to_vec(&document).ok());
            return clean.map(|it| it.unwrap_or_else(|| format!("\"{PLACEHOLDER}\"").into()));
        }
        Some(PLACEHOLDER.as_bytes().to_vec())
    }
}

/// What of the address of a webhook is secret.
fn address_secrets(hook: &WebhookUrl) -> Vec<&str> {
    let address = hook.reveal();
    let path = address.split_once("://").and_then(|(_, place)| place.split_once('/'));
    let Some((_, path)) = path.filter(|(_, path)| !path.is_empty()) else { return Vec::new() };
    // Words without a digit are names, which may be in any record.
    let token = |part: &&str| {
        part.len() >= MIN_TOKEN_LENGTH && part.bytes().any(|byte| byte.is_ascii_digit())
    };
    std::iter::once(address).chain(path.split(['/', '?', '&', '=']).filter(token)).collect()
}

impl Known {
    fn add(&mut self, mut secrets: Vec<Vec<Pattern>>) {
        while let Some(last) = self.strong.pop_if(|last| last.secrets.len() <= secrets.len()) {
            secrets.extend(last.secrets);
        }
        let texts = || secrets.iter().flatten().map(|pattern| &pattern.text);
        let search = AhoCorasick::builder().match_kind(MatchKind::Standard).build(texts());
        // Building fails only for an unrealistic number of patterns.
        if let Ok(search) = search {
            let any = packed::Searcher::new(texts());
            self.strong.push(Group { secrets, search, any });
        }
    }

    fn is_in(&self, text: &[u8], weak: bool) -> bool {
        if self.strong.is_empty() {
            return weak && self.has_weak_match(text);
        }
        let found = |text: &[u8]| self.strong.iter().any(|group| group.is_in(text));
        let (mut now, mut next) = (Vec::new(), Vec::new());
        let mut escaped = quick_pass(text, &mut now);
        if found(&now) {
            return true;
        }
        // What was resolved as an escape may be the beginning of the secret.
        if escaped && found(text) {
            return true;
        }
        if escaped && self.escapes {
            pass(text, AS_WRITTEN, &mut next);
            if found(&next) {
                return true;
            }
        }
        for _ in 1..MAX_PASSES {
            escaped = escaped && has_escape(&now);
            if !escaped {
                break;
            }
            quick_pass(&now, &mut next);
            if found(&next) {
                return true;
            }
            std::mem::swap(&mut now, &mut next);
        }
        weak && self.has_weak_match(text)
    }

    fn has_weak_match(&self, text: &[u8]) -> bool {
        !self.weak.is_empty() && !self.weak_matches(text).is_empty()
    }

    /// `text` with the placeholder in place of each secret in any encoding.
    fn removed(&self, text: &[u8], weak: bool) -> Vec<u8> {
        let mut places = Vec::new();
        let mut begin = 0;
        loop {
            let end = text.len().min(begin + PIECE);
            let piece = &text[begin..end];
            let mut found = self.matches_in(piece);
            if weak {
                found.extend(self.weak_matches(piece));
            }
            places.extend(found.into_iter().map(|it| it.start + begin..it.end + begin));
            if end == text.len() {
                break;
            }
            begin = end - OVERLAP;
        }
        places.sort_by_key(|place| place.start);
        let (mut clean, mut done) = (Vec::with_capacity(text.len()), 0);
        for place in places {
            if place.start >= done {
                clean.extend_from_slice(&text[done..place.start]);
                clean.extend_from_slice(PLACEHOLDER.as_bytes());
            }
            done = done.max(place.end);
        }
        clean.extend_from_slice(&text[done..]);
        clean
    }

    fn matches_in(&self, text: &[u8]) -> Vec<Range<usize>> {
        find_in_each_decoding(text, [AS_WRITTEN, DECODED], |read| {
            let mut places = Vec::new();
            for group in &self.strong {
                let patterns: Vec<_> = group.secrets.iter().flatten().collect();
                for hit in group.search.find_overlapping_iter(&read.bytes) {
                    let mut range = hit.range();
                    if patterns[hit.pattern().as_usize()].base64 {
                        range = with_adjacent_digits(&read.bytes, range);
                    }
                    places.push(range);
                }
            }
            places
        })
    }

    fn weak_matches(&self, text: &[u8]) -> Vec<Range<usize>> {
        let how = |decode| Decoding { decode, loose: false };
        find_in_each_decoding(text, [how(false), how(true)], |read| {
            let words = self.weak.iter().flat_map(|secret| {
                let found = memchr::memmem::find_iter(&read.bytes, secret);
                found.map(|at| at..at + secret.len()).collect::<Vec<_>>()
            });
            let letter = |at: Option<&u8>| at.is_some_and(|byte| byte.is_ascii_alphanumeric());
            let whole = |word: &Range<usize>| {
                let before = word.start.checked_sub(1).and_then(|at| read.bytes.get(at));
                !letter(before) && !letter(read.bytes.get(word.end))
            };
            words.filter(whole).collect()
        })
    }

    /// Removes secrets from each text and number of `value`.
    fn clean(&self, value: &mut Value, weak: bool) {
        let clean = |text: &str| {
            let found = self.is_in(text.as_bytes(), weak);
            found.then(|| match self.removed(text.as_bytes(), weak) {
                clean if self.is_in(&clean, weak) => PLACEHOLDER.to_owned(),
                clean => String::from_utf8_lossy(&clean).into_owned(),
            })
        };
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if let Some(text) = clean(&number.to_string()) {
                    *value = Value::String(text);
                }
            }
            Value::String(text) => {
                if let Some(clean) = clean(text) {
                    *text = clean;
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|it| self.clean(it, weak)),
            Value::Object(members) => {
                let old = std::mem::take(members);
                for (name, mut value) in old {
                    self.clean(&mut value, weak);
                    members.insert(clean(&name).unwrap_or(name), value);
                }
            }
        }
    }
}

/// Ranges in `text` of the matches of `find`, which gets the text unchanged and after each pass of
/// resolving escapes.
fn find_in_each_decoding(
    text: &[u8],
    [as_written, decoded]: [Decoding; 2],
    find: impl Fn(&Mapped) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut note = |read: &Mapped| {
        let found = find(read).into_iter().filter(|it| !it.is_empty());
        places.extend(found.map(|it| read.from[it.start]..read.to[it.end - 1]));
    };
    let mut plain = Mapped::default();
    pass(text, as_written, &mut plain);
    note(&plain);
    let mut now = Mapped::default();
    let mut escaped = pass(text, decoded, &mut now);
    for _ in 0..MAX_PASSES {
        if !escaped {
            break;
        }
        note(&now);
        let mut next = Mapped::default();
        escaped = pass(&now.bytes, decoded, &mut next);
        now = next.after(&now);
    }
    places
}

/// `range` extended by adjacent digits of the same base64 text.
fn with_adjacent_digits(text: &[u8], range: Range<usize>) -> Range<usize> {
    const MAX_DIGITS: usize = 2;
    let digit = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    let before = text[..range.start].iter().rev().take(MAX_DIGITS).take_while(digit).count();
    let after = text[range.end..].iter().take(MAX_DIGITS).take_while(digit).count();
    range.start - before..range.end + after
}

/// The byte strings to search for `secret`.
fn patterns(secret: &str) -> Vec<Pattern> {
    if secret.len() > MAX_ENCODED_LENGTH {
        return vec![Pattern { text: secret.into(), base64: false }];
    }
    let as_read = |text: &[u8], how: Decoding| {
        let mut read = Vec::new();
        let again = pass(text, how, &mut read);
        (read, again)
    };
    let mut texts = vec![secret.into(), as_read(secret.as_bytes(), AS_WRITTEN).0];
    let mut resolved = secret.as_bytes().to_vec();
    for _ in 0..MAX_PASSES {
        let (read, again) = as_read(&resolved, DECODED);
        resolved = read;
        if !again {
            break;
        }
    }
    texts.push(resolved);
    // In the encoding of HTML forms.
    texts.push(secret.replace(' ', "+").to_ascii_lowercase().into_bytes());
    let hex: Vec<_> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    texts.extend([hex.concat().into_bytes(), hex.join(":").into_bytes()]);
    let mut patterns: Vec<_> =
        texts.into_iter().map(|text| Pattern { text, base64: false }).collect();
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let text = base64_core(secret.as_bytes(), before, alphabet).to_ascii_lowercase();
            patterns.push(Pattern { text, base64: true });
        }
    }
    let mut different: Vec<Pattern> = Vec::new();
    for pattern in patterns {
        if pattern.text.len() >= STRONG_SECRET_LENGTH && !different.contains(&pattern) {
            different.push(pattern);
        }
    }
    different
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 digits that depend only on `secret`, if `before` bytes precede it in its group of
/// three.
fn base64_core(secret: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |at: usize| {
        let byte = (at / 8).checked_sub(before).and_then(|at| secret.get(at))?;
        Some(usize::from(byte >> (7 - at % 8) & 1))
    };
    let digits = (before + secret.len()) * 8 / 6;
    let digit = |at: usize| (0..6).try_fold(0, |sum, nth| Some(sum * 2 + bit(at * 6 + nth)?));
    (0..digits).filter_map(digit).map(|digit| alphabet[digit]).collect()
}

/// Removes secrets from the responses and errors of a transport.
#[derive(Debug, Clone)]
pub struct RedactingTransport<T> {
    /// The transport that sends the requests.
    pub inner: T,
    /// The secrets to remove.
    pub redactor: Redactor,
}

impl<T: Transport> Transport for RedactingTransport<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let outcome = self.inner.send(request);
        self.redactor.outcome(request, outcome)
    }
}
