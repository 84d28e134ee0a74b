//! What a pod asks of a node and what a node has to give: cpu, memory, storage, and named extras.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_schema::quantity::Quantity;

use crate::json::Text;

/// Amounts of resources: cpu in thousandths of a core, everything else in whole units (bytes, counts).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Thousandths of a core.
    pub milli_cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of local storage.
    pub ephemeral_storage: i64,
    /// Extended resources and huge pages by name. Empty for nearly every pod.
    pub other: Vec<(Arc<str>, i64)>,
}

/// A resource list as it stands in JSON. Quantities may also be written as bare numbers.
pub(crate) type WireResources<'a> = BTreeMap<Text<'a>, WireQuantity<'a>>;

/// A quantity in JSON: a string, or a number that the server has not normalised.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum WireQuantity<'a> {
    /// The usual form.
    Text(#[serde(borrow)] Text<'a>),
    /// `cpu: 1` as a stored template may still have it.
    Number(serde_json::Number),
}

impl WireQuantity<'_> {
    /// As it is written.
    pub(crate) fn text(&self) -> Box<str> {
        match self {
            Self::Text(text) => text.as_box(),
            Self::Number(number) => number.to_string().into(),
        }
    }

    fn read(&self) -> Quantity {
        match self {
            // The server validates quantities; one that got by it asks for nothing.
            Self::Text(text) => Quantity::of(text),
            Self::Number(number) => Quantity::of(&number.to_string()),
        }
    }
}

impl Resources {
    /// Reads a resource list. `pods` is not a resource that is added up, and is left to the caller.
    pub(crate) fn from_wire(list: &WireResources<'_>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            let quantity = quantity.read();
            match &**name {
                "cpu" => resources.milli_cpu = quantity.milli_value(),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.value(),
                "pods" => {}
                other => resources.other.push((Arc::from(other), quantity.value())),
            }
        }
        resources
    }

    /// How many pods a node's resource list allows, if it says.
    pub(crate) fn pods(list: &WireResources<'_>) -> Option<i64> {
        list.iter().find(|(name, _)| &***name == "pods").map(|(_, quantity)| quantity.read().value())
    }

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.milli_cpu == 0
            && self.memory == 0
            && self.ephemeral_storage == 0
            && self.other.iter().all(|(_, n)| *n == 0)
    }

    /// Adds `more` to this.
    pub fn add(&mut self, more: &Self) {
        self.combine(more, i64::saturating_add);
    }

    /// Takes `less` from this.
    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, i64::saturating_sub);
    }

    /// Raises each amount to at least `other`'s.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    /// How much of the extended resource there is.
    #[must_use]
    pub fn extended(&self, name: &str) -> i64 {
        self.other.iter().find(|(n, _)| &**n == name).map_or(0, |(_, amount)| *amount)
    }

    fn combine(&mut self, other: &Self, f: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = f(self.milli_cpu, other.milli_cpu);
        self.memory = f(self.memory, other.memory);
        self.ephemeral_storage = f(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.other {
            if let Some((_, mine)) = self.other.iter_mut().find(|(n, _)| n == name) {
                *mine = f(*mine, *amount);
            } else {
                self.other.push((name.clone(), f(0, *amount)));
                self.other.sort_by(|a, b| a.0.cmp(&b.0));
            }
        }
    }
}

/// One container's part in its pod's request.
pub(crate) struct Ask {
    /// What the container requests.
    pub(crate) requests: Resources,
    /// Whether it is an init container that keeps running (a sidecar).
    pub(crate) sidecar: bool,
}

/// What a pod as a whole requests of its node.
///
/// Containers and sidecars run together and add up. An ordinary init container runs alone beside the
/// sidecars started before it, so the pod needs the larger of the two. Overhead is on top. A request
/// at the pod's own level, where there is one, stands for the sum.
pub(crate) fn pod_requests(
    init: &[Ask],
    containers: &[Ask],
    overhead: Option<&Resources>,
    pod_level: Option<&Resources>,
) -> Resources {
    let mut total = Resources::default();
    for ask in containers {
        total.add(&ask.requests);
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for ask in init {
        if ask.sidecar {
            total.add(&ask.requests);
            sidecars.add(&ask.requests);
            peak.raise_to(&sidecars);
        } else {
            let mut with = sidecars.clone();
            with.add(&ask.requests);
            peak.raise_to(&with);
        }
    }
    total.raise_to(&peak);
    if let Some(level) = pod_level {
        // Only cpu and memory can be asked for at the pod's level.
        if level.milli_cpu != 0 {
            total.milli_cpu = level.milli_cpu;
        }
        if level.memory != 0 {
            total.memory = level.memory;
        }
    }
    if let Some(overhead) = overhead {
        total.add(overhead);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(milli: i64) -> Resources {
        Resources { milli_cpu: milli, ..Resources::default() }
    }

    fn ask(milli: i64) -> Ask {
        Ask { requests: cpu(milli), sidecar: false }
    }

    fn sidecar(milli: i64) -> Ask {
        Ask { requests: cpu(milli), sidecar: true }
    }

    /// Contract: SIM-02
    #[test]
    fn init_containers_and_sidecars_count_as_the_scheduler_counts_them() {
        for (name, init, containers, want) in [
            ("containers add up", vec![], vec![ask(100), ask(200)], 300),
            ("a small init container hides", vec![ask(50)], vec![ask(100)], 100),
            ("a big one decides", vec![ask(500), ask(400)], vec![ask(100)], 500),
            ("a sidecar runs on", vec![sidecar(50)], vec![ask(100)], 150),
            ("init after a sidecar runs beside it", vec![sidecar(50), ask(120)], vec![ask(100)], 170),
            ("init before a sidecar runs alone", vec![ask(120), sidecar(50)], vec![ask(100)], 150),
        ] {
            assert_eq!(pod_requests(&init, &containers, None, None).milli_cpu, want, "{name}");
        }
        let level = cpu(1000);
        assert_eq!(pod_requests(&[], &[ask(100)], Some(&cpu(7)), Some(&level)).milli_cpu, 1007, "pod level, overhead");
    }

    /// Contract: SIM-02
    #[test]
    fn adding_and_subtracting_an_extended_resource_leaves_nothing() {
        let gpu = Resources { other: vec![(Arc::from("example.com/gpu"), 2)], ..Resources::default() };
        let mut sum = cpu(5);
        sum.add(&gpu);
        assert_eq!(sum.extended("example.com/gpu"), 2);
        sum.subtract(&gpu);
        sum.subtract(&cpu(5));
        assert!(sum.is_empty());
    }
}
