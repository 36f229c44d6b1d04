//! Splits received records into values, template and extra text. The records of one list have few
//! templates, so a record is first matched with the templates before it, and decoded only if none
//! fits. Both ways have the same result, which a property test checks. Pure: no SQL here.

use std::ops::Range;
use std::sync::Arc;

use crate::model::members::TokenScan;
use crate::model::record::read_field;
use crate::model::{
    DecodedRecord, FieldKind, FieldValue, Record, RecordKey, RecordProblem, Resource, Role, value,
};
use crate::vault::template::{self, SLOT, TemplateSlot, VERBATIM};

/// One record with its template, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateMatch<'a> {
    /// The record.
    pub record: Record<'a>,
    /// Fields whose value does not fit their kind. They are kept as [`FieldValue::Json`].
    pub warnings: Vec<RecordProblem>,
    pub(super) template: Arc<str>,
    pub(super) extra: Option<String>,
    /// Byte range of the counter's value in the text, if a series holds it.
    pub(super) counter: Option<Range<usize>>,
}

impl<'a> TemplateMatch<'a> {
    /// Splits a decoded record of `resource`.
    #[must_use]
    pub fn new(resource: Resource, decoded: DecodedRecord<'a>) -> Self {
        let packed = template::pack(resource, &decoded);
        let is_counter = |place: &Option<usize>| {
            place.is_some_and(|place| read_field(resource, place).role == Role::Counter)
        };
        let at = decoded.places.iter().position(is_counter).filter(|_| packed.counts);
        let counter = at.map(|at| &decoded.members[at]);
        Self {
            counter: counter.map(|member| member.start..member.start + member.raw_value.len()),
            record: decoded.record,
            warnings: decoded.warnings,
            template: packed.template.into(),
            extra: packed.extra,
        }
    }

    /// Stores the complete text verbatim, instead of a template that no other record shares.
    pub(super) fn make_verbatim(&mut self) {
        self.template = VERBATIM.into();
        self.extra = Some(self.record.raw.as_ref().to_owned());
        self.counter = None;
    }
}

/// Splits the records of one list, and remembers their templates.
#[derive(Debug)]
pub struct TemplateMatcher {
    resource: Resource,
    channel: Option<i64>,
    /// The templates of the last records, newest first.
    patterns: Vec<Pattern>,
}

/// Number of templates to remember; a list rarely has more.
const MAX_PATTERNS: usize = 4;

impl TemplateMatcher {
    /// A matcher for records of `resource`. `channel` is the channel whose items are listed; `None`
    /// for other resources.
    #[must_use]
    pub fn new(resource: Resource, channel: Option<i64>) -> Self {
        Self { resource, channel, patterns: Vec::new() }
    }

    /// Splits one record.
    ///
    /// # Errors
    /// As [`DecodedRecord::read`].
    pub fn split<'a>(&mut self, raw: &'a str) -> Result<TemplateMatch<'a>, RecordProblem> {
        if let Some(split) = self.patterns.iter().find_map(|pattern| pattern.split(raw)) {
            return Ok(split);
        }
        let decoded = DecodedRecord::read(self.resource, self.channel, raw)?;
        let split = TemplateMatch::new(self.resource, decoded);
        if let Some(pattern) = Pattern::of(self.resource, &split) {
            self.patterns.truncate(MAX_PATTERNS - 1);
            self.patterns.insert(0, pattern);
        }
        Ok(split)
    }
}

/// A parsed template.
#[derive(Debug)]
struct Pattern {
    resource: Resource,
    template: Arc<str>,
    /// Number of bytes before the first slot.
    head: usize,
    slots: Vec<Slot>,
    /// Number of values of a record.
    values: usize,
}

/// A slot of a template, and the text after it.
#[derive(Debug)]
struct Slot {
    code: char,
    place: usize,
    then: Range<usize>,
}

impl Slot {
    /// Reads a value if it is written by this slot's code.
    fn read<'a>(
        &self,
        kind: FieldKind,
        scan: &mut TokenScan<'a>,
    ) -> Option<(FieldValue<'a>, &'a str)> {
        if self.code == template::PLAIN_TEXT
            && let Some(raw_value) = scan.plain_string()
        {
            // Only text fields have this code, and the value is the text between the quotes.
            return Some((
                FieldValue::Text(raw_value.get(1..raw_value.len() - 1)?.into()),
                raw_value,
            ));
        }
        let raw_value = scan.raw_value()?;
        let value = value::read(kind, raw_value);
        (template::spell(&value, raw_value) == TemplateSlot::Code(self.code))
            .then_some((value, raw_value))
    }
}

impl Pattern {
    /// The pattern of a record whose values are all in columns.
    fn of(resource: Resource, split: &TemplateMatch<'_>) -> Option<Self> {
        if resource == Resource::ChannelItems || split.extra.is_some() {
            return None;
        }
        let template = Arc::clone(&split.template);
        let mut slots = Vec::new();
        let mut at = template.find(SLOT)?;
        let head = at;
        while at < template.len() {
            let mut chars = template.get(at + 1..)?.chars();
            let (code, letter) = chars.next().zip(chars.next())?;
            let place = u32::from(letter).checked_sub(u32::from('a'))? as usize;
            let from = at + 3;
            at = template.get(from..)?.find(SLOT).map_or(template.len(), |next| from + next);
            slots.push(Slot { code, place, then: from..at });
        }
        let values = split.record.values.len();
        Some(Self { resource, template, head, slots, values })
    }

