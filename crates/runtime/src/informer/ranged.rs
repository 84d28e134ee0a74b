//! How the objects of a range are followed: by a shared watch, and lists of the range (SH-04).
//!
//! ```text
//!   subscribe --position--> list the range --> replace the store --> apply what the watch has said since, and says
//!       ^                                                                  |
//!       +---------------- told to list again, or asked to -----------------+
//! ```
//!
//! Every list is as of the position or later, and every event after the position comes: none is lost. One that a list has
//! shown already is left out. A range of few namespaces is listed namespace by namespace, each at a version of its own, none older
//! than the resource was before, whether or not the server shards: a server that does looks at every object for each list of a range, so that the lists of 64 shards
//! among 100,000 pods took it 90 s of CPU, and those of their namespaces 6 s. Where it does not shard, many namespaces are
//! listed so too, so as not to read what belongs to others.

use std::sync::Arc;

use muster_objects::{DecodeError, Object, ResourceVersion, stream::ListPage, stream::WatchEventType};
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    WatchedResource,
    reflector::{self, BATCH, Delta, Ended, PAGE, Reflector, Target},
    resource::Page,
    shared_watch::SharedWatch,
    subscription::{Item, Line},
    versions::Versions,
};
use crate::client::{Client, ClientError, Encoding, Form};

/// What to list for a range.
pub(super) enum Parts {
    /// One list.
    One(WatchedResource),
    /// A list for each of these namespaces, as of this version of the resource or later. What is in others of the range is newer,
    /// or was there when they were listed no more.
    Namespaces(Vec<String>, ResourceVersion),
}

impl<T: Object> Reflector<T> {
    /// Subscribes, lists, and follows until the shared watch has it list again.
    pub(super) async fn round_of_range(&mut self, shared: &Arc<SharedWatch>, target: &mut impl Target<T>) -> Ended {
        let Some(range) = self.resource.range else { return Ended::NotSharded };
        let subscription = shared.subscribe(range, self.fresh);
        let position = match subscription.line.opened().await {
            Ok(position) => position,
            Err(over) => return over.into(),
        };
        self.fresh = false;
        target.listing();
        let mut objects = Vec::new();
        let listed = match self.list_range(Some(shared), &mut objects).await {
            Ok(listed) => listed,
            Err(ended) => return ended,
        };
        if listed.oldest() < position {
            return Ended::Older { listed: listed.oldest(), position };
        }
        target.replace(objects, listed.oldest());
        self.follow_line(&subscription.line, listed, target).await
    }

    /// Reads the range; answers the versions at which it did.
    pub(super) async fn list_range(
        &mut self,
        shared: Option<&Arc<SharedWatch>>,
        objects: &mut Vec<Arc<T>>,
    ) -> Result<Versions, Ended> {
        let shards = shared.is_none_or(|shared| shared.state.shards());
        let mut parts = parts(&self.client, &self.resource, shards).await?;
        if let Parts::One(resource) = &parts {
            match self.list_into(resource, None, objects).await {
                Err(Ended::NotSharded) => {
                    tracing::info!(resource = %self.resource.plural, "the server does not shard lists");
                    if let Some(shared) = shared {
                        shared.state.set_shards(false);
                    }
                    parts = self::parts(&self.client, &self.resource, false).await?;
                }
                listed => return Ok(Versions::one(listed?)),
            }
        }
        match parts {
            Parts::One(resource) => Ok(Versions::one(self.list_into(&resource, None, objects).await?)),
            Parts::Namespaces(names, version) => {
                let mut versions = Versions::one(version);
                for name in names {
                    let listed = self.list_into(&self.resource.of_namespace(&name), Some(version), objects).await?;
                    versions.set(&name, listed);
                }
                Ok(versions)
            }
        }
    }

