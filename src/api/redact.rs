//! The secrets of this process, and their removal from every text that comes from outside.
//!
//! A service may send a key back in any spelling: JSON, percent or HTML escapes, twice escaped,
//! as hexadecimal digits or base64, with blanks in between, in other letter case. [`Redactor`]
//! finds a secret in all of them and puts [`PLACEHOLDER`] in its place; everything else keeps
//! its bytes. [`RedactingTransport`] does that with each answer and each error of a transport, so that no
//! other part of the program ever sees a secret that was not its own.
//!
//! How long a secret is decides what is removed:
//!
//! * 8 characters or more (digits alone: 16): everywhere.
//! * 4 to 7 characters (digits alone: up to 15): as a whole word, and not from records that
//!   were read, where such a word may stand for itself. An answer has records if its envelope
//!   says success; its `message` is no record.
//! * fewer: nothing, since a letter or two stand in every text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind, packed};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::envelope::success_messages;
use super::http::{Method, Request, Response, Transport, TransportError};
use crate::api::redact::decoding::{Decoding, Mapped, has_escape, pass, quick_pass};
use crate::api::webhook_url::WebhookUrl;

mod decoding;
#[cfg(test)]
mod tests;

/// What stands where a secret stood.
pub const PLACEHOLDER: &str = "[redacted]";
/// Secrets of this length are removed wherever they stand.
pub const STRONG_SECRET_LENGTH: usize = 8;
/// Shorter secrets are not removed at all.
pub const SHORTEST: usize = 4;
/// A shorter part of an address is no secret of its own.
const TOKEN: usize = 16;
/// A longer secret is searched for only in its literal form.
const LONGEST: usize = 4 << 10;
/// How often text that shows further escapes is read again.
const PASSES: usize = 12;
/// Text is searched for places in pieces of this size, which overlap.
const PIECE: usize = 1 << 20;
const OVERLAP: usize = 1 << 16;

const AS_WRITTEN: Decoding = Decoding { decode: false, loose: true };
const DECODED: Decoding = Decoding { decode: true, loose: true };

/// The secrets of a process. Clones share them.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// Every secret that was added.
    all: Vec<String>,
    /// Their searchers, in groups that double: adding one is cheap, and there are few groups.
    strong: Vec<Group>,
    weak: Vec<Vec<u8>>,
    /// One of them has a character that begins an escape.
    escapes: bool,
}

/// Some secrets, and what finds any spelling of them in a text that was read.
struct Group {
    secrets: Vec<Vec<Pattern>>,
    search: AhoCorasick,
    /// Tells faster whether there is any, where the processor and the number of patterns allow it.
    any: Option<packed::Searcher>,
}

impl Group {
    fn stands_in(&self, text: &[u8]) -> bool {
        match &self.any {
            Some(any) => any.find(text).is_some(),
            None => self.search.is_match(text),
        }
    }
}

/// One thing to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: Vec<u8>,
    /// It lacks its first and last digits, which depend on what stands beside it.
    base64: bool,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(…)")
    }
}

impl Redactor {
    /// From now on `secret` is removed, by the rule of this module.
    pub fn add(&self, secret: &str) {
        let secret = secret.trim();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if secret.len() < SHORTEST || known.all.iter().any(|it| it == secret) {
            return;
        }
        // What stands in the placeholder would be found in it for ever.
        if PLACEHOLDER.contains(&secret.to_lowercase()) {
            return;
        }
        known.all.push(secret.to_owned());
        let digits = secret.bytes().all(|byte| byte.is_ascii_digit());
        if secret.len() < if digits { 2 * STRONG_SECRET_LENGTH } else { STRONG_SECRET_LENGTH } {
            known.weak.push(secret.as_bytes().to_vec());
            return;
        }
        known.escapes |= secret.contains(['\\', '%', '&', '<']);
        known.add(vec![patterns(secret)]);
    }

