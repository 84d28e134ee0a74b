//! Whether all members of a group run the same controllers: in the shards of one that lacks some, nobody does their work.

use std::collections::BTreeSet;

use muster_machinery::election::Carried;
use muster_machinery::group::{CONTROLLERS, Group};

use crate::manager::Options;

/// What a member runs, and who is known to run something else.
pub(super) struct Alike {
    mine: String,
    others: BTreeSet<(String, String)>,
}

impl Alike {
    /// Nobody is known yet.
    pub(super) fn new(options: &Options) -> Self {
        let names: Vec<&str> = options.controllers.iter().map(|name| name.name).collect();
        Self { mine: names.join(","), others: BTreeSet::new() }
    }

    /// Has this member's Lease say what it runs.
    pub(super) fn tell(&self, carried: &mut Carried) {
        carried.annotations.insert(CONTROLLERS.to_owned(), Some(self.mine.clone()));
    }

    /// Says it once of each member that runs other controllers; gives those of which nothing was said before.
    pub(super) fn compare(&mut self, group: &Group) -> Vec<(String, String)> {
        let told = group.told(CONTROLLERS).filter(|(_, runs)| *runs != self.mine);
        let others: BTreeSet<_> = told.map(|(member, runs)| (member.to_owned(), runs.to_owned())).collect();
        let new: Vec<_> = others.difference(&self.others).cloned().collect();
        for (member, runs) in &new {
            let mine = &self.mine;
            tracing::warn!(
                member,
                runs,
                mine,
                "members of the group differ in --controllers: each does its own only in its shards"
            );
        }
        self.others = others;
        new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_machinery::{
        election,
        group::{Config, GROUP},
    };
    use muster_objects::{Lease, Moment, Timestamp};

    use super::*;
    use crate::manager::{self, Name};

    /// Contract: SH-05
    #[test]
    fn a_member_that_runs_other_controllers_is_told_of_once() {
        let of = |controllers: &[Name]| {
            Alike::new(&Options { controllers: controllers.iter().copied().collect(), ..Options::default() })
        };
        let (mut alike, other) = (of(manager::CONTROLLERS), of(&[manager::REPLICASET]));
        let election = election::Config::new("kube-system", "muster", "me".to_owned());
        let mut group = Group::new(Config { election, group: "blue".to_owned(), shards: 2 }).unwrap();
        let lease = |identity: &str, runs: &Alike| {
            let election = election::Config::new("kube-system", "muster", identity.to_owned());
            let member = Group::new(Config { election, group: "blue".to_owned(), shards: 2 }).unwrap();
            let mut lease = Lease::new("kube-system", &member.election().name);
            lease.spec.holder_identity = Some(identity.to_owned());
            lease.set_label(GROUP, "blue");
            let mut carried = Carried { labels: BTreeMap::new(), annotations: BTreeMap::new() };
            runs.tell(&mut carried);
            for (key, value) in carried.annotations {
                lease.set_annotation(&key, value.as_deref());
            }
            lease
        };
        let leases = [lease("me", &other), lease("same", &of(manager::CONTROLLERS)), lease("differs", &other)];
        for expected in [&[("differs", "replicaset-controller")][..], &[]] {
            let now = Moment::ORIGIN;
            group.listed(leases.to_vec(), None, (now, Timestamp::from_seconds(1)), now);
            let told = alike.compare(&group);
            let told: Vec<_> = told.iter().map(|(member, runs)| (member.as_str(), runs.as_str())).collect();
            assert_eq!(told, expected);
        }
    }
}