    /// Splits `raw` if it has this template.
    fn split<'a>(&self, raw: &'a str) -> Option<TemplateMatch<'a>> {
        let spec = self.resource.spec();
        let mut values = Vec::with_capacity(self.values);
        values.resize_with(self.values, || FieldValue::Null);
        let mut counter = None;
        let mut scan = TokenScan::new(raw);
        scan.literal(self.template.get(..self.head)?)?;
        for slot in &self.slots {
            let field = read_field(self.resource, slot.place);
            let (value, raw_value) = slot.read(field.kind, &mut scan)?;
            if field.role == Role::Counter {
                counter = Some(scan.at() - raw_value.len()..scan.at());
            }
            *values.get_mut(slot.place)? = value;
            scan.literal(self.template.get(slot.then.clone())?)?;
        }
        let id_place = spec.field("id").map_or(0, |(place, _)| place);
        let FieldValue::Int(id) = values[id_place] else { return None };
        let record = Record { key: RecordKey::Id(id), values, raw: raw.into() };
        let template = Arc::clone(&self.template);
        let complete = scan.at() == raw.len();
        complete.then_some(TemplateMatch {
            record,
            warnings: Vec::new(),
            template,
            extra: None,
            counter,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::template_match::*;
    use proptest::prelude::*;

    /// Splits each text by the patterns before it and by decoding, and compares.
    fn both_ways(resource: Resource, texts: &[String]) -> usize {
        let mut splitter = TemplateMatcher::new(resource, Some(7));
        let mut by_pattern = 0;
        for raw in texts {
            by_pattern += usize::from(splitter.patterns.iter().any(|it| it.split(raw).is_some()));
            let alone = DecodedRecord::read(resource, Some(7), raw)
                .map(|it| TemplateMatch::new(resource, it));
            assert_eq!(splitter.split(raw), alone, "{raw}");
        }
        by_pattern
    }

    #[test]
    fn similar_records_are_split_by_their_pattern() {
        let plain = |id: i64, scans: i64, name: &str| {
            format!(r#"{{"id":{id},"link":"https://a/{id}","scans":{scans},"name":"{name}"}}"#)
        };
        let escaped = |id: i64| {
            format!(
                r#"{{"id":"{id}","link":"https:\/\/a\/{id}","scans":"1","name":"\u00e9","date":null}}"#
            )
        };
        let texts = [
            plain(1, 5, "one"),
            plain(-2, 0, ""),
            escaped(3),
            plain(4, 1, "日本"),
            escaped(5),
            plain(6, 0, "\\/"),
            plain(7, 0, "\\u002f"),
        ];
        assert_eq!(both_ways(Resource::QrCodes, &texts), 3);
    }

    #[test]
    fn a_record_without_a_matching_pattern_is_decoded() {
        for odd in [
            r#"{"id":07,"name":"x"}"#,
            r#"{"id":-0,"name":"x"}"#,
            r#"{"id":"8","name":"x"}"#,
            r#"{"id":9,"name":2026}"#,
            r#"{"id":9,"name":null}"#,
            r#"{"id":9,"name":"x","name":"y"}"#,
            r#"{"id":9,"name":"x"} "#,
            r#"{"id":9,"name":"x""#,
            r#"{"id":99999999999999999999,"name":"x"}"#,
            "{\"id\":9,\"name\":\"\t\"}",
            "",
        ] {
            let texts = [r#"{"id":1,"name":"x"}"#.to_owned(), odd.to_owned()];
            assert_eq!(both_ways(Resource::Campaigns, &texts), 0, "{odd}");
        }
    }

    fn raw_value() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "1",
            "0",
            "-0",
            "01",
            "12",
            "\"12\"",
            "\"-3\"",
            "\"03\"",
            "true",
            "\"true\"",
            "\"1\"",
            "false",
            "null",
            "\"\"",
            "\"a\"",
            "\"a/b\"",
            "\"a\\/b\"",
            "\"\\u00e9\"",
            "\"é\"",
            "\"\\u002f\"",
            "\"\\ud800\"",
            "1.5",
            "[1]",
            "{\"a\":1}",
            "\"\\\"\"",
        ])
    }

    proptest! {
        #[test]
        fn a_pattern_splits_like_the_decoder(
            records in prop::collection::vec(
                (raw_value(), raw_value(), raw_value(), prop::sample::select(vec!["name", "domain", "x"])), 1..12),
            items in any::<bool>(),
        ) {
            let resource = if items { Resource::ChannelItems } else { Resource::Campaigns };
            let text = |(id, name, public, key): &(&str, &str, &str, &str)| {
                format!(r#"{{"id":{id},"{key}":{name},"type":"links","public":{public}}}"#)
            };
            let texts: Vec<_> = records.iter().map(text).collect();
            both_ways(resource, &texts);
        }
    }
}
