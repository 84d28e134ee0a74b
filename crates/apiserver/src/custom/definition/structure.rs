//! Whether a schema is structural: every value has a type that is known without looking at values.

use super::go;
use crate::custom::metadata::child;
use crate::custom::pattern;
use crate::custom::props::{Items, Props, PropsOrBool};
use crate::field::{FieldError, Shown};
use crate::validation::Errors;

/// Where in a schema another one stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What cannot be part of a structural schema at all; `None` where there is nothing of it.
pub(super) fn unsupported(schema: &Props) -> Option<String> {
    let mut found = None;
    schema.any(&mut |p| {
        let what = match p {
            p if !p.id.is_empty() => "'id' is not supported",
            p if !p.schema.is_empty() => "'schema' is not supported",
            p if p.reference.as_ref().is_some_and(|r| !r.is_empty()) => "'$ref' is not supported",
            p if !p.pattern_properties.is_empty() => "'patternProperties' is not supported",
            p if p.dependencies.as_ref().is_some_and(|d| !d.is_empty()) => "'dependencies' is not supported",
            p if p.additional_items.is_some() => "'additionalItems' is not supported",
            p if !p.definitions.is_empty() => "'definitions' is not supported",
            p if matches!(p.items, Some(Items::Each(_))) => "'items' must be a schema, but is an array",
            p if p.preserve_unknown_fields == Some(false) => {
                found =
                    Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
                return true;
            }
            _ => return false,
        };
        found = Some(format!("OpenAPIV3Schema {what}"));
        true
    });
    found
}

/// Everything that keeps a schema from being structural, sorted by its text.
pub(super) fn validate(schema: &Props, path: &str) -> Errors {
    let mut errors = Errors::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn property(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

fn invariants(schema: &Props, level: Level, path: &str, errors: &mut Errors) {
    let at = |name: &str| child(path, name);
    if schema.kind == "array" && schema.items.is_none() {
        errors.push(FieldError::required(at("items"), "must be specified"));
    }
    if let Some(item) = schema.item() {
        invariants(item, Level::Item, &at("items"), errors);
    }
    for (name, own) in &schema.properties {
        invariants(own, Level::Field, &property(path, name), errors);
    }
    if let Some(additional) = &schema.additional_properties {
        if level == Level::Root {
            errors.push(FieldError::forbidden(at("additionalProperties"), "must not be used at the root"));
        }
        if let PropsOrBool::Props(below) = additional {
            invariants(below, Level::Field, &at("additionalProperties"), errors);
        }
    }
    if schema.int_or_string {
        let why = "must be false if x-kubernetes-int-or-string is true";
        if schema.preserve_unknown_fields == Some(true) {
            errors.push(FieldError::invalid(at("x-kubernetes-preserve-unknown-fields"), true, why));
        }
        if schema.embedded_resource {
            errors.push(FieldError::invalid(at("x-kubernetes-embedded-resource"), true, why));
        }
    }
    let skip_any = is_int_or_string(&schema.any_of);
    let skip_first = schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    value_rules(schema, skip_any, skip_first, level, path, errors);

    let whole = level == Level::Root || schema.embedded_resource;
    let why = "must be object if x-kubernetes-embedded-resource is true";
    if schema.embedded_resource && schema.kind != "object" {
        errors.push(if schema.kind.is_empty() {
            FieldError::required(at("type"), why)
        } else {
            FieldError::invalid(at("type"), schema.kind.as_str(), why)
        });
    } else if schema.kind.is_empty() && !schema.int_or_string && schema.preserve_unknown_fields != Some(true) {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at("type"), why));
    }
    if schema.embedded_resource && schema.additional_properties.is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(at("additionalProperties"), why));
    }
    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.push(FieldError::invalid(at("type"), schema.kind.as_str(), "must be object at the root"));
    }
    if whole {
        for name in ["kind", "apiVersion"] {
            if let Some(own) = schema.properties.get(name).filter(|own| own.kind != "string") {
                let field = format!("{}.type", property(path, name));
                errors.push(FieldError::invalid(field, own.kind.as_str(), "must be string"));
            }
        }
    }
    if let Some(metadata) = schema.properties.get("metadata") {
        let path = property(path, "metadata");
        if whole && metadata.kind != "object" {
            errors.push(FieldError::invalid(child(&path, "type"), metadata.kind.as_str(), "must be object"));
        }
        if level == Level::Root && !only_names(metadata) {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(path, why));
        }
    }
    if schema.embedded_resource && schema.preserve_unknown_fields != Some(true) && schema.properties.is_empty() {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(at("properties"), why));
    }
}

/// Whether a schema of metadata says no more than the reference says of it anyway.
fn only_names(metadata: &Props) -> bool {
    let mut rest = metadata.clone();
    rest.kind.clear();
    rest.default = None;
    if !rest.properties.is_empty() && rest.properties.keys().all(|n| matches!(n.as_str(), "name" | "generateName")) {
        rest.properties.clear();
    }
    rest == Props::default()
}

