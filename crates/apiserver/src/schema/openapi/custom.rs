//! The schemas of kinds that came with CustomResourceDefinitions, as the documents have them.

use muster_tree::{Map, Value, json};

use super::STATUS;
use super::Schemas;
use crate::schema::table::Table;

/// A kind in one of its versions, with the schema that its definition has.
#[derive(Debug, Clone)]
pub struct CustomSchema {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// The name in URLs.
    pub plural: String,
    /// The schema, as it is written.
    pub schema: Value,
    /// The fields that lists can be selected by.
    pub selectable: Vec<String>,
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const METADATA_DOC: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA_DOC: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const INNER_VERSION_DOC: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const INNER_KIND_DOC: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// The name of a kind's schema: the group backwards, the version and the kind.
#[must_use]
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let parts: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", parts.join("."))
}

impl Schemas {
    /// Adds a kind and its list to what documents may refer to.
    pub(super) fn add_custom(&mut self, custom: &CustomSchema) {
        let CustomSchema { group, version, kind, list_kind, .. } = custom;
        let gvk = |kind: &str| json!([{"group": group, "version": version, "kind": kind}]);
        let mut own = self.object(custom);
        own.insert("x-kubernetes-group-version-kind", gvk(kind));
        let mut list = self.list(custom);
        list.insert("x-kubernetes-group-version-kind", gvk(list_kind));
        if !custom.selectable.is_empty() {
            let fields: Vec<Value> =
                custom.selectable.iter().map(|path| json!({"fieldPath": path.trim_start_matches('.')})).collect();
            for schema in [&mut own, &mut list] {
                schema.insert("x-kubernetes-selectable-fields", Value::from(fields.clone()));
            }
        }
        self.custom.insert(model_name(group, version, kind), Value::Object(own));
        self.custom.insert(model_name(group, version, list_kind), Value::Object(list));
    }

    fn object(&mut self, custom: &CustomSchema) -> Map {
        let anything = || Map::from_iter([("type".to_owned(), json!("object"))]);
        let Value::Object(mut schema) = custom.schema.clone() else { return anything() };
        let preserves = schema.get(PRESERVE) == Some(&Value::Bool(true));
        if preserves && !self.three {
            return anything();
        }
        self.publish(&mut schema);
        let embedded = schema.remove(EMBEDDED).is_some();
        if let Value::Object(properties) = schema.entry("properties").or_insert_with(|| json!({})) {
            for name in ["apiVersion", "kind"] {
                properties.insert(name.to_owned(), self.type_meta(name));
            }
            properties.insert("metadata", self.described(OBJECT_META, METADATA_DOC));
        }
        if embedded {
            schema.insert(EMBEDDED.to_owned(), Value::Bool(true));
        }
        schema
    }

    fn list(&mut self, custom: &CustomSchema) -> Map {
        let CustomSchema { group, version, kind, list_kind, plural, .. } = custom;
        let item = json!({"$ref": format!("{}{}", self.prefix, model_name(group, version, kind))});
        let doc = format!(
            "List of {plural}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
        );
        let properties = json!({
            "apiVersion": self.type_meta("apiVersion"),
            "kind": self.type_meta("kind"),
            "metadata": self.described(LIST_META, LIST_METADATA_DOC),
            "items": {"type": "array", "description": doc, "items": item},
        });
        let list = json!({
            "type": "object",
            "description": format!("{list_kind} is a list of {kind}"),
            "required": ["items"],
            "properties": properties,
        });
        match list {
            Value::Object(list) => list,
            _ => Map::new(),
        }
    }

    /// `apiVersion` or `kind`, as every kind has them.
    fn type_meta(&self, name: &str) -> Value {
        let mut out = Map::from_iter([("type".to_owned(), json!("string"))]);
        if let Some(ty) = Table::get().named(STATUS).map(|id| Table::get().ty(id))
            && let Some(at) = ty.index(name)
        {
            self.describe(ty.prose + 1 + at, &mut out);
        }
        Value::Object(out)
    }

    fn described(&mut self, name: &str, doc: &str) -> Value {
        let mut out = self.named(name);
        if let Value::Object(schema) = &mut out {
            self.wrap(schema);
            schema.insert("description", json!(doc));
        }
        out
    }

    /// Makes what a definition says of a value what a document says of it.
    fn publish(&mut self, schema: &mut Map) {
        for unsaid in ["id", "$schema"] {
            schema.remove(unsaid);
        }
        if !self.three {
            simplify(schema);
        }
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for below in properties.values_mut().filter_map(Value::as_object_mut) {
                self.publish(below);
            }
        }
        for name in ["items", "additionalProperties"] {
            if let Some(Value::Object(below)) = schema.get_mut(name) {
                self.publish(below);
            }
        }
        let is = |schema: &Map, what: &str| schema.get(what) == Some(&Value::Bool(true));
        if self.three && is(schema, "x-kubernetes-int-or-string") {
            unfold(schema);
        }
        if is(schema, EMBEDDED) && (self.three || !is(schema, PRESERVE)) {
            self.embed(schema);
        }
    }

    /// A whole object says what it is.
    fn embed(&mut self, schema: &mut Map) {
        let metadata = self.described(OBJECT_META, METADATA_DOC);
        if let Value::Object(properties) = schema.entry("properties").or_insert_with(|| json!({})) {
            properties.insert("apiVersion", json!({"type": "string", "description": INNER_VERSION_DOC}));
            properties.insert("kind", json!({"type": "string", "description": INNER_KIND_DOC}));
            properties.insert("metadata", metadata);
        }
        if let Value::Array(required) = schema.entry("required").or_insert_with(|| json!([])) {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|known| known == name) {
                    required.push(json!(name));
                }
            }
        }
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// An integer or a string is one of the two.
fn unfold(schema: &mut Map) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"));
    if schema.get("anyOf") == Some(&either) || first == Some(&either) {
        return;
    }
    match schema.contains_key("anyOf") {
        false => {
            schema.insert("anyOf", either);
        }
        true => {
            if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
                all.insert(0, json!({"anyOf": either}));
            }
        }
    }
}

/// What version 2 cannot say goes, and what older clients stumble over.
fn simplify(schema: &mut Map) {
    for unsaid in ["allOf", "oneOf", "anyOf", "not"] {
        schema.remove(unsaid);
    }
    let is = |schema: &Map, what: &str| schema.get(what) == Some(&Value::Bool(true));
    let nullable: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, below)| below["nullable"] == true)
        .map(|(name, _)| name.to_string())
        .collect();
    if schema.get("additionalProperties").is_some_and(|below| below["nullable"] == true) {
        schema.remove("required");
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|n| name == n));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    let nothing = is(schema, "nullable");
    let preserves = is(schema, PRESERVE);
    schema.remove("nullable");
    if nothing || preserves {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if nothing || (kind == "array" && !schema.contains_key("items")) || (preserves && kind == "object") {
        schema.remove("type");
    }
}
