//! What is shown while workloads come up and are rolled: to a person bars on a terminal and plain lines elsewhere, to a
//! program a JSON object a line.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Result, anyhow};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use muster_cluster::embedded::known_controllers;
use muster_manager::arguments::{Output, in_line};
use muster_manager::program;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apply::Applied;
use crate::follow::Follow;
use crate::workload::Progress;

/// How often a plain line may be printed for one workload: a rollout of thousands is not thousands of lines.
const LINE_EVERY: Duration = Duration::from_millis(500);

/// Shows the progress of workloads.
pub(crate) struct Display {
    kind: Kind,
    /// Since when a workload is on its way to what was last asked of it, and to which revision.
    begun: BTreeMap<String, (String, Instant)>,
    serving: Option<Serving>,
    out: Out,
}

enum Kind {
    Bars {
        all: MultiProgress,
        bars: BTreeMap<String, ProgressBar>,
    },
    Lines(BTreeMap<String, Line>),
    /// What was told last of each workload.
    Json(BTreeMap<String, &'static str>),
}

/// A cluster that can be reached.
#[derive(Debug, Serialize)]
pub(crate) struct Serving {
    /// The path of the file.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) url: String,
    /// PEM of the certificate to trust.
    pub(crate) ca: String,
    /// The bearer token of its administrator.
    pub(crate) token: String,
    pub(crate) pid: u32,
    pub(crate) version: &'static str,
    pub(crate) nodes: u32,
    pub(crate) controllers: Vec<&'static str>,
    /// Whether it ends once its workloads are available, and counts as ready only then.
    #[serde(skip)]
    pub(crate) until_ready: bool,
}

/// Why a cluster ends with which nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was asked to.
    Signal,
    /// The process that started it has ended.
    ParentGone,
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
    /// For a person bars where standard error is a terminal, else lines.
    pub(crate) fn new(output: Output) -> Self {
        let kind = match output {
            Output::Json => Kind::Json(BTreeMap::new()),
            Output::Text if io::stderr().is_terminal() => {
                Kind::Bars { all: MultiProgress::new(), bars: BTreeMap::new() }
            }
            Output::Text => Kind::Lines(BTreeMap::new()),
        };
        Self { kind, begun: BTreeMap::new(), serving: None, out: Out::default() }
    }

    /// The cluster can be reached.
    pub(crate) fn serving(&mut self, serving: Serving) {
        match &self.kind {
            Kind::Json(_) if serving.until_ready => {}
            Kind::Json(_) => self.out.print("ready", &json!(serving)),
            _ => self.say(&serving.greeting()),
        }
        self.serving = Some(serving);
    }

    /// The names of the controllers of the cluster that can be reached.
    pub(crate) fn controllers(&self) -> &[&'static str] {
        self.serving.as_ref().map_or(&[], |serving| &serving.controllers)
    }

    /// Tells a link that opens the page, once.
    pub(crate) fn page(&self, link: &str) {
        match &self.kind {
            Kind::Json(_) => self.out.print("page", &json!({"link": link})),
            _ => self.say(&format!("page: {link}")),
        }
    }

    /// An object was taken by the server.
    pub(crate) fn applied(&self, object: &Applied) {
        match &self.kind {
            Kind::Json(_) => self.out.print("applied", &json!(object)),
            _ => self.say(&format!("applied: {}", object.title())),
        }
    }

    /// All that was applied is available.
    pub(crate) fn complete(&self, follow: &Follow, took: Duration) {
        let seconds = took.as_secs_f64();
        match (&self.kind, &self.serving) {
            (Kind::Json(_), Some(serving)) => {
                let workloads: Vec<Value> =
                    follow.all().map(|(workload, progress)| with(&json!(workload), progress.json())).collect();
                let came_to = json!({"workloads": workloads, "seconds": seconds});
                match serving.until_ready {
                    true => self.out.print("ready", &with(&json!(serving), came_to)),
                    false if workloads.is_empty() => {}
                    false => self.out.print("complete", &came_to),
                }
            }
            _ => match follow.all().count() {
                0 => {}
                1 => self.say(&format!("ready: 1 workload available after {seconds:.1} s")),
                many => self.say(&format!("ready: {many} workloads available after {seconds:.1} s")),
            },
        }
    }

    /// A workload stands still.
    pub(crate) fn waiting(&self, workload: &Applied, reason: &str) {
        match &self.kind {
            Kind::Json(_) => self.out.print("waiting", &with(&json!(workload), json!({"reason": reason}))),
            _ => self.say(&format!("{}: waiting: {}", workload.title(), in_line(reason))),
        }
    }

    /// The cluster ends. A person knows why.
    pub(crate) fn ending(&self, ending: Ending) {
        if let Kind::Json(_) = self.kind {
            let reason = match ending {
                Ending::Signal => "signal",
                Ending::ParentGone => "the parent process is gone",
            };
            self.out.print("stopping", &json!({"reason": reason}));
        }
    }

