//! The selector as objects carry it: `matchLabels` and `matchExpressions`.

use serde::{Deserialize, Deserializer, Serialize};

use super::requirement::{Operator, Requirement};
use super::{Selector, SelectorError};
use crate::labels::Labels;
use crate::names::GoQuoted;

/// `metav1.LabelSelector`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with exactly these values.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,
    /// Further requirements, all of which must hold.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One of a selector's `matchExpressions`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    #[serde(default)]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; kept as it was written.
    #[serde(default)]
    pub operator: String,
    /// The values, for `In` and `NotIn`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Box<str>>,
}

impl LabelSelector {
    /// A selector for these labels and nothing else.
    #[must_use]
    pub fn from_labels(match_labels: Labels) -> Self {
        Self { match_labels, match_expressions: Vec::new() }
    }

    /// The selector of a spec, parsed. An absent one selects nothing, as in `metav1.LabelSelectorAsSelector`.
    pub(crate) fn parsed(selector: Option<&Self>) -> Result<Selector, SelectorError> {
        selector.map_or_else(|| Ok(Selector::nothing()), Self::to_selector)
    }

    pub(super) fn to_selector(&self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::with_capacity(self.match_labels.len() + self.match_expressions.len());
        for (key, value) in self.match_labels.iter() {
            requirements.push(Requirement::new(key, Operator::Equals, vec![value.into()])?);
        }
        for expression in &self.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message = format!("{} is not a valid label selector operator", GoQuoted(other));
                    return Err(SelectorError::new(message));
                }
            };
            requirements.push(Requirement::new(&expression.key, operator, expression.values.clone())?);
        }
        Ok(Selector::new(requirements))
    }
}

/// Takes null for the default, as Go does.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
