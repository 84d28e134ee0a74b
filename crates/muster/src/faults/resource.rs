//! The resources whose watches can be held and cut: those that the managers watch.

use muster_manager::explain::target;
use muster_runtime::explain::Kind;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// v1 Pod.
    Pods,
    /// What a controller works for.
    Of(Kind),
}

impl Resource {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::Pods, Self::Of(Kind::ReplicaSet), Self::Of(Kind::Deployment), Self::Of(Kind::ReplicationController)];

    /// As in paths, such as `replicasets`.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Of(kind) => kind.resource().plural,
        }
    }

    /// By one of the names that kubectl takes.
    ///
    /// # Errors
    /// What was expected in place of the word.
    pub(crate) fn of(word: &str) -> Result<Self, String> {
        if ["pods", "pod", "po"].iter().any(|known| known.eq_ignore_ascii_case(word)) {
            return Ok(Self::Pods);
        }
        target::kind(word).map(Self::Of).ok_or_else(|| {
            let known = Self::ALL.map(Self::plural).join(", ");
            format!("found {word:?}, expected what the managers watch: {known} (po, rs, deploy, rc)")
        })
    }

    /// That of a plural, as in paths.
    pub(super) fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.plural() == plural)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_have_the_names_of_kubectl_and_no_others() {
        for (word, plural) in [
            ("po", "pods"),
            ("Pod", "pods"),
            ("rs", "replicasets"),
            ("replicasets.apps", "replicasets"),
            ("deploy", "deployments"),
            ("rc", "replicationcontrollers"),
        ] {
            let found = Resource::of(word).unwrap();
            assert_eq!((found.plural(), Resource::of_plural(plural)), (plural, Some(found)), "{word}");
        }
        let error = Resource::of("nodes").unwrap_err();
        assert!(error.contains(r#"found "nodes""#) && error.contains("pods, replicasets, deployments"), "{error}");
    }
}
