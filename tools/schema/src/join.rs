//! Joins the two crates and the facts into the types that the server knows.

use std::collections::{BTreeMap, VecDeque};

use crate::facts::{self, Fact};
use crate::openapi::Definition;
use crate::protobuf::{self, Message, Shape};

/// The kinds that the server speaks of; everything that they reach comes along.
const ROOTS: &[&str] = &[
    "api.core.v1.Namespace",
    "api.core.v1.Pod",
    "api.core.v1.PodTemplate",
    "api.core.v1.Binding",
    "api.core.v1.ReplicationController",
    "api.core.v1.Node",
    "api.core.v1.Event",
    "api.core.v1.Service",
    "api.core.v1.Endpoints",
    "api.core.v1.ConfigMap",
    "api.core.v1.Secret",
    "api.core.v1.ServiceAccount",
    "api.core.v1.ResourceQuota",
    "api.apps.v1.Deployment",
    "api.apps.v1.ReplicaSet",
    "api.coordination.v1.Lease",
    "api.discovery.v1.EndpointSlice",
    "api.events.v1.Event",
    "api.autoscaling.v1.Scale",
    "api.autoscaling.v1.HorizontalPodAutoscaler",
    "api.autoscaling.v2.HorizontalPodAutoscaler",
    "api.policy.v1.PodDisruptionBudget",
    "api.policy.v1.Eviction",
    "api.authentication.v1.TokenReview",
    "api.authentication.v1.SelfSubjectReview",
    "api.authorization.v1.SelfSubjectAccessReview",
    "api.authorization.v1.SelfSubjectRulesReview",
    "api.authorization.v1.SubjectAccessReview",
    "api.authorization.v1.LocalSubjectAccessReview",
    "api.core.v1.LimitRange",
    "api.core.v1.PersistentVolume",
    "api.core.v1.PersistentVolumeClaim",
    "api.apps.v1.StatefulSet",
    "api.apps.v1.DaemonSet",
    "api.apps.v1.ControllerRevision",
    "api.batch.v1.Job",
    "api.batch.v1.CronJob",
    "api.networking.v1.Ingress",
    "api.networking.v1.IngressClass",
    "api.networking.v1.NetworkPolicy",
    "api.networking.v1.IPAddress",
    "api.networking.v1.ServiceCIDR",
    "api.storage.v1.StorageClass",
    "api.storage.v1.CSINode",
    "api.storage.v1.CSIDriver",
    "api.storage.v1.CSIStorageCapacity",
    "api.storage.v1.VolumeAttachment",
    "api.storage.v1.VolumeAttributesClass",
    "api.resource.v1.DeviceClass",
    "api.resource.v1.ResourceClaim",
    "api.resource.v1.ResourceClaimTemplate",
    "api.resource.v1.ResourceSlice",
    "api.rbac.v1.Role",
    "api.rbac.v1.RoleBinding",
    "api.rbac.v1.ClusterRole",
    "api.rbac.v1.ClusterRoleBinding",
    "api.scheduling.v1.PriorityClass",
    "api.node.v1.RuntimeClass",
    "api.admissionregistration.v1.ValidatingWebhookConfiguration",
    "api.admissionregistration.v1.MutatingWebhookConfiguration",
    "api.admissionregistration.v1.ValidatingAdmissionPolicy",
    "api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    "api.admissionregistration.v1.MutatingAdmissionPolicy",
    "api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
    "api.certificates.v1.CertificateSigningRequest",
    "api.authentication.v1.TokenRequest",
    "api.flowcontrol.v1.FlowSchema",
    "api.flowcontrol.v1.PriorityLevelConfiguration",
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    "apimachinery.pkg.apis.meta.v1.Status",
    "apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "apimachinery.pkg.apis.meta.v1.APIGroup",
    "apimachinery.pkg.apis.meta.v1.APIGroupList",
    "apimachinery.pkg.apis.meta.v1.APIResourceList",
    "apimachinery.pkg.apis.meta.v1.APIVersions",
    "apimachinery.pkg.apis.meta.v1.WatchEvent",
    "apimachinery.pkg.apis.meta.v1.Patch",
];

