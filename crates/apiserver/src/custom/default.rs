//! Defaulting: what is absent gets its schema's default; a null that may not be one counts as absent. And what else a
//! value becomes by being stored and read.

use muster_tree::Value;

use super::Object;
use super::prune;
use super::structural::Structural;
use super::{metadata, props};

/// Fills in the defaults of a whole object.
pub fn fill(object: &mut Object, schema: &Structural) {
    for (name, property) in &schema.properties {
        if let Some(default) = &property.default
            && object.get(name).is_none_or(|value| value.is_null() && !property.nullable)
        {
            object.insert(name.to_string(), (**default).clone());
        }
    }
    for (name, value) in object.iter_mut() {
        if let Some(property) = schema.property(name) {
            fill_value(value, property);
        } else if let Some(additional) = schema.additional() {
            element(value, additional);
        }
    }
}

/// Makes whole numbers integers: they are written without a point, and so they are read.
pub fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                *number = props::number_of(float);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        _ => {}
    }
}

fn fill_value(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(object) => fill(object, schema),
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                list.iter_mut().for_each(|value| element(value, items));
            }
        }
        _ => {}
    }
}

/// An element or unnamed member: one that is null, and may not be, becomes the default.
fn element(value: &mut Value, schema: &Structural) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.as_deref().cloned().unwrap_or_default();
    }
    fill_value(value, schema);
}

/// Drops the nulls that may not be there and have no default.
pub fn drop_nulls(object: &mut Object, schema: Option<&Structural>) {
    object.retain(|name, value| {
        let schema = schema.and_then(|s| s.member(name));
        if value.is_null() && schema.is_some_and(|s| !s.nullable && s.default.is_none()) {
            return false;
        }
        drop_nulls_below(value, schema);
        true
    });
}

fn drop_nulls_below(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(object) => drop_nulls(object, schema),
        Value::Array(list) => {
            let items = schema.and_then(|s| s.items.as_deref());
            list.iter_mut().for_each(|value| drop_nulls_below(value, items));
        }
        _ => {}
    }
}

/// Prunes the defaults of a whole schema as the objects that they will be part of are pruned.
pub fn prune_defaults(schema: &mut props::Props) {
    let root = Structural::new(schema);
    prune_below(schema, &root, &mut Vec::new());
}

/// A step from a schema to one below.
enum Step {
    Member(String),
    Element,
}

fn prune_below(schema: &mut props::Props, root: &Structural, at: &mut Vec<Step>) {
    if let Some(default) = &mut schema.default
        && let Value::Object(mut around) = surround(default.clone(), at)
    {
        metadata::coerce_dropping(&mut around, root);
        prune::prune_object(&mut around, root);
        if let Some(pruned) = inside(Value::Object(around), at) {
            *default = pruned;
        }
    }
    for (name, property) in &mut schema.properties {
        at.push(Step::Member(name.clone()));
        prune_below(property, root, at);
        at.pop();
    }
    if let Some(props::Items::One(item)) = &mut schema.items {
        at.push(Step::Element);
        prune_below(item, root, at);
        at.pop();
    }
    if let Some(props::PropsOrBool::Props(below)) = &mut schema.additional_properties {
        at.push(Step::Member("*".to_owned()));
        prune_below(below, root, at);
        at.pop();
    }
}

/// An object with a value at a place.
fn surround(value: Value, at: &[Step]) -> Value {
    at.iter().rev().fold(value, |value, step| match step {
        Step::Member(name) => Value::Object(Object::from_iter([(name.clone(), value)])),
        Step::Element => Value::Array(vec![value].into()),
    })
}

/// The value at a place.
fn inside(value: Value, at: &[Step]) -> Option<Value> {
    at.iter().try_fold(value, |value, step| match (step, value) {
        (Step::Member(name), Value::Object(mut object)) => object.remove(name),
        (Step::Element, Value::Array(list)) => list.into_iter().next(),
        _ => None,
    })
}
