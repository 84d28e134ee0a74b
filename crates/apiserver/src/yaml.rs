//! Writing YAML byte for byte as the real server does (API-05).
//!
//! That server writes YAML 1.1 by libyaml's rules: keys in a natural order, lists at the indentation of their key,
//! strings quoted when they would read as something else (`y`, `on`, `1_000`, `2026-01-01`, `1:30`), text of several lines as a
//! literal block, and lines folded after 80 columns where a space allows it.

mod plain;

use std::cmp::Ordering;

use muster_tree::{Map, Text, Value};

use muster_tree::float;
use plain::resolves_to_string;

/// A tree as YAML, with a final line feed.
#[must_use]
pub fn to_string(value: &Value) -> String {
    let mut emitter = Emitter { out: String::with_capacity(2048), column: 0 };
    emitter.node(value, 0, Place::Root);
    if !emitter.out.ends_with('\n') {
        emitter.out.push('\n');
    }
    emitter.out
}

/// Lines are folded when they are longer than this.
const WIDTH: usize = 80;
/// A key longer than this, in bytes, needs a line of its own.
const LONGEST_SIMPLE_KEY: usize = 128;

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start.
    Root,
    /// After `key:`
    Value,
    /// After `- `
    Item,
}

struct Emitter {
    out: String,
    /// In characters.
    column: usize,
}

