//! The one trait by which controllers write to an API server.
//!
//! Every write of every controller is one of three requests, sent through [`Writer`]. Its implementations are a real
//! cluster or the embedded server ([`Client`] is both), a printer that writes nothing ([`DryRun`]), and a simulation
//! that adds faults.

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_controllers::plan::{Failure, PatchType, Resource, Written};
use muster_objects::meta::{ObjectKey, Uid};

use crate::client::{self, Client, ClientError, Form};

/// A write, as it is sent to the server.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// POST of an object.
    Create {
        /// Its kind.
        resource: &'a Resource,
        /// Where.
        namespace: &'a str,
        /// The object.
        body: &'a Bytes,
    },
    /// DELETE of one object.
    Delete {
        /// Its kind.
        resource: &'a Resource,
        /// Which.
        key: &'a ObjectKey,
        /// `DeleteOptions` with the preconditions.
        options: &'a Bytes,
    },
    /// PATCH of one object.
    Patch {
        /// Its kind.
        resource: &'a Resource,
        /// Which.
        key: &'a ObjectKey,
        /// `status`, or none for the object itself.
        subresource: Option<&'a str>,
        /// How the body is read.
        kind: PatchType,
        /// The patch.
        body: &'a Bytes,
    },
}

/// Sends a plan's writes to an API server. Calls may run concurrently.
pub trait Writer: Send + Sync + 'static {
    /// Sends one write, once, unless the server surely refused to look at it.
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>>;

    /// Reads one object, from the server and not from a cache: its JSON.
    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>>;
}

impl Writer for Client {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        Box::pin(async move {
            let written = match write {
                Write::Create { resource, namespace, body } => {
                    self.create(&resource.collection_path(namespace), body.clone()).await
                }
                Write::Delete { resource, key, options } => {
                    self.delete_metadata(&resource.path(&key.namespace, &key.name), options.clone()).await
                }
                Write::Patch { resource, key, subresource, kind, body } => {
                    let mut path = resource.path(&key.namespace, &key.name);
                    if let Some(subresource) = subresource {
                        path.push('/');
                        path.push_str(subresource);
                    }
                    self.patch_metadata(&path, patch_type(kind), body.clone()).await
                }
            };
            written
                .map(|written| Written {
                    name: written.name.into(),
                    uid: Uid::new(&written.uid),
                    resource_version: written.resource_version,
                })
                .map_err(|error| failure(&error))
        })
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        Box::pin(async move {
            let path = resource.path(&key.namespace, &key.name);
            // Of a pod a plan asks whether it is ready, too (B-02), and of all others for metadata.
            let form = if *resource == Resource::PODS { Form::Full } else { Form::Metadata };
            let answer = self.get_as(&path, form).await;
            answer.map(|answer| answer.body).map_err(|error| failure(&error))
        })
    }
}

fn patch_type(kind: PatchType) -> client::PatchType {
    match kind {
        PatchType::Strategic => client::PatchType::StrategicMerge,
        PatchType::Merge => client::PatchType::Merge,
        PatchType::Json => client::PatchType::Json,
    }
}

/// A client's error in the words that plans understand.
#[must_use]
pub fn failure(error: &ClientError) -> Failure {
    match error {
        ClientError::Api(api) => Failure {
            code: api.code,
            reason: api.reason.clone(),
            message: api.to_string(),
            causes: api.details.iter().flat_map(|details| &details.causes).map(|cause| cause.reason.clone()).collect(),
            retry_after: api.retry_after(),
            unanswered: false,
            never_sent: false,
        },
        ClientError::Configuration { .. } => Failure::local(error.to_string()),
        // The lease is held again or the process ends: a write that it held back is tried as soon as one that was lost.
        ClientError::Transport { .. } | ClientError::Answer { .. } | ClientError::Fenced { .. } => {
            Failure { never_sent: !error.may_have_been_received(), ..Failure::unanswered(error.to_string()) }
        }
    }
}

/// Reads for real and prints what would be written, one line each. Every write succeeds, and changes nothing.
pub struct DryRun<R> {
    reader: R,
    print: Box<dyn Fn(&str) + Send + Sync>,
}

