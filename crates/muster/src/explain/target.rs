//! What is to be explained, as kubectl has it: `rs web`, `rs/web`, `deployments.apps web`.

use muster_objects::names::is_dns1123_subdomain;
use muster_runtime::explain::Kind;

/// One object of a kind that can be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its name.
    pub(crate) name: String,
}

/// The names of the kinds: as in paths, then the others that kubectl takes.
const KINDS: [(Kind, &[&str]); 3] = [
    (Kind::Deployment, &["deployments", "deployment", "deploy", "deployments.apps", "deployment.apps"]),
    (Kind::ReplicaSet, &["replicasets", "replicaset", "rs", "replicasets.apps", "replicaset.apps"]),
    (Kind::ReplicationController, &["replicationcontrollers", "replicationcontroller", "rc"]),
];

impl Target {
    /// Of one word `KIND/NAME`, or of two.
    ///
    /// # Errors
    /// What was expected in place of the words.
    pub(crate) fn of(words: &[String]) -> Result<Self, String> {
        let (kind, name) = match words {
            [word] => {
                word.split_once('/').ok_or_else(|| format!("of which {word:?}? expected KIND NAME or KIND/NAME"))?
            }
            [kind, name] => (&**kind, &**name),
            _ => return Err("expected KIND NAME or KIND/NAME".to_owned()),
        };
        let found = KINDS.iter().find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(kind)));
        let Some((kind, _)) = found else {
            let known: Vec<String> = KINDS.iter().map(|(_, names)| names[..3].join(", ")).collect();
            return Err(format!("{kind:?} cannot be explained; known are {}", known.join(", ")));
        };
        if !is_dns1123_subdomain(name) {
            return Err(format!("{name:?} is no name of an object: lower case letters, digits, '-' and '.'"));
        }
        Ok(Self { kind: *kind, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(words: &str) -> Result<Target, String> {
        Target::of(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn kinds_by_all_the_names_that_kubectl_has() {
        for (words, kind) in [
            ("rs web", Kind::ReplicaSet),
            ("rs/web", Kind::ReplicaSet),
            ("ReplicaSet web", Kind::ReplicaSet),
            ("replicasets.apps/web", Kind::ReplicaSet),
            ("deploy web", Kind::Deployment),
            ("deployment/web", Kind::Deployment),
            ("deployments web", Kind::Deployment),
            ("rc web", Kind::ReplicationController),
            ("replicationcontrollers web", Kind::ReplicationController),
        ] {
            assert_eq!(target(words), Ok(Target { kind, name: "web".to_owned() }), "{words}");
        }
    }

    #[test]
    fn what_cannot_be_explained_is_told_with_what_can() {
        for (words, said) in [
            (
                "pod web",
                "\"pod\" cannot be explained; known are deployments, deployment, deploy, replicasets, replicaset, rs, \
                 replicationcontrollers, replicationcontroller, rc",
            ),
            ("rs", "of which \"rs\"? expected KIND NAME or KIND/NAME"),
            ("rs a b", "expected KIND NAME or KIND/NAME"),
            ("rs/../secrets", "\"../secrets\" is no name of an object: lower case letters, digits, '-' and '.'"),
            ("rs Web", "\"Web\" is no name of an object: lower case letters, digits, '-' and '.'"),
        ] {
            assert_eq!(target(words).unwrap_err(), said, "{words}");
        }
    }
}
