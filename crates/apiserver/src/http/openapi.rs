//! OpenAPI: an index and one document for each group version (API-04).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use muster_tree::Value;
use ring::digest::{SHA256, digest};

use super::Shared;
use crate::codec::{Format, openapi_v2};
use crate::http::body::Body;
use crate::http::negotiate::{self, Output};
use crate::http::respond;
use crate::http::reviews;
use crate::model::Resource;
use crate::registry::options::Query;
use crate::registry::{Catalogue, Registry, Served};
use crate::schema::openapi::{self, CustomSchema};

const JSON: &str = "application/json";
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// How long a document that is asked for by its hash may be kept.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The index, kept until other kinds are served.
#[derive(Debug, Default)]
pub(super) struct Hashes(Mutex<Option<Arc<Index>>>);

/// The index of the documents of some kinds.
#[derive(Debug)]
struct Index {
    /// The kinds.
    catalogue: Weak<Catalogue>,
    body: Bytes,
    /// What changes whenever any document does.
    hash: String,
    /// The hash of each document, by its path.
    hashes: BTreeMap<String, String>,
}

impl Hashes {
    fn of(&self, catalogue: &Arc<Catalogue>) -> Arc<Index> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_now = |index: &&Arc<Index>| std::ptr::eq(index.catalogue.as_ptr(), Arc::as_ptr(catalogue));
        if let Some(index) = kept.as_ref().filter(of_now) {
            return Arc::clone(index);
        }
        Arc::clone(kept.insert(Arc::new(Index::new(catalogue))))
    }
}

impl Index {
    fn new(catalogue: &Arc<Catalogue>) -> Self {
        let index = openapi::index(&resources(catalogue, &posted()));
        let hash = |at: &Value| Some(at["serverRelativeURL"].as_str()?.split_once("?hash=")?.1.to_owned());
        let paths = index["paths"].as_object().into_iter().flatten();
        let hashes = paths.filter_map(|(path, at)| Some((path.to_string(), hash(at)?))).collect();
        let body = Bytes::from(format!("{index}\n"));
        let mut hash = String::new();
        for byte in digest(&SHA256, &body).as_ref() {
            // Writing to a String cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Self { catalogue: Arc::downgrade(catalogue), body, hash, hashes }
    }
}

/// `/openapi/v3`
#[must_use]
pub fn index(shared: &Shared, headers: &HeaderMap) -> Response<Body> {
    let index = shared.hashes.of(&shared.registry.catalogue());
    unless_known(headers, &index.hash, || respond::bytes(200, JSON, index.body.clone()))
}

/// `/openapi/v3/<path>`, such as `apis/apps/v1`.
#[must_use]
pub fn document(shared: &Shared, path: &str, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let registry = &shared.registry;
    let catalogue = registry.catalogue();
    let index = shared.hashes.of(&catalogue);
    let (Some(of), Some(hash)) = (group_version(path), index.hashes.get(path)) else { return respond::no_such_page() };
    let given = query.get("hash").filter(|given| !given.is_empty());
    let mut response = match accepted(headers, &[(JSON, JSON)]) {
        None => empty(StatusCode::NOT_ACCEPTABLE),
        Some(_) if given.is_some_and(|given| given != hash) => {
            let mut response = empty(StatusCode::MOVED_PERMANENTLY);
            set(&mut response, LOCATION, &format!("/openapi/v3/{path}?hash={hash}"));
            response
        }
        Some(_) => {
            let write = || {
                let customs = customs(registry, &catalogue, Some(of));
                openapi::document(path, &resources(&catalogue, &posted()), &customs)
                    .map_or_else(respond::no_such_page, |document| plain(&document))
            };
            let mut response = unless_known(headers, hash, write);
            if given.is_some() {
                // What the hash names never changes.
                set(&mut response, CACHE_CONTROL, "public, immutable");
                let now = u64::try_from(registry.clock.now().as_seconds()).unwrap_or_default();
                let expires = UNIX_EPOCH + Duration::from_secs(now) + YEAR;
                set(&mut response, EXPIRES, &httpdate::fmt_http_date(expires));
            }
            response
        }
    };
    set(&mut response, VARY, "Accept");
    response
}

/// `/openapi/v2`, as JSON or as protobuf, whichever the client likes better.
#[must_use]
pub fn document_v2(shared: &Shared, headers: &HeaderMap) -> Response<Body> {
    const OFFERED: [(&str, &str); 3] = [
        (JSON, JSON),
        (PROTOBUF_V2, PROTOBUF_V2),
        // Clients ask for it by its older name.
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", PROTOBUF_V2),
    ];
    let catalogue = shared.registry.catalogue();
    let mut response = match accepted(headers, &OFFERED) {
        None => empty(StatusCode::NOT_ACCEPTABLE),
        Some(media) => unless_known(headers, &shared.hashes.of(&catalogue).hash, || {
            let customs = customs(&shared.registry, &catalogue, None);
            let document = openapi::document_v2(&resources(&catalogue, &posted()), &customs);
            match media {
                JSON => plain(&document),
                _ => respond::bytes(200, media, openapi_v2::to_protobuf(&document)),
            }
        }),
    };
    set(&mut response, VARY, "Accept");
    response
}

/// What is sent of what is offered, each by a name that clients ask for.
fn accepted(headers: &HeaderMap, offered: &[(&str, &'static str)]) -> Option<&'static str> {
    let accept = negotiate::accept(headers);
    let clauses = negotiate::clauses(if accept.is_empty() { "*/*" } else { accept });
    clauses.iter().find_map(|clause| {
        let is_it = |(name, _): &&(&str, _)| matches!(&*clause.media, "application/*" | "*/*") || clause.media == *name;
        offered.iter().find(is_it).map(|(_, sent)| *sent)
    })
}

/// An answer with its hash as `ETag`; 304 for a client that has it.
fn unless_known(headers: &HeaderMap, hash: &str, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
    let etag = format!("\"{hash}\"");
    let has = |tag: &str| tag.starts_with('*') || tag.strip_prefix("W/").unwrap_or(tag) == etag;
    let known = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').map(str::trim).any(has));
    let mut response = if is_known { empty(StatusCode::NOT_MODIFIED) } else { answer() };
    set(&mut response, ETAG, &etag);
    response
}

/// An answer without a body.
fn empty(status: StatusCode) -> Response<Body> {
    let mut response = respond::with_body(status.as_u16(), JSON, Body::empty());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
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
