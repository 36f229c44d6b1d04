//! Tests that every encoding of a secret is found, and nothing else.

use super::*;
use proptest::prelude::*;

const KEY: &str = "k3y-of+the/Owner_9";

fn redactor(secret: &str) -> Redactor {
    let redactor = Redactor::default();
    redactor.add(secret);
    redactor
}

fn clean(secret: &str, text: &str) -> String {
    redactor(secret).text(text).into_owned()
}

/// Encodings of one character.
const SPELLINGS: usize = 15;

fn spell(letter: char, how: usize) -> String {
    let code = u32::from(letter);
    let utf8 = letter.to_string();
    let percent = |sign: &str| utf8.bytes().map(|it| format!("{sign}{it:02X}")).collect::<String>();
    let escaped = letter.is_ascii_punctuation();
    match how {
        1 => format!("\\u{code:04x}"),
        2 => format!("\\u{code:04X}"),
        3 => format!("\\\\u{code:04x}"),
        4 => percent("%"),
        5 => percent("%").to_lowercase(),
        6 => percent("%25"),
        7 => percent("%2525"),
        8 => format!("&#{code};"),
        9 => format!("&#x{code:x};"),
        10 => format!("&amp;#X{code:04X};"),
        11 => format!("%26%23{code}%3B"),
        12 => format!("\\x{code:02x}"),
        13 if escaped => format!("\\{letter}"),
        14 if escaped => format!("\\\\\\{letter}"),
        _ => utf8,
    }
}

fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for nth in 0..=group.len() {
            text.push(char::from(alphabet[bits >> (18 - 6 * nth) & 63]));
        }
    }
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[test]
fn a_secret_is_removed_in_every_spelling() {
    for how in 0..SPELLINGS {
        let spelled: String = KEY.chars().map(|letter| spell(letter, how)).collect();
        let cleaned = clean(KEY, &format!("{{\"message\":\"Bearer {spelled}, unknown\"}}"));
        assert_eq!(cleaned, "{\"message\":\"Bearer [redacted], unknown\"}", "{spelled}");
    }
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02X}")).collect();
    for spelled in [
        KEY.to_lowercase(),
        KEY.to_uppercase(),
        KEY.replace('-', "-\n  "),
        KEY.replace('+', " + "),
        KEY.replace('-', "-\\n"),
        KEY.replace('-', "-\u{200b}\u{a0}"),
        KEY.replace('-', "-<wbr>&shy;"),
        KEY.replace('+', "&plus;").replace('_', "&lowbar;"),
        KEY.replace('+', "\\053"),
        KEY.replace('+', "\\u{2b}"),
        KEY.replace('+', "\\U0000002b"),
        KEY.replace('+', "\u{3000}+\u{1680}").replace('_', "\u{180e}_\u{34f}"),
        KEY.replace('+', "&ensp;+&emsp;&thinsp;").replace('_', "&hairsp;_&numsp;"),
        KEY.replace('+', "&puncsp;+&NoBreak;").replace('_', "&ZeroWidthSpace;_"),
        KEY.replace('+', "&#000000000000043;").replace('_', "&#x000000000000005F;"),
        KEY.replace('+', "<span class=\"x\">+</span>").replace('_', "<b id=1>_</b >"),
        KEY.replace('+', "<!-- -->+<!---->").replace('_', "<br />_"),
        KEY.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        hex.to_lowercase(),
        hex,
        base64(KEY.as_bytes(), STANDARD),
    ] {
        assert_eq!(clean(KEY, &format!("<{spelled}>")), "<[redacted]>", "{spelled}");
    }
}

#[test]
fn base64_of_text_that_contains_the_secret_is_redacted_at_any_offset() {
    for before in ["", "B", "Be", "Bearer ", "user:"] {
        for alphabet in [STANDARD, URL_SAFE] {
            let text = base64(format!("{before}{KEY} and more").as_bytes(), alphabet);
            let cleaned = clean(KEY, &format!("Authorization: {text}"));
            assert!(cleaned.contains(PLACEHOLDER), "{before}: {cleaned}");
        }
    }
}

