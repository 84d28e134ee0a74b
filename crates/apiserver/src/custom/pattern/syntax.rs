//! The syntax of Go's `regexp`, said in that of the crate: what both have is not the same. In Go `\w` and its like are of
//! ASCII, `{` is itself where it begins no repetition, a class has no parts and operators, and counts end at 1,000.

mod classes;

use std::fmt::Write as _;

/// The largest count of a repetition, and of those in each other multiplied.
const MOST_TIMES: u64 = 1000;
/// How deep one expression may lie in others.
const DEEPEST: usize = 1000;
/// Of how many steps an expression may be.
const MOST_STEPS: u64 = (128 << 20) / 40;
/// How many classes by a property it may name: each takes some 6 KB before anything is compiled. Go allows six times as many.
const MOST_PROPERTIES: usize = 4_000;
/// How long it may be in the syntax of the crate, in bytes. Go has no such limit.
const LONGEST: usize = 1 << 20;
const TOO_LARGE: &str = "expression too large";

/// An expression in the syntax of the crate, whose groups catch nothing.
pub(super) struct Translated {
    pub(super) text: String,
    /// How deep its parts lie in each other.
    pub(super) depth: usize,
}

/// Says an expression in the syntax of the crate.
///
/// # Errors
/// What is wrong with it, in Go's words.
pub(super) fn translate(text: &str) -> Result<Translated, String> {
    let mut parser = Parser {
        whole: text,
        rest: text,
        flags: Flags::default(),
        outer: Vec::new(),
        group: Group::default(),
        properties: 0,
        names_end: true,
        out: String::with_capacity(2 * text.len()),
    };
    parser.all().map_err(|Wrong(what, at)| format!("error parsing regexp: {what}: `{at}`"))?;
    Ok(Translated { text: parser.out, depth: parser.group.whole().depth })
}

/// What is wrong, and where it is.
struct Wrong<'t>(&'static str, &'t str);

const BAD_CLASS: &str = "invalid character class range";
const BAD_COUNT: &str = "invalid repeat count";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_NAME: &str = "invalid named capture";

#[derive(Clone, Copy, Default)]
struct Flags {
    /// `i`
    folds: bool,
    /// `m`
    lines: bool,
    /// `s`
    any: bool,
    /// `U`
    lazy: bool,
}

/// What of an expression its repetition looks at.
#[derive(Clone, Copy)]
struct Node {
    /// The counts of the repetitions in each other, multiplied.
    times: u64,
    depth: usize,
    /// Of how many steps it is.
    steps: u64,
}

impl Node {
    const LEAF: Self = Self { times: 1, depth: 1, steps: 1 };

    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn longer(self, steps: u64) -> Self {
        Self { steps: self.steps.saturating_add(steps), ..self }
    }

    fn beside(self, other: Self) -> Self {
        let steps = self.steps.saturating_add(other.steps);
        Self { times: self.times.max(other.times), depth: self.depth.max(other.depth), steps }
    }
}

/// A group that is not closed yet.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The flags before it.
    flags: Flags,
    catches: bool,
    /// What a repetition would be of: the last part of the alternative.
    last: Option<Node>,
    /// What is before that.
    before: Option<Node>,
    /// The alternatives before, and how many they are.
    others: Option<Node>,
    count: usize,
}

impl Group {
    /// The end of an alternative.
    fn end(&mut self) {
        let whole = match (self.before.take(), self.last.take()) {
            (Some(before), Some(last)) => before.beside(last).deeper(),
            (_, last) => last.unwrap_or(Node::LEAF),
        };
        self.others = Some(self.others.map_or(whole, |others| others.beside(whole)));
        self.count += 1;
    }

    /// What the group is, at its end.
    fn whole(mut self) -> Node {
        self.end();
        let whole = self.others.unwrap_or(Node::LEAF);
        let whole = if self.count > 1 { whole.deeper().longer(self.count as u64 - 1) } else { whole };
        if self.catches { whole.deeper().longer(2) } else { whole }
    }
}

struct Parser<'t> {
    whole: &'t str,
    rest: &'t str,
    flags: Flags,
    outer: Vec<Group>,
    group: Group,
    /// How many classes by a property there have been.
    properties: usize,
    /// Whether there may be an end of a named class in the rest.
    names_end: bool,
    out: String,
}

