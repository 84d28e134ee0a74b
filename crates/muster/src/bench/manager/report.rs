//! The figures of several managers side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::arguments::Phase;

/// What one run of a phase found, by the names of [`ROWS`], or of a group by those of [`COLUMNS`].
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// Every figure in the order of the table: its phase, its name in JSON, and what a person reads.
const ROWS: &[(Phase, &str, &str)] = &[
    (Phase::Rest, "ready_seconds", "start to first pod, s"),
    (Phase::Rest, "start_cpu_seconds", "start, CPU s"),
    (Phase::Rest, "cpu_seconds", "at rest, CPU s"),
    (Phase::Rest, "resident_mib", "resident, MiB"),
    (Phase::Rest, "peak_mib", "peak, MiB"),
    (Phase::Replicaset, "seconds", "its pods, s"),
    (Phase::Replicaset, "direct_seconds", "created directly, s"),
    (Phase::Replicaset, "ratio_to_direct", "its pods over directly"),
    (Phase::Replicaset, "cpu_seconds", "CPU s"),
    (Phase::Many, "seconds", "all pods, s"),
    (Phase::Many, "cpu_seconds", "CPU s"),
    (Phase::Many, "resident_mib", "resident, MiB"),
    (Phase::Many, "peak_mib", "peak, MiB"),
    (Phase::Rollouts, "seconds", "all complete, s"),
    (Phase::Rollouts, "cpu_seconds", "CPU s"),
    (Phase::Rollouts, "creation_cpu_seconds", "creation before, CPU s"),
    (Phase::Rollouts, "resident_mib", "resident, MiB"),
    (Phase::Rollouts, "peak_mib", "peak, MiB"),
    (Phase::Restart, "ready_seconds", "start to first pod, s"),
    (Phase::Restart, "cpu_seconds", "CPU s"),
    (Phase::Restart, "resident_mib", "resident, MiB"),
    (Phase::Restart, "peak_mib", "peak, MiB"),
];

/// What stands in the place of a phase where a group was measured.
pub(super) const GROUP: &str = "group";

/// Every figure of the leader, of a member or of all members, in the order of the table.
const COLUMNS: &[(&str, &str)] = &[
    ("ready_seconds", "ready, s"),
    ("start_cpu_seconds", "start, CPU s"),
    ("seconds", "more pods, s"),
    ("cpu_seconds", "CPU s"),
    ("resident_mib", "resident, MiB"),
    ("peak_mib", "peak, MiB"),
];

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    /// The cores of this machine.
    pub(super) cores: usize,
    /// How many processes ran or wanted to, on average over the minute before the beginning; where that is known.
    pub(super) load_before: Option<f64>,
    pub(super) load_after: Option<f64>,
    /// The server's version.
    pub(super) server: String,
    /// Pods in the cluster that are none of the bench's.
    pub(super) other_pods: u64,
    /// Whether the nodes of `rollouts` were simulated by this program.
    pub(super) nodes_simulated: bool,
    pub(super) rounds: u32,
    /// What was asked for in each phase.
    pub(super) sizes: BTreeMap<&'static str, String>,
    pub(super) managers: Vec<Found>,
}

/// What was found of one manager.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    /// By phase: the medians of its rounds.
    pub(super) medians: BTreeMap<&'static str, Figures>,
    /// By phase: every round.
    pub(super) rounds: BTreeMap<&'static str, Vec<Figures>>,
}

impl Found {
    pub(super) fn new(name: &str, command: Vec<String>) -> Self {
        Self { name: name.to_owned(), command, medians: BTreeMap::new(), rounds: BTreeMap::new() }
    }

    /// Takes in one round of a phase.
    pub(super) fn add(&mut self, phase: &'static str, figures: Figures) {
        let rounds = self.rounds.entry(phase).or_default();
        rounds.push(figures);
        let median = |name: &&'static str| {
            let values: Vec<f64> = rounds.iter().filter_map(|round| round.get(name)).copied().collect();
            (*name, median(values))
        };
        let medians = rounds[0].keys().map(median).collect();
        self.medians.insert(phase, medians);
    }
}

/// The middle value; of an even number the mean of the two in the middle, and zero of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

/// The table for people.
pub(super) fn text(findings: &Findings) -> String {
    let Findings { cores, server, rounds, other_pods, managers, .. } = findings;
    let mut text = format!("Kubernetes {server}, {cores} cores, medians of {rounds} rounds");
    if let (Some(before), Some(after)) = (findings.load_before, findings.load_after) {
        let _ = write!(text, ", load average {before:.1} before and {after:.1} after");
    }
    let _ = write!(text, ", {other_pods} pods of others in the cluster\n\n");
    text += &match findings.sizes.get(GROUP) {
        Some(size) => members(size, managers),
        None => side_by_side(findings),
    };
    text
}

/// The leader, each member and all of them, one below the other.
fn members(size: &str, managers: &[Found]) -> String {
    let mut text = format!("{GROUP}: {size}\n\n{:12}", "");
    for (_, words) in COLUMNS {
        let _ = write!(text, "{words:>15}");
    }
    for manager in managers {
        let _ = write!(text, "\n{:12}", manager.name);
        for (name, _) in COLUMNS {
            let value = manager.medians.get(GROUP).and_then(|figures| figures.get(name)).copied();
            let _ = write!(text, "{:>15}", number(value));
        }
    }
    text.push('\n');
    text
}

