//! Resolves escapes in text. One pass resolves JSON, percent and HTML escapes; nested escapes take
//! one pass for each level.

/// Length from which on secrets are removed everywhere.
pub const STRONG_SECRET_LENGTH: usize = 8;

/// What a pass changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decoding {
    /// Resolve escapes.
    pub decode: bool,
    /// Drop white space, invisible characters and (with `decode`) HTML tags, and convert ASCII
    /// letters to lower case.
    pub loose: bool,
}

/// Output of a pass.
pub(super) trait DecodedText {
    /// Appends `bytes`, which are unchanged at offset `at` of the input.
    fn run(&mut self, bytes: &[u8], at: usize, fold: bool);
    /// Appends `bytes`, the meaning of the `len` bytes at offset `at` of the input.
    fn unit(&mut self, bytes: &[u8], at: usize, len: usize, fold: bool);
}

impl DecodedText for Vec<u8> {
    fn run(&mut self, bytes: &[u8], _: usize, fold: bool) {
        let begin = self.len();
        self.extend_from_slice(bytes);
        if fold {
            self[begin..].make_ascii_lowercase();
        }
    }

    fn unit(&mut self, bytes: &[u8], at: usize, _: usize, fold: bool) {
        self.run(bytes, at, fold);
    }
}

/// The output of a pass, with the range of the input that each byte comes from.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub bytes: Vec<u8>,
    pub from: Vec<usize>,
    pub to: Vec<usize>,
}

impl Mapped {
    /// Translates the ranges to the input of the `earlier` pass.
    pub fn after(mut self, earlier: &Self) -> Self {
        for from in &mut self.from {
            *from = earlier.from[*from];
        }
        for to in &mut self.to {
            *to = earlier.to[*to - 1];
        }
        self
    }
}

impl DecodedText for Mapped {
    fn run(&mut self, bytes: &[u8], at: usize, fold: bool) {
        self.bytes.run(bytes, at, fold);
        self.from.extend(at..at + bytes.len());
        self.to.extend(at + 1..=at + bytes.len());
    }

    fn unit(&mut self, bytes: &[u8], at: usize, len: usize, fold: bool) {
        self.bytes.run(bytes, at, fold);
        self.from.extend(bytes.iter().map(|_| at));
        self.to.extend(bytes.iter().map(|_| at + len));
    }
}

const PLAIN: u8 = 0;
const BLANK: u8 = 1;
const LEAD: u8 = 2;
const ESCAPE: u8 = 3;

/// The kind of sequence that each byte may begin.
const CLASS: [u8; 256] = {
    let mut class = [PLAIN; 256];
    let mut byte = 0;
    while byte <= 0x20 {
        class[byte] = BLANK;
        byte += 1;
    }
    class[0x7f] = BLANK;
    class[0xc2] = LEAD;
    class[0xcd] = LEAD;
    class[0xe1] = LEAD;
    class[0xe2] = LEAD;
    class[0xe3] = LEAD;
    class[0xef] = LEAD;
    class[b'\\' as usize] = ESCAPE;
    class[b'%' as usize] = ESCAPE;
    class[b'&' as usize] = ESCAPE;
    class[b'<' as usize] = ESCAPE;
    class
};

/// Appends the decoded `input` to `out`, and returns whether an escape was resolved.
pub(super) fn pass(input: &[u8], how: Decoding, out: &mut impl DecodedText) -> bool {
    let (mut at, mut changed) = (0, false);
    while at < input.len() {
        let rest = &input[at..];
        let plain = rest.iter().position(|byte| CLASS[usize::from(*byte)] != PLAIN);
        let plain = plain.unwrap_or(rest.len());
        if plain > 0 {
            out.run(&rest[..plain], at, how.loose);
            at += plain;
            continue;
        }
        let class = CLASS[usize::from(rest[0])];
        if class == ESCAPE && how.decode {
            if let Some((len, meaning)) = escape(rest) {
                changed = true;
                put(meaning, at, len, how.loose, out);
                at += len;
                continue;
            }
        } else if how.loose && class == BLANK {
            at += 1;
            continue;
        } else if how.loose
            && let Some(len) = invisible(rest)
        {
            at += len;
            continue;
        }
        out.run(&rest[..1], at, how.loose);
        at += 1;
    }
    changed
}

