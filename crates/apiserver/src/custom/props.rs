//! A schema as a CustomResourceDefinition writes it: `JSONSchemaProps`.
//!
//! Every field that the API has is here, those that no schema may use too, for validation to refuse. Reading and
//! writing again gives the form that the reference stores: unknown fields are gone, empty ones are left out.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use muster_tree::{Number, Value};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A schema of a value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Props {
    /// Refused.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub id: String,
    /// Refused.
    #[serde(rename = "$schema", skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub schema: String,
    /// Refused.
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What `kubectl explain` says.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub description: String,
    /// `object`, `array`, `string`, `integer`, `number` or `boolean`; empty for any.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub kind: String,
    /// What a string or number is the text of, such as `date-time`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub format: String,
    /// A title.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub title: String,
    /// What an absent value becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The largest number.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "float")]
    pub maximum: Option<f64>,
    /// Whether the maximum itself is too large.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "nullable")]
    pub exclusive_maximum: bool,
    /// The smallest number.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "float")]
    pub minimum: Option<f64>,
    /// Whether the minimum itself is too small.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "nullable")]
    pub exclusive_minimum: bool,
    /// The most characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<i64>,
    /// The fewest characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<i64>,
    /// What a string has to match.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub pattern: String,
    /// The most elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<i64>,
    /// The fewest elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<i64>,
    /// Refused when true.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "nullable")]
    pub unique_items: bool,
    /// What a number is a multiple of.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "float")]
    pub multiple_of: Option<f64>,
    /// The values that there are.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub values: Vec<Value>,
    /// The most members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_properties: Option<i64>,
    /// The fewest members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_properties: Option<i64>,
    /// The members that have to be there.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub required: Vec<String>,
    /// What the elements of a list are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
    /// All of these hold.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub all_of: Vec<Props>,
    /// Exactly one of these holds.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub one_of: Vec<Props>,
    /// At least one of these holds.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub any_of: Vec<Props>,
    /// This does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Props>>,
    /// What the named members are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub properties: BTreeMap<String, Props>,
    /// What the other members are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<PropsOrBool>,
    /// Refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub pattern_properties: BTreeMap<String, Props>,
    /// Refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<BTreeMap<String, PropsOrNames>>,
    /// Refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_items: Option<PropsOrBool>,
    /// Refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub definitions: BTreeMap<String, Props>,
    /// Where there is more to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_docs: Option<ExternalDocs>,
    /// An example.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// Whether null is a value.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "nullable")]
    pub nullable: bool,
    /// Whether unknown members stay.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields", skip_serializing_if = "Option::is_none")]
    pub preserve_unknown_fields: Option<bool>,
    /// Whether it is a whole object of Kubernetes, with its own metadata.
    #[serde(
        rename = "x-kubernetes-embedded-resource",
        skip_serializing_if = "is_false",
        deserialize_with = "nullable"
    )]
    pub embedded_resource: bool,
    /// Whether it is an integer or a string.
    #[serde(rename = "x-kubernetes-int-or-string", skip_serializing_if = "is_false", deserialize_with = "nullable")]
    pub int_or_string: bool,
    /// The keys of a list that is a map.
    #[serde(
        rename = "x-kubernetes-list-map-keys",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable"
    )]
    pub list_map_keys: Vec<String>,
    /// `atomic`, `set` or `map`.
    #[serde(rename = "x-kubernetes-list-type", skip_serializing_if = "Option::is_none")]
    pub list_type: Option<String>,
    /// `atomic` or `granular`.
    #[serde(rename = "x-kubernetes-map-type", skip_serializing_if = "Option::is_none")]
    pub map_type: Option<String>,
    /// Rules in CEL.
    #[serde(rename = "x-kubernetes-validations", skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub validations: Vec<Rule>,
}

/// `items`: one schema, or (refused) one for each place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Items {
    /// One for all elements.
    One(Box<Props>),
    /// One for each place.
    Each(Vec<Props>),
}

/// `additionalProperties`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PropsOrBool {
    /// Whether there may be any.
    Bool(bool),
    /// What they are.
    Props(Box<Props>),
}

/// What is told apart by its form is read by it: to try one after the other, as serde does by itself, copies what is
/// below at each level.
struct ByForm<T>(PhantomData<T>);

impl<'de> Visitor<'de> for ByForm<Items> {
    type Value = Items;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema or a list of schemas")
    }
    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Items, A::Error> {
        Props::deserialize(MapAccessDeserializer::new(members)).map(Box::new).map(Items::One)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Items, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(elements)).map(Items::Each)
    }
}

impl<'de> Visitor<'de> for ByForm<PropsOrBool> {
    type Value = PropsOrBool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema, true or false")
    }
    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<PropsOrBool, A::Error> {
        Props::deserialize(MapAccessDeserializer::new(members)).map(Box::new).map(PropsOrBool::Props)
    }
    fn visit_bool<E>(self, allowed: bool) -> Result<PropsOrBool, E> {
        Ok(PropsOrBool::Bool(allowed))
    }
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ByForm::<Self>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for PropsOrBool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ByForm::<Self>(PhantomData))
    }
}

/// A dependency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PropsOrNames {
    /// Members that have to be there.
    Names(Vec<String>),
    /// What has to hold.
    Props(Box<Props>),
}

/// Where there is more to read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExternalDocs {
    /// What is there.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub description: String,
    /// Where it is.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub url: String,
}

/// A rule in CEL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    /// The expression.
    #[serde(deserialize_with = "nullable")]
    pub rule: String,
    /// What is said when it is false.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub message: String,
    /// An expression for what is said.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub message_expression: String,
    /// The reason in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field in the answer.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub field_path: String,
    /// Whether `oldSelf` is an optional value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional_old_self: Option<bool>,
}

impl Props {
    /// The schema of the elements of a list.
    #[must_use]
    pub fn item(&self) -> Option<&Props> {
        match &self.items {
            Some(Items::One(props)) => Some(props),
            _ => None,
        }
    }

    /// The schema of members that have no name in it.
    #[must_use]
    pub fn additional(&self) -> Option<&Props> {
        match &self.additional_properties {
            Some(PropsOrBool::Props(props)) => Some(props),
            _ => None,
        }
    }

    /// Whether this schema or one below it is so.
    pub fn any(&self, test: &mut dyn FnMut(&Props) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let items: &[Props] = match &self.items {
            Some(Items::One(one)) => std::slice::from_ref(one),
            Some(Items::Each(each)) => each,
            None => &[],
        };
        let additional = [&self.additional_properties, &self.additional_items].into_iter().filter_map(|p| match p {
            Some(PropsOrBool::Props(props)) => Some(&**props),
            _ => None,
        });
        let dependencies = self.dependencies.iter().flat_map(BTreeMap::values).filter_map(|d| match d {
            PropsOrNames::Props(props) => Some(&**props),
            PropsOrNames::Names(_) => None,
        });
        let mut below = items
            .iter()
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
            .chain(self.properties.values())
            .chain(self.pattern_properties.values())
            .chain(self.definitions.values())
            .chain(additional)
            .chain(dependencies);
        below.any(|props| props.any(test))
    }
}

/// Null is read as the empty value.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it by reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A float as Go writes it: a whole one without a fraction.
#[expect(clippy::ref_option, reason = "serde hands it by reference")]
fn float<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    number.map(number_of).serialize(to)
}

/// The JSON number of a float: a whole one as an integer.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within the range of exact floats")]
pub fn number_of(float: f64) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        return Number::from(float as i64);
    }
    Number::from_f64(float).unwrap_or_else(|| Number::from(0))
}
