//! A tree for a person.

use std::fmt::Write as _;

use console::Style;
use muster_manager::arguments::{in_line, visible};

use super::model::{Pace, Phase, Pod, Revision, Set, Tree};

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Whether colours may be used.
    pub(super) colours: bool,
    /// How many pods of a revision are shown.
    pub(super) pods: usize,
    /// The columns of the terminal; none cuts nothing.
    pub(super) width: Option<usize>,
}

/// The tree, a line for each thing in it.
pub(super) fn show(tree: &Tree, look: Look) -> String {
    let mut out = String::new();
    let mut field = |name: &str, text: &str| {
        let _ = writeln!(out, "{name:<10} {text}");
    };
    let (mark, phase, style) = phase(tree.phase);
    field("Name:", &format!("{}/{} ({})", tree.object.namespace, tree.object.name, tree.object.kind));
    field("Status:", &paint(look, style.clone(), &format!("{mark} {phase}")));
    for message in &tree.messages {
        field("", &paint(look, Style::new().yellow(), &visible(message)));
    }
    if let Some(strategy) = &tree.strategy {
        let bounds = strategy.bounds.as_ref().map_or(String::new(), |bounds| {
            format!(
                ", maxSurge {}, maxUnavailable {}: at most {} pods, at least {} available",
                bounds.max_surge, bounds.max_unavailable, bounds.most_pods, bounds.least_available
            )
        });
        field("Strategy:", &format!("{}{bounds}", strategy.name));
    }
    let pods = &tree.pods;
    let terminating = if pods.terminating > 0 { format!(", {} terminating", pods.terminating) } else { String::new() };
    field(
        "Pods:",
        &format!(
            "{} wanted, {} there, {} updated, {} ready, {} available{terminating}",
            pods.wanted, pods.current, pods.updated, pods.ready, pods.available
        ),
    );
    if let Some(pace) = &tree.pace {
        field("Pace:", &pace_words(pace));
    }
    out.push('\n');

    let mut rows = vec![Row::new("NAME", "KIND", "STATUS", "AGE", "INFO", Style::new().bold())];
    rows.push(Row::new(format!("{mark} {}", tree.object.name), &*tree.object.kind, phase, "", "", style));
    let last = tree.revisions.len().saturating_sub(1);
    for (at, revision) in tree.revisions.iter().enumerate() {
        revision_rows(revision, at == last, look.pods, &mut rows);
    }
    let widths = [0, 1, 2, 3].map(|at| rows.iter().map(|row| row.cells[at].chars().count()).max().unwrap_or(0));
    for Row { cells, style } in &rows {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths.into_iter().chain([0])) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let line = line.trim_end();
        let cut: String = line.chars().take(look.width.unwrap_or(usize::MAX)).collect();
        let _ = writeln!(out, "{}", paint(look, style.clone(), &cut));
    }
    out
}

struct Row {
    cells: [String; 5],
    style: Style,
}

impl Row {
    fn new(
        name: impl Into<String>,
        kind: impl Into<String>,
        status: impl Into<String>,
        age: impl Into<String>,
        info: impl Into<String>,
        style: Style,
    ) -> Self {
        let cells = [name.into(), kind.into(), status.into(), age.into(), info.into()];
        Self { cells: cells.map(|cell: String| in_line(&cell)), style }
    }
}

fn revision_rows(revision: &Revision, last: bool, most: usize, rows: &mut Vec<Row>) {
    let (branch, stem) = if last { ("└──", "   ") } else { ("├──", "│  ") };
    let plain = Style::new;
    let mut stem = stem.to_owned();
    if let Some(number) = revision.number {
        let images = revision.images.join(", ");
        let style = if revision.newest { plain().bold() } else { plain().dim() };
        rows.push(Row::new(format!("{branch}# revision {number}"), "", "", "", images, style));
        if let Some(set) = &revision.replica_set {
            let info = set_words(set, revision.newest);
            let style = if set.available == set.wanted && set.current == set.wanted { plain() } else { plain().cyan() };
            let name = format!("{stem}└──⧉ {}", set.name);
            rows.push(Row::new(name, "ReplicaSet", "", age(set.age_seconds), info, style));
        }
        stem.push_str("   ");
    } else {
        stem.clear();
    }
    let shown = revision.pods.len().min(most);
    let rest = &revision.pods[shown..];
    for (at, pod) in revision.pods[..shown].iter().enumerate() {
        let end = at + 1 == shown && rest.is_empty();
        rows.push(pod_row(pod, &format!("{stem}{}", if end { "└──" } else { "├──" })));
    }
    if !rest.is_empty() {
        let ready = rest.iter().filter(|pod| pod.ready).count();
        let name = format!("{stem}└──and {} more pods", rest.len());
        rows.push(Row::new(name, "", "", "", format!("{ready} of them ready"), plain().dim()));
    }
}

fn set_words(set: &Set, newest: bool) -> String {
    let Set { wanted, current, ready, available, .. } = set;
    let newest = if newest { "new, " } else { "" };
    format!("{newest}{wanted} wanted, {current} there, {ready} ready, {available} available")
}

fn pod_row(pod: &Pod, branch: &str) -> Row {
    let style = match (&pod.reason, pod.ready, &*pod.status) {
        (_, _, "Terminating") => Style::new().dim(),
        (Some(_), ..) if pod.status == "Failed" => Style::new().red(),
        (Some(reason), ..) if reason.contains("Back") || reason.contains("Err") || reason.contains("unschedulable") => {
            Style::new().red()
        }
        (_, true, _) => Style::new().green(),
        _ => Style::new().yellow(),
    };
    let mut info = Vec::new();
    if pod.ready {
        info.push("ready".to_owned());
    }
    // The whole of it is told once, above the tree.
    info.extend(pod.reason.as_ref().map(|reason| reason.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")));
    if pod.restarts > 0 {
        info.push(format!("{} restarts", pod.restarts));
    }
    info.extend(pod.node.clone());
    let mark = if pod.ready { "■" } else { "□" };
    let name = format!("{branch}{mark} {}", pod.name);
    Row::new(name, "Pod", &*pod.status, age(pod.age_seconds), info.join(", "), style)
}

fn phase(phase: Phase) -> (&'static str, &'static str, Style) {
    match phase {
        Phase::Complete => ("✔", "complete", Style::new().green()),
        Phase::Progressing => ("◌", "progressing", Style::new().cyan()),
        Phase::Paused => ("‖", "paused", Style::new().yellow()),
        Phase::Degraded => ("✖", "degraded", Style::new().red()),
        Phase::Deleting => ("✖", "being deleted", Style::new().red()),
        Phase::Unobserved => ("◌", "not looked at by a controller yet", Style::new().yellow()),
    }
}

fn pace_words(pace: &Pace) -> String {
    let Pace { pods_per_second, remaining, left_seconds } = pace;
    let rate = format!("{pods_per_second} pods/s");
    match *remaining {
        0 => format!("{rate}, none to come"),
        _ if *left_seconds >= 0.0 => format!("{rate}, {remaining} to come in about {}", age(left_seconds.ceil())),
        _ => format!("{rate}, {remaining} to come, which were to be expected {} ago", age(-left_seconds)),
    }
}

/// In the units that kubectl shows ages in.
fn age(seconds: f64) -> String {
    // An age is no longer than the clock runs.
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn paint(look: Look, style: Style, text: &str) -> String {
    if look.colours { style.force_styling(true).apply_to(text).to_string() } else { text.to_owned() }
}
