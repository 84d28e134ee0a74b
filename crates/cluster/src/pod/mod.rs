//! The slim pod of the cluster's loops: what scheduling, running and collecting a pod need of it.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use muster_objects::{DecodeError, Interner, Meta, Object, OwnerReference, PodPhase, Timestamp};

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
    /// Its metadata, without labels, which nothing here reads.
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
    pub host_ports: Box<[(Protocol, u16)]>,
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
    /// Its first address.
    pub pod_ip: Option<Box<str>>,
    /// When its node took it up.
    pub start_time: Option<Timestamp>,
    /// The readiness gates whose conditions are not True, with what is the matter.
    pub unready_gates: Option<Box<str>>,
    /// How often each regular container was restarted, in the order of their names; empty for never.
    pub restarts: Box<[u32]>,
    /// Whether any container status was reported yet.
    pub reported: bool,
}

impl Pod {
    /// Whether it is over: Succeeded or Failed, of which there is no way back.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
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
        let wire: WirePod<'_> = serde_json::from_slice(json).map_err(DecodeError::of("Pod"))?;
        Ok(wire.into_pod(interner))
    }
}
