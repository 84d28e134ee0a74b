//! `"%s is %d".format([...])`, as cel-go's second version of its texts writes it: of floats in the manner of English.

use super::convert;
use crate::cel::value::{Map, Value};
use crate::field::go_quote;

/// The most digits after a point.
const MOST_DIGITS: usize = 10_000;
/// The digits after a point where none are asked for.
const DIGITS: usize = 6;

/// A part of a format.
pub(in crate::cel) enum Part<'t> {
    /// It stands as it is.
    Text(&'t str),
    /// The next argument is put in its place; or what is wrong with it.
    Clause(Result<Clause, String>),
    /// A percent sign at the end.
    End,
}

/// How an argument is shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::cel) struct Clause {
    pub(in crate::cel) verb: char,
    /// The digits after the point.
    digits: Option<usize>,
}

/// What is told of a percent sign at the end.
pub(in crate::cel) const ENDED: &str = "unexpected end of string";

/// What is told before what is wrong with an argument.
pub(in crate::cel) const BROKEN: &str = "error during formatting: ";

/// What is told where there are not enough arguments.
pub(in crate::cel) fn no_argument(at: usize) -> String {
    format!("index {at} out of range")
}

/// The parts of a format.
pub(in crate::cel) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let Some(after) = rest.strip_prefix('%') else {
            let (own, more) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            rest = more;
            return (!own.is_empty()).then_some(Part::Text(own));
        };
        if let Some(more) = after.strip_prefix('%') {
            rest = more;
            return Some(Part::Text("%"));
        }
        if after.is_empty() {
            rest = "";
            return Some(Part::End);
        }
        let clause = read(after).map(|(clause, more)| {
            rest = more;
            clause
        });
        Some(Part::Clause(clause.map_err(|why| format!("could not parse formatting clause: {why}"))))
    })
}

/// Reads what follows a percent sign.
fn read(text: &str) -> Result<(Clause, &str), String> {
    let broken = |why: String| Err(format!("error while parsing precision: {why}"));
    let (digits, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(after) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = &after[..after.len() - rest.len()];
            if rest.is_empty() {
                return broken("could not find end of precision specifier".to_owned());
            }
            let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            match digits.parse() {
                Ok(digits) if digits <= MOST_DIGITS => (Some(digits), rest),
                Ok(_) => return broken(format!("precision too large: {digits}")),
                Err(_) => {
                    let why = format!("strconv.Atoi: parsing {}: {why}", go_quote(digits));
                    return broken(format!("error while converting precision to integer: {why}"));
                }
            }
        }
    };
    // The reference looks at bytes.
    match rest.bytes().next().map(char::from) {
        Some(verb @ ('s' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o')) => Ok((Clause { verb, digits }, &rest[1..])),
        verb => Err(format!("unrecognized formatting clause \"{}\"", verb.unwrap_or_default())),
    }
}

/// What is told of a value that a clause does not take, by the name of its type.
pub(in crate::cel) fn refused(verb: char, kind: &str) -> String {
    let takes = match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
    };
    format!("{takes}, was given {kind}")
}

/// A format with its arguments put in.
pub(super) fn format(text: &str, args: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut next = 0;
    for part in parts(text) {
        if let Part::Text(text) = part {
            out.push_str(text);
            continue;
        }
        let arg = args.get(next).ok_or_else(|| no_argument(next))?;
        next += 1;
        match part {
            Part::Clause(clause) => out.push_str(&shown(clause?, arg).map_err(|why| format!("{BROKEN}{why}"))?),
            _ => return Err(ENDED.to_owned()),
        }
    }
    Ok(out)
}

