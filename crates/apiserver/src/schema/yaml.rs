//! YAML 1.1 to JSON, as `sigs.k8s.io/yaml` over go-yaml v2 does it.
//!
//! `y`, `no`, `on` and the like are booleans, `0777` is octal, `<<` merges maps, keys become strings,
//! only the first document counts. (Contract: API-05.)

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use muster_tree::{Map, Number, Value};

use super::decode::DEEPEST;
use super::normal::float;
use crate::field::go_quote;

/// The most values that a document may grow to by its aliases.
const MOST_VALUES: usize = 1_000_000;
/// What is said of a document that nests too deep.
const TOO_DEEP: &str = "yaml: exceeded max depth";

/// Converts the first document of a YAML text to JSON.
///
/// # Errors
///
/// go-yaml's text, `yaml: line 2: mapping values are not allowed in this context`. Where the reference
/// says `error converting YAML to JSON: ` before it (it does not for request bodies), the caller does.
pub fn yaml_to_json(yaml: &[u8]) -> Result<Vec<u8>, String> {
    read(yaml).map(|(value, _)| value.to_string().into_bytes())
}

/// What strict decoding says of each key that is given twice in one map.
#[must_use]
pub fn duplicates(yaml: &[u8]) -> Vec<String> {
    read(yaml).map(|(_, repeated)| repeated).unwrap_or_default()
}

fn read(yaml: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(yaml).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let parser = Parser::new_from_str(text);
    let mut reader = Reader { parser, anchors: BTreeMap::new(), repeated: Vec::new(), values: 0, depth: 0 };
    loop {
        match reader.next()?.0 {
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::StreamEnd | Event::DocumentEnd => return Ok((Value::Null, Vec::new())),
            event => {
                let value = reader.value(event)?.into_json()?;
                return Ok((value, reader.repeated));
            }
        }
    }
}

/// A value before its keys are strings and its numbers are JSON's.
#[derive(Clone)]
enum Node {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    String(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
    /// The key `<<` where it is not quoted.
    Merge,
}

impl Node {
    fn into_json(self) -> Result<Value, String> {
        self.into_json_at(0)
    }

    fn into_json_at(self, depth: usize) -> Result<Value, String> {
        // Aliases make it deeper than it was read.
        if depth > DEEPEST {
            return Err(TOO_DEEP.to_owned());
        }
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Int(n) => integer(n),
            Self::Float(f) if f.is_finite() => float(f),
            Self::Float(f) => return Err(format!("json: unsupported value: {}", infinite(f))),
            Self::String(s) => Value::String(s.into()),
            Self::Merge => Value::from("<<"),
            Self::List(items) => {
                let items = items.into_iter().map(|item| item.into_json_at(depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Map(entries) => {
                let mut out = Map::new();
                for (key, value) in entries {
                    out.insert(key, value.into_json_at(depth + 1)?);
                }
                Value::Object(out)
            }
        })
    }

    fn count(&self) -> usize {
        1 + match self {
            Self::List(items) => items.iter().map(Self::count).sum(),
            Self::Map(entries) => entries.values().map(Self::count).sum(),
            _ => 0,
        }
    }
}

fn integer(n: i128) -> Value {
    match (i64::try_from(n), u64::try_from(n)) {
        (Ok(n), _) => Value::from(n),
        (_, Ok(n)) => Value::from(n),
        _ => Number::from_f64(0.0).map_or(Value::Null, Value::Number),
    }
}

fn infinite(f: f64) -> &'static str {
    if f.is_nan() {
        "NaN"
    } else if f > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}

struct Reader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    /// `line 3: key "replicas" already set in map`, for each.
    repeated: Vec<String>,
    /// How many values there are by now, aliases counted as what they stand for.
    values: usize,
    /// How deep the one is that is being read.
    depth: usize,
}

