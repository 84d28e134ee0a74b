//! A pod's quality of service class, from the requests and limits of its containers.

use std::collections::BTreeMap;

use super::{Fields as _, Object};
use muster_schema::quantity::Quantity;

/// `Guaranteed`, `Burstable` or `BestEffort`. Only cpu and memory count, and only where above zero.
#[must_use]
pub fn qos_class(spec: &Object) -> &'static str {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    if let Some(resources) = spec.object("resources") {
        add(&mut requests, Some(resources), "requests");
        if resources.object("limits").is_some_and(|l| !l.is_empty()) {
            guaranteed = add(&mut limits, Some(resources), "limits") == 2;
        }
    } else {
        for container in spec.items("containers").chain(spec.items("initContainers")) {
            let resources = container.object("resources");
            add(&mut requests, resources, "requests");
            // Each container must limit both for the pod to be guaranteed.
            guaranteed &= add(&mut limits, resources, "limits") == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let same = requests.len() == limits.len()
        && requests.iter().all(|(name, r)| limits.get(name).is_some_and(|l: &Quantity| l.compare(r).is_eq()));
    if guaranteed && same { "Guaranteed" } else { "Burstable" }
}

/// Adds the counting quantities of one list and says how many there were.
fn add(into: &mut BTreeMap<&'static str, Quantity>, resources: Option<&Object>, list: &str) -> usize {
    let Some(list) = resources.and_then(|r| r.object(list)) else { return 0 };
    let mut counted = 0;
    for name in ["cpu", "memory"] {
        let Some(quantity) = list.maybe_text(name).map(Quantity::of).filter(Quantity::is_positive) else { continue };
        counted += 1;
        let sum = into.get(name).map_or_else(|| quantity.clone(), |q| q.plus(&quantity));
        into.insert(name, sum);
    }
    counted
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    /// Contract: API-16
    #[test]
    fn classes_by_the_table() {
        let container = |resources: Value| json!({"name": "c", "resources": resources});
        let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
        let cases = [
            (json!({"containers": [container(json!({}))]}), "BestEffort"),
            (json!({"containers": [container(json!({"requests": {"cpu": "0"}}))]}), "BestEffort"),
            (json!({"containers": [container(json!({"requests": {"example.com/gpu": "1"}}))]}), "BestEffort"),
            (json!({"containers": [container(both.clone())]}), "Guaranteed"),
            (json!({"containers": [container(both.clone()), container(json!({}))]}), "Burstable"),
            (
                json!({"containers": [container(both.clone())], "initContainers": [container(json!({"requests": {"cpu": "1"}}))]}),
                "Burstable",
            ),
            (
                json!({"containers": [container(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}))]}),
                "Burstable",
            ),
            (json!({"resources": both, "containers": [container(json!({}))]}), "Guaranteed"),
        ];
        for (spec, want) in cases {
            assert_eq!(qos_class(spec.as_object().expect("object")), want, "{spec}");
        }
    }
}
