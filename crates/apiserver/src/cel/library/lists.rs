//! Functions of lists and sets.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Outcome, error};
use crate::cel::eval::{Failure, as_list};
use crate::cel::value::{List, Value};

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let Some(set) = name.strip_prefix("sets.") {
        return sets(set, args);
    }
    if let ("lists.range", [Value::Int(count)]) = (name, args) {
        return Some(Ok(Value::list((0..(*count).clamp(0, 1_000_000)).map(Value::Int).collect())));
    }
    let Some(Value::List(list)) = args.first() else { return None };
    let items = || list.iter().collect::<Vec<_>>();
    Some(match (name, &args[1..]) {
        // What the reference calls is chosen by the first element.
        ("isSorted" | "min" | "max", []) if list.iter().next().is_some_and(|first| !has_order(&first)) => return None,
        ("sum", []) if list.iter().next().is_some_and(|first| !has_sum(&first)) => return None,
        ("isSorted", []) => {
            let items = items();
            let sorted = items.windows(2).all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater));
            Ok(Value::Bool(sorted))
        }
        ("sum", []) => sum(&items()),
        ("min", []) => extreme(&items(), "min", Ordering::Less),
        ("max", []) => extreme(&items(), "max", Ordering::Greater),
        ("indexOf", [wanted]) => Ok(place(items().iter().position(|item| item.equals(wanted)))),
        ("lastIndexOf", [wanted]) => Ok(place(items().iter().rposition(|item| item.equals(wanted)))),
        ("slice", [Value::Int(from), Value::Int(to)]) => {
            let items = items();
            match (usize::try_from(*from), usize::try_from(*to)) {
                _ if *from < 0 || *to < 0 => {
                    error(format!("cannot slice({from}, {to}), negative indexes not supported"))
                }
                _ if from > to => {
                    error(format!("cannot slice({from}, {to}), start index must be less than or equal to end index"))
                }
                (Ok(from), Ok(to)) if to <= items.len() => Ok(Value::list(items[from..to].to_vec())),
                _ => error(format!("cannot slice({from}, {to}), list is length {}", items.len())),
            }
        }
        ("flatten", []) => Ok(Value::list(flatten(&items(), 1))),
        ("flatten", [Value::Int(depth)]) if *depth < 0 => error("level must be non-negative"),
        ("flatten", [Value::Int(depth)]) => Ok(Value::list(flatten(&items(), *depth))),
        ("sort", []) => {
            let items = items();
            sorted(&items, &items)
        }
        ("@sortByAssociatedKeys", [keys]) => {
            as_list(keys).and_then(|keys| sorted(&items(), &keys.iter().collect::<Vec<_>>()))
        }
        ("distinct", []) => {
            let mut out: Vec<Value<'a>> = Vec::new();
            for item in list.iter() {
                if !out.iter().any(|known| known.equals(&item)) {
                    out.push(item);
                }
            }
            Ok(Value::list(out))
        }
        ("reverse", []) => {
            let mut items = items();
            items.reverse();
            Ok(Value::list(items))
        }
        ("first", []) => Ok(Value::Optional(list.iter().next().map(Arc::new))),
        ("last", []) => {
            let last = list.len().checked_sub(1).and_then(|at| list.get(at).ok().flatten());
            Ok(Value::Optional(last.map(Arc::new)))
        }
        _ => return None,
    })
}

fn place<'a>(at: Option<usize>) -> Value<'a> {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn sum<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    let Some(first) = items.first() else { return Ok(Value::Int(0)) };
    items[1..].iter().try_fold(first.clone(), |sum, item| super::call("_+_", &[sum, item.clone()]))
}

fn extreme<'a>(items: &[Value<'a>], name: &str, order: Ordering) -> Outcome<'a> {
    let Some(first) = items.first() else { return error(format!("{name} called on empty list")) };
    if !items.iter().all(has_order) {
        return Err(Failure::no_overload());
    }
    // Of two that cannot be compared, the first stays.
    let best = items.iter().fold(first, |best, item| if item.compare(best) == Some(order) { item } else { best });
    Ok(best.clone())
}

/// Whether values of its type have an order.
pub(super) fn has_order(value: &Value<'_>) -> bool {
    matches!(value, Value::Bool(_) | Value::String(_) | Value::Bytes(_) | Value::Timestamp(_)) || has_sum(value)
}

fn has_sum(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_))
}

fn flatten<'a>(items: &[Value<'a>], depth: i64) -> Vec<Value<'a>> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => out.extend(flatten(&inner.iter().collect::<Vec<_>>(), depth - 1)),
            other => out.push(other.clone()),
        }
    }
    out
}

fn sorted<'a>(items: &[Value<'a>], keys: &[Value<'a>]) -> Outcome<'a> {
    let mut pairs: Vec<(&Value<'a>, &Value<'a>)> = keys.iter().zip(items).collect();
    if pairs.windows(2).any(|pair| pair[0].0.compare(pair[1].0).is_none()) {
        return error("list elements must have the same type");
    }
    pairs.sort_by(|a, b| a.0.compare(b.0).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item.clone()).collect()))
}

fn sets<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [Value::List(one), Value::List(other)] = args else { return None };
    let all_in = |items: &List<'a>, of: &List<'a>| items.iter().all(|item| of.iter().any(|own| own.equals(&item)));
    Some(Ok(Value::Bool(match name {
        "contains" => all_in(other, one),
        "equivalent" => all_in(other, one) && all_in(one, other),
        "intersects" => other.iter().any(|item| one.iter().any(|own| own.equals(&item))),
        _ => return None,
    })))
}