#[test]
fn a_secret_split_by_a_tag_or_a_comment_is_redacted() {
    let percent: String = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for spelled in [KEY, &KEY.to_uppercase(), &percent] {
        for text in
            [format!("<b {spelled}>"), format!("<b id={spelled}>"), format!("<!--{spelled}-->")]
        {
            let cleaned = clean(KEY, &text);
            assert_eq!(cleaned, text.replace(spelled, PLACEHOLDER));
        }
    }
}

#[test]
fn a_secret_of_escape_characters_is_redacted_in_every_spelling() {
    for secret in ["%41%42%43%44%45", "a\\nb\\tc\\\\d", "&lt;&gt;&amp;&#65;", "a%2Bb&c\\d<e>f%"] {
        let json = serde_json::to_string(secret).unwrap();
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let html = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        for spelled in [secret, &json, &percent, &html, &serde_json::to_string(&json).unwrap()] {
            let cleaned = clean(secret, &format!("({spelled})"));
            assert!(cleaned.contains(PLACEHOLDER), "{secret} as {spelled}: {cleaned}");
        }
    }
}

#[test]
fn a_password_of_any_script_and_with_spaces_is_redacted() {
    let secret = "größe 😀 pferd";
    for spelled in [
        secret.to_owned(),
        "gr\\u00f6\\u00dfe \\ud83d\\ude00 pferd".to_owned(),
        "gr%C3%B6%C3%9Fe+%F0%9F%98%80+pferd".to_owned(),
        "gr&#246;&#xdf;e &#128512; pferd".to_owned(),
    ] {
        assert_eq!(clean(secret, &format!("({spelled})")), "([redacted])", "{spelled}");
    }
}

#[test]
fn a_secret_after_an_apparent_escape_is_redacted() {
    for (secret, text, left) in [
        ("ab12cd34ef", "100%ab12cd34ef \\/", "100%[redacted] \\/"),
        ("n0secret-here", "C:\\n0secret-here", "C:\\[redacted]"),
        ("amp;secret-1", "a&amp;secret-1", "a&[redacted]"),
    ] {
        assert_eq!(clean(secret, text), left);
    }
}

