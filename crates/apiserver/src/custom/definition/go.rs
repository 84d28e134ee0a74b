//! Parts of a definition as Go prints its internal types, where a message shows them.

use muster_tree::{Value, json};

use super::{PrinterColumn, Subresources, Version};
use crate::custom::props::{Items, Props, PropsOrBool, PropsOrNames, Rule, number_of};

/// JSON as Go's encoder writes it: some characters are escaped. The order of keys is the caller's.
#[derive(Debug)]
pub(super) struct Json(String);

impl Json {
    pub(super) fn text(&self) -> String {
        self.0.clone()
    }
}

/// A JSON value as Go writes it.
pub(super) fn value(value: &Value) -> String {
    escaped(&value.to_string())
}

fn escaped(text: &str) -> String {
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn object(fields: Vec<(&str, String)>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return "null".to_owned();
    }
    format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(","))
}

fn string(text: &str) -> String {
    escaped(&Value::from(text).to_string())
}

fn or_null<T>(item: Option<T>, show: impl Fn(T) -> String) -> String {
    item.map_or_else(|| "null".to_owned(), show)
}

/// The versions of a definition.
pub(super) fn versions(versions: &[Version]) -> Json {
    if versions.is_empty() {
        return Json("[]".to_owned());
    }
    Json(list(versions, version))
}

fn version(version: &Version) -> String {
    object(vec![
        ("Name", string(&version.name)),
        ("Served", version.served.to_string()),
        ("Storage", version.storage.to_string()),
        ("Deprecated", version.deprecated.to_string()),
        ("DeprecationWarning", or_null(version.deprecation_warning.as_deref(), string)),
        (
            "Schema",
            or_null(version.schema.as_ref(), |schema| {
                object(vec![("OpenAPIV3Schema", or_null(schema.schema.as_ref(), props))])
            }),
        ),
        ("Subresources", or_null(version.subresources.as_ref(), subresources)),
        ("AdditionalPrinterColumns", list(&version.additional_printer_columns, column)),
        (
            "SelectableFields",
            list(&version.selectable_fields, |field| object(vec![("JSONPath", string(&field.json_path))])),
        ),
    ])
}

fn subresources(subresources: &Subresources) -> String {
    object(vec![
        ("Status", or_null(subresources.status.as_ref(), |_| "{}".to_owned())),
        (
            "Scale",
            or_null(subresources.scale.as_ref(), |scale| {
                object(vec![
                    ("SpecReplicasPath", string(&scale.spec_replicas_path)),
                    ("StatusReplicasPath", string(&scale.status_replicas_path)),
                    ("LabelSelectorPath", or_null(scale.label_selector_path.as_deref(), string)),
                ])
            }),
        ),
    ])
}

fn column(column: &PrinterColumn) -> String {
    object(vec![
        ("Name", string(&column.name)),
        ("Type", string(&column.kind)),
        ("Format", string(&column.format)),
        ("Description", string(&column.description)),
        ("Priority", column.priority.to_string()),
        ("JSONPath", string(&column.json_path)),
    ])
}

/// A rule.
pub(super) fn rule(rule: &Rule) -> Json {
    Json(rule_text(rule))
}

fn rule_text(rule: &Rule) -> String {
    object(vec![
        ("Rule", string(&rule.rule)),
        ("Message", string(&rule.message)),
        ("MessageExpression", string(&rule.message_expression)),
        ("Reason", or_null(rule.reason.as_deref(), string)),
        ("FieldPath", string(&rule.field_path)),
        ("OptionalOldSelf", or_null(rule.optional_old_self, |flag| flag.to_string())),
    ])
}

/// A schema.
pub(super) fn schema(schema: &Props) -> Json {
    Json(props(schema))
}

