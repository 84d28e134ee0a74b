//! A JSON reader that fails in Go's words.
//!
//! [`check`] reads a whole body once, so that everything after it may take the syntax for granted;
//! its errors are those of Go's `encoding/json`, which clients see. [`Cursor`] then walks a body that
//! has been checked.

use std::borrow::Cow;

use crate::field::go_quote;

/// Go refuses to nest deeper.
const MAX_DEPTH: usize = 10_000;

/// Whether a body is one JSON value; if not, what Go's decoder says of it.
pub(super) fn check(data: &[u8]) -> Result<(), String> {
    check_noting(data, |_, _| {})
}

/// As [`check`], telling of every key of the outermost object: where it begins, and where its value does.
pub(super) fn check_noting(data: &[u8], mut note: impl FnMut(usize, usize)) -> Result<(), String> {
    let mut at = 0;
    // One entry for each open bracket: whether it is an object's.
    let mut open: Vec<bool> = Vec::new();
    skip_space(data, &mut at);
    loop {
        // At the beginning of a value.
        match data.get(at) {
            None => return Err(end()),
            Some(b'{') => {
                at += 1;
                open.push(true);
                if open.len() > MAX_DEPTH {
                    return Err("invalid character '{' exceeded max depth".to_owned());
                }
                skip_space(data, &mut at);
                if data.get(at) != Some(&b'}') {
                    let key = at;
                    check_key(data, &mut at)?;
                    if open.len() == 1 {
                        note(key, at);
                    }
                    continue;
                }
            }
            Some(b'[') => {
                at += 1;
                open.push(false);
                if open.len() > MAX_DEPTH {
                    return Err("invalid character '[' exceeded max depth".to_owned());
                }
                skip_space(data, &mut at);
                if data.get(at) != Some(&b']') {
                    continue;
                }
            }
            Some(b'"') => check_string(data, &mut at)?,
            Some(b'-' | b'0'..=b'9') => check_number(data, &mut at)?,
            Some(b't') => check_word(data, &mut at, b"true")?,
            Some(b'f') => check_word(data, &mut at, b"false")?,
            Some(b'n') => check_word(data, &mut at, b"null")?,
            Some(c) => return Err(invalid(*c, "looking for beginning of value")),
        }
        // After a value, or at the end of an empty container.
        loop {
            skip_space(data, &mut at);
            match (open.last(), data.get(at)) {
                (None, None) => return Ok(()),
                (None, Some(c)) => return Err(invalid(*c, "after top-level value")),
                (Some(_), None) => return Err(end()),
                (Some(true), Some(b'}')) | (Some(false), Some(b']')) => {
                    at += 1;
                    open.pop();
                }
                (Some(true), Some(b',')) => {
                    at += 1;
                    skip_space(data, &mut at);
                    let key = at;
                    check_key(data, &mut at)?;
                    if open.len() == 1 {
                        note(key, at);
                    }
                    break;
                }
                (Some(false), Some(b',')) => {
                    at += 1;
                    skip_space(data, &mut at);
                    break;
                }
                (Some(true), Some(c)) => return Err(invalid(*c, "after object key:value pair")),
                (Some(false), Some(c)) => return Err(invalid(*c, "after array element")),
            }
        }
    }
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(c: u8, context: &str) -> String {
    let quoted = match c {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        // Go takes the byte for a character of its own.
        c => {
            let text = go_quote(&char::from(c).to_string());
            format!("'{}'", &text[1..text.len() - 1])
        }
    };
    format!("invalid character {quoted} {context}")
}

fn skip_space(data: &[u8], at: &mut usize) {
    while matches!(data.get(*at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        *at += 1;
    }
}

/// A key and its colon, up to the beginning of its value.
fn check_key(data: &[u8], at: &mut usize) -> Result<(), String> {
    match data.get(*at) {
        None => return Err(end()),
        Some(b'"') => check_string(data, at)?,
        Some(c) => return Err(invalid(*c, "looking for beginning of object key string")),
    }
    skip_space(data, at);
    match data.get(*at) {
        None => return Err(end()),
        Some(b':') => *at += 1,
        Some(c) => return Err(invalid(*c, "after object key")),
    }
    skip_space(data, at);
    Ok(())
}

fn check_string(data: &[u8], at: &mut usize) -> Result<(), String> {
    *at += 1;
    loop {
        match data.get(*at) {
            None => return Err(end()),
            Some(b'"') => {
                *at += 1;
                return Ok(());
            }
            Some(b'\\') => {
                *at += 1;
                match data.get(*at) {
                    None => return Err(end()),
                    Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => *at += 1,
                    Some(b'u') => {
                        *at += 1;
                        for _ in 0..4 {
                            match data.get(*at) {
                                None => return Err(end()),
                                Some(c) if c.is_ascii_hexdigit() => *at += 1,
                                Some(c) => return Err(invalid(*c, "in \\u hexadecimal character escape")),
                            }
                        }
                    }
                    Some(c) => return Err(invalid(*c, "in string escape code")),
                }
            }
            Some(c) if *c < 0x20 => return Err(invalid(*c, "in string literal")),
            Some(_) => *at += 1,
        }
    }
}

fn check_number(data: &[u8], at: &mut usize) -> Result<(), String> {
    let digits = |at: &mut usize, context: &str| -> Result<(), String> {
        match data.get(*at) {
            None => return Err(end()),
            Some(c) if c.is_ascii_digit() => {}
            Some(c) => return Err(invalid(*c, context)),
        }
        while data.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
        Ok(())
    };
    if data.get(*at) == Some(&b'-') {
        *at += 1;
    }
    if data.get(*at) == Some(&b'0') {
        *at += 1;
    } else {
        digits(at, "in numeric literal")?;
    }
    if data.get(*at) == Some(&b'.') {
        *at += 1;
        digits(at, "after decimal point in numeric literal")?;
    }
    if matches!(data.get(*at), Some(b'e' | b'E')) {
        *at += 1;
        if matches!(data.get(*at), Some(b'+' | b'-')) {
            *at += 1;
        }
        digits(at, "in exponent of numeric literal")?;
    }
    Ok(())
}

fn check_word(data: &[u8], at: &mut usize, word: &[u8]) -> Result<(), String> {
    for expected in word {
        match data.get(*at) {
            None => return Err(end()),
            Some(c) if c == expected => *at += 1,
            Some(c) => {
                let word = String::from_utf8_lossy(word);
                let context = format!("in literal {word} (expecting '{}')", char::from(*expected));
                return Err(invalid(*c, &context));
            }
        }
    }
    Ok(())
}

/// Walks a body that [`check`] has passed.
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        let mut cursor = Self { data, at: 0 };
        cursor.space();
        cursor
    }

    /// A cursor at a value that [`check_noting`] told of.
    pub(super) fn at(data: &'a [u8], at: usize) -> Self {
        Self { data, at }
    }

    fn space(&mut self) {
        skip_space(self.data, &mut self.at);
    }

    /// The first byte of the next value, which says what it is.
    pub(super) fn peek(&self) -> u8 {
        self.data.get(self.at).copied().unwrap_or(b'n')
    }

    /// Enters the object or list that begins here; gives whether it has a member.
    pub(super) fn enter(&mut self, close: u8) -> bool {
        self.at += 1;
        self.space();
        let empty = self.peek() == close;
        if empty {
            self.at += 1;
            self.space();
        }
        !empty
    }

    /// Steps over the comma or the closing bracket after a member; gives whether another follows.
    pub(super) fn another(&mut self) -> bool {
        let more = self.peek() == b',';
        self.at += 1;
        self.space();
        more
    }

    /// An object's key; leaves the cursor at its value.
    pub(super) fn key(&mut self) -> Cow<'a, str> {
        let key = unquote(self.raw());
        // The colon.
        self.at += 1;
        self.space();
        key
    }

    /// The string that begins here.
    pub(super) fn string(&mut self) -> Cow<'a, str> {
        unquote(self.raw())
    }

    /// The text of the value that begins here, whatever it is.
    pub(super) fn raw(&mut self) -> &'a [u8] {
        let begin = self.at;
        let mut depth = 0usize;
        while let Some(c) = self.data.get(self.at) {
            match c {
                b'"' => {
                    self.at += 1;
                    while let Some(c) = self.data.get(self.at) {
                        match c {
                            b'\\' => self.at += 1,
                            b'"' => break,
                            _ => {}
                        }
                        self.at += 1;
                    }
                    self.at += 1;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    while matches!(self.data.get(self.at), Some(b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.'))
                    {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                break;
            }
        }
        let text = self.data.get(begin..self.at).unwrap_or_default();
        self.space();
        text
    }
}

/// The string that a literal stands for. As Go does, what is not text becomes U+FFFD.
pub(super) fn unquote(literal: &[u8]) -> Cow<'_, str> {
    let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains(&b'\\') {
        return String::from_utf8_lossy(inner);
    }
    let mut out: Vec<u8> = Vec::with_capacity(inner.len());
    let mut at = 0;
    let hex = |at: usize| {
        let digits = std::str::from_utf8(inner.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    while let Some(c) = inner.get(at) {
        at += 1;
        if *c != b'\\' {
            out.push(*c);
            continue;
        }
        let escape = inner.get(at).copied().unwrap_or(b'\\');
        at += 1;
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let mut code = hex(at).unwrap_or(0xfffd);
                at += 4;
                if (0xd800..0xdc00).contains(&code)
                    && inner.get(at..at + 2) == Some(b"\\u")
                    && let Some(low) = hex(at + 2).filter(|l| (0xdc00..0xe000).contains(l))
                {
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    at += 6;
                }
                let c = char::from_u32(code).unwrap_or('\u{fffd}');
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(other),
        }
    }
    Cow::Owned(String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}
