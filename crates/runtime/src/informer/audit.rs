//! The audit: compares the cache with the server, and so finds lost watch events (B-07).
//!
//! A watch does not report an event that it lost, and later events need not show it: the pod whose deletion was lost
//! stays in the cache, and its ReplicaSet has one pod too few for good. At each resync, the server's metadata is listed
//! page by page, at one version. The list and the cache at that version are compared by a [`Digest`], so that neither
//! is held twice. If they differ although the watch has reached that version, or if it has not within [`CATCH_UP`],
//! everything is listed again.
//!
//! An audit that fails has no effect: the next resync brings another.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use muster_machinery::Cached;
use muster_objects::{
    DecodeError, Uid, json,
    meta::ResourceVersion,
    protobuf::{Fields, Malformed},
    stream::ListPage,
};
use serde::Deserialize;
use tokio::sync::watch;

use super::{
    Store, WatchedResource,
    audit_state::{AuditState, Digest, Finding},
    ranged::{Parts, namespaces, parts},
    reflector::{Ended, PAGE},
    resource::Page,
    shared_watch::SharedWatch,
    versions::Versions,
};
use crate::{
    client::{Client, ClientError, Encoding, Form},
    metrics::Metrics,
};

/// The pause between two pages: the list is not urgent, and the server has other clients.
const BETWEEN_PAGES: Duration = Duration::from_millis(100);
/// How long the watch may take to deliver what the list has and the cache has not. Servers send a bookmark each minute,
/// and a broken watch is opened again after half a minute at most.
pub(super) const CATCH_UP: Duration = Duration::from_secs(180);

/// Audits one store, whenever its audit_state is opened.
pub(super) struct Auditor<T: Cached> {
    pub(super) client: Client,
    pub(super) resource: WatchedResource,
    /// Of a range: the watch that it shares with others.
    pub(super) shared: Option<Arc<SharedWatch>>,
    pub(super) store: Store<T>,
    pub(super) audit_state: Arc<watch::Sender<AuditState>>,
    pub(super) metrics: Option<Metrics>,
}

/// Why the server's side could not be had.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Refused(#[from] ClientError),
    #[error(transparent)]
    Namespaces(#[from] Ended),
    #[error("a page cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("the first page is as of version {first}, and a later one as of {later}")]
    Torn { first: ResourceVersion, later: ResourceVersion },
}

/// The server's side.
struct Listed {
    digest: Digest,
    /// The newest of its parts.
    version: ResourceVersion,
}

impl<T: Cached> Auditor<T> {
    /// Audits while it is polled.
    pub(super) async fn run(self) -> Infallible {
        let mut audit_state = self.audit_state.subscribe();
        if let Some(metrics) = &self.metrics {
            metrics.audits(&self.resource.plural);
        }
        loop {
            // The sender lives as long as this auditor does.
            let _ = audit_state.wait_for(AuditState::is_open).await;
            if !self.audit().await {
                self.audit_state.send_replace(AuditState::Closed);
                continue;
            }
            self.audit_state.send_replace(AuditState::Correcting);
            self.store.read_anew().await;
        }
    }

