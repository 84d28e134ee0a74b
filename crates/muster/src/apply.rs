//! Applying manifests to the embedded server, before anybody else can see it: all of them or none.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use muster_apiserver::kinds;
use muster_apiserver::model::{Model, Resource};
use muster_runtime::client::{Client, ClientError, PatchType};
use serde::Serialize;
use serde_json::Value;

use crate::manifest::Document;

/// An object that the server has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Applied {
    /// Its kind, such as `ReplicaSet`.
    pub(crate) kind: String,
    /// Its namespace; empty for an object of the cluster.
    pub(crate) namespace: String,
    /// Its name as the server stored it.
    pub(crate) name: String,
    /// The URL path of the object.
    #[serde(skip)]
    pub(crate) path: String,
    /// Whether its kind is one that a definition brings, whatever its name is.
    #[serde(skip)]
    pub(crate) is_custom: bool,
}

impl Applied {
    /// For a sentence: `ReplicaSet shop/web`.
    pub(crate) fn title(&self) -> String {
        if self.namespace.is_empty() {
            format!("{} {}", self.kind, self.name)
        } else {
            format!("{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// The kind that brings kinds, and where its objects are.
const DEFINITION: &str = "CustomResourceDefinition";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates every object, namespaces first, then definitions of kinds, which objects of any document may be of. One that is
/// there already, where the cluster goes on with what was kept, is merged with what the document says.
///
/// # Errors
/// One error that lists what is wrong with each document that the server refused. The caller then ends the
/// server, which nobody has seen, so that nothing stays half applied.
pub(crate) async fn apply(client: &Client, documents: Vec<Document>, goes_on: bool) -> Result<Vec<Applied>> {
    let mut defined: Vec<Resource> =
        documents.iter().filter(|one| one.text("/kind") == DEFINITION).flat_map(|one| kinds_of(&one.value)).collect();
    if goes_on {
        let kept = client.get(DEFINITIONS).await.context("the kinds that were kept")?;
        let kept: Value = serde_json::from_slice(&kept.body).context("the kinds that were kept")?;
        defined.extend(kept["items"].as_array().into_iter().flatten().flat_map(kinds_of));
    }
    let mut errors = Vec::new();
    let mut objects = Vec::new();
    for document in documents {
        match resource(&document, &defined) {
            Ok(found) => objects.push((found, document)),
            Err(error) => errors.push(error),
        }
    }
    report(&errors)?;

    // As a person would: a file may name the namespace that it also creates further down.
    objects.sort_by_key(|((resource, _), _)| match &*resource.kind {
        "Namespace" => 0,
        DEFINITION => 1,
        _ => 2,
    });
    let mut applied = Vec::new();
    for (found, document) in objects {
        match create(client, &found, &document, goes_on).await {
            Ok(object) => applied.push(object),
            Err(error) => errors.push(error),
        }
    }
    report(&errors)?;
    Ok(applied)
}

/// Fails with everything that was found.
fn report(errors: &[String]) -> Result<()> {
    match errors.len() {
        0 => Ok(()),
        1 => bail!("{}; nothing was applied", errors[0]),
        many => bail!("{many} objects were refused, nothing was applied:\n  {}", errors.join("\n  ")),
    }
}

/// What a CustomResourceDefinition has served. What is wrong with it, the server says.
fn kinds_of(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = |version: &Value| {
        let (group, version) = (text(&spec["group"]), text(&version["name"]));
        let (kind, plural) = (text(&spec["names"]["kind"]), text(&spec["names"]["plural"]));
        match spec["scope"].as_str() {
            Some("Cluster") => Resource::cluster(group, version, kind, plural),
            _ => Resource::namespaced(group, version, kind, plural),
        }
    };
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["served"] != false).map(resource).collect()
}

/// The resource that serves a document's kind: one of the server's own, or, where the flag is set, of those that are defined.
fn resource(document: &Document, defined: &[Resource]) -> Result<(Resource, bool), String> {
    let (group, version) = match document.text("/apiVersion").split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", document.text("/apiVersion")),
    };
    let kind = document.text("/kind");
    let kinds = kinds::all();
    let own = || kinds.iter().map(|kind| kind.resource());
    let all = || own().map(|resource| (resource, false)).chain(defined.iter().map(|resource| (resource, true)));
    if let Some((found, is_custom)) = all().find(|(r, _)| r.model() == Model { group, version, kind }) {
        return Ok((found.clone(), is_custom));
    }
    let line = document.place_of("kind");
    if let Some((other, _)) = all().find(|(r, _)| r.kind == kind) {
        let place = document.place_of("apiVersion");
        let expected = other.api_version();
        return Err(format!(
            "{place}: apiVersion: found {:?} for kind {kind}, expected {expected:?}",
            document.text("/apiVersion")
        ));
    }
    let mut known: Vec<&str> = all().map(|(r, _)| &*r.kind).collect();
    known.sort_unstable();
    Err(format!(
        "{line}: kind: found {kind:?}, which this server does not know, and no {DEFINITION} defines; expected one of {}",
        known.join(", ")
    ))
}

/// Creates one object, or says where in its file the fault lies.
async fn create(
    client: &Client,
    (resource, is_custom): &(Resource, bool),
    document: &Document,
    goes_on: bool,
) -> Result<Applied, String> {
    let namespace = match (resource.namespaced, document.text("/metadata/namespace")) {
        (false, _) => "",
        (true, "") => "default",
        (true, given) => given,
    };
    let mut collection = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if !namespace.is_empty() {
        collection.push_str(&format!("/namespaces/{namespace}"));
    }
    collection.push_str(&format!("/{}", resource.plural));
    let body = Bytes::from(document.value.to_string());
    let options = "?fieldValidation=Strict&fieldManager=muster";
    let mut answer = client.post(&format!("{collection}{options}"), body.clone()).await;
    if goes_on && answer.as_ref().is_err_and(ClientError::is_already_exists) {
        let path = format!("{collection}/{}{options}", document.text("/metadata/name"));
        answer = client.patch(&path, PatchType::Merge, body).await;
    }
    let answer = answer.map_err(|error| refusal(document, &error))?;
    let stored: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let name = stored.pointer("/metadata/name").and_then(|n| n.as_str()).unwrap_or_default().to_owned();
    Ok(Applied {
        kind: resource.kind.to_string(),
        namespace: namespace.to_owned(),
        path: format!("{collection}/{name}"),
        name,
        is_custom: *is_custom,
    })
}

/// The server's refusal with the file, document, line and field it is about.
fn refusal(document: &Document, error: &ClientError) -> String {
    let message = error.api().map_or_else(|| error.to_string(), |api| api.message.clone());
    let field = error
        .api()
        .and_then(|api| api.details.as_ref())
        .and_then(|details| details.causes.iter().map(|c| c.field.clone()).find(|f| !f.is_empty()))
        .or_else(|| field_in(&message));
    let place = field.map_or_else(|| document.place.clone(), |field| document.place_of(&field));
    format!("{place}: {}: {message}", document.title())
}

/// The field that a decoding error names: `unknown field "spec.nope"`, or Go's `struct field X.spec.replicas of type`.
fn field_in(message: &str) -> Option<String> {
    if let Some((_, rest)) = message.split_once("field \"") {
        return rest.split('"').next().map(str::to_owned);
    }
    let (_, rest) = message.split_once("struct field ")?;
    let path = rest.split(' ').next()?;
    path.split_once('.').map(|(_, field)| field.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_a_decoding_error_is_found() {
        for (message, field) in [
            ("strict decoding error: unknown field \"spec.nope\", unknown field \"x\"", Some("spec.nope")),
            (
                "json: cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32",
                Some("spec.replicas"),
            ),
            ("something else", None),
        ] {
            assert_eq!(field_in(message).as_deref(), field, "{message}");
        }
    }
}