impl<'a> Reader<'a> {
    /// The next event that is not a comment, and its line.
    fn next(&mut self) -> Result<(Event<'a>, usize), String> {
        loop {
            match self.parser.next_event() {
                None => return Ok((Event::StreamEnd, 0)),
                Some(Err(error)) => return Err(failed(&error)),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => return Ok((event, span.start.line())),
            }
        }
    }

    fn value(&mut self, event: Event<'a>) -> Result<Node, String> {
        self.depth += 1;
        let node = if self.depth > DEEPEST { Err(TOO_DEEP.to_owned()) } else { self.value_here(event) };
        self.depth -= 1;
        node
    }

    fn value_here(&mut self, event: Event<'a>) -> Result<Node, String> {
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err("yaml: document contains excessive aliasing".to_owned());
        }
        match event {
            Event::Alias(id) => {
                let node = self.anchors.get(&id).cloned().unwrap_or(Node::Null);
                self.values += node.count();
                Ok(node)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let node = resolve(&text, style, tag.as_deref())?;
                self.remember(anchor, &node);
                Ok(node)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()?.0 {
                        Event::SequenceEnd | Event::StreamEnd => break,
                        event => items.push(self.value(event)?),
                    }
                }
                let node = Node::List(items);
                self.remember(anchor, &node);
                Ok(node)
            }
            Event::MappingStart(_, anchor, _) => {
                let node = self.mapping()?;
                self.remember(anchor, &node);
                Ok(node)
            }
            _ => Ok(Node::Null),
        }
    }

    fn remember(&mut self, anchor: usize, node: &Node) {
        if anchor != 0 {
            // Kept beside the document: nested anchors could grow as well.
            self.values += node.count();
            self.anchors.insert(anchor, node.clone());
        }
    }

    fn mapping(&mut self) -> Result<Node, String> {
        let mut out: BTreeMap<String, Node> = BTreeMap::new();
        let mut given: BTreeSet<String> = BTreeSet::new();
        let mut merged: Vec<Node> = Vec::new();
        loop {
            let event = match self.next()?.0 {
                Event::MappingEnd | Event::StreamEnd => break,
                event => event,
            };
            let key = self.value(event)?;
            let (event, line) = self.next()?;
            let value = self.value(event)?;
            if matches!(key, Node::Merge) {
                merged.push(value);
                continue;
            }
            let Some((name, shown)) = key_name(key)? else {
                let value = go_syntax(&value);
                return Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"));
            };
            if !given.insert(name.clone()) {
                self.repeated.push(format!("line {line}: key {shown} already set in map"));
            }
            out.insert(name, value);
        }
        for source in merged {
            // What the map says itself goes before what it merges.
            let maps = match source {
                Node::Map(map) => vec![map],
                Node::List(items) => {
                    items.into_iter().filter_map(|i| if let Node::Map(m) = i { Some(m) } else { None }).collect()
                }
                _ => return Err("yaml: map merge requires map or sequence of maps as the value".to_owned()),
            };
            for (name, value) in maps.into_iter().flatten() {
                out.entry(name).or_insert(value);
            }
        }
        Ok(Node::Map(out))
    }
}

