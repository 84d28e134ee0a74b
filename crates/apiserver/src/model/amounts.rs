//! Amounts of resources by name, and what is done with them.

use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;

use muster_schema::quantity::Quantity;
use muster_tree::{Map, Value};

/// A resource list.
#[derive(Debug, Clone, Default)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// Reads a resource list of an object.
    #[must_use]
    pub fn read(list: Option<&Map>) -> Self {
        let quantity = |value: &Value| match value {
            Value::String(text) => Quantity::of(text),
            other => Quantity::of(&other.to_string()),
        };
        list.into_iter().flatten().map(|(name, value)| (name.to_string(), quantity(value))).collect()
    }

    /// The same count of each of several resources.
    #[must_use]
    pub fn of_counts(names: &[String], count: u64) -> Self {
        names.iter().map(|name| (name.clone(), Quantity::of(&count.to_string()))).collect()
    }

    /// The amount of a resource, where it is listed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// Sets the amount of a resource.
    pub fn insert(&mut self, name: String, amount: Quantity) {
        self.0.insert(name, amount);
    }

    /// The resources in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (&**name, amount))
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the amounts of another list.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.get(name).map_or_else(|| amount.clone(), |own| own.plus(amount));
            self.0.insert(name.clone(), sum);
        }
    }

    /// Takes away the amounts of another list.
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let rest = self.0.get(name).cloned().unwrap_or_default().plus(&amount.negated());
            self.0.insert(name.clone(), rest);
        }
    }

    /// Raises each amount to that of another list.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if self.0.get(name).is_none_or(|own| amount.compare(own).is_gt()) {
                self.0.insert(name.clone(), amount.clone());
            }
        }
    }

    /// Takes a resource off the list.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.0.remove(name)
    }

    /// Leaves the resources that `keep` names.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| keep(name));
    }

    /// Whether both list the same resources in the same amounts, however these are written.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|((a, x), (b, y))| a == b && x.compare(y).is_eq())
    }

    /// As it stands in an object.
    #[must_use]
    pub fn to_json(&self) -> Map {
        self.0.iter().map(|(name, amount)| (name, amount.to_string())).collect()
    }
}

impl FromIterator<(String, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

impl IntoIterator for ResourceList {
    type Item = (String, Quantity);
    type IntoIter = IntoIter<String, Quantity>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
