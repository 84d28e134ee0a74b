//! How the reference prints its own structures, where its messages show them.

use serde_json::Value;

use crate::field::Shown;
use crate::kinds::Object;

/// A structure as a message shows it: the JSON of the reference's internal type of that name.
#[must_use]
pub fn shown(type_name: &str, value: &Object) -> Shown {
    Shown::Bare(json(type_name, value))
}

/// The JSON of the reference's internal type of that name, in one line.
#[must_use]
pub fn json(type_name: &str, value: &Object) -> String {
    let _ = type_name;
    Value::Object(value.clone()).to_string()
}

/// JSON on many lines, indented by one space for each level, as Go's `MarshalIndent` writes it.
#[must_use]
pub fn indent(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut chars = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
                // What is empty stays on its line.
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-17
    #[test]
    fn json_is_indented_as_go_does() {
        assert_eq!(
            indent(r#"{"A":[1,{"B":"x: {,\""}],"C":{},"D":[ ]}"#),
            "{\n \"A\": [\n  1,\n  {\n   \"B\": \"x: {,\\\"\"\n  }\n ],\n \"C\": {},\n \"D\": []\n}"
        );
    }
}
