//! Label selectors against what apimachinery v1.36 itself said of the same texts.

use muster_objects::{IntOrPercent, LabelSelector, Labels, Selector, SelectorError};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    sets: Vec<Labels>,
    parse: Vec<Parsed>,
    convert: Vec<Converted>,
    scaled: Vec<(String, i32, bool, i64, String)>,
}

#[derive(Deserialize)]
struct Parsed {
    text: String,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
struct Converted {
    selector: Option<LabelSelector>,
    #[serde(flatten)]
    expected: Expected,
}

/// Either an error, or the string form and which of the label sets match.
#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    error: String,
    shown: String,
    #[serde(default)]
    matches: Vec<bool>,
}

impl Expected {
    fn check(&self, sets: &[Labels], what: &str, found: Result<Selector, SelectorError>) {
        match found {
            Err(error) => assert_eq!(error.to_string(), self.error, "{what}"),
            Ok(selector) => {
                assert_eq!("", self.error, "{what} parsed as {selector}");
                assert_eq!(selector.to_string(), self.shown, "{what}");
                let matches: Vec<bool> = sets.iter().map(|set| selector.matches(set)).collect();
                assert_eq!(matches, self.matches, "{what} over {sets:?}");
            }
        }
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors/selectors.json")).expect("the vectors are JSON of this shape")
}

/// Every text of apimachinery's own tests and a hundred more: the same selectors, the same string
/// forms, the same matches, the same errors.
///
/// Contract: API-10
#[test]
fn the_string_form_is_parsed_as_apimachinery_does() {
    let Vectors { sets, parse, .. } = vectors();
    for case in parse {
        case.expected.check(&sets, &format!("{:?}", case.text), Selector::parse(&case.text));
    }
}

/// `matchLabels` and all four operators of `matchExpressions`; an absent selector matches nothing, an
/// empty one everything.
///
/// Contract: RS-20, API-10
#[test]
fn the_wire_form_is_converted_as_apimachinery_does() {
    let Vectors { sets, convert, .. } = vectors();
    for case in convert {
        let what = format!("{:?}", case.selector);
        let found = match &case.selector {
            Some(selector) => Selector::try_from(selector),
            None => Ok(Selector::nothing()),
        };
        case.expected.check(&sets, &what, found);
    }
}

/// Upstream calculates in floating point; where that is exact, so is the agreement.
///
/// Contract: DEP-07, B-10
#[test]
fn percentages_are_scaled_as_apimachinery_does() {
    for (text, total, up, expected, error) in vectors().scaled {
        if expected > 1 << 45 {
            continue;
        }
        match IntOrPercent::from(text.as_str()).scaled(total, up) {
            Ok(found) => assert_eq!((found, ""), (expected, error.as_str()), "{text} of {total}, up: {up}"),
            Err(found) => assert_eq!(found.to_string(), error, "{text} of {total}"),
        }
    }
}

fn label_word() -> impl Strategy<Value = String> {
    "[a-c]([-_.a-c1]{0,3}[a-c1])?"
}

fn label_set() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("[a-d]", label_word(), 0..4).prop_map(Labels::from_iter)
}

fn requirement_text() -> impl Strategy<Value = String> {
    let values = prop::collection::vec(label_word(), 1..4).prop_map(|values| values.join(","));
    ("[a-d]", 0..8, label_word(), values).prop_map(|(key, form, value, values)| match form {
        0 => key,
        1 => format!("!{key}"),
        2 => format!("{key}={value}"),
        3 => format!("{key}=={value}"),
        4 => format!("{key}!={value}"),
        5 => format!("{key} in ({values})"),
        6 => format!("{key} notin ({values})"),
        _ => format!("{key}>{}", value.len()),
    })
}

proptest! {
    /// What a selector shows of itself means the same as the selector.
    ///
    /// Contract: API-10
    #[test]
    fn the_string_form_survives_a_round_trip(
        requirements in prop::collection::vec(requirement_text(), 0..5),
        labels in label_set(),
    ) {
        let selector = Selector::parse(&requirements.join(",")).expect("every requirement is valid");
        let again = Selector::parse(&selector.to_string()).expect("what is shown is valid");
        prop_assert_eq!(selector.to_string(), again.to_string());
        prop_assert_eq!(selector.matches(&labels), again.matches(&labels));
        let each = requirements.iter().all(|one| Selector::parse(one).is_ok_and(|one| one.matches(&labels)));
        prop_assert_eq!(selector.matches(&labels), each);
    }

    /// Contract: API-10
    #[test]
    fn no_text_makes_the_parser_panic(text in "[ -~]{0,24}|[xin,()!=<> \u{0}é]{0,24}|\\PC{0,12}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()).map(|s| s.to_string()), Ok(selector.to_string()));
        }
    }

    /// `matchLabels` selects exactly the sets that contain it.
    ///
    /// Contract: RS-15
    #[test]
    fn match_labels_is_containment(wanted in label_set(), labels in label_set()) {
        let selector = Selector::try_from(&LabelSelector::from_labels(wanted.clone())).expect("the labels are valid");
        prop_assert_eq!(selector.matches(&labels), labels.contains_all(&wanted));
    }
}
