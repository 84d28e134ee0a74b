//! What a node's agent has to tell of a pod: the events that `kubectl describe` shows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use muster_machinery::rate::TokenBucket;
use muster_objects::Moment;

use super::life::Life;
use super::needs::Lack;
use super::unit::{Unit, UnitState};
use crate::events::EventType::{self, Normal, Warning};
use crate::events::PodEvent;
use crate::pod::NeededBy;

/// How many pods' starts are told in a burst, and how soon one more: with four events each, a real
/// kubelet's limits. A pod is told of as a whole or not at all.
const BURST: u32 = 25;
const INTERVAL: Duration = Duration::from_millis(80);

/// Something that happened to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Started,
    Killing,
    PullFailed,
    PullBackOff,
    CrashBackOff,
    Unhealthy,
    ConfigError,
}

/// Collects the events of pods, as many as the limit lets through.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) events: VecDeque<PodEvent>,
    /// None tells of nothing.
    limit: Option<TokenBucket>,
}

impl Notes {
    /// Tells of pods up to the limit, or of none.
    pub(super) fn new(enabled: bool) -> Self {
        Self { events: VecDeque::new(), limit: enabled.then(|| TokenBucket::new(INTERVAL, BURST)) }
    }

    /// Tells of nothing.
    pub(super) fn silent() -> Self {
        Self::new(false)
    }

    /// Whether there is room to tell of one more pod.
    pub(super) fn take_pod(&mut self, now: Moment) -> bool {
        self.limit.as_mut().is_some_and(|limit| limit.try_take(now))
    }

    /// Tells what happened to a container of a pod, in the words of a real kubelet.
    pub(super) fn push(&mut self, life: &Life, unit: &Unit, note: Note) {
        let (name, image) = (&unit.name, &unit.image);
        let mut say = |kind: EventType, reason: &'static str, message: String| {
            self.say(life, Some((unit.init, name.clone())), kind, reason, message);
        };
        match note {
            Note::Started => {
                say(Normal, "Pulled", format!("Container image {image:?} already present on machine"));
                say(Normal, "Created", "Container created".to_owned());
                say(Normal, "Started", "Container started".to_owned());
            }
            Note::ConfigError => {
                let UnitState::ConfigError(message) = &unit.state else { return };
                say(Normal, "Pulled", format!("Container image {image:?} already present on machine"));
                say(Warning, "Failed", format!("Error: {message}"));
            }
            Note::Killing => say(Normal, "Killing", format!("Stopping container {name}")),
            Note::PullFailed => {
                say(Normal, "Pulling", format!("Pulling image {image:?}"));
                let error = super::status::pull_error(image);
                say(Warning, "Failed", format!("Failed to pull image {image:?}: {error}"));
                say(Warning, "Failed", "Error: ErrImagePull".to_owned());
            }
            Note::PullBackOff => {
                say(Normal, "BackOff", format!("Back-off pulling image {image:?}"));
                say(Warning, "Failed", "Error: ImagePullBackOff".to_owned());
            }
            Note::CrashBackOff => {
                let meta = &life.pod.meta;
                let pod = format!("{}_{}({})", meta.name, meta.namespace, meta.uid);
                say(Warning, "BackOff", format!("Back-off restarting failed container {name} in pod {pod}"));
            }
            Note::Unhealthy => {
                debug_assert!(matches!(unit.state, UnitState::Running(_)));
                let failed = "Readiness probe failed: the pod's annotation says never-ready";
                say(Warning, "Unhealthy", failed.to_owned());
            }
        }
    }

    /// Tells which volumes of a pod cannot be mounted, in the words of a real kubelet.
    pub(super) fn push_lacks(&mut self, life: &Life, lacks: &[Lack]) {
        let mut volumes: Vec<(&str, Vec<&Lack>)> = Vec::new();
        for lack in lacks {
            let NeededBy::Volume(name) = &lack.by else { continue };
            match volumes.iter_mut().find(|(volume, _)| **volume == **name) {
                Some((_, lacks)) if lacks.iter().any(|other| other.message == lack.message) => {}
                Some((_, lacks)) => lacks.push(lack),
                None => volumes.push((name, vec![lack])),
            }
        }
        let claims: Vec<&Lack> =
            volumes.iter().filter_map(|(_, lacks)| lacks.first().filter(|lack| lack.claim)).copied().collect();
        if !claims.is_empty() {
            let names = |wanted: &dyn Fn(&[&Lack]) -> bool| {
                let names: Vec<&str> =
                    volumes.iter().filter(|(_, lacks)| wanted(lacks)).map(|(name, _)| *name).collect();
                names.join(" ")
            };
            let messages: Vec<&str> = claims.iter().map(|lack| &*lack.message).collect();
            let message = format!(
                "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], \
                 failed to process volumes=[{}]: {}",
                names(&|_| true),
                names(&|lacks| lacks[0].claim),
                messages.join("; ")
            );
            self.say(life, None, Warning, "FailedMount", message);
        }
        for (name, lacks) in volumes.iter().filter(|(_, lacks)| !lacks[0].claim) {
            let messages: Vec<&str> = lacks.iter().map(|lack| &*lack.message).collect();
            let messages = if let [only] = *messages { only.to_owned() } else { format!("[{}]", messages.join(", ")) };
            let message = format!("MountVolume.SetUp failed for volume {name:?} : {messages}");
            self.say(life, None, Warning, "FailedMount", message);
        }
    }

    fn say(
        &mut self,
        life: &Life,
        container: Option<(bool, Arc<str>)>,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if !life.narrated || self.limit.is_none() {
            return;
        }
        self.events.push_back(PodEvent {
            pod: life.pod.meta.key(),
            uid: life.pod.meta.uid.clone(),
            resource_version: life.pod.meta.resource_version,
            node: life.pod.node.clone(),
            container,
            kind,
            reason,
            message,
        });
    }
}
