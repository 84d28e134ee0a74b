//! The slim pod of the cluster's loops: what scheduling, running, collecting and counting a pod need of it.

mod command;
mod index;
mod terms;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{DecodeError, Interner, Meta, Object, OwnerReference, PodPhase, Timestamp};

pub use self::command::End;
pub use self::index::PodIndexes;
pub(crate) use self::index::claims as claims_of;
pub use self::terms::{PodTerm, PodTerms, Spread};
use self::wire::WirePod;
use crate::fate::Directions;
use crate::metadata::Finalizers;
use crate::resources::Resources;
use crate::taints::{NodeTerm, Toleration};

/// The scheduler that this crate stands in for.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod, as far as the scheduler, the nodes and the garbage collector look at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Its metadata.
    pub meta: Meta,
    /// Its owner references.
    pub owners: Arc<[OwnerReference]>,
    /// Its finalizers.
    pub finalizers: Finalizers,
    /// The grace period of its deletion in seconds, once it is being deleted.
    pub deletion_grace: Option<u64>,
    /// What its annotations direct.
    pub directions: Option<Arc<Directions>>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// What it asks for.
    pub spec: PodSpec,
    /// How it was last reported.
    pub status: PodStatus,
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSpec {
    /// What it requests of its node, as a whole.
    pub requests: Resources,
    /// Labels that its node must have.
    pub node_selector: Box<[(Arc<str>, Arc<str>)]>,
    /// Required node affinity: one of these terms must match. `None` asks for nothing.
    pub node_terms: Option<Box<[NodeTerm]>>,
    /// The taints it bears.
    pub tolerations: Box<[Toleration]>,
    /// Ports of its node that it wants for itself.
    pub host_ports: Box<[HostPort]>,
    /// A hash of all of the above: pods that fit the same nodes have the same.
    pub shape: u64,
    /// Higher is scheduled earlier.
    pub priority: i32,
    /// Whether the scheduler is the one of this crate.
    pub default_scheduler: bool,
    /// Whether something else must first lift its scheduling gates.
    pub gated: bool,
    /// Containers that run one after the other before the rest (sidecars stay).
    pub init_containers: Box<[Container]>,
    /// The containers.
    pub containers: Box<[Container]>,
    /// What happens when a container exits.
    pub restart_policy: RestartPolicy,
    /// Whether it uses its node's address.
    pub host_network: bool,
    /// How long it may be active, in seconds.
    pub active_deadline: Option<u64>,
    /// Conditions that something else must set True before the pod is Ready.
    pub readiness_gates: Box<[Arc<str>]>,
    /// What most pods do not have.
    pub extras: Option<Arc<PodExtras>>,
}

/// What of a pod's spec most pods do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodExtras {
    /// The name that it wants to be found by.
    pub hostname: Box<str>,
    /// The Service under which it wants that.
    pub subdomain: Box<str>,
    /// The ports that have a name, of containers and then of init containers that keep running.
    pub ports: Box<[NamedPort]>,
    /// The volumes that are PersistentVolumeClaims.
    pub claims: Box<[ClaimVolume]>,
    /// The ConfigMaps and Secrets that it must have, in the order in which a node looks for them.
    pub needs: Box<[Need]>,
    /// What it asks of the pods that nodes have already.
    pub terms: Option<Arc<PodTerms>>,
    /// Containers that were added while it ran, to look into it.
    pub ephemeral_containers: Box<[Container]>,
    /// What a node tells of the resources of each container that has some, as fields of its status, by its name.
    pub resources: Box<[(Arc<str>, Arc<str>)]>,
}

/// A port of a container that is known by a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPort {
    /// The name.
    pub name: Box<str>,
    /// The number.
    pub number: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// A volume that is a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimVolume {
    /// The volume's name.
    pub volume: Box<str>,
    /// The claim's name.
    pub claim: Arc<str>,
    /// Whether the claim is made for the pod and goes with it.
    pub ephemeral: bool,
}

/// A ConfigMap or Secret without which a pod, or a container, does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Who needs it.
    pub by: NeededBy,
    /// What it is.
    pub kind: NeedKind,
    /// Its name.
    pub name: Box<str>,
    /// A key that must be in it.
    pub key: Option<Box<str>>,
}

