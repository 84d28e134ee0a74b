//! How many bytes a function is about to make: what is small may be made large again and again, for a small cost.

use cel::common::ast::operators;

use super::value::{List, Map, Value};

/// About how many bytes an element of a list takes.
const ELEMENT: usize = size_of::<Value<'static>>();
/// About how many bytes more a text of its own takes.
const TEXT: usize = 32;

/// About how many bytes of texts and lists a function makes of its arguments.
pub(super) fn made(name: &str, args: &[Value<'_>]) -> usize {
    match (name, args) {
        (operators::ADD, [one, other]) => whole(one).saturating_add(whole(other)),
        ("lists.range", [Value::Int(count)]) => usize::try_from(*count).unwrap_or(0).saturating_mul(ELEMENT),
        ("replace", [Value::String(text), Value::String(old), Value::String(new), rest @ ..]) => {
            let most = match rest {
                [Value::Int(times)] => usize::try_from(*times).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let times = text.matches(&**old).take(most).count();
            times.saturating_mul(new.len()).saturating_add(text.len())
        }
        ("join", [Value::List(list), rest @ ..]) => {
            let between = rest.first().map_or(0, whole);
            list.iter().map(|item| whole(&item).saturating_add(between)).fold(0, usize::saturating_add)
        }
        ("split" | "findAll", [Value::String(text), ..]) => text.len().saturating_mul(ELEMENT + TEXT),
        ("format", [Value::String(text), Value::List(list)]) => {
            let shown = text.bytes().filter(|byte| *byte == b'%').count();
            list.iter().take(shown).map(|item| deep(&item)).fold(text.len(), usize::saturating_add)
        }
        (
            "reverse"
            | "slice"
            | "flatten"
            | "sort"
            | "@sortByAssociatedKeys"
            | "distinct"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "strings.quote"
            | "string"
            | "bytes",
            [of, ..],
        ) => whole(of),
        _ => 0,
    }
}

/// The bytes of a value without what its elements hold.
fn whole(value: &Value<'_>) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len().saturating_mul(ELEMENT),
        _ => 0,
    }
}

/// The bytes of a value with what its elements hold, as a text shows it.
fn deep(value: &Value<'_>) -> usize {
    let all = |sizes: &mut dyn Iterator<Item = usize>| sizes.fold(2_usize, |sum, size| sum.saturating_add(size + 2));
    match value {
        Value::List(List::Made(items)) => all(&mut items.iter().map(deep)),
        Value::List(list) => all(&mut list.iter().map(|item| deep(&item))),
        Value::Map(Map::Made(pairs)) => all(&mut pairs.iter().flat_map(|(key, value)| [deep(key), deep(value)])),
        Value::Map(map) => all(&mut map.each_key().flat_map(|key| {
            let value = map.get(&key).ok().flatten().unwrap_or(Value::Null);
            [deep(&key), deep(&value)]
        })),
        value => whole(value).max(TEXT),
    }
}
