//! The Service by which pods find the API server, with its Endpoints and EndpointSlice (API-20, API-27).
//!
//! No controller knows of them: the server keeps them itself. Whoever deletes one finds a new one in its place.

use serde_json::json;

use crate::registry::Registry;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// The cluster IP of the Service.
const API_SERVER_IP: &str = "10.96.0.1";

/// Where pods would reach the server: the gateway of the simulated nodes' network, for endpoints on a loopback
/// address are not valid.
const ADDRESS: &str = "172.18.0.1";
const PORT: u16 = 6443;

impl Registry {
    /// Makes those of the server's own objects that are not there, as far as their kinds are served.
    pub fn create_own_service(&self) {
        let port = json!({"name": "https", "port": PORT, "protocol": "TCP"});
        self.create_own(
            "",
            "services",
            json!({
                "kind": "Service", "apiVersion": "v1",
                "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
                "spec": {
                    "clusterIP": API_SERVER_IP,
                    "ipFamilyPolicy": "SingleStack",
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": PORT}],
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
                "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [port]}],
            }),
        );
        self.create_own(
            "discovery.k8s.io",
            "endpointslices",
            json!({
                "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
                "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
                "ports": [port],
            }),
        );
    }

    /// After an object is gone: the server's own come back.
    pub(in crate::registry) fn restore_own(&self, namespace: &str, name: &str) {
        if (namespace, name) == (NAMESPACE, NAME) {
            self.create_own_service();
        }
    }
}
