//! A pod as the page shows it: the controllers' slim form, and why it is not ready.

use std::sync::Arc;

use muster_inspect::reason::pod_reason;
use muster_machinery::Cached;
use muster_objects::{DecodeError, Interner, Meta, Object, Pod, PodPhase};
use serde_json::Value;

/// A pod.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    /// What the controllers read of it.
    pub(crate) pod: Arc<Pod>,
    /// Why it is not ready, in words.
    pub(crate) reason: Option<Arc<str>>,
    /// How far it is.
    pub(crate) state: State,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    /// Ready.
    Ready,
    /// On a node and not ready yet, with nothing wrong.
    Starting,
    /// Without a node.
    Waiting,
    /// Something is wrong with it: its image, its command, its node.
    Broken,
    /// It is being deleted.
    Terminating,
    /// All its containers have ended.
    Finished,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Ready, Self::Starting, Self::Waiting, Self::Broken, Self::Terminating, Self::Finished];

    /// Its name for a person, which is its class in the style sheet too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::Broken => "broken",
            Self::Terminating => "terminating",
            Self::Finished => "finished",
        }
    }

    /// A sign that tells it apart without colours.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Ready => "●",
            Self::Starting => "◐",
            Self::Waiting => "○",
            Self::Broken => "!",
            Self::Terminating => "×",
            Self::Finished => "–",
        }
    }
}

impl Object for Seen {
    const API_VERSION: &'static str = Pod::API_VERSION;
    const KIND: &'static str = Pod::KIND;

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let pod = Pod::decode(json, interner)?;
        let mut state = State::of(&pod);
        let mut reason = None;
        if matches!(state, State::Starting | State::Waiting | State::Finished) {
            let value: Value = serde_json::from_slice(json).map_err(DecodeError::of(Self::KIND))?;
            if let Some(told) = pod_reason(&value) {
                reason = Some(interner.text(&told.text));
                if told.wrong && pod.phase != PodPhase::Failed {
                    state = State::Broken;
                }
            }
        }
        Ok(Self { pod: Arc::new(pod), reason, state })
    }
}

impl Cached for Seen {
    type Indexes = ();
}

impl State {
    /// By what the controllers read of a pod.
    fn of(pod: &Pod) -> Self {
        if pod.phase.is_terminal() {
            Self::Finished
        } else if pod.meta.is_being_deleted() {
            Self::Terminating
        } else if pod.is_ready() {
            Self::Ready
        } else if pod.node_name.is_some() {
            Self::Starting
        } else {
            Self::Waiting
        }
    }
}
