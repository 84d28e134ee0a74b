//! Discovery: which groups, versions and resources there are, aggregated and piece by piece (API-03).

use http::{HeaderMap, Response};
use muster_tree::{Map, Value, json};

use super::body::Body;
use super::negotiate::{self, Offer, Output};
use super::path::Target;
use super::respond;
use super::reviews;
use crate::codec::Format;
use crate::model::api_version;
use crate::model::{Model, Name, Resource, Subresource, groups};
use crate::registry::Registry;
use crate::registry::options::Query;
use crate::status::ApiError;

/// A group version with what it serves.
struct GroupVersion {
    group: Name,
    version: Name,
    resources: Vec<Resource>,
}

/// What is served, in the order in which the real server tells it.
fn versions(registry: &Registry) -> Vec<GroupVersion> {
    versions_of(registry, |_, _| true)
}

/// What is served of a group.
fn versions_of_group(registry: &Registry, name: &str) -> Vec<GroupVersion> {
    versions_of(registry, |group, _| group == name)
}

/// What is served of these groups and versions.
fn versions_of(registry: &Registry, is_asked: impl Fn(&str, &str) -> bool) -> Vec<GroupVersion> {
    let mut out: Vec<GroupVersion> = Vec::new();
    let is_asked = |resource: &Resource| is_asked(&resource.group, &resource.version);
    let catalogue = registry.catalogue();
    let kinds = catalogue.served().iter().map(|served| served.resource()).filter(|resource| is_asked(resource));
    for resource in kinds.cloned().chain(reviews::resources().filter(is_asked)) {
        let (group, version) = (&resource.group, &resource.version);
        match out.iter_mut().find(|known| known.group == *group && known.version == *version) {
            Some(known) => known.resources.push(resource),
            None => {
                out.push(GroupVersion { group: group.clone(), version: version.clone(), resources: vec![resource] });
            }
        }
    }
    for known in &mut out {
        known.resources.sort_unstable_by(|a, b| a.plural.cmp(&b.plural));
    }
    let key = |known: &GroupVersion| groups::priority(&known.group, &known.version);
    out.sort_by(|a, b| {
        let ((group_a, version_a), (group_b, version_b)) = (key(a), key(b));
        let groups = group_b.cmp(&group_a).then_with(|| a.group.cmp(&b.group));
        groups.then(version_b.cmp(&version_a)).then_with(|| groups::compare_versions(&a.version, &b.version))
    });
    out
}

/// `/api`
pub fn core_versions(registry: &Registry, headers: &HeaderMap, query: &Query) -> Response<Body> {
    if let Some(response) = aggregated(registry, headers, query, true) {
        return response;
    }
    legacy(
        headers,
        query,
        &json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        }),
    )
}

