//! The OpenAPI documents: what the types are and which requests there are.
//!
//! Documents are made from the table when they are asked for and not kept: clients keep them by their
//! hash, and a server that nobody asks does not pay for the prose. kubectl checks fields, prints `explain`
//! and computes patches by them, so the extensions are the reference's: group, version and kind, merge
//! keys and strategies, list types, actions. (Contract: API-04.)

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use muster_tree::{Map, Value, json};

use super::table::{Field, Kind, Shape, Table, Topology, Type, TypeId};
use crate::model::Resource;

pub mod custom;
mod operations;
mod two;

pub use custom::CustomSchema;
use operations::Operations;

/// The type of what tells how a request went.
pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// Written by `tools/schema`: a line for each type and field.
const PROSE: &[u8] = include_bytes!("descriptions.deflate");

/// `/openapi/v3`: where the document of each group version is.
#[must_use]
pub fn index(resources: &[&Resource]) -> Value {
    let mut paths = Map::new();
    for (group, version) in group_versions(resources) {
        let path = path_of(group, version);
        let hash = hash(group, version, resources);
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

/// What changes when a group version's document does, for `?hash=` and the `ETag`: uppercase hexadecimal.
#[must_use]
pub fn hash(group: &str, version: &str, resources: &[&Resource]) -> String {
    // FNV-1a over everything that a document is made of.
    let mut state: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let mut mix = |bytes: &[u8]| {
        for byte in bytes {
            state = (state ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    };
    // The compressed prose stands for the types: it is written together with them.
    mix(&PROSE[PROSE.len().saturating_sub(4096)..]);
    mix(env!("CARGO_PKG_VERSION").as_bytes());
    for resource in resources.iter().filter(|r| (&*r.group, &*r.version) == (group, version)) {
        let Resource { group, version, plural, subresources, stamp, .. } = resource;
        mix(format!("{group}/{version}/{plural}/{subresources:?}/{stamp}\n").as_bytes());
    }
    format!("{state:032X}")
}

/// The document at a path of the index, such as `api/v1` or `apis/apps/v1`. `None` where nothing is
/// served there.
#[must_use]
pub fn document(path: &str, resources: &[&Resource], customs: &[CustomSchema]) -> Option<Value> {
    let (group, version) = group_versions(resources).into_iter().find(|(g, v)| path_of(g, v) == path)?;
    let served: Vec<&Resource> =
        resources.iter().copied().filter(|r| (&*r.group, &*r.version) == (group, version)).collect();
    let mut schemas = Schemas::new("#/components/schemas/", true);
    customs.iter().for_each(|custom| schemas.add_custom(custom));
    // Groups of custom kinds are described by another server, as it were.
    let is_custom = customs.iter().any(|custom| (&*custom.group, &*custom.version) == (group, version));
    let paths = paths((group, version), &served, &mut schemas, is_custom);
    let info = match is_custom {
        true => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
        false => json!({"title": "Kubernetes", "version": "1.36"}),
    };
    Some(json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {
            "schemas": schemas.finish(&[(group, version)]),
            "securitySchemes": { "BearerToken": bearer_token() },
        },
    }))
}

/// The requests of a group version.
fn paths((group, version): (&str, &str), served: &[&Resource], schemas: &mut Schemas, is_custom: bool) -> Map {
    let mut paths = Map::new();
    let root = format!("/{}/", path_of(group, version));
    if !is_custom {
        let discovery = json!({
            "get": {
                "description": "get available resources",
                "operationId": format!("get{}APIResources", title(group, version)),
                "responses": schemas.responses(&[200], "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", false),
                "tags": [tag(group, version)],
            }
        });
        paths.insert(root.clone(), discovery);
    }
    for resource in served {
        Operations { resource, root: &root, schemas: &mut *schemas, paths: &mut paths }.write();
    }
    paths
}

fn bearer_token() -> Value {
    json!({
        "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
    })
}

/// `/openapi/v2`: every type and request in the older notation, for clients that do not know version 3.
#[must_use]
pub fn document_v2(resources: &[&Resource], customs: &[CustomSchema]) -> Value {
    let mut schemas = Schemas::new("#/definitions/", false);
    customs.iter().for_each(|custom| schemas.add_custom(custom));
    let versions = group_versions(resources);
    let mut all = Map::new();
    for of in &versions {
        let served: Vec<&Resource> = resources.iter().copied().filter(|r| (&*r.group, &*r.version) == *of).collect();
        let is_custom = customs.iter().any(|custom| (&*custom.group, &*custom.version) == *of);
        all.extend(two::paths(&paths(*of, &served, &mut schemas, is_custom)));
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": all,
        "definitions": schemas.finish(&versions),
        "security": [{"BearerToken": []}],
        "securityDefinitions": {"BearerToken": bearer_token()},
    })
}

fn group_versions<'a>(resources: &[&'a Resource]) -> Vec<(&'a str, &'a str)> {
    let all: BTreeSet<(&str, &str)> = resources.iter().map(|r| (&*r.group, &*r.version)).collect();
    all.into_iter().collect()
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `AppsV1`, `CoreV1`: what operation identifiers begin with after the verb.
fn title(group: &str, version: &str) -> String {
    words(group).map(capital).collect::<String>() + &capital(version)
}

/// `apps_v1`, `rbacAuthorization_v1`
fn tag(group: &str, version: &str) -> String {
    let mut words = words(group);
    let first = words.next().unwrap_or_default();
    format!("{first}{}_{version}", words.map(capital).collect::<String>())
}

/// The words of a group's name; that it is Kubernetes' own is not said.
fn words(group: &str) -> impl Iterator<Item = &str> {
    let group = if group.is_empty() { "core" } else { group };
    group.strip_suffix(".k8s.io").unwrap_or(group).split(['.', '-'])
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// The schemas that a document has referred to so far.
struct Schemas {
    /// What references begin with.
    prefix: &'static str,
    /// Whether in the notation of version 3.
    three: bool,
    wanted: BTreeMap<&'static str, TypeId>,
    queue: Vec<TypeId>,
    prose: Vec<String>,
    /// The schemas of kinds that the table does not have, by their names.
    custom: BTreeMap<String, Value>,
}

impl Schemas {
    fn new(prefix: &'static str, three: bool) -> Self {
        let mut text = String::new();
        // The prose is part of the program; without it a document would still be a document.
        let read = flate2::read::DeflateDecoder::new(PROSE).read_to_string(&mut text);
        let prose = if read.is_ok() { text.lines().map(|l| l.replace('\u{1}', "\n")).collect() } else { Vec::new() };
        Self { prefix, three, wanted: BTreeMap::new(), queue: Vec::new(), prose, custom: BTreeMap::new() }
    }

    /// A reference to a type, which the document then has to have.
    fn reference(&mut self, id: TypeId) -> Value {
        let name = Table::get().ty(id).name;
        if self.wanted.insert(name, id).is_none() {
            self.queue.push(id);
        }
        json!({ "$ref": format!("{}{name}", self.prefix) })
    }

    /// A reference stands alone in version 3; what is said beside it goes beside an `allOf`.
    fn wrap(&self, schema: &mut Map) {
        if self.three
            && let Some(reference) = schema.remove("$ref")
        {
            schema.insert("allOf", json!([{ "$ref": reference }]));
        }
    }

    fn named(&mut self, name: &str) -> Value {
        if self.custom.contains_key(name) {
            return json!({ "$ref": format!("{}{name}", self.prefix) });
        }
        match Table::get().named(name) {
            Some(id) => self.reference(id),
            None => json!({ "type": "object" }),
        }
    }

    /// Answers with a type as their body.
    fn responses(&mut self, codes: &[u16], name: &str, streams: bool) -> Value {
        let mut content = Map::new();
        // Custom objects have no protobuf.
        let protobuf = (!self.custom.contains_key(name)).then_some("application/vnd.kubernetes.protobuf");
        for media in ["application/json", "application/yaml"].into_iter().chain(protobuf) {
            content.insert(media.to_owned(), json!({ "schema": self.named(name) }));
        }
        if streams {
            for media in ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"] {
                content.insert(media.to_owned(), json!({ "schema": self.named(name) }));
            }
        }
        let mut out = Map::new();
        for code in codes {
            let words = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            out.insert(code.to_string(), json!({ "description": words, "content": content }));
        }
        out.insert("401", json!({ "description": "Unauthorized" }));
        Value::Object(out)
    }

    /// Every schema that was referred to, and what those refer to.
    fn finish(mut self, served: &[(&str, &str)]) -> Value {
        let mut out: Map = std::mem::take(&mut self.custom).into_iter().collect();
        while let Some(id) = self.queue.pop() {
            let ty = Table::get().ty(id);
            let schema = self.schema(ty, served);
            out.insert(ty.name.to_owned(), schema);
        }
        Value::Object(out)
    }

    fn describe(&self, line: usize, out: &mut Map) {
        if let Some(text) = self.prose.get(line).filter(|t| !t.is_empty()) {
            out.insert("description", Value::String(text.clone().into()));
        }
    }

    fn schema(&mut self, ty: &Type, served: &[(&str, &str)]) -> Value {
        let mut out = Map::new();
        self.describe(ty.prose, &mut out);
        let simple = match ty.go {
            "Quantity" if self.three => Some(json!({ "oneOf": [{"type": "string"}, {"type": "number"}] })),
            "IntOrString" if self.three => {
                Some(json!({ "format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}] }))
            }
            "Quantity" => Some(json!({ "type": "string" })),
            "IntOrString" => Some(json!({ "type": "string", "format": "int-or-string" })),
            "Time" | "MicroTime" if ty.fields.is_empty() => Some(json!({ "type": "string", "format": "date-time" })),
            _ => None,
        };
        if let Some(Value::Object(simple)) = simple.filter(|_| ty.fields.is_empty()) {
            out.extend(simple);
            return Value::Object(out);
        }
        if ty.markers == "either" || (ty.go == "JSON" && ty.fields.is_empty()) {
            // Any value, as far as OpenAPI can say.
            return Value::Object(out);
        }
        out.insert("type", json!("object"));
        let mut properties = Map::new();
        for (at, field) in ty.fields.iter().enumerate() {
            properties.insert(field.json.to_owned(), self.property(field, ty.prose + 1 + at));
        }
        if !properties.is_empty() {
            out.insert("properties", Value::Object(properties));
        }
        let required: Vec<&str> = ty.fields.iter().filter(|f| f.required).map(|f| f.json).collect();
        if !required.is_empty() {
            out.insert("required", json!(required));
        }
        if ty.atomic {
            out.insert("x-kubernetes-map-type", json!("atomic"));
        }
        union(ty, &mut out);
        let kinds = kinds_of(ty, served);
        if !kinds.is_empty() {
            out.insert("x-kubernetes-group-version-kind", Value::Array(kinds.into()));
        }
        Value::Object(out)
    }

    fn property(&mut self, field: &Field, line: usize) -> Value {
        let mut out = self.shape(&field.shape);
        self.wrap(&mut out);
        self.describe(line, &mut out);
        enumerate(field, &mut out);
        if self.three
            && let Some(default) = default(field)
        {
            out.insert("default", default);
        }
        if !field.patch_strategy.is_empty() {
            out.insert("x-kubernetes-patch-strategy", json!(field.patch_strategy));
        }
        if !field.merge_key.is_empty() {
            out.insert("x-kubernetes-patch-merge-key", json!(field.merge_key));
        }
        let list = matches!(field.shape.kind, Kind::List(_) | Kind::Bytes);
        let (name, value) = match field.topology {
            Topology::Set => ("x-kubernetes-list-type", "set"),
            Topology::Keyed => ("x-kubernetes-list-type", "map"),
            Topology::Atomic if list => ("x-kubernetes-list-type", "atomic"),
            Topology::Atomic => ("x-kubernetes-map-type", "atomic"),
            Topology::Granular => ("x-kubernetes-map-type", "granular"),
            Topology::Default => ("", ""),
        };
        if !name.is_empty() {
            out.insert(name.to_owned(), json!(value));
        }
        if !field.list_keys.is_empty() {
            out.insert("x-kubernetes-list-map-keys", json!(field.list_keys));
        }
        match out.get_mut("allOf").map(|all| all[0].take()) {
            // Nothing is said beside it.
            Some(reference) if out.len() == 1 => reference,
            Some(reference) => {
                out.insert("allOf", json!([reference]));
                Value::Object(out)
            }
            None => Value::Object(out),
        }
    }

    fn shape(&mut self, shape: &Shape) -> Map {
        let special = |go: &str| match go {
            "Quantity" => "io.k8s.apimachinery.pkg.api.resource.Quantity",
            "IntOrString" => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            "Time" => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            "MicroTime" => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
            "Fields" => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
            "Json" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
            _ => "io.k8s.apimachinery.pkg.runtime.RawExtension",
        };
        let value = match &shape.kind {
            Kind::String => json!({ "type": "string" }),
            Kind::Int32 => json!({ "type": "integer", "format": "int32" }),
            Kind::Int64 => json!({ "type": "integer", "format": "int64" }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Float => json!({ "type": "number", "format": "double" }),
            Kind::Bytes => json!({ "type": "string", "format": "byte" }),
            Kind::Quantity => self.named(special("Quantity")),
            Kind::IntOrString => self.named(special("IntOrString")),
            Kind::Time => self.named(special("Time")),
            Kind::MicroTime => self.named(special("MicroTime")),
            Kind::Fields => self.named(special("Fields")),
            Kind::Raw => self.named(special("Raw")),
            Kind::Json => self.named(special("Json")),
            Kind::Struct(id) | Kind::Either(id) => self.reference(*id),
            Kind::List(inner) => json!({ "type": "array", "items": self.shape(inner) }),
            Kind::Map(inner) => json!({ "type": "object", "additionalProperties": self.shape(inner) }),
        };
        match value {
            Value::Object(out) => out,
            _ => Map::new(),
        }
    }
}

/// The default of a property: its marker, or the empty value that Go always writes.
fn default(field: &Field) -> Option<Value> {
    let marker = field.markers.split(';').find_map(|m| m.strip_prefix("default="));
    if let Some(value) = marker.and_then(|m| serde_json::from_str(m).ok()) {
        return Some(value);
    }
    if field.pointer {
        return None;
    }
    match &field.shape.kind {
        Kind::Struct(_) => Some(json!({})),
        Kind::String if !field.omitted => Some(json!("")),
        Kind::Int32 | Kind::Int64 if !field.omitted => Some(json!(0)),
        Kind::Bool if !field.omitted => Some(json!(false)),
        _ => None,
    }
}

/// The values of an enumeration, or of a list or a map of such; the description says what they mean.
fn enumerate(field: &Field, out: &mut Map) {
    let Some(values) = field.markers.split(';').find_map(|m| m.strip_prefix("enum=")) else { return };
    let values: Vec<&str> = values.split(',').collect();
    let within = ["items", "additionalProperties"].into_iter().find(|name| out.get(name).is_some_and(Value::is_object));
    match within.and_then(|name| out.get_mut(name)) {
        Some(Value::Object(below)) => below.insert("enum", json!(values)),
        _ => out.insert("enum", json!(values)),
    };
}

/// `x-kubernetes-unions`, where the type is one and says which field decides.
fn union(ty: &Type, out: &mut Map) {
    if !ty.markers.split(';').any(|m| m == "union") {
        return;
    }
    let deciding = |f: &&Field| f.markers.split(';').any(|m| m.starts_with("unionDiscriminator"));
    if let Some(discriminator) = ty.fields.iter().find(deciding) {
        let members: Map = ty
            .fields
            .iter()
            .filter(|f| f.json != discriminator.json)
            .map(|f| (f.json.to_owned(), json!(f.go)))
            .collect();
        let union = json!([{ "discriminator": discriminator.json, "fields-to-discriminateBy": members }]);
        out.insert("x-kubernetes-unions", union);
    }
}

/// The kinds that a type is: options and watch events are kinds of every group version.
fn kinds_of(ty: &Type, served: &[(&str, &str)]) -> Vec<Value> {
    let gvk = |group: &str, version: &str, kind: &str| json!({ "group": group, "kind": kind, "version": version });
    match (ty.gvk, ty.go) {
        (_, "DeleteOptions" | "WatchEvent") => {
            let mut all: BTreeSet<(&str, &str)> = served.iter().copied().collect();
            all.insert(("", "v1"));
            all.into_iter().map(|(group, version)| gvk(group, version, ty.go)).collect()
        }
        (Some((group, version, kind)), _) => vec![gvk(group, version, kind)],
        (None, "APIResourceList" | "APIGroup" | "APIGroupList" | "APIVersions") => vec![gvk("", "v1", ty.go)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
