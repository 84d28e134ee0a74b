//! The kinds that a server has, by its own word: what is collected, and what a namespace holds.
//!
//! Kinds come and go with CustomResourceDefinitions: `follow` asks again when one has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_runtime::client::{Client, ClientError};
use muster_runtime::informer::WatchedResource;
use serde::Deserialize;
use tokio::sync::watch;

/// How long after a definition has changed the kinds are looked at once more: it may be served a little later.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// The definitions by which kinds come and go.
#[must_use]
pub(crate) fn definitions() -> WatchedResource {
    WatchedResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions").metadata()
}

/// Keeps `kinds` what the server has, for as long as `changed` tells that a definition has.
pub(crate) async fn follow(client: Client, kinds: watch::Sender<Arc<Kinds>>, mut changed: watch::Receiver<u64>) {
    while changed.changed().await.is_ok() {
        look(&client, &kinds).await;
        while let Ok(again) = tokio::time::timeout(ONCE_MORE, changed.changed()).await {
            if again.is_err() {
                return;
            }
            look(&client, &kinds).await;
        }
        look(&client, &kinds).await;
    }
}

async fn look(client: &Client, kinds: &watch::Sender<Arc<Kinds>>) {
    match Kinds::discover(client).await {
        Ok(found) => {
            kinds.send_if_modified(|known| {
                let changed = **known != found;
                if changed {
                    *known = Arc::new(found);
                }
                changed
            });
        }
        Err(error) => tracing::warn!(%error, "the server's kinds are not known"),
    }
}

/// A kind and what can be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Group and version, as objects spell it.
    pub api_version: Arc<str>,
    /// The kind's name.
    pub kind: Arc<str>,
    /// Where it is served.
    pub resource: WatchedResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether this is the version in which it is watched and emptied: its group's preferred one, and the first that it has
    /// where it does not have that.
    pub preferred: bool,
    /// Whether its objects can be deleted, listed and watched.
    pub collectable: bool,
    /// Whether they can be deleted.
    pub deletable: bool,
    /// Whether they can be deleted all at once.
    pub delete_collection: bool,
    /// Whether they have a scale.
    pub scalable: bool,
}

impl Kind {
    /// The path of one of its objects.
    #[must_use]
    pub fn path(&self, namespace: &str, name: &str) -> String {
        self.resource.object(self.namespaced.then_some(namespace), name)
    }

    /// Whether it is a kind of events, which own nothing and are not worth watching.
    #[must_use]
    pub fn is_event(&self) -> bool {
        &*self.kind == "Event" && matches!(&*self.resource.group, "" | "events.k8s.io")
    }
}

/// The kinds of a server, in a fixed order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds {
    kinds: Vec<Kind>,
    by_name: BTreeMap<(Arc<str>, Arc<str>), usize>,
}

impl Kinds {
    /// Asks the server.
    ///
    /// # Errors
    /// Where it does not answer, or not with what discovery answers.
    pub async fn discover(client: &Client) -> Result<Self, ClientError> {
        let mut kinds = Vec::new();
        let core: WireResources = read(client, "/api/v1").await?;
        core.read("", "v1", &mut kinds);
        let groups: WireGroups = read(client, "/apis").await?;
        for group in groups.groups {
            let begin = kinds.len();
            for version in &group.versions {
                let resources: WireResources = read(client, &format!("/apis/{}", version.group_version)).await?;
                resources.read(&group.name, &version.version, &mut kinds);
            }
            prefer(&mut kinds[begin..], &group.preferred_version.version);
        }
        Ok(Self::new(kinds))
    }

    /// These kinds, sorted.
    #[must_use]
    pub fn new(mut kinds: Vec<Kind>) -> Self {
        kinds.sort_by(|a, b| (&a.api_version, &a.kind).cmp(&(&b.api_version, &b.kind)));
        let by_name = kinds.iter().enumerate();
        let by_name = by_name.map(|(at, kind)| ((Arc::clone(&kind.api_version), Arc::clone(&kind.kind)), at)).collect();
        Self { kinds, by_name }
    }