/// A value as Go source, which one message shows.
fn go_syntax(node: &Node) -> String {
    match node {
        Node::Null => "<nil>".to_owned(),
        Node::Bool(b) => b.to_string(),
        Node::Int(n) => n.to_string(),
        Node::Float(f) if f.is_finite() => float(*f).to_string(),
        Node::Float(f) => infinite(*f).to_owned(),
        Node::String(s) => go_quote(s),
        Node::Merge => go_quote("<<"),
        Node::List(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Node::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(k, v)| format!("{}:{}", go_quote(k), go_syntax(v))).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}

/// A key as a string, and as Go prints it; nothing for the null that is none.
fn key_name(key: Node) -> Result<Option<(String, String)>, String> {
    Ok(Some(match key {
        Node::String(s) => {
            let shown = go_quote(&s);
            (s, shown)
        }
        Node::Bool(b) => (b.to_string(), b.to_string()),
        Node::Int(n) => (n.to_string(), n.to_string()),
        Node::Float(f) if f.is_finite() => {
            let text = float(f).to_string();
            (text.clone(), text)
        }
        Node::Float(f) if f.is_nan() => (".nan".to_owned(), "NaN".to_owned()),
        Node::Float(f) => ((if f > 0.0 { ".inf" } else { "-.inf" }).to_owned(), infinite(f).to_owned()),
        Node::Merge => ("<<".to_owned(), "\"<<\"".to_owned()),
        Node::Null => return Ok(None),
        Node::List(_) | Node::Map(_) => return Err("yaml: invalid map key".to_owned()),
    }))
}

/// What a scalar is in YAML 1.1.
fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Node, String> {
    if tag.is_some_and(|tag| tag.handle() == "tag:yaml.org,2002:" && tag.suffix() == "binary") {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        let bytes = bytes.map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
        return Ok(Node::String(String::from_utf8_lossy(&bytes).into_owned()));
    }
    let core = tag.and_then(Tag::core_suffix);
    match core {
        Some("str") => return Ok(Node::String(text.to_owned())),
        None if tag.is_some() || style != ScalarStyle::Plain => return Ok(Node::String(text.to_owned())),
        _ => {}
    }
    let node = plain(text);
    let (found, node) = match node {
        Node::Int(n) if core == Some("float") => ("float", Node::Float(n as f64)),
        Node::Null => ("null", node),
        Node::Bool(_) => ("bool", node),
        Node::Int(_) => ("int", node),
        Node::Float(_) => ("float", node),
        _ => ("str", node),
    };
    match core {
        Some(wanted) if wanted != found => Err(format!("yaml: cannot decode !!{found} `{text}` as a !!{wanted}")),
        _ => Ok(node),
    }
}

fn plain(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Node::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Node::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Node::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Node::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Node::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Node::Float(f64::NEG_INFINITY),
        "<<" => return Node::Merge,
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'.') => {
            if let Some(f) = styled_float(text) {
                return Node::Float(f);
            }
        }
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let digits = text.replace('_', "");
            if let Some(n) = any_base(&digits) {
                return Node::Int(n);
            }
            if let Some(f) = styled_float(&digits) {
                return Node::Float(f);
            }
        }
        _ => {}
    }
    Node::String(text.to_owned())
}

/// An integer by its prefix: `0x`, `0b`, `0o`, or `0` for octal.
fn any_base(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, base).ok()?;
    let number = if negative { -magnitude } else { magnitude };
    let fits = i64::try_from(number).is_ok() || u64::try_from(number).is_ok();
    fits.then_some(number)
}

/// A float in decimal notation, with digits on at least one side of the point.
fn styled_float(text: &str) -> Option<f64> {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = rest.split_once(['e', 'E']).map_or((rest, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, ""), |(w, f)| (w, f));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    if let Some(exponent) = exponent {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || !digits(exponent) {
            return None;
        }
    }
    text.parse().ok()
}

