//! The validation of a definition's schema: what a schema may say, and whether its rules compile and may be afforded.

use std::collections::BTreeSet;

use super::{defaults, go, structure};
use crate::custom::metadata::child;
use crate::custom::props::{Items, Props, PropsOrBool, PropsOrNames};
use crate::custom::structural::Structural;
use crate::field::{FieldError, Shown};
use crate::validation::Errors;

mod rules;

use rules::over_budget;

/// The most that one rule may cost at worst.
const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of a schema may cost at worst.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// What is asked of a definition.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) require_schema: bool,
    pub(super) require_types: bool,
    pub(super) require_structural: bool,
    pub(super) require_pruned_defaults: bool,
    pub(super) require_atomic_sets: bool,
    pub(super) require_map_keys: bool,
    pub(super) require_review_version: bool,
    pub(super) allow_invalid_bundle: bool,
    /// The versions that may have more selectable fields than are allowed; the empty one for what all share.
    pub(super) many_selectable: BTreeSet<String>,
    /// The versions whose schema has not changed.
    pub(super) unchanged: BTreeSet<String>,
    /// Whether a rule may cost more than is allowed.
    pub(super) ignore_rule_cost: bool,
}

impl Options {
    /// Everything that is asked of a new definition.
    pub(super) fn strict() -> Self {
        Self {
            require_schema: true,
            require_types: true,
            require_structural: true,
            require_pruned_defaults: true,
            require_atomic_sets: true,
            require_map_keys: true,
            require_review_version: true,
            ..Self::default()
        }
    }

    /// What is asked of one version: a schema that has not changed may cost what it did.
    pub(super) fn for_version(&self, version: &str) -> Self {
        Self { ignore_rule_cost: self.unchanged.contains(version), ..self.clone() }
    }
}

/// The types that there are.
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn has_unknown_type(schema: &Props) -> bool {
    !schema.kind.is_empty() && !TYPES.contains(&schema.kind.as_str())
}

/// Whether it is a set of what could be owned in parts.
pub(super) fn has_set_of_parts(schema: &Props) -> bool {
    schema.list_type.as_deref() == Some("set") && schema.item().is_some_and(is_in_parts)
}

fn is_in_parts(item: &Props) -> bool {
    match item.kind.as_str() {
        "array" => item.list_type.as_deref().is_some_and(|list_type| list_type != "atomic"),
        "object" => item.map_type.as_deref() != Some("atomic"),
        _ => false,
    }
}

pub(super) fn has_unpruned_defaults(schema: &Props) -> bool {
    if !schema.any(&mut |p| p.default.is_some()) || !structure::validate(schema, "").is_empty() {
        return false;
    }
    let mut pruned = schema.clone();
    crate::custom::default::prune_defaults(&mut pruned);
    pruned != *schema
}

