//! Quotas: what a ResourceQuota's namespace uses, summed up anew when something may have become free (API-21).
//!
//! ```text
//!   an object went, a pod ended, a quota changed --> quotas of the namespace that track it --> queue
//!                                                                                               |
//!                  status.hard, status.used <-- sum_up <-- what the server lists, kind by kind <-+
//! ```
//!
//! It is the `resourcequota-controller` of kube-controller-manager. What is new is added by the server when it admits
//! it, so only what may lower a sum has one made anew; as upstream, each is made anew every five minutes besides. Sums
//! are made of lists, which are as new as can be, so that nothing of the objects is kept here.

mod sums;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use muster_apiserver::quota::{Evaluator, ResourceList};
use muster_machinery::{Cache, Change};
use muster_objects::{ObjectKey, Timestamp};
use muster_runtime::client::{Client, ClientError, Form};
use muster_runtime::informer::{Store, WatchedResource};
use muster_runtime::workers::Queue;
use muster_tree::{Map, Value};
use serde::Deserialize;
use tokio::sync::watch;

use self::sums::{Sums, decide};
use crate::control::{Again, Body, ByNamespace, Control, Frame, Slim, Trouble, Writes};
use crate::json::or_default;
use crate::kinds::{Kind, Kinds};
use crate::pod::Pod;

/// How many quotas are synced at once.
const WORKERS: usize = 5;
/// How long after a sync the next one is due though nothing was seen to change.
const RESYNC: Duration = Duration::from_secs(300);
/// Objects in one page of a list.
const PAGE: usize = 500;

fn quotas() -> WatchedResource {
    WatchedResource::new("", "v1", "resourcequotas")
}

/// Sets up the `resourcequota-controller`.
pub(crate) fn keep_quotas(frame: &mut Frame<'_>) {
    if !frame.serves(&quotas()) {
        return;
    }
    let (client, kinds) = (frame.client.clone(), frame.kinds.clone());
    let mut setup = frame.controller("resourcequota_primary");
    let quotas = setup.watch::<Slim<Quota>>(&quotas(), |change, queue| match change {
        // Its status is written here, and by the server.
        Change::Updated { old, new } if old.meta.uid == new.meta.uid && old.body.spec == new.body.spec => {}
        change => queue.add([change.object().meta.key()]),
    });
    let seen = quotas.clone();
    setup.watch::<Pod>(&WatchedResource::pods(), move |change, queue: &Queue| {
        if frees(change) {
            queue.add(tracking(&seen.read(), &change.object().meta.namespace, &Evaluator::Pods));
        }
    });
    let (seen, queue) = (quotas.clone(), setup.queue.clone());
    setup.everything(move |kind, batch| {
        let (group, plural) = (&kind.resource.group, &kind.resource.plural);
        let Some(evaluator) = Evaluator::of(group, plural).filter(|_| kind.namespaced) else { return };
        // Of these a change may lower a sum as well.
        let changes = matches!(evaluator, Evaluator::Services | Evaluator::Claims);
        for change in batch.iter() {
            if changes && matches!(change, Change::Updated { .. }) || matches!(change, Change::Deleted { .. }) {
                let keys = tracking(&seen.read(), &change.object().meta.namespace, &evaluator);
                if !keys.is_empty() {
                    queue.add(keys);
                }
            }
        }
    });
    setup.run(WORKERS, QuotaControl { client, kinds, quotas });
}

/// Whether a change of a pod may lower what its namespace uses.
fn frees(change: &Change<Pod>) -> bool {
    match change {
        Change::Added(_) => false,
        Change::Deleted { .. } => true,
        Change::Updated { old, new } => {
            old.meta.uid != new.meta.uid
                || !old.is_terminal() && new.is_terminal()
                || old.spec.requests != new.spec.requests
                || old.spec.active_deadline.is_some() != new.spec.active_deadline.is_some()
        }
    }
}