impl<'t> Parser<'t> {
    fn all(&mut self) -> Result<(), Wrong<'t>> {
        // From the operator before, where that is all that is between.
        let mut repeated: Option<&'t str> = None;
        while let Some(first) = self.rest.chars().next() {
            let start = self.rest;
            let mut operator = None;
            match first {
                '(' if start.starts_with("(?") => self.flags_or_group()?,
                '(' => {
                    self.skip(1);
                    self.open(true);
                }
                '|' => {
                    self.skip(1);
                    self.group.end();
                    self.out.push('|');
                }
                ')' => {
                    self.skip(1);
                    self.close()?;
                }
                '^' => self.assert(1, if self.flags.lines { "(?m:^)" } else { r"\A" })?,
                '$' => self.assert(1, if self.flags.lines { "(?m:$)" } else { r"\z" })?,
                '.' => self.assert(1, if self.flags.any { "(?s:.)" } else { r"[^\n]" })?,
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    let counts = match first {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(counts, false, start, repeated)?;
                    operator = Some(start);
                }
                '{' => match counts(start) {
                    None => {
                        self.skip(1);
                        self.literal('{')?;
                    }
                    Some((least, most, rest)) => {
                        self.rest = rest;
                        let too_many = |count: u64| count > MOST_TIMES;
                        if too_many(least) || most.is_some_and(|most| too_many(most) || least > most) {
                            return Err(Wrong(BAD_COUNT, self.since(start)));
                        }
                        self.repeat((least, most), true, start, repeated)?;
                        operator = Some(start);
                    }
                },
                '\\' => self.escaped()?,
                other => {
                    self.skip(other.len_utf8());
                    self.literal(other)?;
                }
            }
            repeated = operator;
        }
        if !self.outer.is_empty() {
            return Err(Wrong("missing closing )", self.whole));
        }
        self.within_bounds(self.group.whole())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// What was read since a place.
    fn since(&self, start: &'t str) -> &'t str {
        &start[..start.len() - self.rest.len()]
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    /// Adds a part to the alternative.
    fn part(&mut self, node: Node) -> Result<(), Wrong<'t>> {
        if let Some(last) = self.group.last.replace(node) {
            let before = self.group.before.map_or(last, |before| before.beside(last));
            self.group.before = Some(before);
            self.within_bounds(before)?;
        }
        self.within_bounds(node)
    }

    fn within_bounds(&self, node: Node) -> Result<(), Wrong<'t>> {
        if node.steps > MOST_STEPS || self.properties > MOST_PROPERTIES || self.out.len() > LONGEST {
            return Err(Wrong(TOO_LARGE, self.whole));
        }
        if node.depth > DEEPEST { Err(Wrong("expression nests too deeply", self.whole)) } else { Ok(()) }
    }