/// Everything that is wrong with a schema.
pub(super) fn validate(schema: &Props, has_status: bool, options: &Options, path: &str, errors: &mut Errors) {
    let mut found = Errors::new();
    if has_status {
        at_root_with_status(schema, path, &mut found);
    }
    if schema.nullable {
        found.push(FieldError::forbidden(child(path, "nullable"), "nullable cannot be true at the root"));
    }
    let mut compiled = None;
    let mut unsupported = None;
    if options.require_structural {
        if let Some(why) = structure::unsupported(schema) {
            unsupported = Some(FieldError::invalid(path, "", why));
        } else {
            let mut wrong = structure::validate(schema, path);
            if wrong.is_empty() {
                let structural = Structural::new(schema);
                wrong = defaults::validate(&structural, options.require_pruned_defaults, path);
                compiled = Some(structural);
            }
            if !wrong.is_empty() {
                compiled = None;
            }
            found.extend(wrong);
        }
    }
    let mut walk = Walk { options, schema_errors: Errors::new(), total: Total::default() };
    let context = compiled.as_ref().map(|structural| Context {
        schema: structural,
        root: true,
        ruled: !schema.validations.is_empty(),
        cardinality: Some(1),
    });
    let place = Place { forbid_defaults: None, in_metadata: false, uncorrelated: None };
    let rules = walk.schema(schema, path, &place, true, context);
    found.extend(walk.schema_errors);
    found.extend(rules);
    if found.is_empty() {
        found.extend(unsupported);
    }
    if walk.total.cost > SCHEMA_LIMIT {
        for (field, _) in &walk.total.most {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            found.push(FieldError::forbidden(field.as_str(), why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        found.push(FieldError::forbidden(path, over_budget(what, walk.total.cost, SCHEMA_LIMIT)));
    }
    errors.extend(found);
}

/// With a status of its own, the root may say only what is still right of a part of it.
fn at_root_with_status(schema: &Props, path: &str, errors: &mut Errors) {
    const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
    if schema.kind != "object" && !schema.kind.is_empty() {
        let why =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(child(path, "type"), schema.kind.as_str(), why));
        return;
    }
    let others = Props {
        id: schema.id.clone(),
        schema: schema.schema.clone(),
        reference: schema.reference.clone(),
        default: schema.default.clone(),
        values: schema.values.clone(),
        max_properties: schema.max_properties,
        min_properties: schema.min_properties,
        all_of: schema.all_of.clone(),
        one_of: schema.one_of.clone(),
        any_of: schema.any_of.clone(),
        not: schema.not.clone(),
        additional_properties: schema.additional_properties.clone(),
        pattern_properties: schema.pattern_properties.clone(),
        dependencies: schema.dependencies.clone(),
        additional_items: schema.additional_items.clone(),
        definitions: schema.definitions.clone(),
        nullable: schema.nullable,
        embedded_resource: schema.embedded_resource,
        int_or_string: schema.int_or_string,
        list_map_keys: schema.list_map_keys.clone(),
        list_type: schema.list_type.clone(),
        map_type: schema.map_type.clone(),
        ..Props::default()
    };
    if others != Props::default() {
        let why =
            format!("only {ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled");
        errors.push(FieldError::invalid(path, Shown::Bare(go::schema(schema).text()), why));
    }
}

/// Where a schema stands in the whole.
#[derive(Clone)]
struct Place {
    /// Why there may be no defaults here.
    forbid_defaults: Option<String>,
    /// Whether it is part of the metadata of a whole object.
    in_metadata: bool,
    /// The first schema around whose values cannot be found again in the old object.
    uncorrelated: Option<String>,
}

impl Place {
    fn uncorrelated(&self, path: &str) -> Self {
        Self { uncorrelated: self.uncorrelated.clone().or_else(|| Some(path.to_owned())), ..self.clone() }
    }
}

/// What rules of a schema can be compiled with.
#[derive(Clone, Copy)]
struct Context<'s> {
    schema: &'s Structural,
    /// Whether it is the whole object.
    root: bool,
    /// Whether it or one around has rules.
    ruled: bool,
    /// How many values of it there may be; `None` for any number.
    cardinality: Option<u64>,
}

impl<'s> Context<'s> {
    fn below(&self, schema: Option<&'s Structural>, props: &Props, around: &Props) -> Option<Self> {
        let most = match around.kind.as_str() {
            "object" if around.additional_properties.is_some() => around.max_properties.map(positive),
            "array" => around.max_items.map(positive),
            _ => Some(1),
        };
        Some(Self {
            schema: schema?,
            root: false,
            ruled: self.ruled || !props.validations.is_empty(),
            cardinality: self.cardinality.zip(most).map(|(own, most)| own.saturating_mul(most)),
        })
    }
}

fn positive(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// What all rules cost, and which cost the most.
#[derive(Default)]
struct Total {
    cost: u64,
    most: Vec<(String, u64)>,
}

impl Total {
    fn add(&mut self, path: String, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.most.push((path, cost));
            self.most.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most.truncate(4);
        }
    }
}

struct Walk<'o> {
    options: &'o Options,
    /// What is wrong with what the schemas say; in the order of the walk.
    schema_errors: Errors,
    total: Total,
}

