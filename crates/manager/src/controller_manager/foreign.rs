//! The flags of kube-controller-manager 1.36 that mean nothing here: which of them may be ignored, and why.

/// What becomes of a flag of kube-controller-manager that is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// It is ignored with a warning that says why.
    Ignored(&'static str),
    /// Its value decides; see [`judge`].
    Judged,
}

/// A flag of kube-controller-manager, where it has one of that name and we have not: what becomes of it, and
/// whether it is a switch, which takes a value only after `=`.
pub(super) fn find(name: &str) -> Option<(Foreign, bool)> {
    let switch = SWITCHES.contains(&name);
    if JUDGED.contains(&name) {
        return Some((Foreign::Judged, switch));
    }
    let group = IGNORED.iter().find(|(_, names)| names.contains(&name))?;
    Some((Foreign::Ignored(group.0), switch))
}

/// Whether such a value may be ignored: why it has no effect, or why it is refused.
pub(super) fn judge(name: &str, value: &str) -> Result<&'static str, String> {
    let off = matches!(value, "" | "0" | "f" | "F" | "false" | "FALSE" | "False");
    match name {
        "feature-gates" => gates(value),
        "enable-leader-migration" | "disable-http2-serving" if off => Ok("it is off here"),
        "enable-leader-migration" | "leader-migration-config" => {
            Err("leader migration has a second lease, which this program does not hold; use one lease for it: \
                 --leader-elect-resource-name"
                .to_owned())
        }
        "emulated-version" => Err("the behaviour of an older release is not emulated".to_owned()),
        "disable-http2-serving" => Err("health and metrics are served by HTTP/2 as well; turn them off instead: \
                                        --secure-port=0"
            .to_owned()),
        "tls-cipher-suites" | "tls-curve-preferences" => {
            Err("what you exclude would still be accepted; only the version can be chosen: --tls-min-version"
                .to_owned())
        }
        "tls-sni-cert-key" => {
            Err("there is one certificate for all names: --tls-cert-file and --tls-private-key-file".to_owned())
        }
        _ => Err("it is not supported".to_owned()),
    }
}

/// Feature gates that change what these controllers do, or ask of a server, with the only value that they have here.
const GATES: &[(&str, bool)] = &[
    ("CoordinatedLeaderElection", false),
    ("DeploymentReplicaSetTerminatingReplicas", true),
    ("LogarithmicScaleDown", true),
    ("PodDeletionCost", true),
    ("StaleControllerConsistencyReplicaSet", true),
    ("WatchListClient", true),
];

fn gates(list: &str) -> Result<&'static str, String> {
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let entry = entry.strip_prefix("kube:").unwrap_or(entry);
        let Some((gate, value)) = entry.split_once('=') else {
            return Err(format!("found {entry:?}, expected a list of Gate=true or Gate=false"));
        };
        let value = match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(format!("found {entry:?}, expected true or false after {gate}=")),
        };
        if gate == "AllBeta" {
            return Err("AllBeta would switch gates of these controllers, which are fixed here".to_owned());
        }
        if let Some((_, fixed)) = GATES.iter().find(|(name, fixed)| *name == gate && *fixed != value) {
            return Err(format!("{gate} is {fixed} here and cannot be changed"));
        }
    }
    Ok(
        "no gate in it is switched here: the controllers are what they are with the defaults, and a Lease is released at the end",
    )
}

const JUDGED: &[&str] = &[
    "disable-http2-serving",
    "emulated-version",
    "enable-leader-migration",
    "feature-gates",
    "leader-migration-config",
    "tls-cipher-suites",
    "tls-curve-preferences",
    "tls-sni-cert-key",
];

const SWITCHES: &[&str] = &[
    "allocate-node-cidrs",
    "allow-untagged-cloud",
    "authentication-skip-lookup",
    "authentication-tolerate-lookup-failure",
    "configure-cloud-routes",
    "contention-profiling",
    "disable-attach-detach-reconcile-sync",
    "disable-force-detach-on-timeout",
    "disable-http2-serving",
    "enable-dynamic-provisioning",
    "enable-garbage-collector",
    "enable-hostpath-provisioner",
    "enable-leader-migration",
    "log-json-split-stream",
    "log-text-split-stream",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "use-service-account-credentials",
];

