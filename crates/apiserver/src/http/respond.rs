//! Writing answers: objects, lists, metadata and errors, as JSON, YAML or protobuf.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use muster_tree::{Map, Value, json};

use super::Shared;
use super::aside::is_long;
use super::body::{Body, Form};
use super::negotiate::{self, Offer, Output, Transform};
use super::table;
use crate::codec::{self, Format};
use crate::model::Object;
use crate::registry::aside::aside;
use crate::registry::list::Page;
use crate::registry::options::Query;
use crate::registry::{Answer, Registry, Served};
use crate::status::ApiError;
use crate::yaml;

/// What a protobuf body is.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const WARNING: HeaderName = HeaderName::from_static("warning");

/// Where warnings are longer together than this many characters, each is cut.
const MOST_WARNED: usize = 4096;
/// To so many.
const CUT_WARNING: usize = 256;

/// An answer of bytes.
#[must_use]
pub fn bytes(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    with_body(code, content_type, Body::whole(body))
}

/// An answer with a body of any kind.
#[must_use]
pub fn with_body(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text, which is not to be taken for anything else.
#[must_use]
pub fn text(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = bytes(code, "text/plain; charset=utf-8", body);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What the real server says of a path that it knows nothing about.
#[must_use]
pub fn no_such_page() -> Response<Body> {
    text(404, &b"404 page not found\n"[..])
}

/// A JSON tree, indented where asked.
#[must_use]
pub fn value(code: u16, value: &Value, output: Output) -> Response<Body> {
    match output.format {
        Format::Yaml => bytes(code, "application/yaml", yaml::to_string(value)),
        Format::Protobuf if let Some(body) = codec::to_protobuf(value) => bytes(code, PROTOBUF, body),
        Format::Json | Format::Protobuf => {
            let mut out = Vec::with_capacity(1024);
            codec::to_json(&mut out, value, output.pretty);
            out.push(b'\n');
            bytes(code, "application/json", out)
        }
    }
}

/// An error before it is known what the answer would be written as: as the client reads it, if it reads anything that is
/// written here.
#[must_use]
pub fn refused(why: &ApiError, headers: &HeaderMap, query: &Query) -> Response<Body> {
    error(why, negotiate::output(headers, query, Offer::Value).ok())
}

/// An error, as a `Status`.
#[must_use]
pub fn error(error: &ApiError, output: Option<Output>) -> Response<Body> {
    let output = output.unwrap_or(Output { format: Format::Json, pretty: false, transform: None });
    let mut response = value(error.code, &error.to_status(), output);
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// One object.
///
/// # Errors
/// 406 for a transform that one object does not have; 400 for table options.
pub fn object(
    registry: &Registry,
    served: &Served,
    code: u16,
    answer: &Answer,
    output: Output,
    include: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let form = match output.transform {
        None => Some(Form::Whole),
        Some(Transform::Partial(version)) => Some(Form::Partial(version)),
        Some(_) => None,
    };
    if let (Answer::Entry(entry), Some(form)) = (answer, form)
        && is_as_stored(served, output)
    {
        return Ok(with_body(code, "application/json", Body::line(form.of(entry))));
    }
    let object = match answer {
        Answer::Entry(entry) => served.live(entry)?,
        Answer::Object(object) => object.clone(),
    };
    let is_status = object.get("kind").and_then(Value::as_str) == Some("Status");
    let shown = match output.transform {
        None if is_status => Value::Object(object),
        None => Value::Object(served.present(object)),
        Some(_) if is_status => Value::Object(object),
        Some(Transform::Table(version)) => {
            let include = table::Include::parse(include)?;
            if object.get("kind").and_then(Value::as_str) == Some("Scale") {
                return Ok(value(code, &table::scale(served, &object, include, version, registry.clock.now()), output));
            }
            let metadata = list_metadata(object.get("metadata").and_then(|m| m.get("resourceVersion")), None, None);
            let rows = vec![table::row(served, &object, include, version, registry.clock.now())];
            table::table(served, version, metadata, rows, true)
        }
        Some(Transform::Partial(version)) => partial(served, &object, version),
        Some(Transform::PartialList(_)) => {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type(served, "")
            )));
        }
    };
    Ok(value(code, &shown, output))
}

/// Whether what is sent is part of what is stored.
fn is_as_stored(served: &Served, output: Output) -> bool {
    let same = if output.transform.is_some() { served.tells_metadata_as_stored() } else { !served.converts() };
    output.format == Format::Json && !output.pretty && same
}