    /// The program fails. A person reads why on standard error.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        if let Kind::Json(_) = self.kind {
            self.out.print("error", &json!({"message": program::words(error)}));
        }
    }

    /// Whether all was written that was told.
    ///
    /// # Errors
    /// Where it was not: what waits for a line would wait for ever.
    pub(crate) fn written(&self) -> Result<()> {
        self.out.failed.get().map_or(Ok(()), |error| Err(anyhow!("standard output: {error}")))
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
                    Some(last) if last.shown == words => last.waiting = None,
                    Some(last) if !pressing && now - last.at < LINE_EVERY => last.waiting = Some(words),
                    _ => {
                        self.out.line(&format!("{title}: {words}"));
                        lines.insert(title, Line { shown: words, at: now, waiting: None });
                    }
                }
            }
            Kind::Json(told) => {
                let (event, more) = match progress.deadline_exceeded() {
                    _ if took.is_some() => ("available", json!({"seconds": took.map(|took| took.as_secs_f64())})),
                    Some(message) => ("deadline-exceeded", json!({"message": message})),
                    None => ("", Value::Null),
                };
                if told.insert(title, event) != Some(event) && !event.is_empty() {
                    self.out.print(event, &with(&with(&json!(workload), progress.json()), more));
                }
            }
        }
    }

    /// Prints text without disturbing the bars.
    fn say(&self, text: &str) {
        match &self.kind {
            Kind::Bars { all, .. } => all.suspend(|| self.out.line(text)),
            Kind::Lines(_) | Kind::Json(_) => self.out.line(text),
        }
    }

    /// Prints each line that waits, once it is time. Never returns.
    pub(crate) async fn catch_up(&mut self) {
        if let Kind::Lines(lines) = &mut self.kind {
            while let Some((title, last)) =
                lines.iter_mut().filter(|(_, last)| last.waiting.is_some()).min_by_key(|(_, last)| last.at)
            {
                tokio::time::sleep_until(last.at + LINE_EVERY).await;
                if let Some(words) = last.waiting.take() {
                    self.out.line(&format!("{title}: {words}"));
                    (last.shown, last.at) = (words, Instant::now());
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

impl Serving {
    /// What a person is told of it.
    fn greeting(&self) -> String {
        let Self { kubeconfig, url, version, .. } = self;
        let running = match self.controllers.len() {
            0 => "no controllers".to_owned(),
            all if all == known_controllers().len() => "all controllers".to_owned(),
            _ => self.controllers.join(", "),
        };
        let nodes = if self.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", self.nodes) };
        let kubeconfig = kubeconfig.display();
        let mut greeting =
            format!("muster {version}: a Kubernetes cluster on {url}: {nodes}, {running}\nkubeconfig: {kubeconfig}");
        if !self.until_ready {
            greeting += &format!("\ntry: kubectl --kubeconfig {kubeconfig} get nodes    (Ctrl-C ends the cluster)");
        }
        greeting
    }
}

/// Standard output.
#[derive(Default)]
struct Out {
    /// Why a line could not be written.
    failed: OnceLock<io::Error>,
}

impl Out {
    /// Prints a line. Who has closed the other end does not want it.
    fn line(&self, text: &str) {
        match writeln!(io::stdout(), "{text}") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => drop(self.failed.set(error)),
            _ => {}
        }
    }

    /// Prints what happened, as one line.
    fn print(&self, event: &str, what: &Value) {
        self.line(&with(&json!({"event": event}), what.clone()).to_string());
    }
}

/// An object with the members of another one after its own.
fn with(object: &Value, more: Value) -> Value {
    let mut object = object.clone();
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn bar(title: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:28!} {bar:10} {wide_msg}")
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

/// `3/5 available, 4 ready, 5 created`; a Deployment's names its ReplicaSets too. A server's words may be among them.
fn words(progress: &Progress, took: Option<Duration>) -> String {
    let Progress { desired, current, ready, available, rollout, .. } = progress;
    let took = took.map(|took| format!(" after {:.1} s", took.as_secs_f64())).unwrap_or_default();
    let words = match rollout {
        Some(rollout) if progress.is_complete() => {
            let set = rollout.new.as_ref().map(|set| format!(" ({})", set.name)).unwrap_or_default();
            format!("{available}/{desired} available, revision {} complete{set}{took}", rollout.revision)
        }
        Some(rollout) => rollout.words(progress),
        None if progress.is_complete() => format!("{available}/{desired} available"),
        None => format!("{available}/{desired} available, {ready} ready, {current} created"),
    };
    in_line(&words)
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
        let reason = "\u{1b}]0;x\u{7}\nforged".to_owned();
        let rollout = Rollout { reason, ..Rollout::default() };
        let told = words(&Progress { available: 3, rollout: Some(rollout), ..unseen }, None);
        assert!(told.contains("(\\u{1b}]0;x\\u{7} forged)") && !told.contains(char::is_control), "{told}");
    }
}