/// Like [`pass`] with all changes of [`Decoding`], optimized for large texts with few escapes.
pub(super) fn quick_pass(input: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.resize(input.len(), 0);
    let (mut at, mut end, mut changed) = (0, 0, false);
    while let Some(&first) = input.get(at) {
        let rest = &input[at..];
        if let (Some(block), Some(room)) =
            (rest.first_chunk::<BLOCK>(), out.get_mut(end..end + BLOCK))
            && plain(block)
        {
            room.copy_from_slice(block);
            room.make_ascii_lowercase();
            (at, end) = (at + BLOCK, end + BLOCK);
            continue;
        }
        // A dropped byte is overwritten by the next one.
        let mut class = PLAIN;
        for byte in rest.iter().take(BLOCK) {
            class = CLASS[usize::from(*byte)];
            if class > BLANK {
                break;
            }
            out[end] = byte.to_ascii_lowercase();
            end += usize::from(class == PLAIN);
            at += 1;
        }
        if class <= BLANK {
            continue;
        }
        let rest = &input[at..];
        if let [b'\\', sign @ (b'/' | b'"'), ..] = rest {
            out[end] = *sign;
            (at, end, changed) = (at + 2, end + 1, true);
            continue;
        }
        if class == LEAD {
            if let Some(len) = invisible(rest) {
                at += len;
                continue;
            }
        } else if let Some((len, meaning)) = escape(rest) {
            let mut short = Vec::new();
            put(meaning, at, len, true, &mut short);
            out[end..end + short.len()].copy_from_slice(&short);
            (at, end, changed) = (at + len, end + short.len(), true);
            continue;
        }
        out[end] = rest.first().copied().unwrap_or(first);
        (at, end) = (at + 1, end + 1);
    }
    out.truncate(end);
    changed
}

/// Number of bytes that are checked at once.
const BLOCK: usize = 16;

/// Whether no byte begins a special sequence. Written so that the compiler can vectorize it.
fn plain(block: &[u8; BLOCK]) -> bool {
    let special = block.iter().fold(0, |special, byte| {
        let lead = (*byte == 0xc2) | (*byte == 0xcd) | (*byte == 0xef);
        let lead = lead | (*byte == 0xe1) | (*byte == 0xe2) | (*byte == 0xe3);
        let escape = (*byte == b'\\') | (*byte == b'%') | (*byte == b'&') | (*byte == b'<');
        special | u8::from((*byte <= 0x20) | (*byte == 0x7f) | lead | escape)
    });
    special == 0
}

/// Whether [`pass`] would resolve an escape in `text`.
pub(super) fn has_escape(text: &[u8]) -> bool {
    let escaped = |at: usize| escape(&text[at..]).is_some();
    memchr::memchr3_iter(b'\\', b'%', b'&', text).any(escaped)
        || memchr::memchr_iter(b'<', text).any(escaped)
}

/// The meaning of one escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unescaped {
    Char(char),
    Byte(u8),
    /// An HTML tag or comment, which is not visible.
    Tag,
}

fn put(meaning: Unescaped, at: usize, len: usize, loose: bool, out: &mut impl DecodedText) {
    let mut buffer = [0; 4];
    let bytes = match meaning {
        Unescaped::Char(letter) => letter.encode_utf8(&mut buffer).as_bytes(),
        Unescaped::Byte(byte) => {
            buffer[0] = byte;
            &buffer[..1]
        }
        Unescaped::Tag if loose => return,
        Unescaped::Tag => b" ",
    };
    let hidden = CLASS[usize::from(bytes[0])] == BLANK || invisible(bytes).is_some();
    if !(loose && hidden) {
        out.unit(bytes, at, len, loose);
    }
}

