//! What objects count against ResourceQuotas, and which quotas they fall under.
//!
//! ```text
//!   kind of object --> Evaluator: tracks "requests.cpu"? in scope? usage of one object
//!                          |
//!       admission adds the usage of what is new; the quota controller sums up what is there
//! ```
//!
//! The rules are those of upstream's evaluators: pods, services and claims have their own, and every other kind is
//! counted as `count/<plural>.<group>`, a few of them by an older name as well.

mod pods;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use muster_objects::Selector;
use muster_objects::labels::Labels;
use muster_objects::selector::{LabelSelector, LabelSelectorRequirement};
use muster_objects::time::Timestamp;
use muster_schema::quantity::Quantity;

pub use self::pods::unspecified;
use crate::model::Object;
pub use crate::model::ResourceList;
use crate::model::fields::Fields;
use crate::model::qos::qos_class;
use crate::validation::devices::MOST_REQUESTS;

/// What claims of a storage class count as, after the class.
const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// What devices that claims ask for count as, after their class.
const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// What of claims is counted.
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// What a ResourceClaim counts as, whatever it asks for.
const COUNT_OF_DEVICE_CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
/// What of services is counted.
const OF_SERVICES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];

/// How the objects of one kind are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluator {
    /// Pods: their number, and what they request and may use.
    Pods,
    /// Services: their number, and what some types take.
    Services,
    /// PersistentVolumeClaims: their number and size, as a whole and by storage class.
    Claims,
    /// ResourceClaims: their number, and the devices that they ask for at most, by class.
    DeviceClaims,
    /// Anything else: its number, under these names.
    Count(Vec<String>),
}

/// A scope of a quota: a requirement on the objects that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Such as `BestEffort` or `PriorityClass`.
    pub name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values, for `In` and `NotIn`.
    pub values: Vec<String>,
}

impl Evaluator {
    /// The evaluator of a kind; none for what is not counted.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        let count = |alias: Option<&str>| {
            let mut names = vec![object_count(group, plural)];
            names.extend(alias.map(str::to_owned));
            Some(Self::Count(names))
        };
        match (group, plural) {
            ("", "pods") => Some(Self::Pods),
            ("", "services") => Some(Self::Services),
            ("", "persistentvolumeclaims") => Some(Self::Claims),
            ("resource.k8s.io", "resourceclaims") => Some(Self::DeviceClaims),
            ("", "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets") => count(Some(plural)),
            ("" | "events.k8s.io", "events") | ("", "bindings" | "componentstatuses") => None,
            ("authentication.k8s.io" | "authorization.k8s.io", _) => None,
            _ => count(None),
        }
    }

    /// Whether it measures the resource of that name in a quota.
    #[must_use]
    pub fn tracks(&self, resource: &str) -> bool {
        match self {
            Self::Pods => pods::tracks(resource),
            Self::Services => resource == "count/services" || OF_SERVICES.contains(&resource),
            Self::Claims => {
                let own = |name: &str| OF_CLAIMS.contains(&name);
                resource == "count/persistentvolumeclaims"
                    || own(resource)
                    || resource.split_once(BY_STORAGE_CLASS).is_some_and(|(_, name)| own(name))
            }
            Self::DeviceClaims => resource == COUNT_OF_DEVICE_CLAIMS || resource.ends_with(BY_DEVICE_CLASS),
            Self::Count(names) => names.iter().any(|name| name == resource),
        }
    }

    /// What one object uses.
    #[must_use]
    pub fn usage(&self, object: &Object, now: Timestamp) -> ResourceList {
        match self {
            Self::Pods => pods::usage(object, now),
            Self::Services => of_service(object),
            Self::Claims => of_claim(object),
            Self::DeviceClaims => of_device_claim(object),
            Self::Count(names) => names.iter().map(|name| (name.clone(), one())).collect(),
        }
    }

    /// When an object comes to use less, though nobody writes it.
    #[must_use]
    pub fn ends(&self, object: &Object) -> Option<Timestamp> {
        if *self == Self::Pods { pods::ends(object) } else { None }
    }

    /// Whether an object is within all of a quota's scopes.
    #[must_use]
    pub fn is_in(&self, scopes: &[Scope], object: &Object) -> bool {
        scopes.iter().all(|scope| match self {
            Self::Pods => pod_is_in(scope, object),
            Self::Claims => claim_is_in(scope, object),
            Self::Services | Self::DeviceClaims | Self::Count(_) => false,
        })
    }
}