/// The figures of each phase, with a column for each manager and the first one's share of the others'.
fn side_by_side(findings: &Findings) -> String {
    let managers = &findings.managers;
    let mut text = String::new();
    for manager in managers {
        let _ = writeln!(text, "{}: {}", manager.name, manager.command.join(" "));
    }
    let width = managers.iter().map(|manager| manager.name.len()).max().unwrap_or(0).max(10) + 2;
    let first = managers.first().map_or("", |manager| manager.name.as_str());
    let _ = write!(text, "\n{:28}", "");
    for manager in managers {
        let _ = write!(text, "{:>width$}", manager.name);
    }
    for manager in managers.iter().skip(1) {
        let over = format!("{first}/{}", manager.name);
        let _ = write!(text, "  {over:>width$}");
    }
    let mut told = None;
    for (phase, name, words) in ROWS {
        let values: Vec<Option<f64>> =
            managers.iter().map(|manager| manager.medians.get(phase.name())?.get(name).copied()).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        if told != Some(*phase) {
            told = Some(*phase);
            let size = findings.sizes.get(phase.name()).map_or("", String::as_str);
            let nodes = if *phase == Phase::Rollouts && findings.nodes_simulated { ", on simulated nodes" } else { "" };
            let _ = write!(text, "\n{}: {size}{nodes}", phase.name());
        }
        let _ = write!(text, "\n  {words:26}");
        for value in &values {
            let _ = write!(text, "{:>width$}", number(*value));
        }
        let (first, others) = (values[0], &values[1..]);
        for other in others {
            // A share of nothing says nothing.
            let ratio = first.zip(other.filter(|other| *other > 0.0)).map(|(first, other)| first / other);
            let _ = write!(text, "  {:>width$}", number(ratio));
        }
    }
    text.push('\n');
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        for (values, expected) in [(vec![], 0.0), (vec![3.0], 3.0), (vec![4.0, 1.0], 2.5), (vec![9.0, 1.0, 2.0], 2.0)] {
            assert_eq!(median(values.clone()), expected, "{values:?}");
        }
    }

    fn findings(phase: &'static str, size: &str, managers: Vec<Found>) -> Findings {
        Findings {
            cores: 2,
            load_before: Some(0.5),
            load_after: Some(1.5),
            server: "v1.36.2".to_owned(),
            other_pods: 0,
            nodes_simulated: false,
            rounds: 3,
            sizes: [(phase, size.to_owned())].into(),
            managers,
        }
    }

    /// The words of the line that begins so.
    fn words(text: &str, start: &str) -> String {
        let line = text.lines().find(|line| line.trim().starts_with(start)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn members_stand_below_the_leader_and_what_is_not_one_process_is_left_out() {
        let found = |name: &str, figures: &[(&'static str, f64)]| {
            let mut found = Found::new(name, vec![]);
            found.add(GROUP, figures.iter().copied().collect());
            found
        };
        let of_one =
            |cpu: f64| [("start_cpu_seconds", cpu), ("cpu_seconds", 2.0), ("resident_mib", 9.0), ("peak_mib", 10.0)];
        let managers = vec![
            found("leader", &[&[("ready_seconds", 1.0), ("seconds", 3.0)][..], &of_one(4.0)].concat()),
            found("member-1", &of_one(1.5)),
        ];
        let text = text(&findings(GROUP, "some of these", managers));
        assert_eq!(words(&text, "group:"), "group: some of these", "{text}");
        assert_eq!(
            words(&text, "ready, s"),
            "ready, s start, CPU s more pods, s CPU s resident, MiB peak, MiB",
            "{text}"
        );
        assert_eq!(words(&text, "leader"), "leader 1.00 4.00 3.00 2.00 9.00 10.00", "{text}");
        assert_eq!(words(&text, "member-1"), "member-1 - 1.50 - 2.00 9.00 10.00", "{text}");
    }

    #[test]
    fn managers_stand_side_by_side_with_the_first_ones_share() {
        let found = |name: &str, cpu: [f64; 3]| {
            let mut found = Found::new(name, vec!["prog".to_owned(), name.to_owned()]);
            cpu.into_iter().for_each(|cpu| found.add("many", Figures::from([("cpu_seconds", cpu)])));
            found
        };
        let managers = vec![found("one", [3.0, 1.0, 2.0]), found("other", [4.0, 9.0, 8.0])];
        let text = text(&findings("many", "100 ReplicaSets of 200 pods", managers));
        assert_eq!(words(&text, "CPU s"), "CPU s 2.00 8.00 0.25", "{text}");
        assert_eq!(words(&text, "many:"), "many: 100 ReplicaSets of 200 pods", "{text}");
        assert!(text.contains("one/other") && text.contains("one: prog one\n"), "{text}");
        assert!(!text.contains("rest"), "what was not measured is not told: {text}");
    }
}