const IGNORED: &[(&str, &[&str])] = &[
    (
        "it is about controllers that do not run here",
        &[
            "allocate-node-cidrs",
            "allow-untagged-cloud",
            "attach-detach-reconcile-sync-period",
            "cidr-allocator-type",
            "cloud-config",
            "cloud-provider",
            "cluster-cidr",
            "cluster-name",
            "cluster-signing-cert-file",
            "cluster-signing-duration",
            "cluster-signing-key-file",
            "cluster-signing-kube-apiserver-client-cert-file",
            "cluster-signing-kube-apiserver-client-key-file",
            "cluster-signing-kubelet-client-cert-file",
            "cluster-signing-kubelet-client-key-file",
            "cluster-signing-kubelet-serving-cert-file",
            "cluster-signing-kubelet-serving-key-file",
            "cluster-signing-legacy-unknown-cert-file",
            "cluster-signing-legacy-unknown-key-file",
            "concurrent-cron-job-syncs",
            "concurrent-daemonset-syncs",
            "concurrent-device-taint-eviction-syncs",
            "concurrent-endpoint-syncs",
            "concurrent-ephemeralvolume-syncs",
            "concurrent-gc-syncs",
            "concurrent-horizontal-pod-autoscaler-syncs",
            "concurrent-job-syncs",
            "concurrent-namespace-syncs",
            "concurrent-resource-quota-syncs",
            "concurrent-resourceclaim-syncs",
            "concurrent-service-endpoint-syncs",
            "concurrent-service-syncs",
            "concurrent-serviceaccount-token-syncs",
            "concurrent-statefulset-syncs",
            "concurrent-ttl-after-finished-syncs",
            "concurrent-validating-admission-policy-status-syncs",
            "configure-cloud-routes",
            "disable-attach-detach-reconcile-sync",
            "disable-force-detach-on-timeout",
            "enable-dynamic-provisioning",
            "enable-garbage-collector",
            "enable-hostpath-provisioner",
            "endpoint-updates-batch-period",
            "endpointslice-updates-batch-period",
            "external-cloud-volume-plugin",
            "flex-volume-plugin-dir",
            "horizontal-pod-autoscaler-cpu-initialization-period",
            "horizontal-pod-autoscaler-downscale-stabilization",
            "horizontal-pod-autoscaler-initial-readiness-delay",
            "horizontal-pod-autoscaler-sync-period",
            "horizontal-pod-autoscaler-tolerance",
            "large-cluster-size-threshold",
            "legacy-service-account-token-clean-up-period",
            "max-endpoints-per-slice",
            "mirroring-concurrent-service-endpoint-syncs",
            "mirroring-endpointslice-updates-batch-period",
            "mirroring-max-endpoints-per-subset",
            "namespace-sync-period",
            "node-cidr-mask-size",
            "node-cidr-mask-size-ipv4",
            "node-cidr-mask-size-ipv6",
            "node-eviction-rate",
            "node-monitor-grace-period",
            "node-monitor-period",
            "node-startup-grace-period",
            "node-sync-period",
            "pv-recycler-increment-timeout-nfs",
            "pv-recycler-minimum-timeout-hostpath",
            "pv-recycler-minimum-timeout-nfs",
            "pv-recycler-pod-template-filepath-hostpath",
            "pv-recycler-pod-template-filepath-nfs",
            "pv-recycler-timeout-increment-hostpath",
            "pvclaimbinder-sync-period",
            "resource-quota-sync-period",
            "root-ca-file",
            "route-reconciliation-period",
            "secondary-node-eviction-rate",
            "service-account-private-key-file",
            "service-cluster-ip-range",
            "terminated-pod-gc-threshold",
            "unhealthy-zone-threshold",
        ],
    ),
    (
        "health and metrics are served to everybody who reaches the port; see --bind-address and --secure-port",
        &[
            "authentication-kubeconfig",
            "authentication-skip-lookup",
            "authentication-token-webhook-cache-ttl",
            "authentication-tolerate-lookup-failure",
            "authorization-always-allow-paths",
            "authorization-kubeconfig",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
            "client-ca-file",
            "requestheader-allowed-names",
            "requestheader-client-ca-file",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
        ],
    ),
    ("all controllers share one identity here", &["use-service-account-credentials"]),
    ("controllers start together, as soon as their caches have synced", &["controller-start-interval"]),
    (
        "the port is served in one way",
        &["http2-max-streams-per-connection", "permit-address-sharing", "permit-port-sharing"],
    ),
    ("there is no profile of Go code", &["contention-profiling", "debug-socket-path", "profiling"]),
    ("no API is served here", &["min-compatibility-version"]),
    (
        "every metric is shown",
        &["allow-metric-labels", "allow-metric-labels-manifest", "disabled-metrics", "show-hidden-metrics-for-version"],
    ),
    (
        "the log goes unbuffered to standard error",
        &[
            "log-flush-frequency",
            "log-json-info-buffer-size",
            "log-json-split-stream",
            "log-text-info-buffer-size",
            "log-text-split-stream",
            "vmodule",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_in_one_place() {
        let mut names: Vec<&str> = IGNORED.iter().flat_map(|(_, names)| *names).chain(JUDGED).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for switch in SWITCHES {
            assert!(names.contains(switch), "{switch}");
        }
        assert_eq!(find("nosuch"), None);
        assert!(matches!(find("profiling"), Some((Foreign::Ignored(_), true))));
        assert!(matches!(find("cluster-cidr"), Some((Foreign::Ignored(_), false))));
    }

    #[test]
    fn what_would_change_these_controllers_is_refused() {
        for (name, value, fine) in [
            ("feature-gates", "", true),
            ("feature-gates", "JobManagedBy=true,kube:PodDeletionCost=true", true),
            ("feature-gates", "PodDeletionCost=false", false),
            ("feature-gates", "kube:DeploymentReplicaSetTerminatingReplicas=false", false),
            ("feature-gates", "CoordinatedLeaderElection=true", false),
            ("feature-gates", "AllBeta=false", false),
            ("feature-gates", "PodDeletionCost", false),
            ("feature-gates", "JobManagedBy=maybe", false),
            ("enable-leader-migration", "false", true),
            ("enable-leader-migration", "true", false),
            ("leader-migration-config", "/etc/migration", false),
            ("disable-http2-serving", "true", false),
            ("emulated-version", "kube=1.34", false),
            ("tls-cipher-suites", "TLS_AES_128_GCM_SHA256", false),
        ] {
            assert_eq!(judge(name, value).is_ok(), fine, "{name}={value}: {:?}", judge(name, value));
        }
    }
}