    /// Applies what the shared watch says until that is over.
    async fn follow_line(&mut self, line: &Line, listed: Versions, target: &mut impl Target<T>) -> Ended {
        target.watched(true);
        let newest = listed.newest();
        // As long as events may come that a list has shown.
        let mut listed = Some(listed);
        let alarm = tokio::time::sleep_until(target.resync_at());
        tokio::pin!(alarm);
        loop {
            if Instant::now() >= target.resync_at() {
                target.resync();
                alarm.as_mut().reset(target.resync_at());
            }
            tokio::select! {
                biased;
                () = line.ready() => {}
                () = &mut alarm => continue,
            }
            let mut ended = None;
            while self.batch.len() < BATCH && ended.is_none() {
                match line.take() {
                    Ok(None) => break,
                    Ok(Some(item)) => match self.delta(item, listed.as_ref()) {
                        Ok(None) => {}
                        Ok(Some(delta)) => {
                            listed = listed.filter(|_| delta.version() < newest);
                            self.batch.push(delta);
                        }
                        Err(ended_here) => ended = Some(ended_here),
                    },
                    Err(over) => ended = Some(over.into()),
                }
            }
            let more = self.batch.len() >= BATCH;
            if !self.batch.is_empty() {
                target.apply(&mut self.batch);
            }
            if let Some(ended) = ended {
                return ended;
            }
            if more {
                // As in `Reflector::follow`.
                tokio::task::yield_now().await;
            }
        }
    }

    /// What an item does to the store that was filled by lists as of `listed`.
    fn delta(&mut self, item: Item, listed: Option<&Versions>) -> Result<Option<Delta<T>>, Ended> {
        let (encoding, frame) = match item {
            Item::Reached(version) => return Ok(Some(Delta::Reached(version))),
            Item::Frame(encoding, frame) => (encoding, frame),
        };
        let event = reflector::event(encoding, &frame)?;
        let Some(object) = self.decode(encoding, event.object) else { return Ok(None) };
        let version = object.meta().resource_version;
        if !self.has(&object) || listed.is_some_and(|listed| version <= listed.of(&object.meta().namespace)) {
            return Ok(Some(Delta::Reached(version)));
        }
        let gone = event.kind == WatchEventType::Deleted;
        Ok(Some(if gone { Delta::Gone(object) } else { Delta::Put(object) }))
    }
}

/// A range of more namespaces is listed at once where the server shards: their lists would cost more than a look at everything.
const FEW: usize = 64;

/// How the range of `resource` is to be listed.
pub(super) async fn parts(client: &Client, resource: &WatchedResource, shards: bool) -> Result<Parts, Ended> {
    let at_once = Parts::One(match shards {
        true => resource.clone(),
        false => WatchedResource { range: None, ..resource.clone() },
    });
    if resource.namespace.is_some() {
        return Ok(at_once);
    }
    // Before the namespaces: what is in one that comes after their list is newer. And of the resource itself, since a version of
    // namespaces need say nothing of it, where their storage is another.
    let version = present(client, resource).await?;
    match namespaces(client, resource).await {
        Ok(names) if shards && names.len() > FEW => Ok(at_once),
        Ok(names) => Ok(Parts::Namespaces(names, version)),
        Err(Ended::Refused(ClientError::Api(error))) if matches!(error.code, 403 | 404) => {
            if !shards {
                tracing::warn!(%error, "namespaces cannot be listed, so everything is listed and what is not in the range dropped");
            }
            Ok(at_once)
        }
        Err(ended) => Err(ended),
    }
}

/// The present version of a resource, from a list of one object.
async fn present(client: &Client, resource: &WatchedResource) -> Result<ResourceVersion, Ended> {
    let all = WatchedResource { range: None, ..resource.clone() };
    let answer = client.get_in(&all.list(1, &Page::First), Form::MetadataList, Encoding::Json).await?;
    Ok(ListPage::decode(&answer.body)?.resource_version)
}

/// The names of the namespaces within the range.
pub(super) async fn namespaces(client: &Client, resource: &WatchedResource) -> Result<Vec<String>, Ended> {
    let namespaces = WatchedResource::new("", "v1", "namespaces");
    let mut names = Vec::new();
    let mut next = Page::First;
    loop {
        let path = namespaces.list(PAGE, &next);
        let answer = client.get_in(&path, Form::MetadataList, Encoding::Json).await?;
        let page = ListPage::decode(&answer.body)?;
        for item in &page.items {
            let name = name(item)?;
            if resource.range.is_none_or(|range| range.has_namespace(&name)) {
                names.push(name);
            }
        }
        match page.continue_token {
            Some(token) => next = Page::After(token),
            None => return Ok(names),
        }
    }
}

fn name(item: &[u8]) -> Result<String, DecodeError> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    serde_json::from_slice(item).map(|item: Item| item.metadata.name).map_err(DecodeError::of("metadata"))
}

#[cfg(test)]
#[path = "ranged_tests.rs"]
mod tests;
