//! Reading JSON text in place: where the members of an object and the items of a list are.
//!
//! Nothing is copied and nothing is checked beyond what is needed to find the way.

use std::borrow::Cow;
use std::ops::Range;

/// An object in a text, read member by member. Whatever is not as JSON should be ends the reading with
/// an outer `None`.
pub(super) struct Object<'a> {
    text: &'a str,
    /// Where reading goes on.
    at: usize,
    /// Whether there is no member yet.
    empty: bool,
    /// Where the last member ended.
    last_end: usize,
    done: bool,
}

/// A member of an object.
pub(super) struct Member<'a> {
    pub(super) key: Cow<'a, str>,
    /// Where the key begins.
    pub(super) start: usize,
    pub(super) value: Range<usize>,
    /// Where the next member begins.
    pub(super) next: Option<usize>,
}

impl<'a> Object<'a> {
    /// Begins at the brace after white space from `at` on.
    pub(super) fn open(text: &'a str, at: usize) -> Option<Self> {
        let brace = space(text, at);
        if text.as_bytes().get(brace) != Some(&b'{') {
            return None;
        }
        let at = space(text, brace + 1);
        let done = text.as_bytes().get(at) == Some(&b'}');
        Some(Self { text, at, empty: true, last_end: brace + 1, done })
    }

    /// The next member; an inner `None` at the end of the object.
    pub(super) fn next(&mut self) -> Option<Option<Member<'a>>> {
        if self.done {
            return Some(None);
        }
        let bytes = self.text.as_bytes();
        let start = self.at;
        let end = string(self.text, start)?;
        let inside = self.text.get(start + 1..end - 1)?;
        let key = if inside.contains('\\') {
            Cow::Owned(serde_json::from_str(&self.text[start..end]).ok()?)
        } else {
            Cow::Borrowed(inside)
        };
        let colon = space(self.text, end);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let begin = space(self.text, colon + 1);
        let value = begin..value(self.text, begin)?;
        let after = space(self.text, value.end);
        (self.empty, self.last_end) = (false, value.end);
        let next = match bytes.get(after)? {
            b',' => {
                self.at = space(self.text, after + 1);
                Some(self.at)
            }
            b'}' => {
                self.done = true;
                None
            }
            _ => return None,
        };
        Some(Some(Member { key, start, value, next }))
    }

    /// Where the value of a key is.
    pub(super) fn find(&mut self, key: &str) -> Option<Option<Range<usize>>> {
        while let Some(member) = self.next()? {
            if member.key == key {
                return Some(Some(member.value));
            }
        }
        Some(None)
    }

    /// After the last member, once all are read.
    pub(super) fn end(&self) -> Range<usize> {
        self.last_end..self.last_end
    }

    /// A member to put at the end.
    pub(super) fn another(&self, member: &str) -> String {
        if self.empty { member.to_owned() } else { format!(",{member}") }
    }
}

/// The items of a list. `None` for anything else.
pub(super) fn items(text: &str) -> Option<Vec<&str>> {
    let mut at = space(text, 0);
    if text.as_bytes().get(at) != Some(&b'[') {
        return None;
    }
    at = space(text, at + 1);
    let mut out = Vec::new();
    if text.as_bytes().get(at) == Some(&b']') {
        return Some(out);
    }
    loop {
        let end = value(text, at)?;
        out.push(text.get(at..end)?);
        at = space(text, end);
        match text.as_bytes().get(at)? {
            b',' => at = space(text, at + 1),
            b']' => return Some(out),
            _ => return None,
        }
    }
}

/// Past the white space at `at`.
fn space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// Past the string that begins at `at`.
fn string(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += bytes.get(at..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Past the value that begins at `at`.
fn value(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = at;
    loop {
        match bytes.get(at)? {
            b'"' => at = string(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth == 0 => {
                // A number or a word.
                let length = bytes[at..].iter().position(|b| b",:]} \t\r\n\"{[".contains(b))?;
                return if length == 0 { None } else { Some(at + length) };
            }
            // Inside, only strings and brackets matter.
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}