    /// From now on an address for messages is removed: the whole of it, and those of its parts
    /// that are long enough to be secrets.
    pub fn add_address(&self, hook: &WebhookUrl) {
        let address = hook.reveal();
        let Some((_, place)) = address.split_once("://") else { return };
        let Some((_, path)) = place.split_once('/') else { return };
        if path.is_empty() {
            return;
        }
        self.add(address);
        // Words without a digit are names, which may stand in any record.
        let token =
            |part: &&str| part.len() >= TOKEN && part.bytes().any(|byte| byte.is_ascii_digit());
        path.split(['/', '?', '&', '=']).filter(token).for_each(|part| self.add(part));
    }

    /// `text` without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes(), true) {
            None => Cow::Borrowed(text),
            Some(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// `response` to `request` without secrets. JSON stays JSON.
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

    /// The body of `response` without secrets, if there is one in it.
    fn body(&self, request: &Request, response: &Response) -> Option<Vec<u8>> {
        let weak = !self.0.read().unwrap_or_else(PoisonError::into_inner).weak.is_empty();
        // Bodies are large: they are only read for their envelope where it decides something.
        let reads = weak && request.method == Method::Get;
        let Some(messages) = reads.then(|| success_messages(response)).flatten() else {
            return self.bytes(&response.body, weak);
        };
        let mut body = Cow::Borrowed(&response.body[..]);
        // The last one first: the others stay where they are.
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

    /// `text` without secrets, if there is one in it.
    fn bytes(&self, text: &[u8], weak: bool) -> Option<Vec<u8>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if !known.stands_in(text, weak) {
            return None;
        }
        let json = |text: &[u8]| serde_json::from_slice::<IgnoredAny>(text).is_ok();
        let clean = known.removed(text, weak);
        if !known.stands_in(&clean, weak) && (json(&clean) || !json(text)) {
            return Some(clean);
        }
        // The secret is a number, say. Or there is none: its first letter is that of an escape.
        if let Ok(mut document) = serde_json::from_slice::<Value>(text) {
            let before = document.clone();
            known.clean(&mut document, weak);
            let clean = (document != before).then(|| serde_json::to_vec(&document).ok());
            return clean.map(|it| it.unwrap_or_else(|| format!("\"{PLACEHOLDER}\"").into()));
        }
        Some(PLACEHOLDER.as_bytes().to_vec())
    }
}

impl Known {
    fn add(&mut self, mut secrets: Vec<Vec<Pattern>>) {
        while let Some(last) = self.strong.pop_if(|last| last.secrets.len() <= secrets.len()) {
            secrets.extend(last.secrets);
        }
        let texts = || secrets.iter().flatten().map(|pattern| &pattern.text);
        let search = AhoCorasick::builder().match_kind(MatchKind::Standard).build(texts());
        // Only as many patterns as no process has cannot be searched for.
        if let Ok(search) = search {
            let any = packed::Searcher::new(texts());
            self.strong.push(Group { secrets, search, any });
        }
    }