    /// The kind of that name.
    #[must_use]
    pub fn get(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        self.by_name.get(&(api_version.into(), kind.into())).map(|at| &self.kinds[*at])
    }

    /// Whether there is a kind at that path.
    #[must_use]
    pub fn serves(&self, resource: &WatchedResource) -> bool {
        let WatchedResource { group, version, plural, .. } = resource;
        let is = |kind: &Kind| {
            let own = &kind.resource;
            own.plural == *plural && own.group == *group && own.version == *version
        };
        self.kinds.iter().any(is)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter()
    }
}

/// Chooses the version of each kind of a group, as client-go's `ServerPreferredResources` does.
fn prefer(kinds: &mut [Kind], version: &str) {
    let mut chosen = BTreeMap::new();
    for (at, kind) in kinds.iter().enumerate() {
        let place = chosen.entry(kind.resource.plural.clone()).or_insert(at);
        if kind.resource.version == version {
            *place = at;
        }
    }
    for (at, kind) in kinds.iter_mut().enumerate() {
        kind.preferred = chosen.get(&kind.resource.plural) == Some(&at);
    }
}

async fn read<T: for<'de> Deserialize<'de>>(client: &Client, path: &str) -> Result<T, ClientError> {
    let answer = client.get(path).await?;
    serde_json::from_slice(&answer.body).map_err(|source| ClientError::Answer {
        method: http::Method::GET,
        path: path.to_owned(),
        source: Box::new(source),
    })
}

#[derive(Deserialize)]
struct WireGroups {
    #[serde(default)]
    groups: Vec<WireGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireGroup {
    name: String,
    #[serde(default)]
    versions: Vec<WireVersion>,
    preferred_version: WireVersion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireVersion {
    group_version: String,
    version: String,
}

#[derive(Deserialize)]
struct WireResources {
    #[serde(default)]
    resources: Vec<WireResource>,
}

#[derive(Deserialize)]
struct WireResource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl WireResources {
    fn read(self, group: &str, version: &str, kinds: &mut Vec<Kind>) {
        let api_version: Arc<str> = if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
        let scaled: BTreeSet<String> = self
            .resources
            .iter()
            .filter_map(|resource| Some(resource.name.strip_suffix("/scale")?.to_owned()))
            .collect();
        for resource in self.resources {
            // Subresources are not kinds of their own.
            if resource.name.contains('/') {
                continue;
            }
            let can = |verb: &str| resource.verbs.iter().any(|v| v == verb);
            kinds.push(Kind {
                api_version: Arc::clone(&api_version),
                kind: resource.kind.as_str().into(),
                namespaced: resource.namespaced,
                preferred: true,
                collectable: can("delete") && can("list") && can("watch"),
                deletable: can("delete"),
                delete_collection: can("deletecollection"),
                scalable: scaled.contains(&resource.name),
                resource: WatchedResource::new(group.to_owned(), version.to_owned(), resource.name),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-19
    #[test]
    fn the_preferred_version_is_chosen_where_a_kind_has_it_and_else_the_first() {
        let mut kinds = Vec::new();
        for (version, names) in [("v2", vec!["a", "b"]), ("v1", vec!["a", "b", "c"]), ("v1beta1", vec!["c", "d"])] {
            let resource = |name: &str| WireResource {
                name: name.to_owned(),
                kind: name.to_uppercase(),
                namespaced: true,
                verbs: Vec::new(),
            };
            WireResources { resources: names.into_iter().map(resource).collect() }.read("g", version, &mut kinds);
        }
        prefer(&mut kinds, "v1");
        let chosen = kinds.iter().filter(|kind| kind.preferred);
        let chosen: Vec<(&str, &str)> = chosen.map(|kind| (&*kind.resource.plural, &*kind.resource.version)).collect();
        assert_eq!(chosen, [("a", "v1"), ("b", "v1"), ("c", "v1"), ("d", "v1beta1")]);
    }
}