/// A syntax error in libyaml's words, as near as the parser's come to them.
fn failed(error: &ScanError) -> String {
    let info = error.info();
    // libyaml's message is the problem; what it was doing comes before it here.
    let problem = match info.split_once(", ") {
        Some((context, problem)) if context.starts_with("while ") => problem,
        _ => info.as_ref(),
    };
    let (problem, scanned) = match problem {
        "mapping values are not allowed in this context" => (problem, true),
        _ if problem.starts_with("unexpected character: ") => ("found character that cannot start any token", true),
        _ => (problem, false),
    };
    let line = error.marker().line();
    // libyaml's scanner does not count the first line.
    if line == 0 || (scanned && line == 1) {
        format!("yaml: {problem}")
    } else {
        format!("yaml: line {line}: {problem}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(yaml: &str) -> String {
        yaml_to_json(yaml.as_bytes()).map_or_else(|e| e, |j| String::from_utf8_lossy(&j).into_owned())
    }

    /// By indentation, and by aliases that each hold the one before.
    ///
    /// Contract: API-22
    #[test]
    fn what_nests_too_deep_is_refused() {
        let indented = |n: usize| (0..n).map(|at| format!("{}a:\n", " ".repeat(at))).collect::<String>();
        let aliases = |n: usize| {
            let lines = (1..n).map(|at| format!("a{at}: &a{at} [*a{}]\n", at - 1));
            format!("a0: &a0 [x]\n{}", lines.collect::<String>())
        };
        assert!(json(&indented(1500)).contains("recursion"), "the parser has a bound of its own");
        assert_eq!(json(&aliases(700)), TOO_DEEP);
        for fits in [indented(200), aliases(400)] {
            assert!(json(&fits).starts_with('{'));
        }
    }

    /// Contract: API-05
    #[test]
    fn yaml_is_version_1_1() {
        for (yaml, expected) in [
            ("a: y\nb: 'y'\nc: No\nd: off\ne: on", r#"{"a":true,"b":"y","c":false,"d":false,"e":true}"#),
            ("a: 0777\nb: 08\nc: 0x1F\nd: 1_000\ne: 0b11\nf: -012", r#"{"a":511,"b":8,"c":31,"d":1000,"e":3,"f":-10}"#),
            ("a: 1.50\nb: .5\nc: 1e3\nd: 1.0\ne: 1.2.3", r#"{"a":1.5,"b":0.5,"c":1000,"d":1,"e":"1.2.3"}"#),
            ("a: 2026-01-01\nb: ~\nc:\nd: ''", r#"{"a":"2026-01-01","b":null,"c":null,"d":""}"#),
            ("1: x\ntrue: z\nno: m", r#"{"1":"x","false":"m","true":"z"}"#),
            ("a: &x {k: 1}\nb: *x\nc: {<<: *x, k: 2, l: 3}", r#"{"a":{"k":1},"b":{"k":1},"c":{"k":2,"l":3}}"#),
            ("a: !!str 5\nb: !!float 5", r#"{"a":"5","b":5}"#),
            ("a: !!binary aGk=", r#"{"a":"hi"}"#),
            ("a: |\n  x\n  y\nb: >\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y\n"}"#),
            ("# nothing\n", "null"),
            ("", "null"),
            ("a: 1\n---\nb: 2\n", r#"{"a":1}"#),
            (r#"{"a": [1, "2", null]}"#, r#"{"a":[1,"2",null]}"#),
        ] {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
    }

    /// Contract: API-05
    #[test]
    fn what_is_not_yaml() {
        assert_eq!(json("a: b: c"), "yaml: mapping values are not allowed in this context");
        assert_eq!(json("x: 1\na: b: c"), "yaml: line 2: mapping values are not allowed in this context");
        assert_eq!(json("@bad"), "yaml: found character that cannot start any token");
        assert_eq!(
            json("{null: [d, 1]}"),
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: []interface {}{\"d\", 1}"
        );
        assert!(json("a: [1\n").starts_with("yaml: line "), "{}", json("a: [1\n"));
        assert_eq!(
            duplicates(b"a: 1\nb: 2\na: 3\nb: 4\n"),
            ["line 3: key \"a\" already set in map", "line 4: key \"b\" already set in map"]
        );
        assert_eq!(json("a: 1\na: 3\n"), r#"{"a":3}"#);
    }

    /// Contract: API-22
    #[test]
    fn aliases_cannot_explode() {
        let mut yaml = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..12 {
            let before = n - 1;
            yaml.push_str(&format!("a{n}: &a{n} [*a{before},*a{before},*a{before},*a{before},*a{before},*a{before},*a{before},*a{before}]\n"));
        }
        assert_eq!(json(&yaml), "yaml: document contains excessive aliasing");
    }
}
