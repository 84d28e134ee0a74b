//! Whether a schema's defaults are values of it.

use muster_tree::{Value, json};

use crate::custom::metadata::{self, child};
use crate::custom::rules;
use crate::custom::structural::Structural;
use crate::custom::{prune, validate as values};
use crate::field::{FieldError, aggregate};
use crate::validation::Errors;

use super::structure::shown;

/// Every default that is no value of its schema.
pub(super) fn validate(schema: &Structural, require_pruned: bool, path: &str) -> Errors {
    let mut errors = Errors::new();
    let mut budget = crate::cel::REQUEST_BUDGET;
    let walk = Walk { root: schema, at: Vec::new(), in_metadata: false, whole: true };
    walk.schema(schema, require_pruned, path, &mut budget, &mut errors);
    errors
}

/// A step from the whole object to a default.
#[derive(Clone)]
enum Step {
    Member(String),
    Element,
}

/// Where a schema stands.
#[derive(Clone)]
struct Walk<'s> {
    /// The schema of the whole object around.
    root: &'s Structural,
    at: Vec<Step>,
    /// Whether it is part of the metadata of the whole object.
    in_metadata: bool,
    /// Whether it is a whole object itself.
    whole: bool,
}

impl<'s> Walk<'s> {
    fn schema(&self, schema: &'s Structural, pruned: bool, path: &str, budget: &mut i64, errors: &mut Errors) {
        let own = if schema.embedded && !self.whole {
            Self { root: schema, at: Vec::new(), in_metadata: false, whole: true }
        } else {
            self.clone()
        };
        if let Some(default) = &schema.default {
            own.default(default, schema, pruned, path, budget, errors);
        }
        if *budget < 0 {
            return;
        }
        if let Some(items) = &schema.items {
            own.below(Step::Element, false).schema(items, pruned, &child(path, "items"), budget, errors);
        }
        for (name, property) in &schema.properties {
            let meta = own.whole && matches!(&**name, "metadata" | "apiVersion" | "kind");
            let step = own.below(Step::Member(name.to_string()), own.in_metadata || meta);
            step.schema(property, pruned, &format!("{path}.properties[{name}]"), budget, errors);
        }
    }

    fn below(&self, step: Step, in_metadata: bool) -> Self {
        let mut at = self.at.clone();
        at.push(step);
        Self { root: self.root, at, in_metadata: in_metadata || self.in_metadata, whole: false }
    }

    fn default(
        &self,
        default: &Value,
        schema: &'s Structural,
        require_pruned: bool,
        path: &str,
        budget: &mut i64,
        errors: &mut Errors,
    ) {
        let field = child(path, "default");
        if self.in_metadata {
            let mut around = self.surrounded(default);
            if let Some(why) = metadata_errors(&mut around, self.root) {
                let why = format!("must result in valid metadata: {why}");
                errors.push(FieldError::invalid(field, shown(default), why));
                return;
            }
        } else {
            if require_pruned {
                let mut pruned = default.clone();
                prune::prune(&mut pruned, schema, schema.embedded);
                if pruned != *default {
                    errors.push(FieldError::invalid(field.as_str(), shown(default), "must not have unknown fields"));
                }
            }
            let mut own = default.clone();
            if let Err(error) = metadata::coerce_value(&mut own, schema, &field) {
                errors.push(error);
                return;
            }
            let mut found = Errors::new();
            metadata::validate_value(&own, schema, schema.embedded, &field, &mut found);
            if !found.is_empty() {
                errors.extend(found);
                return;
            }
        }
        let found = values::value(default, None, schema, &field);
        if !found.is_empty() {
            errors.extend(found);
            return;
        }
        if !schema.holds.rules {
            return;
        }
        let root = std::ptr::eq(schema, self.root);
        let before = *budget;
        let with_old = rules::value(default, Some(default), schema, root, &field, budget);
        if with_old.is_empty() {
            let mut without = before;
            errors.extend(rules::value(default, None, schema, root, &field, &mut without));
            *budget = (*budget).min(without);
        }
        errors.extend(with_old);
    }

    /// A whole object with the default in its place.
    fn surrounded(&self, default: &Value) -> crate::custom::Object {
        let value = self.at.iter().rev().fold(default.clone(), |value, step| match step {
            Step::Member(name) => json!({ name: value }),
            Step::Element => json!([value]),
        });
        let mut object = match value {
            Value::Object(object) => object,
            _ => crate::custom::Object::new(),
        };
        object.entry("kind").or_insert_with(|| Value::from("Validation"));
        object.entry("apiVersion").or_insert_with(|| Value::from("validation/v1"));
        object
    }
}

/// What is wrong with the metadata of a whole object.
fn metadata_errors(object: &mut crate::custom::Object, schema: &Structural) -> Option<String> {
    if let Err(why) = metadata::read(object) {
        let shown = object.get("metadata").map(ToString::to_string).unwrap_or_default();
        return Some(format!("metadata: Invalid value: {shown}: {why}"));
    }
    if let Err(error) = metadata::coerce(object, schema) {
        return Some(error.to_string());
    }
    let mut found = Errors::new();
    metadata::validate_value(&Value::Object(object.clone()), schema, true, "", &mut found);
    (!found.is_empty()).then(|| aggregate(&found))
}
