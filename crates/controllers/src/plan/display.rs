//! A plan as text, as a dry run prints it.

use std::fmt;

use muster_machinery::SlowStart;

use super::{
    Announcement, ClaimAction, ClaimPlan, Creation, Deletion, Expectation, Owner, Plan, Remark, Requeue, StatusWrite,
    Step,
};

/// One line for the owner, then one for each intent.
///
/// ```text
/// ReplicaSet default/web (uid 1f0c, version 812, generation 2)
///   expect 3 creations
///   create 3 Pods in default, in batches of 1, 2 (412 bytes each)
///   status {"observedGeneration":2,"replicas":0}
///   look again when something changes
/// ```
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.owner)?;
        for remark in &self.remarks {
            writeln!(f, "  {remark}")?;
        }
        if self.confirm_owner {
            writeln!(f, "  read {} {} before the first creation", self.owner.resource, self.owner.key)?;
        }
        if let Some(expectation) = &self.expectation {
            writeln!(f, "  {expectation}")?;
        }
        for step in &self.steps {
            write_step(f, step)?;
        }
        if let Some(status) = &self.status {
            writeln!(f, "  {status}")?;
        }
        writeln!(f, "  {}", self.requeue)
    }
}

/// One line for the owner, then one for each adoption or release.
impl fmt::Display for ClaimPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.owner)?;
        if self.needs_permission() {
            writeln!(f, "  read {} {} before the first adoption", self.owner.resource, self.owner.key)?;
        }
        for patch in &self.patches {
            let action = match patch.action {
                ClaimAction::Adopt => "adopt",
                ClaimAction::Release => "release",
            };
            writeln!(f, "  {action} {} {} (uid {})", patch.resource, patch.key, patch.uid)?;
        }
        Ok(())
    }
}

/// `ReplicaSet default/web (uid 1f0c, version 812, generation 2)`
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, key, uid, resource_version, generation, .. } = self;
        write!(f, "{resource} {key} (uid {uid}, version {resource_version}, generation {generation})")
    }
}

fn write_step(f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
    match step {
        Step::Create(creation) => writeln!(f, "  {creation}"),
        Step::Delete(deletions) => deletions.iter().try_for_each(|deletion| writeln!(f, "  {deletion}")),
        Step::Patch(patches) => patches.iter().try_for_each(|patch| {
            let slash = if patch.subresource.is_some() { "/" } else { "" };
            let subresource = patch.subresource.unwrap_or_default();
            writeln!(f, "  patch {}{slash}{subresource} {}: {}", patch.resource, patch.key, patch.purpose)
        }),
        Step::Tell(announcement) => writeln!(f, "  {announcement}"),
        Step::Fail(failure) => writeln!(f, "  fail: {failure}"),
    }
}

impl fmt::Display for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, count, body, name, .. } = self;
        if let Some(name) = name {
            return write!(f, "create {resource} {namespace}/{name} ({} bytes)", body.len());
        }
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "create {count} {resource}{plural} in {namespace}, in batches of ")?;
        let mut round = SlowStart::new(usize::try_from(*count).unwrap_or(usize::MAX));
        while let Some(size) = round.next_batch() {
            round.finish_batch(0);
            let comma = if round.skipped() > 0 { ", " } else { "" };
            write!(f, "{size}{comma}")?;
        }
        write!(f, " ({} bytes each)", body.len())
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, key, uid, resource_version, .. } = self;
        write!(f, "delete {resource} {key} (uid {uid}, version {resource_version})")
    }
}

impl fmt::Display for StatusWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        self.annotations.iter().try_for_each(|(key, value)| write!(f, ", annotation {key}={value}"))
    }
}

/// `tell Warning SelectingAll: This deployment is selecting all pods.`
impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "Warning" } else { "Normal" };
        write!(f, "tell {kind} {}: {}", self.reason, self.message)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, what) = match self {
            Self::Creations(count) => (*count as usize, "creation"),
            Self::Deletions(keys) => (keys.len(), "deletion"),
        };
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "expect {count} {what}{plural}")
    }
}

impl fmt::Display for Requeue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("look again when something changes"),
            Self::After(delay) => write!(f, "look again after {delay:?}"),
            Self::RateLimited { at_most: None } => f.write_str("look again after a backoff"),
            Self::RateLimited { at_most: Some(limit) } => {
                write!(f, "look again after a backoff of at most {limit:?}")
            }
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeletionAgeRatio(ratio) => write!(f, "a ready victim is {ratio} times as old as the youngest"),
            Self::ExpectationsPending => f.write_str("pods are left as they are: events of the last round are to come"),
            Self::BeingDeleted => f.write_str("pods are left as they are: the owner is being deleted"),
            Self::BackingOff(rest) => {
                write!(f, "creations wait {rest:?}: the last ones came to nothing at once")
            }
            Self::InexactHash => f.write_str("the new name is our own: the template has something that is not known"),
            Self::CutAtBurst(burst) => write!(f, "cut at {burst} writes; the rest follows"),
        }
    }
}