/// The length of the invisible character at the start of `text`.
fn invisible(text: &[u8]) -> Option<usize> {
    match *text {
        [0xc2, 0x80..=0xa0 | 0xad, ..] | [0xcd, 0x8f, ..] => Some(2),
        // The spaces of Ogham, Mongolian, and Chinese and Japanese.
        [0xe1, 0x9a, 0x80, ..] | [0xe1, 0xa0, 0x8e, ..] | [0xe3, 0x80, 0x80, ..] => Some(3),
        [0xe2, 0x80, 0x80..=0x8f | 0xa8..=0xaf, ..] => Some(3),
        [0xe2, 0x81, 0x9f..=0xaf, ..] | [0xef, 0xbb, 0xbf, ..] => Some(3),
        _ => None,
    }
}

/// The length and meaning of the escape at the start of `text`.
fn escape(text: &[u8]) -> Option<(usize, Unescaped)> {
    match *text.first()? {
        b'\\' => backslash(text),
        b'%' => percent(text),
        b'&' => entity(text),
        _ => tag(text),
    }
}

fn backslash(text: &[u8]) -> Option<(usize, Unescaped)> {
    let letter = match *text.get(1)? {
        b'u' if text.get(2) == Some(&b'{') => {
            let length = text[3..].iter().take(7).position(|byte| *byte == b'}')?;
            let letter = char::from_u32(hex(&text[3..3 + length])?)?;
            return Some((4 + length, Unescaped::Char(letter)));
        }
        b'u' => {
            let unit = hex(text.get(2..6)?)?;
            if let Some(letter) = char::from_u32(unit) {
                return Some((6, Unescaped::Char(letter)));
            }
            let low = text.get(6..12).filter(|low| low.starts_with(b"\\u"))?;
            let low = hex(&low[2..])?;
            if !(0xd800..0xdc00).contains(&unit) || !(0xdc00..0xe000).contains(&low) {
                return None;
            }
            let letter = char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))?;
            return Some((12, Unescaped::Char(letter)));
        }
        b'U' => return Some((10, Unescaped::Char(char::from_u32(hex(text.get(2..10)?)?)?))),
        b'x' => return Some((4, Unescaped::Char(char::from_u32(hex(text.get(2..4)?)?)?))),
        b'0'..=b'3' => {
            let digits = text.get(1..4)?.iter();
            let mut digits = digits.map(|digit| char::from(*digit).to_digit(8));
            let value = digits.try_fold(0, |sum, digit| Some(sum * 8 + digit?))?;
            return u8::try_from(value).ok().map(|it| (4, Unescaped::Byte(it)));
        }
        b'n' | b't' | b'r' | b'b' | b'f' | b'v' => '\n',
        other if other.is_ascii_punctuation() || other == b' ' => char::from(other),
        _ => return None,
    };
    Some((2, Unescaped::Char(letter)))
}

fn percent(text: &[u8]) -> Option<(usize, Unescaped)> {
    if let [b'%', b'u' | b'U', rest @ ..] = text {
        return Some((6, Unescaped::Char(char::from_u32(hex(rest.get(..4)?)?)?)));
    }
    let byte = u8::try_from(hex(text.get(1..3)?)?).ok()?;
    Some((3, Unescaped::Byte(byte)))
}

fn entity(text: &[u8]) -> Option<(usize, Unescaped)> {
    let (length, letter) = match text[1..] {
        [b'#', b'x' | b'X', ref digits @ ..] => {
            let (length, number) = number(digits, 16)?;
            (2 + length, char::from_u32(number)?)
        }
        [b'#', ref digits @ ..] => {
            let (length, number) = number(digits, 10)?;
            (1 + length, char::from_u32(number)?)
        }
        ref rest => {
            let length = rest.iter().take(MAX_NAME + 1).position(|byte| *byte == b';')?;
            (length, named(&rest[..length])?)
        }
    };
    let end = 1 + length;
    Some((end + usize::from(text.get(end) == Some(&b';')), Unescaped::Char(letter)))
}

/// The number at the start of `digits`, which may have many leading zeros, and its length in bytes.
fn number(digits: &[u8], radix: u32) -> Option<(usize, u32)> {
    const MAX_ZEROS: usize = 200;
    let zeros = digits.iter().take(MAX_ZEROS).take_while(|digit| **digit == b'0').count();
    let (mut length, mut number) = (zeros, 0_u32);
    for digit in digits[zeros..].iter().take(8) {
        let Some(digit) = char::from(*digit).to_digit(radix) else { break };
        number = number.checked_mul(radix)?.checked_add(digit)?;
        length += 1;
    }
    (length > 0).then_some((length, number))
}