impl<R: Writer> DryRun<R> {
    /// Reads through `reader`, gives each line to `print`.
    pub fn new(reader: R, print: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { reader, print: Box::new(print) }
    }
}

impl<R: Writer> Writer for DryRun<R> {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        let (line, name) = match write {
            Write::Create { resource, namespace, body } => {
                let body = String::from_utf8_lossy(body);
                (format!("create {resource} in {namespace}: {body}"), "(not created)".into())
            }
            Write::Delete { resource, key, options } => {
                let options = String::from_utf8_lossy(options);
                (format!("delete {resource} {key}: {options}"), key.name.clone())
            }
            Write::Patch { resource, key, subresource, body, .. } => {
                let of = subresource.map(|subresource| format!("{subresource} of ")).unwrap_or_default();
                let body = String::from_utf8_lossy(body);
                (format!("patch {of}{resource} {key}: {body}"), key.name.clone())
            }
        };
        (self.print)(&line);
        Box::pin(std::future::ready(Ok(Written { name, uid: Uid::default(), resource_version: None })))
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        self.reader.read(resource, key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::script::server;

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_reads_for_real_and_only_prints_its_writes() {
        let (client, mut server) = server();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let printed = Arc::clone(&lines);
        let dry = DryRun::new(client, move |line| printed.lock().unwrap().push(line.to_owned()));
        let (pods, key, body) = (Resource::PODS, ObjectKey::new("ns", "a"), Bytes::from_static(b"{}"));
        dry.write(Write::Create { resource: &pods, namespace: "ns", body: &body }).await.unwrap();
        dry.write(Write::Delete { resource: &pods, key: &key, options: &body }).await.unwrap();
        let status = Some("status");
        let kind = PatchType::Merge;
        dry.write(Write::Patch { resource: &pods, key: &key, subresource: status, kind, body: &body }).await.unwrap();
        assert!(server.try_next().await.is_none());
        let expected = ["create Pod in ns: {}", "delete Pod ns/a: {}", "patch status of Pod ns/a: {}"];
        assert_eq!(*lines.lock().unwrap(), expected);

        let read = tokio::spawn(async move { dry.read(&Resource::PODS, &ObjectKey::new("ns", "a")).await });
        let asked = server.next().await;
        assert_eq!((asked.method.as_str(), &*asked.path), ("GET", "/api/v1/namespaces/ns/pods/a"));
        asked.answer(200, "{\"x\":1}");
        assert_eq!(read.await.unwrap().unwrap(), "{\"x\":1}");
    }

    /// Whether a pod is ready is not among its metadata.
    ///
    /// Contract: B-02
    #[tokio::test(start_paused = true)]
    async fn a_pod_is_read_in_full_and_an_owner_by_its_metadata() {
        for (resource, partial) in [(Resource::PODS, false), (Resource::REPLICA_SETS, true)] {
            let (client, mut server) = server();
            let read = tokio::spawn(async move { client.read(&resource, &ObjectKey::new("ns", "a")).await.map(drop) });
            let asked = server.next().await;
            let accept = asked.headers[http::header::ACCEPT].to_str().unwrap();
            assert_eq!(accept.contains("as=PartialObjectMetadata"), partial, "{accept}");
            asked.answer(200, "{}");
            assert_eq!(read.await.unwrap(), Ok(()));
        }
    }

    #[test]
    fn a_refusal_keeps_what_plans_ask_for() {
        let api: crate::client::ApiError = serde_json::from_str(
            r#"{"code":403,"reason":"Forbidden","message":"no","details":{"retryAfterSeconds":4,"causes":[{"reason":"NamespaceTerminating"}]}}"#,
        )
        .unwrap();
        let found = failure(&ClientError::Api(Box::new(api)));
        assert!(found.is_namespace_terminating());
        assert_eq!(found.retry_after, Some(std::time::Duration::from_secs(4)));
        assert_eq!((found.code, &*found.message), (403, "no"));
    }
}
