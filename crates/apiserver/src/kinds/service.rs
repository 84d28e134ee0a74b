//! Service.

use std::sync::LazyLock;

use std::borrow::Cow;
use std::collections::BTreeSet;

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, cells, keep_generation,
};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::model::service::{is_reached_from_outside, needs_cluster_ip, needs_health_check, needs_node_ports};
use crate::validation::service::addresses;
use crate::validation::{self, Errors};

/// A name and an address for some pods.
#[derive(Debug)]
pub struct Service;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "Service", "services")
        .short(&["svc"])
        .in_all()
        .parts(&[Subresource::Status])
        .labels(&["spec.clusterIP", "spec.type"])
        .returns_deleted()
        .create_on_update()
        .stored_under("services/specs")
        .allocates()
});

static COLUMNS: [Column; 7] = [
    NAME_COLUMN,
    Column::text(
        "Type",
        "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If clusterIP is \"None\", no virtual IP is allocated and the endpoints are published as a set of endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on every node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP. \"ExternalName\" aliases this service to the specified externalName. Several other fields do not apply to ExternalName services. More info: https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
    ),
    Column::text(
        "Cluster-IP",
        "clusterIP is the IP address of the service and is usually assigned randomly. If an address is specified manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; otherwise creation of the service will fail. This field may not be changed through updates unless the type field is also being changed to ExternalName (which requires this field to be blank) or the type field is being changed from ExternalName (in which case this field may optionally be specified, as describe above).  Valid values are \"None\", empty string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no virtual IP), which is useful when direct endpoint connections are preferred and proxying is not required.  Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service of type ExternalName, creation will fail. This field will be wiped when updating a Service to type ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
    ),
    Column::text(
        "External-IP",
        "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.  These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node with this IP.  A common example is external load-balancers that are not part of the Kubernetes system.",
    ),
    Column::text(
        "Port(s)",
        "The list of ports that are exposed by this service. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
    ),
    AGE_COLUMN,
    Column::wide_text(
        "Selector",
        "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/",
    ),
];

/// How long a client stays with its pod where nothing is said, in seconds.
const DEFAULT_AFFINITY_SECONDS: i64 = 10_800;

impl Kind for Service {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_if_empty("sessionAffinity", "None");
        match spec.text("sessionAffinity") {
            "None" => drop(spec.remove("sessionAffinityConfig")),
            "ClientIP" => {
                let config = spec.object("sessionAffinityConfig").and_then(|config| config.object("clientIP"));
                if config.is_none_or(|config| !config.contains_key("timeoutSeconds")) {
                    let config = json!({"clientIP": {"timeoutSeconds": DEFAULT_AFFINITY_SECONDS}});
                    spec.insert("sessionAffinityConfig", config);
                }
            }
            _ => {}
        }
        spec.set_if_empty("type", "ClusterIP");
        for port in spec.items_mut("ports") {
            port.set_if_empty("protocol", "TCP");
            if port.get("targetPort").is_none_or(|target| *target == json!(0) || *target == json!("")) {
                port.insert("targetPort", port.int("port").into());
            }
        }
        if is_reached_from_outside(spec) {
            spec.set_if_empty("externalTrafficPolicy", "Cluster");
        }
        if matches!(spec.text("type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
            spec.set_if_absent("internalTrafficPolicy", "Cluster");
        }
        let balanced = spec.text("type") == "LoadBalancer";
        if balanced {
            spec.set_if_absent("allocateLoadBalancerNodePorts", true);
        }
        let status = object.object_or_new("status").object_or_new("loadBalancer");
        for ingress in status.items_mut("ingress").filter(|_| balanced) {
            if !ingress.text("ip").is_empty() {
                ingress.set_if_absent("ipMode", "VIP");
            }
        }
    }
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
    fn prepare_create(&self, object: &mut Object) {
        object.insert("status", json!({"loadBalancer": {}}));
        drop_traffic_policy(object);
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        match part {
            Part::Status => object.carry("spec", old),
            _ => {
                object.carry("status", old);
                let empty = Object::new();
                drop_other_types(object.object_or_new("spec"), old.object("spec").unwrap_or(&empty));
                if object.object("spec").is_some_and(|spec| spec.text("type") != "LoadBalancer") {
                    object.object_or_new("status").insert("loadBalancer", json!({}));
                }
                drop_traffic_policy(object);
            }
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Label, &mut errors);
        validation::service::validate(object, None, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        match part {
            Part::Status => addresses::validate_status(object, old, &mut errors),
            _ => {
                validation::service::change::validate(object, old, &mut errors);
                validation::service::validate(object, Some(old), &mut errors);
            }
        }
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let _ = old;
        addresses::warnings(object)
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        let spec = object.object("spec")?;
        match label {
            "spec.clusterIP" => Some(spec.text("clusterIP").into()),
            "spec.type" => Some(spec.text("type").into()),
            _ => None,
        }
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let empty = Object::new();
        let spec = object.object("spec").unwrap_or(&empty);
        let ports = spec.items("ports").map(|port| {
            let (number, protocol) = (port.int("port"), port.text("protocol"));
            match port.int("nodePort") {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        });
        vec![
            cells::name(object),
            spec.text("type").into(),
            spec.strings("clusterIPs").next().unwrap_or("<none>").into(),
            outside(spec, object).into(),
            cells::or(&ports.collect::<Vec<_>>().join(","), "<none>").into(),
            cells::age(object, now),
            cells::labels(spec.object("selector")).into(),
        ]
    }
}

/// What has no addresses has no traffic of its own. A policy that there is not stays, to be refused.
fn drop_traffic_policy(object: &mut Object) {
    let spec = object.object_or_new("spec");
    if !needs_cluster_ip(spec) && matches!(spec.text("internalTrafficPolicy"), "Cluster" | "Local") {
        spec.remove("internalTrafficPolicy");
    }
}

/// Takes away what only the old type had, where it is as it was.
fn drop_other_types(spec: &mut Object, old: &Object) {
    let same = |spec: &Object, field: &str| spec.get(field) == old.get(field);
    if needs_cluster_ip(old) && !needs_cluster_ip(spec) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    let named = |spec: &Object| -> BTreeSet<i64> { spec.items("ports").map(|port| port.int("nodePort")).collect() };
    let no_new_ports = named(spec).iter().all(|port| *port == 0 || named(old).contains(port));
    if needs_node_ports(old) && !needs_node_ports(spec) && no_new_ports {
        spec.items_mut("ports").for_each(|port| drop(port.remove("nodePort")));
    }
    if needs_health_check(old) && !needs_health_check(spec) && same(spec, "healthCheckNodePort") {
        spec.remove("healthCheckNodePort");
    }
    if old.text("type") == "LoadBalancer" && spec.text("type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(spec) && same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
}

/// Where it is reached from outside, in a cell. Tables are always made wide: what is too much is the client's to cut.
fn outside(spec: &Object, object: &Object) -> String {
    let named = spec.strings("externalIPs");
    match spec.text("type") {
        "ClusterIP" | "NodePort" => cells::or(&named.collect::<Vec<_>>().join(","), "<none>").to_owned(),
        "LoadBalancer" => {
            let status = object.object("status").and_then(|status| status.object("loadBalancer"));
            let ingress = status.into_iter().flat_map(|status| status.items("ingress"));
            let each: BTreeSet<&str> = ingress.map(|one| cells::or(one.text("ip"), one.text("hostname"))).collect();
            let each = each.into_iter().filter(|text| !text.is_empty());
            cells::or(&each.chain(named).collect::<Vec<_>>().join(","), "<pending>").to_owned()
        }
        "ExternalName" => spec.text("externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}
