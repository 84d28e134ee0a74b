//! The Service by which pods find the API server, with its Endpoints and EndpointSlice (API-20, API-27), the ServiceCIDR
//! of the range that Services have their addresses from, and the ConfigMap by which other servers learn whose certificates this one trusts.
//!
//! No controller knows of them: the server keeps them itself. Whoever deletes one finds a new one in its place.

use muster_tree::{Value, json};

use crate::admission::{Admission, at_once};
use crate::kinds::networking;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part};
use crate::registry::options::WriteOptions;
use crate::registry::update::Update;
use crate::registry::{Registry, first};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Where extension API servers and controllers look up whom to trust.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

impl Registry {
    /// Tells others whose client certificates are credentials here.
    pub fn publish_client_ca(&self, pem: &str) {
        if self.client_ca.set(pem.to_owned()).is_ok() {
            self.create_own_authentication();
        }
    }

    fn create_own_authentication(&self) {
        let (Some(pem), (namespace, name)) = (self.client_ca.get(), AUTHENTICATION) else { return };
        self.create_own(
            "",
            "configmaps",
            json!({
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {"name": name, "namespace": namespace},
                "data": {"client-ca-file": pem},
            }),
        );
    }

    /// Makes the ServiceCIDR of the range that the server was given, if it is not there, and says that it is ready.
    pub fn create_own_addresses(&self) {
        let Some(served) = self.find(networking::GROUP, "v1", "servicecidrs") else { return };
        let kind = json!({"kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": NAME}});
        let with = |field: &str, value: Value| {
            let mut object = kind.clone();
            object[field] = value;
            object
        };
        let ranges = json!([self.settings.network.addresses.to_string()]);
        self.create_own(networking::GROUP, "servicecidrs", with("spec", json!({"cidrs": ranges})));
        let unsaid = |range: &Object| {
            let status = networking::ready_condition(range).map_or("", |ready| ready.text("status"));
            let deleted = metadata(range).contains_key("deletionTimestamp");
            !deleted && !matches!(status, "True" | "False") && range.part("spec").get("cidrs") == Some(&ranges)
        };
        if !self.storage.get(served.id, "", NAME).is_some_and(|present| unsaid(&present.object())) {
            return;
        }
        let ready = json!({
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": self.now_text(),
            "message": "Kubernetes default Service CIDR is ready",
        });
        let status = with("status", json!({"conditions": [ready]})).to_string();
        let manager = "kubernetes-service-cidr-controller".to_owned();
        let options = WriteOptions { manager: manager.clone(), field_manager: manager, force: true, ..first::own() };
        let update = Update {
            namespace: "",
            name: NAME,
            part: Part::Status,
            subresource: "status",
            options: &options,
            admission: Admission::OWN,
        };
        if let Err(error) = at_once(self.apply(&served, update, status.as_bytes(), &mut Vec::new())) {
            tracing::error!(%error, "cannot say that the ServiceCIDR of the server is ready");
        }
    }

    /// Makes those of the server's own objects that are not there, as far as their kinds are served.
    pub fn create_own_service(&self) {
        let network = &self.settings.network;
        let (address, own) = network.server;
        let port = json!({"name": "https", "port": own, "protocol": "TCP"});
        self.create_own(
            "",
            "services",
            json!({
                "kind": "Service", "apiVersion": "v1",
                "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
                "spec": {
                    "clusterIP": network.addresses.at(1),
                    "ipFamilyPolicy": "SingleStack",
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": own}],
                    "sessionAffinity": "None",
                    "type": "ClusterIP",
                },
                "status": {},
            }),
        );
        self.create_own(
            "",
            "endpoints",
            json!({
                "kind": "Endpoints", "apiVersion": "v1",
                "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
                "subsets": [{"addresses": [{"ip": address}], "ports": [port]}],
            }),
        );
        self.create_own(
            "discovery.k8s.io",
            "endpointslices",
            json!({
                "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
                "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
                "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
                "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
                "ports": [port],
            }),
        );
    }

    /// After an object is gone: the server's own come back.
    pub(in crate::registry) fn restore_own(&self, namespace: &str, name: &str) {
        if (namespace, name) == ("", NAME) {
            self.create_own_addresses();
            // It cannot be while there is no range for it.
            self.create_own_service();
        } else if (namespace, name) == (NAMESPACE, NAME) {
            self.create_own_service();
        } else if (namespace, name) == AUTHENTICATION {
            self.create_own_authentication();
        } else if matches!((namespace, name), ("", "exempt" | "catch-all")) {
            self.create_own_flows();
        }
    }
}
