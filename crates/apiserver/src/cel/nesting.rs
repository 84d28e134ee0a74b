//! How deep an expression nests, told from its text: one that nests too deep is refused before anything follows its tree.

/// The longest expression, in code points, as in the reference.
const LONGEST: usize = 100_000;
/// The deepest nesting, as in the reference.
const DEEPEST: usize = 250;

/// What is told before an error that has no place.
pub(super) const NOWHERE: &str = "ERROR: <input>:-1:0: ";

/// How deep an expression nests, at least: brackets, and operators of one chain, each of which holds what is on its left.
///
/// # Errors
/// That it is too long or too deep, in the words of cel-go.
pub(super) fn depth(text: &str) -> Result<usize, String> {
    let told = |why: String| Err(format!("{NOWHERE}{why}"));
    let length = text.chars().count();
    if length > LONGEST {
        return told(format!("expression code point size exceeds limit: size: {length}, limit {LONGEST}"));
    }
    let found = measured(text);
    if found.brackets > DEEPEST {
        return told(format!("expression recursion limit exceeded: {DEEPEST}"));
    }
    if found.all > DEEPEST {
        return told("max recursion depth exceeded".to_owned());
    }
    Ok(found.all)
}

/// The deepest places of a text.
#[derive(Default)]
struct Deepest {
    /// Of brackets and of conditions within conditions.
    brackets: usize,
    /// Of all.
    all: usize,
}

/// The chains that are being read between two brackets. One that binds stronger ends with each part of a weaker one.
#[derive(Clone, Copy, Default)]
struct Chains {
    members: usize,
    products: usize,
    sums: usize,
    relations: usize,
    conditions: usize,
}

impl Chains {
    fn depth(self) -> usize {
        self.members + self.products + self.sums + self.relations + self.conditions
    }
}

fn measured(text: &str) -> Deepest {
    let bytes = text.as_bytes();
    let mut deepest = Deepest::default();
    let mut open = vec![Chains::default()];
    // How deep all is that encloses what is being read.
    let (mut around, mut conditions) = (0, 0);
    // Whether an operand has just ended, so that what follows is no sign.
    let mut operand = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let Some(now) = open.last_mut() else { break };
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let mut length = 1;
        match byte {
            b'"' | b'\'' => {
                length = quoted(bytes, at);
                operand = true;
            }
            b'/' if next == b'/' => length = bytes[at..].iter().take_while(|byte| **byte != b'\n').count(),
            b'(' | b'[' | b'{' => {
                if operand {
                    now.members += 1;
                }
                around += now.depth() + 1;
                conditions += now.conditions;
                open.push(Chains::default());
                operand = false;
            }
            b')' | b']' | b'}' => {
                if open.len() > 1 {
                    open.pop();
                }
                if let Some(now) = open.last() {
                    around = around.saturating_sub(now.depth() + 1);
                    conditions = conditions.saturating_sub(now.conditions);
                }
                operand = true;
            }
            b'.' if operand => now.members += 1,
            b'*' | b'/' | b'%' => (now.members, now.products, operand) = (0, now.products + 1, false),
            b'+' | b'-' if operand => {
                (now.members, now.products, now.sums, operand) = (0, 0, now.sums + 1, false);
            }
            b'<' | b'>' | b'=' | b'!' if operand => {
                *now = Chains { relations: now.relations + 1, conditions: now.conditions, ..Chains::default() };
                length = if next == b'=' { 2 } else { 1 };
                operand = false;
            }
            b'&' | b'|' => (*now, operand) = (Chains { conditions: now.conditions, ..Chains::default() }, false),
            b'?' if operand && !matches!(bytes.get(at.wrapping_sub(1)), Some(b'.' | b'[')) => {
                (*now, operand) = (Chains { conditions: now.conditions + 1, ..Chains::default() }, false);
            }
            b':' => (*now, operand) = (Chains { conditions: now.conditions, ..Chains::default() }, false),
            b',' => (*now, operand) = (Chains::default(), false),
            _ if byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii() => {
                let word = |byte: &&u8| **byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii();
                length = bytes[at..].iter().take_while(word).count();
                if &bytes[at..at + length] == b"in" {
                    *now = Chains { relations: now.relations + 1, conditions: now.conditions, ..Chains::default() };
                    operand = false;
                } else {
                    operand = true;
                }
            }
            _ => {}
        }
        at += length;
        if let Some(now) = open.last() {
            deepest.all = deepest.all.max(around + now.depth());
            deepest.brackets = deepest.brackets.max(open.len() - 1 + conditions + now.conditions);
        }
    }
    deepest
}

/// How long the text in quotes at a place is, with them.
fn quoted(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let raw = at.checked_sub(1).is_some_and(|before| matches!(bytes[before], b'r' | b'R'));
    let three = bytes[at..].starts_with(&[quote; 3]);
    let end: &[u8] = if three { &[quote; 3] } else { &[quote] };
    let mut length = end.len();
    while at + length < bytes.len() && !bytes[at + length..].starts_with(end) {
        length += if bytes[at + length] == b'\\' && !raw { 2 } else { 1 };
    }
    (length + end.len()).min(bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-30
    #[test]
    fn chains_and_brackets_nest() {
        let table = [
            ("1 + 1", 1),
            ("1 + 1 + 1", 2),
            ("a * b + c * d + e * f", 3),
            ("self.a.b == self.c", 2),
            ("a.b.c && a.b.c && a.b.c", 2),
            ("a ? b : c ? d : e", 2),
            ("- - - 1", 0),
            ("!!!a", 0),
            ("f(a, b, c)", 2),
            ("f([(a)])", 4),
            ("'((((' + \"[[[\\\"[\" + '''it's ((('''", 2),
            ("r'\\' + ')('", 1),
            ("a // ((((", 0),
            ("a.?b[?c].orValue(d)", 5),
            ("a in b", 1),
            ("{'a': b, 'c': d + e + f}", 3),
        ];
        for (text, expected) in table {
            assert_eq!(depth(text), Ok(expected), "{text}");
        }
    }

    /// Contract: API-30
    #[test]
    fn what_is_too_deep_is_refused_as_by_cel_go() {
        let told = |why: &str| Err(format!("ERROR: <input>:-1:0: {why}"));
        let sum = |n: usize| format!("1{}", "+1".repeat(n));
        let nested = |n: usize| format!("{}true{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(depth(&sum(250)), Ok(250));
        assert_eq!(depth(&sum(251)), told("max recursion depth exceeded"));
        assert_eq!(depth(&format!("self{}", ".s".repeat(251))), told("max recursion depth exceeded"));
        assert_eq!(depth(&format!("l{}", "[0]".repeat(251))), told("max recursion depth exceeded"));
        assert_eq!(depth(&nested(250)), Ok(250));
        assert_eq!(depth(&nested(251)), told("expression recursion limit exceeded: 250"));
        assert_eq!(
            depth(&format!("{}true", "true ? true : ".repeat(251))),
            told("expression recursion limit exceeded: 250")
        );
        assert_eq!(depth(&format!("true{}", " && true".repeat(3000))), Ok(0));
        assert_eq!(
            depth(&"é".repeat(100_001)),
            told("expression code point size exceeds limit: size: 100001, limit 100000")
        );
    }
}
