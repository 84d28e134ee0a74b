//! Emptying a namespace that is being deleted, and letting it go.

use std::collections::BTreeMap;

use bytes::Bytes;
use muster_objects::Timestamp;
use muster_runtime::client::{Client, ClientError, Form};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Step;
use crate::json::or_default;
use crate::kinds::{Kind, Kinds};

/// The finalizer in a namespace's spec that stands for its content.
const FINALIZER: &str = "kubernetes";

/// What is left in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Objects by resource, as `plural.group`.
    pub(super) objects: BTreeMap<String, usize>,
    /// How many objects each finalizer keeps.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    pub(super) errors: Vec<String>,
}

impl Remains {
    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.errors.is_empty()
    }
}

/// One pass over a terminating namespace.
pub(super) async fn step(client: &Client, kinds: &Kinds, name: &str) -> Step {
    match pass(client, kinds, name).await {
        Ok(step) => step,
        Err(error) if error.is_not_found() => Step::Done,
        Err(error) => {
            tracing::debug!(namespace = name, %error, "a namespace is not emptied yet");
            Step::Failed
        }
    }
}

async fn pass(client: &Client, kinds: &Kinds, name: &str) -> Result<Step, ClientError> {
    let path = format!("/api/v1/namespaces/{name}");
    let mut namespace = read(client, &path).await?;
    if namespace["metadata"]["deletionTimestamp"].is_null() || !finalizers(&namespace).contains(&FINALIZER) {
        return Ok(Step::Done);
    }
    if namespace["status"]["phase"] != "Terminating" {
        namespace["status"] = json!({"phase": "Terminating"});
        let body = Bytes::from(namespace.to_string());
        namespace = parse(&path, &client.put(&format!("{path}/status"), body).await?.body)?;
    }

    let remains = empty(client, kinds, name).await;
    if !remains.is_empty() || !namespace["status"]["conditions"].is_null() {
        report(client, &path, &mut namespace, &remains).await;
    }
    if !remains.errors.is_empty() {
        tracing::debug!(namespace = name, errors = ?remains.errors, "some content cannot be deleted");
        return Ok(Step::Failed);
    }
    if !remains.objects.is_empty() {
        return Ok(Step::Wait);
    }

    let kept: Vec<String> = finalizers(&namespace).into_iter().filter(|f| *f != FINALIZER).map(str::to_owned).collect();
    namespace["spec"]["finalizers"] = json!(kept);
    // Without a version: whatever else was written to it, the content is gone and can only go.
    if let Some(metadata) = namespace["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    client.put(&format!("{path}/finalize"), Bytes::from(namespace.to_string())).await?;
    Ok(Step::Done)
}

/// Deletes everything, pods before anything else, and says what is still there.
async fn empty(client: &Client, kinds: &Kinds, name: &str) -> Remains {
    let mut remains = Remains::default();
    let content = |kind: &&Kind| kind.namespaced && kind.preferred && kind.deletable;
    let is_pod = |kind: &Kind| &*kind.kind == "Pod" && kind.resource.group.is_empty();
    for kind in kinds.iter().filter(content).filter(|kind| is_pod(kind)) {
        delete_all(client, kind, name, &mut remains).await;
    }
    if remains.objects.is_empty() {
        for kind in kinds.iter().filter(content).filter(|kind| !is_pod(kind)) {
            delete_all(client, kind, name, &mut remains).await;
        }
    }
    remains
}

async fn delete_all(client: &Client, kind: &Kind, namespace: &str, remains: &mut Remains) {
    if let Err(error) = try_delete_all(client, kind, namespace, remains).await {
        // A kind that is served no more has no objects.
        if !error.is_not_found() {
            remains.errors.push(error.to_string());
        }
    }
}

async fn try_delete_all(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    remains: &mut Remains,
) -> Result<(), ClientError> {
    let path = kind.resource.collection(Some(namespace));
    // Most kinds have nothing in most namespaces: looking is cheaper than deleting.
    let mut left = list(client, &path).await?;
    if left.is_empty() {
        return Ok(());
    }
    let options = Bytes::from_static(br#"{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}"#);
    if kind.delete_collection {
        client.delete(&path, Some(options)).await?;
    } else {
        for object in &left {
            match client.delete(&format!("{path}/{}", object.name), Some(options.clone())).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
    }
    left = list(client, &path).await?;
    if left.is_empty() {
        return Ok(());
    }
    for finalizer in left.iter().flat_map(|object| &object.finalizers) {
        *remains.finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    remains.objects.insert(format!("{}.{}", kind.resource.plural, kind.resource.group), left.len());
    Ok(())
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    #[serde(default)]
    finalizers: Vec<String>,
}

async fn list(client: &Client, path: &str) -> Result<Vec<Listed>, ClientError> {
    #[derive(Deserialize)]
    struct List {
        // An empty list of metadata has `null` for its items, as the reference writes it.
        #[serde(default, deserialize_with = "or_default")]
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: Listed,
    }
    let answer = client.get_as(path, Form::MetadataList).await?;
    let list: List = serde_json::from_slice(&answer.body).map_err(|error| unreadable(path, error))?;
    Ok(list.items.into_iter().map(|item| item.metadata).collect())
}

/// Writes what is left into the namespace's conditions; a person may wonder what it waits for.
async fn report(client: &Client, path: &str, namespace: &mut Value, remains: &Remains) {
    let conditions = conditions(&namespace["status"]["conditions"], remains, client.server_now());
    let Some(conditions) = conditions else { return };
    namespace["status"]["conditions"] = conditions;
    let body = Bytes::from(namespace.to_string());
    match client.put(&format!("{path}/status"), body).await {
        Ok(answer) => {
            if let Ok(updated) = parse(path, &answer.body) {
                *namespace = updated;
            }
        }
        // The next pass says it again.
        Err(error) => tracing::debug!(path, %error, "a namespace's conditions were not written"),
    }
}

/// The conditions as they should be, if they are not so already.
pub(super) fn conditions(old: &Value, remains: &Remains, now: Timestamp) -> Option<Value> {
    let joined = |map: &BTreeMap<String, usize>, phrase: &str| {
        let phrases: Vec<String> =
            map.iter().map(|(key, count)| format!("{key} {phrase} {count} resource instances")).collect();
        phrases.join(", ")
    };
    let mut errors = remains.errors.clone();
    errors.sort();
    let failed = (!errors.is_empty())
        .then(|| format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", ")));
    let content = (!remains.objects.is_empty())
        .then(|| format!("Some resources are remaining: {}", joined(&remains.objects, "has")));
    let finalizers = (!remains.finalizers.is_empty()).then(|| {
        format!("Some content in the namespace has finalizers remaining: {}", joined(&remains.finalizers, "in"))
    });
    let table = [
        ("NamespaceDeletionDiscoveryFailure", "", None, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeletionFailed",
            failed,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            content,
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            finalizers,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let empty = Vec::new();
    let old = old.as_array().unwrap_or(&empty);
    let mut changed = false;
    let mut new: Vec<Value> = old.clone();
    for (kind, bad_reason, bad, good_reason, good) in table {
        let (status, reason, message) = match bad {
            Some(message) => ("True", bad_reason, message),
            None => ("False", good_reason, good.to_owned()),
        };
        let before = new.iter_mut().find(|condition| condition["type"] == kind);
        let mut time = json!(now.to_string());
        if let Some(before) = &before {
            if before["status"] == status && before["reason"] == reason && before["message"] == message.as_str() {
                continue;
            }
            if before["status"] == status {
                time = before["lastTransitionTime"].clone();
            }
        }
        let condition =
            json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message});
        changed = true;
        match before {
            Some(before) => *before = condition,
            None => new.push(condition),
        }
    }
    changed.then_some(Value::Array(new))
}

fn finalizers(namespace: &Value) -> Vec<&str> {
    namespace["spec"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

async fn read(client: &Client, path: &str) -> Result<Value, ClientError> {
    parse(path, &client.get(path).await?.body)
}

fn parse(path: &str, body: &[u8]) -> Result<Value, ClientError> {
    serde_json::from_slice(body).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &str, error: serde_json::Error) -> ClientError {
    ClientError::Answer { method: http::Method::GET, path: path.to_owned(), source: Box::new(error) }
}
