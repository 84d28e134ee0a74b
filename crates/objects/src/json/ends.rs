//! Where strings and containers end, for who passes over them.

use wide::u8x16;

/// Where the string ends that begins at `begin`, behind its quote, and whether something in it is escaped; `None` where it has no
/// end. What it holds is not looked at.
#[inline]
#[must_use]
pub fn end_of_string(json: &[u8], begin: usize) -> Option<(usize, bool)> {
    let mut at = begin + 1;
    let mut escapes = false;
    loop {
        at += distance_to_quote_or_backslash(json.get(at..)?);
        if *json.get(at)? == b'"' {
            return Some((at + 1, escapes));
        }
        // What is escaped is no end.
        escapes = true;
        at += 2;
    }
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Which of eight bytes are quotes or backslashes: the lowest that is one has its high bit set; higher ones may have it set wrongly.
#[inline]
fn quotes_and_backslashes(word: u64) -> u64 {
    let zeroes = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    zeroes(word ^ (LOW * b'"' as u64)) | zeroes(word ^ (LOW * b'\\' as u64))
}

/// How many bytes come before the first quote or backslash; all of them where there is none. Eight
/// bytes are looked at in one step.
#[inline]
fn distance_to_quote_or_backslash(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let found = quotes_and_backslashes(u64::from_le_bytes(*word));
        if found != 0 {
            return at * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let rest = words.len() * 8;
    let tail = &bytes[rest..];
    rest + tail.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(tail.len())
}

/// Whether a string is written as it is, between quotes: nothing in it has to be escaped.
#[inline]
#[must_use]
pub fn is_plain(text: &str) -> bool {
    let controls = |word: u64| word.wrapping_sub(LOW * b' ' as u64) & !word & HIGH;
    let (words, tail) = text.as_bytes().as_chunks::<8>();
    let is_plain = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        quotes_and_backslashes(word) | controls(word) == 0
    };
    words.iter().all(is_plain) && tail.iter().all(|byte| *byte >= b' ' && !matches!(byte, b'"' | b'\\'))
}

/// Where the object or the list ends that begins at `begin`, behind its bracket; `None` where it has no end. Nothing in it is
/// looked at but brackets and strings.
#[must_use]
pub fn end_of_container(json: &[u8], begin: usize) -> Option<usize> {
    if !matches!(json.get(begin)?, b'{' | b'[') {
        return None;
    }
    let mut at = begin + 1;
    // Many are empty.
    if matches!(json.get(at)?, b'}' | b']') {
        return Some(at + 1);
    }
    let mut depth = 1_u32;
    let mut strings = Strings::default();
    loop {
        let rest = json.get(at..).filter(|rest| !rest.is_empty())?;
        let block = Block::of(rest);
        let outside = !strings.inside(&block);
        let closing = block.either(b'}') & outside;
        let opening = block.either(b'{') & outside;
        if depth > closing.count_ones() {
            depth = depth + opening.count_ones() - closing.count_ones();
        } else {
            let mut brackets = opening | closing;
            while brackets != 0 {
                let bracket = brackets & brackets.wrapping_neg();
                brackets ^= bracket;
                depth = if opening & bracket == 0 { depth - 1 } else { depth + 1 };
                if depth == 0 {
                    return Some(at + bracket.trailing_zeros() as usize + 1);
                }
            }
        }
        at += Block::LENGTH;
    }
}

/// Bytes that are looked at in one step; each bit of what is told of them stands for one, the lowest for the first.
struct Block([u8x16; 4]);

impl Block {
    const LENGTH: usize = 64;

    /// The next bytes; zeroes where there are no more.
    #[inline]
    fn of(rest: &[u8]) -> Self {
        let mut padded = [0; Self::LENGTH];
        let block = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let (parts, _) = block.as_chunks::<16>();
        Self(std::array::from_fn(|at| u8x16::new(parts[at])))
    }

    #[inline]
    fn bits(&self, is: impl Fn(u8x16) -> u8x16) -> u64 {
        self.0.iter().rev().fold(0, |bits, part| bits << 16 | u64::from(is(*part).to_bitmask()))
    }

    /// Which are this one.
    #[inline]
    fn each(&self, byte: u8) -> u64 {
        self.bits(|part| part.simd_eq(u8x16::splat(byte)))
    }

    /// Which are this brace, or the bracket that opens or closes as it does: they differ in one bit.
    #[inline]
    fn either(&self, brace: u8) -> u64 {
        self.bits(|part| (part | u8x16::splat(b'{' ^ b'[')).simd_eq(u8x16::splat(brace)))
    }
}

/// Where a block stands as to strings.
#[derive(Default)]
struct Strings {
    /// All bits where the last block ended in a string.
    open: u64,
    /// The lowest bit where the last block ended with a backslash that escapes.
    escapes: u64,
}

impl Strings {
    /// Which bytes are in a string, its first quote among them.
    #[inline]
    fn inside(&mut self, block: &Block) -> u64 {
        let mut quotes = block.each(b'"');
        let backslashes = block.each(b'\\');
        if backslashes | self.escapes != 0 {
            quotes &= !self.escaped(backslashes);
        }
        // Each bit becomes the parity of all up to it.
        let mut inside = quotes;
        for distance in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << distance;
        }
        inside ^= self.open;
        self.open = 0_u64.wrapping_sub(inside >> 63);
        inside
    }

    /// Which bytes a backslash before them escapes.
    #[cold]
    fn escaped(&mut self, mut backslashes: u64) -> u64 {
        let mut escaped = self.escapes;
        self.escapes = 0;
        backslashes &= !escaped;
        while backslashes != 0 {
            let first = backslashes & backslashes.wrapping_neg();
            self.escapes = first >> 63;
            escaped |= first << 1;
            backslashes &= !(first | first << 1);
        }
        escaped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strings_and_containers_end_behind_their_last_byte() {
        for (json, end) in [
            (r#""""#, Some((2, false))),
            (r#""ab",1"#, Some((4, false))),
            (r#""a long string, of more than 8 bytes" "#, Some((37, false))),
            (r#""\\"x"#, Some((4, true))),
            (r#""\"{0}"]"#, Some((7, true))),
            (r#""ab"#, None),
            (r#""ab\"#, None),
            (r#""ab\""#, None),
            (r#"""#, None),
        ] {
            assert_eq!(end_of_string(json.as_bytes(), 0), end, "{json}");
            // Where it stands makes no difference.
            let later = format!("1234567{json}");
            assert_eq!(end_of_string(later.as_bytes(), 7), end.map(|(end, escapes)| (end + 7, escapes)), "{later}");
        }
        for (json, end) in [
            ("{}", Some(2)),
            ("[[],{}],", Some(7)),
            (r#"{"a":"}","b\"}":[1,{"]":2}]} "#, Some(28)),
            ("[1", None),
            ("[", None),
            ("}", None),
            (r#"{"a":"}"#, None),
            ("", None),
        ] {
            assert_eq!(end_of_container(json.as_bytes(), 0), end, "{json}");
        }
    }

    /// Byte by byte.
    fn plainly(json: &[u8], begin: usize) -> Option<usize> {
        let mut at = begin;
        let mut depth = 0_usize;
        loop {
            match *json.get(at)? {
                b'"' => {
                    at = end_of_string(json, at)?.0;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    proptest! {
        /// However strings, escapes and brackets fall on the steps, and wherever the text is cut.
        #[test]
        fn a_container_ends_where_its_brackets_are_even(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(r#""""#.to_owned()),
                    Just("{".to_owned()),
                    Just("]".to_owned()),
                    "[\\[{}\\],:1 é]{0,9}",
                    "\"([a-z{}\\[\\]é]|\\\\\\\\|\\\\\"|\\\\n){0,90}\"",
                ],
                0..12,
            ),
            before in 0..80_usize,
            cut in 0..400_usize,
        ) {
            let json = format!("{}{{{}", " ".repeat(before), parts.concat());
            let json = &json.as_bytes()[..json.len().min(before + 1 + cut)];
            prop_assert_eq!(end_of_container(json, before), plainly(json, before));
        }

        #[test]
        fn a_plain_string_is_written_as_it_is(text in "[a-z\"\\\\\u{0}-\u{21}\u{7f}é😀]{0,20}") {
            let written = serde_json::to_string(&text).expect("a string can be written");
            prop_assert_eq!(is_plain(&text), written == format!("\"{text}\""));
        }

        #[test]
        fn finds_the_first_quote_or_backslash(bytes in prop::collection::vec(prop::sample::select(b"a!#[]\xa2\xdc\x22\x5c\x21\x23".to_vec()), 0..40)) {
            let plain = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(bytes.len());
            prop_assert_eq!(distance_to_quote_or_backslash(&bytes), plain);
        }
    }
}
