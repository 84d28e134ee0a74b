//! Intent: one thing that a sync would do, in a form in which it can be compared with what was done.

use std::collections::BTreeSet;
use std::fmt;

use muster_objects::meta::{ObjectKey, Uid};

use super::fields::Field;

/// The object that is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid.
    pub uid: Uid,
}

/// One thing that a sync would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Take an object by its owner reference.
    Adopt(Target),
    /// Give an object up.
    Release(Target),
    /// Create so many pods.
    CreatePods(u32),
    /// Delete exactly these pods.
    DeletePods(Vec<Target>),
    /// Create the new ReplicaSet of a Deployment.
    CreateReplicaSet {
        /// Its name.
        name: String,
        /// Its size.
        replicas: i64,
        /// Its revision; empty where it has none.
        revision: String,
    },
    /// Give a ReplicaSet another size.
    ScaleReplicaSet {
        /// Which.
        set: Target,
        /// The size.
        to: i64,
    },
    /// Bring a ReplicaSet up to date without another size.
    UpdateReplicaSet {
        /// Which.
        set: Target,
        /// The annotations that change, and `spec.minReadySeconds` where that does.
        fields: BTreeSet<String>,
    },
    /// Delete an old ReplicaSet.
    DeleteReplicaSet(Target),
    /// Write a Deployment itself.
    RollBack(String),
    /// Write the owner's status.
    WriteStatus(Vec<Field>),
}

/// What is wanted by an intent, as far as it is the same write from one state to the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum IntendedWrite {
    /// To adopt the object.
    Adopt(Target),
    /// To release the object.
    Release(Target),
    /// More pods.
    CreatePods,
    /// Fewer pods.
    DeletePods,
    /// A new ReplicaSet.
    CreateReplicaSet,
    /// Another size of the ReplicaSet.
    ScaleReplicaSet(Target),
    /// Other annotations of the ReplicaSet.
    UpdateReplicaSet(Target),
    /// No such ReplicaSet.
    DeleteReplicaSet(Target),
    /// Another template of the Deployment.
    RollBack,
    /// Another value of a field of the status.
    Status(String),
}

impl IntendedWrite {
    /// What it is called in records and metrics.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Adopt(_) => "adopt",
            Self::Release(_) => "release",
            Self::CreatePods => "create-pod",
            Self::DeletePods => "delete-pod",
            Self::CreateReplicaSet => "create-replicaset",
            Self::ScaleReplicaSet(_) => "scale-replicaset",
            Self::UpdateReplicaSet(_) => "update-replicaset",
            Self::DeleteReplicaSet(_) => "delete-replicaset",
            Self::RollBack => "roll-back",
            Self::Status(_) => "status",
        }
    }
}

impl Intent {
    /// What it writes for. A status is one write for each field.
    #[must_use]
    pub fn writes(&self) -> Vec<IntendedWrite> {
        vec![match self {
            Self::Adopt(target) => IntendedWrite::Adopt(target.clone()),
            Self::Release(target) => IntendedWrite::Release(target.clone()),
            Self::CreatePods(_) => IntendedWrite::CreatePods,
            Self::DeletePods(_) => IntendedWrite::DeletePods,
            Self::CreateReplicaSet { .. } => IntendedWrite::CreateReplicaSet,
            Self::ScaleReplicaSet { set, .. } => IntendedWrite::ScaleReplicaSet(set.clone()),
            Self::UpdateReplicaSet { set, .. } => IntendedWrite::UpdateReplicaSet(set.clone()),
            Self::DeleteReplicaSet(set) => IntendedWrite::DeleteReplicaSet(set.clone()),
            Self::RollBack(_) => IntendedWrite::RollBack,
            Self::WriteStatus(fields) => {
                return fields.iter().map(|field| IntendedWrite::Status(field.name.clone())).collect();
            }
        }]
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adopt(target) => write!(f, "adopt {}", target.key),
            Self::Release(target) => write!(f, "release {}", target.key),
            Self::CreatePods(1) => f.write_str("create 1 pod"),
            Self::CreatePods(count) => write!(f, "create {count} pods"),
            Self::DeletePods(pods) => {
                f.write_str("delete")?;
                pods.iter().try_for_each(|pod| write!(f, " {}", pod.key.name))
            }
            Self::CreateReplicaSet { name, replicas, revision } => {
                write!(f, "create ReplicaSet {name} of {replicas} as revision {revision:?}")
            }
            Self::ScaleReplicaSet { set, to } => write!(f, "scale ReplicaSet {} to {to}", set.key.name),
            Self::UpdateReplicaSet { set, fields } => {
                write!(f, "update ReplicaSet {}:", set.key.name)?;
                fields.iter().try_for_each(|field| write!(f, " {field}"))
            }
            Self::DeleteReplicaSet(set) => write!(f, "delete ReplicaSet {}", set.key.name),
            Self::RollBack(purpose) => f.write_str(purpose),
            Self::WriteStatus(fields) => {
                f.write_str("write status")?;
                fields.iter().try_for_each(|field| write!(f, ", {field}"))
            }
        }
    }
}

/// Several intents as one text; `nothing` for none.
#[must_use]
pub fn text_of(intents: &[Intent]) -> String {
    if intents.is_empty() {
        return "nothing".to_owned();
    }
    intents.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
