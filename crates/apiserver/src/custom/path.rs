//! Paths into objects: the JSON paths of columns, scales and selectable fields, and the field paths of rules.

use muster_tree::Value;

use super::structural::{Additional, Structural};
use crate::schema::go;

/// What a field path may be made of.
#[derive(Debug, Clone, Copy)]
pub struct FieldPathOptions {
    /// Whether names may stand in brackets.
    pub arrays: bool,
}

/// Reads a field path of a schema: only named fields, and members of maps. Gives its usual form, and what is there.
///
/// # Errors
/// Why it is none.
pub fn valid_field_path<'s>(
    text: &str,
    schema: &'s Structural,
    options: FieldPathOptions,
) -> Result<(String, &'s Structural), String> {
    let mut tokens = tokens(text).into_iter();
    let (mut path, mut at) = (String::new(), schema);
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token.as_str() {
            "." => tokens.next().ok_or_else(end)?,
            "[" if !options.arrays => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let Some(inner) = inner.filter(|_| quoted.len() > 1) else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                let name = unescaped(inner)?;
                match tokens.next().ok_or_else(end)?.as_str() {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let unknown = || "does not refer to a valid field".to_owned();
        if !at.properties.is_empty() {
            at = at.property(&name).ok_or_else(unknown)?;
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&name);
        } else {
            let Additional::Schema(values) = &at.additional else { return Err(unknown()) };
            at = values;
            path.push_str(&format!("[{name}]"));
        }
    }
    Ok((path, at))
}

/// The text as delimiters and what is between them.
fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == '\'' && word.is_empty() {
            word.push(c);
            let mut escaped = false;
            for c in characters.by_ref() {
                word.push(c);
                if c == '\'' && !escaped {
                    break;
                }
                escaped = c == '\\' && !escaped;
            }
            out.push(std::mem::take(&mut word));
        } else if matches!(c, '.' | '[' | ']') {
            if !word.is_empty() {
                out.push(std::mem::take(&mut word));
            }
            out.push(c.to_string());
        } else {
            word.push(c);
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match characters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return Err(format!("invalid string literal: invalid escape char \\{shown}"));
            }
        });
    }
    Ok(out)
}

/// A JSON path of client-go, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// Every member or element.
    All,
    /// Every value below.
    Recursive,
    /// Elements from, to and by; the end is open where it is `None`.
    Slice(i64, Option<i64>, i64),
    /// An element; a negative one counts from the end.
    Index(i64),
    Union(Vec<Vec<Step>>),
    Filter(Vec<Step>, Option<(Operator, Operand)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

impl JsonPath {
    /// Reads a path; `None` where it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let characters: Vec<char> = text.chars().collect();
        steps(&characters).map(|steps| Self { steps })
    }

    /// What is there.
    #[must_use]
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        walk(&self.steps, vec![value])
    }
}

