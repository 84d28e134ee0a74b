//! Who has the shard of a namespace, as the Leases tell it to somebody who is no member.

use std::fmt;

use muster_objects::{Lease, shard};
use serde::{Deserialize, Serialize};

use super::record::{self, GROUP, Names};

/// The shard of a namespace, and who has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shard {
    /// The group that works.
    pub group: String,
    /// The number of the shard.
    pub number: u32,
    /// The identity of the member that has it; `None` where nobody has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

/// `shard 7 of the group main, which web-1_1f0c has`
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, number, member } = self;
        let member = member.as_deref().unwrap_or("nobody");
        write!(f, "shard {number} of the group {group}, which {member} has")
    }
}

/// The shard of `namespace`, out of the Leases of one namespace that have the label [`GROUP`]; `None` where no group works.
///
/// A member that is silent is still named until another one has ended its Lease.
#[must_use]
pub fn shard_of(leases: &[Lease], namespace: &str) -> Option<Shard> {
    let held = |name: &str| leases.iter().find(|lease| lease.name() == name && !lease.holder().is_empty());
    leases.iter().find_map(|lease| {
        let names = Names::new(lease.namespace(), lease.name(), lease.label(GROUP)?);
        let (generation, cut) = record::cut(lease).filter(|_| lease.holder() == names.holder)?;
        let number = cut.shard_of(shard::hash(namespace));
        let member = held(&names.shard(number))
            .filter(|lease| record::generation(lease) == generation)
            .map(Lease::holder)
            .filter(|identity| held(&names.member(identity)).is_some());
        Some(Shard { group: names.group.clone(), number, member: member.map(ToOwned::to_owned) })
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
            record::shard_of(&lease(&names.shard(0), "web-1"), "web-1", record::numbered(3, &cut), 15, NOW),
        ]
    }

    fn member(leases: &[Lease]) -> Option<Option<String>> {
        shard_of(leases, "team-7").map(|shard| {
            assert_eq!((&*shard.group, shard.number), ("blue", 0));
            shard.member
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
        let older = record::numbered(2, &Cut::of(&Weights::default(), 1));
        let older = record::shard_of(&shard, "web-1", older, 15, NOW);
        assert_eq!(changed(2, older), Some(None), "a shard of an older cut");
        assert_eq!(member(&group()[..2]), Some(None), "a shard that nobody has had");
        assert_eq!(changed(1, record::held_by(&of_group, "leader-1", 15, NOW)), None, "a single leader");
        assert_eq!(changed(1, lease("muster", "group/blue")), None, "a group that is not founded");
        assert_eq!(shard_of(&[], "team-7"), None);
    }
}
