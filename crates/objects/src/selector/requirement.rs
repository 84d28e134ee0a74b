//! One requirement of a selector: a key, an operator, and the values that it relates to.

use std::fmt;

use super::SelectorError;
use crate::names::{GoQuoted, label_key_errors, label_value_errors};

/// How a requirement relates a label to its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key in (a,b)`: present, with one of the values.
    In,
    /// `key notin (a,b)`: absent, or with another value.
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`, the same as [`Operator::Equals`] but for how it is written.
    DoubleEquals,
    /// `key!=a`: absent, or with another value.
    NotEquals,
    /// `key`: present.
    Exists,
    /// `!key`: absent.
    DoesNotExist,
    /// `key>3`: present, and a greater integer. Only in the string form.
    GreaterThan,
    /// `key<3`: present, and a smaller integer. Only in the string form.
    LessThan,
}

/// A valid requirement. Values are in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    values: Vec<Box<str>>,
}

impl Requirement {
    /// Checks and makes a requirement, as `labels.NewRequirement` does.
    ///
    /// # Errors
    ///
    /// Where the key or a value breaks the rules for labels, or the number of values does not fit
    /// the operator.
    pub fn new(key: &str, operator: Operator, values: Vec<Box<str>>) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        let key_errors = label_key_errors(key);
        if !key_errors.is_empty() {
            errors.push(invalid("key", key, &key_errors.join("; ")));
        }
        let count = values.len();
        match operator {
            Operator::In | Operator::NotIn if count == 0 => {
                errors.push(wrong_count(&values, "for 'in', 'notin' operators, values set can't be empty"));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if count != 1 => {
                errors.push(wrong_count(&values, "exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if count != 0 => {
                errors.push(wrong_count(&values, "values set must be empty for exists and does not exist"));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if count != 1 {
                    errors.push(wrong_count(&values, "for 'Gt', 'Lt' operators, exactly one value is required"));
                }
                for (at, value) in values.iter().enumerate() {
                    if parse_go_int(value).is_none() {
                        let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
                        errors.push(invalid(&format!("values[{at}]"), value, rule));
                    }
                }
            }
            _ => {}
        }
        for (at, value) in values.iter().enumerate() {
            let value_errors = label_value_errors(value);
            if !value_errors.is_empty() {
                errors.push(invalid(&format!("values[{at}][{key}]"), value, &value_errors.join("; ")));
            }
        }
        if errors.is_empty() { Ok(Self { key: key.into(), operator, values }) } else { Err(aggregate(errors)) }
    }

    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }

    /// The values of which the label must have one, where the requirement names them: `=`, `==` and
    /// `in`. An index by label can serve such a requirement.
    #[must_use]
    pub fn required_values(&self) -> Option<&[Box<str>]> {
        matches!(self.operator, Operator::In | Operator::Equals | Operator::DoubleEquals).then_some(&*self.values)
    }

    /// Whether a label of that value, or an absent one, satisfies the requirement.
    #[must_use]
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| **value == *label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compare(label).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.compare(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    /// Label and bound as integers, where both are.
    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((parse_go_int(label?)?, parse_go_int(self.values.first()?)?))
    }
}

/// One requirement of the string form, with sorted values.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = match self.operator {
            Operator::DoesNotExist => return write!(f, "!{}", self.key),
            Operator::Exists => return f.write_str(&self.key),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
        };
        let mut values: Vec<&str> = self.values().collect();
        values.sort_unstable();
        write!(f, "{}{open}{}{close}", self.key, values.join(","))
    }
}

/// `field.Invalid(..).Error()`.
pub(super) fn invalid(path: &str, value: &str, rule: &str) -> String {
    format!("{path}: Invalid value: {}: {rule}", GoQuoted(value))
}

/// The same for a bad number of values; Go shows the list as JSON, and an empty one as it holds it.
fn wrong_count(values: &[Box<str>], rule: &str) -> String {
    let shown = if values.is_empty() { "null".to_owned() } else { go_json_list(values) };
    format!("values: Invalid value: {shown}: {rule}")
}

fn go_json_list(values: &[Box<str>]) -> String {
    let quoted: Vec<String> = values
        .iter()
        .map(|value| serde_json::Value::from(&**value).to_string())
        .map(|json| json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
        .collect();
    format!("[{}]", quoted.join(","))
}

/// Errors as apimachinery joins them: one as it is, several in brackets without repetition.
fn aggregate(mut errors: Vec<String>) -> SelectorError {
    let mut seen: Vec<String> = Vec::with_capacity(errors.len());
    errors.retain(|error| {
        let fresh = !seen.contains(error);
        if fresh {
            seen.push(error.clone());
        }
        fresh
    });
    match errors.as_slice() {
        [only] => SelectorError::new(only.as_str()),
        several => SelectorError::new(format!("[{}]", several.join(", "))),
    }
}

/// `strconv.ParseInt(text, 10, 64)`: an optional sign and digits, nothing else.
fn parse_go_int(text: &str) -> Option<i64> {
    text.parse().ok()
}
