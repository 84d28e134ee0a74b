//! A pod on the wire: the fields that are read of its JSON, borrowed from it where they can be.

mod extras;
mod terms;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Interner, PodPhase, Timestamp};
use serde::Deserialize;

use self::extras::{WireEnv, WireEnvFrom, WireVolume, extras};
use self::terms::{WirePodAffinity, WireSpread};
use super::{Container, DEFAULT_SCHEDULER, HostPort, Pod, PodSpec, PodStatus, Protocol, RestartPolicy, command};
use crate::fate::Directions;
use crate::json::{Text, list, or_default};
use crate::metadata::WireMeta;
use crate::resources::{Ask, Resources, WireResources, pod_requests};
use crate::taints::{Effect, NodeOperator, NodeRequirement, NodeTerm, Toleration, TolerationOperator};

/// The whole.
#[derive(Deserialize)]
pub(super) struct WirePod<'a> {
    #[serde(borrow, default)]
    metadata: WireMeta<'a>,
    #[serde(borrow, default)]
    spec: WireSpec<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    status: WireStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(borrow)]
    node_selector: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    affinity: Option<WireAffinity<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    topology_spread_constraints: Vec<WireSpread<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    tolerations: Vec<WireToleration<'a>>,
    #[serde(borrow)]
    scheduler_name: Option<Text<'a>>,
    priority: Option<i32>,
    #[serde(deserialize_with = "list")]
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    #[serde(borrow, deserialize_with = "list")]
    init_containers: Vec<WireContainer<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    containers: Vec<WireContainer<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    ephemeral_containers: Vec<WireContainer<'a>>,
    #[serde(borrow)]
    restart_policy: Option<Text<'a>>,
    host_network: Option<bool>,
    active_deadline_seconds: Option<i64>,
    #[serde(borrow, deserialize_with = "list")]
    readiness_gates: Vec<WireGate<'a>>,
    #[serde(borrow)]
    overhead: Option<WireResources<'a>>,
    #[serde(borrow)]
    resources: Option<WireRequirements<'a>>,
    #[serde(borrow)]
    hostname: Option<Text<'a>>,
    #[serde(borrow)]
    subdomain: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    volumes: Vec<WireVolume<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAffinity<'a> {
    #[serde(borrow)]
    node_affinity: Option<WireNodeAffinity<'a>>,
    #[serde(borrow)]
    pod_affinity: Option<WirePodAffinity<'a>>,
    #[serde(borrow)]
    pod_anti_affinity: Option<WirePodAffinity<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireNodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<WireNodeSelector<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireNodeSelector<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    node_selector_terms: Vec<WireTerm<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTerm<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    match_expressions: Vec<WireNodeRequirement<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    match_fields: Vec<WireNodeRequirement<'a>>,
}

#[derive(Deserialize)]
struct WireNodeRequirement<'a> {
    #[serde(borrow, default)]
    key: Text<'a>,
    #[serde(borrow, default)]
    operator: Text<'a>,
    #[serde(borrow, default, deserialize_with = "list")]
    values: Vec<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireToleration<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    operator: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    effect: Option<Text<'a>>,
    toleration_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContainer<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    image: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    command: Vec<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    args: Vec<Text<'a>>,
    #[serde(borrow)]
    resources: Option<WireRequirements<'a>>,
    readiness_probe: Option<WireProbe>,
    startup_probe: Option<WireProbe>,
    #[serde(borrow, default, deserialize_with = "list")]
    ports: Vec<WirePort<'a>>,
    #[serde(borrow)]
    restart_policy: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    env: Vec<WireEnv<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    env_from: Vec<WireEnvFrom<'a>>,
}

#[derive(Deserialize)]
struct WireRequirements<'a> {
    #[serde(borrow)]
    requests: Option<WireResources<'a>>,
    #[serde(borrow)]
    limits: Option<WireResources<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireProbe {
    initial_delay_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePort<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    container_port: Option<u16>,
    host_port: Option<u16>,
    #[serde(borrow, rename = "hostIP")]
    host_ip: Option<Text<'a>>,
    #[serde(borrow)]
    protocol: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireGate<'a> {
    #[serde(borrow, default)]
    condition_type: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    conditions: Vec<WireCondition<'a>>,
    #[serde(borrow, rename = "podIP")]
    pod_ip: Option<Text<'a>>,
    #[serde(borrow, rename = "podIPs", deserialize_with = "list")]
    pod_ips: Vec<WireAddress<'a>>,
    start_time: Option<Timestamp>,
    #[serde(borrow, deserialize_with = "list")]
    container_statuses: Vec<WireContainerStatus<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
    last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct WireAddress<'a> {
    #[serde(borrow, default)]
    ip: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContainerStatus<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(default)]
    restart_count: i64,
}