/// The length of the longest name in [`named`].
const MAX_NAME: usize = "ZeroWidthSpace".len();

/// ASCII characters and white space with a name in HTML.
fn named(name: &[u8]) -> Option<char> {
    const NAMES: &[(&str, char)] = &[
        ("amp", '&'),
        ("apos", '\''),
        ("ast", '*'),
        ("bsol", '\\'),
        ("colon", ':'),
        ("comma", ','),
        ("commat", '@'),
        ("dash", '-'),
        ("dollar", '$'),
        ("emsp", '\u{2003}'),
        ("emsp13", '\u{2004}'),
        ("emsp14", '\u{2005}'),
        ("ensp", '\u{2002}'),
        ("equals", '='),
        ("excl", '!'),
        ("grave", '`'),
        ("gt", '>'),
        ("hairsp", '\u{200a}'),
        ("hat", '^'),
        ("hyphen", '-'),
        ("lbrace", '{'),
        ("lbrack", '['),
        ("lcub", '{'),
        ("lowbar", '_'),
        ("lpar", '('),
        ("lsqb", '['),
        ("lt", '<'),
        ("midast", '*'),
        ("nbsp", ' '),
        ("newline", '\n'),
        ("nobreak", '\u{2060}'),
        ("num", '#'),
        ("numsp", '\u{2007}'),
        ("percnt", '%'),
        ("period", '.'),
        ("plus", '+'),
        ("puncsp", '\u{2008}'),
        ("quest", '?'),
        ("quot", '"'),
        ("rbrace", '}'),
        ("rbrack", ']'),
        ("rcub", '}'),
        ("rpar", ')'),
        ("rsqb", ']'),
        ("semi", ';'),
        ("shy", '\u{ad}'),
        ("sol", '/'),
        ("tab", '\t'),
        ("thinsp", '\u{2009}'),
        ("tilde", '~'),
        ("underbar", '_'),
        ("verbar", '|'),
        ("vert", '|'),
        ("vertbar", '|'),
        ("zerowidthspace", '\u{200b}'),
        ("zwj", '\u{200d}'),
        ("zwnj", '\u{200c}'),
    ];
    let found = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    found.map(|(_, letter)| *letter)
}

/// The length of an HTML tag that may be within a word, such as `<wbr>`, `</b>` or `<b id=1>`, or
/// of a comment. Their content is not searched, so it must be too short for a secret.
fn tag(text: &[u8]) -> Option<(usize, Unescaped)> {
    const NAMES: [&[u8]; 13] = [
        b"wbr", b"br", b"b", b"i", b"u", b"s", b"em", b"strong", b"span", b"code", b"tt", b"mark",
        b"font",
    ];
    const ATTRIBUTES: [&[u8]; 4] = [b" class=", b" id=", b" style=", b" title="];
    const MAX_CONTENT: usize = STRONG_SECRET_LENGTH - 1;
    if let Some(comment) = text.strip_prefix(b"<!--") {
        let end = comment.windows(3).take(MAX_CONTENT + 1).position(|end| end == b"-->")?;
        return Some((4 + end + 3, Unescaped::Tag));
    }
    let begin = if text.get(1) == Some(&b'/') { 2 } else { 1 };
    let length = text[begin..].iter().take(7).take_while(|it| it.is_ascii_alphabetic()).count();
    let name = &text[begin..begin + length];
    if !NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return None;
    }
    let rest = &text[begin + length..];
    let attribute = ATTRIBUTES.iter().find(|known| rest.starts_with(known));
    let attribute = attribute.map_or(0, |known| known.len());
    let end =
        attribute + rest[attribute..].iter().take(MAX_CONTENT + 1).position(|it| *it == b'>')?;
    let apart = matches!(rest.first(), Some(b'>' | b'/')) || rest[0].is_ascii_whitespace();
    apart.then_some((begin + length + end + 1, Unescaped::Tag))
}

fn hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}
