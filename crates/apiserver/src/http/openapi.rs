//! OpenAPI: an index and one document for each group version (API-04).

use std::sync::Arc;

use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use muster_tree::Value;

use crate::codec::{Format, openapi_v2};
use crate::http::body::Body;
use crate::http::negotiate::{self, Output};
use crate::http::respond;
use crate::http::reviews;
use crate::model::Resource;
use crate::registry::options::Query;
use crate::registry::{Catalogue, Registry, Served};
use crate::schema::openapi::{self, CustomSchema};

/// `/openapi/v3`
#[must_use]
pub fn index(registry: &Registry) -> Response<Body> {
    plain(&openapi::index(&resources(&registry.catalogue(), &posted())))
}

/// `/openapi/v3/<path>`, such as `apis/apps/v1`.
#[must_use]
pub fn document(registry: &Registry, path: &str, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let catalogue = registry.catalogue();
    let posted = posted();
    let resources = resources(&catalogue, &posted);
    let Some((group, version)) = group_version(path) else { return respond::no_such_page() };
    let hash = openapi::hash(group, version, &resources);
    let etag = format!("\"{hash}\"");
    if query.get("hash").is_some_and(|given| given != hash) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
        if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}")) {
            response.headers_mut().insert(LOCATION, location);
        }
        return response;
    }
    let mut response = if headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok()) == Some(etag.as_str()) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        match openapi::document(path, &resources, &customs(registry, &catalogue, Some((group, version)))) {
            Some(document) => plain(&document),
            None => return respond::no_such_page(),
        }
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    if query.get("hash").is_some() {
        // What the hash names never changes.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    response
}

/// `/openapi/v2`, as JSON or as protobuf, whichever the client likes better.
#[must_use]
pub fn document_v2(registry: &Registry, accept: &str) -> Response<Body> {
    const JSON: &str = "application/json";
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let accept = if accept.is_empty() { "*/*" } else { accept };
    let answer = negotiate::clauses(accept).into_iter().find_map(|clause| match &*clause.media {
        JSON | "application/*" | "*/*" => Some(JSON),
        // Clients ask for it by its older name.
        PROTOBUF | "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" => Some(PROTOBUF),
        _ => None,
    });
    let catalogue = registry.catalogue();
    let document = || openapi::document_v2(&resources(&catalogue, &posted()), &customs(registry, &catalogue, None));
    match answer {
        Some(JSON) => plain(&document()),
        Some(_) => respond::bytes(200, PROTOBUF, openapi_v2::to_protobuf(&document())),
        None => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
            response
        }
    }
}

/// Kinds that are only ever posted.
fn posted() -> Vec<Resource> {
    reviews::resources().collect()
}

fn resources<'a>(catalogue: &'a Catalogue, posted: &'a [Resource]) -> Vec<&'a Resource> {
    catalogue.served().iter().map(|served| served.resource()).chain(posted).collect()
}

/// The schemas of custom kinds, of one group and version or of all.
fn customs(registry: &Registry, catalogue: &Catalogue, only: Option<(&str, &str)>) -> Vec<CustomSchema> {
    let Some(definitions) = catalogue.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return Vec::new();
    };
    let of = |served: &Arc<Served>| {
        let resource = served.resource();
        let wanted = only.is_none_or(|only| only == (&*resource.group, &*resource.version));
        let custom = served.kind.custom().filter(|_| wanted)?;
        let definition = registry.get(definitions, "", &custom.family().definition).ok()?.object();
        let versions = definition.get("spec")?.get("versions")?.as_array()?;
        let version = versions.iter().find(|version| version["name"] == *resource.version)?;
        let paths = version["selectableFields"].as_array().map_or(&[][..], muster_tree::List::as_slice);
        Some(CustomSchema {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            kind: resource.kind.to_string(),
            list_kind: resource.list_kind.to_string(),
            plural: resource.plural.to_string(),
            schema: version["schema"]["openAPIV3Schema"].clone(),
            selectable: paths.iter().filter_map(|path| Some(path["jsonPath"].as_str()?.to_owned())).collect(),
        })
    };
    catalogue.served().iter().filter_map(of).collect()
}

fn group_version(path: &str) -> Option<(&str, &str)> {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => Some(("", *version)),
        ["apis", group, version] => Some((*group, *version)),
        _ => None,
    }
}

fn plain(value: &Value) -> Response<Body> {
    respond::value(200, value, Output { format: Format::Json, pretty: false, transform: None })
}
