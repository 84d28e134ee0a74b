//! Faults by names that people know.

/// One of them.
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// What it is like.
    pub(super) about: &'static str,
    /// As in a file.
    pub(super) yaml: &'static str,
}

/// All of them.
pub(super) const ALL: &[Preset] = &[
    Preset {
        name: "flaky-network",
        about: "requests take longer, connections break before and after the server has acted, watches are cut",
        yaml: "\
faults:
- {fault: {delay: 0s..500ms}, perMille: 300}
- {fault: reset, perMille: 20}
- {fault: answer-lost, perMille: 20}
- {fault: cut, verbs: [watch], perMille: 20}
",
    },
    Preset {
        name: "slow-watch",
        about: "whatever a watch tells comes 2 to 5 s late",
        yaml: "\
faults:
- {fault: {lag: 2s..5s}, verbs: [watch]}
",
    },
    Preset {
        name: "stale-cache",
        about: "one of several servers, whose cache is 5 to 20 s behind: its watches are, and lists that permit it",
        yaml: "\
faults:
- {fault: {behind: 5s..20s}, verbs: [watch], perMille: 500}
- {fault: stale, verbs: [list], perMille: 500}
",
    },
    Preset {
        name: "etcd-restore",
        about: "every two minutes the server is put back to what it was 20 s before",
        yaml: "\
operations:
- {at: 20s, every: 2m, do: remember}
- {at: 40s, every: 2m, do: server-away}
- {at: 41s, every: 2m, do: restore}
- {at: 43s, every: 2m, do: server-back}
",
    },
    Preset {
        name: "api-rollout",
        about: "every minute the server is away for 3 s, and comes back without its history",
        yaml: "\
operations:
- {at: 20s, every: 1m, do: server-away}
- {at: 22s, every: 1m, do: compact}
- {at: 23s, every: 1m, do: server-back}
",
    },
    Preset {
        name: "leader-cut-off",
        about: "for 30 s of every start nobody's writes of Leases arrive, while all else does: who leads loses its Lease",
        yaml: "\
faults:
- {fault: lost, verbs: [create, update, patch], resources: [leases], from: 20s, until: 50s}
",
    },
];

/// A table of them.
pub(super) fn listed() -> String {
    ALL.iter().map(|Preset { name, about, .. }| format!("{name:<18}{about}\n")).collect()
}
