//! The nouns of Kubernetes that Muster reads and writes, in their slim form.
//!
//! ```text
//!   watch line --stream--> object bytes --decode(.., Interner)--> Pod, ReplicaSet, ...   (read)
//!   Template, Condition, Event, Lease, ReplicaSetStatus --> JSON bytes                    (write)
//! ```
//!
//! Decoding takes exactly the fields that a controller reads and skips the rest at speed. What a
//! controller must hand on without understanding it (a pod template) is carried as the raw JSON that
//! it arrived in; a pod, of which nothing is handed on, is read from [`protobuf`] as well. Strings that
//! recur (namespaces, nodes, label sets, owners) are shared through an [`intern::Interner`], so that a
//! cached pod stays small (INF-10).
//!
//! Nothing here does I/O, reads a clock or draws a random number.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod condition;
pub mod deployment;
pub mod event;
pub mod head;
pub mod int_or_percent;
pub mod intern;
pub mod json;
pub mod labels;
pub mod lease;
pub mod meta;
pub mod names;
mod object;
pub mod pod;
pub mod protobuf;
pub mod replicaset;
pub mod replicationcontroller;
pub mod selector;
pub mod shard;
pub mod stream;
pub mod template;
pub mod time;
mod wire;

pub use condition::{Condition, ConditionStatus};
pub use deployment::{Deployment, DeploymentStatus, Strategy};
pub use event::{Event, EventSource, EventType, ObjectReference};
pub use head::Head;
pub use int_or_percent::IntOrPercent;
pub use intern::Interner;
pub use labels::{Annotations, Labels};
pub use lease::Lease;
pub use meta::{ControllerRef, Meta, ObjectKey, OwnerReference, ResourceVersion, Uid};
pub use object::{DecodeError, Decoder, Object, Unreadable};
pub use pod::{Pod, PodPhase, Readiness, Restarts};
pub use replicaset::{ReplicaSet, ReplicaSetStatus};
pub use replicationcontroller::ReplicationController;
pub use selector::{LabelSelector, Selector, SelectorError};
pub use shard::HashRange;
pub use template::{Template, TemplateError};
pub use time::{Moment, Timestamp};
pub use wire::StringMap;