/// A list.
///
/// # Errors
/// 406 for a transform that a list does not have; 400 for table options.
pub async fn list(
    shared: &Shared,
    served: &Served,
    page: Page,
    output: Output,
    include: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let version = Value::from(page.version.to_string());
    // A list of custom objects has a token even where nothing follows, and items that say what they are.
    let custom = served.kind.custom().is_some();
    let token = page.continue_token.as_deref().or((custom && output.transform.is_none()).then_some(""));
    let mut metadata = list_metadata(Some(&version), token, page.remaining);
    // The reference's lists of other types do not take it over.
    if let (Some(shard), None, false) = (&page.shard, output.transform, custom) {
        metadata["shardInfo"] = json!({"selector": shard});
    }
    let form = match output.transform {
        None if custom => Some(Form::Whole),
        None => Some(Form::Item),
        // Without items it is written otherwise.
        Some(Transform::PartialList(version)) if !page.entries.is_empty() => Some(Form::Partial(version)),
        Some(_) => None,
    };
    if let Some(form) = form.filter(|_| is_as_stored(served, output)) {
        let (kind, api_version) = match form {
            Form::Partial(version) => ("PartialObjectMetadataList".to_owned(), format!("meta.k8s.io/{version}")),
            Form::Whole | Form::Item => (format!("{}List", served.resource().kind), served.api_version()),
        };
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"{\"kind\":");
        // Strings and small trees serialise.
        let _ = serde_json::to_writer(&mut head, &kind);
        head.extend_from_slice(b",\"apiVersion\":");
        let _ = serde_json::to_writer(&mut head, &api_version);
        head.extend_from_slice(b",\"metadata\":");
        let _ = serde_json::to_writer(&mut head, &metadata);
        head.extend_from_slice(b",\"items\":[");
        return Ok(with_body(200, "application/json", Body::list(head, page.entries, form)));
    }
    let is_long = is_long(&page.entries);
    // Those who wait take their turns; not where a webhook is waited for, which may list something itself.
    let _turn = if is_long && !served.calls_out() { shared.lists.acquire().await.ok() } else { None };
    aside(is_long, || {
        let shown = shown_list(&shared.registry, served, &page, metadata, output.transform, include)?;
        Ok(value(200, &shown, output))
    })
}

/// A list whose objects are not sent as they are stored.
fn shown_list(
    registry: &Registry,
    served: &Served,
    page: &Page,
    metadata: Value,
    transform: Option<Transform>,
    include: Option<&str>,
) -> Result<Value, ApiError> {
    let mut objects: Vec<Object> = page.entries.iter().map(|entry| entry.object()).collect();
    served.read(&mut objects)?;
    let objects = objects.into_iter();
    Ok(match transform {
        None => {
            let items: Vec<Value> = objects
                .map(|object| {
                    let mut object = served.present(object);
                    if served.kind.custom().is_none() {
                        object.remove("kind");
                        object.remove("apiVersion");
                    }
                    Value::Object(object)
                })
                .collect();
            json!({
                "kind": format!("{}List", served.resource().kind),
                "apiVersion": served.api_version(),
                "metadata": metadata,
                "items": items,
            })
        }
        Some(Transform::Table(version)) => {
            let include = table::Include::parse(include)?;
            let now = registry.clock.now();
            let rows = objects.map(|object| table::row(served, &object, include, version, now)).collect();
            table::table(served, version, metadata, rows, true)
        }
        Some(Transform::PartialList(version)) => {
            let items: Vec<Value> = objects.map(|object| partial(served, &object, version)).collect();
            // Clients of the real server read this kind of list without items as null.
            let items = if items.is_empty() { Value::Null } else { Value::Array(items.into()) };
            json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": metadata,
                "items": items,
            })
        }
        Some(Transform::Partial(_)) => {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                go_type(served, "List")
            )));
        }
    })
}

/// Metadata only, of one object.
#[must_use]
pub fn partial(served: &Served, object: &Object, version: &str) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if let Some(hidden) = served.kind.hidden_annotation()
        && let Value::Object(metadata) = &mut metadata
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove(hidden);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let mut out = Map::new();
    out.insert("kind", json!("PartialObjectMetadata"));
    out.insert("apiVersion", json!(format!("meta.k8s.io/{version}")));
    out.insert("metadata", metadata);
    Value::Object(out)
}

fn list_metadata(version: Option<&Value>, token: Option<&str>, remaining: Option<usize>) -> Value {
    let mut metadata = Map::new();
    if let Some(version) = version {
        metadata.insert("resourceVersion", version.clone());
    }
    if let Some(token) = token {
        metadata.insert("continue", json!(token));
    }
    if let Some(remaining) = remaining {
        metadata.insert("remainingItemCount", json!(remaining));
    }
    Value::Object(metadata)
}

/// The name of the reference server's type, which one of its messages shows.
fn go_type(served: &Served, suffix: &str) -> String {
    if served.kind.custom().is_some() {
        return format!("unstructured.Unstructured{suffix}");
    }
    let resource = served.resource();
    let package = match &*resource.group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("{package}.{}{suffix}", resource.kind)
}

/// Adds `Warning` headers, each text once; what cannot stand in a header is left out.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut texts: Vec<&str> = Vec::new();
    for text in warnings.iter().map(String::as_str) {
        if !text.is_empty() && !text.chars().any(char::is_control) && seen.insert(text) {
            texts.push(text);
        }
    }
    let cut = texts.iter().map(|text| text.chars().count()).sum::<usize>() > MOST_WARNED;
    let mut written = 0;
    for text in texts {
        if written >= MOST_WARNED {
            break;
        }
        let mut header = "299 - \"".to_owned();
        for c in text.chars().take(if cut { CUT_WARNING } else { usize::MAX }) {
            if matches!(c, '"' | '\\') {
                header.push('\\');
            }
            header.push(c);
            written += 1;
        }
        header.push('"');
        if let Ok(value) = HeaderValue::from_bytes(header.as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