impl Walk<'_> {
    /// Checks a schema; answers what is wrong with its rules.
    fn schema(
        &mut self,
        schema: &Props,
        path: &str,
        place: &Place,
        root: bool,
        context: Option<Context<'_>>,
    ) -> Errors {
        let before = self.schema_errors.len();
        let mut rules = Errors::new();
        let at = |name: &str| child(path, name);
        self.own(schema, path, place);
        if schema.unique_items {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.schema_errors.push(FieldError::forbidden(at("uniqueItems"), why));
        }
        if let Some(additional) = &schema.additional_properties {
            if !schema.properties.is_empty() && *additional != PropsOrBool::Bool(true) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.schema_errors.push(FieldError::forbidden(at("additionalProperties"), why));
            }
            if let PropsOrBool::Props(below) = additional {
                let mut place = place.clone();
                if place.in_metadata {
                    place.forbid_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
                }
                let context = context.and_then(|c| c.below(c.schema.additional(), below, schema));
                rules.extend(self.schema(below, &at("additionalProperties"), &place, false, context));
            }
        }
        for (name, below) in &schema.properties {
            let mut place = match schema.map_type.as_deref() {
                None | Some("granular" | "atomic") => place.clone(),
                Some(_) => place.uncorrelated(path),
            };
            if (root || schema.embedded_resource) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                place.in_metadata = true;
                if root {
                    place.forbid_defaults = Some(format!("in top-level {name}"));
                }
            }
            let context = context.and_then(|c| c.below(c.schema.property(name), below, schema));
            rules.extend(self.schema(below, &format!("{path}.properties[{name}]"), &place, false, context));
        }
        if let Some(not) = &schema.not {
            rules.extend(self.schema(not, &at("not"), place, false, None));
        }
        for (name, list) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)] {
            for (index, below) in list.iter().enumerate() {
                rules.extend(self.schema(below, &format!("{path}.{name}[{index}]"), place, false, None));
            }
        }
        for (name, below) in &schema.definitions {
            rules.extend(self.schema(below, &format!("{path}.definitions[{name}]"), place, false, None));
        }
        if let Some(items) = &schema.items {
            let place =
                if schema.list_type.as_deref() == Some("map") { place.clone() } else { place.uncorrelated(path) };
            match items {
                Items::One(below) => {
                    let context = context.and_then(|c| c.below(c.schema.items.as_deref(), below, schema));
                    rules.extend(self.schema(below, &at("items"), &place, false, context));
                }
                Items::Each(each) => {
                    for (index, below) in each.iter().enumerate() {
                        rules.extend(self.schema(below, &format!("{path}.items[{index}]"), &place, false, None));
                    }
                }
            }
        }
        for (name, dependency) in schema.dependencies.iter().flatten() {
            if let PropsOrNames::Props(below) = dependency {
                rules.extend(self.schema(below, &format!("{path}.dependencies[{name}]"), place, false, None));
            }
        }
        self.kubernetes(schema, path);
        for (index, rule) in schema.validations.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            self.rule(rule, schema, &path);
        }
        // A type that is wrong makes errors of rules that mean nothing.
        if self.schema_errors.len() == before
            && let Some(context) = context.filter(|_| !schema.validations.is_empty())
        {
            rules.extend(self.rules(schema, path, place, context));
        }
        rules
    }

    /// What one schema says itself.
    fn own(&mut self, schema: &Props, path: &str, place: &Place) {
        let at = |name: &str| child(path, name);
        let errors = &mut self.schema_errors;
        if self.options.require_types && has_unknown_type(schema) {
            errors.push(FieldError::not_supported(at("type"), schema.kind.as_str(), TYPES));
        }
        if schema.default.is_some()
            && let Some(why) = &place.forbid_defaults
        {
            errors.push(FieldError::forbidden(at("default"), format!("must not be set {why}")));
        }
        for (found, name, why) in [
            (!schema.id.is_empty(), "id", "id is not supported"),
            (schema.additional_items.is_some(), "additionalItems", "additionalItems is not supported"),
            (!schema.pattern_properties.is_empty(), "patternProperties", "patternProperties is not supported"),
            (!schema.definitions.is_empty(), "definitions", "definitions is not supported"),
            (schema.dependencies.is_some(), "dependencies", "dependencies is not supported"),
            (schema.reference.is_some(), "$ref", "$ref is not supported"),
            (schema.kind == "null", "type", "type cannot be set to null, use nullable as an alternative"),
            (
                matches!(&schema.items, Some(Items::Each(each)) if !each.is_empty()),
                "items",
                "items must be a schema object and not an array",
            ),
            (
                place.in_metadata && schema.embedded_resource,
                "x-kubernetes-embedded-resource",
                "must not be used inside of resource meta",
            ),
        ] {
            if found {
                errors.push(FieldError::forbidden(at(name), why));
            }
        }
    }

    /// What one schema says by Kubernetes' own words.
    fn kubernetes(&mut self, schema: &Props, path: &str) {
        let at = |name: &str| child(path, name);
        let errors = &mut self.schema_errors;
        if schema.preserve_unknown_fields == Some(false) {
            let field = at("x-kubernetes-preserve-unknown-fields");
            errors.push(FieldError::invalid(field, false, "must be true or undefined"));
        }
        let of_type = |wanted: &str, why: &str, errors: &mut Errors| {
            if schema.kind == wanted {
                return true;
            }
            errors.push(if schema.kind.is_empty() {
                FieldError::required(at("type"), why)
            } else {
                FieldError::invalid(at("type"), schema.kind.as_str(), why)
            });
            false
        };
        if let Some(map_type) = schema.map_type.as_deref() {
            of_type("object", "must be object if x-kubernetes-map-type is specified", errors);
            if !matches!(map_type, "atomic" | "granular") {
                let field = at("x-kubernetes-map-type");
                errors.push(FieldError::not_supported(field, map_type, &["atomic", "granular"]));
            }
        }
        if let Some(list_type) = schema.list_type.as_deref() {
            let fits = of_type("array", "must be array if x-kubernetes-list-type is specified", errors);
            if fits && self.options.require_atomic_sets && has_set_of_parts(schema) {
                let item = schema.item();
                let name = if item.is_some_and(|item| item.kind == "array") { "list" } else { "map" };
                let shown = item.and_then(|item| item.list_type.as_deref());
                let shown = shown.map_or(Shown::Bare("null".to_owned()), Shown::from);
                let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                errors.push(FieldError::invalid(format!("{path}.items.x-kubernetes-{name}-type"), shown, why));
            }
            if !matches!(list_type, "atomic" | "set" | "map") {
                let field = at("x-kubernetes-list-type");
                errors.push(FieldError::not_supported(field, list_type, &["atomic", "set", "map"]));
            }
        }
        if !schema.list_map_keys.is_empty() {
            let (field, why) = (at("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
            match schema.list_type.as_deref() {
                None => errors.push(FieldError::required(field, why)),
                Some("map") => {}
                Some(other) => errors.push(FieldError::invalid(field, other, why)),
            }
        }
        if schema.list_type.as_deref() == Some("map") {
            if schema.list_map_keys.is_empty() {
                let why = "must not be empty if x-kubernetes-list-type is map";
                errors.push(FieldError::required(at("x-kubernetes-list-map-keys"), why));
            }
            match &schema.items {
                None => {
                    let why = "must have a schema if x-kubernetes-list-type is map";
                    errors.push(FieldError::required(at("items"), why));
                }
                Some(Items::Each(_)) => {
                    let why = "must only have a single schema if x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid(at("items"), "", why));
                }
                Some(Items::One(item)) if item.kind != "object" => {
                    let why = "must be object if parent array's x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid(at("items.type"), item.kind.as_str(), why));
                }
                Some(Items::One(item)) => {
                    let keys = || Shown::Bare(muster_tree::json!(schema.list_map_keys).to_string());
                    for (index, key) in schema.list_map_keys.iter().enumerate() {
                        match item.properties.get(key) {
                            Some(own) if matches!(own.kind.as_str(), "array" | "object") => {
                                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                                let field = format!("{path}.items.properties[{key}].type");
                                errors.push(FieldError::invalid(field, item.kind.as_str(), why));
                            }
                            Some(_) => {}
                            None => {
                                let why = "entries must all be names of item properties";
                                errors.push(FieldError::invalid(at("x-kubernetes-list-map-keys"), keys(), why));
                            }
                        }
                        if schema.list_map_keys[..index].contains(key) {
                            let why = "must not contain duplicate entries";
                            errors.push(FieldError::invalid(at("x-kubernetes-list-map-keys"), keys(), why));
                        }
                    }
                }
            }
        }
        if self.options.require_map_keys {
            errors.extend(map_keys(schema, path));
        }
    }
}

/// What is wrong with the elements of sets and maps.
pub(super) fn map_keys(schema: &Props, path: &str) -> Errors {
    let mut errors = Errors::new();
    let (Some(item), Some(list_type @ ("set" | "map"))) = (schema.item(), schema.list_type.as_deref()) else {
        return errors;
    };
    if item.nullable {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), why));
    }
    if list_type == "set" {
        return errors;
    }
    for key in &schema.list_map_keys {
        let Some(own) = item.properties.get(key) else { continue };
        let field = format!("{path}.items.properties[{key}]");
        if !item.required.contains(key) && own.default.is_none() {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(child(&field, "default"), why));
        }
        if own.nullable {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(child(&field, "nullable"), why));
        }
    }
    errors
}
