//! What every cluster has from its start, beside its namespaces: priority classes, the states of its programs, flow control and API services.

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{Registry, apiservices};
use crate::admission::{Admission, at_once};
use crate::kinds::flowcontrol;
use crate::model::{Fields as _, Object, metadata};
use crate::validation::scheduling::SYSTEM_CLASSES;

impl Registry {
    /// Creates it.
    pub fn create_first_objects(&self) {
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
        served.kind.default(&mut object);
        let namespace = metadata(&object).text("namespace").to_owned();
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

fn own() -> WriteOptions {
    WriteOptions { manager: "kube-apiserver".to_owned(), ..WriteOptions::default() }
}
