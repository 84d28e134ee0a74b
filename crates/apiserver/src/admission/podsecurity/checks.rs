//! The checks of Pod Security: which version forbids what, at which level, and in which words.

use std::collections::BTreeSet;

use super::policy::{Level, Rule, Version};
use crate::field::go_quote;
use crate::model::Object;
use crate::model::fields::Fields as _;

/// What of a pod, or of a template, is looked at.
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Object,
    pub(super) spec: &'a Object,
}

/// Something that is forbidden.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// In a few words.
    pub(super) reason: String,
    /// With what it was found.
    pub(super) detail: String,
}

type Look = fn(&Pod<'_>) -> Option<Finding>;

struct Check {
    id: &'static str,
    /// The versions from which on it looks so.
    since: &'static [(i64, Look)],
    /// The check of a lower level that need not look too.
    instead_of: &'static str,
}

const fn check(id: &'static str, since: &'static [(i64, Look)]) -> Check {
    Check { id, since, instead_of: "" }
}

/// Of the baseline, in the order in which findings are told.
const BASELINE: &[Check] = &[
    check("appArmorProfile", &[(0, app_armor)]),
    check("capabilities_baseline", &[(0, added_capabilities)]),
    check("hostNamespaces", &[(0, host_namespaces)]),
    check("hostPathVolumes", &[(0, host_paths)]),
    check("hostPorts", &[(0, host_ports)]),
    check("hostProbesAndHostLifecycle", &[(34, handler_hosts)]),
    check("privileged", &[(0, privileged)]),
    check("procMount", &[(0, proc_mount), (35, |pod| unless_own_users(pod, proc_mount))]),
    check(
        "seLinuxOptions",
        &[(0, |pod| se_linux(pod, &SE_LINUX_TYPES[..4])), (31, |pod| se_linux(pod, &SE_LINUX_TYPES))],
    ),
    check("seccompProfile_baseline", &[(0, seccomp_annotations), (19, forbidden_seccomp)]),
    check(
        "sysctls",
        &[
            (0, |pod| sysctls(pod, &SYSCTLS[..5])),
            (27, |pod| sysctls(pod, &SYSCTLS[..6])),
            (29, |pod| sysctls(pod, &SYSCTLS[..10])),
            (32, |pod| sysctls(pod, &SYSCTLS)),
        ],
    ),
    check("windowsHostProcess", &[(0, host_process)]),
];

/// Of what is restricted, told after the baseline's.
const RESTRICTED: &[Check] = &[
    check("allowPrivilegeEscalation", &[(8, escalation), (25, |pod| unless_windows(pod, escalation))]),
    Check {
        id: "capabilities_restricted",
        since: &[(22, capabilities), (25, |pod| unless_windows(pod, capabilities))],
        instead_of: "capabilities_baseline",
    },
    Check { id: "procMount_restricted", since: &[(35, proc_mount)], instead_of: "procMount" },
    Check { id: "restrictedVolumes", since: &[(0, volumes)], instead_of: "hostPathVolumes" },
    check("runAsNonRoot", &[(0, non_root), (35, |pod| unless_own_users(pod, non_root))]),
    check("runAsUser", &[(23, root_user), (35, |pod| unless_own_users(pod, root_user))]),
    Check {
        id: "seccompProfile_restricted",
        since: &[(19, seccomp), (25, |pod| unless_windows(pod, seccomp))],
        instead_of: "seccompProfile_baseline",
    },
];

/// What a rule forbids of a pod.
pub(super) fn findings(rule: Rule, pod: &Pod<'_>) -> Vec<Finding> {
    let meant = match rule.level {
        Level::Privileged => [&[][..], &[]],
        Level::Baseline => [BASELINE, &[]],
        Level::Restricted => [BASELINE, RESTRICTED],
    };
    let at_version = |check: &Check| {
        let mut looks = check.since.iter().rev();
        looks.find(|(since, _)| Version::Minor(*since) <= rule.version).map(|(_, look)| *look)
    };
    let stricter: Vec<&str> =
        meant[1].iter().filter(|check| at_version(check).is_some()).map(|check| check.instead_of).collect();
    let all = meant.into_iter().flatten().filter(|check| !stricter.contains(&check.id));
    all.filter_map(at_version).filter_map(|look| look(pod)).collect()
}

fn found(reason: &str, detail: String) -> Option<Finding> {
    Some(Finding { reason: reason.to_owned(), detail })
}

/// A pod in a user namespace of its own may do more.
fn unless_own_users(pod: &Pod<'_>, look: Look) -> Option<Finding> {
    if pod.spec.maybe_flag("hostUsers") == Some(false) { None } else { look(pod) }
}

/// A pod of Windows cannot have what is asked for.
fn unless_windows(pod: &Pod<'_>, look: Look) -> Option<Finding> {
    if pod.spec.part("os").text("name") == "windows" { None } else { look(pod) }
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Object> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(|list| self.spec.items(list))
    }

    /// The names of the containers of which something is true.
    fn containers_that(&self, is_so: impl FnMut(&&Object) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_so).map(|one| one.text("name")).collect()
    }

    /// Of whose security context something is true: `pod`, and its containers.
    fn setters(&self, mut is_so: impl FnMut(&Object) -> bool) -> Vec<String> {
        let pod = is_so(self.spec.part("securityContext")).then(|| "pod".to_owned());
        let containers = self.containers_that(|one| is_so(one.part("securityContext")));
        pod.into_iter().chain((!containers.is_empty()).then(|| these("container", &containers))).collect()
    }
}

fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect();
    all.join(", ")
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// Things by their names.
fn these(word: &str, names: &[&str]) -> String {
    format!("{} {}", plural(word, names.len()), quoted(names))
}

/// Several things that use what they must not.
fn uses(word: &str, names: &[&str], what: &str, count: usize) -> String {
    format!("{} {} {}", these(word, names), if names.len() == 1 { "uses" } else { "use" }, plural(what, count))
}

fn app_armor(pod: &Pod<'_>) -> Option<Finding> {
    let mut values = BTreeSet::new();
    let mut setters = pod.setters(|context| {
        let kind = context.object("appArmorProfile").map(|profile| profile.text("type"));
        let bad = kind.filter(|kind| !matches!(*kind, "RuntimeDefault" | "Localhost"));
        bad.is_some_and(|kind| {
            values.insert(kind.to_owned());
            true
        })
    });
    let allowed = |value: &str| matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
    let annotations = pod
        .metadata
        .pairs("annotations")
        .filter(|(key, value)| key.starts_with("container.apparmor.security.beta.kubernetes.io/") && !allowed(value));
    let mut annotations: Vec<String> = annotations.map(|(key, value)| format!("{key}={}", go_quote(value))).collect();
    annotations.sort();
    if !annotations.is_empty() {
        setters.push(plural("annotation", annotations.len()));
    }
    if setters.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    found(
        &plural("forbidden AppArmor profile", values.len()),
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(values)),
    )
}

fn added_capabilities(pod: &Pod<'_>) -> Option<Finding> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    added(pod, &ALLOWED).and_then(|detail| found("non-default capabilities", detail))
}

/// Says which containers add capabilities but these.
fn added(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let mut bad = BTreeSet::new();
    let containers = pod.containers_that(|one| {
        let capabilities = one.part("securityContext").part("capabilities").strings("add");
        let before: Vec<&str> = capabilities.filter(|one| !allowed.contains(one)).collect();
        bad.extend(before.iter().map(|one| (*one).to_owned()));
        !before.is_empty()
    });
    (!containers.is_empty()).then(|| {
        let containers = these("container", &containers);
        format!("{containers} must not include {} in securityContext.capabilities.add", quoted(bad))
    })
}

fn capabilities(pod: &Pod<'_>) -> Option<Finding> {
    let keeps = pod.containers_that(|one| {
        one.part("securityContext").part("capabilities").strings("drop").all(|dropped| dropped != "ALL")
    });
    let keeps = (!keeps.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", these("container", &keeps)));
    let details: Vec<String> = keeps.into_iter().chain(added(pod, &["NET_BIND_SERVICE"])).collect();
    if details.is_empty() { None } else { found("unrestricted capabilities", details.join("; ")) }
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Finding> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| pod.spec.flag(name));
    let shared: Vec<String> = shared.map(|name| format!("{name}=true")).collect();
    if shared.is_empty() { None } else { found("host namespaces", shared.join(", ")) }
}

fn host_paths(pod: &Pod<'_>) -> Option<Finding> {
    let volumes = pod.spec.items("volumes").filter(|volume| volume.contains_key("hostPath"));
    let volumes: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    if volumes.is_empty() { None } else { found("hostPath volumes", these("volume", &volumes)) }
}

