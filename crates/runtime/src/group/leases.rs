//! The requests about a group's Leases.

use std::time::Duration;

use bytes::Bytes;
use muster_machinery::group::ENDED;
use muster_machinery::{
    election::{Answer, Request},
    group::{Config, GROUP, Step},
};
use muster_objects::Lease;
use serde::Deserialize;
use serde_json::json;

use crate::client::{Client, ClientError, Form, Frames};

/// How long a watch is asked to last, in seconds.
const WATCH_SECONDS: u64 = 300;
/// The shortest time that a request may take, however short the renew deadline.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads and writes the Leases of one group.
#[derive(Clone)]
pub(super) struct Leases {
    client: Client,
    collection: String,
    selector: String,
    group: String,
    /// The name of the group's Lease.
    name: String,
    renew_deadline: Duration,
}

/// A list of Leases.
#[derive(Deserialize)]
pub(super) struct List {
    metadata: ListMeta,
    /// Null where there are none.
    pub(super) items: Option<Vec<Lease>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
}

impl List {
    pub(super) fn read(path: &str, body: &[u8]) -> Result<Self, ClientError> {
        muster_objects::json::from_slice(body).map_err(|error| unreadable(path, error))
    }
}

impl Leases {
    pub(super) fn new(client: Client, config: &Config) -> Self {
        let election = &config.election;
        Self {
            client,
            collection: format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", election.namespace),
            // What a label's value may have needs no escape, and neither does the slash of the key.
            selector: format!("labelSelector={GROUP}%3D{}", config.group),
            group: config.group.clone(),
            name: election.name.clone(),
            renew_deadline: election.renew_deadline,
        }
    }

    /// All Leases of the group as they are now, the Lease of the election if it is not among them, and the version of
    /// the list. `None` if one of that could not be read.
    pub(super) async fn list(&self) -> Option<(Vec<Lease>, Option<Lease>, String)> {
        let reading = async {
            let list = self.client.get(&format!("{}?{}", self.collection, self.selector)).await?.body;
            let list = List::read(&self.collection, &list)?;
            let (leases, version) = (list.items.unwrap_or_default(), list.metadata.resource_version);
            if leases.iter().any(|lease| lease.name() == self.name) {
                return Ok((leases, None, version));
            }
            let group = match self.client.get(&self.path(&self.name)).await {
                Ok(answer) => {
                    let lease = muster_objects::json::from_slice(&answer.body);
                    Some(lease.map_err(|error| unreadable(&self.collection, error))?)
                }
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error),
            };
            Ok((leases, group, version))
        };
        match tokio::time::timeout((self.renew_deadline / 2).max(LEAST_TIMEOUT), reading).await {
            Ok(Ok(read)) => Some(read),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the leases of the group were not read");
                None
            }
            Err(_) => {
                tracing::warn!("no answer about the leases of the group");
                None
            }
        }
    }

    /// Sends what a step asks for, and says about which Lease it was. Of a deletion [`Answer::NotFound`] says that the
    /// Lease is gone. `None` where there is no answer, or a refusal.
    pub(super) async fn write(&self, step: &Step) -> (String, Option<Answer>) {
        let (name, writing) = match step {
            Step::Write(Request::Create(lease)) => (lease.name(), Writing::Create(body(lease))),
            Step::Write(Request::Replace(lease)) => (lease.name(), Writing::Replace(body(lease))),
            Step::Delete(lease) => {
                let these = json!({"uid": lease.uid(), "resourceVersion": lease.resource_version()});
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": these});
                (lease.name(), Writing::Delete(Bytes::from(options.to_string())))
            }
            Step::Write(Request::Get) | Step::Open { .. } | Step::Close(_) | Step::Weigh => {
                return (String::new(), None);
            }
        };
        let (path, deletes) = (self.path(name), matches!(writing, Writing::Delete(_)));
        let sending = async {
            match writing {
                Writing::Create(body) => {
                    let created = self.client.post(&self.collection, body).await;
                    // It was not listed, and is there: a label is missing, or it is another group's. The group's own is read by
                    // its name, and can be a single leader's.
                    if name != self.name && created.as_ref().is_err_and(ClientError::is_already_exists) {
                        self.adopt(&path).await;
                    }
                    created
                }
                Writing::Replace(body) => self.client.put(&path, body).await,
                Writing::Delete(options) => self.client.delete(&path, Some(options)).await,
            }
        };
        let answer = match tokio::time::timeout((self.renew_deadline / 4).max(LEAST_TIMEOUT), sending).await {
            Ok(Ok(_)) if deletes => Some(Answer::NotFound),
            Ok(Ok(answer)) => {
                if let Step::Write(Request::Create(lease) | Request::Replace(lease)) = step
                    && lease.annotation(ENDED).is_some()
                {
                    tracing::info!(lease = name, "a member was silent for its lease's time, and its lease is ended");
                }
                muster_objects::json::from_slice(&answer.body).ok().map(Answer::Lease)
            }
            Ok(Err(error)) if deletes && error.is_not_found() => Some(Answer::NotFound),
            // That does not pass by itself, as when another member was faster.
            Ok(Err(error)) if matches!(error.code(), Some(403 | 422)) => {
                tracing::warn!(lease = name, %error, "a lease of the group must not be written");
                None
            }
            Ok(Err(error)) => {
                tracing::debug!(lease = name, %error, "a lease of the group was not written");
                None
            }
            Err(_) => {
                tracing::warn!(lease = name, "no answer about a lease of the group");
                None
            }
        };
        (name.to_owned(), answer)
    }

    /// Labels a Lease that has lost its label, without which nobody of the group sees it. One of another group is left.
    async fn adopt(&self, path: &str) {
        let labelling = async {
            let mut lease: Lease = muster_objects::json::from_slice(&self.client.get(path).await?.body)
                .map_err(|error| unreadable(path, error))?;
            match lease.label(GROUP) {
                None => {
                    tracing::warn!(lease = lease.name(), "a lease of the group has lost its label and gets it again");
                    lease.set_label(GROUP, &self.group);
                    self.client.put(path, body(&lease)).await.map(drop)
                }
                // Somebody has just made it.
                Some(group) if group == self.group => Ok(()),
                Some(group) => {
                    tracing::warn!(lease = lease.name(), group, "a lease of this name is of another group");
                    Ok(())
                }
            }
        };
        if let Err(error) = labelling.await {
            tracing::debug!(path, %error, "a lease was not labelled");
        }
    }

    /// A watch of the Leases from a version on.
    pub(super) async fn watch(&self, version: &str) -> Result<Frames, ClientError> {
        let Self { collection, selector, .. } = self;
        let path =
            format!("{collection}?{selector}&watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}");
        self.client.watch(&path, Form::Full).await
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }
}

