//! What several parts read off a pod's spec.

use muster_tree::{Value, json};

use super::{Fields as _, Object, ResourceList};

/// What the containers of a pod need together, of `requests` or `limits`, as its spec says.
#[must_use]
pub fn aggregate(spec: &Object, list: &str) -> ResourceList {
    aggregate_by(spec, |container, _| ResourceList::read(container.part("resources").object(list)))
}

/// What the containers of a pod need together, each what `of` says: the running ones at once, and at least what each
/// init container needs beside the sidecars started before it.
#[must_use]
pub fn aggregate_by(spec: &Object, of: impl Fn(&Object, Runs) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::default();
    for container in spec.items("containers") {
        total.add(&of(container, Runs::Always));
    }
    let (mut sidecars, mut most) = (ResourceList::default(), ResourceList::default());
    for container in spec.items("initContainers") {
        if container.text("restartPolicy") == "Always" {
            let own = of(container, Runs::AsSidecar);
            total.add(&own);
            sidecars.add(&own);
            most.raise_to(&sidecars);
        } else {
            let mut beside = of(container, Runs::AtFirst);
            beside.add(&sidecars);
            most.raise_to(&beside);
        }
    }
    total.raise_to(&most);
    total
}

/// When a container of a pod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// While the pod does.
    Always,
    /// From its turn among the init containers on.
    AsSidecar,
    /// In its turn, to its end.
    AtFirst,
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
