//! ComponentStatus: what the server was told of the programs beside it.

use muster_tree::json;

use super::Registry;

/// The programs of a control plane that the reference looks for, with their ports; the storage is in this process.
const COMPONENTS: [(&str, Option<u16>); 3] =
    [("controller-manager", Some(10257)), ("etcd-0", None), ("scheduler", Some(10259))];

impl Registry {
    /// Says of each of the other programs that it does not run, until somebody says otherwise.
    pub(super) fn create_components(&self) {
        for (name, port) in COMPONENTS {
            self.publish_component(name, port.is_none());
        }
    }

    /// Says whether a program runs: `scheduler` or `controller-manager`.
    pub fn publish_component(&self, name: &str, runs: bool) {
        let Some((_, port)) = COMPONENTS.iter().find(|(component, _)| *component == name) else { return };
        let (status, message) = match port {
            Some(port) if !runs => {
                let refused = "connect: connection refused";
                ("False", format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: {refused}"))
            }
            _ => ("True", "ok".to_owned()),
        };
        self.delete_own("", "componentstatuses", name, |_| true);
        let component = json!({
            "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name},
            "conditions": [{"type": "Healthy", "status": status, "message": message}],
        });
        self.create_own("", "componentstatuses", component);
    }
}
