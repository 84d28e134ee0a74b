//! Who has the shard of a namespace, as the Leases tell it to somebody who is no member.

use muster_objects::{Lease, shard};

use super::record::{self, GROUP, Names};

/// The shard of a namespace, and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The group that works.
    pub group: String,
    /// The shard of the namespace.
    pub shard: u32,
    /// The identity of the member that has the shard; `None` where nobody has it.
    pub member: Option<String>,
}

/// Reads that out of all Leases with the label [`GROUP`]; `None` where no group works.
///
/// A member that is silent is still named until another one has ended its Lease.
#[must_use]
pub fn held(leases: &[Lease], namespace: &str) -> Option<Held> {
    leases.iter().find_map(|lease| {
        let names = Names::new(lease.namespace(), lease.name(), lease.label(GROUP)?);
        let (generation, cut) = record::cut(lease).filter(|_| lease.holder() == names.holder)?;
        let shard = cut.shard_of(shard::hash(namespace));
        let holder = |name: &str| {
            let of_it = |lease: &&Lease| lease.name() == name && lease.namespace() == names.namespace;
            leases.iter().find(of_it).filter(|lease| !lease.holder().is_empty())
        };
        let member = holder(&names.shard(shard))
            .filter(|lease| record::generation(lease) == generation)
            .map(Lease::holder)
            .filter(|identity| holder(&names.member(identity)).is_some());
        Some(Held { group: names.group.clone(), shard, member: member.map(ToOwned::to_owned) })
    })
}

#[cfg(test)]
mod tests {
    use muster_objects::Timestamp;

    use super::*;
    use crate::group::{Cut, Weights};

    const NOW: Timestamp = Timestamp::from_nanos(0);

    fn lease(name: &str, holder: &str) -> Lease {
        let names = Names::new("kube-system", "muster", "blue");
        record::held_by(&names.make(name), holder, 15, NOW)
    }

    /// One shard, which `web-1` has.
    fn group() -> [Lease; 3] {
        let names = Names::new("kube-system", "muster", "blue");
        let cut = Cut::of(&Weights::default(), 1);
        [
            lease(&names.member("web-1"), "web-1"),
            record::with_cut(&lease("muster", "group/blue"), &cut, 3),
            record::shard_of(&lease(&names.shard(0), "web-1"), "web-1", 3, 15, NOW),
        ]
    }

    fn member(leases: &[Lease]) -> Option<Option<String>> {
        held(leases, "team-7").map(|held| {
            assert_eq!((&*held.group, held.shard), ("blue", 0));
            held.member
        })
    }

    /// Contract: SH-06
    #[test]
    fn the_leases_of_a_group_say_who_has_a_namespace() {
        assert_eq!(member(&group()), Some(Some("web-1".to_owned())));
        let changed = |at: usize, lease: Lease| {
            let mut leases = group();
            leases[at] = lease;
            member(&leases)
        };
        let [own, of_group, shard] = group();
        assert_eq!(changed(0, own.released(NOW)), Some(None), "a member that was ended");
        assert_eq!(changed(2, shard.released(NOW)), Some(None), "a shard that was given back");
        let older = record::shard_of(&shard, "web-1", 2, 15, NOW);
        assert_eq!(changed(2, older), Some(None), "a shard of an older cut");
        assert_eq!(member(&group()[..2]), Some(None), "a shard that nobody has had");
        assert_eq!(changed(1, record::held_by(&of_group, "leader-1", 15, NOW)), None, "a single leader");
        assert_eq!(changed(1, lease("muster", "group/blue")), None, "a group that is not founded");
        assert_eq!(held(&[], "team-7"), None);
    }
}