/// Types that have a JSON form of their own, and the letter that the table writes for them.
const SPECIAL: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.quantity", "q"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.time", "t"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.microtime", "u"),
    ("io.k8s.apimachinery.pkg.util.intstr.intorstring", "o"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.fieldsv1", "F"),
    ("io.k8s.apimachinery.pkg.runtime.rawextension", "R"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.json", "J"),
];

/// Types that JSON writes as one of their two fields: the struct as an object, and the other as what it is.
const EITHER: &[&str] = &["jsonschemapropsorarray", "jsonschemapropsorbool", "jsonschemapropsorstringarray"];

/// A type of the table.
#[derive(Debug, Default)]
pub struct Type {
    /// Its OpenAPI name, such as `io.k8s.api.core.v1.Pod`.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// Group, version and kind, for kinds and lists.
    pub gvk: Option<(String, String, String)>,
    /// Whether lists of it exist.
    pub listable: bool,
    /// Markers worth keeping: `structType=atomic`, unions.
    pub markers: Vec<String>,
    /// Embedded structs: Go name, protobuf tag, and the one that embeds it in turn, as an index plus one.
    pub inlines: Vec<(String, u32, usize)>,
    /// Its fields, in Go's order, embedded structs flattened.
    pub fields: Vec<Field>,
}

/// A field of a type.
#[derive(Debug, Default)]
pub struct Field {
    pub json: String,
    pub go: String,
    /// The embedded struct it came from, as an index into `inlines` plus one.
    pub inline: usize,
    /// Its type in the table's notation, references as `@lowercase.name;`.
    pub shape: String,
    pub pointer: bool,
    pub omitempty: bool,
    pub omitzero: bool,
    pub required: bool,
    pub tag: u32,
    pub markers: Vec<(String, String)>,
    pub description: String,
}

type Definitions = BTreeMap<String, Definition>;
type Messages = BTreeMap<String, Message>;
type Facts = BTreeMap<String, Fact>;

/// All types that the roots reach, roots first.
pub fn join(definitions: &Definitions, messages: &Messages, facts: &Facts) -> Result<Vec<Type>, String> {
    let mut definitions = definitions.clone();
    let mut queue: VecDeque<String> = VecDeque::new();
    for root in ROOTS {
        let name = format!("io.k8s.{root}").to_lowercase();
        queue.push_back(name.clone());
        let Some(definition) = definitions.get(&name).cloned() else { continue };
        let list = format!("{name}list");
        if definition.listable
            && let Some(message) = messages.get(&list)
        {
            queue.push_back(list.clone());
            definitions.insert(list, list_of(&definition, message));
        }
    }
    let mut seen: Vec<String> = Vec::new();
    let mut out = Vec::new();
    while let Some(name) = queue.pop_front() {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        let definition = definitions.get(&name);
        let special = SPECIAL.iter().any(|(n, _)| *n == name);
        let built = match (definition, messages.get(&name)) {
            (Some(definition), Some(message)) if is_either(&name) => either(definition, message, messages, &mut queue)?,
            (Some(definition), Some(message)) if !special => build(definition, message, messages, facts, &mut queue)?,
            (Some(definition), None) if !definition.properties.is_empty() => {
                return Err(format!("no message for {}", definition.name));
            }
            (Some(definition), _) => {
                Type { name: definition.name.clone(), description: definition.description.clone(), ..Type::default() }
            }
            (None, Some(_)) => {
                println!("no definition for {name}: its users must embed it");
                continue;
            }
            (None, None) => return Err(format!("neither crate knows {name}")),
        };
        out.push(built);
    }
    Ok(out)
}

/// Whether JSON writes a type, by its lower-case name, as one of its two fields.
fn is_either(name: &str) -> bool {
    EITHER.iter().any(|either| name.ends_with(&format!(".{either}")))
}

/// A type that JSON writes as one of its two fields: neither has a JSON name, only protobuf tells them by number.
fn either(
    definition: &Definition,
    message: &Message,
    messages: &Messages,
    queue: &mut VecDeque<String>,
) -> Result<Type, String> {
    let mut out = Type {
        name: definition.name.clone(),
        description: definition.description.clone(),
        markers: vec!["either".to_owned()],
        ..Type::default()
    };
    for field in &message.fields {
        let mut shape = String::new();
        write_shape(&field.shape, &Fact::default(), messages, queue, &mut shape)?;
        let name = field.name.replace("j_son_", "JSON");
        let go = name[..1].to_ascii_uppercase() + &name[1..];
        let pointer = matches!(field.shape, Shape::Message(_));
        let tag = field.tag;
        out.fields.push(Field { json: name, go, shape, pointer, omitempty: true, tag, ..Field::default() });
    }
    Ok(out)
}

/// The definition of a list, which `k8s-openapi` leaves to a generic type.
fn list_of(item: &Definition, message: &Message) -> Definition {
    let property = |description: &str| crate::openapi::Property { description: description.to_owned() };
    let field = |name: &str| message.fields.iter().find(|f| f.name == name).map_or("", |f| f.doc.as_str());
    let mut out = Definition {
        name: format!("{}List", item.name),
        description: message.doc.clone(),
        required: vec!["items".to_owned()],
        gvk: item.gvk.clone().map(|(g, v, k)| (g, v, format!("{k}List"))),
        ..Definition::default()
    };
    for common in ["apiVersion", "kind"] {
        if let Some(p) = item.properties.get(common) {
            out.properties.insert(common.to_owned(), p.clone());
        }
    }
    out.properties.insert("metadata".to_owned(), property(&unlink(field("metadata"))));
    out.properties.insert("items".to_owned(), property(&unlink(field("items"))));
    out
}

/// Rustdoc writes bare links in angle brackets; OpenAPI does not.
fn unlink(text: &str) -> String {
    text.replace("<http", "http").replace('>', "")
}

fn build(
    definition: &Definition,
    message: &Message,
    messages: &Messages,
    facts: &Facts,
    queue: &mut VecDeque<String>,
) -> Result<Type, String> {
    let mut out = Type {
        name: definition.name.clone(),
        description: definition.description.clone(),
        gvk: definition.gvk.clone(),
        listable: definition.listable,
        markers: message
            .markers
            .iter()
            .filter(|m| m.starts_with("structType") || m.starts_with("union"))
            .cloned()
            .collect(),
        ..Type::default()
    };
    let short = short_name(&definition.name);
    let mut left: BTreeMap<String, &str> =
        definition.properties.keys().map(|json| (plain(json), json.as_str())).collect();
    let typed = ["apiversion", "kind"].iter().all(|n| left.contains_key(*n))
        && !message.fields.iter().any(|f| f.name == "kind");
    if typed {
        out.inlines.push(("TypeMeta".to_owned(), 0, 0));
        for (json, go) in [("kind", "Kind"), ("apiVersion", "APIVersion")] {
            left.remove(&json.to_lowercase());
            out.fields.push(Field {
                json: json.to_owned(),
                go: go.to_owned(),
                inline: 1,
                shape: "s".to_owned(),
                omitempty: true,
                description: definition.properties[json].description.clone(),
                ..Field::default()
            });
        }
    }
    let mut parts = Parts { definition, short, left, messages, facts, queue };
    parts.take(message, 0, &mut out)?;
    let Parts { short, left, .. } = parts;
    if left.is_empty() { Ok(out) } else { Err(format!("{short}: {left:?} are in no message")) }
}

/// What a type is put together from.
struct Parts<'a> {
    definition: &'a Definition,
    short: String,
    /// The properties that no message has had yet, by lower-case name.
    left: BTreeMap<String, &'a str>,
    messages: &'a Messages,
    facts: &'a Facts,
    queue: &'a mut VecDeque<String>,
}