fn steps(text: &[char]) -> Option<Vec<Step>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            ' ' | '@' | '$' => at += 1,
            '.' if text.get(at + 1) == Some(&'.') => {
                out.push(Step::Recursive);
                at += 2;
                if text.get(at).is_some_and(|c| *c != '[') {
                    at = field(text, at, &mut out)?;
                }
            }
            '.' if text.get(at + 1) == Some(&'[') => at += 1,
            '.' => at = field(text, at + 1, &mut out)?,
            '[' => {
                let end = closing(text, at)?;
                out.push(bracket(&text[at + 1..end])?);
                at = end + 1;
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Reads a field's name; a backslash takes its meaning from the next character.
fn field(text: &[char], mut at: usize, out: &mut Vec<Step>) -> Option<usize> {
    let mut name = String::new();
    while let Some(c) = text.get(at) {
        match c {
            '\\' => {
                name.push(*text.get(at + 1)?);
                at += 1;
            }
            '.' | '[' | ']' | ' ' | ',' | '(' | ')' | '$' | '@' | '{' | '}' | '=' | '!' | '<' | '>' => break,
            c => name.push(*c),
        }
        at += 1;
    }
    match name.as_str() {
        "*" => out.push(Step::All),
        "" => {}
        _ => out.push(Step::Field(name)),
    }
    Some(at)
}

/// Where a bracket is closed.
fn closing(text: &[char], open: usize) -> Option<usize> {
    let mut depth = 0;
    let mut quote: Option<char> = None;
    for (at, c) in text.iter().enumerate().skip(open) {
        match (quote, c) {
            (Some(own), c) if own == *c && text[at - 1] != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(*c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn bracket(text: &[char]) -> Option<Step> {
    let inner: String = text.iter().collect();
    let inner = inner.trim();
    if let Some(filter) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return self::filter(filter);
    }
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(name) = quoted(inner) {
        return Some(Step::Field(name));
    }
    if inner.contains(',') {
        let parts = inner.split(',').map(|part| {
            let part: Vec<char> = part.trim().chars().collect();
            bracket(&part).map(|step| vec![step])
        });
        return parts.collect::<Option<_>>().map(Step::Union);
    }
    if let Some((from, rest)) = inner.split_once(':') {
        let (to, by) = rest.split_once(':').unwrap_or((rest, ""));
        let number = |text: &str, absent: i64| if text.is_empty() { Some(absent) } else { text.parse().ok() };
        let end = if to.is_empty() { None } else { Some(to.parse().ok()?) };
        return Some(Step::Slice(number(from, 0)?, end, number(by, 1)?));
    }
    inner.parse().ok().map(Step::Index)
}

fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote)).then(|| inner.replace('\\', ""))
}

fn filter(text: &str) -> Option<Step> {
    const OPERATORS: &[(&str, Operator)] = &[
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let path = |text: &str| steps(&text.trim().chars().collect::<Vec<char>>());
    let found = OPERATORS.iter().filter_map(|(sign, operator)| Some((text.find(sign)?, *sign, *operator)));
    // The first operator is the one that is meant; of two at one place the longer.
    let Some((at, sign, operator)) = found.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len()))) else {
        return path(text).map(|steps| Step::Filter(steps, None));
    };
    let right = text[at + sign.len()..].trim();
    let operand = match quoted(right) {
        Some(text) => Operand::Literal(Value::from(text)),
        None => match serde_json::from_str::<Value>(right) {
            Ok(literal) => Operand::Literal(literal),
            Err(_) => Operand::Path(path(right)?),
        },
    };
    Some(Step::Filter(path(&text[..at])?, Some((operator, operand))))
}

fn walk<'v>(steps: &[Step], mut values: Vec<&'v Value>) -> Vec<&'v Value> {
    for step in steps {
        values = values.into_iter().flat_map(|value| take(step, value)).collect();
    }
    values
}

fn take<'v>(step: &Step, value: &'v Value) -> Vec<&'v Value> {
    match (step, value) {
        (Step::Field(name), Value::Object(object)) => object.get(name).into_iter().collect(),
        // The reference takes a field of a list from each of its elements nowhere but behind a filter or star.
        (Step::All, Value::Object(object)) => object.values().collect(),
        (Step::All, Value::Array(list)) => list.iter().collect(),
        (Step::Recursive, value) => {
            let mut out = vec![value];
            match value {
                Value::Object(object) => out.extend(object.values().flat_map(|v| take(step, v))),
                Value::Array(list) => out.extend(list.iter().flat_map(|v| take(step, v))),
                _ => {}
            }
            out
        }
        (Step::Index(at), Value::Array(list)) => {
            let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
            let at = if *at < 0 { at + length } else { *at };
            usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
        }
        (Step::Slice(from, to, by), Value::Array(list)) => {
            let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
            let place = |at: i64| usize::try_from(if at < 0 { at + length } else { at }.clamp(0, length)).unwrap_or(0);
            let (from, to) = (place(*from), to.map_or(list.len(), place));
            let by = usize::try_from(*by).unwrap_or(1).max(1);
            list.get(from..to.max(from)).unwrap_or_default().iter().step_by(by).collect()
        }
        (Step::Union(parts), value) => parts.iter().flat_map(|part| walk(part, vec![value])).collect(),
        (Step::Filter(left, test), Value::Array(list)) => list.iter().filter(|v| passes(left, test, v)).collect(),
        (Step::Filter(left, test), Value::Object(object)) => {
            object.values().filter(|v| passes(left, test, v)).collect()
        }
        _ => Vec::new(),
    }
}

fn passes(left: &[Step], test: &Option<(Operator, Operand)>, value: &Value) -> bool {
    let found = walk(left, vec![value]);
    let Some((operator, operand)) = test else { return !found.is_empty() };
    let right = match operand {
        Operand::Literal(literal) => Some(literal),
        Operand::Path(path) => walk(path, vec![value]).into_iter().next(),
    };
    let (Some(left), Some(right)) = (found.first(), right) else { return false };
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        _ => None,
    };
    order.is_some_and(|order| match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterEqual => order.is_ge(),
    })
}

/// A value as Go prints it.
#[must_use]
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
        other => go::sprint(other),
    }
}
