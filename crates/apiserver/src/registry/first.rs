//! What every cluster has from its start: namespaces, the server's own Service, roles, priority classes, the states of its
//! programs, flow control and API services. They are made once in a process; every further server has copies, with uids and
//! times of its own.

use std::sync::{Arc, OnceLock};

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::options::WriteOptions;
use super::services::network::Network;
use super::settings::Settings;
use super::{Registry, apiservices};
use crate::access::authorizer::Mode;
use crate::access::{User, bootstrap};
use crate::admission::{Admission, at_once};
use crate::clock::Clock;
use crate::generator::Generator;
use crate::kinds::{self, flowcontrol};
use crate::model::{Fields as _, Object, metadata};
use crate::storage::{Range, Retention, Stencil, Storage};
use crate::validation::scheduling::SYSTEM_CLASSES;

/// Namespaces that every cluster has from its start (API-20).
pub const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The first objects of a server of all kinds, in the order in which they are created; with each the place of its kind.
static FIRST: OnceLock<Vec<(usize, Stencil)>> = OnceLock::new();

/// When those were made from which the others are copied: no time that is in an object otherwise.
const MADE: i64 = 1_000_000_001;

impl Registry {
    /// Creates it in a server of all kinds, where nothing is yet.
    pub fn copy_first_objects(&self) {
        // Those to be copied are of a server with the default network.
        if self.settings.network != Network::default() {
            return self.create_first_objects();
        }
        let catalogue = self.catalogue();
        let now = self.now_text();
        for (kind, stencil) in FIRST.get_or_init(stencils) {
            // A storage that was read from a disk may have it.
            let _ = self.storage.create(catalogue.served()[*kind].id, stencil.copy(&self.generator.uid(), &now));
        }
    }

    /// Creates it in a server of whatever kinds.
    pub fn create_first_objects(&self) {
        for name in NAMESPACES {
            let namespace = json!({
                "kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": {},
            });
            self.create_own("", "namespaces", namespace);
        }
        self.create_own_addresses();
        self.create_own_service();
        for first in bootstrap::objects() {
            self.create_own(bootstrap::GROUP, first.plural, Value::Object(first.object));
        }
        for (name, value, description) in SYSTEM_CLASSES {
            let class = json!({
                "kind": "PriorityClass",
                "apiVersion": "scheduling.k8s.io/v1",
                "metadata": {"name": name},
                "value": value,
                "description": description,
            });
            self.create_own("scheduling.k8s.io", "priorityclasses", class);
        }
        self.create_components();
        self.create_own_flows();
        apiservices::create_first(self);
    }

    /// Makes those of flow control's objects that every server has and that are not there.
    pub(super) fn create_own_flows(&self) {
        for (plural, object) in flowcontrol::mandatory() {
            self.create_own(flowcontrol::GROUP, plural, object);
        }
    }

    /// Creates an object for the server itself, where the kind is served and it is not there yet.
    pub(super) fn create_own(&self, group: &str, plural: &str, object: Value) {
        let (Some(served), Value::Object(mut object)) = (self.find(group, "v1", plural), object) else { return };
        let (namespace, name) = (metadata(&object).text("namespace").to_owned(), metadata(&object).text("name"));
        if self.storage.get(served.id, &namespace, name).is_some() {
            return;
        }
        served.kind.default(&mut object);
        let (options, mut warnings) = (own(), Vec::new());
        match at_once(self.create(&served, &namespace, object, &options, Admission::OWN, &mut warnings)) {
            Err(error) if error.reason == "AlreadyExists" => {}
            Err(error) => tracing::error!(plural, %error, "cannot create an object of the server's own"),
            Ok(_) => {}
        }
    }

    /// Deletes an object that the server created for itself.
    pub(super) fn delete_own(&self, group: &str, plural: &str, name: &str, is_own: impl FnOnce(&Object) -> bool) {
        let Some(served) = self.find(group, "v1", plural) else { return };
        let Some(entry) = self.storage.get(served.id, "", name).filter(|entry| is_own(&entry.object())) else { return };
        // Whoever changed it in between has made it theirs.
        let _ = self.storage.delete(served.id, "", name, entry.version);
    }
}

/// The options of the server's own writes.
pub(super) fn own() -> WriteOptions {
    let user = Arc::new(User::administrator());
    WriteOptions { manager: "kube-apiserver".to_owned(), user, ..WriteOptions::default() }
}

/// Makes them, in a server that is for nothing else.
fn stencils() -> Vec<(usize, Stencil)> {
    let made = Timestamp::from_seconds(MADE);
    let clock = Clock::starting_at(made.as_nanos());
    let storage = Arc::new(Storage::new(1, Retention::default()));
    let registry =
        Registry::new(kinds::all(), clock, Generator::seeded(0), storage, Mode::default(), Settings::default());
    registry.create_first_objects();
    let catalogue = registry.catalogue();
    let mut first = Vec::new();
    for (kind, served) in catalogue.served().iter().enumerate() {
        // Of the kinds that are stored in one table the first is the one in whose form they are.
        if catalogue.served()[..kind].iter().any(|other| other.id == served.id) {
            continue;
        }
        let listed = registry.storage.list(served.id, &Range::default(), None);
        for entry in listed.into_iter().flat_map(|listed| listed.entries) {
            // What was stored once is stored again.
            if let Ok(draft) = served.draft(&entry.object(), None) {
                first.push((entry.version, kind, Stencil::of(draft, &made.to_string())));
            }
        }
    }
    first.sort_by_key(|(version, ..)| *version);
    first.into_iter().map(|(_, kind, stencil)| (kind, stencil)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a server has, in the order in which it came, without what is its own.
    fn all(registry: &Registry) -> Vec<String> {
        let catalogue = registry.catalogue();
        let mut all = Vec::new();
        for served in catalogue.served() {
            let listed = registry.storage.list(served.id, &Range::default(), None).unwrap();
            for entry in listed.entries {
                let text = String::from_utf8(entry.json().joined().to_vec()).unwrap();
                assert!(text.contains(&*entry.uid) && text.contains(&registry.now_text()), "{text}");
                let version = format!("\"resourceVersion\":\"{}\"", entry.version);
                all.push((entry.version, text.replace(&*entry.uid, "UID").replace(&version, "VERSION")));
            }
        }
        // What is written twice is copied once.
        all.sort_unstable();
        all.into_iter().map(|(_, text)| text).collect()
    }

    /// Contract: API-20
    #[tokio::test(start_paused = true)]
    async fn a_copy_is_what_would_have_been_created() {
        let registry = || {
            let clock = Clock::starting_at(1_700_000_000_000_000_000);
            let storage = Arc::new(Storage::new(1, Retention::default()));
            Registry::new(kinds::all(), clock, Generator::seeded(1), storage, Mode::default(), Settings::default())
        };
        let (copied, created) = (registry(), registry());
        copied.copy_first_objects();
        created.create_first_objects();
        assert_eq!(all(&copied), all(&created));
        assert!(all(&copied).len() > 150);
        let uids = |registry: &Registry| {
            let found = registry.find("", "v1", "namespaces").unwrap();
            registry.get(&found, "", "default").unwrap().uid.clone()
        };
        let other = registry();
        other.copy_first_objects();
        assert_eq!(uids(&copied), uids(&other), "of one seed");
        copied.copy_first_objects();
        assert_eq!(uids(&copied), uids(&other), "what is there stays");
    }
}
