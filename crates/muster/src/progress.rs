//! What a person sees while workloads come up and are rolled: bars on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::time::Instant;

use crate::apply::Applied;
use crate::workload::Progress;

/// How often a plain line may be printed for one workload: a rollout of thousands is not thousands of lines.
const LINE_EVERY: Duration = Duration::from_millis(500);

/// Shows the progress of workloads.
pub(crate) struct Display {
    kind: Kind,
    /// Since when a workload is on its way to what was last asked of it, and to which revision.
    begun: BTreeMap<String, (String, Instant)>,
}

enum Kind {
    Bars { all: MultiProgress, bars: BTreeMap<String, ProgressBar> },
    Lines(BTreeMap<String, Line>),
}

/// What is printed of one workload.
struct Line {
    /// What was printed last.
    shown: String,
    at: Instant,
    /// What is to be printed once the last line is old enough.
    waiting: Option<String>,
}

impl Display {
    /// Bars where standard error is a terminal, else lines.
    pub(crate) fn new() -> Self {
        let kind = if std::io::stderr().is_terminal() {
            Kind::Bars { all: MultiProgress::new(), bars: BTreeMap::new() }
        } else {
            Kind::Lines(BTreeMap::new())
        };
        Self { kind, begun: BTreeMap::new() }
    }

    /// Shows how far a workload is.
    pub(crate) fn update(&mut self, workload: &Applied, progress: &Progress) {
        let title = workload.title();
        let now = Instant::now();
        let revision = progress.rollout.as_ref().map_or("", |rollout| &*rollout.revision);
        let begun = self.begun.entry(title.clone()).or_insert_with(|| (revision.to_owned(), now));
        if begun.0 != revision {
            // The first revision is known only after a while: it began with the Deployment.
            let since = if begun.0.is_empty() { begun.1 } else { now };
            *begun = (revision.to_owned(), since);
        }
        let took = progress.is_complete().then(|| now - begun.1);
        if progress.is_complete() {
            self.begun.remove(&title);
        }
        let words = words(progress, took);
        match &mut self.kind {
            Kind::Bars { all, bars } => {
                let bar = bars.entry(title.clone()).or_insert_with(|| all.add(bar(&title)));
                bar.set_length(u64::try_from(progress.desired).unwrap_or_default());
                bar.set_position(u64::try_from(position(progress)).unwrap_or_default());
                bar.set_message(words);
            }
            Kind::Lines(lines) => {
                // The ends of a rollout are told at once.
                let pressing = progress.is_complete() || progress.deadline_exceeded().is_some();
                match lines.get_mut(&title) {
                    Some(line) if line.shown == words => line.waiting = None,
                    Some(line) if !pressing && now - line.at < LINE_EVERY => line.waiting = Some(words),
                    _ => {
                        println!("{title}: {words}");
                        lines.insert(title, Line { shown: words, at: now, waiting: None });
                    }
                }
            }
        }
    }

    /// Prints a line without disturbing the bars.
    pub(crate) fn say(&self, line: &str) {
        match &self.kind {
            // A terminal that is gone cannot be told so.
            Kind::Bars { all, .. } => all.suspend(|| println!("{line}")),
            Kind::Lines(_) => println!("{line}"),
        }
    }

    /// Prints each line that waits, once it is time. Never returns.
    pub(crate) async fn catch_up(&mut self) {
        if let Kind::Lines(lines) = &mut self.kind {
            while let Some((title, line)) =
                lines.iter_mut().filter(|(_, line)| line.waiting.is_some()).min_by_key(|(_, line)| line.at)
            {
                tokio::time::sleep_until(line.at + LINE_EVERY).await;
                if let Some(words) = line.waiting.take() {
                    println!("{title}: {words}");
                    (line.shown, line.at) = (words, Instant::now());
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

fn bar(title: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:40!} {bar:30} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style).with_prefix(title.to_owned())
}

/// How far a bar is: of a rollout only pods of the new template count.
fn position(progress: &Progress) -> i64 {
    match &progress.rollout {
        Some(rollout) => rollout.new.as_ref().map_or(0, |set| set.available).min(progress.available),
        None => progress.available,
    }
}

/// `3/5 available, 4 ready, 5 created`; a Deployment's names its ReplicaSets too.
fn words(progress: &Progress, took: Option<Duration>) -> String {
    let Progress { desired, current, ready, available, rollout, .. } = progress;
    let took = took.map(|took| format!(" after {:.1} s", took.as_secs_f64())).unwrap_or_default();
    match rollout {
        Some(rollout) if progress.is_complete() => {
            let set = rollout.new.as_ref().map(|set| format!(" ({})", set.name)).unwrap_or_default();
            format!("{available}/{desired} available, revision {} complete{set}{took}", rollout.revision)
        }
        Some(rollout) => rollout.words(progress),
        None if progress.is_complete() => format!("{available}/{desired} available"),
        None => format!("{available}/{desired} available, {ready} ready, {current} created"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::Rollout;

    #[test]
    fn words_say_what_is_missing() {
        let progress = Progress { desired: 5, current: 5, ready: 4, available: 3, observed: true, rollout: None };
        assert_eq!(words(&progress, None), "3/5 available, 4 ready, 5 created");
        let complete = Progress { ready: 5, available: 5, ..progress };
        assert_eq!(words(&complete, Some(Duration::from_secs(1))), "5/5 available");

        let rollout = Rollout { revision: "2".to_owned(), updated: 5, ..Rollout::default() };
        let rolled = Progress { rollout: Some(rollout), ..complete };
        assert_eq!(words(&rolled, Some(Duration::from_millis(1250))), "5/5 available, revision 2 complete after 1.2 s");
        let unseen = Progress { observed: false, ..rolled };
        assert!(words(&unseen, None).starts_with("revision 2: 5/5 updated, 5 available"));
    }
}
