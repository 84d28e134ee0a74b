//! What a suite may ask for beyond the reference's flags: controllers, nodes, how long pods take, a seed.
//!
//! By the environment, for every test environment of a suite, or by flags of `kube-apiserver`, which go before it:
//!
//! ```text
//!   MUSTER_ENVTEST='controllers=gc,namespaces,deployments,replicasets;nodes=3;pod-startup=100ms..1s;seed=7'
//!   apiServer.Configure().Set("muster-nodes", "3")
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use muster_cluster::DelayRange;
use muster_cluster::controllers::{CSR_SIGNING, ROOT_CA};
use muster_cluster::embedded::known_controllers;
use muster_runtime::duration::parse_duration;
use muster_runtime::manager::{self, Name};

use super::flags::Given;

/// The variable of the environment.
pub(super) const VARIABLE: &str = "MUSTER_ENVTEST";
/// What a flag's name begins with, before the key.
const PREFIX: &str = "muster-";

/// The flags, for the help.
pub(super) const FLAGS: [(&str, &str); 5] = [
    ("muster-controllers", "text"),
    ("muster-nodes", "int"),
    ("muster-pod-shutdown", "duration"),
    ("muster-pod-startup", "text"),
    ("muster-seed", "int"),
];

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extras {
    pub(super) controllers: BTreeSet<Name>,
    pub(super) nodes: u32,
    pub(super) pod_startup: DelayRange,
    pub(super) pod_shutdown: Duration,
    pub(super) seed: Option<u64>,
}

impl Extras {
    /// What the variable and the flags say; a flag goes before the variable.
    ///
    /// # Errors
    /// Where a key is unknown, or a value is none of its kind.
    pub(super) fn read(variable: Option<&str>, given: &Given) -> Result<Self> {
        let mut extras = Self {
            controllers: controllers("gc,namespaces")?,
            nodes: 0,
            pod_startup: DelayRange::ZERO,
            pod_shutdown: Duration::ZERO,
            seed: None,
        };
        for entry in variable.unwrap_or_default().split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some((key, value)) = entry.split_once('=') else {
                bail!("{VARIABLE}: found {entry:?}, expected key=value, several of them divided by `;`");
            };
            let (key, value) = (key.trim(), value.trim());
            extras.set(key, value).with_context(|| format!("{VARIABLE}: {key}={value}"))?;
        }
        for (flag, _) in FLAGS {
            // An empty one is something too: no controllers.
            if let Some(value) = given.all(flag).last() {
                let key = flag.strip_prefix(PREFIX).unwrap_or(flag);
                extras.set(key, value).with_context(|| format!("--{flag}={value}"))?;
            }
        }
        Ok(extras)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "controllers" => self.controllers = controllers(value)?,
            "nodes" => self.nodes = value.parse().context("expected a whole number of nodes")?,
            "pod-shutdown" => self.pod_shutdown = parse_duration(value)?,
            "pod-startup" => self.pod_startup = value.parse()?,
            "seed" => self.seed = Some(value.parse().context("expected a whole number")?),
            _ => {
                let known = FLAGS.map(|(flag, _)| flag.strip_prefix(PREFIX).unwrap_or(flag)).join(", ");
                bail!("there is no such key; known are {known}")
            }
        }
        Ok(())
    }
}

/// The controllers of a list, as `muster up --controllers` takes it, and by short names: `gc`, and plural names of what
/// they are for.
fn controllers(list: &str) -> Result<BTreeSet<Name>> {
    // These need the key of the cluster's authority, which envtest keeps.
    let known: Vec<Name> =
        known_controllers().into_iter().filter(|name| ![CSR_SIGNING, ROOT_CA].contains(name)).collect();
    let whole = |entry: &str| {
        let (minus, bare) = entry.strip_prefix('-').map_or(("", entry), |bare| ("-", bare));
        let singular = bare.strip_suffix('s').unwrap_or(bare);
        let candidates = [format!("{bare}-controller"), format!("{singular}-controller")];
        let found = match bare {
            "gc" => Some("garbage-collector-controller"),
            _ => known.iter().map(|name| name.name).find(|name| candidates.iter().any(|one| one == name)),
        };
        format!("{minus}{}", found.unwrap_or(bare))
    };
    let list: Vec<String> = list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(whole).collect();
    Ok(manager::select(&list.join(","), &known)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variable: &str) -> Result<Extras> {
        Extras::read(Some(variable), &Given::default())
    }

    fn names(extras: &Extras) -> Vec<&str> {
        extras.controllers.iter().map(|name| name.name).collect()
    }

    /// Contract: API-36
    #[test]
    fn a_suite_asks_for_more_by_the_environment() {
        let usual = Extras::read(None, &Given::default()).expect("extras");
        assert_eq!((usual.nodes, usual.seed), (0, None));
        assert_eq!(names(&usual), ["garbage-collector-controller", "namespace-controller"]);
        let more = read("controllers=gc, deployments,replicaset-controller,serviceaccounts,endpoints; nodes=3;pod-startup=1s..2s;seed=7;")
            .expect("extras");
        let expected = [
            "deployment-controller",
            "endpoints-controller",
            "garbage-collector-controller",
            "replicaset-controller",
            "serviceaccount-controller",
        ];
        assert_eq!(names(&more), expected);
        assert_eq!((more.nodes, more.seed), (3, Some(7)));
        assert_eq!(more.pod_startup, DelayRange::new(Duration::from_secs(1), Duration::from_secs(2)));
        assert!(names(&read("controllers=").expect("extras")).is_empty());
        assert!(!names(&read("controllers=*,-gc").expect("extras")).contains(&"garbage-collector-controller"));
    }

    /// Contract: API-36
    #[test]
    fn a_bad_wish_is_refused_by_its_name() {
        for (bad, expected) in [
            ("nodes", "MUSTER_ENVTEST: found \"nodes\", expected key=value"),
            ("nodes=many", "MUSTER_ENVTEST: nodes=many: expected a whole number"),
            ("node=1", "MUSTER_ENVTEST: node=1: there is no such key; known are controllers, nodes,"),
            ("controllers=jobs", "MUSTER_ENVTEST: controllers=jobs: \"jobs\" is not in the list of known controllers"),
            ("pod-startup=soon", "MUSTER_ENVTEST: pod-startup=soon: "),
            ("seed=-1", "MUSTER_ENVTEST: seed=-1: expected a whole number"),
        ] {
            let said = format!("{:#}", read(bad).expect_err(bad));
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
