//! What a person sees while workloads come up: bars on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::apply::Applied;
use crate::workload::Progress;

/// How often a plain line may be printed for one workload: a rollout of thousands is not thousands of lines.
const LINE_EVERY: Duration = Duration::from_millis(500);

/// Shows the progress of workloads.
pub(crate) struct Display {
    kind: Kind,
}

enum Kind {
    Bars { all: MultiProgress, bars: BTreeMap<String, ProgressBar> },
    Lines { last: BTreeMap<String, (Progress, tokio::time::Instant)> },
}

impl Display {
    /// Bars where standard error is a terminal, else lines.
    pub(crate) fn new() -> Self {
        let kind = if std::io::stderr().is_terminal() {
            Kind::Bars { all: MultiProgress::new(), bars: BTreeMap::new() }
        } else {
            Kind::Lines { last: BTreeMap::new() }
        };
        Self { kind }
    }

    /// Shows how far a workload is.
    pub(crate) fn update(&mut self, workload: &Applied, progress: Progress) {
        let title = workload.title();
        match &mut self.kind {
            Kind::Bars { all, bars } => {
                let bar = bars.entry(title.clone()).or_insert_with(|| all.add(bar(&title)));
                bar.set_length(u64::try_from(progress.desired).unwrap_or_default());
                bar.set_position(u64::try_from(progress.available).unwrap_or_default());
                bar.set_message(words(progress));
            }
            Kind::Lines { last } => {
                let now = tokio::time::Instant::now();
                if let Some((shown, at)) = last.get(&title)
                    && (*shown == progress || (!progress.is_complete() && now - *at < LINE_EVERY))
                {
                    return;
                }
                println!("{title}: {}", words(progress));
                last.insert(title, (progress, now));
            }
        }
    }

    /// Prints a line without disturbing the bars.
    pub(crate) fn say(&self, line: &str) {
        match &self.kind {
            // A terminal that is gone cannot be told so.
            Kind::Bars { all, .. } => all.suspend(|| println!("{line}")),
            Kind::Lines { .. } => println!("{line}"),
        }
    }
}

fn bar(title: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix:40!} {bar:30} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style).with_prefix(title.to_owned())
}

/// `3/5 available, 4 ready, 5 created`.
fn words(progress: Progress) -> String {
    let Progress { desired, current, ready, available, .. } = progress;
    if progress.is_complete() {
        format!("{available}/{desired} available")
    } else {
        format!("{available}/{desired} available, {ready} ready, {current} created")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_missing() {
        let progress = Progress { desired: 5, current: 5, ready: 4, available: 3, observed: true };
        assert_eq!(words(progress), "3/5 available, 4 ready, 5 created");
        let complete = Progress { desired: 5, current: 5, ready: 5, available: 5, observed: true };
        assert_eq!(words(complete), "5/5 available");
    }
}