fn host_ports(pod: &Pod<'_>) -> Option<Finding> {
    // Told in the order of their texts.
    let mut ports = BTreeSet::new();
    let containers = pod.containers_that(|one| {
        let bad: Vec<i64> = one.items("ports").map(|port| port.int("hostPort")).filter(|port| *port != 0).collect();
        ports.extend(bad.iter().map(ToString::to_string));
        !bad.is_empty()
    });
    if containers.is_empty() {
        return None;
    }
    let list: Vec<String> = ports.into_iter().collect();
    found("hostPort", format!("{} {}", uses("container", &containers, "hostPort", list.len()), list.join(", ")))
}

fn handler_hosts(pod: &Pod<'_>) -> Option<Finding> {
    let mut hosts = BTreeSet::new();
    let containers = pod.containers_that(|one| {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|name| one.part(name));
        let hooks = ["postStart", "preStop"].map(|name| one.part("lifecycle").part(name));
        let handlers = probes.into_iter().chain(hooks);
        let given = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| handler.part(kind).text("host")));
        let given: Vec<&str> = given.filter(|host| !host.is_empty()).collect();
        hosts.extend(given.iter().map(|host| (*host).to_owned()));
        !given.is_empty()
    });
    if containers.is_empty() {
        return None;
    }
    let containers: Vec<&str> = BTreeSet::from_iter(containers).into_iter().collect();
    let uses = uses("container", &containers, "probe or lifecycle host", hosts.len());
    found("probe or lifecycle host", format!("{uses} {}", quoted(hosts)))
}

fn privileged(pod: &Pod<'_>) -> Option<Finding> {
    let containers = pod.containers_that(|one| one.part("securityContext").flag("privileged"));
    if containers.is_empty() {
        return None;
    }
    let containers = these("container", &containers);
    found("privileged", format!("{containers} must not set securityContext.privileged=true"))
}

fn proc_mount(pod: &Pod<'_>) -> Option<Finding> {
    let mut mounts = BTreeSet::new();
    let containers = pod.containers_that(|one| {
        let bad = one.part("securityContext").maybe_text("procMount").filter(|mount| *mount != "Default");
        mounts.extend(bad.map(str::to_owned));
        bad.is_some()
    });
    if containers.is_empty() {
        return None;
    }
    let containers = these("container", &containers);
    found("procMount", format!("{containers} must not set securityContext.procMount to {}", quoted(mounts)))
}

const SE_LINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

fn se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<Finding> {
    let mut types = BTreeSet::new();
    let (mut user, mut role) = (false, false);
    let setters = pod.setters(|context| {
        let options = context.part("seLinuxOptions");
        let bad = !allowed.contains(&options.text("type"));
        if bad {
            types.insert(options.text("type").to_owned());
        }
        let (sets_user, sets_role) = (!options.text("user").is_empty(), !options.text("role").is_empty());
        user |= sets_user;
        role |= sets_role;
        bad || sets_user || sets_role
    });
    if setters.is_empty() {
        return None;
    }
    let types = (!types.is_empty()).then(|| format!("{} {}", plural("type", types.len()), quoted(&types)));
    let user = user.then(|| "user may not be set".to_owned());
    let role = role.then(|| "role may not be set".to_owned());
    let bad: Vec<String> = [types, user, role].into_iter().flatten().collect();
    let setters = setters.join(" and ");
    found("seLinuxOptions", format!("{setters} set forbidden securityContext.seLinuxOptions: {}", bad.join("; ")))
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Finding> {
    let allowed =
        |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let of_pod = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned());
    let of_containers =
        pod.containers().map(|one| format!("container.seccomp.security.alpha.kubernetes.io/{}", one.text("name")));
    let annotations = pod.metadata.part("annotations");
    let bad: BTreeSet<String> = of_pod
        .chain(of_containers)
        .filter_map(|key| {
            let value = annotations.maybe_text(&key).filter(|value| !allowed(value))?;
            Some(format!("{key}={}", go_quote(value)))
        })
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural("annotation", bad.len());
    found("seccompProfile", format!("forbidden {word} {}", Vec::from_iter(bad).join(", ")))
}

/// Of a security context with a profile whether that is allowed.
fn allowed_seccomp(context: &Object) -> Option<bool> {
    let kind = context.object("seccompProfile")?.text("type");
    Some(matches!(kind, "Localhost" | "RuntimeDefault"))
}