/// Who needs something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededBy {
    /// A volume of that name: the pod as a whole waits.
    Volume(Box<str>),
    /// The environment of the container of that name: it alone waits.
    Container(Arc<str>),
}

/// What is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NeedKind {
    /// A PersistentVolumeClaim.
    Claim,
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: Arc<str>,
    /// Its image.
    pub image: Arc<str>,
    /// How long after its start it turns ready: the initial delays of its probes.
    pub ready_after: Duration,
    /// Whether it is an init container that keeps running.
    pub sidecar: bool,
    /// How it ends, where its command says so.
    pub end: Option<End>,
}

/// A port of its node that a pod wants for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: u16,
    /// The one of the node's addresses on which it wants it; `None` for all.
    pub address: Option<Arc<str>>,
}

impl HostPort {
    /// What is known, in a map by port, of those that cannot be had beside this one.
    pub(crate) fn rivals<'m, V>(&'m self, taken: &'m BTreeMap<Self, V>) -> impl Iterator<Item = &'m V> {
        // Without an address it stands before all others of its protocol and number.
        let first = Self { address: None, ..*self };
        let same =
            taken.range(first..).take_while(|(port, _)| (port.protocol, port.number) == (self.protocol, self.number));
        same.filter(|(port, _)| port.address.is_none() || self.address.is_none() || port.address == self.address)
            .map(|(_, value)| value)
    }
}

/// A transport protocol of a host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// The default.
    Tcp,
    /// Datagrams.
    Udp,
    /// Streams of messages.
    Sctp,
}

/// What happens when a container exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RestartPolicy {
    /// It is restarted.
    #[default]
    Always,
    /// It is restarted if it failed.
    OnFailure,
    /// It is not.
    Never,
}

/// How a pod was last reported.
#[derive(Debug, Clone, PartialEq)]
pub struct PodStatus {
    /// The phase.
    pub phase: PodPhase,
    /// Whether the Ready condition is True.
    pub ready: bool,
    /// Whether the PodScheduled condition is True.
    pub scheduled: bool,
    /// When it was bound, where its status has nothing but that: PodScheduled True is its only condition.
    pub bound_at: Option<Timestamp>,
    /// The message of PodScheduled False with reason Unschedulable.
    pub unschedulable: Option<Box<str>>,
    /// When the Ready condition last changed.
    pub ready_since: Option<Timestamp>,
    /// Since when its condition DisruptionTarget is True by anyone but its node.
    pub disrupted_at: Option<Timestamp>,
    /// Its addresses.
    pub pod_ips: Box<[Box<str>]>,
    /// When its node took it up.
    pub start_time: Option<Timestamp>,
    /// The readiness gates whose conditions are not True, with what is the matter.
    pub unready_gates: Option<Box<str>>,
    /// How often each regular container was restarted, in the order of their names; empty for never.
    pub restarts: Box<[u32]>,
    /// Whether any container status was reported yet.
    pub reported: bool,
}

impl PodExtras {
    /// Whether there is anything that must be there before the pod, or a container of it, starts.
    #[must_use]
    pub fn has_needs(&self) -> bool {
        !(self.claims.is_empty() && self.needs.is_empty())
    }
}

impl Protocol {
    /// The protocol of that name; the default for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            _ => Self::Tcp,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl Pod {
    /// Whether it is over: Succeeded or Failed, of which there is no way back.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// What it has that most pods do not.
    #[must_use]
    pub fn extras(&self) -> &PodExtras {
        static NONE: std::sync::LazyLock<PodExtras> = std::sync::LazyLock::new(PodExtras::default);
        self.spec.extras.as_deref().unwrap_or(&NONE)
    }

    /// What its annotations direct, or nothing.
    #[must_use]
    pub fn directions(&self) -> &Directions {
        static NONE: Directions = Directions {
            fate: crate::fate::Fate::Run,
            startup: None,
            ready_after: Duration::ZERO,
            shutdown: None,
            run_for: None,
            exit_code: None,
            container: None,
            reason: None,
            message: None,
        };
        self.directions.as_deref().unwrap_or(&NONE)
    }
}

impl Object for Pod {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let wire: WirePod<'_> = muster_objects::json::from_slice(json).map_err(DecodeError::of("Pod"))?;
        Ok(wire.into_pod(interner))
    }
}