/// The name under which the objects of a kind are counted.
#[must_use]
pub fn object_count(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

/// The scopes of a quota, by its spec.
#[must_use]
pub fn scopes(spec: &Object) -> Vec<Scope> {
    let named = spec.strings("scopes").map(|name| Scope {
        name: name.to_owned(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let selected = spec.object("scopeSelector").into_iter().flat_map(|selector| selector.items("matchExpressions"));
    let selected = selected.map(|requirement| Scope {
        name: requirement.text("scopeName").to_owned(),
        operator: requirement.text("operator").to_owned(),
        values: requirement.strings("values").map(str::to_owned).collect(),
    });
    named.chain(selected).collect()
}

fn one() -> Quantity {
    number(1)
}

fn number(count: usize) -> Quantity {
    Quantity::of(&count.to_string())
}

fn of_service(service: &Object) -> ResourceList {
    let empty = Object::new();
    let spec = service.object("spec").unwrap_or(&empty);
    let ports = spec.items("ports").count();
    let given = spec.items("ports").filter(|port| port.int("nodePort") != 0).count();
    let (node_ports, balancers) = match spec.text("type") {
        "NodePort" => (ports, 0),
        // The ports are not given yet when it is created: what counts is whether they will be.
        "LoadBalancer" if spec.maybe_flag("allocateLoadBalancerNodePorts") == Some(false) => (given, 1),
        "LoadBalancer" => (ports, 1),
        _ => (0, 0),
    };
    let counts = [("count/services", 1), ("services", 1), ("services.nodeports", node_ports)];
    let counts = counts.into_iter().chain([("services.loadbalancers", balancers)]);
    counts.map(|(name, count)| (name.to_owned(), number(count))).collect()
}

fn of_claim(claim: &Object) -> ResourceList {
    let empty = Object::new();
    let (spec, status) = (claim.object("spec").unwrap_or(&empty), claim.object("status").unwrap_or(&empty));
    let of = |list: Option<&Object>| list.and_then(|list| list.maybe_text("storage")).map(Quantity::of);
    let asked = of(spec.object("resources").and_then(|resources| resources.object("requests")));
    let size = asked.map(|asked| {
        let given = of(status.object("allocatedResources")).filter(|given| given.compare(&asked).is_gt());
        whole_bytes(given.unwrap_or(asked))
    });
    let class = crate::model::fields::metadata(claim)
        .object("annotations")
        .and_then(|annotations| annotations.maybe_text("volume.beta.kubernetes.io/storage-class"))
        .unwrap_or(spec.text("storageClassName"));
    let mut usage = ResourceList::default();
    usage.insert("count/persistentvolumeclaims".to_string(), one());
    let mut put = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            usage.insert(format!("{class}{BY_STORAGE_CLASS}{name}"), amount.clone());
        }
        usage.insert(name.to_owned(), amount);
    };
    put("persistentvolumeclaims", one());
    if let Some(size) = size {
        put("requests.storage", size);
    }
    usage
}

/// What a ResourceClaim counts as. Of alternatives the one that takes most of a class counts.
fn of_device_claim(claim: &Object) -> ResourceList {
    let asked = |request: &Object| match request.text("allocationMode") {
        "ExactCount" => request.int("count"),
        "All" => i64::try_from(MOST_REQUESTS).unwrap_or(i64::MAX),
        _ => 0,
    };
    let mut devices: BTreeMap<&str, i64> = BTreeMap::new();
    for request in claim.part("spec").part("devices").items("requests") {
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for one in request.object("exactly").into_iter().chain(request.items("firstAvailable")) {
            let count = most.entry(one.text("deviceClassName")).or_default();
            *count = asked(one).max(*count);
        }
        for (class, count) in most {
            let sum = devices.entry(class).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    let by_class = devices
        .into_iter()
        .map(|(class, count)| (format!("{class}{BY_DEVICE_CLASS}"), Quantity::of(&count.to_string())));
    by_class.chain([(COUNT_OF_DEVICE_CLAIMS.to_owned(), one())]).collect()
}

/// A size without a fraction of a byte.
fn whole_bytes(size: Quantity) -> Quantity {
    if size.is_integer() { size } else { Quantity::of(&size.value().to_string()) }
}

/// Whether a pod has a deadline.
#[must_use]
pub fn is_terminating(pod: &Object) -> bool {
    pod.object("spec").and_then(|spec| spec.maybe_int("activeDeadlineSeconds")).is_some_and(|seconds| seconds >= 0)
}

fn pod_is_in(scope: &Scope, pod: &Object) -> bool {
    let empty = Object::new();
    let spec = pod.object("spec").unwrap_or(&empty);
    let best_effort = || {
        let known = pod.object("status").map(|status| status.text("qosClass")).filter(|class| !class.is_empty());
        known.unwrap_or_else(|| qos_class(spec)) == "BestEffort"
    };
    match &*scope.name {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => scope.selects(spec.text("priorityClassName")),
        "CrossNamespacePodAffinity" => pods::reaches_other_namespaces(spec),
        _ => false,
    }
}

fn claim_is_in(scope: &Scope, claim: &Object) -> bool {
    if scope.name != "VolumeAttributesClass" {
        return false;
    }
    let part = |name: &str| claim.object(name);
    let names = [
        part("spec").map(|spec| spec.text("volumeAttributesClassName")),
        part("status").map(|status| status.text("currentVolumeAttributesClassName")),
        part("status").and_then(|s| s.object("modifyVolumeStatus")).map(|s| s.text("targetVolumeAttributesClassName")),
    ];
    let named: Vec<&str> = names.into_iter().flatten().filter(|name| !name.is_empty()).collect();
    if named.is_empty() { scope.selects("") } else { named.into_iter().any(|name| scope.selects(name)) }
}

impl Scope {
    /// Whether it asks for an object with that value; empty for none. A scope that is no valid requirement selects
    /// nothing.
    fn selects(&self, value: &str) -> bool {
        let requirement = LabelSelectorRequirement {
            key: self.name.clone(),
            operator: self.operator.clone(),
            values: self.values.iter().map(|value| Box::from(&**value)).collect(),
        };
        let wire = LabelSelector { match_labels: Labels::EMPTY, match_expressions: vec![requirement] };
        let found = |key: &str| (key == self.name && !value.is_empty()).then_some(value);
        Selector::try_from(&wire).is_ok_and(|selector| selector.matches_fn(found))
    }
}
