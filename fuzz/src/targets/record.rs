//! Records of lists: `model::record`, and how the vault keeps their text.

use linkvault::model::{DecodedRecord, RecordKey, Resource};
use linkvault::vault::template::{pack, unpack};

pub const WORDS: &[&str] = &[
    "{\"id\":1,",
    "\"id\":\"7\"",
    "\"name\":\"",
    "\"domain\":",
    "\"campaign\":",
    "\"public\":true",
    "\"rotator\":false",
    "\"list\":\"https:\\/\\/a.example\\/\"",
    "\"type\":\"links\"",
    "\"scans\":12",
    "\"date\":\"2026-01-01 00:00:00\"",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\/",
    "null",
    "-0",
    "1e3",
    "9223372036854775807",
    "\"\u{fffc}\"",
    "\u{1}",
    "\"data\":{",
    "[",
    "]",
    "}",
    " ",
    "\t",
];

pub fn run(input: &[u8]) {
    let (which, raw) = super::choice(input);
    let resource = Resource::ALL[which % Resource::ALL.len()];
    let Ok(raw) = std::str::from_utf8(raw) else { return };
    let channel = (resource == Resource::ChannelItems).then_some(7);
    let decoded = match DecodedRecord::read(resource, channel, raw) {
        Ok(decoded) => decoded,
        Err(problem) => {
            return super::assert_readable(
                &problem.to_string().replace(char::is_control, " "),
                200,
            );
        }
    };
    assert_eq!(decoded.record.raw, raw);
    assert_eq!(decoded.record.values.len(), resource.spec().read_fields().count());
    assert_eq!(decoded.members.len(), decoded.places.len());
    let key = decoded.record.key.to_string();
    assert_eq!(RecordKey::parse(resource, &key).as_ref(), Some(&decoded.record.key), "{key:?}");

    // What the vault stores gives back the text to the byte.
    let packed = pack(resource, &decoded);
    let again = unpack(&packed.template, &decoded.record.values, packed.extra.as_deref());
    assert_eq!(again.as_deref(), Ok(raw));

    // What is decoded depends on the text alone.
    let owned = decoded.record.clone().into_owned();
    assert_eq!(
        owned,
        DecodedRecord::read(resource, channel, &owned.raw)
            .map(|it| it.record)
            .unwrap_or_else(|it| panic!("{it}"))
    );
}
