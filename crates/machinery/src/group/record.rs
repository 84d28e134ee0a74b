//! The Leases of a group: their names, and what stands in them.

use muster_objects::lease::Lease;
use muster_objects::{Timestamp, shard};

use super::cut::Cut;

/// The label by which all Leases of a group are found; its value is the group's name.
pub const GROUP: &str = "muster.dev/group";
/// The annotation of a member's Lease that says that it is about to end, and has its shards go elsewhere.
pub const LEAVING: &str = "muster.dev/leaving";
/// The annotation of a member's Lease with the controllers that it runs.
pub const CONTROLLERS: &str = "muster.dev/controllers";
/// The annotation of a member's Lease that says that it has begun after many were lost, and gets no shards yet.
pub const NEW: &str = "muster.dev/new";
/// The annotation of a member's Lease with the number of shards that it was told to have the cluster cut into.
pub const SHARDS: &str = "muster.dev/shards";
/// The annotation of a member's Lease with the number of pods in its shards.
pub const PODS: &str = "muster.dev/pods";
/// The annotation of a member's Lease with the number of pods in its heaviest shard.
pub const HEAVIEST: &str = "muster.dev/heaviest-shard-pods";
/// The annotation of the group's Lease with the cut.
pub(super) const CUT: &str = "muster.dev/cut";
/// The annotation of the group's Lease that tells its cut from all others, and of a shard's with that of the cut it belongs to: the
/// number of the cut, and a hash of it, so that ranges that somebody else wrote are another cut.
pub(super) const GENERATION: &str = "muster.dev/cut-generation";
/// The annotation of a member's Lease that another member has ended, after it had not been renewed for the Lease's
/// time.
pub const ENDED: &str = "muster.dev/ended";
/// What [`LEAVING`] says of a member that waits for all others to leave, to give the group's Lease back.
pub(super) const LAST: &str = "last";
/// What an annotation says that only has to be there.
pub const YES: &str = "true";

/// The names of a group's Leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) namespace: String,
    /// The group's Lease, which is the single leader's.
    pub(super) lease: String,
    pub(super) group: String,
    /// Who holds the group's Lease.
    pub(super) holder: String,
    members: String,
    shards: String,
}

impl Names {
    pub(super) fn new(namespace: &str, lease: &str, group: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            lease: lease.to_owned(),
            group: group.to_owned(),
            holder: format!("group/{group}"),
            members: format!("{lease}-{group}-member-"),
            shards: format!("{lease}-{group}-shard-"),
        }
    }

    pub(super) fn member(&self, identity: &str) -> String {
        format!("{}{:016x}", self.members, shard::hash(identity))
    }

    pub(super) fn shard(&self, number: u32) -> String {
        format!("{}{number:03}", self.shards)
    }

    /// What a Lease of the group is about.
    pub(super) fn subject(&self, name: &str) -> Option<Subject> {
        if name == self.lease {
            return Some(Subject::Group);
        }
        if name.starts_with(&self.members) {
            return Some(Subject::Member);
        }
        let number = name.strip_prefix(&self.shards)?.parse().ok()?;
        (self.shard(number) == name).then_some(Subject::Shard(number))
    }

    /// A Lease of the group that is not there yet.
    pub(super) fn make(&self, name: &str) -> Lease {
        let mut lease = Lease::new(&self.namespace, name);
        lease.set_label(GROUP, &self.group);
        lease.spec.lease_transitions = Some(0);
        lease
    }
}

/// What a Lease of a group is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Group,
    Member,
    Shard(u32),
}

/// The cut that a Lease belongs to, by its number in the upper half and its hash in the lower one; 0 for none.
pub(super) fn generation(lease: &Lease) -> u64 {
    let text = lease.annotation(GENERATION).unwrap_or_default();
    let (number, hash) = text.split_once('-').unwrap_or((text, "0"));
    match (number.parse::<u32>(), u32::from_str_radix(hash, 16)) {
        (Ok(number), Ok(hash)) => u64::from(number) << 32 | u64::from(hash),
        _ => 0,
    }
}

/// The same of a cut by its number.
pub(super) fn numbered(number: u32, cut: &Cut) -> u64 {
    let hash = shard::hash(&cut.to_text());
    u64::from(number) << 32 | (hash ^ hash >> 32) & u64::from(u32::MAX)
}

/// The number of a cut, out of what tells it from others.
pub(super) fn count(generation: u64) -> u32 {
    u32::try_from(generation >> 32).unwrap_or(u32::MAX)
}

fn mark(generation: u64) -> String {
    format!("{}-{:08x}", count(generation), generation & u64::from(u32::MAX))
}

/// A number in an annotation.
pub(super) fn number(lease: &Lease, annotation: &str) -> Option<u64> {
    lease.annotation(annotation)?.parse().ok()
}

/// Whether an annotation is there.
pub(super) fn says(lease: &Lease, annotation: &str) -> bool {
    lease.annotation(annotation).is_some()
}

/// The Lease with another holder.
pub(super) fn held_by(lease: &Lease, holder: &str, seconds: i32, wall: Timestamp) -> Lease {
    let mut held = lease.clone();
    if lease.holder() != holder {
        let transitions = lease.spec.lease_transitions.unwrap_or(0);
        held.spec.lease_transitions = Some(transitions.saturating_add(1));
        held.spec.acquire_time = Some(wall.micro());
    }
    held.spec.holder_identity = Some(holder.to_owned());
    held.spec.lease_duration_seconds = Some(seconds);
    held.spec.renew_time = Some(wall.micro());
    held
}

/// The Lease of a shard with another holder; none where that is empty.
pub(super) fn shard_of(lease: &Lease, holder: &str, generation: u64, seconds: i32, wall: Timestamp) -> Lease {
    let mut shard = if holder.is_empty() { lease.released(wall) } else { held_by(lease, holder, seconds, wall) };
    shard.set_annotation(GENERATION, Some(&mark(generation)));
    shard
}

/// The group's Lease with another cut, of this number.
pub(super) fn with_cut(lease: &Lease, cut: &Cut, number: u32) -> Lease {
    let mut with = lease.clone();
    with.set_annotation(CUT, Some(&cut.to_text()));
    with.set_annotation(GENERATION, Some(&mark(numbered(number, cut))));
    with
}

/// The cut in the group's Lease, and what tells it from others; `None` where there is none.
pub(super) fn cut(lease: &Lease) -> Option<(u64, Cut)> {
    let cut = Cut::parse(lease.annotation(CUT)?)?;
    lease.annotation(GENERATION)?;
    Some((numbered(count(generation(lease)), &cut), cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_lease_is_about() {
        let names = Names::new("kube-system", "muster", "blue");
        assert_eq!(names.shard(7), "muster-blue-shard-007");
        assert_eq!(names.shard(1_023), "muster-blue-shard-1023");
        assert_eq!(names.member("web-1"), "muster-blue-member-666fc22e095c221f");
        for (name, subject) in [
            ("muster", Some(Subject::Group)),
            ("muster-blue-shard-007", Some(Subject::Shard(7))),
            ("muster-blue-shard-7", None),
            ("muster-blue-shard-1023", Some(Subject::Shard(1_023))),
            ("muster-blue-shard-x", None),
            ("muster-blue-member-666fc22e095c221f", Some(Subject::Member)),
            ("muster-red-shard-007", None),
            ("other", None),
        ] {
            assert_eq!(names.subject(name), subject, "{name}");
        }
    }
}
