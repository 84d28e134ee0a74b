//! What an evaluation has cost so far, by the reference's count, and how many bytes it has made, which the reference does
//! not count: what is small may be made large again and again, for a small cost (B-26).

use cel::common::ast::operators;

use super::CALL_LIMIT;
use super::cost::scaled;
use super::eval::Failure;
use super::value::{List, Map, Value};

/// What an expression has cost, and may.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// What it has cost.
    pub spent: u64,
    /// The most that it may.
    pub limit: u64,
    /// How many bytes of texts, lists and regular expressions its functions have made, about.
    made: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(CALL_LIMIT)
    }
}

/// The most bytes of texts, lists and regular expressions that the functions of an expression make. The reference has no such limit: what it
/// makes of lists is not copied.
const MOST_MADE: usize = 64 << 20;

impl Budget {
    /// One that nothing was spent of.
    #[must_use]
    pub fn of(limit: u64) -> Self {
        Self { spent: 0, limit, made: 0 }
    }

    /// Counts what a function is about to make, where that may be more than it was given.
    pub(super) fn make(&mut self, name: &str, args: &[Value<'_>]) -> Result<(), Failure> {
        self.hold(made(name, args))
    }

    /// Counts bytes that were made, or are about to be.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        self.made = self.made.saturating_add(bytes);
        if self.made > MOST_MADE { Err(Failure::Limit) } else { Ok(()) }
    }

    /// Counts what a step has cost.
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(Failure::Limit) } else { Ok(()) }
    }
}

/// What a call has cost.
pub(super) fn actual_cost(name: &str, args: &[Value<'_>], result: &Value<'_>) -> u64 {
    const READ: f64 = 0.1;
    const PATTERN: f64 = 0.25;
    // A call, and a list.
    const LIST: u64 = 11;
    let size = |at: usize| args.get(at).map_or(1, Value::size);
    let read = |size: u64| scaled(size, READ);
    let texts = matches!(args.first(), Some(Value::String(_) | Value::Bytes(_)));
    match name {
        "check" => 350_000,
        "fieldSelector" | "labelSelector" => read(size(1)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "strings.quote"
        | "format"
        | "jsonpatch.escapeKey" => read(size(0)),
        "ip" if texts => read(size(0)),
        "startsWith" | "endsWith" => read(size(0)),
        "bytes" | "string" if texts => read(size(0)),
        "replace" | "split" | "ip.isCanonical" => scaled(size(0), 2.0 * READ),
        "join" => scaled(result.size(), 2.0 * READ),
        "find" | "findAll" | "matches" => read(size(0) + 1) * scaled(size(1), PATTERN),
        "validate" => read(size(1) + 1) * scaled(128, PATTERN),
        "contains" if texts => read(size(0)) * read(size(1)),
        "containsIP" | "containsCIDR" => {
            let own = size(0);
            let mut cost = read(own * 2);
            if name == "containsCIDR" {
                cost += read(own) + 1;
            }
            if matches!(args.get(1), Some(Value::String(_))) {
                cost += read(size(1));
            }
            cost
        }
        "lists.range" | "slice" => result.size() + LIST,
        "reverse" if !texts => result.size() + LIST,
        "flatten" => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or_default(),
                _ => 1,
            };
            size(0).saturating_mul(depth) + LIST
        }
        "sort" | "distinct" | "@sortByAssociatedKeys" => {
            let compared = args.last().map_or(0, Value::size);
            let texts = matches!(args.last(), Some(Value::List(list)) if matches!(list.get(0), Ok(Some(Value::String(_) | Value::Bytes(_)))));
            scaled(compared.saturating_mul(compared), if texts { 2.0 + READ } else { 2.0 }) + LIST
        }
        "sets.contains" | "sets.intersects" => size(0) * size(1) + 1,
        "sets.equivalent" => size(0) * size(1) * 2 + 1,
        operators::IN if matches!(args.get(1), Some(Value::List(_))) => size(1),
        operators::EQUALS | operators::NOT_EQUALS => match args.first() {
            Some(
                Value::Quantity(_)
                | Value::Ip(_)
                | Value::Cidr(..)
                | Value::Format(_)
                | Value::Url(_)
                | Value::Semver(_),
            ) => 1,
            _ => read(size(0).min(size(1))),
        },
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS if texts => {
            read(size(0).min(size(1)))
        }
        operators::ADD if texts => read(size(0) + size(1)),
        _ => 1,
    }
}

/// What reading the whole of a value costs.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.iter().map(|item| traversal(&item)).sum(),
        Value::Map(map) => map
            .keys()
            .iter()
            .map(|key| traversal(key) + map.get(key).ok().flatten().as_ref().map_or(0, traversal))
            .sum(),
        _ => 1,
    }
}

/// About how many bytes an element of a list takes.
const ELEMENT: usize = size_of::<Value<'static>>();
/// About how many bytes more a text of its own takes.
const TEXT: usize = 32;

/// About how many bytes of texts and lists a function makes of its arguments.
fn made(name: &str, args: &[Value<'_>]) -> usize {
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