fn shown(clause: Clause, value: &Value<'_>) -> Result<String, String> {
    let refused = || refused(clause.verb, value.type_name());
    let signed = |number: i64, digits: String| if number < 0 { format!("-{digits}") } else { digits };
    Ok(match (clause.verb, value) {
        ('s', value) => display(value)?,
        ('d', Value::Int(_) | Value::Uint(_)) => convert::text(value).unwrap_or_default(),
        ('f', value) => fixed(float(value).ok_or_else(refused)?, clause.digits.unwrap_or(DIGITS)),
        ('e', value) => scientific(float(value).ok_or_else(refused)?),
        ('b', Value::Int(number)) => signed(*number, format!("{:b}", number.unsigned_abs())),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
        ('o', Value::Int(number)) => signed(*number, format!("{:o}", number.unsigned_abs())),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('x', value) => hex(value).ok_or_else(refused)?,
        ('X', value) => hex(value).ok_or_else(refused)?.to_uppercase(),
        _ => return Err(refused()),
    })
}

/// A float, or one of the three that have names.
fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => text.parse().ok(),
        _ => None,
    }
}

/// What is no number, and the sign of one that is.
fn special(number: f64) -> Result<&'static str, &'static str> {
    match number {
        number if number.is_nan() => Ok("NaN"),
        f64::INFINITY => Ok("∞"),
        f64::NEG_INFINITY => Ok("-∞"),
        number if number < 0.0 => Err("-"),
        _ => Err(""),
    }
}

/// A float with so many digits after the point, in groups of three before it. The reference counts the zeros that it
/// fills up with in one byte.
fn fixed(number: f64, digits: usize) -> String {
    let sign = match special(number) {
        Ok(name) => return name.to_owned(),
        Err(sign) => sign,
    };
    let text = format!("{:.digits$}", number.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = sign.to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let least = digits % 256;
    let fraction = &fraction[..fraction.trim_end_matches('0').len().max(least)];
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A float as a power of ten. The reference takes the digits that are asked for as a width, and has no use for it.
fn scientific(number: f64) -> String {
    let sign = match special(number) {
        Ok(name) => return name.to_owned(),
        Err(sign) => sign,
    };
    let text = format!("{:.DIGITS$e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (minus, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised = |digit: char| digit.to_digit(10).and_then(|at| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(at as usize)).unwrap_or(digit);
    let exponent: String = format!("{exponent:0>2}").chars().map(raised).collect();
    format!("{sign}{mantissa}×10{minus}{exponent}")
}

fn hex(value: &Value<'_>) -> Option<String> {
    let bytes = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
    Some(match value {
        Value::Int(number) if *number < 0 => format!("-{:x}", number.unsigned_abs()),
        Value::Int(number) => format!("{number:x}"),
        Value::Uint(number) => format!("{number:x}"),
        Value::String(text) => bytes(text.as_bytes()),
        Value::Bytes(own) => bytes(own),
        _ => return None,
    })
}

/// A value as `%s` shows it.
fn display(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Type(name) => (*name).to_owned(),
        Value::List(list) => {
            let items: Result<Vec<String>, String> = list.iter().map(|item| inner(&item)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) if value.type_name() == "map" => members(map)?,
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).map_err(|_| {
            let why = go_quote(convert::NO_TEXT);
            format!("could not convert argument {why} to string")
        })?,
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Duration(_) => convert::text(value).unwrap_or_default(),
        _ => return Err(refused('s', value.type_name())),
    })
}

fn members(map: &Map<'_>) -> Result<String, String> {
    let mut pairs = Vec::new();
    for key in map.keys() {
        if !matches!(key, Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
            return Err(format!("no formatting function for map key of type {}", key.type_name()));
        }
        let value = map.get(&key)?.unwrap_or(Value::Null);
        pairs.push((inner(&key)?, inner(&value)?));
    }
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", pairs.join(", ")))
}

/// A value inside another, as an expression would say it.
fn inner(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => go_quote(text),
        Value::Bytes(_) => format!("b{}", go_quote(&display(value)?)),
        Value::Duration(_) => format!("duration({})", go_quote(&display(value)?)),
        Value::Timestamp(_) => format!("timestamp({})", go_quote(&display(value)?)),
        Value::Double(number) if number.is_finite() => format!("{number:.DIGITS$}"),
        Value::Double(_) => go_quote(&display(value)?),
        Value::Null | Value::Type(_) | Value::List(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) => {
            display(value)?
        }
        Value::Map(_) if value.type_name() == "map" => display(value)?,
        _ => return Err(format!("no formatting function for {}", value.type_name())),
    })
}
