//! Lists a resource once, without a watch.

use std::sync::Arc;

use muster_machinery::{Cache, Cached};
use muster_objects::meta::ResourceVersion;
use rand::{SeedableRng, rngs::SmallRng};
use tokio::time::Instant;

use super::WatchedResource;
use super::reflector::{Delta, Reflector, Target};
use crate::client::{Client, ClientError};

/// Everything of `resource` at one version, in a cache of its own.
///
/// # Errors
/// If the server refuses, cannot be reached, or answers with something else than a list.
pub async fn read_once<T: Cached>(client: &Client, resource: WatchedResource) -> Result<Cache<T>, ClientError> {
    let mut into = Once(Cache::new());
    // Nothing is drawn by a list.
    let random = SmallRng::seed_from_u64(0);
    Reflector::new(client.clone(), resource, None, random).read_once(&mut into).await?;
    Ok(into.0)
}

/// A cache that is filled once.
struct Once<T: Cached>(Cache<T>);

impl<T: Cached> Target<T> for Once<T> {
    fn listing(&mut self) {}

    fn replace(&mut self, objects: Vec<Arc<T>>, version: ResourceVersion) {
        self.0.replace_shared(objects, version);
    }

    fn apply(&mut self, batch: &mut Vec<Delta<T>>) {
        batch.clear();
    }

    fn resync_at(&self) -> Instant {
        Instant::now()
    }

    fn resync(&mut self) {}
}
