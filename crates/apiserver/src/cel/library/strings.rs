//! Functions of texts.

use super::{Outcome, error};
use crate::cel::eval::Failure;
use crate::cel::value::Value;
use crate::custom::pattern::Regex;
use crate::field::go_quote;

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let ("join", [Value::List(list), rest @ ..]) = (name, args) {
        let separator = match rest {
            [Value::String(separator)] => &**separator,
            _ => "",
        };
        let parts: Option<Vec<String>> = list
            .iter()
            .map(|item| match item {
                Value::String(text) => Some(text.to_string()),
                _ => None,
            })
            .collect();
        return Some(parts.map(|parts| Value::text(parts.join(separator))).ok_or_else(Failure::no_overload));
    }
    let Some(Value::String(text)) = args.first() else { return None };
    Some(match (name, &args[1..]) {
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => last_index_of(text, part, Some(*from)),
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("reverse", []) => Ok(Value::text(text.chars().rev().collect::<String>())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("replace", [Value::String(old), Value::String(new)]) => Ok(Value::text(text.replace(&**old, new))),
        ("replace", [Value::String(old), Value::String(new), Value::Int(times)]) => {
            let times = usize::try_from(*times).unwrap_or(usize::MAX);
            Ok(Value::text(text.replacen(&**old, new, times)))
        }
        ("split", [Value::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Value::String(separator), Value::Int(most)]) => Ok(split(text, separator, *most)),
        ("substring", [Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, Some(*to)),
        ("strings.quote", []) => Ok(Value::text(go_quote(text))),
        ("format", [Value::List(list)]) => {
            super::format::format(text, &list.iter().collect::<Vec<_>>()).map(Value::text).map_err(Failure::Error)
        }
        _ => return None,
    })
}

/// What a regular expression matches.
pub(in crate::cel) fn matched<'a>(name: &str, text: &str, regex: &Regex, rest: &[Value<'a>]) -> Outcome<'a> {
    Ok(match (name, rest) {
        ("matches", []) => Value::Bool(regex.is_match(text)),
        ("find", []) => Value::text(regex.find_iter(text).next().unwrap_or_default()),
        ("findAll", [] | [Value::Int(_)]) => {
            let most = match rest {
                [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            Value::list(regex.find_iter(text).take(most).map(Value::text).collect())
        }
        _ => return Err(Failure::no_overload()),
    })
}

fn position(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn char_at<'a>(text: &str, at: i64) -> Outcome<'a> {
    let length = text.chars().count();
    match usize::try_from(at) {
        Ok(at) if at == length => Ok(Value::text("")),
        Ok(at) if at < length => Ok(Value::text(text.chars().skip(at).take(1).collect::<String>())),
        _ => error(format!("index out of range: {at}")),
    }
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Outcome<'a> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let (characters, wanted): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let Ok(start) = usize::try_from(from) else { return error(format!("index out of range: {from}")) };
    if start >= characters.len() {
        return Ok(Value::Int(-1));
    }
    let found = characters[start..].windows(wanted.len()).position(|window| window == wanted);
    Ok(Value::Int(found.map_or(-1, |at| position(at + start))))
}

fn last_index_of<'a>(text: &str, part: &str, from: Option<i64>) -> Outcome<'a> {
    let (characters, wanted): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or_else(|| position(characters.len()))));
    }
    let most = match from.map(usize::try_from) {
        None => characters.len(),
        Some(Ok(most)) if most < characters.len() => most,
        Some(Ok(_)) => return Ok(Value::Int(-1)),
        Some(Err(_)) => return error(format!("index out of range: {}", from.unwrap_or_default())),
    };
    let mut found = characters.windows(wanted.len()).enumerate();
    let found = found.rfind(|(at, w)| *at <= most && *w == wanted);
    Ok(Value::Int(found.map_or(-1, |(at, _)| position(at))))
}

fn split<'a>(text: &str, separator: &str, most: i64) -> Value<'a> {
    let parts: Vec<String> = match (separator, most) {
        (_, 0) => Vec::new(),
        ("", most) => {
            let characters: Vec<char> = text.chars().collect();
            let most = usize::try_from(most).unwrap_or(characters.len()).min(characters.len());
            let mut parts: Vec<String> = characters.iter().take(most.saturating_sub(1)).map(char::to_string).collect();
            if most > 0 {
                parts.push(characters[most - 1..].iter().collect());
            }
            parts
        }
        (separator, most) if most > 0 => {
            text.splitn(usize::try_from(most).unwrap_or(usize::MAX), separator).map(str::to_owned).collect()
        }
        (separator, _) => text.split(separator).map(str::to_owned).collect(),
    };
    Value::list(parts.into_iter().map(Value::text).collect())
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Outcome<'a> {
    let length = position(text.chars().count());
    let end = to.unwrap_or(length);
    if !(0..=length).contains(&from) {
        return error(format!("index out of range: {from}"));
    }
    if !(0..=length).contains(&end) {
        return error(format!("index out of range: {end}"));
    }
    if from > end {
        return error(format!("invalid substring range. start: {from}, end: {end}"));
    }
    let (from, end) = (usize::try_from(from).unwrap_or_default(), usize::try_from(end).unwrap_or_default());
    Ok(Value::text(text.chars().skip(from).take(end - from).collect::<String>()))
}