impl WirePod<'_> {
    pub(super) fn into_pod(self, interner: &mut Interner) -> Pod {
        let annotations = &self.metadata.annotations.0;
        let directions = Directions::read(annotations.iter().map(|(key, value)| (&**key, &**value)));
        let node = self.spec.node_name.as_deref().filter(|name| !name.is_empty()).map(|name| interner.text(name));
        let name = self.metadata.name.clone();
        let spec = self.spec.read(&name, interner);
        let status = self.status.read(&spec.readiness_gates);
        let deletion_grace = self.metadata.deletion_grace_period_seconds.and_then(|grace| u64::try_from(grace).ok());
        let (meta, owners, finalizers) = self.metadata.read(interner, true);
        Pod { meta, owners, finalizers, deletion_grace, directions, node, spec, status }
    }
}

impl WireSpec<'_> {
    fn read(&self, name: &str, interner: &mut Interner) -> PodSpec {
        let asks =
            |containers: &[WireContainer<'_>]| -> Vec<Ask> { containers.iter().map(WireContainer::ask).collect() };
        let overhead = self.overhead.as_ref().map(Resources::from_wire);
        let level = self.resources.as_ref().and_then(|r| r.requests.as_ref()).map(Resources::from_wire);
        let requests =
            pod_requests(&asks(&self.init_containers), &asks(&self.containers), overhead.as_ref(), level.as_ref());
        let selector = self.node_selector.iter().flatten();
        let node_selector: Box<[_]> = selector.map(|(k, v)| (interner.text(k), interner.text(v))).collect();
        let required = self.affinity.as_ref().and_then(|a| a.node_affinity.as_ref()).and_then(|n| n.required.as_ref());
        let node_terms: Option<Box<[_]>> =
            required.map(|required| required.node_selector_terms.iter().map(|term| term.read(interner)).collect());
        let tolerations: Box<[_]> = self.tolerations.iter().map(|t| t.read(interner)).collect();
        let ports = self.containers.iter().chain(&self.init_containers).flat_map(|container| &container.ports);
        let host_ports: Box<[_]> = ports.filter_map(|port| port.read(interner)).collect();
        let mut hasher = DefaultHasher::new();
        (&requests, &node_selector, &node_terms, &tolerations, &host_ports).hash(&mut hasher);
        let restart_policy = match self.restart_policy.as_deref() {
            Some("OnFailure") => RestartPolicy::OnFailure,
            Some("Never") => RestartPolicy::Never,
            _ => RestartPolicy::Always,
        };
        PodSpec {
            requests,
            node_selector,
            node_terms,
            tolerations,
            host_ports,
            shape: hasher.finish(),
            priority: self.priority.unwrap_or(0),
            default_scheduler: self
                .scheduler_name
                .as_deref()
                .is_none_or(|name| name.is_empty() || name == DEFAULT_SCHEDULER),
            gated: !self.scheduling_gates.is_empty(),
            init_containers: self.init_containers.iter().map(|c| c.read(interner, true)).collect(),
            containers: self.containers.iter().map(|c| c.read(interner, false)).collect(),
            restart_policy,
            host_network: self.host_network.unwrap_or(false),
            active_deadline: self.active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok()),
            readiness_gates: self.readiness_gates.iter().map(|gate| interner.text(&gate.condition_type)).collect(),
            extras: extras(name, self, interner).map(Arc::new),
        }
    }
}

impl WireContainer<'_> {
    fn ask(&self) -> Ask {
        let requests = self.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        Ask {
            requests: requests.map(Resources::from_wire).unwrap_or_default(),
            sidecar: self.restart_policy.as_deref() == Some("Always"),
        }
    }

    fn read(&self, interner: &mut Interner, init: bool) -> Container {
        let delay = |probe: Option<&WireProbe>| probe.and_then(|p| p.initial_delay_seconds).unwrap_or(0);
        let delay = delay(self.startup_probe.as_ref()).saturating_add(delay(self.readiness_probe.as_ref()));
        let [command, args] =
            [&self.command, &self.args].map(|words| words.iter().map(|word| &**word).collect::<Vec<_>>());
        Container {
            name: interner.text(&self.name),
            image: interner.text(self.image.as_deref().unwrap_or_default()),
            ready_after: Duration::from_secs(u64::try_from(delay).unwrap_or(0)),
            sidecar: init && self.restart_policy.as_deref() == Some("Always"),
            end: command::end(&command, &args),
        }
    }
}

