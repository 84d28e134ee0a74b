//! The Service by which pods find the API server, with its Endpoints and EndpointSlice (API-20, API-27), and the
//! ConfigMap by which other servers learn whose certificates this one trusts.
//!
//! No controller knows of them: the server keeps them itself. Whoever deletes one finds a new one in its place.

use muster_tree::json;

use crate::registry::Registry;

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
                    "clusterIP": network.at(1),
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
        if (namespace, name) == (NAMESPACE, NAME) {
            self.create_own_service();
        } else if (namespace, name) == AUTHENTICATION {
            self.create_own_authentication();
        } else if matches!((namespace, name), ("", "exempt" | "catch-all")) {
            self.create_own_flows();
        }
    }
}
