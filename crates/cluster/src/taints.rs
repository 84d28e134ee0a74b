//! Taints, tolerations, and node selectors: which pods a node keeps away, and which nodes a pod wants.

use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Labels, Timestamp};

/// What a taint does to a pod that does not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// The pod is not scheduled there.
    NoSchedule,
    /// The pod is scheduled there only if it fits nowhere else.
    PreferNoSchedule,
    /// The pod is not scheduled there, and leaves if it runs there.
    NoExecute,
}

impl Effect {
    /// Reads an effect by its API name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => return None,
        })
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// The taint's key.
    pub key: Arc<str>,
    /// Its value, often empty.
    pub value: Arc<str>,
    /// What it does.
    pub effect: Effect,
    /// When it came, where that was written down.
    pub time_added: Option<Timestamp>,
}

/// How a toleration compares its value with a taint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    /// Key and value are equal.
    Equal,
    /// The key is there (or the toleration names none: every taint).
    Exists,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint key it is about; empty with `Exists` for all.
    pub key: Arc<str>,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The value for `Equal`.
    pub value: Arc<str>,
    /// The effect it is about, or every one.
    pub effect: Option<Effect>,
    /// How long a NoExecute taint is tolerated; `None` is for ever, negative is not at all.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// Whether `taint` is tolerated (for however long).
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !self.key.is_empty() && self.value == taint.value,
        }
    }
}

/// The first of `taints` among the `effects` that nothing tolerates.
#[must_use]
pub fn untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration], effects: &[Effect]) -> Option<&'t Taint> {
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect))
        .find(|taint| !tolerations.iter().any(|t| t.tolerates(taint)))
}

/// How long a pod may stay under a node's NoExecute taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// For ever.
    Forever,
    /// This long after the taint came.
    For(Duration),
    /// Not at all.
    Leave,
}

/// How long `tolerations` let a pod stay under `taints`: the shortest of the times of the tolerations in
/// use, and not at all if one taint is not tolerated.
#[must_use]
pub fn stay(taints: &[Taint], tolerations: &[Toleration]) -> Stay {
    if untolerated(taints, tolerations, &[Effect::NoExecute]).is_some() {
        return Stay::Leave;
    }
    let mut shortest: Option<i64> = None;
    for taint in taints.iter().filter(|taint| taint.effect == Effect::NoExecute) {
        for toleration in tolerations.iter().filter(|t| t.tolerates(taint)) {
            if let Some(seconds) = toleration.seconds {
                shortest = Some(shortest.map_or(seconds, |least| least.min(seconds)));
            }
        }
    }
    match shortest {
        None => Stay::Forever,
        Some(seconds) => Stay::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    }
}

/// One requirement of a node selector term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeRequirement {
    /// The label key, or the field `metadata.name`.
    pub key: Arc<str>,
    /// How it is compared.
    pub operator: NodeOperator,
    /// What with.
    pub values: Vec<Arc<str>>,
}

/// The operators of a node selector requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeOperator {
    /// The value is one of these.
    In,
    /// The value is none of these, or there is none.
    NotIn,
    /// There is one.
    Exists,
    /// There is none.
    DoesNotExist,
    /// The value, as an integer, is greater.
    Gt,
    /// The value, as an integer, is less.
    Lt,
}

impl NodeOperator {
    /// Reads an operator by its API name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }
}

impl NodeRequirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let compared = |than: fn(&i64, &i64) -> bool| {
            let bound = self.values.first().and_then(|text| text.parse::<i64>().ok());
            let value = value.and_then(|text| text.parse::<i64>().ok());
            value.zip(bound).is_some_and(|(value, bound)| than(&value, &bound))
        };
        match self.operator {
            NodeOperator::In => value.is_some_and(|value| self.values.iter().any(|v| **v == *value)),
            NodeOperator::NotIn => value.is_none_or(|value| !self.values.iter().any(|v| **v == *value)),
            NodeOperator::Exists => value.is_some(),
            NodeOperator::DoesNotExist => value.is_none(),
            NodeOperator::Gt => compared(i64::gt),
            NodeOperator::Lt => compared(i64::lt),
        }
    }
}

/// One term of a required node affinity. Its requirements must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// Requirements on labels.
    pub expressions: Vec<NodeRequirement>,
    /// Requirements on fields, of which there is `metadata.name`.
    pub fields: Vec<NodeRequirement>,
}