/// `/apis`
pub fn groups(registry: &Registry, headers: &HeaderMap, query: &Query) -> Response<Body> {
    if let Some(response) = aggregated(registry, headers, query, false) {
        return response;
    }
    let served = versions(registry);
    let mut names: Vec<&str> = served.iter().map(|known| &*known.group).filter(|group| !group.is_empty()).collect();
    names.dedup();
    let groups: Vec<Value> = names.iter().filter_map(|name| group_value(&served, name)).collect();
    unrouted(headers, query, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `/apis/<group>`
pub fn group(registry: &Registry, name: &str, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let Some(mut group) = group_value(&versions_of_group(registry, name), name) else { return respond::no_such_page() };
    let mut out = Map::new();
    out.insert("kind", json!("APIGroup"));
    out.insert("apiVersion", json!("v1"));
    if let Some(members) = group.as_object_mut() {
        out.append(members);
    }
    unrouted(headers, query, &Value::Object(out))
}

fn group_value(served: &[GroupVersion], name: &str) -> Option<Value> {
    let versions: Vec<Value> = served
        .iter()
        .filter(|served| served.group == name)
        .map(|served| json!({"groupVersion": api_version(name, &served.version), "version": served.version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

/// Whether a path has a route for `GET` alone. Groups, and the versions of groups that came at run time, have none: there any
/// method reads.
pub fn is_only_read(registry: &Registry, target: &Target<'_>) -> bool {
    match target {
        Target::CoreVersions => true,
        Target::Version(group, version) => {
            let is_it = |known: &str, its: &str| known == *group && its == *version;
            !groups::is_custom(group) && !versions_of(registry, is_it).is_empty()
        }
        Target::Other(path) => {
            matches!(path.as_slice(), ["version"] | [".well-known", "openid-configuration"] | ["openid", "v1", "jwks"])
        }
        _ => false,
    }
}

/// `/api/v1` and `/apis/<group>/<version>`
pub fn version(registry: &Registry, group: &str, version: &str, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let found = versions_of(registry, |known, its| known == group && its == version);
    let Some(served) = found.first() else { return nothing(registry, group, headers, query) };
    let mut resources: Vec<Value> = Vec::new();
    for resource in &served.resources {
        let kind = registry.find(group, version, &resource.plural);
        let stored = kind.as_ref().and_then(|served| match served.kind.custom() {
            Some(custom) => {
                let family = custom.family();
                family.versions.get(family.storage).map(|own| Model { version: &own.name, ..resource.model() })
            }
            None => served.kind.stored_as(),
        });
        resources.push(resource_value(resource, stored));
        resources.extend(parts(resource).into_iter().map(|part| subresource_value(resource, part)));
    }
    let mut out = Map::new();
    out.insert("kind", json!("APIResourceList"));
    if !group.is_empty() {
        out.insert("apiVersion", json!("v1"));
    }
    out.insert("groupVersion", json!(api_version(group, version)));
    out.insert("resources", Value::Array(resources.into()));
    legacy(headers, query, &Value::Object(out))
}

fn resource_value(resource: &Resource, stored: Option<Model<'_>>) -> Value {
    let mut out = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    // What is made up for each request is not stored.
    if resource.can("list") && resource.plural != "componentstatuses" {
        out["storageVersionHash"] = json!(storage_version_hash(&stored.unwrap_or_else(|| stored_as(resource))));
    }
    out
}

/// What the reference stores objects of a kind of its own as: of three an older version.
fn stored_as(resource: &Resource) -> Model<'_> {
    let model = resource.model();
    match &*resource.plural {
        "customresourcedefinitions" | "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings" => {
            Model { version: "v1beta1", ..model }
        }
        _ => model,
    }
}

/// The subresources in the order in which they are told: by name, but for custom resources.
fn parts(resource: &Resource) -> Vec<Subresource> {
    let mut parts = resource.subresources.clone();
    if !groups::is_custom(&resource.group) {
        parts.sort_by_key(|part| part.name());
    }
    parts
}

/// A subresource's own type; the object's where it has none.
fn model_of(resource: &Resource, part: Subresource) -> Model<'_> {
    part.model().unwrap_or(Model { group: "", version: "", kind: &resource.kind })
}

fn subresource_value(resource: &Resource, part: Subresource) -> Value {
    let model = model_of(resource, part);
    let mut out = json!({
        "name": format!("{}/{}", resource.plural, part.name()),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": model.kind,
        "verbs": part.verbs(),
    });
    if (model.group, model.version) != ("", "v1") && !model.version.is_empty() {
        out["group"] = json!(model.group);
        out["version"] = json!(model.version);
    }
    out
}

/// Tells clients which version of which kind the objects are stored as: the start of a digest of its name.
fn storage_version_hash(stored: &Model<'_>) -> String {
    use base64::Engine as _;
    let Model { group, version, kind } = stored;
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    let start = digest.as_ref().get(..8).unwrap_or_default();
    base64::engine::general_purpose::STANDARD.encode(start)
}

/// As the router checks what the client reads, then the handler.
fn legacy(headers: &HeaderMap, query: &Query, value: &Value) -> Response<Body> {
    if let Err(error) = negotiate::check_route(headers, &negotiate::PRODUCES) {
        return respond::error(&error, None);
    }
    unrouted(headers, query, value)
}

/// Groups have no router in front of them.
fn unrouted(headers: &HeaderMap, query: &Query, value: &Value) -> Response<Body> {
    match negotiate::output(headers, query, Offer::Document) {
        Ok(output) => respond::value(200, value, output),
        Err(error) => respond::error(&error, None),
    }
}

/// The aggregated form, where the client asks for it before anything else that it could get.
fn aggregated(registry: &Registry, headers: &HeaderMap, query: &Query, core: bool) -> Option<Response<Body>> {
    for clause in negotiate::clauses(negotiate::accept(headers)) {
        if !matches!(clause.media.as_str(), "application/json" | "*/*" | "application/*") {
            continue;
        }
        let param = |key: &str| clause.params.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let (kind, group, version) = (param("as"), param("g"), param("v"));
        if kind.is_none() && group.is_none() && version.is_none() {
            return None;
        }
        if kind != Some("APIGroupDiscoveryList") || group != Some("apidiscovery.k8s.io") {
            continue;
        }
        let (version, content_type) = match version {
            Some("v2") => ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
            Some("v2beta1") => ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
            _ => continue,
        };
        let output = Output { format: Format::Json, pretty: negotiate::wants_pretty(headers, query), transform: None };
        let document = document(registry, version, core);
        let etag = etag(&document);
        let unchanged = headers.get(http::header::IF_NONE_MATCH).and_then(|v| v.to_str().ok()) == Some(etag.as_str());
        let mut response = if unchanged {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = http::StatusCode::NOT_MODIFIED;
            response
        } else {
            respond::value(200, &document, output)
        };
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
        if let Ok(value) = http::HeaderValue::from_str(&etag) {
            headers.insert(http::header::ETAG, value);
        }
        headers.insert(http::header::VARY, http::HeaderValue::from_static("Accept"));
        headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("public"));
        return Some(response);
    }
    None
}

fn etag(document: &Value) -> String {
    let hash = document
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("\"{hash:016X}\"")
}

fn document(registry: &Registry, api: &str, core: bool) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for served in versions(registry) {
        if served.group.is_empty() != core {
            continue;
        }
        let resources: Vec<Value> = served.resources.iter().map(aggregated_resource).collect();
        let version = json!({"version": served.version, "resources": resources, "freshness": "Current"});
        match items.iter_mut().find(|item| item["metadata"]["name"] == *served.group && !core) {
            Some(item) => {
                if let Some(versions) = item["versions"].as_array_mut() {
                    versions.push(version);
                }
            }
            None => {
                let metadata = if core { json!({}) } else { json!({"name": served.group}) };
                items.push(json!({"metadata": metadata, "versions": [version]}));
            }
        }
    }
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(resource: &Resource) -> Value {
    // Custom resources say of what group and version they are.
    let own = match groups::is_custom(&resource.group) {
        true => resource.model(),
        false => Model { group: "", version: "", kind: &resource.kind },
    };
    let kind = |model: Model<'_>| json!({"group": model.group, "version": model.version, "kind": model.kind});
    // What is of the same group and version does not say so.
    let short = |model: Model<'static>| match (model.group, model.version) == (&*resource.group, &*resource.version) {
        true => Model { group: "", version: "", ..model },
        false => model,
    };
    let parts: Vec<Value> = parts(resource)
        .into_iter()
        .map(|part| {
            json!({
                "subresource": part.name(),
                "responseKind": kind(part.model().map_or(own, short)),
                "verbs": part.verbs(),
            })
        })
        .collect();
    let mut out = json!({
        "resource": resource.plural,
        "responseKind": kind(own),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    if !parts.is_empty() {
        out["subresources"] = Value::Array(parts.into());
    }
    out
}

/// 404 for a path of which nothing is known: a `Status` below a known group, else a page.
#[must_use]
pub fn nothing(registry: &Registry, group: &str, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let known = group.is_empty() || !groups::is_custom(group) && !versions_of_group(registry, group).is_empty();
    if known {
        respond::error(&ApiError::no_such_resource(), negotiate::output(headers, query, Offer::Document).ok())
    } else {
        respond::no_such_page()
    }
}

/// All paths that lead somewhere, for `/`.
#[must_use]
pub fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz"]
            .map(str::to_owned)
            .to_vec();
    paths.push("/version".to_owned());
    for served in versions(registry) {
        if served.group.is_empty() {
            paths.push(format!("/api/{}", served.version));
        } else {
            paths.push(format!("/apis/{}", served.group));
            paths.push(format!("/apis/{}/{}", served.group, served.version));
        }
    }
    paths.sort();
    paths.dedup();
    paths
}