/// The quotas of a namespace that track what an evaluator measures.
fn tracking(quotas: &Cache<Slim<Quota>>, namespace: &Arc<str>, evaluator: &Evaluator) -> Vec<ObjectKey> {
    let tracks = |quota: &&Arc<Slim<Quota>>| {
        let hard = quota.body.status.hard.as_ref().or(quota.body.spec.hard());
        hard.is_some_and(|hard| hard.keys().any(|name| evaluator.tracks(name)))
    };
    ByNamespace::of(quotas, namespace).filter(tracks).map(|quota| quota.meta.key()).collect()
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Quota {
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

/// What is limited, and of which objects.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
struct Spec(Map);

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    hard: Option<Map>,
    used: Option<Map>,
}

impl Spec {
    fn hard(&self) -> Option<&Map> {
        self.0.get("hard").and_then(Value::as_object)
    }
}

impl Body for Quota {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceQuota";
    type Indexes = ByNamespace;
}

struct QuotaControl {
    client: Client,
    kinds: watch::Receiver<Arc<Kinds>>,
    quotas: Store<Slim<Quota>>,
}

impl Control for QuotaControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(quota) = self.quotas.read().get(key).cloned() else { return Ok(Again::Never) };
            let (sums, failed) = self.sum_up(&quota, &key.namespace).await;
            if let Some(status) = decide(&quota, &sums) {
                let path = format!("{}/status", quotas().object(Some(&key.namespace), &key.name));
                Writes { client: &self.client, store: &self.quotas }.merge(&path, &status).await?;
            }
            match failed {
                Some(error) => Err(error.into()),
                None => Ok(Again::After(RESYNC)),
            }
        })
    }
}

impl QuotaControl {
    /// What the namespace uses of what the quota limits, as far as it could be listed, and why not all of it.
    async fn sum_up(&self, quota: &Slim<Quota>, namespace: &str) -> (Sums, Option<ClientError>) {
        let (mut sums, mut failed) = (Sums::of(&quota.body.spec), None);
        let kinds = self.kinds.borrow().clone();
        let now = self.client.server_now();
        for kind in kinds.iter().filter(|kind| kind.namespaced && kind.preferred && kind.collectable) {
            let Some(evaluator) = Evaluator::of(&kind.resource.group, &kind.resource.plural) else { continue };
            if !sums.begins(&evaluator) {
                continue;
            }
            let used = match &evaluator {
                Evaluator::Count(names) if sums.scopes.is_empty() => {
                    self.count(kind, namespace).await.map(|count| ResourceList::of_counts(names, count))
                }
                Evaluator::Count(_) => Ok(ResourceList::default()),
                _ => self.measure(kind, namespace, &evaluator, &sums, now).await,
            };
            match used {
                Ok(used) => sums.add(&used),
                Err(error) => {
                    sums.exclude(&evaluator);
                    failed = Some(error);
                }
            }
        }
        (sums, failed)
    }

    /// How many objects of a kind a namespace has.
    async fn count(&self, kind: &Kind, namespace: &str) -> Result<u64, ClientError> {
        let path = format!("{}?limit=1", kind.resource.collection(Some(namespace)));
        let page: Page = self.page(&path, Form::MetadataList).await?;
        Ok(page.metadata.remaining_item_count.unwrap_or(0) + u64::try_from(page.items.len()).unwrap_or(0))
    }

    /// What the objects of a kind in a namespace use, of those within the scopes.
    async fn measure(
        &self,
        kind: &Kind,
        namespace: &str,
        evaluator: &Evaluator,
        sums: &Sums,
        now: Timestamp,
    ) -> Result<ResourceList, ClientError> {
        let mut used = ResourceList::default();
        let mut token = String::new();
        loop {
            let path = format!("{}?limit={PAGE}{token}", kind.resource.collection(Some(namespace)));
            let page: Page = self.page(&path, Form::Full).await?;
            let within = page.items.iter().filter(|object| evaluator.is_in(&sums.scopes, object));
            within.for_each(|object| used.add(&evaluator.usage(object, now)));
            match page.metadata.next.filter(|next| !next.is_empty()) {
                // The server's tokens are of letters that a query takes as they are.
                Some(next) => token = format!("&continue={next}"),
                None => return Ok(used),
            }
        }
    }

    async fn page(&self, path: &str, form: Form) -> Result<Page, ClientError> {
        let answer = self.client.get_as(path, form).await?;
        serde_json::from_slice(&answer.body).map_err(|source| ClientError::Answer {
            method: http::Method::GET,
            path: path.to_owned(),
            source: Box::new(source),
        })
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default, deserialize_with = "or_default")]
    metadata: PageMeta,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Map>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<u64>,
}