impl Parts<'_> {
    /// Takes the fields of the type itself, or of the struct that it embeds as number `inline`.
    fn take(&mut self, message: &Message, inline: usize, out: &mut Type) -> Result<(), String> {
        for field in &message.fields {
            if let Some(json) = self.left.remove(&plain(&field.name)) {
                out.fields.push(self.one(json, field, inline)?);
                continue;
            }
            // Not a property: an embedded struct, whose fields are properties here.
            let Shape::Message(inner) = &field.shape else {
                println!("{}: {} of {} is in no property", self.short, field.name, message.name);
                continue;
            };
            let inner = self.messages.get(inner).ok_or_else(|| format!("{}: no message {inner}", self.short))?;
            out.inlines.push((inner.name.clone(), field.tag, inline));
            self.take(inner, out.inlines.len(), out)?;
        }
        Ok(())
    }

    fn one(&mut self, json: &str, field: &protobuf::Field, inline: usize) -> Result<Field, String> {
        let fact = self.facts.get(&format!("{}.{json}", self.short)).cloned().unwrap_or_default();
        // `metadata` is required only by the Rust types' convention.
        let required =
            fact.required.unwrap_or(json != "metadata" && self.definition.required.iter().any(|r| r == json));
        let mut shape = String::new();
        write_shape(&field.shape, &fact, self.messages, self.queue, &mut shape)?;
        let composite = matches!(field.shape, Shape::List(_) | Shape::Map(_) | Shape::String | Shape::Bytes);
        let mut markers: Vec<(String, String)> = Vec::new();
        let keys: Vec<&str> = field.markers.iter().filter_map(|m| m.strip_prefix("listMapKey=")).collect();
        for marker in &field.markers {
            match marker.split_once('=') {
                Some((
                    k @ ("patchStrategy" | "patchMergeKey" | "listType" | "mapType" | "structType" | "default"),
                    v,
                )) => {
                    markers.push((k.to_owned(), v.to_owned()));
                }
                _ if marker == "unionDiscriminator" => markers.push((marker.clone(), String::new())),
                _ => {}
            }
        }
        if !keys.is_empty() {
            markers.push(("listMapKeys".to_owned(), keys.join(",")));
        }
        for (marker, value) in [
            ("patchStrategy", &fact.strategy),
            ("patchMergeKey", &fact.merge_key),
            ("default", &fact.default),
            ("enum", &fact.values),
        ] {
            if let Some(value) = value {
                markers.retain(|(k, _)| k != marker);
                if value != "-" {
                    markers.push((marker.to_owned(), value.clone()));
                }
            }
        }
        let property = &self.definition.properties[json];
        Ok(Field {
            json: json.to_owned(),
            go: fact.go.clone().unwrap_or_else(|| go_name(json, &field.shape)),
            inline,
            shape,
            pointer: fact.pointer.unwrap_or(!composite && !required && json != "metadata"),
            omitempty: fact.omit.unwrap_or(!required),
            omitzero: fact.zero,
            required,
            tag: field.tag,
            markers,
            description: match field.shape {
                Shape::List(_) | Shape::Map(_) => property.description.clone(),
                _ => facts::with_values(&property.description, &fact),
            },
        })
    }
}

