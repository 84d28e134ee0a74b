//! Classes of characters: in brackets, by a name, by a category or a script.

use super::{BAD_CLASS, MOST_PROPERTIES, NOTHING, Node, Parser, TOO_LARGE, Wrong, push};

/// The halves of pairs, which Go has for characters though no text has them.
const HALVES: (u32, u32) = (0xd800, 0xdfff);

impl<'t> Parser<'t> {
    /// `\d` and its like.
    pub(super) fn perl_class(&mut self) -> Option<&'static str> {
        let class = match self.rest.get(..2)? {
            r"\d" => "[0-9]",
            r"\D" => "[^0-9]",
            r"\s" => r"[\t\n\f\r ]",
            r"\S" => r"[^\t\n\f\r ]",
            r"\w" => "[0-9A-Za-z_]",
            r"\W" => "[^0-9A-Za-z_]",
            _ => return None,
        };
        self.skip(2);
        Some(class)
    }

    /// `\pL`, `\p{Greek}` and `\P`.
    pub(super) fn unicode_class(&mut self) -> Result<Option<String>, Wrong<'t>> {
        let start = self.rest;
        let Some(name) = start.strip_prefix(r"\p").or_else(|| start.strip_prefix(r"\P")) else { return Ok(None) };
        let mut negated = start.starts_with(r"\P");
        let name = match name.strip_prefix('{').map(|name| name.split_once('}')) {
            Some(Some((name, rest))) => {
                self.rest = rest;
                name
            }
            Some(None) => return Err(Wrong(BAD_CLASS, start)),
            None => {
                let first = name.chars().next().map_or(0, char::len_utf8);
                self.rest = &name[first..];
                &name[..first]
            }
        };
        let own = name.strip_prefix('^');
        negated ^= own.is_some();
        self.properties += 1;
        if self.properties > MOST_PROPERTIES {
            return Err(Wrong(TOO_LARGE, self.whole));
        }
        let property = property(own.unwrap_or(name), negated);
        property.map(Some).ok_or_else(|| Wrong(BAD_CLASS, self.since(start)))
    }

    pub(super) fn class(&mut self) -> Result<(), Wrong<'t>> {
        let start = self.rest;
        self.skip(1);
        let mut said = "[".to_owned();
        if self.rest.starts_with('^') {
            self.skip(1);
            said.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some(named) = self.named_class()? {
                said.push_str(named);
            } else if let Some(class) = self.unicode_class()? {
                said.push_str(&class);
            } else if let Some(class) = self.perl_class() {
                said.push_str(class);
            } else {
                let range = self.rest;
                let low = self.class_character(start)?;
                let mut high = low;
                let after = self.rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'));
                if let Some(after) = after {
                    self.rest = after;
                    high = self.class_character(start)?;
                    if high < low {
                        return Err(Wrong(BAD_CLASS, self.since(range)));
                    }
                }
                push_range(&mut said, low, high);
            }
        }
        self.skip(1);
        // Of no characters but halves of pairs: nothing, or anything.
        match &*said {
            "[" => self.out.push_str(NOTHING),
            "[^" => self.out.push_str("(?s:.)"),
            _ => {
                said.push(']');
                self.folded(self.flags.folds, |out| out.push_str(&said));
            }
        }
        self.part(Node::LEAF)
    }

    /// The number of a character of a class, which began at `class`.
    fn class_character(&mut self, class: &'t str) -> Result<u32, Wrong<'t>> {
        let start = self.rest;
        if !start.starts_with('\\') {
            return self.next().map(u32::from).ok_or(Wrong("missing closing ]", class));
        }
        self.escape()
    }

    /// `[:alpha:]` and its like.
    fn named_class(&mut self) -> Result<Option<&'t str>, Wrong<'t>> {
        let start = self.rest;
        let Some(name) = start.strip_prefix("[:").filter(|_| self.names_end) else { return Ok(None) };
        let Some(end) = name.find(":]") else {
            self.names_end = false;
            return Ok(None);
        };
        self.skip("[:".len() + end + ":]".len());
        let named = self.since(start);
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let name = &start["[:".len()..][..end];
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(Wrong(BAD_CLASS, named));
        }
        Ok(Some(named))
    }
}

/// A class by a category or a script. Those of Go have their names in any case, and with or without what parts words; the
/// crate knows more: properties, and scripts by their codes.
fn property(name: &str, negated: bool) -> Option<String> {
    /// The scripts whose names are no longer than codes.
    const SHORT: [&str; 8] = ["ahom", "cham", "kawi", "lisu", "modi", "newa", "thai", "toto"];
    let parts_words = |c: &char| matches!(c, ' ' | '_' | '-');
    let plain: String = name.chars().filter(|c| !parts_words(c)).map(|c| c.to_ascii_lowercase()).collect();
    if plain.is_empty() || plain.starts_with("is") || !plain.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    if matches!(&*plain, "cs" | "surrogate") {
        return Some(if negated { r"[\x{0}-\x{10FFFF}]" } else { NOTHING }.to_owned());
    }
    let letter = if negated { 'P' } else { 'p' };
    let is_script = plain.len() != 4 || SHORT.contains(&&*plain);
    let kinds = ["gc", "sc"].into_iter().filter(|kind| *kind == "gc" || is_script);
    kinds.map(|kind| format!(r"\{letter}{{{kind}={plain}}}")).find(|said| regex_syntax::parse(said).is_ok())
}

fn push_range(out: &mut String, low: u32, high: u32) {
    let is_half = |number: u32| (HALVES.0..=HALVES.1).contains(&number);
    let low = if is_half(low) { HALVES.1 + 1 } else { low };
    let high = if is_half(high) { HALVES.0 - 1 } else { high };
    let (Some(low), Some(high)) = (char::from_u32(low), char::from_u32(high)) else { return };
    if low <= high {
        push(out, low);
        out.push('-');
        push(out, high);
    }
}