impl NodeTerm {
    /// Whether a node of that name with those labels satisfies the term. A term without requirements is
    /// satisfied by none.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        !(self.expressions.is_empty() && self.fields.is_empty())
            && self.expressions.iter().all(|requirement| requirement.matches(labels.get(&requirement.key)))
            && self.fields.iter().all(|field| &*field.key == "metadata.name" && field.matches(Some(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: Effect) -> Taint {
        Taint { key: key.into(), value: value.into(), effect, time_added: None }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: Option<Effect>) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect, seconds: None }
    }

    /// Contract: SIM-02, SIM-06
    #[test]
    fn tolerations_match_taints_as_upstream_matches_them() {
        use Effect::{NoExecute, NoSchedule};
        use TolerationOperator::{Equal, Exists};
        for (name, tolerated, with, taint) in [
            ("equal", true, toleration("a", Equal, "1", Some(NoSchedule)), taint("a", "1", NoSchedule)),
            ("other value", false, toleration("a", Equal, "2", Some(NoSchedule)), taint("a", "1", NoSchedule)),
            ("other effect", false, toleration("a", Equal, "1", Some(NoExecute)), taint("a", "1", NoSchedule)),
            ("every effect", true, toleration("a", Equal, "1", None), taint("a", "1", NoExecute)),
            ("exists", true, toleration("a", Exists, "", None), taint("a", "1", NoSchedule)),
            ("exists elsewhere", false, toleration("b", Exists, "", None), taint("a", "1", NoSchedule)),
            ("everything", true, toleration("", Exists, "", None), taint("a", "1", NoExecute)),
            ("no key and Equal is nothing", false, toleration("", Equal, "1", None), taint("a", "1", NoSchedule)),
        ] {
            assert_eq!(with.tolerates(&taint), tolerated, "{name}");
        }
    }

    /// Contract: SIM-06
    #[test]
    fn the_shortest_toleration_in_use_decides_how_long_a_pod_stays() {
        let gone = taint("node.kubernetes.io/unreachable", "", Effect::NoExecute);
        let mine = taint("mine", "", Effect::NoExecute);
        let mild = taint("mild", "", Effect::NoSchedule);
        let some = |key: &str, seconds| Toleration { seconds, ..toleration(key, TolerationOperator::Exists, "", None) };
        let tolerations = [some("node.kubernetes.io/unreachable", Some(300)), some("mine", None)];
        assert_eq!(stay(&[], &tolerations), Stay::Forever);
        assert_eq!(stay(std::slice::from_ref(&mild), &[]), Stay::Forever);
        assert_eq!(stay(std::slice::from_ref(&mine), &[]), Stay::Leave);
        assert_eq!(stay(std::slice::from_ref(&mine), &tolerations), Stay::Forever);
        assert_eq!(stay(&[gone.clone(), mine.clone()], &tolerations), Stay::For(Duration::from_secs(300)));
        assert_eq!(stay(&[gone.clone(), mine], &tolerations[..1]), Stay::Leave);
        assert_eq!(stay(&[gone], &[some("", Some(-5))]), Stay::For(Duration::ZERO));
    }

    /// Contract: SIM-02
    #[test]
    fn node_terms_match_labels_and_names() {
        use NodeOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        let labels: Labels = [("zone", "a"), ("cores", "8")].into_iter().collect();
        for (operator, key, values, want) in [
            (In, "zone", vec!["a", "b"], true),
            (In, "zone", vec!["b"], false),
            (In, "none", vec!["a"], false),
            (NotIn, "zone", vec!["b"], true),
            (NotIn, "none", vec!["b"], true),
            (Exists, "zone", vec![], true),
            (DoesNotExist, "zone", vec![], false),
            (Gt, "cores", vec!["7"], true),
            (Gt, "cores", vec!["8"], false),
            (Lt, "cores", vec!["9"], true),
            (Lt, "zone", vec!["9"], false),
        ] {
            let values = values.into_iter().map(Arc::from).collect();
            let term =
                NodeTerm { expressions: vec![NodeRequirement { key: key.into(), operator, values }], fields: vec![] };
            assert_eq!(term.matches("n1", &labels), want, "{term:?}");
        }
        assert!(!NodeTerm::default().matches("n1", &labels), "an empty term is satisfied by no node");
        let by_name = NodeRequirement { key: "metadata.name".into(), operator: In, values: vec!["n1".into()] };
        let term = NodeTerm { expressions: vec![], fields: vec![by_name] };
        assert!(term.matches("n1", &labels) && !term.matches("n2", &labels));
    }
}