/// Writes a type in the table's notation, and queues the types it names.
fn write_shape(
    shape: &Shape,
    fact: &Fact,
    messages: &Messages,
    queue: &mut VecDeque<String>,
    out: &mut String,
) -> Result<(), String> {
    let name = |out: &mut String, named: &Option<String>| {
        if let Some(named) = named {
            out.push_str(&format!("({named})"));
        }
    };
    match shape {
        Shape::String => out.push('s'),
        Shape::Int32 => out.push('i'),
        Shape::Int64 => out.push('l'),
        Shape::Bool => out.push('b'),
        Shape::Double => out.push('f'),
        Shape::Bytes => out.push('B'),
        Shape::Message(target) => {
            if let Some((_, letter)) = SPECIAL.iter().find(|(n, _)| n == target) {
                queue.push_back(target.clone());
                out.push_str(letter);
                return Ok(());
            }
            // A message around a list, because protobuf has no maps of lists.
            let wrapper = messages.get(target).filter(|m| m.fields.len() == 1 && m.fields[0].name == "items");
            if let Some(wrapper) = wrapper.filter(|w| w.name == "ExtraValue" || w.name == "Verbs") {
                out.push_str(&format!("[(v1.{})s", wrapper.name));
                return Ok(());
            }
            queue.push_back(target.clone());
            let either = if is_either(target) { "E" } else { "" };
            out.push_str(&format!("{either}@{target};"));
            return Ok(());
        }
        Shape::List(inner) => {
            out.push('[');
            name(out, &fact.named);
            let inner_fact = Fact { named: fact.key.clone(), ..Fact::default() };
            return write_shape(inner, &inner_fact, messages, queue, out);
        }
        Shape::Map(inner) => {
            out.push('{');
            name(out, &fact.named);
            let inner_fact = Fact { named: fact.key.clone(), ..Fact::default() };
            return write_shape(inner, &inner_fact, messages, queue, out);
        }
    }
    name(out, &fact.named);
    Ok(())
}

/// `io.k8s.api.core.v1.Pod` as `core.v1.Pod`: the form of the facts file.
pub fn short_name(name: &str) -> String {
    let parts: Vec<&str> = name.rsplitn(4, '.').collect();
    format!("{}.{}.{}", parts[2], parts[1], parts[0])
}

/// A field's name as both crates spell it once letters are all that counts.
fn plain(name: &str) -> String {
    name.replace(['_', '-', '$'], "").to_lowercase()
}

/// The usual Go name of a JSON field: a capital first letter, or a whole initialism.
fn go_name(json: &str, shape: &Shape) -> String {
    const INITIALISMS: &[&str] =
        &["api", "aws", "csi", "dns", "fs", "gce", "http", "id", "ip", "nfs", "qos", "rbd", "ssl", "tcp", "tls", "uid"];
    if let ("metadata", Shape::Message(target)) = (json, shape) {
        return if target.ends_with("listmeta") { "ListMeta" } else { "ObjectMeta" }.to_owned();
    }
    let word = json.find(|c: char| c.is_ascii_uppercase()).unwrap_or(json.len());
    let (first, rest) = json.split_at(word);
    if INITIALISMS.contains(&first) {
        return first.to_ascii_uppercase() + rest;
    }
    let mut chars = json.chars();
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}
