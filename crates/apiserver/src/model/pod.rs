//! What several parts read off a pod's spec.

use std::collections::BTreeMap;

use muster_schema::quantity::Quantity;
use serde_json::{Value, json};

use super::{Fields as _, Object};

/// What the containers of a pod need together, of `requests` or `limits`: the running ones at once, and
/// at least what each init container needs beside the sidecars started before it.
#[must_use]
pub fn aggregate(spec: &Object, list: &str) -> BTreeMap<String, Quantity> {
    let of = |container: &Object| -> Vec<(String, Quantity)> {
        let resources = container.object("resources");
        let list = resources.and_then(|r| r.object(list));
        list.map(|l| l.iter().map(|(k, v)| (k.clone(), Quantity::of(v.as_str().unwrap_or_default()))).collect())
            .unwrap_or_default()
    };
    let add = |into: &mut BTreeMap<String, Quantity>, from: Vec<(String, Quantity)>| {
        for (name, quantity) in from {
            let sum = into.get(&name).map_or_else(|| quantity.clone(), |q| q.plus(&quantity));
            into.insert(name, sum);
        }
    };
    let most = |into: &mut BTreeMap<String, Quantity>, from: &BTreeMap<String, Quantity>| {
        for (name, quantity) in from {
            if into.get(name).is_none_or(|q| q.compare(quantity).is_lt()) {
                into.insert(name.clone(), quantity.clone());
            }
        }
    };
    let mut total = BTreeMap::new();
    for container in spec.items("containers") {
        add(&mut total, of(container));
    }
    let (mut sidecars, mut starting) = (BTreeMap::new(), BTreeMap::new());
    for container in spec.items("initContainers") {
        if container.text("restartPolicy") == "Always" {
            add(&mut total, of(container));
            add(&mut sidecars, of(container));
            most(&mut starting, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, of(container));
            most(&mut starting, &now);
        }
    }
    most(&mut total, &starting);
    total
}

/// The prefix of the annotations that once set a container's AppArmor profile.
pub(crate) const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The field that says what an AppArmor annotation said; none where it said nothing valid.
pub(crate) fn app_armor_field(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => {
            let profile = other.strip_prefix("localhost/").filter(|p| !p.is_empty() && p.trim() == *p)?;
            Some(json!({"type": "Localhost", "localhostProfile": profile}))
        }
    }
}