    fn assert(&mut self, bytes: usize, said: &str) -> Result<(), Wrong<'t>> {
        self.skip(bytes);
        self.out.push_str(said);
        self.part(Node::LEAF)
    }

    fn literal(&mut self, character: char) -> Result<(), Wrong<'t>> {
        let folds = self.flags.folds && (character.is_alphabetic() || !character.is_ascii());
        self.folded(folds, |out| push(out, character));
        self.part(Node::LEAF)
    }

    fn folded(&mut self, folds: bool, say: impl FnOnce(&mut String)) {
        self.out.push_str(if folds { "(?i:" } else { "" });
        say(&mut self.out);
        self.out.push_str(if folds { ")" } else { "" });
    }

    fn open(&mut self, catches: bool) {
        let group = Group { flags: self.flags, catches, ..Group::default() };
        self.outer.push(std::mem::replace(&mut self.group, group));
        self.out.push_str("(?:");
    }

    fn close(&mut self) -> Result<(), Wrong<'t>> {
        let Some(outer) = self.outer.pop() else { return Err(Wrong("unexpected )", self.whole)) };
        let group = std::mem::replace(&mut self.group, outer);
        self.flags = group.flags;
        self.out.push(')');
        self.part(group.whole())
    }

    /// `(?flags)`, `(?flags:` or `(?P<name>`.
    fn flags_or_group(&mut self) -> Result<(), Wrong<'t>> {
        let start = self.rest;
        let name = start.strip_prefix("(?P<").or_else(|| start.strip_prefix("(?<"));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let Some((name, rest)) = name.split_once('>') else { return Err(Wrong(BAD_NAME, start)) };
            self.rest = rest;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(Wrong(BAD_NAME, self.since(start)));
            }
            self.open(true);
            return Ok(());
        }
        self.skip("(?".len());
        let (mut flags, mut value, mut any) = (self.flags, true, false);
        while let Some(next) = self.next() {
            let flag = match next {
                'i' => &mut flags.folds,
                'm' => &mut flags.lines,
                's' => &mut flags.any,
                'U' => &mut flags.lazy,
                '-' if value => {
                    (value, any) = (false, false);
                    continue;
                }
                ':' | ')' if value || any => {
                    if next == ':' {
                        self.open(false);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            };
            (*flag, any) = (value, true);
        }
        Err(Wrong("invalid or unsupported Perl syntax", self.since(start)))
    }

    /// Repeats the last part; `counted` says that the operator has counts.
    fn repeat(
        &mut self,
        (least, most): (u64, Option<u64>),
        counted: bool,
        start: &'t str,
        repeated: Option<&'t str>,
    ) -> Result<(), Wrong<'t>> {
        let mut lazy = self.flags.lazy;
        if self.rest.starts_with('?') {
            self.skip(1);
            lazy = !lazy;
        }
        if let Some(before) = repeated {
            return Err(Wrong("invalid nested repetition operator", self.since(before)));
        }
        let Some(last) = self.group.last.as_mut() else {
            return Err(Wrong("missing argument to repetition operator", self.since(start)));
        };
        *last = last.deeper();
        last.steps = match (most, least) {
            (None, 0) => last.steps + 2,
            (None, least) => least * last.steps + 1,
            (Some(most), least) => (most * last.steps + (most - least)).max(1),
        };
        if counted {
            // What is there no time at all may have any counts in it.
            last.times = if most == Some(0) { 1 } else { last.times * most.unwrap_or(least).max(1) };
            if last.times > MOST_TIMES {
                return Err(Wrong(BAD_COUNT, self.since(start)));
            }
        }
        let node = *last;
        self.within_bounds(node)?;
        let lazy = if lazy { "?" } else { "" };
        // With counts, a repetition of a repetition is not taken for a lazy one.
        let most = most.map(|most| most.to_string()).unwrap_or_default();
        let _ = write!(self.out, "{{{least},{most}}}{lazy}");
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), Wrong<'t>> {
        let start = self.rest;
        match start.as_bytes().get(1) {
            Some(b'A') => return self.assert(2, r"\A"),
            Some(b'z') => return self.assert(2, r"\z"),
            Some(b'b') => return self.assert(2, r"(?-u:\b)"),
            Some(b'B') => return self.assert(2, r"(?-u:\B)"),
            Some(b'Q') => {
                let quoted = &start[2..];
                let (quoted, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                self.rest = rest;
                return quoted.chars().try_for_each(|character| self.literal(character));
            }
            _ => {}
        }
        if let Some(class) = self.unicode_class()? {
            self.folded(self.flags.folds, |out| out.push_str(&class));
            return self.part(Node::LEAF);
        }
        if let Some(class) = self.perl_class() {
            self.folded(self.flags.folds, |out| out.push_str(class));
            return self.part(Node::LEAF);
        }
        match char::from_u32(self.escape()?) {
            Some(character) => self.literal(character),
            // Half of a pair, which no text has.
            None => self.assert(0, NOTHING),
        }
    }

    /// The number of a character that is said by it or by a name.
    fn escape(&mut self) -> Result<u32, Wrong<'t>> {
        let start = self.rest;
        self.skip(1);
        let Some(name) = self.next() else { return Err(Wrong("trailing backslash at end of expression", "")) };
        let octal = |parser: &Self| parser.rest.chars().next().and_then(|c| c.to_digit(8));
        let number = match name {
            'a' => Some(0x07),
            'f' => Some(0x0c),
            'n' => Some(0x0a),
            'r' => Some(0x0d),
            't' => Some(0x09),
            'v' => Some(0x0b),
            '1'..='7' if octal(self).is_none() => None,
            '0'..='7' => {
                let mut number = name.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = octal(self) else { break };
                    number = number * 8 + digit;
                    self.skip(1);
                }
                Some(number)
            }
            'x' => self.hexadecimal(),
            name if name.is_ascii() && !name.is_ascii_alphanumeric() => Some(u32::from(name)),
            _ => None,
        };
        number.ok_or_else(|| Wrong(BAD_ESCAPE, self.since(start)))
    }

    /// The number after `\x`: two digits, or any in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16));
        if !self.rest.starts_with('{') {
            let first = self.next();
            let second = self.next();
            return Some(digit(first)? * 16 + digit(second)?);
        }
        self.skip(1);
        let mut number = None;
        loop {
            match self.next() {
                Some('}') => return number,
                next => {
                    let more = number.unwrap_or(0) * 16 + digit(next)?;
                    number = Some(more).filter(|more| *more <= u32::from(char::MAX));
                    number?;
                }
            }
        }
    }
}

/// What matches nowhere.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";
fn push(out: &mut String, character: char) {
    if character.is_ascii_alphanumeric() {
        out.push(character);
    } else {
        let _ = write!(out, r"\x{{{:x}}}", u32::from(character));
    }
}

/// The counts of `{least}`, `{least,}` or `{least,most}`, and what follows; `None` for something else.
fn counts(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let (least, rest) = count(text.strip_prefix('{')?)?;
    let (most, rest) = match rest.strip_prefix(',') {
        None => (Some(least), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => count(rest).map(|(most, rest)| (Some(most), rest))?,
    };
    Some((least, most, rest.strip_prefix('}')?))
}

fn count(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u64::MAX), rest))
}
