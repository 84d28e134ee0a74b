//! Sets of indexes as texts: `1,3-5,7`.

use crate::field::go_quote;

/// How many indexes there are, each below `completions`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut last: Option<i64> = None;
    let mut total = 0;
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both sets, as far as their intervals can be read.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (0, 0);
    while let (Some(done), Some(lost)) = (completed.get(c), failed.get(f)) {
        if done.0 <= lost.1 && lost.0 <= done.1 {
            return Some(done.0.max(lost.0));
        }
        if done.0 <= lost.0 { c += 1 } else { f += 1 }
    }
    None
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = text.split('-').collect();
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", go_quote(text))),
        Ok(number) if number >= completions => Err(format!("too large index: {}", go_quote(text))),
        Ok(number) => Ok(number),
    };
    match limits.as_slice() {
        [one] => index(one).map(|x| (x, x)),
        [first, last] => {
            let (x, y) = (index(first)?, index(last)?);
            if x >= y { Err(format!("non-increasing order, previous: {x}, current: {y}")) } else { Ok((x, y)) }
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go_quote(text)
        )),
    }
}
