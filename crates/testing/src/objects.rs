//! Objects that are there before anybody looks.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use muster_apiserver::ApiServer;
use muster_apiserver::model::Resource;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::error::Error;

/// Creates objects, definitions first and then namespaces, each with its status.
///
/// # Errors
/// [`Error::NoKind`] and [`Error::Refused`].
pub(crate) async fn create(server: &ApiServer, mut objects: Vec<Value>) -> Result<(), Error> {
    objects.sort_by_key(|object| match text(object, "/kind") {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        _ => 2,
    });
    for object in objects {
        let resource = resource(server, &object).ok_or_else(|| Error::NoKind { object: title(&object) })?;
        let collection = collection(&resource, text(&object, "/metadata/namespace"));
        let created = send(server, Method::POST, &collection, "application/json", &object).await?;
        let Some(status) = object.get("status").filter(|status| !status.is_null()) else { continue };
        // What has no such subresource was stored with its status.
        if created.get("status") != Some(status) && resource.kind != "CustomResourceDefinition" {
            let path = format!("{collection}/{}/status", text(&created, "/metadata/name"));
            let patch = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
                "metadata": object["metadata"], "status": status});
            send(server, Method::PATCH, &path, "application/merge-patch+json", &patch).await?;
        }
    }
    Ok(())
}

/// The resource of an object's kind.
fn resource(server: &ApiServer, object: &Value) -> Option<Resource> {
    let api_version = text(object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let catalogue = server.registry().catalogue();
    catalogue.of_kind(group, version, text(object, "/kind")).map(|served| served.resource().clone())
}

/// The path of the collection that an object belongs to.
fn collection(resource: &Resource, namespace: &str) -> String {
    let Resource { group, version, plural, .. } = resource;
    let version = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    match (resource.namespaced, namespace) {
        (false, _) => format!("{version}/{plural}"),
        (true, "") => format!("{version}/namespaces/default/{plural}"),
        (true, namespace) => format!("{version}/namespaces/{namespace}/{plural}"),
    }
}

/// Sends a write, and returns what it has made.
async fn send(server: &ApiServer, method: Method, path: &str, form: &str, object: &Value) -> Result<Value, Error> {
    let refused = |message: String| Error::Refused { object: title(object), message };
    let uri = format!("{path}?fieldManager=test&fieldValidation=Strict");
    let request = Request::builder().method(method).uri(uri).header("content-type", form);
    let request =
        request.body(Full::new(Bytes::from(object.to_string()))).map_err(|error| refused(error.to_string()))?;
    let Ok(answer) = server.service().oneshot(request).await;
    let refusal = !answer.status().is_success();
    let Ok(body) = answer.into_body().collect().await;
    let answer: Value = serde_json::from_slice(&body.to_bytes()).map_err(|error| refused(error.to_string()))?;
    if refusal { Err(refused(text(&answer, "/message").to_owned())) } else { Ok(answer) }
}

/// `v1 ConfigMap shop/settings`.
fn title(object: &Value) -> String {
    let place = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    format!("{} {} {place}{}", text(object, "/apiVersion"), text(object, "/kind"), text(object, "/metadata/name"))
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