fn unreadable(path: &str, error: serde_json::Error) -> ClientError {
    ClientError::Answer { method: http::Method::GET, path: path.to_owned(), source: Box::new(error) }
}

enum Writing {
    Create(Bytes),
    Replace(Bytes),
    Delete(Bytes),
}

fn body(lease: &Lease) -> Bytes {
    // A lease is made of strings, numbers and maps with string keys: there is nothing in it that has no JSON.
    Bytes::from(serde_json::to_vec(lease).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use muster_machinery::election;

    use super::*;
    use crate::script::server;

    /// A Lease that nobody sees for want of its label can be made by nobody: whoever tries labels it again.
    ///
    /// Contract: SH-02
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_lost_its_label_gets_it_again_and_one_of_another_group_is_left() {
        const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-blue-shard-000";
        for (label, labels) in [(None, true), (Some("blue"), false), (Some("green"), false)] {
            let (client, mut server) = server();
            let config = Config {
                election: election::Config::new("kube-system", "muster", "me".to_owned()),
                group: "blue".to_owned(),
                shards: 1,
            };
            let leases = Leases::new(client, &config);
            let lease = Lease::new("kube-system", "muster-blue-shard-000");
            let writing = tokio::spawn(async move { leases.write(&Step::Write(Request::Create(lease))).await.1 });
            server.next().await.refuse(409, "AlreadyExists", "it is there");
            let reading = server.next().await;
            assert_eq!((reading.method.as_str(), reading.path.as_str()), ("GET", LEASE));
            let mut there = Lease::new("kube-system", "muster-blue-shard-000");
            label.into_iter().for_each(|label| there.set_label(GROUP, label));
            reading.answer(200, serde_json::to_string(&there).unwrap());
            if labels {
                let labelling = server.next().await;
                assert_eq!((labelling.method.as_str(), labelling.path.as_str()), ("PUT", LEASE));
                let written: Lease = serde_json::from_slice(&labelling.body).unwrap();
                assert_eq!(written.label(GROUP), Some("blue"));
                labelling.answer(200, "{}");
            }
            assert_eq!(writing.await.unwrap(), None);
            assert!(server.try_next().await.is_none(), "{label:?}");
        }
    }
}
