//! Intent: one thing that a sync would do, in a form that can be compared with an action.

use std::collections::BTreeSet;
use std::fmt;

use muster_objects::meta::{ObjectKey, Uid};

use super::fields::Field;

/// The object of an intent.
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
    /// Adopt an object.
    Adopt(Target),
    /// Release an object.
    Release(Target),
    /// Create this many pods.
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
    /// Scale a ReplicaSet.
    ScaleReplicaSet {
        /// Which.
        set: Target,
        /// The size.
        to: i64,
    },
    /// Update a ReplicaSet without scaling it.
    UpdateReplicaSet {
        /// Which.
        set: Target,
        /// The annotations that change, and `spec.minReadySeconds` where that does.
        fields: BTreeSet<String>,
    },
    /// Delete an old ReplicaSet.
    DeleteReplicaSet(Target),
    /// Write the Deployment itself.
    RollBack(String),
    /// Write the owner's status.
    WriteStatus(Vec<Field>),
}

/// What an intent writes, without the values: two states with equal ones intend the same write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum IntendedWrite {
    /// To adopt the object.
    Adopt(Target),
    /// To release the object.
    Release(Target),
    /// To create pods.
    CreatePods,
    /// To delete pods.
    DeletePods,
    /// To create a ReplicaSet.
    CreateReplicaSet,
    /// To scale the ReplicaSet.
    ScaleReplicaSet(Target),
    /// To change annotations of the ReplicaSet.
    UpdateReplicaSet(Target),
    /// To delete the ReplicaSet.
    DeleteReplicaSet(Target),
    /// To change the template of the Deployment.
    RollBack,
    /// To change this field of the status.
    Status(String),
}

impl IntendedWrite {
    /// Its name in records and metrics.
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
    /// The intended writes. A status is one write for each field.
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
