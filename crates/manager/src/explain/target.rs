//! What is to be explained, as kubectl has it: `rs web`, `rs/web`, `deployments.apps web`.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use clap::error::ErrorKind;
use muster_objects::names::is_dns1123_subdomain;
use muster_runtime::client::configuration;
use muster_runtime::explain::Kind;

/// One object of a kind that can be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
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
        let (word, name) = match words {
            [word] => {
                word.split_once('/').ok_or_else(|| format!("of which {word:?}? expected KIND NAME or KIND/NAME"))?
            }
            [kind, name] => (&**kind, &**name),
            _ => return Err("expected KIND NAME or KIND/NAME".to_owned()),
        };
        let Some(kind) = self::kind(word) else {
            let known: Vec<String> = KINDS.iter().map(|(_, names)| names[..3].join(", ")).collect();
            return Err(format!("found {word:?}, expected one of {}", known.join(", ")));
        };
        if !is_dns1123_subdomain(name) {
            return Err(format!("{name:?} is no name of an object: lower case letters, digits, '-' and '.'"));
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

/// The kind of that name, if it is one that can be explained.
pub fn kind(word: &str) -> Option<Kind> {
    let named = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(word));
    KINDS.iter().find(|(_, names)| named(names)).map(|(kind, _)| *kind)
}

/// The arguments that name an object in a cluster.
#[derive(Debug, Args)]
pub struct Asked {
    /// A kind and a name, or KIND/NAME; kinds are deployment, replicaset, replicationcontroller (deploy, rs, rc)
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    words: Vec<String>,

    /// The object's namespace; else the one of the kubeconfig's context
    #[arg(short = 'n', long, value_name = "NAME", value_parser = parse_namespace)]
    namespace: Option<String>,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// The argument that names a cluster.
#[derive(Debug, Args)]
pub struct ClusterFlags {
    /// The cluster and who you are in it; else what KUBECONFIG names, else ~/.kube/config, else ./muster.kubeconfig, which
    /// `muster up` writes, else the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterFlags {
    /// The way to the cluster.
    ///
    /// # Errors
    /// Where there is no configuration, or it cannot be used.
    pub async fn config(&self) -> Result<kube::Config> {
        configuration(self.file().as_deref()).await.map_err(|error| anyhow!("{error}"))
    }

    /// The file that is named, or the one that kubectl would take; none leaves it to the environment.
    pub fn file(&self) -> Option<PathBuf> {
        file(self.kubeconfig.as_ref(), [users(), Some(OURS.into())])
    }
}

/// The argument that names a cluster, where it is most often one of `muster up`.
#[derive(Debug, Args)]
pub struct OwnClusterFlags {
    /// The cluster and who you are in it; else what KUBECONFIG names, else ./muster.kubeconfig, which `muster up` writes, else
    /// ~/.kube/config, else the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl OwnClusterFlags {
    /// The way to the cluster, and by what it was found, for errors.
    ///
    /// # Errors
    /// Where there is no configuration, or it cannot be used.
    pub async fn config(&self) -> Result<(kube::Config, String)> {
        let file = file(self.kubeconfig.as_ref(), [Some(OURS.into()), users()]);
        let config = configuration(file.as_deref()).await.map_err(|error| anyhow!("{error}"))?;
        let elsewhere = if is_named_by_environment() { "KUBECONFIG" } else { "the pod's service account" };
        Ok((config, file.map_or_else(|| elsewhere.to_owned(), |file| file.display().to_string())))
    }
}

/// The file that `muster up` writes by default.
const OURS: &str = "muster.kubeconfig";

/// The file that kubectl takes by default.
fn users() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"))
}

fn is_named_by_environment() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty())
}

/// The file that is named, else the first that is there; none leaves it to the environment.
fn file(named: Option<&PathBuf>, defaults: [Option<PathBuf>; 2]) -> Option<PathBuf> {
    if named.is_some() || is_named_by_environment() {
        return named.cloned();
    }
    defaults.into_iter().flatten().find(|file| file.is_file())
}

impl Asked {
    /// The object that is meant.
    ///
    /// # Errors
    /// In the words of the command line, where the kind is not known or the name is none.
    pub fn target(&self) -> Result<Target, clap::Error> {
        Target::of(&self.words).map_err(|said| clap::Error::raw(ErrorKind::ValueValidation, format!("{said}\n")))
    }

    /// Ends the process with 2 where the arguments cannot be used.
    pub fn check(&self) {
        if let Err(error) = self.target() {
            error.exit();
        }
    }

    /// The way to the cluster, and the namespace of the object.
    ///
    /// # Errors
    /// Where there is no configuration, or it cannot be used.
    pub async fn cluster(&self) -> Result<(kube::Config, String)> {
        let config = self.cluster.config().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok((config, namespace))
    }
}

fn parse_namespace(text: &str) -> Result<String, String> {
    if is_dns1123_subdomain(text) {
        Ok(text.to_owned())
    } else {
        Err("expected the name of a namespace: lower case letters, digits and '-'".to_owned())
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
                "found \"pod\", expected one of deployments, deployment, deploy, replicasets, replicaset, rs, \
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