fn forbidden_seccomp(pod: &Pod<'_>) -> Option<Finding> {
    let mut kinds = BTreeSet::new();
    let setters = pod.setters(|context| {
        let bad = allowed_seccomp(context) == Some(false);
        if bad {
            kinds.insert(context.part("seccompProfile").text("type").to_owned());
        }
        bad
    });
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    found("seccompProfile", format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(kinds)))
}

fn seccomp(pod: &Pod<'_>) -> Option<Finding> {
    let forbidden = forbidden_seccomp(pod);
    if forbidden.is_some() || allowed_seccomp(pod.spec.part("securityContext")).is_some() {
        return forbidden;
    }
    let without = pod.containers_that(|one| allowed_seccomp(one.part("securityContext")).is_none());
    if without.is_empty() {
        return None;
    }
    let containers = these("container", &without);
    found(
        "seccompProfile",
        format!(
            "pod or {containers} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

/// Those that are safe, in the order in which they came to be: 5 at first, the sixth in 1.27, four in 1.29, two in 1.32.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

fn sysctls(pod: &Pod<'_>, allowed: &[&str]) -> Option<Finding> {
    let given = pod.spec.part("securityContext").items("sysctls").map(|sysctl| sysctl.text("name"));
    let bad: Vec<&str> = given.filter(|name| !allowed.contains(name)).collect();
    if bad.is_empty() { None } else { found("forbidden sysctls", bad.join(", ")) }
}

fn host_process(pod: &Pod<'_>) -> Option<Finding> {
    let setters = pod.setters(|context| context.part("windowsOptions").flag("hostProcess"));
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    found("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn escalation(pod: &Pod<'_>) -> Option<Finding> {
    let containers =
        pod.containers_that(|one| one.part("securityContext").maybe_flag("allowPrivilegeEscalation") != Some(false));
    if containers.is_empty() {
        return None;
    }
    let containers = these("container", &containers);
    found(
        "allowPrivilegeEscalation != false",
        format!("{containers} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

fn volumes(pod: &Pod<'_>) -> Option<Finding> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    /// The others, of which the first that is there is told.
    const OTHERS: [&str; 21] = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let has = |volume: &Object, kinds: &[&'static str]| kinds.iter().copied().find(|kind| volume.contains_key(kind));
    let bad = pod.spec.items("volumes").filter(|volume| has(volume, &ALLOWED).is_none());
    let (names, kinds): (Vec<&str>, BTreeSet<&str>) =
        bad.map(|volume| (volume.text("name"), has(volume, &OTHERS).unwrap_or("unknown"))).unzip();
    if names.is_empty() {
        return None;
    }
    let uses = uses("volume", &names, "restricted volume type", kinds.len());
    found("restricted volume types", format!("{uses} {}", quoted(kinds)))
}

fn non_root(pod: &Pod<'_>) -> Option<Finding> {
    const REASON: &str = "runAsNonRoot != true";
    let own = |context: &Object| context.maybe_flag("runAsNonRoot");
    let setters = pod.setters(|context| own(context) == Some(false));
    if !setters.is_empty() {
        return found(REASON, format!("{} must not set securityContext.runAsNonRoot=false", setters.join(" and ")));
    }
    if own(pod.spec.part("securityContext")).is_some() {
        return None;
    }
    let without = pod.containers_that(|one| own(one.part("securityContext")).is_none());
    if without.is_empty() {
        return None;
    }
    let containers = these("container", &without);
    found(REASON, format!("pod or {containers} must set securityContext.runAsNonRoot=true"))
}

fn root_user(pod: &Pod<'_>) -> Option<Finding> {
    let setters = pod.setters(|context| context.maybe_int("runAsUser") == Some(0));
    if setters.is_empty() {
        return None;
    }
    found("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-40
    #[test]
    fn checks_are_told_in_the_order_of_their_names() {
        for level in [BASELINE, RESTRICTED] {
            assert!(level.is_sorted_by_key(|check| check.id));
            for check in level {
                assert!(check.since.is_sorted_by_key(|(since, _)| *since), "{}", check.id);
            }
        }
        let known = |id: &str| BASELINE.iter().any(|check| check.id == id);
        assert!(RESTRICTED.iter().all(|check| check.instead_of.is_empty() || known(check.instead_of)));
    }
}