impl Emitter {
    fn node(&mut self, value: &Value, indent: usize, place: Place) {
        match value {
            Value::Object(members) if !members.is_empty() => self.mapping(members, indent, place),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent, place),
            Value::Object(_) => self.word("{}"),
            Value::Array(_) => self.word("[]"),
            Value::Null => self.word("null"),
            Value::Bool(b) => self.word(if *b { "true" } else { "false" }),
            Value::Number(n) => self.word(&number(n)),
            Value::String(text) => self.string(text, if place == Place::Root { 2 } else { indent + 2 }),
        }
    }

    fn mapping(&mut self, members: &Map, indent: usize, place: Place) {
        let mut keys: Vec<&Text> = members.keys().collect();
        keys.sort_by(|a, b| natural(a, b));
        let indent = match place {
            Place::Root => 0,
            Place::Value | Place::Item => indent + 2,
        };
        for (index, key) in keys.into_iter().enumerate() {
            // The first key of a list's item stands on the line of its dash.
            if !(index == 0 && place != Place::Value) {
                self.line(indent);
            }
            let simple = key.len() <= LONGEST_SIMPLE_KEY && !key.contains('\n');
            if simple {
                self.key(key);
            } else {
                self.put("?");
                self.string(key, indent + 2);
                self.line(indent);
            }
            self.put(":");
            self.node(&members[key.as_str()], indent, Place::Value);
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, place: Place) {
        // Below a key, a list is not indented; below a dash it is.
        let indent = match place {
            Place::Root => 0,
            Place::Value => indent,
            Place::Item => indent + 2,
        };
        for (index, item) in items.iter().enumerate() {
            if !(index == 0 && place != Place::Value) {
                self.line(indent);
            }
            self.put("-");
            if matches!(item, Value::Object(m) if !m.is_empty()) || matches!(item, Value::Array(a) if !a.is_empty()) {
                self.put(" ");
            }
            self.node(item, indent, Place::Item);
        }
    }

    fn key(&mut self, key: &str) {
        let shape = Shape::of(key);
        let style = if resolves_to_string(key) { Style::Plain } else { Style::Double };
        match style {
            Style::Plain if shape.plain && !key.is_empty() => self.put(key),
            Style::Plain if shape.single => self.single_quoted(key, None),
            _ => self.double_quoted(key, None),
        }
    }

    /// A string after a key or a dash; continued lines are indented by `indent`.
    fn string(&mut self, text: &str, indent: usize) {
        let shape = Shape::of(text);
        let wanted = if text.contains('\n') {
            Style::Literal
        } else if resolves_to_string(text) {
            Style::Plain
        } else {
            Style::Double
        };
        self.put(" ");
        match wanted {
            Style::Literal if shape.block => self.literal(text, indent),
            Style::Plain if shape.plain => self.plain(text, indent),
            Style::Plain if shape.single => self.single_quoted(text, Some(indent)),
            _ => self.double_quoted(text, Some(indent)),
        }
    }

    fn plain(&mut self, text: &str, indent: usize) {
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let fold = c == ' ' && !after_space && self.column > WIDTH && chars.peek() != Some(&' ');
            if fold {
                self.line(indent);
            } else {
                self.char(c);
            }
            after_space = c == ' ';
        }
    }

    fn single_quoted(&mut self, text: &str, fold_to: Option<usize>) {
        self.put("'");
        let mut after_space = false;
        let last = text.len().saturating_sub(1);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let inside = at > 0 && at < last;
            let before_space = matches!(chars.peek(), Some((_, ' ')));
            match fold_to {
                Some(indent) if c == ' ' && !after_space && self.column > WIDTH && inside && !before_space => {
                    self.line(indent);
                }
                _ => {
                    if c == '\'' {
                        self.char('\'');
                    }
                    self.char(c);
                }
            }
            after_space = c == ' ';
        }
        self.put("'");
    }

    fn double_quoted(&mut self, text: &str, fold_to: Option<usize>) {
        self.put("\"");
        let mut after_space = false;
        let last = text.len().saturating_sub(1);
        let bom_first = text.starts_with('\u{feff}');
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if !printable(c) || bom_first || is_break(c) || c == '"' || c == '\\' {
                self.escaped(c);
                after_space = false;
                continue;
            }
            let inside = at > 0 && at < last;
            match fold_to {
                Some(indent) if c == ' ' && !after_space && self.column > WIDTH && inside => {
                    self.line(indent);
                    if matches!(chars.peek(), Some((_, ' '))) {
                        self.char('\\');
                    }
                }
                _ => self.char(c),
            }
            after_space = c == ' ';
        }
        self.put("\"");
    }

    fn escaped(&mut self, c: char) {
        let code = u32::from(c);
        let short = match code {
            0x00 => '0',
            0x07 => 'a',
            0x08 => 'b',
            0x09 => 't',
            0x0a => 'n',
            0x0b => 'v',
            0x0c => 'f',
            0x0d => 'r',
            0x1b => 'e',
            0x22 => '"',
            0x5c => '\\',
            0x85 => 'N',
            0xa0 => '_',
            0x2028 => 'L',
            0x2029 => 'P',
            _ => {
                let text = match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                self.put(&text);
                return;
            }
        };
        self.char('\\');
        self.char(short);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with(' ') || text.starts_with(is_break) {
            self.put("2");
        }
        let mut from_end = text.chars().rev();
        match (from_end.next(), from_end.next()) {
            (Some(last), _) if !is_break(last) => self.put("-"),
            (Some(_), None) => self.put("+"),
            (Some(_), Some(before)) if is_break(before) => self.put("+"),
            _ => {}
        }
        self.out.push('\n');
        self.column = 0;
        let mut at_start = true;
        for c in text.chars() {
            if is_break(c) {
                self.out.push(c);
                self.column = 0;
                at_start = true;
                continue;
            }
            if at_start {
                self.spaces(indent);
                at_start = false;
            }
            self.char(c);
        }
    }

    fn word(&mut self, text: &str) {
        if self.column > 0 && !self.out.ends_with(' ') {
            self.char(' ');
        }
        self.put(text);
    }

    /// Begins a new line, unless this one is still empty.
    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.out.push('\n');
            self.column = 0;
        }
        self.spaces(indent);
    }

    fn spaces(&mut self, count: usize) {
        for _ in 0..count {
            self.char(' ');
        }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Double,
    Literal,
}

