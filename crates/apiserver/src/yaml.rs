//! Writing YAML byte for byte as the real server does (API-05).
//!
//! That server writes YAML 1.1 by libyaml's rules: keys in a natural order, lists at the indentation of their key,
//! strings quoted when they would read as something else (`y`, `on`, `1_000`, `2026-01-01`, `1:30`), text of several lines as a
//! literal block, and lines folded after 80 columns where a space allows it.

use std::cmp::Ordering;

use serde_json::{Map, Value};

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

    fn mapping(&mut self, members: &Map<String, Value>, indent: usize, place: Place) {
        let mut keys: Vec<&String> = members.keys().collect();
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

fn number(n: &serde_json::Number) -> String {
    if !n.is_f64() {
        return n.to_string();
    }
    let value = n.as_f64().unwrap_or_default();
    let exponent = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    if (-4.0..21.0).contains(&exponent) {
        return format!("{value}");
    }
    // Go writes a sign and at least two digits.
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Whether a plain scalar of this text would be read as a string by YAML 1.1.
fn resolves_to_string(text: &str) -> bool {
    const WORDS: [&str; 36] = [
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n",
        "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf",
        ".INF", "+.inf", "+.Inf", "+.INF",
    ];
    if WORDS.contains(&text) || matches!(text, "-.inf" | "-.Inf" | "-.INF") {
        return false;
    }
    match text.as_bytes().first() {
        Some(b'.') => !is_go_float(text),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            !(is_timestamp(text) || is_go_int(&plain) || is_yaml_float(&plain) || is_base_60(text))
        }
        _ => true,
    }
}

/// What Go's `strconv.ParseFloat` reads.
fn is_go_float(text: &str) -> bool {
    is_yaml_float(text)
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if let Some(exponent) = exponent
        && !digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
    {
        return false;
    }
    match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    }
}

/// What Go's `strconv.ParseInt(s, 0, 64)` or `ParseUint` reads, underscores aside.
fn is_go_int(text: &str) -> bool {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (digits, radix) = if let Some(digits) = lower.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (digits, 2)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (digits, 8)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (&lower[1..], 8)
    } else {
        (lower.as_str(), 10)
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(number) if negative => number <= 1 << 63,
        // `+` is read by the signed reader only.
        Ok(number) if text.starts_with('+') => i64::try_from(number).is_ok(),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !first.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let rest: Vec<&str> = parts.collect();
    let sexagesimal = |part: &str| match part.as_bytes() {
        [a] => a.is_ascii_digit(),
        [a, b] => matches!(a, b'0'..=b'5') && b.is_ascii_digit(),
        _ => false,
    };
    match rest.split_last() {
        None => false,
        Some((last, middle)) => {
            let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
            middle.iter().all(|part| sexagesimal(part))
                && sexagesimal(last)
                && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        }
    }
}

/// A date, or a date and time, in the four forms that the real server's YAML reads.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    if year.len() != 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, rest) = rest.split_at(day_end);
    let within = |part: &str, low: u32, high: u32| {
        (1..=2).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|n| (low..=high).contains(&n))
    };
    let days = |month: u32, year: u32| match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    };
    if !within(month, 1, 12) {
        return false;
    }
    let last = days(month.parse().unwrap_or(1), year.parse().unwrap_or(1));
    if !within(day, 1, last) {
        return false;
    }
    let (time, zoned) = match rest.as_bytes().first() {
        None => return true,
        Some(b'T' | b't') => (&rest[1..], true),
        Some(b' ') => (&rest[1..], false),
        Some(_) => return false,
    };
    let time = if zoned {
        match time.strip_suffix('Z') {
            Some(time) => time,
            None => {
                let Some(at) = time.rfind(['+', '-']) else { return false };
                let (time, zone) = time.split_at(at);
                let bytes = zone.as_bytes();
                let fits =
                    bytes.len() == 6 && bytes[3] == b':' && within(&zone[1..3], 0, 24) && within(&zone[4..6], 0, 60);
                if !fits {
                    return false;
                }
                time
            }
        }
    } else {
        time
    };
    let (time, fraction) = time.split_once(['.', ',']).unwrap_or((time, "0"));
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let parts: Vec<&str> = time.split(':').collect();
    matches!(parts.as_slice(), [h, m, s] if within(h, 0, 23) && within(m, 0, 59) && within(s, 0, 59))
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
    use serde_json::json;

    use super::*;

    /// Contract: API-05
    #[test]
    fn structure_is_written_as_the_reference_writes_it() {
        let value = json!({
            "metadata": {"name": "x", "labels": {}, "finalizers": []},
            "list": [{"b": 1, "a": [1, [2, 3]]}, "s", null, {}],
            "a10": 1, "a9": 2,
        });
        let expected = "a9: 2\na10: 1\nlist:\n- a:\n  - 1\n  - - 2\n    - 3\n  b: 1\n- s\n- null\n- {}\nmetadata:\n  finalizers: []\n  labels: {}\n  name: x\n";
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