fn props(p: &Props) -> String {
    let float = |number: Option<f64>| or_null(number, |n| number_of(n).to_string());
    let int = |number: Option<i64>| or_null(number, |n| n.to_string());
    let many = |items: &[Props]| list(items, props);
    let map = |items: &std::collections::BTreeMap<String, Props>| {
        if items.is_empty() {
            return "null".to_owned();
        }
        let pairs: Vec<String> = items.iter().map(|(name, p)| format!("{}:{}", string(name), props(p))).collect();
        format!("{{{}}}", pairs.join(","))
    };
    let or_bool = |item: Option<&PropsOrBool>| {
        or_null(item, |item| match item {
            PropsOrBool::Bool(allows) => object(vec![("Allows", allows.to_string()), ("Schema", "null".to_owned())]),
            PropsOrBool::Props(p) => object(vec![("Allows", "true".to_owned()), ("Schema", props(p))]),
        })
    };
    object(vec![
        ("ID", string(&p.id)),
        ("Schema", string(&p.schema)),
        ("Ref", or_null(p.reference.as_deref(), string)),
        ("Description", string(&p.description)),
        ("Type", string(&p.kind)),
        ("Nullable", p.nullable.to_string()),
        ("Format", string(&p.format)),
        ("Title", string(&p.title)),
        ("Default", or_null(p.default.as_ref(), value)),
        ("Maximum", float(p.maximum)),
        ("ExclusiveMaximum", p.exclusive_maximum.to_string()),
        ("Minimum", float(p.minimum)),
        ("ExclusiveMinimum", p.exclusive_minimum.to_string()),
        ("MaxLength", int(p.max_length)),
        ("MinLength", int(p.min_length)),
        ("Pattern", string(&p.pattern)),
        ("MaxItems", int(p.max_items)),
        ("MinItems", int(p.min_items)),
        ("UniqueItems", p.unique_items.to_string()),
        ("MultipleOf", float(p.multiple_of)),
        ("Enum", list(&p.values, value)),
        ("MaxProperties", int(p.max_properties)),
        ("MinProperties", int(p.min_properties)),
        ("Required", list(&p.required, |name| string(name))),
        (
            "Items",
            or_null(p.items.as_ref(), |items| match items {
                Items::One(one) => object(vec![("Schema", props(one)), ("JSONSchemas", "null".to_owned())]),
                Items::Each(each) => object(vec![("Schema", "null".to_owned()), ("JSONSchemas", many(each))]),
            }),
        ),
        ("AllOf", many(&p.all_of)),
        ("OneOf", many(&p.one_of)),
        ("AnyOf", many(&p.any_of)),
        ("Not", or_null(p.not.as_deref(), props)),
        ("Properties", map(&p.properties)),
        ("AdditionalProperties", or_bool(p.additional_properties.as_ref())),
        ("PatternProperties", map(&p.pattern_properties)),
        (
            "Dependencies",
            or_null(p.dependencies.as_ref(), |all| {
                let pairs: Vec<String> = all
                    .iter()
                    .map(|(name, dependency)| {
                        let (schema, names) = match dependency {
                            PropsOrNames::Props(p) => (props(p), "null".to_owned()),
                            PropsOrNames::Names(names) => ("null".to_owned(), json!(names).to_string()),
                        };
                        format!("{}:{}", string(name), object(vec![("Schema", schema), ("Property", names)]))
                    })
                    .collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ),
        ("AdditionalItems", or_bool(p.additional_items.as_ref())),
        ("Definitions", map(&p.definitions)),
        (
            "ExternalDocs",
            or_null(p.external_docs.as_ref(), |docs| {
                object(vec![("Description", string(&docs.description)), ("URL", string(&docs.url))])
            }),
        ),
        ("Example", or_null(p.example.as_ref(), value)),
        ("XPreserveUnknownFields", or_null(p.preserve_unknown_fields, |flag| flag.to_string())),
        ("XEmbeddedResource", p.embedded_resource.to_string()),
        ("XIntOrString", p.int_or_string.to_string()),
        ("XListMapKeys", list(&p.list_map_keys, |name| string(name))),
        ("XListType", or_null(p.list_type.as_deref(), string)),
        ("XMapType", or_null(p.map_type.as_deref(), string)),
        ("XValidations", list(&p.validations, rule_text)),
    ])
}