/// In which styles a string can be written in block context.
struct Shape {
    plain: bool,
    single: bool,
    block: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self { plain: true, single: true, block: false };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special) = (false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let before_blank = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
                    if first =>
                {
                    true
                }
                '?' | '-' if first => before_blank,
                ':' => before_blank,
                '#' => after_blank,
                _ => false,
            };
            special |= !printable(c);
            if c == ' ' {
                break_space |= after_break;
                (after_space, after_break) = (true, false);
            } else if is_break(c) {
                breaks = true;
                space_break |= after_space;
                (after_space, after_break) = (false, true);
            } else {
                (after_space, after_break) = (false, false);
            }
            after_blank = matches!(c, ' ' | '\t' | '\0') || is_break(c);
            first = false;
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let at_edges = edge(text.chars().next()) || edge(text.chars().next_back());
        Self {
            plain: !(at_edges || break_space || space_break || special || breaks || indicators),
            single: !(break_space || space_break || special),
            block: !(text.ends_with(' ') || space_break || special),
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

fn number(n: &muster_tree::Number) -> String {
    n.as_f64().filter(|_| n.is_f64()).map_or_else(|| n.to_string(), float::shown)
}

/// The order of keys: letters after everything else, runs of digits by their number.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    for i in 0..a.len().min(b.len()) {
        if a[i] == b[i] {
            continue;
        }
        match (a[i].is_alphabetic(), b[i].is_alphabetic()) {
            (true, true) => return a[i].cmp(&b[i]),
            (false, true) => return Ordering::Less,
            (true, false) => return Ordering::Greater,
            (false, false) => {}
        }
        let (mut an, mut bn) = (0_i64, 0_i64);
        if a[i] == '0' || b[i] == '0' {
            // Zeros after another digit count as digits.
            let nonzero = a[..i].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
            if nonzero {
                (an, bn) = (1, 1);
            }
        }
        let run = |chars: &[char], number: &mut i64| {
            let digits = chars.iter().take_while(|c| c.is_ascii_digit());
            let mut end = i;
            for c in digits {
                *number = number.wrapping_mul(10).wrapping_add(i64::from(c.to_digit(10).unwrap_or(0)));
                end += 1;
            }
            end
        };
        let (a_end, b_end) = (run(&a[i..], &mut an), run(&b[i..], &mut bn));
        return an.cmp(&bn).then(a_end.cmp(&b_end)).then(a[i].cmp(&b[i]));
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-05
    #[test]
    fn structure_is_written_as_the_reference_writes_it() {
        let value = json!({
            "metadata": {"name": "x", "labels": {}, "finalizers": []},
            "list": [{"b": 1, "a": [1, [2, 3]]}, "s", null, {}],
            "a10": 1, "a9": 2, "a11": 1_234_567.5,
        });
        let expected = "a9: 2\na10: 1\na11: 1.2345675e+06\nlist:\n- a:\n  - 1\n  - - 2\n    - 3\n  b: 1\n- s\n- null\n- {}\nmetadata:\n  finalizers: []\n  labels: {}\n  name: x\n";
        assert_eq!(to_string(&value), expected);
    }

    /// Contract: API-05
    #[test]
    fn strings_are_quoted_when_they_would_read_as_something_else() {
        let table = [
            ("plain", "plain"),
            ("two words", "two words"),
            ("", "\"\""),
            ("y", "\"y\""),
            ("on", "\"on\""),
            ("null", "\"null\""),
            ("12", "\"12\""),
            ("0x1f", "\"0x1f\""),
            ("017", "\"017\""),
            ("089", "\"089\""),
            ("1_000", "\"1_000\""),
            ("1e3", "\"1e3\""),
            ("1.2.3", "1.2.3"),
            ("12:30", "\"12:30\""),
            ("2026-01-01", "\"2026-01-01\""),
            ("2026-01-01T00:00:00Z", "\"2026-01-01T00:00:00Z\""),
            ("2026-13-01", "2026-13-01"),
            (" lead", "' lead'"),
            ("a: b", "'a: b'"),
            ("a:b", "a:b"),
            ("# no", "'# no'"),
            ("it's", "it's"),
            ("'q", "'''q'"),
            ("-", "'-'"),
            ("-x", "-x"),
            ("{}", "'{}'"),
            ("<none>", "<none>"),
            ("tab\there", "\"tab\\there\""),
            ("ü", "ü"),
            ("\u{1f600}", "\"\\U0001F600\""),
            ("one\ntwo", "|-\n  one\n  two"),
            ("one\n", "|\n  one"),
            ("one\n\n", "|+\n  one\n"),
        ];
        for (text, expected) in table {
            let yaml = to_string(&json!({"k": text}));
            assert_eq!(yaml, format!("k: {expected}\n"), "{text:?}");
        }
    }

    /// Contract: API-05
    #[test]
    fn long_lines_are_folded_at_a_space() {
        let text = "word ".repeat(20);
        let yaml = to_string(&json!({"k": text.trim_end()}));
        let lines: Vec<&str> = yaml.lines().collect();
        assert_eq!(lines.len(), 2, "{yaml}");
        assert!(lines[0].len() > WIDTH && lines[1].starts_with("  word"), "{yaml}");
    }
}