#[test]
fn json_stays_valid_wherever_the_secret_occurs() {
    let number = "1234567890123456";
    for (secret, body, expected) in [
        (KEY, format!("{{\"{KEY}\":1}}"), "{\"[redacted]\":1}"),
        (number, format!("{{\"id\":{number},\"a\":[1]}}"), r#"{"id":"[redacted]","a":[1]}"#),
        ("n12345678", r#"{"a":"x\n12345678"}"#.to_owned(), r#"{"a":"x\n12345678"}"#),
        ("a\",\"b\":\"c", r#"{"x":"a","b":"c"}"#.to_owned(), r#"{"x":"[redacted]"}"#),
    ] {
        let clean = redactor(secret).bytes(body.as_bytes(), false).unwrap_or(body.into());
        assert_eq!(String::from_utf8(clean).unwrap(), expected);
    }
}

#[test]
fn everything_but_the_secret_keeps_its_bytes() {
    let body = [b"\xff\x00{\\u0041 & %41 ".to_vec(), KEY.into(), b" \xfe&amp;\\/".to_vec()];
    let clean = redactor(KEY).bytes(&body.concat(), false).unwrap();
    assert_eq!(clean, b"\xff\x00{\\u0041 & %41 [redacted] \xfe&amp;\\/");
}

#[test]
fn matches_across_chunk_borders_are_found() {
    let redactor = redactor(KEY);
    for before in [PIECE - 5, PIECE - OVERLAP - 3, 2 * PIECE] {
        let text = [vec![b'.'; before], KEY.into(), vec![b'.'; 10]].concat();
        let expected = [vec![b'.'; before], PLACEHOLDER.into(), vec![b'.'; 10]].concat();
        assert_eq!(redactor.bytes(&text, false), Some(expected));
    }
    // A secret that is spread over more than a piece removes the whole text.
    let text = [KEY[..9].into(), vec![b' '; 2 * PIECE], KEY[9..].into()].concat();
    assert_eq!(redactor.bytes(&text, false), Some(PLACEHOLDER.into()));
}

#[test]
fn short_secrets_do_not_destroy_data() {
    assert_eq!(clean("a", "a banana"), "a banana");
    assert_eq!(clean("key", "the key is wrong"), "the key is wrong");
    let redactor = redactor("hunter2");
    assert_eq!(
        redactor.text("hunter2 \"hunter\\u0032\" hunter22"),
        "[redacted] \"[redacted]\" hunter22"
    );
    let get = Request::get("/api/campaigns");
    let body = b"{\"error\":0,\"data\":{\"name\":\"hunter2\"}}".to_vec();
    let page = Response { status: 200, body: body.clone(), ..Response::default() };
    assert_eq!(redactor.response(&get, page.clone()).body, body);
    let refusal = Response { status: 400, ..page };
    let cleaned = redactor.response(&get, refusal).body;
    assert_eq!(cleaned, b"{\"error\":0,\"data\":{\"name\":\"[redacted]\"}}");
    assert_eq!(clean("12345678", "112345678 2026"), "112345678 2026");
}

#[test]
fn a_short_secret_stays_in_records_and_goes_from_every_error_with_status_200() {
    let redactor = redactor("hunter2");
    redactor.add(KEY);
    let answer = |body: &str| {
        let response = Response { status: 200, body: body.into(), ..Response::default() };
        let cleaned = redactor.response(&Request::get("/api/qr"), response);
        String::from_utf8(cleaned.body).unwrap()
    };
    let long = ",{\"a\":\"hunter2\"}".repeat(500);
    let long = format!("{{\"error\":0,\"data\":{{\"qrs\":[1{long}]}}}}");
    let records = [
        "{\"error\":0,\"data\":{\"a\":\"hunter2\",\"message\":\"hunter2\"}}",
        "{\"error\" : \"0\", \"data\":[\"hunter2\"]}",
        "{\"data\":{\"a\":\"hunter2\"}}",
        &long,
    ];
    for body in records {
        assert_eq!(answer(body), body);
    }
    for body in [
        "{\"error\":1,\"message\":\"hunter2\"}",
        "{\"error\":429,\"message\":\"hunter2\",\"data\":1}",
        "{\"data\":\"hunter2\",\"error\":\"1\"}",
        "{\"error\":{},\"data\":\"hunter2\"}",
        "{\"name\":\"hunter2\"}",
        "{\"error\":0,\"data\":\"hunter2\"",
        "[\"hunter2\"]",
        "<p>hunter2</p>",
    ] {
        assert_eq!(answer(body), body.replace("hunter2", PLACEHOLDER));
    }
    let cleaned = answer(&format!(
        "{{\"error\":0,\"message\":\"a hunter2\",\"data\":[\"hunter2\",\"{KEY}\"], \"mess\\u0061ge\" : \"\\u0068unter2\"}}"
    ));
    let expected = "{\"error\":0,\"message\":\"a [redacted]\",\"data\":[\"hunter2\",\"[redacted]\"], \
                  \"mess\\u0061ge\" : \"[redacted]\"}";
    assert_eq!(cleaned, expected);
}

#[test]
fn a_webhook_url_is_a_secret_and_its_host_is_not() {
    let redactor = Redactor::default();
    let token = "0123456789abcdefghij";
    let hook = format!("https://chat.example.com/hooks/{token}/go?x=y");
    redactor.add_address(&WebhookUrl::parse(&hook).unwrap());
    redactor.add_address(&WebhookUrl::parse("https://alerts.example.com/").unwrap());
    assert_eq!(redactor.text(&format!("at {hook}.")), "at [redacted].");
    assert_eq!(redactor.text(&format!("<{token}>")), "<[redacted]>");
    redactor.add_address(&WebhookUrl::parse("https://a.example/alerts-of-the-receiver").unwrap());
    let plain = "https://chat.example.com/hooks/other https://alerts.example.com/x \
                 alerts-of-the-receiver";
    assert_eq!(redactor.text(plain), plain);
}

#[test]
fn responses_and_errors_of_a_transport_have_no_secret() {
    struct Echo(u8);
    impl Transport for Echo {
        fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
            let key = request.key.as_ref().map(|it| it.reveal().to_owned()).unwrap_or_default();
            match self.0 {
                0 => Err(TransportError::NotSent(format!("no {key}"))),
                1 => Err(TransportError::Unknown(format!("no {key}"))),
                _ => Ok(Response {
                    status: 302,
                    headers: vec![("location".into(), format!("https://x/?{key}"))],
                    body: key.into_bytes(),
                }),
            }
        }
    }
    for nth in 0..3 {
        let redactor = redactor(KEY);
        let mut transport = RedactingTransport { inner: Echo(nth), redactor };
        let key = Some(super::super::http::ApiKey::new(KEY));
        let cleaned = transport.send(&Request { key, ..Request::get("/api/qr") });
        let cleaned = format!("{cleaned:?}");
        assert!(
            !cleaned.contains(KEY) && !cleaned.contains(&format!("{:?}", KEY.as_bytes())),
            "{cleaned}"
        );
    }
}

#[test]
fn many_secrets_are_grouped_and_all_redacted() {
    let redactor = Redactor::default();
    let secret = |nth: usize| format!("secret-number-{nth:04}-of-many");
    for nth in 0..300 {
        redactor.add(&secret(nth));
        redactor.add(&secret(nth));
    }
    assert!(redactor.0.read().unwrap().strong.len() < 10);
    for nth in 0..300 {
        assert_eq!(redactor.text(&secret(nth)), PLACEHOLDER);
    }
}

#[test]
fn deeply_nested_escapes_end() {
    let redactor = redactor(KEY);
    for text in ["%25", "&amp;", "\\\\", "%26amp%3b", "\\u005c", "<b>"] {
        let _ = redactor.text(&text.repeat(50_000));
    }
}

proptest! {
    #[test]
    fn a_secret_in_mixed_spellings_is_redacted(
        secret in "[A-Za-z0-9+/=_.~:@!$*,;-]{8,40}",
        how in proptest::collection::vec((0..SPELLINGS, 0..6_usize), 40),
        before in "[ \"(=a-z]{0,5}", after in "[ \")a-z]{0,5}",
    ) {
        let digits = secret.bytes().all(|byte| byte.is_ascii_digit());
        prop_assume!(!digits && !PLACEHOLDER.contains(&secret.to_lowercase()));
        let blank = |nth: usize| [" ", "\n", "\\n", "%20", "", ""][nth];
        let mut spelled = String::new();
        for (letter, (how, nth)) in secret.chars().zip(&how) {
            spelled += &spell(letter, *how);
            spelled += blank(*nth);
        }
        let cleaned = clean(&secret, &format!("{before}{spelled}{after}"));
        // The text before an escaped sign may be its escape.
        prop_assert!(cleaned.contains(PLACEHOLDER), "{secret} as {spelled}: {cleaned}");
        prop_assert!(cleaned.len() <= before.len() + after.len() + PLACEHOLDER.len() + 4, "{cleaned}");
    }

    #[test]
    fn the_optimized_pass_equals_the_general_one(
        parts in proptest::collection::vec(
            prop_oneof![
                any::<String>(),
                "[ -~]{0,40}",
                (0..SPELLINGS, any::<char>()).prop_map(|(how, letter)| spell(letter, how)),
                Just("\u{ad}\u{a0}&nbsp;<wbr>&amp;".to_owned()),
                Just("\u{3000}\u{180e}&#00000000065;<!--a--><b id=1>\u{3001}".to_owned()),
            ],
            0..20,
        ),
    ) {
        let text = parts.concat();
        let (mut slow, mut quick) = (Vec::new(), Vec::new());
        let escaped = pass(text.as_bytes(), DECODED, &mut slow);
        prop_assert_eq!(quick_pass(text.as_bytes(), &mut quick), escaped);
        prop_assert_eq!(has_escape(text.as_bytes()), escaped);
        prop_assert_eq!(String::from_utf8_lossy(&quick), String::from_utf8_lossy(&slow));
    }

    #[test]
    fn a_text_without_the_secret_is_unchanged(text in any::<String>(), more in "[ -~]{0,200}") {
        let text = format!("{text}{more}");
        prop_assert_eq!(redactor(KEY).text(&text), text.as_str());
    }
}