impl WirePort<'_> {
    fn read(&self, interner: &mut Interner) -> Option<HostPort> {
        let number = self.host_port.filter(|port| *port != 0)?;
        let address = self.host_ip.as_deref().filter(|address| !matches!(*address, "" | "0.0.0.0"));
        Some(HostPort { protocol: self.protocol(), number, address: address.map(|address| interner.text(address)) })
    }

    fn protocol(&self) -> Protocol {
        self.protocol.as_deref().map_or(Protocol::Tcp, Protocol::parse)
    }
}

impl WireTerm<'_> {
    fn read(&self, interner: &mut Interner) -> NodeTerm {
        let mut requirements = |wire: &[WireNodeRequirement<'_>]| -> Vec<NodeRequirement> {
            wire.iter()
                .map(|requirement| NodeRequirement {
                    key: interner.text(&requirement.key),
                    // The server validates operators; In without a match is never satisfied.
                    operator: NodeOperator::parse(&requirement.operator).unwrap_or(NodeOperator::In),
                    values: requirement.values.iter().map(|value| interner.text(value)).collect(),
                })
                .collect()
        };
        let expressions = requirements(&self.match_expressions);
        NodeTerm { expressions, fields: requirements(&self.match_fields) }
    }
}

impl WireToleration<'_> {
    fn read(&self, interner: &mut Interner) -> Toleration {
        Toleration {
            key: interner.text(self.key.as_deref().unwrap_or_default()),
            operator: match self.operator.as_deref() {
                Some("Exists") => TolerationOperator::Exists,
                _ => TolerationOperator::Equal,
            },
            value: interner.text(self.value.as_deref().unwrap_or_default()),
            effect: self.effect.as_deref().and_then(Effect::parse),
            seconds: self.toleration_seconds,
        }
    }
}

impl WireStatus<'_> {
    fn read(&self, gates: &[Arc<str>]) -> PodStatus {
        let condition = |kind: &str| self.conditions.iter().find(|condition| &*condition.kind == kind);
        let phase = match self.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            Some("Unknown") => PodPhase::Unknown,
            _ => PodPhase::Pending,
        };
        let unschedulable = condition("PodScheduled")
            .filter(|c| &*c.status == "False" && c.reason.as_deref() == Some("Unschedulable"))
            .map(|c| Box::from(c.message.as_deref().unwrap_or_default()));
        let unready: Vec<String> = gates
            .iter()
            .filter_map(|gate| match condition(gate) {
                None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
                Some(c) if &*c.status == "True" => None,
                Some(c) => {
                    Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {}", &*c.status))
                }
            })
            .collect();
        let restarts: Box<[u32]> = if self.container_statuses.iter().any(|status| status.restart_count > 0) {
            let mut by_name: Vec<_> = self.container_statuses.iter().map(|s| (&*s.name, s.restart_count)).collect();
            by_name.sort_unstable();
            by_name.into_iter().map(|(_, count)| u32::try_from(count).unwrap_or(0)).collect()
        } else {
            Box::default()
        };
        PodStatus {
            phase,
            ready: condition("Ready").is_some_and(|c| &*c.status == "True"),
            ready_since: condition("Ready").and_then(|c| c.last_transition_time),
            disrupted_at: condition("DisruptionTarget")
                .filter(|c| &*c.status == "True" && c.reason.as_deref() != Some("TerminationByKubelet"))
                .and_then(|c| c.last_transition_time),
            bound_at: match &self.conditions[..] {
                [only] if &*only.kind == "PodScheduled" && &*only.status == "True" => only.last_transition_time,
                _ => None,
            },
            scheduled: condition("PodScheduled").is_some_and(|c| &*c.status == "True"),
            unschedulable,
            pod_ips: match &self.pod_ips[..] {
                [] => self.pod_ip.as_deref().filter(|ip| !ip.is_empty()).map(Box::from).into_iter().collect(),
                several => several.iter().map(|address| Box::from(&*address.ip)).collect(),
            },
            start_time: self.start_time,
            unready_gates: (!unready.is_empty()).then(|| unready.join(", ").into_boxed_str()),
            restarts,
            reported: !self.container_statuses.is_empty(),
        }
    }
}