    fn stands_in(&self, text: &[u8], weak: bool) -> bool {
        if self.strong.is_empty() {
            return weak && self.weak_stands_in(text);
        }
        let found = |text: &[u8]| self.strong.iter().any(|group| group.stands_in(text));
        let (mut now, mut next) = (Vec::new(), Vec::new());
        let mut escaped = quick_pass(text, &mut now);
        if found(&now) {
            return true;
        }
        // What was taken for an escape may be the begin of the secret.
        if escaped && found(text) {
            return true;
        }
        if escaped && self.escapes {
            pass(text, AS_WRITTEN, &mut next);
            if found(&next) {
                return true;
            }
        }
        for _ in 1..PASSES {
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
        weak && self.weak_stands_in(text)
    }

    fn weak_stands_in(&self, text: &[u8]) -> bool {
        !self.weak.is_empty() && !self.weak_places(text).is_empty()
    }

    /// `text` with the placeholder where it, read in any way, has a secret.
    fn removed(&self, text: &[u8], weak: bool) -> Vec<u8> {
        let mut places = Vec::new();
        let mut begin = 0;
        loop {
            let end = text.len().min(begin + PIECE);
            let piece = &text[begin..end];
            let mut found = self.places(piece);
            if weak {
                found.extend(self.weak_places(piece));
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

    fn places(&self, text: &[u8]) -> Vec<Range<usize>> {
        each_reading(text, [AS_WRITTEN, DECODED], |read| {
            let mut places = Vec::new();
            for group in &self.strong {
                let patterns: Vec<_> = group.secrets.iter().flatten().collect();
                for hit in group.search.find_overlapping_iter(&read.bytes) {
                    let mut range = hit.range();
                    if patterns[hit.pattern().as_usize()].base64 {
                        range = with_neighbours(&read.bytes, range);
                    }
                    places.push(range);
                }
            }
            places
        })
    }

    fn weak_places(&self, text: &[u8]) -> Vec<Range<usize>> {
        let how = |decode| Decoding { decode, loose: false };
        each_reading(text, [how(false), how(true)], |read| {
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
            let found = self.stands_in(text.as_bytes(), weak);
            found.then(|| match self.removed(text.as_bytes(), weak) {
                clean if self.stands_in(&clean, weak) => PLACEHOLDER.to_owned(),
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

/// Where `find` finds something in `text`, read as written and with its escapes resolved, layer
/// by layer.
fn each_reading(
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
    for _ in 0..PASSES {
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

/// `range` with the digits beside it that belong to the same base64 text.
fn with_neighbours(text: &[u8], range: Range<usize>) -> Range<usize> {
    const MOST: usize = 2;
    let digit = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    let before = text[..range.start].iter().rev().take(MOST).take_while(digit).count();
    let after = text[range.end..].iter().take(MOST).take_while(digit).count();
    range.start - before..range.end + after
}

/// What to search for to find `secret`.
fn patterns(secret: &str) -> Vec<Pattern> {
    if secret.len() > LONGEST {
        return vec![Pattern { text: secret.into(), base64: false }];
    }
    let as_read = |text: &[u8], how: Decoding| {
        let mut read = Vec::new();
        let again = pass(text, how, &mut read);
        (read, again)
    };
    let mut texts = vec![secret.into(), as_read(secret.as_bytes(), AS_WRITTEN).0];
    let mut resolved = secret.as_bytes().to_vec();
    for _ in 0..PASSES {
        let (read, again) = as_read(&resolved, DECODED);
        resolved = read;
        if !again {
            break;
        }
    }
    texts.push(resolved);
    // As a form writes blanks.
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

/// The base64 digits that `secret` alone decides where `before` bytes stand before it in its
/// group of three.
fn base64_core(secret: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |at: usize| {
        let byte = (at / 8).checked_sub(before).and_then(|at| secret.get(at))?;
        Some(usize::from(byte >> (7 - at % 8) & 1))
    };
    let digits = (before + secret.len()) * 8 / 6;
    let digit = |at: usize| (0..6).try_fold(0, |sum, nth| Some(sum * 2 + bit(at * 6 + nth)?));
    (0..digits).filter_map(digit).map(|digit| alphabet[digit]).collect()
}

/// A transport whose answers and errors hold no secret.
#[derive(Debug, Clone)]
pub struct RedactingTransport<T> {
    pub inner: T,
    pub redactor: Redactor,
}

impl<T: Transport> Transport for RedactingTransport<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let clean = |why: String| self.redactor.text(&why).into_owned();
        match self.inner.send(request) {
            Ok(response) => Ok(self.redactor.response(request, response)),
            Err(TransportError::NotSent(why)) => Err(TransportError::NotSent(clean(why))),
            Err(TransportError::Untrusted(why)) => Err(TransportError::Untrusted(clean(why))),
            Err(TransportError::Unknown(why)) => Err(TransportError::Unknown(clean(why))),
            Err(TransportError::TooLarge(bytes)) => Err(TransportError::TooLarge(bytes)),
        }
    }
}