fn is_int_or_string(any_of: &[Props]) -> bool {
    let only = |kind: &str| Props { kind: kind.to_owned(), ..Props::default() };
    matches!(any_of, [int, string] if *int == only("integer") && *string == only("string"))
}

/// What a schema says of values: alternatives may only narrow what is known without them.
fn value_rules(schema: &Props, skip_any: bool, skip_first: bool, level: Level, path: &str, errors: &mut Errors) {
    if !skip_any {
        for (index, nested) in schema.any_of.iter().enumerate() {
            nested_rules(nested, false, level, &format!("{path}.anyOf[{index}]"), errors);
        }
    }
    for (index, nested) in schema.all_of.iter().enumerate() {
        nested_rules(nested, skip_first && index == 0, level, &format!("{path}.allOf[{index}]"), errors);
    }
    for (index, nested) in schema.one_of.iter().enumerate() {
        nested_rules(nested, false, level, &format!("{path}.oneOf[{index}]"), errors);
    }
    if let Some(nested) = &schema.not {
        nested_rules(nested, false, level, &child(path, "not"), errors);
    }
    if !schema.pattern.is_empty()
        && let Err(why) = pattern::check(&schema.pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(child(path, "pattern"), schema.pattern.as_str(), why));
    }
}

fn nested_rules(schema: &Props, skip_any: bool, level: Level, path: &str, errors: &mut Errors) {
    value_rules(schema, skip_any, false, level, path, errors);
    if let Some(item) = schema.item() {
        nested_rules(item, false, level, &child(path, "items"), errors);
    }
    for (name, own) in &schema.properties {
        nested_rules(own, false, Level::Field, &property(path, name), errors);
    }
    let additional = match &schema.additional_properties {
        None | Some(PropsOrBool::Bool(false)) => false,
        Some(_) => true,
    };
    for (wrong, name, why) in [
        (!schema.kind.is_empty(), "type", "must be empty to be structural"),
        (additional, "additionalProperties", "must be undefined to be structural"),
        (schema.default.is_some(), "default", "must be undefined to be structural"),
        (!schema.title.is_empty(), "title", "must be empty to be structural"),
        (!schema.description.is_empty(), "description", "must be empty to be structural"),
        (schema.nullable, "nullable", "must be false to be structural"),
        (
            schema.preserve_unknown_fields == Some(true),
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (schema.embedded_resource, "x-kubernetes-embedded-resource", "must be false to be structural"),
        (schema.int_or_string, "x-kubernetes-int-or-string", "must be false to be structural"),
        (!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "must be empty to be structural"),
        (schema.list_type.is_some(), "x-kubernetes-list-type", "must be undefined to be structural"),
        (schema.map_type.is_some(), "x-kubernetes-map-type", "must be undefined to be structural"),
        (!schema.validations.is_empty(), "x-kubernetes-validations", "must be empty to be structural"),
    ] {
        if wrong {
            errors.push(FieldError::forbidden(child(path, name), why));
        }
    }
    if schema.properties.contains_key("metadata") {
        errors.push(FieldError::forbidden(property(path, "metadata"), "must not be specified in a nested context"));
    }
}

/// Whatever alternatives say something of has to be there without them.
fn complete(rules: &Props, schema: Option<&Props>, path: &str, from: &str, errors: &mut Errors) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(path, format!("because it is defined in {from}")));
        return;
    };
    let mut nested =
        |rules: &Props, step: String| complete_nested(rules, Some(schema), path, &format!("{from}.{step}"), errors);
    if let Some(not) = &rules.not {
        nested(not, "not".to_owned());
    }
    for (name, list) in [("allOf", &rules.all_of), ("anyOf", &rules.any_of), ("oneOf", &rules.one_of)] {
        for (index, rules) in list.iter().enumerate() {
            nested(rules, format!("{name}[{index}]"));
        }
    }
}

fn complete_nested(rules: &Props, schema: Option<&Props>, path: &str, from: &str, errors: &mut Errors) {
    let Some(own) = schema else {
        errors.push(FieldError::required(path, format!("because it is defined in {from}")));
        return;
    };
    complete(rules, schema, path, from, errors);
    if let Some(item) = rules.item() {
        complete_nested(item, own.item(), &child(path, "items"), &child(from, "items"), errors);
    }
    for (name, rules) in &rules.properties {
        complete_nested(rules, own.properties.get(name), &property(path, name), &property(from, name), errors);
    }
}

/// A value of a schema as an error shows it.
pub(super) fn shown(value: &muster_tree::Value) -> Shown {
    match value {
        muster_tree::Value::Array(_) | muster_tree::Value::Object(_) => Shown::Bare(go::value(value)),
        value => Shown::from(value),
    }
}
