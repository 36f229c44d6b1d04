//! Text as it reads once its escapes are resolved. One pass resolves JSON, percent and HTML
//! escapes; what an escape was escaped with comes out in the next pass.

/// How a pass reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    /// Resolve escapes.
    pub decode: bool,
    /// Leave out white space, invisible characters and (with `decode`) HTML tags, and
    /// make ASCII letters lower case.
    pub loose: bool,
}

/// Where a pass writes to.
pub(super) trait Out {
    /// `bytes` stand at `at` in the input, as they are.
    fn run(&mut self, bytes: &[u8], at: usize, fold: bool);
    /// `bytes` are the meaning of the `len` bytes at `at` in the input.
    fn unit(&mut self, bytes: &[u8], at: usize, len: usize, fold: bool);
}

impl Out for Vec<u8> {
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

/// The text of a pass, and the place in its input that each byte comes from.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub bytes: Vec<u8>,
    pub from: Vec<usize>,
    pub to: Vec<usize>,
}

impl Mapped {
    /// The places in the input of the pass before, `earlier`.
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

impl Out for Mapped {
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

/// What each byte may begin.
const CLASS: [u8; 256] = {
    let mut class = [PLAIN; 256];
    let mut byte = 0;
    while byte <= 0x20 {
        class[byte] = BLANK;
        byte += 1;
    }
    class[0x7f] = BLANK;
    class[0xc2] = LEAD;
    class[0xe2] = LEAD;
    class[0xef] = LEAD;
    class[b'\\' as usize] = ESCAPE;
    class[b'%' as usize] = ESCAPE;
    class[b'&' as usize] = ESCAPE;
    class[b'<' as usize] = ESCAPE;
    class
};

/// Reads `input` into `out`, and returns whether an escape was resolved.
pub(super) fn pass(input: &[u8], how: How, out: &mut impl Out) -> bool {
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

/// The same as [`pass`] with everything that [`How`] can ask for, made for large texts that have
/// nothing to find in them.
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
        // What a blank leaves is overwritten by what comes after it.
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

/// So many bytes are looked at together.
const BLOCK: usize = 16;

/// Whether none of these bytes begins anything but itself. Written so that it becomes a few
/// instructions for all of them.
fn plain(block: &[u8; BLOCK]) -> bool {
    let special = block.iter().fold(0, |special, byte| {
        let lead = (*byte == 0xc2) | (*byte == 0xe2) | (*byte == 0xef);
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
enum Meaning {
    Char(char),
    Byte(u8),
    /// Markup, which shows nothing.
    Tag,
}

fn put(meaning: Meaning, at: usize, len: usize, loose: bool, out: &mut impl Out) {
    let mut buffer = [0; 4];
    let bytes = match meaning {
        Meaning::Char(letter) => letter.encode_utf8(&mut buffer).as_bytes(),
        Meaning::Byte(byte) => {
            buffer[0] = byte;
            &buffer[..1]
        }
        Meaning::Tag if loose => return,
        Meaning::Tag => b" ",
    };
    let hidden = CLASS[usize::from(bytes[0])] == BLANK || invisible(bytes).is_some();
    if !(loose && hidden) {
        out.unit(bytes, at, len, loose);
    }
}

/// The length of the invisible character at the start of `text`, if one stands there.
fn invisible(text: &[u8]) -> Option<usize> {
    match *text {
        [0xc2, 0x80..=0xa0 | 0xad, ..] => Some(2),
        [0xe2, 0x80, 0x80..=0x8f | 0xa8..=0xaf, ..] => Some(3),
        [0xe2, 0x81, 0x9f..=0xaf, ..] | [0xef, 0xbb, 0xbf, ..] => Some(3),
        _ => None,
    }
}

/// The escape at the start of `text`: its length, and what it means.
fn escape(text: &[u8]) -> Option<(usize, Meaning)> {
    match *text.first()? {
        b'\\' => backslash(text),
        b'%' => percent(text),
        b'&' => entity(text),
        _ => tag(text),
    }
}

fn backslash(text: &[u8]) -> Option<(usize, Meaning)> {
    let letter = match *text.get(1)? {
        b'u' if text.get(2) == Some(&b'{') => {
            let length = text[3..].iter().take(7).position(|byte| *byte == b'}')?;
            let letter = char::from_u32(hex(&text[3..3 + length])?)?;
            return Some((4 + length, Meaning::Char(letter)));
        }
        b'u' => {
            let unit = hex(text.get(2..6)?)?;
            if let Some(letter) = char::from_u32(unit) {
                return Some((6, Meaning::Char(letter)));
            }
            let low = text.get(6..12).filter(|low| low.starts_with(b"\\u"))?;
            let low = hex(&low[2..])?;
            if !(0xd800..0xdc00).contains(&unit) || !(0xdc00..0xe000).contains(&low) {
                return None;
            }
            let letter = char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))?;
            return Some((12, Meaning::Char(letter)));
        }
        b'U' => return Some((10, Meaning::Char(char::from_u32(hex(text.get(2..10)?)?)?))),
        b'x' => return Some((4, Meaning::Char(char::from_u32(hex(text.get(2..4)?)?)?))),
        b'0'..=b'3' => {
            let digits = text.get(1..4)?.iter();
            let mut digits = digits.map(|digit| char::from(*digit).to_digit(8));
            let value = digits.try_fold(0, |sum, digit| Some(sum * 8 + digit?))?;
            return u8::try_from(value).ok().map(|it| (4, Meaning::Byte(it)));
        }
        b'n' | b't' | b'r' | b'b' | b'f' | b'v' => '\n',
        other if other.is_ascii_punctuation() || other == b' ' => char::from(other),
        _ => return None,
    };
    Some((2, Meaning::Char(letter)))
}

fn percent(text: &[u8]) -> Option<(usize, Meaning)> {
    if let [b'%', b'u' | b'U', rest @ ..] = text {
        return Some((6, Meaning::Char(char::from_u32(hex(rest.get(..4)?)?)?)));
    }
    let byte = u8::try_from(hex(text.get(1..3)?)?).ok()?;
    Some((3, Meaning::Byte(byte)))
}

fn entity(text: &[u8]) -> Option<(usize, Meaning)> {
    let (length, letter) = match text[1..] {
        [b'#', b'x' | b'X', ref digits @ ..] => {
            let length = digits.iter().take(8).take_while(|it| it.is_ascii_hexdigit()).count();
            (2 + length, char::from_u32(hex(&digits[..length])?)?)
        }
        [b'#', ref digits @ ..] => {
            let length = digits.iter().take(8).take_while(|it| it.is_ascii_digit()).count();
            let number = std::str::from_utf8(&digits[..length]).ok()?.parse().ok()?;
            (1 + length, char::from_u32(number)?)
        }
        ref rest => {
            let length = rest.iter().take(10).position(|byte| *byte == b';')?;
            (length, named(&rest[..length])?)
        }
    };
    let end = 1 + length;
    Some((end + usize::from(text.get(end) == Some(&b';')), Meaning::Char(letter)))
}

/// The ASCII characters that have a name in HTML, and the blanks.
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
        ("equals", '='),
        ("excl", '!'),
        ("grave", '`'),
        ("gt", '>'),
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
        ("num", '#'),
        ("percnt", '%'),
        ("period", '.'),
        ("plus", '+'),
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
        ("tilde", '~'),
        ("underbar", '_'),
        ("verbar", '|'),
        ("vert", '|'),
        ("vertbar", '|'),
        ("zwj", '\u{200d}'),
        ("zwnj", '\u{200c}'),
    ];
    let found = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    found.map(|(_, letter)| *letter)
}

/// An HTML tag that may stand within a word, such as `<wbr>` or `</b>`.
fn tag(text: &[u8]) -> Option<(usize, Meaning)> {
    const NAMES: [&[u8]; 13] = [
        b"wbr", b"br", b"b", b"i", b"u", b"s", b"em", b"strong", b"span", b"code", b"tt", b"mark",
        b"font",
    ];
    let begin = if text.get(1) == Some(&b'/') { 2 } else { 1 };
    let end = begin + text[begin..].iter().take(9).position(|byte| *byte == b'>')?;
    let name = text[begin..end].strip_suffix(b"/").unwrap_or(&text[begin..end]).trim_ascii_end();
    let known = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    known.then_some((end + 1, Meaning::Tag))
}

fn hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}
