//! The unified diff in the message that refuses a change of a pod's spec.
//!
//! It is the one of Python's `difflib` (longest matching blocks, popular lines left out in long
//! texts), because the reference uses its Go translation: another algorithm would pair other lines.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A hash map without a random seed: nothing here iterates over one, but the same input shall do the same work.
type Index<K, V> = HashMap<K, V, BuildHasherDefault<std::hash::DefaultHasher>>;

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// From so many lines on, lines that are popular are no anchors.
const LONG: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    a: usize,
    b: usize,
    len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Op {
    equal: bool,
    a: (usize, usize),
    b: (usize, usize),
}

/// The difference of two texts, without a header; empty where they are the same.
#[must_use]
pub fn unified(a: &str, b: &str) -> String {
    let a: Vec<&str> = a.split('\n').collect();
    let b: Vec<&str> = b.split('\n').collect();
    let mut out = String::new();
    for group in grouped(&operations(&a, &b)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        out.push_str(&format!("@@ -{} +{} @@\n", range(first.a.0, last.a.1), range(first.b.0, last.b.1)));
        for op in &group {
            let mut lines = |prefix: char, lines: &[&str]| {
                for line in lines {
                    out.push(prefix);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            if op.equal {
                lines(' ', &a[op.a.0..op.a.1]);
            } else {
                lines('-', &a[op.a.0..op.a.1]);
                lines('+', &b[op.b.0..op.b.1]);
            }
        }
    }
    out
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => (start + 1).to_string(),
        0 => format!("{start},0"),
        len => format!("{},{len}", start + 1),
    }
}

/// The operations in groups with a little context, far equal parts left out.
fn grouped(operations: &[Op]) -> Vec<Vec<Op>> {
    let mut codes = operations.to_vec();
    if let Some(first) = codes.first_mut().filter(|op| op.equal) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(CONTEXT));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = codes.last_mut().filter(|op| op.equal) {
        last.a.1 = last.a.1.min(last.a.0 + CONTEXT);
        last.b.1 = last.b.1.min(last.b.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Op> = Vec::new();
    for mut op in codes {
        if op.equal && op.a.1 - op.a.0 > 2 * CONTEXT {
            let head = Op {
                equal: true,
                a: (op.a.0, op.a.1.min(op.a.0 + CONTEXT)),
                b: (op.b.0, op.b.1.min(op.b.0 + CONTEXT)),
            };
            group.push(head);
            groups.push(std::mem::take(&mut group));
            op.a.0 = op.a.0.max(op.a.1.saturating_sub(CONTEXT));
            op.b.0 = op.b.0.max(op.b.1.saturating_sub(CONTEXT));
        }
        group.push(op);
    }
    if group.len() > 1 || group.first().is_some_and(|op| !op.equal) {
        groups.push(group);
    }
    groups
}

fn operations(a: &[&str], b: &[&str]) -> Vec<Op> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    for block in blocks(a, b) {
        if i < block.a || j < block.b {
            out.push(Op { equal: false, a: (i, block.a), b: (j, block.b) });
        }
        (i, j) = (block.a + block.len, block.b + block.len);
        if block.len > 0 {
            out.push(Op { equal: true, a: (block.a, i), b: (block.b, j) });
        }
    }
    out
}

/// The matching blocks in order, neighbours joined, with an empty one at the end.
fn blocks(a: &[&str], b: &[&str]) -> Vec<Block> {
    let mut places: Index<&str, Vec<usize>> = Index::default();
    for (j, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    if b.len() >= LONG {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    let mut found = Vec::new();
    // A stack of stretches still to be matched, instead of recursion.
    let mut todo = vec![(0, a.len(), 0, b.len())];
    while let Some((alo, ahi, blo, bhi)) = todo.pop() {
        let block = longest(a, b, &places, (alo, ahi, blo, bhi));
        if block.len > 0 {
            found.push(block);
            if alo < block.a && blo < block.b {
                todo.push((alo, block.a, blo, block.b));
            }
            let (i, j) = (block.a + block.len, block.b + block.len);
            if i < ahi && j < bhi {
                todo.push((i, ahi, j, bhi));
            }
        }
    }
    found.sort_by_key(|block| block.a);
    let mut joined: Vec<Block> = Vec::new();
    for block in found {
        match joined.last_mut() {
            Some(last) if last.a + last.len == block.a && last.b + last.len == block.b => last.len += block.len,
            _ => joined.push(block),
        }
    }
    joined.push(Block { a: a.len(), b: b.len(), len: 0 });
    joined
}

/// The longest stretch that is the same in both, the earliest where there are several.
fn longest(
    a: &[&str],
    b: &[&str],
    places: &Index<&str, Vec<usize>>,
    (alo, ahi, blo, bhi): (usize, usize, usize, usize),
) -> Block {
    let mut best = Block { a: alo, b: blo, len: 0 };
    let mut lengths: Index<usize, usize> = Index::default();
    for (i, line) in a.iter().enumerate().take(ahi).skip(alo) {
        let mut next: Index<usize, usize> = Index::default();
        for &j in places.get(line).map_or(&[][..], Vec::as_slice) {
            if j < blo {
                continue;
            }
            if j >= bhi {
                break;
            }
            let len = j.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or(0) + 1;
            next.insert(j, len);
            if len > best.len {
                best = Block { a: i + 1 - len, b: j + 1 - len, len };
            }
        }
        lengths = next;
    }
    // Popular lines are no anchors, but a stretch grows over them.
    while best.a > alo && best.b > blo && a[best.a - 1] == b[best.b - 1] {
        best = Block { a: best.a - 1, b: best.b - 1, len: best.len + 1 };
    }
    while best.a + best.len < ahi && best.b + best.len < bhi && a[best.a + best.len] == b[best.b + best.len] {
        best.len += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(range: std::ops::Range<usize>) -> String {
        let each: Vec<String> = range.map(|i| format!("line {i}")).collect();
        each.join("\n")
    }

    /// Contract: API-17
    #[test]
    fn one_changed_line_with_context() {
        let a = lines(0..50);
        let b = a.replace("line 37", "other");
        assert_eq!(
            unified(&a, &b),
            "@@ -35,7 +35,7 @@\n line 34\n line 35\n line 36\n-line 37\n+other\n line 38\n line 39\n line 40\n"
        );
        assert_eq!(unified(&a, &a), "");
    }

    /// Contract: API-17
    #[test]
    fn added_and_removed_lines() {
        assert_eq!(unified("a\nb", "a\nx\nb"), "@@ -1,2 +1,3 @@\n a\n+x\n b\n");
        assert_eq!(unified("a\nx\nb", "a\nb"), "@@ -1,3 +1,2 @@\n a\n-x\n b\n");
        assert_eq!(unified("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
        let two = unified(&lines(0..40), &lines(0..40).replace("line 3\n", "x\n").replace("line 30", "y"));
        assert_eq!(two.matches("@@ -").count(), 2, "{two}");
    }
}