    /// Whether everything has to be listed again.
    async fn audit(&self) -> bool {
        let resource = &*self.resource.plural;
        let listed = match self.list().await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(resource, %error, "the audit of the cache was given up");
                return false;
            }
        };
        let verdict = self.compare(listed.digest).await;
        let differs = matches!(verdict, Finding::Differs { .. });
        if let (Some(metrics), Finding::Agrees | Finding::Differs { .. }) = (&self.metrics, verdict) {
            metrics.audited(&self.resource.plural, differs);
        }
        let (version, objects) = (listed.version, listed.digest.objects());
        match verdict {
            Finding::Agrees => tracing::debug!(resource, %version, objects, "the cache is what the server has"),
            Finding::Overtaken => tracing::debug!(resource, %version, "the audit of the cache was overtaken by a list"),
            Finding::Differs { cached, reached } => tracing::warn!(
                resource,
                %version,
                listed = objects,
                cached,
                watch_reached_it = reached,
                "the cache differs from what the server has, reading everything anew"
            ),
        }
        differs
    }

    /// Reads the server's side page by page, without holding it.
    async fn list(&self) -> Result<Listed, Failure> {
        let parts = match (self.resource.range, &self.shared) {
            (Some(_), Some(shared)) => {
                // One that goes before the others are listed had something at the version as of which they are compared.
                let before = namespaces(&self.client, &self.resource).await.unwrap_or_default();
                match parts(&self.client, &self.resource, shared.state.shards()).await? {
                    Parts::Namespaces(names, version) => {
                        let names: BTreeSet<String> = before.into_iter().chain(names).collect();
                        Parts::Namespaces(names.into_iter().collect(), version)
                    }
                    one => one,
                }
            }
            _ => Parts::One(self.resource.clone()),
        };
        let as_of = |versions| self.audit_state.send_modify(|audit_state| audit_state.compare_as_of(versions));
        let mut digest = Digest::default();
        let (names, version) = match parts {
            Parts::One(resource) => {
                // From the first page on, so that no more changes than those before it have to be kept.
                let begun = |version| as_of(Versions::one(version));
                let version = self.list_into(&resource, None, &mut digest, begun).await?;
                return Ok(Listed { digest, version });
            }
            Parts::Namespaces(names, version) => (names, version),
        };
        let mut versions = Versions::one(version);
        for name in names {
            tokio::time::sleep(BETWEEN_PAGES).await;
            let listed = self.list_into(&self.resource.of_namespace(&name), Some(version), &mut digest, |_| {}).await?;
            versions.set(&name, listed);
        }
        let version = versions.newest();
        as_of(versions);
        Ok(Listed { digest, version })
    }

    /// Adds a list to `digest`, and calls `begun` with its version once that is known.
    async fn list_into(
        &self,
        resource: &WatchedResource,
        not_older: Option<ResourceVersion>,
        digest: &mut Digest,
        begun: impl Fn(ResourceVersion),
    ) -> Result<ResourceVersion, Failure> {
        let mut first: Option<ResourceVersion> = None;
        let mut next = Page::first(not_older);
        loop {
            let path = resource.list(PAGE, &next);
            let answer = match self.client.get_in(&path, Form::MetadataList, Encoding::Protobuf).await {
                Err(error) if next.is_behind(&error) => {
                    next = Page::First;
                    continue;
                }
                answer => answer?,
            };
            let encoding = answer.encoding();
            let page = match encoding {
                Encoding::Json => ListPage::decode(&answer.body)?,
                Encoding::Protobuf => ListPage::decode_protobuf(&answer.body)?,
            };
            let version = page.resource_version;
            let first = *first.get_or_insert_with(|| {
                begun(version);
                version
            });
            if first != version {
                return Err(Failure::Torn { first, later: version });
            }
            for item in &page.items {
                let Identity { namespace, uid, resource_version } = identity(encoding, item)?;
                if self.resource.range.is_none_or(|range| range.has_namespace(&namespace)) {
                    digest.add(&uid, resource_version);
                }
            }
            match page.continue_token {
                Some(token) => next = Page::After(token),
                None => return Ok(version),
            }
            tokio::time::sleep(BETWEEN_PAGES).await;
        }
    }

    /// Compares, and waits for the watch if it may be behind.
    async fn compare(&self, listed: Digest) -> Finding {
        let mut audit_state = self.audit_state.subscribe();
        let told = audit_state.wait_for(|audit_state| audit_state.verdict(listed).is_some());
        // Whether it was in time is what the audit_state shows.
        let _ = tokio::time::timeout(CATCH_UP, told).await;
        self.audit_state.borrow().verdict_now(listed)
    }
}

/// The identity of an object and of its state.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    namespace: String,
    uid: Uid,
    resource_version: ResourceVersion,
}

fn identity(encoding: Encoding, item: &[u8]) -> Result<Identity, DecodeError> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Identity,
    }
    match encoding {
        Encoding::Json => json::from_slice(item).map(|item: Item| item.metadata).map_err(DecodeError::of("metadata")),
        Encoding::Protobuf => identity_in_protobuf(item).map_err(DecodeError::of("metadata")),
    }
}

fn identity_in_protobuf(item: &[u8]) -> Result<Identity, Malformed> {
    let mut identity = Identity::default();
    for field in Fields::of_metadata(item) {
        let field = field?;
        match field.number {
            3 => identity.namespace = field.text()?.to_owned(),
            5 => identity.uid = Uid::new(field.text()?),
            6 => identity.resource_version = field.text()?.parse()?,
            _ => {}
        }
    }
    Ok(identity)
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
